"""Verification rules: arrays in, a verdict out; no model, no cache.

p = target law, q = draft law (Leviathan et al. 2023; Chen et al. and others swap the letters).
The rules hold for floats and for exact fractions alike: no float literal, no cast. `RULES` has them
by name, each marked lossless or lossy; `lab.rule_laws` has what they give in closed form.
Shapes: N drafts, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains, rule_laws
from lab.rule_laws import typical_threshold
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
    """A named rule: `rule(target_probs (N + 1, V), proposal, dice) -> Verdict`.

    lossless : whether the law of what is emitted is the target's, whatever the draft
    """

    name: str
    verify: Verify
    lossless: bool
    source: str

    def __call__(self, target_probs: Array, proposal: Proposal, dice: Dice) -> Verdict:
        return self.verify(target_probs, proposal, dice)


def chain_rule(verify: ChainVerify, whole_block: bool = False) -> Verify:
    """A rule from `verify(target_probs, draft_probs, drafts, dice) -> (accepted, token)`.

    A draft that was certain has probability one under its law, whatever softmax it came from. The
    drafts looked at are those up to the first rejection, or all of them with `whole_block`.
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
        accepted, token = accepted_and_token(answer, len(drafts), target_probs.shape[1])
        tested = len(drafts) if whole_block else min(accepted + 1, len(drafts))
        return Verdict(tuple(range(accepted)), token, tested)

    rule.__name__ = getattr(verify, "__name__", "rule")  # as reports call it
    return rule


# ---- What a rule may return: whole numbers of any library, such as tensors with one element -----


def accepted_and_token(answer: Any, drafts: int, vocab: int) -> tuple[int, int]:
    """The answer of a chain rule, a tuple or a list; a ValueError says what else it is."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise ValueError(f"rule: its answer must be (accepted, token), not {answer!r}")
    accepted, token = answer
    return (
        domains.whole("rule: accepted", accepted, 0, drafts),
        domains.whole("rule: token", token, 0, vocab - 1),
    )


def as_verdict(answer: Any, drafts: int, vocab: int) -> Verdict:
    """The answer of any other rule, in Python's own numbers; a ValueError says what else it is."""
    if not isinstance(answer, Verdict):
        raise ValueError(
            f"rule: its answer must be a lab.verify.Verdict, not {answer!r}; lab.verify.chain_rule "
            "makes one of (accepted, token)"
        )
    try:
        path = tuple(domains.whole("node", node, 0, drafts - 1) for node in answer.path)
    except (TypeError, ValueError):
        path = (-1,)
    if path != tuple(range(len(path))):
        raise ValueError(f"rule: path={answer.path!r} must be 0, 1, ... of {drafts} drafts")
    token = domains.whole("rule: token", answer.token, 0, vocab - 1)
    return Verdict(path, token, domains.whole("rule: tested", answer.tested, len(path), drafts))


# ---- Lossless -------------------------------------------------------------------------------


def token_rule(
    target_probs: Array, draft_probs: Array, drafts: Array, dice: Dice
) -> tuple[int, int]:
    """Speculative sampling (Leviathan et al. 2023, Algorithm 1): accept draft x with
    min(1, p(x) / q(x)), in order.

    After the first rejection the token is drawn from norm(max(0, p - q)) of that row; if all are
    accepted, from the target's next row. Returns how many were accepted, and the token.
    """
    for i, draft in enumerate(drafts):
        if not dice.accept(min(1, _ratio(target_probs[i], draft_probs[i], draft))):
            return i, dice.choose(residual(target_probs[i], draft_probs[i]))
    return len(drafts), dice.choose(target_probs[len(drafts)])


def block_rule(
    target_probs: Array, draft_probs: Array, drafts: Array, dice: Dice
) -> tuple[int, int]:
    """Block verification (Sun et al. 2024, arXiv 2403.10444, Algorithm 2): the drafts are judged
    together, and the longest prefix whose own coin says yes is kept.

    With w the weight min(1, w p(x) / q(x)) carried from draft to draft, the coin of a prefix says
    yes with g / (g + 1 - w), g = Σ max(0, w p - q) over the row after it; that of all drafts with
    w. The token is drawn from norm(max(0, w p - q)). Never fewer drafts than `token_rule` in the
    mean; the same with one draft, or at temperature 0.
    """
    weights: list[Any] = [1]  # (N + 1)
    for i, draft in enumerate(drafts):
        weights.append(min(1, weights[i] * _ratio(target_probs[i], draft_probs[i], draft)))
    if dice.accept(weights[-1]):
        return len(drafts), dice.choose(target_probs[len(drafts)])
    for kept in reversed(range(len(drafts))):
        weighted = weights[kept] * target_probs[kept]
        gain = np.maximum(weighted - draft_probs[kept], 0).sum()
        lost = 1 - weights[kept]
        # No draft kept needs no coin. A weight of 1 is kept, even where nothing is gained: 0 / 0.
        if kept == 0 or dice.accept(gain / (gain + lost) if lost > 0 else 1):
            break
    return kept, dice.choose(residual(weighted, draft_probs[kept]))


