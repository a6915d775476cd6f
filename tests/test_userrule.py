"""A rule is found where it is said to be, or what is wrong is said in one sentence."""

import functools
import sys
import textwrap

import numpy as np
import pytest
from models import P, Q
from rules import right

from lab import guest
from lab.exact import round_law
from lab.userrule import Trouble, as_user_rule, line_of, load, shown
from lab.verify import RULES, Verdict, chain_rule, lenient, match_rule

LAW = round_law("token", np.array([P, P]), np.array([Q]))


@pytest.fixture(autouse=True)
def _imports_are_undone(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    """Write a file of rules -> its path."""

    def write(text, name="mine.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


def law(user):
    return round_law(user.verify, np.array([P, P]), np.array([Q]))


RULE = """
    import numpy as np

    def rule(p, q, drafts, dice):
        for i, x in enumerate(drafts):
            if not dice.accept(min(1, p[i, x] / q[i, x])):
                left = np.maximum(p[i] - q[i], 0)
                return i, dice.choose(left / left.sum())
        return len(drafts), dice.choose(p[-1])
"""


# ---- Where it is ------------------------------------------------------------------------------


def test_a_function_in_a_file(write):
    user = load(f"{write(RULE)}:rule")
    assert (user.name, user.is_chain) == ("rule", True)
    assert law(user) == pytest.approx(LAW)


def test_the_file_is_run_as_a_script_is_but_not_as_main(write):
    """Its folder is importable, dataclasses work, the main guard is not entered, no cache is left;
    and what was edited within the same second is read again."""
    write(RULE, "helper.py")
    path = write(
        """
        from __future__ import annotations
        from dataclasses import dataclass
        import helper

        @dataclass
        class Settings:
            slack: float = 0.0

        rule = helper.rule
        if __name__ == "__main__":
            raise SystemExit("not as main")
        """
    )
    assert law(load(f"{path}:rule")) == pytest.approx(LAW)
    assert not list(path.parent.glob("__pycache__/mine*"))
    path.write_text(path.read_text().replace("helper.rule", "helper.law "))
    with pytest.raises(Trouble, match=r"AttributeError: .* 'law' \(mine\.py, line 10\)"):
        load(f"{path}:rule")


def test_a_function_in_a_module(write, monkeypatch):
    path = write(RULE, "rules_of_mine/token.py")
    monkeypatch.chdir(path.parent.parent)  # the current folder is importable
    assert law(load("rules_of_mine.token:rule")) == pytest.approx(LAW)
    assert law(load("lab.verify:token_rule")) == pytest.approx(LAW)


@pytest.mark.parametrize("name", RULES)
def test_shipped_rules_by_name(name):
    assert law(load(name)) == round_law(name, np.array([P, P]), np.array([Q]))


def test_windows_paths_have_a_colon_of_their_own():
    with pytest.raises(Trouble, match=r"there is no file C:\\rules\\mine\.py\."):
        load(r"C:\rules\mine.py:rule")


# ---- What it is -------------------------------------------------------------------------------


class Slack:
    """An instance is a rule."""

    def __call__(self, p, q, drafts, dice):
        return right(p, q, drafts, dice)

    def judge(self, p, q, drafts, dice):
        return right(p, q, drafts, dice)


def with_proposal(p, proposal, dice, slack=0):
    accepted, token = right(p, proposal.probs, proposal.tokens, dice)
    return Verdict(tuple(range(accepted)), token, len(proposal))


def loose(p, *rest):
    return right(p, *rest)


@pytest.mark.parametrize(
    ("rule", "is_chain"),
    [
        (right, True),  # with three more parameters that have defaults
        (functools.partial(right, bonus=lambda p, q: p[-1]), True),
        (Slack(), True),
        (Slack().judge, True),
        (loose, True),
        (lambda p, proposal, dice, slack=0: with_proposal(p, proposal, dice), False),
        (with_proposal, False),
        (chain_rule(right), False),
        (RULES["token"], False),
    ],
)
def test_four_parameters_or_three(rule, is_chain):
    user = as_user_rule(rule, "it")
    assert user.is_chain is is_chain
    assert law(user) == pytest.approx(LAW)


def test_rules_as_objects(write):
    path = write(
        """
        from fractions import Fraction
        from lab.verify import lenient
        half = lenient(Fraction(1, 2))
        """
    )
    assert law(load(f"{path}:half")) == round_law(lenient(0.5), np.array([P, P]), np.array([Q]))


# ---- What is wrong ----------------------------------------------------------------------------

BAD_FILES = {
    "syntax": ("def rule(p, q:\n  pass", r"mine\.py is not valid Python: .* in line 1\.$"),
    "indent": ("def rule():\npass", r"mine\.py is not valid Python: .* in line 2\.$"),
    "import": (
        "import numpy\nimport torch_that_is_not_there",
        r"cannot be imported; it raises ModuleNotFoundError: No module named 'torch_that_is_not_"
        r"there' \(mine\.py, line 2\)\.$",
    ),
    "raises": (
        "x = [][1]",
        r"cannot be imported; it raises IndexError: list index .* \(mine\.py, line 1\)\.$",
    ),
    "file": (
        "open('weights_that_are_not_there')",
        r"cannot be imported; it raises FileNotFoundError: .* \(mine\.py, line 1\)\.$",
    ),
    "exit": ("import sys\nsys.exit(3)", r"imported; it calls sys\.exit \(mine\.py, line 2\)\.$"),
    "interrupt": (
        "raise KeyboardInterrupt",
        r"imported; it raises KeyboardInterrupt \(mine\.py, line 1\)\.$",
    ),
    "no exception": (
        "class E(BaseException): ...\nraise E",
        r"imported; it raises E \(mine\.py, line 2\)\.$",
    ),
    "no text": (
        "class E(Exception):\n  def __str__(self): return 1 // 0\nraise E",
        r"imported; it raises E \(mine\.py, line 3\)\.$",
    ),
    "getattr": (
        "def __getattr__(name): return 1 // 0",
        r"mine\.py cannot give rule; it raises ZeroDivisionError: .* \(mine\.py, line 1\)\.$",
    ),
    "attributes": (
        "class C:\n  def __getattr__(self, name): raise RuntimeError(name)\n"
        "  def __call__(self, p, q, x, d): ...\nrule = C()",
        r"^rule cannot be looked at; it raises RuntimeError: .* \(mine\.py, line 2\)\.$",
    ),
    "helper": ("import bad_helper", r"bad_helper\.py is not valid Python: .* in line 2\.$"),
    "number": ("rule = 3", r"^rule is a int, not a function\.$"),
    "class": ("class rule:\n  pass", r"^rule is a class: name a function, or an instance"),
    "two": (
        "def rule(p, q): ...",
        r"^rule takes \(p, q\): it must take \(target_probs, draft_probs, drafts, dice\), or \(",
    ),
    "five": ("def rule(p, q, x, d, e): ...", r"^rule takes \(p, q, x, d, e\): it must take"),
    "keyword": ("def rule(p, q, x, d, *, e): ...", r"^rule takes \(p, q, x, d, \*, e\): it must"),
    "async": ("async def rule(p, q, x, d): ...", r"^rule is declared with async"),
    "yield": ("def rule(p, q, x, d): yield 1", r"^rule has a yield: a rule returns"),
    "call": (
        "class C:\n  async def __call__(self, p, q, x, d): ...\nrule = C()",
        r"^rule is declared with async",
    ),
    "builtin": ("rule = dict.fromkeys", r"^rule "),
    "nothing": ("import os", r"has no 'rule'; it defines no function\.$"),
    "another": (
        "from os import path\ndef b(): ...\ndef a(): ...",
        r"mine\.py has no 'rule'; it has a, b\.$",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_what_is_wrong_with_a_file(case, write):
    text, sentence = BAD_FILES[case]
    write("x = 1\ny = (\n", "bad_helper.py")
    with pytest.raises(Trouble, match=sentence) as caught:
        load(f"{write(text)}:rule")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", ["", "  except BaseException: break\n"])
def test_a_module_that_does_not_end(ending, write, monkeypatch):
    monkeypatch.setattr(guest, "IMPORT_SECONDS", 0.05)
    text = f"while True:\n  try:\n    pass\n{ending or '  finally: pass'}\n"
    text = text.replace("    pass", "    while True: pass")
    with pytest.raises(Trouble, match=r"cannot be imported; it does not come back within 0\.05 s"):
        load(f"{write(text)}:rule")


def test_a_rule_for_the_loop_does_not_stay_for_ever(monkeypatch):
    monkeypatch.setattr(guest, "SECONDS", 0.05)

    def rule(p, q, drafts, dice):
        while True:
            pass

    with pytest.raises(guest.OutOfTime):
        law(as_user_rule(rule, "it"))


BAD_PLACES = {
    "nowhere.py:rule": r"^there is no file nowhere\.py\.$",
    "nowhere.py": r"^nowhere\.py: which function\? Say nowhere\.py:NAME\.$",
    "nowhere.py:": r"^nowhere\.py: which function\? Say nowhere\.py:NAME\.$",
    "tokn": r"^'tokn' must be FILE\.py:NAME, package\.module:NAME, or one of token, block, match,",
    ":rule": r"^':rule' must be FILE\.py:NAME",
    "": r"^'' must be FILE\.py:NAME",
    "no_such_module:rule": r"^there is no module no_such_module \(a file is given as FILE\.py:NAME",
    "lab.no_such_module:rule": r"^there is no module lab\.no_such_module",
    "no_such_package.module:rule": r"^there is no module no_such_package\.module",
    "lab.verify:tokn": r"^lab\.verify has no 'tokn'; it has accepted_and_token, as_rule",
}


@pytest.mark.parametrize("place", BAD_PLACES)
def test_what_is_wrong_with_a_place(place):
    with pytest.raises(Trouble, match=BAD_PLACES[place]):
        load(place)


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "mine.py").mkdir()
    with pytest.raises(Trouble, match=r"mine\.py cannot be read: Is a directory\.$"):
        load(f"{tmp_path / 'mine.py'}:rule")


@pytest.mark.parametrize("guilty", ["__init__.py", "mine.py"])
def test_a_module_whose_import_fails_is_not_called_missing(guilty, write, monkeypatch):
    for name in ("__init__.py", "mine.py"):
        path = write("import torch_that_is_not_there" * (name == guilty), f"package/{name}")
    monkeypatch.chdir(path.parent.parent)
    with pytest.raises(Trouble, match=r"^package\.mine cannot be imported; it raises ModuleNot"):
        load("package.mine:rule")


# ---- What an exception says -------------------------------------------------------------------


def test_an_exception_in_one_line():
    assert shown(ValueError("two\n  lines")) == "ValueError: two lines"
    assert shown(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert len(shown(ValueError("x" * 1000))) < 220


def test_the_line_is_in_the_users_file_or_at_least_not_in_the_lab():
    def rule(p, q, drafts, dice):
        return match_rule(p, q, None, dice)

    with pytest.raises(TypeError) as caught:
        round_law(chain_rule(rule), np.array([P, P]), np.array([Q]))
    first = rule.__code__.co_firstlineno
    for file in (__file__, None, "elsewhere.py"):
        assert line_of(caught.value, file) == f" (test_userrule.py, line {first + 1})"
    assert line_of(ValueError("never raised"), __file__) == ""
