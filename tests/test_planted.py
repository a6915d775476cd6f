"""Planted drafts: accepted where they are right, at the price they are given."""

import time

import numpy as np
import pytest

from lab import Sampling, default_rng, speculative_generate, theory
from lab.planted import PlantedDraft, Recital, busy, right_along, typical_rounds

VOCAB = 5
TEXT = np.arange(40) * 3 % VOCAB


def write(right, gamma, n_new=24):
    return speculative_generate(
        Recital(VOCAB, TEXT), PlantedDraft(VOCAB, TEXT, right), TEXT[:3], n_new, gamma,
        sampling=Sampling(temperature=0), rng=default_rng(0),
    )  # fmt: skip


@pytest.mark.parametrize("gamma", [1, 3, 5])
def test_rounds_accept_as_planned_and_the_text_is_the_targets(gamma):
    accepted = [0, gamma, gamma - 1, 1, gamma]
    right = np.ones(len(TEXT), np.bool_)
    planned = right_along(accepted, gamma)
    right[3 : 3 + len(planned)] = planned
    run = write(right, gamma)
    assert [r.accepted for r in run.rounds[: len(accepted)]] == accepted
    assert run.tokens.tolist() == TEXT[3:27].tolist()


def test_right_along_by_hand():
    assert right_along([0, 2, 1], 2).tolist() == [False, True, True, True, True, False]
    assert len(right_along([3, 0, 1], 4)) == 3 + 0 + 1 + 3


def test_a_draft_that_is_never_right_is_never_accepted():
    run = write(np.zeros(len(TEXT), np.bool_), 4)
    assert {r.accepted for r in run.rounds} == {0}
    assert run.tokens.tolist() == TEXT[3:27].tolist()


@pytest.mark.parametrize(("acceptance", "gamma"), [(0.6, 1), (0.8, 4), (0.95, 8), (1.0, 3)])
def test_typical_rounds_are_as_near_to_equation_1_as_whole_tokens_allow(acceptance, gamma):
    """Of 2,000 draws over 20 rounds the best is within half a token of 20 times the expectation,
    the least that any number of whole tokens can promise."""
    accepted = typical_rounds(acceptance, gamma, 20, default_rng(1))
    assert accepted.shape == (20,)
    assert 0 <= accepted.min() <= accepted.max() <= gamma
    expected = theory.expected_tokens(acceptance, gamma)
    assert abs(accepted.mean() + 1 - expected) * 20 <= 0.5 + 1e-9


def test_typical_rounds_keep_the_shape_of_the_law():
    """Many of them together are still spread as eq. (1)'s law: nothing but the mean is chosen."""
    rng = default_rng(2)
    accepted = np.concatenate([typical_rounds(0.8, 4, 20, rng) for _ in range(40)])
    shares = np.bincount(accepted, minlength=5) / len(accepted)
    assert shares == pytest.approx(theory.accepted_law(0.8, 4), abs=0.08)  # 4.5 sd at .41 of 800


def test_busy_keeps_the_processor_for_as_long_as_it_is_told(monkeypatch):
    clock = iter(np.arange(0, 100, 0.25))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    busy(2.0)
    assert next(clock) == 2.25  # asked once at 0, and until 2


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"right must be \(40,\) of True and False.* got \(3,\)"):
        PlantedDraft(VOCAB, TEXT, np.ones(3, np.bool_))
    with pytest.raises(ValueError, match=r"right must be .* got \(40,\) of float64"):
        PlantedDraft(VOCAB, TEXT, np.ones(40))
    with pytest.raises(ValueError, match="seconds must be finite and at least 0, got -1"):
        PlantedDraft(VOCAB, TEXT, np.ones(40, np.bool_), -1)
    with pytest.raises(ValueError, match=r"seconds=\[1\] must be one number"):
        PlantedDraft(VOCAB, TEXT, np.ones(40, np.bool_), [1])
    with pytest.raises(ValueError, match="rounds=0"):
        typical_rounds(0.5, 2, 0, default_rng(0))
    with pytest.raises(ValueError, match="text has 40 tokens, the draft was asked for more"):
        write(np.ones(len(TEXT), np.bool_), 4, n_new=60)
