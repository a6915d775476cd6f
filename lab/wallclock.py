"""The stopwatch against two formulas: Theorem 3.8 as printed, and the full costs of a round.

The target is as large as GPT-2 (124M), so that its weights come from memory, not from a cache. Its
drafts are planted (`lab.planted`): right with a known probability, at a known price. What a round
costs is measured part by part, then whole rounds of the real loop are timed.

Shapes: n rows, S cached positions, V = vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import theory
from lab.bench import Ratio, forward_of
from lab.costs import Costs, measured
from lab.decode import autoregressive_generate, speculate
from lab.forward import respond
from lab.measure import paired_seconds, random_prompts, seconds_of_laws, streams
from lab.planted import PlantedDraft, Recital, right_along, typical_rounds
from lab.sampling import Sampling
from lab.transformer import ModelConfig

Array = npt.NDArray[Any]

GPT2 = ModelConfig(
    vocab=50257, d_model=768, n_layers=12, n_heads=12, d_ff=3072, max_len=1024, norm="layer",
    positions="learned", activation="gelu", bias=True, tied=True,
)  # fmt: skip
GREEDY = Sampling(temperature=0)
PROMPT = 16  # tokens
ROOM = 32  # tokens behind the last timed round: more than a round has


def memory_of(config: ModelConfig) -> tuple[int, int]:
    """Bytes that a random model of a shape takes: at most, while it is made, and then.

    Weights are drawn as float64 and become float32; a tied head has a copy in its own layout.
    """
    shapes = config.shapes()
    count = sum(int(np.prod(shape)) for shape in shapes.values())
    head = config.vocab * config.d_model if config.tied else 0
    width = np.dtype(config.dtype).itemsize
    return (8 + width) * count + width * head, width * (count + head)


# ---- What the parts of a round cost ----------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """Seconds of the parts of a round, each measured by itself.

    Attributes
    ----------
    target : {n: seconds of a pass over n rows}
    ratios : {n: T(n) / T(1)}, the median of paired passes
    quartiles : {n: of these}
    sample : {n: seconds in which n rows of logits become laws}
    per_round : {gamma: seconds of the loop, its rule and its drafter, without the above}
    """

    target: dict[int, float]
    ratios: dict[int, float]
    quartiles: dict[int, tuple[float, float]]
    sample: dict[int, float]
    per_round: dict[int, float]

    def costs(self, draft: float) -> Costs:
        """With a draft that takes so many seconds a token."""
        return Costs(
            measured(self.target, "rows"),
            draft,
            measured(self.sample, "rows"),
            measured(self.per_round, "gamma"),
        )


class Passes:
    """A target's passes over 1 and gamma + 1 rows, timed again and again.

    A machine that others use is faster at one minute than at another. Passes that are timed between
    the runs are of the same minutes as these.
    """

    def __init__(self, target: Any, gammas: Sequence[int]) -> None:
        self.vocab, self.gammas = target.vocab, tuple(gammas)
        self.counts = sorted({1, *(gamma + 1 for gamma in gammas)})
        self.calls = [forward_of(target, n) for n in self.counts]
        self.seconds = np.zeros((0, len(self.calls)))

    def again(self, repeats: int) -> float:
        """Time each so many times more -> seconds of a pass over one row, just now."""
        fresh = paired_seconds(self.calls, repeats)
        self.seconds = np.concatenate((self.seconds, fresh))
        return float(np.median(fresh[:, 0]))

    def parts(self, rounds: int) -> Parts:
        """Of all that was timed; and sampling, and so many rounds of the loop around it."""
        paired = self.seconds / self.seconds[:, :1]
        low, ratios, high = np.quantile(paired, (0.25, 0.5, 0.75), axis=0)
        one = float(np.median(self.seconds[:, 0]))
        logits = np.zeros((max(self.counts), self.vocab), np.float32)
        sample = seconds_of_laws(GREEDY, logits, self.counts, len(self.seconds))
        loops = {gamma: _bare_round(self.vocab, gamma, rounds) for gamma in (0, *self.gammas)}
        return Parts(
            {n: one * float(ratio) for n, ratio in zip(self.counts, ratios, strict=True)},
            dict(zip(self.counts, ratios.tolist(), strict=True)),
            dict(zip(self.counts, zip(low.tolist(), high.tolist(), strict=True), strict=True)),
            sample,
            {gamma: max(0.0, whole - sample[gamma + 1]) for gamma, whole in loops.items()},
        )


def _bare_round(vocab: int, gamma: int, rounds: int) -> float:
    """Seconds of a round of the loop around a target and a draft that cost nothing."""
    text = np.arange(PROMPT + rounds + 1 + ROOM) % vocab
    run = TimedRun(Recital(vocab, text), text, np.zeros(rounds, np.int64), gamma, 0.0)
    return float(np.median(timed_rounds([run], rounds)))


# ---- Rounds under the stopwatch --------------------------------------------------------------


class TimedRun:
    """The real loop, a round at a time, with a draft that is right where it was planned.

    A first round, without an accepted draft, is not timed: it begins with the prompt's prefill.

    Parameters
    ----------
    text : what the target writes at temperature 0, prompt included, with room for another round
    accepted : drafts that each timed round shall accept
    gamma : drafts per round; 0 is plain decoding
    seconds : that each drafted token takes
    """

    def __init__(
        self, target: Any, text: Array, accepted: Array, gamma: int, seconds: float
    ) -> None:
        planned = right_along([0, *accepted], gamma)
        self.text, self.end = text, PROMPT + len(planned)
        right = np.ones(len(text), np.bool_)
        right[PROMPT : self.end] = planned
        self.written: list[int] = []
        (rng,) = streams(1, gamma)
        self.loop = speculate(
            target, PlantedDraft(target.vocab, text, right, seconds) if gamma else None,
            text[:PROMPT], len(text) - PROMPT, gamma, sampling=GREEDY, rng=rng,
            on_token=self.written.append,
        )  # fmt: skip
        prefill = next(self.loop)
        self.request = self.loop.send(respond(prefill))
        self.round()

    def round(self) -> float:
        """Seconds of a pass of the target, what follows from it, and the next round's drafts."""
        start = time.perf_counter()
        self.request = self.loop.send(respond(self.request))
        return time.perf_counter() - start

    def check(self) -> None:
        """All planned rounds were done: they wrote the target's text, and accepted as planned."""
        assert self.written == self.text[PROMPT : self.end].tolist()


