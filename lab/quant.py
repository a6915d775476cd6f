"""Group quantisation of a weight matrix to INT8, INT4 or INT3, with codes really packed.

Symmetric and scaled by the largest weight of each group; groups run down axis 0, the input axis,
so that an outlying input feature spoils one group of every column and not all of it. With
m = 2**(bits - 1) - 1:

    scale = float16(absmax / m)            one per group and column; rounded before it is used
    code  = clip(rint(w / scale), -m, m)   rint rounds halves to even; -m - 1 is never used

Codes are two's complement. Those of one column follow each other bit by bit, the lowest bits
first: two INT4 codes to a byte with the lower index in the low nibble, eight INT3 codes to three
bytes. INT4 in groups of 32 is 4 + 16 / 32 = 4.5 bits a weight.

Shapes: K = d_in, N = d_out, G = ceil(K / group) groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.domains import is_whole, whole
from lab.linear import Matrix

BITS = (8, 4, 3)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class QuantizedMatrix:
    """A packed weight matrix (K, N), with the face of `lab.linear.Matrix`.

    Made by `quantize`, or from stored parts, whose shapes are checked against each other.

    Parameters
    ----------
    codes : (ceil(K * bits / 8), N) uint8, packed down axis 0.
    scales : (G, N) float16.
    bits, group, shape : 8, 4 or 3; weights of one column that share a scale; (K, N).
    dtype : float32 or float64, that of the weights, in which `apply` computes.
    """

    codes: npt.NDArray[np.uint8] = field(repr=False)
    scales: npt.NDArray[np.float16] = field(repr=False)
    bits: int
    group: int
    shape: tuple[int, int]
    dtype: np.dtype[Any] = FLOAT32

    def __post_init__(self) -> None:
        _check_layout(self.bits, self.group)
        d_in, d_out = self.shape
        _check_part("codes", self.codes, (-(-d_in * self.bits // 8), d_out), np.uint8)
        if self.dtype not in (FLOAT32, FLOAT64):
            raise ValueError(f"dtype={self.dtype!r} must be float32 or float64")
        _check_part("scales", self.scales, (-(-d_in // self.group), d_out), np.float16)

    @property
    def d_in(self) -> int:
        return self.shape[0]

    @property
    def d_out(self) -> int:
        return self.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales; the dequantised copy is not counted."""
        return self.codes.nbytes + self.scales.nbytes

    @property
    def read_bytes(self) -> int:
        """Bytes that one forward pass reads on hardware that multiplies packed weights."""
        return self.nbytes

    def unpack(self) -> npt.NDArray[np.int8]:
        """The codes, (K, N) int8."""
        d_in, d_out = self.shape
        bits = np.unpackbits(self.codes, axis=0, count=d_in * self.bits, bitorder="little")
        codes = np.packbits(bits.reshape(d_in, self.bits, d_out), axis=1, bitorder="little")
        spare = 8 - self.bits  # shift the sign bit to the top, and back arithmetically
        signed: npt.NDArray[np.int8] = (codes[:, 0] << spare).view(np.int8) >> spare
        return signed

    def dequantize(self, dtype: npt.DTypeLike = np.float32) -> Array:
        """code * scale, (K, N); exact: the product of 8 and 11 significant bits fits float32."""
        weights: Array = _per_weight(self.scales, self.group, self.d_in).astype(dtype)
        weights *= self.unpack()
        return weights

    @cached_property
    def dequantized_copy(self) -> Matrix:
        """The weights as NumPy can multiply them: full width, made at the first `apply`."""
        return Matrix(self.dequantize(self.dtype))

    def apply(self, x: Array) -> Array:
        """x (n, K) -> (n, N)."""
        return self.dequantized_copy.apply(x)


def quantize(weights: Array, bits: int = 4, group: int = 32) -> QuantizedMatrix:
    """Quantise a weight matrix symmetrically, in groups down its input axis.

    Where a scale is a normal float16 (the group's largest weight is at least m * 2**-14), every
    error is at most scale / 2, and quantising the result again gives the same codes and scales.
    Below, float16 has few digits left and the largest weights may be clipped. A group that is
    zero, or so small that its scale is 0 in float16, gets codes 0.

    Parameters
    ----------
    weights : (K, N), finite. Float64 weights are applied in float64, all others in float32.
    bits : 8, 4 or 3.
    group : weights that share a scale, at least 1; K or more gives one scale per column.

    Raises
    ------
    ValueError
        For any other argument, and for weights whose scale would overflow float16.
    """
    _check_layout(bits, group)
    bits, group = int(bits), int(group)
    wide = _checked_weights(weights)
    dtype = FLOAT64 if np.asarray(weights).dtype == FLOAT64 else FLOAT32
    d_in, d_out = wide.shape
    largest = 2 ** (bits - 1) - 1
    absmax = np.maximum.reduceat(np.abs(wide), np.arange(0, d_in, group), axis=0)  # (G, N)
    with np.errstate(over="ignore", under="ignore"):
        scales = (absmax / largest).astype(np.float16)
    if not np.isfinite(scales).all():
        raise ValueError(
            f"weights as large as {absmax.max():g} overflow a float16 scale at bits={bits}; "
            f"allowed: up to {largest * float(np.finfo(np.float16).max):g}"
        )
    divisor = _per_weight(scales, group, d_in).astype(np.float64)  # (K, N)
    ratio = np.divide(wide, divisor, out=np.zeros_like(wide), where=divisor > 0)
    codes = np.clip(np.rint(ratio), -largest, largest).astype(np.int8)
    return QuantizedMatrix(_pack(codes, bits), scales, bits, group, (d_in, d_out), dtype)


def _pack(codes: npt.NDArray[np.int8], bits: int) -> npt.NDArray[np.uint8]:
    """(K, N) int8 -> (ceil(K * bits / 8), N) uint8: the lowest `bits` bits of every code."""
    d_in, d_out = codes.shape
    unpacked = np.unpackbits(
        codes.view(np.uint8)[:, None], axis=1, count=bits, bitorder="little"
    )  # (K, bits, N)
    return np.packbits(unpacked.reshape(d_in * bits, d_out), axis=0, bitorder="little")


def _per_weight(scales: Array, group: int, d_in: int) -> Array:
    """(G, N) -> (K, N): row i takes the scale of group i // group."""
    return scales[np.arange(d_in) // group]


def _checked_weights(weights: Array) -> npt.NDArray[np.float64]:
    given = np.asarray(weights)
    if given.ndim != 2 or given.size == 0:
        raise ValueError(f"weights must be (d_in, d_out), both at least 1, got shape {given.shape}")
    if given.dtype.kind not in "fiu":
        raise ValueError(f"weights must be real numbers, got dtype {given.dtype}")
    wide = given.astype(np.float64)
    if not np.isfinite(wide).all():
        bad = wide[~np.isfinite(wide)][0]
        raise ValueError(f"weights must be finite, got {bad}")
    return wide


def _check_layout(bits: int, group: int) -> None:
    if not is_whole(bits) or bits not in BITS:
        raise ValueError(f"bits={bits!r} must be one of the integers {', '.join(map(str, BITS))}")
    whole("group", group, 1)


def _check_part(name: str, part: Array, shape: tuple[int, int], dtype: npt.DTypeLike) -> None:
    if part.shape != shape or part.dtype != dtype:
        raise ValueError(f"{name} must be {np.dtype(dtype)} {shape}, got {part.dtype} {part.shape}")
