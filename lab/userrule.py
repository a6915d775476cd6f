"""A verification rule that somebody brings: found by name, in a file, in a module, or shipped.

Whatever cannot be examined is told in one plain sentence, a `Trouble`: here what is wrong with
where the rule is, in `lab.watch` what is wrong with how it behaves.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import guest
from lab.verify import RULES, Proposal, Rule, Verdict, Verify, chain_rule

CHAIN = "(target_probs, draft_probs, drafts, dice)"
PROPOSAL = "(target_probs, proposal, dice)"


class Trouble(Exception):
    """A rule that cannot be examined, and why, in one sentence."""


@dataclass(frozen=True)
class UserRule:
    """A rule as it was brought.

    name : as it is shown
    function : what was found
    is_chain : True if it takes (target_probs, draft_probs, drafts, dice) and returns (accepted,
        token); False if it is a `lab.verify.Verify`
    file : where to look for the line of an error, if that is known
    """

    name: str
    function: Callable[..., Any]
    is_chain: bool
    file: str | None = None

    @property
    def verify(self) -> Verify:
        """For the loop, unwatched, but for the time that a call takes."""
        rule = chain_rule(self.function) if self.is_chain else self.function

        def verify(target_probs: Any, proposal: Proposal, dice: Any) -> Verdict:
            with guest.limited(self.name):
                verdict: Verdict = rule(target_probs, proposal, dice)
            return verdict

        return verify


def load(place: str) -> UserRule:
    """The rule at `place`: FILE.py:NAME, package.module:NAME, or the name of a shipped rule.

    A file is run as `python FILE.py` would run it, its folder importable, but under a name of its
    own, not as `__main__`. Four parameters make a chain rule, three a `lab.verify.Verify`.

    Raises
    ------
    Trouble
        Says in one sentence what is wrong, and, where something is missing, what there is.
    """
    if place in RULES:
        return UserRule(place, RULES[place], is_chain=False)
    where, colon, name = place.rpartition(":")
    if not (where and name):
        raise Trouble(_no_place(place.rstrip(":") if colon else place))
    is_file = where.endswith(".py") or "/" in where or "\\" in where
    module = _run_file(where) if is_file else _import(where)
    file = vars(module).get("__file__")
    with _loading(f"{where} cannot give {name}", file):
        found = getattr(module, name, None)
        if found is None and not hasattr(module, name):
            raise Trouble(f"{where} has no {name!r}; {_what_there_is(module)}.")
    with _loading(f"{name} cannot be looked at", file):
        return as_user_rule(found, name, file)


def as_user_rule(found: Any, name: str, file: str | None = None) -> UserRule:
    """An object as a rule, by the parameters it takes."""
    if isinstance(found, Rule):
        return UserRule(name, found, False, file)
    if inspect.isclass(found):
        raise Trouble(f"{name} is a class: name a function, or an instance that can be called.")
    if not callable(found):
        raise Trouble(f"{name} is a {type(found).__name__}, not a function.")
    for function in (found, type(found).__call__):
        if inspect.iscoroutinefunction(function):
            raise Trouble(f"{name} is declared with async: a rule is a plain function.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise Trouble(f"{name} has a yield: a rule returns its answer.")
    return UserRule(name, found, _takes_chain(found, name), file)


# ---- What an exception says -------------------------------------------------------------------


def told(error: BaseException, file: str | None) -> str:
    """What a rule does that ends in an exception: 'raises KeyError: 7 (mine.py, line 7)'."""
    line = line_of(error, file)
    if isinstance(error, guest.OutOfTime):
        return f"{error}{line}"
    if isinstance(error, SystemExit):
        return f"calls sys.exit{line}"
    return f"raises {shown(error)}{line}"


def shown(error: BaseException) -> str:
    """An exception in one line: 'ZeroDivisionError: division by zero'."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own __str__ raises
        text = ""
    text = text if len(text) <= 200 else f"{text[:199]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def line_of(error: BaseException, file: str | None) -> str:
    """' (mine.py, line 7)': the last line of `file` that an exception came through, or else of any
    file that is not the lab's own; '' if there is none."""
    frames = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(error.__traceback__)]
    foreign = [(name, line) for name, line in frames if Path(name).parent != Path(__file__).parent]
    for name, line in reversed([place for place in frames if place[0] == file] or foreign):
        return f" ({Path(name).name}, line {line})"
    return ""


# ---- Finding it -----------------------------------------------------------------------------


def _run_file(where: str) -> types.ModuleType:
    """Run a file as a module. It is compiled here, so nothing is left beside it, and a file that
    was changed a moment ago is never taken from a stale copy."""
    path = Path(where)
    try:
        source = path.read_bytes()
    except FileNotFoundError as error:
        raise Trouble(f"there is no file {where}.") from error
    except OSError as error:
        raise Trouble(f"{where} cannot be read: {error.strerror or shown(error)}.") from error
    module = types.ModuleType(f"speclab_{path.stem}")
    module.__file__ = where
    sys.modules[module.__name__] = module  # dataclasses look it up
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # it stays: a rule may import when it is called
    with _loading(f"{where} cannot be imported", where):
        exec(compile(source, where, "exec"), module.__dict__)
    return module


def _import(where: str) -> types.ModuleType:
    """Import a module; the current folder is importable, as with `python -m`."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    found = None
    with _loading(f"{where} cannot be imported", None):
        try:
            found = importlib.util.find_spec(where)
        except ModuleNotFoundError as error:
            if not f"{where}.".startswith(f"{error.name}."):
                raise  # it is there, and what it imports is not
    if found is None:
        raise Trouble(f"there is no module {where} (a file is given as FILE.py:NAME).")
    with _loading(f"{where} cannot be imported", found.origin):
        return importlib.import_module(where)


@contextmanager
def _loading(what: str, file: str | None) -> Iterator[None]:
    """What goes wrong while a module runs, as a sentence that begins with `what`."""
    try:
        with guest.limited(what, guest.IMPORT_SECONDS):
            yield
    except (Trouble, guest.Interrupted):
        raise
    except SyntaxError as error:
        name = Path(error.filename).name if error.filename else what.partition(" ")[0]
        line = f" in line {error.lineno}" if error.lineno else ""
        raise Trouble(f"{name} is not valid Python: {error.msg}{line}.") from error
    except BaseException as error:
        raise Trouble(f"{what}; it {told(error, file)}.") from error


def _no_place(place: str) -> str:
    if place.endswith(".py"):
        return f"{place}: which function? Say {place}:NAME."
    return f"{place!r} must be FILE.py:NAME, package.module:NAME, or one of {', '.join(RULES)}."


def _what_there_is(module: types.ModuleType) -> str:
    """The functions and rules that a module defines itself."""
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, Rule)
        or (inspect.isfunction(value) and value.__module__ == module.__name__)
    ]
    public = sorted(name for name in names if not name.startswith("_"))
    return f"it has {', '.join(public)}" if public else "it defines no function"


# ---- What it takes --------------------------------------------------------------------------


def _takes_chain(function: Any, name: str) -> bool:
    """Whether it takes the four parameters of a chain rule, or the three of a `Verify`."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise Trouble(f"{name}: its parameters cannot be read; wrap it in a function.") from error
    three, four = _takes(signature, 3), _takes(signature, 4)
    if three and (not four or "proposal" in signature.parameters):
        return False
    if not four:
        raise Trouble(f"{name} takes {signature}: it must take {CHAIN}, or {PROPOSAL}.")
    return True


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
