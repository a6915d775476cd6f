"""How fast is the lab on this machine? Ratios from one run, since machines differ and are busy.

How to read it. Every figure is the median of the ratios of times taken side by side, A B A B, some
with quartiles. The engine writes many texts in lockstep: its tokens per second over those of one
text at a time. A forward of one row is set against the bare x @ W of its matrices: what is more
than 1 is Python, norms and attention. Rows against one row say what verification costs: 1 would be
free, n as dear as n steps; "over tiled" sets one row of plain products, matrix-vector products,
against one row of the tiles. "aim" is what this lab asks of itself, on a quiet AVX-512 core;
nothing fails if it is missed.

    python scripts/bench.py              about a minute and a half
    python scripts/bench.py --fast       a look in ten seconds
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab import bench
from lab.bench import Ratio
from lab.checkpoint import load_trained
from lab.console import Report, arguments, positive_whole_number, run
from lab.transformer import ModelConfig, Transformer

ROWS = (1, 2, 4, 8)
ENGINE_AIM = "≥ 3.5 (goal 6)"
FORWARD_AIM = "≤ 10 (goal 5)"
BIG_AIMS = {4: 1.45, 8: 2.0}
MAIN_SCRIPT = Path(__file__).with_name("04_spec_decode_speedup.py")


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(
        __doc__,
        repeats={
            "type": positive_whole_number,
            "default": None,
            "help": "of every measurement (12; 3 if fast)",
        },
        no_scripts={"action": "store_true", "help": "leave out the time of script 04"},
    ).parse_args(argv)
    repeats = (3 if args.fast else 12) if args.repeats is None else args.repeats
    report = Report("Benchmark", args.json)
    report.table("This machine (bench.machine)", ("what", "value"), bench.machine(), key="machine")
    small = {
        "random model": Transformer.init(ModelConfig(), args.seed),
        "trained target": load_trained("target"),
    }
    print_engine(report, small["random model"], args.seed, repeats, args.fast)
    print_forward(report, small, 10 * repeats)
    config = bench.FAST_BIG if args.fast else bench.BIG
    big = {f"d {config.d_model} x {config.n_layers}": Transformer.init(config, args.seed)}
    print_rows(report, small, 10 * repeats)
    print_rows(report, big, repeats, BIG_AIMS)
    if not args.no_scripts:
        print_script(report, args.fast)
    report.close()


def spread(ratio: Ratio) -> list[str]:
    """Median, and the quartiles."""
    return [f"{ratio.ratio:.2f}", f"{ratio.low:.2f}–{ratio.high:.2f}"]


def print_engine(report: Report, target: Transformer, seed: int, repeats: int, fast: bool) -> None:
    """Many texts in lockstep against one at a time."""
    n_new = 24 if fast else 96
    ratio = bench.engine_over_single(target, target.quantized(4, 32), seed, repeats, n_new=n_new)
    report.table(
        f"Tokens per second, 64 texts in lockstep / one at a time: random model, INT4 draft, γ 4, "
        f"{n_new} new, {repeats} repeats (bench.engine_over_single)",
        ("engine / single", "ratio", "quartiles", "aim"),
        [["64 texts", *spread(ratio), ENGINE_AIM]],
        key="engine",
    )


def print_forward(report: Report, models: dict[str, Transformer], repeats: int) -> None:
    """What a forward costs beyond its products."""
    rows: list[list[Any]] = []
    for name, model in models.items():
        ratio = bench.forward_over_products(model, repeats)
        aim = FORWARD_AIM if name == "random model" else ""
        rows.append([name, *spread(ratio), aim, *(f"{1e6 * t:.0f} µs" for t in ratio.seconds)])
    report.table(
        f"Forward of one row / its bare x @ W, {bench.CACHED} cached, {repeats} repeats "
        "(bench.forward_over_products)",
        ("model", "ratio", "quartiles", "aim", "forward", "products"),
        rows,
        key="forward",
    )


def print_rows(
    report: Report,
    models: dict[str, Transformer],
    repeats: int,
    aims: dict[int, float] | None = None,
) -> None:
    """Rows against one row, tiled and plain."""
    rows = []
    for name, model in models.items():
        for costs in bench.row_costs(model, ROWS, repeats):
            one = [f"{1e3 * costs.one_row:.2f} ms", f"{costs.over_tiled:.2f}"]
            rows.append([name, costs.product, *one, *(f"{ratio:.2f}" for ratio in costs.ratios)])
    if aims:
        rows.append(["aim", "tiled", "", "", *(f"≤ {aims[n]}" if n in aims else "" for n in ROWS)])
    report.table(
        f"T(n rows) / T(1 row), {bench.CACHED} cached, {repeats} repeats (bench.row_costs)",
        ("model", "products", "one row", "over tiled", *(f"n = {n}" for n in ROWS)),
        rows,
        key=f"rows, {', '.join(models)}",
    )


def print_script(report: Report, fast: bool) -> None:
    """The main script, by parts, each in a process of its own."""
    if not MAIN_SCRIPT.exists():
        report.say(f"{MAIN_SCRIPT.name} is not there: not timed.")
        return
    options = ("--fast",) if fast else ()
    rows = [
        [f"--model {part}", f"{bench.script_seconds(MAIN_SCRIPT, '--model', part, *options):.1f} s"]
        for part in ("random", "text", "both")
    ]
    report.table(
        f"{' '.join((MAIN_SCRIPT.name, *options))}, one process each (bench.script_seconds)",
        ("part", "time"),
        rows,
        key="script",
    )


if __name__ == "__main__":
    run(main)
