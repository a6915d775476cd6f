"""Points in the cells of fixed comparisons: where they lie, and that every pair of laws is one."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from lab import rule_cells
from lab.rule_cells import (
    KINDS,
    LAW_DEGREE,
    CellLaws,
    apart,
    edge_kind,
    near,
    random_kind,
    sign_kinds,
    small,
)
from lab.rule_numbers import BITS

SOURCES = (apart, near, small)


def possible(kind):
    """A pair of laws can be like that."""
    letters = set(kind)
    return bool(letters & set(">p")) == bool(letters & set("<q")) and letters != {"0"}


def letter(p, q):
    if p == q:
        return "=" if p else "0"
    return ("p" if q == 0 else ">") if p > q else ("q" if p == 0 else "<")


@pytest.mark.parametrize("numbers", SOURCES)
@pytest.mark.parametrize("vocab", [2, 3])
def test_points_lie_in_their_cell_and_are_laws(numbers, vocab):
    rng = np.random.default_rng(0)
    kinds = ["".join(k) for k in itertools.product(KINDS, repeat=vocab)]
    kinds = [kind for kind in kinds if possible(kind)]
    assert set(sign_kinds(vocab)) < set(kinds)
    for kind in kinds:
        laws = CellLaws(vocab, lambda _, kind=kind: kind, numbers(rng))
        for point in (0, 1):
            ((p,), (q,)) = (law.values() for law in laws.fractions([()], 1, point))
            assert sum(p) == sum(q) == 1
            assert "".join(map(letter, p, q)) == kind


def test_every_pair_of_laws_is_a_point_of_its_cell():
    """With g = |p - q| and m = TV min(p, q)."""
    rng = np.random.default_rng(1)
    for vocab in (2, 3, 5):
        for _ in range(50):
            p, q = ([Fraction(int(n), int(row.sum())) for n in row]
                    for row in rng.integers(1, 9, (2, vocab)))  # fmt: skip
            kind = "".join(map(letter, p, q))
            distance = sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
            scale = distance or 1
            mass = [scale * min(a, b) for a, b in zip(p, q, strict=True)]
            gap = [abs(a - b) for a, b in zip(p, q, strict=True)]
            up, down, total = rule_cells._shares(kind, mass, gap)
            assert [a / total for a in up] == p
            assert [a / total for a in down] == q


def test_there_are_as_many_sign_kinds_as_patterns_not_all_alike():
    for vocab in range(2, 7):
        kinds = sign_kinds(vocab)
        assert len(set(kinds)) == len(kinds) == 2**vocab - 2
    rng = np.random.default_rng(2)
    assert {random_kind(rng, 3) for _ in range(200)} == set(sign_kinds(3))


def test_edge_kinds_meet_every_case():
    rng = np.random.default_rng(3)
    seen = {edge_kind(rng, 2) for _ in range(2000)}
    assert seen == {k for k in map("".join, itertools.product(KINDS, repeat=2)) if possible(k)}
    assert {edge_kind(rng, 2, only_target=True) for _ in range(200)} == {"==", "=0", "0="}


def test_free_numbers_take_2_to_the_bits_values_each():
    """The premise of Schwartz-Zippel: even over a set of that size, whatever else was drawn."""
    for source, scale in ((apart, 1), (near, 2**BITS)):
        numbers = source(np.random.default_rng(4))
        first, second = numbers.draw(4000)
        assert min(map(int.bit_length, first)) > BITS - 16
        odd = [(n % scale if source is near else n >> ((n & -n).bit_length() - 1)) for n in first]
        assert len(set(odd)) == 4000, "2^48 values: no two alike but for a chance of 6e-8"
        assert all(a != b for a, b in zip(first, second, strict=True))
    ratios = [a / b for a, b in zip(*near(np.random.default_rng(5)).draw(1000), strict=True)]
    assert max(abs(r - 1) for r in ratios) < 2**-8
    assert len(set(small(np.random.default_rng(6)).draw(100)[0])) == 4


def test_laws_are_made_once_by_prefix_and_independent():
    laws = CellLaws(3, lambda prefix: "><=", apart(np.random.default_rng(7)))
    assert laws.target((1,)) is laws.target((1,))
    assert laws.target((1,))[0].at(0) != laws.target((2,))[0].at(0)
    assert laws.target(())[0].degree == LAW_DEGREE
    laws.target(())[0] > laws.draft(())[0]  # noqa: B015
    assert list(laws.notes) == [2]
    target, draft = laws.fractions([(), (1,)], 1, 0)
    assert (list(target), list(draft)) == ([(), (1,)], [()])
