"""Rules that cannot be examined are told so, in one sentence each, with the case and the branch."""

import inspect
import re
import signal
import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import broken_rules
import numpy as np
import pytest
from broken_rules import BROKEN
from models import CHAIN_P, RESIDUAL, P, Q, ScriptedDice
from rules import right

from lab import guest, watch
from lab.cli import main
from lab.exact import round_law
from lab.examine import examine
from lab.userrule import Trouble, as_user_rule
from lab.verify import RULES, Proposal, Verdict, lenient
from lab.watch import Watch

FILE = Path(broken_rules.__file__)


def watched(rule):
    return Watch(as_user_rule(rule, "it"))


def law(rule, target=(P, P), draft=(Q,)):
    """The law of one round of a rule that is watched."""
    return round_law(watched(rule).rule, np.array(target), np.array(draft))


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_broken_rules_get_one_sentence_and_exit_2(rule, capfd, monkeypatch):
    monkeypatch.setattr(guest, "SECONDS", 0.1)
    code = main(["audit", f"{FILE}:{rule.__name__}", "--gamma", "1"])
    out, err = capfd.readouterr()
    assert code == 2
    assert out == ""
    sentence = " ".join(err.split())
    assert re.search(f"^speclab: {rule.__name__} .*{BROKEN[rule]}", sentence)
    if rule is not broken_rules.greedy:
        assert re.search(r"Seen with [\w =,]+, γ 1, drafts \d", sentence)


@pytest.mark.parametrize("rule", [broken_rules.raises, broken_rules.writes_into_p])
def test_the_line_is_the_last_one_in_the_users_file(rule):
    lines, first = inspect.getsourcelines(rule)
    guilty = next(i for i, line in enumerate(lines) if "1 // 0" in line or "-= q" in line)
    rule = as_user_rule(rule, "it", str(FILE))
    with pytest.raises(Trouble, match=rf"\(broken_rules\.py, line {first + guilty}\)"):
        round_law(Watch(rule).rule, np.array([P, P]), np.array([Q]))


def test_what_is_not_broken_is_passed_on_unchanged():
    """The watched rule has the very law of the rule."""
    for name, rule in RULES.items():
        assert law(rule) == pytest.approx(round_law(name, np.array([P, P]), np.array([Q])))
    half = law(lenient(0.5))
    assert half == pytest.approx(round_law(lenient(0.5), np.array([P, P]), np.array([Q])))


def test_the_dice_is_asked_what_the_rule_asks():
    """FIX-A: draft 1 is rejected with 1 - .25 / .45, then the residual is drawn from."""
    dice = ScriptedDice(chosen=[2], accepted=[False])
    it = watched(right)
    answer = it.rule(np.array([P, P]), Proposal(np.array([1]), Q[None]), dice)
    assert answer == Verdict((), 2, 1)
    assert dice.coins == [pytest.approx(5 / 9)]
    assert dice.laws[0] == pytest.approx(RESIDUAL)
    assert it.asked == 2


@pytest.mark.parametrize("kind", [list, np.float32])
def test_laws_in_other_forms(kind):
    """Lists, and float32, whose sum is 1 up to rounding: it is scaled, as `RandomDice` does."""

    def rule(p, q, drafts, dice):
        return 0, dice.choose(list(p[0]) if kind is list else p[0].astype(kind))

    found = law(rule, target=CHAIN_P, draft=CHAIN_P[:1])
    assert found[(0,)] == pytest.approx(0.7, abs=1e-7)
    assert sum(found.values()) == pytest.approx(1, abs=1e-15)


def test_float16_is_no_law():
    def rule(p, q, drafts, dice):
        return 0, dice.choose(p[0].astype(np.float16))

    with pytest.raises(Trouble, match=r"sums to 1\.00024, not to 1"):
        law(rule, target=CHAIN_P, draft=CHAIN_P[:1])


def test_what_was_seen_once_must_stay_so():
    """A rule that changes its mind after many calls is caught when a branch comes again."""
    calls = []

    def rule(p, q, drafts, dice):
        calls.append(1)
        return right(p, q, drafts, dice) if len(calls) < 40 else (0, dice.choose(p[0]))

    with pytest.raises(Trouble, match="hides randomness, or a memory"):
        examine(watched(rule), [1])
    assert len(calls) >= 40


def test_interrupts_are_the_users_own():
    def rule(p, q, drafts, dice):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        law(rule)


class NoException(BaseException):
    pass


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error", [NoException("x"), GeneratorExit(), KeyboardInterrupt(), StopIteration(), Silent()]
)
def test_whatever_is_raised_is_told(error):
    def rule(p, q, drafts, dice):
        raise error

    with pytest.raises(Trouble, match=rf"it raises {type(error).__name__}\b"):
        law(rule)


@pytest.mark.parametrize(
    "value", ["0.5", b"1", 0.5 + 0j, None, np.array([0.5]), [0.5], np.array("0.5", object)]
)
def test_what_is_not_one_real_number(value):
    def rule(p, q, drafts, dice):
        dice.accept(value)
        return right(p, q, drafts, dice)

    with pytest.raises(Trouble, match=r"asks accept about .*, which is not one number"):
        law(rule)


@pytest.mark.parametrize("value", [0.3, np.float32(0.3), Fraction(1, 3), Decimal("0.5"), np.True_])
def test_what_is_one_real_number(value):
    def rule(p, q, drafts, dice):
        dice.accept(value)
        return right(p, q, drafts, dice)

    assert law(rule) == pytest.approx(law(right), abs=1e-15)


@pytest.mark.parametrize("probs", [P + 0j, P.astype(str), list(map(str, P)), None])
def test_what_is_no_row_of_real_numbers(probs):
    def rule(p, q, drafts, dice):
        return 0, dice.choose(probs)

    with pytest.raises(Trouble, match="asks choose about"):
        law(rule)


def test_a_question_with_very_many_answers():
    def rule(p, q, drafts, dice):
        dice.choose(np.ones(1000) / 1000)
        return right(p, q, drafts, dice)

    with pytest.raises(Trouble, match="a law of 1000 outcomes, each of them a branch; 100 can be"):
        law(rule)


def test_a_rule_with_very_many_branches(monkeypatch):
    monkeypatch.setattr(watch, "MOST_CALLS", 500)

    def rule(p, q, drafts, dice):
        dice.choose(np.ones(100) / 100)
        return right(p, q, drafts, dice)

    with pytest.raises(Trouble, match=r"more than 500 calls, the last with random laws, γ 1; take"):
        examine(watched(rule), [1])


def test_a_rule_that_swallows_the_end_of_its_time(monkeypatch):
    monkeypatch.setattr(guest, "SECONDS", 0.05)

    def rule(p, q, drafts, dice):
        try:
            while True:
                pass
        except BaseException:
            return right(p, q, drafts, dice)

    with pytest.raises(Trouble, match=r"it does not come back within 0\.05 s \(test_watch\.py"):
        law(rule)


def test_outside_the_main_thread_there_is_no_time_limit(monkeypatch):
    monkeypatch.setattr(guest, "SECONDS", 1e-6)
    found = []
    thread = threading.Thread(target=lambda: found.append(law(right)))
    thread.start()
    thread.join()
    assert found[0][(0,)] > 0
