"""The printed numbers of Leviathan, Kalman, Matias 2023: Tables 1-5, text and appendix.

p = target, q = draft (the paper's M_p, M_q). The figures are in `lab.paper_figures`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.paper_cell import UNROUNDED, Cell, Rounded, rows_of
from lab.successors import c_from_bytes, t5_step_weights
from lab.theory import best_gamma, ops_factor, walltime_speedup

LEVIATHAN = "Leviathan, Kalman, Matias 2023 (arXiv 2211.17192v2)"

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

# ---- Tables 2 and 4: T5-XXL and its drafts on a TPU, expected and measured --------------------

_RUNS = rows_of(
    # task, draft, T, gamma, alpha, c, Exp, Emp
    """
    EnDe  T5-small 0 7 0.75 0.02 3.2 3.4
    EnDe  T5-base  0 7 0.80 0.04 3.3 2.8
    EnDe  T5-large 0 7 0.82 0.11 2.5 1.7
    EnDe  T5-small 1 7 0.62 0.02 2.3 2.6
    EnDe  T5-base  1 5 0.68 0.04 2.4 2.4
    EnDe  T5-large 1 3 0.71 0.11 2.0 1.4
    CNNDM T5-small 0 5 0.65 0.02 2.4 3.1
    CNNDM T5-base  0 5 0.73 0.04 2.6 3.0
    CNNDM T5-large 0 3 0.74 0.11 2.0 2.2
    CNNDM T5-small 1 5 0.53 0.02 1.9 2.3
    CNNDM T5-base  1 3 0.55 0.04 1.8 2.2
    CNNDM T5-large 1 3 0.56 0.11 1.6 1.7
    """
)
_TABLE_4_OFF = (("EnDe", "T5-base", "1"), ("EnDe", "T5-large", "1"), ("CNNDM", "T5-large", "1"))


def _run(task: str, draft: str, temperature: str) -> str:
    return f"{task}, {draft}, T = {temperature}"


def _expected(task: str, draft: str, t: str, gamma: str, alpha: str, c: str, exp: str) -> Cell:
    given = {"alpha": Rounded(alpha), "gamma": int(gamma), "c": Rounded(c)}
    off = UNROUNDED if (task, draft, t) in _TABLE_4_OFF else ""
    row = f"{_run(task, draft, t)}, γ = {gamma}"
    return Cell(LEVIATHAN, "Table 4", row, "Exp", exp, given, walltime_speedup, off)


TABLE_2: tuple[Cell, ...] = tuple(
    Cell(LEVIATHAN, "Table 2", f"{_run(task, draft, t)}, γ = {gamma}", column, printed)
    for task, draft, t, gamma, alpha, _, _, speed in _RUNS
    for column, printed in (("α", alpha), ("SPEED", speed))
)
TABLE_4: tuple[Cell, ...] = tuple(_expected(*run[:7]) for run in _RUNS)
TABLE_4_MEASURED: tuple[Cell, ...] = tuple(
    Cell(LEVIATHAN, "Table 4", f"{_run(*run[:3])}, γ = {run[3]}", "Emp", run[-1]) for run in _RUNS
)

# ---- Table 4's c: a step reads its weights, and takes a fixed time for each layer -------------

_T5 = {  # T5 v1.1: d_model, d_ff, layers, heads
    "T5-small": (512, 1024, 8, 6),
    "T5-base": (768, 2048, 12, 12),
    "T5-large": (1024, 2816, 24, 16),
    "T5-XXL": (4096, 10240, 24, 64),
}
LAYER_TIME = 0.0415  # all fixed times of the target's layers over its reading time: the one fitted


def t5_cost(draft: str) -> float:
    """c of a T5 draft for T5-XXL, from bytes and layers and one fitted number."""
    sizes = [_T5[name] for name in (draft, "T5-XXL")]
    read, of_target = (t5_step_weights(*size) for size in sizes)
    return float(c_from_bytes(read / of_target, sizes[0][2] / sizes[1][2], LAYER_TIME))


TABLE_4_COSTS: tuple[Cell, ...] = tuple(
    Cell(LEVIATHAN, "Table 4", draft, "c", c, {"draft": draft}, t5_cost)
    for draft, c in (("T5-small", "0.02"), ("T5-base", "0.04"), ("T5-large", "0.11"))
)

# ---- Tables 3 and 5: acceptance, as measured there --------------------------------------------

TABLE_3: tuple[Cell, ...] = tuple(
    Cell(LEVIATHAN, "Table 3", f"{target.replace('_', ' ')}, {draft}", f"α, T = {t}", alpha)
    for target, draft, *alphas in rows_of(
        """
        GPT-like_97M  unigram   0.03 0.03
        GPT-like_97M  bigram    0.05 0.05
        GPT-like_97M  6M        0.88 0.89
        T5-XXL_EnDe   unigram   0.08 0.07
        T5-XXL_EnDe   bigram    0.20 0.19
        T5-XXL_EnDe   T5-small  0.75 0.62
        T5-XXL_EnDe   T5-base   0.80 0.68
        T5-XXL_EnDe   T5-large  0.82 0.71
        T5-XXL_CNNDM  unigram   0.13 0.08
        T5-XXL_CNNDM  bigram    0.23 0.16
        T5-XXL_CNNDM  T5-small  0.65 0.53
        T5-XXL_CNNDM  T5-base   0.73 0.55
        T5-XXL_CNNDM  T5-large  0.74 0.56
        LaMDA_137B    100M      0.61 0.57
        LaMDA_137B    2B        0.71 0.71
        LaMDA_137B    8B        0.75 0.74
        """
    )
    for t, alpha in enumerate(alphas)
)
LENIENCES = ("1", "0.5", "0.3", "0.1")
TABLE_5: tuple[Cell, ...] = tuple(
    Cell(LEVIATHAN, "Table 5", draft, f"α, l = {leniency}", alpha)
    for draft, *alphas in rows_of(
        """
        unigram  0.07 0.10 0.11 0.16
        bigram   0.19 0.23 0.25 0.32
        T5-small 0.62 0.71 0.76 0.84
        T5-base  0.68 0.80 0.83 0.90
        """
    )
    for leniency, alpha in zip(LENIENCES, alphas, strict=True)
)

# ---- Appendix A.5: what lenience buys, EnDe with T5-small -------------------------------------


def best_speed(alpha: float, c: float) -> float:
    """The speed-up at the best γ."""
    return float(best_gamma(alpha, c)[1])


def most_above_target(leniency: float) -> float:
    """How many times as probable as the target has it a token can become: 1 / l."""
    return 1 / leniency


def _lenient_at_1(leniency: str, alpha: str, speed: str) -> Cell:
    given = {"alpha": Rounded(alpha), "c": Rounded("0.015")}
    off = f"γ is not printed, and none reaches it; the best is γ {best_gamma(*given.values())[0]}"
    off = "" if leniency == "0.1" else off
    return Cell(LEVIATHAN, "A.5, T = 1", f"l = {leniency}", "speed", speed, given, best_speed, off)


def _lenient_at_0(leniency: str, alpha: str, speed: str) -> tuple[Cell, Cell]:
    given = {"alpha": Rounded(alpha), "gamma": 8, "c": Rounded("0.015")}
    row = f"l = {leniency}, γ = 8"
    return (
        Cell(LEVIATHAN, "A.5, T = 0", row, "α", alpha),
        Cell(LEVIATHAN, "A.5, T = 0", row, "speed", speed, given, walltime_speedup),
    )


LENIENT_AT_1: tuple[Cell, ...] = tuple(
    _lenient_at_1(leniency, cell.printed, speed)
    for leniency, cell, speed in zip(
        LENIENCES, TABLE_5[8:12], ("2.5", "3.1", "3.6", "5"), strict=True
    )
)
LENIENT_AT_0: tuple[Cell, ...] = (
    *_lenient_at_0("1", "0.75", "3.3"),
    *_lenient_at_0("0.5", "0.75", "3.3"),
    *_lenient_at_0("0.3", "0.80", "3.9"),
    *_lenient_at_0("0.1", "0.87", "4.9"),
)

# ---- Numbers in the text ----------------------------------------------------------------------


def most_oracle_gain() -> float:
    """Percent that `theory.oracle_gain` can be, at most: 100 / (e - 1).

    It grows towards α = 1; there, with c = k (1 - α) and γ = t / (1 - α), it becomes
    (k t + 1) / ((1 + k)(1 - e^-t)), which at the best t is 1 / (1 - t e^-t): largest at t = 1.
    """
    return 100 / (math.e - 1)


TEXT: tuple[Cell, ...] = (
    Cell(LEVIATHAN, "Figure 1", "tokens", "number", "38"),
    Cell(LEVIATHAN, "Figure 1", "target runs", "number", "9"),
    Cell(
        LEVIATHAN, "section 3.5", "% gained by an oracle's γ, up to", "number", "~60",
        {}, most_oracle_gain,
    ),
    Cell(
        LEVIATHAN, "section 3.6", "speed, EnDe, bigram, γ = 3, c = 0", "number", "1.25",
        {"alpha": Rounded("0.2"), "gamma": 3, "c": 0.0}, walltime_speedup,
    ),
    Cell(
        LEVIATHAN, "A.5", "times as probable as p at most, l = 0.3", "number", "3",
        {"leniency": 0.3}, most_above_target,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Misprint:
    """A sentence of the paper that its own numbers contradict."""

    where: str
    says: str
    but: str


MISPRINTS: tuple[Misprint, ...] = (
    Misprint(
        "After Definition 3.7", "c was always below 0.05",
        "Table 4 prints c = 0.11 for T5-large",
    ),
    Misprint(
        "A.5", "Table 5 is of T5-small",
        "it has four drafts",
    ),
    Misprint(
        "A.5, T = 0", "a token is accepted if p(x) ≤ l max p",
        "at l = 1 that accepts every token, yet α = 0.75 is printed: it must be p(x) ≥ l max p "
        "(successors.lenient_at_zero)",
    ),
)  # fmt: skip
