"""Wrong implementations, to see which test would have found them.

Each is one mistake that was really made somewhere, put in through the public faces: a verification
rule, or a model around the draft. Nothing of the lab is patched. p = target law, q = draft law.
Shapes: N drafts, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from lab.ngram import TokenCache
from lab.sampling import Dice, residual
from lab.verify import chain_rule

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    rule : what `speculative_generate` is given as its rule
    wrap_draft : model -> the model that is used as the draft
    changes_text : whether the law of the text is wrong; if not, only acceptance is
    """

    description: str
    rule: Any = "token"
    wrap_draft: Callable[[Any], Any] = lambda model: model
    changes_text: bool = True


def _rule(
    correction: Callable[[Array, Array, int], Array] = lambda p, q, i: residual(p[i], q[i]),
    bonus: Callable[[Array, Array], Array] = lambda p, q: p[-1],
) -> Any:
    """The token rule with another law for the token after the first rejection, at row i, or after
    a full acceptance."""

    def verify(
        target_probs: Array, draft_probs: Array, drafts: Array, dice: Dice
    ) -> tuple[int, int]:
        for i, draft in enumerate(drafts):
            if not dice.accept(min(1, target_probs[i, draft] / draft_probs[i, draft])):
                return i, dice.choose(correction(target_probs, draft_probs, i))
        return len(drafts), dice.choose(bonus(target_probs, draft_probs))

    return chain_rule(verify)


def shared_uniform(
    target_probs: Array, draft_probs: Array, drafts: Array, dice: Dice
) -> tuple[int, int]:
    """The coin of a draft is the very uniform u that drew it.

    Drawing x by the inverse of the cumulative law says that u lies within x's part of it, evenly;
    so u < p(x) / q(x) has the probability that is asked for here.
    """
    for i, draft in enumerate(drafts):
        p, q = target_probs[i], draft_probs[i]
        below = q[:draft].sum()  # u is within below .. below + q[x]
        if not dice.accept(min(1, max(0, (min(1, p[draft] / q[draft]) - below) / q[draft]))):
            return i, dice.choose(residual(p, q))
    return len(drafts), dice.choose(target_probs[len(drafts)])


class KeepsRejected:
    """A model whose cache says that it was rolled back, and still reads what was rejected."""

    def __init__(self, model: Any) -> None:
        self.model, self.vocab = model, model.vocab
        self.max_len: int | None = getattr(model, "max_len", None)

    def new_cache(self) -> _Unrolled:
        return _Unrolled()

    def forward(self, tokens: Array, cache: _Unrolled) -> Array:
        logits: Array = self.model.forward(tokens, cache.read)
        cache.length += len(tokens)
        return logits


class _Unrolled:
    """The length is rolled back, the tokens are not."""

    def __init__(self) -> None:
        self.read, self.length = TokenCache(), 0

    def truncate(self, length: int) -> None:
        self.length = length


SOUND = Mutant("the loop as it is", changes_text=False)

MUTANTS = {
    "residual from p": Mutant(
        "after a rejection the token is drawn from p, not from norm(max(0, p - q))",
        _rule(lambda p, q, i: p[i]),
    ),
    "residual row late": Mutant(
        "the residual takes the target's row after the rejected draft",
        _rule(lambda p, q, i: residual(p[i + 1], q[i])),
    ),
    "residual row early": Mutant(
        "the residual takes the target's row before, where there is one",
        _rule(lambda p, q, i: residual(p[max(i - 1, 0)], q[i])),
    ),
    "bonus from q": Mutant(
        "after a full acceptance the token is drawn from the draft's last law",
        _rule(bonus=lambda p, q: q[-1]),
    ),
    "shared uniform": Mutant(
        "a draft and its coin share one uniform number", chain_rule(shared_uniform)
    ),
    "draft keeps rejected": Mutant(
        "the draft's cache is not rolled back after a rejection",
        wrap_draft=KeepsRejected,
        changes_text=False,
    ),
}
