"""The mechanism: what a patch changes, that it puts everything back, and what it refuses."""

from contextlib import contextmanager

import numpy as np
import pytest
from models import P, Q, ScriptedDice

from lab import sampling, verify
from lab.mutation import Change, Edit, Mutant, edited_code, text
from lab.sampling import residual
from lab.text import Text
from lab.verify import RULES, Proposal, token_rule

HALF = text("plain", 0.5)


def area(width, height=2):
    return width * height


def scaled(factor):
    def scale(x):
        return factor * x

    return scale


@contextmanager
def noted(notes):
    notes.append("in")
    yield
    notes.append("out")


class Box:
    def __init__(self, side):
        self.side = side

    def volume(self):
        return self.side**3


def mutant(*edits):
    return Mutant("a test's own", "test", HALF, *edits)


def change(function, old, new):
    return mutant(Edit(function, old, new))


def test_inside_it_is_wrong_and_afterwards_right():
    wrong = change(area, "width * height", "width + height")
    also = area
    with wrong.patch():
        assert area(3) == also(3) == 5  # every reference, and the default argument is kept
    assert area(3) == 6
    with wrong.patch():  # again
        assert area(4) == 6
    assert area(4) == 8


def test_an_error_inside_puts_everything_back():
    with pytest.raises(KeyError), change(area, "*", "+").patch():
        raise KeyError
    assert area(3) == 6


def test_every_reference_to_a_shipped_function_is_patched():
    """`residual` is imported by name in lab.verify, and `token_rule` sits in RULES."""
    rows, proposal = np.stack([P, P]), Proposal(np.array([1]), Q[None])

    def asked():
        dice = ScriptedDice([0], [False])
        RULES["token"](rows, proposal, dice)
        return dice.laws[0]

    before = asked()
    with change(residual, "target - draft", "draft - target").patch():
        np.testing.assert_array_equal(asked(), sampling.residual(P, Q))
        assert asked()[0] == 0 < before[0]
    with change(token_rule, "residual(target_probs[i], draft_probs[i])", "target_probs[i]").patch():
        np.testing.assert_array_equal(asked(), P)
        assert verify.token_rule is token_rule
    np.testing.assert_array_equal(asked(), before)


def test_methods_and_several_edits_in_order():
    wrong = mutant(
        Edit(Box.volume, "self.side**3", "self.side**2"), Edit(Box.volume, "**2", "* 10"),
        Edit(area, "*", "-"),
    )  # fmt: skip
    box = Box(2)
    with wrong.patch():
        assert (box.volume(), area(5)) == (20, 3)
    assert (box.volume(), area(5)) == (8, 10)


def test_a_closure_is_changed_alone_and_keeps_its_variables():
    double, triple = scaled(2), scaled(3)
    with change(double, "factor * x", "factor * x + 1").patch():
        assert (double(5), triple(5)) == (11, 15)
    assert double(5) == 10


def test_decorated_functions_are_changed_inside_their_decorator():
    notes = []
    with change(noted, '"out"', '"changed"').patch(), noted(notes):
        pass
    assert notes == ["in", "changed"]
    assert "truncate" in Edit(Text.round, "truncate", "").old
    assert change(Text.round, "yield", "yield ").codes


def test_two_patches_of_different_functions_nest_and_of_one_do_not():
    first, second = change(area, "*", "+"), change(Box.volume, "**3", "**2")
    with first.patch():
        with second.patch():
            assert (area(3), Box(2).volume()) == (5, 4)
        with (
            pytest.raises(ValueError, match=r"area is patched already"),
            change(area, "height=2", "height=3").patch(),
        ):
            pass
        assert area(3) == 5
    assert (area(3), Box(2).volume()) == (6, 8)


@pytest.mark.parametrize(("old", "times"), [("depth", 0), ("width", 2)])
def test_old_text_must_occur_once(old, times):
    wrong = change(area, old, "x")
    with pytest.raises(ValueError, match=rf"{old}.*{times} times in test_mutation.area"):
        wrong.codes  # noqa: B018
    with pytest.raises(ValueError, match="mutant must be too"), wrong.patch():
        pass
    assert area(3) == 6


def test_nothing_is_patched_if_one_edit_fails():
    wrong = mutant(Edit(area, "*", "+"), Edit(Box.volume, "no such text", ""))
    with pytest.raises(ValueError, match="no such text"), wrong.patch():
        pass
    assert area(3) == 6


def test_what_cannot_be_edited_is_named():
    with pytest.raises(ValueError, match="Python function"), change(len, "a", "b").patch():
        pass
    room = {}
    exec("def made(): return 1", room)
    with pytest.raises(ValueError, match="no source"):
        edited_code(room["made"], [Edit(room["made"], "1", "2")])
    with pytest.raises(ValueError, match="captures"):
        change(scaled(2), "factor * x", "x").codes  # noqa: B018


def test_diffs_and_changes_read_well():
    wrong = mutant(Edit(area, "width * height", "width\n+ height"), Edit(Box.volume, "3", "2"))
    assert wrong.diff == (
        "test_mutation.area\n- width * height\n+ width\n+ + height\n"
        "test_mutation.Box.volume\n- 3\n+ 2"
    )
    assert str(Change("counters", "plain", "tested", 2.0, 2.237)) == "plain: tested 2 → 2.237"
    assert text("plain", 0.25) == Change("text", "plain", "total variation", 0.0, 0.25)
