"""The papers' tables and figures, cell by cell: printed, formula, and whether the two agree.

Every printed number of Leviathan, Kalman and Matias 2023 (Tables 1-5, Figures 2-4, text and
appendix), and those of the papers that followed it which a formula should give. p is the target's
law, q the draft's; α is the acceptance rate, the mean of Σ min(p, q); γ drafts a round; c the time
of a draft run over that of a target run.

How to read it. "formula" is recomputed from the inputs as printed; a cell agrees if that number,
rounded to the printed decimals, is the printed one: "2.4" and "2.40" ask for different things. A
cell that disagrees has ≠ before the formula's number, and a sentence of its own: what the formula
gives, what it could give for any inputs that round to those printed, and the reason. "Worked" cells
are printed in no paper: they were worked by hand from the source's formula or code. Numbers that a
paper only measured stand beside them and are not counted. The last line counts.

--plots DIR draws Figures 2, 3 and 4 as in the paper, with points over them that are measured on the
model trained on Shakespeare and its drafts (needs matplotlib).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from textwrap import wrap
from typing import Any

from lab import theory
from lab.console import Report, arguments, run
from lab.options import PLOTS
from lab.paper import CELLS, LEVIATHAN, MISPRINTS, PAGES, SUN, Cell, Page, count, sentence
from lab.paper_leviathan import TABLE_2, TABLE_3, TABLE_4, TABLE_4_MEASURED, TABLE_5
from lab.paper_measured import measure_figures
from lab.paper_servers import GPT_FAST, GPT_FAST_C, MAGICDEC, SERVED
from lab.paper_servers import TABLE_3 as ON_A100
from lab.paper_successors import BLOCK_SPEEDS, CHEN, CHEN_TABLE_1
from lab.timemodel import held_out

WORDS = 11  # letters of a line of a header
CHEN_K, CHEN_C = 4, 1.8 / 14.1  # drafts a round; ms of the 4B draft over ms of the 70B target
DEVICES = 8  # A100s behind MagicDec's Table 3


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(__doc__, plots=PLOTS).parse_args(argv)
    report = Report("The papers' printed numbers", args.json)
    for source, pages in groupby(PAGES, lambda page: page.source):
        report.section(source)
        for page in pages:
            print_page(report, page)
        if source in NOTES:
            NOTES[source](report)
    if args.plots is not None:
        print_plots(report, args.plots, args.seed, args.fast)
    print_count(report)
    report.close()


# ---- a table -----------------------------------------------------------------------------------


def print_page(report: Report, page: Page) -> None:
    """Rows and columns as the paper has them, and a sentence for each exception."""
    cells = {(cell.row, cell.column): cell for cell in page.cells}
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    checked = {cell.column for cell in page.checked}
    headers = [name for column in columns for name in _headers(column, checked)]
    report.table(
        f"{page.title}\n({', '.join(page.formulas) or 'measured'})",
        ("", *headers, *(["agrees"] if checked else [])),
        [_row(row, columns, cells, checked) for row in rows],
        key=f"{page.source}: {page.title}",
        values=[
            {column: _value(cells[row, column]) for column in columns if (row, column) in cells}
            for row in rows
        ],
    )
    for cell in page.checked:
        assert (cell.status == "disagrees") == bool(cell.exception), cell.name
        if cell.exception:
            low, high = cell.reach()
            report.say(sentence(cell), printed=cell.value, low=low, high=high)


def _headers(column: str, checked: set[str]) -> list[str]:
    """One of a column that was only measured, two of one that a formula should give."""
    name = "\n".join(line for part in column.split(", ") for line in wrap(part, WORDS))
    if not checked:
        return [name]
    lines = "\n" * (name.count("\n") + 1)
    return [f"{name}\nprinted", f"{lines}formula"] if column in checked else [f"{name}\nmeasured"]


def _row(
    row: str, columns: Sequence[str], cells: Mapping[tuple[str, str], Cell], checked: set[str]
) -> list[str]:
    """≠ stands before a formula's number that is not the printed one."""
    found, verdicts = [row], []
    for column in columns:
        cell = cells.get((row, column))
        found.append(cell.printed if cell else "")
        if cell and cell.formula:
            verdicts.append(cell.status == "agrees")
            found.append(("" if verdicts[-1] else "≠ ") + cell.digits(cell.recompute()))
        elif column in checked:
            found.append("")
    if checked:
        found.append(_verdict(verdicts))
    return found


