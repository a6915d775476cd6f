"""How a figure looks and where it goes: formulas are lines, measurements are points over them.

There is no colour: lines differ in style, points in shape or fill, and both are named. Bars are one
standard error, or what the title says. The figures are in the modules `plots_*`. matplotlib is an
extra, asked for only there and here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from lab.console import Report

try:
    from matplotlib.axes import Axes as Axes  # and for the modules plots_*
    from matplotlib.figure import Figure as Figure
    from PIL import Image  # matplotlib needs it too
except ImportError as error:
    raise ImportError(
        'lab.plots needs matplotlib: pip install "specdec-lab[plot]", or in a checkout '
        'pip install -e ".[plot]"'
    ) from error

INK, GREY = "black", "0.45"
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":")
DASH, LONG = (0, (5, 3)), (0, (8, 2))
BAR: dict[str, Any] = {
    "linestyle": "none", "color": INK, "markersize": 5, "elinewidth": 0.8, "capsize": 2,
}  # fmt: skip
OFFSET: dict[str, Any] = {"textcoords": "offset points"}
DPI = 150


def draw(report: Report, folder: Path, figures: Mapping[str, Figure]) -> None:
    """Save figures as a script is asked to by --plots, and say where they are."""
    for path in save(folder, figures):
        report.say(f"Drawn: {path}", path=path)


def save(folder: Path, figures: Mapping[str, Figure]) -> list[Path]:
    """Write folder/name.png of each, in shades of grey; the folder is made if it is not there. The
    same figures are the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.png" for name in figures}
    for name, path in paths.items():
        drawn = BytesIO()
        figures[name].savefig(drawn, dpi=DPI)
        Image.open(drawn).convert("L").save(path, optimize=True)  # a third of the bytes
    return list(paths.values())


def one_panel(title: str, x: str, y: str, height: float = 4.6) -> tuple[Figure, Axes]:
    """A figure of one panel, its axes named; height in inches."""
    figure = Figure(figsize=(6.6, height), layout="constrained")
    axes = figure.add_subplot()
    _open(axes, x)
    axes.set_ylabel(y)
    axes.set_title(title, pad=10)
    return figure, axes


def panels(title: str, names: Sequence[str], x: str, y: str) -> tuple[Figure, list[Axes]]:
    """A figure of named panels side by side that share both axes."""
    figure = Figure(figsize=(7.4, 3.8), layout="constrained")
    figure.suptitle(title, fontsize="large")
    row = list(figure.subplots(1, len(names), sharex=True, sharey=True, squeeze=False)[0])
    for axes, name in zip(row, names, strict=True):
        _open(axes, x)
        axes.set_title(name, fontsize="medium")
    row[0].set_ylabel(y)
    return figure, row


def legend_below(figure: Figure, columns: int) -> None:
    """One legend for panels that all have the same entries."""
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        loc="outside lower center", ncols=columns, frameon=False, columnspacing=1.4,
        handletextpad=0.5,
    )  # fmt: skip


def name_line(axes: Axes, height: float, text: str) -> None:
    """The name of a line at its right end."""
    axes.annotate(
        text, (1.0, height), (4, 0), xycoords=("axes fraction", "data"),
        va="center", annotation_clip=False, **OFFSET,
    )  # fmt: skip


def _open(axes: Axes, x: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(x)
