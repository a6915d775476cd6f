"""Exact laws of what the loop emits: every branch of every draw of the loop that really runs.

A run is a function of a dice. `branches` calls it once for every sequence of answers that has a
probability above 0, so what comes out is the whole law, caches, rollback, limits and all, not a
sample of it. `TableLM`, `HashLM` and `SpreadLM` (of `lab.small`) are models small enough for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.decode import Generation, speculative_generate, verify
from lab.expectations import expectations
from lab.rule_laws import PrefixLaw
from lab.sampling import Sampling
from lab.small import HashLM, SpreadLM, TableLM, random_laws
from lab.verify import Proposal, as_rule

__all__ = [
    "EXACT",
    "Audit",
    "Difference",
    "HashLM",
    "Leaf",
    "SpreadLM",
    "TableLM",
    "assert_lossless",
    "audit",
    "audit_loop",
    "branches",
    "completed",
    "difference",
    "output_law",
    "plain_law",
    "prefix_law",
    "prefix_masses",
    "round_difference",
    "round_law",
    "tokens_of",
    "total_variation",
]

Array = npt.NDArray[Any]
Run = Callable[[Any], Any]
Law = dict[tuple[int, ...], Any]

EXACT = 1e-12  # what rounding may leave, of a probability or of a total variation
MAX_LEAVES = 5_000_000
LAW_SETS = 8  # sets of random laws that a rule is tried on


class Script:
    """A dice that gives the answers it was given, then the first possible one, and notes which
    other answers there were."""

    def __init__(self, answers: Sequence[int]) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.probability: Any = 1
        self.open: list[tuple[int, int]] = []  # (question, another possible answer)

    def choose(self, probs: Array) -> int:
        probs = np.asarray(probs)
        if self.asked == len(self.answers):  # what is replayed was found possible before
            self._new((probs > 0).nonzero()[0].tolist())
        token = self._next()
        self.probability = self.probability * probs[token]
        return token

    def accept(self, probability: Any) -> bool:
        if not 0 <= probability <= 1:
            raise ValueError(f"probability={probability} must be within 0..1")
        if self.asked == len(self.answers):
            self._new([answer for answer, p in ((1, probability), (0, 1 - probability)) if p > 0])
        accepted = self._next() == 1
        self.probability = self.probability * (probability if accepted else 1 - probability)
        return accepted

    def siblings(self) -> list[list[int]]:
        """The other branches that were met: what to answer first to take each."""
        return [[*self.answers[:question], other] for question, other in self.open]

    def _new(self, possible: list[int]) -> None:
        """A question that was not asked before: take the first answer, note the others."""
        if not possible:
            raise ValueError("probs must have an entry above 0")
        self.answers.append(possible[0])
        self.open += [(self.asked, other) for other in possible[1:]]

    def _next(self) -> int:
        self.asked += 1
        return self.answers[self.asked - 1]


@dataclass(frozen=True)
class Leaf:
    """One branch: what the run returned, how likely, after how many questions."""

    result: Any
    probability: Any
    depth: int


def branches(run: Run, max_leaves: int = MAX_LEAVES) -> Iterator[Leaf]:
    """Every branch of `run(dice)`; depth first, so memory does not grow with their number."""
    pending: list[list[int]] = [[]]
    leaves = 0
    while pending:
        dice = Script(pending.pop())
        result = run(dice)
        pending += dice.siblings()
        leaves += 1
        if leaves > max_leaves:
            raise ValueError(
                f"more than max_leaves={max_leaves} branches: take a smaller vocabulary, horizon "
                "or gamma, or laws with fewer possible tokens"
            )
        yield Leaf(result, dice.probability, dice.asked)


def tokens_of(result: Any) -> tuple[int, ...]:
    """The tokens of a `Generation`, or of any sequence of tokens."""
    return tuple(int(t) for t in (result.tokens if isinstance(result, Generation) else result))


def output_law(run: Run, max_leaves: int = MAX_LEAVES) -> Law:
    """Exact law of what `run(dice)` returns: {tokens: probability}.

    `run` returns tokens or a `Generation`. Probabilities sum to 1 within 1e-12.
    """
    law: Law = {}
    for leaf in branches(run, max_leaves):
        tokens = tokens_of(leaf.result)
        law[tokens] = law.get(tokens, 0) + leaf.probability
    _check_sum(law)
    return law


def round_law(rule: Any, target_probs: Any, draft_probs: Any, gamma: int = 2) -> Law:
    """Exact law of the tokens that one round emits: {emitted tokens: probability}.

    Parameters
    ----------
    rule : name, object or function (see `lab.verify`)
    target_probs, draft_probs : the laws (V,) as functions of the prefix (a tuple of the round's
        tokens so far); or arrays, (gamma + 1, V) and (gamma, V), that depend on the position only
    gamma : drafts, where the laws are functions
    """
    decide = as_rule(rule)
    gamma = domains.whole("gamma", gamma) if callable(draft_probs) else len(draft_probs)
    if not callable(target_probs) and len(target_probs) < gamma + 1:
        raise ValueError(f"target_probs has {len(target_probs)} rows, gamma + 1 = {gamma + 1}")
    target, draft = _as_function(target_probs), _as_function(draft_probs)

    def run(dice: Any) -> tuple[int, ...]:
        drafts: list[int] = []
        laws = []
        for _ in range(gamma):
            laws.append(draft(tuple(drafts)))
            drafts.append(dice.choose(laws[-1]))
        rows = np.stack([target(tuple(drafts[:i])) for i in range(gamma + 1)])  # (gamma + 1, V)
        proposal = Proposal(np.array(drafts, np.int64), np.array(laws) if laws else None)
        verdict = verify(decide, rows, proposal, dice)
        return (*(drafts[i] for i in verdict.path), verdict.token)

    return output_law(run)


def plain_law(
    target: Any,
    prompt: Sequence[int],
    n_new: int,
    sampling: Sampling = Sampling(),
    stop: Sequence[int] = (),
) -> Law:
    """The law that must come out: products of the target's processed laws, each of them from a
    fresh forward pass over the whole prefix. It shares nothing with the loop."""
    max_len = getattr(target, "max_len", None)
    limit = n_new if max_len is None else min(n_new, max_len - len(prompt))

    def processed(tokens: tuple[int, ...]) -> Array:
        text = [*prompt, *tokens]
        logits = target.forward(np.array(text), target.new_cache())[-1]
        return sampling.probs(logits, text)

    law = completed({(): 1.0}, processed, limit, stop)
    _check_sum(law)
    return law


def completed(law: Law, target: PrefixLaw, length: int, stop: Sequence[int] = ()) -> Law:
    """The law of texts of `length` tokens, or up to the first of `stop`, where what `law` leaves
    open is continued by the target, a law (V,) for every prefix. Of {(): 1} it makes the target's
    own."""
    full: Law = {}
    pending = list(law.items())
    while pending:
        tokens, probability = pending.pop()
        if len(tokens) == length or (tokens and tokens[-1] in stop):
            full[tokens] = full.get(tokens, 0) + probability
        else:
            pending += [((*tokens, t), probability * p) for t, p in enumerate(target(tokens)) if p]
    return full


def prefix_law(law: Mapping[tuple[int, ...], Any], length: int) -> Law:
    """The law of the first `length` tokens."""
    prefixes: Law = {}
    for tokens, probability in law.items():
        prefixes[tokens[:length]] = prefixes.get(tokens[:length], 0) + probability
    return prefixes


def prefix_masses(law: Mapping[tuple[int, ...], Any]) -> Law:
    """{prefix: probability that a text begins with it}, of all prefixes of all lengths."""
    masses: Law = {}
    for tokens, probability in law.items():
        for end in range(len(tokens) + 1):
            masses[tokens[:end]] = masses.get(tokens[:end], 0) + probability
    return masses


def total_variation(law: Mapping[Any, Any], other: Mapping[Any, Any]) -> Any:
    """Half the sum of absolute differences."""
    return sum(abs(law.get(k, 0) - other.get(k, 0)) for k in law.keys() | other.keys()) / 2


class Difference(NamedTuple):
    """How far a law is from the one it should be.

    prefix : the shortest (then the smallest) whose probability differs by more than EXACT, or None
    p_reference, p_law : its probability under either
    """

    total_variation: float
    prefix: tuple[int, ...] | None
    p_reference: float
    p_law: float


def difference(law: Law, reference: Law) -> Difference:
    """Compare two laws of texts."""
    due, found = prefix_masses(reference), prefix_masses(law)
    differing = [z for z in due.keys() | found if abs(due.get(z, 0) - found.get(z, 0)) > EXACT]
    prefix = min(differing, key=lambda prefix: (len(prefix), prefix), default=None)
    masses = (float(one.get(prefix or (), 0)) for one in (due, found))
    return Difference(float(total_variation(law, reference)), prefix, *masses)


def round_difference(emitted: Law, target: PrefixLaw, gamma: int) -> Difference:
    """How far the text is from the target's law where `emitted`, the law of one round of gamma
    drafts (see `round_law`), is continued by the target."""
    due = completed({(): 1.0}, target, gamma + 1)
    return difference(completed(emitted, target, gamma + 1), due)


@dataclass(frozen=True)
class Audit:
    """A run's exact law beside the law it should have.

    total_variation, first_difference, p_reference, p_run : the `Difference`
    leaves, depth : branches taken, and the most questions asked in one
    expected : exact expectations, for runs that return a `Generation`: of the counters drafted,
        tested, accepted, emitted, target_calls, draft_calls, and of what the estimators of
        `lab.estimate` say about one run, by name (see `lab.expectations`)
    exists : {estimator: probability that it gives a value for one run}
    pooled : {estimator: ratio of expectations}, what its value for many runs together tends to
    """

    total_variation: float
    first_difference: tuple[int, ...] | None
    p_reference: float
    p_run: float
    leaves: int
    depth: int
    expected: dict[str, float] = field(default_factory=dict)
    exists: dict[str, float] = field(default_factory=dict)
    pooled: dict[str, float] = field(default_factory=dict)

    @property
    def difference(self) -> Difference:
        return Difference(self.total_variation, self.first_difference, self.p_reference, self.p_run)


def audit(run: Run, reference_law: Law, max_leaves: int = MAX_LEAVES) -> Audit:
    """Compare `run(dice)` with a law, exactly."""
    _check_sum(reference_law)
    law: Law = {}
    leaves = depth = 0
    seen: dict[Any, tuple[Generation, Any]] = {}  # runs with the same counts, and how likely
    for leaf in branches(run, max_leaves):
        leaves, depth = leaves + 1, max(depth, leaf.depth)
        tokens, made = tokens_of(leaf.result), leaf.result
        law[tokens] = law.get(tokens, 0) + leaf.probability
        if isinstance(made, Generation):
            counts = (made.rounds, made.target_calls, made.draft_calls)
            _, chance = seen.get(counts, (made, 0))
            seen[counts] = made, chance + leaf.probability
    _check_sum(law)
    found = difference(law, reference_law)
    return Audit(
        total_variation=found.total_variation,
        first_difference=found.prefix,
        p_reference=found.p_reference,
        p_run=found.p_law,
        leaves=leaves,
        depth=depth,
        **expectations(list(seen.values()))._asdict(),
    )


def audit_loop(
    target: Any, draft: Any, prompt: Sequence[int], n_new: int, gamma: Any, **more: Any
) -> Audit:
    """`audit` of `speculative_generate` with these arguments, beside `plain_law` with the same
    `sampling` and `stop`."""

    def run(dice: Any) -> Generation:
        return speculative_generate(target, draft, prompt, n_new, gamma, rng=dice, **more)

    settings = {name: more[name] for name in ("sampling", "stop") if name in more}
    return audit(run, plain_law(target, prompt, n_new, **settings))


def assert_lossless(rule: Any, vocab: int = 3, gamma: int = 2, seed: int = 0) -> None:
    """Fail unless one round of `rule` leaves the target's law as it is.

    `assert_lossless(chain_rule(my_rule))` for a function of (target_probs, draft_probs, drafts,
    dice). Tried exactly, on `LAW_SETS` sets of random laws that depend on the whole prefix, so that
    every row has its own and residuals have one token or several. For pytest, here and elsewhere.
    """
    vocab, gamma = domains.whole("vocab", vocab, 1), domains.whole("gamma", gamma, 1)
    for number in range(LAW_SETS):
        target, draft = (random_laws(vocab, seed, gamma, number, which) for which in (0, 1))
        found = round_difference(round_law(rule, target, draft, gamma), target, gamma)
        assert found.prefix is None, (
            f"rule is not lossless: total variation {found.total_variation:.3g}, prefix "
            f"{found.prefix} has probability {found.p_law:.6g}, the target gives "
            f"{found.p_reference:.6g}"
        )


def _as_function(probs: Any) -> Callable[[tuple[int, ...]], Array]:
    """The laws as a function of the prefix, each checked to be one."""

    def law(prefix: tuple[int, ...]) -> Array:
        found = np.asarray(probs(prefix) if callable(probs) else probs[len(prefix)])
        domains.law(f"law after {prefix}", found)
        return found

    return law


def _check_sum(law: Mapping[Any, Any]) -> None:
    total = sum(law.values())
    if abs(total - 1) > EXACT:
        raise ValueError(
            f"the branches' probabilities sum to {total}, not 1: a law was not one, or a draw did "
            "not go through the dice"
        )
