"""Exact laws of what the loop emits: every branch of every draw of the loop that really runs.

A run is a function of a dice. `branches` calls it once for every sequence of answers that has a
probability above 0, so what comes out is the whole law, caches, rollback, limits and all, not a
sample of it. `TableLM`, `HashLM` and `SpreadLM` (of `lab.small`) are models small enough for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.decode import Generation, speculative_generate, verify
from lab.enumeration import MAX_LEAVES, Leaf, Run, Script, branches
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
    "Script",
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
Law = dict[tuple[int, ...], Any]

EXACT = 1e-12  # what rounding may leave, of a probability or of a total variation
LAW_SETS = 8  # sets of random laws that a rule is tried on


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

    Laws of floats that are off by rounding, as float32 has it, are scaled to 1 first.
    """
    decide = as_rule(rule)
    if not callable(draft_probs):
        draft_probs = _rows("draft_probs", draft_probs)
    gamma = domains.whole("gamma", gamma if callable(draft_probs) else len(draft_probs))
    if not callable(target_probs):
        target_probs = _rows("target_probs", target_probs)
        if len(target_probs) < gamma + 1:
            raise ValueError(f"target_probs has {len(target_probs)} rows, gamma + 1 = {gamma + 1}")
    target = prefix_laws("target_probs", target_probs)
    draft = prefix_laws("draft_probs", draft_probs, len(target(())))

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
    target = prefix_laws("target", target)
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
    seed = domains.whole("seed", seed)
    for number in range(LAW_SETS):
        target, draft = (random_laws(vocab, seed, gamma, number, which) for which in (0, 1))
        found = round_difference(round_law(rule, target, draft, gamma), target, gamma)
        assert found.prefix is None, (
            f"rule is not lossless: total variation {found.total_variation:.3g}, prefix "
            f"{found.prefix} has probability {found.p_law:.6g}, the target gives "
            f"{found.p_reference:.6g}"
        )


def prefix_laws(name: str, probs: Any, vocab: int | None = None) -> PrefixLaw:
    """Laws, a function of the prefix or a row for each position, as a function that checks each;
    those of floats then sum to 1 as closely as float64 can."""

    def law(prefix: tuple[int, ...]) -> Array:
        found = np.asarray(probs(prefix) if callable(probs) else probs[len(prefix)])
        where = f"{name} after {prefix}"
        domains.law(where, found)
        if found.ndim != 1 or (vocab is not None and len(found) != vocab):
            wanted = "(V,)" if vocab is None else f"(V={vocab},), as the target's is"
            raise ValueError(f"{where} must be a law {wanted}, got shape {found.shape}")
        if found.dtype.kind == "f":
            found = found.astype(np.float64)
            found /= found.sum()
        return found

    return law


def _rows(name: str, probs: Any) -> Array:
    """Laws by position (rows, V)."""
    rows = np.asarray(probs)
    if rows.ndim != 2 and rows.size:
        raise ValueError(
            f"{name}={probs!r} must be laws by position (rows, V), or a function of the prefix"
        )
    return rows


def _check_sum(law: Mapping[Any, Any]) -> None:
    total = sum(law.values())
    if abs(total - 1) > EXACT:
        raise ValueError(
            f"the branches' probabilities sum to {total}, not 1: a law was not one, or a draw did "
            "not go through the dice"
        )
