"""Exact expectations of counters and estimators, on cases worked out by hand."""

from fractions import Fraction

import numpy as np
import pytest
from models import P, Q, context_free

from lab import estimate
from lab.exact import audit, audit_loop
from lab.expectations import counts_of, expectations
from lab.ngram import PromptLookup
from lab.text import Generation, Round
from lab.theory import acceptance, expected_tokens

COIN_P, COIN_Q = np.array([0.7, 0.3]), np.array([0.4, 0.6])
ALPHA = 0.7  # Σ min of the two


def of_loop(n_new, gamma, p=COIN_P, q=COIN_Q, **more):
    return audit_loop(context_free(p), context_free(q), [0], n_new, gamma, **more)


def run_of(*rounds):
    """A run with rounds (allowed, drafted, tested, accepted)."""
    made = tuple(Round(*counts, counts[3] + 1, "full") for counts in rounds)
    tokens = np.zeros(sum(r.emitted for r in made), np.int64)
    return Generation(tokens, "length", made, (), len(made), sum(r.drafted for r in made))


# ---- By hand -----------------------------------------------------------------------------------


def test_one_draft_and_two_tokens_by_hand():
    """Accepted: one round. Rejected: a round without drafts follows."""
    found = of_loop(2, 1)
    a = ALPHA
    assert found.expected == pytest.approx(
        {
            "drafted": 1, "tested": 1, "accepted": a, "emitted": 2, "target_calls": 2 - a,
            "draft_calls": 1, "alpha_from_rounds": a, "accepted_per_drafted": a,
            "drafted_per_round": a + (1 - a) / 2, "tokens_per_call": 1 + a,
        },
        rel=1e-12,
    )  # fmt: skip
    assert found.pooled == pytest.approx(
        {
            "alpha_from_rounds": a, "accepted_per_drafted": a,
            "drafted_per_round": 1 / (2 - a), "tokens_per_call": 1 + a,
        },
        rel=1e-12,
    )  # fmt: skip
    assert found.exists == pytest.approx(dict.fromkeys(found.pooled, 1.0), rel=1e-12)


def test_the_mean_of_per_run_values_is_biased_and_by_how_much():
    """One draft, three tokens: runs whose first draft is accepted test no second one, so runs that
    reject weigh as much with two tests as others with one. The ratio of expectations is alpha."""
    found = of_loop(3, 1)
    a = ALPHA
    bias = a * (1 - a) / 2
    assert found.expected["alpha_from_rounds"] == pytest.approx(a + bias, rel=1e-12)
    assert found.pooled["alpha_from_rounds"] == pytest.approx(a, rel=1e-12)
    assert bias > 0.1
    per_run = 2 * a + (1 - a) * (1.5 * a + 1 - a)
    assert found.expected["tokens_per_call"] == pytest.approx(per_run, rel=1e-12)
    assert found.pooled["tokens_per_call"] == pytest.approx(1 + a, rel=1e-12)


@pytest.mark.parametrize(("n_new", "gamma"), [(2, 1), (5, 1), (3, 2), (5, 2), (5, 3)])
def test_eq_1_holds_for_the_ratio_of_expectations(n_new, gamma):
    """Rounds that are allowed gamma drafts, wherever the run ends: Wald's identity. The mean of
    per-run values agrees only where a run has one such round."""
    found = of_loop(n_new, gamma)
    wanted = expected_tokens(ALPHA, gamma)
    assert found.pooled["tokens_per_call"] == pytest.approx(wanted, rel=1e-12)
    assert found.pooled["alpha_from_rounds"] == pytest.approx(ALPHA, rel=1e-12)
    biased = abs(found.expected["tokens_per_call"] - wanted) > 1e-3
    assert biased == (n_new > gamma + 1)


def test_accepted_per_drafted_is_another_number():
    """Its ratio is (E - 1) / gamma where gamma drafts are always allowed; alpha it is not."""
    one_round = of_loop(3, 2, P, Q)
    alpha = acceptance(P, Q)
    full = (alpha + alpha**2, 2.0)  # of the first round; a round with one draft follows a rejection
    rest = (1 - alpha) * np.array([alpha, 1.0])
    pooled = (full[0] + rest[0]) / (full[1] + rest[1])
    assert one_round.pooled["accepted_per_drafted"] == pytest.approx(pooled, rel=1e-12)
    assert pooled < alpha - 0.05
    assert one_round.pooled["alpha_from_rounds"] == pytest.approx(alpha, rel=1e-12)


