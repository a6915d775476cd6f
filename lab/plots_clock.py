"""Figures of script 11: speed-up on the stopwatch, and a target pass over few rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lab import theory
from lab.plots import BAR, DASH, GREY, INK, MARKERS, Axes, Figure, legend_below, one_panel, panels
from lab.wallclock import Parts, PlantedCell

STEP = 0.035  # in octaves of γ: bars of neighbouring acceptances stand side by side


def wall_clock(cells: Sequence[PlantedCell]) -> Figure:
    """Speed-up over plain decoding against γ, a panel for each draft cost, a shape for each α."""
    costs = list(dict.fromkeys(cell.cost for cell in cells))
    figure, row = panels(
        "Speed-up: the stopwatch (open, with quartiles) against two formulas",
        [f"c = {cost:.0%}" if cost else "c = 0: a free draft" for cost in costs],
        "γ: drafts a round", "times as fast as plain decoding",
    )  # fmt: skip
    for axes, cost in zip(row, costs, strict=True):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
        _panel(axes, [cell for cell in cells if cell.cost == cost])
        axes.set_xticks(sorted({cell.gamma for cell in cells}))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda at, _: f"{at:g}")
    legend_below(figure, 6)
    return figure


def _panel(axes: Axes, cells: Sequence[PlantedCell]) -> None:
    """The cells of one cost."""
    acceptances = list(dict.fromkeys(cell.acceptance for cell in cells))
    for i, (acceptance, marker) in enumerate(zip(acceptances, MARKERS, strict=False)):
        own = [cell for cell in cells if cell.acceptance == acceptance]
        gammas = np.array([cell.gamma for cell in own])
        every = np.arange(gammas[0], gammas[-1] + 1)
        paper = theory.walltime_speedup(acceptance, every, own[0].cost)
        full = [cell.full for cell in own]
        names = ("Theorem 3.8", "all costs") if i == 0 else (None, None)
        axes.plot(every, paper, color=GREY, linestyle=DASH, label=names[0])
        axes.plot(every[-1], paper[-1], color=GREY, marker=marker, markersize=4)  # its name
        axes.plot(gammas, full, color=INK, linewidth=1, label=names[1])
        shift = 2.0 ** (STEP * (i - (len(acceptances) - 1) / 2))
        axes.errorbar(
            shift * gammas, [cell.clock.ratio for cell in own],
            yerr=reach([(c.clock.low, c.clock.ratio, c.clock.high) for c in own]),
            marker=marker, markerfacecolor="white", label=f"α = {acceptance:g}", **BAR,
        )  # fmt: skip


def rows(parts: Parts) -> Figure:
    """A pass of the target over n rows, in passes over one."""
    figure, axes = one_panel(
        "A pass of the target over γ + 1 rows (bars: quartiles)",
        "n: rows of the pass, γ + 1", "T(n) / T(1)", height=3.4,
    )  # fmt: skip
    spread = [(low, parts.ratios[n], high) for n, (low, high) in parts.quartiles.items()]
    counts = list(parts.quartiles)
    axes.axhline(1, color=GREY, linestyle=DASH, label="Theorem 3.8: 1")
    axes.errorbar(
        counts, [middle for _, middle, _ in spread], yerr=reach(spread),
        marker="o", label="measured", **BAR,
    )  # fmt: skip
    axes.set_xticks(counts)
    axes.set_ylim(0)
    axes.legend(loc="lower right", frameon=False)
    return figure


def reach(quartiles: Sequence[tuple[float, float, float]]) -> NDArray[np.float64]:
    """(low, middle, high) of each point -> (2, points): how far its bar reaches down and up."""
    low, middle, high = np.array(quartiles).T
    return np.array([middle - low, high - middle])
