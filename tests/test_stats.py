"""Statistics against printed tables, closed forms and exact sums; levels and coverage by trial."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.stats import (
    binomial_interval,
    chi2_isf,
    chi2_sf,
    clustered_mean,
    clustered_ratio,
    family_wise,
    goodness_of_fit,
    influence_stderr,
    normal_quantile,
    ratio_influence,
    regularized_beta,
    regularized_gamma,
    t_quantile,
)

INF = math.inf

# ---- Printed tables --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probability", "degrees", "printed"),
    [
        (0.975, 1, 12.7062047361747),
        (0.975, 2, 4.30265272974946),
        (0.975, 7, 2.36462425159278),
        (0.95, 5, 2.01504837333302),
        (0.995, 10, 3.16927267261695),
        (0.975, 30, 2.04227245630124),
        (0.975, 120, 1.97993040508244),
        (0.975, INF, 1.95996398454005),
    ],
)
def test_t_quantile_of_the_tables(probability, degrees, printed):
    assert t_quantile(probability, degrees) == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize(
    ("statistic", "degrees", "printed"),
    [
        (3.84145882069412, 1, 0.05),
        (7.81472790325118, 3, 0.05),
        (18.3070380532751, 10, 0.05),
        (124.342113404004, 100, 0.05),
        (11.3448667301444, 3, 0.01),
    ],
)
def test_chi2_sf_of_the_tables(statistic, degrees, printed):
    assert chi2_sf(statistic, degrees) == pytest.approx(printed, rel=1e-12)
    assert chi2_isf(printed, degrees) == pytest.approx(statistic, rel=1e-12)


def test_normal_quantile_of_the_tables():
    assert normal_quantile(0.975) == pytest.approx(1.95996398454005, rel=1e-13)
    assert normal_quantile(0.5) == 0


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (0, 10, 0, 1 - 0.025**0.1),  # closed forms at the ends
        (10, 10, 0.025**0.1, 1),
        (5, 10, 0.187086028447, 0.812913971553),
        (1, 20, 0.00126509, 0.24873277),
    ],
)
def test_clopper_pearson_of_the_tables(successes, trials, low, high):
    assert binomial_interval(successes, trials) == pytest.approx((low, high), abs=1e-8)


# ---- Closed forms and exact sums -------------------------------------------------------------

counts = st.integers(1, 40)
inside = st.floats(0.001, 0.999)


@given(counts, counts, st.fractions(0, 1, max_denominator=1000))
def test_beta_is_a_binomial_tail(a, b, x):
    n = a + b - 1
    exact = sum(math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(a, n + 1))
    assert regularized_beta(float(x), a, b) == pytest.approx(float(exact), rel=1e-11, abs=1e-14)


@given(st.integers(1, 60), st.fractions(0, 150, max_denominator=20))
def test_gamma_is_a_poisson_sum(a, x):
    terms = [x**j / Fraction(math.factorial(j)) for j in range(a)]
    exact = float(sum(terms)) * math.exp(-float(x))
    assert regularized_gamma(a, float(x)) == pytest.approx(exact, rel=1e-11, abs=1e-14)


@given(st.floats(0, 400))
def test_chi2_of_one_and_two_degrees_in_closed_form(x):
    assert chi2_sf(x, 1) == pytest.approx(math.erfc(math.sqrt(x / 2)), rel=1e-11, abs=1e-15)
    assert chi2_sf(x, 2) == pytest.approx(math.exp(-x / 2), rel=1e-11, abs=1e-15)


@given(st.floats(1e-9, 1 - 1e-9))
def test_t_of_one_two_and_four_degrees_in_closed_form(p):
    center = 2 * p - 1
    assert t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-6, abs=1e-9)
    two = center * math.sqrt(2 / (4 * p * (1 - p)))
    assert t_quantile(p, 2) == pytest.approx(two, rel=1e-6, abs=1e-9)
    root = math.sqrt(4 * p * (1 - p))
    four = 2 * math.sqrt(max(0, math.cos(math.acos(root) / 3) / root - 1))
    assert abs(t_quantile(p, 4)) == pytest.approx(four, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("degrees", [1e4, 1e5, 1e6])
@pytest.mark.parametrize("p", [0.6, 0.975, 0.9995])
def test_t_of_many_degrees_follows_its_expansion_about_the_normal(p, degrees):
    z = normal_quantile(p)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    expansion = z + first / degrees + second / degrees**2
    assert t_quantile(p, degrees) == pytest.approx(expansion, rel=1e-9)


@given(inside, st.floats(0.05, 300), st.floats(0.05, 300))
def test_beta_is_symmetric_and_rises(x, a, b):
    assert regularized_beta(x, a, b) + regularized_beta(1 - x, b, a) == pytest.approx(1, abs=1e-11)
    assert 0 <= regularized_beta(x / 2, a, b) <= regularized_beta(x, a, b) + 1e-14 <= 1 + 1e-13


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.3, 1e4))
def test_t_quantile_is_odd_and_inverts_its_tail(p, degrees):
    t = t_quantile(p, degrees)
    assert t == pytest.approx(-t_quantile(1 - p, degrees), rel=1e-6, abs=1e-8)
    tail = regularized_beta(degrees / (degrees + t * t), degrees / 2, 0.5) / 2
    assert tail == pytest.approx(min(p, 1 - p), rel=1e-6)


def test_special_functions_at_their_ends():
    assert [regularized_beta(x, 2.5, 0.5) for x in (0, 1)] == [0, 1]
    assert [regularized_gamma(2.5, x) for x in (0, INF)] == [1, 0]
    assert t_quantile(0.5, 3) == 0


# ---- The exact interval ----------------------------------------------------------------------


@pytest.mark.parametrize("trials", [1, 7, 40])
def test_clopper_pearson_covers_at_least_its_confidence_at_every_probability(trials):
    intervals = [binomial_interval(k, trials, 0.9) for k in range(trials + 1)]
    for p in np.linspace(0.003, 0.997, 143):
        covered = sum(
            math.comb(trials, k) * p**k * (1 - p) ** (trials - k)
            for k, (low, high) in enumerate(intervals)
            if low <= p <= high
        )
        assert covered >= 0.9 - 1e-12


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_clopper_pearson_is_never_a_point_and_mirrors(case):
    k, n = case
    low, high = binomial_interval(k, n)
    assert 0 <= low <= k / n <= high <= 1
    assert low < high
    assert binomial_interval(n - k, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)


# ---- Clusters --------------------------------------------------------------------------------


def test_clustered_mean_by_hand():
    # sums 6 of 3 and 5 of 1 about 11/4: influences (6 - 3 × 2.75)/4 and (5 - 2.75)/4
    mean = clustered_mean([1, 5, 2, 3], ["a", "b", "a", "a"])
    assert mean == pytest.approx((2.75, math.sqrt(2 * (0.5625**2 + 0.5625**2)), 2))


def test_clusters_of_one_value_give_the_usual_standard_error():
    values = np.random.default_rng([3, 0]).normal(size=30)
    mean, stderr, groups = clustered_mean(values, np.arange(30))
    assert (mean, groups) == (pytest.approx(values.mean()), 30)
    assert stderr == pytest.approx(values.std(ddof=1) / math.sqrt(30))


def test_values_repeated_within_a_cluster_add_no_knowledge():
    values = np.random.default_rng([3, 1]).normal(size=12)
    once = clustered_mean(values, np.arange(12))
    assert clustered_mean(np.repeat(values, 50), np.repeat(np.arange(12), 50)) == pytest.approx(
        once
    )


def test_one_cluster_tells_no_error():
    assert clustered_mean([1, 2, 3], [7, 7, 7]) == (2, INF, 1)


def test_influences_sum_to_zero_and_predict_a_small_change():
    tops, bottoms = np.array([3.0, 5.0, 9.0]), np.array([2.0, 2.0, 5.0])
    ratio, moves = ratio_influence(tops, bottoms)
    assert moves.sum() == pytest.approx(0, abs=1e-15)
    assert clustered_ratio(tops, bottoms) == (ratio, influence_stderr(moves), 3)
    weights = np.array([1 + 1e-6, 1, 1])  # the first cluster counts a little more
    changed = (weights @ tops) / (weights @ bottoms)
    assert (changed - ratio) / 1e-6 == pytest.approx(moves[0], rel=1e-5)


def test_clustered_mean_covers_the_truth_at_95_percent():
    """1,000 trials, 30 clusters of 1 to 20 values that share an offset: standard error .7 %, so
    93-97 % is left by chance about once in 200 (and the naive error covers 68 %)."""
    rng = np.random.default_rng([3, 2])
    covered = naive = 0
    for _ in range(1000):
        clusters = np.repeat(np.arange(30), rng.integers(1, 21, 30))
        values = rng.normal(size=30)[clusters] * 0.5 + rng.normal(size=len(clusters))
        mean, stderr, groups = clustered_mean(values, clusters)
        covered += abs(mean) <= t_quantile(0.975, groups - 1) * stderr
        naive += abs(mean) <= 1.96 * values.std() / math.sqrt(len(values))
    assert 930 <= covered <= 970
    assert naive < 750


# ---- Goodness of fit -------------------------------------------------------------------------


def test_goodness_of_fit_by_hand():
    # expected 25 15 5 3 2: the last two are pooled to 5 before the third is reached
    fit = goodness_of_fit([20, 18, 4, 5, 3], [0.5, 0.3, 0.1, 0.06, 0.04])
    assert fit.degrees == 3
    assert fit.statistic == pytest.approx(25 / 25 + 9 / 15 + 1 / 5 + 9 / 5)
    assert fit.p_value == pytest.approx(chi2_sf(3.6, 3))


def test_what_is_left_over_joins_the_last_pool():
    # expected 3 3 4: 3 + 3 make a pool, 4 alone would not: one pool, nothing to test
    with pytest.raises(ValueError, match=r"observed_counts sum to 10, which leaves 1 pools"):
        goodness_of_fit([3, 3, 4], [0.3, 0.3, 0.4])
    assert goodness_of_fit([6, 6, 8], [0.3, 0.3, 0.4]).degrees == 2


def test_a_count_where_the_law_has_none_refutes_it():
    assert goodness_of_fit([50, 49, 1], [0.5, 0.5, 0]) == (INF, 1, 0)
    assert goodness_of_fit([50, 50, 0], [0.5, 0.5, 0]) == (0, 1, 1)


def test_goodness_of_fit_holds_its_level():
    """2,000 correct runs at 5 %, eight cells of which some expect less than one count: standard
    error .5 %, so 3-7 % is left by chance about once in 20,000."""
    rng = np.random.default_rng([3, 3])
    law = 0.6 ** np.arange(8)
    law /= law.sum()
    fired = [goodness_of_fit(n, law).p_value < 0.05 for n in rng.multinomial(100, law, 2000)]
    assert 0.03 <= np.mean(fired) <= 0.07


def test_goodness_of_fit_holds_its_level_with_a_fitted_parameter():
    """As above; the geometric's parameter is fitted to the counts (accepted / tested)."""
    rng = np.random.default_rng([3, 4])
    places = np.arange(5)
    fired, unpaid = [], []
    for accepted in np.minimum(rng.geometric(0.3, (2000, 300)) - 1, 4):
        counts = np.bincount(accepted, minlength=5)
        alpha = accepted.sum() / (accepted.sum() + (accepted < 4).sum())
        law = alpha**places * np.where(places < 4, 1 - alpha, 1)
        fired.append(goodness_of_fit(counts, law, fitted=1).p_value < 0.05)
        unpaid.append(goodness_of_fit(counts, law).p_value < 0.05)
    assert 0.03 <= np.mean(fired) <= 0.07
    assert np.mean(unpaid) < 0.03  # without the degree of freedom it would be too seldom


