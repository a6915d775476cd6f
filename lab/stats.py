"""The statistics the lab needs: quantiles, exact intervals, clustered errors, a chi-square test.

Everything comes from two functions: the regularised incomplete beta (Student's t, the binomial)
and the regularised incomplete gamma (chi-square), summed to about 1e-13. Quantiles bisect them.
Clustered errors are linearised: what each cluster moves a ratio of sums by, and how these vary.

Shapes: N values, G clusters, K cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import count
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lab.domains import Floats, in_unit, law, number, numbers, positive, whole

CONVERGED = 1e-15  # relative change at which a series or a continued fraction ends
LEAST_EXPECTED = 5.0  # counts below which a cell's share of chi-square is no longer chi-square


# ---- Two special functions -----------------------------------------------------------------


def regularized_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b): the probability that a beta(a, b) variable is at most x in [0, 1]; a, b > 0."""
    x = number("x", x, "in [0, 1]", in_unit)
    return _beta(x, 1 - x, positive("a", a), positive("b", b))


def regularized_gamma(a: float, x: float) -> float:
    """Q(a, x): the probability that a gamma(a) variable exceeds x >= 0; a > 0."""
    a = positive("a", a)
    x = number("x", x, "at least 0", lambda x: x >= 0)
    if x in (0, math.inf):
        return float(x == 0)
    # x^a e^-x / Γ(a), with the large terms of ln Γ cancelled by hand
    above = (x - a) / a
    front = math.exp(
        a * (_log(x / a, above) - above) + math.log(a / math.tau) / 2 - _stirling_rest(a)
    )
    if x < a + 1:  # series of the lower part: Σ x^n / (a (a+1) ... (a+n))
        term = total = 1 / a
        for n in count(1):
            term *= x / (a + n)
            total += term
            if term < total * CONVERGED:
                return 1 - front * total
    # upper part: 1 / (x+1-a - 1(1-a) / (x+3-a - 2(2-a) / (x+5-a - ...)))
    return front / _continued_fraction(x + 1 - a, lambda n: (-n * (n - a), x + 2 * n + 1 - a))


def _beta(x: float, y: float, a: float, b: float) -> float:
    """I_x(a, b) with y = 1 - x given, as the caller may know it to more digits."""
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly: the other tail
        return 1 - _beta(y, x, b, a)
    if x == 0:
        return 0.0
    n = a + b
    # x^a y^b / B(a, b), with the large terms of ln Γ cancelled by hand
    above = x * b - y * a  # = x n - a
    front = math.exp(
        a * _log(x * n / a, above / a)
        + b * _log(y * n / b, -above / b)
        + math.log(a * b / n / math.tau) / 2
        + (_stirling_rest(n) - _stirling_rest(a) - _stirling_rest(b))
    )

    def term(m: int) -> tuple[float, float]:  # the classical fraction 1 + d1 / (1 + d2 / (1 + ...))
        k, odd = divmod(m, 2)
        if odd:
            return -(a + k) * (n + k) * x / ((a + 2 * k) * (a + 2 * k + 1)), 1.0
        return k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k)), 1.0

    return front / a / _continued_fraction(1.0, term)


def _continued_fraction(first: float, term: Callable[[int], tuple[float, float]]) -> float:
    """first + u1 / (v1 + u2 / (v2 + ...)) with (u, v) = term(n): Lentz's method."""
    tiny = 1e-300  # stands in for a denominator that happens to vanish
    value = upper = first or tiny
    lower = 0.0
    for n in count(1):
        u, v = term(n)
        lower = 1 / ((v + u * lower) or tiny)
        upper = (v + u / upper) or tiny
        value *= upper * lower
        if abs(upper * lower - 1) < CONVERGED:
            break
    return value


def _log(ratio: float, excess: float) -> float:
    """ln(ratio), where ratio = 1 + excess is known in both forms."""
    return math.log1p(excess) if abs(excess) < 0.5 else math.log(ratio)


def _stirling_rest(z: float) -> float:
    """ln Γ(z) - ((z - 1/2) ln z - z + ln(2π)/2)."""
    if z < 20:
        return math.lgamma(z) - ((z - 0.5) * math.log(z) - z + math.log(math.tau) / 2)
    w = 1 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / z


# ---- Quantiles and intervals ---------------------------------------------------------------


def normal_quantile(probability: float) -> float:
    """The z that a standard normal variable stays below with this probability in (0, 1)."""
    return NormalDist().inv_cdf(_probability("probability", probability))


