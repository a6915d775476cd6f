"""Figures of script 09: how often drafts are accepted on real text, and what the stopwatch says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator
from matplotlib.transforms import Bbox

from lab.domains import Floats
from lab.plots import BAR, GREY, INK, MARKERS, OFFSET, Axes, Figure, legend_below, panels
from lab.realclock import ClockCell
from lab.realtext import LOOKUP
from lab.stats import ClusteredMean

APART = 0.18  # in drafts: bars of the two temperatures stand above each other
FAMILIES = {
    "n-gram": ("unigram", "bigram", "trigram", "4-gram"),
    "trained": ("trained 1L", "trained 2L"),
    "the target, quantised or cut": ("INT4", "INT3", "first 3 layers"),
    LOOKUP: (LOOKUP,),
}
TICKS = (0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8)  # where the axes reach that far
LOWEST, HIGHEST = 0.93, 1.3  # ends of the axes over the outermost points; names need room
NEAR, ALONE = 11.0, 10.0  # pixels: others' distance from a name; from a point that is named
CLEAR = 4.0  # pixels: of a name from the line of equality
PLACES = ((5, -2), (6, -7))  # of a name beside its point, in points
BLANK = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # behind a name


def alpha(alphas: Mapping[tuple[str, float], Mapping[str, ClusteredMean]]) -> Figure:
    """α of every draft, one below the other, a panel a text.

    alphas : by kind of text and temperature, then by draft
    """
    kinds = list(dict.fromkeys(kind for kind, _ in alphas))
    drafts = list(next(iter(alphas.values())))
    figure, row = panels(
        "α of each draft (bars: standard errors; prompt lookup: accepted / tested)",
        kinds, "α: mean Σ min(p, q)", "draft",
    )  # fmt: skip
    rows = np.arange(len(drafts))
    for axes, kind in zip(row, kinds, strict=True):
        axes.hlines(rows, 0, 1, color="0.85", linewidth=0.8, zorder=0)
        for temperature, shift, fill in ((0.0, -APART, "white"), (1.0, APART, INK)):
            own = [alphas[kind, temperature][name] for name in drafts]
            axes.errorbar(
                [one.mean for one in own], rows + shift, xerr=[one.stderr for one in own],
                marker="o", markerfacecolor=fill, label=f"T {temperature:g}", **BAR,
            )  # fmt: skip
    row[0].set_yticks(rows, drafts)
    row[0].invert_yaxis()
    row[0].set_xlim(0, 1)
    row[0].xaxis.set_major_formatter(lambda at, _: f"{at:g}")
    legend_below(figure, 2)
    return figure


def clock(cells: Sequence[ClockCell]) -> Figure:
    """Speed-up by two forms against the stopwatch at replay's tokens per call, a panel for each
    temperature, a shape for each kind of draft; names where there is room."""
    temperatures = list(dict.fromkeys(cell.temperature for cell in cells))
    figure, row = panels(
        "Speed-up: all costs (filled) and Theorem 3.8 (open) against the stopwatch",
        [f"T {temperature:g}" for temperature in temperatures],
        "stopwatch, at replay's tokens per call", "predicted",
    )  # fmt: skip
    figure.set_figheight(4.6)
    by_panel = [[cell for cell in cells if cell.temperature == t] for t in temperatures]
    for axes, own in zip(row, by_panel, strict=True):
        _families(axes, own)
    _log_axes(row, cells)
    legend_below(figure, 5)
    figure.draw_without_rendering()  # from here on it is known what is where
    for axes, own in zip(row, by_panel, strict=True):
        _name(axes, own)
    return figure


def _log_axes(row: Sequence[Axes], cells: Sequence[ClockCell]) -> None:
    """Square, with the line of equality and those of no gain."""
    speeds = np.concatenate([_by_costs(cells), _by_paper(cells)]).ravel()
    ends = LOWEST * min(speeds), HIGHEST * max(speeds)
    for axes in row:
        axes.set(xscale="log", yscale="log", aspect="equal", xlim=ends, ylim=ends)
        axes.plot(ends, ends, color=GREY, linewidth=0.8, label="equal")
        axes.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
        axes.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(FixedLocator(TICKS))
            axis.set_major_formatter(lambda at, _: f"{at:g}")
            axis.set_minor_locator(NullLocator())


def _families(axes: Axes, cells: Sequence[ClockCell]) -> None:
    for (family, names), marker in zip(FAMILIES.items(), MARKERS, strict=False):
        own = [cell for cell in cells if cell.draft in names]
        look = BAR | {"marker": marker}
        open_look = look | {"color": GREY, "markerfacecolor": "white", "markersize": 4}
        axes.errorbar(*_by_paper(own).T, **open_look)
        axes.errorbar(*_by_costs(own).T, label=family, **look)


def _by_costs(cells: Sequence[ClockCell]) -> Floats:
    """(cells, 2): stopwatch and all costs."""
    return np.array([(cell.without_luck, cell.full) for cell in cells]).reshape(-1, 2)


def _by_paper(cells: Sequence[ClockCell]) -> Floats:
    """(cells with α, 2): stopwatch and Theorem 3.8."""
    points = [(cell.without_luck, cell.paper) for cell in cells if cell.paper is not None]
    return np.array(points).reshape(-1, 2)


def _name(axes: Axes, cells: Sequence[ClockCell]) -> None:
    """Names right of points of all costs, below the line of equality, where it is plain whose they
    are and they cover no point; the farthest from 1 come first."""
    own, paper = (axes.transData.transform(by(cells)) for by in (_by_costs, _by_paper))  # pixels
    named: list[Bbox] = []
    for i, cell in sorted(enumerate(cells), key=lambda one: -abs(np.log(one[1].full))):
        others = np.concatenate([np.delete(own, i, axis=0), paper])
        if np.hypot(*(np.delete(own, i, axis=0) - own[i]).T).min(initial=np.inf) < ALONE:
            continue
        for place in PLACES:
            name = axes.annotate(
                f"{cell.draft}, {cell.kind}", (cell.without_luck, cell.full), place,
                va="top", fontsize="small", bbox=BLANK, **OFFSET,
            )  # fmt: skip
            box = name.get_window_extent()
            below = box.y1 - axes.bbox.y0 + CLEAR < box.x0 - axes.bbox.x0  # equality: 45 degrees
            inside = box.x1 < axes.bbox.x1 and box.y0 > axes.bbox.y0
            covers = box.padded(NEAR).count_contains(others) + box.count_overlaps(named)
            if below and inside and not covers:
                named.append(box)
                break
            name.remove()