def _verdict(agree: Sequence[bool]) -> str:
    if len(set(agree)) > 1:
        return f"{sum(agree)} of {len(agree)}"
    return {(): "", (True,): "yes", (False,): "no"}[tuple(set(agree))]


def _value(cell: Cell) -> dict[str, Any]:
    """A cell for JSON."""
    given = {"printed": cell.printed, "status": cell.status, "worked": cell.worked}
    if cell.formula:
        given |= {"formula": float(cell.recompute()), "inputs": dict(cell.inputs)}
    return given


# ---- what the tables say together ---------------------------------------------------------------


def note_leviathan(report: Report) -> None:
    note_same_alphas(report)
    note_gammas(report)
    note_too_fast(report)
    for misprint in MISPRINTS:
        report.say(f"{misprint.where}: the paper says that {misprint.says}; {misprint.but}.")


def note_same_alphas(report: Report) -> None:
    """α is printed in Tables 2, 3 and 5: the same wherever it is the same."""
    of_table_3 = {(*cell.row.split(", "), cell.column[-1]): cell.printed for cell in TABLE_3}
    same = [
        cell.printed == of_table_3[f"T5-XXL {task}", draft, temperature[-1]]
        for cell in TABLE_2
        if cell.column == "α"
        for task, draft, temperature, _ in [cell.row.split(", ")]
    ]
    plain = [
        cell.printed == of_table_3["T5-XXL EnDe", cell.row, "1"]
        for cell in TABLE_5
        if cell.column == "α, l = 1"
    ]
    assert all(same + plain)
    report.say(
        f"The {len(same)} α of Table 2 and the {len(plain)} of Table 5 at l = 1 are those of "
        "Table 3."
    )


def note_gammas(report: Report) -> None:
    best = [
        theory.best_gamma(cell.inputs["alpha"], cell.inputs["c"])[0] == cell.inputs["gamma"]
        for cell in TABLE_4
    ]
    report.say(
        f"The γ that was run is the best one for the printed α and c in {sum(best)} of "
        f"{len(best)} rows of Table 4.",
        best=sum(best),
    )


def note_too_fast(report: Report) -> None:
    """Measured speeds that no γ and no c could give."""
    limits = [theory.expected_tokens(cell.inputs["alpha"], float("inf")) for cell in TABLE_4]
    beyond = [
        f"{cell.row} ({cell.printed} > {limit:.3f})"
        for cell, limit in zip(TABLE_4_MEASURED, limits, strict=True)
        if cell.value > limit
    ]
    report.say(
        f"{len(beyond)} measured speeds of Table 4 are above 1 / (1 - α), which a free draft of "
        f"any length could not exceed at the printed α: {'; '.join(beyond)}.",
        beyond=beyond,
    )


def note_chen(report: Report) -> None:
    speeds = [cell for cell in CHEN_TABLE_1 if cell.column == "speed-up"]
    cost = CHEN_K * CHEN_C + 1
    alphas = {
        cell.row: theory.alpha_from_expected_tokens(cell.recompute() * cost, CHEN_K)
        for cell in speeds
    }
    implied = ", ".join(f"{alpha:.3f} ({row})" for row, alpha in alphas.items())
    report.say(
        f"No α is printed. Theorem 3.8 with K = {CHEN_K} and c = 1.8 / 14.1 = {CHEN_C:.4f} gives "
        f"these times at α = {implied}.",
        alphas=alphas,
    )


