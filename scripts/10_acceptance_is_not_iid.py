"""Acceptance along real text is not independent: what does that cost, and which α is to blame?

Equation (1) takes the drafts of a round to be accepted independently, all with one probability α.
On prose, source code and a table, easy and hard places come in stretches.

How to read it. a = min(1, q(x) / p(x)) is the probability that the token x of a text was accepted
if it was drafted; its mean is α of the text. First how a hangs together from token to token. Then
tokens per call of the target: by equation (1), by replay of a along the texts in their true order
and in random order, by the formula of two hidden states fitted on other texts, and by the real
loop. Then acceptance by position within a round; easy and hard documents in one stream; and what
equation (1) says at each of the numbers that are called α.

± is one standard error between texts (of shuffles over all texts: between shuffles). A sign is
stated, and a difference called one, only beyond the error that keeps the chance of any false alarm
in a table below 1 %; what theory excludes is asserted, with a false alarm below 1e-4 a table.
Half a minute; --fast, a few seconds, in which fewer texts show less.

--plots DIR draws what the order costs, and acceptance by position, in a panel for each text (needs
matplotlib).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lab.acceptance import (
    KINDS,
    Along,
    acceptance_along,
    alpha_estimates,
    correlations,
    eq1_error,
    jackknife,
    sign_of,
    tokens_of,
)
from lab.console import Report, arguments, run
from lab.options import PLOTS
from lab.ordering import OrderCell, left_by_states, mixed_cell, order_cell
from lab.positions import Positions, positions_of
from lab.replay import rounds_along
from lab.sweep import sweep

TARGET, DRAFT, PROSE_DRAFT = "mixed_target", "mixed_2l", "draft_2l"
EASY, HARD = "shakespeare", "unicode"
GAMMAS = (2, 4, 8)
FROM = 4  # the γ whose rounds the estimators of α see
LAGS = 3
SHUFFLES = 12
SEEN = 0.01  # chance that any cell of a table is called different though none is
RED = 1e-4  # the same for what is asserted


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(__doc__, plots=PLOTS).parse_args(argv)
    count, n_new = (16, 48) if args.fast else (48, 128)
    report = Report("Acceptance is not independent", args.json)
    measured = acceptance_along(KINDS, TARGET, DRAFT, count, n_new, GAMMAS, args.seed)
    print_texts(report, measured)
    cells = order_cells(measured, args.seed)
    print_order(report, cells)
    found = [positions_of(along, max(GAMMAS)) for along in measured]
    print_hazards(report, found)
    easy_hard = acceptance_along(
        (EASY, HARD), TARGET, PROSE_DRAFT, count // 2, n_new, GAMMAS, args.seed
    )
    print_mixed(report, easy_hard, args.seed)
    print_estimators(report, measured)
    if args.plots is not None:
        print_plots(report, args.plots, measured, cells, found)
    report.close()


# ---- correlation from token to token -----------------------------------------------------------


def print_texts(report: Report, measured: Sequence[Along]) -> None:
    records = []
    for along in measured:
        groups = len(along.accept)
        found = correlations(along.accept, LAGS)
        records.append(
            {
                "text": along.kind,
                "accept": jackknife(partial(_mean, along.accept), groups),
                "beta": jackknife(partial(_mean, along.betas), groups),
                **{f"lag {lag}": one for lag, one in enumerate(found, 1)},
            }
        )
    seen = [record[f"lag {lag}"] for record in records for lag in range(1, LAGS + 1)]
    signs = [sign_of(one, SEEN, len(seen)) for one in seen]
    assert min(sign_of(one, RED, len(seen)) for one in seen) >= 0
    first = measured[0].accept
    report.section(
        "Easy places stand together",
        f"Target {TARGET}, draft {DRAFT}: {len(first)} texts of each kind, {len(first[0])} tokens "
        "that the target wrote behind held-out prompts.",
    )
    report.records(
        "a = min(1, q / p) along the texts, and its correlation 1, 2, 3 tokens on\n"
        "(acceptance.correlations)",
        (
            ("text", "text", ""),
            ("mean a", "accept", ".3f"),
            ("mean β", "beta", ".3f"),
            *((f"lag {lag}", f"lag {lag}", "+.3f") for lag in range(1, LAGS + 1)),
        ),
        records,
        key="texts",
    )
    report.say(
        f"The correlation is above 0 beyond its error in {signs.count(1)} of {len(signs)} cells, "
        f"below 0 in {signs.count(-1)}. Mean a and mean β estimate the same α; β is without "
        "the noise of which token was written.",
        positive=signs.count(1),
        cells=len(signs),
    )


def _mean(rows: Sequence[np.ndarray[Any, Any]], kept: np.ndarray[Any, Any]) -> float:
    return float(np.concatenate([rows[i] for i in np.flatnonzero(kept)]).mean())


# ---- true and random order ---------------------------------------------------------------------


def order_cells(measured: Sequence[Along], seed: int) -> list[OrderCell]:
    """Every text at every γ, on all cores."""
    jobs = [
        partial(order_cell, along, gamma, SHUFFLES, np.random.default_rng([seed, 10, i, gamma]))
        for i, along in enumerate(measured)
        for gamma in GAMMAS
    ]
    return sweep(jobs)


def print_order(report: Report, cells: Sequence[OrderCell]) -> None:
    records = [{name: getattr(cell, name) for name in cell.__slots__} for cell in cells]
    report.section("What the order costs")
    report.records(
        "Tokens per call of the target (ordering.order_cell): eq. (1) at mean a; replay in true\n"
        "order, shuffled within each text, shuffled over all; two hidden states\n"
        "(chainfit.fit_lags, chains.long_run) correlated as odd texts are; the real loop",
        (
            ("text", "kind", ""),
            ("γ", "gamma", ""),
            ("eq. (1)", "eq1", ".3f"),
            ("replay", "replay", ".3f"),
            ("shuffled\nwithin", "within", ".3f"),
            ("shuffled\nover all", "over", ".3f"),
            ("hidden\nstates", "formula", ".3f"),
            ("real loop", "loop", ".3f"),
        ),
        records,
        key="order",
    )
    report.records(
        "The same as differences, with the errors of differences; hidden states fitted on odd\n"
        "texts against replay of the even ones (ordering.split_costs)",
        (
            ("text", "kind", ""),
            ("γ", "gamma", ""),
            ("replay\nover eq. (1)", "replay_gap", "+.2%"),
            ("shuffled within\nover eq. (1)", "within_gap", "+.2%"),
            ("shuffled over all\nover eq. (1)", "over_gap", "+.2%"),
            ("true order over\nshuffled within", "order_gap", "+.2%"),
            ("hidden states over\nunseen replay", "formula_gap", "+.2%"),
            ("real loop\nover replay", "loop_gap", "+.2%"),
        ),
        records,
        key="differences",
    )
    say_order(report, cells)


def say_order(report: Report, cells: Sequence[OrderCell]) -> None:
    """What the differences say; 6 columns are one family."""
    names = ("replay_gap", "within_gap", "over_gap", "order_gap", "formula_gap", "loop_gap")
    n, signs, red = len(cells), {}, {}
    for name in names:
        gaps = [getattr(cell, name) for cell in cells]
        signs[name] = [sign_of(gap, SEEN, len(names) * n) for gap in gaps]
        red[name] = [sign_of(gap, RED, len(names) * n) for gap in gaps]
    assert not any(red["over_gap"])
    assert not any(red["loop_gap"])
    assert max(red["replay_gap"]) <= 0
    assert max(red["order_gap"]) <= 0
    differs = {name: n - signs[name].count(0) for name in names}
    far = max(abs(cell.formula_gap.mean) for cell in cells)
    lower, higher = (signs["replay_gap"].count(sign) for sign in (-1, 1))
    report.say(
        f"In true order tokens per call are fewer than eq. (1) has, beyond the error, in {lower} "
        f"of {n} cells, more in {higher}. Shuffled over all texts, the same acceptances differ "
        f"from eq. (1) in {differs['over_gap']}. What the order within texts costs is seen in "
        f"{signs['order_gap'].count(-1)}; that some texts are easier than others, in "
        f"{signs['within_gap'].count(-1)}.",
        lower=lower,
        order=signs["order_gap"].count(-1),
        cells=n,
    )
    report.say(
        f"What two hidden states, fitted on odd texts, leave of eq. (1) is within {far:.1%} of "
        f"what replay of the even texts leaves; a difference is seen in "
        f"{differs['formula_gap']} of {n} cells. Between replay and the real loop, with other "
        f"randomness behind the same prompts, one is seen in {differs['loop_gap']}.",
        farthest=far,
        formula_differs=differs["formula_gap"],
        loop_differs=differs["loop_gap"],
    )


# ---- position within a round -------------------------------------------------------------------


def print_hazards(report: Report, found: Sequence[Positions]) -> None:
    gamma, records = max(GAMMAS), []
    for one in found:
        rows = {
            "replay": [rate.mean for rate in one.replay],
            "real loop": [rate.mean for rate in one.loop],
            "hidden states": one.hidden.tolist(),
        }
        for source, rates in rows.items():
            by_position = {f"{i}": rate for i, rate in enumerate(rates, 1)}
            records.append({"text": one.kind, "by": source, **by_position})
    signs = [sign_of(one.rise, SEEN, len(found)) for one in found]
    assert min(sign_of(one.rise, RED, len(found)) for one in found) >= 0
    report.section("Acceptance by position within a round")
    report.records(
        f"Accepted / tested at draft 1 .. {gamma} of a round, γ {gamma} \n"
        "(positions.positions_of); eq. (1) has one number for all",
        (
            ("text", "text", ""),
            ("by", "by", ""),
            *((f"{i}", f"{i}", ".3f") for i in range(1, gamma + 1)),
        ),
        records,
        key="hazards",
    )
    told = ", ".join(f"{one.kind} {one.rise.mean:+.3f} ± {one.rise.stderr:.3f}" for one in found)
    report.say(
        f"From draft 1 to draft 2 acceptance changes by {told}: up beyond its error in "
        f"{signs.count(1)} of {len(signs)} kinds of text, down in {signs.count(-1)}. A round "
        "behind a rejection starts where the text is hard; whoever gets far stands in an easy "
        "stretch.",
        rising=signs.count(1),
    )


# ---- easy and hard documents -------------------------------------------------------------------


def print_mixed(report: Report, pair: Sequence[Along], seed: int) -> None:
    cells = [
        mixed_cell(pair, gamma, SHUFFLES, np.random.default_rng([seed, 11, gamma]))
        for gamma in GAMMAS
    ]
    count = 3 * len(cells)
    assert max(sign_of(cell.arithmetic_gap, RED, count) for cell in cells) <= 0
    assert not any(sign_of(cell.shuffled_gap, RED, count) for cell in cells)
    assert not any(sign_of(cell.loop_gap, RED, count) for cell in cells)
    above = [sign_of(cell.arithmetic_gap, SEEN, count) for cell in cells]
    harmonic = [sign_of(cell.shuffled_gap, SEEN, count) for cell in cells]
    report.section(
        "Easy and hard documents in one stream",
        f"{len(pair[0].accept)} texts of {EASY} and as many of {HARD}; draft {PROSE_DRAFT}, which "
        f"learned prose only: α {cells[0].alphas[0]:.3f} and {cells[0].alphas[1]:.3f}.",
    )
    report.records(
        "Tokens per call: means of eq. (1) over the two kinds (chains.clustered_limits), eq. (1)\n"
        "at the mean α; replay shuffled within each kind, in true order; the real loop\n"
        "(ordering.mixed_cell)",
        (
            ("γ", "gamma", ""),
            ("harmonic\nmean", "harmonic", ".3f"),
            ("arithmetic\nmean", "arithmetic", ".3f"),
            ("eq. (1) at\nmean α", "pooled", ".3f"),
            ("replay,\nshuffled", "shuffled", ".3f"),
            ("replay,\ntrue order", "replay", ".3f"),
            ("real loop", "loop", ".3f"),
            ("true order over\narithmetic", "arithmetic_gap", "+.1%"),
            ("shuffled over\nharmonic", "shuffled_gap", "+.2%"),
        ),
        [{name: getattr(cell, name) for name in cell.__slots__} for cell in cells],
        key="mixed",
    )
    report.say(
        "Calls add up, not tokens per call: from the harmonic mean, shuffled replay differs in "
        f"{len(cells) - harmonic.count(0)} of {len(cells)} cells. The arithmetic mean is too high, "
        f"beyond the error, in {above.count(-1)}. Whatever true order differs from shuffled by is "
        "the order within each kind.",
        arithmetic_too_high=above.count(-1),
        cells=len(cells),
    )


# ---- which α -----------------------------------------------------------------------------------


def print_estimators(report: Report, measured: Sequence[Along]) -> None:
    records: list[dict[str, Any]] = []
    found: dict[tuple[str, str, int], Any] = {}
    for along in measured:
        groups = len(along.accept)
        rounds = {gamma: rounds_along(along.accept, gamma) for gamma in GAMMAS}
        estimates = partial(_alphas, along, rounds[FROM])
        values = estimates(np.ones(groups, np.bool_))
        for name, value in values.items():
            record: dict[str, Any] = {"text": along.kind, "estimator": name, "alpha": value}
            for gamma in GAMMAS:
                if gamma == FROM and name == "from tokens per call":
                    record[f"γ {gamma}"] = (0.0, 0.0)  # by construction
                    continue
                error = eq1_error(
                    lambda kept, name=name, of=estimates: of(kept)[name],
                    lambda kept, of=rounds[gamma]: tokens_of(of[kept]),
                    gamma,
                    groups,
                )
                record[f"γ {gamma}"] = found[along.kind, name, gamma] = error
            records.append(record)
    report.section("Which α makes equation (1) err, and where to")
    report.records(
        f"Eq. (1) at each estimate, over replay's tokens per call, less 1; rounds of γ {FROM} by\n"
        "replay (acceptance.alpha_estimates, acceptance.eq1_error)",
        (
            ("text", "text", ""),
            ("α from", "estimator", ""),
            ("α", "alpha", ".3f"),
            *((f"γ {gamma}", f"γ {gamma}", "+.2%") for gamma in GAMMAS),
        ),
        records,
        key="estimators",
    )
    say_estimators(report, found)


def say_estimators(report: Report, found: dict[tuple[str, str, int], Any]) -> None:
    signs = {cell: sign_of(error, SEEN, len(found)) for cell, error in found.items()}
    red = {cell: sign_of(error, RED, len(found)) for cell, error in found.items()}
    names = list(dict.fromkeys(name for _, name, _ in found))
    counts = {}
    for name in names:
        own = [sign for (_, of, _), sign in signs.items() if of == name]
        counts[name] = {"high": own.count(1), "low": own.count(-1), "cells": len(own)}
    for (_, name, _), sign in red.items():
        assert sign >= 0 or name not in ("mean a", "mean β")
        assert sign <= 0 or name != "accepted / drafted"
    told = "; ".join(
        f"{name} too high in {n['high']}, too low in {n['low']} of {n['cells']}"
        for name, n in counts.items()
    )
    report.say(f"Eq. (1) beyond its error: {told}.", **counts)
    report.say(
        "Where acceptance clusters, rounds begin where it is hard, and eq. (1) at the α of all "
        "positions promises too much. Accepted / drafted counts drafts that were never looked at: "
        "too little. Tokens per call solved for α fit the γ they are from, "
        f"{FROM}, by construction."
    )


def _alphas(
    along: Along, rounds: np.ndarray[Any, Any], kept: np.ndarray[Any, Any]
) -> dict[str, float]:
    use = np.flatnonzero(kept)
    return alpha_estimates(
        rounds[use], [along.accept[i] for i in use], [along.betas[i] for i in use]
    )


# ---- figures -----------------------------------------------------------------------------------


def print_plots(
    report: Report, folder: Path, measured: Sequence[Along], cells: Sequence[OrderCell],
    found: Sequence[Positions],
) -> None:  # fmt: skip
    from lab import plots, plots_acceptance  # matplotlib is an extra

    lines = {
        along.kind: [left_by_states(along.accept[1::2], g) - 1 for g in range(1, max(GAMMAS) + 1)]
        for along in measured
    }
    report.section(
        "Figures",
        "Lines are the formulas; hidden states are fitted on odd texts for what the order costs, "
        "on all for acceptance by position.",
    )
    figures = {
        "acceptance_order": plots_acceptance.order(cells, lines),
        "acceptance_position": plots_acceptance.position(found),
    }
    plots.draw(report, folder, figures)


if __name__ == "__main__":
    run(main)
