"""The printed numbers of the papers on trees of drafts: SpecInfer and Sequoia."""

from __future__ import annotations

from lab.paper_cell import UNROUNDED, Cell, Rounded, measured, ratio, ratio_of, rows_of
from lab.successors import tree_value

SPECINFER = "SpecInfer, Miao et al. 2023 (arXiv 2305.09781)"
SEQUOIA = "Sequoia, Chen et al. 2024 (arXiv 2402.12374)"

# ---- SpecInfer: tokens a step, of trees of growing width --------------------------------------

_DATASETS = ("Alpaca", "CP", "WebQA", "CIP", "PIQA")


def _widths(table: str, decoding: str, numbers: str) -> tuple[Cell, ...]:
    """A table of five rows, the datasets, and five columns, the widths 1 to 5."""
    return tuple(
        Cell(SPECINFER, table, f"{dataset}, {decoding}", f"width {width}", printed)
        for dataset, row in zip(_DATASETS, rows_of(numbers), strict=True)
        for width, printed in enumerate(row, 1)
    )


SPECINFER_TABLE_1: tuple[Cell, ...] = (
    *_widths(
        "Table 1", "greedy",
        """
        68 77 81 84 85
        69 79 83 86 87
        62 72 77 80 82
        70 81 85 88 89
        63 75 79 83 85
        """,
    ),
    *_widths(
        "Table 1", "stochastic",
        """
        54 81 91 95 97
        56 82 92 95 97
        52 80 90 94 96
        57 84 92 95 97
        55 82 91 95 97
        """,
    ),
)  # fmt: skip
SPECINFER_TABLE_2: tuple[Cell, ...] = (
    *_widths(
        "Table 2", "greedy",
        """
        2.95 3.07 3.21 3.33 3.43
        2.58 3.24 3.46 3.59 3.69
        2.27 2.69 2.86 2.98 3.07
        2.73 3.40 3.62 3.79 3.91
        2.18 2.80 2.97 3.10 3.21
        """,
    ),
    *_widths(
        "Table 2", "stochastic",
        """
        1.79 2.11 2.26 2.32 2.38
        1.69 1.99 2.15 2.23 2.28
        1.64 1.93 2.08 2.15 2.21
        1.72 2.05 2.19 2.28 2.29
        1.67 1.93 2.08 2.15 2.21
        """,
    ),
)  # fmt: skip
SPECINFER_TABLE_3: tuple[Cell, ...] = tuple(
    cell
    for dataset, (naive, multi_step, more) in zip(
        _DATASETS,
        rows_of("1.87 2.38 1.27\n1.80 2.28 1.26\n1.73 2.21 1.28\n1.79 2.29 1.28\n1.73 2.21 1.28"),
        strict=True,
    )
    for cell in (
        ratio_of(
            SPECINFER, "Table 3", dataset, "improvement", [multi_step, naive, more],
            UNROUNDED if dataset == "CP" else "",
        ),
        *measured(SPECINFER, "Table 3", dataset, naive=naive, multi_step=multi_step),
    )
)  # fmt: skip

# ---- Sequoia: the value of the best tree, and what it gained ------------------------------------


def _tree(nodes: int, printed: str) -> Cell:
    given = {"positional": (0.6, 0.2, 0.1), "nodes": nodes}
    row = f"n = {nodes}"
    return Cell(SEQUOIA, "tree", row, "tokens", printed, given, tree_value, worked=True)


SEQUOIA_TREE: tuple[Cell, ...] = tuple(
    _tree(int(nodes), printed)
    for nodes, printed in rows_of(
        """
        1 1.00000
        2 1.60000
        3 1.96000
        4 2.17600
        5 2.37600
        6 2.50560
        7 2.62560
        8 2.74560
        9 2.84560
        10 2.92336
        """
    )
)


_THEIRS = ("speed, SpecInfer", "tokens, SpecInfer")


def _sequoia(
    table: str, row: str, plain: str, time: str, numbers: list[str], off: str
) -> list[Cell]:
    """Time per token and the ratio to SpecInfer's speed, from the printed speeds."""
    speed, tokens, each, *theirs, more = numbers
    per_token = {"above": Rounded(plain), "below": Rounded(speed)}
    return [
        Cell(SEQUOIA, table, row, time, each, per_token, ratio, off),
        ratio_of(SEQUOIA, table, row, "over SpecInfer", [speed, theirs[0], more]),
        *measured(SEQUOIA, table, row, speed=speed, tokens=tokens),
        *measured(SEQUOIA, table, row, **dict(zip(_THEIRS, theirs, strict=True))),
    ]


SEQUOIA_TABLE_1: tuple[Cell, ...] = tuple(  # A100, plain decoding 24.2 ms a token
    cell
    for task, t, *numbers in rows_of(
        """
        C4          0   4.04 5.08 6.0 3.45 3.96 1.17
        C4          0.6 3.18 3.92 7.6 2.47 2.97 1.29
        OpenWebText 0   3.22 3.86 7.5 2.79 3.15 1.15
        OpenWebText 0.6 2.71 3.33 8.9 2.10 2.54 1.29
        CNN         0   3.41 4.05 7.1 2.95 3.27 1.16
        CNN         0.6 2.83 3.45 8.5 2.11 2.58 1.34
        MT-Bench    0   4.03 4.98 6.0 3.84 4.01 1.05
        MT-Bench    0.6 3.18 3.96 7.6 2.45 2.97 1.30
        """
    )
    for cell in _sequoia(
        "Table 1", f"{task}, T = {t}", "24.2", "ms a token", numbers,
        UNROUNDED if (task, t) == ("CNN", "0.6") else "",
    )
)  # fmt: skip
SEQUOIA_TABLE_2: tuple[Cell, ...] = tuple(  # L40, weights in main memory: 5.7 s a token
    cell
    for target, t, *numbers in rows_of(
        """
        Llama-2-70B 0   8.6 10.30 0.66 5.7 7.63 1.51
        Llama-2-70B 0.6 8.4 9.91  0.68 5.2 7.03 1.62
        Llama-3-70B 0   9.5 11.68 0.60 7.0 9.07 1.36
        Llama-3-70B 0.6 9.3 11.37 0.61 6.1 8.29 1.52
        """
    )
    for cell in _sequoia("Table 2", f"{target}, T = {t}", "5.7", "s a token", numbers, "")
)
