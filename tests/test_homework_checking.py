"""What a sentence blames: the law, a slip, or an argument that changed."""

import pytest

from lab.homework.checking import Clumsy, Wrong, ask


def misspelt(tokens):
    return tokn  # noqa: F821


def no_such_method(tokens):
    return tokens.push(1)


def recursive(tokens):
    return recursive(tokens)


@pytest.mark.parametrize("function", [misspelt, no_such_method, recursive])
def test_a_slip_has_a_sentence_without_a_law(function):
    with pytest.raises(Clumsy, match=rf"{function.__name__}\(tokens=\[1\]\) raised \w+Error"):
        ask(function, [1])


def one_branch_forgotten(tokens):
    for token in tokens:
        last = token
    return last


def divides(tokens):
    return 1 / len(tokens)


@pytest.mark.parametrize("function", [one_branch_forgotten, divides])
def test_an_error_that_only_some_inputs_bring_keeps_its_law(function):
    with pytest.raises(Wrong) as found:
        ask(function, [])
    assert not isinstance(found.value, Clumsy)


def complaint(tokens):
    raise Wrong("the models were called 300 times")


def complaint_with_a_reason(tokens):
    tokens.append(2)
    raise Wrong("the models were called 300 times")


def test_an_argument_that_changed_is_told_before_what_came_of_it():
    with pytest.raises(Clumsy, match=r"changed its argument tokens to \[1, 2\]"):
        ask(complaint_with_a_reason, [1])
    with pytest.raises(Wrong, match="300 times"):
        ask(complaint, [1])
