"""lab.intensity: what the ledger must say of caches, batches and rows."""

import numpy as np
import pytest

from lab import intensity
from lab.decode import autoregressive_generate
from lab.intensity import Cost, Pass, WithoutCache
from lab.ledger import MATMUL_OPS, Ledger
from lab.transformer import ModelConfig, Transformer

SMALL = ModelConfig(vocab=23, d_model=16, n_layers=2, n_heads=4, d_ff=24, dtype="float64")
PROMPT = np.array([3, 1, 4, 1, 5])
KV = 2 * 2 * 16 * 2  # bytes of a position: keys and values, 2 layers, d 16, 16 bits


@pytest.fixture(scope="module")
def model():
    return Transformer.init(SMALL, 0)


def test_without_a_cache_the_logits_are_the_same(model):
    bare = WithoutCache(model)
    cache, kept = bare.new_cache(), model.new_cache()
    bare.prefill(PROMPT[:2], cache)
    model.prefill(PROMPT[:2], kept)
    for new in ([4], [1, 5], [9]):
        np.testing.assert_allclose(
            bare.forward(new, cache), model.forward(new, kept), rtol=0, atol=1e-12
        )
    assert cache.length == kept.length == 6
    cache.truncate(3)
    kept.truncate(3)
    np.testing.assert_allclose(bare.forward([7], cache), model.forward([7], kept), atol=1e-12)


def test_a_forward_that_fails_leaves_the_cache_alone(model):
    bare = WithoutCache(model)
    cache = bare.new_cache()
    with pytest.raises(ValueError, match="token 23"):
        bare.forward([1, 23], cache)
    assert cache.length == 0


def test_token_costs_are_one_ledger_cut_by_tokens(model):
    n_new = 6
    run, costs = intensity.token_costs(model, PROMPT, n_new, np.random.default_rng(1))
    ledger = Ledger()
    plain = autoregressive_generate(
        model, PROMPT, n_new, rng=np.random.default_rng(1), ledger=ledger
    )
    np.testing.assert_array_equal(run.tokens, plain.tokens)
    assert len(costs) == n_new
    assert sum(cost.flops for cost in costs) == ledger.total("flops", phase="decode")
    weights = 2 * model.matmul_parameters + 2 * SMALL.d_model  # and a row of the embedding
    for i, cost in enumerate(costs):
        seen = len(PROMPT) + i  # its own position included
        assert cost.flops == 2 * model.matmul_parameters + 4 * 2 * 16 * seen
        assert cost.weight_bytes == weights
        assert cost.kv_bytes == KV * seen


def test_without_a_cache_operations_grow_with_the_position(model):
    run, costs = intensity.token_costs(WithoutCache(model), PROMPT, 6, np.random.default_rng(1))
    again, _ = intensity.token_costs(model, PROMPT, 6, np.random.default_rng(1))
    np.testing.assert_array_equal(run.tokens, again.tokens)
    for i, cost in enumerate(costs):
        seen = len(PROMPT) + i
        pairs = seen * (seen + 1) // 2
        assert cost.flops == 2 * model.matmul_parameters * seen + 4 * 2 * 16 * pairs


def test_one_token_is_the_last_of_plain_decoding(model):
    run, costs = intensity.token_costs(model, PROMPT, 3, np.random.default_rng(1))
    read = np.concatenate((PROMPT, run.tokens[:-1]))
    assert intensity.one_token(model, read) == costs[-1]
    products = intensity.one_token(model, ops=MATMUL_OPS)  # the first token of a text
    assert products == Cost(2 * model.matmul_parameters, 2 * model.matmul_parameters, 0)


def test_a_batch_shares_the_weights_and_not_the_cache(model):
    passes = [Pass(b, 1, s) for b in (1, 2, 5) for s in (0, 3, 9)]
    ledgers = intensity.pass_ledgers(model, passes, 0)
    assert set(ledgers) == set(passes)
    for p, ledger in ledgers.items():
        products = Cost.of(ledger, ops=MATMUL_OPS)
        assert products.weight_bytes == 2 * model.matmul_parameters
        assert products.intensity == p.batch
        assert ledger.total("kv_read_bytes") == p.batch * p.context * KV
        assert ledger.total("kv_write_bytes") == p.batch * KV


def test_rows_of_one_sequence_share_the_cache_too(model):
    many, one = Pass(4, 1, 9), Pass(1, 4, 9)
    ledgers = intensity.pass_ledgers(model, [many, one], 0)
    assert ledgers[many].total("kv_read_bytes") == 4 * ledgers[one].total("kv_read_bytes")
    assert ledgers[many].total("kv_write_bytes") == ledgers[one].total("kv_write_bytes")
    for ledger in ledgers.values():
        assert Cost.of(ledger, ops=MATMUL_OPS).intensity == 4


def test_pass_costs_are_those_of_the_ledgers(model):
    passes = [Pass(2, 3, 4)]
    ledger = intensity.pass_ledgers(model, passes, 0)[passes[0]]
    assert intensity.pass_costs(model, passes, 0) == {passes[0]: Cost.of(ledger)}


def test_cost_arithmetic():
    ledger = Ledger()
    with ledger.phase("prefill"):
        ledger.add("qkv", flops=100, weight_bytes=10)
    ledger.add("qkv", flops=60, weight_bytes=20)
    ledger.add("attention", flops=20, kv_read_bytes=15, kv_write_bytes=5)
    decode = Cost.of(ledger, "decode")
    assert decode == Cost(80, 20, 20)
    assert Cost.of(ledger) - Cost.of(ledger, "prefill") == decode
    assert Cost.of(ledger, ops=("qkv",)) == Cost(160, 30, 0)
    assert decode.per(4) == Cost(20, 5, 5)
    assert (decode.bytes, decode.intensity) == (40, 2)
