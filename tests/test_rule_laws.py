"""Closed forms of the rules against the enumeration of their rounds, in exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.exact import round_law, total_variation
from lab.rule_laws import (
    block_tokens,
    least_bias,
    lenient_acceptance,
    lenient_law,
    match_acceptance,
    token_tokens,
    tokens_by_position,
    typical_law,
    typical_threshold,
)
from lab.sampling import residual
from lab.theory import divergence_lk, expected_tokens
from lab.verify import chain_rule, lenient, token_rule, typical

TENTHS_P = np.array([Fraction(n, 10) for n in (5, 3, 2)], dtype=object)  # the cells of lenience
TENTHS_Q = np.array([Fraction(n, 10) for n in (2, 3, 5)], dtype=object)
TOY_P = np.array([Fraction(1, 3), Fraction(2, 3)], dtype=object)  # the block toy: target, draft
TOY_Q = TOY_P[::-1]


def always(law):
    """A law that does not depend on the prefix."""
    return lambda prefix: law


def random_laws(seed, vocab):
    """Laws in fractions that depend on the whole prefix."""

    def law(prefix):
        counts = np.random.default_rng([seed, vocab, len(prefix), *prefix]).integers(0, 9, vocab)
        counts[0] += 1
        return np.array([Fraction(int(n), int(counts.sum())) for n in counts], dtype=object)

    return law


def mean_tokens(rule, target, draft, gamma):
    """Expected tokens of a round, by enumeration."""
    law = round_law(rule, target, draft, gamma)
    return sum(len(tokens) * probability for tokens, probability in law.items())


def first_token(rule, p, q):
    """Law (V,) of the first token of a round with one draft."""
    found = [0 * p[0]] * len(p)
    for tokens, probability in round_law(rule, np.stack([p, p]), q[None]).items():
        found[tokens[0]] += probability
    return found


def accepted(rule, p, q):
    law = round_law(rule, np.stack([p, p]), q[None])
    return sum(probability for tokens, probability in law.items() if len(tokens) == 2)


def distance(law, other):
    return sum(abs(a - b) for a, b in zip(law, other, strict=True)) / 2


# ---- Expected tokens ---------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", range(5))
def test_eq_1_is_what_the_token_rule_gives(gamma):
    target, draft = always(TENTHS_P), always(TENTHS_Q)
    alpha = Fraction(7, 10)
    exact = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    assert token_tokens(target, draft, gamma) == exact
    assert tokens_by_position([alpha] * gamma) == exact
    assert expected_tokens(float(alpha), gamma) == pytest.approx(float(exact), rel=1e-14)
    if gamma <= 3:
        assert mean_tokens("token", target, draft, gamma) == exact


def test_tokens_where_positions_differ():
    """The product of the alphas up to each position, when they do not depend on the tokens."""
    alphas = [Fraction(9, 10), Fraction(1, 2), Fraction(2, 3)]

    def target(prefix):
        return TOY_P

    def draft(prefix):  # Σ min with (1/3, 2/3) is alpha
        moved = 1 - alphas[min(len(prefix), 2)]
        return np.array([Fraction(1, 3) + moved, Fraction(2, 3) - moved], dtype=object)

    by_hand = 1 + Fraction(9, 10) + Fraction(9, 20) + Fraction(3, 10)
    assert tokens_by_position(alphas) == by_hand
    assert token_tokens(target, draft, 3) == by_hand
    assert mean_tokens("token", target, draft, 3) == by_hand
    assert tokens_by_position([]) == 1
    assert tokens_by_position([Fraction(0), Fraction(1)]) == 1


TOY = [
    # gamma, E[accepted] of the token rule, of block verification
    (1, Fraction(2, 3), Fraction(2, 3)),
    (2, Fraction(10, 9), Fraction(11, 9)),
    (3, Fraction(38, 27), Fraction(5, 3)),
    (4, Fraction(130, 81), Fraction(166, 81)),
    (5, Fraction(422, 243), Fraction(64, 27)),
]


@pytest.mark.parametrize(("gamma", "token", "block"), TOY)
def test_the_block_toy(gamma, token, block):
    """Sun et al. 2024: target (1/3, 2/3), draft (2/3, 1/3)."""
    target, draft = always(TOY_P), always(TOY_Q)
    assert token_tokens(target, draft, gamma) - 1 == token
    assert block_tokens(target, draft, gamma) - 1 == block
    assert mean_tokens("token", target, draft, gamma) - 1 == token
    assert mean_tokens("block", target, draft, gamma) - 1 == block


def test_the_formula_that_circulates_is_too_large():
    """Σ min(q(x_1..x_l), p(x_1..x_l)): 12/9 where the algorithm accepts 11/9."""

    def circulating(gamma):
        total = Fraction(0)
        for length in range(1, gamma + 1):
            for z in np.ndindex(*[2] * length):
                total += min(np.prod(TOY_P[list(z)]), np.prod(TOY_Q[list(z)]))
        return total

    assert circulating(1) == Fraction(2, 3)
    assert circulating(2) == Fraction(12, 9)
    assert all(circulating(gamma) > block for gamma, _, block in TOY if gamma > 1)


seeds = st.integers(0, 10**6)


@settings(max_examples=40)
@given(seeds, seeds, st.integers(2, 4), st.integers(0, 3))
def test_block_is_never_below_token(seed, other, vocab, gamma):
    gamma = min(gamma, 2) if vocab == 4 else gamma
    target, draft = random_laws(seed, vocab), random_laws(other, vocab)
    token, block = token_tokens(target, draft, gamma), block_tokens(target, draft, gamma)
    assert 1 <= token <= block <= gamma + 1
    if gamma <= 1:
        assert token == block


@settings(max_examples=8)
@given(seeds, seeds, st.integers(1, 2))
def test_closed_forms_are_the_enumeration_where_laws_depend_on_the_prefix(seed, other, gamma):
    target, draft = random_laws(seed, 3), random_laws(other, 3)
    assert token_tokens(target, draft, gamma) == mean_tokens("token", target, draft, gamma)
    assert block_tokens(target, draft, gamma) == mean_tokens("block", target, draft, gamma)


@settings(max_examples=25)
@given(seeds, seeds, st.integers(1, 4))
def test_at_temperature_0_block_gains_nothing(seed, other, gamma):
    """A target that is certain: a prefix of the draft is right or it is not."""

    def certain(prefix):
        law = np.array([Fraction(0)] * 3, dtype=object)
        law[np.random.default_rng([seed, *prefix]).integers(3)] = Fraction(1)
        return law

    draft = random_laws(other, 3)
    assert token_tokens(certain, draft, gamma) == block_tokens(certain, draft, gamma)


def test_no_draft_is_one_token():
    for tokens in (token_tokens, block_tokens):
        assert tokens(always(TOY_P), always(TOY_Q), 0) == 1
        with pytest.raises(ValueError, match="gamma=-1"):
            tokens(always(TOY_P), always(TOY_Q), -1)


# ---- Exact match -------------------------------------------------------------------------------


def test_match_accepts_with_the_sum_of_products():
    assert match_acceptance(TENTHS_P, TENTHS_Q) == Fraction(29, 100)  # .10 + .09 + .10
    assert accepted("match", TENTHS_P, TENTHS_Q) == Fraction(29, 100)
    assert first_token("match", TENTHS_P, TENTHS_Q) == TENTHS_P.tolist()
    rows = match_acceptance(np.stack([TENTHS_P, TENTHS_P]), np.stack([TENTHS_Q, TENTHS_P]))
    assert rows.tolist() == [Fraction(29, 100), Fraction(38, 100)]
    three = mean_tokens("match", always(TENTHS_P), always(TENTHS_Q), 2)
    assert three == tokens_by_position([Fraction(29, 100)] * 2)


counts = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any)


def in_fractions(numbers):
    return np.array([Fraction(n, sum(numbers)) for n in numbers], dtype=object)


@given(counts, counts)
def test_match_never_accepts_more_than_token(p, q):
    p, q = in_fractions(p), in_fractions(q)
    assert match_acceptance(p, q) == accepted("match", p, q) <= accepted("token", p, q)


# ---- Lenience ----------------------------------------------------------------------------------


HALF, THIRD, TENTH = Fraction(1, 2), Fraction(3, 10), Fraction(1, 10)


def test_the_cells_of_lenience():
    """Appendix A.5 at p = (.5, .3, .2), q = (.2, .3, .5)."""
    p, q = TENTHS_P, TENTHS_Q
    assert lenient_acceptance(p, q, HALF) == Fraction(9, 10)
    assert lenient_acceptance(p, q, THIRD) == lenient_acceptance(p, q, TENTH) == 1
    assert lenient_acceptance(p, q, 1) == Fraction(7, 10)
    scaled, plain = lenient_law(p, q, HALF), lenient_law(p, q, HALF, scaled_residual=False)
    np.testing.assert_allclose(scaled.astype(float), [0.2727, 0.3273, 0.4], atol=5e-5)
    assert scaled.tolist() == [Fraction(3, 11), Fraction(18, 55), Fraction(2, 5)]
    assert plain.tolist() == [Fraction(3, 10), Fraction(3, 10), Fraction(2, 5)]
    assert float(distance(scaled, p)) == pytest.approx(0.2273, abs=5e-5)
    divergence = Fraction(3, 10)
    assert divergence_lk(p, q) == pytest.approx(0.3)
    assert distance(plain, p) == least_bias(divergence, TENTH) == Fraction(1, 5)
    assert least_bias(TENTH, divergence) == 0
    assert lenient_law(p, q, TENTH).tolist() == q.tolist(), "all is accepted: the draft's law"


@given(counts, counts, st.sampled_from([TENTH, THIRD, HALF, Fraction(9, 10), Fraction(1)]))
def test_lenience_by_enumeration(p, q, leniency):
    p, q = in_fractions(p), in_fractions(q)
    bias = {}
    for scaled in (True, False):
        rule = lenient(leniency, scaled)
        law = lenient_law(p, q, leniency, scaled)
        assert first_token(rule, p, q) == law.tolist()
        assert accepted(rule, p, q) == lenient_acceptance(p, q, leniency)
        assert all(out <= x / leniency for out, x in zip(law, p, strict=True))
        bias[scaled] = distance(law, p)
    rejected = 1 - lenient_acceptance(p, q, leniency)
    best = least_bias(distance(p, q), rejected)
    assert bias[False] == best <= bias[True]
    if leniency == 1:
        assert bias == {True: 0, False: 0}


def test_lenience_1_is_the_token_rule():
    target, draft = random_laws(1, 3), random_laws(2, 3)
    for scaled in (True, False):
        law = round_law(lenient(Fraction(1), scaled), target, draft, 2)
        assert total_variation(law, round_law("token", target, draft, 2)) == 0


def test_the_bound_is_one_for_every_rule():
    """Also a rule that accepts more often than `token` in another way: no bias below the bound."""
    p, q = TENTHS_P, TENTHS_Q

    def often(target_probs, draft_probs, drafts, dice):
        if dice.accept(HALF):
            return 1, dice.choose(target_probs[1])
        return token_rule(target_probs, draft_probs, drafts, dice)

    rule = chain_rule(often)
    bias = distance(first_token(rule, p, q), p)
    assert bias == least_bias(Fraction(3, 10), 1 - accepted(rule, p, q)) == Fraction(3, 20)


# ---- Typical acceptance ------------------------------------------------------------------------


def test_the_cells_of_typical_acceptance():
    """Medusa's own settings, epsilon .09 and delta .3."""
    assert typical_threshold([0.5, 0.25, 0.25], 0.09, 0.3) == 0.09
    unbounded = typical_threshold([0.5, 0.25, 0.25], 1, 0.3)
    assert unbounded == pytest.approx(0.106066, abs=5e-7)
    assert typical_threshold(np.full(100, 0.01), 0.09, 0.3) == pytest.approx(0.003, rel=1e-12)
    assert typical_threshold([1.0, 0], 0.09, 0.3) == 0.09, "no entropy: delta"
    assert typical_threshold([1.0, 0], 1, 0.3) == 0.3


