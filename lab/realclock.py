"""What a round of each draft costs on this machine, and the wall-clock ratio it comes to.

Passes of the target and of every draft are timed step by step along real text, side by side; then
the loop itself, around models that cost nothing; then the real loop beside plain decoding. Nothing
else may run meanwhile. Shapes: n rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.acceptance import tokens_of
from lab.costs import Costs, catching_up, measured, one_pass
from lab.decode import autoregressive_generate, speculative_generate
from lab.domains import Floats
from lab.measure import paired_ratio, paired_seconds, seconds_of_laws, streams
from lab.planted import PlantedDraft, Recital
from lab.realtext import LOOKUP, draft, target
from lab.sampling import Sampling
from lab.text import Generation
from lab.theory import walltime_speedup

Array = npt.NDArray[Any]
Call = Callable[[], object]
Tokens = npt.NDArray[np.int64]

CATCH_UP = (1, 2)  # rows of a draft's pass: one token, or after a full acceptance two
CONTEXT = 32  # tokens read before the first timed pass
BARE_ROUNDS = 25  # of the loop around models that cost nothing
SHARP = 6.0  # their logit of the token that they name: probability .6 of 256
WRONG = 4  # every so many positions draft and target name different tokens


# ---- The parts of a round ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoundParts:
    """Seconds of the parts of a round at one temperature.

    Attributes
    ----------
    target : {n: of a target pass over n rows}
    drafts : {name: {n: of a draft pass over n rows}}; of prompt lookup {1: of a whole look-up}
    sample : {n: in which n rows of logits become laws}
    per_round : {gamma: of the loop without the above}, around a draft that is a model
    per_lookup : the same around certain drafts
    """

    target: dict[int, float]
    drafts: dict[str, dict[int, float]]
    sample: dict[int, float]
    per_round: dict[int, float]
    per_lookup: dict[int, float]

    def cost(self, name: str) -> float:
        """c: a draft's pass over the target's, one row each."""
        return self.drafts[name][1] / self.target[1]

    def costs(self, name: str, full_acceptance: Callable[[int], float]) -> Costs:
        """Of a round with this draft; full_acceptance(gamma) is the share of rounds in which all
        drafts are accepted, so that the draft has two rows to read next."""
        lookup = name == LOOKUP
        passes = measured(self.drafts[name], "rows")
        return Costs(
            measured(self.target, "rows"),
            one_pass(passes(1)) if lookup else catching_up(passes, full_acceptance),
            measured(self.sample, "rows"),
            measured(self.per_lookup if lookup else self.per_round, "gamma"),
        )


def measure_passes(
    names: Sequence[str], texts: Sequence[Tokens], most: int, repeats: int
) -> tuple[dict[int, float], dict[str, dict[int, float]]]:
    """`target` and `drafts` of `RoundParts`, for at most `most` drafts a round; each pass follows
    the one before it along the text. Ratios to the target's pass over one row are paired. Behind
    the target's passes a small draft finds cold caches, so the first draft has a pass that nobody
    counts: all are timed behind another draft, as most are in a round.

    texts : two that no n-gram has met, long enough for `repeats` passes over two rows: it keeps the
        rows that it once made
    """
    models = [name for name in names if name != LOOKUP]
    counts = range(1, most + 2)
    calls: list[Call] = [stepping(target(), texts[0], n) for n in counts]
    calls += [stepping(draft(name), texts[0], 1) for name in models[:1]]  # warms the caches
    calls += [stepping(draft(name), texts[n - 1], n) for name in models for n in CATCH_UP]
    if LOOKUP in names:
        calls.append(looking_up(texts[0], most))
    seconds = paired_seconds(calls, repeats)
    one = float(np.median(seconds[:, 0]))
    spent = iter((one * paired_ratio(seconds)).tolist())
    of_target = {n: next(spent) for n in counts}
    for _ in models[:1]:
        next(spent)
    of_drafts = {name: {n: next(spent) for n in CATCH_UP} for name in models}
    if LOOKUP in names:
        of_drafts[LOOKUP] = {1: next(spent)}
    return of_target, of_drafts


def stepping(model: Any, text: Tokens, rows: int) -> Call:
    """A call that reads the next `rows` tokens of a text, from `CONTEXT` on, over and over."""
    if len(text) < CONTEXT + rows:
        raise ValueError(f"text must have at least {CONTEXT + rows} tokens, got {len(text)}")
    cache = model.new_cache()
    model.prefill(text[:CONTEXT], cache)

    def call() -> None:
        if cache.length + rows > len(text):
            cache.truncate(CONTEXT)
        model.forward(text[cache.length : cache.length + rows], cache)

    return call


def looking_up(text: Tokens, gamma: int) -> Call:
    """A call that looks up the next of a text's positions."""
    lookup, ends = draft(LOOKUP), _cycle(CONTEXT, len(text))
    return lambda: lookup.lookup(text[: next(ends)], gamma)