def test_an_estimator_that_often_has_no_value():
    """Prompt 0 1: a first token 0 or 1 is found again and its follower, 1, is drafted; 2 is not."""
    target = context_free([0.5, 0.3, 0.2])
    found = audit_loop(target, PromptLookup(3), [0, 1], 3, 1)
    assert found.exists["alpha_from_rounds"] == pytest.approx(0.8, rel=1e-12)
    assert found.exists["drafted_per_round"] == pytest.approx(1, rel=1e-12)
    assert found.expected["alpha_from_rounds"] == pytest.approx(0.3, rel=1e-12)
    assert found.expected["accepted"] == pytest.approx(0.24, rel=1e-12)
    assert found.pooled["alpha_from_rounds"] == pytest.approx(0.3, rel=1e-12)


def test_plain_decoding_has_no_alpha():
    found = of_loop(3, 0)
    assert found.exists == pytest.approx(
        {"alpha_from_rounds": 0, "accepted_per_drafted": 0, "drafted_per_round": 1,
         "tokens_per_call": 1}
    )  # fmt: skip
    assert "alpha_from_rounds" not in found.expected
    assert set(found.pooled) == {"drafted_per_round", "tokens_per_call"}
    assert found.expected["tokens_per_call"] == found.pooled["tokens_per_call"] == 1
    nothing = of_loop(0, 2)
    assert set(nothing.exists.values()) == {0.0}
    assert nothing.pooled == {}
    assert nothing.expected["emitted"] == 0


def test_tokens_alone_have_no_expectations():
    found = audit(lambda dice: (dice.choose(COIN_P),), {(0,): 0.7, (1,): 0.3})
    assert (found.expected, found.exists, found.pooled) == ({}, {}, {})


# ---- Of any runs -------------------------------------------------------------------------------


def test_expectations_of_runs_given_by_hand():
    runs = [
        (run_of((2, 2, 1, 0), (2, 2, 2, 2)), Fraction(1, 4)),  # 2 / 3, 2 / 4, tokens 4 / 2
        (run_of((2, 2, 2, 1), (1, 1, 1, 1)), Fraction(3, 4)),  # 2 / 3, 2 / 3, tokens 2 / 1
    ]
    expected, exists, pooled = expectations(runs)
    assert expected["alpha_from_rounds"] == pytest.approx(2 / 3)
    assert expected["accepted_per_drafted"] == pytest.approx(1 / 8 + 1 / 2)
    assert pooled["accepted_per_drafted"] == pytest.approx(2 / (1 + 9 / 4))
    assert expected["tokens_per_call"] == pytest.approx(2)
    assert pooled["tokens_per_call"] == pytest.approx((1 + 3 / 2) / (1 / 2 + 3 / 4))
    assert expected["drafted_per_round"] == pytest.approx(1 / 2 + 9 / 8)
    assert set(exists.values()) == {1.0}
    assert counts_of(runs[0][0]) == {
        "drafted": 4, "tested": 3, "accepted": 2, "emitted": 4, "target_calls": 2, "draft_calls": 4,
    }  # fmt: skip


def test_counts_that_cannot_be_have_no_estimate():
    """A loop that counts wrongly is seen by what does not exist, not by an error in the audit."""
    _, exists, pooled = expectations([(run_of((1, 1, 1, 2)), 1)])
    assert exists["alpha_from_rounds"] == 0
    assert pooled["alpha_from_rounds"] == 2


def test_the_estimators_that_are_shipped_are_the_ones_asked(monkeypatch):
    right = of_loop(3, 2).expected
    monkeypatch.setattr(estimate, "alpha_from_rounds", estimate.accepted_per_drafted)
    wrong = of_loop(3, 2)
    assert wrong.expected["alpha_from_rounds"] == right["accepted_per_drafted"]
    assert abs(wrong.expected["alpha_from_rounds"] - right["alpha_from_rounds"]) > 0.01


def test_expectations_with_a_stop_token_count_what_the_rule_accepted():
    """A stop token cuts what is kept, not the rule's count: eq. (1) still holds."""
    found = of_loop(4, 1, stop=[1])
    assert found.pooled["tokens_per_call"] == pytest.approx(1 + ALPHA, rel=1e-12)
    assert found.expected["emitted"] < 4
