"""What do tests miss? Wrong implementations, and which checks see them.

A mutant is a small change of the code that is shipped: a mistake that was really made somewhere, or
nearly. Every check is made on every mutant: the checks that public projects use, which run one
plain pair of models at T = 1 (4: at T = 0), and the lab's own, which run all cases of lab.battery.

How to read the board. A cell says how often a check fired, over repetitions with other random
numbers; of a check without chance, yes or -. The first row is the code as it is shipped: what fires
there is a false alarm. Then, for each check, what it is blind to: it did not fire more often than
not. A check with many false alarms sees one or two mutants by chance. What the popular checks
compare with was made by sound code; a project that compares with its own plain decoding misses
more. Last, all mutants: what each changes, and by how much in one small case, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.console import Report, arguments, run
from lab.lawtest import Rate
from lab.mutants import MUTANTS
from lab.scoreboard import (
    CHECKS,
    CONTROL,
    FAST,
    FULL,
    LEVEL,
    Check,
    Effort,
    Row,
    Tally,
    blind,
    board,
    references,
)
from lab.stats import chi2_isf, chi2_sf

RED = 1e-4  # the risk that a rate of false alarms which is as due is called another
OURS = [key for key, check in CHECKS.items() if check.ours]
POPULAR = [key for key, check in CHECKS.items() if not check.ours]


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(__doc__).parse_args(argv)
    effort = FAST if args.fast else FULL
    report = Report("What tests miss", args.json)
    rows = board(args.seed, effort)
    print_summary(report, rows, effort)
    print_board(report, rows, effort)
    print_false_alarms(report, rows[CONTROL])
    print_blind_sets(report, rows)
    print_mutants(report)
    report.close()


def print_mutants(report: Report) -> None:
    """What is wrong, by area."""
    area = None
    for name, mutant in MUTANTS.items():
        if mutant.area != area:
            area = mutant.area
            report.section(f"Mutants: {area}")
        changes = mutant.changes
        report.say(
            f"{name}: {mutant.description}. ({changes})",
            mutant=name,
            kind=changes.kind,
            case=changes.case,
            quantity=changes.quantity,
            before=changes.before,
            after=changes.after,
        )


def print_board(report: Report, rows: Mapping[str, Row], effort: Effort) -> None:
    checks = CHECKS.values()
    legend = [f"{i} {key}: {check.what}" for i, (key, check) in enumerate(CHECKS.items(), 1)]
    report.section("The board", "\n".join(legend))
    report.table(
        f"How often each check fired (scoreboard.board): 1-3 on {effort.runs} runs, 5 on a text of "
        f"{effort.tokens}\ntokens; {effort.repeats} times on a mutant, {effort.control_repeats} on "
        f'"{CONTROL}", the shipped code',
        ("mutant", *(str(i) for i in range(1, len(CHECKS) + 1))),
        [[name, *map(_cell, row.values(), checks)] for name, row in rows.items()],
        key="board",
        values=[
            {"mutant": name, **{key: [t.fires, t.trials] for key, t in row.items()}}
            for name, row in rows.items()
        ],
    )


def _cell(tally: Tally, check: Check) -> str:
    if check.sampled:
        return f"{tally.fires}/{tally.trials}" if tally.fires else "0"
    return "yes" if tally.fires else "-"


def print_false_alarms(report: Report, control: Row) -> None:
    """The shipped code: nothing of ours fires, χ² as often as it says, or as theory says."""
    outcomes = len(references().first)
    limit = chi2_isf(LEVEL, outcomes - 1)
    due = {
        "sampled χ²": chi2_sf(limit / 2, outcomes - 1),
        "first-token χ²": LEVEL,
        "joint χ²": LEVEL,
    }
    rates = {
        key: Rate(control[key].fires, control[key].trials, share) for key, share in due.items()
    }
    assert all(rate.agrees(RED) for rate in rates.values())
    assert not any(control[key].fires for key in [*OURS, "greedy text"])
    first, exact, joint = rates.values()
    band = control["acceptance band"]
    report.say(
        f"False alarms on the shipped code: none of ours. χ² at {LEVEL:.0%} calls it wrong in "
        f"{exact.value:.0%} (first token) and {joint.value:.0%} (joint) of {exact.trials} tests; "
        f"with a sample for its expectation in {first.value:.0%}, where {first.due:.0%} is due, as "
        f"the statistic is twice as large. The band of acceptance: {band.fires} of {band.trials}.",
        rates={key: rate.value for key, rate in rates.items()},
        due=due,
        trials=exact.trials,
        band=band.fires / band.trials,
    )


def print_blind_sets(report: Report, rows: Mapping[str, Row]) -> None:
    report.section("What each check is blind to")
    for key in CHECKS:
        missed = blind(rows, key)
        report.say(
            f"{key}: {len(missed)} of {len(MUTANTS)}. {by_area(missed)}", check=key, missed=missed
        )


def by_area(names: Sequence[str]) -> str:
    """Mutants by name; those of an area together, where they are all of it."""
    areas: dict[str, list[str]] = {}
    for name, mutant in MUTANTS.items():
        areas.setdefault(mutant.area, []).append(name)
    parts = []
    for area, all_of_it in areas.items():
        found = [name for name in all_of_it if name in names]
        whole = len(found) == len(all_of_it) > 1
        parts += [f"{area} (all {len(found)})"] if whole else found
    return ", ".join(parts)


def print_summary(report: Report, rows: Mapping[str, Row], effort: Effort) -> None:
    """What is missed by all checks of either kind together."""

    def missed_by_all(keys: Sequence[str]) -> list[str]:
        return [name for name in MUTANTS if not any(rows[name][key].catches for key in keys)]

    unseen, uncaught = missed_by_all(POPULAR), missed_by_all(OURS)
    assert not uncaught, uncaught
    needed = {key: missed_by_all([other for other in OURS if other != key]) for key in OURS}
    report.section("In short")
    report.say(
        f"The {len(POPULAR)} checks that public projects use, on one plain pair of models, miss "
        f"together {len(unseen)} of {len(MUTANTS)} mutants: {by_area(unseen)}.",
        unseen=unseen,
    )
    alone = "; ".join(f"{key} alone sees {len(names)}" for key, names in needed.items())
    report.say(
        f"The lab's {len(OURS)} together miss {len(uncaught)}, on cases that were chosen so that "
        f"every fault can show. Of these, {alone}. A certificate is there for what no case shows: "
        "it speaks of all laws and all horizons.",
        needed=needed,
    )
    if effort is FAST:
        report.say(
            f"With --fast a sampled check is made {effort.repeats} times on a mutant, rules are "
            "certified at a smaller V and γ: numbers to quote are those of the full run."
        )


if __name__ == "__main__":
    run(main)
