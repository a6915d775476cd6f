"""Exact laws of what the loop emits: every branch of every draw of the loop that really runs.

A run is a function of a dice. `branches` calls it once for every sequence of answers that has a
probability above 0, so what comes out is the whole law, caches, rollback, limits and all, not a
sample of it. The small models at the end make such laws enumerable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.decode import Generation, verify
from lab.ngram import TokenCache
from lab.sampling import Sampling
from lab.verify import Proposal, as_rule

Array = npt.NDArray[Any]
Run = Callable[[Any], Any]
Law = dict[tuple[int, ...], Any]

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
        possible = np.flatnonzero(probs > 0)
        token = int(self._answer([int(i) for i in possible]))
        self.probability = self.probability * probs[token]
        return token

    def accept(self, probability: Any) -> bool:
        if not 0 <= probability <= 1:
            raise ValueError(f"probability={probability} must be within 0..1")
        possible = [answer for answer, p in ((1, probability), (0, 1 - probability)) if p > 0]
        accepted = self._answer(possible) == 1
        self.probability = self.probability * (probability if accepted else 1 - probability)
        return accepted

    def _answer(self, possible: list[int]) -> int:
        if not possible:
            raise ValueError("probs must have an entry above 0")
        if self.asked == len(self.answers):
            self.answers.append(possible[0])
            self.open += [(self.asked, other) for other in possible[1:]]
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
        pending += [[*dice.answers[:question], other] for question, other in dice.open]
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
    law: Law = {}
    pending: list[tuple[tuple[int, ...], Any]] = [((), 1.0)]
    while pending:
        tokens, probability = pending.pop()
        if len(tokens) == limit or (tokens and tokens[-1] in stop):
            law[tokens] = probability
            continue
        text = [*prompt, *tokens]
        logits = target.forward(np.array(text), target.new_cache())[-1]
        probs = sampling.probs(logits, text)
        pending += [((*tokens, int(t)), probability * probs[t]) for t in np.flatnonzero(probs)]
    _check_sum(law)
    return law


def total_variation(law: Mapping[Any, Any], other: Mapping[Any, Any]) -> Any:
    """Half the sum of absolute differences."""
    return sum(abs(law.get(k, 0) - other.get(k, 0)) for k in law.keys() | other.keys()) / 2


@dataclass(frozen=True)
class Audit:
    """A run's exact law beside the law it should have.

    first_difference : the shortest prefix whose probability differs by more than 1e-12, or None
    p_reference, p_run : its probability under either
    leaves, depth : branches taken, and the most questions asked in one
    expected : exact expectations of drafted, tested, accepted, emitted, target_calls, draft_calls
        (for runs that return a `Generation`)
    """

    total_variation: float
    first_difference: tuple[int, ...] | None
    p_reference: float
    p_run: float
    leaves: int
    depth: int
    expected: dict[str, float] = field(default_factory=dict)


def audit(run: Run, reference_law: Law, max_leaves: int = MAX_LEAVES) -> Audit:
    """Compare `run(dice)` with a law, exactly."""
    _check_sum(reference_law)
    law: Law = {}
    leaves = depth = 0
    expected: dict[str, float] = {}
    for leaf in branches(run, max_leaves):
        leaves, depth = leaves + 1, max(depth, leaf.depth)
        tokens = tokens_of(leaf.result)
        law[tokens] = law.get(tokens, 0) + leaf.probability
        if isinstance(leaf.result, Generation):
            for name, count in counts_of(leaf.result).items():
                expected[name] = expected.get(name, 0) + leaf.probability * count
    _check_sum(law)
    first = _first_difference(reference_law, law)
    return Audit(
        float(total_variation(law, reference_law)),
        first,
        float(_prefix_mass(reference_law, first or ())),
        float(_prefix_mass(law, first or ())),
        leaves,
        depth,
        {name: float(value) for name, value in expected.items()},
    )


def counts_of(generation: Generation) -> dict[str, int]:
    """The counters of a run, summed over its rounds."""
    names = ("drafted", "tested", "accepted", "emitted")
    counts = {name: sum(getattr(r, name) for r in generation.rounds) for name in names}
    return counts | {
        "target_calls": generation.target_calls,
        "draft_calls": generation.draft_calls,
    }


def assert_lossless(rule: Any, vocab: int = 3, gamma: int = 2, seed: int = 0) -> None:
    """Fail unless one round of `rule` leaves the target's law as it is.

    `assert_lossless(chain_rule(my_rule))` for a function of (target_probs, draft_probs, drafts,
    dice). Tried exactly, on `LAW_SETS` sets of random laws that depend on the whole prefix, so that
    every row has its own and residuals have one token or several. For pytest, here and elsewhere.
    """
    vocab, gamma = domains.whole("vocab", vocab, 1), domains.whole("gamma", gamma, 1)
    for number in range(LAW_SETS):
        rng = np.random.default_rng([seed, vocab, gamma, number])
        target, draft = _random_laws(rng, vocab), _random_laws(rng, vocab)
        emitted = round_law(rule, target, draft, gamma)
        completed: Law = {}  # what a round leaves open, the target itself continues
        pending = list(emitted.items())
        while pending:
            tokens, probability = pending.pop()
            if len(tokens) > gamma:
                completed[tokens] = completed.get(tokens, 0) + probability
            else:
                probs = target(tokens)
                pending += [((*tokens, t), probability * probs[t]) for t in range(vocab)]
        wanted: Law = {(): 1.0}
        for _ in range(gamma + 1):
            wanted = {(*z, t): p * target(z)[t] for z, p in wanted.items() for t in range(vocab)}
        first = _first_difference(wanted, completed)
        assert first is None, (
            f"rule is not lossless: total variation {total_variation(wanted, completed):.3g}, "
            f"prefix {first} has probability {_prefix_mass(completed, first):.6g}, the target "
            f"gives {_prefix_mass(wanted, first):.6g}"
        )


def _random_laws(rng: np.random.Generator, vocab: int) -> Callable[[tuple[int, ...]], Array]:
    """A law for every prefix, drawn when it is first asked for."""
    laws: dict[tuple[int, ...], Array] = {}

    def law(prefix: tuple[int, ...]) -> Array:
        if prefix not in laws:
            laws[prefix] = rng.dirichlet(np.ones(vocab))
        return laws[prefix]

    return law


class TableLM:
    """Logits by the last tokens: table (V, ..., V, V), its last axis the logits; a prompt shorter
    than the table's context is read as if it were preceded by zeros."""

    def __init__(self, table: Array, max_len: int | None = None) -> None:
        table = np.asarray(table, dtype=np.float64)
        if len(set(table.shape)) != 1 or table.ndim < 1:
            raise ValueError(f"table must be (V, ..., V), got shape {table.shape}")
        self.table, self.vocab, self.max_len = table, table.shape[-1], max_len

    @classmethod
    def of_probs(cls, probs: Array, max_len: int | None = None) -> TableLM:
        """From laws instead of logits; zeros are allowed."""
        with np.errstate(divide="ignore"):
            return cls(np.log(probs), max_len)

    @classmethod
    def random(
        cls, vocab: int, seed: int, context: int = 1, scale: float = 1.0, max_len: int | None = None
    ) -> TableLM:
        rng = np.random.default_rng([seed, vocab, context])
        return cls(scale * rng.standard_normal((vocab,) * (context + 1)), max_len)

    def new_cache(self) -> TokenCache:
        return TokenCache()

    def forward(self, tokens: Sequence[int] | Array, cache: TokenCache) -> Array:
        context = self.table.ndim - 1
        rows = []
        for token in np.asarray(tokens).tolist():
            cache.tokens.append(token)
            last = ([0] * context + cache.tokens)[len(cache.tokens) :]
            rows.append(self.table[tuple(last)])
        return np.array(rows)