def test_the_swapped_defaults_are_a_trap():
    """epsilon .3 and delta .09, as in its helpers: other thresholds, and another law."""
    assert typical_threshold([0.5, 0.25, 0.25], 0.3, 0.09) == pytest.approx(0.0318, abs=5e-5)
    assert typical_threshold(np.full(100, 0.01), 0.3, 0.09) == pytest.approx(0.0009, rel=1e-12)
    p, q = np.array([0.6, 0.33, 0.07]), np.array([0.1, 0.1, 0.8])
    right, swapped = typical_law(p, q, 0.09, 0.3), typical_law(p, q, 0.3, 0.09)
    np.testing.assert_allclose(right, [0.58, 0.364, 0.056], rtol=1e-12)
    np.testing.assert_allclose(swapped, q, rtol=1e-12)
    rule = typical()
    np.testing.assert_allclose(first_token(rule, p, q), right, rtol=1e-12)


@given(counts, counts, st.sampled_from([(0.09, 0.3), (0.3, 0.09), (0.5, 0.9), (0.0, 1.0)]))
def test_typical_acceptance_by_enumeration(p, q, setting):
    p, q = in_fractions(p), in_fractions(q)
    rule, law = typical(*setting), typical_law(p, q, *setting)
    assert first_token(rule, p, q) == law.tolist()
    kept = sum(y for x, y in zip(p, q, strict=True) if x > typical_threshold(p, *setting))
    assert accepted(rule, p, q) == kept
    assert sum(law) == 1
    atypical = [x <= typical_threshold(p, *setting) for x in p]
    moved = sum(abs(y * (not a) - x * kept) for x, y, a in zip(p, q, atypical, strict=True)) / 2
    assert distance(law, p) == moved


def test_typical_acceptance_rejects_and_may_draw_the_same_token_again():
    p, q = in_fractions([17, 2, 1]), in_fractions([0, 0, 1])
    assert not residual(p, q)[2]
    assert typical_law(p, q, 0.09, 0.3).tolist() == p.tolist()
    assert first_token(typical(), p, q)[2] == Fraction(1, 20)
