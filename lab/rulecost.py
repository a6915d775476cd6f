"""What a verification rule is worth and what it spoils, exactly, on laws that can be enumerated.

p = target law, q = draft law (Leviathan et al. 2023). Worth is the expected tokens of a target
call, bias the total variation of what comes out from the target's law. Both are taken from the
rule itself, branch by branch (`round_cost`), and from closed forms (`CANDIDATES`), which need no
branches and so serve on text too (`lab.ruletext`). Laws of a round are functions of the prefix, as
in `lab.rule_laws`, of floats or of exact fractions. Shapes: N drafts, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import rule_laws
from lab.exact import completed, round_law, total_variation
from lab.lawtest import prefix_law
from lab.rule_laws import PrefixLaw
from lab.verify import RULES, Rule, lenient, typical

Array = npt.NDArray[Any]
Laws = Callable[[Array, Array], Array]

EPSILON, DELTA = 0.09, 0.3  # of typical acceptance, as published


# ---- The rules, each with what it does to one draft --------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """A rule, and in closed form what it does to the first draft of a round.

    kept : laws p, q (..., V) -> (..., V), the probability that x is drafted and accepted
    first_law : laws p, q (V,) -> (V,), the law of the token that comes out there
    carried : whether the rule carries a weight from draft to draft, and so judges all together
    """

    rule: Rule
    kept: Laws
    first_law: Laws
    carried: bool = False

    def acceptance(self, target_probs: Array, draft_probs: Array) -> Any:
        """Probability that the first draft is kept: (..., V) -> (...)."""
        return self.kept(target_probs, draft_probs).sum(axis=-1)

    def bias(self, target_probs: Array, draft_probs: Array) -> Any:
        """Total variation of the first token's law from the target's."""
        return abs(self.first_law(target_probs, draft_probs) - target_probs).sum() / 2

    def survival(self, target_probs: Array, draft_probs: Array, drafts: Array) -> Array:
        """(N,): the chance that at least 1, 2, .. N drafts are kept, given these drafts.

        Entry l is given the first l alone: what may be drafted after them is averaged out, which
        makes it the carried weight in block verification (Sun et al. 2024), and Π min(1, p / q)
        in the token rule. So the sum has the mean of the accepted drafts, with no coin in it.
        """
        rows = np.arange(len(drafts))
        p, q = target_probs[rows], draft_probs[rows]
        drawn = q[rows, drafts]
        if not self.carried:
            return np.cumprod(self.kept(p, q)[rows, drafts] / drawn)
        weights: list[Any] = [1]
        for ratio in p[rows, drafts] / drawn:
            weights.append(min(1, weights[-1] * ratio))
        return np.array(weights[1:])


def _lossless(name: str, kept: Laws, carried: bool = False) -> Candidate:
    return Candidate(RULES[name], kept, lambda p, q: p, carried)


def _lenient(leniency: Fraction, scaled_residual: bool) -> Candidate:
    def number(laws: Array) -> Any:
        """l, exact where the laws are."""
        return leniency if laws.dtype == object else float(leniency)

    return Candidate(
        lenient(leniency, scaled_residual),
        lambda p, q: np.minimum(p / number(p), q),
        lambda p, q: rule_laws.lenient_law(p, q, number(p), scaled_residual),
    )


def _typical_kept(target_probs: Array, draft_probs: Array) -> Array:
    threshold = np.apply_along_axis(rule_laws.typical_threshold, -1, target_probs, EPSILON, DELTA)
    return np.where(target_probs > threshold[..., None], draft_probs, 0)


CANDIDATES = {  # "p - q" is the residual that lenience draws from; without it, p - l q
    "token": _lossless("token", np.minimum),
    "block": _lossless("block", np.minimum, carried=True),
    "match": _lossless("match", np.multiply),
    "lenient 1/2": _lenient(Fraction(1, 2), True),
    "lenient 1/2, p - q": _lenient(Fraction(1, 2), False),
    "lenient 3/10": _lenient(Fraction(3, 10), True),
    "lenient 3/10, p - q": _lenient(Fraction(3, 10), False),
    "typical": Candidate(
        typical(EPSILON, DELTA),
        _typical_kept,
        lambda p, q: rule_laws.typical_law(p, q, EPSILON, DELTA),
    ),
}


# ---- One round on small laws, exactly ----------------------------------------------------------


@dataclass(frozen=True)
class RoundCost:
    """One round by enumeration.

    tokens : expected tokens, the target's own included
    acceptance : probability that the first draft is kept
    first_bias, joint_bias : total variation from the target's law of the first token, and of
        γ + 1 tokens, where the target itself continues what the round leaves open
    """

    tokens: Any
    acceptance: Any
    first_bias: Any
    joint_bias: Any


def round_cost(rule: Any, target: PrefixLaw, draft: PrefixLaw, gamma: int) -> RoundCost:
    """Every branch of a round of gamma >= 1 drafts; laws depend on the prefix."""
    emitted = round_law(rule, target, draft, gamma)
    joint = completed(emitted, target, gamma + 1)
    due = completed({(): 1}, target, gamma + 1)
    return RoundCost(
        tokens=sum(len(tokens) * p for tokens, p in emitted.items()),
        acceptance=sum(p for tokens, p in emitted.items() if len(tokens) > 1),
        first_bias=total_variation(prefix_law(joint, 1), prefix_law(due, 1)),
        joint_bias=total_variation(joint, due),
    )


def expected_tokens(candidate: Candidate, target: PrefixLaw, draft: PrefixLaw, gamma: int) -> Any:
    """1 + Σ_l E[survival_l]: a round's expected tokens in closed form, for every candidate."""
    total: Any = 1
    for path in _paths(draft, gamma):
        rows = [path[:i] for i in range(gamma)]
        p, q = (np.stack([law(prefix) for prefix in rows]) for law in (target, draft))
        total += _mass(draft, path) * candidate.survival(p, q, np.array(path)).sum()
    return total


