"""Small cases that together show every known fault, each with what is exactly true of it.

A `Battery` is made by sound code and holds what is due. `reading(case)` measures the case again, on
whatever code is in place by then (see `lab.mutation` and `lab.readings`).
Shapes: V = vocabulary, B = sequences in lockstep, T = tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.decode import speculative_generate
from lab.engine import generate_many
from lab.exact import EXACT, Law, plain_law
from lab.ngram import PromptLookup
from lab.readings import (
    Reading,
    dice_due,
    enumerated,
    estimates,
    estimates_due,
    of_dice,
    population,
)
from lab.sampling import Sampling
from lab.small import TableLM
from lab.text import Generation

Array = npt.NDArray[Any]

PROMPT = (0, 1, 1)
ESTIMATORS, UNIFORMS = "estimators", "uniforms"  # the two cases that are no runs of the loop


# ---- Cases of the loop ------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A pair of models, a prompt, and the other arguments of `speculative_generate`."""

    target: Any
    draft: Any
    n_new: int
    gamma: int
    prompt: Sequence[int]
    more: Mapping[str, Any]

    def run(self, dice: Any, n_new: int | None = None) -> Generation:
        return speculative_generate(
            self.target, self.draft, self.prompt, n_new or self.n_new, self.gamma,
            rng=dice, **self.more,
        )  # fmt: skip

    def due(self, n_new: int | None = None) -> Law:
        """The target's own law."""
        sampling, stop = self.more.get("sampling", Sampling()), self.more.get("stop", ())
        return plain_law(self.target, self.prompt, n_new or self.n_new, sampling, stop)


@dataclass(frozen=True)
class LockstepCase:
    """Two sequences in lockstep: one drafts and may be done at once, the other decodes plainly.
    They are read as one, the first and then the second."""

    target: TableLM
    draft: TableLM
    n_new: int = 2
    gammas: tuple[int, int] = (1, 0)
    prompts: tuple[tuple[int, ...], tuple[int, ...]] = ((1, 1), (0,))

    def run(self, dice: Any) -> Generation:
        first, second = generate_many(
            BatchOf(self.target), BatchOf(self.draft), self.prompts, self.n_new, self.gammas,
            rngs=[dice, dice],
        )  # fmt: skip
        return Generation(
            np.concatenate((first.tokens, second.tokens)),
            second.finish,
            first.rounds + second.rounds,
            first.origins + second.origins,
            first.target_calls + second.target_calls,
            first.draft_calls + second.draft_calls,
        )

    def due(self) -> Law:
        first, second = (plain_law(self.target, prompt, self.n_new) for prompt in self.prompts)
        return {a + b: p * q for a, p in first.items() for b, q in second.items()}


class BatchOf:
    """A small model that takes several sequences at a time, each in a cache of its own."""

    def __init__(self, model: TableLM) -> None:
        self.model, self.vocab, self.max_len = model, model.vocab, model.max_len

    def new_cache(self, batch: int) -> Batch:
        return Batch([self.model.new_cache() for _ in range(batch)])

    def forward(self, tokens: Array, cache: Batch, counts: Array) -> Array:
        """tokens (B, T), the first `counts` (B,) of each row real -> logits (B, T, V)."""
        logits = np.zeros((*tokens.shape, self.vocab))
        for row, own, given, count in zip(logits, cache.caches, tokens, counts, strict=True):
            if count:
                row[:count] = self.model.forward(given[:count], own)
        return logits


class Batch:
    """The caches of a batch, moved together."""

    def __init__(self, caches: list[Any]) -> None:
        self.caches = caches

    def truncate(self, lengths: Array) -> None:
        for cache, length in zip(self.caches, lengths.tolist(), strict=True):
            cache.truncate(length)

    def select(self, rows: Sequence[int]) -> None:
        self.caches = [self.caches[b] for b in rows]


def _cases() -> dict[str, Case | LockstepCase]:
    pair = target, draft = TableLM.random(3, 72, 2, 1.2), TableLM.random(3, 934, 2, 1.2)
    of_two = TableLM.random(2, 4, 3), TableLM.random(2, 109, 3)
    tied = TableLM(np.round(target.table)), TableLM(np.round(draft.table))
    ending = TableLM(target.table, len(PROMPT) + 3), TableLM(draft.table, len(PROMPT) + 2)
    two, cool = Sampling(top_k=2), Sampling(0.7, top_k=2)
    warm, penalised = Sampling(1.5, top_k=2), Sampling(top_k=2, repetition_penalty=1.5)

    def case(models: Any, n_new: int, gamma: int = 2, prompt: Any = PROMPT, **more: Any) -> Case:
        target, draft = models
        return Case(target, draft, n_new, gamma, prompt, more)

    return {
        "plain": case(pair, 3),
        "γ 1": case(of_two, 5, 1),
        "block": case(pair, 3, rule="block"),
        "match": case(pair, 2, 1, rule="match"),
        "T .7, top-k 2": case(pair, 4, sampling=cool),
        "draft T 1.5": case(pair, 3, sampling=cool, draft_sampling=warm),
        "top-p .7": case(pair, 3, sampling=Sampling(top_p=0.7)),
        "min-p .3": case(pair, 3, sampling=Sampling(min_p=0.3)),
        "penalty": case(pair, 3, prompt=(2,), sampling=penalised),
        "T 0, ties": case(tied, 4, sampling=Sampling(temperature=0)),
        "top-k 2, ties": case(tied, 3, sampling=two),
        "stop": case(pair, 4, stop=[1], sampling=two),
        "contexts end": case(ending, 8, sampling=two),
        "lookup": case((target, PromptLookup(3)), 4, prompt=(0, 1, 0, 1), sampling=two),
        "lockstep": LockstepCase(*of_two),
    }


class Battery:
    """All cases, and what is due: made, and so measured, by sound code."""

    def __init__(self) -> None:
        self.cases = _cases()
        self.laws = {name: case.due() for name, case in self.cases.items()}
        self.population = population()
        self.dice_law, due_of_dice = dice_due()
        self.due = {name: self.reading(name) for name in self.cases}
        self.due |= {ESTIMATORS: estimates_due(self.population), UNIFORMS: due_of_dice}

    def reading(self, name: str) -> Reading:
        """The numbers of one case, on the code that is in place now."""
        if name == ESTIMATORS:
            return estimates(self.population)
        if name == UNIFORMS:
            return of_dice(self.dice_law)
        return enumerated(self.cases[name].run, self.laws[name])

    def differing(self, name: str) -> set[str]:
        """The quantities of a case that are not as due, those that are missing too."""
        found, due = self.reading(name), self.due[name]
        both = {key for key in found.keys() & due if abs(found[key] - due[key]) <= EXACT}
        return (found.keys() | due) - both
