"""How far a cheaper copy of a model is from it: bits, bytes, FLOPs, and what it gets wrong.

A copy is the model quantised, or cut after some layers. Its error is told three ways, each nearer
to what speculation needs: that of its weights, that of its logits, and its acceptance rate.
Shapes: T positions of a text, V = vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import theory
from lab.estimate import Estimate, alpha_from_betas
from lab.intensity import one_token
from lab.interval import row_labels
from lab.layers import Linear
from lab.ledger import MATMUL_OPS
from lab.linear import Matrix
from lab.measure import PLAIN, Draft, laws_along
from lab.quant import QuantizedMatrix
from lab.stats import clustered_mean
from lab.transformer import Transformer

Array = npt.NDArray[Any]
Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Copy:
    """A copy beside its model.

    bits : a weight of its matrices, scales included
    weight_bytes : one read of all its matrices: codes and scales, as they would be stored
    held_bytes : what NumPy holds of them, dequantised weights included
    bytes_ratio, flops_ratio : over the model's, for one token, matrices only (from the ledger)
    weight_error : rms difference over rms weight, of the matrices they share
    logits_error : rms difference over rms logit, both less the mean of their row
    betas : Σ min(p, q) at every position (T,) of each text
    """

    name: str
    bits: float
    weight_bytes: float
    held_bytes: int
    bytes_ratio: float
    flops_ratio: float
    weight_error: float
    logits_error: float
    betas: tuple[Array, ...]

    @property
    def alpha(self) -> Estimate:
        """Mean β (Cor 3.6), its error clustered by text."""
        return alpha_from_betas(self.betas)


@dataclass(frozen=True)
class Difference:
    """A difference of two acceptance rates, with its error."""

    value: float
    stderr: float
    degrees: int

    @property
    def t(self) -> float:
        """In standard errors; inf for a difference that never varied, 0 for none."""
        if self.stderr or not self.value:
            return self.value / (self.stderr or 1)
        return math.copysign(math.inf, self.value)

    def __neg__(self) -> Difference:
        return Difference(-self.value, self.stderr, self.degrees)

    def __sub__(self, other: Difference) -> Difference:
        """Of differences that were measured on independent texts; degrees of the smaller."""
        return Difference(
            self.value - other.value,
            math.hypot(self.stderr, other.stderr),
            min(self.degrees, other.degrees),
        )


def copies_of(model: Transformer) -> tuple[Draft, ...]:
    """The model quantised in five ways, and cut after all but one, two, ... of its layers."""
    whole_column = max(matrix.d_in for matrix in model.matrices)
    layouts = {
        "INT8, groups of 32": (8, 32),
        "INT4, groups of 32": (4, 32),
        "INT4, groups of 64": (4, 64),
        "INT4, whole columns": (4, whole_column),
        "INT3, groups of 32": (3, 32),
    }
    quantized = [Draft(name, model.quantized(*layout)) for name, layout in layouts.items()]
    cut = [
        Draft(f"first {k} layers" if k > 1 else "first layer", model.first_layers(k))
        for k in range(model.config.n_layers - 1, 0, -1)
    ]
    return (*quantized, *cut)


def compare(
    model: Transformer,
    copies: Sequence[Draft],
    texts: Sequence[Tokens],
    starts: Sequence[int],
) -> list[Copy]:
    """Each copy beside the model, teacher-forced along texts from position `starts` of each on.

    Where the texts are the model's own continuations, alpha is that of eq. (1).
    """
    laws = laws_along(model, texts, PLAIN)
    whole = one_token(model, ops=MATMUL_OPS)
    found = []
    for copy in copies:
        copy_laws = laws_along(copy.model, texts, PLAIN)
        pairs = [
            (p[start - 1 :], q[start - 1 :])
            for p, q, start in zip(laws, copy_laws, starts, strict=True)
        ]
        step, parts = one_token(copy.model, ops=MATMUL_OPS), copy.model.matrices
        size = float(sum(matrix.read_bytes for matrix in parts))
        found.append(
            Copy(
                name=copy.name,
                bits=8 * size / sum(matrix.d_in * matrix.d_out for matrix in parts),
                weight_bytes=size,
                held_bytes=sum(_held_bytes(matrix) for matrix in parts),
                bytes_ratio=step.weight_bytes / whole.weight_bytes,
                flops_ratio=step.flops / whole.flops,
                weight_error=weight_error(model, copy.model),
                logits_error=logits_error(pairs),
                betas=tuple(np.asarray(theory.acceptance(p, q)) for p, q in pairs),
            )
        )
    return found


def weight_error(model: Transformer, copy: Transformer) -> float:
    """rms difference over rms weight, of the matrices that the copy has; 0 if they are shared."""
    originals = model.matrices
    shared = [*originals[: len(copy.matrices) - 1], originals[-1]]
    pairs = zip(shared, copy.matrices, strict=True)
    return _relative_rms((_weights(original), _weights(other)) for original, other in pairs)


def logits_error(pairs: Sequence[tuple[Array, Array]]) -> float:
    """rms difference over rms logit, from laws (T, V) of model and copy, at temperature 1.

    A logit is known up to a constant of its row, which no law sees: rows are centred.
    """
    return _relative_rms((_centred_logits(p), _centred_logits(q)) for p, q in pairs)


def alpha_difference(copy: Copy, other: Copy) -> Difference:
    """alpha of one copy less that of another on the same texts, text by text."""
    gaps = [a - b for a, b in zip(copy.betas, other.betas, strict=True)]
    mean, stderr, texts = clustered_mean(np.concatenate(gaps), row_labels(gaps))
    return Difference(mean, stderr, texts - 1)


def _relative_rms(pairs: Iterable[tuple[Array, Array]]) -> float:
    """rms of other - exact over rms of exact, for pairs (exact, other) of arrays of one shape."""
    wrong = total = 0.0
    for exact, other in pairs:
        wrong += float(np.square(other - exact).sum())
        total += float(np.square(exact).sum())
    return math.sqrt(wrong / total)


def _weights(matrix: Linear) -> Array:
    """(d_in, d_out) float64."""
    if isinstance(matrix, QuantizedMatrix):
        return matrix.dequantized_copy.weights.astype(np.float64)
    assert isinstance(matrix, Matrix)
    return matrix.weights.astype(np.float64)


def _held_bytes(matrix: Linear) -> int:
    if isinstance(matrix, QuantizedMatrix):
        return matrix.nbytes + matrix.dequantized_copy.weights.nbytes
    assert isinstance(matrix, Matrix)
    return matrix.weights.nbytes


def _centred_logits(probs: Array) -> Array:
    """(T, V)."""
    if not (probs > 0).all():
        raise ValueError(f"probs must be above 0 for their logits, got {probs.min()}")
    logits: Array = np.log(probs)
    logits -= logits.mean(axis=-1, keepdims=True)
    return logits
