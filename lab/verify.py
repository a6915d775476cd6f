"""Verification rules: arrays in, a verdict out; no model, no cache.

p = target law, q = draft law (Leviathan et al. 2023; Chen et al. and others swap the letters).
The rules hold for floats and for exact fractions alike: no float literal, no cast.
Shapes: N drafts, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.sampling import Dice, residual

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """What a draft proposes.

    tokens : (N,) the drafts
    probs : (N, V), `probs[i]` the law that token i was drawn from, given all drawn before it; None
        if every token was certain, as in prompt lookup
    parents : (N,) node that each draft follows, -1 for the sequence itself; None for a chain
    """

    tokens: Array
    probs: Array | None = None
    parents: Array | None = None

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule decides.

    path : the accepted drafts, in order (indices into the proposal)
    token : the target's own token after them: a correction, or the bonus if all were accepted
    tested : drafts that were looked at
    """

    path: tuple[int, ...]
    token: int
    tested: int


Verify = Callable[[Array, Proposal, Dice], Verdict]
ChainVerify = Callable[[Array, Array, Array, Dice], tuple[int, int]]


@dataclass(frozen=True)
class Rule:
    """A named rule: `rule(target_probs (N + 1, V), proposal, dice) -> Verdict`."""

    name: str
    verify: Verify
    lossless: bool
    source: str

    def __call__(self, target_probs: Array, proposal: Proposal, dice: Dice) -> Verdict:
        return self.verify(target_probs, proposal, dice)


def chain_rule(verify: ChainVerify) -> Verify:
    """A rule from `verify(target_probs, draft_probs, drafts, dice) -> (accepted, token)`.

    A draft that was certain has probability one under its law.
    """

    def rule(target_probs: Array, proposal: Proposal, dice: Dice) -> Verdict:
        drafts = proposal.tokens
        if proposal.parents is not None:
            raise ValueError(f"parents={proposal.parents} must be None: this rule takes a chain")
        draft_probs = proposal.probs
        if draft_probs is None:
            draft_probs = np.zeros_like(target_probs[: len(drafts)])
            draft_probs[np.arange(len(drafts)), drafts] += 1
        answer = verify(target_probs, draft_probs, drafts, dice)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise ValueError(f"rule: it returned {answer!r}, which must be (accepted, token)")
        accepted = domains.whole("rule: accepted", answer[0], 0, len(drafts))
        token = domains.whole("rule: token", answer[1], 0, target_probs.shape[1] - 1)
        return Verdict(tuple(range(accepted)), token, min(accepted + 1, len(drafts)))

    return rule


def token_rule(
    target_probs: Array, draft_probs: Array, drafts: Array, dice: Dice
) -> tuple[int, int]:
    """Speculative sampling (Algorithm 1): accept draft x with min(1, p(x) / q(x)), in order.

    After the first rejection the token is drawn from norm(max(0, p - q)) of that row; if all are
    accepted, from the target's next row. Returns how many were accepted, and the token.
    """
    for i, draft in enumerate(drafts):
        p, q = target_probs[i], draft_probs[i]
        if not q[draft] > 0:
            raise ValueError(f"draft_probs[{i}] gives its own draft {draft} probability {q[draft]}")
        if not dice.accept(min(1, p[draft] / q[draft])):
            return i, dice.choose(residual(p, q))
    return len(drafts), dice.choose(target_probs[len(drafts)])


RULES = {
    rule.name: rule
    for rule in (Rule("token", chain_rule(token_rule), True, "Leviathan et al. 2023, Algorithm 1"),)
}


def as_rule(rule: Any) -> Verify:
    """A rule by name, object or function."""
    if isinstance(rule, str) and rule in RULES:
        return RULES[rule]
    if isinstance(rule, str) or not callable(rule):
        raise ValueError(f"rule={rule!r} must be one of {sorted(RULES)}, or a callable")
    found: Verify = rule
    return found
