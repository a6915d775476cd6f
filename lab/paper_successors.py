"""The printed numbers of the papers that followed, where a formula should give them.

Chen et al. 2023, block verification, SpecDec++; and numbers worked by hand for cascades and for
Hugging Face's schedule. Trees are in `lab.paper_trees`, servers in `lab.paper_servers`. In
Leviathan's letters: p = target, q = draft (Chen et al. have them the other way round).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from lab import rule_laws
from lab.paper_cell import (
    UNROUNDED,
    Cell,
    Rounded,
    measured,
    percent_more,
    ratio,
    ratio_of,
    rows_of,
)
from lab.paper_leviathan import best_speed
from lab.successors import (
    cascade_phi,
    cascade_speedup,
    cascade_tokens,
    next_gamma,
    speedup_from_times,
    stop_threshold,
)

CHEN = "Chen et al. 2023 (arXiv 2302.01318)"
SUN = "Sun et al. 2024 (arXiv 2403.10444)"
SPECDEC = "SpecDec++, Huang et al. 2024 (arXiv 2405.19715)"
CASCADE = "Cascades, Chen et al. 2023 (arXiv 2312.11462)"
HUGGING_FACE = "Hugging Face transformers, candidate_generator.py"

# ---- Chen et al. 2023, Table 1: Chinchilla 70B with a 4B draft, K = 4 -------------------------


def _chen(task: str, metric: tuple[str, str], ms: str, speed: str, off: bool = False) -> list[Cell]:
    plain = "14.1"
    reason = f"needs {float(plain) / float(speed):.2f} ms where {ms} is printed" if off else ""
    names = ("metric, plain", "metric, drafts", "ms, plain", "ms, drafts")
    return [
        ratio_of(CHEN, "Table 1", task, "speed-up", [plain, ms, speed], reason),
        *measured(CHEN, "Table 1", task, **dict(zip(names, (*metric, plain, ms), strict=True))),
    ]


CHEN_TABLE_1: tuple[Cell, ...] = (
    *_chen("XSum, nucleus", ("0.112", "0.114"), "7.52", "1.92", off=True),
    *_chen("XSum, greedy", ("0.157", "0.156"), "7.00", "2.01"),
    *_chen("HumanEval", ("45.1", "47.0"), "5.73", "2.46"),
)

# ---- Block verification -------------------------------------------------------------------------

_TOY_TARGET = np.array([Fraction(1, 3), Fraction(2, 3)])
_TOY_DRAFT = _TOY_TARGET[::-1]
_BLOCK = "γ = 8"
BLOCK_C = 0.0605  # one c for the token rule's column of speeds, in which it is not printed


def toy_accepted(rule: str, gamma: int) -> Any:
    """Expected accepted drafts of a round on the toy, as a fraction: rule "token" or "block"."""
    tokens = {"token": rule_laws.token_tokens, "block": rule_laws.block_tokens}[rule]
    return tokens(lambda prefix: _TOY_TARGET, lambda prefix: _TOY_DRAFT, gamma) - 1


def block_gain(token: float, block: float) -> float:
    """Percent more tokens a call."""
    return percent_more(block, token)


def _gain(table: str, row: str, column: str, numbers: list[str], off: str = "") -> Cell:
    """A printed gain, in %, of block over token; numbers: token, block, gain."""
    token, block, gain = numbers
    given = {"token": Rounded(token), "block": Rounded(block)}
    return Cell(SUN, table, row, column, gain, given, block_gain, off)


def _wall(row: str, rule: str, tokens: str, speed: str, off: str = "") -> Cell:
    """A speed at gamma 8, from the printed tokens and one c; its exception says the c it needs."""
    given = {"tokens": Rounded(tokens), "gamma": 8, "draft_time": BLOCK_C}
    given |= {"verify_time": 1.0, "target_time": 1.0}
    reason = f"needs c = {(float(tokens) / float(speed) - 1) / 8:.4f}: {off}" if off else ""
    return Cell(SUN, _BLOCK, row, f"speed, {rule}", speed, given, speedup_from_times, reason)


def _speeds(dataset: str, tokens: list[str], speeds: list[str]) -> list[Cell]:
    """Tokens a round and speed, of the token rule and of block verification."""
    off = "this dataset's c, not the others'" if dataset in ("LM1B", "GSM8K") else ""
    names = ("tokens, token", "tokens, block")
    return [
        *measured(SUN, _BLOCK, dataset, **dict(zip(names, tokens, strict=True))),
        _wall(dataset, "token", tokens[0], speeds[0], off),
        _wall(dataset, "block", tokens[1], speeds[1], "block verification's own time shows"),
    ]


BLOCK_TOY: tuple[Cell, ...] = tuple(
    Cell(
        SUN, "toy, p = (1/3, 2/3), q = (2/3, 1/3)", f"γ = {gamma}", f"accepted, {rule}", printed,
        {"rule": rule, "gamma": gamma}, toy_accepted, worked=gamma != 2,
    )
    for rule, *row in rows_of(
        "token 2/3 10/9 38/27 130/81 422/243\nblock 2/3 11/9 5/3 166/81 64/27"
    )
    for gamma, printed in enumerate(row, 1)
)  # fmt: skip
_DATASETS = {
    name: (numbers[:3], numbers[3:])
    for name, *numbers in rows_of(
        # tokens of token and block, gain in %; speeds, gain in %
        """
        LM1B       3.21 3.49 8.68  2.17 2.32 6.85
        GPT-Prompt 3.41 3.76 10.06 2.30 2.48 8.14
        WebQA      3.44 3.70 7.53  2.32 2.45 5.75
        PIQA       3.40 3.68 8.30  2.29 2.44 6.52
        ShareGPT   3.34 3.62 8.45  2.25 2.40 6.68
        XSum       3.49 3.76 7.63  2.35 2.49 5.82
        GSM8K      3.81 4.15 8.74  2.55 2.73 6.84
        WMT-DeEn   3.19 3.41 7.00  2.15 2.27 5.36
        """
    )
}
BLOCK_SPEEDS: tuple[Cell, ...] = tuple(
    cell
    for dataset, (tokens, speeds) in _DATASETS.items()
    for cell in _speeds(dataset, tokens[:2], speeds[:2])
)
BLOCK_DATASETS: tuple[Cell, ...] = tuple(
    _gain(_BLOCK, dataset, column, numbers, UNROUNDED)
    for dataset, pair in _DATASETS.items()
    for column, numbers in zip(("tokens, gain in %", "speed, gain in %"), pair, strict=True)
)
BLOCK_GAINS: tuple[Cell, ...] = tuple(
    _gain(
        "block efficiency, means of eight datasets, PaLM-2-S with draft PaLM-2-XXS",
        f"γ = {gamma}", "improvement, %", numbers,
    )
    for gamma, *numbers in rows_of("4 2.89 2.99 3.46\n6 3.23 3.43 6.19\n8 3.41 3.70 8.50")
)  # fmt: skip

# ---- How far to draft: SpecDec++, and Hugging Face's schedule -----------------------------------


def _specdec(task: str, adaptive: str, fixed: str, gain: str) -> list[Cell]:
    given = {"new": Rounded(adaptive), "old": Rounded(fixed)}
    table, row = "speed-ups", task
    return [
        Cell(SPECDEC, table, row, "gain, %", gain, given, percent_more, UNROUNDED),
        *measured(SPECDEC, table, row, adaptive=adaptive, fixed_length=fixed),
    ]


SPECDEC_GAINS: tuple[Cell, ...] = (
    *_specdec("Alpaca", "2.04", "1.90", "7.2"),
    *_specdec("HumanEval", "2.23", "2.00", "11.1"),
    *_specdec("GSM8K", "2.26", "2.07", "9.4"),
)
SPECDEC_STOP: tuple[Cell, ...] = (
    Cell(
        SPECDEC, "Theorem 3.1", "c1 = .165, c2 = 1, Δ = 0", "threshold", "0.8584",
        {"draft_cost": 0.165, "target_cost": 1.0}, stop_threshold, worked=True,
    ),
    Cell(
        SPECDEC, "README sample", "180 tokens in 67 calls", "tokens per call", "2.687",
        {"above": 180, "below": 67}, ratio, worked=True,
    ),
)  # fmt: skip
HEURISTIC: tuple[Cell, ...] = tuple(  # drafts, of which accepted -> drafts of the next round
    Cell(
        HUGGING_FACE, 'schedule "heuristic"', f"{accepted} of {gamma} accepted", "next γ", printed,
        {"gamma": gamma, "accepted": accepted}, next_gamma, worked=True,
    )
    for gamma, accepted, printed in ((5, 5, "7"), (7, 7, "9"), (9, 3, "8"), (8, 2, "7"))
)  # fmt: skip

# ---- A draft that has a draft -------------------------------------------------------------------

_A, _B = {"alpha": 0.8}, {"inner_alpha": 0.6, "inner_gamma": 2}
_COSTS = {"c": 0.1, "inner_c": 0.01}


def _cascade(column: str, printed: str, given: dict[str, Any], formula: Any) -> Cell:
    return Cell(CASCADE, "cascade", "k = n = 2", column, printed, given, formula, worked=True)


CASCADES: tuple[Cell, ...] = (
    _cascade("φ(α)", "0.65792", _A | _B, cascade_phi),
    _cascade("tokens per call", "3.268565", _A | _B | {"inner_rounds": 2}, cascade_tokens),
    _cascade("EWIF", "2.635940", _A | _B | {"inner_rounds": 2} | _COSTS, cascade_speedup),
    _cascade("best without", "2.46964", _A | {"c": 0.1}, best_speed),
)
