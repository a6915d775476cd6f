"""Every formula of speculative decoding, by equation number.

Leviathan, Kalman, Matias 2023 (arXiv 2211.17192), in its letters: p = target, q = draft (Chen et
al. and several projects swap them), gamma = drafts per round, beta = Σ min(p, q) at one position,
alpha = E[beta], c = time of one draft run / time of one target run, c_hat = the same ratio for
operations. `verify_cost` is ours: v(gamma) = T(gamma + 1 rows) / T(1 row) of the target; the paper
takes it to be 1, and v(0) is 1 by definition. Formulas of the appendix and of later papers are in
`lab.successors`, of rounds whose laws depend on the prefix in `lab.rule_laws`: both found here too.

Arguments are floats or arrays that broadcast; floats give a float, arrays an array. What lies
outside a formula's domain raises a ValueError naming the argument, its value and what is allowed.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lab import domains, optimum
from lab.domains import FloatOrArray, Floats, plain
from lab.rule_laws import block_tokens as block_tokens
from lab.rule_laws import tokens_by_position as tokens_by_position
from lab.successors import beam_rows as beam_rows
from lab.successors import c_from_bytes as c_from_bytes
from lab.successors import cascade_phi as cascade_phi
from lab.successors import cascade_speedup as cascade_speedup
from lab.successors import cascade_tokens as cascade_tokens
from lab.successors import greedy_tree_value as greedy_tree_value
from lab.successors import lenient_at_zero as lenient_at_zero
from lab.successors import next_gamma as next_gamma
from lab.successors import one_shot_acceptance as one_shot_acceptance
from lab.successors import speedup_from_times as speedup_from_times
from lab.successors import stop_threshold as stop_threshold
from lab.successors import t5_step_weights as t5_step_weights
from lab.successors import tree_value as tree_value

VerifyCost = float | Callable[[int], float]


# ---- One position: how well a draft's law overlaps the target's -----------------------------


def acceptance(target_probs: ArrayLike, draft_probs: ArrayLike) -> FloatOrArray:
    """Probability that a draft token is accepted: beta = Σ min(p, q) (Theorem 3.5).

    Parameters
    ----------
    target_probs, draft_probs : (..., V)
        Laws of the next token, of one shape. Their order does not matter here.

    Returns
    -------
    float or (...)
        In [0, 1]; its mean over contexts is alpha (Corollary 3.6).

    Raises
    ------
    ValueError
        Shapes that differ, entries that are negative or not finite, laws that do not sum to 1.
    """
    target, draft = domains.laws(target_probs, draft_probs)
    return plain(np.minimum(np.minimum(target, draft).sum(axis=-1), 1.0))


def divergence_lk(target_probs: ArrayLike, draft_probs: ArrayLike) -> FloatOrArray:
    """D_LK(p, q) = Σ |p - M| with M = (p + q) / 2 (Definition 3.2), the total variation distance.

    Equal to 1 - `acceptance` (Lemma 3.3). Arguments, shapes and errors as there.
    """
    target, draft = domains.laws(target_probs, draft_probs)
    return plain(np.minimum(np.abs(target - (target + draft) / 2).sum(axis=-1), 1.0))


def conditional_acceptance(cumulative: ArrayLike) -> Floats:
    """Acceptance at each draft position given that the position was reached.

    Servers print survival, P(at least i drafts accepted), which falls with i even where the draft
    is equally good everywhere; tokens per target run are 1 + its sum.

    Parameters
    ----------
    cumulative : (..., G)
        Survival per position, in [0, 1], never rising along the last axis.

    Returns
    -------
    (..., G)
        cumulative[i] / cumulative[i - 1]; NaN at positions that were never reached.
    """
    survival = domains.numbers("cumulative", cumulative, "in [0, 1]", domains.in_unit)
    if survival.ndim == 0:
        raise ValueError(f"cumulative must be an array (..., G), got the number {survival}")
    before = np.ones_like(survival)
    before[..., 1:] = survival[..., :-1]
    rises = survival > before
    if rises.any():
        raise ValueError(
            "cumulative must never rise along the last axis, "
            f"got {survival[rises][0]} after {before[rises][0]}"
        )
    return np.divide(survival, before, out=np.full_like(survival, np.nan), where=before > 0)


# ---- One round: how many tokens a target run yields -----------------------------------------


def accepted_law(alpha: ArrayLike, gamma: int) -> Floats:
    """Law of the number of accepted drafts: geometric, truncated at gamma (behind eq. (1)).

    P(k) = alpha^k (1 - alpha) for k < gamma and P(gamma) = alpha^gamma, for acceptances that are
    independent and equally likely.

    Returns
    -------
    (gamma + 1,)
        Or (..., gamma + 1) for an array of alphas (...).
    """
    alphas = domains.alphas(alpha)[..., None]
    count = domains.whole("gamma", gamma)
    law: Floats = alphas ** np.arange(count + 1)
    law[..., :count] *= 1 - alphas
    return law


def expected_tokens(alpha: ArrayLike, gamma: ArrayLike) -> FloatOrArray:
    """E[tokens per target run] = (1 - alpha^(gamma+1)) / (1 - alpha), equation (1).

    gamma + 1 at alpha = 1; 1 / (1 - alpha) at gamma = inf, the oracle's limit of section 3.5.

    Parameters
    ----------
    alpha : in [0, 1]
    gamma : integers >= 0, or inf
    """
    return plain(_tokens(domains.alphas(alpha), domains.gammas(gamma)))


def alpha_from_expected_tokens(tokens: ArrayLike, gamma: ArrayLike) -> FloatOrArray:
    """The alpha at which equation (1) gives `tokens` per target run: its inverse.

    From a speed-up S at verify cost 1 it is called with tokens = S (gamma c + 1). The shortcut
    (S - 1) / gamma is not alpha, nor is 1 - 1 / tokens, which is right at gamma = inf only.

    Parameters
    ----------
    tokens : in [1, gamma + 1]
    gamma : integers >= 1, or inf
    """
    given = domains.numbers("tokens", tokens, "at least 1", lambda x: x >= 1)
    given, gammas = np.broadcast_arrays(given, domains.gammas(gamma, least=1))
    beyond = given > gammas + 1
    if beyond.any():
        raise ValueError(
            "tokens must be in [1, gamma + 1], "
            f"got {given[beyond][0]} at gamma={gammas[beyond][0]:g}"
        )
    low, high = np.zeros_like(given), np.ones_like(given)
    for _ in range(60):  # halves [0, 1] below the spacing of float64
        middle = (low + high) / 2
        short = _tokens(middle, gammas) < given
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return plain(np.where(given == 1, 0.0, np.where(given == gammas + 1, 1.0, high)))


# ---- What a round costs, and what it gains --------------------------------------------------


def walltime_speedup(
    alpha: ArrayLike, gamma: ArrayLike, c: ArrayLike, verify_cost: VerifyCost | Floats = 1.0
) -> FloatOrArray:
    """Factor by which wall time improves, E / (gamma c + v(gamma)); Theorem 3.8 where v = 1.

    Parameters
    ----------
    alpha : in [0, 1]
    gamma : integers >= 0, or inf (the limit; only where verify_cost is a number)
    c : finite, >= 0
    verify_cost : finite, > 0, or a callable that gives such a number for an int gamma >= 1

    Returns
    -------
    float or array
        1 at gamma = 0, which is plain decoding.
    """
    alphas, gammas, costs = domains.alphas(alpha), domains.gammas(gamma), domains.costs("c", c)
    verify = _verify_at(verify_cost, gammas)
    tokens = _tokens(alphas, gammas)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        drafting = np.where(costs == 0, 0.0, gammas * costs)
        speed = tokens / (drafting + verify)
        endless = np.isinf(tokens) & (costs > 0)  # alpha = 1, gamma = inf: inf / inf
        return plain(np.where(endless, 1 / costs, speed))


def ops_factor(alpha: ArrayLike, gamma: ArrayLike, c_hat: ArrayLike) -> FloatOrArray:
    """Factor by which operations grow, (gamma c_hat + gamma + 1) / E (Theorem 3.11).

    Parameters
    ----------
    alpha : in [0, 1]
    gamma : integers >= 0, or inf (the limit: inf, but 1 + c_hat at alpha = 1)
    c_hat : finite, >= 0
    """
    alphas, gammas = domains.alphas(alpha), domains.gammas(gamma)
    costs = domains.costs("c_hat", c_hat)
    tokens = _tokens(alphas, gammas)
    with np.errstate(invalid="ignore"):
        factor = (gammas * costs + gammas + 1) / tokens
    return plain(np.where(np.isinf(tokens), 1 + costs, factor))


def ops_factor_with_catch_up(alpha: ArrayLike, gamma: ArrayLike, c_hat: ArrayLike) -> FloatOrArray:
    """Theorem 3.11 with what it leaves out: after a full acceptance the draft reads its last token.

    The draft then computes gamma + alpha^gamma rows a round, not gamma:
    ((gamma + alpha^gamma) c_hat + gamma + 1) / E(gamma). No forward more: no weight is read again.
    Arguments and errors as `ops_factor`.
    """
    alphas, gammas = domains.alphas(alpha), domains.gammas(gamma, endless=False)
    costs = domains.costs("c_hat", c_hat)
    rows = (gammas + alphas**gammas * (gammas > 0)) * costs  # of the draft, in rows of the target
    return plain((rows + gammas + 1) / _tokens(alphas, gammas))


def improvement_bound(alpha: ArrayLike, c: ArrayLike) -> FloatOrArray:
    """(1 + alpha) / (1 + c): the least that the best gamma gains if alpha > c (Corollary 3.9).

    It is the speed-up at gamma = 1, so at most 1, and no promise, where alpha <= c.
    """
    return plain((1 + domains.alphas(alpha)) / (1 + domains.costs("c", c)))


def break_even_c(alpha: ArrayLike, gamma: ArrayLike) -> FloatOrArray:
    """The c at which Theorem 3.8 gives exactly 1: (E - 1) / gamma, for finite gamma >= 1.

    Also the expected share of drafts that are accepted, which some servers print as an
    "acceptance rate"; it is below alpha for every gamma > 1.
    """
    alphas, gammas = domains.alphas(alpha), domains.gammas(gamma, least=1, endless=False)
    return plain(alphas * _tokens(alphas, gammas - 1) / gammas)  # E(γ) - 1 = α E(γ-1)


# ---- The best gamma (section 3.5) -----------------------------------------------------------


def best_gamma(
    alpha: ArrayLike,
    c: ArrayLike,
    verify_cost: VerifyCost = 1.0,
    *,
    least_verify_cost: float = 1.0,
    max_gamma: int | None = None,
) -> tuple[Any, Any]:
    """The integer gamma that maximises `walltime_speedup`, and the speed-up there (section 3.5).

    Speeds equal within 1e-12 (relative) go to the smaller gamma, and a draft that does not gain
    more than that is not worth it: (0, 1.0), so for alpha <= c wherever v >= 1.

    Parameters
    ----------
    alpha : in [0, 1]
    c : finite, >= 0
    verify_cost : finite number > 0, or a callable that gives one for an int gamma >= 1
    least_verify_cost : finite, > 0
        What a callable verify cost never falls below. Gammas are tried until no speed still
        possible with it can win, at the latest when 1 / ((1 - alpha)(c gamma + least)) cannot.
    max_gamma : int >= 0, optional
        The caller's own cap; without it the optimum is the true one, however large.

    Returns
    -------
    gamma : int, or array of int64
    speedup : float, or array

    Raises
    ------
    ValueError
        Without `max_gamma`: where the speed-up grows without end (at a constant verify cost:
        alpha = 1 with c < v, or c = 0), and where the search for a callable could not stop.
    """
    shape, cells = _cells(alpha, c)
    verify, least = _verify(verify_cost), domains.positive("least_verify_cost", least_verify_cost)
    cap = None if max_gamma is None else domains.whole("max_gamma", max_gamma)
    best = [optimum.best(*cell, verify, least, cap) for cell in cells]
    if shape == ():
        return best[0]
    gammas = np.array([gamma for gamma, _ in best], dtype=np.int64)
    speeds = np.array([speed for _, speed in best], dtype=np.float64)
    return gammas.reshape(shape), speeds.reshape(shape)


def speedup_limit(
    alpha: ArrayLike,
    c: ArrayLike,
    verify_cost: VerifyCost = 1.0,
    *,
    least_verify_cost: float = 1.0,
) -> FloatOrArray:
    """The supremum of `walltime_speedup` over all gamma >= 0: never below 1, perhaps not reached.

    At a constant verify cost v it is 1 / ((1 - alpha) v) for c = 0, 1 / c for alpha = 1 with
    c < v (both infinite for alpha = 1, c = 0), elsewhere the maximum. Arguments and errors as for
    `best_gamma`: no finite number of calls tells the supremum of a callable verify cost where
    nothing but that cost could bound it.
    """
    shape, cells = _cells(alpha, c)
    verify, least = _verify(verify_cost), domains.positive("least_verify_cost", least_verify_cost)
    limits = [optimum.supremum(*cell, verify, least) for cell in cells]
    return plain(np.array(limits, dtype=np.float64).reshape(shape))


# ---- An oracle (section 3.5) ----------------------------------------------------------------


def oracle_speedup(alpha: ArrayLike, c: ArrayLike) -> FloatOrArray:
    """Speed-up with an oracle that tells how many drafts will be accepted, so that none is wasted.

    A round has 1 / (1 - alpha) tokens, `expected_tokens` at gamma = inf, and drafts all of them but
    one: 1 / (1 - alpha + c alpha). Where c > 1 it drafts nothing: 1.
    """
    alphas, costs = domains.alphas(alpha), domains.costs("c", c)
    with np.errstate(divide="ignore"):
        return plain(1 / (1 - alphas * (1 - np.minimum(costs, 1.0))))


def oracle_gain(alpha: ArrayLike, c: ArrayLike) -> FloatOrArray:
    """Factor by which `oracle_speedup` exceeds the best fixed gamma ("up to ~60%", section 3.5).

    1 at alpha = 0 or 1, at c = 0 (any gamma is free), and for c >= 1, where neither drafts.
    """
    known, fixed = np.asarray(oracle_speedup(alpha, c)), np.asarray(speedup_limit(alpha, c))
    both = np.isinf(known) & np.isinf(fixed)  # alpha = 1, c = 0
    return plain(np.divide(known, fixed, out=np.ones_like(known), where=~both))


# ---- Behind the formulas --------------------------------------------------------------------


def _tokens(alpha: Floats, gamma: Floats) -> Floats:
    """Equation (1) on checked arrays; expm1 keeps the digits that 1 - alpha^(gamma+1) loses."""
    with np.errstate(divide="ignore", invalid="ignore"):
        tokens = -np.expm1((gamma + 1) * np.log(alpha)) / (1 - alpha)
    return np.where(gamma == 0, 1.0, np.where(alpha == 1, gamma + 1, tokens))


def _verify(verify_cost: VerifyCost) -> VerifyCost:
    """The verify cost as a checked float, or as a callable whose values are checked."""
    if callable(verify_cost):
        return lambda gamma: _asked(verify_cost, gamma)
    return domains.positive("verify_cost", verify_cost)


def _verify_at(verify_cost: VerifyCost | Floats, gammas: Floats) -> Floats:
    """v at every gamma; a callable is asked once per value, and never for v(0) = 1."""
    if not callable(verify_cost):
        return np.where(gammas == 0, 1.0, domains.positives("verify_cost", verify_cost))
    if np.isinf(gammas).any():
        raise ValueError("gamma=inf needs a number as verify_cost, got a callable")
    values, where = np.unique(gammas, return_inverse=True)
    costs = [_asked(verify_cost, int(gamma)) if gamma else 1.0 for gamma in values]
    return np.array(costs)[where].reshape(gammas.shape)


def _asked(verify_cost: Callable[[int], float], gamma: int) -> float:
    cost = verify_cost(gamma)
    if isinstance(cost, float) and 0 < cost < math.inf:  # searches ask a thousand times
        return float(cost)
    return domains.positive(f"verify_cost({gamma})", cost)


def _cells(alpha: ArrayLike, c: ArrayLike) -> tuple[tuple[int, ...], list[tuple[float, float]]]:
    """The common shape of alpha and c, and their pairs as plain floats."""
    alphas, costs = np.broadcast_arrays(domains.alphas(alpha), domains.costs("c", c))
    return alphas.shape, list(zip(alphas.ravel().tolist(), costs.ravel().tolist(), strict=True))
