"""Arithmetic intensity: FLOP per byte of real forwards, as the ledger counts them.

A device does its arithmetic while it waits for memory, as long as a forward's FLOP per byte lies
below the device's ratio of the two rates. One token after another does about one FLOP per byte.

Shapes: B sequences, S cached positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lab.decode import autoregressive_generate
from lab.ledger import FIELDS, Ledger
from lab.ngram import TokenCache
from lab.text import Generation
from lab.transformer import Transformer

Array = npt.NDArray[Any]
Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cost:
    """FLOPs and bytes of one forward, or of several."""

    flops: float
    weight_bytes: float
    kv_bytes: float  # read and written

    @classmethod
    def of(cls, ledger: Ledger, phase: str | None = None, ops: Iterable[str] | None = None) -> Cost:
        """What a ledger holds, in one phase or for some operations."""
        chosen = None if ops is None else tuple(ops)
        flops, weights, reads, writes = (float(ledger.total(f, chosen, phase)) for f in FIELDS)
        return cls(flops, weights, reads + writes)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.flops - other.flops,
            self.weight_bytes - other.weight_bytes,
            self.kv_bytes - other.kv_bytes,
        )

    def per(self, tokens: int) -> Cost:
        """The share of one of `tokens` tokens."""
        return Cost(self.flops / tokens, self.weight_bytes / tokens, self.kv_bytes / tokens)

    @property
    def bytes(self) -> float:
        return self.weight_bytes + self.kv_bytes

    @property
    def intensity(self) -> float:
        """FLOP/byte."""
        return self.flops / self.bytes


class WithoutCache:
    """The same model without its cache: it keeps the tokens, and every forward does all of them.

    Logits are the model's own, bit for bit where its products are row-invariant.
    """

    def __init__(self, model: Transformer) -> None:
        self.model, self.vocab, self.max_len = model, model.vocab, model.max_len

    def new_cache(self) -> TokenCache:
        return TokenCache()

    def forward(
        self, tokens: Sequence[int] | Array, cache: TokenCache, ledger: Ledger | None = None
    ) -> Array:
        """Append tokens (T,); logits (T, V), by a forward over the whole text."""
        new = np.asarray(tokens)
        text = np.concatenate((np.array(cache.tokens, np.int64), new))
        logits = self.model.forward(text, self.model.new_cache(), ledger)
        cache.tokens += new.tolist()
        return logits[-len(new) :]

    def prefill(
        self, tokens: Sequence[int] | Array, cache: TokenCache, ledger: Ledger | None = None
    ) -> None:
        """Nothing to compute yet."""
        cache.tokens += np.asarray(tokens).tolist()


def token_costs(model: Any, prompt: Tokens, n_new: int, rng: Any) -> tuple[Generation, list[Cost]]:
    """Plain decoding, and what each new token cost."""
    ledger = Ledger()
    sums = [Cost(0, 0, 0)]
    run = autoregressive_generate(
        model, prompt, n_new, rng=rng, ledger=ledger,
        on_token=lambda token: sums.append(Cost.of(ledger, "decode")),
    )  # fmt: skip
    return run, [after - before for before, after in pairwise(sums)]


def one_token(
    model: Any, context: Sequence[int] | Tokens = (0,), ops: Iterable[str] | None = None
) -> Cost:
    """Cost of a forward of the last token of `context` by itself, those before it cached."""
    cache, ledger = model.new_cache(), Ledger()
    if len(context) > 1:
        model.forward(np.asarray(context[:-1]), cache)
    model.forward(np.asarray(context[-1:]), cache, ledger=ledger)
    return Cost.of(ledger, ops=ops)


class Pass(NamedTuple):
    """A forward: `rows` new tokens for each of `batch` sequences with `context` cached."""

    batch: int = 1
    rows: int = 1
    context: int = 0


def pass_ledgers(model: Transformer, passes: Sequence[Pass], seed: int) -> dict[Pass, Ledger]:
    """Real forwards over random tokens, each with its ledger.

    One batch is prefilled to the longest context and cut back; a smaller batch is the first
    sequences of it.
    """
    size = max(p.batch for p in passes)
    longest = max(p.context for p in passes)
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, model.vocab, (size, longest + max(p.rows for p in passes)))
    cache = model.new_cache(size)
    if longest:
        model.prefill(tokens[:, :longest], cache)
    ledgers: dict[Pass, Ledger] = {}
    for p in sorted(set(passes), key=lambda p: -p.context):  # a cache can only be cut back
        cache.truncate(np.full(size, p.context))
        ledgers[p] = Ledger()
        counts = np.where(np.arange(size) < p.batch, p.rows, 0)
        new = tokens[:, p.context : p.context + p.rows]
        model.forward(new, cache, ledger=ledgers[p], counts=counts)
    return ledgers


def pass_costs(model: Transformer, passes: Sequence[Pass], seed: int) -> dict[Pass, Cost]:
    """The costs of `pass_ledgers`."""
    return {p: Cost.of(ledger) for p, ledger in pass_ledgers(model, passes, seed).items()}
