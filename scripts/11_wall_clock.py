"""Wall clock: what does a round cost that the formula leaves out?

Theorem 3.8 has a round cost γ c + 1 passes of the target: γ + 1 tokens are checked at the price of
one, sampling and bookkeeping are free. Here a target of GPT-2's shape (124M, random weights: they
come from memory, as a real model's do, not from a cache) decodes with drafts that name its next
token with a known probability α, and keep the processor busy for a known time c, in passes of the
target over one row.

How to read it. First the parts of a round, each measured by itself, beside a pass over one row;
passes are timed between the runs, as no machine is equally fast all the time.
Then speed-up over plain decoding: by Theorem 3.8 as printed; with the cost of verification put in;
with all costs (costs.Costs); and on the stopwatch, where a round of plain decoding and one of each
γ take turns: A B C D E A B C D E, the median over rounds, quartiles behind it. Accepted drafts are
drawn from the law of equation (1), as near to their mean as a draw of 2,000 can be: this is about
costs, not about luck. The text is the target's own at temperature 0, and that is asserted; times
are not. One BLAS thread. Two minutes, three on a slow memory; --fast takes a smaller model and few
rounds, a few seconds, and is too noisy to judge a formula by.

--plots DIR draws the speed-ups, and what a pass over few rows costs (needs matplotlib).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from lab.bench import machine
from lab.console import Report, arguments, quantity, run
from lab.options import PLOTS
from lab.transformer import ModelConfig, Transformer
from lab.wallclock import (
    GPT2,
    Parts,
    PlantedCell,
    best_of_rows,
    measure,
    memory_of,
)

ACCEPTANCES = (0.6, 0.8, 0.9, 0.95)
COSTS = (0.0, 0.05, 0.2)
GAMMAS = (1, 2, 4, 8)
FAST_SHAPE = replace(GPT2, n_layers=2, vocab=8192)
NEAR = 0.95  # of the best speed: as good as the best γ


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(__doc__, plots=PLOTS).parse_args(argv)
    report = Report("Wall clock", args.json)
    acceptances, costs, gammas = ACCEPTANCES, COSTS, GAMMAS
    shape, rounds, repeats = GPT2, 18, 2
    if args.fast:
        acceptances, costs, gammas = (0.6, 0.95), (0.0, 0.2), (1, 4)
        shape, rounds, repeats = FAST_SHAPE, 8, 3
    print_memory(report, shape)
    report.progress("making the target")
    target = Transformer.init(shape, args.seed)
    parts, cells = measure(
        target, acceptances, costs, gammas, rounds, repeats, args.seed, report.progress
    )
    print_parts(report, target, parts)
    print_cells(report, cells, rounds)
    print_best(report, cells)
    if args.plots is not None:
        print_plots(report, args.plots, parts, cells)
    report.close()


def print_memory(report: Report, shape: ModelConfig) -> None:
    most, then = memory_of(shape)
    report.section(
        "A target that lives in memory",
        f"It needs {quantity(most, 'B')} of memory while it is made, {quantity(then, 'B')} then: "
        f"{shape.n_layers} layers, d {shape.d_model}, vocabulary {shape.vocab}, random weights.",
    )
    report.table("This machine (bench.machine)", ("what", "value"), machine(), key="machine")


def print_parts(report: Report, target: Transformer, parts: Parts) -> None:
    one, weights = parts.target[1], 4 * target.matmul_parameters
    records = [
        {
            "gamma": gamma,
            "rows": gamma + 1,
            "target": parts.ratios[gamma + 1],
            "quartiles": "–".join(f"{edge:.2f}" for edge in parts.quartiles[gamma + 1]),
            "sample": parts.sample[gamma + 1] / one,
            "per_round": parts.per_round[gamma] / one,
            "seconds": parts.target[gamma + 1],
        }
        for gamma in parts.per_round
    ]
    report.section("What a round costs beside a pass of the target over one row")
    report.records(
        "Passes over γ + 1 rows, the laws they become, and the loop with its rule and drafter\n"
        "(wallclock.Passes)",
        (
            ("γ", "gamma", ""),
            ("rows", "rows", ""),
            ("pass\nT(n) / T(1)", "target", ".3f"),
            ("its\nquartiles", "quartiles", ""),
            ("sampling\n/ T(1)", "sample", ".2%"),
            ("loop\n/ T(1)", "per_round", ".2%"),
        ),
        records,
        key="parts",
    )
    report.say(
        f"A pass over one row reads {quantity(weights, 'B')} of weights at "
        f"{quantity(weights / one, 'B/s')}. A pass over {records[-1]['rows']} rows costs "
        f"{records[-1]['target']:.2f} of it; Theorem 3.8 says 1.",
        bytes_per_second=weights / one,
    )


def print_cells(report: Report, cells: Sequence[PlantedCell], rounds: int) -> None:
    records = [
        {
            **{name: value for name, value in asdict(cell).items() if name != "clock"},
            "clock": cell.clock.ratio,
            "low": cell.clock.low,
            "high": cell.clock.high,
            "quartiles": f"{cell.clock.low:.2f}–{cell.clock.high:.2f}",
            "paper_error": cell.error("paper"),
            "verify_error": cell.error("verify"),
            "full_error": cell.error("full"),
        }
        for cell in cells
    ]
    report.section("Speed-up over plain decoding")
    report.records(
        f"Three formulas and the stopwatch, {rounds} rounds of each beside as many of plain\n"
        "decoding (theory.walltime_speedup, costs.Costs.speedup, wallclock.measure)",
        (
            ("α", "acceptance", ""),
            ("c", "cost", ""),
            ("γ", "gamma", ""),
            ("tokens per\nround", "tokens", ".3f"),
            ("\nThm 3.8", "paper", ".2f"),
            ("with\nT(n)", "verify", ".2f"),
            ("all\ncosts", "full", ".2f"),
            ("stopwatch", "clock", ".2f"),
            ("its\nquartiles", "quartiles", ""),
            ("Thm 3.8\nerror", "paper_error", "+.0%"),
            ("with T(n)\nerror", "verify_error", "+.1%"),
            ("all costs\nerror", "full_error", "+.1%"),
        ),
        records,
        key="cells",
    )
    say_errors(report, cells)
    free = max((cell for cell in cells if cell.cost == 0), key=lambda cell: cell.clock.ratio)
    report.say(
        f"The largest speed-up of a free draft: {free.clock.ratio:.2f}, at α {free.acceptance} "
        f"and γ {free.gamma}.",
        largest=free.clock.ratio,
    )


def say_errors(report: Report, cells: Sequence[PlantedCell]) -> None:
    errors = {form: median_error(cells, form) for form in ("paper", "verify", "full")}
    report.say(
        f"Median absolute error over {len(cells)} cells: Theorem 3.8 as printed "
        f"{errors['paper']:.1%}, with the measured cost of verification {errors['verify']:.1%}, "
        f"with all costs {errors['full']:.1%}.",
        **errors,
        cells=len(cells),
    )
    by_gamma = {
        gamma: signed_error(cells, gamma) for gamma in dict.fromkeys(c.gamma for c in cells)
    }
    told = ", ".join(f"{error:+.0%} at γ {gamma}" for gamma, error in by_gamma.items())
    report.say(
        f"Theorem 3.8's median error by γ: {told}. It errs by what it takes for free: the longer "
        "the draft, the more rows there are to verify.",
        by_gamma={str(gamma): error for gamma, error in by_gamma.items()},
    )


def median_error(cells: Sequence[PlantedCell], form: str) -> float:
    return float(np.median([abs(cell.error(form)) for cell in cells]))


def signed_error(cells: Sequence[PlantedCell], gamma: int) -> float:
    return float(np.median([cell.error("paper") for cell in cells if cell.gamma == gamma]))


def print_best(report: Report, cells: Sequence[PlantedCell]) -> None:
    rows = best_of_rows(cells)
    report.section("Which γ?")
    report.records(
        "The fastest of the γ measured by each account, 0 being plain decoding, and how much of\n"
        "the stopwatch's best speed that γ keeps (wallclock.best_of_rows)",
        (
            ("α", "acceptance", ""),
            ("c", "cost", ""),
            ("γ by\nThm 3.8", "paper", ""),
            ("γ by\nall costs", "full", ""),
            ("γ by the\nstopwatch", "clock", ""),
            ("Thm 3.8\nkeeps", "paper_keeps", ".1%"),
            ("all costs\nkeep", "full_keeps", ".1%"),
        ),
        [asdict(row) for row in rows],
        key="best",
    )
    near = {
        "paper": sum(row.paper_keeps >= NEAR for row in rows),
        "full": sum(row.full_keeps >= NEAR for row in rows),
    }
    worst = min(row.paper_keeps for row in rows)
    report.say(
        f"The γ that all costs ask for keeps at least {NEAR:.0%} of the best measured speed in "
        f"{near['full']} of {len(rows)} rows; the γ of Theorem 3.8 in {near['paper']}, and in the "
        f"worst {worst:.0%}.",
        **near,
        rows=len(rows),
        worst=worst,
    )


def print_plots(report: Report, folder: Path, parts: Parts, cells: Sequence[PlantedCell]) -> None:
    from lab import plots, plots_clock  # matplotlib is an extra

    report.section("Figures", "Lines are the formulas, points the stopwatch with its quartiles.")
    figures = {"wall_clock": plots_clock.wall_clock(cells), "rows": plots_clock.rows(parts)}
    plots.draw(report, folder, figures)


if __name__ == "__main__":
    run(main)
