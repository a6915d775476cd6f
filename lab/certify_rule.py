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
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from lab import domains
from lab.certificate import Certificate, Tokens, Violation, law_lines
from lab.exact import branches
from lab.rule_cells import CellLaws, Kind, apart, edge_kind, near, random_kind, sign_kinds, small
from lab.rule_identity import CellRound, Quiet, violations
from lab.rule_numbers import BITS, Inexact, Split
from lab.rule_round import Deferred
from lab.verify import as_rule, name_of

TREE_CELLS = 2_000  # as many combinations of signs over all prefixes are visited one by one
ALL_LEAVES = 1_000_000  # no way of visiting all cells is tried that would take more branches
EDGES, EDGE_LEAVES = 200, 30_000  # points with zeros and ties; fewer, if they take many branches
QUIET = 400  # sampling ends when so many points in a row had no new cell,
SAMPLED_POINTS, SAMPLED_LEAVES = 5_000, 150_000  # or after so many points, or branches
POINT_LEAVES = 50_000  # branches of one round
TRIES = 100  # to find two points that the rule compares alike
SIMPLER = 40  # tries to find a counterexample that is nicer to read


def rule(rule: Any, vocab: int, gamma: int, seed: int = 0) -> Certificate:
    """Certify that one round of `rule` leaves the target's law as it is, whatever the laws.

    The cells are chosen by what is seen of the rule, not by its name. If it compares nothing, there
    is one. If the signs of p - q decide all that it compares, they are all combinations of signs
    over the prefixes, where these are few; or over the depths, if no branch reads a law after
    tokens that it does not emit: then the identity of a text involves the laws along it only. Else
    cells are what the log of comparisons says, draft path by draft path, and points are drawn until
    none is new. Each way, points with zeros, ties and certain tokens are tried besides.

    Parameters
    ----------
    rule : name, object or function (see `lab.verify`)
    vocab : V, at least 2; V = 2 is blind to some faults
    gamma : drafts, at least 1

    Raises
    ------
    ValueError
        Also where the rule raises, with the laws that it was given; where it casts numbers to
        floats; where it draws at random by itself; where it has too many branches.
    """
    vocab, gamma = domains.whole("vocab", vocab, 2), domains.whole("gamma", gamma, 1)
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


class Raised(ValueError):
    """The rule raised; says under which laws."""


class Plan(NamedTuple):
    """Which cells are visited."""

    way: str  # what they are, in words
    kinds: Iterator[Kind]  # what laws are like in each
    needs_within: bool = False  # they suffice only for rounds that are `CellRound.within`


