"""A paper's tables on real text: ten drafts for one target, three kinds of text, T 0 and 1.

Leviathan et al. print acceptance α (Table 3), expected and measured speed-ups (Tables 2 and 4) and
lenience (Table 5) of models that nobody else has. Here is the same of models that come with the
lab, each number with its error: prose, source code and a table of characters; a target that
learned all three; n-grams, small models, the target itself quantised or cut, and prompt lookup.

How to read it. α is the mean of β = Σ min(p, q) along the target's own texts behind held-out
prompts; at T 0 both laws are one-hot. Tokens per call of the target at γ 4 come from equation (1)
at α, from replay of a = min(1, q / p) along the texts that the real loop wrote, and from the loop
itself. Replay knows the text but not the coins: at T 0 there are none, and the two must be
identical, round by round. Then rounds that walk along a text by β instead of a, which look alike
and are not. Then the clock: what a pass of each draft and a round costs here, the γ that follows,
and the wall-clock ratio by Theorem 3.8 as printed, by all costs, and on the stopwatch. Then
lenience.

± is one standard error between texts. A difference is called one only beyond the error that keeps
the chance of any false alarm in its table below 1 %; what theory excludes is asserted, with a false
alarm below 1e-4 a table. Times are of this machine and asserted nowhere: leave it alone meanwhile.
Under a minute on two free cores, 85 s of processor time; --fast, ten seconds, has one kind of text
and sees less.

--plots DIR draws α of every draft, and the stopwatch against the two forms (needs matplotlib).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lab.acceptance import sign_of, tokens_of
from lab.betawalk import BetaGap, pooled
from lab.console import Report, arguments, run
from lab.interval import in_stderrs
from lab.linear import row_product
from lab.options import PLOTS
from lab.paper_leviathan import LENIENCES, LENIENT_AT_0, TABLE_3, TABLE_4_MEASURED, TABLE_5
from lab.realclock import ClockCell, RoundParts
from lab.realloop import LoopCell
from lab.realrun import (
    FAST,
    GAMMA,
    GAMMAS,
    LENIENT,
    MOST,
    TEMPERATURES,
    Alphas,
    LoopCells,
    Size,
    TextCells,
    along_texts,
    alphas,
    falls,
    in_the_loop,
    on_the_clock,
    round_parts,
    walks,
)
from lab.realtext import DRAFTS, LOOKUP, draft, held_out_nats, mean_of, target
from lab.replay import rounds_along

SEEN = 0.01  # chance that any cell of a table is called different though none is
RED = 1e-4  # the same for what is asserted


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(__doc__, plots=PLOTS).parse_args(argv)
    size, seed = FAST if args.fast else Size(), args.seed
    report = Report("Real text", args.json)
    report.progress("1 of 5: the models")
    for name in DRAFTS:
        draft(name)
    print_models(report, size)
    report.progress("2 of 5: acceptance along texts")
    texts = along_texts(size, seed)
    report.progress("3 of 5: the real loop")
    loops = in_the_loop(size, seed)
    found = alphas(texts, loops)
    print_alphas(report, size, found)
    print_tokens(report, size, loops)
    print_lookup(report, texts)
    print_walks(report, size, texts, loops)
    report.progress("4 of 5: what passes cost")
    parts = round_parts(size, seed)
    print_parts(report, parts)
    report.progress("5 of 5: the stopwatch")
    cells = on_the_clock(size, texts, parts, seed)
    print_clock(report, size, cells)
    print_lenience(report, size, texts)
    if args.plots is not None:
        print_plots(report, args.plots, found, cells)
    report.close()


# ---- The models --------------------------------------------------------------------------------


def print_models(report: Report, size: Size) -> None:
    config = target().config
    report.section(
        "The models",
        f"Target: {config.n_layers} layers, d {config.d_model}, {target().vocab} byte tokens, "
        "trained on nine tenths of each kind of text. Drafts: n-grams and models of one and two "
        "layers trained on the same; the target itself in INT4 and INT3, and its first three "
        "layers; prompt lookup.",
    )
    records = [{"text": kind, "nats": held_out_nats(kind, size.windows)} for kind in size.kinds]
    report.records(
        "The target on held-out text, windows of 256 bytes (realtext.held_out_nats)",
        (("text", "text", ""), ("nats per byte", "nats", ".3f")),
        records,
        key="target",
    )


# ---- α: our Table 3 ----------------------------------------------------------------------------


def print_alphas(report: Report, size: Size, found: Alphas) -> None:
    places = [(kind, t) for kind in size.kinds for t in TEMPERATURES]
    records = [
        {"draft": name, **{f"{kind} T {t:g}": found[kind, t][name] for kind, t in places}}
        for name in DRAFTS
    ]
    report.section("Acceptance")
    report.records(
        f"α, as the paper's Table 3: {size.texts[0]} texts of each kind at T 0, {size.texts[1]} at "
        f"T 1, {size.text_tokens} positions each\n(realtext.text_cells; prompt lookup: "
        f"accepted / tested in the real loop at γ {GAMMA})",
        (
            ("draft", "draft", ""),
            *((f"{kind}\nT {t:g}", f"{kind} T {t:g}", ".3f") for kind, t in places),
        ),
        records,
        key="alphas",
    )
    report.say(
        "Prompt lookup has no law to take a minimum with: what it is worth depends on where a "
        "round starts, so its entry counts what was tested."
    )
    differences = falls(found)
    signs = [sign_of(one, SEEN, len(differences)) for one in differences]
    printed = [float(cell.printed) for cell in TABLE_3]
    paper = list(zip(printed[::2], printed[1::2], strict=True))  # T 0, T 1
    report.say(
        f"From T 0 to T 1, α falls beyond its error in {signs.count(1)} of {len(signs)} cells here "
        f"and rises in {signs.count(-1)}; in the paper's Table 3 it falls in "
        f"{sum(a > b for a, b in paper)} of {len(paper)} rows and rises in "
        f"{sum(a < b for a, b in paper)}. There, {_told(TABLE_3, 'EnDe, T5-small')}; "
        f"{_told(TABLE_3, 'EnDe, bigram')}; {_told(TABLE_3, 'GPT-like 97M, 6M')}.",
        falls=signs.count(1),
        rises=signs.count(-1),
        cells=len(signs),
    )


def _told(cells: Sequence[Any], row: str) -> str:
    """The printed cells of a row of the paper."""
    found = [cell for cell in cells if row in cell.row]
    return f"{found[0].row}: " + ", ".join(f"{c.printed} ({c.column})" for c in found)


# ---- Tokens per call ---------------------------------------------------------------------------


def print_tokens(report: Report, size: Size, loops: LoopCells) -> None:
    cells = [loops[kind, name, 1.0, GAMMA] for name in DRAFTS for kind in size.kinds]
    coins = [cell for cell in cells if cell.draft != LOOKUP]
    certain = [cell for key, cell in loops.items() if key[2] == 0 or key[1] == LOOKUP]
    signs = [sign_of(cell.gap, SEEN, len(coins)) for cell in coins]
    assert not any(sign_of(cell.gap, RED, len(coins)) for cell in coins)
    texts = sum(len(cell.loop) for cell in certain)
    identical = sum(cell.identical for cell in certain)
    if row_product().row_invariant:  # else a near tie may fall either way at T 0
        assert identical == texts
    report.section(
        "Tokens per call of the target",
        f"γ {GAMMA}; {size.prompts[1]} prompts at T 1, {size.prompts[0]} at T 0, "
        f"{size.loop_tokens} tokens behind each. α and replay are of the very texts that the loop "
        "wrote; n counts their positions, of prompt lookup the drafts tested.",
    )
    report.records(
        "T 1: eq. (1) at α, replay, the real loop, and their difference (realloop.loop_cells)",
        (
            ("draft", "draft", ""),
            ("text", "kind", ""),
            ("α", "alpha", ".3f"),
            ("n", "positions", ""),
            ("eq. (1)", "eq1", ".3f"),
            ("replay", "replay_tokens", ".3f"),
            ("real loop", "loop_tokens", ".3f"),
            ("loop over\nreplay", "gap", "+.1%"),
        ),
        [_loop_record(cell) for cell in cells],
        key="tokens",
    )
    report.say(
        f"The loop differs from replay, beyond the error of the coins, in "
        f"{len(signs) - signs.count(0)} of {len(signs)} cells with coins. Where there are none, at "
        f"T 0 and of prompt lookup, which is certain of its drafts, the loop's rounds are those of "
        f"replay, one by one, in {identical} of {texts} texts of {len(certain)} cells.",
        differs=len(signs) - signs.count(0),
        cells=len(signs),
        identical=identical,
        texts=texts,
    )
    print_greedy(report, size, loops)


def print_greedy(report: Report, size: Size, loops: LoopCells) -> None:
    columns, records = [], [{"draft": name} for name in DRAFTS]
    for kind in size.kinds:
        for record in records:
            cell = loops[kind, record["draft"], 0.0, GAMMA]
            record |= {f"{kind} eq1": cell.eq1, f"{kind} loop": cell.loop_tokens}
        columns += [
            (f"{kind}\neq. (1)", f"{kind} eq1", ".3f"),
            ("\nloop = replay", f"{kind} loop", ".3f"),
        ]
    report.records(
        "T 0: eq. (1) at α, and the real loop, which is replay (realloop.loop_cells)",
        (("draft", "draft", ""), *columns),
        records,
        key="tokens at T 0",
    )


def _loop_record(cell: LoopCell) -> dict[str, Any]:
    names = ("draft", "kind", "alpha", "positions", "eq1", "replay_tokens", "loop_tokens", "gap")
    return {name: getattr(cell, name) for name in names}


def print_lookup(report: Report, texts: TextCells) -> None:
    """What is lost where only the first draft of each position is known."""
    errors = {}
    for (kind, temperature), cell in texts.items():
        accept = cell.drafts[LOOKUP].accept
        first = [rows[:, 0] for rows in accept]
        true, by_first = (tokens_of(rounds_along(a, MOST)) for a in (accept, first))
        errors[f"{kind}, T {temperature:g}"] = by_first / true - 1
    worst = max(errors, key=lambda name: abs(errors[name]))
    report.say(
        "Prompt lookup goes on copying from where it started: what draft j is depends on the start "
        "of its round. Replay that knows only the first draft at each position errs by "
        f"{errors[worst]:+.1%} at γ {MOST} in the worst case ({worst}).",
        errors=errors,
    )


# ---- Replay, not β -----------------------------------------------------------------------------


def print_walks(report: Report, size: Size, texts: TextCells, loops: LoopCells) -> None:
    gaps = walks(size, texts)
    report.section(
        "Replay walks by a, not by β",
        "At every position a server could record β, which has the mean of a and less noise. Given "
        "the text before it, that is; but the text goes on from the token that was written, and "
        "behind one that the draft would not have said the next are hard as well.",
    )
    report.records(
        f"Tokens per call at T 1: the real loop over replay of its own {size.prompts[1]} texts; a "
        f"walk by β over\nreplay, both along {size.texts[1]} texts: as it comes, and without the "
        "noise of which tokens were\nwritten (realloop.loop_cells, betawalk.beta_gap)",
        (
            ("draft", "draft", ""),
            ("text", "kind", ""),
            ("γ", "gamma", ""),
            ("replay", "replay_tokens", ".3f"),
            ("loop over\nreplay", "gap", "+.2%"),
            ("β over replay\nas it comes", "raw", "+.2%"),
            ("\nwithout noise", "sharp", "+.2%"),
        ),
        [_walk_record(loops[key], gap) for key, gap in gaps.items()],
        key="walks",
    )
    say_walks(report, [loops[key] for key in gaps], list(gaps.values()))


def _walk_record(cell: LoopCell, gap: BetaGap) -> dict[str, Any]:
    names = ("draft", "kind", "gamma", "replay_tokens", "gap")
    return {name: getattr(cell, name) for name in names} | {"raw": gap.raw, "sharp": gap.sharp}


def say_walks(report: Report, cells: Sequence[LoopCell], gaps: Sequence[BetaGap]) -> None:
    n = len(cells)
    loop = [sign_of(cell.gap, SEEN, n) for cell in cells]
    assert not any(sign_of(cell.gap, RED, n) for cell in cells)
    signs = {
        name: [sign_of(getattr(gap, name), SEEN, n) for gap in gaps] for name in ("raw", "sharp")
    }
    mean = pooled(gaps)
    stderr = math.sqrt(sum(cell.gap.stderr**2 for cell in cells)) / n
    of_loop = float(np.mean([cell.gap.mean for cell in cells]))
    verdict = "a bias, which no number of texts cures" if sign_of(mean, SEEN, 1) else "maybe noise"
    report.say(
        f"From replay the loop differs in {n - loop.count(0)} of {n} cells, and over all of them "
        f"by {of_loop:+.2%} ± {stderr:.2%}. The walk by β is higher in {signs['sharp'].count(1)} "
        f"cells, lower in {signs['sharp'].count(-1)} ({n - signs['raw'].count(0)} of {n} differ as "
        f"it comes), over all by {mean.mean:+.3%} ± {mean.stderr:.3%}, {in_stderrs(mean):.1f} "
        f"errors: {verdict}. The loop's own error over all cells is "
        f"{stderr / abs(mean.mean):.1f} times that.",
        loop_differs=n - loop.count(0),
        loop_mean=of_loop,
        loop_mean_stderr=stderr,
        beta_higher=signs["sharp"].count(1),
        beta_lower=signs["sharp"].count(-1),
        beta_mean=mean.mean,
        beta_mean_stderr=mean.stderr,
        cells=n,
    )


# ---- The clock ---------------------------------------------------------------------------------


def print_parts(report: Report, parts: dict[float, RoundParts]) -> None:
    any_parts = parts[1.0]
    one = any_parts.target[1]
    report.section(
        "What passes cost here",
        "One process, one BLAS thread, nothing beside it; passes step along real text and take "
        "turns. A small target: what Python does around a pass is not small beside it.",
    )
    report.records(
        "c, seconds of a draft's pass over one row (and, after a full acceptance, two) over the "
        "target's\npass over one (realclock.measure_passes); prompt lookup: a look-up of "
        f"{max(any_parts.per_round)} drafts",
        (("draft", "draft", ""), ("c", "c", ".3f"), ("c, two rows", "c2", ".3f")),
        [
            {
                "draft": name,
                "c": any_parts.cost(name),
                "c2": spent[2] / one if 2 in spent else None,
            }
            for name, spent in any_parts.drafts.items()
        ],
        key="c",
    )
    report.records(
        "A round's other parts over the same pass (realclock.measure_parts): the target's pass "
        "over γ + 1\nrows, the laws they become, and the loop around them, draws of the drafts "
        "included",
        (
            ("γ", "gamma", ""),
            ("T(γ + 1) / T(1)", "target", ".3f"),
            ("sampling\nT 1", "sample", ".3f"),
            ("loop, T 0\nmodel draft", "loop at 0", ".3f"),
            ("loop, T 1\nmodel draft", "loop at 1", ".3f"),
            ("loop, T 1\nlookup", "lookup at 1", ".3f"),
        ),
        [
            {
                "gamma": gamma,
                "target": any_parts.target[gamma + 1] / one,
                "sample": any_parts.sample[gamma + 1] / one,
                "loop at 0": parts[0.0].per_round[gamma] / one,
                "loop at 1": any_parts.per_round[gamma] / one,
                "lookup at 1": any_parts.per_lookup[gamma] / one,
                "seconds": any_parts.target[gamma + 1],
            }
            for gamma in (0, 1, *GAMMAS)
            if gamma in any_parts.per_round
        ],
        key="parts",
    )


def print_clock(report: Report, size: Size, cells: Sequence[ClockCell]) -> None:
    report.section(
        "Does it pay?",
        "Plain decoding's seconds over speculative decoding's, at the best γ of 1 to "
        f"{size.most} by replay and all costs. Below 1 the best γ is 0: no draft. On the "
        "stopwatch, runs of one sequence in turns: with the tokens per call that they happened to "
        "have, and at those of replay.",
    )
    for temperature in reversed(TEMPERATURES):
        own = [cell for cell in cells if cell.temperature == temperature]
        report.records(
            f"T {temperature:g}: Theorem 3.8 as printed (theory.walltime_speedup), all costs "
            "(costs.Costs), stopwatch\n(realclock.clock_cells)",
            (
                ("draft", "draft", ""),
                ("text", "kind", ""),
                ("γ", "gamma", ""),
                ("tokens per\ncall, replay", "tokens", ".2f"),
                ("on the\nwatch", "timed_tokens", ".2f"),
                ("\nThm 3.8", "paper", ".2f"),
                ("all\ncosts", "full", ".2f"),
                ("stopwatch", "clock", ".2f"),
                ("at replay's\ntokens", "without_luck", ".2f"),
            ),
            [asdict(cell) | {"without_luck": cell.without_luck} for cell in own],
            key=f"clock at T {temperature:g}",
        )
    say_clock(report, cells)


def say_clock(report: Report, cells: Sequence[ClockCell]) -> None:
    def error(form: Callable[[ClockCell], float | None]) -> float:
        found = [(form(cell), cell.without_luck) for cell in cells]
        return float(np.median([abs(p / seen - 1) for p, seen in found if p is not None]))

    paper, full = error(lambda cell: cell.paper), error(lambda cell: cell.full)
    pays = [cell for cell in cells if cell.full > 1]
    both = sum((cell.full > 1) == (cell.without_luck > 1) for cell in cells)
    best = max(cells, key=lambda cell: cell.without_luck)
    report.say(
        f"Median absolute error against the stopwatch: Theorem 3.8 as printed {paper:.1%}, all "
        f"costs {full:.1%}. By all costs a draft pays in {len(pays)} of {len(cells)} cells, by "
        f"Theorem 3.8 in {sum(c.paper is not None and c.paper > 1 for c in cells)}, on the "
        f"stopwatch in {sum(c.without_luck > 1 for c in cells)}; all costs and the stopwatch agree "
        f"in {both}. The best is {best.draft} on {best.kind} at T {best.temperature:g}: "
        f"{best.without_luck:.2f}. In the paper, {_told(TABLE_4_MEASURED, 'EnDe, T5-small, T = 0')}"
        ": its target is so slow that a draft, the loop and γ more rows cost next to nothing.",
        paper=paper,
        full=full,
        pays=len(pays),
        agree=both,
        cells=len(cells),
    )


# ---- Lenience: our Table 5 ---------------------------------------------------------------------


def print_lenience(report: Report, size: Size, texts: TextCells) -> None:
    levels = [float(leniency) for leniency in LENIENCES]
    records: list[dict[str, Any]] = []
    for temperature in reversed(TEMPERATURES):
        for name in LENIENT:
            for kind in size.kinds:
                rows = texts[kind, temperature].lenient
                joined = [np.concatenate(rows[name, level]) for level in levels]
                assert all((b >= a - 1e-12).all() for a, b in pairwise(joined))
                records.append(
                    {"T": f"{temperature:g}", "draft": name, "text": kind}
                    | {key: mean_of(rows[name, float(key)]) for key in LENIENCES}
                )
    report.section(
        "Lenience",
        "A draft is kept with min(1, p / (l q)); at T 0 if p(x) ≥ l max p. α then is Σ min(p / l, "
        "q), still along the target's own texts; l = 1 is exact, below it what comes out is not "
        "the target's law any more.",
    )
    report.records(
        "α by lenience l, as the paper's Table 5; texts and n as in the table of α\n"
        "(realtext.lenient_along)",
        (
            ("T", "T", ""),
            ("draft", "draft", ""),
            ("text", "text", ""),
            *((f"l = {key}", key, ".3f") for key in LENIENCES),
        ),
        records,
        key="lenience",
    )
    at_zero = ", ".join(cell.printed for cell in LENIENT_AT_0 if cell.column == "α")
    gained = [record[LENIENCES[-1]].mean - record[LENIENCES[0]].mean for record in records]
    report.say(
        f"α never falls as l does, at any position; from l = {LENIENCES[0]} to {LENIENCES[-1]} it "
        f"gains {min(gained):.3f} to {max(gained):.3f}. The paper at T 1 "
        f"(l = {', '.join(LENIENCES)}): "
        + "; ".join(
            f"{name} {', '.join(c.printed for c in TABLE_5 if c.row == name)}"
            for name in dict.fromkeys(cell.row for cell in TABLE_5)
        )
        + f"; at T 0, T5-small {at_zero}.",
        least=min(gained),
        most=max(gained),
    )


# ---- Figures -----------------------------------------------------------------------------------


def print_plots(report: Report, folder: Path, found: Alphas, cells: Sequence[ClockCell]) -> None:
    from lab import plots, plots_realtext  # matplotlib is an extra

    report.section("Figures")
    figures = {
        "real_text_alpha": plots_realtext.alpha(found),
        "real_text_clock": plots_realtext.clock(cells),
    }
    plots.draw(report, folder, figures)


if __name__ == "__main__":
    run(main)
