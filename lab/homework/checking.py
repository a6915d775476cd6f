"""What a check is, and how it says in one sentence what is wrong.

A check calls a student's function on inputs of its own and compares. Whatever goes wrong becomes
`Wrong`, whose text names the call, what came, what was expected and the law that was broken.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from lab.homework.tasks import tasks

Run = Callable[[Any, np.random.Generator], None]
SHOWN = 6  # numbers of an array that a sentence shows


class Wrong(Exception):
    """What a student's function does that it should not; the law of the check ends the sentence."""


class Clumsy(Wrong):
    """A slip that has nothing to do with the law: a sentence of its own."""


@dataclass(frozen=True)
class Check:
    """One thing that must hold of a task.

    Attributes
    ----------
    task : its number
    name : of the check, unique within the task
    law : what is broken where it fails: the end of the sentence
    run : called with the student's module, in which all other tasks are solved, and a generator
    """

    task: str
    name: str
    law: str
    run: Run


CHECKS: dict[str, list[Check]] = {}


def check(task: str, law: str) -> Callable[[Run], Run]:
    """Register a function as a check of a task."""

    def register(run: Run) -> Run:
        CHECKS.setdefault(task, []).append(Check(task, run.__name__, law, run))
        return run

    return register


@dataclass(frozen=True)
class Outcome:
    """What became of one check: "passed", "failed" with a sentence, or "unwritten"."""

    task: str
    check: str
    state: str
    sentence: str = ""


def outcome(one: Check, student: Any, seed: int) -> Outcome:
    """Run one check.

    student : the student's module, in which all tasks but this one are solved
    seed : changes the inputs, not what must hold of them
    """
    rng = np.random.default_rng([seed, zlib.crc32(f"{one.task} {one.name}".encode())])
    task = tasks()[one.task]
    if not callable(getattr(student, task.function, None)):
        back = f"`speclab hw reset {one.task}` brings it back"
        lost = f"{task.function} is missing from {task.file}.py: {back}"
        return Outcome(one.task, one.name, "failed", lost)
    try:
        one.run(student, rng)
    except NotImplementedError:
        return Outcome(one.task, one.name, "unwritten")
    except Clumsy as clumsy:
        return Outcome(one.task, one.name, "failed", str(clumsy))
    except Wrong as wrong:
        return Outcome(one.task, one.name, "failed", f"{wrong}: {one.law}")
    return Outcome(one.task, one.name, "passed")


# ---- Asking a student's function -------------------------------------------------------------


def ask(function: Callable[..., Any], *args: Any, may_change: tuple[int, ...] = ()) -> Any:
    """What a function returns, if it raises nothing, prints nothing and leaves its arguments alone.

    may_change : places of the arguments that it is there to change; all others are compared with
        copies afterwards
    """
    before = tuple(map(_copied, args))
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            answer = function(*args)
    except Exception as error:
        _let_through(error)
        raise Wrong(f"{call(function, *before)} raised {told(error)}") from error
    if printed.getvalue():
        line = printed.getvalue().splitlines()[0][:60]
        raise Clumsy(f"{call(function, *before)} prints ({line!r}): a function only returns")
    for i, (now, then) in enumerate(zip(args, before, strict=True)):
        if i not in may_change and not alike(now, then, 0.0):
            name = list(inspect.signature(function).parameters)[i]
            raise Clumsy(
                f"{call(function, *before)} changed its argument {name} to {short(now)}: what a "
                "caller gives stays as it was"
            )
    return answer


def equal(
    function: Callable[..., Any], args: tuple[Any, ...], wanted: Any, tolerance: float = 1e-9
) -> None:
    """The function must return this for these arguments, up to a relative or absolute tolerance."""
    got = ask(function, *args)
    must_be(call(function, *args), got, wanted, tolerance)


def must_be(what: str, got: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    """`what` is how the sentence begins: a call, or an expression of one."""
    if got is None and wanted is not None:
        raise Clumsy(f"{what} returned None, expected {short(wanted)}: is there a return?")
    expected, came = _shape(wanted), _shape(got)
    if expected != came:
        raise Wrong(f"{what} has shape {came}, expected {expected}")
    if not alike(got, wanted, tolerance):
        raise Wrong(f"{what} gave {short(got)}, expected {short(wanted)}")


def refuses(function: Callable[..., Any], *args: Any) -> None:
    """The function must raise a ValueError."""
    try:
        answer = function(*map(_copied, args))
    except ValueError:
        return
    except Exception as error:
        _let_through(error)
        raise Wrong(f"{call(function, *args)} raised {told(error)}, not a ValueError") from error
    raise Wrong(f"{call(function, *args)} gave {short(answer)}, expected a ValueError")


def alike(got: Any, wanted: Any, tolerance: float) -> bool:
    """Equal in kind and value; numbers up to a tolerance, relative to 1 or to the value."""
    if isinstance(wanted, tuple | list):
        same = isinstance(got, tuple | list) and len(got) == len(wanted)
        return same and all(alike(g, w, tolerance) for g, w in zip(got, wanted, strict=True))
    if isinstance(wanted, np.ndarray | np.generic | int | float | bool):
        try:
            numbers = np.asarray(got, np.float64)
        except (TypeError, ValueError):
            return False
        expected = np.asarray(wanted, np.float64)
        return numbers.shape == expected.shape and np.allclose(
            numbers, expected, rtol=tolerance, atol=tolerance, equal_nan=True
        )
    if hasattr(wanted, "__dict__"):
        return type(got) is type(wanted) and alike(
            list(vars(got).values()), list(vars(wanted).values()), tolerance
        )
    return bool(got == wanted)


def _let_through(error: Exception) -> None:
    """What is not yet written is no mistake, and what a check has found is a sentence already."""
    unwritten = isinstance(error, NotImplementedError) and str(error).startswith("task ")
    if unwritten or isinstance(error, Wrong):
        raise error


def _copied(value: Any) -> Any:
    """A copy of data; a model, a dice or a function is itself."""
    is_data = isinstance(value, np.ndarray | list | tuple | set | dict) or is_dataclass(value)
    return copy.deepcopy(value) if is_data else value


def _shape(value: Any) -> Any:
    """Of an array; of a tuple or list, its length; of anything else ()."""
    if isinstance(value, np.ndarray):
        return value.shape
    return f"{len(value)} values" if isinstance(value, tuple | list) else ()


# ---- Words -----------------------------------------------------------------------------------


def call(function: Callable[..., Any], *args: Any) -> str:
    """The call as a student would type it: residual(target_probs=[0.5, 0.5], ...)."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    named = [
        f"{names[i]}={short(arg)}" if i < len(names) else short(arg) for i, arg in enumerate(args)
    ]
    return f"{getattr(function, '__name__', 'the function')}({', '.join(named)})"


def short(value: Any) -> str:
    """A value in a few characters."""
    if isinstance(value, np.ndarray):
        numbers = value.ravel()
        inside = ", ".join(short(x) for x in numbers[:SHOWN].tolist())
        more = ", …" if numbers.size > SHOWN else ""
        shape = f" of shape {value.shape}" if value.ndim > 1 else ""
        return f"[{inside}{more}]{shape}"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, tuple | list):
        inside = ", ".join(short(x) for x in value[:SHOWN]) + (", …" if len(value) > SHOWN else "")
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    if isinstance(value, np.integer):
        return str(int(value))
    text = repr(value)
    return text if len(text) <= 60 and " at 0x" not in text else f"<{type(value).__name__}>"


def told(error: BaseException) -> str:
    """An exception in a line."""
    text = str(error).partition("\n")[0][:100]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
