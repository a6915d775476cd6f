"""Timing experiments: a few rows against one, a forward against its bare products, the engine.

Machines differ and are busy, so nothing here is a speed: every figure is a ratio of times taken
side by side in one process, A B A B, and the median over the repeats of the ratio within a repeat.

Shapes: n rows, S cached positions.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.decode import speculative_generate
from lab.engine import generate_many
from lab.layers import Linear
from lab.linear import Matrix, row_product
from lab.measure import paired_ratio, paired_seconds, random_prompts, streams
from lab.transformer import ModelConfig, Transformer

Array = npt.NDArray[Any]
Call = Callable[[], object]

CACHED = 64  # positions cached before a timed forward
BIG = ModelConfig(vocab=8192, d_model=768, n_heads=12, d_ff=3072)
TABLES = ("embedding", "positions")  # looked up, not multiplied
FAST_BIG = replace(BIG, n_layers=1, vocab=1024)


def machine() -> list[tuple[str, str]]:
    """What a time depends on, as (name, value) rows of a table."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return [
        ("system", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"),
        ("processor", _processor()),
        ("NumPy", np.__version__),
        ("BLAS", f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()),
        ("BLAS threads", os.environ.get("OPENBLAS_NUM_THREADS", "not set")),
        ("product of a few rows", str(row_product())),
    ]


def _processor() -> str:
    """Its name and count, where the system tells."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = named[0].partition(":")[2].strip() if named else name
    return f"{name}, {os.cpu_count()} visible"


# ---- Rows against one row -------------------------------------------------------------------


class PlainMatrix:
    """The face of `lab.linear.Matrix` over the plain product x @ W.

    The lab's models may compute one row as two equal ones, for the tiles' sake; `single` makes it
    the matrix-vector product that it would be without them.
    """

    def __init__(self, matrix: Matrix, single: bool) -> None:
        self.weights, self.read_bytes = matrix.weights, matrix.read_bytes
        self.d_in, self.d_out = matrix.d_in, matrix.d_out
        self.single = single

    def apply(self, x: Array) -> Array:
        """x (n, d_in) -> (n, d_out)."""
        if self.single:
            one: Array = x[:1] @ self.weights
            return one.repeat(len(x), axis=0)
        product: Array = x @ self.weights
        return product


def with_plain_products(model: Transformer, single: bool = False) -> Transformer:
    """The same model with plain products, for forwards of a `single` row or for longer ones.

    Weights are shared.
    """

    def convert(matrix: Linear) -> Linear:
        if not isinstance(matrix, Matrix):
            raise ValueError(f"model must be dense, got a {type(matrix).__name__}")
        return PlainMatrix(matrix, single)

    return model.with_matrices(convert)


def forward_of(model: Transformer, rows: int, cached: int = CACHED) -> Call:
    """A call that appends `rows` tokens to `cached` positions, and forgets them again."""
    tokens = np.random.default_rng(0).integers(0, model.vocab, cached + rows)
    cache = model.new_cache()
    if cached:
        model.prefill(tokens[:cached], cache)
    new = tokens[cached:]

    def call() -> None:
        model.forward(new, cache)
        cache.truncate(cached)

    return call


def bare_products(model: Transformer) -> Call:
    """A call that does one row's plain x @ W with every matrix of a model, and nothing else."""
    rng = np.random.default_rng(0)
    weights = [a for name, a in model.params().items() if a.ndim == 2 and name not in TABLES]
    if model.config.tied:
        weights.append(model.embedding.T)
    pairs = [(rng.standard_normal((1, len(w))).astype(w.dtype), w) for w in weights]

    def call() -> None:
        for x, w in pairs:
            x @ w

    return call


