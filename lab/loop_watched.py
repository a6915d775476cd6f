"""Models, drafters and settings that behave as those they wrap, and remember: which tokens a cache
holds, whether what a drafter proposed was certain, and the laws that were computed.

T tokens, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from inspect import isgenerator
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.certificate import Fault, Tokens, shown
from lab.sampling import Sampling
from lab.verify import Proposal

Array = npt.NDArray[Any]


class KnownCache:
    """A model's own cache, with the tokens it holds."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self.tokens: list[int] = []

    @property
    def length(self) -> int:
        length: int = self.cache.length
        return length

    def truncate(self, length: int) -> None:
        self.cache.truncate(length)
        del self.tokens[length:]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cache, name)


class KnownModel:
    """A model whose cache is known. `max_len` may be less than the model's own."""

    def __init__(self, name: str, model: Any, max_len: int | None) -> None:
        self.name, self.model, self.max_len = name, model, max_len
        self.vocab: int = model.vocab
        self.cache: KnownCache | None = None
        self.longest = 0  # positions that the cache ever held

    def new_cache(self) -> KnownCache:
        self.cache = KnownCache(self.model.new_cache())
        return self.cache

    def forward(self, tokens: Sequence[int] | Array, cache: KnownCache) -> Array:
        logits: Array = self.model.forward(tokens, cache.cache)
        self._note(tokens, cache)
        return logits

    def prefill(self, tokens: Sequence[int] | Array, cache: KnownCache) -> None:
        getattr(self.model, "prefill", self.model.forward)(tokens, cache.cache)
        self._note(tokens, cache)

    @property
    def length(self) -> int:
        """Positions in its cache."""
        return 0 if self.cache is None else self.cache.length

    def fault(self, text: Tokens, exactly: bool) -> Fault | None:
        """What is wrong between two rounds: the cache is to hold the text but its last token, or
        where it may be behind, a beginning of that."""
        if self.cache is None:
            return None
        held, due = tuple(self.cache.tokens), text[:-1]
        fault = partial(Fault, what=f"leaves the {self.name}'s cache with")
        if self.max_len is not None and self.longest > self.max_len:
            return fault(f"{self.longest} positions", f"max_len={self.max_len} at most")
        if self.cache.length != len(held):
            return fault(f"length {self.cache.length}", f"{len(held)}, what it was fed")
        if held == due or (not exactly and held == due[: len(held)]):
            return None
        return fault(shown(held), shown(due) + ("" if exactly else " or a beginning of it"))

    def _note(self, tokens: Sequence[int] | Array, cache: KnownCache) -> None:
        cache.tokens += np.asarray(tokens).tolist()
        self.longest = max(self.longest, len(cache.tokens))


class KnownDrafter:
    """A drafter that notes whether all it proposed was certain."""

    def __init__(self, drafter: Any, max_len: int | None) -> None:
        self.drafter, self.max_len, self.vocab = drafter, max_len, drafter.vocab
        self.certain = True

    def start(self, prompt: Array) -> KnownState:
        return KnownState(self, self.drafter.start(prompt))


class KnownState:
    """Its state of one sequence."""

    def __init__(self, drafter: KnownDrafter, state: Any) -> None:
        self.drafter, self.state = drafter, state

    def propose(self, view: Any, gamma: int, dice: Any) -> Any:
        proposal = self.state.propose(view, gamma, dice)
        if isgenerator(proposal):
            proposal = yield from proposal
        if isinstance(proposal, Proposal) and len(proposal) and proposal.probs is not None:
            self.drafter.certain = False
        return proposal


class Certain:
    """A drafter that is certain of the same tokens, whatever the text."""

    def __init__(self, vocab: int, tokens: Sequence[int]) -> None:
        self.vocab, self.tokens = vocab, np.array(tokens, np.int64)

    def start(self, prompt: Array) -> Certain:
        return self

    def propose(self, view: Any, gamma: int, dice: Any) -> Proposal:
        return Proposal(self.tokens[:gamma])


class KnownSampling(Sampling):
    """Settings that compute each law once: it is a function of logits and history alone."""

    __slots__ = ("known",)
    known: dict[Any, Array]

    @classmethod
    def of(cls, sampling: Sampling) -> KnownSampling:
        made = cls(*(getattr(sampling, one.name) for one in fields(sampling)))
        object.__setattr__(made, "known", {})
        return made

    def probs_after(self, logits: Array, history: Sequence[int] | Array, tokens: Array) -> Any:
        key: Any = np.asarray(logits).tobytes()
        if self.repetition_penalty != 1:
            key = key, frozenset(np.asarray(history).tolist()), np.asarray(tokens).tobytes()
        if key not in self.known:
            self.known[key] = super().probs_after(logits, history, tokens)
        return self.known[key].copy()
