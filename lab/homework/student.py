"""A student's file: loaded by its path, and one of its tasks at a time looked at by itself."""

from __future__ import annotations

import builtins
import contextlib
import io
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np

from lab.homework.checking import own_frames, told, written
from lab.homework.tasks import reference_module, tasks

TRIALS = 'what you try out goes behind `if __name__ == "__main__":`'


class NotLoaded(Exception):
    """A file that cannot be imported; the text is a sentence, the cause what was raised."""


def load(path: Path) -> tuple[ModuleType, str]:
    """Run a file as a module -> the module, and the first line that it printed meanwhile.

    Nothing is kept from an earlier run of the file, and nothing written beside it; what it does to
    NumPy or to the builtins is undone.

    Raises
    ------
    NotLoaded
        Whatever it was.
    """
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module  # dataclasses look here
    printed = io.StringIO()
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        with contextlib.redirect_stdout(printed), _unpatched():
            exec(code, vars(module))
    except BaseException as error:
        raise NotLoaded(_sentence(path, error)) from error
    return module, next(iter(written(printed).splitlines()), "")


@contextmanager
def alone(module: ModuleType, number: str) -> Iterator[None]:
    """While this lasts all other tasks of the module are solved: an earlier one that is wrong turns
    no later one red. Afterwards all names of the module stand for what they did before, and so do
    those of NumPy and the builtins."""
    names = vars(module)
    before = dict(names)
    task = tasks()[number]
    reference = reference_module(task.file)
    for other in tasks().values():
        if other.file == task.file and other != task:
            names[other.function] = getattr(reference, other.function)
    try:
        with _unpatched():
            yield
    finally:
        names.clear()
        names.update(before)


@contextmanager
def _unpatched() -> Iterator[None]:
    """Afterwards NumPy and the builtins have what they had, whatever was put in its place."""
    before = [(vars(shared), dict(vars(shared))) for shared in (np, builtins)]
    try:
        yield
    finally:
        for names, had in before:
            names.update(had)


def trace_of(error: NotLoaded, path: Path) -> str:
    """Where in the file an import failed, for those who want to see it."""
    return own_frames(error.__cause__, str(path))


def _sentence(path: Path, error: BaseException) -> str:
    """What is wrong with the file, and where."""
    name, lines = path.name, traceback.extract_tb(error.__traceback__)
    here = [frame.lineno for frame in lines if frame.filename == str(path)]
    line = f"line {here[-1]}" if here else "line unknown"
    if isinstance(error, FileNotFoundError) and not here:
        return f"{name} is missing: `speclab hw reset {name[3]}` brings it back"
    if isinstance(error, OSError) and not here:
        return f"{name} cannot be read: {error.strerror}"
    if isinstance(error, SyntaxError | ValueError) and not here:  # ValueError: null bytes
        return f"{name} is not Python yet: {_syntax(error)}"
    if isinstance(error, ImportError):
        return f"{name} cannot be imported: {error}, {line}; NumPy and the standard library do"
    if isinstance(error, NotImplementedError) and str(error).startswith("task "):
        return f"{name} uses {error} while it is imported, {line}, before it is written: {TRIALS}"
    if isinstance(error, SystemExit):
        return f"{name} calls sys.exit while it is imported, {line}: {TRIALS}"
    return f"{name} raises {told(error)} while it is imported, {line}: {TRIALS}"


def _syntax(error: SyntaxError | ValueError) -> str:
    """What Python says of a source, the line, and what stands there."""
    if not isinstance(error, SyntaxError) or error.lineno is None:
        return str(error)
    text = (error.text or "").strip()[:60]
    return f"{error.msg}, line {error.lineno}" + (f" ({text})" if text else "")
