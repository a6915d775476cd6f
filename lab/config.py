"""Sizes and variants of a transformer, and the names and shapes of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


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

        for name in ("n_kv_heads", "head_dim"):
            if getattr(self, name) is None:
                fill(name, self._default(name))
        sizes = ("vocab", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "max_len")
        for name in (*sizes, "head_dim"):
            value = getattr(self, name)
            if not is_whole(value) or value < 1:
                raise ValueError(f"{name}={value!r} must be a whole number >= 1")
            fill(name, int(value))  # a NumPy integer would promote float32 in arithmetic
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
            value = getattr(self, name)
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not number or not 0 < value < np.inf:
                raise ValueError(f"{name}={value!r} must be a finite number above 0")
            fill(name, float(value))
        fill("dtype", _float_type(self.dtype))

    def _default(self, name: str) -> int:
        """n_kv_heads or head_dim, where it was not given."""
        for size in ("d_model", "n_heads"):
            if not is_whole(getattr(self, size)) or getattr(self, size) < 1:
                raise ValueError(f"{size}={getattr(self, size)!r} must be a whole number >= 1")
        if name == "n_kv_heads":
            return self.n_heads
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model={self.d_model} is not a multiple of n_heads={self.n_heads}")
        return self.d_model // self.n_heads

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


def is_whole(value: object) -> bool:
    """True for integers, NumPy's too; not for bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _float_type(dtype: Any) -> np.dtype[Any]:
    """float32 or float64."""
    for found in (np.dtype(np.float32), np.dtype(np.float64)):
        try:
            if dtype is not None and np.dtype(dtype) == found:
                return found
        except TypeError:
            break
    raise ValueError(f"dtype={dtype!r} must be float32 or float64")
