"""Script 09's figures: α of every draft with its error, and two forms against the stopwatch."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra plot")
from figures import assert_readable, line_of, points_of
from matplotlib.text import Annotation

from lab import plots_realtext
from lab.plots import GREY, INK
from lab.realclock import ClockCell
from lab.realtext import DRAFTS, KINDS, LOOKUP
from lab.stats import ClusteredMean

RNG = np.random.default_rng(0)
PLACES = [(kind, temperature) for temperature in (1.0, 0.0) for kind in KINDS]
ALPHAS = {
    place: {name: ClusteredMean(*RNG.uniform((0.1, 0.01), (0.9, 0.1)), 8) for name in DRAFTS}
    for place in PLACES
}


def cell(kind, temperature, name):
    """Predicted within a tenth or so by all costs, and too high by the paper's form."""
    speed = RNG.uniform(0.6, 2)
    found = None if name == LOOKUP else 0.7
    paper = None if name == LOOKUP else speed * RNG.uniform(1.1, 1.6)
    full, luck = speed * RNG.uniform(0.9, 1.1), RNG.uniform(0.8, 1.2)
    return ClockCell(
        kind, name, temperature, 2, found, 0.1, 2.0, paper, full, 2 * luck, speed * luck
    )


CELLS = [cell(*place, name) for place in PLACES for name in DRAFTS]


def two_cells(apart):
    """The second is `apart` times as fast as the first."""
    one = replace(CELLS[0], draft="4-gram", paper=1.9, full=1.5, clock=1.5, timed_tokens=2.0)
    speeds = {name: apart * getattr(one, name) for name in ("paper", "full", "clock")}
    return one, replace(one, kind=KINDS[1], **speeds)


FIGURES = {
    "alpha": lambda: plots_realtext.alpha(ALPHAS),
    "alpha of one text": lambda: plots_realtext.alpha(
        {place: own for place, own in ALPHAS.items() if place[0] == "python"}
    ),
    "clock": lambda: plots_realtext.clock(CELLS),
    "clock of one text": lambda: plots_realtext.clock([c for c in CELLS if c.kind == "python"]),
    "clock of two cells": lambda: plots_realtext.clock(two_cells(0.7)),
}


@cache
def figure_of(name):
    return FIGURES[name]()


def names_on(axes):
    return {text.get_text(): text.xy for text in axes.texts if isinstance(text, Annotation)}


def test_alpha_has_a_panel_for_each_text_and_a_row_for_each_draft():
    figure = figure_of("alpha")
    assert [axes.get_title() for axes in figure.axes] == list(KINDS)
    for axes, kind in zip(figure.axes, KINDS, strict=True):
        bottom, top = axes.get_ylim()
        assert top < 0 < len(DRAFTS) - 1 < bottom  # the first on top
        drawn = points_of(axes, along=0)
        assert list(drawn) == ["T 0", "T 1"]
        for temperature, points in zip((0.0, 1.0), drawn.values(), strict=True):
            own = ALPHAS[kind, temperature].values()
            for row, ((x, y, down, up), one) in enumerate(zip(points, own, strict=True)):
                assert round(y) == row
                assert (x, down, up) == pytest.approx((one.mean, one.stderr, one.stderr))
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == list(DRAFTS)


def test_temperatures_differ_in_fill():
    for axes in figure_of("alpha").axes:
        fills = [bars.lines[0].get_markerfacecolor() for bars in axes.containers]
        assert fills == ["white", INK]


def test_every_cell_of_the_clock_is_drawn_once_by_each_form_in_the_shape_of_its_family():
    figure = figure_of("clock")
    assert [axes.get_title() for axes in figure.axes] == ["T 1", "T 0"]
    families = plots_realtext.FAMILIES
    assert sorted(name for names in families.values() for name in names) == sorted(DRAFTS)
    for axes, temperature in zip(figure.axes, (1.0, 0.0), strict=True):
        shapes = set()
        marks = [bars.lines[0] for bars in axes.containers]
        full = [mark for mark in marks if mark.get_markerfacecolor() == INK]
        paper = [mark for mark in marks if mark.get_markerfacecolor() == "white"]
        assert {mark.get_color() for mark in paper} == {GREY}
        assert len(full) + len(paper) == len(marks)
        for by_costs, names in zip(full, families.values(), strict=True):
            own = [c for c in CELLS if c.temperature == temperature and c.draft in names]
            assert by_costs.get_xydata().tolist() == [[c.without_luck, c.full] for c in own]
            shapes.add(by_costs.get_marker())
            drawn = [
                point
                for mark in paper
                if mark.get_marker() == by_costs.get_marker()
                for point in mark.get_xydata().tolist()
            ]
            assert drawn == [[c.without_luck, c.paper] for c in own if c.paper is not None]
        assert len(shapes) == len(families)


def test_the_line_of_equality_is_at_45_degrees_on_log_axes():
    for axes in figure_of("clock").axes:
        assert axes.get_xscale() == axes.get_yscale() == "log"
        assert axes.get_xlim() == axes.get_ylim()
        assert axes.get_aspect() == 1
        equal = line_of(axes, "equal")
        assert list(equal) == list(equal.values()) == pytest.approx(axes.get_xlim())


def test_names_are_those_of_their_points():
    found = 0
    for axes, temperature in zip(figure_of("clock").axes, (1.0, 0.0), strict=True):
        places = {
            f"{c.draft}, {c.kind}": (c.without_luck, c.full)
            for c in CELLS
            if c.temperature == temperature
        }
        for name, place in names_on(axes).items():
            assert place == places[name]
            found += 1
    assert found > 2


def test_a_point_is_named_only_where_no_other_is_near():
    (axes,) = figure_of("clock of two cells").axes
    assert set(names_on(axes)) == {f"4-gram, {KINDS[0]}", f"4-gram, {KINDS[1]}"}
    (axes,) = plots_realtext.clock(two_cells(0.99)).axes
    assert not names_on(axes)


def test_a_name_is_nearer_to_its_point_than_to_others_and_off_the_line_of_equality():
    figure = figure_of("clock")
    figure.draw_without_rendering()
    for axes in figure.axes:
        points = np.concatenate([bars.lines[0].get_xydata() for bars in axes.containers])
        pixels = axes.transData.transform(points)
        for name in axes.texts:
            box = name.get_window_extent()
            apart = np.maximum(np.maximum(box.min - pixels, pixels - box.max), 0)  # (points, 2)
            nearest = np.argmin(np.hypot(*apart.T))
            assert points[nearest] == pytest.approx(name.xy)
            assert apart[nearest].max() > 0  # beside it
            x, y = axes.transData.inverted().transform((box.x0, box.y1))
            assert y < x  # upper left corner


@pytest.mark.parametrize("name", FIGURES)
def test_every_panel_is_readable(name, monkeypatch):
    figure = figure_of(name)
    assert_readable(figure, monkeypatch)
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert len(labels) == len(set(labels)) == (2 if "alpha" in name else 5)
