"""Verification rules on text: at every position of it, and in the real loop.

p = target law, q = draft law (Leviathan et al. 2023). What a rule keeps on the average of given
drafts has a closed form (`Candidate.survival`), so rules are compared on the very same drafts, and
without the noise of their coins. Errors are clustered by text. Shapes: T positions, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.engine import generate_many
from lab.estimate import Estimate, tokens_per_call
from lab.measure import PLAIN, Draft, laws_along, streams, texts_of
from lab.pairs import Pair
from lab.rulecost import CANDIDATES, Candidate
from lab.sampling import Dice, RandomDice, Sampling
from lab.stats import ClusteredMean, clustered_ratio, influence_stderr, ratio_influence
from lab.sweep import sweep
from lab.text import Generation
from lab.verify import Proposal, Verdict

Array = npt.NDArray[Any]
Tokens = npt.NDArray[np.int64]


# ---- Every position, without a loop ------------------------------------------------------------


@dataclass(frozen=True)
class AtPositions:
    """Means over the positions of texts, with errors clustered by text."""

    acceptance: ClusteredMean
    bias: ClusteredMean


def at_positions(
    target: Any,
    draft: Draft,
    texts: Sequence[Tokens],
    start: int,
    names: Sequence[str],
    sampling: Sampling = PLAIN,
) -> dict[str, AtPositions]:
    """Acceptance and bias of one draft at every position from `start` on, teacher-forced; of
    candidates by name."""
    target_laws, draft_laws = (
        [laws[start - 1 :] for laws in laws_along(model, texts, sampling)]
        for model in (target, draft.model)
    )
    pairs = list(zip(target_laws, draft_laws, strict=True))  # (T, V) each
    sizes = [len(p) for p, _ in pairs]
    found = {}
    for name in names:
        one = CANDIDATES[name]
        kept = [one.acceptance(p, q).sum() for p, q in pairs]
        biases = [sum(map(one.bias, p, q)) for p, q in pairs]
        found[name] = AtPositions(clustered_ratio(kept, sizes), clustered_ratio(biases, sizes))
    return found


# ---- The real loop -----------------------------------------------------------------------------


class Witness:
    """A rule that lets a candidate judge, and notes what `watched` would keep of the same drafts
    on the average. Sequences in lockstep share it; the dice tells whose round it is."""

    def __init__(self, judge: Candidate, watched: Sequence[Candidate]) -> None:
        self.judge, self.watched = judge, watched
        self.noted: dict[int, list[list[float]]] = {}

    def __call__(self, target_probs: Array, proposal: Proposal, dice: Dice) -> Verdict:
        if proposal.probs is None:
            raise ValueError("draft must be a language model: certain drafts have no laws to watch")
        kept = [
            float(one.survival(target_probs, proposal.probs, proposal.tokens).sum())
            for one in self.watched
        ]
        self.noted.setdefault(id(dice), []).append(kept)
        return self.judge.rule(target_probs, proposal, dice)


@dataclass(frozen=True)
class RuleRun:
    """The real loop under one rule, a run for each prompt.

    watched : names of the candidates whose mean on the same drafts was noted
    expected : per run (rounds, watched), accepted drafts of the rounds that were allowed γ
    excess : per run (n,), -log p of every token less the entropy of its law, in nats
    """

    rule: str
    draft: str
    gamma: int
    runs: tuple[Generation, ...]
    watched: tuple[str, ...]
    expected: tuple[Array, ...]
    excess: tuple[Array, ...]

    @property
    def measured(self) -> Estimate:
        """Tokens per call."""
        return tokens_per_call(self.runs, self.gamma)

    def expects(self, name: str) -> ClusteredMean:
        """Tokens per call that a candidate is worth on these very drafts; no coin is in it."""
        return self._per_round(1 + self._of(name, kept) for kept in self.expected)

    def gain(self, name: str, over: str) -> ClusteredMean:
        """Tokens per call of one candidate less those of another, draft by draft."""
        return self._per_round(
            self._of(name, kept) - self._of(over, kept) for kept in self.expected
        )

    def least_gain(self, name: str, over: str) -> float:
        """The smallest of these gains, over all drafted paths."""
        return min(
            float((self._of(name, kept) - self._of(over, kept)).min(initial=np.inf))
            for kept in self.expected
        )

    @property
    def luck(self) -> ClusteredMean:
        """Accepted drafts per round less their mean given the drafts: 0 but for the coins."""
        return self._per_round(
            counts - self._of(self.rule, kept)
            for counts, kept in zip(self._accepted(), self.expected, strict=True)
        )

    @property
    def surprise(self) -> ClusteredMean:
        """Mean excess of -log p over the entropy, in nats a token: 0 if the rule is lossless,
        whatever text was written, as the one is the mean of the other given the text so far."""
        return clustered_ratio([e.sum() for e in self.excess], [len(e) for e in self.excess])

    def less(self, other: RuleRun) -> ClusteredMean:
        """Measured tokens per call less another run's on the same prompts, paired by prompt."""
        ratios, moves = zip(*(run._measured_influence() for run in (self, other)), strict=True)
        difference = moves[0] - moves[1]
        return ClusteredMean(ratios[0] - ratios[1], influence_stderr(difference), len(self.runs))

    def _measured_influence(self) -> tuple[float, Array]:
        accepted = self._accepted()
        return ratio_influence(
            [counts.sum() + len(counts) for counts in accepted], [len(c) for c in accepted]
        )

    def _accepted(self) -> list[Array]:
        """Per run, accepted drafts of the rounds that were allowed γ."""
        return [
            np.array([r.accepted for r in run.rounds if r.allowed == self.gamma], np.float64)
            for run in self.runs
        ]

    def _of(self, name: str, kept: Array) -> Array:
        column: Array = kept[:, self.watched.index(name)]
        return column

    def _per_round(self, values: Iterator[Array]) -> ClusteredMean:
        rows = list(values)
        return clustered_ratio([row.sum() for row in rows], [len(row) for row in rows])