def match_rule(
    target_probs: Array, draft_probs: Array, drafts: Array, dice: Dice
) -> tuple[int, int]:
    """Exact match: the target draws its own token at every row, and a draft is accepted if it is
    that token. What is emitted is always the target's own draw.

    Accepts with Σ p q, never more than `token_rule`; needs no draft laws.
    """
    for i, draft in enumerate(drafts):
        token = dice.choose(target_probs[i])
        if token != draft:
            return i, token
    return len(drafts), dice.choose(target_probs[len(drafts)])


# ---- Lossy ----------------------------------------------------------------------------------


def lenient(leniency: Any, scaled_residual: bool = True) -> Rule:
    """Lenience (Leviathan et al. 2023, appendix A.5): q is multiplied by l before the comparison,
    so a draft is accepted with min(1, p / (l q)), Σ min(p / l, q) in the mean.

    No token comes out with more than p / l. l = 1 is `token_rule`. At temperature 0 nothing is
    gained: p is one-hot (the paper's other variant compares with the raw law).

    Parameters
    ----------
    leniency : l, above 0 and at most 1, a number of any kind
    scaled_residual : after a rejection the token is drawn from norm(max(0, p - l q)); False:
        from norm(max(0, p - q)), which has the least bias that this acceptance allows
    """
    factor = rule_laws.leniency(leniency)

    def verify(
        target_probs: Array, draft_probs: Array, drafts: Array, dice: Dice
    ) -> tuple[int, int]:
        for i, draft in enumerate(drafts):
            p, q = target_probs[i], draft_probs[i]
            ratio, least = _ratio(p, q, draft), rule_laws.alike(q, factor)
            if not dice.accept(1 if ratio >= least else ratio / least):  # no overflow: l is tiny
                return i, dice.choose(residual(p, q * least if scaled_residual else q))
        return len(drafts), dice.choose(target_probs[len(drafts)])

    name = f"lenient({leniency}{'' if scaled_residual else ', p - q'})"
    return Rule(name, chain_rule(verify), factor == 1, "Leviathan et al. 2023, appendix A.5")


EPSILON, DELTA = 0.09, 0.3  # of typical acceptance, as published


def typical(epsilon: float = EPSILON, delta: float = DELTA) -> Rule:
    """Typical acceptance (Medusa, Cai et al. 2024, arXiv 2401.10774): a draft is accepted if
    p(x) > min(epsilon, delta exp(-H(p))), H the entropy in nats; no coin, and q is not asked.

    After a rejection, and after a full acceptance, the token is drawn from the target's own law p
    of that row; it may well be the token that was rejected. So the first token has the law
    q(x) [x typical] + p(x) q(not typical).

    Parameters
    ----------
    epsilon, delta : the published model's; its helpers' defaults have the two swapped
    """
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        domains.number(name, value, "in 0..1", domains.in_unit)

    def verify(
        target_probs: Array, draft_probs: Array, drafts: Array, dice: Dice
    ) -> tuple[int, int]:
        for i, draft in enumerate(drafts):
            if not target_probs[i][draft] > typical_threshold(target_probs[i], epsilon, delta):
                return i, dice.choose(target_probs[i])
        return len(drafts), dice.choose(target_probs[len(drafts)])

    return Rule(f"typical({epsilon}, {delta})", chain_rule(verify), False, "Cai et al. 2024")


# ---- By name --------------------------------------------------------------------------------

RULES = {
    "token": Rule("token", chain_rule(token_rule), True, "Leviathan et al. 2023, Algorithm 1"),
    "block": Rule(
        "block", chain_rule(block_rule, whole_block=True), True, "Sun et al. 2024, Algorithm 2"
    ),
    "match": Rule("match", chain_rule(match_rule), True, "the target's own draw"),
    "lenient": lenient(Fraction(1, 2)),
    "typical": typical(),
}


def as_rule(rule: Any) -> Verify:
    """A rule by name, object or function."""
    if isinstance(rule, str) and rule in RULES:
        return RULES[rule]
    if isinstance(rule, str) or not callable(rule):
        raise ValueError(f"rule={rule!r} must be one of {sorted(RULES)}, or a callable")
    found: Verify = rule
    return found


def name_of(rule: Any) -> str:
    """What a rule is called: its name, or its function's."""
    if isinstance(rule, str):
        return rule
    return str(getattr(rule, "name", None) or getattr(rule, "__name__", type(rule).__name__))


def _ratio(p: Array, q: Array, draft: int) -> Any:
    """p / q of a draft that was drawn from q."""
    if not q[draft] > 0:
        raise ValueError(f"draft_probs gives its own draft {draft} probability {q[draft]}")
    return p[draft] / q[draft]
