"""What a step of a served batch takes, from three numbers of the machine: fitted, and held out.

    T = fixed + bytes / bandwidth + FLOP / rate

Bytes are weights, read once a step, and the keys and values of every sequence; FLOP are 2 a weight
and row. `lab.hardware` takes the larger of reading weights and multiplying, as a device's sheet
does; a fit takes their sum, which is linear in three unknowns, so the least squares of relative
errors is one solve, and real kernels hide only a part of the one behind the other. The unknowns are
what a server gets out of its machine, all overheads included: not what is on the sheet.

B sequences, n rows each (gamma + 1 when verifying), S cached positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from lab import domains
from lab.config import ModelConfig
from lab.domains import Floats
from lab.hardware import ModelSize
from lab.paper_servers import Served

MILLI = 1e-3
_LLAMA = ModelConfig(vocab=32000, d_model=4096, n_layers=32, n_heads=32, d_ff=11008)
SIZES = {
    "Llama-2-7B": ModelSize.of(_LLAMA),
    "Llama-3.1-8B": ModelSize.of(replace(_LLAMA, vocab=128256, n_kv_heads=8, d_ff=14336)),
}


@dataclass(frozen=True, slots=True)
class Load:
    """What a step reads and multiplies."""

    bytes: float
    flops: float

    @classmethod
    def of(cls, size: ModelSize, rows: int, batch: int, context: int) -> Self:
        """A step of `rows` tokens of each of `batch` sequences with `context` cached."""
        for name, value in (("rows", rows), ("batch", batch)):
            domains.whole(name, value, 1)
        cache = batch * domains.whole("context", context) * size.kv_bytes
        return cls(size.weight_bytes + cache, 2 * size.parameters * rows * batch)


@dataclass(frozen=True, slots=True)
class TimeModel:
    """Three numbers of a machine.

    Attributes
    ----------
    fixed : seconds of a step that reads and multiplies nothing
    bandwidth : bytes/s
    rate : FLOP/s
    """

    fixed: float
    bandwidth: float
    rate: float

    def seconds(self, load: Load) -> float:
        """Of a step with this load."""
        return self.fixed + load.bytes / self.bandwidth + load.flops / self.rate

    @classmethod
    def fit(cls, loads: Sequence[Load], seconds: Sequence[float]) -> Self:
        """Least squares of the relative errors.

        Raises
        ------
        ValueError
            Unless there is one time > 0 a load, and loads that tell all three numbers apart and
            give all three a positive value.
        """
        times = domains.positives("seconds", list(seconds))
        if times.shape != (len(loads),) or len(loads) < 3:
            raise ValueError(
                f"seconds must be one number a load, at least 3, got {times.shape} and "
                f"{len(loads)} loads"
            )
        terms = np.array([(1.0, load.bytes, load.flops) for load in loads])
        scale = terms.max(axis=0)  # so that rank is not a matter of units
        if not scale.all():
            raise ValueError("loads must read and multiply something")
        found, _, rank, _ = np.linalg.lstsq(terms / scale / times[:, None], np.ones(len(loads)))
        each = found / scale  # seconds; seconds a byte; seconds a FLOP
        if rank < 3 or not (each > 0).all():
            raise ValueError(f"loads must tell fixed time, bytes and FLOP apart, got {each}")
        return cls(float(each[0]), float(1 / each[1]), float(1 / each[2]))


# ---- MagicDec's steps --------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldOut:
    """A model fitted on one half of the settings, and its relative errors on the other."""

    model: TimeModel
    rows: tuple[Served, ...]  # held out
    plain: Floats  # of T_AR, predicted / printed - 1, one a row held out
    verifying: Floats  # of T_V

    @property
    def worst(self) -> Served:
        """The row with the largest error."""
        return self.rows[int(np.maximum(abs(self.plain), abs(self.verifying)).argmax())]


def held_out(served: Sequence[Served], half: int = 0) -> HeldOut:
    """Fit on every second setting, half 0 or 1; predict T_AR and T_V of the rows of the others.

    A setting is target, context and batch. Rows of one setting share T_AR, so they are on one side.
    """
    domains.whole("half", half, 0, 1)
    settings = list(dict.fromkeys(map(_setting, served)))
    fitted = set(settings[half::2])
    known = [row for row in served if _setting(row) in fitted]
    rest = [row for row in served if _setting(row) not in fitted]
    if not rest:
        raise ValueError(f"served must hold at least two settings, got {len(settings)}")
    loads = [load for row in known for load in loads_of(row)]
    times = [MILLI * time for row in known for time in (row.plain, row.verifying)]
    model = TimeModel.fit(loads, times)
    return HeldOut(model, tuple(rest), *errors(model, rest))


def errors(model: TimeModel, served: Sequence[Served]) -> tuple[Floats, Floats]:
    """Relative errors of T_AR and of T_V, predicted / printed - 1, one a row."""
    predicted = np.array([[model.seconds(load) for load in loads_of(row)] for row in served])
    printed = MILLI * np.array([[row.plain, row.verifying] for row in served])
    plain, verifying = (predicted / printed - 1).T
    return plain, verifying


def loads_of(row: Served) -> tuple[Load, Load]:
    """Of a plain step of the target, and of one that verifies gamma drafts."""
    if row.target not in SIZES:
        raise ValueError(f"target={row.target!r} must be one of {sorted(SIZES)}")
    size = SIZES[row.target]
    plain, verifying = (Load.of(size, rows, row.batch, row.context) for rows in (1, row.gamma + 1))
    return plain, verifying


def _setting(row: Served) -> tuple[str, int, int]:
    return row.target, row.context, row.batch
