"""What the arguments of the formulas may be: each check gives float64, or a ValueError that names
the argument, the value and what is allowed. NaN is never allowed."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LAW_SUM = 1e-6  # how far a law's sum may be from 1: room for float32 laws, not for logits


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
    return numbers(name, value, "finite and above 0", lambda x: np.isfinite(x) & (x > 0))


def positive(name: str, value: ArrayLike) -> float:
    """One positive number."""
    if np.ndim(value) != 0:
        raise ValueError(f"{name} must be one number, got {value!r}")
    return float(positives(name, value))


def gammas(value: ArrayLike, least: int = 0, endless: bool = True) -> Floats:
    """Draft lengths: whole numbers, and infinity where a formula has that limit."""
    allowed = f"an integer of at least {least}" + (", or inf" if endless else "")

    def holds(x: Floats) -> Bools:
        whole: Bools = (x >= least) & (x == np.floor(x))
        return whole if endless else whole & np.isfinite(x)

    return numbers("gamma", value, allowed, holds)


def integer(name: str, value: int) -> int:
    """One integer in [0, 2^63), a float that happens to be whole is none."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not (whole and 0 <= value < 2**63):
        raise ValueError(f"{name} must be an integer in [0, 2^63), got {value!r}")
    return int(value)


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