def timed_rounds(runs: Sequence[TimedRun], rounds: int) -> Array:
    """Seconds (rounds, runs) of runs side by side: a round of each, A B C A B C."""
    seconds = np.array([[run.round() for run in runs] for _ in range(rounds)])
    for run in runs:
        run.check()
    return seconds


@dataclass(frozen=True)
class PlantedCell:
    """One acceptance, draft cost and gamma: what two formulas and the stopwatch say.

    Attributes
    ----------
    cost : c, seconds of a drafted token over those of a target pass of one row
    tokens : per round, equation (1)
    paper : Theorem 3.8, a pass costing the same for any number of rows
    verify : the same with the measured cost of a pass over gamma + 1 rows
    full : speed-up with all costs, `Parts`
    clock : of the real loop over plain decoding, round beside round: median and quartiles
    """

    acceptance: float
    cost: float
    gamma: int
    tokens: float
    paper: float
    verify: float
    full: float
    clock: Ratio

    def error(self, form: str) -> float:
        """Of "paper", "verify" or "full", over the stopwatch."""
        predicted: float = getattr(self, form)
        return predicted / self.clock.ratio - 1


def measure(
    target: Any,
    acceptances: Sequence[float],
    draft_costs: Sequence[float],
    gammas: Sequence[int],
    rounds: int,
    repeats: int,
    seed: int,
    progress: Callable[[str], object] = lambda line: None,
) -> tuple[Parts, list[PlantedCell]]:
    """Every cell on the stopwatch: a row's gammas beside plain decoding, round by round.

    The target writes one text at temperature 0. Its drafts are right with a probability, and each
    drafted token takes a draft cost times a pass of the target over one row. Passes are timed
    before each row, `repeats` times.
    """
    rng = np.random.default_rng([seed, 1])
    plans = {
        (acceptance, gamma): typical_rounds(acceptance, gamma, rounds, rng)
        for acceptance in acceptances
        for gamma in gammas
    }
    longest = max(int(plan.sum()) for plan in plans.values()) + rounds + 1
    text = own_text(target, longest + ROOM, seed)
    plain = np.zeros(rounds, np.int64)
    passes, clocks = Passes(target, gammas), {}
    rows = [(acceptance, cost) for cost in draft_costs for acceptance in acceptances]
    for i, (acceptance, cost) in enumerate(rows, 1):
        progress(f"row {i} of {len(rows)}")
        seconds = cost * passes.again(repeats)
        runs = [TimedRun(target, text, plain, 0, 0.0)]
        runs += [TimedRun(target, text, plans[acceptance, g], g, seconds) for g in gammas]
        of_plain, *of_gammas = timed_rounds(runs, rounds).T
        for gamma, spent in zip(gammas, of_gammas, strict=True):
            gained = of_plain * (1 + plans[acceptance, gamma].mean())
            clocks[acceptance, cost, gamma] = Ratio.of(np.stack([gained, spent], axis=1))
    parts = passes.parts(rounds)
    return parts, [_cell(parts, *key, clock) for key, clock in clocks.items()]


