"""What a verification rule is worth and what it spoils, exactly, on laws that can be enumerated.

p = target law, q = draft law (Leviathan et al. 2023). Worth is the expected tokens of a target
call, bias the total variation of what comes out from the target's law. Both are taken from the
rule itself, branch by branch (`round_cost`), and from closed forms (`CANDIDATES`), which need no
branches and so serve on text too (`lab.ruletext`). Laws of a round are functions of the prefix, as
in `lab.rule_laws`, of floats or of exact fractions. Shapes: N drafts, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import rule_laws
from lab.exact import completed, prefix_law, round_law, total_variation
from lab.rule_laws import PrefixLaw
from lab.sampling import residual
from lab.verify import DELTA, EPSILON, RULES, Rule, lenient, typical

Array = npt.NDArray[Any]
Laws = Callable[[Array, Array], Array]
Costs = Mapping[str, Sequence["RoundCost"]]


# ---- The rules, each with what it does to one draft --------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """A rule, and in closed form what it does to the first draft of a round.

    kept : laws p, q (..., V) -> (..., V), the probability that x is drafted and accepted
    correction : laws p, q (V,) -> (V,), the law after a rejection; None: the rule is lossless
    carried : whether the rule carries a weight from draft to draft, and so judges all together
    """

    rule: Rule
    kept: Laws
    correction: Laws | None = None
    carried: bool = False

    def acceptance(self, target_probs: Array, draft_probs: Array) -> Any:
        """Probability that the first draft is kept: (..., V) -> (...)."""
        return self.kept(target_probs, draft_probs).sum(axis=-1)

    def first_law(self, target_probs: Array, draft_probs: Array) -> Array:
        """The law (V,) of the token that comes out there."""
        if self.correction is None:
            return target_probs
        kept, correction = (law(target_probs, draft_probs) for law in (self.kept, self.correction))
        law: Array = kept + (1 - kept.sum()) * correction
        return law

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


def lenience(leniency: Any, scaled_residual: bool = True) -> Candidate:
    """Keeps min(p / l, q), then draws from norm(p - l q), or from norm(p - q) (Leviathan et al.
    2023, appendix A.5)."""
    factor = rule_laws.leniency(leniency)

    def kept(target_probs: Array, draft_probs: Array) -> Array:
        number = rule_laws.alike(draft_probs, factor)
        least = draft_probs * number
        below = np.minimum(target_probs, least) / number  # the minimum: it cannot overflow
        whole = (target_probs > 0) & (target_probs >= least)  # l q may underflow to 0
        return np.where(whole, draft_probs, below)

    def scaled(target_probs: Array, draft_probs: Array) -> Array:
        return residual(target_probs, draft_probs * rule_laws.alike(draft_probs, factor))

    return Candidate(
        lenient(leniency, scaled_residual), kept, scaled if scaled_residual else residual
    )


def typicality(epsilon: float, delta: float) -> Candidate:
    """Keeps q where p is typical, then draws from p itself (Medusa)."""

    def kept(target_probs: Array, draft_probs: Array) -> Array:
        threshold = rule_laws.typical_threshold(target_probs, epsilon, delta)
        return np.where(target_probs > threshold[..., None], draft_probs, 0)

    return Candidate(typical(epsilon, delta), kept, lambda p, q: p)


CANDIDATES = {
    one.rule.name: one
    for one in (
        Candidate(RULES["token"], np.minimum),
        Candidate(RULES["block"], np.minimum, carried=True),
        Candidate(RULES["match"], np.multiply),
        lenience(Fraction(1, 2)),
        lenience(Fraction(1, 2), scaled_residual=False),
        lenience(Fraction(3, 10)),
        lenience(Fraction(3, 10), scaled_residual=False),
        typicality(EPSILON, DELTA),
    )
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


def costs(target: PrefixLaw, draft: PrefixLaw, gammas: Sequence[int]) -> Costs:
    """Every candidate on one pair of laws in fractions: by name, one round for each γ. What has a
    closed form is that, exactly."""
    found: dict[str, list[RoundCost]] = {}
    for name, one in CANDIDATES.items():
        found[name] = [round_cost(one.rule, target, draft, gamma) for gamma in gammas]
        bias = one.bias(target(()), draft(()))
        for gamma, cost in zip(gammas, found[name], strict=True):
            assert cost.tokens == round_tokens(one, target, draft, gamma)
            assert cost.first_bias == bias
            assert cost.joint_bias == 0 or not one.rule.lossless
    return found


def round_tokens(candidate: Candidate, target: PrefixLaw, draft: PrefixLaw, gamma: int) -> Any:
    """1 + Σ_l E[survival_l]: a round's expected tokens in closed form, for every candidate."""
    total: Any = 1
    for path in _paths(draft, gamma):
        rows = [path[:i] for i in range(gamma)]
        p, q = (np.stack([law(prefix) for prefix in rows]) for law in (target, draft))
        total += _mass(draft, path) * candidate.survival(p, q, np.array(path)).sum()
    return total


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
    scaled_bias, scaled_largest : with the residual norm(p - l q): total variation of the token's
        law from p, and the largest out / p
    plain_bias, plain_largest : the same with the residual norm(p - q)
    bound : the least total variation that any rule of this acceptance can have
    """

    acceptance: Any
    scaled_bias: Any
    scaled_largest: Any
    plain_bias: Any
    plain_largest: Any
    bound: Any


def trade(target_probs: Array, draft_probs: Array, leniency: Any) -> Trade:
    """What lenience buys, and with what."""
    p, q = target_probs, draft_probs
    scaled, plain = (lenience(leniency, scaled_residual) for scaled_residual in (True, False))
    acceptance = plain.acceptance(p, q)
    return Trade(
        acceptance,
        scaled.bias(p, q),
        _largest(scaled.first_law(p, q), p),
        plain.bias(p, q),
        _largest(plain.first_law(p, q), p),
        rule_laws.least_bias(abs(p - q).sum() / 2, 1 - acceptance),
    )


def _largest(law: Array, target_probs: Array) -> Any:
    """The largest out / p."""
    drawn = target_probs > 0
    return (law[drawn] / target_probs[drawn]).max()
