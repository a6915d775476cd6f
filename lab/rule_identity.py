"""Whether a round is valid under given laws: what it emits, with which probability, what is due.

p = target law, q = draft law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.certificate import Tokens, Violation, shown
from lab.domains import LAW_SUM
from lab.rule_cells import CellLaws
from lab.rule_numbers import Notes, Traced, Unfit, lift
from lab.rule_round import Deferred
from lab.sampling import Dice

Array = npt.NDArray[Any]

SHOWN = 5  # texts of a counterexample


class Quiet:
    """A dice that is asked in exact numbers: what floats there are stand for themselves, and a law
    whose sum they miss by rounding is divided by it, as `RandomDice` does.

    Its own comparisons are not noted: a branch of probability 0 adds nothing to either side of the
    identity, so whether it is taken makes no other cell. What it raises is.

    most : questions in a round; a rule that asks until it likes the answer has endless branches
    """

    def __init__(self, dice: Dice, notes: Notes, most: int) -> None:
        self.dice, self.notes, self.most, self.asked = dice, notes, most, 0

    def choose(self, probs: Any) -> int:
        token: int = self._ask(self.dice.choose, self._law, probs)
        return token

    def accept(self, probability: Any) -> bool:
        accepted: bool = self._ask(self.dice.accept, self._chance, probability)
        return accepted

    def _ask(self, question: Callable[[Any], Any], exact: Callable[[Any], Any], given: Any) -> Any:
        self.asked += 1
        length = len(self.notes)
        try:
            if self.asked > self.most:
                raise Unfit(f"it asks its dice more than {self.most:,} questions in a round")
            answer = question(exact(given))
        except Exception as error:
            self.notes.noted(error)
            raise
        del self.notes[length:]
        return answer

    def _chance(self, given: Any) -> Any:
        number = (
            given.item()
            if isinstance(given, np.ndarray | np.generic) and (given.size == 1)
            else given
        )
        if isinstance(number, Decimal):
            number = Fraction(number)
        found = lift(number, self.notes)
        if found is NotImplemented or not found.defined:
            raise ValueError(f"probability={given!r} must be one number within 0..1")
        return found

    def _law(self, given: Any) -> Array:
        probs = np.asarray(given)
        if probs.ndim != 1:
            raise ValueError(f"probs must be (V,), got shape {probs.shape}")
        numbers = [lift(p, self.notes) for p in probs.tolist()]
        if any(p is NotImplemented for p in numbers):
            raise ValueError(f"probs={given!r} must be numbers")
        if not all(p.defined for p in numbers):
            raise ValueError(f"probs={probs} must be numbers, one was divided by 0")
        law = np.array(numbers, object)
        return _of_sum_1(law) if self.notes.rounded and len(law) else law


def _of_sum_1(law: Array) -> Array:
    """Divided by its sum, if that is the same number wherever one looks, and 1 up to rounding."""
    total = law.sum()
    sums = {total.at(0), total.at(1)}
    if len(sums) == 1 and 0 < abs(sums.pop() - 1) <= LAW_SUM:
        law = law / total
    return law


class CellRound:
    """What one round does in all its branches, at both points of the laws' cell.

    emitted : probability of every text that the round may emit, exactly that
    cells : {draft path: signs of all comparisons in its branches}
    compared : whether the rule compared anything
    within : whether every branch read only laws at prefixes of what it emitted
    """

    def __init__(self, laws: CellLaws, gamma: int) -> None:
        self.laws, self.gamma, self.degree = laws, gamma, 0
        self.emitted: dict[Tokens, Any] = {}
        self.cells: dict[Tokens, bytes] = {}
        self.compared, self.within = False, True
        self.reads: list[Tokens] = []  # the deepest prefix that was read, for every branch

    def add(self, emitted: Tokens, played: Deferred, probability: Any) -> None:
        """One more branch, just played."""
        drafts, log = tuple(played.drafts), bytes(self.laws.notes)
        self.emitted[emitted] = self.emitted.get(emitted, 0) + probability
        self.cells[drafts] = self.cells.get(drafts, b"") + log + b"|"
        self.reads.append(drafts[: max(0, played.depth)])
        self.compared |= bool(log)
        self.within &= played.depth < len(emitted)

    def same_law(self, other: CellRound) -> bool:
        """The same numbers at both points."""
        return _values(self.emitted) == _values(other.emitted)

    def sides(self) -> Iterator[tuple[Tokens, Any, Any]]:
        """Both sides of the identity for every text of gamma + 1 tokens."""
        pending: list[tuple[Tokens, Any, Any]] = [((), 0, 1)]
        while pending:
            prefix, got, due = pending.pop()
            if len(prefix) > self.gamma:
                yield prefix, got, due
                continue
            for x, p in enumerate(self.laws.target(prefix)):
                nothing = got.__class__ is int and got == 0  # so far; saves a product
                continued = 0 if nothing else got * p
                longer = (*prefix, x)
                pending.append((longer, self.emitted.get(longer, 0) + continued, due * p))

    def holds(self) -> bool:
        """Whether the identity holds, at both points; notes the largest degree."""
        for _, got, due in self.sides():
            difference = due - got
            assert difference.defined, "Quiet lets nothing else through"
            if difference.a or difference.c:
                return False
            self.degree = max(self.degree, difference.degree)
        return True


def violations(found: CellRound) -> tuple[Violation, ...]:
    """The shortest texts whose probability is wrong; none if the identity holds."""
    for point in (0, 1):
        laws: list[dict[Tokens, Fraction]] = [{}, {}]
        for text, *sides in found.sides():
            for law, side in zip(laws, sides, strict=True):
                for end in range(1, len(text) + 1):
                    law[text[:end]] = law.get(text[:end], Fraction(0)) + _value(side, point)
        got, due = laws
        wrong = sorted((z for z in due if got[z] != due[z]), key=_order)
        if wrong:
            texts = [z for z in wrong if len(z) == len(wrong[0])][:SHOWN]
            return tuple(_violation(found, point, z, got[z], due[z]) for z in texts)
    return ()


def _violation(
    found: CellRound, point: int, text: Tokens, got: Fraction, due: Fraction
) -> Violation:
    """With all laws on which `got` depends."""
    ends = [text[:-1]]
    mass = sum(_value(p, point) for p in found.emitted.values())
    if not found.within or mass != 1:  # what comes after the text, or beside it, matters too
        ends += found.reads
    prefixes = sorted({end[:i] for end in ends for i in range(len(end) + 1)}, key=_order)
    target, draft = found.laws.fractions(prefixes, found.gamma, point)
    kinds = "; ".join(f"{' '.join(found.laws.kind(z))} after {shown(z)}" for z in draft)
    return Violation(f"p against q, token by token: {kinds}", target, draft, text, got, due)


def _order(prefix: Tokens) -> tuple[int, Tokens]:
    return len(prefix), prefix


def _value(number: Any, point: int) -> Fraction:
    return number.at(point) if isinstance(number, Traced) else Fraction(number)


def _values(law: dict[Tokens, Any]) -> dict[Tokens, tuple[Fraction, ...]]:
    return {z: (_value(p, 0), _value(p, 1)) for z, p in law.items()}