def note_sun(report: Report) -> None:
    """The c that each speed would need."""
    needed = {
        rule: [
            (cell.inputs["tokens"] / cell.value - 1) / cell.inputs["gamma"]
            for cell in BLOCK_SPEEDS
            if cell.column == f"speed, {rule}"
        ]
        for rule in ("token", "block")
    }
    token, block = (f"{min(c):.4f} to {max(c):.4f}" for c in needed.values())
    assert max(needed["token"]) < min(needed["block"])
    report.say(
        f"Speeds and tokens of the token rule belong together at c = {token}, those of block "
        f"verification at {block}: every dataset asks more of it, the time that its own "
        "arithmetic takes.",
        **needed,
    )


def note_magicdec(report: Report) -> None:
    rest = [1 - (row.drafting + row.verifying) / row.tokens / row.speculative for row in SERVED]
    report.say(
        "(γ T_D + T_V) / Ω, drafting and verifying alone, leaves out "
        f"{min(rest):.1%} to {max(rest):.1%} of T_SD (median {median(rest):.1%}): what a round "
        "costs besides.",
        rest=rest,
    )
    halves = [held_out(ON_A100, half) for half in (0, 1)]
    report.records(
        "A step's time from three numbers of the machine, fitted on every second setting (target, "
        "context,\nbatch) of Table 3 and asked for the others (timemodel.held_out)",
        (
            ("held\nout", "rows", ""),
            ("fixed,\nms", "fixed_ms", ".2f"),
            ("TB/s\na device", "terabytes", ".2f"),
            ("TFLOP/s\na device", "teraflops", ".0f"),
            ("T_AR: median\nerror", "plain", ".1%"),
            ("\nlargest", "plain_most", ".1%"),
            ("T_V: median\nerror", "verifying", ".1%"),
            ("\nlargest", "verifying_most", ".1%"),
        ),
        [
            {
                "rows": len(half.plain),
                "fixed_ms": 1e3 * half.model.fixed,
                "terabytes": half.model.bandwidth / DEVICES / 1e12,
                "teraflops": half.model.rate / DEVICES / 1e12,
                "plain": median(abs(half.plain)),
                "plain_most": max(abs(half.plain)),
                "verifying": median(abs(half.verifying)),
                "verifying_most": max(abs(half.verifying)),
            }
            for half in halves
        ],
        key="time model",
    )
    worst = " and ".join(
        f"{row.target}, S = {row.context}, B = {row.batch}" for row in (h.worst for h in halves)
    )
    report.say(
        "The same three numbers serve both targets, of which one shares keys and values between "
        f"heads. The largest errors are those of {worst}.",
        worst=worst,
    )


def note_gpt_fast(report: Report) -> None:
    c = {(cell.row, cell.column): cell.recompute() for cell in GPT_FAST_C}
    row = "Llama-2-7B int4-g32 for Llama-2-7B bf16"
    report.say(
        f"Time, bytes and operations are three ratios: the int4 copy reads {c[row, 'bytes']:.3f} "
        f"of the target's bytes and takes {c[row, 'c']:.3f} of its time."
    )


NOTES = {
    LEVIATHAN: note_leviathan,
    CHEN: note_chen,
    SUN: note_sun,
    MAGICDEC: note_magicdec,
    GPT_FAST: note_gpt_fast,
}


# ---- figures, and the count ----------------------------------------------------------------------


def print_plots(report: Report, folder: Path, seed: int, fast: bool) -> None:
    """Figures 2, 3 and 4 with our own points."""
    from lab import plots, plots_paper  # matplotlib is an extra

    report.section(
        "Figures",
        "Lines are the formulas. Points: the model trained on Shakespeare with its drafts, tokens "
        "per call in the real loop, and the best γ by replay of the target's own texts.",
    )
    plots.draw(report, folder, plots_paper.paper_figures(measure_figures(seed, fast)))


def print_count(report: Report) -> None:
    found = count(CELLS)
    report.section(
        "Count",
        f"{found.measured} numbers were only measured. {found.worked} of the cells counted are "
        "worked by hand, the others printed.",
    )
    report.say(
        f"{found.cells} cells, {found.agree} agree, {found.exceptions} exceptions",
        cells=found.cells,
        agree=found.agree,
        exceptions=found.exceptions,
    )


if __name__ == "__main__":
    run(main)
