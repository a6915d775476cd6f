"""The hand-written gradients: against central differences, and the forward pass against another."""

import numpy as np
import pytest

from lab.backprop import forward, held_out_loss, init_params, loss_and_grads
from lab.config import ModelConfig
from lab.transformer import Transformer

SMALL = {"vocab": 11, "d_model": 8, "n_layers": 2, "n_heads": 4, "d_ff": 6, "max_len": 16}
VARIANTS = {
    "plain": {},
    "layer norm": {"norm": "layer"},
    "learned positions": {"positions": "learned"},
    "gelu": {"activation": "gelu"},
    "grouped heads": {"n_kv_heads": 2, "head_dim": 4},
    "one key head": {"n_kv_heads": 1},
    "biases": {"bias": True},
    "tied head": {"tied": True},
    "rope base": {"rope_base": 50.0, "eps": 1e-2},
    "GPT-2": {
        "norm": "layer",
        "positions": "learned",
        "activation": "gelu",
        "bias": True,
        "tied": True,
    },
}
each_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)


def model(variant, dtype="float64"):
    """A config and weights away from the start, where gains are 1 and biases 0."""
    config = ModelConfig(**(SMALL | variant), dtype=dtype)
    rng = np.random.default_rng([7, 1])
    params = init_params(config, rng)
    for value in params.values():
        value += 0.2 * rng.standard_normal(value.shape).astype(value.dtype)
    return config, params


def text(*shape, seed=2, vocab=SMALL["vocab"]):
    return np.random.default_rng([7, seed]).integers(vocab, size=shape)


def gradients(config, params, tokens, targets):
    grads = {name: np.zeros_like(value) for name, value in params.items()}
    return loss_and_grads(config, params, tokens, targets, grads), grads


def mean_loss(config, params, tokens, targets):
    """The loss, written again in the plainest way."""
    logits = forward(config, params, tokens)
    probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return -np.log(np.take_along_axis(probs, targets[..., None], axis=-1)).mean()


@each_variant
def test_gradients_equal_central_differences_on_every_tensor(variant):
    config, params = model(variant)
    tokens, targets = text(3, 7), text(3, 7, seed=3)
    loss, grads = gradients(config, params, tokens, targets)
    assert loss == pytest.approx(mean_loss(config, params, tokens, targets), rel=1e-12)
    assert set(grads) == set(config.shapes())
    step = 1e-5
    for name, value in params.items():
        numeric = np.zeros_like(value)
        for at in np.ndindex(value.shape):
            kept = value[at]
            value[at] = kept + step
            above = mean_loss(config, params, tokens, targets)
            value[at] = kept - step
            below = mean_loss(config, params, tokens, targets)
            value[at] = kept
            numeric[at] = (above - below) / (2 * step)
        error = np.linalg.norm(grads[name] - numeric) / np.linalg.norm(numeric)
        assert error < 1e-5, f"{name}: relative error {error:.1e}"


@each_variant
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-10)])
def test_forward_equals_the_transformer_with_a_cache(variant, dtype, tolerance):
    config, params = model(variant, dtype)
    transformer = Transformer.from_params(config, params)
    tokens = text(2, 13)
    logits = forward(config, params, tokens)
    assert logits.dtype == np.dtype(dtype)
    for row in range(2):
        cached = transformer.forward(tokens[row], transformer.new_cache())
        np.testing.assert_allclose(logits[row], cached, rtol=0, atol=tolerance)


def test_gradients_are_added_to_what_is_there():
    config, params = model({})
    tokens, targets = text(3, 7), text(3, 7, seed=3)
    _, once = gradients(config, params, tokens, targets)
    twice = {name: value.copy() for name, value in once.items()}
    loss_and_grads(config, params, tokens, targets, twice)
    for name in params:
        np.testing.assert_allclose(twice[name], 2 * once[name], rtol=1e-12)


def test_gradient_of_a_batch_is_the_mean_over_its_sequences():
    config, params = model({"n_kv_heads": 2})
    tokens, targets = text(3, 7), text(3, 7, seed=3)
    _, grads = gradients(config, params, tokens, targets)
    parts = [gradients(config, params, tokens[[b]], targets[[b]])[1] for b in range(3)]
    for name in params:
        mean = np.mean([part[name] for part in parts], axis=0)
        np.testing.assert_allclose(grads[name], mean, rtol=1e-10, atol=1e-14)


def test_float32_stays_float32():
    config, params = model({"norm": "layer", "bias": True}, "float32")
    _, grads = gradients(config, params, text(3, 7), text(3, 7, seed=3))
    assert {value.dtype for value in grads.values()} == {np.dtype(np.float32)}


def test_starting_weights_have_the_named_scales_and_a_loss_near_that_of_guessing():
    config = ModelConfig(vocab=256, d_model=128, n_layers=4, n_heads=4, d_ff=256)
    params = init_params(config, np.random.default_rng([7, 4]))
    assert {name: value.shape for name, value in params.items()} == config.shapes()
    deviation = params["layers.2.qkv"].std() * np.sqrt(128)
    assert deviation == pytest.approx(1, abs=0.02)  # 49,152 weights: within 0.3 % of 1, one sigma
    assert params["layers.2.mlp_down"].std() * np.sqrt(256 * 8) == pytest.approx(1, abs=0.02)
    tokens, targets = text(4, 32, vocab=256), text(4, 32, seed=3, vocab=256)
    loss, _ = gradients(config, params, tokens, targets)
    assert loss == pytest.approx(np.log(256), abs=0.3)


def test_held_out_loss_is_the_mean_over_windows_whatever_the_batch():
    config, params = model({})
    tokens = text(101)
    windows = tokens[:96].reshape(12, 8), tokens[1:97].reshape(12, 8)
    expected = mean_loss(config, params, *windows)
    for batch_tokens in (1, 40, 1000):
        loss = held_out_loss(config, params, tokens, 8, batch_tokens)
        assert loss == pytest.approx(expected, rel=1e-12)


def test_held_out_loss_needs_one_whole_window():
    config, params = model({})
    with pytest.raises(ValueError, match="context=8, got 8"):
        held_out_loss(config, params, text(8), 8)