@cache
def t_quantile(probability: float, degrees: float) -> float:
    """The t that Student's variable stays below with this probability in (0, 1).

    `degrees` of freedom above 0; inf is the normal.
    """
    probability = _probability("probability", probability)
    if degrees == math.inf:
        return normal_quantile(probability)
    degrees = positive("degrees", degrees)
    return math.copysign(_upper_t(min(probability, 1 - probability), degrees), probability - 0.5)


def chi2_sf(statistic: float, degrees: float) -> float:
    """Probability that a chi-square variable exceeds `statistic` >= 0; degrees > 0."""
    degrees = positive("degrees", degrees)
    statistic = number("statistic", statistic, "at least 0", lambda x: x >= 0)
    return regularized_gamma(degrees / 2, statistic / 2)


def chi2_isf(tail: float, degrees: float) -> float:
    """The value that a chi-square variable exceeds with probability `tail` in (0, 1)."""
    tail = _probability("tail", tail)
    high = 1.0
    while chi2_sf(high, degrees) > tail:
        high *= 2
    return _bisect(lambda statistic: chi2_sf(statistic, degrees) <= tail, 0.0, high)


def binomial_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact interval for a probability (Clopper, Pearson 1934): it covers at least `confidence`.

    It is never a point: no success leaves (0, something above), all leave (something below, 1).

    Parameters
    ----------
    successes, trials : 0 <= successes <= trials, trials >= 1
    confidence : in (0, 1)
    """
    n = whole("trials", trials, 1)
    k = whole("successes", successes, 0, n)
    tail = (1 - _probability("confidence", confidence)) / 2
    low = 0.0 if k == 0 else _beta_quantile(tail, k, n - k + 1)
    # the upper end is 1 - the lower end for failures: near 1 nothing is lost
    high = 1.0 if k == n else 1 - _beta_quantile(tail, n - k, k + 1)
    return low, high


def family_wise(level: float, comparisons: int) -> float:
    """Level of each of several comparisons so that any false alarm has at most `level`: Bonferroni.

    level / comparisons holds however the comparisons depend on each other (cells of one table share
    their prompts). Šidák's 1 - (1 - level)^(1 / comparisons) is hardly larger and needs
    independence.
    """
    return _probability("level", level) / whole("comparisons", comparisons, 1)


def _upper_t(tail: float, degrees: float) -> float:
    """t >= 0 with P(T > t) = tail <= 1/2."""

    def beyond(t: float) -> float:  # = I(n / (n + t²); n/2, 1/2) / 2
        square = t * t
        whole = degrees + square
        return _beta(degrees / whole, square / whole, degrees / 2, 0.5) / 2

    high = 1.0
    while beyond(high) > tail:
        high *= 2
    return _bisect(lambda t: beyond(t) <= tail, 0.0, high)


@lru_cache(maxsize=1024)
def _beta_quantile(probability: float, a: float, b: float) -> float:
    return _bisect(lambda x: _beta(x, 1 - x, a, b) >= probability, 0.0, 1.0)


def _bisect(reached: Callable[[float], bool], low: float, high: float) -> float:
    """Where `reached` turns true between low and high, to the last bit but a few."""
    while high - low > 4e-16 * high:
        middle = (low + high) / 2
        if reached(middle):
            high = middle
        else:
            low = middle
    return (low + high) / 2


# ---- Errors of values that come in clusters ------------------------------------------------


class ClusteredMean(NamedTuple):
    """A mean (or ratio of sums) with its standard error; inf where one cluster is all there is."""

    mean: float
    stderr: float
    n_clusters: int


def clustered_mean(values: ArrayLike, clusters: ArrayLike) -> ClusteredMean:
    """Pooled mean of values of which those of one cluster may depend on each other in any way.

    Parameters
    ----------
    values : (N,) finite
    clusters : (N,) labels; clusters may differ in size

    Returns
    -------
    ClusteredMean
        The mean over all values, so a larger cluster weighs more. Its error is that of
        `clustered_ratio`, with the sums and the sizes of the clusters.
    """
    flat, labels = _finite("values", values), np.asarray(clusters)
    if labels.shape != flat.shape:
        raise ValueError(f"clusters must be labels {flat.shape}, one a value, got {labels.shape}")
    _, which = np.unique(labels, return_inverse=True)
    return clustered_ratio(np.bincount(which, flat), np.bincount(which))


def clustered_ratio(tops: ArrayLike, bottoms: ArrayLike) -> ClusteredMean:
    """Σ tops / Σ bottoms over clusters (G,), with the error of the linearised ratio estimator."""
    ratio, moves = ratio_influence(tops, bottoms)
    return ClusteredMean(ratio, influence_stderr(moves), len(moves))


def ratio_influence(tops: ArrayLike, bottoms: ArrayLike) -> tuple[float, Floats]:
    """Σ tops / Σ bottoms, and what each cluster (G,) moves it by, to first order.

    Influences sum to 0, and those of a smooth function of several ratios are the same function of
    their influences, linearised: so correlated estimates are compared.
    """
    top, bottom = _finite("tops", tops), _finite("bottoms", bottoms)
    if top.shape != bottom.shape or not (bottom >= 0).all() or not bottom.sum() > 0:
        raise ValueError(
            f"bottoms must be {top.shape} numbers of at least 0 with a sum above 0, got {bottoms!r}"
        )
    total = bottom.sum()
    ratio = top.sum() / total
    return float(ratio), (top - ratio * bottom) / total


def influence_stderr(influence: Floats) -> float:
    """Standard error from the influences (G,) of independent clusters; inf for a single one."""
    groups = len(influence)
    if groups == 1:
        return math.inf
    return math.sqrt(groups / (groups - 1) * float(np.square(influence).sum()))


# ---- Goodness of fit -----------------------------------------------------------------------


class GoodnessOfFit(NamedTuple):
    """Pearson's chi-square: large for counts that do not fit; `p_value` is its upper tail."""

    statistic: float
    degrees: int
    p_value: float


