"""A small decoder-only transformer with a key/value cache: one code path for every model here.

It serves the random model, the trained models and real checkpoints: RMSNorm or LayerNorm, RoPE or
learned positions, SwiGLU or GELU, grouped key/value heads, biases or none, a tied or untied head.

Shapes: B sequences, T tokens a call, N = rows computed (all real tokens of all sequences in one
list), D = d_model, H = n_heads, K = n_kv_heads, R = H / K, E = head_dim, F = d_ff, S = cached
positions, V = vocabulary, L = layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from lab.ledger import Ledger
from lab.linear import SMALL_PRODUCT, Matrix, aligned
from lab.quant import quantize

Array = npt.NDArray[Any]

CACHE_BYTES = 2  # declared width of a cached key or value
PAD, LEAST = 16, 32  # attention spans are padded to a multiple, so that sums run in one order


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and variants of a model; checked once. The defaults are the random model's."""

    vocab: int = 256
    d_model: int = 64
    n_layers: int = 4
    n_heads: int = 4
    n_kv_heads: int | None = None  # None: as many as n_heads
    d_ff: int = 256
    max_len: int = 512  # positions a cache can hold
    head_dim: int | None = None  # None: d_model / n_heads
    norm: str = "rms"  # or "layer"
    positions: str = "rope"  # or "learned"
    activation: str = "swiglu"  # or "gelu" (tanh form)
    bias: bool = False
    tied: bool = False  # the head is the transposed embedding
    rope_base: float = 1e4
    eps: float = 1e-5
    dtype: Any = "float32"  # or "float64", for audits and gradient checks
    weight_bits: float = 16  # declared width of a stored weight, for the ledger

    def __post_init__(self) -> None:
        def fill(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        sizes = ("vocab", "d_model", "n_layers", "n_heads", "d_ff", "max_len")
        if self.n_kv_heads is None:
            fill("n_kv_heads", self.n_heads)
        for name in (*sizes, "n_kv_heads"):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not whole or value < 1:
                raise ValueError(f"{name}={value!r} must be a whole number >= 1")
        if self.head_dim is None:
            if self.d_model % self.n_heads:
                raise ValueError(
                    f"d_model={self.d_model} is not a multiple of n_heads={self.n_heads}"
                )
            fill("head_dim", self.d_model // self.n_heads)
        if self.n_heads % self.kv_heads:
            raise ValueError(f"n_heads={self.n_heads} is not a multiple of {self.n_kv_heads=}")
        if self.width < 1 or (self.positions == "rope" and self.width % 2):
            raise ValueError(f"head_dim={self.head_dim} must be >= 1, and even for RoPE")
        allowed = {
            "norm": ("rms", "layer"),
            "positions": ("rope", "learned"),
            "activation": ("swiglu", "gelu"),
        }
        for name, choices in allowed.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}={getattr(self, name)!r} must be one of {choices}")
        for name in ("rope_base", "eps", "weight_bits"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)!r} must be above 0")
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype={self.dtype!r} must be float32 or float64")
        fill("dtype", np.dtype(self.dtype))

    @property
    def kv_heads(self) -> int:
        assert self.n_kv_heads is not None
        return self.n_kv_heads

    @property
    def width(self) -> int:
        """head_dim, never None."""
        assert self.head_dim is not None
        return self.head_dim

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter; matrices are (d_in, d_out)."""
        d, f = self.d_model, self.d_ff
        q, kv = self.n_heads * self.width, self.kv_heads * self.width
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocab, d)}
        if self.positions == "learned":
            shapes["positions"] = (self.max_len, d)

        def norm(name: str) -> None:
            shapes[name] = (d,)
            if self.norm == "layer":
                shapes[f"{name}_bias"] = (d,)

        def matrix(name: str, d_in: int, d_out: int) -> None:
            shapes[name] = (d_in, d_out)
            if self.bias:
                shapes[f"{name}_bias"] = (d_out,)

        for i in range(self.n_layers):
            norm(f"layers.{i}.attn_norm")
            matrix(f"layers.{i}.qkv", d, q + 2 * kv)  # query heads, key heads, value heads
            matrix(f"layers.{i}.attn_out", q, d)
            norm(f"layers.{i}.mlp_norm")
            # SwiGLU: gate columns, then up columns
            matrix(f"layers.{i}.mlp_in", d, 2 * f if self.activation == "swiglu" else f)
            matrix(f"layers.{i}.mlp_down", f, d)
        norm("final_norm")
        if not self.tied:
            shapes["head"] = (d, self.vocab)
        return shapes


class Linear(Protocol):
    """A weight matrix, dense or quantised."""

    d_in: int
    d_out: int

    @property
    def read_bytes(self) -> float: ...

    def apply(self, x: Array) -> Array: ...


class KVCache:
    """Keys and values of the positions seen so far, of one sequence or of a batch.

    Keys lie as (L, B, K, E, S), so that scores are plain products; values as (L, B, K, S, W): E
    columns of values, one of ones, whose weighted sum is the softmax's denominator, and zeros.

    `length` is an int, or (B,) for a batch. Rows beyond a length may hold anything.
    """

    def __init__(self, config: ModelConfig, batch: int | None = None) -> None:
        if batch is not None and batch < 1:
            raise ValueError(f"batch={batch} must be >= 1, or None for one sequence")
        self.batch, self.max_len = batch, config.max_len
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
        rows = np.asarray(rows, dtype=np.int64)
        if rows.ndim != 1 or ((rows < 0) | (rows >= self.batch)).any():
            raise ValueError(f"rows={rows.tolist()} must be within 0..{self.batch - 1}")
        self.keys, self.values = self.keys[:, rows], self.values[:, rows]
        self.lengths = self.lengths[rows]
        self.batch = len(rows)

    def make_room(self, counts: Array) -> int:
        """Ready `counts` (B,) positions behind each length; returns the padded span S.

        What lies beyond a length is replaced, not masked: NaN times a weight of 0 is NaN.
        """
        ends = self.lengths + counts
        span = max(LEAST, -(-int(ends.max()) // PAD) * PAD)
        if span > self.keys.shape[-1]:
            self._grow(max(span, min(2 * span, -(-self.max_len // PAD) * PAD)))
        for b, (start, end) in enumerate(zip(self.lengths.tolist(), ends.tolist(), strict=True)):
            self.keys[:, b, :, :, start:span] = 0
            self.values[:, b, :, start:span] = 0
            self.values[:, b, :, start:span, self.width] = 1
        return span

    def _grow(self, capacity: int) -> None:
        held = self.keys.shape[-1]
        more = capacity - held
        self.keys = np.concatenate(
            (self.keys, np.zeros((*self.keys.shape[:-1], more), self.keys.dtype)), axis=-1
        )
        room = np.zeros((*self.values.shape[:3], more, self.values.shape[-1]), self.values.dtype)
        self.values = np.concatenate((self.values, room), axis=3)


@dataclass(frozen=True)
class Norm:
    """RMSNorm, or LayerNorm where it has a bias."""

    gain: Array  # (D,)
    bias: Array | None
    eps: float

    def __call__(self, x: Array) -> Array:
        d = x.shape[-1]
        if self.bias is None:
            scale = np.sqrt(np.vecdot(x, x) / d + self.eps)  # (N,)
            return x / scale[:, None] * self.gain
        x = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt(np.vecdot(x, x) / d + self.eps)
        return x / scale[:, None] * self.gain + self.bias


@dataclass(frozen=True)
class Dense:
    """A matrix and its bias, if any."""

    matrix: Linear
    bias: Array | None = None

    def __call__(self, x: Array) -> Array:
        y = self.matrix.apply(x)
        return y if self.bias is None else y + self.bias


@dataclass(frozen=True)
class Block:
    """One layer."""

    attn_norm: Norm
    qkv: Dense
    attn_out: Dense
    mlp_norm: Norm
    mlp_in: Dense
    mlp_down: Dense


@dataclass(frozen=True)
class Step:
    """What one forward computes: N rows, each a token of one sequence at one position."""

    tokens: Array  # (N,)
    sequence: Array  # (N,) which of the B
    position: Array  # (N,)
    slot: Array | None  # (N,) index into B * T; None if every slot is real
    batch: int  # B
    width: int  # T
    counts: Array  # (B,) real tokens of each sequence


@dataclass(frozen=True)
class Transformer:
    """The model: `vocab`, `max_len`, `new_cache()`, `forward`, `prefill`."""

    config: ModelConfig
    embedding: Array  # (V, D)
    positions: Array | None  # (max_len, D), learned
    rotation: Array | None  # (max_len, E / 2) complex, RoPE
    blocks: tuple[Block, ...]
    final_norm: Norm
    head: Dense

    @classmethod
    def init(
        cls,
        config: ModelConfig,
        seed: int,
        *,
        residual_scale: float = 0.2,
        head_scale: float = 4.0,
    ) -> Self:
        """Random weights: matrices normal with standard deviation 1 / sqrt(d_in), embedding
        normal(0, 1), residual outputs and head scaled. With the default scales the model is
        peaked enough (about 1.8 nats) for its drafts to differ in worth.
        """
        rng = np.random.default_rng(seed)
        params = {}
        for name, shape in config.shapes().items():
            if name in ("embedding", "positions"):
                params[name] = rng.standard_normal(shape)
            elif len(shape) == 2:
                scale = {"head": head_scale, "attn_out": residual_scale, "mlp_down": residual_scale}
                factor = scale.get(name.rpartition(".")[2], 1.0)
                params[name] = rng.standard_normal(shape) * (factor / np.sqrt(shape[0]))
            else:
                params[name] = np.zeros(shape) if name.endswith("_bias") else np.ones(shape)
        return cls.from_params(config, params)

    @classmethod
    def from_params(cls, config: ModelConfig, params: Mapping[str, Array]) -> Self:
        """A model of these arrays, named and shaped as `config.shapes()`; cast to its dtype."""
        shapes = config.shapes()
        if set(params) != set(shapes):
            odd = sorted(set(params) ^ set(shapes))
            raise ValueError(f"params must be named as config.shapes(); missing or unknown: {odd}")
        arrays = {}
        for name, shape in shapes.items():
            if np.shape(params[name]) != shape:
                raise ValueError(f"params[{name!r}] must be {shape}, got {np.shape(params[name])}")
            arrays[name] = np.asarray(params[name]).astype(config.dtype)

        def norm(name: str) -> Norm:
            return Norm(arrays[name], arrays.get(f"{name}_bias"), config.eps)

        def dense(name: str) -> Dense:
            matrix = Matrix(arrays[name], config.weight_bits)
            return Dense(matrix, arrays.get(f"{name}_bias"))

        def block(i: int) -> Block:
            at = f"layers.{i}."
            return Block(
                norm(at + "attn_norm"),
                dense(at + "qkv"),
                dense(at + "attn_out"),
                norm(at + "mlp_norm"),
                dense(at + "mlp_in"),
                dense(at + "mlp_down"),
            )

        if config.tied:
            arrays["head"] = arrays["embedding"].T
        return cls(
            config,
            arrays["embedding"],
            arrays.get("positions"),
            _rotation(config) if config.positions == "rope" else None,
            tuple(block(i) for i in range(config.n_layers)),
            norm("final_norm"),
            dense("head"),
        )

    @property
    def vocab(self) -> int:
        return self.config.vocab

    @property
    def max_len(self) -> int:
        return self.config.max_len

    def new_cache(self, batch: int | None = None) -> KVCache:
        """An empty cache for one sequence, or for a batch of them."""
        return KVCache(self.config, batch)

    def first_layers(self, k: int) -> Self:
        """The same model cut after k layers; weights are shared, not copied."""
        if not 1 <= k <= self.config.n_layers:
            raise ValueError(f"k={k} must be within 1..{self.config.n_layers}")
        return replace(self, config=replace(self.config, n_layers=k), blocks=self.blocks[:k])

    def quantized(self, bits: int = 4, group: int = 32) -> Self:
        """The same model with every matrix quantised, head included, embedding not."""

        def dense(full: Dense) -> Dense:
            if not isinstance(full.matrix, Matrix):
                raise ValueError("quantized() needs a model that is not quantised already")
            return Dense(quantize(full.matrix.weights, bits, group), full.bias)

        blocks = tuple(
            Block(b.attn_norm, dense(b.qkv), dense(b.attn_out), b.mlp_norm, dense(b.mlp_in),
                  dense(b.mlp_down))
            for b in self.blocks
        )  # fmt: skip
        return replace(self, blocks=blocks, head=dense(self.head))

    def forward(
        self,
        tokens: Array | Sequence[int],
        cache: KVCache,
        ledger: Ledger | None = None,
        counts: Array | Sequence[int] | None = None,
    ) -> Array:
        """Append tokens to the cache; the logits that follow each of them.

        tokens (T,) with a plain cache -> (T, V); tokens (B, T) with `new_cache(B)` -> (B, T, V),
        where `counts` (B,) says how many of a row's T tokens are real: the rest is not computed,
        its logits are 0.
        """
        step = self._step(tokens, cache, counts)
        x = self._layers(step, cache, ledger)
        logits = self.head(self.final_norm(x))[: len(step.tokens)]
        if ledger is not None:
            head = self.head.matrix
            flops = 2 * len(step.tokens) * head.d_in * head.d_out
            ledger.add("lm_head", flops=flops, weight_bytes=head.read_bytes)
        if cache.batch is None:
            return logits
        if step.slot is not None:
            padded = np.zeros((step.batch * step.width, self.vocab), logits.dtype)
            padded[step.slot] = logits
            logits = padded
        return logits.reshape(step.batch, step.width, self.vocab)

    def prefill(
        self,
        tokens: Array | Sequence[int],
        cache: KVCache,
        ledger: Ledger | None = None,
        counts: Array | Sequence[int] | None = None,
    ) -> None:
        """Append tokens to the cache without making logits: the head is not read."""
        self._layers(self._step(tokens, cache, counts), cache, ledger)

    def params(self) -> dict[str, Array]:
        """The arrays of a model that is not quantised, named as `config.shapes()`."""
        found: dict[str, Array | None] = {"embedding": self.embedding, "positions": self.positions}

        def norm(name: str, layer: Norm) -> None:
            found[name], found[f"{name}_bias"] = layer.gain, layer.bias

        def dense(name: str, layer: Dense) -> None:
            if not isinstance(layer.matrix, Matrix):
                raise ValueError(f"params() needs a model that is not quantised; {name} is")
            found[name], found[f"{name}_bias"] = layer.matrix.weights, layer.bias

        for i, block in enumerate(self.blocks):
            for name in ("attn_norm", "mlp_norm"):
                norm(f"layers.{i}.{name}", getattr(block, name))
            for name in ("qkv", "attn_out", "mlp_in", "mlp_down"):
                dense(f"layers.{i}.{name}", getattr(block, name))
        norm("final_norm", self.final_norm)
        dense("head", self.head)
        arrays: dict[str, Array] = {}
        for name in self.config.shapes():
            array = found[name]
            assert array is not None
            arrays[name] = array
        return arrays

    @property
    def matmul_parameters(self) -> int:
        """Weights that take part in matrix products: all matrices, the head too."""
        matrices = [self.head.matrix]
        for b in self.blocks:
            matrices += [d.matrix for d in (b.qkv, b.attn_out, b.mlp_in, b.mlp_down)]
        return sum(m.d_in * m.d_out for m in matrices)

    def _step(self, tokens: Any, cache: KVCache, counts: Any) -> Step:
        """Check the input and list its rows."""
        tokens = np.asarray(tokens)
        batch = 1 if cache.batch is None else cache.batch
        shape = "(T,)" if cache.batch is None else f"(B={batch}, T)"
        right = tokens.ndim == 1 if cache.batch is None else tokens.ndim == 2
        if not right or (cache.batch is not None and len(tokens) != batch) or not tokens.size:
            raise ValueError(f"tokens must be {shape} with T >= 1, got shape {tokens.shape}")
        if tokens.dtype.kind not in "iu":
            raise ValueError(f"tokens must be whole numbers, got dtype {tokens.dtype}")
        tokens = tokens.reshape(batch, -1)
        width = tokens.shape[1]
        if counts is None:
            real = np.full(batch, width)
        else:
            real = np.asarray(counts)
            if real.shape != (batch,) or ((real < 0) | (real > width)).any() or not real.any():
                raise ValueError(f"counts={counts} must be (B={batch},) within 0..{width}, not all 0")
        ends = cache.lengths + real
        if ends.max() > self.max_len:
            raise ValueError(
                f"tokens end at position {ends.max()}, max_len={self.max_len} (cache length "
                f"{cache.length})"
            )
        position = cache.lengths[:, None] + np.arange(width)  # (B, T)
        if (real == width).all():
            flat, sequence, slot = tokens.ravel(), np.repeat(np.arange(batch), width), None
            position = position.ravel()
        else:
            used = np.arange(width) < real[:, None]
            flat, position, slot = tokens[used], position[used], np.flatnonzero(used)
            sequence = slot // width
        low, high = flat.min(), flat.max()
        if low < 0 or high >= self.vocab:
            bad = low if low < 0 else high
            raise ValueError(f"token {bad} is not within 0..{self.vocab - 1} (vocab={self.vocab})")
        return Step(flat, sequence, position, slot, batch, width, real)

    def _layers(self, step: Step, cache: KVCache, ledger: Ledger | None) -> Array:
        """All blocks: rows (N,) -> (N, D) before the final norm. Advances the cache at the end."""
        tokens, position = step.tokens, step.position
        if len(tokens) == 1:  # two equal rows: a single one takes another path through the BLAS
            tokens, position = tokens.repeat(2), position.repeat(2)
        span = cache.make_room(step.counts)
        attend = _Attention(self.config, step, cache, span)
        x = self.embedding[tokens]  # (N, D)
        if self.positions is not None:
            x = x + self.positions[position]
        rotation = None if self.rotation is None else self.rotation[position][:, None]
        for i, block in enumerate(self.blocks):
            heads = block.qkv(block.attn_norm(x))
            mixed = attend(i, heads, rotation)
            x = x + block.attn_out(mixed)
            x = x + block.mlp_down(self._activate(block.mlp_in(block.mlp_norm(x))))
        if ledger is not None:
            self._count(ledger, step, cache)
        cache.lengths += step.counts
        return x

    def _activate(self, inner: Array) -> Array:
        """(N, 2F) or (N, F) -> (N, F)."""
        if self.config.activation == "gelu":
            cubic = inner * inner * inner * 0.044715 + inner
            return (np.tanh(cubic * 0.7978845608028654) + 1) * inner * 0.5
        f = self.config.d_ff
        gate, up = inner[:, :f], inner[:, f:]
        return (np.tanh(gate * 0.5) + 1) * gate * up * 0.5  # silu(gate) * up, without overflow

    def _count(self, ledger: Ledger, step: Step, cache: KVCache) -> None:
        """Enter one forward; the conventions are `ledger.CONVENTIONS`."""
        c, rows = self.config, len(step.tokens)
        table = c.d_model * c.weight_bits / 8
        lookups = 1 if self.positions is None else 2
        ledger.add("embedding", weight_bytes=rows * lookups * table)

        def product(op: str, matrix: Linear, share: float = 1.0) -> None:
            flops = int(2 * rows * matrix.d_in * matrix.d_out * share)
            ledger.add(op, flops=flops, weight_bytes=matrix.read_bytes * share)

        for block in self.blocks:
            product("qkv", block.qkv.matrix)
            product("attn_out", block.attn_out.matrix)
            if c.activation == "swiglu":
                product("mlp_gate", block.mlp_in.matrix, 0.5)
                product("mlp_up", block.mlp_in.matrix, 0.5)
            else:
                product("mlp_up", block.mlp_in.matrix)
            product("mlp_down", block.mlp_down.matrix)
        pairs = int(step.position.sum()) + rows  # a row attends to its own position too
        cached = int(cache.lengths[step.counts > 0].sum())
        kv_bytes = 2 * c.n_layers * c.kv_heads * c.width * CACHE_BYTES
        ledger.add(
            "attention",
            flops=4 * pairs * c.n_layers * c.n_heads * c.width,
            kv_read_bytes=cached * kv_bytes,
            kv_write_bytes=rows * kv_bytes,
        )


class _Attention:
    """Causal attention of one forward's rows over the cache, layer by layer.

    Queries are laid out (B, K, T * R, E), so that every product is a small one (see `linear`),
    in pieces of T where the whole would be too large.
    """

    def __init__(self, config: ModelConfig, step: Step, cache: KVCache, span: int) -> None:
        self.config, self.step, self.cache = config, step, cache
        rows, repeat = len(step.tokens), config.n_heads // config.kv_heads
        real = rows if step.batch == 1 else step.width
        # A product with one row takes another path through the BLAS: two slots at least.
        self.width = max(2, real) if repeat == 1 or rows == 1 else real
        self.slot: Array | None = None  # (N,) index of a row into B * width, where slots are empty
        if step.batch > 1 and (self.width > step.width or step.slot is not None):
            offset = step.position - cache.lengths[step.sequence]
            slot = step.sequence * self.width + offset
            self.slot = slot.repeat(2) if rows == 1 else slot
        per_piece = max(2, SMALL_PRODUCT // (span * aligned(config.width + 1) * repeat))
        pieces = -(-self.width // per_piece)
        cuts = [self.width * i // pieces for i in range(pieces + 1)]
        self.pieces = list(zip(cuts[:-1], cuts[1:], strict=True))
        last_seen = cache.lengths[:, None] + np.minimum(np.arange(self.width), real - 1)  # (B, T)
        bias = np.where(np.arange(span) > last_seen[..., None], -np.inf, 0)  # (B, T, S)
        self.bias = bias.astype(config.dtype)[:, None, :, None]  # (B, 1, T, 1, S)
        self.span = span
        self.scale = config.width**-0.5

    def __call__(self, layer: int, heads: Array, rotation: Array | None) -> Array:
        """heads (N, (H + 2K) E) of one layer -> (N, H E), its keys and values now cached."""
        c = self.config
        n = len(heads)
        heads = heads.reshape(n, -1, c.width)  # (N, H + 2K, E)
        turned = heads[:, : -c.kv_heads]  # (N, H + K, E)
        if rotation is not None:  # consecutive pairs as complex numbers
            turned = (turned.view(rotation.dtype) * rotation).view(heads.dtype)
        self._store(layer, turned[:, c.n_heads :], heads[:, -c.kv_heads :])
        queries = turned[:, : c.n_heads] * self.scale
        mixed = self._mix(layer, self._lay_out(queries))  # (B, K, T, R, E)
        mixed = mixed.transpose(0, 2, 1, 3, 4).reshape(-1, c.n_heads * c.width)  # (B T, H E)
        return mixed if self.slot is None else mixed[self.slot]

    def _store(self, layer: int, keys: Array, values: Array) -> None:
        """keys, values (N, K, E) into the cache at their positions."""
        step, cache = self.step, self.cache
        width = self.config.width
        if step.batch == 1:
            start = int(step.position[0])
            end = start + len(step.tokens)
            cache.keys[layer, 0, :, :, start:end] = keys[: end - start].transpose(1, 2, 0)
            cache.values[layer, 0, :, start:end, :width] = values[: end - start].transpose(1, 0, 2)
        else:
            rows = len(step.tokens)
            cache.keys[layer][step.sequence, :, :, step.position] = keys[:rows]
            cache.values[layer][step.sequence, :, step.position, :width] = values[:rows]

    def _lay_out(self, queries: Array) -> Array:
        """queries (N, H, E) -> (B, K, T, R, E); slots that are not real hold zeros."""
        c, b = self.config, self.step.batch
        if self.slot is not None:
            padded = np.zeros((b * self.width, *queries.shape[1:]), queries.dtype)
            padded[self.slot] = queries
            queries = padded
        shape = (b, self.width, c.kv_heads, c.n_heads // c.kv_heads, c.width)
        return queries.reshape(shape).transpose(0, 2, 1, 3, 4)

    def _mix(self, layer: int, queries: Array) -> Array:
        """queries (B, K, T, R, E) -> weighted values, same shape."""
        keys = self.cache.keys[layer, ..., : self.span]  # (B, K, E, S)
        values = self.cache.values[layer, :, :, : self.span]  # (B, K, S, W)
        b, k, _, r, e = queries.shape
        parts = []
        for start, end in self.pieces:
            rows = (end - start) * r
            part = np.matmul(queries[:, :, start:end].reshape(b, k, rows, e), keys)
            scores = part.reshape(b, k, end - start, r, self.span)
            scores += self.bias[:, :, start:end]
            scores -= scores.max(axis=-1, keepdims=True)
            weights = np.exp(scores, out=scores).reshape(b, k, rows, self.span)
            sums = np.matmul(weights, values)  # (B, K, rows, W)
            parts.append((sums[..., :e] / sums[..., e : e + 1]).reshape(b, k, end - start, r, e))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def _rotation(config: ModelConfig) -> Array:
    """(max_len, E / 2) unit complex numbers: position times frequency."""
    frequency = config.rope_base ** (-np.arange(0, config.width, 2) / config.width)
    angle = np.arange(config.max_len)[:, None] * frequency
    return np.exp(1j * angle).astype(np.complex64 if config.dtype == np.float32 else np.complex128)
