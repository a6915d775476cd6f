"""When does speculative decoding not pay?

A draft must be cheap beside how good it is; verifying several tokens must cost little more than
one; and the device must be waiting for memory, which a large batch ends.

How to read it. α is the acceptance rate, γ drafts a round, c the time of a draft's step over the
target's (Leviathan, Kalman, Matias 2023). First the formulas: the c at which a round exactly pays
for itself, and known cases on the losing side. Then v(γ), the time of γ + 1 rows over that of one,
which Theorem 3.8 takes to be 1: what any v > 1 does to the best γ. Then batch and context on a
device of two rates, by arithmetic intensity. Last, apart, what was measured on this machine: v of
real forwards, with the lab's products of few rows and with plain ones, and the γ it leaves.

Everything above the last section is a formula and the same on every machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lab import bench, hardware, theory
from lab.bench import RowCosts
from lab.checkpoint import load_trained
from lab.console import Report, arguments, positive_number, run
from lab.hardware import Device, ModelSize
from lab.linear import row_product
from lab.transformer import ModelConfig, Transformer

ALPHAS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
GAMMAS = (1, 2, 4, 8, 16)
EXAMPLE = (0.7, 4)  # α, γ
CELLS = ((0.6, 0.1), (0.8, 0.05), (0.8, 0.2), (0.9, 0.05))  # α, c
ROW_COUNTS = (1, 2, 3, 4, 5, 7, 9, 13, 17)
SLOPES = (0.0, 0.04, 0.24)  # cost of a further row, in target steps
BATCHES = (1, 4, 16, 32, 64, 128, 256)
CONTEXTS = (256, 2048, 16384)
EIGHT_B = ModelConfig(  # a usual shape of eight billion weights; only its sizes are asked for
    vocab=128256, d_model=4096, n_layers=32, n_heads=32, n_kv_heads=8, d_ff=14336, max_len=32768
)


def main(argv: Sequence[str] | None = None) -> None:
    default, rate = Device(), {"type": positive_number}
    args = arguments(
        __doc__,
        flop_rate=rate | {"default": default.flop_rate, "help": "FLOP/s (%(default)g)"},
        bandwidth=rate | {"default": default.bandwidth, "help": "bytes/s (%(default)g)"},
    ).parse_args(argv)
    device = Device(args.flop_rate, args.bandwidth)
    report = Report("When speculative decoding does not pay", args.json)
    print_break_even(report)
    print_equal_cost(report)
    print_cases(report)
    print_slopes(report)
    print_device(report, device)
    print_measured(report, args.seed, args.fast)
    report.close()


# ---- the draft's price --------------------------------------------------------------------------


def print_break_even(report: Report) -> None:
    """The largest c that pays, and one example on both sides of it."""
    report.section(
        "A draft must be cheap", "Below the c in the table a round gains, above it loses."
    )
    limits = {(a, g): theory.break_even_c(a, g) for a in ALPHAS for g in GAMMAS}
    for (alpha, gamma), c in limits.items():
        assert abs(theory.walltime_speedup(alpha, gamma, c) - 1) < 1e-12
        assert c <= alpha + 1e-15
    report.table(
        "Break-even c, (E − 1) / γ, Thm 3.8 (theory.break_even_c)",
        ("α \\ γ", *map(str, GAMMAS)),
        [[f"{a}", *(f"{limits[a, g]:.4f}" for g in GAMMAS)] for a in ALPHAS],
        key="break_even",
    )
    alpha, gamma = EXAMPLE
    even = limits[EXAMPLE]
    rows = []
    for name, c in (("a tenth cheaper", 0.9 * even), ("even", even), ("dearer", 1.1 * even)):
        best, speed = theory.best_gamma(alpha, c)
        at = theory.walltime_speedup(alpha, gamma, c)
        rows.append([name, f"{c:.4f}", f"{at:.4f}x", best, f"{speed:.4f}x"])
    assert theory.walltime_speedup(alpha, gamma, 0.9 * even) > 1
    assert theory.walltime_speedup(alpha, gamma, 1.1 * even) < 1
    report.table(
        f"Both sides of it: α {alpha}, γ {gamma} (theory.walltime_speedup, theory.best_gamma)",
        ("draft", "c", f"speed at γ {gamma}", "best γ", "speed there"),
        rows,
        key="both_sides",
    )
    report.say(
        f"With γ 1 the limit is α itself, and it falls as γ grows: at α {alpha} from "
        f"{limits[alpha, GAMMAS[0]]:.2f} to {limits[alpha, GAMMAS[-1]]:.3f} at γ {GAMMAS[-1]}. "
        "A round that loses may only be too long: while c < α, a smaller γ still pays.",
        first=limits[alpha, GAMMAS[0]],
        last=limits[alpha, GAMMAS[-1]],
    )


def print_equal_cost(report: Report) -> None:
    """α = c never pays."""
    rows = []
    for alpha in ALPHAS:
        speeds = [theory.walltime_speedup(alpha, gamma, alpha) for gamma in GAMMAS]
        assert abs(speeds[0] - 1) < 1e-12
        assert all(speed < 1 for speed in speeds[1:])
        assert theory.best_gamma(alpha, alpha) == (0, 1.0)
        rows.append([f"{alpha}", *(f"{speed:.4f}x" for speed in speeds), "not worth it"])
    report.table(
        "A draft as dear as it is good, c = α: Cor 3.9 (theory.walltime_speedup, best_gamma)",
        ("α = c", *(f"γ {gamma}" for gamma in GAMMAS), "best"),
        rows,
        key="equal_cost",
    )
    report.say(
        f"For all {len(ALPHAS)} values γ 1 gains exactly nothing and every larger γ loses. Some γ "
        "pays exactly when α > c."
    )


def print_cases(report: Report) -> None:
    """Cases that people met: good acceptance, little or no gain."""
    cases = (
        ("nearly the target's size", 0.95, 0.9, 4),
        ("the same at its best γ", 0.95, 0.9, theory.best_gamma(0.95, 0.9)[0]),
        ("a small draft", 0.75, 0.05, 5),
        ("a better, larger one", 0.85, 0.4, 5),
    )
    rows, speeds = [], []
    for name, alpha, c, gamma in cases:
        speeds.append(theory.walltime_speedup(alpha, gamma, c))
        tokens = theory.expected_tokens(alpha, gamma)
        rows.append([name, f"{alpha}", f"{c}", gamma, f"{tokens:.3f}", f"{speeds[-1]:.3f}x"])
    report.table(
        "More tokens per target call is not more speed: eq. (1) and Thm 3.8",
        ("draft", "α", "c", "γ", "tokens/call", "speed"),
        rows,
        key="cases",
    )
    assert speeds[0] < 1 < speeds[1]
    assert speeds[3] < speeds[2]
    report.say(
        f"At α {cases[0][1]} nearly every draft is accepted, but one that costs {cases[0][2]} of "
        f"the target makes decoding {speeds[0]:.3f}x, at best {speeds[1]:.3f}x. The better of the "
        f"last two drafts gives more tokens per call and {speeds[3] / speeds[2]:.2f} of the "
        "other's speed."
    )


def print_slopes(report: Report) -> None:
    """What a verify cost that grows with γ does to the best γ."""
    alpha, c = 0.8, 0.05
    free, promised = theory.best_gamma(alpha, c)
    rows = []
    for slope in SLOPES:
        cost = _line(slope)
        best, speed = theory.best_gamma(alpha, c, cost)
        there = theory.walltime_speedup(alpha, free, c, cost)
        rows.append([f"1 + {slope} γ", best, f"{speed:.3f}x", f"{there:.3f}x"])
        assert speed <= promised
        assert there <= speed
    report.section(
        "Verification must be nearly free",
        "Thm 3.8 counts γ + 1 rows as one step of the target: v(γ) = 1.",
    )
    report.table(
        f"α {alpha}, c {c}: a verify cost that grows with γ (theory.best_gamma, verify_cost)",
        ("v(γ)", "best γ", "speed", f"speed at γ {free}"),
        rows,
        key="slopes",
    )
    report.say(
        f"The formula alone says γ {free} and {promised:.3f}x. If a row costs {SLOPES[-1]} of a "
        f"step, γ {free} gives {rows[-1][3]} and the best γ is {rows[-1][1]}, {rows[-1][2]}: the "
        "formula is no wall time without a measured v."
    )


def _line(slope: float) -> Callable[[int], float]:
    return lambda gamma: 1 + slope * gamma


# ---- batch and context --------------------------------------------------------------------------


def print_device(report: Report, device: Device) -> None:
    """Where a device of two rates stops waiting for memory."""
    size = ModelSize.of(EIGHT_B)
    alpha, gamma, c = 0.7, 4, 0.05
    free = hardware.free_rows(size, device)
    promised = theory.walltime_speedup(alpha, gamma, c)
    report.section(
        "The device must be waiting",
        f"A device of {device.flop_rate:.3g} FLOP/s and {device.bandwidth:.3g} bytes/s, ridge "
        f"{device.ridge:.0f} FLOP/byte (a stated one, no product); a model of "
        f"{size.parameters / 1e9:.2f}G weights at {size.weight_bits:g} bits, "
        f"{size.kv_bytes / 1e3:.0f} kB of keys and values per cached position. The products wait "
        "for memory or for arithmetic, whichever is longer; reading the cache is added, since "
        "attention waits for memory at any batch. c is the draft's step over the target's.",
    )
    print_intensity(report, size, device, gamma, free)
    speeds = {
        (batch, context): hardware.speedup(size, device, alpha, gamma, c, batch, context)
        for batch in BATCHES
        for context in CONTEXTS
    }
    report.table(
        f"Speed-up at α {alpha}, γ {gamma}, c {c} by batch and context (hardware.speedup)",
        ("batch", *(f"{context} cached" for context in CONTEXTS)),
        [[b, *(f"{speeds[b, s]:.3f}x" for s in CONTEXTS)] for b in BATCHES],
        key="batch_context",
    )
    for context in CONTEXTS:
        column = [speeds[batch, context] for batch in BATCHES]
        assert all(a >= b - 1e-12 for a, b in itertools.pairwise(column))
        assert column[0] <= promised + 1e-12
    for batch in BATCHES:
        line = [speeds[batch, context] for context in CONTEXTS]
        assert all(a <= b + 1e-12 for a, b in itertools.pairwise(line))
    even = [hardware.break_even_batch(size, device, alpha, gamma, c, s) for s in CONTEXTS]
    ends = ", ".join(
        f"at {context} cached positions " + (f"from batch {batch}" if batch else "at no batch")
        for context, batch in zip(CONTEXTS, even, strict=True)
    )
    report.say(
        f"Thm 3.8 alone: {promised:.3f}x. It holds while batch × (γ + 1) stays below {free:.0f} "
        f"rows. Speculation stops paying {ends}: a long context keeps the device waiting for keys "
        "and values, which the rows of a sequence share.",
        promised=promised,
        free_rows=free,
        break_even=even,
    )
    print_best_by_batch(report, size, device, alpha, c)


def print_intensity(
    report: Report, size: ModelSize, device: Device, gamma: int, free: float
) -> None:
    """FLOP/byte of the weight products, and v, by batch."""
    rows = []
    for batch in BATCHES:
        n = batch * (gamma + 1)
        plain, verifying = (2 * size.parameters * k / size.weight_bytes for k in (batch, n))
        v = [hardware.verify_cost(size, device, gamma, batch, context) for context in CONTEXTS]
        assert n > free or all(cost == 1 for cost in v)
        rows.append([batch, n, f"{plain:.0f}", f"{verifying:.0f}", *(f"{cost:.3f}" for cost in v)])
    report.table(
        f"FLOP per weight byte, and v({gamma}), by batch and context (hardware.verify_cost)",
        (
            "batch",
            "rows",
            "FLOP/byte, decoding",
            "verifying",
            *(f"v, {context} cached" for context in CONTEXTS),
        ),
        rows,
        key="intensity",
    )
    report.say(
        f"Verification is free up to {free:.0f} rows in all, the ridge: γ {gamma} up to batch "
        f"{int(free // (gamma + 1))}."
    )


def print_best_by_batch(
    report: Report, size: ModelSize, device: Device, alpha: float, c: float
) -> None:
    """γ* by batch and context."""

    def best(batch: int, context: int) -> str:
        def cost(gamma: int) -> float:
            return hardware.verify_cost(size, device, gamma, batch, context)

        gamma, speed = theory.best_gamma(alpha, c, cost)
        assert speed <= theory.best_gamma(alpha, c)[1] + 1e-12
        return f"{gamma} ({speed:.3f}x)" if gamma else "not worth it"

    report.table(
        f"Best γ (speed-up) at α {alpha}, c {c} (theory.best_gamma, verify_cost of the device)",
        ("batch", *(f"{context} cached" for context in CONTEXTS)),
        [[batch, *(best(batch, context) for context in CONTEXTS)] for batch in BATCHES],
        key="best_by_batch",
    )


# ---- measured -----------------------------------------------------------------------------------


def print_measured(report: Report, seed: int, fast: bool) -> None:
    """v of real forwards, and what it leaves of the speed-up."""
    report.section(
        "Measured on this machine",
        "T(n rows) / T(1 row) of whole forwards, medians side by side. Figures differ a little "
        "from run to run.",
    )
    report.table("This machine (bench.machine)", ("what", "value"), bench.machine(), key="machine")
    found = measure_rows(seed, fast)
    print_rows(report, found)
    print_consequences(report, found)


def measure_rows(seed: int, fast: bool) -> list[tuple[str, RowCosts]]:
    """Tiled and plain products of three models."""
    big = bench.FAST_BIG if fast else replace(bench.BIG, n_layers=2, vocab=4096)
    rows = ROW_COUNTS[::2] if fast else ROW_COUNTS
    few, many = (3, 9) if fast else (12, 60)
    models = (
        ("random, d 64", Transformer.init(ModelConfig(), seed), many),
        ("trained, d 128", load_trained("target"), many),
        ("random, d 768", Transformer.init(big, seed), few),
    )
    found = []
    for name, model, repeats in models:
        found += [(name, costs) for costs in bench.row_costs(model, rows, repeats)]
    return found


def print_rows(report: Report, found: Sequence[tuple[str, RowCosts]]) -> None:
    rows = [
        [name, costs.product, f"{costs.over_tiled:.2f}", *(f"{r:.2f}" for r in costs.ratios)]
        for name, costs in found
    ]
    report.table(
        f"T(n rows) / T(1 row), {bench.CACHED} cached positions (bench.row_costs)",
        ("model", "products", "one row / tiled", *(f"n = {n}" for n in found[0][1].rows)),
        rows,
        key="rows",
    )
    name, tiled = found[-2]
    plain = found[-1][1]
    if not row_product().row_invariant:
        report.say("This BLAS takes plain products either way, and verification costs more for it.")
        return
    report.say(
        f"Where the weights are many ({name}), 5 rows cost {tiled(4):.2f} times one row with tiled "
        f"products and {plain(4):.2f} times with plain ones, which repack every matrix for a "
        "handful of rows: verification is as cheap as the product makes it. One plain row costs "
        f"{plain.over_tiled:.2f} of one tiled row, which is part of the ratio.",
        tiled=tiled(4),
        plain=plain(4),
        one_row=plain.over_tiled,
    )


def print_consequences(report: Report, found: Sequence[tuple[str, RowCosts]]) -> None:
    """What the measured v does to γ* and the speed-up, beside Thm 3.8."""
    rows: list[list[Any]] = []
    for alpha, c in CELLS:
        free, promised = theory.best_gamma(alpha, c)
        for name, costs in found:
            best, speed = theory.best_gamma(
                alpha, c, costs, least_verify_cost=costs.least, max_gamma=costs.most
            )
            reachable = min(free, costs.most)
            there = theory.walltime_speedup(alpha, reachable, c, costs)
            assert there <= speed * (1 + 1e-9), "the best γ is best"
            cells = [f"{alpha}", f"{c}", f"{free} ({promised:.2f}x)", name, costs.product]
            found_best = f"{best} ({speed:.2f}x)" if best else "not worth it"
            rows.append([*cells, f"{there:.2f}x", found_best])
    most = found[0][1].most
    report.table(
        f"Best γ with the measured v, γ ≤ {most}, beside Thm 3.8 (theory.best_gamma)",
        ("α", "c", "Thm 3.8", "model", "products", "speed at\nThm 3.8's γ", "best γ with v"),
        rows,
        key="consequences",
    )
    alpha, c = CELLS[1]
    promised = theory.best_gamma(alpha, c)[1]
    speeds = [
        theory.best_gamma(alpha, c, v, least_verify_cost=v.least, max_gamma=v.most)[1]
        for _, v in found
    ]
    report.say(
        f"At α {alpha}, c {c} Thm 3.8 promises {promised:.2f}x; with v as measured here it is "
        f"{min(speeds):.2f}x to {max(speeds):.2f}x, by model and product.",
        promised=promised,
        least=min(speeds),
        most=max(speeds),
    )


if __name__ == "__main__":
    run(main)
