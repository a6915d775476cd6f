"""The parts of a transformer layer: norms, and matrices with their biases.

Shapes: N = rows computed, D = d_model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Linear(Protocol):
    """A weight matrix, dense or quantised."""

    @property
    def d_in(self) -> int: ...

    @property
    def d_out(self) -> int: ...

    @property
    def read_bytes(self) -> float: ...

    def apply(self, x: Array) -> Array: ...


@dataclass(frozen=True)
class Norm:
    """RMSNorm, or LayerNorm where it has a bias."""

    gain: Array  # (D,)
    bias: Array | None
    eps: float

    def __call__(self, x: Array) -> Array:
        if self.bias is not None:
            x = x - x.mean(axis=-1, keepdims=True)
        scale: Array = np.vecdot(x, x)  # (N,)
        scale /= x.shape[-1]
        scale += self.eps
        np.sqrt(scale, out=scale)
        normed: Array = x / scale[:, None]
        normed *= self.gain
        if self.bias is not None:
            normed += self.bias
        return normed


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
