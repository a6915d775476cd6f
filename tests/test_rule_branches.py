"""What a rule did wrong is told, whatever it catches itself, and in plain words."""

import contextlib
import math
import re
from pathlib import Path

import numpy as np
import pytest

from lab import certify, rule_branches
from lab.rule_branches import Rounds
from lab.rule_cells import CellLaws, apart
from lab.rule_numbers import Inexact, Split
from lab.sampling import residual
from lab.verify import chain_rule


def token_with(coin=None, correction=residual):
    coin = coin or (lambda p, q, x: min(1, p[x] / q[x]))

    def verify(target_probs, draft_probs, drafts, dice):
        for i, x in enumerate(drafts):
            if not dice.accept(coin(target_probs[i], draft_probs[i], x)):
                return i, dice.choose(correction(target_probs[i], draft_probs[i]))
        return len(drafts), dice.choose(target_probs[-1])

    return chain_rule(verify)


def logs_or_reject(p, q, x):
    """Right in floats: log 0 rejects. Here, always."""
    try:
        return min(1, math.exp(math.log(p[x]) - math.log(q[x])))
    except ValueError:
        return 0


def logs_or_ratio(p, q, x):
    """Wrong in floats only."""
    try:
        return min(1, 1.1 * math.exp(math.log(p[x]) - math.log(q[x])))
    except ValueError:
        return min(1, p[x] / q[x])


def fast_or_exact(p, q):
    try:
        weights = np.exp(np.maximum(p - q, 0).astype(float))
        return weights / weights.sum()
    except BaseException:
        return residual(p, q)


def remembered(p, q, x):
    try:
        return {p[x]: 1}[p[x]]
    except Exception:
        return min(1, p[x] / q[x])


SWALLOWERS = {
    "logs or reject": token_with(logs_or_reject),
    "logs or ratio": token_with(logs_or_ratio),
    "fast or exact": token_with(correction=fast_or_exact),
    "a look-up": token_with(remembered),
}


@pytest.mark.parametrize("name", SWALLOWERS)
def test_a_rule_that_catches_what_a_cast_raises_is_not_certified(name):
    with pytest.raises(Inexact, match=r"^rule=verify: .* needs exact numbers .*\.py, line \d+\)$"):
        certify.rule(SWALLOWERS[name], 3, 1)


def test_a_rule_that_catches_what_its_dice_raise_is_told_so():
    """`RandomDice` accepts with a probability above 1, so it goes the other way there."""

    def verify(target_probs, draft_probs, drafts, dice):
        try:
            return 0, int(dice.accept(target_probs[0][0] / draft_probs[0][0]))
        except ValueError:
            return 0, dice.choose(target_probs[0])

    with pytest.raises(ValueError, match=r"within 0\.\.1"):
        certify.rule(chain_rule(verify), 2, 1)


def test_a_rule_cannot_catch_that_two_points_differ():
    def verify(target_probs, draft_probs, drafts, dice):
        try:
            larger = bool(target_probs[0][0] > target_probs[0][1])
        except BaseException:
            larger = True
        return 0, int(larger)

    rng, split = np.random.default_rng(0), []
    rounds = Rounds(chain_rule(verify), 2, 1, rng)
    for _ in range(40):
        laws = CellLaws(2, lambda prefix: "<>", apart(rng))
        first, second = laws.target(())
        split.append(len({first.at(point) > second.at(point) for point in (0, 1)}) == 2)
        with pytest.raises(Split) if split[-1] else contextlib.nullcontext():
            rounds.enumerated(laws)
    assert 0 < sum(split) < len(split)


def rejection(p, q, dice):
    """Of the residual: exact, but its branches have no end."""
    while True:
        y = dice.choose(p)
        if p[y] > q[y] and dice.accept(1 - q[y] / p[y]):
            return y


def until_yes(p, q, dice):
    while not dice.accept(p[0]):
        pass
    return 0


@pytest.mark.parametrize("asks", [rejection, until_yes])
def test_rules_that_ask_without_end_are_stopped(asks):
    def verify(target_probs, draft_probs, drafts, dice):
        return 0, asks(target_probs[0], draft_probs[0], dice)

    with pytest.raises(ValueError, match=r"asks its dice more than 36 questions in a round"):
        certify.rule(chain_rule(verify), 2, 1)


@pytest.mark.parametrize(
    "check", [np.isnan, np.isfinite, np.isinf, lambda p: np.isclose(p, p), np.signbit]
)
def test_functions_that_numpy_has_for_floats_only_are_named_plainly(check):
    def guarded(p, q, x):
        return 0 if check(p).all() else min(1, p[x] / q[x])

    with pytest.raises(
        Inexact, match=r"ufunc '\w+' not supported .*\(test_rule_branches\.py, line \d+\): a cert"
    ):
        certify.rule(token_with(guarded), 3, 1)


def test_the_line_of_an_error_is_the_rules():
    def wrong(p, q, x):
        return np.zeros((2, 2)).reshape(3)

    with pytest.raises(ValueError) as found:
        certify.rule(token_with(wrong), 3, 1)
    line = int(re.search(r"\(test_rule_branches\.py, line (\d+)\)", str(found.value))[1])
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert "coin(target_probs[i]" in source[line - 1]


def test_an_exception_that_cannot_be_printed_is_told_too():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    def raises(p, q, x):
        raise Mute

    with pytest.raises(ValueError, match="it raised Mute"):
        certify.rule(token_with(raises), 3, 1)


def test_one_question_with_many_outcomes_is_bounded(monkeypatch):
    monkeypatch.setattr(rule_branches, "MAX_LEAVES", 50)

    def verify(target_probs, draft_probs, drafts, dice):
        dice.choose([1 / 100] * 100)
        return 0, dice.choose(target_probs[0])

    with pytest.raises(ValueError, match="more than 50 branches"):
        certify.rule(chain_rule(verify), 2, 1)
