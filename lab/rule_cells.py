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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.certificate import LawsByPrefix, Tokens
from lab.rule_numbers import BITS, Traced

Array = npt.NDArray[Any]
Kind = Callable[[Tokens], str]  # what a law is like: a letter of KINDS for each token

SPREAD = 12  # powers of two by which free numbers differ besides, so that no ratio is out of reach
LAW_DEGREE = 2
KINDS = ">", "<", "=", "p", "q", "0"  # p > q > 0; q > p > 0; p = q > 0; only p; only q; neither


# ---- Free numbers -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    """Whole numbers above 0 to make two points of.

    draw : how many -> that many for either point
    unit : bits by which m exceeds a draw, as m stands beside products of two gaps
    """

    draw: Callable[[int], tuple[list[int], list[int]]]
    unit: int


def apart(rng: np.random.Generator) -> Numbers:
    """Two independent points, anywhere in the cell."""

    def draw(count: int) -> tuple[list[int], list[int]]:
        even = rng.integers(1, 2**BITS, (2, count), endpoint=True)
        first, second = (even << rng.integers(0, SPREAD, (2, count), endpoint=True)).tolist()
        return first, second

    return Numbers(draw, BITS + SPREAD // 2)


def near(rng: np.random.Generator) -> Numbers:
    """Two points around a coarse one, each with its own even noise. They compare alike but for the
    few pairs that have a boundary between them."""
    fine = 2**BITS

    def draw(count: int) -> tuple[list[int], list[int]]:
        coarse = rng.integers(2**9, 2**10, count) << rng.integers(0, SPREAD, count, endpoint=True)
        noise = rng.integers(1, fine, (2, count), endpoint=True).tolist()
        first, second = (
            [x * fine + y for x, y in zip(coarse.tolist(), one, strict=True)] for one in noise
        )
        return first, second

    return Numbers(draw, BITS + 9 + SPREAD // 2)


def small(rng: np.random.Generator) -> Numbers:
    """One point twice, nice to read."""

    def draw(count: int) -> tuple[list[int], list[int]]:
        numbers = rng.integers(1, 4, count, endpoint=True).tolist()
        return numbers, numbers

    return Numbers(draw, 0)


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
    notes : signs of the comparisons since it was last cleared
    """

    def __init__(self, vocab: int, kind: Kind, numbers: Numbers) -> None:
        self.vocab, self.kind, self.numbers = vocab, kind, numbers
        self.notes = bytearray()
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

    def _at(self, prefix: Tokens) -> tuple[Array, Array]:
        if prefix not in self._made:
            self._made[prefix] = self._make(self.kind(prefix))
        return self._made[prefix]

    def _make(self, kind: str) -> tuple[Array, Array]:
        points = []
        for drawn in self.numbers.draw(2 * self.vocab):
            mass = [m << self.numbers.unit for m in drawn[: self.vocab]]
            points.append(_shares(kind, mass, drawn[self.vocab :]))
        (p, q, b), (other_p, other_q, d) = points

        def law(first: list[int], second: list[int]) -> Array:
            shares = zip(first, second, strict=True)
            return np.array([Traced(a, b, c, d, LAW_DEGREE, self.notes) for a, c in shares], object)

        return law(p, other_p), law(q, other_q)
