"""The picture of min(p, q): its heights are the laws', and nothing covers anything."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra plot")
from figures import assert_no_text_covers_another, texts_of

from lab import plots, plots_overlap
from lab.readings import FIX_A

LECTURES = Path(__file__).parents[1] / "lectures"
P, Q = FIX_A


def test_the_filled_part_is_the_minimum_and_the_hatched_part_the_residual():
    (axes,) = plots_overlap.overlap(P, Q).axes
    filled, hatched = axes.containers
    assert [bar.get_height() for bar in filled] == [0.25, 0.25, 0.05, 0.1]
    assert [bar.get_height() for bar in hatched] == pytest.approx([0.25, 0, 0.1, 0])
    assert [bar.get_y() for bar in hatched] == [bar.get_height() for bar in filled]
    assert "0.65" in filled.get_label()
    assert "0.35" in hatched.get_label()


def test_both_laws_are_drawn_over_them_and_differ_without_colour():
    (axes,) = plots_overlap.overlap(P, Q).axes
    outlines = [line.get_ydata().max() for line in axes.lines]
    assert outlines == [*P, *Q]
    assert len({line.get_linestyle() for line in axes.lines}) == 2
    named = [line.get_label() for line in axes.lines if not line.get_label().startswith("_")]
    assert named == ["p: the target", "q: the draft"]


def test_what_is_rejected_is_named_where_q_is_larger(monkeypatch):
    figure = plots_overlap.overlap(P, Q)
    texts = texts_of(figure, monkeypatch)
    assert [t.xy[0] for t in texts if t.get_text() == "rejected"] == np.flatnonzero(Q > P).tolist()
    assert_no_text_covers_another(figure, texts)


def test_what_is_no_pair_of_laws_is_refused():
    with pytest.raises(ValueError, match="target_probs must be one law"):
        plots_overlap.overlap([P, P], [Q, Q])
    with pytest.raises(ValueError, match="draft_probs"):
        plots_overlap.overlap(P, 2 * Q)


def test_the_picture_in_the_lecture_is_of_the_lectures_laws(tmp_path):
    """Small enough to be committed, and drawn of the p and q that lecture 3 computes with."""
    text = (LECTURES / "03_why_the_law_does_not_change.md").read_text(encoding="utf-8")
    laws = re.findall(r"^[pq] = np\.array\(\[(.*)\]\)$", text, re.M)
    halves = [[int(a) / int(b) for a, b in re.findall(r"F\((\d+), (\d+)\)", law)] for law in laws]
    assert np.array_equal(halves, FIX_A)
    (fresh,) = plots.save(tmp_path, {"overlap": plots_overlap.overlap(P, Q)})
    shown = LECTURES / "figures" / "overlap.png"
    assert max(fresh.stat().st_size, shown.stat().st_size) < 80_000
    with plots.Image.open(fresh) as one, plots.Image.open(shown) as other:
        apart = np.abs(np.asarray(one, float) - np.asarray(other, float)).mean()
    assert apart < 5  # of 255 shades: fonts differ a little from machine to machine
