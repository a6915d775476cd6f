"""What arguments may be: each check gives the value in the form it is computed with, or a
ValueError that names the argument, the value and what is allowed. NaN is never allowed.

One whole number becomes a Python int, tokens become int64, all other numbers float64; `plain` is
for results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
FloatOrArray = Any  # a float for floats, an array for arrays: NumPy types its ufuncs so, too

LAW_SUM = 1e-6  # how far a law's sum may be from 1: room for float32 laws, not for logits


# ---- One number -----------------------------------------------------------------------------


def is_whole(value: object) -> TypeGuard[int]:
    """True for integers, NumPy's too; not for bool, nor for a float that happens to be whole."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def whole(name: str, value: object, least: int = 0, most: int | None = None) -> int:
    """One whole number from `least` to `most`, of whatever library (it has `__index__` and is no
    bool), as a Python int; without `most`, one of int64."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is not None and least <= number <= (2**63 - 1 if most is None else most):
        return number
    allowed = f">= {least} and < 2^63" if most is None else f"within {least}..{most}"
    raise ValueError(f"{name}={value!r} must be a whole number {allowed}")


def number(name: str, value: ArrayLike, allowed: str, holds: Callable[[Floats], Bools]) -> float:
    """One number of the set that `holds` and `allowed` describe."""
    if np.ndim(value) != 0:
        raise ValueError(f"{name}={value!r} must be one number")
    try:
        return float(numbers(name, value, allowed, holds))
    except ValueError:
        raise ValueError(f"{name}={value!r} must be {allowed}") from None


def positive(name: str, value: ArrayLike) -> float:
    """One positive number."""
    return number(name, value, "a finite number above 0", _is_positive)


def cost(name: str, value: ArrayLike) -> float:
    """One finite number of at least 0."""
    if np.ndim(value) != 0:
        raise ValueError(f"{name}={value!r} must be one number")
    return float(costs(name, value))


# ---- Arrays of numbers ----------------------------------------------------------------------


def numbers(name: str, value: ArrayLike, allowed: str, holds: Callable[[Floats], Bools]) -> Floats:
    """`value` as an array, if all of it is in the set that `holds` and `allowed` describe."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "iufO":  # O: fractions, large ints
            raise TypeError
        array = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {allowed}, got {value!r}") from None
    bad = ~holds(array)  # NaN fails every comparison
    if bad.any():
        raise ValueError(f"{name} must be {allowed}, got {given[bad][0]}")
    return array


def in_unit(x: Floats) -> Bools:
    return (x >= 0) & (x <= 1)


def alphas(value: ArrayLike) -> Floats:
    return numbers("alpha", value, "in [0, 1]", in_unit)


def costs(name: str, value: ArrayLike) -> Floats:
    return numbers(name, value, "finite and at least 0", lambda x: np.isfinite(x) & (x >= 0))


def positives(name: str, value: ArrayLike) -> Floats:
    return numbers(name, value, "finite and above 0", _is_positive)


def gammas(value: ArrayLike, least: int = 0, endless: bool = True) -> Floats:
    """Draft lengths: whole numbers, and infinity where a formula has that limit."""
    allowed = f"an integer of at least {least}" + (", or inf" if endless else "")

    def holds(x: Floats) -> Bools:
        whole: Bools = (x >= least) & (x == np.floor(x))
        return whole if endless else whole & np.isfinite(x)

    return numbers("gamma", value, allowed, holds)


# ---- Laws and tokens ------------------------------------------------------------------------


def laws(target_probs: ArrayLike, draft_probs: ArrayLike) -> tuple[Floats, Floats]:
    """Laws of the target and of the draft, of one shape (..., V)."""
    target, draft = law("target_probs", target_probs), law("draft_probs", draft_probs)
    if target.shape != draft.shape:
        raise ValueError(
            "target_probs and draft_probs must have one shape (..., V), "
            f"got {target.shape} and {draft.shape}"
        )
    return target, draft


def law(name: str, probs: ArrayLike) -> Floats:
    """Laws (..., V): in [0, 1] and summing to 1 over the last axis."""
    array = numbers(name, probs, "probabilities in [0, 1]", lambda x: (x >= 0) & (x <= 1 + LAW_SUM))
    if array.ndim == 0:
        raise ValueError(f"{name} must have a last axis, the vocabulary, got the number {array}")
    sums = array.sum(axis=-1)
    off = np.abs(sums - 1) > LAW_SUM
    if off.any():
        raise ValueError(f"{name} must sum to 1 over the last axis, got {sums[off][0]}")
    return array


def tokens(name: str, value: Any, vocab: int) -> Ints:
    """Token ids (n,) of a vocabulary; none at all is allowed."""
    try:
        ids = np.asarray(value)
    except ValueError:  # rows of several lengths
        raise ValueError(f"{name}={value!r} must be one row of tokens") from None
    if ids.ndim != 1:
        text = f" {value!r}: see lab.corpus.encode" if isinstance(value, str) else ""
        raise ValueError(f"{name} must be one row of tokens, got shape {ids.shape}{text}")
    if not ids.size:
        return np.zeros(0, np.int64)
    if ids.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, got dtype {ids.dtype}")
    unsigned = ids.astype(np.uint64)  # a negative id is a huge one
    if unsigned.max() >= vocab:
        bad = ids[unsigned >= vocab][0]
        raise ValueError(f"{name}: token {bad} is not within 0..{vocab - 1} (vocab={vocab})")
    return unsigned.view(np.int64)


def _is_positive(x: Floats) -> Bools:
    return np.isfinite(x) & (x > 0)


# ---- Results --------------------------------------------------------------------------------


def plain(result: Any) -> FloatOrArray:
    """What a formula gives: a float where all it was given were floats, else an array."""
    return float(result) if np.ndim(result) == 0 else result