def own_text(target: Any, n_new: int, seed: int) -> Array:
    """A prompt and what the target writes behind it at temperature 0."""
    (prompt,) = random_prompts(target.vocab, 1, PROMPT, seed, 0)
    (rng,) = streams(1, seed, 2)
    run = autoregressive_generate(target, prompt, n_new, sampling=GREEDY, rng=rng)
    return np.concatenate((prompt, run.tokens))


def _cell(parts: Parts, acceptance: float, cost: float, gamma: int, clock: Ratio) -> PlantedCell:
    paper, verify = (
        float(theory.walltime_speedup(acceptance, gamma, cost, rows))
        for rows in (1.0, parts.ratios[gamma + 1])
    )
    tokens = float(theory.expected_tokens(acceptance, gamma))
    full = parts.costs(cost * parts.target[1]).speedup(tokens, gamma)
    return PlantedCell(acceptance, cost, gamma, tokens, paper, verify, full, clock)


# ---- What the cells say ----------------------------------------------------------------------


@dataclass(frozen=True)
class BestOfRow:
    """The gamma with the largest speed-up in a row of cells, by each account; 0 is plain decoding.

    Attributes
    ----------
    paper, full, clock : gamma
    paper_keeps, full_keeps : the stopwatch's speed-up at that gamma over its best
    """

    acceptance: float
    cost: float
    paper: int
    full: int
    clock: int
    paper_keeps: float
    full_keeps: float


def best_of_rows(cells: Sequence[PlantedCell]) -> list[BestOfRow]:
    """One for each acceptance and draft cost."""
    rows: dict[tuple[float, float], list[PlantedCell]] = {}
    for cell in cells:
        rows.setdefault((cell.acceptance, cell.cost), []).append(cell)
    return [_best(*row, of) for row, of in rows.items()]


def _best(acceptance: float, cost: float, row: Sequence[PlantedCell]) -> BestOfRow:
    clock = {0: 1.0} | {cell.gamma: cell.clock.ratio for cell in row}
    paper = {0: 1.0} | {cell.gamma: cell.paper for cell in row}
    full = {0: 1.0} | {cell.gamma: cell.full for cell in row}
    best = [max(speeds, key=speeds.__getitem__) for speeds in (paper, full, clock)]
    keeps = [clock[gamma] / clock[best[2]] for gamma in best[:2]]
    return BestOfRow(acceptance, cost, *best, *keeps)
