"""Run the checks of a folder in workers, one for each set, and say of each task how it stands.

A check that hangs, and one that takes its process with it, cost their own task and no other: a new
worker goes on with the next task.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lab.homework.checks  # noqa: F401  (registers the checks)
from lab.homework.checking import CHECKS, Outcome
from lab.homework.process import Ended, Process, Silent
from lab.homework.student import TRIALS
from lab.homework.tasks import Task, tasks

SECONDS = 5.0  # of one check
DONE, TO_DO, TO_FIX = "done", "to do", "to fix"
LOOPS = "is there a loop that nothing ends?"


@dataclass(frozen=True)
class Result:
    """How a task stands.

    Attributes
    ----------
    task : what it is
    outcomes : of its checks, in their order; those behind one that hung or died are missing
    """

    task: Task
    outcomes: tuple[Outcome, ...]

    @property
    def checks(self) -> int:
        """How many checks it has."""
        return len(CHECKS.get(self.task.number, ()))

    @property
    def passed(self) -> int:
        """How many of them it passed."""
        return sum(one.state == "passed" for one in self.outcomes)

    @property
    def state(self) -> str:
        """ "done", "to do" while nothing of it is written, else "to fix"."""
        if all(one.state == "unwritten" for one in self.outcomes):
            return TO_DO
        return DONE if self.passed == self.checks else TO_FIX

    @property
    def sentence(self) -> str:
        """The first thing to look at, if it is to be fixed."""
        if self.state != TO_FIX:
            return ""
        failed = [one.sentence for one in self.outcomes if one.state == "failed"]
        half = f"{self.task.function} still raises NotImplementedError for some of its inputs"
        return failed[0] if failed else half

    def record(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "task": self.task.number,
            "function": self.task.function,
            "title": self.task.title,
            "state": self.state,
            "passed": self.passed,
            "checks": self.checks,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Examined:
    """What was found in a folder: results in the order of the tasks, and remarks on files."""

    results: tuple[Result, ...]
    remarks: tuple[str, ...] = ()

    @property
    def done(self) -> int:
        """How many of the tasks are done."""
        return sum(result.state == DONE for result in self.results)


def examine(
    folder: Path,
    numbers: Iterable[str] | None = None,
    *,
    seed: int = 0,
    limit: float = SECONDS,
    at_once: int | None = None,
    stop: threading.Event | None = None,
) -> Examined:
    """Check tasks of a folder.

    Parameters
    ----------
    numbers : of the tasks, such as "2.3"; None: all
    seed : of the inputs
    limit : seconds that one check may take
    at_once : workers at a time; None: one for each set
    stop : set by somebody who waits no longer; the call then raises `Interrupted`

    Raises
    ------
    OSError
        The folder cannot be entered, or no worker can be started.
    """
    sets: dict[str, list[str]] = {}
    for number in tasks() if numbers is None else numbers:
        sets.setdefault(tasks()[number].file, []).append(number)
    halt = threading.Event() if stop is None else stop
    with ThreadPoolExecutor(at_once or len(sets)) as pool:
        sheets = [_Sheet(folder.resolve() / f"{file}.py", some) for file, some in sets.items()]
        runs = [pool.submit(_fill, sheet, seed, limit, halt) for sheet in sheets]
        try:
            for run in runs:
                run.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            if stop is None:  # a caller's event is for all of its folders: it is not ours to set
                halt.set()
            raise
    return Examined(
        tuple(result for sheet in sheets for result in sheet.results()),
        tuple(sheet.remark for sheet in sheets if sheet.remark),
    )


def _fill(sheet: _Sheet, seed: int, limit: float, stop: threading.Event) -> None:
    """Run the checks of one file, by as many workers as it takes."""
    while sheet.rest:
        with Process(sheet.path, seed, sheet.rest, stop) as worker:
            try:
                for event in worker.events(limit):
                    sheet.note(event)
            except Silent:
                sheet.broke_off(f"did not end within {limit:g} s", LOOPS)
            except Ended as ended:
                sheet.broke_off(f"ended its process ({ended})", ended.question)


class _Sheet:
    """What is known of the tasks of one file, filled in as a worker goes through them."""

    def __init__(self, path: Path, numbers: Sequence[str]) -> None:
        self.path = path
        self.rest = list(numbers)  # still to be run
        self.remark = ""
        self._outcomes: dict[str, list[Outcome]] = {number: [] for number in numbers}
        self._at: tuple[str, str] | None = None  # task and check; None: the import

    def results(self) -> list[Result]:
        return [Result(tasks()[n], tuple(found)) for n, found in self._outcomes.items()]

    def note(self, event: dict[str, Any]) -> None:
        """Something that a worker said (`lab.homework.worker`)."""
        kind = event.pop("event")
        if kind == "loading":
            self._at = None
        elif kind == "loaded" and event["printed"]:
            printed = event["printed"][:60]
            self.remark = f"{self.path.name} prints while it is imported ({printed!r}): {TRIALS}"
        elif kind == "started":
            self._at = event["task"], event["check"]
        elif kind == "ended":
            self._outcomes[event["task"]].append(Outcome(**event))
        elif kind == "broken":
            self._fail_all(**event)
        elif kind == "finished":
            self.rest = []

    def broke_off(self, how: str, question: str) -> None:
        """The worker hangs or is gone: that is the task's fault which it was at."""
        if self._at is None:
            self._fail_all(f"{self.path.name} {how} while it was imported: {question}")
            return
        number, check = self._at
        sentence = f"{tasks()[number].function} {how}: {question}"
        self._outcomes[number].append(Outcome(number, check, "failed", sentence))
        self.rest = self.rest[self.rest.index(number) + 1 :]

    def _fail_all(self, sentence: str, trace: str = "") -> None:
        for number in self.rest:
            self._outcomes[number].append(Outcome(number, "import", "failed", sentence, trace))
        self.rest = []
