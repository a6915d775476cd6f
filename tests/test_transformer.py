"""The transformer: an outside oracle in plain loops, equal bits, shared weights, the ledger."""

import copy
import itertools
import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from models import assert_same

from lab.ledger import FIELDS, MATMUL_OPS, Ledger
from lab.linear import row_product
from lab.transformer import ModelConfig, Transformer

GROUPS = (1, 2, 3, 4, 5, 8, 12)
SMALL = {"vocab": 13, "d_model": 16, "n_layers": 2, "n_heads": 4, "d_ff": 10, "max_len": 48}
CHOICES = {
    "norm": ("rms", "layer"),
    "positions": ("rope", "learned"),
    "activation": ("swiglu", "gelu"),
    "n_kv_heads": (1, 2, 4),
    "bias": (False, True),
    "tied": (False, True),
    "head_dim": (None, 6),
}
VARIANTS = [
    dict(zip(CHOICES, values, strict=True)) for values in itertools.product(*CHOICES.values())
]
FEW = [
    {},
    {"norm": "layer", "bias": True, "n_kv_heads": 2},
    {"positions": "learned", "activation": "gelu", "tied": True, "head_dim": 5},
    {"n_kv_heads": 1, "head_dim": 10, "rope_base": 500.0},
]


def name_of(variant):
    return "-".join(str(value) for value in variant.values()) or "default"


def random_params(config, seed=0):
    """Every parameter random, gains and biases too: one that is not used shows."""
    rng = np.random.default_rng([21, seed])
    return {
        name: rng.standard_normal(shape) / (math.sqrt(shape[0]) if len(shape) == 2 else 2)
        + (len(shape) == 1 and not name.endswith("_bias"))
        for name, shape in config.shapes().items()
    }


def random_model(seed=0, **changes):
    config = ModelConfig(**SMALL | changes)
    return Transformer.from_params(config, random_params(config, seed))


def text(*shape, vocab=SMALL["vocab"], seed=0):
    return np.random.default_rng([22, seed]).integers(0, vocab, shape)


def logits_of(lm, *parts):
    """Logits (T, V) of a text fed in parts to one new cache."""
    cache = lm.new_cache()
    return np.concatenate([lm.forward(part, cache) for part in parts])


# ---- The oracle: float64, one position and one head at a time, no cache ------------------------


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


def rotated(x, position, base):
    """Consecutive pairs of x (E,) turned by position * base ** (-2 j / E)."""
    turned = np.empty_like(x)
    for j in range(len(x) // 2):
        angle = position * base ** (-2 * j / len(x))
        a, b = x[2 * j], x[2 * j + 1]
        turned[2 * j] = a * math.cos(angle) - b * math.sin(angle)
        turned[2 * j + 1] = a * math.sin(angle) + b * math.cos(angle)
    return turned


def oracle(config, params, tokens):
    """Logits (T, V)."""
    c, size = config, len(tokens)
    heads, kv_heads, width = c.n_heads, c.n_kv_heads, c.head_dim

    def norm(x, name):
        if c.norm == "layer":
            x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + c.eps)
        return x * params[name] + params.get(f"{name}_bias", 0)

    def dense(x, name):
        return np.einsum("td,df->tf", x, params[name]) + params.get(f"{name}_bias", 0)

    x = params["embedding"][tokens]
    if c.positions == "learned":
        x = x + params["positions"][:size]
    for i in range(c.n_layers):
        at = f"layers.{i}."
        split = dense(norm(x, at + "attn_norm"), at + "qkv").reshape(size, -1, width)
        queries, keys = split[:, :heads].copy(), split[:, heads : heads + kv_heads].copy()
        values = split[:, heads + kv_heads :]
        if c.positions == "rope":
            for array in (queries, keys):
                for t, h in np.ndindex(array.shape[:2]):
                    array[t, h] = rotated(array[t, h], t, c.rope_base)
        mixed = np.zeros((size, heads, width))
        for t, h in np.ndindex(size, heads):
            group = h * kv_heads // heads
            scores = [queries[t, h] @ keys[s, group] / math.sqrt(width) for s in range(t + 1)]
            weights = np.exp(np.array(scores) - max(scores))
            for s in range(t + 1):
                mixed[t, h] += weights[s] / weights.sum() * values[s, group]
        x = x + dense(mixed.reshape(size, -1), at + "attn_out")
        inner = dense(norm(x, at + "mlp_norm"), at + "mlp_in")
        if c.activation == "swiglu":
            inner = silu(inner[:, : c.d_ff]) * inner[:, c.d_ff :]
        else:
            inner = gelu(inner)
        x = x + dense(inner, at + "mlp_down")
    head = params["embedding"].T if c.tied else params["head"]
    return norm(x, "final_norm") @ head


