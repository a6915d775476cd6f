"""Whatever a student's code does, its task gets a state and a sentence, and no other task pays."""

import re
import subprocess
import sys
import threading

import pytest
from homework_folders import fresh, put_first, solved, write

from lab.guest import Interrupted
from lab.homework.checking import CHECKS
from lab.homework.running import DONE, TO_DO, TO_FIX, Result, examine
from lab.homework.tasks import tasks

LINUX = sys.platform.startswith("linux")
BODIES = {  # of a task: what a student writes, and what the sentence says
    "1.1": (["while True:", "    pass"], r"acceptance did not end within 0.7 s: is there a loop"),
    "1.2": (["import os", "os._exit(3)"], r"expected_tokens ended its process \(exit code 3\): a "),
    "1.3": (["return ops_factor(alpha, gamma, c_hat)"], r"ops_factor\(alpha=.*raised RecursionErr"),
    "1.4": (
        ["print('hi')", "return 1.0"],
        r"walltime_speedup\(alpha=.*prints \('hi'\): a function",
    ),
    "1.5": (["pass"], r"best_gamma\(alpha=.* returned None, expected .*is there a return\?"),
    "2.1": (["raise KeyboardInterrupt"], r"temperature_law raised KeyboardInterrupt"),
    "2.2": (["probs[0] = 1", "return probs"], r"top_p_law\(.* changed its argument probs to \[1, "),
    "2.3": (["import sys", "sys.exit('0')"], r"accept_probability\(.* calls sys.exit: a function"),
    "2.4": (["return np.ones(7)"], r"residual\(.* has shape \(7,\), expected \(\d,\): only tokens"),
    "2.5": (["import os", "os.kill(os.getpid(), 9)"], r"verify ended its process \(SIGKILL\): did"),
    "3.1": (["return [0] * 10**9"], r"append\(.* raised MemoryError"),
    "3.2": (["import threading", "threading.Event().wait()"], r"attend did not end within 0.7 s"),
    "3.4": (["return iter([])"], r"forward\(.* came as list_iterator, expected \[\["),
    "4.1": (
        ["import os", "os.fork()", "return -1"],
        r"drafts_allowed\(.* gave -1, expected 1: gamma",
    ),
    "4.2": (["import sys", "sys.stdout.close()"], r"propose\(.* returned None, expected "),
    "4.3": (
        ["import os, time", "os.closerange(3, 99)", "time.sleep(0.1)", "os._exit(3)"],
        r"score ended its process \(exit code 3\): a function returns",
    ),
    "3.3": (["if length == 0:", "    raise NotImplementedError('task 3.3')"], "."),
}


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """All of these at once; 4.4 and what is behind it are as they were."""
    folder = fresh(tmp_path_factory.mktemp("troubled"))
    for number, (lines, _) in BODIES.items():
        write(folder, number, *lines)
    return {one.task.number: one for one in examine(folder, limit=0.7).results}


@pytest.mark.parametrize("number", BODIES)
def test_every_trouble_is_a_sentence(number, troubled):
    if number == "3.1" and not LINUX:
        pytest.skip("memory is not limited here")
    found = troubled[number]
    assert found.state == TO_FIX
    assert found.passed < found.checks == len(CHECKS[number])
    assert re.match(BODIES[number][1], found.sentence)


def test_what_is_not_written_is_to_do_beside_them(troubled):
    assert list(troubled) == list(tasks())
    rest = [one for number, one in troubled.items() if number not in BODIES]
    assert {one.state for one in rest} == {TO_DO}
    assert {one.sentence for one in rest} == {""}


def test_a_check_that_hung_is_not_followed_by_others(troubled):
    assert len(troubled["1.1"].outcomes) == 1
    assert len(troubled["1.4"].outcomes) == len(CHECKS["1.4"]) > 1


def test_no_check_is_counted_twice(troubled):
    """Not even where the code forks."""
    for one in troubled.values():
        names = [outcome.check for outcome in one.outcomes]
        assert len(names) == len(set(names))


def test_links_that_lead_nowhere_cost_their_own_file(tmp_path):
    folder = fresh(tmp_path)
    for file, to in (("set1_theory", "set1_theory.py"), ("set2_sampling", "nowhere")):
        (folder / f"{file}.py").unlink()
        (folder / f"{file}.py").symlink_to(to)
    first, second = examine(folder, ["1.1", "2.1"]).results
    assert re.match(r"set1_theory\.py cannot be read: .*symbolic links", first.sentence)
    assert second.sentence == "set2_sampling.py is missing: `speclab hw reset 2` brings it back"


