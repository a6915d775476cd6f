"""The formulas against printed values, exact fractions and brute force."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lab import optimum
from lab.theory import (
    acceptance,
    accepted_law,
    alpha_from_expected_tokens,
    best_gamma,
    break_even_c,
    conditional_acceptance,
    divergence_lk,
    expected_tokens,
    improvement_bound,
    ops_factor,
    ops_factor_with_catch_up,
    oracle_gain,
    oracle_speedup,
    speedup_limit,
    walltime_speedup,
)

INF = math.inf
FIX_A = ([0.50, 0.25, 0.15, 0.10], [0.25, 0.45, 0.05, 0.25])


def exact_tokens(alpha, gamma):
    """Eq. (1) as the sum of powers it comes from, in rational arithmetic."""
    alpha = Fraction(alpha)
    power, total = Fraction(1), Fraction(0)
    for _ in range(gamma + 1):
        total += power
        power *= alpha
    return total


def brute_best(alpha, c, v=lambda gamma: 1.0, last=2000):
    """Best gamma <= last by trying them all; the smallest within 1e-12 of the maximum."""
    gammas = np.arange(1, last + 1)
    tokens = np.cumsum(float(alpha) ** np.arange(last + 1))[1:]
    verify = np.array([v(int(gamma)) for gamma in gammas])
    speeds = np.concatenate([[1.0], tokens / (gammas * c + verify)])
    if speeds.max() <= 1 + 1e-12:
        return 0, 1.0
    gamma = int(np.argmax(speeds >= speeds.max() * (1 - 1e-12)))
    return gamma, float(speeds[gamma])


# ---- One position ----------------------------------------------------------------------------


def test_acceptance_and_divergence_of_a_small_pair():
    target, draft = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    assert acceptance(target, draft) == pytest.approx(0.7, abs=1e-15)
    assert divergence_lk(target, draft) == pytest.approx(0.3, abs=1e-15)


def test_d1_d6_acceptance_is_sum_min_not_sum_of_products():
    assert acceptance(*FIX_A) == pytest.approx(0.65, abs=1e-15)
    assert np.dot(*FIX_A) == pytest.approx(0.27)  # what exact-match verification accepts


def test_m17_alpha_is_the_mean_of_sum_min_and_one_minus_total_variation():
    rng = np.random.default_rng([17, 0])
    target, draft = rng.dirichlet(np.ones(7), size=(2, 30))
    beta = acceptance(target, draft)
    assert beta.shape == (30,)
    total_variation = np.abs(target - draft).sum(axis=-1) / 2
    assert beta.mean() == pytest.approx(1 - total_variation.mean(), abs=1e-14)
    # Def 3.2 as the largest difference over all events: another road to total variation
    events = ((np.arange(2**7)[:, None] >> np.arange(7)) & 1).astype(float)  # (128, 7)
    largest = np.abs((target - draft) @ events.T).max(axis=-1)
    assert_allclose(divergence_lk(target, draft), largest, atol=1e-14)


def test_acceptance_of_a_random_draft_against_a_one_hot_target():
    one_hot = np.zeros(32000)
    one_hot[5] = 1
    assert acceptance(one_hot, np.full(32000, 1 / 32000)) == pytest.approx(3.125e-5, rel=1e-12)


laws = st.lists(st.integers(0, 1000), min_size=4, max_size=4).filter(any)


@given(laws, laws)
def test_corollary_3_4_divergence_is_symmetric_in_range_and_zero_only_for_equal_laws(p, q):
    target, draft = np.array(p) / sum(p), np.array(q) / sum(q)
    divergence = divergence_lk(target, draft)
    assert divergence == pytest.approx(divergence_lk(draft, target), abs=1e-15)
    assert 0 <= divergence <= 1
    assert acceptance(target, draft) == pytest.approx(1 - divergence, abs=1e-14)  # Lemma 3.3
    same = all(a * sum(q) == b * sum(p) for a, b in zip(p, q, strict=True))
    disjoint = all(a * b == 0 for a, b in zip(p, q, strict=True))
    assert (divergence < 1e-15) == same
    assert (divergence > 1 - 1e-15) == disjoint


def test_acceptance_of_a_law_with_itself_never_passes_one():
    rng = np.random.default_rng([1, 0])
    law = rng.dirichlet(np.ones(50), size=200)
    beta = acceptance(law, law)
    assert beta.max() <= 1
    expected_tokens(beta, 4)  # an alpha of 1.0000000000000002 would be refused


def test_acceptance_takes_float32_laws_and_answers_in_float64():
    law = np.random.default_rng([1, 1]).dirichlet(np.ones(9), size=3).astype(np.float32)
    assert acceptance(law, law[::-1]).dtype == np.float64


def test_m11_per_position_rates_are_cumulative():
    survival = [0.805, 0.632, 0.483]
    assert_allclose(conditional_acceptance(survival), [0.805, 0.785, 0.764], atol=5e-4)
    assert 1 + sum(survival) == pytest.approx(2.92)
    # equal acceptance at every position: survival falls, the conditional rate does not
    assert_allclose(conditional_acceptance(0.8 ** np.arange(1, 6)), np.full(5, 0.8))
    assert 1 + (0.8 ** np.arange(1, 6)).sum() == pytest.approx(expected_tokens(0.8, 5))


def test_conditional_acceptance_where_nothing_arrives():
    rates = conditional_acceptance([[0.5, 0.0, 0.0], [1.0, 1.0, 0.5]])
    assert_allclose(rates, [[0.5, 0.0, np.nan], [1.0, 1.0, 0.5]])


# ---- One round: tokens per target run ----------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.55, 0.70, 0.80, 0.90, 0.95])
@pytest.mark.parametrize("gamma", [1, 3, 5, 7, 10])
def test_lesson_a7_tokens_per_verify(alpha, gamma):
    assert expected_tokens(alpha, gamma) == pytest.approx(
        float(exact_tokens(alpha, gamma)), rel=1e-14
    )


def test_lesson_claim_tokens_are_not_one_plus_k_alpha():
    assert expected_tokens(0.7, 5) == pytest.approx(2.94, abs=5e-3)
    assert 1 + 5 * 0.7 == 4.5


FIGURE_2_AND_4 = {  # gamma: (tokens = speed, operations) at alpha = .5, then at alpha = .899
    1: ((1.500, 1.333), (1.899, 1.053)),
    3: ((1.875, 2.133), (3.434, 1.165)),
    5: ((1.969, 3.048), (4.674, 1.284)),
    7: ((1.992, 4.016), (5.677, 1.409)),
    10: ((1.999, 5.503), (6.832, 1.610)),
}


@pytest.mark.parametrize("gamma", FIGURE_2_AND_4)
def test_figures_2_and_4_end_points(gamma):
    for alpha, (tokens, ops) in zip((0.5, 0.899), FIGURE_2_AND_4[gamma], strict=True):
        assert expected_tokens(alpha, gamma) == pytest.approx(tokens, abs=1e-3)
        assert walltime_speedup(alpha, gamma, 0) == pytest.approx(tokens, abs=1e-3)
        assert ops_factor(alpha, gamma, 0) == pytest.approx(ops, abs=1e-3)


def test_expected_tokens_at_the_ends():
    assert_allclose(expected_tokens(1, [0, 1, 7]), [1, 2, 8], rtol=0)
    assert_allclose(expected_tokens(0, [0, 1, 7, INF]), 1, rtol=0)
    assert_allclose(expected_tokens([0.5, 0.9, 1], INF), [2, 10, INF], rtol=1e-15)
    assert_allclose(expected_tokens(np.linspace(0, 1, 11), 0), 1, rtol=0)


@pytest.mark.parametrize("distance", [2.0**-53, 2.0**-40, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("gamma", [1, 2, 10, 400])
def test_expected_tokens_keep_their_digits_near_alpha_one(distance, gamma):
    alpha = 1 - distance
    exact = float(exact_tokens(alpha, gamma))
    assert expected_tokens(alpha, gamma) == pytest.approx(exact, rel=4e-15)
    assert optimum._tokens(alpha, gamma) == pytest.approx(exact, rel=4e-15)


@given(st.floats(0, 1), st.integers(1, 60))
def test_expected_tokens_obey_their_recursion_and_bounds(alpha, gamma):
    tokens = expected_tokens(alpha, gamma)
    assert tokens == pytest.approx(1 + alpha * expected_tokens(alpha, gamma - 1), rel=1e-13)
    assert tokens >= expected_tokens(alpha, gamma - 1) * (1 - 1e-15)
    assert tokens <= min(gamma + 1, expected_tokens(alpha, INF)) * (1 + 1e-14)


def test_accepted_law_of_a_small_case():
    law = accepted_law(0.8, 5)
    assert_allclose(law, [0.2, 0.16, 0.128, 0.1024, 0.08192, 0.32768], atol=1e-15)
    k = np.arange(6)
    mean = law @ k
    assert 1 + mean == pytest.approx(3.68928, abs=1e-12)
    assert law @ (k - mean) ** 2 == pytest.approx(3.864093, abs=5e-7)


@given(st.floats(0, 1), st.integers(0, 40))
def test_accepted_law_sums_to_one_and_its_mean_is_eq_1(alpha, gamma):
    law = accepted_law(alpha, gamma)
    assert law.shape == (gamma + 1,)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert 1 + law @ np.arange(gamma + 1) == pytest.approx(expected_tokens(alpha, gamma), rel=1e-12)


def test_accepted_law_of_many_alphas():
    alphas = np.array([[0.0, 0.3], [0.9, 1.0]])
    law = accepted_law(alphas, 3)
    assert law.shape == (2, 2, 4)
    assert_allclose(law[0, 0], [1, 0, 0, 0])
    assert_allclose(law[1, 1], [0, 0, 0, 1])
    assert_allclose(law[1, 0], accepted_law(0.9, 3))


def test_m3_accepted_share_is_neither_alpha_nor_tokens_over_rows():
    share = break_even_c(0.8, 5)
    assert share == pytest.approx(0.537856, abs=1e-12)
    assert share == pytest.approx(accepted_law(0.8, 5) @ np.arange(6) / 5)  # accepted / drafted
    assert expected_tokens(0.8, 5) / 6 == pytest.approx(0.61488)  # (accepted + 1) / (drafted + 1)


def test_m4_tokens_per_call_are_the_accepted_mean_plus_the_bonus():
    accepted = np.array([5, 2, 0, 5, 1])
    assert accepted.mean() == 2.6
    alpha = alpha_from_expected_tokens(accepted.mean() + 1, 5)
    assert accepted_law(alpha, 5) @ np.arange(6) == pytest.approx(2.6)
    assert expected_tokens(alpha, 5) == pytest.approx(3.6)


def test_m9_alpha_from_a_speedup_inverts_eq_1():
    wrong = {(0.8, 5, 0): 0.5379, (0.8, 5, 0.05): 0.3903, (0.6, 4, 0.1): 0.1617}
    wrong[0.9, 10, 0.02] = 0.4718
    for (alpha, gamma, c), share in wrong.items():
        speed = walltime_speedup(alpha, gamma, c)
        assert (speed - 1) / gamma == pytest.approx(share, abs=5e-5)
        recovered = alpha_from_expected_tokens(speed * (gamma * c + 1), gamma)
        assert recovered == pytest.approx(alpha, abs=1e-14)


def test_m10_full_acceptance_is_alpha_one_and_the_short_formula_needs_endless_drafts():
    assert alpha_from_expected_tokens(5, 4) == 1.0
    assert alpha_from_expected_tokens(5, INF) == pytest.approx(0.8, abs=1e-15)  # 1 - 1 / (1 + 4)
    assert alpha_from_expected_tokens(3.6, INF) == pytest.approx(0.7222, abs=5e-5)


def test_m15_each_draft_has_its_own_expectation():
    assert_allclose(
        expected_tokens([0.797781, 0.932451, 0.980200], 5), [3.6702, 5.0735, 5.7107], atol=6e-5
    )
    assert expected_tokens(0.95, 5) == pytest.approx(5.298, abs=5e-4)  # no draft's alpha


def test_m16_the_closed_form_of_a_page_is_wrong_at_every_end():
    for alpha, page, right in ((0.8, 2.5, 3.689), (1, 5, 6), (0, 0.83, 1)):
        assert 5 / (1 + 5 * (1 - alpha)) == pytest.approx(page, abs=5e-3)
        assert walltime_speedup(alpha, 5, 0) == pytest.approx(right, abs=5e-4)


@given(st.floats(0, 1), st.one_of(st.integers(1, 40), st.just(INF)))
def test_alpha_from_expected_tokens_is_the_inverse(alpha, gamma):
    if gamma == INF:
        alpha = min(alpha, 0.99)
    tokens = expected_tokens(alpha, gamma)
    recovered = alpha_from_expected_tokens(min(tokens, gamma + 1), gamma)
    assert recovered == pytest.approx(alpha, abs=1e-12)


def test_alpha_from_expected_tokens_at_the_ends():
    assert_allclose(alpha_from_expected_tokens([1, 4], 3), [0, 1], rtol=0)
    assert_allclose(alpha_from_expected_tokens([1, INF], INF), [0, 1], rtol=0)


# ---- What a round costs, and what it gains -------------------------------------------------------


def test_t1_gamma_not_alpha_stands_in_the_denominator():
    assert walltime_speedup(0.44, 5, 0.11) == pytest.approx(1.1437, abs=5e-5)
    assert expected_tokens(0.44, 5) / (0.44 * 0.11 + 1) == pytest.approx(1.691, abs=5e-4)  # WRONG


@pytest.mark.parametrize(
    ("extra", "gamma", "speed"), [(0.0, 8, 3.092), (0.04, 6, 2.566), (0.24, 3, 1.579)]
)
def test_t2_verification_is_not_free(extra, gamma, speed):
    assert best_gamma(0.8, 0.05, lambda g: 1 + extra * g) == (
        gamma,
        pytest.approx(speed, abs=5e-4),
    )


def test_t2_the_papers_gamma_loses_where_rows_cost():
    assert walltime_speedup(0.8, 8, 0.05, lambda g: 1 + 0.24 * g) == pytest.approx(1.304, abs=5e-4)


def test_t4_more_accepted_tokens_can_be_slower():
    assert expected_tokens(0.75, 5) == pytest.approx(3.288, abs=5e-4)
    assert walltime_speedup(0.75, 5, 0.05) == pytest.approx(2.630, abs=5e-4)
    assert expected_tokens(0.85, 5) == pytest.approx(4.152, abs=5e-4)
    assert walltime_speedup(0.85, 5, 0.4) == pytest.approx(1.384, abs=5e-4)


def test_t5_a_draft_of_the_targets_size_gains_nothing():
    assert walltime_speedup(0.95, 4, 0.9) == pytest.approx(0.984, abs=5e-4)
    assert best_gamma(0.95, 0.9) == (1, pytest.approx(1.026, abs=5e-4))


def test_t6_perfect_draft_at_half_the_time():
    assert_allclose(walltime_speedup(1, [1, 2, 4], 0.5), [1.333, 1.5, 1.667], atol=5e-4)


def test_t10_gamma_zero_is_plain_decoding_at_any_cost():
    assert walltime_speedup(0.7, 0, 0.3, verify_cost=5) == 1.0
    assert walltime_speedup(0.7, 0, 0.3, verify_cost=lambda g: 1 / 0) == 1.0  # v(0) is not asked
    assert ops_factor(0.7, 0, 0.3) == 1.0


def test_t11_operations_count_the_draft():
    assert ops_factor(0.8, 5, 0) == pytest.approx(1.626, abs=5e-4)
    assert ops_factor(0.7, 8, 0) == pytest.approx(2.814, abs=5e-4)
    assert ops_factor(0.7, 8, 0.75) == pytest.approx(4.689, abs=5e-4)
    assert ops_factor(0.8, 5, 0.1) == pytest.approx(1.761861, abs=5e-7)
    assert ops_factor(0.7, 3, 0.02) == pytest.approx(1.602842, abs=5e-7)


def test_break_even_c():
    cells = {(0.6, 2): 0.48, (0.7, 4): 0.443275, (0.8, 5): 0.537856, (0.9, 10): 0.586189}
    for (alpha, gamma), c in cells.items():
        assert break_even_c(alpha, gamma) == pytest.approx(c, abs=5e-7)
        assert walltime_speedup(alpha, gamma, break_even_c(alpha, gamma)) == pytest.approx(1)
    assert break_even_c(0.6, 1) == 0.6  # one draft pays exactly where alpha > c


@pytest.mark.parametrize(
    ("alpha", "c", "bound"),
    [(0.6, 0.5, 1.066667), (0.3, 0.2, 1.083333), (0.8, 0.05, 1.714286), (0.5, 0.5, 1.0)],
)
def test_corollary_3_9(alpha, c, bound):
    assert improvement_bound(alpha, c) == pytest.approx(bound, abs=5e-7)
    assert walltime_speedup(alpha, 1, c) == pytest.approx(bound, abs=5e-7)
    assert best_gamma(alpha, c)[1] >= bound - 5e-7


def test_bigram_of_section_3_6():
    assert walltime_speedup(0.2, 3, 0) == pytest.approx(1.248, abs=1e-12)


def test_lesson_a11_sweep_of_time_per_token():
    sweep = [0.5474, 0.3985, 0.3257, 0.2833, 0.2561, 0.2377, 0.2247, 0.2155, 0.2088, 0.2040]
    assert_allclose(1 / walltime_speedup(0.9, np.arange(1, 11), 0.04), sweep, atol=5e-5)


def test_verify_cost_by_number_array_and_callable_are_one():
    gammas = np.array([[0, 1, 5], [5, 2, 0]])
    by_call = walltime_speedup(0.8, gammas, 0.1, lambda g: 1 + g / 4)
    assert_allclose(by_call, walltime_speedup(0.8, gammas, 0.1, 1 + gammas / 4))
    assert by_call[0, 2] == pytest.approx(expected_tokens(0.8, 5) / (0.5 + 2.25))
    asked = []
    walltime_speedup(0.8, gammas, 0.1, lambda g: asked.append(g) or 1.0)
    assert asked == [1, 2, 5]
    assert all(type(g) is int for g in asked)


def test_limits_at_gamma_inf():
    assert_allclose(walltime_speedup([0, 0.5, 1], INF, 0.25), [0, 0, 4])
    assert_allclose(walltime_speedup([0, 0.5, 1], INF, 0, 2.0), [0.5, 1, INF])
    assert_allclose(ops_factor([0.5, 1], INF, 0.25), [INF, 1.25])
    far = 10**9  # the limits are those of large gammas
    assert walltime_speedup(1, far, 0.25) == pytest.approx(4, rel=1e-7)
    assert ops_factor(1, far, 0.25) == pytest.approx(1.25, rel=1e-7)


def test_floats_give_floats_and_arrays_give_arrays():
    for result in (
        acceptance(*FIX_A),
        divergence_lk(*FIX_A),
        expected_tokens(np.float32(0.5), np.int64(3)),
        walltime_speedup(0.5, 3, 0.1),
        walltime_speedup(0.5, 3, 0.1, lambda g: np.float64(1.5)),
        ops_factor(0.5, 3, 0.1),
        improvement_bound(0.5, 0.1),
        break_even_c(0.5, 3),
        alpha_from_expected_tokens(2, 3),
        speedup_limit(0.5, 0.1),
        best_gamma(0.5, 0.1, lambda g: np.float64(1.5))[1],
    ):
        assert type(result) is float
    assert type(best_gamma(0.5, 0.1)[0]) is int
    column, row = np.array([[0.5], [0.9]]), np.array([1, 2, 3])
    assert expected_tokens(column, row).shape == (2, 3)
    assert walltime_speedup(column, row, 0.1).shape == (2, 3)
    gammas, speeds = best_gamma(column, [0.01, 0.2])
    assert gammas.dtype == np.int64
    assert_allclose(gammas, [[5, 1], [24, 7]])
    assert_allclose(speeds, [[1.875, 1.25], [7.4856, 2.3731]], atol=5e-5)
    assert speedup_limit(column, 0.1).shape == (2, 1)


# ---- The best gamma ------------------------------------------------------------------------------

GRID_C = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
GRID = {
    0.5: [(5, 1.8750), (4, 1.7940), (3, 1.6304), (2, 1.4583), (1, 1.25), (0, 1.0)],
    0.6: [(7, 2.2972), (6, 2.1697), (4, 1.9213), (3, 1.6738), (2, 1.4000), (1, 1.0667)],
    0.7: [(9, 2.9717), (8, 2.7576), (6, 2.3529), (4, 1.9808), (3, 1.5831), (1, 1.1333)],
    0.8: [(14, 4.2316), (11, 3.8167), (8, 3.0921), (6, 2.4696), (4, 1.8676), (2, 1.2200)],
    0.9: [(24, 7.4856), (19, 6.3654), (13, 4.6741), (10, 3.4309), (7, 2.3731), (3, 1.3756)],
}


@pytest.mark.parametrize("alpha", GRID)
@pytest.mark.parametrize("column", range(6), ids=[f"c={c}" for c in GRID_C])
def test_grid_of_figure_3(alpha, column):
    gamma, speed = GRID[alpha][column]
    assert best_gamma(alpha, GRID_C[column]) == (gamma, pytest.approx(speed, abs=5.1e-5))


def test_ties_go_to_the_smaller_gamma():
    assert walltime_speedup(0.5, 1, 0.2) == pytest.approx(walltime_speedup(0.5, 2, 0.2), rel=1e-15)
    assert best_gamma(0.5, 0.2) == (1, pytest.approx(1.25, rel=1e-15))
    assert best_gamma(0.5, 0.2, lambda g: 1.0) == (1, pytest.approx(1.25, rel=1e-15))
    assert best_gamma(0.5, 0.5) == (0, 1.0)
    assert best_gamma(0.7, 0.05)[0] == 6  # beats 5 by 1.7e-6, which is no tie
    assert best_gamma(0.75, 0.05)[0] == 7
    # all gammas from 39 on are within 1e-12 of the limit 2
    assert best_gamma(0.5, 1e-300)[0] == brute_best(0.5, 0, last=200)[0] == 39
    flat = brute_best(0.5, 1e-15, last=200)[0]
    assert best_gamma(0.5, 1e-15)[0] == best_gamma(0.5, 1e-15, lambda g: 1.0)[0] == flat


@pytest.mark.parametrize(
    ("alpha", "gamma", "speed"),
    [(0.55, 4, 1.819), (0.70, 6, 2.467), (0.80, 9, 3.282), (0.90, 15, 5.092), (0.95, 23, 7.375)],
)
def test_lesson_a8_optimum_beyond_the_grid(alpha, gamma, speed):
    assert best_gamma(alpha, 0.04) == (gamma, pytest.approx(speed, abs=5e-4))
    for drafts in (1, 3, 5, 7, 10):  # the table itself: time per token (1 + N c) / E
        time = (1 + drafts * Fraction("0.04")) / exact_tokens(Fraction(str(alpha)), drafts)
        assert 1 / walltime_speedup(alpha, drafts, 0.04) == pytest.approx(float(time), rel=1e-13)
        assert 1 / time <= Fraction(speed) + Fraction("0.0005")


def test_lesson_claims_about_the_optimum_are_wrong():
    assert best_gamma(0.8, 0.05) == (8, pytest.approx(3.092, abs=5e-4))  # "3.2x"
    assert best_gamma(0.95, 0.02) == (31, pytest.approx(9.95, abs=5e-3))  # "8 to 10, 5x"


TABLE_4_OPTIMA = [  # alpha, c, the gamma run, speed there, best gamma, speed there
    (0.75, 0.02, 7, 3.1575, 9, 3.199),
    (0.80, 0.04, 7, 3.2509, 9, 3.282),
    (0.82, 0.11, 7, 2.4971, 6, 2.512),
    (0.62, 0.02, 7, 2.2580, 6, 2.267),
    (0.68, 0.04, 5, 2.3467, 6, 2.351),
    (0.71, 0.11, 3, 1.9338, 4, 1.963),
    (0.65, 0.02, 5, 2.4015, 7, 2.426),
    (0.73, 0.04, 5, 2.6193, 7, 2.660),
    (0.74, 0.11, 3, 2.0247, 4, 2.078),
    (0.53, 0.02, 5, 1.8914, 5, 1.891),
    (0.55, 0.04, 3, 1.8026, 4, 1.819),
    (0.56, 0.11, 3, 1.5408, 3, 1.541),
]


@pytest.mark.parametrize(("alpha", "c", "run", "speed", "gamma", "top"), TABLE_4_OPTIMA)
def test_formula_and_optimum_at_the_pairs_of_table_4(alpha, c, run, speed, gamma, top):
    assert walltime_speedup(alpha, run, c) == pytest.approx(speed, abs=5.1e-5)
    assert best_gamma(alpha, c) == (gamma, pytest.approx(top, abs=5.1e-4))


@pytest.mark.parametrize(
    ("c", "gain"), [(0.01, 1.226), (0.02, 1.331), (0.05, 1.475), (0.1, 1.534), (0.2, 1.505)]
)
def test_oracle_gain_of_section_3_5(c, gain):
    oracle = 1 / (1 - 0.9 + c * 0.9)  # drafts exactly what will be accepted, alpha / (1 - alpha)
    assert oracle / best_gamma(0.9, c)[1] == pytest.approx(gain, abs=5e-4)


@pytest.mark.parametrize(
    ("alpha", "c", "gamma"), [(0.95, 0.01, 40), (0.999, 0.001, 1144), (0.999999, 1e-6, 1146190)]
)
def test_far_optima(alpha, c, gamma):
    assert best_gamma(alpha, c)[0] == gamma
    gammas = np.arange(1.0, 3 * gamma)
    speeds = (1 - alpha ** (gammas + 1)) / (1 - alpha) / (gammas * c + 1)
    assert best_gamma(alpha, c)[1] == pytest.approx(speeds.max(), rel=1e-9)
    assert abs(int(gammas[speeds.argmax()]) - gamma) <= gamma * 1e-5  # plain powers are blunter


def test_search_with_a_callable_reaches_far_optima():
    assert best_gamma(0.999, 0.001, lambda g: 1.0) == best_gamma(0.999, 0.001)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.3, 0.5, 0.77, 0.9, 1.0])
def test_alpha_zero_and_alpha_equal_c_never_pay(alpha):
    assert best_gamma(0, alpha) == (0, 1.0)
    assert best_gamma(alpha, alpha) == (0, 1.0)
    assert best_gamma(alpha, 1.5) == (0, 1.0)
    assert best_gamma(alpha, max(alpha, 0.01), lambda g: 1 + 0.1 * g) == (0, 1.0)


def test_w2_not_worthwhile():
    assert best_gamma(0.4, 0.5) == (0, 1.0)


@pytest.mark.parametrize(
    ("alpha", "c", "verify_cost", "limit"),
    [
        (1, 0.5, 1.0, "2"),
        (1, 0, 1.0, "inf"),
        (0.75, 0, 1.0, "4"),
        (0.75, 0, 2.0, "2"),
        (1, 0.5, lambda g: 1.0, "2"),
        (0.75, 0, lambda g: 1 + 0.1 * g, "4"),
    ],
)
def test_speed_without_end_is_an_error_that_names_limit_and_cap(alpha, c, verify_cost, limit):
    with pytest.raises(ValueError, match=rf"alpha=.*up.* {limit}\b.*max_gamma"):
        best_gamma(alpha, c, verify_cost)
    assert best_gamma(alpha, c, verify_cost, max_gamma=4)[0] in (3, 4)


def test_speed_that_grows_but_never_wins_is_no_error():
    assert best_gamma(0.5, 0, 2.0) == (0, 1.0)  # towards 1 / ((1 - alpha) v) = 1
    assert best_gamma(0, 0) == (0, 1.0)
    assert best_gamma(1, 1) == (0, 1.0)
    assert best_gamma(1, 2, 3.0) == (0, 1.0)
    assert best_gamma(0.5, 0, lambda g: 2.0 + g, least_verify_cost=2.0) == (0, 1.0)


def test_alpha_one_where_drafts_cost_more_than_verification():
    assert best_gamma(1, 0.9, 0.5) == (1, pytest.approx(2 / 1.4))
    assert best_gamma(1, 0.5, 0.5) == (1, pytest.approx(2))  # 1 / c at every gamma: a tie
    assert best_gamma(0, 0, 0.8) == (1, 1.25)  # two rows cheaper than one: by the formula, a gain


def test_max_gamma_is_the_callers_own_cap():
    assert best_gamma(0.9, 0.01, max_gamma=24) == best_gamma(0.9, 0.01)
    assert best_gamma(0.9, 0.01, max_gamma=8) == (8, walltime_speedup(0.9, 8, 0.01))
    assert best_gamma(0.9, 0.01, max_gamma=0) == (0, 1.0)
    assert best_gamma(1, 0, max_gamma=np.int64(7)) == (7, 8.0)
    assert best_gamma(0.5, 0.2, lambda g: 1.0, max_gamma=2)[0] == 1


def test_callable_cost_is_never_asked_beyond_the_cap():
    table = {1: 1.0, 2: 1.1, 3: 1.3}
    assert best_gamma(0.9, 0.05, table.__getitem__, max_gamma=3)[0] == 3


def test_search_stops_where_nothing_can_win():
    asked = []
    best_gamma(0.8, 0.05, lambda g: asked.append(g) or 1 + 0.24 * g)
    assert asked == list(range(1, len(asked) + 1))
    assert len(asked) <= (1 / (0.2 * 1.5786) - 1) / 0.05 + 1  # where the design's bound stops


def test_a_late_drop_of_the_verify_cost_is_found():
    def cost(gamma):
        return 1.0 if gamma == 60 else 3.0

    gamma, speed = brute_best(0.95, 0.02, cost)
    assert gamma == 60
    assert best_gamma(0.95, 0.02, cost) == (60, pytest.approx(speed, rel=1e-14))
    assert best_gamma(0.95, 0.02, cost, max_gamma=59)[0] == best_gamma(0.95, 0.02, 3.0)[0]


def test_verify_cost_below_its_declared_least_is_an_error():
    with pytest.raises(ValueError, match=r"least_verify_cost=1\.0 .*verify_cost\(2\)=0\.97"):
        best_gamma(0.8, 0.05, lambda g: 1.0 if g == 1 else 0.97)
    gamma, _ = best_gamma(0.8, 0.05, lambda g: 0.97, least_verify_cost=0.9)
    assert gamma == best_gamma(0.8, 0.05, 0.97)[0]


def test_a_search_that_will_not_end_says_so(monkeypatch):
    monkeypatch.setattr(optimum, "SEARCH_LIMIT", 500)
    with pytest.raises(ValueError, match=r"search .* cannot stop.*max_gamma"):
        best_gamma(0.9999, 1e-4, lambda g: 1.0 + g)


@settings(max_examples=300)
@given(st.floats(0, 0.97), st.floats(0.002, 1.2), st.floats(0.5, 3))
def test_best_gamma_equals_brute_force(alpha, c, v):
    gamma, speed = best_gamma(alpha, c, v)
    _, brute_speed = brute_best(alpha, c, lambda g: v, last=700)
    assert speed == pytest.approx(brute_speed, rel=3e-12)  # the gammas: below, where none tie
    assert speed == pytest.approx(walltime_speedup(alpha, gamma, c, v), rel=1e-14)


@settings(max_examples=150)
@given(
    st.floats(0, 0.9),
    st.floats(0.01, 1),
    st.lists(st.floats(0.8, 4), min_size=1, max_size=12),
    st.one_of(st.none(), st.integers(0, 30)),
)
def test_best_gamma_of_a_callable_equals_brute_force(alpha, c, costs, cap):
    def cost(gamma):
        return costs[gamma % len(costs)]

    gamma, speed = best_gamma(alpha, c, cost, least_verify_cost=0.8, max_gamma=cap)
    _, brute_speed = brute_best(alpha, c, cost, last=2000 if cap is None else cap)
    assert speed == pytest.approx(brute_speed, rel=3e-12)
    assert speed == pytest.approx(walltime_speedup(alpha, gamma, c, cost), rel=1e-14)
    assert cap is None or gamma <= cap


def test_best_gamma_on_random_cells_is_the_very_gamma():
    rng = np.random.default_rng([3, 5])
    for _ in range(300):
        alpha, c, v = rng.uniform([0.2, 0.005, 0.9], [0.97, 0.6, 1.5])

        def line(gamma, v=v):
            return v + 0.03 * gamma

        assert best_gamma(alpha, c, v)[0] == brute_best(alpha, c, lambda g, v=v: v, last=300)[0]
        expected = brute_best(alpha, c, line, last=300)[0]
        assert best_gamma(alpha, c, line, least_verify_cost=v)[0] == expected


# ---- The supremum --------------------------------------------------------------------------------


def test_speedup_limit_in_closed_form():
    assert_allclose(speedup_limit([0, 0.5, 0.9, 1], 0), [1, 2, 10, INF])
    assert_allclose(speedup_limit(1, [0.25, 0.8, 1, 3]), [4, 1.25, 1, 1])
    assert speedup_limit(0.9, 0, 2.0) == pytest.approx(5)
    assert speedup_limit(0.5, 0, 3.0) == 1
    assert speedup_limit(1, 0.9, 0.5) == pytest.approx(2 / 1.4)  # falls towards 1 / c
    assert speedup_limit(0.3, 0.5) == 1


def test_speedup_limit_is_the_maximum_where_there_is_one():
    assert speedup_limit(0.8, 0.05) == best_gamma(0.8, 0.05)[1]

    def line(gamma):
        return 1 + 0.04 * gamma

    assert speedup_limit(0.8, 0.05, line) == best_gamma(0.8, 0.05, line)[1]


def test_speedup_limit_of_a_callable_may_be_unknowable():
    with pytest.raises(ValueError, match="cannot stop"):
        speedup_limit(0.8, 0, lambda g: 1 + 0.04 * g)
    assert speedup_limit(0, 0, lambda g: 1 + 0.04 * g) == 1


@given(st.floats(0, 1), st.floats(0, 1.5), st.floats(0.5, 3), st.integers(0, 10**6))
def test_no_gamma_is_faster_than_the_limit(alpha, c, v, gamma):
    speed = walltime_speedup(alpha, gamma, c, v)
    assert speed <= speedup_limit(alpha, c, v) * (1 + 1e-13)
    assert speed <= best_gamma(alpha, c, v, max_gamma=gamma)[1] * (1 + 3e-12)


@given(st.floats(0.01, 0.99), st.floats(0, 1))
def test_corollary_3_9_holds_for_every_alpha_above_c(alpha, share):
    c = alpha * min(share, 0.999)
    assert speedup_limit(alpha, c) >= improvement_bound(alpha, c) * (1 - 1e-15) > 1


@given(st.floats(0.01, 0.6))
def test_the_best_gamma_never_falls_as_alpha_grows(c):
    gammas, _ = best_gamma(np.linspace(0, 0.97, 60), c)
    assert all(before <= after for before, after in pairwise(gammas))


# ---- An oracle -------------------------------------------------------------------------------


def test_an_oracle_drafts_what_will_be_accepted_and_no_more():
    rng = np.random.default_rng([35, 0])
    accepted = rng.geometric(1 - 0.8, 200_000) - 1  # drafts in a row that are accepted, per round
    by_coins = (accepted + 1).sum() / (1 + 0.1 * accepted).sum()
    # tokens per round, a tenth of a round: error .01 of 5, most of which cancels; here 4 of it
    assert oracle_speedup(0.8, 0.1) == pytest.approx(by_coins, abs=0.03)
    assert oracle_speedup(0.8, 0.1) == pytest.approx(5 / (1 + 0.1 * 4))
    assert_allclose(oracle_speedup([0.0, 1.0, 1.0, 0.9], [0.5, 0.0, 0.2, 3.0]), [1, INF, 5, 1])
    assert oracle_speedup(0.7, 0) == pytest.approx(expected_tokens(0.7, INF))


def test_what_an_oracle_gains_over_the_best_fixed_gamma():
    gains = {0.01: "1.226", 0.02: "1.331", 0.05: "1.475", 0.1: "1.534", 0.2: "1.505"}
    assert {c: f"{oracle_gain(0.9, c):.3f}" for c in gains} == gains
    alphas = np.arange(1, 946) / 1000
    most = max(oracle_gain(alphas, c).max() for c in gains)
    assert f"{most:.3f}" == "1.548"
    assert f"{oracle_gain(alphas, 0.07).max():.3f}" == "1.556"  # "up to ~60%", section 3.5
    assert_allclose(oracle_gain([0, 0.5, 1, 1, 0.9], [0.1, 0, 0, 0.5, 1]), 1)
    assert oracle_gain(0.3, 0.5) == pytest.approx(1 / 0.85)  # a fixed gamma gains nothing here
    with pytest.raises(ValueError, match="c must be finite"):
        oracle_gain(0.5, -1)


# ---- Bad input -----------------------------------------------------------------------------------

BAD = {
    "alpha 1.2": (lambda: expected_tokens(1.2, 3), r"alpha must be in \[0, 1\], got 1\.2"),
    "alpha -0.1": (lambda: ops_factor([0.5, -0.1], 3, 0), r"alpha .* got -0\.1"),
    "alpha nan": (lambda: best_gamma(math.nan, 0.1), r"alpha .* got nan"),
    "alpha None": (lambda: improvement_bound(None, 0.1), r"alpha .* got None"),
    "alpha text": (lambda: accepted_law("0.5", 3), r"alpha .* got '0\.5'"),
    "alpha bool": (lambda: expected_tokens(True, 3), r"alpha .* got True"),
    "alpha ragged": (lambda: expected_tokens([[0.5], [0.5, 0.6]], 3), r"alpha .* got \[\[0\.5"),
    "gamma -1": (lambda: expected_tokens(0.5, -1), r"gamma .*integer of at least 0.* got -1"),
    "gamma 1.5": (lambda: walltime_speedup(0.5, 1.5, 0), r"gamma .*integer.* got 1\.5"),
    "gamma nan": (lambda: expected_tokens(0.5, math.nan), r"gamma .* got nan"),
    "gamma -inf": (lambda: expected_tokens(0.5, -INF), r"gamma .* got -inf"),
    "gamma 0 of a share": (lambda: break_even_c(0.5, 0), r"gamma .*at least 1, got 0"),
    "gamma inf of a share": (lambda: break_even_c(0.5, INF), r"gamma .*at least 1, got inf"),
    "gamma inf of a law": (lambda: accepted_law(0.5, INF), r"gamma=inf must be"),
    "gamma 2.0 of a law": (lambda: accepted_law(0.5, 2.0), r"gamma=2\.0 must be"),
    "gamma 0 inverted": (lambda: alpha_from_expected_tokens(1, 0), r"gamma .*at least 1.* got 0"),
    "gamma inf, callable": (
        lambda: walltime_speedup(0.5, INF, 0.1, lambda g: 1.0),
        r"gamma=inf .*verify_cost",
    ),
    "c negative": (lambda: walltime_speedup(0.5, 2, -0.1), r"^c must be .* got -0\.1"),
    "c inf": (lambda: best_gamma(0.5, INF), r"^c must be finite.* got inf"),
    "c_hat negative": (lambda: ops_factor(0.5, 2, -1), r"^c_hat must be .* got -1"),
    "verify_cost 0": (lambda: walltime_speedup(0.5, 2, 0.1, 0), r"verify_cost .*above 0, got 0"),
    "verify_cost array": (
        lambda: best_gamma(0.5, 0.1, [1.0, 2.0]),
        r"verify_cost=.*one number",
    ),
    "verify_cost(1) nan": (
        lambda: best_gamma(0.5, 0.1, lambda g: math.nan),
        r"verify_cost\(1\)=nan must be",
    ),
    "verify_cost(2) -1": (
        lambda: walltime_speedup(0.5, 2, 0.1, lambda g: -1),
        r"verify_cost\(2\)=-1 must be",
    ),
    "least_verify_cost 0": (
        lambda: best_gamma(0.5, 0.1, least_verify_cost=0),
        r"least_verify_cost=0 must be",
    ),
    "max_gamma -1": (lambda: best_gamma(0.5, 0.1, max_gamma=-1), r"max_gamma=-1 must be .*>= 0"),
    "max_gamma 2.5": (lambda: best_gamma(0.5, 0.1, max_gamma=2.5), r"max_gamma=2\.5 must be"),
    "max_gamma huge": (
        lambda: best_gamma(1, 0, max_gamma=10**40),
        r"max_gamma=10{40} .*< 2\^63",
    ),
    "tokens 0.9": (lambda: alpha_from_expected_tokens(0.9, 3), r"tokens .*at least 1, got 0\.9"),
    "tokens 4.1": (
        lambda: alpha_from_expected_tokens([2, 4.1], 3),
        r"tokens .*gamma \+ 1.* got 4\.1 at gamma=3",
    ),
    "laws of two shapes": (
        lambda: acceptance([0.5, 0.5], [0.5, 0.25, 0.25]),
        r"target_probs and draft_probs .*\(2,\) and \(3,\)",
    ),
    "law negative": (lambda: acceptance([1.5, -0.5], [0.5, 0.5]), r"target_probs .* got 1\.5"),
    "law nan": (lambda: divergence_lk([0.5, 0.5], [0.5, math.nan]), r"draft_probs .* got nan"),
    "law of mass 0.9": (
        lambda: acceptance([0.5, 0.5], [0.5, 0.4]),
        r"draft_probs .*sum to 1.* 0\.9",
    ),
    "law without axis": (lambda: acceptance(1.0, 1.0), r"target_probs .*last axis"),
    "law empty": (lambda: acceptance([], []), r"target_probs must sum to 1.* 0\.0"),
    "survival rises": (
        lambda: conditional_acceptance([0.5, 0.6]),
        r"cumulative .* 0\.6 after 0\.5",
    ),
    "survival 1.63": (lambda: conditional_acceptance([1.63]), r"cumulative .* got 1\.63"),
    "survival scalar": (lambda: conditional_acceptance(0.5), r"cumulative .*number 0\.5"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_argument_value_and_domain(case):
    call, text = BAD[case]
    with pytest.raises(ValueError, match=text):
        call()


def test_inputs_are_left_alone():
    target, draft = np.array(FIX_A)
    survival = np.array([0.8, 0.6])
    acceptance(target, draft)
    divergence_lk(target, draft)
    conditional_acceptance(survival)
    assert_allclose([target, draft], FIX_A, rtol=0)
    assert_allclose(survival, [0.8, 0.6], rtol=0)


def test_catch_up_rows_are_counted_where_all_drafts_were_accepted():
    for alpha, gamma, c_hat in ((0.8, 5, 0.1), (0.86, 2, 1.0), (0.0, 3, 0.5), (1.0, 4, 0.25)):
        rows = gamma + alpha**gamma  # of the draft, a round
        wanted = (rows * c_hat + gamma + 1) / expected_tokens(alpha, gamma)
        assert ops_factor_with_catch_up(alpha, gamma, c_hat) == pytest.approx(wanted, rel=1e-14)
    assert ops_factor_with_catch_up(0.7, 0, 0.5) == 1  # without drafts nothing catches up
    assert ops_factor_with_catch_up(0.7, 3, 0.0) == ops_factor(0.7, 3, 0.0)
    with pytest.raises(ValueError, match="gamma"):
        ops_factor_with_catch_up(0.7, INF, 0.5)
