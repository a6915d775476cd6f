"""What a user who can only run a decoder sees of its law: samples, against the law it should have.

A law is {tokens: probability}, as `lab.exact` makes it. The reference is exact, never a second
sample: then Pearson's chi-square holds its level, which `false_alarms` measures.
Shapes: K outcomes of the law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.exact import Law, tokens_of
from lab.sampling import RandomDice
from lab.stats import (
    GoodnessOfFit,
    binomial_interval,
    chi2_isf,
    chi2_sf,
    clustered_mean,
    goodness_of_fit,
)
from lab.text import Generation

Array = npt.NDArray[Any]
Run = Callable[[Any], Generation]


def sample(run: Run, rngs: Iterable[np.random.Generator]) -> list[Generation]:
    """One run for each generator of randomness."""
    return [run(RandomDice(rng)) for rng in rngs]


def counts(runs: Iterable[Any], law: Law, length: int | None = None) -> Array:
    """How often each outcome of `law` came out (K + 1,); last, what the law does not know.

    `length` cuts the runs to their first tokens, as `prefix_law` does the law.
    """
    place = {tokens: i for i, tokens in enumerate(law)}
    seen = np.zeros(len(law) + 1, np.int64)
    for run in runs:
        seen[place.get(tokens_of(run)[:length], len(law))] += 1
    return seen


def fit(runs: Iterable[Any], law: Law, length: int | None = None) -> GoodnessOfFit:
    """Do runs come from `law`? An outcome that the law does not know refutes it."""
    probs = np.array([*law.values(), 0.0])
    return goodness_of_fit(counts(runs, law, length), probs)


@dataclass(frozen=True)
class AcceptanceTest:
    """Mean accepted drafts of a run beside its exact expectation; z in standard errors."""

    mean: float
    stderr: float
    expected: float

    @property
    def z(self) -> float:
        return (self.mean - self.expected) / self.stderr

    @property
    def p_value(self) -> float:
        """Two-sided, normal."""
        return math.erfc(abs(self.z) / math.sqrt(2))


def acceptance_test(runs: Sequence[Generation], expected: float) -> AcceptanceTest:
    """Drafts accepted in a whole run, over independent runs."""
    accepted = [sum(r.accepted for r in run.rounds) for run in runs]
    mean, stderr, _ = clustered_mean(accepted, np.arange(len(accepted)))
    return AcceptanceTest(mean, stderr, expected)


@dataclass(frozen=True)
class Rate:
    """How many of `trials` were called different, and the share that is due."""

    hits: int
    trials: int
    due: float

    @property
    def value(self) -> float:
        return self.hits / self.trials

    @property
    def stderr(self) -> float:
        """Of a share that is as due."""
        return math.sqrt(self.due * (1 - self.due) / self.trials)

    def agrees(self, risk: float) -> bool:
        """Whether the share due lies in the exact interval, which a sound one leaves with
        probability `risk` at most."""
        low, high = binomial_interval(self.hits, self.trials, 1 - risk)
        return low <= self.due <= high


def alarms(batches: Sequence[Sequence[Generation]], law: Law, length: int, level: float) -> Rate:
    """How often chi-square calls a batch of runs different from `law`, of `length` tokens."""
    hits = sum(fit(batch, law, length).p_value < level for batch in batches)
    return Rate(hits, len(batches), level)


def false_alarms(law: Law, size: int, trials: int, level: float, rng: np.random.Generator) -> Rate:
    """How often chi-square calls samples of `size` from `law` itself different."""
    probs = _probs(law)
    tests = (goodness_of_fit(seen, probs) for seen in rng.multinomial(size, probs, trials))
    return Rate(sum(test.p_value < level for test in tests), trials, level)


def two_sample_alarms(
    law: Law, size: int, trials: int, level: float, rng: np.random.Generator
) -> Rate:
    """The same, where the reference is a second sample and the limit that of a known law.

    The statistic is then twice as large, so the limit is passed as often as a chi-square passes
    half of it: that is `due`, in the limit of large samples.
    """
    probs = _probs(law)
    degrees = len(probs) - 1
    seen, other = (rng.multinomial(size, probs, trials) for _ in range(2))  # (trials, K)
    statistics = (np.square(seen - other) / np.maximum(other, 1)).sum(axis=1)
    limit = chi2_isf(level, degrees)
    return Rate(int((statistics > limit).sum()), trials, chi2_sf(limit / 2, degrees))


def _probs(law: Law) -> Array:
    """(K,), summing to 1 as a generator wants it."""
    probs = np.array(list(law.values()), np.float64)
    probs /= probs.sum()
    return probs
