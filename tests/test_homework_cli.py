"""`speclab hw`: what is printed, exit codes, and plain sentences for what cannot be."""

import json
import re
from pathlib import Path

import pytest
from homework_folders import fresh, put_first, write

from lab import cli
from lab.homework.cli import VERBS, spelled_out
from lab.homework.tasks import SETS, tasks

WIDTH = 100
README = Path(__file__).parents[1] / "lectures" / "homework" / "README.md"


@pytest.fixture
def hw(capfd):
    """Run the command -> exit code, stdout, stderr."""

    def hw(*options):
        code = cli.main(["hw", *map(str, options)])
        return code, *capfd.readouterr()

    return hw


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A fresh folder, and in it."""
    monkeypatch.chdir(fresh(tmp_path / "hw"))
    return tmp_path / "hw"


def values(out, key):
    (part,) = [part for part in json.loads(out)["parts"] if part.get("table") == key]
    return part["values"]


def test_the_readme_from_the_first_line_to_the_first_green_task(hw, tmp_path, monkeypatch):
    """What it says to type is typed, and what it shows is printed."""
    text = README.read_text(encoding="utf-8")
    assert "\n    speclab hw init ~/hw\n    cd ~/hw\n" in text
    assert hw("init", tmp_path / "hw")[0] == 0
    monkeypatch.chdir(tmp_path / "hw")
    old, new = re.search(
        r"replace the line\n\n    (.*)\n\nby this one:\n\n    (.*)\n", text
    ).groups()
    path = Path("set1_theory.py")
    source = path.read_text()
    assert source.count(old) == 1
    path.write_text(source.replace(old, new))
    shown = re.search(r"```console\n\$ speclab hw 1\.1\n(.*?)```", text, re.DOTALL)[1]
    code, out, err = hw("1.1")
    assert (code, err) == (0, "")
    assert out.startswith(shown)
    assert re.search(r"\nDone: `speclab hw show 1\.1` shows .* 1\.2 is next\.\n$", out)


def test_a_folder_is_named_as_a_shell_takes_it(hw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, out, _ = hw("init", "my work")
    assert "`cd 'my work'`" in " ".join(out.split())


def test_the_readme_names_every_verb_and_every_set():
    text = README.read_text(encoding="utf-8")
    assert all(f"speclab hw {verb}" in text for verb in set(VERBS) - {"check"})
    assert all((README.parent / link).exists() for link in re.findall(r"\]\(([^)]+)\)", text))
    assert re.findall(r"\]\((set\d_\w+)\.py\)", text) == list(SETS)
    assert len(tasks()) == 26
    assert text.startswith("# Homework: build speculative decoding\n\nTwenty-six functions")


def test_progress(hw, here):
    write(here, "1.1", "return float(np.minimum(target_probs, draft_probs).sum())")
    write(here, "1.2", "return 2.0")
    put_first(here, "set3_cache", "def f(:")
    code, out, err = hw()
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= WIDTH
    assert re.search(r"^1\.1 +acceptance +done +(\d)/\1 +the probability that a drafted", out, re.M)
    assert re.search(r"^1\.2 +expected_tokens +to fix +0/\d +expected_tokens\(alpha=0", out, re.M)
    assert re.search(r"^1\.3 +ops_factor +to do +0/\d +operations per token over those", out, re.M)
    assert re.search(
        r"^3\.1 +append +to fix +0/\d +set3_cache.py is not Python yet: inv", out, re.M
    )
    assert re.search(r"^3\.2 +attend +to fix +0/\d +as above$", out, re.M)
    assert "\n1 of 26 tasks done\n" in out
    line = (
        Path("set1_theory.py").read_text().splitlines().index("def expected_tokens(alpha, gamma):")
    )
    assert f"\nNext: 1.2, expected_tokens in set1_theory.py, line {line + 1}. Then `spec" in out
    code, out, _ = hw("2", "--json")
    assert code == 0
    assert [one["task"] for one in values(out, "tasks")] == ["2.1", "2.2", "2.3", "2.4", "2.5"]
    assert {one["state"] for one in values(out, "tasks")} == {"to do"}
    code, out, _ = hw("1.2", "--json")
    assert code == 1
    assert {one["state"] for one in values(out, "checks")} == {"failed"}


def test_one_task(hw, here):
    write(here, "1.2", "return (1 - alpha**gamma) / (1 - alpha)")
    code, out, err = hw("1.2")
    assert (code, err) == (1, "")
    assert max(map(len, out.splitlines())) <= WIDTH
    assert "1.2 expected_tokens: to fix" in out
    said = " ".join(out.split())
    assert re.search(
        r"own token to fix expected_tokens\(alpha=\S+, gamma=0\) gave 0, expected", said
    )
    assert "0 of 4 checks passed. `speclab hw hint 1.2` helps." in said
    assert "Where it raises" not in out
    code, out, err = hw("1.2", "-v", "--seed", "3")
    assert (code, err) == (1, "")
    assert 'set1_theory.py", line' in out
    assert "return (1 - alpha**gamma) / (1 - alpha)\n" in out
    assert out.count("ZeroDivisionError: ") == 2  # in the sentence, and where it raises
    assert "lab/homework" not in out


def test_one_task_that_is_not_written_or_cannot_be_imported(hw, here):
    code, out, _ = hw("4.2")
    assert code == 1
    assert "4.2 propose: to do" in out
    assert re.search(r"Nothing is written yet: propose in set4_loop\.py, line \d+\.", out)
    put_first(here, "set4_loop", "import nowhere_at_all")
    code, out, _ = hw("4.2")
    assert code == 1
    line = (here / "set4_loop.py").read_text().splitlines().index("import nowhere_at_all") + 1
    assert f"set4_loop.py cannot be imported: No module named 'nowhere_at_all', line {line};" in out
    assert "No check can be run before set4_loop.py can be imported." in out


def test_hint_reset_and_show(hw, here):
    code, out, _ = hw("hint", "2.3")
    assert code == 0
    assert out.startswith("Hint 1 of 3 for 2.3, accept_probability: If the target likes")
    assert hw("hint", "2.3")[1].startswith("Hint 2 of 3 for 2.3")
    write(here, "2.3", "return 1.0")
    code, out, _ = hw("show", "2.3")
    assert code == 1
    assert out.startswith("2.3 is not done yet: `speclab hw 2.3` says why, ")
    code, out, _ = hw("show", "2.3", "--give-up")
    assert code == 0
    assert out.startswith("def accept_probability(target_probs, draft_probs, token):\n")
    code, shown, _ = hw("reset", "2.3")
    assert code == 0
    assert "accept_probability in set2_sampling.py is as it was at the start; your" in shown
    assert "return 1.0" in (here / "backups" / "set2_sampling.1.py").read_text()
    write(here, "2.3", out.splitlines()[-1].strip())
    assert hw("show", "2.3") == (0, out, "")


def test_grades(hw, tmp_path):
    write(fresh(tmp_path / "a"), "1.1", "return 2.0")
    file = tmp_path / "grades.json"
    code, out, err = hw("grade", tmp_path / "a", "nowhere", "--json", file, "--workers", "1")
    assert (code, err) == (0, "")
    assert re.search(r"^\S+/a +0 +0 +0 +0 +0 +0 +1\.1: acceptance\(", out, re.M)
    assert re.search(r"^nowhere +n/a +n/a +n/a +n/a +n/a +n/a +there is no such folder$", out, re.M)
    assert f"1 of 2 could be examined. All results are in {file}." in " ".join(out.split())
    assert [one["done"] for one in json.loads(file.read_text())["folders"]] == [0, None]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["9.9"], "there is no task '9.9': tasks are 1.1, 1.2,"),
        (["hint", "2"], "there is no task '2': tasks are "),
        (["reset", "x"], "there is no task 'x': tasks are "),
        (["show", "1.1.1", "--give-up"], "there is no task '1.1.1': tasks are "),
        (["init", "."], ". is not empty: homework wants a folder of its own."),
        (["init", "homework.json/x"], "homework.json/x: Not a directory."),
        (["grade", "a", "--json", "."], "--json . is a folder: all results go into one file."),
        (["grade", "a", "--json", "no/where.json"], "no/where.json.partial: No such file or dir"),
    ],
)
def test_what_cannot_be(options, sentence, hw, here):
    code, _, err = hw(*options)
    assert code == 2
    assert "Traceback" not in err
    assert " ".join(err.split()).startswith(f"speclab: {sentence}")


def test_elsewhere_it_says_so(hw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options in ([], ["1.1"], ["hint", "1.1"], ["reset", "1.1"], ["show", "1.1"]):
        code, out, err = hw(*options)
        assert (code, out) == (2, "")
        assert re.match(
            r"speclab: .* is no homework folder: `speclab hw init", " ".join(err.split())
        )
    assert list(tmp_path.iterdir()) == []
    code, out, _ = hw("--json")
    assert code == 2
    assert "is no homework folder" in json.loads(out)["parts"][0]["says"]


def test_ctrl_c_is_130(hw, here, monkeypatch):
    def examine(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.homework.cli.examine", examine)
    assert hw() == (130, "", "")


@pytest.mark.parametrize(
    ("words", "full"),
    [
        ("hw", "hw check"),
        ("hw 2.3", "hw check 2.3"),
        ("hw -v 2.3", "hw check -v 2.3"),
        ("hw --json", "hw check --json"),
        ("hw check 2.3", "hw check 2.3"),
        ("hw hint 2.3", "hw hint 2.3"),
        ("hw --help", "hw --help"),
        ("audit hw", "audit hw"),
        ("", ""),
    ],
)
def test_the_short_form(words, full):
    assert spelled_out(words.split()) == full.split()


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help(verb, capsys):
    with pytest.raises(SystemExit) as done:
        cli.main(["hw", *verb.split(), "--help"])
    assert done.value.code == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= WIDTH
    if not verb:
        assert re.search(
            r"exit code: 0 answered; 1 the one task .* is not done; 2 wrong usage", out
        )
        assert all(f"\n    {name} " in out for name in VERBS)
