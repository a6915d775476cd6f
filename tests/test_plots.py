"""The paper's figures: lines are the formulas, points stand where they were measured, no text
covers another. Drawn from made-up measurements."""

import importlib
import sys
from itertools import combinations

import numpy as np
import pytest

from lab import theory
from lab.estimate import Estimate
from lab.paper import FIGURE_2, FIGURE_3, FIGURE_4
from lab.paper_measured import COSTS, GAMMAS, BestGamma, Measured, Point

pytest.importorskip("matplotlib", reason="figures need the extra plot")
from lab import plots

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
def test_every_figure_names_its_axes_and_no_text_covers_another(name):
    figure = FIGURES[name]()
    (axes,) = figure.axes
    assert axes.get_xlabel() == "α: mean Σ min(p, q)"
    assert axes.get_ylabel()
    assert axes.get_title()
    figure.draw_without_rendering()
    texts = [*axes.texts, *axes.get_legend().get_texts(), axes.get_legend().get_title(), axes.title]
    texts += [axes.xaxis.label, axes.yaxis.label]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]
    for (one, box), (other, beside) in combinations(boxes, 2):
        assert not box.overlaps(beside), f"{one!r} covers {other!r}"
    for one, box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, f"{one!r} is cut off"
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, f"{one!r} is cut off"


def test_lines_and_points_differ_without_colour():
    (axes,) = plots.figure_3(BEST).axes
    steps = [line for line in axes.lines if len(line.get_xydata()) > 100]
    assert len({line.get_linestyle() for line in steps}) == len(COSTS)
    markers = {bars.lines[0].get_marker() for bars in axes.containers}
    assert len(markers) == len(COSTS)
    (axes,) = plots.figure_2(POINTS).axes
    assert len({bars.lines[0].get_marker() for bars in axes.containers}) == len(axes.containers)


def test_three_files_are_written_into_a_folder_that_is_made(tmp_path):
    paths = plots.paper_figures(tmp_path / "new" / "figures", Measured(POINTS, BEST))
    assert [path.name for path in paths] == ["figure_2.png", "figure_3.png", "figure_4.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    again = plots.paper_figures(tmp_path, Measured(POINTS, BEST))
    assert [p.read_bytes() for p in again] == [p.read_bytes() for p in paths]


def test_without_matplotlib_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.delitem(sys.modules, "lab.plots")
    with pytest.raises(ImportError, match=r'pip install "specdec-lab\[plot\]"'):
        importlib.import_module("lab.plots")
