"""Our points for the paper's figures: what they are made of, on few prompts."""

from dataclasses import replace

import numpy as np
import pytest
from models import context_free

from lab import pairs, paper_measured, theory
from lab.estimate import Estimate, replay
from lab.measure import Draft
from lab.pairs import Pair
from lab.paper_measured import COSTS, GAMMAS, MOST_GAMMA, Point, _best_at, best_gammas


def estimate(value, stderr):
    return Estimate("it", value, stderr, 0.0, np.inf, 100)


def test_operations_are_rows_per_token_with_their_error():
    point = Point("draft", 3, estimate(0.8, 0.01), estimate(2.5, 0.1))
    assert point.operations == pytest.approx((4 / 2.5, 4 / 2.5 * 0.04))


def test_the_best_gamma_and_those_within_one_standard_error():
    """By hand at c = .1: speeds 1.5/1.1, 1.9/1.2, 2.08/1.3, 2.1/1.4."""
    tokens = dict(
        zip((1, 2, 3, 4), (estimate(t, 0.05) for t in (1.5, 1.9, 2.08, 2.1)), strict=True)
    )
    best = _best_at("draft", estimate(0.6, 0.01), tokens, 0.1)
    assert (best.gamma, best.low, best.high) == (3, 2, 3)  # 1.600; 1.583 is near, 1.5 is not
    assert (best.draft, best.c, best.alpha.value) == ("draft", 0.1, 0.6)


def test_eq_1_gives_the_best_gamma_of_theorem_3_8():
    """Replay of a constant acceptance is equation (1), so the two must agree at every c."""
    accept = np.full(400, 0.7)
    tokens = replay(np.ones(400), accept, range(1, MOST_GAMMA + 1))
    for c in COSTS:
        found = _best_at("draft", estimate(0.7, 0.0), tokens, c).gamma
        assert found == theory.best_gamma(0.7, c)[0]


def test_best_gammas_of_laws_that_never_change():
    """α is .7 at every position; a draft of α .3 is not on the figure's axis."""
    target = context_free([0.5, 0.3, 0.2])
    drafts = (
        Draft("near", context_free([0.2, 0.3, 0.5])),
        Draft("far", context_free([0.0, 0.1, 0.9])),
    )
    prompts = tuple(np.array([i % 3]) for i in range(12))
    found = best_gammas(Pair("pair", target, drafts, prompts), 100, 0, 7)
    assert [(one.draft, one.c) for one in found] == [("near", c) for c in COSTS]
    for one in found:
        assert one.alpha.value == pytest.approx(0.7)
        assert one.low <= one.gamma <= one.high
        assert one.low <= theory.best_gamma(0.7, one.c)[0] <= one.high


def test_the_figures_points_are_the_loops(monkeypatch):
    """Every draft at every γ, on the texts that the loop itself wrote; one draft of few weights."""
    full = pairs.text_pair(0, prompts=2)
    few = replace(full, drafts=(full.draft("4-gram"),))
    monkeypatch.setattr(paper_measured, "text_pair", lambda seed, prompts: few)
    found = paper_measured.measure_figures(0, fast=True)
    assert [(p.draft, p.gamma) for p in found.points] == [("4-gram", g) for g in GAMMAS]
    for point in found.points:
        assert 1 <= point.tokens.value <= point.gamma + 1
        assert 0.5 < point.alpha.value < 0.95
    assert [one.c for one in found.best] == list(COSTS)
