"""Figures 2, 3 and 4 of the paper: formulas as lines, our measurements as points over them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from lab import theory
from lab.paper_measured import COSTS, GAMMAS, MOST_GAMMA, BestGamma, Measured, Point
from lab.plots import (
    BAR,
    DASHES,
    GREY,
    INK,
    LONG,
    MARKERS,
    OFFSET,
    Axes,
    Figure,
    name_line,
    one_panel,
)

X = "α: mean Σ min(p, q)"
ALPHAS = np.linspace(0.5, 0.96, 231)  # the paper's axis ends at .9
FIGURE_3_ALPHAS = np.linspace(0.5, 0.899, 400)  # of the paper
FIGURE_2_GAMMAS = GAMMAS[:-1]
SHIFTS = (-0.0045, -0.0015, 0.0015, 0.0045)  # in α: bars of one draft stand side by side
APART = 0.02  # in α: least distance of two upright names


def paper_figures(measured: Measured) -> dict[str, Figure]:
    """All three, by the names of their files."""
    return {
        "figure_2": figure_2(measured.points),
        "figure_3": figure_3(measured.best),
        "figure_4": figure_4(measured.points),
    }


def figure_2(points: Sequence[Point] = ()) -> Figure:
    """Tokens per target call against α: equation (1), and the real loop."""
    title = "Tokens per call: equation (1), and the real loop on Shakespeare"
    figure, axes = one_panel(title, X, "tokens per call of the target")
    axes.set_xlim(ALPHAS[0], ALPHAS[-1])
    axes.set_ylim(0, 10)
    axes.plot(ALPHAS, np.ones_like(ALPHAS), color=GREY, linestyle=(0, (1, 3)))
    name_line(axes, 1.0, "no draft")
    for gamma, style in zip((*FIGURE_2_GAMMAS, np.inf), (*DASHES, LONG), strict=True):
        tokens = theory.expected_tokens(ALPHAS, gamma)
        axes.plot(ALPHAS, tokens, color=GREY, linestyle=style)
        if gamma < np.inf:
            name_line(axes, tokens[-1], f"γ = {gamma}")
    axes.annotate("γ = ∞", (0.9, 10), (-8, -4), ha="right", va="top", **OFFSET)
    shown = [point for point in points if point.gamma in FIGURE_2_GAMMAS]
    _by_draft(axes, [(p, (p.tokens.value, p.tokens.stderr)) for p in shown], "measured: draft")
    return figure


def figure_3(best: Sequence[BestGamma] = ()) -> Figure:
    """The best γ against α for four costs: Theorem 3.8, and replay of real text."""
    title = (
        "The best γ: Theorem 3.8, and replay of Shakespeare\n"
        "(bars: speeds within one standard error of the best)"
    )
    figure, axes = one_panel(title, X, "best γ: drafts a round")
    axes.set_xlim(FIGURE_3_ALPHAS[0], 0.9)
    axes.set_ylim(0, MOST_GAMMA + 6)
    for c, style, marker, shift in zip(COSTS, DASHES, MARKERS, SHIFTS, strict=False):
        gammas, _ = theory.best_gamma(FIGURE_3_ALPHAS, c)
        axes.step(FIGURE_3_ALPHAS, gammas, where="post", color=GREY, linestyle=style)
        name_line(axes, gammas[-1], f"c = {c:g}")
        of_c = [one for one in best if one.c == c]
        reach = [(one.gamma - one.low, one.high - one.gamma) for one in of_c]
        axes.errorbar(
            [one.alpha.value + shift for one in of_c], [one.gamma for one in of_c],
            yerr=np.array(reach).reshape(-1, 2).T, marker=marker, label=f"c = {c:g}", **BAR,
        )  # fmt: skip
    right = 0.0
    for draft, alpha in sorted({(one.draft, one.alpha.value) for one in best}, key=itemgetter(1)):
        top = max(one.high for one in best if one.draft == draft)
        right = max(alpha, right + APART)
        axes.annotate(draft, (right, top), (0, 5), rotation=90, ha="center", va="bottom", **OFFSET)
    if best:
        axes.legend(title="replayed at", loc="upper left", frameon=False)
    return figure


def figure_4(points: Sequence[Point] = ()) -> Figure:
    """Speed and operations against α at c = ĉ = 0: Theorems 3.8 and 3.11, and the real loop."""
    title = "A free draft: speed (solid, Thm 3.8) and operations (dotted, Thm 3.11)"
    figure, axes = one_panel(title, X, "factor over plain decoding")
    axes.set_xlim(ALPHAS[0], ALPHAS[-1])
    axes.set_ylim(0, 10)
    for gamma in GAMMAS:
        speed = theory.walltime_speedup(ALPHAS, gamma, 0.0)
        operations = theory.ops_factor(ALPHAS, gamma, 0.0)
        axes.plot(ALPHAS, speed, color=GREY, linestyle="-")
        axes.plot(ALPHAS, operations, color=GREY, linestyle=":")
        name_line(axes, speed[-1], f"γ = {gamma}")
        place = (3, -14) if gamma == 1 else (3, 3)  # above it the lines of speed begin
        axes.annotate(f"γ = {gamma}", (ALPHAS[0], operations[0]), place, **OFFSET)
    speeds = [(point, (point.tokens.value, point.tokens.stderr)) for point in points]
    _by_draft(axes, speeds, "measured: draft\n(open: operations)")
    _by_draft(axes, [(point, point.operations) for point in points], "", fill="white")
    return figure


# ---- parts of a figure -------------------------------------------------------------------------


def _by_draft(
    axes: Axes,
    points: Sequence[tuple[Point, tuple[float, float]]],
    legend: str,
    fill: str = INK,
) -> None:
    """Points with their values and errors, a shape a draft; drafts off the axis are left out.
    `legend` is its title; none if that is empty."""
    low, high = axes.get_xlim()
    for draft, marker in zip(dict.fromkeys(p.draft for p, _ in points), MARKERS, strict=False):
        own = [(p, value) for p, value in points if p.draft == draft]
        if not all(low <= p.alpha.value <= high for p, _ in own):
            continue
        axes.errorbar(
            [p.alpha.value for p, _ in own], [value for _, (value, _) in own],
            xerr=[p.alpha.stderr for p, _ in own], yerr=[error for _, (_, error) in own],
            marker=marker, markerfacecolor=fill, label=draft, **BAR,
        )  # fmt: skip
    if legend and points:
        axes.legend(title=legend, loc="upper left", frameon=False)
