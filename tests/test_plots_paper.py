"""The paper's figures: lines are the formulas, points stand where they were measured, no text
covers another. Drawn from made-up measurements."""

import numpy as np
import pytest

from lab import theory
from lab.estimate import Estimate
from lab.paper import FIGURE_2, FIGURE_3, FIGURE_4
from lab.paper_measured import COSTS, GAMMAS, BestGamma, Measured, Point

pytest.importorskip("matplotlib", reason="figures need the extra plot")
from figures import assert_readable

from lab import plots_paper as plots

ALPHAS = {"INT4": 0.945, "3 layers": 0.59, "1 layer": 0.33, "trained": 0.72, "4-gram": 0.73}


def estimate(value, stderr=0.01):
    return Estimate("it", value, stderr, value - 0.02, value + 0.02, 100)


POINTS = tuple(
    Point(draft, gamma, estimate(alpha), estimate(1.01 * theory.expected_tokens(alpha, gamma), 0.1))
    for draft, alpha in ALPHAS.items()
    for gamma in GAMMAS
)
BEST = tuple(
    BestGamma(draft, c, estimate(alpha), 10, 7, 16)
    for draft, alpha in ALPHAS.items()
    if 0.5 < alpha < 0.9
    for c in COSTS
)
FIGURES = {
    "2": lambda: plots.figure_2(POINTS),
    "3": lambda: plots.figure_3(BEST),
    "4": lambda: plots.figure_4(POINTS),
}


def lines(figure):
    """x -> y of every line that is a curve."""
    (axes,) = figure.axes
    found = [line.get_xydata() for line in axes.lines]
    return [dict(np.round(xy, 9)) for xy in found if len(xy) > 100]


def at(curve, alpha):
    near = min(curve, key=lambda x: abs(x - alpha))
    assert abs(near - alpha) < 1e-9
    return curve[near]


def test_figure_2_passes_through_the_papers_points():
    curves = lines(plots.figure_2())
    assert len(curves) == 6  # no draft, four gammas, infinity
    for cell in FIGURE_2:
        if cell.inputs["alpha"] == 0.5:
            assert any(cell.agrees(at(curve, 0.5)) for curve in curves)
    assert any(at(curve, 0.9) == pytest.approx(10) for curve in curves)  # 1 / (1 - .9)


def test_figure_3_steps_where_the_paper_does():
    curves = lines(plots.figure_3())
    assert len(curves) == len(COSTS)
    for cell in FIGURE_3:
        curve = curves[COSTS.index(cell.inputs["c"])]
        assert at(curve, cell.value) == cell.inputs["gamma"]
        assert at(curve, cell.value - 0.001) == cell.inputs["gamma"] - 1


def test_figure_4_passes_through_the_papers_points():
    curves = lines(plots.figure_4())
    assert len(curves) == 2 * len(GAMMAS)
    for cell in FIGURE_4:
        if cell.inputs["alpha"] == 0.5:
            assert any(cell.agrees(at(curve, 0.5)) for curve in curves)


def test_points_stand_where_they_were_measured_and_off_the_axis_none():
    (axes,) = plots.figure_2(POINTS).axes
    drawn = {bars.get_label(): bars.lines[0].get_xydata() for bars in axes.containers}
    assert set(drawn) == set(ALPHAS) - {"1 layer"}
    shown = [p for p in POINTS if p.draft == "trained" and p.gamma != 10]
    assert drawn["trained"].tolist() == [[0.72, point.tokens.value] for point in shown]
    (axes,) = plots.figure_4(POINTS).axes
    assert len(axes.containers) == 2 * len(drawn)  # speed and operations
    (axes,) = plots.figure_3(BEST).axes
    assert [len(bars.lines[0].get_xydata()) for bars in axes.containers] == [3] * len(COSTS)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_names_its_axes_and_no_text_covers_another(name, monkeypatch):
    figure = FIGURES[name]()
    (axes,) = figure.axes
    assert axes.get_xlabel() == "α: mean Σ min(p, q)"
    assert_readable(figure, monkeypatch)


def test_lines_and_points_differ_without_colour():
    (axes,) = plots.figure_3(BEST).axes
    steps = [line for line in axes.lines if len(line.get_xydata()) > 100]
    assert len({line.get_linestyle() for line in steps}) == len(COSTS)
    markers = {bars.lines[0].get_marker() for bars in axes.containers}
    assert len(markers) == len(COSTS)
    (axes,) = plots.figure_2(POINTS).axes
    assert len({bars.lines[0].get_marker() for bars in axes.containers}) == len(axes.containers)


def test_the_figures_by_the_names_of_their_files():
    figures = plots.paper_figures(Measured(POINTS, BEST))
    assert list(figures) == ["figure_2", "figure_3", "figure_4"]
