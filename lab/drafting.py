"""The draft's side of one sequence: how many drafts a round may make, and who makes them.

Shapes: V = vocabulary, N = drafts proposed.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isgenerator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.forward import Forward, Loop
from lab.ledger import Ledger
from lab.sampling import Dice, Sampling
from lab.text import Text, View, truncate
from lab.verify import Proposal

Array = npt.NDArray[Any]
Gamma = int | Callable[[View], int]


class Drafter(Protocol):
    """A draft that is no language model. `start` is called once per sequence."""

    vocab: int

    def start(self, prompt: Array) -> DrafterState: ...


class DrafterState(Protocol):
    """What a drafter keeps for one sequence."""

    def propose(self, view: View, gamma: int, dice: Dice) -> Any:
        """A `Proposal` of at most gamma tokens to follow `view.tokens`.

        Draw them with `dice.choose(law)` and give those laws as `probs`; `probs` None says that
        they were certain. May be a generator that yields `Forward` requests and returns it.
        Whether to go on may depend on tokens that stay in it, never on one that is thrown away.
        """


class Drafting:
    """The draft's side of one sequence: how many drafts are allowed, and who makes them."""

    def __init__(
        self, draft: Any, sampling: Sampling, text: Text, gamma: Gamma, ledger: Ledger | None
    ) -> None:
        self.gamma = gamma if callable(gamma) else domains.whole("gamma", gamma)
        self.text, self.calls = text, 0
        self.state: Any = None
        self.max_len: int | None = getattr(draft, "max_len", None)
        if draft is None:
            self.gamma = 0
            return
        is_model = hasattr(draft, "forward") and hasattr(draft, "new_cache")
        if not hasattr(draft, "vocab") or not (is_model or hasattr(draft, "start")):
            raise ValueError(f"draft={draft!r} must be a language model or a drafter")
        if draft.vocab != text.vocab:
            raise ValueError(f"draft has vocab={draft.vocab}, the target has vocab={text.vocab}")
        if text.finish is not None:  # nothing is to be generated
            return
        prompt = text.view.tokens
        if is_model:
            self.state = ModelDraft(draft, sampling, len(prompt), ledger)
        else:
            self.state = draft.start(prompt)
            if not callable(getattr(self.state, "propose", None)):
                raise ValueError(f"draft={draft!r}: start(prompt) must return a drafter's state")

    @property
    def cache(self) -> Any:
        """The cache of a draft that is a model."""
        return self.state.cache if isinstance(self.state, ModelDraft) else None

    def allowed(self) -> int:
        """k = gamma, but no more than can be kept, scored and drafted."""
        text = self.text
        gamma = self.gamma
        if callable(gamma):
            gamma = domains.whole("gamma(view)", gamma(text.view))
        room = [gamma, text.limit - text.length - 1]
        if text.max_len is not None:
            room.append(text.max_len - text.length - 1)
        if self.max_len is not None:
            room.append(self.max_len - text.length)
        return max(0, min(room))

    def propose(self, dice: Dice) -> Loop[Proposal]:
        """At most `text.allowed` drafts, by the draft's own forwards, if it has any."""
        allowed, vocab = self.text.allowed, self.text.vocab
        if allowed == 0:
            return Proposal(np.zeros(0, np.int64))
        proposal: Any = self.state.propose(self.text.view, allowed, dice)
        if isgenerator(proposal):
            proposal = yield from proposal
        if isinstance(self.state, ModelDraft):
            self.calls += allowed
            drafted: Proposal = proposal
            return drafted
        self.calls += 1
        return _checked(proposal, allowed, vocab)

    def settle(self) -> None:
        """After a round: a model's cache goes back to what was kept, never to less than it had."""
        if isinstance(self.state, ModelDraft):
            self.state.settle(self.text.tokens)


def _checked(proposal: Any, allowed: int, vocab: int) -> Proposal:
    """What a drafter returned, if it is a proposal with laws."""
    if not isinstance(proposal, Proposal):
        raise ValueError(f"proposal={proposal!r} must be a lab.verify.Proposal")
    drafts = domains.tokens("proposal.tokens", proposal.tokens, vocab)
    if len(drafts) > allowed:
        raise ValueError(f"proposal has {len(drafts)} drafts, {allowed} were allowed")
    probs = proposal.probs
    if probs is not None:
        probs = domains.law("proposal.probs", probs)
        if probs.shape != (len(drafts), vocab):
            raise ValueError(
                f"proposal.probs must be (N={len(drafts)}, V={vocab}), got {probs.shape}"
            )
    return Proposal(drafts, probs, proposal.parents)


class ModelDraft:
    """Drafts of one sequence by a language model; brings its own cache up to date."""

    def __init__(
        self, model: Any, sampling: Sampling, prompt_length: int, ledger: Ledger | None
    ) -> None:
        self.model, self.sampling, self.ledger = model, sampling, ledger
        self.prompt_length = prompt_length
        self.cache: Any = model.new_cache()
        self.fed = np.zeros(0, np.int64)  # what the cache was given, drafts included
        self.known = 0  # positions of it that are certainly part of the text

    def propose(self, view: View, gamma: int, dice: Dice) -> Loop[Proposal]:
        """Draw gamma tokens, each from the draft's own law."""
        tokens = view.tokens
        self.settle(tokens)
        if self.cache.length == 0 and self.prompt_length > 1:
            yield self._forward(tokens[: self.prompt_length - 1], tokens[:0], prefill=True)
        self.known = len(tokens)
        self.fed = np.concatenate((tokens, np.zeros(gamma, np.int64)))
        probs = []
        for end in range(len(tokens), len(tokens) + gamma):
            start = self.cache.length  # at first also what the cache lacks
            laws = yield self._forward(self.fed[start:end], self.fed[:start])
            probs.append(laws[-1])
            self.fed[end] = dice.choose(laws[-1])
        return Proposal(self.fed[len(tokens) :], np.array(probs))

    def settle(self, tokens: Array) -> None:
        """Forget what was fed beyond the text but its last token: the rejected drafts."""
        held = min(self.cache.length, len(tokens) - 1)
        assert held >= min(self.cache.length, self.known), "never below where the round began"
        assert (self.fed[self.known : held] == tokens[self.known : held]).all(), "a prefix of it"
        truncate("draft", self.cache, held)

    def _forward(self, tokens: Array, history: Array, prefill: bool = False) -> Forward:
        return Forward(self.model, tokens, self.cache, self.sampling, history, self.ledger, prefill)
