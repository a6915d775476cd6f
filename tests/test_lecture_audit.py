"""The page on auditing a rule: its code runs as it stands and prints what is shown."""

import contextlib
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from models import P, Q

from lab.cli import main

PAGE = Path(__file__).parents[1] / "lectures" / "audit_your_rule.md"
TEXT = re.sub("^> ?", "", PAGE.read_text(encoding="utf-8"), flags=re.M)  # boxes are quoted
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", TEXT, re.DOTALL))
COMMANDS = re.findall(r"```console\n\$ speclab (.*?)\n(.*?)```", TEXT, re.DOTALL)
NUMBER = r"\d+(\.\d+)?"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's files, in the folder where its commands are given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    modules = {name[:-3] for name in FILES}
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    yield tmp_path
    for name in modules & set(sys.modules):
        del sys.modules[name]


def run(command):
    """What a terminal shows, and the exit code; `| tail -N` is understood."""
    command, _, tail = command.partition(" | tail -")
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(command.split())
    return "\n".join(out.getvalue().splitlines()[-int(tail or 0) :]) + "\n", code


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_commands_print_what_is_shown(command, shown, folder):
    found, code = run(command)
    assert code == {"in_a_hurry": 1, "forgotten": 2}.get(re.search(r":(\w+)", command)[1], 0)
    if "forgotten" in command:  # it draws at random
        found, shown = (re.sub(NUMBER, "#", " ".join(text.split())) for text in (found, shown))
    assert found == shown


def test_the_page_says_what_the_table_shows(folder):
    """A certain draft x comes out with p(x) + (1 - p(x)) p(x)."""
    (shown,) = [shown for command, shown in COMMANDS if "in_a_hurry" in command]
    wrong, due = map(float, re.search(r"^certain drafts .* 0 +(\S+) +(\S+)$", shown, re.M).groups())
    assert wrong == pytest.approx(due + (1 - due) * due, abs=1e-4)
    prose = " ".join(TEXT.split())
    assert f"{due:.4f} + {1 - due:.4f} × {due:.4f} = {wrong:.4f}".replace("0.", ".") in prose
    assert len(re.findall(r"^.* 2 +0 +\d", shown, re.M)) == 2
    assert "Two rows are exact" in prose


def test_the_swapped_ratio_prints_what_is_shown(folder):
    """And by hand: q / p and (p - q)+ accept .8417 instead of .65, and make another law."""
    shown = re.search(r"# swapped\.py.*?```\n\n```\n(.*?)```", TEXT, re.DOTALL)[1]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(FILES["swapped.py"], {})
    assert out.getvalue() == shown
    right, wrong = shown.splitlines()
    kept = Q * np.minimum(1, Q / P)
    law = kept + (1 - kept.sum()) * np.maximum(P - Q, 0) / np.maximum(P - Q, 0).sum()
    assert right == f"{np.minimum(P, Q).sum():.4f} accepted, first token {P}"
    assert wrong == f"{kept.sum():.4f} accepted, first token {np.round(law, 4)}"


def test_the_pytest_example_passes_and_would_fail_for_the_other_rule(folder):
    names = {}
    exec(FILES["test_mine.py"], names)
    names["test_my_rule"]()
    (folder / "mine.py").write_text(FILES["mine.py"] + "\nmy_rule = in_a_hurry\n")
    sys.modules.pop("mine")
    exec(FILES["test_mine.py"], names)
    with pytest.raises(AssertionError, match="rule is not lossless"):
        names["test_my_rule"]()


def test_the_sampler_as_it_is_used_draws_whole_rows(folder):
    """A batch, with its own generator: drafts, a token, padding, row by row."""
    sampler = {}
    exec(FILES["sampler.py"], sampler)
    rng = np.random.default_rng(0)
    batch, drafts, vocab = 50, 3, 4
    p, q = rng.dirichlet(np.ones(vocab), size=(2, batch, drafts))
    ids = np.array([[rng.choice(vocab, p=law) for law in laws] for laws in q])
    out = sampler["rejection_sample"](ids, q, p, np.full((batch, 1), 9))
    lengths = (out != sampler["PAD"]).sum(axis=1)
    assert set(lengths) == {1, 2, 3, 4}
    for row, length, given in zip(out, lengths, ids, strict=True):
        assert (row[: length - 1] == given[: length - 1]).all()
        assert (row[length:] == sampler["PAD"]).all()
        assert (row[length - 1] == 9) == (length == drafts + 1)


def test_its_lines_are_no_wider_than_a_page():
    assert max(map(len, TEXT.splitlines())) <= 100