def test_the_oracles_activations_are_those_of_the_textbooks():
    x = np.linspace(-4, 4, 33)
    exact = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x])  # x Phi(x)
    np.testing.assert_allclose(gelu(x), exact, atol=5e-4)
    assert silu(1.0) == pytest.approx(0.7310585786)
    np.testing.assert_allclose(rotated(np.array([1.0, 0.0]), math.pi / 2, 1e4), [0, 1], atol=1e-15)


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_logits_equal_the_oracles(variant):
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-4)):
        config = ModelConfig(**SMALL | variant, dtype=dtype)
        params, tokens = random_params(config), text(7)
        logits = logits_of(Transformer.from_params(config, params), tokens)
        assert logits.dtype == dtype
        expected = oracle(config, params, tokens)
        assert np.abs(expected).max() > 0.5, "a case on which something happens"
        np.testing.assert_allclose(logits, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("scale", [4, 20, 60])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_attention_scores_of_any_size(dtype, scale):
    """Beyond 88 a float32 exp overflows; rows with large and with small scores lie side by side."""
    config = ModelConfig(**SMALL, dtype=dtype)
    params, tokens = random_params(config), text(40)
    params["layers.0.qkv"] = params["layers.0.qkv"] * scale
    lm = Transformer.from_params(config, params)
    whole = logits_of(lm, tokens)
    seen = lm.new_cache()
    lm.forward(tokens, seen)
    size = np.abs(seen.keys[0]).max() * config.width**0.5  # of a key, which scores grow with
    assert (size > 40) == (scale > 4), "the case is what it says"
    tolerance = 1e-9 if dtype == "float64" else 2e-2  # a score of 1,000 is known to 1e-4 only
    np.testing.assert_allclose(whole, oracle(config, params, tokens), rtol=0, atol=tolerance)
    for width in (1, 2, 3, 5, 8):
        parts = np.split(tokens, range(width, 40, width))
        assert_same(logits_of(lm, *parts), whole)
    batch = lm.new_cache(2)  # and beside a text whose scores are its own
    logits = lm.forward(np.stack([tokens, tokens[::-1]]), batch)
    assert_same(logits[0], whole)


@pytest.mark.parametrize("changes", [{"rope_base": 3.0}, {"rope_base": 10000}, {"eps": 0.3}])
def test_settings_reach_the_arithmetic(changes):
    config = ModelConfig(**SMALL, dtype="float64")
    params, tokens = random_params(config), text(30)
    changed = replace(config, **changes)
    logits = logits_of(Transformer.from_params(changed, params), tokens)
    np.testing.assert_allclose(logits, oracle(changed, params, tokens), rtol=0, atol=1e-10)
    same = changes == {"rope_base": config.rope_base}
    assert np.allclose(logits, oracle(config, params, tokens)) == same


@pytest.mark.parametrize("variant", FEW, ids=name_of)
def test_the_oracle_holds_in_parts_and_in_ragged_batches(variant):
    lm = random_model(dtype="float64", **variant)
    tokens, counts = text(3, 40), [40, 1, 23]
    batch = lm.new_cache(3)
    ragged = lm.forward(tokens, batch, counts=counts)
    for row, logits, count in zip(tokens, ragged, counts, strict=True):
        expected = oracle(lm.config, lm.params(), row[:count])
        np.testing.assert_allclose(logits[:count], expected, rtol=0, atol=1e-10)
        parts = np.split(row[:count], [count // 3, count // 2]) if count > 1 else [row[:1]]
        np.testing.assert_allclose(logits_of(lm, *parts), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("variant", FEW, ids=name_of)
def test_plain_products_agree_within_rounding(variant, monkeypatch):
    """What runs where a BLAS is not row-invariant."""
    plain = replace(row_product(), row_invariant=False)
    monkeypatch.setattr("lab.linear.row_product", lambda: plain)
    lm, tokens = random_model(dtype="float64", **variant), text(40)
    expected = oracle(lm.config, lm.params(), tokens)
    for width in (1, 3, 40):
        parts = [tokens[i : i + width] for i in range(0, 40, width)]
        np.testing.assert_allclose(logits_of(lm, *parts), expected, rtol=0, atol=1e-10)


# ---- The same bits -----------------------------------------------------------------------------


def assert_grouping_does_not_matter(lm, tokens, whole):
    for group in GROUPS:
        assert_same(
            logits_of(lm, *(tokens[i : i + group] for i in range(0, len(tokens), group))), whole
        )


def assert_a_prompt_in_two_parts_leaves_the_same(lm, tokens, whole, step=1):
    for cut in range(1, len(tokens) - 1, step):
        cache = lm.new_cache()
        lm.prefill(tokens[:cut], cache)
        lm.prefill(tokens[cut:-1], cache)
        assert_same(lm.forward(tokens[-1:], cache), whole[-1:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_n11_the_lab_model_gives_the_same_bits_however_rows_are_grouped(dtype):
    lm = Transformer.init(ModelConfig(dtype=dtype), 0)
    tokens = text(70, vocab=256)
    whole = logits_of(lm, tokens)
    assert_grouping_does_not_matter(lm, tokens, whole)
    assert_a_prompt_in_two_parts_leaves_the_same(lm, tokens, whole)


@pytest.mark.parametrize("variant", FEW, ids=name_of)
def test_every_variant_gives_the_same_bits_and_so_do_its_drafts(variant):
    lm, tokens = random_model(**variant), text(48)
    for draft in (lm, lm.quantized(4, 8), lm.first_layers(1)):
        whole = logits_of(draft, tokens)
        assert_grouping_does_not_matter(draft, tokens, whole)
        assert_a_prompt_in_two_parts_leaves_the_same(draft, tokens, whole)


def test_n11_a_model_of_the_size_of_gpt2_gives_the_same_bits_too():
    config = ModelConfig(vocab=8192, d_model=768, n_layers=4, n_heads=12, d_ff=2048, max_len=64)
    rng = np.random.default_rng(23)
    params = {
        name: rng.standard_normal(shape, np.float32) / np.float32(28)
        if len(shape) == 2
        else np.ones(shape)
        for name, shape in config.shapes().items()
    }
    lm, tokens = Transformer.from_params(config, params), text(24, vocab=8192)
    whole = logits_of(lm, tokens)
    assert_grouping_does_not_matter(lm, tokens, whole)
    assert_a_prompt_in_two_parts_leaves_the_same(lm, tokens, whole, step=3)


# ---- Types -------------------------------------------------------------------------------------

FLOAT_SETTINGS = [
    {},
    {"eps": 1e-6, "rope_base": 1e5, "weight_bits": 4.5},
    {"eps": np.float64(1e-6), "rope_base": np.float64(1e5), "norm": "layer", "bias": True},
    {"activation": "gelu", "positions": "learned", "eps": np.float64(1e-6)},
    {"d_model": np.int64(16), "n_heads": np.int64(4)},  # so head_dim is no Python int either
    {"head_dim": np.int64(6), "n_kv_heads": np.int32(2)},
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("settings", FLOAT_SETTINGS, ids=name_of)
def test_the_dtype_stays_whatever_the_settings_are_made_of(settings, dtype):
    """Under NumPy 2 a float64 scalar promotes what it meets, and so a whole network."""
    lm = random_model(dtype=dtype, **settings)
    assert all(array.dtype == dtype for array in lm.params().values())
    for model in (lm, lm.quantized(8, 4), lm.first_layers(1)):
        cache, batch = model.new_cache(), model.new_cache(2)
        for _ in range(2):
            assert model.forward(text(5), cache).dtype == dtype
            assert model.forward(text(2, 5), batch, counts=[5, 2]).dtype == dtype
            for held in (cache, batch):
                assert held.keys.dtype == held.values.dtype == dtype


@pytest.mark.parametrize("given", ["float32", np.float32, np.dtype(np.float32), "f4"])
def test_a_dtype_may_be_given_in_any_of_numpys_ways(given):
    assert ModelConfig(dtype=given) == ModelConfig()


# ---- Parts of a model --------------------------------------------------------------------------


@pytest.mark.parametrize("variant", FEW, ids=name_of)
def test_params_make_the_same_model_again(variant):
    lm, tokens = random_model(**variant), text(9)
    params = lm.params()
    assert {name: array.shape for name, array in params.items()} == lm.config.shapes()
    again = Transformer.from_params(lm.config, params)
    assert_same(logits_of(again, tokens), logits_of(lm, tokens))


def test_a_model_keeps_no_hold_on_the_arrays_it_was_made_of():
    config = ModelConfig(**SMALL)
    params = {name: array.astype(np.float32) for name, array in random_params(config).items()}
    lm, tokens = Transformer.from_params(config, params), text(9)
    before = logits_of(lm, tokens)
    for array in params.values():
        array[:] = 0
    assert_same(logits_of(lm, tokens), before)


@pytest.mark.parametrize("variant", FEW, ids=name_of)
def test_first_layers_share_weights_and_are_the_model_cut(variant):
    lm, tokens = random_model(**variant, n_layers=3, dtype="float64"), text(9)
    for k in (1, 2, 3):
        cut = lm.first_layers(k)
        params = cut.params()
        assert cut.config == replace(lm.config, n_layers=k)
        assert list(params) == list(cut.config.shapes())
        for name, array in params.items():
            assert np.shares_memory(array, lm.params()[name]), name
        expected = oracle(cut.config, params, tokens)
        np.testing.assert_allclose(logits_of(cut, tokens), expected, rtol=0, atol=1e-10)
        assert len(cut.new_cache().keys) == k
    np.testing.assert_array_equal(logits_of(lm.first_layers(3), tokens), logits_of(lm, tokens))


def test_matmul_parameters_are_all_matrices_but_the_embedding():
    lm = Transformer.init(ModelConfig(), 0)
    assert lm.matmul_parameters == 4 * (64 * 192 + 64 * 64 + 64 * 512 + 256 * 64) + 64 * 256
    for variant in FEW:
        lm = random_model(**variant)
        matrices = {
            name: array.size
            for name, array in lm.params().items()
            if array.ndim == 2 and name not in ("embedding", "positions")
        }
        head = lm.config.vocab * lm.config.d_model if lm.config.tied else 0
        assert lm.matmul_parameters == sum(matrices.values()) + head
        assert lm.quantized(4, 4).matmul_parameters == lm.matmul_parameters
    assert (lm.vocab, lm.max_len) == (13, 48)


# ---- Quantised ---------------------------------------------------------------------------------


def test_quantised_models_are_closer_the_more_bits_they_have():
    lm, tokens = Transformer.init(ModelConfig(), 0), text(60, vocab=256)
    expected = logits_of(lm, tokens)
    errors = [
        np.sqrt(np.mean((logits_of(lm.quantized(bits), tokens) - expected) ** 2))
        for bits in (8, 4, 3)
    ]
    assert 0 < errors[0] < 0.2 * errors[1] < 0.2 * errors[2]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("bits", "group"), [(8, 32), (4, 5), (3, 4)])
def test_every_matrix_is_quantised_the_head_too_the_embedding_not(bits, group, tied):
    """The oracle, on parameters that are rounded here, by the definition."""
    lm = random_model(dtype="float64", tied=tied, bias=True)
    largest = 2 ** (bits - 1) - 1

    def rounded(weights):
        out = weights.copy()
        for start in range(0, len(weights), group):
            part = weights[start : start + group]
            scale = (np.abs(part).max(axis=0) / largest).astype(np.float16).astype(float)
            out[start : start + group] = np.clip(np.rint(part / scale), -largest, largest) * scale
        return out

    params = lm.params()
    if tied:  # the head is rounded, the embedding that it is made of is not
        params["head"] = params["embedding"].T
    params = {
        name: rounded(array) if array.ndim == 2 and name != "embedding" else array
        for name, array in params.items()
    }
    expected = oracle(replace(lm.config, tied=False), params, text(9))
    logits = logits_of(lm.quantized(bits, group), text(9))
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-10)
    assert np.abs(logits - logits_of(lm, text(9))).max() > 1e-3


def test_q9_int4_reads_four_and_a_half_sixteenths():
    lm = Transformer.init(ModelConfig(), 0)
    full, packed = Ledger(), Ledger()
    lm.forward(text(3), lm.new_cache(), full)
    lm.quantized(4, 32).forward(text(3), lm.new_cache(), packed)
    for ops in (*MATMUL_OPS, MATMUL_OPS):
        assert packed.total("weight_bytes", ops) * 16 == full.total("weight_bytes", ops) * 4.5
    assert packed.total("weight_bytes", "embedding") == full.total("weight_bytes", "embedding")
    assert packed.total("flops") == full.total("flops")
    assert packed.total("kv_read_bytes") == full.total("kv_read_bytes")


def test_a_quantised_model_is_not_quantised_again():
    packed = random_model().quantized(4, 4)
    with pytest.raises(ValueError, match="not quantised already"):
        packed.quantized(4, 4)
    with pytest.raises(ValueError, match=r"params\(\) needs a model that is not quantised"):
        packed.params()
    assert packed.first_layers(1).config.n_layers == 1


# ---- Random initialisation ---------------------------------------------------------------------


@pytest.mark.parametrize("variant", [{}, {"norm": "layer", "bias": True, "positions": "learned"}])
def test_init_has_the_scales_of_the_lesson(variant):
    """Standard deviations within 5 of their standard errors: false alarm below 1e-5 in all."""
    config = ModelConfig(**variant)
    params = Transformer.init(config, 5).params()
    assert {name: array.shape for name, array in params.items()} == config.shapes()
    for name, array in params.items():
        last = name.rpartition(".")[2]
        if array.ndim == 1:
            assert (array == (0 if name.endswith("_bias") else 1)).all(), name
            continue
        expected = 1 / math.sqrt(array.shape[0])
        expected *= {"attn_out": 0.2, "mlp_down": 0.2, "head": 4}.get(last, 1)
        if name in ("embedding", "positions"):
            expected = 1
        assert abs(array.std() / expected - 1) < 5 / math.sqrt(2 * array.size), name
        assert abs(array.mean()) < 5 * expected / math.sqrt(array.size), name


def test_init_scales_can_be_set():
    lm = Transformer.init(ModelConfig(), 5, residual_scale=1.0, head_scale=2.0).params()
    base = Transformer.init(ModelConfig(), 5).params()
    np.testing.assert_allclose(lm["head"], base["head"] / 2, rtol=1e-6)
    np.testing.assert_allclose(lm["layers.1.mlp_down"], base["layers.1.mlp_down"] * 5, rtol=1e-6)
    np.testing.assert_array_equal(lm["layers.1.qkv"], base["layers.1.qkv"])


def test_seeds_repeat_differ_and_leave_numpys_global_state_alone():
    before = np.random.get_state(legacy=False)  # noqa: NPY002 - it is what must not change
    one, again, other = (Transformer.init(ModelConfig(), seed).params() for seed in (1, 1, 2))
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    assert before["state"]["pos"] == after["state"]["pos"]
    assert (before["state"]["key"] == after["state"]["key"]).all()
    for name, array in one.items():
        np.testing.assert_array_equal(array, again[name])
        assert array.ndim == 1 or not np.isclose(array, other[name]).all()
    matrices = [array.ravel()[:100] for array in one.values() if array.ndim == 2]
    assert len({array.tobytes() for array in matrices}) == len(matrices), "no two are alike"


def laws_of(logits):
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def entropy(laws):
    return -(laws * np.log(laws, where=laws > 0, out=np.zeros_like(laws))).sum(axis=-1)


@pytest.mark.parametrize("seed", range(5))
def test_a_random_model_has_about_1_8_nats(seed):
    """Mean over random contexts; between seeds it varies by about .05."""
    lm = Transformer.init(ModelConfig(), seed)
    laws = laws_of(logits_of(lm, text(300, vocab=256, seed=seed)))
    assert entropy(laws).mean() == pytest.approx(1.8, abs=0.3)


def test_a_random_model_has_about_1_8_nats_on_what_it_says_itself():
    """24 texts of 48 tokens at T = 1, three seeds together."""
    found = []
    for seed in range(3):
        lm, rng = Transformer.init(ModelConfig(), seed), np.random.default_rng([24, seed])
        cache, tokens = lm.new_cache(8), text(8, 1, vocab=256)
        for _ in range(48):
            laws = laws_of(lm.forward(tokens, cache)[:, 0])
            found.append(entropy(laws).mean())
            below = laws.cumsum(axis=1) <= rng.random((8, 1))
            tokens = np.minimum(below.sum(axis=1, keepdims=True), 255)
    assert np.mean(found) == pytest.approx(1.8, abs=0.3)


# ---- The ledger --------------------------------------------------------------------------------


def counted(lm, *widths):
    """The ledger of one sequence fed in parts."""
    ledger, cache = Ledger(), lm.new_cache()
    for width in widths:
        lm.forward(text(width), cache, ledger)
    return ledger


def kv_bytes(config):
    """Bytes of one position: keys and values, at 16 bits."""
    return 2 * 2 * config.n_layers * config.n_kv_heads * config.head_dim


@pytest.mark.parametrize("variant", FEW, ids=name_of)
def test_ledger_of_one_sequence_by_its_definition(variant):
    lm = random_model(**variant)
    c, widths = lm.config, (5, 1, 1, 9, 3)
    ledger = counted(lm, *widths)
    tokens = sum(widths)

    assert ledger.total("flops", MATMUL_OPS) == tokens * 2 * lm.matmul_parameters
    assert ledger.total("weight_bytes", MATMUL_OPS) == len(widths) * 2 * lm.matmul_parameters
    tables = 2 if c.positions == "learned" else 1
    assert ledger.total("weight_bytes", "embedding") == tables * tokens * c.d_model * 2

    pairs = sum(range(1, tokens + 1))  # each token, itself and all before it
    per_pair = 2 * 2 * c.n_layers * c.n_heads * c.head_dim  # scores, and weighted values
    assert ledger.total("flops", "attention") == pairs * per_pair
    cached = sum(sum(widths[:i]) for i in range(len(widths)))
    assert ledger.total("kv_read_bytes") == cached * kv_bytes(c)
    assert ledger.total("kv_write_bytes") == tokens * kv_bytes(c)

    gate = ledger.total("flops", "mlp_gate")
    assert gate == (ledger.total("flops", "mlp_up") if c.activation == "swiglu" else 0)
    assert ledger.total("flops", "mlp_down") == tokens * 2 * c.n_layers * c.d_ff * c.d_model
    assert ledger.total("flops", "qkv") == (
        tokens * 2 * c.n_layers * c.d_model * (c.n_heads + 2 * c.n_kv_heads) * c.head_dim
    )
    assert ledger.total("flops", "attn_out") == (
        tokens * 2 * c.n_layers * c.d_model * c.n_heads * c.head_dim
    )
    for field in FIELDS:
        assert ledger.total(field) == sum(getattr(row, field) for row in ledger.rows())


def test_ledger_by_hand_of_the_lab_model():
    """One token after 99: weights once, 99 positions read, 100 pairs."""
    lm = Transformer.init(ModelConfig(), 0)
    cache, ledger = lm.new_cache(), Ledger()
    lm.prefill(text(99), cache)
    lm.forward(text(1), cache, ledger)
    assert ledger.total("flops", MATMUL_OPS) == 2 * 278_528
    assert ledger.total("weight_bytes") == 2 * (278_528 + 64)
    assert ledger.total("flops", "attention") == 4 * 4 * 64 * 100
    assert ledger.total("kv_read_bytes") == 99 * 4 * 2 * 64 * 2
    assert ledger.total("kv_write_bytes") == 4 * 2 * 64 * 2


@pytest.mark.parametrize("rows", [1, 2, 5, 12, 40])
def test_weights_are_read_once_per_forward_whatever_the_rows(rows):
    lm = random_model()
    one, many = counted(lm, 1), counted(lm, rows)
    for op in MATMUL_OPS:
        assert many.total("weight_bytes", op) == one.total("weight_bytes", op)
        assert many.total("flops", op) == rows * one.total("flops", op)


def test_ops_over_reads_is_the_mean_number_of_rows():
    lm, widths = random_model(n_kv_heads=2), (5, 1, 1, 9, 3)
    some, plain = counted(lm, *widths), counted(lm, 1)
    ops, reads = (
        some.total(field, MATMUL_OPS) / plain.total(field, MATMUL_OPS)
        for field in ("flops", "weight_bytes")
    )
    assert ops / reads == np.mean(widths)


def test_after_a_rollback_only_what_is_cached_is_read():
    lm, ledger = random_model(), Ledger()
    cache = lm.new_cache()
    lm.forward(text(20), cache)
    cache.truncate(7)
    lm.forward(text(2), cache, ledger)
    assert ledger.total("kv_read_bytes") == 7 * kv_bytes(lm.config)
    c = lm.config
    assert ledger.total("flops", "attention") == (8 + 9) * 4 * c.n_layers * c.n_heads * c.head_dim


@pytest.mark.parametrize("counts", [None, [4, 4, 4], [1, 0, 4], [0, 0, 1]])
def test_a_batch_reads_weights_once_and_does_the_rows_work(counts):
    lm = random_model(n_kv_heads=2, positions="learned")
    lengths, real = [3, 9, 0], [4, 4, 4] if counts is None else counts
    cache, batched, single = lm.new_cache(3), Ledger(), Ledger()
    lm.prefill(text(3, 9), cache, counts=lengths)
    lm.forward(text(3, 4), cache, batched, counts=counts)
    for length, count in zip(lengths, real, strict=True):
        plain = lm.new_cache()
        if length:
            lm.prefill(text(length), plain)
        if count:
            lm.forward(text(count), plain, single)
    for field in ("flops", "kv_read_bytes", "kv_write_bytes"):
        assert batched.total(field) == single.total(field)
    once = 2 * lm.matmul_parameters
    assert batched.total("weight_bytes", MATMUL_OPS) == once
    assert single.total("weight_bytes", MATMUL_OPS) == once * np.count_nonzero(real)
    assert batched.total("weight_bytes", "embedding") == single.total("weight_bytes", "embedding")


def test_prefill_is_a_phase_and_does_not_touch_the_head():
    lm, ledger = random_model(), Ledger()
    cache = lm.new_cache()
    with ledger.phase("prefill"):
        lm.prefill(text(8), cache, ledger)
    lm.forward(text(1), cache, ledger)
    assert "lm_head" not in {row.op for row in ledger.rows() if row.phase == "prefill"}
    head = 2 * lm.config.d_model * lm.vocab
    body = 2 * lm.matmul_parameters - head
    assert ledger.total("flops", MATMUL_OPS, "prefill") == 8 * body
    assert ledger.total("flops", MATMUL_OPS, "decode") == body + head
    assert ledger.total("weight_bytes", MATMUL_OPS, "prefill") == body
    assert ledger.total("kv_read_bytes", phase="prefill") == 0
    assert ledger.total("kv_read_bytes", phase="decode") == 8 * kv_bytes(lm.config)


def test_f2_a_multiply_add_is_two_flops():
    """(9 x 64) @ (64 x 256)."""
    lm, ledger = Transformer.init(ModelConfig(), 0), Ledger()
    lm.forward(text(9), lm.new_cache(), ledger)
    assert ledger.total("flops", "lm_head") == 294_912


@pytest.mark.parametrize("tied", [False, True])
def test_f3_a_lookup_is_free_and_the_head_is_not_tied_or_not(tied):
    lm = random_model(tied=tied)
    ledger = counted(lm, 7)
    assert ledger.total("flops", "embedding") == 0
    assert ledger.total("weight_bytes", "embedding") == 7 * lm.config.d_model * 2
    assert ledger.total("flops", "lm_head") == 7 * 2 * lm.vocab * lm.config.d_model
    assert ledger.total("weight_bytes", "lm_head") == 2 * lm.vocab * lm.config.d_model


@pytest.mark.parametrize("bits", [32, 8, 4.5])
def test_weights_are_read_at_the_declared_width(bits):
    lm, base = random_model(weight_bits=bits), random_model()
    ledger, plain = counted(lm, 3), counted(base, 3)
    assert ledger.total("weight_bytes") * 16 == plain.total("weight_bytes") * bits
    assert ledger.total("kv_write_bytes") == plain.total("kv_write_bytes")


def test_counting_changes_no_logits_and_a_refused_call_counts_nothing():
    lm, ledger, tokens = random_model(), Ledger(), text(9)
    cache = lm.new_cache()
    assert_same(lm.forward(tokens, cache, ledger), logits_of(lm, tokens))
    rows = copy.deepcopy(ledger.rows())
    for bad in ([13], [0] * 40, [0.5]):
        with pytest.raises(ValueError):
            lm.forward(bad, cache, ledger)
    assert ledger.rows() == rows


# ---- Wrong calls -------------------------------------------------------------------------------


def test_the_defaults_are_the_random_models():
    config = ModelConfig()
    assert (config.n_kv_heads, config.head_dim, config.dtype) == (4, 16, np.float32)
    assert config == ModelConfig(256, 64, 4, 4, 4, 256, 512)
    assert replace(config, n_layers=1).n_layers == 1
    with pytest.raises(FrozenInstanceError):
        config.n_layers = 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vocab": 0}, "vocab=0 must be a whole number >= 1"),
        ({"d_model": -64}, "d_model=-64 "),
        ({"n_layers": 0}, "n_layers=0 "),
        ({"n_layers": 1.5}, r"n_layers=1\.5 "),
        ({"n_layers": True}, "n_layers=True "),
        ({"n_heads": "4"}, "n_heads='4' "),
        ({"d_ff": 0}, "d_ff=0 "),
        ({"max_len": None}, "max_len=None "),
        ({"n_kv_heads": 0}, "n_kv_heads=0 "),
        ({"n_kv_heads": 2.0}, r"n_kv_heads=2\.0 "),
        ({"d_model": 65}, "d_model=65 is not a multiple of n_heads=4"),
        ({"n_kv_heads": 3}, "n_heads=4 is not a multiple of .*n_kv_heads=3"),
        ({"n_kv_heads": 8}, "n_heads=4 is not a multiple of .*n_kv_heads=8"),
        ({"head_dim": 5}, "head_dim=5 must be .*even for RoPE"),
        ({"head_dim": 0}, "head_dim=0 must be a whole number >= 1"),
        ({"head_dim": 2.5, "positions": "learned"}, r"head_dim=2\.5 "),
        ({"head_dim": 4.0}, r"head_dim=4\.0 "),
        ({"head_dim": "8"}, "head_dim='8' "),
        ({"norm": "batch"}, r"norm='batch' must be one of \('rms', 'layer'\)"),
        ({"positions": None}, r"positions=None must be one of \('rope', 'learned'\)"),
        ({"activation": "relu"}, r"activation='relu' must be one of \('swiglu', 'gelu'\)"),
        ({"rope_base": 0}, "rope_base=0 must be a finite number above 0"),
        ({"rope_base": np.inf}, "rope_base=inf "),
        ({"rope_base": "x"}, "rope_base='x' "),
        ({"eps": 0.0}, r"eps=0\.0 must be a finite number above 0"),
        ({"eps": np.nan}, "eps=nan "),
        ({"eps": np.inf}, "eps=inf "),
        ({"weight_bits": -16}, "weight_bits=-16 "),
        ({"dtype": "float16"}, "dtype='float16' must be float32 or float64"),
        ({"dtype": int}, "dtype=.*int.* must be float32 or float64"),
        ({"dtype": "banana"}, "dtype='banana' "),
        ({"dtype": None}, "dtype=None "),  # which NumPy takes for float64
    ],
    ids=str,
)
def test_wrong_settings_name_argument_and_value(changes, says):
    with pytest.raises(ValueError, match=says):
        ModelConfig(**changes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p: p.pop("head"), r"params must be named .*missing or unknown: \['head'\]"),
        (lambda p: p.update(bias=np.zeros(2)), r"missing or unknown: \['bias'\]"),
        (
            lambda p: p.update(head=p["head"].T),
            r"params\['head'\] must be \(16, 13\), got \(13, 16",
        ),
        (lambda p: p.update(final_norm=1.0), r"params\['final_norm'\] must be \(16,\), got \(\)"),
    ],
)
def test_wrong_params_are_named(change, says):
    config = ModelConfig(**SMALL)
    params = random_params(config)
    change(params)
    with pytest.raises(ValueError, match=says):
        Transformer.from_params(config, params)


@pytest.mark.parametrize("k", [0, -1, 3, 1.5, True, "2", None])
def test_first_layers_stay_within_the_model(k):
    with pytest.raises(ValueError, match=f"(k|n_layers)={k!r}"):
        random_model().first_layers(k)


@pytest.mark.parametrize(
    ("arguments", "says"), [((5,), "bits=5"), ((4, 0), "group=0"), ((4.5,), r"bits=4\.5")]
)
def test_wrong_quantisation_is_named(arguments, says):
    with pytest.raises(ValueError, match=says):
        random_model().quantized(*arguments)
