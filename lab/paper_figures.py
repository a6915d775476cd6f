"""Figures 2, 3 and 4 of Leviathan, Kalman, Matias 2023, read off the drawing to three decimals."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from lab.paper_cell import Cell, rows_of
from lab.paper_leviathan import LEVIATHAN
from lab.theory import best_gamma, expected_tokens, ops_factor, walltime_speedup

# ---- Figures 2 and 4: the ends of their curves ------------------------------------------------

FIGURE_ENDS = (0.5, 0.899)  # the alphas of the first and of the last point drawn
_CURVES = rows_of(
    # gamma, tokens at the two ends (Figure 4: speed, the same at c = 0), operations at the two ends
    """
    1  1.500 1.899 1.333 1.053
    3  1.875 3.434 2.133 1.165
    5  1.969 4.674 3.048 1.284
    7  1.992 5.677 4.016 1.409
    10 1.999 6.832 5.503 1.610
    """
)


def _ends(table: str, column: str, formula: Any, curve: list[str], **costs: float) -> list[Cell]:
    """The cells of a curve's two ends: gamma and the two numbers."""
    gamma, *printed = curve
    return [
        Cell(
            LEVIATHAN, table, f"γ = {gamma}", f"{column}, α = {alpha}", value,
            {"alpha": alpha, "gamma": int(gamma), **costs}, formula,
        )
        for alpha, value in zip(FIGURE_ENDS, printed, strict=True)
    ]  # fmt: skip


FIGURE_2: tuple[Cell, ...] = tuple(
    cell
    for curve in _CURVES
    if curve[0] != "10"  # not drawn in Figure 2
    for cell in _ends("Figure 2", "tokens", expected_tokens, curve[:3])
)
FIGURE_4: tuple[Cell, ...] = tuple(
    cell
    for gamma, *values in _CURVES
    for cell in (
        *_ends("Figure 4", "speed", walltime_speedup, [gamma, *values[:2]], c=0.0),
        *_ends("Figure 4", "operations", ops_factor, [gamma, *values[2:]], c_hat=0.0),
    )
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
    return Cell(LEVIATHAN, "Figure 3", f"c = {c}", "γ, α = 0.5", gamma, {"c": c}, figure_3_start)


def _staircase(c: float, start: int, edges: str) -> tuple[Cell, ...]:
    """Cells of the edges start → start + 1, start + 1 → start + 2, ... in order."""
    return tuple(
        Cell(
            LEVIATHAN, "Figure 3", f"γ becomes {gamma}", f"c = {c}", f"0{alpha}",
            {"c": c, "gamma": gamma}, figure_3_edge,
        )
        for gamma, alpha in enumerate(edges.split(), start + 1)
    )  # fmt: skip


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