def test_a_folder_in_which_no_worker_starts_stops_no_other(tmp_path):
    """The event belongs to all folders that are graded."""
    stop = threading.Event()
    with pytest.raises(OSError, match="No such file"):
        examine(tmp_path / "nowhere", ["1.1"], stop=stop)
    assert not stop.is_set()


def test_all_of_a_fresh_copy_is_to_do(tmp_path):
    found = examine(fresh(tmp_path))
    assert [one.task.number for one in found.results] == list(tasks())
    assert {(one.state, one.passed) for one in found.results} == {(TO_DO, 0)}
    assert {outcome.state for one in found.results for outcome in one.outcomes} == {"unwritten"}
    assert found.done == 0


def test_all_of_the_reference_is_done(tmp_path):
    found = examine(solved(tmp_path), seed=7)
    assert [one.state for one in found.results] == [DONE] * 26
    assert found.done == len(tasks()) == 26
    assert all(one.passed == one.checks > 1 for one in found.results)
    assert found.remarks == ()


def test_a_wrong_earlier_task_leaves_the_later_ones_green(tmp_path):
    folder = solved(tmp_path)
    path = folder / "set1_theory.py"
    right = "return gamma + 1.0"
    source = path.read_text()
    assert source.count(right) == 1
    path.write_text(source.replace(right, "return gamma"))
    states = {one.task.number: one.state for one in examine(folder, ["1.2", "1.3", "1.4"]).results}
    assert states == {"1.2": TO_FIX, "1.3": DONE, "1.4": DONE}


def test_the_seed_changes_the_inputs_and_nothing_else(tmp_path):
    folder = fresh(tmp_path)
    write(folder, "1.1", "return 2.0")
    one, other = (examine(folder, ["1.1"], seed=seed).results[0] for seed in (0, 1))
    assert one.sentence != other.sentence
    assert [o.state for o in one.outcomes] == [o.state for o in other.outcomes]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("while True: pass", "set5_drafts.py did not end within 0.5 s while it was imported: is "),
        ("import os; os._exit(0)", "set5_drafts.py ended its process (exit code 0) while it was "),
    ],
)
def test_a_file_that_cannot_be_imported_is_one_sentence_for_its_tasks(line, sentence, tmp_path):
    folder = fresh(tmp_path)
    put_first(folder, "set5_drafts", line)
    found = examine(folder, ["4.1", "5.1", "5.2"], limit=0.5).results
    assert [one.state for one in found] == [TO_DO, TO_FIX, TO_FIX]
    assert found[1].sentence == found[2].sentence
    assert found[1].sentence.startswith(sentence)


def test_a_file_that_prints_or_leaves_things_running_is_checked_all_the_same(tmp_path):
    folder = solved(tmp_path)
    put_first(
        folder, "set4_loop", "import os, threading", "print('first')", "os.write(1, b'{}\\n')",
        "threading.Thread(target=threading.Event().wait).start()",
    )  # fmt: skip
    found = examine(folder, ["4.1"])
    assert found.done == 1
    (remark,) = found.remarks
    assert remark.startswith("set4_loop.py prints while it is imported ('first'): what you try out")


def test_neighbours_can_be_imported_and_hide_nothing_of_the_library(tmp_path):
    folder = fresh(tmp_path)
    (folder / "mine.py").write_text("HALF = 0.5\n")
    (folder / "random.py").write_text("raise SystemExit\n")
    (folder / "lab.py").write_text("raise SystemExit\n")
    put_first(folder, "set1_theory", "import random", "import mine")
    write(
        folder, "1.1", "return mine.HALF * 2 * float(np.minimum(target_probs, draft_probs).sum())"
    )
    assert examine(folder, ["1.1"]).done == 1
    assert not list(folder.rglob("__pycache__"))


def test_somebody_who_waits_no_longer_is_heard(tmp_path):
    folder = fresh(tmp_path)
    write(folder, "1.1", "while True: pass")
    stop = threading.Event()
    threading.Timer(0.4, stop.set).start()
    with pytest.raises(Interrupted):
        examine(folder, ["1.1"], limit=60.0, stop=stop)


def test_a_worker_ends_with_its_parent(tmp_path):
    folder = fresh(tmp_path)
    write(folder, "1.1", "while True: pass")
    command = [sys.executable, "-m", "lab.homework.worker", folder / "set1_theory.py", "0", "1.1"]
    with subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert [worker.stdout.readline()[:11] for _ in range(3)] == ['{"event": "'] * 3
        worker.stdin.close()  # as the system does it when the parent is gone
        assert worker.wait(60) == 1


def test_a_task_without_any_outcome_is_not_done():
    assert Result(tasks()["1.1"], ()).state == TO_DO
