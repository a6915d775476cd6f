"""Students' solutions for tests: a solved file of the homework with edits of one task."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import lab.homework.checks  # noqa: F401  (registers the checks)
from lab.homework.checking import CHECKS, Outcome, outcome
from lab.homework.student import alone
from lab.homework.tasks import places, reference_source, tasks

BODY = "the whole body"  # as the old text of an edit


@dataclass(frozen=True)
class Solution:
    """A named solution of one task.

    edits : (old, new) of the task's body; old occurs there once, or is BODY
    says : what the sentence about it must contain, if it is wrong
    """

    task: str
    name: str
    edits: tuple[tuple[str, str], ...]
    says: str = ""

    @property
    def source(self) -> str:
        """The whole file that the student has."""
        source = reference_source(tasks()[self.task].file)
        lines, place = source.splitlines(keepends=True), places(source)[self.task]
        body = "".join(lines[place.body : place.end])
        for old, new in self.edits:
            assert old == BODY or body.count(old) == 1, f"{self.name}: {old!r} is not there once"
            body = f"    {new.strip()}\n" if old == BODY else body.replace(old, new)
        return "".join([*lines[: place.body], body, *lines[place.end :]])

    def module(self) -> ModuleType:
        return loaded(self.source, tasks()[self.task].file)


def loaded(source: str, name: str) -> ModuleType:
    """A student's file as a module of this name."""
    module = ModuleType(name)
    module.__file__ = f"{name}.py"
    exec(compile(source, module.__file__, "exec", dont_inherit=True), vars(module))
    return module


def outcomes(module: ModuleType, task: str, seed: int) -> list[Outcome]:
    """Of all checks of a task, in their order, while all other tasks are solved."""
    with alone(module, task):
        return [outcome(one, module, seed) for one in CHECKS[task]]
