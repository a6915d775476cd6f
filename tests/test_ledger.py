"""The ledger: exact sums, phases that come back, and names that are checked."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.ledger import FIELDS, MATMUL_OPS, OPS, PHASES, Ledger, LedgerRow


def test_hand_computed_totals():
    ledger = Ledger()
    with ledger.phase("prefill"):
        ledger.add("qkv", flops=100, weight_bytes=10)
    ledger.add("qkv", flops=7, weight_bytes=10)
    ledger.add("attention", flops=5, kv_read_bytes=3, kv_write_bytes=2)
    ledger.add("lm_head", flops=1, weight_bytes=4.5)
    ledger.add("qkv", flops=7)

    assert ledger.total("flops") == 120
    assert ledger.total("flops", phase="decode") == 20
    assert ledger.total("flops", MATMUL_OPS, "decode") == 15
    assert ledger.total("flops", "qkv") == 114
    assert ledger.total("weight_bytes", ("qkv", "lm_head"), "decode") == 14.5
    assert ledger.total("kv_read_bytes") == 3
    assert ledger.total("kv_write_bytes", phase="prefill") == 0
    assert ledger.total("flops", ops=()) == 0
    assert ledger.total("flops", ("qkv", "qkv")) == 114, "an operation named twice counts once"
    assert ledger.rows() == [
        LedgerRow("prefill", "qkv", flops=100, weight_bytes=10),
        LedgerRow("decode", "qkv", flops=14, weight_bytes=10),
        LedgerRow("decode", "attention", flops=5, kv_read_bytes=3, kv_write_bytes=2),
        LedgerRow("decode", "lm_head", flops=1, weight_bytes=4.5),
    ]


def test_matmul_ops_are_the_operations_with_a_weight_matrix():
    assert MATMUL_OPS == ("qkv", "attn_out", "mlp_gate", "mlp_up", "mlp_down", "lm_head")


def test_an_empty_ledger():
    ledger = Ledger()
    assert ledger.rows() == []
    assert [ledger.total(field) for field in FIELDS] == [0, 0, 0, 0]


def test_integers_stay_exact_beyond_int64_and_float64():
    ledger = Ledger()
    for _ in range(3):
        ledger.add("mlp_up", flops=np.int64(2**63 - 1))
    ledger.add("mlp_up", flops=2**60 + 1)
    assert ledger.total("flops") == 3 * (2**63 - 1) + 2**60 + 1
    assert type(ledger.total("flops")) is int


def test_phases_nest_and_come_back_after_an_error():
    ledger = Ledger()
    with ledger.phase("prefill"):
        with ledger.phase("decode"):
            ledger.add("lm_head", flops=1)
        ledger.add("lm_head", flops=10)
    with pytest.raises(RuntimeError, match="stop"), ledger.phase("prefill"):
        raise RuntimeError("stop")
    ledger.add("lm_head", flops=100)
    assert [row.flops for row in ledger.rows()] == [10, 101]


additions = st.lists(
    st.tuples(
        st.sampled_from(PHASES),
        st.sampled_from(OPS),
        st.sampled_from(FIELDS),
        st.one_of(
            st.integers(0, 2**70),
            st.floats(0, 1e9),
            st.fractions(0, 100),
        ),
    ),
    max_size=30,
)


@given(additions)
def test_f5_totals_are_the_sums_of_the_rows(additions):
    ledger = Ledger()
    for phase, op, field, amount in additions:
        with ledger.phase(phase):
            ledger.add(op, **{field: amount})

    rows = ledger.rows()
    order = [(phase, op) for phase in PHASES for op in OPS]
    assert [row[:2] for row in rows] == [key for key in order if key in {a[:2] for a in additions}]
    for field in FIELDS:
        assert ledger.total(field) == sum(getattr(row, field) for row in rows)
        for phase in PHASES:
            expected = sum(getattr(row, field) for row in rows if row.phase == phase)
            assert ledger.total(field, phase=phase) == expected


@given(st.lists(st.fractions(0, 10**9), min_size=1))
def test_fractions_are_exact(amounts):
    ledger = Ledger()
    for amount in amounts:
        ledger.add("qkv", weight_bytes=amount)
    assert ledger.total("weight_bytes") == sum(amounts, Fraction(0))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: x.add("mlp", flops=1), r"op='mlp' .* mlp_gate, mlp_up"),
        (lambda x: x.total("bytes"), r"field='bytes' .* weight_bytes"),
        (lambda x: x.total("flops", ["head"]), r"op='head' .* lm_head"),
        (lambda x: x.total("flops", phase="verify"), r"phase='verify' .* prefill, decode"),
        (lambda x: x.phase("draft").__enter__(), r"phase='draft' .* prefill, decode"),
        (lambda x: x.add("qkv", flops=-1), r"flops=-1 must be"),
        (lambda x: x.add("qkv", flops=1, weight_bytes=float("nan")), r"weight_bytes=nan must be"),
        (lambda x: x.add("qkv", kv_read_bytes=np.inf), r"kv_read_bytes=inf must be"),
    ],
)
def test_bad_calls_name_argument_and_value_and_change_nothing(call, says):
    ledger = Ledger()
    with pytest.raises(ValueError, match=says):
        call(ledger)
    assert ledger.rows() == []