def goodness_of_fit(
    observed_counts: ArrayLike, expected_probs: ArrayLike, fitted: int = 0
) -> GoodnessOfFit:
    """Do counts come from a law? Pearson's chi-square, with rare cells pooled.

    Cells are taken from the least to the most likely and pooled until each pool expects at least
    5 counts; what is left over joins the last pool. Pools depend on the law alone, never on the
    counts, so the test holds its level. A count where the law has probability 0 is a refutation:
    statistic inf, p-value 0.

    Parameters
    ----------
    observed_counts : (K,) whole numbers >= 0, of independent draws
    expected_probs : (K,) a law
    fitted : parameters of the law that were fitted to these very counts (maximum likelihood);
        each costs a degree of freedom

    Raises
    ------
    ValueError
        Also if so few counts were seen that fewer than `fitted` + 2 pools remain: then nothing can
        be tested.
    """
    counts = numbers(
        "observed_counts", observed_counts, "whole numbers >= 0", lambda x: (x >= 0) & (x % 1 == 0)
    )
    probs = law("expected_probs", expected_probs)
    if counts.ndim != 1 or counts.shape != probs.shape:
        raise ValueError(
            f"observed_counts must be (K,) as expected_probs, got {counts.shape} and {probs.shape}"
        )
    total, fitted = counts.sum(), whole("fitted", fitted)
    expected = total * probs / probs.sum()
    impossible = counts[probs == 0].sum() > 0
    pools = _pools(expected)
    degrees = pools.max() - fitted
    if degrees < 1:
        raise ValueError(
            f"observed_counts sum to {total:.0f}, which leaves {pools.max() + 1} pools of expected "
            f"count >= {LEAST_EXPECTED:g}; at least {fitted + 2} are needed"
        )
    if impossible:
        return GoodnessOfFit(math.inf, int(degrees), 0.0)
    seen, due = np.bincount(pools, counts), np.bincount(pools, expected)
    statistic = float((np.square(seen - due) / due).sum())
    return GoodnessOfFit(statistic, int(degrees), chi2_sf(statistic, degrees))


def _pools(expected: Floats) -> NDArray[np.int64]:
    """The pool of each cell (K,), numbered from 0."""
    pools = np.zeros(len(expected), np.int64)
    pool, held = 0, 0.0
    for cell in np.argsort(expected, kind="stable"):
        pools[cell] = pool
        held += expected[cell]
        if held >= LEAST_EXPECTED:
            pool, held = pool + 1, 0.0
    return np.minimum(pools, max(pool - 1, 0))


def _finite(name: str, value: ArrayLike) -> Floats:
    array = numbers(name, value, "finite numbers", np.isfinite)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} must be one row of numbers, got shape {array.shape}")
    return array


def _probability(name: str, value: float) -> float:
    return number(name, value, "in (0, 1)", lambda x: (x > 0) & (x < 1))
