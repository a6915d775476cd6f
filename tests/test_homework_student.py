"""A student's file: what is said where it cannot be imported, and one task by itself."""

import re

import numpy as np
import pytest
from homework_edits import loaded, outcomes
from homework_folders import fresh, put_first, solved, write

from lab.homework.student import NotLoaded, alone, load, trace_of
from lab.homework.tasks import reference_source

TRIALS = "what you try out goes behind"
BROKEN = {
    "def f(:": r"is not Python yet: invalid syntax, line 2 \(def f\(:\)",
    "if True:": r"is not Python yet: expected an indented block .*, line 2",
    "x = '\0'": r"is not Python yet: source code .*null bytes",
    "x = 'ä": r"is not Python yet: unterminated string literal .*, line 2",
    "import nowhere_at_all": r"cannot be imported: No module named 'nowhere_at_all', line 2; NumPy",
    "from numpy import nothing": r"cannot be imported: cannot import name 'nothing' .*, line 2; N",
    "raise NotImplementedError('task 1.2')": rf"uses task 1.2 while .* line 2, before .*: {TRIALS}",
    "import sys; sys.exit(0)": rf"calls sys.exit while it is imported, line 2: {TRIALS}",
    "1 / 0": rf"raises ZeroDivisionError: division by zero while it is imported, line 2: {TRIALS}",
    "open('nowhere')": r"raises FileNotFoundError: .*nowhere.* while it is imported, line 2",
    "raise KeyboardInterrupt": r"raises KeyboardInterrupt while it is imported, line 2",
}


@pytest.mark.parametrize("line", BROKEN)
def test_what_cannot_be_imported(line, tmp_path):
    path = tmp_path / "set1_theory.py"
    path.write_text(f'"""Docstring."""\n{line}\n', encoding="utf-8")
    with pytest.raises(NotLoaded) as told:
        load(path)
    assert re.match("set1_theory.py " + BROKEN[line], str(told.value))
    assert "\n" not in str(told.value)
    assert str(told.value.__cause__).partition("\n")[0][:20] in trace_of(told.value, path)


def test_where_there_is_no_file(tmp_path):
    with pytest.raises(NotLoaded) as told:
        load(tmp_path / "set3_cache.py")
    assert str(told.value) == "set3_cache.py is missing: `speclab hw reset 3` brings it back"
    (tmp_path / "set3_cache.py").mkdir()
    with pytest.raises(NotLoaded, match=r"^set3_cache.py cannot be read: Is a directory$"):
        load(tmp_path / "set3_cache.py")


def test_what_is_printed_and_an_old_version_that_is_forgotten(tmp_path):
    path = tmp_path / "set1_theory.py"
    for value in (1, 2):  # the same size within the same second
        path.write_text(f"print('one', {value})\nprint('two')\nx = {value}\n")
        module, printed = load(path)
        assert (module.x, printed) == (value, f"one {value}")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_all_other_tasks_are_solved_while_one_is_looked_at(tmp_path):
    folder = fresh(tmp_path)
    write(folder, "1.3", "global calls", "calls = 1", "return expected_tokens(alpha, gamma)")
    module, _ = load(folder / "set1_theory.py")
    with alone(module, "1.3"):
        assert module.ops_factor(0.5, 1, 0) == 1.5
        assert module.calls == 1
    with alone(module, "1.2"), pytest.raises(NotImplementedError, match=r"task 1\.2"):
        module.expected_tokens(0.5, 1)
    assert not hasattr(module, "calls")  # what a task leaves behind goes with it
    with pytest.raises(NotImplementedError, match=r"task 1\.2"):
        module.ops_factor(0.5, 1, 0)


def test_what_a_file_or_a_task_does_to_numpy_and_the_builtins_is_undone(tmp_path):
    """Names that nothing here needs, should it not be undone."""
    folder = fresh(tmp_path)
    put_first(folder, "set1_theory", "import builtins", "np.kaiser = None", "del np.hanning")
    write(folder, "1.1", "np.hamming = builtins.breakpoint = None", "return 0.0")
    before = np.kaiser, np.hanning, np.hamming, breakpoint
    module, _ = load(folder / "set1_theory.py")
    with alone(module, "1.1"):
        module.acceptance(None, None)
    assert (np.kaiser, np.hanning, np.hamming, breakpoint) == before


def test_numpys_errors_are_the_students_own(tmp_path):
    """np.seterr at the top of a file changes nothing of how the checks reckon."""
    with np.errstate():
        module = loaded(f"{reference_source('set2_sampling')}\nnp.seterr(all='raise')\n", "strict")
        assert {one.state for one in outcomes(module, "2.1", 0)} == {"passed"}


def test_a_function_that_is_gone_stays_so_when_it_is_looked_at(tmp_path):
    folder = solved(tmp_path)
    path = folder / "set1_theory.py"
    path.write_text(path.read_text() + "\ndel acceptance\n")
    module, _ = load(path)
    with alone(module, "1.1"):
        assert not hasattr(module, "acceptance")
    with alone(module, "1.2"):
        assert callable(module.acceptance)
    assert not hasattr(module, "acceptance")
