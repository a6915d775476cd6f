"""What a proof by enumeration says: what was tried, what was found, and on what it rests."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Prefix = tuple[int, ...]
PRINTED = 2  # violations that are printed
Laws = Mapping[Prefix, tuple[Any, ...]]


@dataclass(frozen=True)
class Violation:
    """A counterexample.

    where : the cell or the state in which it was found
    target, draft : the laws that matter, by prefix: {tokens so far: (V,)}
    text : the tokens whose probability is wrong
    got, due : that probability, and what it should be; exact fractions in a rule's certificate
    what : what the text has or does, where that is no probability: then `got` and `due` are words
    """

    where: str
    target: Laws
    draft: Laws
    text: Prefix
    got: Any
    due: Any
    what: str = "has probability"

    def __str__(self) -> str:
        lines = [f"text {named(self.text)} {self.what} {self.got}, not {self.due}"]
        lines += [f"  {self.where}", *law_lines(self.target, self.draft)]
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

    def __str__(self) -> str:
        facts = {
            "cells": f"{self.cells:,}",
            "points": f"{self.points:,}",
            "leaves": f"{self.leaves:,}",
        }
        if self.holds:
            facts["error bound"] = f"{self.error_bound:.0e}"
            if self.unseen is not None:
                facts["unseen"] = f"{self.unseen:.1g}, the chance of a point in a cell not seen"
        lines = [self.subject, f"  {'holds' if self.holds else 'DOES NOT HOLD'}"]
        lines += [f"  {name:<12}{value}" for name, value in facts.items()]
        lines += [f"  assumed: {text}" for text in self.assumptions if self.holds]
        lines += [str(violation) for violation in self.violations[:PRINTED]]
        more = len(self.violations) - PRINTED
        if more > 0:
            lines.append(f"… and {more} more")
        wrap = textwrap.TextWrapper(100, subsequent_indent="    ", break_long_words=False)
        return "\n".join(map(wrap.fill, "\n".join(lines).splitlines()))


def law_lines(target: Laws, draft: Laws) -> list[str]:
    """The laws of both models, a line for each prefix."""
    return [
        f"  {name} after {named(prefix)}: {', '.join(map(str, law))}"
        for name, laws in (("target", target), ("draft", draft))
        for prefix, law in laws.items()
    ]


def named(prefix: Prefix) -> str:
    """A text, for print."""
    return " ".join(map(str, prefix)) or "(nothing)"
