"""What `speclab replay` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lab.console import Report
from lab.costs import Costs
from lab.interval import CONFIDENCE
from lab.replay_file import Texts
from lab.replay_tally import Best, Interval, Tally
from lab.theory import expected_tokens

FEW = 20  # fewer clusters than this make intervals that are too narrow
LOW, HIGH = (f"{100 * tail:g} %" for tail in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))


def show(
    report: Report, texts: Texts, found: Tally, ratios: Sequence[float], verify_cost: float
) -> None:
    """All of it: tokens per call, acceptance by position, the best γ for each cost ratio c."""
    _show_tokens(report, texts, found)
    _show_hazards(report, found)
    _show_best(report, found, ratios, verify_cost)


def _show_tokens(report: Report, texts: Texts, found: Tally) -> None:
    report.section("Tokens per call", _how_to_read(texts, found))
    records: list[dict[str, Any]] = [
        {
            "gamma": gamma,
            "tokens": found.tokens_per_call(gamma),
            "equation_1": float(expected_tokens(found.acceptance, gamma)),
            "hazards": [_number(hazard.value) for hazard in found.hazards(gamma)],
        }
        for gamma in found.rounds
    ]
    rows = [[r["gamma"], *_cells(r["tokens"]), format(r["equation_1"], ".3f")] for r in records]
    report.table(
        "Whole rounds along the texts (lab.replay.rounds_along)",
        ("γ", "tokens\nper call", LOW, HIGH, "eq. (1)\nat that α"),
        rows,
        key="tokens",
        values=[_flat(r, "tokens") for r in records],
    )


def _how_to_read(texts: Texts, found: Tally) -> str:
    """What was read, what of it counts, and where the intervals come from."""
    what = "the argmaxes' agreement (temperature 0)" if texts.greedy else "min(1, q / p)"
    left_out = len(texts.accept) - found.texts
    most = max(found.rounds)
    parts = [
        f"{_count(found.texts, 'prompt')}, {found.tokens:,} tokens; α = {found.acceptance:.4f}, "
        f"the mean of {what}."
    ]
    if left_out:
        parts.append(
            f"{_count(left_out, 'prompt')} of no more than {most} tokens left out: too short for "
            f"a round of γ {most}."
        )
    times = f"drawn anew, {len(found.rounds[most]) - 1:,} times"
    if found.clusters == 1:
        parts.append("One short text has no interval: give more prompts.")
    elif found.texts == 1:
        parts.append(
            f"Intervals: its {found.clusters} blocks {times}; so they tell how the numbers vary "
            "along this text, not between prompts."
        )
    else:
        parts.append(f"Intervals: the prompts {times}.")
    if 1 < found.clusters < FEW:
        parts.append(f"Of so few they are too narrow; {FEW} or more are wanted.")
    return " ".join(parts)


def _show_hazards(report: Report, found: Tally) -> None:
    most = max(found.rounds)
    report.section(
        f"Acceptance by position, γ {most}",
        "Of the rounds that came so far, the share that accepts this draft too. It would be the "
        "same at every position if acceptances were independent of each other and equally likely.",
    )
    records: list[dict[str, Any]] = [
        {"position": i, "reached": reached, "accepted": hazard}
        for i, (reached, hazard) in enumerate(
            zip(found.reached(most), found.hazards(most), strict=True), 1
        )
    ]
    report.table(
        "Given that it was reached (lab.theory.conditional_acceptance)",
        ("draft", "rounds\nthere", "of them\naccepted", LOW, HIGH),
        [[r["position"], format(r["reached"], ".4f"), *_cells(r["accepted"])] for r in records],
        key="hazards",
        values=[_flat(r, "accepted") for r in records],
    )


def _show_best(report: Report, found: Tally, ratios: Sequence[float], verify_cost: float) -> None:
    report.section(
        "γ*",
        f"The γ with the largest speed-up, tokens per call / (γ c + v), v = {verify_cost:g}; how "
        "much it gains; and how often what is drawn anew chooses it again.",
    )
    costs = {c: Costs(lambda rows: verify_cost if rows > 1 else 1.0, c) for c in ratios}
    best = {c: found.best_gamma(cost) for c, cost in costs.items()}
    report.table(
        "γ* by the cost of a draft (lab.costs)",
        ("c", "γ*", "speed-up", LOW, HIGH, "chosen\nagain"),
        [
            [f"{c:g}", b.gamma or "none", *_cells(b.speedup), _share(b.share)]
            for c, b in best.items()
        ],
        key="best",
        values=[
            _flat({"c": c, "gamma": b.gamma, "speedup": b.speedup}, "speedup")
            | {"share": _number(b.share)}
            for c, b in best.items()
        ],
    )
    _say_best(report, found, best)


def _say_best(report: Report, found: Tally, best: dict[float, Best]) -> None:
    most = max(found.rounds)
    none = [c for c, b in best.items() if b.gamma == 0]
    edge = [c for c, b in best.items() if b.gamma == most]
    if none:
        report.say(f"No γ wins at c = {_listed(none)}: plain decoding is fastest.", no_gamma=none)
    if edge:
        report.say(
            f"γ {most} is the largest that was tried: at c = {_listed(edge)} more may be better.",
            at_the_edge=edge,
        )


# ---- Cells ------------------------------------------------------------------------------------


def _cells(interval: Interval) -> list[str | None]:
    """Value, low and high; None, which shows as n/a, for what there is not."""
    ends = (interval.value, interval.low, interval.high)
    return [None if math.isnan(end) else format(end, ".3f") for end in ends]


def _share(share: float) -> str | None:
    return None if math.isnan(share) else f"{100 * share:.0f} %"


def _flat(record: dict[str, Any], name: str) -> dict[str, Any]:
    """A record for JSON, its interval `name` taken apart."""
    interval: Interval = record[name]
    ends = {f"{name}_low": interval.low, f"{name}_high": interval.high}
    numbers = {name: interval.value} | ends
    return record | {key: _number(value) for key, value in numbers.items()}


def _number(value: float) -> float | None:
    """NaN is None: JSON has no NaN."""
    return None if math.isnan(value) else value


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _listed(costs: Sequence[float]) -> str:
    return ", ".join(f"{c:g}" for c in costs)
