"""lab.hardware: outside figures for two accelerators, the ledger, then limits and identities."""

import pytest

from lab import hardware, theory
from lab.hardware import Device, ModelSize
from lab.ledger import MATMUL_OPS, Ledger
from lab.transformer import ModelConfig, Transformer

A100 = Device(312e12, 2.039e12)
H100 = Device(989e12, 3.35e12)
EIGHT_B = ModelSize(7.5e9, 131072)
ROUND = {"alpha": 0.7, "gamma": 4, "c": 0.05}


@pytest.mark.parametrize(
    ("device", "batch", "context", "speed"),
    [
        (A100, 32, 256, 2.232),
        (A100, 64, 256, 1.287),
        (A100, 128, 256, 0.755),
        (A100, 128, 2048, 1.280),
        (A100, 128, 16384, 2.032),
        (H100, 64, 256, 2.178),
        (H100, 128, 256, 1.316),
        (H100, 256, 256, 0.835),
    ],
)
def test_speedup_of_eight_billion_weights(device, batch, context, speed):
    found = hardware.speedup(EIGHT_B, device, **ROUND, batch=batch, context=context)
    assert round(found, 3) == speed


@pytest.mark.parametrize(
    ("device", "context", "batch"),
    [(A100, 256, 89), (A100, 2048, None), (A100, 16384, None), (H100, 256, 192)],
)
def test_break_even_batch(device, context, batch):
    assert hardware.break_even_batch(EIGHT_B, device, **ROUND, context=context) == batch
    if batch is not None:
        speeds = [
            hardware.speedup(EIGHT_B, device, **ROUND, batch=b, context=context)
            for b in (batch - 1, batch)
        ]
        assert speeds[0] > 1 >= speeds[1]


def test_a_draft_that_never_pays_breaks_even_at_batch_one():
    assert hardware.break_even_batch(EIGHT_B, A100, 0.5, 2, 0.9) == 1


@pytest.mark.parametrize("tied", [False, True])
def test_sizes_are_those_of_the_ledger(tied):
    config = ModelConfig(vocab=32, d_model=16, n_layers=2, n_heads=4, n_kv_heads=2, tied=tied)
    model, size, ledger = Transformer.init(config, 0), ModelSize.of(config), Ledger()
    cache = model.new_cache()
    model.forward([1, 2, 3], cache)
    model.forward([4, 5], cache, ledger=ledger)
    assert size.parameters == model.matmul_parameters
    assert ledger.total("flops", MATMUL_OPS) == 2 * size.parameters * 2
    assert ledger.total("weight_bytes", MATMUL_OPS) == size.weight_bytes
    assert ledger.total("kv_read_bytes") == 3 * size.kv_bytes


def test_learned_positions_and_biases_are_no_products():
    config = ModelConfig(vocab=32, d_model=16, n_heads=4, positions="learned", bias=True)
    assert ModelSize.of(config).parameters == Transformer.init(config, 0).matmul_parameters


def test_the_cache_is_added_and_never_hidden_behind_the_arithmetic():
    device, size = Device(1e3, 1e3), ModelSize(100, 10)
    waiting = hardware.step_seconds(size, device, 1, 1, 50)
    assert waiting == pytest.approx(0.2 + 0.5)  # 200 weight bytes, 500 of cache, at 1000 a second
    working = hardware.step_seconds(size, device, 10, 4, 50)
    assert working == pytest.approx(8 + 2)  # not max(8, 2.2)


def test_verification_is_free_up_to_the_ridge_and_not_beyond():
    size, device = ModelSize(1e9, 1000), Device()
    assert device.ridge == 200
    assert hardware.free_rows(size, device) == 200
    assert hardware.verify_cost(size, device, 4, batch=40, context=500) == 1
    assert hardware.verify_cost(size, device, 4, batch=41, context=500) > 1
    assert hardware.verify_cost(size, device, 0, batch=1000) == 1
    packed = ModelSize(1e9, 1000, weight_bits=4.5)
    assert hardware.free_rows(packed, device) == pytest.approx(200 * 4.5 / 16)


def test_while_it_waits_it_is_the_theorem():
    found = hardware.speedup(EIGHT_B, A100, **ROUND, batch=8, context=1000)
    assert found == theory.walltime_speedup(0.7, 4, 0.05)


def test_all_arithmetic_is_the_operations_bound():
    """Where both steps wait for arithmetic alone, with a free draft, S = 1 / Thm 3.11."""
    found = hardware.speedup(EIGHT_B, A100, 0.7, 4, 0.0, batch=1000)
    assert found == pytest.approx(1 / theory.ops_factor(0.7, 4, 0.0), rel=1e-12)
    assert round(found, 4) == 0.5546


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Device(0), "flop_rate=0 must be"),
        (lambda: Device(1e12, float("nan")), "bandwidth=nan must be"),
        (lambda: ModelSize(-1, 10), "parameters=-1 must be"),
        (lambda: ModelSize(10, -1), "kv_bytes must be .* got -1"),
        (lambda: hardware.step_seconds(EIGHT_B, A100, 0), "rows=0 must be .*>= 1"),
        (lambda: hardware.step_seconds(EIGHT_B, A100, 1, 0), "batch=0 must be .*>= 1"),
        (lambda: hardware.step_seconds(EIGHT_B, A100, 1, 1, -5), "context=-5 must be"),
        (lambda: hardware.verify_cost(EIGHT_B, A100, 1.5), r"gamma=1\.5 must be"),
        (lambda: hardware.break_even_batch(EIGHT_B, A100, 0.7, 0, 0.1), "gamma=0 must be .*>= 1"),
        (lambda: hardware.speedup(EIGHT_B, A100, 1.2, 1, 0.1), r"alpha must be .* got 1\.2"),
    ],
)
def test_bad_input_names_argument_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()