class Search:
    """The cells of one rule, visited one after another, and what was counted."""

    def __init__(self, rule: Any, vocab: int, gamma: int, seed: int) -> None:
        self.decide, self.name, self.vocab, self.gamma = as_rule(rule), name_of(rule), vocab, gamma
        self.rng = np.random.default_rng([seed, vocab, gamma])
        self.way = ""  # what the cells are, in words
        blind = "; V 2 is blind to some faults that V 3 shows" if vocab == 2 else ""
        self.assumptions = [
            f"nothing is said of other vocabularies, nor of other γ{blind}",
            "the rule is a function of its arguments, and draws through its dice only",
            "numbers are exact: how floats are rounded is not looked at",
        ]
        self.cells = self.points = self.leaves = 0
        self.error_bound = 0.0
        self.seen: Counter[tuple[Tokens, bytes]] = Counter()  # by sampling: points in each cell
        self.unseen: float | None = None

    def certificate(self, found: tuple[Violation, ...] = ()) -> Certificate:
        stopped = "; stopped at the first wrong point" if found else ""
        return Certificate(
            self.cells, self.points, self.leaves, found, tuple(self.assumptions),
            min(1.0, self.error_bound),
            f"rule {self.name}, V {self.vocab}, γ {self.gamma}: {self.way}{stopped}", self.unseen,
        )  # fmt: skip

    # ---- Which cells

    def all_cells(self) -> bool:
        """Visit every cell, if one can tell what they are; False if not."""
        first = self._first()
        plan = self._plan(first)
        if plan is None:
            return False
        self.way = plan.way
        try:
            for kind in plan.kinds:
                found = self._played(CellLaws(self.vocab, kind, apart(self.rng)))
                if plan.needs_within and not found.within:
                    raise Split
                self.cells += 1
                self._check(found)
                self.error_bound += (found.degree / 2**BITS) ** 2
        except Split:
            self.cells = self.points = 0
            self.error_bound = 0.0
            return False
        if first.compared:
            self.assumptions.append(
                "the signs of p − q decide all comparisons: two points of each cell agreed"
            )
        return True

    def _plan(self, first: CellRound) -> Plan | None:
        """The cells by signs of p - q, if these are few; None if not."""
        signs, most = math.log(2**self.vocab - 2), math.log(ALL_LEAVES / len(first.reads))
        nodes = sum(self.vocab**depth for depth in range(self.gamma))
        if not first.compared:
            way = "it compares nothing, so there is one cell"
            return Plan(way, iter([self._random_kinds()]))
        if nodes * signs <= min(math.log(TREE_CELLS), most):
            way = "all combinations of signs of p − q over the prefixes"
            prefixes = [z for d in range(self.gamma) for z in product(range(self.vocab), repeat=d)]
            return Plan(way, self._sign_kinds(prefixes, lambda prefix: prefix))
        if first.within and self.gamma * signs <= most:
            way = (
                "all combinations of signs of p − q along each text; no branch read a law after "
                "tokens that it did not emit"
            )
            return Plan(way, self._sign_kinds(range(self.gamma), len), needs_within=True)
        return None

    def sample(self) -> None:
        """Visit points anywhere, until none of their cells has been new for long."""
        self.way = "points anywhere; cells are the outcomes of all comparisons on a draft path"
        self.assumptions.append(
            "faults of two draft paths do not cancel at every point where either was seen"
        )
        sampled = quiet = 0
        last = self.leaves + SAMPLED_LEAVES
        for _ in range(SAMPLED_POINTS):
            if quiet == QUIET or self.leaves >= last:
                break
            with suppress(Split):  # a boundary runs between the two points
                found = self._played(self._anywhere(self._random_kinds()))
                cells = list(found.cells.items())
                quiet = quiet + 1 if all(cell in self.seen for cell in cells) else 0
                self.seen.update(cells)
                self.cells, sampled = len(self.seen), sampled + 1
                self._check(found)
                self.error_bound += found.degree / 2**BITS  # the other point says which cell it is
        once = sum(count == 1 for count in self.seen.values())
        # Good-Turing: expected new cells of one more point; the rule of three, 95 %, if it is 0.
        self.unseen = min(1.0, (once or 3) / max(sampled, 1))

    def edges(self) -> None:
        """Points with zeros, ties and certain tokens: `>=` for `>` shows there, or 0 / 0."""
        tried, last = 0, self.leaves + EDGE_LEAVES
        while tried < EDGES and self.leaves < last:
            with suppress(Split):
                self._check(self._played(self._anywhere(self._edge_kinds())))
            tried += 1
        self.assumptions.append(
            f"zeros, ties and certain tokens: {tried} random cases were tried, not all"
        )

    # ---- Kinds of laws by prefix

    def _anywhere(self, kind: Kind) -> CellLaws:
        return CellLaws(self.vocab, kind, near(self.rng))

    def _sign_kinds(self, places: Sequence[Any], place: Callable[[Tokens], Any]) -> Iterator[Kind]:
        """All combinations of signs, one for each place that a draft may have."""
        tie = "=" * self.vocab  # after all drafts: p alone

        def kind(signs: tuple[str, ...]) -> Kind:
            at = dict(zip(places, signs, strict=True))
            return lambda prefix: at.get(place(prefix), tie)

        return map(kind, product(sign_kinds(self.vocab), repeat=len(places)))

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
                first, again = self._played(laws), self._played(laws)
                if first.cells == again.cells and first.same_law(again):
                    return first
                raise ValueError(
                    f"rule={self.name}: the same laws and the same answers of the dice give "
                    "different results: it must draw through its dice only, and keep nothing "
                    "between calls"
                )
        raise ValueError(
            f"rule={self.name}: at {TRIES} pairs of points, each close together, its comparisons "
            "came out differently: it must have cells in which they do not change"
        )

    def _check(self, found: CellRound) -> None:
        """The identity at both points of a cell; where it fails, an example nice to read."""
        self.points += 2
        if not found.holds():
            texts = [violations(one) for one in (found, *self._like(found.laws.kind))]
            raise Refuted(min(filter(None, texts), key=lambda wrong: len(str(wrong[0]))))

    def _like(self, kind: Kind) -> list[CellRound]:
        """Rounds at points with small numbers, of the same kind."""
        rounds = []
        for _ in range(SIMPLER):
            with suppress(Split):
                rounds.append(self._enumerated(CellLaws(self.vocab, kind, small(self.rng))))
        return rounds

    def _played(self, laws: CellLaws) -> CellRound:
        """Every branch of one round."""
        try:
            return self._enumerated(laws)
        except Raised:
            self._like(laws.kind)  # raises there too, if it can, and with numbers nice to read
            raise

    def _enumerated(self, laws: CellLaws) -> CellRound:
        found = CellRound(laws, self.gamma)

        def run(dice: Any) -> tuple[Tokens, Deferred]:
            laws.notes.clear()
            one = Deferred(laws, self.gamma, Quiet(dice, laws.notes))
            try:
                return one.play(self.decide), one
            except Split:
                raise
            except Inexact as error:
                raise Inexact(f"rule={self.name}: {error}") from error
            except Exception as error:
                raise self._told(laws, one, error) from error

        for leaf in branches(run):
            emitted, played = leaf.result
            found.add(emitted, played, leaf.probability)
            self.leaves += 1
            if len(found.reads) > POINT_LEAVES:
                raise ValueError(
                    f"rule={self.name}: one round has more than {POINT_LEAVES} branches at "
                    f"vocab={self.vocab}, gamma={self.gamma}: take a smaller vocab or gamma"
                )
        return found

    def _told(self, laws: CellLaws, played: Deferred, error: Exception) -> Raised:
        """What the rule raised, and the laws it had read."""
        read = [tuple(played.drafts[:i]) for i in range(played.depth + 1)]
        given = "\n".join(law_lines(*laws.fractions(read, self.gamma, 0)))
        return Raised(
            f"rule={self.name}: it raised {type(error).__name__}: {error}\n{given}".rstrip()
        )
