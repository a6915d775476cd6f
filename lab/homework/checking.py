"""What a check is, and how it says in one sentence what is wrong.

A check calls a student's function on inputs of its own and compares. Whatever goes wrong becomes
`Wrong`, whose text names the call, what came, what was expected and the law that was broken.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import numbers
import traceback
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from lab.homework.tasks import tasks

Run = Callable[[Any, np.random.Generator], None]
SLIPS = (NameError, AttributeError, ImportError, MemoryError, RecursionError)  # break no law
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
    """What became of one check: "passed", "failed" with a sentence, or "unwritten".

    `trace` has the lines of the student's own file that an exception came from.
    """

    task: str
    check: str
    state: str
    sentence: str = ""
    trace: str = ""


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
        with _warnings_off():  # a student's np.seterr is not for the check's own arithmetic
            one.run(student, rng)
    except NotImplementedError:
        return Outcome(one.task, one.name, "unwritten")
    except Clumsy as clumsy:
        return Outcome(one.task, one.name, "failed", str(clumsy))
    except Wrong as wrong:
        sentence, error = f"{wrong}: {one.law}", wrong.__cause__
    except Exception as other:  # the check stumbled over what it was given
        sentence, error = (
            f"{task.function} gave what cannot be used, {told(other)}: {one.law}",
            other,
        )
    else:
        return Outcome(one.task, one.name, "passed")
    trace = own_frames(error, getattr(student, "__file__", None))
    return Outcome(one.task, one.name, "failed", sentence, trace)


# ---- Asking a student's function -------------------------------------------------------------


def ask(function: Callable[..., Any], *args: Any, may_change: tuple[int, ...] = ()) -> Any:
    """What a function returns, if it raises nothing, prints nothing and leaves its arguments alone.

    may_change : places of the arguments that it is there to change; all others are compared with
        copies afterwards
    """
    before = tuple(map(_copied, args))
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), _warnings_off():
            answer = function(*args)
    except SystemExit:
        raise Clumsy(f"{call(function, *before)} calls sys.exit: a function only returns") from None
    except Wrong as found:  # the models or the dice have noticed something
        _unchanged(function, args, before, may_change)  # which may be why
        raise found
    except Exception as error:
        _let_through(error)
        slip = isinstance(error, SLIPS) and not isinstance(error, UnboundLocalError)  # of a branch
        kind = Clumsy if slip else Wrong
        raise kind(f"{call(function, *before)} raised {told(error)}") from error
    if text := written(printed):
        line = text.splitlines()[0][:60]
        raise Clumsy(f"{call(function, *before)} prints ({line!r}): a function only returns")
    _unchanged(function, args, before, may_change)
    return answer


def _unchanged(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    before: tuple[Any, ...],
    may_change: tuple[int, ...],
) -> None:
    """All arguments but those that may change are as they were."""
    for i, (now, then) in enumerate(zip(args, before, strict=True)):
        if i not in may_change and not alike(now, then, 0.0):
            name = list(inspect.signature(function).parameters)[i]
            raise Clumsy(
                f"{call(function, *before)} changed its argument {name} to {short(now)}: what a "
                "caller gives stays as it was"
            )


def equal(function: Callable[..., Any], args: tuple[Any, ...], wanted: Any) -> None:
    """The function must return this for these arguments, up to rounding."""
    got = ask(function, *args)
    must_be(call(function, *args), got, wanted)


def must_be(what: str, got: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    """What came must be this, up to a relative or absolute tolerance; `what` is how the sentence
    begins: a call, or an expression of one."""
    got = shaped(what, got, wanted)
    if not alike(got, wanted, tolerance):
        raise Wrong(f"{what} gave {_beside(got, wanted, tolerance)}{_coarse(got, wanted)}")


def shaped(what: str, got: Any, wanted: Any) -> Any:
    """What came, if it has the shape of what was expected. A list of numbers is as good as an
    array, and becomes one."""
    if got is None and wanted is not None:
        raise Clumsy(f"{what} returned None, expected {short(wanted)}: is there a return?")
    if isinstance(wanted, np.ndarray) and isinstance(got, tuple | list):
        with contextlib.suppress(TypeError, ValueError):
            got = np.asarray(got, np.float64)
    if not isinstance(got, np.ndarray | np.generic | numbers.Number | tuple | list):
        raise Wrong(f"{what} came as {type(got).__name__}, expected {short(wanted)}")
    expected, came = _shape(wanted), _shape(got)
    if expected != came:
        raise Wrong(f"{what} has shape {came}, expected {expected}")
    return got


def refuses(function: Callable[..., Any], *args: Any) -> None:
    """The function must raise a ValueError, and leave its arguments as they were."""
    given = tuple(map(_copied, args))
    try:
        with _warnings_off():
            answer = function(*given)
    except ValueError:
        if not alike(given, args, 0.0):
            said = f"{call(function, *args)} raised a ValueError, as it should"
            raise Wrong(f"{said}, but had changed what it was given") from None
        return
    except Exception as error:
        _let_through(error)
        raise Wrong(f"{call(function, *args)} raised {told(error)}, not a ValueError") from error
    raise Wrong(f"{call(function, *args)} gave {short(answer)}, expected a ValueError")


def alike(got: Any, wanted: Any, tolerance: float) -> bool:
    """Equal in kind and value; numbers up to a tolerance, relative to 1 or to the value."""
    if got is wanted:
        return True
    if isinstance(wanted, tuple | list):
        same = isinstance(got, tuple | list) and len(got) == len(wanted)
        return same and all(alike(g, w, tolerance) for g, w in zip(got, wanted, strict=True))
    if isinstance(wanted, np.ndarray | np.generic | int | float | bool):
        try:
            came = np.asarray(got, np.float64)
        except (TypeError, ValueError):
            return False
        expected = np.asarray(wanted, np.float64)
        return came.shape == expected.shape and np.allclose(
            came, expected, rtol=tolerance, atol=tolerance, equal_nan=True
        )
    if hasattr(wanted, "__dict__"):
        return type(got) is type(wanted) and alike(
            list(vars(got).values()), list(vars(wanted).values()), tolerance
        )
    return bool(got == wanted)


def _warnings_off() -> contextlib.ExitStack:
    """A warning is no answer: 0 / 0 is judged by what comes of it."""
    off = contextlib.ExitStack()
    off.enter_context(np.errstate(all="ignore"))
    off.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore")
    return off


def _let_through(error: Exception) -> None:
    """What is not yet written is no mistake, and what a check has found is a sentence already."""
    unwritten = isinstance(error, NotImplementedError) and str(error).startswith("task ")
    if unwritten or isinstance(error, Wrong):
        raise error


def written(printed: io.StringIO) -> str:
    """What was printed; nothing, if a student's code has closed the stream."""
    return "" if printed.closed else printed.getvalue()


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


