"""A small decoder-only transformer with a key/value cache: one code path for every model here.

It serves the random model, the trained models and real checkpoints: RMSNorm or LayerNorm, RoPE or
learned positions, SwiGLU or GELU, grouped key/value heads, biases or none, a tied or untied head.

Shapes: B sequences, T tokens a call, N = rows computed (all real tokens of all sequences in one
list), D = d_model, E = head_dim, F = d_ff, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.attention import Attention, KVCache, Step, plain_step, ragged_step
from lab.config import ModelConfig
from lab.layers import Block, Dense, Linear, Norm
from lab.ledger import Ledger
from lab.linear import Matrix
from lab.quant import quantize

__all__ = ["KVCache", "ModelConfig", "Transformer"]

Array = npt.NDArray[Any]

CACHE_BYTES = 2  # declared width of a cached key or value


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
        rng = np.random.default_rng(domains.whole("seed", seed))
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
        config.check(params)
        arrays = {}
        for name, given in params.items():
            array = np.asarray(given)
            if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
                raise ValueError(f"params[{name!r}] must hold finite real numbers")
            arrays[name] = array.astype(config.dtype)
            arrays[name].flags.writeable = False  # products may keep a copy of their own

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
        k = domains.whole("k", k, 1, self.config.n_layers)
        return replace(self, config=replace(self.config, n_layers=k), blocks=self.blocks[:k])

    def quantized(self, bits: int = 4, group: int = 32) -> Self:
        """The same model with every matrix quantised, head included, embedding not."""

        def convert(matrix: Linear) -> Linear:
            if not isinstance(matrix, Matrix):
                raise ValueError("quantized() needs a model that is not quantised already")
            return quantize(matrix.weights, bits, group)

        return self.with_matrices(convert)

    def with_matrices(self, convert: Callable[[Linear], Linear]) -> Self:
        """The same model with another matrix in the place of each; the rest is shared."""

        def dense(layer: Dense) -> Dense:
            return Dense(convert(layer.matrix), layer.bias)

        blocks = tuple(
            replace(
                block,
                qkv=dense(block.qkv),
                attn_out=dense(block.attn_out),
                mlp_in=dense(block.mlp_in),
                mlp_down=dense(block.mlp_down),
            )
            for block in self.blocks
        )
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
        padded = np.zeros((cache.batch, step.width, self.vocab), logits.dtype)
        padded[step.sequence, step.place] = logits
        return padded

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
    def matrices(self) -> list[Linear]:
        """The matrices of all products: layer by layer, the head last."""
        denses = [d for b in self.blocks for d in (b.qkv, b.attn_out, b.mlp_in, b.mlp_down)]
        return [dense.matrix for dense in (*denses, self.head)]

    @property
    def matmul_parameters(self) -> int:
        """Weights that take part in matrix products."""
        return sum(matrix.d_in * matrix.d_out for matrix in self.matrices)

    def _step(self, tokens: Any, cache: KVCache, counts: Any) -> Step:
        """Check the input and list its rows."""
        if cache.config is not self.config and not cache.fits(self.config):
            raise ValueError("cache is not one of this model's: it must come from new_cache()")
        tokens = np.asarray(tokens)
        batch = 1 if cache.batch is None else cache.batch
        dims, shape = (1, "(T,)") if cache.batch is None else (2, f"(B={batch}, T)")
        if tokens.ndim != dims or (dims == 2 and len(tokens) != batch) or not tokens.size:
            raise ValueError(f"tokens must be {shape} with T >= 1, got shape {tokens.shape}")
        width = tokens.shape[-1]
        if cache.batch is not None:
            step = ragged_step(tokens, cache, counts)
        elif counts is None:
            step = plain_step(tokens, cache)
        else:
            raise ValueError(f"counts={counts} must be None: the cache is of one sequence")
        if step.end > self.max_len:
            raise ValueError(
                f"tokens end at position {step.end}, max_len={self.max_len} (cache length "
                f"{cache.length}, T={width})"
            )
        domains.tokens("tokens", step.tokens, self.vocab)
        return step

    def _layers(self, step: Step, cache: KVCache, ledger: Ledger | None) -> Array:
        """All blocks: rows (N,) -> (N, D) before the final norm. Advances the cache at the end."""
        span = cache.make_room(step)
        x = self._run(step, cache, span)
        if not np.isfinite(x).all():  # 0 times NaN is NaN: clear what lies beyond, and once more
            cache.clear_beyond(cache.lengths + step.counts)
            x = self._run(step, cache, span)
        if ledger is not None:
            self._count(ledger, step, cache)
        cache.lengths += step.counts
        return x

    def _run(self, step: Step, cache: KVCache, span: int) -> Array:
        """The blocks' arithmetic; writes the rows' keys and values."""
        tokens, position = step.tokens, step.position
        if len(tokens) == 1:  # two equal rows: a single one takes another path through the BLAS
            tokens, position = tokens.repeat(2), position.repeat(2)
        attend = Attention(self.config, step, cache, span)
        x = self.embedding.take(tokens, axis=0)  # (N, D)
        if self.positions is not None:
            x = x + self.positions.take(position, axis=0)
        rotation = None
        if self.rotation is not None:
            rotation = self.rotation.take(position, axis=0)[:, None]  # (N, 1, E / 2)
        with np.errstate(invalid="ignore", over="ignore"):
            for i, block in enumerate(self.blocks):
                x = x + block.attn_out(attend(i, block.qkv(block.attn_norm(x)), rotation))
                x = x + block.mlp_down(self._activate(block.mlp_in(block.mlp_norm(x))))
        return x

    def _activate(self, inner: Array) -> Array:
        """(N, 2F) or (N, F) -> (N, F)."""
        if self.config.activation == "gelu":
            cubic = inner * inner * inner * 0.044715 + inner
            gelu: Array = (np.tanh(cubic * 0.7978845608028654) + 1) * inner * 0.5
            return gelu
        half = inner[:, : self.config.d_ff] * 0.5  # of the gate
        out: Array = np.tanh(half)  # silu(2h) = h tanh(h) + h: no overflow
        out *= half
        out += half
        out *= inner[:, self.config.d_ff :]
        return out

    @cached_property
    def _products(self) -> dict[str, tuple[int, float]]:
        """FLOPs per row, and bytes read per forward, of each operation, over all layers."""
        sums: dict[str, tuple[int, float]] = {}

        def add(op: str, matrix: Linear, parts: int = 1) -> None:
            flops, read = sums.get(op, (0, 0.0))
            flops += 2 * matrix.d_in * matrix.d_out // parts
            sums[op] = (flops, read + matrix.read_bytes / parts)

        for block in self.blocks:
            add("qkv", block.qkv.matrix)
            add("attn_out", block.attn_out.matrix)
            if self.config.activation == "swiglu":
                add("mlp_gate", block.mlp_in.matrix, 2)
                add("mlp_up", block.mlp_in.matrix, 2)
            else:
                add("mlp_up", block.mlp_in.matrix)
            add("mlp_down", block.mlp_down.matrix)
        return sums

    def _count(self, ledger: Ledger, step: Step, cache: KVCache) -> None:
        """Enter one forward; the conventions are `ledger.CONVENTIONS`."""
        c, rows = self.config, len(step.tokens)
        table = c.d_model * c.weight_bits / 8
        lookups = 1 if self.positions is None else 2
        ledger.add("embedding", weight_bytes=rows * lookups * table)
        for op, (flops, read) in self._products.items():
            ledger.add(op, flops=rows * flops, weight_bytes=read)
        pairs = int(step.position.sum()) + rows  # a row attends to its own position too
        cached = int(cache.lengths[step.counts > 0].sum())
        kv_bytes = 2 * c.n_layers * c.kv_heads * c.width * CACHE_BYTES
        ledger.add(
            "attention",
            flops=4 * pairs * c.n_layers * c.n_heads * c.width,
            kv_read_bytes=cached * kv_bytes,
            kv_write_bytes=rows * kv_bytes,
        )


def _rotation(config: ModelConfig) -> Array:
    """(max_len, E / 2) unit complex numbers: position times frequency."""
    frequency = config.rope_base ** (-np.arange(0, config.width, 2) / config.width)
    angle = np.arange(config.max_len)[:, None] * frequency
    unit: Array = np.exp(1j * angle)
    return unit.astype(np.complex64 if config.dtype == np.float32 else np.complex128)
