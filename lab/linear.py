"""A weight matrix, and its product with a few rows at little more than the price of one.

Verification multiplies k + 1 rows by every weight matrix. A general matrix product first repacks
the whole matrix, which costs more than the product itself when there are few rows. Some BLAS
libraries (OpenBLAS on AVX-512) have kernels that do not repack while

    rows x d_in x columns <= 10**6,

and that add up every output element in the same order, whatever the number of rows, as long as
the columns are a multiple of four. So a large matrix is kept as contiguous tiles of columns that
stay below the limit for eight rows, and rows are taken in groups that stay below it too. One row
goes as two: a matrix-vector product is slower and rounds differently. The result has the same bits
however rows are grouped.

Whether this machine's BLAS behaves so is tried once per process (`row_product`); if not, products
are plain `x @ W` and `row_product().row_invariant` says so.

Shapes: n rows, K = d_in, N = d_out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

SMALL_PRODUCT = 10**6  # rows * d_in * columns up to which the kernels do not repack
GROUP = 8  # rows that a small tile takes in one product
ALIGN = 4  # columns of a product come in multiples of this

Array = npt.NDArray[Any]


class Matrix:
    """A dense weight matrix (d_in, d_out), laid out for products with few rows.

    Parameters
    ----------
    weights : (d_in, d_out) float32 or float64
    bits : declared width of a stored weight, for the ledger; the arithmetic is in `dtype`.
    """

    def __init__(self, weights: Array, bits: float = 16) -> None:
        if weights.ndim != 2 or not weights.size:
            raise ValueError(f"weights must be (d_in, d_out), not empty, got shape {weights.shape}")
        if not bits > 0:
            raise ValueError(f"bits={bits} must be above 0")
        self.weights = np.ascontiguousarray(weights)
        self.bits = bits
        self.d_in, self.d_out = weights.shape
        self._tiles: Array | None = None  # made at the first product
        self._direct = 0  # rows up to which the matrix needs no tiles: x @ weights is all

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.weights.dtype

    @property
    def read_bytes(self) -> float:
        """Bytes read by one forward pass, at the declared width."""
        return self.weights.size * self.bits / 8

    def apply(self, x: Array) -> Array:
        """x (n, d_in) -> (n, d_out)."""
        if 1 < len(x) <= self._direct:
            direct: Array = x @ self.weights
            return direct
        if self._tiles is None:
            if not row_product().row_invariant:
                plain: Array = x @ self.weights
                return plain
            self._tiles = tiled(self.weights)
            if self._tiles.shape[2] == self.d_out:
                self._direct = SMALL_PRODUCT // self.weights.size
        return multiply(x, self._tiles, self.d_out)


def tile_width(d_in: int, d_out: int) -> int:
    """Columns per tile: all of them if eight rows stay below the limit, else 64 or 32."""
    if GROUP * d_in * d_out <= SMALL_PRODUCT:
        return aligned(d_out)
    return 64 if d_in < 1000 else 32


def aligned(columns: int) -> int:
    """The next multiple of ALIGN."""
    return -(-columns // ALIGN) * ALIGN


def tiled(weights: Array) -> Array:
    """(K, N) -> (tiles, K, width), contiguous; the last tile is filled up with zeros."""
    d_in, d_out = weights.shape
    width = tile_width(d_in, d_out)
    tiles = -(-d_out // width)
    if tiles * width == d_out and tiles == 1:
        return weights[None]
    padded = np.zeros((d_in, tiles * width), weights.dtype)
    padded[:, :d_out] = weights
    return np.ascontiguousarray(padded.reshape(d_in, tiles, width).transpose(1, 0, 2))


def multiply(x: Array, tiles: Array, d_out: int) -> Array:
    """x (n, K) by tiles (tiles, K, width) -> (n, d_out), the same bits for every grouping."""
    n = len(x)
    count, d_in, width = tiles.shape
    if n == 1:
        return multiply(np.concatenate((x, x)), tiles, d_out)[:1]
    limit = max(2, SMALL_PRODUCT // (d_in * width))  # rows per product
    if n <= limit:
        product: Array = np.matmul(x, tiles)  # (tiles, n, width)
        return product.transpose(1, 0, 2).reshape(n, count * width)[:, :d_out]
    groups = -(-n // limit)
    starts = [n * g // groups for g in range(groups + 1)]
    out = np.empty((n, d_out), np.result_type(x, tiles))
    for a, b in pairwise(starts):
        if count == 1 and width == d_out and b - a > 1:
            np.matmul(x[a:b], tiles[0], out=out[a:b])
        else:
            out[a:b] = multiply(x[a:b], tiles, d_out)
    return out


@dataclass(frozen=True)
class RowProduct:
    """What this process found out about its BLAS."""

    row_invariant: bool  # the tiled product gives the same bits for every grouping
    ratio: float  # time of eight rows, tiled / plain, on a (768, 768) matrix

    def __str__(self) -> str:
        if self.row_invariant:
            return f"column tiles, row-invariant ({self.ratio:.2f} x the time of plain products)"
        return "plain products: this BLAS is not row-invariant, so verification costs more"


@cache
def row_product() -> RowProduct:
    """Try the tiled product once: the same bits for groups of 1 to 12 rows, and not slower."""
    rng = np.random.default_rng(0)
    invariant = True
    for shape in ((64, 192), (48, 11), (96, 1000), (768, 768), (3072, 64)):
        for dtype in (np.float32, np.float64):
            weights = rng.standard_normal(shape).astype(dtype)
            x = rng.standard_normal((12, shape[0])).astype(dtype)
            tiles = tiled(weights)
            whole = multiply(x, tiles, shape[1])
            for group in (1, 2, 3, 4, 5, 8):
                parts = [multiply(x[i : i + group], tiles, shape[1]) for i in range(0, 12, group)]
                invariant &= bool(np.array_equal(np.concatenate(parts), whole))
    weights = rng.standard_normal((768, 768)).astype(np.float32)
    x = rng.standard_normal((GROUP, 768)).astype(np.float32)
    tiles = tiled(weights)
    ratio = _fastest(lambda: multiply(x, tiles, 768)) / _fastest(lambda: np.matmul(x, weights))
    # Far from 1 on either kind of BLAS, so that a busy machine cannot change the choice.
    return RowProduct(row_invariant=invariant and ratio < 2, ratio=ratio)


def _fastest(call: Any, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