def _beside(got: Any, wanted: Any, tolerance: float) -> str:
    """What came and what was expected, so that they can be told apart: of a large array the first
    entry that differs, of close numbers as many digits as it takes."""
    place = ""
    if isinstance(wanted, np.ndarray) and wanted.size > SHOWN and isinstance(got, np.ndarray):
        with contextlib.suppress(TypeError, ValueError):
            off = ~np.isclose(got.astype(np.float64), wanted, tolerance, tolerance, equal_nan=True)
            first = tuple(int(i[0]) for i in off.nonzero())
            got, wanted, place = got[first], wanted[first], f" at {list(first)}"
    for digits in (6, 10, 17):
        came, due = short(got, digits), short(wanted, digits)
        if came != due:
            break
    return f"{came}{place}, expected {due}"


def _coarse(got: Any, wanted: Any) -> str:
    """Why numbers are wrong that are right but for their rounding."""
    dtype = getattr(got, "dtype", None)
    small = dtype in (np.float16, np.float32) and alike(got, wanted, 1e-3)
    return f" ({dtype} is too coarse for it)" if small else ""


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


def short(value: Any, digits: int = 6) -> str:
    """A value in a few characters."""
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return short(value[()], digits)
        if value.ndim == 1 or 0 < value.size <= 2 * SHOWN:
            return _row(value, "[]", SHOWN, digits)
        return f"{_row(value.ravel(), '[]', SHOWN, digits)} of shape {value.shape}"
    if isinstance(value, float | np.floating):
        return f"{value:.{digits}g}"
    if isinstance(value, tuple | list):
        return _row(value, "()" if isinstance(value, tuple) else "[]", SHOWN, digits)
    if isinstance(value, np.integer):
        return str(int(value))
    text = repr(value)
    return text if len(text) <= 60 and " at 0x" not in text else f"<{type(value).__name__}>"


def _row(values: Any, brackets: str, most: int, digits: int) -> str:
    inside = ", ".join(short(x, digits) for x in values[:most])
    return f"{brackets[0]}{inside}{', …' if len(values) > most else ''}{brackets[1]}"


def told(error: BaseException) -> str:
    """An exception in a line."""
    text = str(error).partition("\n")[0][:100]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def own_frames(error: BaseException | None, file: str | None) -> str:
    """The traceback of an exception, of the frames that stand in this file."""
    if error is None:
        return ""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == file]
    return "".join(traceback.format_list(frames)) + told(error)