def run_rule(
    target: Any,
    draft: Draft,
    prompts: Sequence[Tokens],
    n_new: int,
    gamma: int,
    rule: str,
    watched: Sequence[str],
    *cell: int,
    sampling: Sampling = PLAIN,
) -> RuleRun:
    """A candidate, by name, in the real loop on every prompt, in lockstep; it is watched too.

    Rules that share a cell share their streams: the same prompts and the same first drafts.
    """
    watched = tuple(dict.fromkeys((rule, *watched)))
    witness = Witness(CANDIDATES[rule], [CANDIDATES[name] for name in watched])
    dice = [RandomDice(rng) for rng in streams(len(prompts), *cell)]
    runs = generate_many(
        target, draft.model, prompts, n_new, gamma, sampling=sampling, rngs=dice, rule=witness
    )
    expected = []
    for one, run in zip(dice, runs, strict=True):
        whole = [r.allowed == gamma for r in run.rounds if r.drafted]  # where the rule was asked
        noted = np.reshape(witness.noted.get(id(one), []), (len(whole), len(watched)))
        expected.append(noted[whole])
    laws = laws_along(target, texts_of(prompts, runs), sampling)
    excess = [_excess(p, run.tokens) for p, run in zip(laws, runs, strict=True)]
    return RuleRun(rule, draft.name, gamma, tuple(runs), watched, tuple(expected), tuple(excess))


def _excess(laws: Array, tokens: Tokens) -> Array:
    """-log p(x) less the entropy of p at each of the last n positions: laws (T, V), tokens (n,)."""
    own = laws[len(laws) - len(tokens) :]
    logs = np.log(np.where(own > 0, own, 1))
    excess: Array = (own * logs).sum(axis=-1) - logs[np.arange(len(tokens)), tokens]
    return excess


# ---- All of it, on all cores -------------------------------------------------------------------


@dataclass(frozen=True)
class TextCells:
    """What script 06 measures on text.

    positions : by temperature and draft, candidates by name
    loops : by γ, draft and rule; the token loop watches all rules of its γ, the others token
    """

    positions: dict[tuple[float, str], dict[str, AtPositions]]
    loops: dict[tuple[int, str, str], RuleRun]


def measure_rules(
    pair: Pair,
    drafts: Sequence[str],
    texts: Sequence[Tokens],
    start: int,
    temperatures: Sequence[float],
    n_new: int,
    rules: Mapping[int, Sequence[str]],
    *cell: int,
) -> TextCells:
    """Every draft at every position of `texts`, and on the pair's prompts in the loop, under the
    `rules` of each γ."""
    positions, loops = {}, {}
    for name in drafts:
        draft = pair.draft(name)
        for temperature in temperatures:
            positions[temperature, name] = partial(
                at_positions, pair.target, draft, texts, start, tuple(CANDIDATES),
                Sampling(temperature=temperature),
            )  # fmt: skip
        for gamma, names in rules.items():
            for rule in names:
                watched = tuple(names) if rule == "token" else ("token",)
                loops[gamma, name, rule] = partial(
                    run_rule, pair.target, draft, pair.prompts, n_new, gamma, rule, watched,
                    *cell, gamma, drafts.index(name),
                )  # fmt: skip
    found = sweep([*positions.values(), *loops.values()])
    return TextCells(
        dict(zip(positions, found, strict=False)),
        dict(zip(loops, found[len(positions) :], strict=True)),
    )