def _cycle(start: int, stop: int) -> Iterator[int]:
    while True:
        yield from range(start, stop)


def measure_parts(
    passes: tuple[dict[int, float], dict[str, dict[int, float]]],
    most: int,
    sampling: Sampling,
    repeats: int,
) -> RoundParts:
    """The parts of a round at the temperature of `sampling`, for gamma 0 .. `most`."""
    rows = np.random.default_rng(0).standard_normal((most + 1, target().vocab), np.float32)
    sample = seconds_of_laws(sampling, rows, range(1, most + 2), repeats)
    found: list[dict[int, float]] = []
    for certain in (False, True):
        runs = [partial(_bare_run, gamma, certain, sampling) for gamma in range(most + 1)]
        calls = np.array([len(run().rounds) for run in runs])
        rounds = np.median(paired_seconds(runs, max(3, repeats // 8)), axis=0) / calls
        found.append({g: max(0.0, float(s) - sample[g + 1]) for g, s in enumerate(rounds)})
    return RoundParts(*passes, sample, *found)


def _bare_run(gamma: int, certain: bool, sampling: Sampling) -> Generation:
    """The loop around a target and a draft that cost nothing, and do not always agree."""
    vocab, n_new = target().vocab, BARE_ROUNDS * (gamma + 1)
    text = np.arange(n_new + gamma + 2) % vocab
    right = np.arange(len(text)) % WRONG > 0
    free, other = (Recital(vocab, names) for names in (text, (text + ~right) % vocab))
    free.logits *= SHARP
    other.logits *= SHARP
    planted = PlantedDraft(vocab, text, right) if certain else other
    (rng,) = streams(1, gamma)
    return speculative_generate(
        free, planted if gamma else None, text[:1], n_new, gamma, sampling=sampling, rng=rng
    )


# ---- The stopwatch -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Timed:
    """Rounds of one run under the stopwatch."""

    seconds: float
    rounds: int
    tokens: int


def timed_run(
    name: str | None, prompt: Tokens, n_new: int, gamma: int, sampling: Sampling, *cell: int
) -> Timed:
    """One sequence in the real loop, from the end of its first round, which begins with the
    prompt, to the end of its last that was allowed gamma drafts; name None is plain decoding."""
    (rng,) = streams(1, *cell)
    marks: list[float] = []

    def mark(token: int) -> None:
        marks.append(time.perf_counter())

    if name is None:
        run = autoregressive_generate(
            target(), prompt, n_new, sampling=sampling, rng=rng, on_token=mark
        )
    else:
        run = speculative_generate(
            target(), draft(name), prompt, n_new, gamma, sampling=sampling, rng=rng, on_token=mark
        )
    ends = np.cumsum([r.emitted for r in run.rounds if r.allowed == gamma])
    if len(ends) < 2:
        raise ValueError(f"n_new={n_new} must leave room for two rounds of gamma={gamma} drafts")
    first, last = int(ends[0]), int(ends[-1])
    return Timed(marks[last - 1] - marks[first - 1], len(ends) - 1, last - first)


@dataclass(frozen=True, slots=True)
class ClockCell:
    """One draft on one kind of text at one temperature.

    Attributes
    ----------
    gamma : the best of those replayed, at least 1, under all costs
    alpha, cost : α of the texts and c, the letters of Theorem 3.8; alpha None where there is none
    tokens : per call, by replay along the texts
    paper : wall-clock ratio by Theorem 3.8 as printed, at that gamma; None without alpha
    full : by replay and all costs
    timed_tokens : per call, of the runs under the stopwatch
    clock : seconds of plain decoding for these tokens over seconds of the runs
    """

    kind: str
    draft: str
    temperature: float
    gamma: int
    alpha: float | None
    cost: float
    tokens: float
    paper: float | None
    full: float
    timed_tokens: float
    clock: float

    @property
    def without_luck(self) -> float:
        """What the clock would show at the replayed tokens per call."""
        return self.clock * self.tokens / self.timed_tokens


def best_drafted(costs: Costs, tokens: Callable[[int], float], most: int) -> tuple[int, float]:
    """The gamma from 1 to `most` with the largest speed-up, which may lie below 1, and that."""
    speeds = {gamma: costs.speedup(tokens, gamma) for gamma in range(1, most + 1)}
    best = max(speeds, key=speeds.__getitem__)
    return best, speeds[best]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a draft before it is timed.

    Attributes
    ----------
    alpha : α, or None
    rounds : {gamma: (G, gamma + 1)}, of `lab.replay.rounds_along`
    """

    draft: str
    alpha: float | None
    rounds: dict[int, Floats]

    def tokens(self, gamma: int) -> float:
        """Tokens per call."""
        return tokens_of(self.rounds[gamma])

    def full_acceptance(self, gamma: int) -> float:
        """Share of rounds whose drafts are all accepted."""
        total = self.rounds[gamma].sum(axis=0)
        return float(min(1.0, total[-1] / total[0]))


def clock_cells(
    kind: str,
    temperature: float,
    plans: Sequence[Plan],
    parts: RoundParts,
    prompts: Sequence[Tokens],
    n_new: int,
    seed: int,
) -> list[ClockCell]:
    """Every draft beside plain decoding, A B C A B C: a turn for each prompt.

    Per turn, plain decoding's seconds a token over the draft's seconds a round; the median over
    turns, times the tokens per call of all turns together, so that a turn's luck is no cost.
    """
    sampling = Sampling(temperature=temperature)
    most = max(plans[0].rounds)
    costs = [parts.costs(plan.draft, plan.full_acceptance) for plan in plans]
    best = [best_drafted(c, plan.tokens, most) for c, plan in zip(costs, plans, strict=True)]
    entrants = [
        (None, 0),
        *((plan.draft, gamma) for plan, (gamma, _) in zip(plans, best, strict=True)),
    ]
    turns = [
        [timed_run(name, prompt, n_new, gamma, sampling, seed, i) for name, gamma in entrants]
        for i, prompt in enumerate(prompts)
    ]
    cells = []
    for j, (plan, (gamma, full)) in enumerate(zip(plans, best, strict=True), 1):
        ratios = [
            (turn[0].seconds / turn[0].tokens) / (turn[j].seconds / turn[j].rounds)
            for turn in turns
        ]
        of_runs = sum(turn[j].tokens for turn in turns) / sum(turn[j].rounds for turn in turns)
        c = parts.cost(plan.draft)
        paper = None if plan.alpha is None else float(walltime_speedup(plan.alpha, gamma, c))
        cells.append(
            ClockCell(
                kind, plan.draft, temperature, gamma, plan.alpha, c, plan.tokens(gamma), paper,
                full, of_runs, float(np.median(ratios)) * of_runs,
            )
        )  # fmt: skip
    return cells
