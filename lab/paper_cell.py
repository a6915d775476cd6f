"""A printed number, with the formula that should give it and what its rounding leaves open.

A printed number is kept as text, "1.60", because its decimals say how closely it can be checked; so
is a printed number that goes into a formula, because what was rounded before it was printed widens
what the formula may give.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, Literal, Self

ROUNDING_TIE = 1e-12  # relative: a value so close to halfway may be printed either way

UNROUNDED = "the paper had more digits"  # the usual reason of a ratio that is off

Status = Literal["agrees", "disagrees", "measured only"]


class Rounded(float):
    """A number as printed: its value, and how far rounding leaves the true one from it.

    "2.4" is within .05 of the true number, "~60" within 5, "11/9" is exact.

    Attributes
    ----------
    text : as printed
    decimals : digits after the point; -1 for "~60"
    half : half a unit of the last digit; 0 for a fraction
    """

    text: str
    decimals: int
    half: float

    def __new__(cls, text: str) -> Self:
        if not re.fullmatch(r"-?\d+(\.\d+)?|-?\d+/\d*[1-9]\d*|~\d*0", text):
            raise ValueError(
                f"printed must be a decimal number, a fraction or a round number '~60', "
                f"got {text!r}"
            )
        number = super().__new__(cls, Fraction(text.removeprefix("~")))
        number.text = text
        number.decimals = -1 if text[0] == "~" else len(text.partition(".")[2])
        number.half = 0.0 if "/" in text else 0.5 * 10.0**-number.decimals
        return number

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # for pickle
        return (self.text,)


@dataclass(frozen=True, slots=True)
class Cell:
    """One printed number.

    Attributes
    ----------
    source : the paper
    table : "Table 1", "Figure 3"
    row, column : as the paper heads them
    printed : the number as printed, decimals kept
    inputs : what goes into the formula, by argument name; `Rounded` where it was printed rounded
    formula : called with the inputs, gives the number; None where the paper measured it
    exception : why the formula does not give the printed number; empty where it does
    worked : no paper prints it: it was worked by hand from the source's formula or code
    """

    source: str
    table: str
    row: str
    column: str
    printed: str
    inputs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    formula: Callable[..., float] | None = None
    exception: str = ""
    worked: bool = False

    def __post_init__(self) -> None:
        Rounded(self.printed)
        if self.exception and self.formula is None:
            raise ValueError(f"{self.name}: exception {self.exception!r} needs a formula")

    @property
    def name(self) -> str:
        """Table, row and column."""
        return f"{self.table}, {self.row}, {self.column}"

    @property
    def value(self) -> float:
        """The printed number as a float."""
        return float(Rounded(self.printed))

    @property
    def decimals(self) -> int:
        """Digits printed after the point."""
        return Rounded(self.printed).decimals

    @property
    def status(self) -> Status:
        """Whether the formula gives the printed number; exceptions are those that disagree."""
        if self.formula is None:
            return "measured only"
        return "agrees" if self.agrees(self.recompute()) else "disagrees"

    def recompute(self) -> float:
        """The formula's number for the printed inputs, unrounded."""
        return self._formula(**self.inputs)

    def agrees(self, value: float) -> bool:
        """Whether `value`, rounded to the printed decimals, is the printed number.

        Halfway between two prints the last bit of a float would decide, and authors round half
        up or half to even as they like: there both neighbours agree.
        """
        slack = ROUNDING_TIE * abs(self.value)  # not of `value`: infinity would agree with all
        return abs(value - self.value) <= Rounded(self.printed).half + slack

    def reach(self) -> tuple[float, float]:
        """The least and the most that the formula gives while the true inputs may be anything
        that rounds to those printed.

        Every formula of a cell is monotone in each rounded input, so the corners tell.
        """
        ends = [
            (float(x) - x.half, float(x) + x.half) if isinstance(x, Rounded) else (x,)
            for x in self.inputs.values()
        ]
        formula = self._formula
        found = [formula(**dict(zip(self.inputs, x, strict=True))) for x in product(*ends)]
        return min(found), max(found)

    def digits(self, value: float) -> str:
        """A number of the formula with two digits more than are printed; an exact one as it is."""
        if isinstance(value, int | Fraction):
            return str(value)
        return f"{value:.{self.decimals + 2}f}"

    @property
    def within_reach(self) -> bool:
        """Whether some inputs that round to those printed give the printed number."""
        (low, high), half = self.reach(), Rounded(self.printed).half
        return low - half <= self.value <= high + half

    @property
    def _formula(self) -> Callable[..., float]:
        if self.formula is None:
            raise ValueError(f"{self.name}: formula is None (measured)")
        return self.formula


def rows_of(text: str) -> list[list[str]]:
    """The words of each line of a table written as text."""
    return [line.split() for line in text.strip().splitlines()]


def ratio(above: float, below: float) -> float:
    """above / below."""
    return above / below


def percent_more(new: float, old: float) -> float:
    """By how many percent `new` is more than `old`."""
    return 100 * (new / old - 1)


def ratio_of(
    source: str, table: str, row: str, column: str, numbers: list[str], off: str = ""
) -> Cell:
    """The cell of a printed ratio of two printed numbers (above, below, the ratio); `off` is its
    exception."""
    above, below, printed = numbers
    given = {"above": Rounded(above), "below": Rounded(below)}
    return Cell(source, table, row, column, printed, given, ratio, off)


def measured(source: str, table: str, row: str, **numbers: str) -> list[Cell]:
    """Cells that were only measured, by column; an underscore of a name is a space."""
    return [Cell(source, table, row, name.replace("_", " "), x) for name, x in numbers.items()]
