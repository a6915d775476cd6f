"""Many folders: a row for each in their order, whatever is wrong with some of them."""

import json
import re

import pytest
from homework_folders import fresh, put_first, solved, write

from lab.homework.grading import grade
from lab.homework.tasks import SETS, tasks


def test_folders_of_all_kinds_are_graded_in_their_order(tmp_path):
    right = solved(tmp_path / "right")
    some = fresh(tmp_path / "some")
    write(some, "1.1", "return 2.0")
    write(some, "1.2", "return 2.0")
    (some / "set2_sampling.py").unlink()
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "file").write_text("")
    folders = [tmp_path / "nowhere", some, empty, right, tmp_path / "file"]
    heard = []
    file = tmp_path / "grades.json"
    grades = grade(folders, file=file, told=heard.append)
    assert [one.folder for one in grades] == folders
    assert [one.done() for one in grades] == [None, 0, None, 26, None]
    assert sum(grades[3].done(file) for file in SETS) == 26
    for one, remark in zip(
        grades,
        [
            "there is no such folder$",
            r"1\.1: acceptance\(.* gave 2, expected .* \(and 6 more to fix\)$",
            r"no homework folder: it has no set1_theory.py, nor another$",
            "$",
            "is a file$",
        ],
        strict=True,
    ):
        assert re.match(remark, one.remark)
    assert heard == [1, 2, 3, 4, 5]
    written = json.loads(file.read_text())
    assert written["graded"] == written["of"] == 5
    assert written["folders"] == [one.record() for one in grades]
    assert [one["task"] for one in written["folders"][3]["tasks"]] == list(tasks())


def test_the_file_is_whole_at_any_time(tmp_path):
    file = tmp_path / "grades.json"
    seen = []

    def told(graded):
        seen.append(json.loads(file.read_text())["graded"])
        assert [one.name for one in tmp_path.iterdir()] == [file.name]

    grade([tmp_path / "a", tmp_path / "b", tmp_path / "c"], file=file, workers=1, told=told)
    assert seen == [1, 2, 3]


def test_a_file_that_cannot_be_written_is_told_before_anything_runs(tmp_path):
    with pytest.raises(FileNotFoundError):
        grade([tmp_path], file=tmp_path / "nowhere" / "grades.json", told=pytest.fail)


@pytest.mark.slow
def test_thirty_folders_of_which_three_are_broken(tmp_path):
    """A syntax error, an endless loop, a killed process: 30 rows, 27 of them full."""
    folders = [solved(tmp_path / f"student{i}") for i in range(30)]
    put_first(folders[3], "set2_sampling", "def f(:")
    for number, lines in (
        ("4.1", ["while True:", "    pass"]),
        ("5.5", ["import os", "os.abort()"]),
    ):
        folder = folders[11 if number == "4.1" else 29]
        file = tasks()[number].file
        (folder / f"{file}.py").unlink()
        (fresh(tmp_path / number) / f"{file}.py").rename(folder / f"{file}.py")
        write(folder, number, *lines)
    file = tmp_path / "grades.json"
    grades = grade(folders, limit=1.0, file=file)
    assert [one.done() for one in grades] == [26] * 3 + [21] + [26] * 7 + [20] + [26] * 17 + [20]
    remarks = {i: one.remark for i, one in enumerate(grades) if one.remark}
    assert list(remarks) == [3, 11, 29]
    assert remarks[3].startswith("2.1: set2_sampling.py is not Python yet: invalid syntax, line ")
    assert remarks[11].startswith("4.1: drafts_allowed did not end within 1 s: ")
    assert remarks[29].startswith("5.5: forward_cost ended its process (SIGABRT): ")
    assert len(json.loads(file.read_text())["folders"]) == 30
