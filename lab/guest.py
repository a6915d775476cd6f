"""Somebody else's code while it runs: it may not stay for ever, nor print into a report.

Time is limited where the system can do it (Unix, main thread); elsewhere the code just runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

SECONDS = 10.0  # of one call of a rule
IMPORT_SECONDS = 60.0  # of a module, with all that it imports
SWALLOWED = 20  # times that code may catch the end of its time; then the program ends
CANNOT = 2  # the exit code of a rule that cannot be examined


class OutOfTime(BaseException):
    """No `Exception`, so that the code's own `except Exception` lets it through."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, and not a KeyboardInterrupt that the code raised itself."""


@contextmanager
def limited(name: str, seconds: float | None = None) -> Iterator[None]:
    """Run somebody's code for `SECONDS` at most, or as many as are given.

    Raises
    ------
    OutOfTime, Interrupted
        Even if the code has caught them. Code that catches them without end is ended with the
        program, after a sentence on stderr: no exception can leave it.
    """
    seconds = SECONDS if seconds is None else seconds
    if not hasattr(signal, "setitimer") or (
        threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    raised: list[BaseException] = []

    def stop(*_: Any) -> NoReturn:
        if len(raised) == SWALLOWED:
            _leave(f"{name} does not come back within {seconds:g} s, whatever is done to stop it.")
        raised.append(OutOfTime(f"does not come back within {seconds:g} s"))
        raise raised[0]

    def interrupt(*_: Any) -> NoReturn:
        raised.append(Interrupted())
        raise raised[-1]

    handlers: dict[int, Callable[..., Any]] = {signal.SIGALRM: stop}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it has other plans
        handlers[signal.SIGINT] = interrupt
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds / 10)  # again, if it is caught
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        if raised:
            raise raised[0]


@contextmanager
def aside() -> Iterator[None]:
    """What is printed meanwhile goes to stderr, by `print` or past it: stdout is the report's."""
    streams = sys.stdout, sys.stderr
    streams[0].flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    sys.stdout, sys.stderr = _own_stream("stdout"), _own_stream("stderr")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for stream in (*_streams.values(), sys.__stdout__):
            with contextlib.suppress(ValueError, OSError, AttributeError):  # closed, or none
                stream.flush()  # type: ignore[union-attr]
        os.dup2(stdout, 1)
        os.close(stdout)


_streams: dict[str, TextIO] = {}


def _own_stream(name: str) -> TextIO:
    """A stream to stderr that the code may keep, or close."""
    if name not in _streams or _streams[name].closed:
        _streams[name] = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    return _streams[name]


def _leave(sentence: str) -> NoReturn:
    os.write(2, f"{sentence}\n".encode())
    os._exit(CANNOT)
