"""Numbers that note what they are compared with: beside plain fractions, at two points at once."""

import copy
import math
import operator
from fractions import Fraction

import numpy as np
import pytest

from lab.rule_numbers import Inexact, Notes, Split, Traced

STEPS = (operator.add, operator.sub, operator.mul, operator.truediv)
ORDER = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


def number(first, second=None, degree=1, notes=None):
    """A traced number from one or two fractions."""
    first, second = Fraction(first), Fraction(first if second is None else second)
    notes = Notes() if notes is None else notes
    return Traced(*first.as_integer_ratio(), *second.as_integer_ratio(), degree, notes)


def values(traced):
    return [traced.at(0), traced.at(1)]


def test_arithmetic_is_that_of_fractions_at_both_points():
    rng = np.random.default_rng(0)
    for _ in range(300):
        pairs = [[Fraction(int(a), int(b)) for a, b in rng.integers(1, 9, (2, 2))] for _ in "12345"]
        left, *others = [(number(*pair), pair) for pair in pairs]
        total, plain = left
        for traced, pair in others:
            step = STEPS[rng.integers(4)]
            if step is operator.truediv and 0 in pair:
                continue
            total, plain = step(total, traced), list(map(step, plain, pair))
            assert values(total) == plain
            assert total.b > 0 < total.d


def test_constants_of_every_kind_join_at_their_exact_value():
    third = number(Fraction(1, 3))
    for constant in (2, True, 0.1, np.float64(0.1), np.float32(0.1), np.int64(2), Fraction(2, 7)):
        exact = Fraction(constant.item() if isinstance(constant, np.generic) else constant)
        for step in STEPS:
            assert values(step(third, constant))[0] == step(Fraction(1, 3), exact)
            assert values(step(constant, third))[0] == step(exact, Fraction(1, 3))
    assert values(third**2)[0] == Fraction(1, 9)
    assert values(third**-1)[0] == 3
    assert values(abs(-third))[0] == Fraction(1, 3)


def test_comparisons_are_those_of_fractions_and_are_noted_by_sign():
    for a, b in ((1, 2), (2, 1), (2, 2)):
        for compare in ORDER:
            notes = Notes()
            assert compare(number(a, notes=notes), number(b, notes=notes)) == compare(a, b)
            assert compare(number(a, notes=notes), b) == compare(a, b)
            assert compare(a, number(b, notes=notes)) == compare(a, b)
            seen = (a > b) - (a < b) + 1
            assert list(notes) == [seen, seen, 2 - seen]  # Python asks the traced one, reversed
    notes = Notes()
    assert not number(0, notes=notes)
    assert number(2, degree=0, notes=notes) > 1
    assert len(notes) == 1, "constants compare alike everywhere"


def test_points_that_compare_differently_are_no_cell():
    for compare in ORDER:
        with pytest.raises(Split):
            compare(number(1, 3), 2)
        with pytest.raises(Split):
            compare(number(2, 3), 2)
    assert number(1, 3) < number(2, 4)


def test_numpy_compares_through_it():
    notes = Notes()
    row = np.array([number(Fraction(x, 6), notes=notes) for x in (1, 3, 2)], object)
    assert np.maximum(row, 0)[1] is row[1]
    assert row.argmax() == 1
    assert max(row) is row[1]
    assert (row > row[0]).tolist() == (row[0] < row).tolist() == [False, True, True]
    assert (row[0] == row).tolist() == [True, False, False]
    assert values(row.sum())[0] == 1
    assert values(np.cumsum(row)[1])[0] == Fraction(2, 3)
    assert values((row[1] * row)[2])[0] == values((row * row[1])[2])[0] == Fraction(1, 6)
    assert np.clip(row, number(0), Fraction(1, 4))[1] == Fraction(1, 4)
    assert len(notes) > 15


