"""The states that the loop can be in between two rounds, and the laws that are due in them.

What the models' laws depend on is finite, so the states are, too: the last tokens, how far the
draft's cache is behind, how much may still be written. V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lab.certificate import LawsByPrefix, Tokens, shown
from lab.exact import Law
from lab.sampling import Sampling

Array = npt.NDArray[Any]

END = -1  # stands after the last token of a text that is finished
FAR = 4096  # tokens to go, where no limit is near


# ---- What is looked at -----------------------------------------------------------------------


@dataclass(frozen=True)
class Setup:
    """The loop and what it is run with.

    view : last tokens that the models' laws depend on
    """

    target: Any
    draft: Any
    gamma: int
    rule: Any
    sampling: Sampling
    draft_sampling: Sampling
    view: int

    @property
    def draft_is_model(self) -> bool:
        return is_model(self.draft)

    @property
    def penalised(self) -> bool:
        """Whether laws depend also on which tokens were seen at all."""
        settings = (self.sampling, self.draft_sampling)
        return any(one.repetition_penalty != 1 for one in settings)


@dataclass(frozen=True)
class Start:
    """A prompt and its limits: new tokens, and where the contexts end, if not where they do."""

    prompt: Tokens
    n_new: int = FAR
    target_len: int | None = None
    draft_len: int | None = None


@dataclass(frozen=True)
class Region:
    """Starts, and how far to go from there.

    whole : nothing is merged; for drafters, which may look at the whole text
    longest : rounds are taken from texts of so many tokens at most
    """

    name: str
    starts: tuple[Start, ...]
    stop: tuple[int, ...] = ()
    whole: bool = False
    longest: int | None = None


class State(NamedTuple):
    """Where the loop is between two rounds.

    view : the tokens in view
    seen : all tokens so far, where a penalty looks at them
    lag : positions that the draft's cache lacks; None where that does not matter
    accepted : drafts that the round before accepted; None before the first round
    room : tokens that may still be written, up to where that does not matter
    draft_room : positions left in the draft's context, likewise; None if it has no end
    """

    view: Tokens
    seen: frozenset[int]
    lag: int | None
    accepted: int | None
    room: int
    draft_room: int | None

    def words(self, gamma: int) -> str:
        last = "before the first round"
        if self.accepted is not None:
            last = f"after a round that accepted {self.accepted}"
        words = [f"tokens in view {shown(self.view)}", last, f"{self.room} tokens to go"]
        if self.room == far_room(gamma):
            words[-1] = "no limit near"
        if self.seen:
            words.append(f"seen so far {shown(sorted(self.seen))}")
        if self.lag is not None:
            words.append(f"draft's cache {self.lag} behind")
        if self.draft_room is not None:
            words.append(f"{max(self.draft_room, 0)} positions left in the draft's context")
        return ", ".join(words)


def far_room(gamma: int) -> int:
    """So many tokens to go are as good as any number."""
    return 2 * gamma + 3


# ---- What should come out --------------------------------------------------------------------


class Misstated(ValueError):
    """A model's laws depend on more than it says: no fault of the loop."""


class DueLaws:
    """A model's processed laws (V,) after a text, from a fresh forward pass over all of it."""

    def __init__(self, name: str, model: Any, view: int, sampling: Sampling) -> None:
        self.name, self.model, self.view, self.sampling = name, model, view, sampling
        self.known: dict[Tokens, Array] = {}
        self.logits: dict[Tokens, Array] = {}  # by the tokens in view

    def after(self, text: Tokens) -> Array:
        if text not in self.known:
            logits = self.model.forward(np.array(text), self.model.new_cache())[-1]
            alike = self.logits.setdefault(in_view(text, self.view), logits)
            if not np.allclose(logits, alike, rtol=1e-9, atol=1e-12):
                raise Misstated(
                    f"{self.name}={self.model!r} says that its laws depend on the last "
                    f"context={self.view} tokens only; after {shown(text)} they depend on more"
                )
            self.known[text] = self.sampling.probs(logits, text)
        return self.known[text]

    def check(self, text: Tokens) -> None:
        """That the model's law after a text is what it says it depends on."""
        max_len = getattr(self.model, "max_len", None)
        if max_len is None or len(text) <= max_len:
            self.after(text)

    def along(self, text: Tokens, tokens: Tokens) -> LawsByPrefix:
        """The laws at each of `tokens`."""
        prefixes = [tokens[:i] for i in range(len(tokens))]
        return {prefix: tuple(self.after(text + prefix).tolist()) for prefix in prefixes}

    def complete(self, text: Tokens, law: Law, length: int, room: int, stop: Iterable[int]) -> Law:
        """A law of what follows a text, continued by the model's own to `length` tokens. What the
        model ends, by a stop token or for want of room, gets an END."""

        def finished(tokens: Tokens) -> bool:
            return len(tokens) == room or tokens[-1] in stop

        whole: Law = {}
        pending = []
        for tokens, probability in law.items():
            if len(tokens) >= length or (tokens and (tokens[-1] == END or finished(tokens))):
                whole[tokens] = probability  # as the loop left it
            else:
                pending.append((tokens, probability))
        while pending:
            tokens, before = pending.pop()
            law_after = self.after(text + tokens)
            for token in np.flatnonzero(law_after).tolist():
                longer, probability = (*tokens, token), before * float(law_after[token])
                if len(longer) < length and not finished(longer):
                    pending.append((longer, probability))
                else:
                    outcome = (*longer, END) if finished(longer) else longer
                    whole[outcome] = whole.get(outcome, 0) + probability
        return whole


def is_model(draft: Any) -> bool:
    """Whether a draft is a language model; else it is a drafter."""
    return hasattr(draft, "forward") and hasattr(draft, "new_cache")


def in_view(text: Tokens, view: int) -> Tokens:
    return text[-view:] if view else ()