class HashLM:
    """Logits by a hash of the whole text: every wrong cache shows at once.

    With `rotate` the logits are rotated by one at every text whose sum of tokens plus length is a
    multiple of it: a draft that agrees with its target elsewhere.
    """

    def __init__(
        self, vocab: int = 11, rotate: int = 0, max_len: int | None = None, scale: float = 1.0
    ) -> None:
        self.vocab, self.rotate, self.max_len, self.scale = vocab, rotate, max_len, scale

    def new_cache(self) -> TokenCache:
        return TokenCache()

    def forward(self, tokens: Sequence[int] | Array, cache: TokenCache) -> Array:
        rows = []
        for token in np.asarray(tokens).tolist():
            cache.tokens.append(token)
            rows.append(self._logits(cache.tokens))
        return np.array(rows)

    def _logits(self, text: list[int]) -> Array:
        h = 0
        for j, token in enumerate(text):
            h = (31 * h + (token + 1) * (j + 7)) % 1_000_003
        v = np.arange(self.vocab)
        logits = ((h * (v + 3) + 977 * v * v) % 10_007) / 1000 * self.scale
        if self.rotate and (sum(text) + len(text)) % self.rotate == 0:
            logits = np.roll(logits, -1)
        return np.asarray(logits)


def _as_function(probs: Any) -> Callable[[tuple[int, ...]], Array]:
    """The laws as a function of the prefix, each checked to be one."""

    def law(prefix: tuple[int, ...]) -> Array:
        found = np.asarray(probs(prefix) if callable(probs) else probs[len(prefix)])
        domains.law(f"law after {prefix}", found)
        return found

    return law


def _check_sum(law: Mapping[Any, Any]) -> None:
    total = sum(law.values())
    if abs(total - 1) > 1e-12:
        raise ValueError(
            f"the branches' probabilities sum to {total}, not 1: a law was not one, or a draw did "
            "not go through the dice"
        )


def _prefix_mass(law: Law, prefix: tuple[int, ...]) -> Any:
    return sum(p for tokens, p in law.items() if tokens[: len(prefix)] == prefix)


def _first_difference(law: Law, other: Law) -> tuple[int, ...] | None:
    """The shortest prefix (then the smallest) that the two laws weigh differently."""
    masses: dict[tuple[int, ...], Any] = {}
    for sign, one in ((1, law), (-1, other)):
        for tokens, p in one.items():
            for end in range(len(tokens) + 1):
                masses[tokens[:end]] = masses.get(tokens[:end], 0) + sign * p
    differing = [prefix for prefix, mass in masses.items() if abs(mass) > 1e-12]
    return min(differing, key=lambda prefix: (len(prefix), prefix), default=None)