def circulating_tokens(target: PrefixLaw, draft: PrefixLaw, gamma: int) -> Any:
    """1 + Σ_l Σ_x min(q(x_1..x_l), p(x_1..x_l)), often given for block verification: too large.

    No rule keeps a prefix with both of these laws' overlap at every length at once.
    """
    lengths = range(1, gamma + 1)
    return 1 + sum(
        min(_mass(draft, path), _mass(target, path)) for n in lengths for path in _paths(draft, n)
    )


def _paths(law: PrefixLaw, length: int) -> Iterator[tuple[int, ...]]:
    """All that can be drawn."""
    vocab = range(len(law(())))
    return (path for path in product(vocab, repeat=length) if _mass(law, path) > 0)


def _mass(law: PrefixLaw, path: Sequence[int]) -> Any:
    return prod(law(tuple(path[:i]))[x] for i, x in enumerate(path))


def rational_laws(rng: np.random.Generator, vocab: int, parts: int = 60) -> PrefixLaw:
    """A random law for every prefix, drawn when it is first asked for: fractions above 0 with the
    denominator `parts`, so that what is equal is exactly equal."""
    laws: dict[tuple[int, ...], Array] = {}

    def law(prefix: tuple[int, ...]) -> Array:
        if prefix not in laws:
            counts = 1 + rng.multinomial(parts - vocab, rng.dirichlet(np.ones(vocab)))
            laws[prefix] = np.array([Fraction(int(n), parts) for n in counts])
        return laws[prefix]

    return law


def greedy(law: PrefixLaw) -> PrefixLaw:
    """The same at temperature 0: all on the first of the most likely tokens."""

    def one_hot(prefix: tuple[int, ...]) -> Array:
        probs = law(prefix)
        best = max(range(len(probs)), key=lambda x: probs[x])
        return np.array([Fraction(int(x == best)) for x in range(len(probs))])

    return one_hot


# ---- Lenience's trade --------------------------------------------------------------------------


@dataclass(frozen=True)
class Trade:
    """Lenience l on one pair of laws (V,).

    acceptance : Σ min(p / l, q)
    bias, largest : with the residual norm(p - l q): total variation, and the largest out / p
    own_bias, own_largest : the same with the residual norm(p - q)
    bound : the least total variation that any rule of this acceptance can have
    """

    acceptance: Any
    bias: Any
    largest: Any
    own_bias: Any
    own_largest: Any
    bound: Any


def trade(target_probs: Array, draft_probs: Array, leniency: Any) -> Trade:
    """What lenience buys, and with what."""
    p, q = np.asarray(target_probs), np.asarray(draft_probs)
    laws = [rule_laws.lenient_law(p, q, leniency, scaled) for scaled in (True, False)]
    bias, own_bias = (abs(law - p).sum() / 2 for law in laws)
    largest, own_largest = ((law[p > 0] / p[p > 0]).max() for law in laws)
    acceptance = rule_laws.lenient_acceptance(p, q, leniency)
    bound = rule_laws.least_bias(abs(p - q).sum() / 2, 1 - acceptance)
    return Trade(acceptance, bias, largest, own_bias, own_largest, bound)
