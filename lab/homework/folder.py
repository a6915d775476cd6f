"""A student's folder: the starters, a README, and a marker with the hints taken so far."""

from __future__ import annotations

import ast
import io
import json
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

from lab.files import replacing
from lab.homework.hints import HINTS
from lab.homework.tasks import SETS, Task, places, starter, tasks

MARKER = "homework.json"
BACKUPS = "backups"
README = """\
# Homework: build speculative decoding

Write the functions of `set1_theory.py` to `set5_drafts.py`, in their order, and run here

    speclab hw              where you are, and what is next
    speclab hw 1.1          one task, check by check (-v: the traceback)
    speclab hw hint 1.1     the next of three hints
    speclab hw reset 1.1    put a function back as it was; yours is kept in backups/
    speclab hw show 1.1     our solution, once yours is done

Every function says in its docstring what goes in and what must come out. A task is checked with all
other tasks solved, so an earlier one that is wrong does no harm. Call your functions behind
`if __name__ == "__main__":`, so that nothing runs when the file is imported.
"""


@dataclass
class Marker:
    """What the folder remembers, in `homework.json`.

    Attributes
    ----------
    lab : the version it was made by
    hints : given so far, by the number of the task
    """

    lab: str = "?"
    hints: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Marker:
        """Read it; a ValueError says what to do where there is none."""
        path = folder / MARKER
        if not path.is_file():
            raise ValueError(
                f"{folder} is no homework folder: `speclab hw init DIR` makes one; then cd DIR."
            )
        try:
            found = cls(**json.loads(path.read_text(encoding="utf-8")))
            whole = all(type(given) is int for given in found.hints.values())
        except (ValueError, TypeError, AttributeError):
            whole = False
        if not whole:
            raise ValueError(f'{path} is damaged: a file with {{"hints": {{}}}} does.')
        return found

    def write(self, folder: Path) -> None:
        """Write it, whole at any time."""
        with replacing(folder / MARKER) as path:
            path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def init(folder: Path) -> None:
    """Make a folder with all starters; a ValueError, and nothing done, where there is something."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: homework wants a folder of its own.")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: homework wants a folder of its own.")
    folder.mkdir(parents=True, exist_ok=True)
    for file in SETS:
        (folder / f"{file}.py").write_text(starter(file), encoding="utf-8")
    (folder / "README.md").write_text(README, encoding="utf-8")
    Marker(_version()).write(folder)


def hint(folder: Path, number: str) -> tuple[int, str]:
    """The next hint, and its number; after the last one the last again."""
    marker = Marker.of(folder)
    given = min(max(marker.hints.get(number, 0), 0) + 1, len(HINTS[number]))
    marker.hints[number] = given
    marker.write(folder)
    return given, HINTS[number][given - 1]


def reset(folder: Path, number: str) -> Path | None:
    """Put the starter's function back, or with the number of a set its whole file -> the copy that
    was kept of the file as it was; None if there was no file.

    Raises
    ------
    ValueError
        The file is not Python, so that its functions cannot be told apart.
    """
    file = file_of(number)
    path = folder / f"{file}.py"
    if not path.exists():
        path.write_text(starter(file), encoding="utf-8")
        return None
    text = starter(file)
    if number in tasks():
        text = _with_starter(path, tasks()[number])
    kept = _backup(path)
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")
    return kept


def file_of(number: str) -> str:
    """The file of a task, "2.3", or of a set, "2"."""
    if number in tasks():
        return tasks()[number].file
    return next(file for file in SETS if file.startswith(f"set{number}_"))


def line_of(folder: Path, task: Task) -> int | None:
    """The line at which a function begins, if its file can be read."""
    path = folder / f"{task.file}.py"
    try:
        if not path.is_file():  # a pipe would wait for a writer
            return None
        spans = _spans(path.read_text(encoding="utf-8-sig"), task.function)
    except (OSError, ValueError, SyntaxError):
        return None
    return spans[-1][0] + 1 if spans else None


def _with_starter(path: Path, task: Task) -> str:
    """The file with one function as the starter has it: in its place, or at the end if it is
    gone."""
    try:
        source = path.read_text(encoding="utf-8-sig")
        spans = _spans(source, task.function)
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, or not UTF-8
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ValueError(
            f"{path.name} is not Python yet{line}, so its functions cannot be told apart: mend "
            f"that, or `speclab hw reset {task.number[0]}` puts the whole file back."
        ) from None
    lines = _lines(source)
    original = _lines(starter(task.file))
    place = places("".join(original))[task.number]
    new = original[place.start : place.end]
    if not spans:
        return "".join([*lines, *([] if source.endswith("\n") else ["\n"]), "\n\n", *new])
    for start, end in reversed(spans):
        lines[start:end] = new
        new = []  # a second one of the same name goes
    return "".join(lines)


def _spans(source: str, function: str) -> list[tuple[int, int]]:
    """First line and end of each function of that name, decorators included."""
    return [
        (min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1, node.end_lineno or 0)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
    ]


def _lines(source: str) -> list[str]:
    """Lines as Python counts them: a form feed ends none."""
    return io.StringIO(source).readlines()


def _backup(path: Path) -> Path:
    """A copy of a file under a name that is free."""
    folder = path.parent / BACKUPS
    folder.mkdir(exist_ok=True)
    count = 1
    while True:
        copy = folder / f"{path.stem}.{count}.py"
        try:
            with copy.open("xb") as file:
                file.write(path.read_bytes())
        except FileExistsError:
            count += 1
        else:
            return copy


def _version() -> str:
    try:
        return metadata.version("specdec-lab")
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return "?"
