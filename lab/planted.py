"""Drafts that are right as often as they are told to be, and take as long as they are told to.

With them the clock can be read at any acceptance and any cost, whatever the models are. At
temperature 0 the text of a target is known beforehand: a draft that names its next token is
accepted, any other is rejected.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains, theory
from lab.domains import Bools, Ints
from lab.ngram import TokenCache
from lab.verify import Proposal

Tokens = Sequence[int] | npt.NDArray[np.integer[Any]]

DRAWS = 2000  # of which the one nearest to equation (1) is taken


class PlantedDraft:
    """A `lab.drafting.Drafter`: the text's own next token where it is right, another elsewhere.

    Parameters
    ----------
    vocab : V
    text : (n,) what the target writes at temperature 0, prompt included
    right : (n,), where it names the text's token
    seconds : that each drafted token takes, >= 0: so long it keeps the processor busy
    """

    max_len = None

    def __init__(self, vocab: int, text: Tokens, right: Bools, seconds: float = 0.0) -> None:
        self.vocab = domains.whole("vocab", vocab, 2)
        self.text = domains.tokens("text", text, vocab)
        self.right = np.asarray(right)
        if self.right.shape != self.text.shape or self.right.dtype != np.bool_:
            raise ValueError(
                f"right must be {self.text.shape} of True and False, one a token of the text, got "
                f"{self.right.shape} of {self.right.dtype}"
            )
        self.seconds = domains.cost("seconds", seconds)

    def start(self, prompt: Tokens) -> PlantedDraft:
        """The state of one sequence: nothing is kept between rounds."""
        return self

    def propose(self, view: Any, gamma: int, dice: Any) -> Proposal:
        """`gamma` tokens to follow `view.tokens`, certain."""
        here = slice(len(view.tokens), len(view.tokens) + gamma)
        text = self.text[here]
        if len(text) < gamma:
            raise ValueError(f"text has {len(self.text)} tokens, the draft was asked for more")
        busy(gamma * self.seconds)
        return Proposal(np.where(self.right[here], text, (text + 1) % self.vocab))


def busy(seconds: float) -> None:
    """Keep the processor busy for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Recital:
    """A target that costs nothing: it writes a text it is given, with logits made beforehand.

    A language model; its argmax behind position i is token i + 1 of the text (n,).
    """

    max_len = None

    def __init__(self, vocab: int, text: Tokens) -> None:
        self.vocab = domains.whole("vocab", vocab, 2)
        tokens = domains.tokens("text", text, vocab)
        self.logits = np.zeros((len(tokens) - 1, vocab), np.float32)
        self.logits[np.arange(len(tokens) - 1), tokens[1:]] = 1

    def new_cache(self) -> TokenCache:
        return TokenCache()

    def forward(self, tokens: Tokens, cache: TokenCache) -> npt.NDArray[np.float32]:
        """The logits (T, V) that follow each of `tokens`."""
        start = cache.length
        cache.tokens.extend(np.asarray(tokens).tolist())
        return self.logits[start : cache.length]


# ---- Where it is right -----------------------------------------------------------------------


def typical_rounds(acceptance: float, gamma: int, rounds: int, rng: np.random.Generator) -> Ints:
    """Accepted drafts of each of so many rounds (rounds,), drawn until luck plays no part.

    Of many draws from the law of equation (1) the one is taken whose tokens per round are nearest
    to their expectation, so that a clock over few rounds measures costs and not luck.
    """
    rounds = domains.whole("rounds", rounds, 1)
    law = theory.accepted_law(acceptance, gamma)
    draws = rng.choice(len(law), size=(DRAWS, rounds), p=law)
    luck = np.abs(draws.mean(axis=1) - law @ np.arange(len(law)))
    nearest: Ints = draws[luck.argmin()]
    return nearest


def right_along(accepted: npt.ArrayLike, gamma: int) -> Bools:
    """Where drafts must be right for rounds to accept so many: (Σ (accepted + 1),).

    Behind the accepted ones comes a wrong draft, where the target corrects; or, behind gamma of
    them, the target's own token, which nobody drafts.
    """
    return np.concatenate([[True] * k + [k == gamma] for k in np.asarray(accepted).tolist()])
