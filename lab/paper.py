"""Every printed number that the lab recomputes, paper by paper, and what became of it.

A printed number is a `Cell`: a table entry as much as an edge read off a figure, for which the
formula is the reading. Cells stand in pages, one a table of a paper; a further table is one more
page. A cell agrees, or it is an exception that is named with its reason: no tolerance is ever
widened. Cells that a paper only measured are kept beside them and not counted.

>>> cell = TABLE_1[-2]
>>> cell.row, cell.column, cell.printed
('α = 0.9, γ = 10', 'OPERATIONS', '1.60')
>>> cell.agrees(cell.recompute())
True
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab import paper_leviathan, paper_servers, paper_successors, paper_trees
from lab.paper_cell import Cell, Rounded
from lab.paper_figures import (
    FIGURE_2,
    FIGURE_3,
    FIGURE_3_ALPHAS,
    FIGURE_3_STARTS,
    FIGURE_4,
    figure_3_edge,
    figure_3_start,
)
from lab.paper_leviathan import LEVIATHAN, MISPRINTS, TABLE_1
from lab.paper_successors import BLOCK_GAINS, SUN

__all__ = [
    "BLOCK_GAINS",
    "CELLS",
    "FIGURE_2",
    "FIGURE_3",
    "FIGURE_3_ALPHAS",
    "FIGURE_3_STARTS",
    "FIGURE_4",
    "LEVIATHAN",
    "MISPRINTS",
    "PAGES",
    "SUN",
    "TABLE_1",
    "Cell",
    "Count",
    "Page",
    "Rounded",
    "count",
    "figure_3_edge",
    "figure_3_start",
    "sentence",
]


@dataclass(frozen=True, slots=True)
class Page:
    """A table of a paper, or a part of one, as it is shown."""

    title: str
    cells: tuple[Cell, ...]

    @property
    def source(self) -> str:
        """The paper, the same for all cells."""
        (source,) = {cell.source for cell in self.cells}
        return source

    @property
    def checked(self) -> tuple[Cell, ...]:
        """The cells that a formula should give."""
        return tuple(cell for cell in self.cells if cell.formula is not None)

    @property
    def measured(self) -> tuple[Cell, ...]:
        """The cells that were only measured."""
        return tuple(cell for cell in self.cells if cell.formula is None)

    @property
    def formulas(self) -> tuple[str, ...]:
        """The functions behind its cells, in order: "theory.ops_factor", .."""
        found = [cell.formula for cell in self.checked if cell.formula is not None]
        names = [f"{f.__module__.removeprefix('lab.')}.{f.__name__}" for f in found]
        return tuple(dict.fromkeys(names))


_L, _S = paper_leviathan, paper_successors
PAGES: tuple[Page, ...] = (
    Page("Table 1: operations and speed, c = ĉ = 0", TABLE_1),
    Page("Table 2: T5-XXL with T5 drafts", _L.TABLE_2),
    Page("Table 3: α", _L.TABLE_3),
    Page("Table 4: speed, expected (Thm 3.8) and measured", (*_L.TABLE_4, *_L.TABLE_4_MEASURED)),
    Page("Table 4: c from bytes and layers, one number fitted for all three", _L.TABLE_4_COSTS),
    Page("Table 5: α under lenience, EnDe, T = 1", _L.TABLE_5),
    Page("A.5: speed under lenience, T = 1, the best γ (Thm 3.8)", _L.LENIENT_AT_1),
    Page("A.5: speed under lenience, T = 0, γ = 8 (Thm 3.8)", _L.LENIENT_AT_0),
    Page("Figure 2: the ends of its curves, eq. (1)", FIGURE_2),
    Page("Figure 3: where its curves start", FIGURE_3_STARTS),
    Page(
        "Figure 3: the α at which the best γ goes up by one",
        tuple(sorted(FIGURE_3, key=lambda cell: int(cell.inputs["gamma"]))),
    ),
    Page("Figure 4: the ends of its curves, c = ĉ = 0", FIGURE_4),
    Page("Numbers in the text", _L.TEXT),
    Page("Table 1: Chinchilla 70B with 4B, K = 4", _S.CHEN_TABLE_1),
    Page("Table 1: a step verified, in %, by width", paper_trees.SPECINFER_TABLE_1),
    Page("Table 2: tokens a step, by width", paper_trees.SPECINFER_TABLE_2),
    Page("Table 3: multi-step over naive sampling", paper_trees.SPECINFER_TABLE_3),
    Page("Proposition 3.4: the best tree, P = (.6, .2, .1) (worked)", paper_trees.SEQUOIA_TREE),
    Page("Table 1: one A100, 24.2 ms a token without drafts", paper_trees.SEQUOIA_TABLE_1),
    Page("Table 2: weights off the L40, 5.7 s a token without drafts", paper_trees.SEQUOIA_TABLE_2),
    Page("Toy: accepted drafts a round; γ = 2 is the paper's, the others are worked", _S.BLOCK_TOY),
    Page(f"PaLM-2-S with XXS, γ = 8: speeds from tokens and one c, {_S.BLOCK_C}", _S.BLOCK_SPEEDS),
    Page("Its gains, block over token, γ = 8", _S.BLOCK_DATASETS),
    Page("Gains of the mean by γ", BLOCK_GAINS),
    Page("Llama-2 70B with 7B: what an adaptive length gains", _S.SPECDEC_GAINS),
    Page("The stopping threshold, and a run (worked)", _S.SPECDEC_STOP),
    Page("A draft that has a draft, α = .8, b = .6, c1 = .1, c2 = .01 (worked)", _S.CASCADES),
    Page("Drafts of the next round (worked)", _S.HEURISTIC),
    Page("Tables 1-3: T_AR / T_SD", paper_servers.MAGICDEC_GAINS),
    Page("Speeds", paper_servers.GPT_FAST_SPEEDS),
    Page("c of quantised drafts beside their ratio of bytes (worked)", paper_servers.GPT_FAST_C),
)  # fmt: skip
CELLS: tuple[Cell, ...] = tuple(cell for page in PAGES for cell in page.cells)


@dataclass(frozen=True, slots=True)
class Count:
    """How many cells; those that were only measured are in no other number."""

    cells: int
    agree: int
    exceptions: int
    worked: int
    measured: int


def count(cells: Iterable[Cell]) -> Count:
    """What became of some cells. `worked`: of those checked, no paper prints them."""
    cells = tuple(cells)
    statuses = [cell.status for cell in cells]
    measured, agree = statuses.count("measured only"), statuses.count("agrees")
    worked = sum(cell.worked for cell in cells)
    checked = len(cells) - measured
    return Count(checked, agree, checked - agree, worked, measured)


def sentence(cell: Cell) -> str:
    """What there is to say of an exception: printed, recomputed, what the rounding of the printed
    inputs allows, and the reason.

    Raises
    ------
    ValueError
        For a cell that is no exception.
    """
    if not cell.exception:
        raise ValueError(f"cell must be an exception, got {cell.name}, which {cell.status}")
    given, low, high = map(cell.digits, (cell.recompute(), *cell.reach()))
    reach = "which covers it" if cell.within_reach else f"never {cell.printed}"
    return (
        f"{cell.name}: {cell.printed} is printed, the formula gives {given}; rounded inputs allow "
        f"{low} to {high}, {reach}: {cell.exception}."
    )
