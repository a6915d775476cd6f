"""Formulas of the appendix and of later papers: printed cells, enumeration, limits."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lab import rule_laws, successors, theory
from lab.successors import (
    beam_rows,
    c_from_bytes,
    cascade_phi,
    cascade_speedup,
    cascade_tokens,
    greedy_tree_value,
    lenient_at_zero,
    next_gamma,
    one_shot_acceptance,
    speedup_from_times,
    stop_threshold,
    t5_step_weights,
    tree_value,
)

TARGET, DRAFT = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]


@pytest.mark.parametrize(
    "name",
    [
        *("beam_rows", "c_from_bytes", "cascade_phi", "cascade_speedup", "cascade_tokens"),
        *("greedy_tree_value", "lenient_at_zero", "next_gamma", "one_shot_acceptance"),
        *("speedup_from_times", "stop_threshold", "t5_step_weights", "tree_value"),
    ],
)
def test_theory_hands_on_every_formula(name):
    assert getattr(theory, name) is getattr(successors, name)


def test_theory_hands_on_rounds_whose_laws_depend_on_position_and_prefix():
    assert theory.tokens_by_position is rule_laws.tokens_by_position
    assert theory.block_tokens is rule_laws.block_tokens
    assert theory.tokens_by_position([0.8] * 5) == pytest.approx(theory.expected_tokens(0.8, 5))
    third = Fraction(1, 3)
    toy = [lambda prefix, law=law: law for law in ((third, 2 * third), (2 * third, third))]
    assert theory.block_tokens(*toy, 2) == 1 + Fraction(11, 9)  # the printed toy, its 11/9 accepted


# ---- The paper's appendix ----------------------------------------------------------------------


def test_one_shot_rejection_sampling_accepts_one_over_m():
    assert 1 / one_shot_acceptance(TARGET, DRAFT) == pytest.approx(2.5)  # M
    assert one_shot_acceptance(TARGET, DRAFT) == pytest.approx(0.4)
    assert theory.acceptance(TARGET, DRAFT) == pytest.approx(0.7)


def test_one_shot_rejection_sampling_row_by_row_and_where_a_law_is_zero():
    assert type(one_shot_acceptance(TARGET, DRAFT)) is float
    rows = one_shot_acceptance(
        [TARGET, [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], [DRAFT, [0.4, 0.1, 0.5], [0.5, 0.0, 0.5]]
    )
    assert_allclose(rows, [0.4, 0.2, 0.0])  # what the target never says does not count
    assert one_shot_acceptance([1.0, 5e-324], [0.5, 0.5]) == 0.5  # no overflow on the way


laws = st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any)


@given(laws, laws)
def test_one_shot_is_never_above_speculative_sampling(p, q):
    target, draft = np.array(p) / sum(p), np.array(q) / sum(q)
    ratios = [b * sum(p) / (a * sum(q)) for a, b in zip(p, q, strict=True) if a]
    assert one_shot_acceptance(target, draft) == pytest.approx(min(ratios))
    assert min(ratios) <= theory.acceptance(target, draft) + 1e-12


def test_beam_search_scores_w_plus_u_gamma_rows():
    assert beam_rows(2, 5, 4) == 22
    assert [beam_rows(1, 1, gamma) for gamma in range(4)] == [1, 2, 3, 4]  # a round's rows
    with pytest.raises(ValueError, match=r"draft_width=2 must be a whole number >= 3"):
        beam_rows(3, 2, 4)


def test_lenience_at_temperature_0_where_the_printed_sign_would_accept_everything():
    law = np.array([0.2, 0.5, 0.3])
    assert lenient_at_zero(law, 1).tolist() == [False, True, False]
    assert (law <= 1 * law.max()).all()  # as printed, at l = 1: no test at all
    assert lenient_at_zero(law, 0.5).tolist() == [False, True, True]
    assert lenient_at_zero(law, 0.4).tolist() == [True, True, True]
    rows = lenient_at_zero([law, law], [1, 0.5])
    assert rows.tolist() == [[False, True, False], [False, True, True]]
    for leniency in (0, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"leniency must be above 0 and at most 1"):
            lenient_at_zero(law, leniency)


@given(laws, st.sampled_from([1.0, 0.7, 0.3]), st.sampled_from([1.0, 0.7, 0.3]))
def test_more_lenience_accepts_more_and_the_argmax_always(counts, some, other):
    law = np.array(counts) / sum(counts)
    more, less = lenient_at_zero(law, min(some, other)), lenient_at_zero(law, max(some, other))
    assert (more >= less).all()
    assert less[np.argmax(law)]


# ---- What a draft costs ----------------------------------------------------------------------

T5 = {  # T5 v1.1: d_model, d_ff, layers, heads of 64; the parameters that the paper names
    "small": ((512, 1024, 8, 6), 77e6),
    "base": ((768, 2048, 12, 12), 250e6),
    "large": ((1024, 2816, 24, 16), 800e6),
    "XXL": ((4096, 10240, 24, 64), 11e9),
}
C_OF_T5 = {"small": (".0199", "0.02"), "base": (".0413", "0.04"), "large": (".1074", "0.11")}


@pytest.mark.parametrize("name", T5)
def test_a_decoding_step_reads_the_decoder_and_the_head(name):
    (d_model, d_ff, layers, heads), parameters = T5[name]
    step = t5_step_weights(d_model, d_ff, layers, heads)
    attention, mlp = 4 * d_model * 64 * heads, 3 * d_model * d_ff
    encoder, embedding = layers * (attention + mlp), 32128 * d_model
    cross_keys_and_values = layers * attention // 2
    assert step + cross_keys_and_values + encoder + embedding == pytest.approx(parameters, rel=0.03)


@pytest.mark.parametrize("name", C_OF_T5)
def test_c_of_the_papers_drafts_follows_from_layers_and_bytes(name):
    fitted, printed = C_OF_T5[name]
    sizes, whole = T5[name][0], T5["XXL"][0]
    c = c_from_bytes(t5_step_weights(*sizes) / t5_step_weights(*whole), sizes[2] / whole[2], 0.0415)
    assert f"{c:.4f}".lstrip("0") == fitted
    assert f"{c:.2f}" == printed  # Table 4


def test_c_lies_between_the_ratio_of_bytes_and_that_of_layers():
    assert c_from_bytes(0.3, 0.7, 0) == 0.3
    assert_allclose(c_from_bytes(0.3, 0.7, [1, 3]), [0.5, 0.6])
    assert c_from_bytes(0.3, 0.7, 1e9) == pytest.approx(0.7)
    with pytest.raises(ValueError, match="layer_time must be finite and at least 0, got -1"):
        c_from_bytes(0.3, 0.7, -1)
    with pytest.raises(ValueError, match=r"n_layers=0 must be a whole number >= 1"):
        t5_step_weights(512, 1024, 0, 6)


def test_the_general_form_is_theorem_3_8_where_verification_is_free():
    for alpha, gamma, c in ((0.8, 5, 0.05), (0.6, 2, 0.2), (0.9, 0, 0.1)):
        tokens = theory.expected_tokens(alpha, gamma)
        speed = speedup_from_times(tokens, gamma, 14.1 * c, 14.1, 14.1)
        assert speed == pytest.approx(theory.walltime_speedup(alpha, gamma, c), rel=1e-14)
    verify = theory.walltime_speedup(0.8, 5, 0.05, 1.3)
    assert speedup_from_times(theory.expected_tokens(0.8, 5), 5, 0.05, 1.3, 1) == pytest.approx(
        verify, rel=1e-14
    )


def test_the_general_form_on_rows_of_magicdec():
    # Omega, γ, γ T_D, T_V, T_AR of three rows, and the speed-up printed there from T_AR / T_SD
    rows = np.array(
        [
            (3.00, 3, 44.11, 45.12, 36.62),
            (2.53, 2, 29.06, 42.02, 35.13),
            (3.14, 3, 58.33, 74.85, 62.92),
        ]
    ).T
    tokens, gammas, drafting, verify, target = rows
    predicted = speedup_from_times(tokens, gammas, drafting / gammas, verify, target)
    assert predicted.shape == (3,)
    assert (
        (predicted / [1.21, 1.22, 1.46] - 1 > 0.005) & (predicted / [1.21, 1.22, 1.46] < 1.07)
    ).all()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0.5, 2, 1, 1, 1), r"tokens must be at least 1, got 0\.5"),
        ((3.5, 2, 1, 1, 1), r"tokens=3\.5 must be at most gamma \+ 1, gamma=2"),
        ((2, 2, -1, 1, 1), "draft_time must be finite and at least 0"),
        ((2, 2, 1, 0, 1), "verify_time must be finite and above 0"),
        ((2, 2, 1, 1, math.inf), "target_time must be finite and above 0"),
        ((2, math.inf, 1, 1, 1), "gamma must be an integer"),
    ],
)
def test_times_that_cannot_be(arguments, says):
    with pytest.raises(ValueError, match=says):
        speedup_from_times(*arguments)


# ---- How far to draft ------------------------------------------------------------------------


def best_stop(acceptances, draft_cost, target_cost):
    """SpecDec++'s decision process backwards from the last candidate: the cost of stopping and of
    drafting on after each. A draft is wasted where one is wrong already, a call where none is."""
    survival = np.cumprod(acceptances)
    stopping = target_cost * survival
    best = stopping[-1]
    drafting_on = np.full(len(survival), math.inf)
    for k in range(len(survival) - 2, -1, -1):
        drafting_on[k] = draft_cost * (1 - survival[k]) + best
        best = min(stopping[k], drafting_on[k])
    return stopping, drafting_on, 1 - survival


@pytest.mark.parametrize("seed", range(5))
def test_specdec_plus_plus_stops_where_drafting_on_cannot_pay(seed):
    rng = np.random.default_rng([83, seed])
    acceptances = rng.uniform(0.5, 1, 30)
    stopping, drafting_on, rejected = best_stop(acceptances, 0.1, 1.0)
    beyond = rejected >= stop_threshold(0.1, 1.0)
    assert 0 < beyond.sum() < len(beyond)
    assert (stopping <= drafting_on)[beyond].all()
    assert not (stopping <= drafting_on)[rejected >= 0.1 / 1.1].all()  # the letters swapped


def test_specdec_plus_plus_threshold():
    assert stop_threshold(1, 3) == 0.75
    assert stop_threshold(1, 3, 4) == 0.875
    assert_allclose(stop_threshold([1, 2], [1, 6]), [0.5, 0.75])
    rejected = stop_threshold(0.165, 1, 0.7)  # where both mistakes cost the same
    assert 0.165 * rejected == pytest.approx((1 + 0.7) * (1 - rejected))
    with pytest.raises(ValueError, match="draft_cost must be finite and above 0, got 0"):
        stop_threshold(0, 1)
    with pytest.raises(ValueError, match="delta must be finite and at least 0"):
        stop_threshold(1, 1, -0.1)


def test_hugging_faces_heuristic():
    gamma, seen = 5, []
    for matches in (5, 7, 3, 2):
        gamma = next_gamma(gamma, matches)
        seen.append(gamma)
    assert seen == [7, 9, 8, 7]
    assert next_gamma(1, 0) == 1
    with pytest.raises(ValueError, match=r"accepted=6 must be a whole number within 0\.\.5"):
        next_gamma(5, 6)
    with pytest.raises(ValueError, match="gamma=0"):
        next_gamma(0, 0)


# ---- A draft that has a draft -----------------------------------------------------------------


def inner_tokens(b, k):
    """Law of the tokens of one inner round: b^(n-1) (1 - b) for n <= k, the rest at k + 1."""
    return {n: b ** (n - 1) * (1 - b) for n in range(1, k + 1)} | {k + 1: b**k}


def enumerated_cascade(a, b, k, n):
    """φ and tokens per call: every outcome of n inner rounds, then eq. (1) at their sum."""
    law = inner_tokens(b, k)
    phi = sum(chance * a**tokens for tokens, chance in law.items())
    tokens = sum(
        math.prod(law[x] for x in outcome) * sum(a**i for i in range(sum(outcome) + 1))
        for outcome in product(law, repeat=n)
    )
    return phi, tokens


def test_the_cascades_cell():
    assert f"{cascade_phi(0.8, 0.6, 2):.5f}" == "0.65792"
    assert f"{cascade_tokens(0.8, 0.6, 2, 2):.6f}" == "3.268565"
    assert f"{cascade_speedup(0.8, 0.6, 2, 2, 0.1, 0.01):.6f}" == "2.635940"
    assert f"{theory.best_gamma(0.8, 0.1)[1]:.5f}" == "2.46964"  # the draft without its own


@pytest.mark.parametrize("a", ["4/5", "1", "0", "1/3"])
@pytest.mark.parametrize("b", ["3/5", "1", "0"])
def test_cascades_by_enumeration(a, b):
    for k, n in ((2, 2), (3, 1), (1, 3), (0, 2), (2, 0)):
        phi, tokens = enumerated_cascade(Fraction(a), Fraction(b), k, n)
        given = float(Fraction(a)), float(Fraction(b)), k
        assert cascade_phi(*given) == pytest.approx(float(phi), abs=1e-15)
        assert cascade_tokens(*given, n) == pytest.approx(float(tokens), rel=1e-14)


def test_a_cascade_without_an_inner_draft_is_speculative_decoding():
    alphas = np.array([0.0, 0.5, 0.8, 1.0])
    assert_allclose(cascade_tokens(alphas, 0.4, 0, 5), theory.expected_tokens(alphas, 5))
    assert_allclose(
        cascade_speedup(alphas, 0.4, 0, 5, 0.1, 0.01), theory.walltime_speedup(alphas, 5, 0.1)
    )
    assert type(cascade_tokens(0.5, 0.4, 1, 0)) is float
    with pytest.raises(ValueError, match=r"inner_alpha must be in \[0, 1\], got 1.2"):
        cascade_tokens(0.5, 1.2, 1, 1)
    with pytest.raises(ValueError, match="inner_rounds=-1"):
        cascade_speedup(0.5, 0.2, 1, -1, 0.1, 0.1)


# ---- Trees -----------------------------------------------------------------------------------

SEQUOIA = (Fraction(6, 10), Fraction(2, 10), Fraction(1, 10))


def forests(ranks, nodes, depth):
    """Values of all ordered forests of exactly `nodes` nodes whose roots are children of `ranks`,
    in order, all of them used or the last ones left out."""
    if nodes == 0:
        return [0]
    if not ranks or depth == 0:
        return []
    first, *others = ranks
    return [
        first * (1 + below) + beside
        for size in range(1, nodes + 1)
        for below in forests(SEQUOIA, size - 1, depth - 1)
        for beside in forests(others, nodes - size, depth)
    ]


def test_sequoias_tree_values():
    cells = (1, 1.6, 1.96, 2.176, 2.376, 2.5056, 2.6256, 2.7456, 2.8456, 2.92336)
    exact = [Fraction(str(cell)) for cell in cells]
    assert [tree_value(SEQUOIA, n) for n in range(1, 11)] == exact
    assert tree_value((0.6, 0.2, 0.1), 10) == pytest.approx(2.92336, rel=1e-14)


@pytest.mark.parametrize("nodes", range(1, 8))
@pytest.mark.parametrize("depth", [1, 2, 3, None])
def test_no_tree_is_worth_more(nodes, depth):
    below = nodes if depth is None else depth - 1
    every = [1 + max(forests(SEQUOIA, n - 1, below), default=0) for n in range(1, nodes + 1)]
    assert tree_value(SEQUOIA, nodes, depth) == max(every)


def test_the_largest_path_products_are_the_best_tree():
    for nodes in range(1, 26):
        assert tree_value(SEQUOIA, nodes) == greedy_tree_value(SEQUOIA, nodes)
    for nodes, depth in product((3, 8, 14), (1, 2, 3, 5)):
        assert tree_value(SEQUOIA, nodes, depth) == greedy_tree_value(SEQUOIA, nodes, depth)


def test_trees_of_one_child_are_chains():
    for value in (tree_value, greedy_tree_value):
        assert value([0.7], 6) == pytest.approx(theory.expected_tokens(0.7, 5))
        assert value([0.7], 6, depth=3) == pytest.approx(theory.expected_tokens(0.7, 2))
        assert value([], 6) == value([0.0], 6) == 1
        bound = 1 / (1 - 0.6 - 0.3)  # the whole infinite binary tree
        assert bound - 5.5 < value([0.6, 0.3], 60) < bound


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([0.2, 0.6], 3), r"positional=\[0\.2, 0\.6\] must be one row, never rising"),
        (([0.7, 0.6], 3), "of sum at most 1"),
        (([1.2], 3), r"positional must be in \[0, 1\], got 1.2"),
        (([[0.5]], 3), "must be one row"),
        (([0.5], 0), "nodes=0 must be a whole number >= 1"),
        (([0.5], 3, 0), "depth=0 must be a whole number >= 1"),
    ],
)
def test_trees_that_cannot_be(arguments, says):
    for value in (tree_value, greedy_tree_value):
        with pytest.raises(ValueError, match=says):
            value(*arguments)
