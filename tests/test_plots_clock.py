"""Script 11's figures: lines are the formulas, points the stopwatch with its quartiles."""

import pytest

pytest.importorskip("matplotlib", reason="figures need the extra plot")
from figures import assert_readable, line_of, points_of

from lab import plots_clock, theory
from lab.bench import Ratio
from lab.plots import GREY
from lab.wallclock import Parts, PlantedCell

ACCEPTANCES, COSTS, GAMMAS = (0.6, 0.8, 0.9, 0.95), (0.0, 0.05, 0.2), (1, 2, 4, 8)
PASSES = {1: 1.0, 2: 1.05, 3: 1.1, 5: 1.4, 9: 1.9}
PARTS = Parts(
    target=PASSES,
    ratios=PASSES,
    quartiles={n: (0.97 * of, 1.06 * of) for n, of in PASSES.items()},
    sample=dict.fromkeys(PASSES, 0.01),
    per_round=dict.fromkeys((0, *GAMMAS), 0.02),
)


def cell(acceptance, cost, gamma):
    tokens = float(theory.expected_tokens(acceptance, gamma))
    full = PARTS.costs(cost).speedup(tokens, gamma)
    clock = Ratio(0.96 * full, 0.93 * full, 1.01 * full, (1.0, 1.0))
    paper = float(theory.walltime_speedup(acceptance, gamma, cost))
    return PlantedCell(acceptance, cost, gamma, tokens, paper, paper, full, clock)


CELLS = [cell(a, c, gamma) for c in COSTS for a in ACCEPTANCES for gamma in GAMMAS]
FIGURES = {
    "wall clock": lambda: plots_clock.wall_clock(CELLS),
    "few cells": lambda: plots_clock.wall_clock(
        [c for c in CELLS if c.cost != 0.05 and c.acceptance in (0.6, 0.95) and c.gamma in (1, 4)]
    ),
    "rows": lambda: plots_clock.rows(PARTS),
}


def test_a_panel_for_each_cost_and_points_for_each_acceptance():
    figure = FIGURES["wall clock"]()
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["c = 0: a free draft", "c = 5%", "c = 20%"]
    for axes, cost in zip(figure.axes, COSTS, strict=True):
        drawn = points_of(axes)
        assert list(drawn) == [f"α = {acceptance:g}" for acceptance in ACCEPTANCES]
        for acceptance, points in zip(ACCEPTANCES, drawn.values(), strict=True):
            own = [c for c in CELLS if (c.acceptance, c.cost) == (acceptance, cost)]
            for (x, *y), one in zip(points, own, strict=True):
                assert x == pytest.approx(one.gamma, rel=0.06)
                ratio, low, high = one.clock.ratio, one.clock.low, one.clock.high
                assert y == pytest.approx([ratio, ratio - low, high - ratio])


def test_theorem_3_8_is_dashed_and_all_costs_are_solid():
    for axes, cost in zip(FIGURES["wall clock"]().axes, COSTS, strict=True):
        dashed, solid = (
            [line.get_xydata() for line in axes.lines if line.get_linestyle() == style]
            for style in ("--", "-")
        )
        dashed = [xy for xy in dashed if len(xy) > 2]
        solid = [xy for xy in solid if len(xy) > 2]
        assert len(dashed) == len(solid) == len(ACCEPTANCES)
        for acceptance, by_paper, by_parts in zip(ACCEPTANCES, dashed, solid, strict=True):
            assert by_paper[:, 0].tolist() == list(range(1, 9))
            for gamma, speed in by_paper:
                assert speed == pytest.approx(theory.walltime_speedup(acceptance, gamma, cost))
            own = [c for c in CELLS if (c.acceptance, c.cost) == (acceptance, cost)]
            assert by_parts.tolist() == [[c.gamma, c.full] for c in own]


def test_the_ends_of_theorem_3_8_have_the_shapes_of_their_acceptances():
    for axes in FIGURES["wall clock"]().axes:
        shapes = [bars.lines[0].get_marker() for bars in axes.containers]
        assert len(set(shapes)) == len(ACCEPTANCES)
        ends = [line for line in axes.lines if len(line.get_xdata()) == 1]
        assert [line.get_marker() for line in ends] == shapes
        assert {line.get_color() for line in ends} == {GREY}
        speeds = [line.get_ydata()[0] for line in ends]
        assert speeds == sorted(speeds)


def test_passes_over_rows_beside_the_one_of_the_theorem():
    (axes,) = FIGURES["rows"]().axes
    assert set(line_of(axes, "Theorem 3.8: 1").values()) == {1}
    (points,) = points_of(axes).values()
    assert [(x, y) for x, y, _, _ in points] == list(PASSES.items())
    for (_, y, down, up), (low, high) in zip(points, PARTS.quartiles.values(), strict=True):
        assert (y - down, y + up) == pytest.approx((low, high))
    assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize("name", FIGURES)
def test_every_panel_is_readable(name, monkeypatch):
    assert_readable(FIGURES[name](), monkeypatch)
