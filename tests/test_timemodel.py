"""The time model: exact on steps it can describe, and MagicDec's held-out half within 6 %."""

from itertools import product

import numpy as np
import pytest

from lab.hardware import ModelSize
from lab.paper_servers import SERVED, TABLE_3
from lab.timemodel import SIZES, Load, TimeModel, errors, held_out, loads_of

SIZE = ModelSize(parameters=1e9, kv_bytes=1e5)


def test_a_load_counts_weights_once_and_the_cache_of_every_sequence():
    load = Load.of(SIZE, rows=3, batch=4, context=1000)
    assert load == Load(bytes=2e9 + 4 * 1000 * 1e5, flops=2 * 1e9 * 3 * 4)


def test_sizes_are_the_published_ones():
    """Weights in matrices and, of the cache, 524,288 and 131,072 bytes a position."""
    assert SIZES["Llama-2-7B"].kv_bytes == 524_288
    assert SIZES["Llama-3.1-8B"].kv_bytes == 131_072
    assert SIZES["Llama-2-7B"].parameters == 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 32000 * 4096
    assert SIZES["Llama-3.1-8B"].parameters == pytest.approx(7.505e9, rel=1e-4)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_fit_finds_the_machine_behind_the_times(noise):
    """Times 2 % off in 60 steps: standard errors of .8, .5 and 1.3 % over seeds, four allowed."""
    machine = TimeModel(fixed=5e-3, bandwidth=1e12, rate=50e12)
    steps = product((1, 3, 9), (1, 8, 32, 64), (0, 1000, 4000, 9000, 30000))
    loads = [Load.of(SIZE, *step) for step in steps]
    off = 1 + noise * np.random.default_rng(0).standard_normal(len(loads))
    times = [x * machine.seconds(load) for x, load in zip(off, loads, strict=True)]
    found = TimeModel.fit(loads, times)
    for value, true, stderr in (
        (found.fixed, machine.fixed, 0.008),
        (found.bandwidth, machine.bandwidth, 0.005),
        (found.rate, machine.rate, 0.013),
    ):
        assert value == pytest.approx(true, rel=4 * stderr if noise else 1e-9)


@pytest.mark.parametrize("half", [0, 1])
def test_magicdecs_other_half_is_predicted_within_6_percent(half):
    found = held_out(TABLE_3, half)
    assert np.median(abs(found.plain)) <= 0.06
    assert np.median(abs(found.verifying)) <= 0.06
    assert len(found.plain) == len(found.verifying) == len(found.rows)


def test_no_setting_is_on_both_sides_and_none_is_lost():
    sides = [
        {(row.target, row.context, row.batch) for row in held_out(TABLE_3, half).rows}
        for half in (0, 1)
    ]
    assert not sides[0] & sides[1]
    assert sides[0] | sides[1] == {(row.target, row.context, row.batch) for row in TABLE_3}
    assert sum(len(held_out(TABLE_3, half).rows) for half in (0, 1)) == len(TABLE_3) == 47


def test_bandwidth_is_below_what_the_sheet_of_8_a100_says():
    for half in (0, 1):
        model = held_out(TABLE_3, half).model
        assert 0.7 < model.bandwidth / (8 * 2.039e12) < 1
        assert 0.1 < model.rate / (8 * 312e12) < 1


def test_errors_are_relative_to_the_printed_times():
    row = TABLE_3[0]
    plain, verifying = loads_of(row)
    assert verifying.bytes == plain.bytes
    assert verifying.flops == (row.gamma + 1) * plain.flops
    model = TimeModel(1e-3, 1e13, 1e14)
    of_plain, of_verifying = errors(model, [row])
    assert of_plain[0] == pytest.approx(1e3 * model.seconds(plain) / 8.27 - 1)
    assert of_verifying[0] == pytest.approx(1e3 * model.seconds(verifying) / 9.55 - 1)


def test_worst_is_the_row_with_the_largest_error():
    found = held_out(TABLE_3)
    worst = max(max(abs(found.plain)), max(abs(found.verifying)))
    of_worst = errors(found.model, [found.worst])
    assert max(abs(of_worst[0][0]), abs(of_worst[1][0])) == pytest.approx(worst)


def test_what_cannot_be_fitted_is_refused():
    loads = [Load.of(SIZE, n, 1, 0) for n in (1, 2, 3)]  # bytes never change
    with pytest.raises(ValueError, match="loads must tell fixed time, bytes and FLOP apart"):
        TimeModel.fit(loads, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="seconds must be one number a load, at least 3"):
        TimeModel.fit(loads, [1.0, 2.0])
    with pytest.raises(ValueError, match="seconds must be finite and above 0, got 0"):
        TimeModel.fit(loads, [1.0, 0.0, 2.0])
    with pytest.raises(ValueError, match="loads must read and multiply something"):
        TimeModel.fit([Load(0.0, 0.0)] * 3, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="served must hold at least two settings, got 1"):
        held_out(TABLE_3[:1])
    with pytest.raises(ValueError, match="target='' must be one of"):
        loads_of(SERVED[0])
    with pytest.raises(ValueError, match="half=2"):
        held_out(TABLE_3, 2)
    with pytest.raises(ValueError, match="rows=0"):
        Load.of(SIZE, 0, 1, 0)
