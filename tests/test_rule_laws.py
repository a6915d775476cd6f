"""Closed forms of the rules against the enumeration of their rounds, in exact fractions."""

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.exact import prefix_law, round_law, total_variation
from lab.rule_laws import (
    block_tokens,
    circulating_tokens,
    least_bias,
    token_tokens,
    tokens_by_position,
    typical_threshold,
)
from lab.theory import expected_tokens
from lab.verify import chain_rule, token_rule

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


def accepted(rule, p, q):
    law = round_law(rule, np.stack([p, p]), q[None])
    return sum(probability for tokens, probability in law.items() if len(tokens) == 2)


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
    for wrong in (1.2, -0.1, float("nan"), "0.5"):
        with pytest.raises(ValueError, match=r"alphas must be in \[0, 1\]"):
            tokens_by_position([0.5, wrong])


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
    for gamma, _, block in TOY:
        found = circulating_tokens(always(TOY_P), always(TOY_Q), gamma) - 1
        assert found == circulating(gamma)
        assert found > block or gamma == 1


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
    for tokens in (token_tokens, block_tokens, circulating_tokens):
        assert tokens(always(TOY_P), always(TOY_Q), 0) == 1
        with pytest.raises(ValueError, match="gamma=-1"):
            tokens(always(TOY_P), always(TOY_Q), -1)


def test_match_is_a_product_of_sums_of_products():
    assert accepted("match", TENTHS_P, TENTHS_Q) == Fraction(29, 100)  # .10 + .09 + .10
    three = mean_tokens("match", always(TENTHS_P), always(TENTHS_Q), 2)
    assert three == tokens_by_position([Fraction(29, 100)] * 2)


# ---- One draft ---------------------------------------------------------------------------------


def test_the_bound_is_one_for_every_rule():
    """Also a rule that accepts more often than `token` in another way: no bias below the bound."""
    p, q = TENTHS_P, TENTHS_Q

    def often(target_probs, draft_probs, drafts, dice):
        if dice.accept(Fraction(1, 2)):
            return 1, dice.choose(target_probs[1])
        return token_rule(target_probs, draft_probs, drafts, dice)

    rule = chain_rule(often)
    law = prefix_law(round_law(rule, np.stack([p, p]), q[None]), 1)
    bias = total_variation(law, {(x,): mass for x, mass in enumerate(p)})
    assert bias == least_bias(Fraction(3, 10), 1 - accepted(rule, p, q)) == Fraction(3, 20)
    assert least_bias(Fraction(1, 10), Fraction(3, 10)) == 0


def test_the_cells_of_typical_acceptance():
    """Medusa's own settings, epsilon .09 and delta .3."""
    assert typical_threshold([0.5, 0.25, 0.25], 0.09, 0.3) == 0.09
    unbounded = typical_threshold([0.5, 0.25, 0.25], 1, 0.3)
    assert unbounded == pytest.approx(0.106066, abs=5e-7)
    assert typical_threshold(np.full(100, 0.01), 0.09, 0.3) == pytest.approx(0.003, rel=1e-12)
    assert typical_threshold([1.0, 0], 0.09, 0.3) == 0.09, "no entropy: delta"
    assert typical_threshold([1.0, 0], 1, 0.3) == 0.3


def test_the_swapped_defaults_are_a_trap():
    """epsilon .3 and delta .09, as in its helpers: other thresholds."""
    laws = np.array([[0.5, 0.25, 0.25], [0.6, 0.33, 0.07]])
    np.testing.assert_allclose(typical_threshold(laws, 0.3, 0.09), [0.0318, 0.0381], atol=5e-5)
    assert typical_threshold(laws, 0.09, 0.3).tolist() == [0.09, 0.09]
    assert typical_threshold(np.full(100, 0.01), 0.3, 0.09) == pytest.approx(0.0009, rel=1e-12)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=5).filter(any))
def test_the_threshold_of_fractions_is_that_of_floats_summed_in_python(counts):
    probs = [Fraction(n, sum(counts)) for n in counts]
    entropy = -sum(float(p) * log(p) for p in probs if p)
    found = typical_threshold(np.array(probs), 1, 0.3)
    assert found == pytest.approx(0.3 * exp(-entropy), rel=1e-14)


@pytest.mark.parametrize("tokens", [token_tokens, block_tokens, circulating_tokens])
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ([0.3, 0.8], r"target_probs must sum to 1 .* got 1\.1"),
        ([0.3, 0.3, 0.4], r"must have one shape .* got \(3,\) and \(2,\)"),
        ([0.5, float("nan")], "target_probs must be probabilities"),
    ],
)
def test_what_is_no_law_is_named(tokens, target, says):
    with pytest.raises(ValueError, match=says):
        tokens(lambda prefix: target, lambda prefix: [0.6, 0.4], 2)
