"""Somebody else's code: what it prints, how long it may take, and that Ctrl-C stays the user's."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from lab import guest
from lab.guest import Interrupted, OutOfTime, aside, limited


def test_whatever_way_it_prints_it_goes_to_stderr(capfd):
    print("before")
    with aside():
        print("print")
        os.write(1, b"descriptor\n")
        sys.__stdout__.write("dunder\n")  # flushed by nobody
        kept = logging.StreamHandler(sys.stdout)
        sys.stdout.close()
    print("between")
    with aside():
        kept.stream = sys.stdout
        kept.handle(logging.makeLogRecord({"msg": "kept"}))
        print("again")
    kept.stream.write("late\n")  # a stream that it keeps is still one
    out, err = capfd.readouterr()
    assert out == "before\nbetween\n"
    assert set(err.split()) == {"print", "descriptor", "dunder", "kept", "again", "late"}


def test_streams_come_back_after_an_exception(capfd):
    streams = sys.stdout, sys.stderr
    with pytest.raises(ZeroDivisionError), aside():
        print(1 // 0)
    assert (sys.stdout, sys.stderr) == streams
    print("here")
    assert capfd.readouterr().out == "here\n"


def spin():
    while True:
        pass


def swallow():
    try:
        spin()
    except BaseException:
        return


@pytest.mark.parametrize("code", [spin, swallow])
def test_the_time_limit_is_not_swallowed(code):
    handlers = signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT)
    with pytest.raises(OutOfTime, match=r"does not come back within 0\.05 s"), limited("it", 0.05):
        code()
    assert (signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT)) == handlers
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_ctrl_c_is_told_from_an_exception_of_the_code():
    with pytest.raises(Interrupted), limited("it"):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(Interrupted), limited("it"), contextlib.suppress(BaseException):
        signal.raise_signal(signal.SIGINT)  # and swallowed
    with pytest.raises(KeyboardInterrupt) as raised, limited("it"):
        raise KeyboardInterrupt
    assert not isinstance(raised.value, Interrupted)


def test_outside_the_main_thread_nothing_is_limited():
    done = []

    def run():
        with limited("it", 1e-6):
            time.sleep(0.01)
            done.append(1)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [1]


ENDLESS = """
import time
from lab.guest import limited
with limited("it", 0.05):
    while True:
        try:
            while True:
                time.sleep(9)
        except BaseException:
            pass
"""


def test_code_that_catches_the_end_without_end_is_ended_with_the_program():
    child = subprocess.run(
        [sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    if "OutOfTime" not in child.stderr:  # it is caught wherever it is raised, but between the lines
        assert child.returncode == guest.CANNOT
        assert child.stderr.startswith("it does not come back within 0.05 s, whatever is done")
