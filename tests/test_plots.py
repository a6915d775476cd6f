"""Figures as files, panels with their names, and what is said where matplotlib is missing."""

import argparse
import importlib
import sys

import pytest

from lab.options import PLOTS

pytest.importorskip("matplotlib", reason="figures need the extra plot")
from figures import assert_no_text_covers_another, texts_of

from lab import plots
from lab.console import Report


def small():
    figure, axes = plots.one_panel("a title", "x (units)", "y (units)", height=1.5)
    figure.set_figwidth(2)
    axes.plot([0, 1], [0, 1], label="line")
    return figure


def test_files_are_written_into_a_folder_that_is_made_with_the_same_bytes_each_time(
    tmp_path, capsys
):
    folder = tmp_path / "new" / "figures"
    plots.draw(Report("figures"), folder, {"one": small()})
    path = folder / "one.png"
    assert list(folder.iterdir()) == [path]
    assert path.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.splitlines()[-1] == f"Drawn: {path}"
    (again,) = plots.save(tmp_path, {"again": small()})
    assert again.read_bytes() == path.read_bytes()


def test_panels_share_their_axes_and_one_legend(monkeypatch):
    figure, row = plots.panels("a title", ["left", "right"], "x (units)", "y (units)")
    for axes in row:
        axes.plot([0, 1], [0, 1], label="line")
    row[1].set_ylim(0, 5)
    plots.legend_below(figure, 1)
    assert row[0].get_ylim() == (0, 5)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["line"]
    texts = texts_of(figure, monkeypatch)
    words = [text.get_text() for text in texts]
    assert words.count("x (units)") == 2
    assert words.count("y (units)") == words.count("a title") == words.count("line") == 1
    assert_no_text_covers_another(figure, texts)


def test_text_on_text_and_text_that_is_cut_off_are_seen(monkeypatch):
    figure = plots.Figure()
    for y in (0.5, 0.51):
        figure.text(0.5, y, "words")
    with pytest.raises(AssertionError, match="'words' covers 'words'"):
        assert_no_text_covers_another(figure, texts_of(figure, monkeypatch))
    figure = plots.Figure()
    figure.text(0.99, 0.5, "words")
    with pytest.raises(AssertionError, match="'words' is cut off"):
        assert_no_text_covers_another(figure, texts_of(figure, monkeypatch))


def test_without_matplotlib_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.delitem(sys.modules, "lab.plots")
    with pytest.raises(ImportError, match=r'pip install "specdec-lab\[plot\]"'):
        importlib.import_module("lab.plots")
    with pytest.raises(argparse.ArgumentTypeError, match=r"specdec-lab\[plot\]"):
        PLOTS["type"]("figures")
