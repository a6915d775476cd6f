"""The tasks of the homework, as the solved files have them.

A task is a function whose docstring begins with "Task 2.3: ". A student gets its signature and its
docstring; everything else of a file is given. So starters cannot drift from what is checked.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

REFERENCE = Path(__file__).with_name("reference")
SETS = tuple(sorted(path.stem for path in REFERENCE.glob("set*.py")))
PREFIX = "Task "


@dataclass(frozen=True)
class Task:
    """One function to write.

    Attributes
    ----------
    number : "2.3"
    function : its name
    title : what it is, the first sentence of its docstring
    file : the set it belongs to, a stem of `SETS`
    """

    number: str
    function: str
    title: str
    file: str


@dataclass(frozen=True)
class Place:
    """Where a task stands in a source: whole lines, counted from 0, the end excluded."""

    start: int
    body: int  # the first line behind the docstring
    end: int


@cache
def tasks() -> dict[str, Task]:
    """All tasks by number, in their order."""
    found = {}
    for file in SETS:
        for node in _functions(reference_source(file)):
            number = number_of(node)
            if number is not None:
                title = (ast.get_docstring(node) or "").partition("\n")[0]
                title = title.removeprefix(f"{PREFIX}{number}: ").rstrip(".")
                found[number] = Task(number, node.name, title, file)
    return found


def reference_source(file: str) -> str:
    """The solved file of a set."""
    return (REFERENCE / f"{file}.py").read_text(encoding="utf-8")


def reference_module(file: str) -> ModuleType:
    """The solved file of a set, imported."""
    return import_module(f"lab.homework.reference.{file}")


def starter(file: str) -> str:
    """What a student gets: the solved file without the bodies of its tasks."""
    source = reference_source(file)
    lines = source.splitlines(keepends=True)
    for number, place in reversed(places(source).items()):
        lines[place.body : place.end] = [f'    raise NotImplementedError("task {number}")\n']
    return "".join(lines)


def places(source: str) -> dict[str, Place]:
    """Where each task stands in a source, in its order."""
    found = {}
    for node in _functions(source):
        number = number_of(node)
        if number is not None:
            docstring_end = node.body[0].end_lineno
            assert docstring_end is not None
            assert node.end_lineno is not None
            found[number] = Place(node.lineno - 1, docstring_end, node.end_lineno)
    return found


def number_of(node: ast.FunctionDef) -> str | None:
    """The number of the task that a function is, if it is one."""
    docstring = ast.get_docstring(node) or ""
    if not docstring.startswith(PREFIX):
        return None
    return docstring.removeprefix(PREFIX).partition(":")[0]


def _functions(source: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
