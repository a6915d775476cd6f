"""One sequence being written: its tokens and limits, the target's cache, and what was done.

Shapes: V = vocabulary, k = drafts of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.forward import Forward, Loop
from lab.ledger import Ledger
from lab.sampling import Sampling
from lab.verify import Proposal, Verdict

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Round:
    """What one round did: `allowed` is gamma after the limits, `accepted` the rule's count,
    `emitted` the tokens kept, `end` one of "reject", "full", "stop", "limit"."""

    allowed: int
    drafted: int
    tested: int
    accepted: int
    emitted: int
    end: str


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """What a run returns.

    tokens : (n,) new tokens only
    finish : "stop" (the last token is a stop token) or "length"
    origins : per token "draft", "correction" or "bonus" (plain decoding: all "bonus")
    target_calls, draft_calls : forwards, prefill not counted; for a drafter that is no model, its
        propose calls
    """

    tokens: npt.NDArray[np.int64]
    finish: str
    rounds: tuple[Round, ...]
    origins: tuple[str, ...]
    target_calls: int
    draft_calls: int


class View:
    """What a drafter or a gamma schedule may look at; read-only."""

    def __init__(self, text: Text) -> None:
        self._text = text

    @property
    def tokens(self) -> npt.NDArray[np.int64]:
        """All tokens so far, prompt included; the last one is in no cache yet."""
        tokens = self._text.tokens
        tokens.flags.writeable = False
        return tokens

    @property
    def sampling(self) -> Sampling:
        return self._text.sampling

    @property
    def rounds(self) -> tuple[Round, ...]:
        return tuple(self._text.rounds)

    @property
    def target_cache(self) -> ReadOnlyCache:
        return ReadOnlyCache(self._text.cache)


class ReadOnlyCache:
    """A cache that can be looked at, not moved."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        if name in ("truncate", "select", "make_room"):
            raise AttributeError(f"{name}: the target's cache is read-only for a drafter")
        return getattr(self._cache, name)


class Text:
    """One sequence being written: its tokens, limits, stop tokens, and the target's cache."""

    def __init__(
        self,
        target: Any,
        prompt: Sequence[int] | Array,
        n_new: int,
        sampling: Sampling,
        stop: Iterable[int],
        ledger: Ledger | None,
        on_token: Callable[[int], object] | None,
    ) -> None:
        for name in ("vocab", "new_cache", "forward"):
            if not hasattr(target, name):
                raise ValueError(f"target={target!r} must be a language model; it has no {name}")
        prompt = domains.tokens("prompt", prompt, target.vocab)
        if not len(prompt):
            raise ValueError("prompt=[] must hold at least one token")
        n_new = domains.whole("n_new", n_new)
        max_len = getattr(target, "max_len", None)
        if max_len is not None and len(prompt) > max_len:
            raise ValueError(f"prompt has {len(prompt)} tokens, the target's max_len={max_len}")
        if isinstance(stop, str) or not isinstance(stop, Iterable):
            raise ValueError(f"stop={stop!r} must be a collection of tokens")
        if on_token is not None and not callable(on_token):
            raise ValueError(f"on_token={on_token!r} must be callable, or None")
        self.stop = set(domains.tokens("stop", list(stop), target.vocab).tolist())
        self.target, self.sampling, self.ledger, self.on_token = target, sampling, ledger, on_token
        self.vocab: int = target.vocab
        self.max_len: int | None = max_len
        self.start = self.length = len(prompt)
        self.limit = self.start + n_new if max_len is None else min(self.start + n_new, max_len)
        self.buffer = np.zeros(self.limit, np.int64)
        self.buffer[: self.start] = prompt
        self.rounds: list[Round] = []
        self.origins: list[str] = []
        self.finish: str | None = "length" if self.limit == self.start else None
        self.cache: Any = target.new_cache() if self.finish is None else None
        self.view = View(self)
        self.allowed = 0  # drafts the current round may make

    @property
    def tokens(self) -> npt.NDArray[np.int64]:
        return self.buffer[: self.length]

    def prefill(self) -> Loop[None]:
        """Feed the prompt but its last token."""
        if self.finish is None and self.start > 1:
            try:
                yield self._forward(self.tokens[:-1], 0, prefill=True)
            except BaseException:
                roll_back(self.cache, 0)
                raise

    def score(self, proposal: Proposal) -> Loop[Array]:
        """One target pass over the pending token and the drafts -> laws (k + 1, V)."""
        tokens = np.concatenate((self.tokens[-1:], proposal.tokens))
        target_probs: Array = yield self._forward(tokens, self.length - 1)
        return target_probs

    def commit(self, proposal: Proposal, verdict: Verdict) -> None:
        """Append what was accepted and the target's token; cut after the first stop token."""
        drafted, accepted = len(proposal), len(verdict.path)
        emitted = [int(proposal.tokens[i]) for i in verdict.path] + [int(verdict.token)]
        origins = ["draft"] * accepted + ["bonus" if accepted == drafted else "correction"]
        end = "full" if accepted == drafted else "reject"
        kept = next((i + 1 for i, token in enumerate(emitted) if token in self.stop), None)
        if kept is not None:
            end = self.finish = "stop"
            emitted = emitted[:kept]
        assert self.length + len(emitted) <= self.limit, "a round computes only what it can keep"
        self.buffer[self.length : self.length + len(emitted)] = emitted
        self.length += len(emitted)
        if self.finish is None and self.length == self.limit:
            end, self.finish = "limit", "length"
        self.origins += origins[: len(emitted)]
        self.rounds.append(
            Round(self.allowed, drafted, verdict.tested, accepted, len(emitted), end)
        )
        if self.on_token is not None:
            for token in emitted:
                self.on_token(token)

    @contextmanager
    def round(self, allowed: int, draft_cache: Any) -> Iterator[None]:
        """One round with `allowed` drafts at most. At its end the target's cache is truncated to
        all tokens but the last; on an error both caches go back to where the round began."""
        self.allowed = allowed
        before, found = self.length, self.cache.length
        drafted = None if draft_cache is None else draft_cache.length
        try:
            yield
            assert self.length > before, "every round emits"
            truncate("target", self.cache, self.length - 1)
            assert self.cache.length > found, "a round never truncates below where it began"
        except BaseException:
            roll_back(self.cache, found)
            roll_back(draft_cache, drafted)
            raise

    def generation(self, draft_calls: int) -> Generation:
        assert self.finish is not None
        return Generation(
            tokens=self.tokens[self.start :].copy(),
            finish=self.finish,
            rounds=tuple(self.rounds),
            origins=tuple(self.origins),
            target_calls=len(self.rounds),
            draft_calls=draft_calls,
        )

    def _forward(self, tokens: Array, history: int, prefill: bool = False) -> Forward:
        return Forward(
            self.target, tokens, self.cache, self.sampling, self.buffer[:history], self.ledger,
            prefill,
        )  # fmt: skip


def truncate(owner: str, cache: Any, length: int) -> None:
    """Cut a cache, and see that it was cut: some caches cannot be."""
    if cache.length != length:
        cache.truncate(length)
    if cache.length != length:
        raise ValueError(f"{owner}: truncate({length}) left {cache.length} positions in the cache")


def roll_back(cache: Any, length: int | None) -> None:
    """After an error: forget what was appended since."""
    if cache is not None and length is not None and cache.length > length:
        cache.truncate(length)
