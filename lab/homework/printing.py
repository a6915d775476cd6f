"""What `speclab hw` prints: progress, one task check by check, grades."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from lab.console import Report
from lab.homework.checking import CHECKS
from lab.homework.folder import line_of
from lab.homework.grading import Grade
from lab.homework.running import DONE, TO_DO, TO_FIX, Examined, Result
from lab.homework.tasks import SETS, Task, tasks

WIDTH = 100  # of all tables
TEXT = 53  # columns for the sentences of the overview
REMARK = 44
SAID = {"passed": "passed", "failed": TO_FIX, "unwritten": TO_DO}


def overview(report: Report, folder: Path, found: Examined) -> None:
    """A row for each task, then what is next."""
    rows, before = [], ""
    for one in found.results:
        repeated = one.sentence and one.sentence == before
        before = one.sentence
        title = textwrap.shorten(one.task.title, TEXT, placeholder=" …")
        text = "as above" if repeated else _wrapped(one.sentence, TEXT) or title
        checks = f"{one.passed}/{one.checks}"
        rows.append([one.task.number, one.task.function, one.state, checks, text])
    report.table(
        "",
        ("task", "function", "state", "checks", "what it is, or what to look at first"),
        rows,
        key="tasks",
        values=[one.record() for one in found.results],
        text=(0, 1, 2, 4),
    )
    report.section(f"{found.done} of {len(found.results)} tasks done")
    for remark in found.remarks:
        report.say(f"{remark}.")
    left = [one for one in found.results if one.state != DONE]
    if not left:
        report.say("All of it is right. `speclab hw show TASK` shows how we wrote it.")
        return
    number = left[0].task.number
    report.say(
        f"Next: {number}, {_where(folder, left[0].task)}. Then `speclab hw {number}`; "
        f"`speclab hw hint {number}` helps.",
        next=number,
    )


def one_task(report: Report, folder: Path, found: Examined, verbose: bool) -> None:
    """One task check by check."""
    (one,) = found.results
    number = one.task.number
    report.section(f"{number} {one.task.function}: {one.state}", f"{_capital(one.task.title)}.")
    broken = any(outcome.check == "import" for outcome in one.outcomes)
    if one.state == TO_DO:
        report.say(f"Nothing is written yet: {_where(folder, one.task)}.")
    elif broken:
        report.say(f"{one.sentence}.")
    else:
        _checks(report, one)
    if verbose:
        _traces(report, one)
    report.section("Next")
    for remark in found.remarks:
        report.say(f"{remark}.")
    report.say(_advice(one, broken), **one.record())


def grades(report: Report, found: Sequence[Grade], file: Path | None) -> None:
    """A row for each folder."""
    of = [sum(task.file == file for task in tasks().values()) for file in SETS]
    report.table(
        "Tasks done",
        (
            "folder",
            *(f"set {i}\nof {n}" for i, n in enumerate(of, 1)),
            f"total\nof {len(tasks())}",
            "\nremark",
        ),
        [
            [str(one.folder), *map(one.done, SETS), one.done(), _wrapped(one.remark, REMARK)]
            for one in found
        ],
        key="grades",
        values=[one.record() for one in found],
        text=(0, len(SETS) + 2),
    )
    graded = [one for one in found if one.found]
    kept = f" All results are in {file}." if file else ""
    report.section(f"{len(found)} folders")
    report.say(f"{len(graded)} of {len(found)} could be examined.{kept}", examined=len(graded))


def _checks(report: Report, one: Result) -> None:
    """A row for each check: the law that holds, or the sentence of what does not."""
    outcomes = {outcome.check: outcome for outcome in one.outcomes}
    rows, width = [], WIDTH - 11 - max(len(each.name) for each in CHECKS[one.task.number])
    for each in CHECKS[one.task.number]:
        outcome = outcomes.get(each.name)
        said = SAID[outcome.state] if outcome else "not run"
        text = (outcome and outcome.sentence) or each.law
        rows.append([_words(each.name), said, _wrapped(text, width)])
    report.table(
        "",
        ("check", "state", "what holds, or what is wrong"),
        rows,
        key="checks",
        values=[vars(outcome) for outcome in one.outcomes],
        text=(0, 1, 2),
    )


def _traces(report: Report, one: Result) -> None:
    """Where in the student's file it raises, each place once, under the first check that saw it."""
    first = {outcome.trace: outcome.check for outcome in reversed(one.outcomes) if outcome.trace}
    for trace, check in reversed(first.items()):
        report.section(f"Where it raises: {_words(check)}")
        report.say(trace)


def _advice(one: Result, broken: bool) -> str:
    """What to do now."""
    number = one.task.number
    if one.state == DONE:
        order = list(tasks())
        after = order[order.index(number) + 1 :]
        onward = f", and {after[0]} is next" if after else ", and that was the last one"
        return f"Done: `speclab hw show {number}` shows how we wrote it{onward}."
    if broken:
        return f"No check can be run before {one.task.file}.py can be imported."
    passed = f"{one.passed} of {one.checks} checks passed. " if one.state == TO_FIX else ""
    return f"{passed}`speclab hw hint {number}` helps."


def _where(folder: Path, task: Task) -> str:
    line = line_of(folder, task)
    return f"{task.function} in {task.file}.py" + (f", line {line}" if line else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width, break_on_hyphens=False))
