"""Exact expectations over the branches of a run: its counters, and what estimators say about it.

A run comes with its probability, so a mean over runs has no error. `lab.exact.audit` collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from lab import estimate
from lab.text import Generation, Round


class Expectations(NamedTuple):
    """Of the runs given. Estimators are those of `lab.estimate` that are printed about rounds, by
    their functions' names: alpha_from_rounds, accepted_per_drafted, drafted_per_round, and
    tokens_per_call with gamma the most drafts that any round was allowed.

    expected : means of the counters drafted, tested, accepted, emitted, target_calls, draft_calls,
        and of every estimator's value for one run, over the runs for which it has one
    exists : {estimator: probability that it gives a value for a run}; it has none where nothing was
        tested, drafted, or allowed gamma drafts
    pooled : {estimator: ratio of expectations}, such as E accepted / E tested: what its value for
        many runs together tends to. The mean of its values for single runs tends to `expected`,
        which is another number: how many rounds a run has depends on what they accept.
    """

    expected: dict[str, float]
    exists: dict[str, float]
    pooled: dict[str, float]


def expectations(runs: Sequence[tuple[Generation, Any]]) -> Expectations:
    """Over pairs (run, probability); probabilities sum to 1, and may be fractions."""
    gamma = max((r.allowed for run, _ in runs for r in run.rounds), default=0)
    sums: dict[str, float] = {}
    exists: dict[str, float] = {}
    over: dict[str, float] = {}
    under: dict[str, float] = {}
    for run, chance in runs:
        estimates, ratios = _estimates(run, gamma), _ratios(run.rounds, gamma)
        _add(sums, chance, counts_of(run) | estimates)
        _add(exists, chance, {name: name in estimates for name in ratios})
        _add(over, chance, {name: numerator for name, (numerator, _) in ratios.items()})
        _add(under, chance, {name: denominator for name, (_, denominator) in ratios.items()})
    return Expectations(
        {name: value / exists.get(name, 1) for name, value in sums.items()},
        exists,
        {name: over[name] / under[name] for name in over if under[name]},
    )


def counts_of(generation: Generation) -> dict[str, float]:
    """The counters of a run, summed over its rounds."""
    names = ("drafted", "tested", "accepted", "emitted")
    counts = {name: float(_total(name, generation.rounds)) for name in names}
    return counts | {
        "target_calls": float(generation.target_calls),
        "draft_calls": float(generation.draft_calls),
    }


def _estimates(run: Generation, gamma: int) -> dict[str, float]:
    """What the estimators say about one run; those that refuse it are left out."""
    estimators: dict[str, Callable[[], float]] = {
        "alpha_from_rounds": lambda: estimate.alpha_from_rounds(run.rounds).value,
        "accepted_per_drafted": lambda: estimate.accepted_per_drafted(run.rounds).value,
        "drafted_per_round": lambda: estimate.drafted_per_round(run.rounds),
        "tokens_per_call": lambda: estimate.tokens_per_call([run], gamma).value,
    }
    values = {}
    for name, estimator in estimators.items():
        with suppress(ValueError):
            values[name] = estimator()
    return values


def _ratios(rounds: Sequence[Round], gamma: int) -> dict[str, tuple[int, int]]:
    """Numerator and denominator, over one run, of what each estimator is for."""
    accepted, drafted = _total("accepted", rounds), _total("drafted", rounds)
    full = [r for r in rounds if r.allowed == gamma]
    return {
        "alpha_from_rounds": (accepted, _total("tested", rounds)),
        "accepted_per_drafted": (accepted, drafted),
        "drafted_per_round": (drafted, len(rounds)),
        "tokens_per_call": (_total("accepted", full) + len(full), len(full)),
    }


def _total(count: str, rounds: Sequence[Round]) -> int:
    return sum(getattr(r, count) for r in rounds)


def _add(sums: dict[str, float], chance: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        sums[name] = sums.get(name, 0) + float(chance) * value
