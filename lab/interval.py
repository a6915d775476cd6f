"""An estimate: a value with its error and a 95 % interval within what is possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.domains import Floats, in_unit, numbers
from lab.stats import ClusteredMean, t_quantile

CONFIDENCE = 0.95

Texts = npt.ArrayLike | Sequence[npt.ArrayLike]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its error and its 95 % interval.

    Attributes
    ----------
    name : what was estimated, and from what
    value : within low..high
    stderr : standard error; inf where there is one cluster only
    low, high : the interval, never outside the possible range
    n : how many values were averaged (positions, drafts, rounds: see each estimator)
    """

    name: str
    value: float
    stderr: float
    low: float
    high: float
    n: int


def estimate(name: str, mean: ClusteredMean, n: int, lowest: float, highest: float) -> Estimate:
    """The interval of a clustered mean within what is possible."""
    value, stderr, groups = mean
    value = min(max(value, lowest), highest)  # sums round
    if groups == 1:
        return Estimate(name, value, stderr, lowest, highest, n)
    reach = t_quantile((1 + CONFIDENCE) / 2, groups - 1) * stderr
    return Estimate(name, value, stderr, max(lowest, value - reach), min(highest, value + reach), n)


def in_stderrs(mean: ClusteredMean) -> float:
    """A mean in standard errors; 0 ± 0 is 0: where nothing varies there is nothing to differ by."""
    if mean.stderr == 0:
        return math.copysign(math.inf, mean.mean) if mean.mean else 0.0
    return mean.mean / mean.stderr


def rows_of(
    name: str,
    value: Texts,
    allowed: str = "in [0, 1]",
    holds: Callable[[Floats], npt.NDArray[np.bool_]] = in_unit,
) -> list[Floats]:
    """One row of numbers, or several of any lengths, as a list of rows, none of them empty."""
    given: Any = value
    several = hasattr(given, "__len__") and len(given) > 0 and np.ndim(given[0]) > 0
    rows = [numbers(name, row, allowed, holds) for row in (given if several else [given])]
    for row in rows:
        if row.ndim != 1 or not row.size:
            raise ValueError(f"{name} must be rows (n,) with n >= 1, got shape {row.shape}")
    return rows


def row_labels(rows: Sequence[Floats]) -> npt.NDArray[np.int64]:
    """The row of each number of the joined rows."""
    return np.repeat(np.arange(len(rows)), [len(row) for row in rows])
