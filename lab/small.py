"""Small models whose runs can be enumerated: laws by table or by hash, at the ids of a large
vocabulary, and drawn for every prefix.

Shapes: T tokens, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.ngram import TokenCache
from lab.rule_laws import PrefixLaw

Array = npt.NDArray[Any]


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

    @property
    def context(self) -> int:
        """How many of the last tokens a law depends on."""
        return self.table.ndim - 1

    def new_cache(self) -> TokenCache:
        return TokenCache()

    def forward(self, tokens: Sequence[int] | Array, cache: TokenCache) -> Array:
        context = self.context
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


class SpreadLM:
    """A small model whose tokens sit at chosen ids of a large vocabulary, where no other token is
    possible (logit -inf).

    Its laws are the small model's, so a run has as many branches, but every array of the loop has
    the size that it has with a real tokenizer.

    Parameters
    ----------
    model : a language model of v tokens
    ids : (v,) where they sit, all different, in 0..vocab - 1
    vocab : V
    """

    def __init__(self, model: Any, ids: Sequence[int] | Array, vocab: int) -> None:
        self.model, self.vocab = model, domains.whole("vocab", vocab, 1)
        self.max_len: int | None = getattr(model, "max_len", None)
        self.ids = domains.tokens("ids", ids, self.vocab)
        self.place = {token: i for i, token in enumerate(self.ids.tolist())}
        if not len(self.place) == len(self.ids) == model.vocab:
            raise ValueError(
                f"ids={self.ids.tolist()} must be {model.vocab} different tokens, one for each of "
                "the model's"
            )

    def new_cache(self) -> Any:
        return self.model.new_cache()

    def forward(self, tokens: Sequence[int] | Array, cache: Any) -> Array:
        ids = np.asarray(tokens).tolist()
        strangers = [token for token in ids if token not in self.place]
        if strangers:
            raise ValueError(f"tokens: {strangers[0]} is none of ids={self.ids.tolist()}")
        logits = np.full((len(ids), self.vocab), -np.inf)
        logits[:, self.ids] = self.model.forward([self.place[token] for token in ids], cache)
        return logits


def random_laws(vocab: int, *key: int) -> PrefixLaw:
    """A random law (V,) for every prefix, all different, the same for one key whatever is asked
    first."""

    @cache
    def law(prefix: tuple[int, ...]) -> Array:
        rng = np.random.default_rng([*key, len(prefix), *prefix])  # trailing zeros would not count
        return rng.dirichlet(np.ones(vocab))

    return law
