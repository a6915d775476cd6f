"""The process that a student's file runs in: `python -m lab.homework.worker FILE SEED TASK...`

It says what it is doing, one JSON object a line, on a channel that nothing else can write to: what
the student's code prints goes nowhere. Whoever listens knows, when the lines stop, where it hangs
or died (`lab.homework.process`).

    {"event": "loading"}                                 from here on it is the student's code
    {"event": "broken", "sentence": .., "trace": ..}     the file cannot be imported; the end
    {"event": "loaded", "printed": ..}                   its first line of output, if there is any
    {"event": "started", "task": "2.3", "check": ..}
    {"event": "ended", "task": "2.3", "check": .., "state": .., "sentence": .., "trace": ..}
    {"event": "finished"}
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import lab.homework.checks  # noqa: F401  (registers the checks)
from lab.homework.checking import CHECKS, Check, Outcome, outcome, own_frames, told
from lab.homework.student import NotLoaded, alone, load, trace_of
from lab.homework.tasks import tasks

MEMORY = 2 * 1024**3  # bytes of address space

Say = Callable[..., None]


def main(argv: Sequence[str]) -> NoReturn:
    """Run all checks of some tasks of one file, then leave, whatever the file has left running."""
    file, seed, *numbers = argv
    path = Path(os.path.abspath(file))  # as it is named here, even if it is a link
    say = _channel()
    _end_with_parent()
    _limit_memory()
    sys.dont_write_bytecode = True
    sys.path.append(str(path.parent))  # last: a file named random.py is nobody else's
    say(event="loading")
    try:
        module, printed = load(path)
    except NotLoaded as trouble:
        say(event="broken", sentence=str(trouble), trace=trace_of(trouble, path))
        os._exit(0)
    say(event="loaded", printed=printed)
    for number in numbers:
        with alone(module, number):
            for one in CHECKS.get(number, []):
                say(event="started", task=number, check=one.name)
                say(event="ended", **asdict(_outcome(one, module, int(seed))))
    say(event="finished")
    os._exit(0)


def _outcome(one: Check, module: Any, seed: int) -> Outcome:
    """What becomes of a check; no exception ends the worker, whatever it is."""
    try:
        return outcome(one, module, seed)
    except BaseException as error:
        sentence = f"{tasks()[one.task].function} raised {told(error)}: a function only returns"
        trace = own_frames(error, module.__file__)
        return Outcome(one.task, one.name, "failed", sentence, trace)


def _channel() -> Say:
    """Take stdout for oneself; what is printed from here on goes nowhere."""
    owner = os.getpid()
    stream = open(os.dup(1), "w", encoding="utf-8", buffering=1)  # noqa: SIM115
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)

    def say(**event: Any) -> None:
        if os.getpid() != owner:  # a fork by the student's code
            os._exit(0)
        stream.write(json.dumps(event) + "\n")

    return say


def _end_with_parent() -> None:
    """Once nobody listens, stdin is at its end; a student's code finds none."""
    line = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def watch() -> None:
        os.read(line, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _limit_memory() -> None:
    """A list that grows without end is to end with a MemoryError, not with the machine."""
    with suppress(ImportError, ValueError, OSError):  # where the system can do that
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    main(sys.argv[1:])
