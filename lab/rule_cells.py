"""Points in the cells where the comparisons of a rule are fixed, for its certificate.

A cell says for every token of every law whether p(x) or q(x) is larger. Its points are made, not
searched for: with whole numbers m and g above 0, M = Σ m, G> = Σ g over {p > q}, G< over {p < q},

    p(x) : q(x) = m + g G< : m  where p > q,      m : m + g G>  where p < q,

both over M + G> G<. Every pair of laws of the cell has this form, so a rational function of the
laws is one of m and g, of twice the degree, and Schwartz-Zippel holds for m and g drawn evenly.
m is min(p, q), g are the gaps: the paper's picture. m = 0 or g = 0 give the edges of the cell.

p = target law, q = draft law. V = vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.certificate import LawsByPrefix, Tokens
from lab.rule_numbers import BITS, Notes, Traced

Array = npt.NDArray[Any]
Kind = Callable[[Tokens], str]  # what a law is like: a letter of KINDS for each token

SPREAD = 12  # powers of two by which free numbers differ besides, so that laws are of all shapes;
WIDE = 96  # where they are very uneven: laws with entries, residuals, gaps of 2^-40 are met often
LAW_DEGREE = 2
KINDS = ">", "<", "=", "p", "q", "0"  # p > q > 0; q > p > 0; p = q > 0; only p; only q; neither


# ---- Free numbers -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    """Whole numbers above 0 to make two points of.

    draw : how many -> that many for either point
    units : bits by which m exceeds a draw, at either point, as m stands beside products of two gaps
    """

    draw: Callable[[int], tuple[list[int], list[int]]]
    units: tuple[int, int]


def apart(rng: np.random.Generator, spread: int = SPREAD) -> Numbers:
    """Two independent points, anywhere in the cell; the second one's numbers differ by `spread`
    powers of two. Where an even point and a very uneven one compare alike, a threshold hardly
    runs between them."""

    def draw(count: int) -> tuple[list[int], list[int]]:
        first, second = rng.integers(1, 2**BITS, (2, count), endpoint=True).tolist()
        return _spread(rng, first, SPREAD), _spread(rng, second, spread)

    return Numbers(draw, (BITS + SPREAD // 2, BITS + spread // 2))


def near(rng: np.random.Generator, spread: int = SPREAD) -> Numbers:
    """Two points around a coarse one, each with its own even noise. They compare alike but for the
    few pairs that have a boundary between them."""
    fine = 2**BITS

    def draw(count: int) -> tuple[list[int], list[int]]:
        coarse = _spread(rng, rng.integers(2**9, 2**10, count).tolist(), spread)
        noise = rng.integers(1, fine, (2, count), endpoint=True).tolist()
        first, second = ([x * fine + y for x, y in zip(coarse, one, strict=True)] for one in noise)
        return first, second

    return Numbers(draw, (BITS + 9 + spread // 2,) * 2)


def small(rng: np.random.Generator, spread: int = 0) -> Numbers:
    """One point twice, nice to read."""

    def draw(count: int) -> tuple[list[int], list[int]]:
        numbers = _spread(rng, rng.integers(1, 4, count, endpoint=True).tolist(), spread)
        return numbers, numbers

    return Numbers(draw, (spread // 2,) * 2)


def _spread(rng: np.random.Generator, numbers: Sequence[int], spread: int) -> list[int]:
    powers = rng.integers(0, spread, len(numbers), endpoint=True).tolist()
    return [n << power for n, power in zip(numbers, powers, strict=True)]


# ---- Laws -------------------------------------------------------------------------------------


def sign_kinds(vocab: int) -> list[str]:
    """Every way in which p may lie above and below q, nowhere at it: 2^V - 2."""
    kinds = map("".join, itertools.product("><", repeat=vocab))
    return [kind for kind in kinds if len(set(kind)) == 2]


def random_kind(rng: np.random.Generator, vocab: int) -> str:
    """One of `sign_kinds`."""
    while True:
        kind = "".join(rng.choice(KINDS[:2], vocab))
        if len(set(kind)) == 2:
            return kind


def edge_kind(rng: np.random.Generator, vocab: int, only_target: bool = False) -> str:
    """Somewhere on the edge of a cell: zeros, ties, p = q, certain tokens."""
    letters: tuple[str, ...] = KINDS
    if only_target:
        letters = ("=", "0")
    elif rng.random() < 0.25:
        letters = ("=", "p", "q", "0")
    elif rng.random() < 0.25:
        letters = ("=", "0")
    while True:
        kind = set(drawn := rng.choice(letters, vocab).tolist())
        above, below = kind & {">", "p"}, kind & {"<", "q"}
        if bool(above) == bool(below) and kind != {"0"}:
            return "".join(drawn)


def _shares(kind: str, mass: list[int], gap: list[int]) -> tuple[list[int], list[int], int]:
    """p, q and their common total, for one point."""
    mass = [m if letter in "><=" else 0 for letter, m in zip(kind, mass, strict=True)]
    above = sum(g for letter, g in zip(kind, gap, strict=True) if letter in ">p")
    below = sum(g for letter, g in zip(kind, gap, strict=True) if letter in "<q")
    p = [m + g * below * (c in ">p") for c, m, g in zip(kind, mass, gap, strict=True)]
    q = [m + g * above * (c in "<q") for c, m, g in zip(kind, mass, gap, strict=True)]
    return p, q, sum(mass) + above * below


class CellLaws:
    """The laws of target and draft at two points, by prefix, made when they are first asked for.

    kind : prefix -> what p and q are like there, a letter of KINDS per token
    notes : what is noted of the numbers since it was last restarted
    """

    def __init__(self, vocab: int, kind: Kind, numbers: Numbers) -> None:
        self.vocab, self.kind, self.numbers = vocab, kind, numbers
        self.notes = Notes()
        self._drawn: dict[Tokens, list[list[int]]] = {}  # m and g of both points
        self._made: dict[Tokens, tuple[Array, Array]] = {}

    def target(self, prefix: Tokens) -> Array:
        return self._at(prefix)[0]

    def draft(self, prefix: Tokens) -> Array:
        return self._at(prefix)[1]

    def fractions(
        self, prefixes: Iterable[Tokens], gamma: int, point: int
    ) -> tuple[LawsByPrefix, LawsByPrefix]:
        """Laws of target and draft at point 0 or 1; a draft has none after gamma tokens."""
        prefixes = list(prefixes)
        target = {z: tuple(p.at(point) for p in self.target(z)) for z in prefixes}
        draft = {z: tuple(q.at(point) for q in self.draft(z)) for z in prefixes if len(z) < gamma}
        return target, draft

    def rounded(self, point: int, bits: int) -> CellLaws:
        """Close to one point, twice: its numbers with their first bits only."""
        laws = CellLaws(self.vocab, self.kind, self.numbers)
        for prefix, points in self._drawn.items():
            laws._drawn[prefix] = [[_first_bits(n, bits) for n in points[point]]] * 2
        return laws

    def _at(self, prefix: Tokens) -> tuple[Array, Array]:
        if prefix not in self._made:
            if prefix not in self._drawn:
                self._drawn[prefix] = self._draw()
            self._made[prefix] = self._make(self.kind(prefix), self._drawn[prefix])
        return self._made[prefix]

    def _draw(self) -> list[list[int]]:
        points = zip(self.numbers.draw(2 * self.vocab), self.numbers.units, strict=True)
        return [
            [n << unit for n in drawn[: self.vocab]] + drawn[self.vocab :] for drawn, unit in points
        ]

    def _make(self, kind: str, drawn: list[list[int]]) -> tuple[Array, Array]:
        (p, q, b), (other_p, other_q, d) = (
            _shares(kind, numbers[: self.vocab], numbers[self.vocab :]) for numbers in drawn
        )

        def law(first: list[int], second: list[int]) -> Array:
            shares = zip(first, second, strict=True)
            return np.array([Traced(a, b, c, d, LAW_DEGREE, self.notes) for a, c in shares], object)

        return law(p, other_p), law(q, other_q)


def _first_bits(number: int, bits: int) -> int:
    rest = max(0, number.bit_length() - bits)
    return number >> rest << rest
