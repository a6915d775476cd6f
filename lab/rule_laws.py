"""What the verification rules give, in closed form: expected tokens, acceptance, output laws.

p = target law, q = draft law (V,), of floats or of exact fractions: no float literal, no cast,
but for `typical_threshold`, which needs an exponential. Laws of a whole round are functions of the
prefix (a tuple of the round's tokens so far). `lab.verify` has the rules themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.sampling import residual

Array = npt.NDArray[Any]
PrefixLaw = Callable[[tuple[int, ...]], Array]


# ---- A round: expected tokens, the target's own included --------------------------------------


def tokens_by_position(alphas: Iterable[Any]) -> Any:
    """1 + Σ_k Π_{i <= k} alpha_i: expected tokens of the token rule where position i accepts with
    alpha_i whatever came before; eq. (1) if they are equal."""
    tokens, reached = 1, 1
    for alpha in alphas:
        reached = reached * alpha
        tokens = tokens + reached
    return tokens


def token_tokens(target: PrefixLaw, draft: PrefixLaw, gamma: int) -> Any:
    """Expected tokens of a round of the token rule, laws that depend on the prefix:
    1 + Σ_l Σ_x Π_{i <= l} min(p(x_i), q(x_i))."""
    return 1 + _tokens(target, draft, gamma, lambda scores, p, q: [min(p, q) * scores[0]])


def block_tokens(target: PrefixLaw, draft: PrefixLaw, gamma: int) -> Any:
    """Expected tokens of a round of block verification:
    1 + Σ_l Σ_x min_{i <= l} q(x_1..x_i) p(x_{i+1}..x_l), the best that any rule of this kind can do
    (Sun et al. 2024, Theorem 2).

    Σ_l Σ_x min(q(x_1..x_l), p(x_1..x_l)) is often given for it, and is too large.
    """

    def longer(scores: list[Any], p: Any, q: Any) -> list[Any]:
        """q^i p^(l-i) of the path for every i, from those of the path without its last token."""
        return [*(score * p for score in scores), scores[-1] * q]

    return 1 + _tokens(target, draft, gamma, longer)


def _tokens(
    target: PrefixLaw, draft: PrefixLaw, gamma: int, longer: Callable[[list[Any], Any, Any], Any]
) -> Any:
    """Σ of the smallest score over all paths of 1 to gamma tokens."""
    gamma = domains.whole("gamma", gamma)
    total: Any = 0
    paths: list[tuple[tuple[int, ...], list[Any]]] = [((), [1])]
    while paths:
        prefix, scores = paths.pop()
        total += min(scores) if prefix else 0
        if len(prefix) < gamma:
            laws = zip(target(prefix), draft(prefix), strict=True)
            paths += [((*prefix, x), longer(scores, p, q)) for x, (p, q) in enumerate(laws)]
    return total


# ---- One draft: acceptance, and the law of the first token ------------------------------------


def match_acceptance(target_probs: Array, draft_probs: Array) -> Any:
    """Σ p q: how often the target's own draw is the draft."""
    return (np.asarray(target_probs) * np.asarray(draft_probs)).sum(axis=-1)


def lenient_acceptance(target_probs: Array, draft_probs: Array, leniency: Any) -> Any:
    """Σ min(p / l, q) (Leviathan et al. 2023, appendix A.5)."""
    return np.minimum(np.asarray(target_probs) / leniency, draft_probs).sum(axis=-1)


def lenient_law(
    target_probs: Array, draft_probs: Array, leniency: Any, scaled_residual: bool = True
) -> Array:
    """min(p / l, q) + (1 - acceptance) residual."""
    p, q = np.asarray(target_probs), np.asarray(draft_probs)
    kept = np.minimum(p / leniency, q)
    correction = residual(p, q * leniency if scaled_residual else q)
    law: Array = kept + (1 - kept.sum()) * correction
    return law


def typical_threshold(target_probs: Array, epsilon: float, delta: float) -> float:
    """min(epsilon, delta exp(-H(p))), H in nats: a draft must lie above it (Medusa)."""
    probs = np.asarray(target_probs).astype(np.float64)
    entropy = -sum(p * math.log(p) for p in probs[probs > 0])
    return min(epsilon, delta * math.exp(-entropy))


def typical_law(target_probs: Array, draft_probs: Array, epsilon: float, delta: float) -> Array:
    """q(x) [x typical] + p(x) q(not typical)."""
    p, q = np.asarray(target_probs), np.asarray(draft_probs)
    kept = np.where(p > typical_threshold(p, epsilon, delta), q, 0)
    law: Array = kept + (1 - kept.sum()) * p
    return law


def least_bias(divergence: Any, rejection: Any) -> Any:
    """max(0, TV(p, q) - R): no rule that rejects with probability R has less total variation from
    p (Yin et al. 2024, arXiv 2411.00841)."""
    return max(0, divergence - rejection)
