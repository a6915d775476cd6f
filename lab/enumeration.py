"""Every branch of a run: it is a function of a dice, and called once for every sequence of answers
that has a probability above 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains

Array = npt.NDArray[Any]
Run = Callable[[Any], Any]

MAX_LEAVES = 5_000_000


class Script:
    """A dice that gives the answers it was given, then the first possible one, and notes which
    other answers there were."""

    def __init__(self, answers: Sequence[int]) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.probability: Any = 1
        self.open: list[tuple[int, int]] = []  # (question, another possible answer)

    def choose(self, probs: Array) -> int:
        """A law that is off by the rounding of its floats is scaled, as `RandomDice` does."""
        probs = np.asarray(probs)
        if probs.ndim != 1 or probs.dtype.kind not in "biufO":
            raise ValueError(f"probs must be one law (V,) of real numbers, got {probs!r}")
        if self.asked == len(self.answers):  # what is replayed was found possible before
            self._new((probs > 0).nonzero()[0].tolist())
        token = self._next()
        chance = probs[token]
        if probs.dtype.kind == "f":
            total = float(probs.sum(dtype=np.float64))
            chance = float(chance) / (total if abs(total - 1) <= domains.LAW_SUM else 1)
        self.probability = self.probability * chance
        return token

    def accept(self, probability: Any) -> bool:
        if isinstance(probability, np.floating):
            probability = float(probability)  # its complement is not rounded to a float32
        try:
            possible = not getattr(probability, "ndim", 0) and bool(0 <= probability <= 1)
        except TypeError:  # text, complex numbers, None
            possible = False
        if not possible:
            raise ValueError(f"probability={probability} must be one number within 0..1")
        if self.asked == len(self.answers):
            self._new([answer for answer, p in ((1, probability), (0, 1 - probability)) if p > 0])
        accepted = self._next() == 1
        self.probability = self.probability * (probability if accepted else 1 - probability)
        return accepted

    def siblings(self) -> list[list[int]]:
        """The other branches that were met: what to answer first to take each."""
        return [[*self.answers[:question], other] for question, other in self.open]

    def _new(self, possible: list[int]) -> None:
        """A question that was not asked before: take the first answer, note the others."""
        if not possible:
            raise ValueError("probs must have an entry above 0")
        self.answers.append(possible[0])
        self.open += [(self.asked, other) for other in possible[1:]]

    def _next(self) -> int:
        self.asked += 1
        return self.answers[self.asked - 1]


@dataclass(frozen=True)
class Leaf:
    """One branch: what the run returned, how likely, after how many questions."""

    result: Any
    probability: Any
    depth: int


def branches(run: Run, max_leaves: int = MAX_LEAVES) -> Iterator[Leaf]:
    """Every branch of `run(dice)`; depth first, so memory does not grow with their number."""
    pending: list[list[int]] = [[]]
    leaves = 0
    while pending:
        dice = Script(pending.pop())
        result = run(dice)
        pending += dice.siblings()
        leaves += 1
        if leaves > max_leaves:
            raise ValueError(
                f"more than max_leaves={max_leaves} branches: take a smaller vocabulary, horizon "
                "or gamma, or laws with fewer possible tokens"
            )
        yield Leaf(result, dice.probability, dice.asked)
