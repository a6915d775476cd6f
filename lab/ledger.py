"""Where the work goes: FLOPs and bytes, by operation and by phase.

The ledger is passed in: a model that is given none counts nothing. One that is given one calls
`add` once per operation, and reports read `total` and `rows`. What is counted, and how, is
`CONVENTIONS`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple

Amount = int | float | Fraction

FIELDS = ("flops", "weight_bytes", "kv_read_bytes", "kv_write_bytes")
OPS = (
    "embedding",
    "qkv",
    "attention",
    "attn_out",
    "mlp_gate",
    "mlp_up",
    "mlp_down",
    "lm_head",
)
MATMUL_OPS = tuple(op for op in OPS if op not in ("embedding", "attention"))
PHASES = ("prefill", "decode")

CONVENTIONS = """\
A multiply-add is 2 FLOPs. A weight is read once per forward, whatever the number of rows (in
lockstep: once per batch), at the model's declared width (16 bits unless said; INT4 group-32
with its float16 scales: 4.5 bits). Cached keys and values are held at 16 bits: those cached
before the forward are read once per forward, new ones are written once. An embedding lookup is
0 FLOPs and reads only its rows. Attention counts the (query, key) pairs that the causal mask
lets through. Softmax, norms and RoPE are left out of FLOPs. An n-gram is 0 FLOPs and the bytes
of the rows it reads. Prefill is a phase of its own. Time, FLOPs and bytes give three different
ratios of draft to target: none stands for another."""


class LedgerRow(NamedTuple):
    """What one operation cost in one phase, summed over all forwards."""

    phase: str
    op: str
    flops: Amount = 0
    weight_bytes: Amount = 0
    kv_read_bytes: Amount = 0
    kv_write_bytes: Amount = 0


class Ledger:
    """Running totals of FLOPs and bytes for every (phase, operation).

    Integers are added as Python integers, so they stay exact however large; bytes of odd bit widths
    may be floats or fractions.

    Examples
    --------
    >>> ledger = Ledger()
    >>> with ledger.phase("prefill"):
    ...     ledger.add("lm_head", flops=2 * 64 * 256, weight_bytes=2 * 64 * 256)
    >>> ledger.add("lm_head", flops=2 * 9 * 64 * 256, weight_bytes=2 * 64 * 256)
    >>> ledger.total("flops", phase="decode")
    294912
    """

    def __init__(self) -> None:
        self._phase = "decode"
        self._amounts: dict[tuple[str, str], list[Amount]] = {}

    def add(
        self,
        op: str,
        *,
        flops: Amount = 0,
        weight_bytes: Amount = 0,
        kv_read_bytes: Amount = 0,
        kv_write_bytes: Amount = 0,
    ) -> None:
        """Add to operation `op` (one of `OPS`) of the current phase.

        Raises
        ------
        ValueError
            If `op` is unknown, or an amount is negative or not finite; then nothing is added.
        """
        given = (flops, weight_bytes, kv_read_bytes, kv_write_bytes)
        checked = [(i, _exact(FIELDS[i], amount)) for i, amount in enumerate(given) if amount]
        amounts = self._amounts.get((self._phase, op))
        if amounts is None:
            _check("op", op, OPS)
            amounts = self._amounts[self._phase, op] = [0, 0, 0, 0]
        for i, amount in checked:
            amounts[i] += amount

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the `with` block under phase `name`; at its end the old phase comes back."""
        _check("phase", name, PHASES)
        outer, self._phase = self._phase, name
        try:
            yield
        finally:
            self._phase = outer

    def rows(self) -> list[LedgerRow]:
        """A row for each (phase, op) ever added to, in the order of `PHASES`, then `OPS`."""
        return [
            LedgerRow(phase, op, *self._amounts[phase, op])
            for phase in PHASES
            for op in OPS
            if (phase, op) in self._amounts
        ]

    def total(
        self, field: str, ops: Collection[str] | None = None, phase: str | None = None
    ) -> Amount:
        """Sum of one field over the rows of `ops` (one name, several, or None = all) in `phase`.

        Raises
        ------
        ValueError
            If the field, an operation or the phase is unknown.
        """
        _check("field", field, FIELDS)
        wanted = OPS if ops is None else (ops,) if isinstance(ops, str) else tuple(ops)
        for op in wanted:
            _check("op", op, OPS)
        if phase is not None:
            _check("phase", phase, PHASES)
        amounts: list[Amount] = [
            getattr(row, field)
            for row in self.rows()
            if row.op in wanted and phase in (None, row.phase)
        ]
        return sum(amounts)


def _check(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is unknown; allowed: {', '.join(allowed)}")


def _exact(field: str, amount: Any) -> Amount:
    """A Python number: a NumPy integer would wrap around at 2**63."""
    if hasattr(amount, "item"):
        amount = amount.item()
    if not 0 <= amount < float("inf"):  # NaN fails too
        raise ValueError(f"{field}={amount!r} must be a finite number, at least 0")
    number: Amount = amount
    return number