def test_a_division_by_0_may_be_carried_but_compares_as_nan_does():
    nothing, one = number(0), number(1)
    infinite, undefined = one / nothing, nothing / nothing
    assert not infinite.defined
    assert min(1, infinite) == 1
    assert values(1 / infinite) == [0, 0]
    for compare in ORDER:
        assert compare(infinite, 1) == compare(math.inf, 1)
        assert compare(undefined, 1) == compare(math.nan, 1)
        assert compare(infinite, undefined) == compare(math.inf, math.nan)
        assert compare(one, math.inf) == compare(1, math.inf)
        assert compare(one, math.nan) == compare(1, math.nan)
    assert repr(infinite) == "1/0"
    assert repr(one / 3) == "1/3"


def degrees(traced, size):
    """Degrees of numerator and denominator, seen at numbers of `size` bits."""
    return [round(n.bit_length() / size) if n else 0 for n in (traced.a, traced.b)]


def test_the_degree_is_a_bound():
    size, rng = 2000, np.random.default_rng(1)

    def free():
        n = (1 << size) + int(rng.integers(1, 100))
        return Traced(n, 1, n, 1, 1, Notes())

    for _ in range(100):
        total = free()
        for _ in range(6):
            other = free() if rng.random() < 0.5 else total
            total = STEPS[rng.integers(4)](total, other)
            assert max(degrees(total, size)) <= total.degree
    product = free() * free() * free()
    assert degrees(product, size) == [3, 0]
    assert product.degree == 3
    assert (product / free()).degree == 4
    assert (product + 1).degree == 3
    assert min(1, product + 1) == 1


def test_what_is_not_rational_is_refused_in_plain_words():
    one = number(1)
    row = np.array([one, one], object)
    for cast in (
        float, int, math.exp, math.sqrt, np.exp, np.log, lambda x: x**0.5, lambda x: np.float64(x),
        lambda x: row.astype(float), lambda x: np.asarray(row, dtype=np.float64),
        lambda x: np.log(row), lambda x: np.sqrt(row), lambda x: row**0.5, hash, complex, round,
        lambda x: round(x, 9), lambda x: f"{x:.3f}", lambda x: {x: 1}, lambda x: {x}, math.floor,
        math.ceil, math.trunc, math.isnan, lambda x: x // 2, lambda x: 2 % x, lambda x: 2**x,
        lambda x: divmod(x, 2), lambda x: x.astype(np.float32), np.sin, lambda x: np.round(row, 9),
    ):  # fmt: skip
        one.notes.restart()
        with pytest.raises(Inexact, match="a certificate needs exact numbers"):
            cast(one)
        assert isinstance(one.notes.trouble, Inexact), "noted, whoever catches it"
    assert f"{one}" == str(one) == "1"
    assert one.item() is one
    with pytest.raises(TypeError):
        one + "x"
    with pytest.raises(TypeError):
        one < "x"  # noqa: B015
    assert copy.deepcopy(row)[0] is one, "copies note their comparisons too"


def test_what_was_raised_first_stays_noted():
    notes = Notes()
    one, two = number(1, 3, notes=notes), number(1, notes=notes)
    for compared in (lambda: one < 2, lambda: float(two)):
        with pytest.raises((Split, Inexact)):
            compared()
    assert isinstance(notes.trouble, Split)
    notes.restart()
    assert notes.trouble is None
    assert not notes


def test_the_longest_constant_and_floats_with_a_fraction_are_noted():
    for work, bits, rounded in (
        (lambda x: x + 1, 1, False),
        (lambda x: x > 1, 0, False),
        (lambda x: min(x, 1.0), 1, False),
        (lambda x: x * 2**40 > 0, 41, False),
        (lambda x: x > 2**40, 41, False),
        (lambda x: max(x, Fraction(1, 1000)), 10, False),
        (lambda x: max(x, 1e-10), 87, True),
        (lambda x: x > np.finfo(float).tiny, 1023, True),
    ):
        notes = Notes()
        work(number(1, notes=notes))
        assert (notes.bits, notes.rounded) == (bits, rounded)
