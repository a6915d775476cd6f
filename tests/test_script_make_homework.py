"""The starters in lectures/homework are what the solved files make of them."""

import pytest
from script_runs import script

from lab.homework.tasks import SETS, starter, tasks


@pytest.fixture
def main():
    return script("make_homework")["main"]


def test_the_committed_starters_are_the_generated_ones(main, capsys):
    assert main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_it_names_what_differs(main, tmp_path, capsys):
    folder = tmp_path / "homework"
    assert main(["--folder", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == [f"{file}.py" for file in SETS]
    (folder / "set2_sampling.py").write_text("")
    (folder / "set3_cache.py").unlink()
    (folder / "set9_more.py").write_text("")
    assert main(["--check", "--folder", str(folder)]) == 1
    names = "set2_sampling.py, set3_cache.py, set9_more.py"
    assert capsys.readouterr().err == f"differ from lab/homework/reference: {names}\n"
    assert not (folder / "set3_cache.py").exists()


@pytest.mark.parametrize("file", SETS)
def test_a_starter_keeps_signatures_and_docstrings_and_nothing_of_the_bodies(file):
    source = starter(file)
    mine = [task for task in tasks().values() if task.file == file]
    assert source.count("raise NotImplementedError(") == len(mine) > 3
    for task in mine:
        assert f"def {task.function}(" in source
        assert f"Task {task.number}: {task.title}" in source
    compile(source, file, "exec")
