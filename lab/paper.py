"""Printed numbers of the papers, cell by cell, each with the formula that should give it.

A printed number is kept as text, "1.60", because its decimals say how closely it can be checked.
Every number is a `Cell`: a table entry as much as an edge read off a figure, for which the formula
is the reading. A further table is one more tuple of cells.

>>> cell = TABLE_1[-2]
>>> cell.row, cell.column, cell.printed
('α = 0.9, γ = 10', 'OPERATIONS', '1.60')
>>> cell.agrees(cell.recompute())
True
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lab.theory import best_gamma, ops_factor, walltime_speedup

LEVIATHAN = "Leviathan, Kalman, Matias 2023 (arXiv 2211.17192v2)"
SUN = "Sun et al. 2024 (arXiv 2403.10444)"
ROUNDING_TIE = 1e-12  # relative: a value so close to halfway may be printed either way


@dataclass(frozen=True, slots=True)
class Cell:
    """One printed number.

    Attributes
    ----------
    source : the paper
    table : "Table 1", "Figure 3"
    row, column : as the paper heads them
    printed : the number as printed, decimals kept
    inputs : what the paper puts into the formula, by argument name
    formula : called with the inputs, gives the number; None where the paper measured it
    """

    source: str
    table: str
    row: str
    column: str
    printed: str
    inputs: Mapping[str, float] = field(hash=False)
    formula: Callable[..., float] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"-?\d+(\.\d+)?", self.printed):
            raise ValueError(f"printed must be a decimal number, got {self.printed!r}")

    @property
    def value(self) -> float:
        """The printed number as a float."""
        return float(self.printed)

    @property
    def decimals(self) -> int:
        """Digits printed after the point."""
        return len(self.printed.partition(".")[2])

    def recompute(self) -> float:
        """The formula's number for the paper's inputs, unrounded."""
        if self.formula is None:
            raise ValueError(f"{self.table}, {self.row}, {self.column}: formula is None (measured)")
        return self.formula(**self.inputs)

    def agrees(self, value: float) -> bool:
        """Whether `value`, rounded to the printed decimals, is the printed number.

        Halfway between two prints the last bit of a float would decide, and authors round half
        up or half to even as they like: there both neighbours agree.
        """
        slack = ROUNDING_TIE * abs(value)
        nearby = (value - slack, value, value + slack)
        return self.printed in {format(x, f"z.{self.decimals}f") for x in nearby}


# ---- Table 1: operations and speed for several alpha and gamma, c = c_hat = 0 ---------------


def _table_1(alpha: float, gamma: int, ops: str, speed: str) -> tuple[Cell, Cell]:
    row = f"α = {alpha}, γ = {gamma}"
    given = {"alpha": alpha, "gamma": gamma}
    return (
        Cell(LEVIATHAN, "Table 1", row, "OPERATIONS", ops, given | {"c_hat": 0.0}, ops_factor),
        Cell(LEVIATHAN, "Table 1", row, "SPEED", speed, given | {"c": 0.0}, walltime_speedup),
    )


TABLE_1: tuple[Cell, ...] = (
    *_table_1(0.6, 2, "1.53", "1.96"),
    *_table_1(0.7, 3, "1.58", "2.53"),
    *_table_1(0.8, 2, "1.23", "2.44"),
    *_table_1(0.8, 5, "1.63", "3.69"),
    *_table_1(0.9, 2, "1.11", "2.71"),
    *_table_1(0.9, 10, "1.60", "6.86"),
)

# ---- Figure 3: the best gamma as alpha grows, one staircase per c ---------------------------

FIGURE_3_ALPHAS = tuple(k / 1000 for k in range(500, 900))  # the grid on which the steps are drawn


def figure_3_start(c: float) -> int:
    """The best gamma at the left end of the figure, alpha = .5."""
    gamma: int = best_gamma(FIGURE_3_ALPHAS[0], c)[0]
    return gamma


def figure_3_edge(c: float, gamma: int) -> float:
    """The first alpha of the figure's grid whose best gamma is `gamma` or more.

    The best gamma never falls as alpha grows, so the edge is bisected.
    """
    edge = bisect_left(FIGURE_3_ALPHAS, gamma, key=lambda alpha: best_gamma(alpha, c)[0])
    if edge == len(FIGURE_3_ALPHAS):
        raise ValueError(
            f"gamma={gamma} must be a best gamma between alpha={FIGURE_3_ALPHAS[0]} and "
            f"alpha={FIGURE_3_ALPHAS[-1]} at c={c}"
        )
    return FIGURE_3_ALPHAS[edge]


def _start(c: float, gamma: str) -> Cell:
    return Cell(LEVIATHAN, "Figure 3", f"c = {c}", "γ at α = .5", gamma, {"c": c}, figure_3_start)


def _staircase(c: float, start: int, edges: str) -> tuple[Cell, ...]:
    """Cells of the edges start → start + 1, start + 1 → start + 2, ... in order."""
    return tuple(
        Cell(
            LEVIATHAN,
            "Figure 3",
            f"c = {c}",
            f"α where γ becomes {gamma}",
            f"0{alpha}",
            {"c": c, "gamma": gamma},
            figure_3_edge,
        )
        for gamma, alpha in enumerate(edges.split(), start + 1)
    )


FIGURE_3_STARTS: tuple[Cell, ...] = (
    _start(0.01, "5"),
    _start(0.02, "4"),
    _start(0.05, "3"),
    _start(0.1, "2"),
)

FIGURE_3: tuple[Cell, ...] = (
    *_staircase(
        0.01,
        5,
        ".519 .580 .630 .671 .705 .734 .758 .779 .798 .813"
        " .827 .840 .851 .861 .869 .877 .885 .891 .897",
    ),
    *_staircase(
        0.02,
        4,
        ".517 .591 .649 .695 .733 .763 .789 .810 .828 .844 .857 .869 .879 .888 .896",
    ),
    *_staircase(0.05, 3, ".543 .634 .700 .750 .789 .819 .843 .862 .878 .891"),
    *_staircase(0.1, 2, ".534 .653 .733 .788 .828 .858 .880 .898"),
)

# ---- What block verification gains over the token rule, measured ----------------------------


def block_gain(token: float, block: float) -> float:
    """Percent more tokens a call."""
    return 100 * (block / token - 1)


def _block_gain(gamma: int, token: str, block: str, gain: str) -> Cell:
    given = {"token": float(token), "block": float(block)}
    table = "block efficiency, means of eight datasets, PaLM-2-S with draft PaLM-2-XXS"
    return Cell(SUN, table, f"γ = {gamma}", "improvement, %", gain, given, block_gain)


BLOCK_GAINS: tuple[Cell, ...] = (
    _block_gain(4, "2.89", "2.99", "3.46"),
    _block_gain(6, "3.23", "3.43", "6.19"),
    _block_gain(8, "3.41", "3.70", "8.50"),
)
