"""A worker as its parent has it: what it says, how long that may take, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lab
from lab.guest import Interrupted

START_SECONDS = 60.0  # until a worker is there, on a machine that has much else to do
LAST_WORDS = ("finished", "broken")
LEAVING = 0.3  # seconds that a worker may still need to end once its channel is closed
POLL = 0.1  # seconds after which a waiting thread sees that it is to stop


class Silent(Exception):
    """A worker that says nothing within the time it has."""


class Ended(Exception):
    """A worker that is gone before it had finished; the text says how, from its exit code."""

    def __init__(self, code: int) -> None:
        how, self.question = f"exit code {code}", "a function returns, it does not end the program"
        if code < 0:
            with contextlib.suppress(ValueError):  # a signal without a name
                how = signal.Signals(-code).name
            self.question = "did it use up the memory, or call itself without end?"
        super().__init__(how)


class Process:
    """A worker on one file, ended with all that it started when the `with` block is left."""

    def __init__(
        self, path: Path, seed: int, numbers: Sequence[str], stop: threading.Event
    ) -> None:
        self._stop = stop
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "lab.homework.worker", str(path), str(seed), *numbers],
            stdin=subprocess.PIPE,  # closed when this process ends, even if it is killed
            stdout=subprocess.PIPE,
            encoding="utf-8",
            cwd=path.parent,
            env=os.environ | {"PYTHONPATH": _search_path(), "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # its children end with it
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def events(self, seconds: float) -> Iterator[dict[str, Any]]:
        """What the worker says, up to its last word.

        Raises
        ------
        Silent, Ended
            It says nothing for so many seconds; it is gone.
        OSError
            One of these before it has loaded the lab: not the student's fault.
        Interrupted
            Somebody has set the event `stop`.
        """
        try:
            event = self._event(START_SECONDS)
        except (Silent, Ended) as trouble:
            raise OSError("a worker process did not start") from trouble
        yield dict(event)
        while event["event"] not in LAST_WORDS:
            event = self._event(seconds)
            yield dict(event)

    def _event(self, seconds: float) -> dict[str, Any]:
        last = time.monotonic() + seconds
        while not self._stop.is_set():
            try:
                line = self._lines.get(timeout=min(POLL, max(0.0, last - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= last:
                    raise Silent from None
                continue
            if line is None:
                self._stop.wait(LEAVING)
                raise Ended(self._end())
            with contextlib.suppress(ValueError):
                said: dict[str, Any] = json.loads(line)
                return said
        raise Interrupted

    def _read(self) -> None:
        assert self._child.stdout is not None
        with self._child.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def _end(self) -> int:
        """End it and its children, unless it has ended -> its exit code. One that is on its way out
        keeps the code it has."""
        if self._child.returncode is None:
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._child.pid, signal.SIGKILL)
            self._child.kill()
            assert self._child.stdin is not None
            self._child.stdin.close()
        return self._child.wait()


def _search_path() -> str:
    """The lab as it is imported here, then what there was."""
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [Path(lab.__file__).parents[1], *(Path(path).resolve() for path in before if path)]
    return os.pathsep.join(map(str, paths))
