"""Wrong versions of shipped functions, for as long as a test needs them.

A mutant is a few textual edits of functions that are really called: the source of each is changed,
compiled in its own module, and put in place of its code. So every reference to the function is
wrong at once, whoever imported it, tables of rules and lockstep included; nothing is written twice,
and each mutant reads as a diff of the shipped code.

Not for threads: while a patch lasts, the whole process runs the wrong code. Processes are fine.
"""

from __future__ import annotations
import __future__

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from textwrap import dedent, indent
from types import CodeType, FunctionType
from typing import Any

ANNOTATIONS = __future__.annotations.compiler_flag
MARK = "<mutant of "  # how the file names of edited code begin


@dataclass(frozen=True)
class Edit:
    """One change of a function's source.

    function : a function, a method (`Class.method`), or a closure, which is changed alone among
        those that one definition made; a decorated function is changed inside its decorator
    old : text that occurs once in its source, as it is when the whole is dedented
    new : what stands in its place
    """

    function: Callable[..., Any]
    old: str
    new: str

    @property
    def place(self) -> str:
        """Module and name of the function."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @property
    def diff(self) -> str:
        """The lines of `old` with a minus, those of `new` with a plus."""
        signs = (("-", self.old), ("+", self.new))
        return "\n".join(f"{sign} {line}" for sign, text in signs for line in text.splitlines())


@dataclass(frozen=True)
class Change:
    """What a mutant changes, and by how much.

    kind : "text" (the law of what is emitted), "acceptance" (only how much is accepted),
        "counters" (only what is said to have been done), "estimator" (what is made of it), or
        "dice" (draws, where only the uniforms themselves show it)
    case, quantity : a number that it changes, in a case of `lab.battery`
    before, after : of the shipped code, of the mutant; to four figures
    """

    kind: str
    case: str
    quantity: str
    before: float
    after: float

    def __str__(self) -> str:
        return f"{self.case}: {self.quantity} {self.before:.4g} → {self.after:.4g}"


def text(case: str, total_variation: float) -> Change:
    """The law of the text, by its total variation from the one that is due."""
    return Change("text", case, "total variation", 0.0, total_variation)


class Mutant:
    """A named wrong implementation: `with mutant.patch(): ...` runs it.

    description : what is wrong, in a sentence
    area : the part of the lab that it belongs to
    changes : what it changes
    edits : of the shipped functions; several of one function are made in order
    """

    def __init__(self, description: str, area: str, changes: Change, *edits: Edit) -> None:
        self.description, self.area, self.changes, self.edits = description, area, changes, edits

    @property
    def diff(self) -> str:
        """All edits, for reading."""
        return "\n".join(f"{edit.place}\n{edit.diff}" for edit in self.edits)

    @cached_property
    def codes(self) -> dict[FunctionType, CodeType]:
        """The wrong code of every function that is edited.

        Raises
        ------
        ValueError
            If an edit's `old` is not in the source exactly once, or there is no source.
        """
        edits: dict[FunctionType, list[Edit]] = {}
        for edit in self.edits:
            edits.setdefault(_inner(edit.function), []).append(edit)
        return {function: edited_code(function, changes) for function, changes in edits.items()}

    @contextmanager
    def patch(self) -> Iterator[None]:
        """Whatever runs inside is wrong; afterwards, and after an error, all is as before."""
        sound = {_inner(edit.function): _inner(edit.function).__code__ for edit in self.edits}
        for function, code in sound.items():
            if code.co_filename.startswith(MARK):
                raise ValueError(f"{function.__qualname__} is patched already, by another mutant")
        try:
            for function, code in self.codes.items():
                function.__code__ = code
            yield
        finally:
            for function, code in sound.items():
                function.__code__ = code


def edited_code(function: FunctionType, edits: list[Edit]) -> CodeType:
    """The function's code after all edits, made in order.

    Nothing is executed: defaults, decorators and captured variables stay the function's own.
    """
    place = edits[0].place
    try:
        source = dedent(inspect.getsource(function))
    except OSError as error:
        raise ValueError(f"{place} has no source to edit") from error
    for edit in edits:
        found = source.count(edit.old)
        if found != 1:
            raise ValueError(
                f"old={edit.old!r} occurs {found} times in {place}, must occur once: if the "
                "function was changed, the mutant must be too"
            )
        source = source.replace(edit.old, edit.new)
    captured = function.__code__.co_freevars
    if captured:  # they must be somebody's variables for the compiler to take them as captured
        source = f"def around({', '.join(captured)}):\n{indent(source, '    ')}"
    flags = function.__code__.co_flags & ANNOTATIONS
    whole = compile(source, f"{MARK}{place}>", "exec", flags=flags, dont_inherit=True)
    code = next(c for c in _codes_within(whole) if c.co_name == function.__code__.co_name)
    if code.co_freevars != captured:
        raise ValueError(f"{place} captures {captured}, with the edits it captures others")
    return code


def _codes_within(code: CodeType) -> Iterator[CodeType]:
    """All code objects inside, outer before inner."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_within(constant)


def _inner(function: Callable[..., Any]) -> FunctionType:
    """The function itself, inside its decorators."""
    found = inspect.unwrap(function)
    if not isinstance(found, FunctionType):
        raise ValueError(f"function={function!r} must be a Python function")
    return found
