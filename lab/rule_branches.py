"""Every branch of one round of a rule, in exact numbers, and what the rule did wrong if it raised.

What numbers and dice raise is noted beside the rule: floats would not have raised it, so a rule
that catches it goes a way that it goes nowhere else, and nothing is known of the ways it does go.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from lab.certificate import Tokens, law_lines
from lab.exact import branches
from lab.rule_cells import SPREAD, CellLaws, small
from lab.rule_identity import CellRound, Quiet
from lab.rule_numbers import NEED, Inexact, Split, Unfit
from lab.rule_round import Deferred
from lab.userrule import shown
from lab.verify import as_rule, name_of

MAX_LEAVES = 5_000  # branches of one round; with more, too few points could be tried to decide
QUESTIONS = 20, 4  # in a round: so many, and for every token that may come in each place
SIMPLER = 40  # tries to find a point that is nicer to read, with numbers of each spread;
SPREADS, FIRST_BITS = (0, SPREAD, 4 * SPREAD), (1, 2, 4, 8)
SIMPLER_LEAVES = 30_000  # fewer, if they take more branches


class Raised(ValueError):
    """The rule raised; says under which laws."""


class Rounds:
    """Rounds of gamma drafts of one rule.

    leaves : branches in all of them
    bits : of the longest constant that the rule used
    """

    def __init__(self, rule: Any, vocab: int, gamma: int, rng: np.random.Generator) -> None:
        self.decide, self.name, self.vocab, self.gamma = as_rule(rule), name_of(rule), vocab, gamma
        self.rng, self.leaves, self.bits = rng, 0, 0

    def play(self, laws: CellLaws) -> CellRound:
        """One round; if the rule raises, with laws that are nice to read, where it can be."""
        try:
            return self.enumerated(laws)
        except Raised:
            for _ in self.simpler(laws):  # raises there too, if it can
                pass
            raise

    def simpler(self, laws: CellLaws) -> Iterator[list[CellRound]]:
        """Rounds at points of the same kind that are nicer to read, the nicest first: with small
        numbers, then less and less even; or with the first bits of these."""
        last = self.leaves + SIMPLER_LEAVES
        groups = [
            [CellLaws(self.vocab, laws.kind, small(self.rng, spread)) for _ in range(SIMPLER)]
            for spread in SPREADS
        ]
        groups.append([laws.rounded(point, bits) for bits in FIRST_BITS for point in (0, 1)])
        for group in groups:
            rounds = []
            for point in group:
                if self.leaves < last:
                    with suppress(Split):
                        rounds.append(self.enumerated(point))
            yield rounds

    def enumerated(self, laws: CellLaws) -> CellRound:
        """One round, at these laws."""
        found = CellRound(laws, self.gamma)
        most = QUESTIONS[0] + QUESTIONS[1] * self.vocab * (self.gamma + 1)

        def run(dice: Any) -> tuple[Tokens, Deferred]:
            laws.notes.restart()
            one = Deferred(laws, self.gamma, Quiet(dice, laws.notes, most))
            emitted: Tokens = ()
            raised: Exception | None = None
            try:
                emitted = one.play(self.decide)
            except Exception as error:
                raised = error
            raised = laws.notes.trouble or raised  # a rule may have caught it
            if raised is not None:
                raise self._told(laws, one, raised) from raised.__cause__ or raised
            return emitted, one

        for leaf in branches(run):
            emitted, played = leaf.result
            found.add(emitted, played, leaf.probability)
            self.leaves += 1
            if len(found.reads) > MAX_LEAVES:
                raise ValueError(
                    f"rule={self.name}: one round has more than {MAX_LEAVES} branches at "
                    f"vocab={self.vocab}, gamma={self.gamma}: take a smaller vocab or gamma"
                )
        self.bits = max(self.bits, laws.notes.bits)
        return found

    def _told(self, laws: CellLaws, played: Deferred, error: Exception) -> Exception:
        """What the rule raised, where, and the laws it had read."""
        if isinstance(error, Split):
            return error
        if isinstance(error, Unfit):
            return type(error)(f"rule={self.name}: {error}{_line(error)}")
        if isinstance(error, TypeError) and "ufunc" in str(error):  # isnan, say, inside isclose
            return Inexact(f"rule={self.name}: {error}{_line(error)}: {NEED}")
        read = [tuple(played.drafts[:i]) for i in range(played.depth + 1)]
        given = "\n".join(law_lines(*laws.fractions(read, self.gamma, 0)))
        told = f"rule={self.name}: it raised {shown(error)}{_line(error)}"
        return Raised(f"{told}\n{given}".rstrip())


def _line(error: BaseException) -> str:
    """' (mine.py, line 7)': where the rule was, if it is not the lab's own."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if path.parent != Path(__file__).parent:
            return f" ({path.name}, line {line})"
    return ""
