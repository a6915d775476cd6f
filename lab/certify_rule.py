"""Certificates of rules: proved for all laws, not for examples.

One round is valid if for every text z of gamma + 1 tokens, laws depending on the whole prefix,

    Σ_k P(the round emits exactly z_1..z_k) Π_{i > k} p(z_i | z_<i) = Π_i p(z_i | z_<i).

A rule knows the laws' numbers by comparing them. While the outcomes do not change, within a cell,
both sides are rational functions of the numbers; if they differ at all, then at nearly every point,
and a random one shows it but for a chance of degree / 2^BITS (Schwartz-Zippel). So two exact points
per cell decide, and what is left is to visit the cells. p = target law, q = draft law.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from lab import domains
from lab.certificate import Certificate, Tokens, Violation
from lab.rule_branches import Rounds
from lab.rule_cells import (
    SPREAD,
    WIDE,
    CellLaws,
    Kind,
    apart,
    edge_kind,
    near,
    random_kind,
    sign_kinds,
)
from lab.rule_identity import CellRound, violations
from lab.rule_numbers import BITS, Split

TREE_CELLS = 2_000  # as many combinations of signs over all prefixes are visited one by one
ALL_LEAVES = 100_000  # no way of visiting all cells is tried that would take more branches, texts
UNEVEN = 60  # points with very uneven numbers, where thresholds lie between them and others;
EDGES = 200  # points with zeros and ties;
MORE_LEAVES = 30_000  # fewer of either, if they take more branches
QUIET = 400  # sampling ends when so many points in a row had no new cell,
SAMPLED_POINTS, SAMPLED_LEAVES = 5_000, 100_000  # or after so many points, or branches
MAX_TEXTS = 20_000  # of gamma + 1 tokens
TRIES = 100  # to find two points that the rule compares alike


def rule(rule: Any, vocab: int, gamma: int, seed: int = 0) -> Certificate:
    """Certify that one round of `rule` leaves the target's law as it is, whatever the laws.

    The cells are chosen by what is seen of the rule, not by its name. If it compares nothing, there
    is one. If the signs of p - q decide all that it compares, they are all combinations of signs
    over the depths, where no branch reads a law after tokens that it does not emit: then the
    identity of a text involves the laws along it only. Or over the prefixes, where these are few.
    Else cells are what the log of comparisons says, draft path by draft path, and points are drawn
    until none is new. Each way, points with very uneven numbers are tried besides, further apart
    than any constant that the rule uses; and points with zeros, ties and certain tokens.

    Parameters
    ----------
    rule : name, object or function (see `lab.verify`)
    vocab : V, at least 2; V = 2 is blind to some faults
    gamma : drafts, at least 1

    Raises
    ------
    ValueError
        Also where the rule raises, with the laws that it was given; where it casts numbers to
        floats, even if it catches what that raises; where it draws at random by itself; where it
        has too many branches, or texts. All that is tried ends after some 150,000 branches.
    """
    vocab, gamma = domains.whole("vocab", vocab, 2), domains.whole("gamma", gamma, 1)
    if vocab > MAX_TEXTS or (gamma + 1) * math.log(vocab) > math.log(MAX_TEXTS):
        raise ValueError(
            f"vocab={vocab}, gamma={gamma}: there are vocab^(gamma + 1) texts to look at, more "
            f"than {MAX_TEXTS:,}: take a smaller vocab or gamma"
        )
    search = Search(rule, vocab, gamma, domains.whole("seed", seed))
    try:
        if not search.all_cells():
            search.sample()
        search.edges()
    except Refuted as refuted:
        return search.certificate(refuted.violations)
    return search.certificate()


class Refuted(Exception):
    """Counterexamples were found."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        self.violations = violations


class Plan(NamedTuple):
    """Which cells are visited."""

    way: str  # what they are, in words
    kinds: Iterator[Kind]  # what laws are like in each
    needs_within: bool = False  # they suffice only for rounds that are `CellRound.within`


