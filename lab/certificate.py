"""What a proof by enumeration says: what was tried, what was found, and on what it rests."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Tokens = tuple[int, ...]
LawsByPrefix = Mapping[Tokens, tuple[Any, ...]]  # {tokens so far: (V,)}

PRINTED = 2  # violations that are printed
DECIDED = 0.05  # chance of an unseen cell up to which a certificate counts as a proof
OF_RULE = ("cells", "points", "branches", "chance of a miss")  # what its numbers are called
OF_LOOP = ("states", "rounds", "branches", "largest total variation")


class Fault(NamedTuple):
    """What is wrong, as in "text 0 1 leaves the target's cache with 0 1, not 0": the last fields
    of a `Violation`."""

    got: str
    due: str
    what: str


@dataclass(frozen=True)
class Violation:
    """A counterexample.

    where : the cell or the state in which it was found
    target, draft : the laws that matter, by prefix
    text : the tokens whose probability is wrong
    got, due : that probability, and what it should be; exact fractions in a rule's certificate
    what : what the text has or does, where that is no probability: then `got` and `due` are words
    """

    where: str
    target: LawsByPrefix
    draft: LawsByPrefix
    text: Tokens
    got: Any
    due: Any
    what: str = "has probability"

    def __str__(self) -> str:
        lines = [f"text {shown(self.text)} {self.what} {self.got}, not {self.due}"]
        lines += [f"  {self.where}", *law_lines(self.target, self.draft)]
        return "\n".join(lines)


@dataclass(frozen=True)
class Certificate:
    """The result of `lab.certify.rule` or `lab.certify.loop`.

    cells : cells of fixed comparisons that were checked; of a loop, states
    points : laws that were tried in them; of a loop, rounds
    leaves : branches taken in all
    violations : counterexamples; none if it holds
    assumptions : on what the conclusion rests besides the enumeration
    error_bound : chance that a rule which is wrong in a checked cell passed it; of a loop, the
        largest total variation found, which is rounding
    subject : what was certified, in words
    unseen : estimated chance that a random point lies in a cell that was not checked; None where
        all cells were enumerated
    words : what cells, points, leaves and error_bound are called in print
    """

    cells: int
    points: int
    leaves: int
    violations: tuple[Violation, ...]
    assumptions: tuple[str, ...]
    error_bound: float
    subject: str = ""
    unseen: float | None = None
    words: tuple[str, ...] = OF_RULE

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.violations

    @property
    def proved(self) -> bool:
        """Whether nothing was found and there is little left to be seen: `DECIDED` at most."""
        return self.holds and (self.unseen is None or self.unseen <= DECIDED)

    @property
    def headline(self) -> str:
        if self.proved:
            return "holds"
        if self.unseen is None or not self.holds:
            return "DOES NOT HOLD"
        return f"not decided: no fault found; {self.unseen:.0%} of the cells not seen"

    def __str__(self) -> str:
        *counted, bound = self.words
        counts = (self.cells, self.points, self.leaves)
        facts = {word: f"{count:,}" for word, count in zip(counted, counts, strict=True)}
        if self.holds:
            facts[bound] = f"{self.error_bound:.0e}"
            if self.unseen is not None:
                facts["unseen"] = f"{self.unseen:.1g}, the chance of a point in a cell not seen"
        width = max(map(len, self.words)) + 2
        lines = [self.subject, f"  {self.headline}"]
        lines += [f"  {name:<{width}}{value}" for name, value in facts.items()]
        lines += [f"  assumed: {text}" for text in self.assumptions if self.holds]
        lines += [str(violation) for violation in self.violations[:PRINTED]]
        more = len(self.violations) - PRINTED
        if more > 0:
            lines.append(f"… and {more} more")
        wrap = textwrap.TextWrapper(100, subsequent_indent="    ", break_long_words=False)
        return "\n".join(map(wrap.fill, "\n".join(lines).splitlines()))


def law_lines(target: LawsByPrefix, draft: LawsByPrefix) -> list[str]:
    """The laws of both models, a line for each prefix."""
    return [
        f"  {name} after {shown(prefix)}: {', '.join(map(str, law))}"
        for name, laws in (("target", target), ("draft", draft))
        for prefix, law in laws.items()
    ]


def shown(tokens: Iterable[int]) -> str:
    """Tokens, for print."""
    return " ".join(map(str, tokens)) or "nothing"
