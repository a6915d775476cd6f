"""Candidates: the closed forms beside every branch of the rule itself; lenience's trade."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import P, Q

from lab import rule_laws
from lab.exact import prefix_law, round_law, total_variation
from lab.rulecost import (
    CANDIDATES,
    costs,
    greedy,
    lenience,
    rational_laws,
    round_cost,
    round_tokens,
    trade,
    typicality,
)
from lab.sampling import residual
from lab.verify import RULES, chain_rule, lenient

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
        assert round_tokens(CANDIDATES[name], target, draft, gamma) == 1 + Fraction(accepted)


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
    assert round_tokens(one, target, draft, gamma) == 1 + sum(due)


def by_enumeration(one, p, q):
    """Laws (V,) of what is drafted and kept, and of the first token, of a candidate's rule itself;
    they are its closed forms."""
    law = round_law(one.rule, np.stack([p, p]), q[None])
    first = prefix_law(law, 1)
    first = [first.get((x,), 0) for x in range(len(p))]
    kept = [sum(m for z, m in law.items() if z[0] == x and len(z) == 2) for x in range(len(p))]
    assert list(one.first_law(p, q)) == first
    assert list(one.kept(p, q)) == kept
    assert one.acceptance(p, q) == sum(kept)
    assert one.bias(p, q) == sum(abs(out - due) for out, due in zip(first, p, strict=True)) / 2
    return kept, first


@pytest.mark.parametrize("name", CANDIDATES)
def test_the_first_draft_and_token_are_as_said(name):
    one = CANDIDATES[name]
    assert one.rule.name == name
    for cell in range(4):
        target, draft = pair(2, cell, vocab=4)
        p, q = target(()), draft(())
        by_enumeration(one, p, q)
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
            assert round_tokens(CANDIDATES[name], target, draft, gamma) == due


def test_d6_match_accepts_with_the_overlap_of_two_draws():
    assert CANDIDATES["match"].acceptance(P, Q) == pytest.approx(0.27)
    assert CANDIDATES["token"].acceptance(P, Q) == pytest.approx(0.65)
    assert CANDIDATES["match"].acceptance(P, P) == pytest.approx(0.345)


def test_typical_keeps_what_lies_above_its_threshold():
    """p = (.5, .25, .25): the threshold is .09; uniform over 100: .003."""
    one = CANDIDATES[RULES["typical"].name]
    wide = np.full(100, 0.01)
    assert one.acceptance(wide, wide) == pytest.approx(1)
    q = np.array([0.2, 0.3, 0.5])
    assert one.acceptance(np.array([0.5, 0.25, 0.25]), q) == pytest.approx(1)
    assert one.acceptance(np.array([0.6, 0.32, 0.08]), q) == pytest.approx(0.5)


counts = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any)
leniencies = st.sampled_from([Fraction(n, 10) for n in (1, 3, 5, 9, 10)])


def in_fractions(numbers):
    return np.array([Fraction(n, sum(numbers)) for n in numbers], dtype=object)


@given(counts, counts)
def test_match_never_accepts_more_than_token(p, q):
    p, q = in_fractions(p), in_fractions(q)
    match, token = (sum(by_enumeration(CANDIDATES[name], p, q)[0]) for name in ("match", "token"))
    assert match <= token


@given(counts, counts, leniencies)
def test_lenience_by_enumeration(p, q, leniency):
    p, q = in_fractions(p), in_fractions(q)
    for scaled in (True, False):
        _, law = by_enumeration(lenience(leniency, scaled), p, q)
        assert all(out <= due / leniency for out, due in zip(law, p, strict=True))
        assert leniency < 1 or law == list(p)


@pytest.mark.parametrize(
    "leniency",
    [1e-300, 1e-310, 5e-324, Fraction(1, 10**300), np.int64(1), np.array(0.5), np.float32(0.5), 1],
    ids=repr,
)
def test_lenience_of_any_kind_and_size(leniency):
    """Beside the same lenience in fractions; tiny, it accepts all where p > 0."""
    p, q = np.array([0.5, 0.25, 0.25, 0]), np.array([0.125, 0.25, 0.5, 0.125])
    exact = Fraction(leniency) if isinstance(leniency, Fraction) else Fraction(float(leniency))
    rule = lenient(leniency)
    assert rule.lossless is (exact == 1)
    for scaled in (True, False):
        one, due = (lenience(number, scaled) for number in (leniency, exact))
        fractions = [np.array([Fraction(x) for x in law]) for law in (p, q)]
        kept, law = by_enumeration(due, *fractions)
        assert one.kept(p, q) == pytest.approx(list(map(float, kept)), abs=1e-15)
        assert one.first_law(p, q) == pytest.approx(list(map(float, law)), abs=1e-15)
        found = prefix_law(round_law(lenient(leniency, scaled), [p, p], [q]), 1)
        assert [found.get((x,), 0) for x in range(4)] == pytest.approx(list(map(float, law)))


@given(counts, counts, st.sampled_from([(0.09, 0.3), (0.3, 0.09), (0.5, 0.9), (0.0, 1.0)]))
def test_typical_acceptance_by_enumeration(p, q, setting):
    p, q = in_fractions(p), in_fractions(q)
    threshold = rule_laws.typical_threshold(p, *setting)
    kept, _ = by_enumeration(typicality(*setting), p, q)
    assert kept == [drawn * (due > threshold) for due, drawn in zip(p, q, strict=True)]


def test_the_swapped_settings_of_typical_acceptance_are_another_law():
    p, q = np.array([0.6, 0.33, 0.07]), np.array([0.1, 0.1, 0.8])
    right, swapped = (typicality(*setting) for setting in ((0.09, 0.3), (0.3, 0.09)))
    np.testing.assert_allclose(right.first_law(p, q), [0.58, 0.364, 0.056], rtol=1e-12)
    np.testing.assert_allclose(swapped.first_law(p, q), q, rtol=1e-12)
    assert right.rule.name == RULES["typical"].name


def test_typical_acceptance_rejects_and_may_draw_the_same_token_again():
    p, q = in_fractions([17, 2, 1]), in_fractions([0, 0, 1])
    assert not residual(p, q)[2]
    assert by_enumeration(CANDIDATES[RULES["typical"].name], p, q)[1] == list(p)


# ---- Block and token ---------------------------------------------------------------------------


def test_block_is_never_below_token_and_equal_with_one_draft():
    above = 0
    for cell in range(12):
        target, draft = pair(5, cell, vocab=2 + cell % 3)
        for gamma in (1, 2, 3):
            token, block = (
                round_tokens(CANDIDATES[name], target, draft, gamma) for name in ("token", "block")
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
        found = costs(greedy(target), draft, (1, 2))
        assert list(found) == list(CANDIDATES)
        assert all(cost == found["token"] for cost in found.values())
        assert [cost.joint_bias for cost in found["token"]] == [0, 0]


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
    assert float(half.scaled_bias) == pytest.approx(0.2273, abs=5e-5)
    assert half.plain_bias == half.bound == Fraction(2, 10)
    assert half.scaled_largest == half.plain_largest == 2
    assert trade(FIX_P, FIX_Q, Fraction(3, 10)).acceptance == 1
    none = trade(FIX_P, FIX_Q, Fraction(1))
    assert (none.scaled_bias, none.plain_bias, none.bound, none.scaled_largest) == (0, 0, 0, 1)
    assert none.acceptance == Fraction(7, 10)


def test_lenience_1_is_the_token_rule():
    target, draft = pair(9)
    token = round_law("token", target, draft, 2)
    for scaled in (True, False):
        law = round_law(lenient(Fraction(1), scaled), target, draft, 2)
        assert total_variation(law, token) == 0


def test_the_cells_of_lenience():
    """Appendix A.5 at p = (.5, .3, .2), q = (.2, .3, .5)."""
    half, other = lenience(Fraction(1, 2)), lenience(Fraction(1, 2), scaled_residual=False)
    assert list(half.first_law(FIX_P, FIX_Q)) == [Fraction(3, 11), Fraction(18, 55), Fraction(2, 5)]
    assert list(other.first_law(FIX_P, FIX_Q)) == [Fraction(n, 10) for n in (3, 3, 4)]
    tenth = lenience(Fraction(1, 10)).first_law(FIX_P, FIX_Q)
    assert list(tenth) == list(FIX_Q), "all is accepted: the draft's law"


def test_lenience_pays_at_least_the_bound_and_the_other_residual_no_more():
    target, draft = pair(8, vocab=5)
    dearer = 0
    for i in range(40):
        p, q = target((i,)), draft((i,))
        trades = [trade(p, q, Fraction(n, 10)) for n in (10, 7, 4, 1)]
        for leniency, one in zip((10, 7, 4, 1), trades, strict=True):
            assert one.plain_bias == one.bound <= one.scaled_bias
            assert max(one.scaled_largest, one.plain_largest) <= Fraction(10, leniency)
            dearer += one.scaled_bias > one.bound
        accepted = [one.acceptance for one in trades]
        assert accepted == sorted(accepted)
    assert dearer > 40
