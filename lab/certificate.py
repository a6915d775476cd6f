"""What a proof by enumeration says: what was tried, what was found, and on what it rests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Prefix = tuple[int, ...]
Laws = Mapping[Prefix, tuple[Any, ...]]


@dataclass(frozen=True)
class Violation:
    """A counterexample.

    where : the cell or the state in which it was found
    target, draft : the laws that matter, by prefix: {tokens so far: (V,)}
    text : the tokens whose probability is wrong
    got, due : that probability, and what it should be; exact fractions in a rule's certificate
    """

    where: str
    target: Laws
    draft: Laws
    text: Prefix
    got: Any
    due: Any

    def __str__(self) -> str:
        lines = [f"text {_tokens(self.text)} has probability {self.got}, not {self.due}"]
        lines += [f"  {self.where}"]
        for name, laws in (("target", self.target), ("draft", self.draft)):
            lines += [
                f"  {name} after {_tokens(prefix)}: {', '.join(map(str, law))}"
                for prefix, law in laws.items()
            ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Certificate:
    """The result of `lab.certify.rule` or `lab.certify.loop`.

    cells : cells of fixed comparisons (rule), or states (loop), that were checked
    points : laws (rule) or rounds (loop) that were enumerated in them
    leaves : branches taken in all
    violations : counterexamples; none if it holds
    assumptions : on what the conclusion rests besides the enumeration
    error_bound : rule: probability that a rule which is wrong in a checked cell passed it; loop:
        the largest total variation found, which is rounding
    subject : what was certified, in words
    unseen : estimated chance that a random point lies in a cell that was not checked; None where
        all cells were enumerated
    """

    cells: int
    points: int
    leaves: int
    violations: tuple[Violation, ...]
    assumptions: tuple[str, ...]
    error_bound: float
    subject: str = ""
    unseen: float | None = None

    @property
    def holds(self) -> bool:
        return not self.violations


def _tokens(prefix: Prefix) -> str:
    return " ".join(map(str, prefix)) or "(nothing)"
