"""How much faster is speculative decoding? Formulas, the paper's numbers, and a real loop.

Letters are the paper's (Leviathan, Kalman, Matias 2023): α is the acceptance rate, the mean of
Σ min(p, q) over positions; γ drafts a round; c and ĉ the draft's cost over the target's, in time
and in operations.

How to read it. First the formulas beside the paper's printed numbers: Table 1, Figure 3,
Corollary 3.9. Then the same quantities measured on two targets, a random model and a model trained
on Shakespeare, with every draft: α with its error, tokens per target call beside eq. (1) at the α
of these very texts, accepted drafts per round beside their law, and the ledger of operations and
bytes beside Thm 3.11 and section 3.4, the target alone and then with the draft counted.

± is one standard error, clustered by prompt. No difference is called agreement without what it
could have seen.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from lab import measure, theory
from lab.console import Report, arguments, quantity, run, with_error
from lab.equation1 import Gap
from lab.estimate import accepted_per_drafted, alpha_from_betas, alpha_from_rounds
from lab.intensity import one_token
from lab.ledger import CONVENTIONS, MATMUL_OPS
from lab.pairs import Pair, random_pair, text_pair
from lab.paper import FIGURE_3, FIGURE_3_STARTS, TABLE_1
from lab.speedup import (
    LoopCell,
    SavingsCell,
    accepted_fit,
    measure_pair,
    precise_cell,
)

GRID_ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9)
GRID_COSTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
COROLLARY_CELLS = ((0.6, 0.5), (0.5, 0.5), (0.3, 0.2), (0.8, 0.05))
GAMMAS = (1, 2, 4, 8)
LEDGER_DRAFTS = ("3 layers", "INT4")
LEDGER_GAMMAS = (2, 4, 8)
FAMILY_LEVEL = 0.01  # chance that any cell of a family is called different though none is


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(
        __doc__,
        model={"choices": ("random", "text", "both"), "default": "both", "help": "which target"},
        precise={"action": "store_true", "help": "a large run that resolves the bigram's 1 %%"},
    )
    args = parser.parse_args(argv)
    report = Report("Speculative decoding: how much faster?", args.json)
    clock = [("start", time.perf_counter())]

    def lap(name: str) -> None:
        clock.append((name, time.perf_counter()))

    print_formulas(report)
    lap("formulas")
    if args.model in ("random", "both"):
        study(report, random_pair(args.seed), args.seed, args.fast, random=True)
        lap("random model")
    if args.model in ("text", "both"):
        study(report, text_pair(args.seed), args.seed, args.fast, random=False)
        lap("trained model")
    if args.precise:
        print_precise(report, args.seed)
        lap("precise run")
    print_times(report, clock)
    report.close()


# ---- formulas beside the paper ----------------------------------------------------------------


def print_formulas(report: Report) -> None:
    report.section("Formulas beside the paper")
    print_table_1(report)
    print_figure_3(report)
    print_corollary(report)


def print_table_1(report: Report) -> None:
    rows, agreeing = [], 0
    for ops, speed in zip(TABLE_1[::2], TABLE_1[1::2], strict=True):
        alpha, gamma = ops.inputs["alpha"], int(ops.inputs["gamma"])
        cells = []
        for cell in (ops, speed):
            value = cell.recompute()
            agreeing += cell.agrees(value)
            cells += [f"{cell.printed}x", f"{value:.4f}"]
        rows.append([f"{alpha}", gamma, f"{theory.expected_tokens(alpha, gamma):.4f}", *cells])
    report.table(
        "Table 1: theory.ops_factor (Thm 3.11) and theory.walltime_speedup (Thm 3.8), c = ĉ = 0",
        (
            "α",
            "γ",
            "tokens per round,\neq. (1)",
            "ops,\npaper",
            "\nformula",
            "speed,\npaper",
            "\nformula",
        ),
        rows,
        key="table_1",
    )
    assert agreeing == len(TABLE_1)
    report.say(
        f"{agreeing} of {len(TABLE_1)} printed cells agree with the formulas at their decimals.",
        agreeing=agreeing,
        cells=len(TABLE_1),
    )


def print_figure_3(report: Report) -> None:
    rows = []
    for alpha in GRID_ALPHAS:
        cells = []
        for c in GRID_COSTS:
            gamma, speed = theory.best_gamma(alpha, c)
            cells.append(f"{gamma} ({speed:.4f}x)" if gamma else "not worth it")
        rows.append([f"{alpha}", *cells])
    report.table(
        "Figure 3 as a grid: best γ (speed-up), theory.best_gamma; ties: the smaller γ",
        ("α \\ c", *(f"{c}" for c in GRID_COSTS)),
        rows,
        key="figure_3",
    )
    right = sum(
        theory.best_gamma(edge.value, edge.inputs["c"])[0] == edge.inputs["gamma"]
        and theory.best_gamma(edge.value - 0.001, edge.inputs["c"])[0] == edge.inputs["gamma"] - 1
        for edge in FIGURE_3
    )
    starts = sum(
        theory.best_gamma(0.5, start.inputs["c"])[0] == start.value for start in FIGURE_3_STARTS
    )
    assert right == len(FIGURE_3)
    assert starts == len(FIGURE_3_STARTS)
    far, speed = theory.best_gamma(0.95, 0.01)
    report.say(
        f"The paper's Figure 3 is drawn from α .5 to .9. A step is the α at which the best γ goes "
        f"up by one: {right} of its {len(FIGURE_3)} steps, and all {starts} starting values, are "
        f"where the formula puts them. It goes on beyond the drawing: α .95 at c .01 wants γ {far} "
        f"({speed:.2f}x).",
        edges=right,
    )


def print_corollary(report: Report) -> None:
    rows = []
    for alpha, c in COROLLARY_CELLS:
        gamma, speed = theory.best_gamma(alpha, c)
        bound = max(theory.improvement_bound(alpha, c), 1.0)
        assert speed >= bound - 1e-12
        at_one = theory.walltime_speedup(alpha, 1, c)
        best = f"γ {gamma}: {speed:.4f}x" if gamma else "not worth it"
        rows.append([f"{alpha}", f"{c}", f"{at_one:.4f}x", f"{bound:.4f}x", best])
    report.table(
        "Corollary 3.9: if α > c some γ pays, by (1 + α) / (1 + c) at least",
        ("α", "c", "speed at γ 1", "bound", "best"),
        rows,
        key="corollary_3_9",
    )


# ---- one target and its drafts, measured ------------------------------------------------------


def study(report: Report, pair: Pair, seed: int, fast: bool, random: bool) -> None:
    """Its drafts, their α, the real loop, a histogram and the ledger."""
    n_new = (48 if fast else 96) if random else (32 if fast else 64)
    print_pair(report, pair, seed)
    cells = measure_pair(pair, n_new, GAMMAS, LEDGER_DRAFTS, LEDGER_GAMMAS, 2 if fast else 4, seed)
    print_loop(report, pair, cells.loop, random)
    print_histogram(report, pair, cells.loop, random)
    print_ledger(report, pair, cells.savings)


def print_pair(report: Report, pair: Pair, seed: int) -> None:
    """Models, and α by teacher forcing on texts that the target sampled."""
    texts = measure.continuations(pair.target, pair.prompts, 64, seed, 20)
    starts = [len(prompt) for prompt in pair.prompts]
    laws = measure.laws_along(pair.target, texts, measure.PLAIN)
    own = [law[start - 1 :] for law, start in zip(laws, starts, strict=True)]
    whole = one_token(pair.target, pair.prompts[0])
    matrices = one_token(pair.target, pair.prompts[0], MATMUL_OPS)
    report.section(
        f"The {pair.name}",
        f"Target: {pair.target.config.n_layers} layers, d {pair.target.config.d_model}, V "
        f"{pair.target.vocab}, {quantity(pair.target.matmul_parameters)} weights in matrices; mean "
        f"entropy {measure.mean_entropy(own):.2f} nats, on {len(texts)} x 64 tokens of its own.",
    )
    rows = []
    for draft in pair.drafts:
        betas = measure.betas_along(pair.target, draft.model, texts, starts, target_laws=laws)
        alpha = alpha_from_betas(betas)
        cost = one_token(draft.model, pair.prompts[0])
        rows.append(
            [
                draft.name,
                with_error(alpha.value, alpha.stderr),
                f"{one_token(draft.model, pair.prompts[0], MATMUL_OPS).flops / matrices.flops:.3f}",
                f"{cost.weight_bytes / whole.weight_bytes:.4f}",
            ]
        )
    report.table(
        "α of every draft: mean Σ min(p, q) (Cor 3.6), teacher-forced on the target's own texts",
        ("draft", "α", "operations\n/ target's, ĉ", "weight bytes\n/ target's"),
        rows,
        key=f"alpha, {pair.name}",
    )


def print_loop(report: Report, pair: Pair, cells: Sequence[LoopCell], random: bool) -> None:
    """Tokens per target call of the real loop beside eq. (1)."""
    gaps, rows, values = {}, [], []
    for cell in cells:
        gap = gaps[cell.draft, cell.gamma] = cell.gap(FAMILY_LEVEL, len(cells))
        rows.append(_loop_row(cell, gap))
        values.append({"draft": cell.draft, **asdict(gap), "agrees": gap.agrees})
    report.table(
        "The real loop, T = 1: tokens per target call beside eq. (1) (equation1.eq1_gap)",
        (
            "draft",
            "γ",
            "α of\nthese texts",
            "tokens\nper call",
            "\neq. (1)",
            "differ-\nence",
            "least that\nwould count",
            "\ndiffers",
            "accepted\n/ tested",
            "accepted\n/ drafted",
        ),
        rows,
        key=f"loop, {pair.name}",
        values=values,
    )
    differing = [name for name, gap in gaps.items() if not gap.agrees]
    report.say(
        f"No difference from eq. (1) is seen in {len(gaps) - len(differing)} of {len(gaps)} cells. "
        f"One counts above 'least that would count', {gap.critical:.1f} standard errors: so any "
        f"false alarm among the {len(gaps)} has a chance below {FAMILY_LEVEL:.0%}, with "
        f"{gap.degrees + 1} prompts. Tested are the drafts up to the first rejection; "
        "accepted/drafted is no estimate of α, as drafts after it were never looked at.",
        differing=[f"{draft}, γ {gamma}" for draft, gamma in differing],
    )
    if random:
        model_drafts = [gap for (draft, _), gap in gaps.items() if draft != "bigram"]
        report.say(
            f"The {len(model_drafts)} cells of the three model drafts: no difference in "
            f"{sum(gap.agrees for gap in model_drafts)}. The bigram's acceptance is correlated "
            "from position to position, which costs it about 1 %: too little to be seen here "
            "(--precise shows it)."
        )
    else:
        widest = max(gap.smallest_detectable / gap.expected for gap in gaps.values())
        report.say(
            "On real text acceptance is correlated from position to position, so eq. (1) is not "
            f"exact; these few prompts would show only differences of up to {widest:.0%}."
        )


def _loop_row(cell: LoopCell, gap: Gap) -> list[Any]:
    rounds = [r for run in cell.runs for r in run.rounds if r.drafted]
    return [
        cell.draft,
        cell.gamma,
        with_error(cell.alpha.value, cell.alpha.stderr),
        with_error(gap.measured, cell.tokens_per_call.stderr),
        f"{gap.expected:.3f}",
        f"{gap.difference / gap.expected:+.1%}",
        f"{gap.smallest_detectable / gap.expected:.1%}",
        "no" if gap.agrees else "YES",
        f"{alpha_from_rounds(rounds).value:.3f}",
        f"{accepted_per_drafted(rounds).value:.3f}",
    ]


def print_histogram(report: Report, pair: Pair, cells: Sequence[LoopCell], random: bool) -> None:
    """Accepted drafts per round beside the truncated geometric law."""
    name = "3 layers" if random else "trained 2L"
    cell = next(cell for cell in cells if cell.draft == name and cell.gamma == max(GAMMAS))
    fit = accepted_fit(cell)
    report.table(
        f"Accepted per round, {name} at γ {cell.gamma}: real loop beside theory.accepted_law,\n"
        f"α = {fit.alpha:.3f}, fitted to these rounds: accepted / tested, not Σ min",
        ("accepted", *map(str, range(cell.gamma + 1))),
        [
            ["rounds", *map(str, fit.counts)],
            ["share", *(f"{n / sum(fit.counts):.3f}" for n in fit.counts)],
            ["law", *(f"{p:.3f}" for p in fit.law)],
        ],
        key=f"histogram, {pair.name}",
    )
    report.say(
        f"χ² {fit.test.statistic:.1f} on {fit.test.degrees} degrees of freedom, p = "
        f"{fit.test.p_value:.3f}: {'no difference seen' if fit.test.p_value > 0.01 else 'differs'} "
        f"at the 1 % level, in {sum(fit.counts)} rounds.",
        p_value=fit.test.p_value,
    )


def print_ledger(report: Report, pair: Pair, cells: Sequence[SavingsCell]) -> None:
    """Operations and bytes of one-sequence runs."""
    heading = f"The ledger of the {pair.name}: decode phase, one sequence at a time"
    report.section(heading, CONVENTIONS)
    report.table(
        "The target alone, per token, over plain decoding (weight matrices)",
        (
            "draft",
            "γ",
            "α",
            "FLOPs",
            "Thm 3.11, ĉ = 0",
            "weight reads",
            "1 / eq. (1)",
            "rows per call",
        ),
        [_target_row(cell) for cell in cells],
        key=f"ledger of the target, {pair.name}",
    )
    report.say(
        "Operations ratio / read ratio is the mean number of rows per target call, exactly, in all "
        f"{len(cells)} cells. The formulas assume rounds of full length; the loop's last rounds "
        "are shorter, and 1 / eq. (1) is met up to the noise of few prompts."
    )
    report.table(
        "With the draft counted, per token, over plain decoding",
        (
            "draft",
            "γ",
            "FLOPs",
            "Thm 3.11",
            "with\ncatch-up",
            "weight\nbytes",
            "KV\nbytes",
            "all\nbytes",
            "bytes\nper token",
        ),
        [_whole_row(cell) for cell in cells],
        key=f"ledger with the draft, {pair.name}",
        values=[
            {
                "draft": cell.draft,
                "gamma": cell.gamma,
                "flops": cell.flops,
                "weight_bytes": cell.weight_bytes,
                "kv_bytes": cell.kv_bytes,
                "all_bytes": cell.all_bytes,
                "bytes_per_token": cell.bytes_per_token,
            }
            for cell in cells
        ],
    )
    report.say(
        "Thm 3.11 counts γ rows of the draft a round. After a full acceptance the draft also reads "
        "its own last token: a row more in the next forward, no weight read again "
        "(theory.ops_factor_with_catch_up)."
    )
    facts = [
        f"{cell.draft} at γ {cell.gamma} reads {cell.all_bytes:.2f} of plain decoding's bytes for "
        f"{cell.flops:.2f} of its operations"
        for cell in cells
        if cell.gamma == LEDGER_GAMMAS[1]
    ]
    report.say(f"Reading bytes is what decoding waits for: {'; '.join(facts)}.")


def _target_row(cell: SavingsCell) -> list[Any]:
    assert cell.ops_over_reads == cell.rows_per_call
    return [
        cell.draft,
        cell.gamma,
        f"{cell.alpha:.3f}",
        f"{cell.target_flops:.3f}",
        f"{theory.ops_factor(cell.alpha, cell.gamma, 0.0):.3f}",
        f"{cell.target_reads:.3f}",
        f"{1 / theory.expected_tokens(cell.alpha, cell.gamma):.3f}",
        f"{float(cell.rows_per_call):.3f}",
    ]


def _whole_row(cell: SavingsCell) -> list[Any]:
    return [
        cell.draft,
        cell.gamma,
        f"{cell.flops:.3f}",
        f"{theory.ops_factor(cell.alpha, cell.gamma, cell.c_hat):.3f}",
        f"{theory.ops_factor_with_catch_up(cell.alpha, cell.gamma, cell.c_hat):.3f}",
        f"{cell.weight_bytes:.3f}",
        f"{cell.kv_bytes:.3f}",
        f"{cell.all_bytes:.3f}",
        quantity(cell.bytes_per_token, "B"),
    ]


# ---- the rest ----------------------------------------------------------------------------------


def print_precise(report: Report, seed: int) -> None:
    """A run large enough for the bigram's shortfall."""
    cell = precise_cell(seed)
    gap = cell.gap(FAMILY_LEVEL, 1)
    report.section("The bigram's shortfall, in a large run")
    report.say(
        f"{len(cell.runs)} prompts, γ {cell.gamma}: {gap.measured:.4f} tokens per call "
        f"against {gap.expected:.4f} of eq. (1), {gap.difference / gap.expected:+.2%} "
        f"± {gap.stderr / gap.expected:.2%}, t = {gap.t:.1f}: its β is correlated from position to "
        f"position (lag-1 correlation {cell.lag_correlation:.2f}).",
        relative=gap.difference / gap.expected,
        t=gap.t,
    )


def print_times(report: Report, clock: Sequence[tuple[str, float]]) -> None:
    parts = [f"{name} {after - before:.1f} s" for (_, before), (name, after) in pairwise(clock)]
    report.section("Time taken")
    report.say(", ".join(parts) + "; a process for each core, one BLAS thread in each.")


if __name__ == "__main__":
    run(main)