@dataclass(frozen=True)
class RowCosts:
    """T(n rows) / T(1 row) of one model, measured; called with gamma it is v(gamma).

    Between the measured rows it is a straight line; beyond the last it does not go: give
    `theory.best_gamma` max_gamma=most and least_verify_cost=least.
    """

    product: str  # "tiled" or "plain"
    rows: tuple[int, ...]  # rising, from 1
    ratios: tuple[float, ...]  # the first is 1
    one_row: float  # seconds
    over_tiled: float = 1.0  # one row's time over that of tiled products

    def __call__(self, gamma: int) -> float:
        if not 0 <= gamma <= self.most:
            raise ValueError(f"gamma={gamma} must be within 0..{self.most}, as measured")
        return float(np.interp(gamma + 1, self.rows, self.ratios))

    @property
    def least(self) -> float:
        """The least v at any gamma >= 1: below 1 where a single row is slow, or in noise."""
        return min(self(gamma) for gamma in range(1, self.most + 1))

    @property
    def most(self) -> int:
        """The largest gamma measured."""
        return self.rows[-1] - 1


def row_costs(
    model: Transformer, rows: Sequence[int], repeats: int, cached: int = CACHED
) -> tuple[RowCosts, RowCosts]:
    """Tiled and plain products of one model side by side: (tiled, plain)."""
    counts = tuple(rows)
    if len(counts) < 2 or counts[0] != 1 or sorted(set(counts)) != list(counts):
        raise ValueError(f"rows={counts} must rise from 1 and hold another number")
    one, several = with_plain_products(model, single=True), with_plain_products(model)
    calls = [forward_of(model, n, cached) for n in counts]
    calls += [forward_of(one if n == 1 else several, n, cached) for n in counts]
    seconds = paired_seconds(calls, repeats)
    over_tiled = paired_ratio(seconds)[:: len(counts)].tolist()

    def costs(product: str, part: Array, over: float) -> RowCosts:
        ratios = tuple(paired_ratio(part).tolist())
        return RowCosts(product, counts, ratios, float(np.median(part[:, 0])), over)

    tiled, plain = np.hsplit(seconds, 2)
    return costs("tiled", tiled, over_tiled[0]), costs("plain", plain, over_tiled[1])


# ---- A forward against its products, many sequences against one ------------------------------


@dataclass(frozen=True)
class Ratio:
    """Two things timed side by side."""

    ratio: float  # median of the per-repeat ratios
    low: float  # their quartiles
    high: float
    seconds: tuple[float, float]  # medians of the two

    @classmethod
    def of(cls, seconds: Array, scale: float = 1.0) -> Ratio:
        """seconds (repeats, 2): scale * first / second."""
        low, middle, high = np.quantile(scale * seconds[:, 0] / seconds[:, 1], (0.25, 0.5, 0.75))
        first, second = np.median(seconds, axis=0).tolist()
        return cls(float(middle), float(low), float(high), (first, second))


def forward_over_products(model: Transformer, repeats: int, cached: int = CACHED) -> Ratio:
    """One row's forward over the bare plain products of one row with its matrices."""
    calls = [forward_of(model, 1, cached), bare_products(model)]
    return Ratio.of(paired_seconds(calls, repeats))


def engine_over_single(
    target: Transformer,
    draft: Any,
    seed: int,
    repeats: int,
    *,
    prompts: int = 64,
    prompt_length: int = 16,
    n_new: int = 96,
    gamma: int = 4,
    block: int = 8,
) -> Ratio:
    """Tokens per second of `prompts` in lockstep over those of one at a time.

    A repeat times the engine on all prompts, and the single loop on the next `block` of them.
    """
    if prompts % block:
        raise ValueError(f"block={block} must divide prompts={prompts}")
    texts = random_prompts(target.vocab, prompts, prompt_length, seed, 0)
    starts = cycle(range(0, prompts, block))

    def lockstep() -> None:
        generate_many(target, draft, texts, n_new, gamma, rngs=streams(prompts, seed, 1))

    def one_at_a_time() -> None:
        start = next(starts)
        rngs = streams(prompts, seed, 1)[start : start + block]
        for text, rng in zip(texts[start : start + block], rngs, strict=True):
            speculative_generate(target, draft, text, n_new, gamma, rng=rng)

    seconds = paired_seconds([one_at_a_time, lockstep], repeats)
    return Ratio.of(seconds, scale=prompts / block)


def script_seconds(script: Path, *options: str) -> float:
    """Seconds of a script in a process of its own, imports and all.

    Raises
    ------
    RuntimeError
        If it fails; the message ends with what it wrote last.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, env=environment
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{script} {' '.join(options)} failed: {done.stderr[-500:]}")
    return seconds
