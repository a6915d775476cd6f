"""Figures of script 10: acceptance along real text against equation (1), which takes it for
independent. One panel a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from lab.ordering import OrderCell
from lab.plots import BAR, DASH, GREY, INK, Axes, Figure, legend_below, panels
from lab.positions import Positions
from lab.stats import ClusteredMean

APART = 0.22  # in γ, or in drafts: bars stand side by side


def order(cells: Sequence[OrderCell], formula: Mapping[str, Sequence[float]]) -> Figure:
    """Tokens per call over equation (1), less 1, against γ.

    Parameters
    ----------
    cells : of every text and γ
    formula : for each text, what the hidden-state formula says at γ = 1, 2, ..
    """
    figure, row = panels(
        "What correlated acceptance costs (bars: standard errors)",
        list(formula), "γ: drafts a round", "tokens per call over eq. (1), less 1",
    )  # fmt: skip
    for axes, (kind, line) in zip(row, formula.items(), strict=True):
        own = [cell for cell in cells if cell.kind == kind]
        gammas = np.array([cell.gamma for cell in own])
        axes.axhline(0, color=GREY, linestyle=DASH, label="equation (1)")
        axes.plot(np.arange(1, len(line) + 1), line, color=GREY, label="hidden states")
        _points(axes, gammas - APART, [cell.over_gap for cell in own], "s", "shuffled", INK)
        _points(axes, gammas, [cell.replay_gap for cell in own], "o", "replay", INK)
        _points(axes, gammas + APART, [cell.loop_eq1_gap for cell in own], "^", "real loop")
        axes.set_xticks(gammas)
    row[0].yaxis.set_major_formatter(lambda y, _: f"{y:+.0%}".replace("-", "−") if y else "0")
    legend_below(figure, 5)
    return figure


def position(found: Sequence[Positions]) -> Figure:
    """Acceptance at each draft of a round, given that it was reached."""
    gamma = len(found[0].hidden)
    drafts = np.arange(1, gamma + 1)
    figure, row = panels(
        f"Whoever gets far stands in an easy stretch (γ = {gamma}; bars: standard errors)",
        [one.kind for one in found], "draft of the round", "accepted / tested",
    )  # fmt: skip
    for axes, one in zip(row, found, strict=True):
        axes.axhline(one.alpha, color=GREY, linestyle=DASH, label="equation (1)")
        axes.plot(drafts, one.hidden, color=GREY, label="hidden states")
        _points(axes, drafts - APART / 2, one.replay, "o", "replay", INK)
        _points(axes, drafts + APART / 2, one.loop, "^", "real loop")
        axes.set_xticks(drafts)
    legend_below(figure, 4)
    return figure


def _points(
    axes: Axes, x: ArrayLike, means: Sequence[ClusteredMean], marker: str, label: str,
    fill: str = "white",
) -> None:  # fmt: skip
    axes.errorbar(
        x, [one.mean for one in means], yerr=[one.stderr for one in means],
        marker=marker, markerfacecolor=fill, label=label, **BAR,
    )  # fmt: skip
