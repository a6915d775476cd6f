"""What a decoding step costs on a device with two rates, and where verification stops being free.

A step of n rows for each of B sequences, S positions of each in the cache, takes

    T = max(weight bytes / bandwidth, 2 P n B / FLOP rate)  +  B S kv_bytes / bandwidth.

The weights are read once for all rows, so their products turn from waiting for memory to waiting
for arithmetic at the ridge, n B = `free_rows`. Attention reads each sequence's own keys and values
with few operations per byte and waits for memory at any batch: hence a sum, and not one maximum
over all bytes and all operations, which would hide the cache behind the products. Launch times,
softmax and the head's traffic are left out; real devices step where this model bends.

B sequences, n rows = gamma + 1 when verifying, S cached positions, P weights in matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from lab import domains, theory
from lab.config import ModelConfig


@dataclass(frozen=True)
class Device:
    """Two rates. The defaults are round numbers of no product: a ridge of 200 FLOP/byte."""

    flop_rate: float = 200e12  # FLOP/s
    bandwidth: float = 1e12  # bytes/s

    def __post_init__(self) -> None:
        domains.positive("flop_rate", self.flop_rate)
        domains.positive("bandwidth", self.bandwidth)

    @property
    def ridge(self) -> float:
        """FLOP/byte above which a product waits for arithmetic."""
        return self.flop_rate / self.bandwidth


@dataclass(frozen=True)
class ModelSize:
    """What a step reads and multiplies."""

    parameters: float  # weights in matrix products, the head included, the embedding not
    kv_bytes: float  # of one cached position, keys and values of all layers
    weight_bits: float = 16

    def __post_init__(self) -> None:
        domains.positive("parameters", self.parameters)
        domains.costs("kv_bytes", self.kv_bytes)
        domains.positive("weight_bits", self.weight_bits)

    @classmethod
    def of(cls, config: ModelConfig, cache_bits: float = 16) -> Self:
        """The size of a model that need not exist: only its shapes are asked for."""
        matrices = sum(
            shape[0] * shape[1]
            for name, shape in config.shapes().items()
            if len(shape) == 2 and name not in ("embedding", "positions")
        )
        if config.tied:
            matrices += config.d_model * config.vocab
        cached = 2 * config.n_layers * config.kv_heads * config.width
        return cls(matrices, cached * cache_bits / 8, config.weight_bits)

    @property
    def weight_bytes(self) -> float:
        return self.parameters * self.weight_bits / 8


def step_seconds(
    size: ModelSize, device: Device, rows: int = 1, batch: int = 1, context: int = 0
) -> float:
    """Seconds of one step: `rows` tokens of each of `batch` sequences with `context` cached."""
    for name, value in (("rows", rows), ("batch", batch)):
        domains.whole(name, value, 1)
    domains.whole("context", context)
    reading = size.weight_bytes / device.bandwidth
    multiplying = 2 * size.parameters * rows * batch / device.flop_rate
    return max(reading, multiplying) + batch * context * size.kv_bytes / device.bandwidth


def verify_cost(
    size: ModelSize, device: Device, gamma: int, batch: int = 1, context: int = 0
) -> float:
    """v(gamma) = T(gamma + 1 rows) / T(1 row), at one batch and context; never below 1."""
    rows = domains.whole("gamma", gamma) + 1
    many = step_seconds(size, device, rows, batch, context)
    return many / step_seconds(size, device, 1, batch, context)


def free_rows(size: ModelSize, device: Device) -> float:
    """Rows, of all sequences together, up to which a weight product costs what one row costs.

    The ridge over the FLOP per weight byte of one row, 16 / weight_bits.
    """
    return device.ridge * size.weight_bits / 16


def speedup(
    size: ModelSize,
    device: Device,
    alpha: float,
    gamma: int,
    c: float,
    batch: int = 1,
    context: int = 0,
) -> float:
    """`theory.walltime_speedup` with this device's v; c is the draft's step over the target's."""
    cost = verify_cost(size, device, gamma, batch, context)
    return float(theory.walltime_speedup(alpha, gamma, c, cost))


def break_even_batch(
    size: ModelSize, device: Device, alpha: float, gamma: int, c: float, context: int = 0
) -> int | None:
    """The smallest batch at which speculation no longer gains, or None if it gains at any.

    A larger batch never helps: v is 1 up to free_rows / (gamma + 1), rises up to free_rows, and
    stays there, where both steps grow as the batch does.
    """
    domains.whole("gamma", gamma, 1)

    def loses(batch: int) -> bool:
        return speedup(size, device, alpha, gamma, c, batch, context) <= 1

    low, high = 0, int(free_rows(size, device)) + 1  # low gains, or is no batch at all
    if not loses(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if loses(middle) else (middle, high)
    return high
