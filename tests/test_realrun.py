"""What a run asks for and what it makes of it, from made-up cells; the parts have their tests."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from lab import realrun
from lab.betawalk import beta_gap
from lab.realrun import FAST, GAMMA, GAMMAS, WALKED, Size, alphas, falls, walks
from lab.realtext import DRAFTS, KINDS, LOOKUP, DraftAlong, TextCell
from lab.replay import rounds_along
from lab.stats import ClusteredMean

RNG = np.random.default_rng(0)
TEXTS = {0.0: 6, 1.0: 8}


def along(name, count):
    if name == LOOKUP:
        return DraftAlong(tuple(np.ones((12, 8)) for _ in range(count)), ())
    rows = [RNG.uniform(0.2, 1, (2, 12)) for _ in range(count)]
    return DraftAlong(*map(tuple, zip(*rows, strict=True)))


FOUND = {
    (kind, t): TextCell(kind, t, {name: along(name, count) for name in DRAFTS}, {})
    for t, count in TEXTS.items()
    for kind in KINDS
}
LOOPS = {
    (kind, LOOKUP, t, GAMMA): SimpleNamespace(alpha=ClusteredMean(0.3 + t / 10, 0.02, 5))
    for kind in KINDS
    for t in TEXTS
}


def test_alpha_is_of_the_texts_but_of_prompt_lookup_that_of_the_loop():
    found = alphas(FOUND, LOOPS)
    assert set(found) == {(kind, t) for kind in KINDS for t in TEXTS}
    for (kind, t), own in found.items():
        assert list(own) == list(DRAFTS)
        assert own[LOOKUP].mean == 0.3 + t / 10
        for name in set(DRAFTS) - {LOOKUP}:
            assert own[name].mean == pytest.approx(np.mean(FOUND[kind, t].drafts[name].betas))


def test_falls_are_differences_of_independent_means_by_hand():
    of = {
        ("python", 0.0): dict.fromkeys(DRAFTS, ClusteredMean(0.75, 0.03, 6)),
        ("python", 1.0): dict.fromkeys(DRAFTS, ClusteredMean(0.5, 0.04, 8)),
    }
    found = falls(of)
    assert len(found) == len(DRAFTS) - 1
    assert set(found) == {(0.25, math.hypot(0.03, 0.04), 6)}


def test_walks_are_those_of_the_texts_at_temperature_1():
    found = walks(Size(), FOUND)
    assert list(found) == [(k, name, 1.0, g) for name in WALKED for k in KINDS for g in GAMMAS]
    for (kind, name, t, gamma), gap in found.items():
        own = FOUND[kind, t].drafts[name]
        assert gap.raw == beta_gap(own.accept, own.betas, gamma).raw


def test_the_loop_has_every_draft_once_and_the_walked_ones_at_every_gamma(monkeypatch):
    asked = []
    monkeypatch.setattr(realrun, "loop_cells", lambda *args: asked.append(args))
    realrun.in_the_loop(FAST, 7)
    ((keys, counts, n_new, seed),) = asked
    assert len(keys) == len(set(keys))
    every = {("python", name, t, GAMMA) for name in DRAFTS for t in TEXTS}
    assert set(keys) == every | {("python", name, 1.0, g) for name in WALKED for g in GAMMAS}
    assert counts == {0.0: FAST.prompts[0], 1.0: FAST.prompts[1]}
    assert (n_new, seed) == (FAST.loop_tokens, 7)


def test_plans_of_the_clock_replay_the_texts_of_their_kind_and_temperature(monkeypatch):
    asked = []

    def cells(kind, temperature, plans, parts, prompts, n_new, seed):
        asked.append((kind, temperature))
        assert parts == f"parts at {temperature:g}"
        assert len(prompts) == FAST.turns
        drafts = FOUND[kind, temperature].drafts
        for plan, (name, own) in zip(plans, drafts.items(), strict=True):
            assert plan.draft == name
            assert plan.alpha == (None if name == LOOKUP else own.alpha.mean)
            assert list(plan.rounds) == list(range(1, FAST.most + 1))
            for gamma, rounds in plan.rounds.items():
                assert np.array_equal(rounds, rounds_along(own.accept, gamma))
        return [kind]

    monkeypatch.setattr(realrun, "clock_cells", cells)
    run = partial(realrun.on_the_clock, FAST, FOUND)
    assert run({t: f"parts at {t:g}" for t in TEXTS}, 0) == ["python"] * 2
    assert asked == [("python", 1.0), ("python", 0.0)]
