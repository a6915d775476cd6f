"""Sizes and variants of a transformer, and the names and shapes of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.domains import positive, whole


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

        def size(name: str) -> None:
            fill(name, whole(name, getattr(self, name), 1))  # a NumPy integer promotes float32

        for name in ("vocab", "d_model", "n_layers", "n_heads", "d_ff", "max_len"):
            size(name)
        if self.n_kv_heads is None:
            fill("n_kv_heads", self.n_heads)
        if self.head_dim is None:
            if self.d_model % self.n_heads:
                raise ValueError(
                    f"d_model={self.d_model} is not a multiple of n_heads={self.n_heads}"
                )
            fill("head_dim", self.d_model // self.n_heads)
        for name in ("n_kv_heads", "head_dim"):
            size(name)
        if self.n_heads % self.kv_heads:
            raise ValueError(
                f"n_heads={self.n_heads} is not a multiple of n_kv_heads={self.n_kv_heads}"
            )
        if self.positions == "rope" and self.width % 2:
            raise ValueError(f"head_dim={self.head_dim} must be even for RoPE")
        allowed = {
            "norm": ("rms", "layer"),
            "positions": ("rope", "learned"),
            "activation": ("swiglu", "gelu"),
        }
        for name, choices in allowed.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}={getattr(self, name)!r} must be one of {choices}")
        for name in ("rope_base", "eps", "weight_bits"):
            fill(name, positive(name, getattr(self, name)))
        for name in ("bias", "tied"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name}={getattr(self, name)!r} must be True or False")
        fill("dtype", _float_type(self.dtype))

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

    def check(self, params: Mapping[str, Any]) -> None:
        """ValueError unless arrays are named and shaped as `shapes()` says."""
        shapes = self.shapes()
        if set(params) != set(shapes):
            odd = sorted(set(params) ^ set(shapes))
            raise ValueError(f"params must be named as config.shapes(); missing or unknown: {odd}")
        for name, shape in shapes.items():
            if np.shape(params[name]) != shape:
                raise ValueError(f"params[{name!r}] must be {shape}, got {np.shape(params[name])}")


def _float_type(dtype: Any) -> np.dtype[Any]:
    """float32 or float64."""
    for found in (np.dtype(np.float32), np.dtype(np.float64)):
        try:
            if dtype is not None and np.dtype(dtype) == found:
                return found
        except TypeError:
            break
    raise ValueError(f"dtype={dtype!r} must be float32 or float64")
