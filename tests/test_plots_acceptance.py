"""Script 10's figures: lines are the formulas, points the cells with their errors."""

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra plot")
from figures import assert_readable, line_of, points_of

from lab import plots_acceptance
from lab.acceptance import Along
from lab.ordering import left_by_states, order_cell
from lab.positions import positions_of
from lab.replay import rounds_along

GAMMAS = (2, 4, 8)
KINDS = ("shakespeare", "python", "unicode")


def along(kind, seed):
    """Acceptance .95 and .5 in stretches of ten; the loop behind other such texts."""
    rng = np.random.default_rng(seed)
    texts = [np.repeat(rng.choice([0.5, 0.95], 8), 10) for _ in range(6)]
    loops = {gamma: rounds_along(texts[::-1], gamma) + 0.5 for gamma in GAMMAS}
    return Along(kind, tuple(texts), tuple(texts), loops)


@pytest.fixture(scope="module")
def texts():
    return [along(kind, seed) for seed, kind in enumerate(KINDS)]


@pytest.fixture(scope="module")
def cells(texts):
    return [
        order_cell(one, gamma, 3, np.random.default_rng(0)) for one in texts for gamma in GAMMAS
    ]


@pytest.fixture(scope="module")
def order(texts, cells):
    lines = {
        one.kind: [left_by_states(one.accept[1::2], gamma) - 1 for gamma in range(1, 9)]
        for one in texts
    }
    return plots_acceptance.order(cells, lines)


@pytest.fixture(scope="module")
def found(texts):
    return [positions_of(one, 8) for one in texts]


@pytest.fixture(scope="module")
def position(found):
    return plots_acceptance.position(found)


def test_the_line_of_the_order_passes_through_the_cells_formula(order, cells):
    for axes, kind in zip(order.axes, KINDS, strict=True):
        assert axes.get_title() == kind
        line = line_of(axes, "hidden states")
        assert list(line) == list(range(1, 9))
        for cell in cells:
            if cell.kind == kind:
                assert line[cell.gamma] == pytest.approx(cell.formula / cell.eq1 - 1)
        assert set(line_of(axes, "equation (1)").values()) == {0}


def test_points_of_the_order_are_the_cells_with_their_errors(order, cells):
    names = {"replay": "replay_gap", "shuffled": "over_gap", "real loop": "loop_eq1_gap"}
    for axes, kind in zip(order.axes, KINDS, strict=True):
        drawn = points_of(axes)
        assert set(drawn) == set(names)
        for label, name in names.items():
            own = [cell for cell in cells if cell.kind == kind]
            for (x, y, down, up), cell in zip(drawn[label], own, strict=True):
                gap = getattr(cell, name)
                assert round(x) == cell.gamma
                assert (y, down, up) == pytest.approx((gap.mean, gap.stderr, gap.stderr))


def test_acceptance_by_position_is_that_of_the_rounds(position, found):
    for axes, one in zip(position.axes, found, strict=True):
        assert axes.get_title() == one.kind
        assert set(line_of(axes, "equation (1)").values()) == {one.alpha}
        line = line_of(axes, "hidden states")
        assert list(line) == list(range(1, 9))
        assert list(line.values()) == one.hidden.tolist()
        drawn = points_of(axes)
        assert set(drawn) == {"replay", "real loop"}
        for label, rates in (("replay", one.replay), ("real loop", one.loop)):
            for i, ((x, y, down, up), rate) in enumerate(zip(drawn[label], rates, strict=True), 1):
                assert round(x) == i
                assert (y, down, up) == pytest.approx((rate.mean, rate.stderr, rate.stderr))


@pytest.mark.parametrize("name", ["order", "position"])
def test_every_panel_is_readable_and_its_points_differ_in_shape(name, request, monkeypatch):
    figure = request.getfixturevalue(name)
    assert_readable(figure, monkeypatch)
    (legend,) = figure.legends
    for axes in figure.axes:
        markers = {bars.lines[0].get_marker() for bars in axes.containers}
        styles = {str(line.get_linestyle()) for line in axes.lines if line.get_marker() == "None"}
        assert len(markers) == len(axes.containers)
        assert len(styles - {"None"}) == 2
        assert len(legend.get_texts()) == len(axes.containers) + 2
