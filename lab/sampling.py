"""From logits to probabilities to draws; all randomness of the lab passes through a `Dice`.

A dice answers two questions, `choose(probs) -> int` and `accept(probability) -> bool`. Any object
with these two methods is one: `RandomDice` asks a NumPy generator, a script replays answers, an
enumeration takes every branch. V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lab.domains import Floats, in_unit, number, positive, whole

Array = npt.NDArray[Any]


class Dice(Protocol):
    """The two questions through which all randomness passes."""

    def choose(self, probs: Array) -> int:
        """A token, drawn from its law probs (V,); never one of probability 0."""

    def accept(self, probability: Any) -> bool:
        """True with this probability (0..1)."""


class RandomDice:
    """A dice that spends exactly one `rng.random()` per question."""

    def __init__(self, rng: Any) -> None:
        if not callable(getattr(rng, "random", None)):
            raise ValueError(
                f"rng={rng!r} must be a numpy.random.Generator, or a dice with choose and accept"
            )
        self.rng = rng

    def choose(self, probs: Array) -> int:
        cumulative = np.add.accumulate(probs, dtype=np.float64)  # (V,)
        total = cumulative[-1] if len(cumulative) else 0.0
        if not 0 < total < np.inf:
            raise ValueError(f"probs must hold probabilities with a sum above 0, got sum {total}")
        # The first index whose sum lies above the draw has a probability above 0. Rounding can
        # lift the draw to the total itself; then it is the first index that reaches the total.
        token = cumulative.searchsorted(self.rng.random() * total, side="right")
        if token == len(cumulative):
            token = cumulative.searchsorted(total, side="left")
        return int(token)

    def accept(self, probability: Any) -> bool:
        if isinstance(probability, np.generic):
            probability = probability.item()  # NumPy would round the uniform to a float32
        return bool(self.rng.random() < probability)


def as_dice(rng: Any) -> Dice:
    """`rng` itself if it is a dice, else a `RandomDice` around it."""
    if hasattr(rng, "choose") and hasattr(rng, "accept"):
        dice: Dice = rng
        return dice
    return RandomDice(rng)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How logits become the law that tokens are drawn from (None = off).

    Applied in this order: repetition penalty (for every token of the history, positive logits
    are divided by it, negative ones multiplied), temperature (0 = the first argmax, always),
    top-k (ties go to the lower index), top-p (a token is kept while the mass before it is below
    top_p), min-p (relative to the largest probability).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        finite = "a finite number >= 0"
        number("temperature", self.temperature, finite, lambda t: (t >= 0) & np.isfinite(t))
        if self.top_k is not None:
            whole("top_k", self.top_k, 1)
        if self.top_p is not None:
            above_0 = "above 0 and at most 1, or None"
            number("top_p", self.top_p, above_0, lambda p: (p > 0) & (p <= 1))
        if self.min_p is not None:
            number("min_p", self.min_p, "in 0..1, or None", in_unit)
        positive("repetition_penalty", self.repetition_penalty)

    def probs(self, logits: Array, history: Sequence[int] | Array = ()) -> Floats:
        """Processed law of each row: logits (..., V) -> float64 (..., V); the input is untouched.

        `history` holds all tokens before the position, prompt included; it is one for all rows,
        so with a penalty on, rows at different positions are asked one by one (`probs_after`).
        A logit of -inf is probability 0. NaN, +inf or a row of -inf: ValueError.
        """
        try:
            logits = np.array(logits, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"logits must be real numbers (..., V), got {logits!r}") from None
        if logits.ndim == 0 or logits.shape[-1] == 0:
            raise ValueError(f"logits must be (..., V) with V >= 1, got shape {logits.shape}")
        if self.repetition_penalty != 1 and len(history):
            seen = np.unique(np.asarray(history))
            if seen.dtype.kind not in "iu" or seen[0] < 0 or seen[-1] >= logits.shape[-1]:
                raise ValueError(
                    f"history must hold tokens within 0..{logits.shape[-1] - 1}, got "
                    f"{seen[0]}..{seen[-1]}"
                )
            values = logits[..., seen]
            penalty = self.repetition_penalty
            logits[..., seen] = np.where(values > 0, values / penalty, values * penalty)
        largest = logits.max(axis=-1, keepdims=True)  # NaN wins
        if not np.isfinite(largest).all():
            bad = largest[~np.isfinite(largest)][0]
            raise ValueError(f"logits must have a finite largest value in every row, got {bad}")
        if self.temperature == 0:
            return _one_hot(logits.argmax(axis=-1), logits.shape)
        with np.errstate(over="ignore"):
            logits -= largest  # before the division: T = 1e-308 must not overflow
            logits /= self.temperature
        return self._filtered(logits)

    def probs_after(self, logits: Array, history: Sequence[int] | Array, tokens: Array) -> Floats:
        """logits (T, V) of the positions that follow each of `tokens` (T,), after `history`."""
        if self.repetition_penalty == 1:
            return self.probs(logits)
        seen = np.concatenate((np.asarray(history, dtype=np.int64), tokens))
        before = len(history) + 1
        return np.stack([self.probs(row, seen[: before + i]) for i, row in enumerate(logits)])

    def _filtered(self, logits: Floats) -> Floats:
        """Softmax of rows whose maximum is 0, then the filters."""
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            order = np.argsort(-logits, axis=-1, kind="stable")[..., self.top_k :]
            np.put_along_axis(logits, order, -np.inf, axis=-1)
        weights = np.exp(logits, out=logits)
        weights /= weights.sum(axis=-1, keepdims=True)
        if self.top_p is not None and self.top_p < 1:
            order = np.argsort(-weights, axis=-1, kind="stable")
            ranked = np.take_along_axis(weights, order, axis=-1)
            before = np.cumsum(ranked, axis=-1) - ranked
            # A law such as (.5, .3, .2) reaches .5 up to rounding: that counts as reached.
            ranked[before > self.top_p - 1e-15] = 0
            np.put_along_axis(weights, order, ranked, axis=-1)
        if self.min_p:
            weights[weights < self.min_p * weights.max(axis=-1, keepdims=True)] = 0
        if self.top_p is not None or self.min_p:
            weights /= weights.sum(axis=-1, keepdims=True)
        return weights


def residual(target_probs: Array, draft_probs: Array) -> Array:
    """Law of the replacement token after a rejection (section 2.3): norm(max(0, p - q)).

    Where that is empty (p = q, up to rounding) it is p. Laws (..., V) -> (..., V), of floats or of
    exact fractions; the inputs are untouched.
    """
    target, draft = np.asarray(target_probs), np.asarray(draft_probs)
    if target.shape != draft.shape or not target.ndim:
        raise ValueError(
            f"target_probs {target.shape} and draft_probs {draft.shape} must be (..., V), alike"
        )
    gap = np.maximum(target - draft, 0)
    mass = gap.sum(axis=-1, keepdims=True)  # = 1 - beta
    empty = mass == 0
    if empty.any():
        gap, mass = np.where(empty, target, gap), np.where(empty, 1, mass)
    law: Array = gap / mass
    return law


def _one_hot(tokens: Array, shape: tuple[int, ...]) -> Floats:
    law = np.zeros(shape)
    np.put_along_axis(law, np.asarray(tokens)[..., None], 1.0, axis=-1)
    return law
