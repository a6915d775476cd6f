"""The key/value cache, and causal attention over it.

Shapes: B sequences, T tokens a call, N = rows computed (all real tokens of all sequences in one
list), H = n_heads, K = n_kv_heads, R = H / K, E = head_dim, S = cached positions, padded, L layers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.config import ModelConfig
from lab.linear import SMALL_PRODUCT, aligned

Array = npt.NDArray[Any]

# Attention spans are padded to a multiple of PAD, and are LEAST at least, so that sums over
# positions run in one order whatever the span.
PAD, LEAST = 16, 32
MODEST = 40  # scores up to this size need no shift before exp, in float32 either


class KVCache:
    """Keys and values of the positions seen so far, of one sequence or of a batch.

    Keys lie as (L, B, K, E, S), so that scores are plain products; values as (L, B, K, S, W): E
    columns of values, one of ones, whose weighted sum is the softmax's denominator, and zeros.

    `length` is an int, or (B,) for a batch. Rows beyond a length may hold anything: a masked
    position has weight 0, and where that meets NaN or infinity they are cleared (`clear_beyond`).
    """

    def __init__(self, config: ModelConfig, batch: int | None = None) -> None:
        if batch is not None:
            batch = domains.whole("batch", batch, 1)
        self.config, self.batch, self.max_len = config, batch, config.max_len
        layers, rows = config.n_layers, batch or 1
        heads, width, dtype = config.kv_heads, config.width, config.dtype
        self.keys: Array = np.zeros((layers, rows, heads, width, 0), dtype)
        self.width = width
        self.values: Array = np.zeros((layers, rows, heads, 0, aligned(width + 1)), dtype)
        self.lengths = np.zeros(rows, np.int64)

    @property
    def length(self) -> Any:
        """Positions held: an int, or (B,) for a batch."""
        return int(self.lengths[0]) if self.batch is None else self.lengths.copy()

    def fits(self, config: ModelConfig) -> bool:
        """Whether a model of this shape can use the cache."""
        names = ("n_layers", "n_kv_heads", "head_dim", "max_len", "dtype")
        return all(getattr(self.config, name) == getattr(config, name) for name in names)

    def truncate(self, length: Any) -> None:
        """Forget all positions from `length` on: absolute, an int or (B,)."""
        lengths = np.asarray(length)
        if lengths.shape != (() if self.batch is None else (self.batch,)):
            raise ValueError(f"length has shape {lengths.shape}, the cache holds {self.batch=}")
        if lengths.dtype.kind not in "iu" or ((lengths < 0) | (lengths > self.lengths)).any():
            raise ValueError(f"length={length} must be whole and within 0..{self.length}")
        self.lengths[:] = lengths

    def select(self, rows: Sequence[int] | Array) -> None:
        """Keep these sequences of a batch, in this order."""
        if self.batch is None:
            raise ValueError("select needs a cache made with new_cache(batch)")
        given, rows = rows, np.asarray(rows)
        whole = rows.ndim == 1 and rows.size > 0 and rows.dtype.kind in "iu"
        if not whole or ((rows < 0) | (rows >= self.batch)).any():
            raise ValueError(f"rows={given} must be whole numbers within 0..{self.batch - 1}")
        self.keys, self.values = self.keys[:, rows], self.values[:, rows]
        self.lengths = self.lengths[rows]
        self.batch = len(rows)

    def make_room(self, step: Step) -> int:
        """Ready the positions of a step; returns the padded span S."""
        span = max(LEAST, -(-step.end // PAD) * PAD)
        if span > self.keys.shape[-1]:
            self._grow(max(span, min(2 * span, -(-self.max_len // PAD) * PAD)))
        return span

    def clear_beyond(self, ends: Array) -> None:
        """Zero what lies beyond `ends` (B,)."""
        for b, end in enumerate(ends.tolist()):
            self.keys[:, b, :, :, end:] = 0
            self.values[:, b, :, end:] = 0
            self.values[:, b, :, end:, self.width] = 1

    def _grow(self, capacity: int) -> None:
        held = self.keys.shape[-1]
        more = capacity - held
        self.keys = np.concatenate(
            (self.keys, np.zeros((*self.keys.shape[:-1], more), self.keys.dtype)), axis=-1
        )
        room = np.zeros((*self.values.shape[:3], more, self.values.shape[-1]), self.values.dtype)
        room[..., self.width] = 1
        self.values = np.concatenate((self.values, room), axis=3)


@dataclass(frozen=True, slots=True)
class Step:
    """What one forward computes: N rows, each a token of one sequence at one position.

    B counts the sequences from the first to the last that take part.
    """

    tokens: Array  # (N,)
    position: Array  # (N,)
    end: int  # one above the last position of all
    counts: Array  # real tokens of each sequence of the cache
    width: int  # T
    rows: slice  # the B of all sequences of the cache
    batch: int = 1  # B
    sequence: Array | None = None  # (N,) of the cache; None: its only one
    place: Array | None = None  # (N,) which of its T tokens
    full: bool = True  # all B * T slots are real
    span: slice | None = None  # the positions, where there is only one sequence


def plain_step(tokens: Array, cache: KVCache) -> Step:
    """Tokens (T,) of the only sequence."""
    width, start = len(tokens), cache.lengths.item(0)
    end = start + width
    return Step(
        tokens,
        np.arange(start, end),
        end,
        np.array([width]),
        width,
        slice(0, 1),
        span=slice(start, end),
    )


def ragged_step(tokens: Array, cache: KVCache, counts: Any) -> Step:
    """The first `counts` tokens of each row (B, T) are real; None: all."""
    batch, width = tokens.shape
    real = np.full(batch, width) if counts is None else np.asarray(counts)
    within = real.shape == (batch,) and real.dtype.kind in "iu" and real.any()
    if not within or ((real < 0) | (real > width)).any():
        raise ValueError(f"counts={counts} must be (B={batch},) in 0..{width}, not all 0")
    used = np.arange(width) < real[:, None]  # (B, T)
    sequence, place = np.nonzero(used)
    first, last = int(sequence[0]), int(sequence[-1])
    taking_part = last + 1 - first
    position = cache.lengths[sequence] + place
    return Step(
        tokens[used],
        position,
        int(position.max()) + 1,
        real,
        width,
        slice(first, last + 1),
        taking_part,
        sequence,
        place,
        len(sequence) == taking_part * width,
    )


class Attention:
    """Causal attention of one forward's rows over the cache, layer by layer.

    Queries are laid out (B, K, T R, E), so that every product is a small one (see `linear`), in
    pieces of two rows at least. So its bits do not depend on how rows are grouped up to spans of
    SMALL_PRODUCT / 2 E, some 7,000 positions at E = 64.
    """

    def __init__(self, config: ModelConfig, step: Step, cache: KVCache, span: int) -> None:
        self.config, self.step, self.cache, self.span = config, step, cache, span
        repeat = config.n_heads // config.kv_heads
        self.doubled = len(step.tokens) == 1  # the one row comes twice
        self.width = 2 if self.doubled else step.width  # slots per sequence
        self.pieces = _pieces(self.width * repeat, span * aligned(config.width + 1))
        self.scale = config.width**-0.5
        self.with_ones = np.ones(
            (len(step.tokens), config.kv_heads, config.width + 1), config.dtype
        )
        self.bias: Array | None
        self.slot: Array | None = None  # (N,) index into B * T, where there are empty slots
        if not step.full and step.sequence is not None and not self.doubled:
            self.slot = (step.sequence - step.rows.start) * self.width + step.place
        if self.doubled:
            self.open, self.bias = step.end, None  # all that is beyond is hidden from both
            return
        last_seen = cache.lengths[step.rows, None] + np.arange(self.width)  # (B, T)
        self.open = int(last_seen.min()) + 1  # positions before this are open to every row
        hidden = np.arange(self.open, span) > last_seen[..., None]
        bias = np.where(hidden, -np.inf, 0).astype(config.dtype)
        self.bias = bias.repeat(repeat, axis=1)[:, None]  # (B, 1, T R, S - open)

    def __call__(self, layer: int, heads: Array, rotation: Array | None) -> Array:
        """heads (N, (H + 2K) E) of one layer -> (N, H E), its keys and values now cached."""
        c = self.config
        heads = heads.reshape(len(heads), -1, c.width)  # (N, H + 2K, E)
        turned = heads[:, : -c.kv_heads]  # (N, H + K, E)
        if rotation is not None:  # consecutive pairs as complex numbers
            turned = (turned.view(rotation.dtype) * rotation).view(heads.dtype)
        self._store(layer, turned[:, c.n_heads :], heads[:, -c.kv_heads :])
        queries = turned[:, : c.n_heads] * self.scale
        mixed = self._mix(layer, self._lay_out(queries))  # (B, K, T R, E)
        mixed = mixed.reshape(self.step.batch, c.kv_heads, self.width, -1)  # (B, K, T, R E)
        mixed = mixed.transpose(0, 2, 1, 3).reshape(-1, c.n_heads * c.width)  # (B T, H E)
        return mixed if self.slot is None else mixed[self.slot]

    def _store(self, layer: int, keys: Array, values: Array) -> None:
        """keys, values (N, K, E) into the cache at their positions."""
        step, columns, rows = self.step, self.with_ones.shape[-1], len(self.step.tokens)
        of_keys, of_values = self.cache.keys[layer], self.cache.values[layer]
        self.with_ones[..., :-1] = values[:rows]
        keys = keys[:rows]
        if step.span is not None:
            of_keys[0, :, :, step.span] = keys.transpose(1, 2, 0)
            of_values[0, :, step.span, :columns] = self.with_ones.transpose(1, 0, 2)
        else:
            of_keys[step.sequence, :, :, step.position] = keys
            of_values[step.sequence, :, step.position, :columns] = self.with_ones

    def _lay_out(self, queries: Array) -> Array:
        """queries (N, H, E) -> (B, K, T R, E); slots that are not real hold zeros."""
        c, b = self.config, self.step.batch
        if self.slot is not None:
            padded = np.zeros((b * self.width, *queries.shape[1:]), queries.dtype)
            padded[self.slot] = queries
            queries = padded
        queries = queries.reshape(b, self.width, c.kv_heads, -1).transpose(0, 2, 1, 3)
        return queries.reshape(b, c.kv_heads, -1, c.width)

    def _mix(self, layer: int, queries: Array) -> Array:
        """queries (B, K, T R, E) -> weighted values, same shape."""
        keys = self.cache.keys[layer, self.step.rows, ..., : self.span]  # (B, K, E, S)
        values = self.cache.values[layer, self.step.rows, :, : self.span]  # (B, K, S, W)
        e = self.config.width
        parts = []
        for start, end in self.pieces:
            rows, piece = end - start, queries[:, :, start:end]
            if rows == 1:  # one row takes another path through the BLAS: zeros go with it
                piece = np.concatenate((piece, np.zeros_like(piece)), axis=2)
            product = np.matmul(piece, keys)
            scores = product[:, :, :rows]
            small = np.maximum.reduce(np.abs(product), axis=None) <= MODEST  # False for NaN
            if self.bias is None:
                scores[..., self.open :] = -np.inf
            else:
                scores[..., self.open :] += self.bias[:, :, start:end]
            if not small:  # keep exp in range; each row decides by its own largest score
                largest = scores.max(axis=-1, keepdims=True)
                scores -= np.where(np.abs(largest) <= MODEST, 0, largest)
            np.exp(scores, out=scores)  # unnormalised weights
            sums = np.matmul(product, values)[:, :, :rows]
            parts.append(sums[..., :e] / sums[..., e : e + 1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def _pieces(rows: int, size: int) -> list[tuple[int, int]]:
    """Cut rows into even pieces of two at least, so that rows x size is a small product."""
    pieces = -(-rows // max(2, SMALL_PRODUCT // size))
    if pieces == 1:
        return [(0, rows)]
    return list(itertools.pairwise(rows * i // pieces for i in range(pieces + 1)))
