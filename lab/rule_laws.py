"""Closed forms of the verification rules: expected tokens, lenience, a threshold, the least bias.

p = target law, q = draft law (V,), of floats or of exact fractions: no float literal, no cast, but
in `typical_threshold`, which needs an exponential, and for `leniency`, a setting. Laws of a whole
round are functions of the prefix (a tuple of the round's tokens so far). `lab.verify` has the rules
themselves, `lab.rulecost` what each does to one draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains

Array = npt.NDArray[Any]
PrefixLaw = Callable[[tuple[int, ...]], Array]


# ---- A round: expected tokens, the target's own included --------------------------------------


def tokens_by_position(alphas: Iterable[Any]) -> Any:
    """1 + Σ_k Π_{i <= k} alpha_i: expected tokens where position i accepts with alpha_i whatever
    came before; eq. (1) if they are equal."""
    rates = list(alphas)
    domains.numbers("alphas", rates, "in [0, 1]", domains.in_unit)
    tokens, reached = 1, 1
    for alpha in rates:
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
    (Sun et al. 2024, Theorem 2)."""

    def longer(scores: list[Any], p: Any, q: Any) -> list[Any]:
        """q^i p^(l-i) of the path for every i, from those of the path without its last token."""
        return [*(score * p for score in scores), scores[-1] * q]

    return 1 + _tokens(target, draft, gamma, longer)


def circulating_tokens(target: PrefixLaw, draft: PrefixLaw, gamma: int) -> Any:
    """1 + Σ_l Σ_x min(q(x_1..x_l), p(x_1..x_l)), often given for block verification: too large.

    No rule keeps a prefix with both of these laws' overlap at every length at once.
    """
    return 1 + _tokens(target, draft, gamma, lambda scores, p, q: [scores[0] * p, scores[-1] * q])


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
            laws = target(prefix), draft(prefix)
            domains.laws(*laws)
            pairs = enumerate(zip(*laws, strict=True))
            paths += [((*prefix, x), longer(scores, p, q)) for x, (p, q) in pairs]
    return total


# ---- One draft ---------------------------------------------------------------------------------


def leniency(value: Any) -> Fraction:
    """Lenience l, above 0 and at most 1, exactly."""
    floating = domains.number(
        "leniency", value, "above 0 and at most 1", lambda x: (x > 0) & (x <= 1)
    )
    return Fraction(value) if isinstance(value, Rational) else Fraction(floating)


def alike(law: Array, factor: Fraction) -> Any:
    """A factor as the law's numbers are: a float for floats, itself for exact ones."""
    return factor if law.dtype == object else float(factor)


def typical_threshold(target_probs: npt.ArrayLike, epsilon: float, delta: float) -> Any:
    """min(epsilon, delta exp(-H(p))), H in nats: (..., V) -> (...); a draft must lie above it
    (Medusa)."""
    probs = np.asarray(target_probs).astype(np.float64)  # fractions too
    logs = np.log(np.where(probs > 0, probs, 1))
    return np.minimum(epsilon, delta * np.exp((probs * logs).sum(axis=-1)))


def least_bias(divergence: Any, rejection: Any) -> Any:
    """max(0, TV(p, q) - R): no rule that rejects with probability R has less total variation from
    p (Yin et al. 2024, arXiv 2411.00841)."""
    return max(0, divergence - rejection)
