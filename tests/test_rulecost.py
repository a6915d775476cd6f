"""Candidates: the closed forms beside every branch of the rule itself; lenience's trade."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from models import P, Q

from lab import rule_laws
from lab.exact import round_law
from lab.lawtest import prefix_law
from lab.rulecost import (
    CANDIDATES,
    circulating_tokens,
    expected_tokens,
    greedy,
    rational_laws,
    round_cost,
    trade,
)
from lab.verify import chain_rule

THIRD = Fraction(1, 3)
TOY_P, TOY_Q = np.array([THIRD, 2 * THIRD]), np.array([2 * THIRD, THIRD])
FIX_P, FIX_Q = (np.array([Fraction(n, 10) for n in law]) for law in ((5, 3, 2), (2, 3, 5)))
TOY = {  # accepted drafts, γ 1..5 (Sun et al. 2024, and by enumeration elsewhere)
    "token": ("2/3", "10/9", "38/27", "130/81", "422/243"),
    "block": ("2/3", "11/9", "5/3", "166/81", "64/27"),
}


def pair(*cell, vocab=3):
    rng = np.random.default_rng([6, *cell])
    return rational_laws(rng, vocab), rational_laws(rng, vocab)


def constant(law):
    return lambda prefix: law


# ---- Closed forms beside the branches ------------------------------------------------------------


@pytest.mark.parametrize("name", TOY)
def test_the_published_toy_as_fractions(name):
    target, draft = constant(TOY_P), constant(TOY_Q)
    for gamma, accepted in enumerate(TOY[name], 1):
        rule = CANDIDATES[name].rule
        assert round_cost(rule, target, draft, gamma).tokens == 1 + Fraction(accepted)
        assert expected_tokens(CANDIDATES[name], target, draft, gamma) == 1 + Fraction(accepted)


def test_the_circulating_formula_is_too_large():
    target, draft = constant(TOY_P), constant(TOY_Q)
    assert circulating_tokens(target, draft, 1) == 1 + Fraction(2, 3)
    assert circulating_tokens(target, draft, 2) == 1 + Fraction(12, 9)
    for cell in range(5):
        target, draft = pair(0, cell)
        assert circulating_tokens(target, draft, 3) >= rule_laws.block_tokens(target, draft, 3)


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("name", CANDIDATES)
def test_survival_is_the_chance_of_keeping_so_many_drafts(name, gamma):
    """Exactly, for every length: Σ over drafts of q(drafts) survival_l = P(more than l tokens)."""
    one, (target, draft) = CANDIDATES[name], pair(1, gamma)
    due = [Fraction(0)] * gamma
    for path in product(range(3), repeat=gamma):
        prefixes = [path[:i] for i in range(gamma)]
        p, q = (np.stack([law(prefix) for prefix in prefixes]) for law in (target, draft))
        drawn = np.prod([q[i][x] for i, x in enumerate(path)])
        for i, chance in enumerate(one.survival(p, q, np.array(path))):
            due[i] += drawn * chance
    law = round_law(one.rule, target, draft, gamma)
    found = [sum(mass for z, mass in law.items() if len(z) > n) for n in range(1, gamma + 1)]
    assert found == due
    assert expected_tokens(one, target, draft, gamma) == 1 + sum(due)


@pytest.mark.parametrize("name", CANDIDATES)
def test_the_first_draft_and_token_are_as_said(name):
    one = CANDIDATES[name]
    for cell in range(4):
        target, draft = pair(2, cell, vocab=4)
        p, q = target(()), draft(())
        law = round_law(one.rule, target, draft, 1)
        first = prefix_law(law, 1)
        assert [first.get((x,), 0) for x in range(4)] == list(one.first_law(p, q))
        kept = [sum(m for z, m in law.items() if z[0] == x and len(z) == 2) for x in range(4)]
        assert kept == list(one.kept(p, q))
        assert one.acceptance(p, q) == sum(kept)
        assert one.bias(p, q) == sum(abs(first.get((x,), 0) - p[x]) for x in range(4)) / 2
        assert one.rule.lossless == (one.bias(p, q) == 0)


@pytest.mark.parametrize("name", CANDIDATES)
def test_rows_of_floats_are_the_fractions_row_by_row(name):
    one = CANDIDATES[name]
    target, draft = pair(3)
    p, q = (np.stack([law((x,)) for x in range(3)]) for law in (target, draft))
    rows = one.kept(p.astype(float), q.astype(float))
    assert rows.dtype == np.float64
    for row, exact_p, exact_q in zip(rows, p, q, strict=True):
        np.testing.assert_allclose(row, one.kept(exact_p, exact_q).astype(float), rtol=1e-14)
    found = one.first_law(p[0].astype(float), q[0].astype(float))
    np.testing.assert_allclose(found, one.first_law(p[0], q[0]).astype(float), rtol=1e-14)


def test_the_formulas_of_rule_laws():
    for gamma in (1, 2, 3):
        target, draft = pair(4, gamma)
        for name, formula in (("token", "token_tokens"), ("block", "block_tokens")):
            due = getattr(rule_laws, formula)(target, draft, gamma)
            assert expected_tokens(CANDIDATES[name], target, draft, gamma) == due
    for name, leniency in (("lenient 1/2", Fraction(1, 2)), ("lenient 3/10", Fraction(3, 10))):
        p, q = target(()), draft(())
        due = rule_laws.lenient_acceptance(p, q, leniency)
        assert CANDIDATES[name].acceptance(p, q) == due
        assert CANDIDATES[f"{name}, p - q"].acceptance(p, q) == due


def test_d6_match_accepts_with_the_overlap_of_two_draws():
    assert CANDIDATES["match"].acceptance(P, Q) == pytest.approx(0.27)
    assert CANDIDATES["token"].acceptance(P, Q) == pytest.approx(0.65)
    assert CANDIDATES["match"].acceptance(P, P) == pytest.approx(0.345)


def test_typical_keeps_what_lies_above_its_threshold():
    """p = (.5, .25, .25): the threshold is .09; uniform over 100: .003."""
    one = CANDIDATES["typical"]
    wide = np.full(100, 0.01)
    assert one.acceptance(wide, wide) == pytest.approx(1)
    q = np.array([0.2, 0.3, 0.5])
    assert one.acceptance(np.array([0.5, 0.25, 0.25]), q) == pytest.approx(1)
    assert one.acceptance(np.array([0.6, 0.32, 0.08]), q) == pytest.approx(0.5)


# ---- Block and token ---------------------------------------------------------------------------


def test_block_is_never_below_token_and_equal_with_one_draft():
    above = 0
    for cell in range(12):
        target, draft = pair(5, cell, vocab=2 + cell % 3)
        for gamma in (1, 2, 3):
            token, block = (
                expected_tokens(CANDIDATES[name], target, draft, gamma)
                for name in ("token", "block")
            )
            assert block >= token
            assert gamma > 1 or block == token
            above += block > token
    assert above > 12


def test_block_is_never_below_token_on_any_path():
    rng = np.random.default_rng(7)
    p, q = (rng.dirichlet(np.ones(5), (200, 6)) for _ in range(2))
    drafts = rng.integers(0, 5, (200, 6))
    token, block = (
        np.array([CANDIDATES[name].survival(*row) for row in zip(p, q, drafts, strict=True)])
        for name in ("token", "block")
    )
    assert (block >= token - 1e-15).all()
    assert (block > token + 0.01).any()


def test_at_temperature_0_every_rule_is_one_rule():
    for cell in range(3):
        target, draft = pair(6, cell)
        costs = {round_cost(c.rule, greedy(target), draft, 2) for c in CANDIDATES.values()}
        assert len(costs) == 1
        assert costs.pop().joint_bias == 0


# ---- Bias --------------------------------------------------------------------------------------


def test_a_rule_that_accepts_all_spoils_the_law_by_what_p_and_q_differ():
    def always(target_probs, draft_probs, drafts, dice):
        return len(drafts), dice.choose(target_probs[-1])

    target, draft = constant(FIX_P), constant(FIX_Q)
    cost = round_cost(chain_rule(always), target, draft, 1)
    assert cost.tokens == 2
    assert cost.acceptance == 1
    assert cost.first_bias == cost.joint_bias == Fraction(3, 10)


def test_bias_behind_the_first_token_is_in_the_joint_law_only():
    def bonus_from_q(target_probs, draft_probs, drafts, dice):
        accepted, token = 0, dice.choose(target_probs[0])
        if token == drafts[0]:  # match, but for the bonus
            accepted, token = 1, dice.choose(draft_probs[0])
        return accepted, token

    cost = round_cost(chain_rule(bonus_from_q), constant(FIX_P), constant(FIX_Q), 1)
    assert cost.first_bias == 0
    assert cost.joint_bias == cost.acceptance * Fraction(3, 10)


def test_laws_are_laws_and_stay_what_they_were():
    law = rational_laws(np.random.default_rng(0), 4, parts=30)
    first = law((1, 2))
    law((0,))
    assert (law((1, 2)) == first).all()
    assert sum(first) == 1
    assert min(first) >= Fraction(1, 30)
    tied = greedy(constant(np.array([Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)])))
    assert list(tied(())) == [0, 1, 0]


# ---- Lenience's trade --------------------------------------------------------------------------


def test_lenience_on_the_fixed_law():
    half = trade(FIX_P, FIX_Q, Fraction(1, 2))
    assert half.acceptance == Fraction(9, 10)
    assert float(half.bias) == pytest.approx(0.2273, abs=5e-5)
    assert half.own_bias == half.bound == Fraction(2, 10)
    assert half.largest == half.own_largest == 2
    assert trade(FIX_P, FIX_Q, Fraction(3, 10)).acceptance == 1
    none = trade(FIX_P, FIX_Q, Fraction(1))
    assert (none.bias, none.own_bias, none.bound, none.largest) == (0, 0, 0, 1)
    assert none.acceptance == Fraction(7, 10)


def test_lenience_pays_at_least_the_bound_and_the_other_residual_no_more():
    target, draft = pair(8, vocab=5)
    dearer = 0
    for i in range(40):
        p, q = target((i,)), draft((i,))
        trades = [trade(p, q, Fraction(n, 10)) for n in (10, 7, 4, 1)]
        for leniency, one in zip((10, 7, 4, 1), trades, strict=True):
            assert one.own_bias == one.bound <= one.bias
            assert max(one.largest, one.own_largest) <= Fraction(10, leniency)
            dearer += one.bias > one.bound
        accepted = [one.acceptance for one in trades]
        assert accepted == sorted(accepted)
    assert dearer > 40
