"""A student's folder: made only where there is room, and nothing in it is ever lost."""

import json
import os
import re
from pathlib import Path

import pytest
from homework_folders import fresh, solved, write

from lab.homework.folder import Marker, hint, init, line_of, reset
from lab.homework.hints import HINTS
from lab.homework.tasks import SETS, starter, tasks


def test_a_new_folder(tmp_path):
    folder = tmp_path / "deep" / "hw"
    init(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["README.md", "homework.json", *(f"{file}.py" for file in SETS)]
    )
    for file in SETS:
        assert (folder / f"{file}.py").read_text(encoding="utf-8") == starter(file)
    assert set(json.loads((folder / "homework.json").read_text())) == {"lab", "hints"}


def test_only_where_there_is_room(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r" is not empty: homework wants a folder of its own\.$"):
        init(tmp_path)
    with pytest.raises(ValueError, match=r" is a file: homework wants a folder of its own\.$"):
        init(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_elsewhere_is_no_homework(tmp_path):
    with pytest.raises(ValueError, match=r"is no homework folder: `speclab hw init DIR` makes one"):
        Marker.of(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"hints": []}', '{"hints": {"1.1": "a"}}', "{1}"])
def test_a_damaged_marker(text, tmp_path):
    (tmp_path / "homework.json").write_text(text)
    with pytest.raises(ValueError, match=r"homework.json is damaged: a file with {\"hints\": {}}"):
        Marker.of(tmp_path)
    (tmp_path / "homework.json").write_text('{"hints": {}}')
    assert Marker.of(tmp_path) == Marker()


def test_hints_come_one_by_one_and_are_counted(tmp_path):
    folder = fresh(tmp_path)
    assert hint(folder, "1.2") == (1, HINTS["1.2"].question)
    assert [hint(folder, "2.3") for _ in range(4)] == [
        (1, HINTS["2.3"].question), (2, HINTS["2.3"].invariant),
        (3, HINTS["2.3"].steps), (3, HINTS["2.3"].steps),
    ]  # fmt: skip
    assert Marker.of(folder).hints == {"1.2": 1, "2.3": 3}


def test_three_hints_for_every_task_each_of_its_kind():
    assert list(HINTS) == list(tasks())
    texts = [text for hints in HINTS.values() for text in hints]
    assert len(texts) == len(set(texts)) == 3 * 26
    for number, hints in HINTS.items():
        assert "?" in hints.question, number
        assert "?" not in hints.steps, number
        assert all(text[-1] in ".?" for text in hints)
        assert not re.search(r"\breturn [a-z_]+\(|\bdef |\blambda\b| = np\.", " ".join(hints))


# ---- reset ------------------------------------------------------------------------------------


def test_a_function_is_put_back_and_the_file_kept(tmp_path):
    folder = fresh(tmp_path)
    path = folder / "set2_sampling.py"
    write(folder, "2.3", "return 1.0")
    write(folder, "2.4", "return target_probs")
    before = path.read_text()
    kept = reset(folder, "2.3")
    assert kept.read_text() == before
    assert kept.parent == folder / "backups"
    after = path.read_text()
    assert after == before.replace("return 1.0", 'raise NotImplementedError("task 2.3")')
    again = reset(folder, "2.4")
    assert path.read_text() == starter("set2_sampling")
    assert again.read_text() == after
    assert kept.read_text() == before


@pytest.mark.parametrize("number", tasks())
def test_every_function_can_be_put_back(number, tmp_path):
    folder = solved(tmp_path)
    file = tasks()[number].file
    for other in tasks().values():
        if other.file == file and other.number != number:
            reset(folder, other.number)
    path = folder / f"{file}.py"
    assert path.read_text() != starter(file)
    reset(folder, number)
    assert path.read_text() == starter(file)


ODD = {
    "decorated and twice": "@property\ndef residual(a):\n    return 1\n\n\ndef residual(a): 2\n",
    "gone": "",
    "no newline at the end": "x = 1",
    "another docstring": 'def residual(p, q):\n    """Mine."""\n    return p\n',
    "a form feed": "x = 1\n\x0c\ndef residual(p, q): return p\n",
    "a lambda": "residual = lambda p, q: p\n",
}


@pytest.mark.parametrize("case", ODD)
def test_however_it_stands_in_the_file(case, tmp_path):
    folder = fresh(tmp_path)
    path = folder / "set2_sampling.py"
    path.write_text(ODD[case])
    reset(folder, "2.4")
    source = path.read_text()
    assert source.count("def residual") == 1
    names = {}
    exec(source, names)
    with pytest.raises(NotImplementedError, match=r"^task 2\.4$"):
        names["residual"](None, None)
    assert ("x" in names) == ("x = 1" in ODD[case])


def test_what_is_not_python_is_put_back_as_a_whole(tmp_path):
    folder = fresh(tmp_path)
    path = folder / "set3_cache.py"
    path.write_text("def f(:\n")
    with pytest.raises(ValueError, match=r"^set3_cache.py is not Python yet, line 1, .* reset 3` "):
        reset(folder, "3.1")
    assert path.read_text() == "def f(:\n"
    assert not (folder / "backups").exists()
    assert reset(folder, "3").read_text() == "def f(:\n"
    assert path.read_text() == starter("set3_cache")
    path.write_bytes("# é\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"^set3_cache.py is not Python yet, so .* reset 3` "):
        reset(folder, "3.1")


@pytest.mark.parametrize("number", ["3", "3.2"])
def test_a_missing_file_comes_back(number, tmp_path):
    folder = fresh(tmp_path)
    (folder / "set3_cache.py").unlink()
    assert reset(folder, number) is None
    assert (folder / "set3_cache.py").read_text() == starter("set3_cache")


def test_where_a_function_stands(tmp_path):
    folder = fresh(tmp_path)
    line = line_of(folder, tasks()["3.2"])
    text = Path(folder / "set3_cache.py").read_text().splitlines()
    assert text[line - 1].startswith("def attend(")
    (folder / "set3_cache.py").write_text("x = 1\n")
    assert line_of(folder, tasks()["3.2"]) is None
    (folder / "set3_cache.py").write_text("x = (\n")
    assert line_of(folder, tasks()["3.2"]) is None
    (folder / "set3_cache.py").unlink()
    os.mkfifo(folder / "set3_cache.py")  # nobody will ever write into it
    assert line_of(folder, tasks()["3.2"]) is None