def test_goodness_of_fit_sees_a_wrong_law():
    rng = np.random.default_rng([3, 5])
    seen = rng.multinomial(20_000, [0.425, 0.3375, 0.1025, 0.135])  # resampled from the target
    assert goodness_of_fit(seen, [0.5, 0.25, 0.15, 0.1]).p_value < 1e-12


# ---- Families, and wrong calls ---------------------------------------------------------------


def test_family_wise_is_bonferroni():
    assert family_wise(0.01, 12) == 0.01 / 12
    assert family_wise(0.05, 1) == 0.05


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: regularized_beta(1.1, 1, 1), r"x=1.1 must be in \[0, 1\]"),
        (lambda: regularized_beta(0.5, 0, 1), r"a=0 must be a finite number above 0"),
        (lambda: regularized_gamma(1, -1), r"x=-1 must be at least 0"),
        (lambda: t_quantile(1, 3), r"probability=1 must be in \(0, 1\)"),
        (lambda: t_quantile(0.9, 0), r"degrees=0 must be a finite number above 0"),
        (lambda: normal_quantile(math.nan), r"probability=nan must be in \(0, 1\)"),
        (lambda: t_quantile("a", 3), r"probability='a' must be in \(0, 1\)"),
        (lambda: t_quantile(0.9, None), r"degrees=None must be a finite number above 0"),
        (lambda: chi2_sf([1, 2], 3), r"statistic=\[1, 2\] must be one number"),
        (lambda: chi2_isf(1, 3), r"tail=1 must be in \(0, 1\)"),
        (lambda: chi2_sf(-1, 3), r"statistic=-1 must be at least 0"),
        (lambda: chi2_sf(math.nan, 3), r"statistic=nan must be at least 0"),
        (lambda: binomial_interval(3, 2), r"successes=3 must be a whole number within 0\.\.2"),
        (lambda: binomial_interval(0, 0), r"trials=0 must be a whole number >= 1"),
        (lambda: binomial_interval(1, 2, 1.0), r"confidence=1.0 must be in \(0, 1\)"),
        (lambda: family_wise(0.01, 0), r"comparisons=0 must be a whole number >= 1"),
        (lambda: family_wise(0, 3), r"level=0 must be in \(0, 1\)"),
        (lambda: clustered_mean([1, math.nan], [0, 1]), r"values must be finite numbers, got nan"),
        (lambda: clustered_mean([1, 2], [0]), r"clusters must be labels \(2,\).*got \(1,\)"),
        (lambda: clustered_mean([], []), r"values must be one row of numbers, got shape \(0,\)"),
        (lambda: clustered_ratio([1, 2], [0, 0]), r"bottoms must be .* sum above 0"),
        (lambda: goodness_of_fit([1, -1], [0.5, 0.5]), r"observed_counts must be whole.*got -1"),
        (lambda: goodness_of_fit([1, 1.5], [0.5, 0.5]), r"observed_counts must be whole.*got 1.5"),
        (lambda: goodness_of_fit([9, 9], [0.5, 0.6]), r"expected_probs must sum to 1.*got 1.1"),
        (lambda: goodness_of_fit([9, 9, 9], [0.5, 0.5]), r"got \(3,\) and \(2,\)"),
        (lambda: goodness_of_fit([0, 0], [0.5, 0.5]), r"observed_counts sum to 0"),
        (lambda: goodness_of_fit([9, 9], [0.5, 0.5], fitted=1), r"at least 3 are needed"),
    ],
)
def test_bad_calls_name_argument_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()