class Search:
    """The cells of one rule, visited one after another, and what was counted."""

    def __init__(self, rule: Any, vocab: int, gamma: int, seed: int) -> None:
        self.vocab, self.gamma = vocab, gamma
        self.rng = np.random.default_rng([seed, vocab, gamma])
        self.rounds = Rounds(rule, vocab, gamma, self.rng)
        self.way = ""  # what the cells are, in words
        blind = "; V 2 is blind to some faults that V 3 shows" if vocab == 2 else ""
        self.assumptions = [
            f"nothing is said of other vocabularies, nor of other γ{blind}",
            "the rule is a function of its arguments, and draws through its dice only",
            "the rule does with floats what it does with exact numbers; their rounding is not "
            "looked at",
        ]
        self.cells = self.points = 0
        self.error_bound = 0.0
        self.seen: Counter[tuple[Tokens, bytes]] = Counter()  # by sampling: points in each cell
        self.unseen: float | None = None

    def certificate(self, found: tuple[Violation, ...] = ()) -> Certificate:
        stopped = "; stopped at the first wrong point" if found else ""
        return Certificate(
            self.cells, self.points, self.rounds.leaves, found, tuple(self.assumptions),
            min(1.0, self.error_bound),
            f"rule {self.rounds.name}, V {self.vocab}, γ {self.gamma}: {self.way}{stopped}",
            self.unseen,
        )  # fmt: skip

    # ---- Which cells

    def all_cells(self) -> bool:
        """Visit every cell, if one can tell what they are; False if not."""
        first = self._first()
        return any(self._visited(plan, first.compared) for plan in self._plans(first))

    def _visited(self, plan: Plan, compared: bool) -> bool:
        """Visit the cells of a plan; False if they are none."""
        self.way, self.cells, self.points, self.error_bound = plan.way, 0, 0, 0.0

        def visit(kind: Kind) -> None:
            found = self.rounds.play(CellLaws(self.vocab, kind, apart(self.rng, self._wide)))
            if plan.needs_within and not found.within:
                raise Split
            self._check(found)
            self.error_bound += (found.degree / 2**BITS) ** 2

        try:
            for kind in plan.kinds:
                self.cells += 1
                visit(kind)
            if compared:
                more = self._tried(UNEVEN, lambda: visit(self._random_kinds()))
                self.assumptions.append(
                    "the signs of p − q decide all comparisons: two points of each cell agreed, "
                    f"and {more} more pairs, one of each with numbers up to 2^{self._wide} apart"
                )
        except Split:
            return False
        return True

    def _plans(self, first: CellRound) -> Iterator[Plan]:
        """The cells by signs of p - q, if these are few."""
        if not first.compared:
            way = "it compares nothing, so there is one cell"
            yield Plan(way, iter([self._random_kinds()]))
        work = len(first.reads) + self.vocab ** (self.gamma + 1)  # of one cell
        signs, most = math.log(2**self.vocab - 2), math.log(ALL_LEAVES / work)
        nodes = sum(self.vocab**depth for depth in range(self.gamma))
        if nodes * signs <= min(math.log(TREE_CELLS), most):
            way = "all combinations of signs of p − q over the prefixes"
            prefixes = [
                z for d in range(self.gamma) for z in itertools.product(range(self.vocab), repeat=d)
            ]
            yield Plan(way, self._sign_kinds(prefixes, lambda prefix: prefix))
        if first.within and self.gamma * signs <= most:
            way = "all combinations of signs of p − q along each text"
            if self.gamma > 1:
                way += "; no branch read a law after tokens that it did not emit"
            yield Plan(way, self._sign_kinds(range(self.gamma), len), needs_within=True)

    def sample(self) -> None:
        """Visit points anywhere, until none of their cells has been new for long."""
        self.cells, self.points, self.error_bound = 0, 0, 0.0
        self.way = "points anywhere; cells are the outcomes of all comparisons on a draft path"
        self.assumptions.append(
            "faults of two draft paths do not cancel at every point where either was seen"
        )
        sampled = quiet = 0
        last = self.rounds.leaves + SAMPLED_LEAVES
        for number in range(SAMPLED_POINTS):
            if quiet == QUIET or self.rounds.leaves >= last:
                break
            spread = self._wide if number % 2 else SPREAD
            with suppress(Split):  # a boundary runs between the two points
                found = self.rounds.play(self._anywhere(self._random_kinds(), spread))
                cells = list(found.cells.items())
                quiet = quiet + 1 if all(cell in self.seen for cell in cells) else 0
                self.seen.update(cells)
                self.cells, sampled = len(self.seen), sampled + 1
                self._check(found)
                self.error_bound += found.degree / 2**BITS  # the other point says which cell it is
        once = sum(count == 1 for count in self.seen.values())
        # Good-Turing: expected new cells of one more point; the rule of three, 95 %, if it is 0.
        self.unseen = min(1.0, (once or 3) / max(sampled, 1))
        self.assumptions.append(
            "points to meet all cells: half of them even, half with numbers up to "
            f"2^{self._wide} apart"
        )

    def edges(self) -> None:
        """Points with zeros, ties and certain tokens: `>=` for `>` shows there, or 0 / 0."""

        def visit() -> None:
            self._check(self.rounds.play(self._anywhere(self._edge_kinds())))

        self.assumptions.append(
            f"zeros, ties and certain tokens: {self._tried(EDGES, visit)} random cases were "
            "tried, not all"
        )

    def _tried(self, count: int, visit: Callable[[], None]) -> int:
        """Visit up to `count` more points -> how many."""
        last = self.rounds.leaves + MORE_LEAVES
        for tried in range(count):
            if self.rounds.leaves >= last:
                return tried
            visit()
        return count

    @property
    def _wide(self) -> int:
        """Powers of two that lie well beyond every constant of the rule, as far as they are known:
        whatever threshold it has, points fall on both sides."""
        return max(WIDE, 3 * self.rounds.bits)

    # ---- Kinds of laws by prefix

    def _anywhere(self, kind: Kind, spread: int = SPREAD) -> CellLaws:
        return CellLaws(self.vocab, kind, near(self.rng, spread))

    def _sign_kinds(self, places: Sequence[Any], place: Callable[[Tokens], Any]) -> Iterator[Kind]:
        """All combinations of signs, one for each place that a draft may have."""
        tie = "=" * self.vocab  # after all drafts: p alone

        def kind(signs: tuple[str, ...]) -> Kind:
            at = dict(zip(places, signs, strict=True))
            return lambda prefix: at.get(place(prefix), tie)

        return map(kind, itertools.product(sign_kinds(self.vocab), repeat=len(places)))

    def _random_kinds(self) -> Kind:
        return functools.cache(lambda prefix: random_kind(self.rng, self.vocab))

    def _edge_kinds(self) -> Kind:
        def kind(prefix: Tokens) -> str:
            if self.rng.random() < 0.25:
                return random_kind(self.rng, self.vocab)
            return edge_kind(self.rng, self.vocab, only_target=len(prefix) == self.gamma)

        return functools.cache(kind)

    # ---- One cell

    def _first(self) -> CellRound:
        """A round anywhere; played twice, for a rule that throws dice of its own."""
        for _ in range(TRIES):
            laws = self._anywhere(self._random_kinds())
            with suppress(Split):
                first, again = self.rounds.play(laws), self.rounds.play(laws)
                if first.cells == again.cells and first.same_law(again):
                    return first
                raise ValueError(
                    f"rule={self.rounds.name}: the same laws and the same answers of the dice give "
                    "different results: it must draw through its dice only, and keep nothing "
                    "between calls"
                )
        raise ValueError(
            f"rule={self.rounds.name}: at {TRIES} pairs of points, each close together, its "
            "comparisons came out differently: it must have cells in which they do not change"
        )

    def _check(self, found: CellRound) -> None:
        """The identity at both points of a cell; where it fails, an example nice to read."""
        self.points += 2
        if not found.holds():
            groups = itertools.chain(self.rounds.simpler(found.laws), [[found]])
            wrong = (list(filter(None, map(violations, rounds))) for rounds in groups)
            raise Refuted(min(next(filter(None, wrong)), key=lambda texts: len(str(texts[0]))))
