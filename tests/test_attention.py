"""The cache and the attention over it: whatever the way a text was fed, as if it were fed whole.

Equal bits are asked for where this machine's products give them (see `tests/test_linear.py`), else
equality within rounding.
"""

import copy

import numpy as np
import pytest
from models import assert_same

from lab.transformer import KVCache, ModelConfig, Transformer

SMALL = {"vocab": 23, "d_model": 16, "n_layers": 2, "n_heads": 4, "d_ff": 24, "max_len": 100}
VARIANTS = [
    {"n_kv_heads": 2},
    {"n_kv_heads": 1, "norm": "layer", "bias": True},
    {"positions": "learned", "activation": "gelu", "head_dim": 5, "tied": True},
    {"n_kv_heads": 2, "dtype": "float64"},
]
ROWS = (0, 1, 5, 20)  # lengths that matter: none, one, a few, most of the first span


def model(**changes):
    return Transformer.init(ModelConfig(**SMALL | changes), seed=1)


@pytest.fixture(params=VARIANTS, ids=lambda v: "-".join(map(str, v.values())))
def lm(request):
    return model(**request.param)


def text(*shape, seed=0):
    return np.random.default_rng([12, seed]).integers(0, SMALL["vocab"], shape)


def fed(lm, *parts):
    """Logits (T, V) of a text fed in parts to one cache, and the cache."""
    cache = lm.new_cache()
    return np.concatenate([lm.forward(part, cache) for part in parts if len(part)]), cache


def held(cache):
    """Keys and values that the cache holds, copied: one pair per sequence."""
    lengths = np.atleast_1d(cache.length)
    width = cache.keys.shape[3]
    return [
        (cache.keys[:, b, :, :, :n].copy(), cache.values[:, b, :, :n, :width].copy())
        for b, n in enumerate(lengths)
    ]


def assert_holds(cache, expected):
    for pair, wanted in zip(held(cache), expected, strict=True):
        for actual, array in zip(pair, wanted, strict=True):
            assert_same(actual, array)


def poison(cache, value):
    """Write `value` into every key and value beyond the lengths."""
    for b, n in enumerate(np.atleast_1d(cache.length)):
        cache.keys[:, b, :, :, n:] = value
        cache.values[:, b, :, n:] = value


# ---- One sequence ------------------------------------------------------------------------------


def averager():
    """A model that writes out what it attends to, uniformly: logit 0 / logit 1 is the mean of the
    tokens it sees, which are their own values.

    Residual: (mean, 1, cos, sin) with cos = token / 5, so that every norm divides by one number.
    """
    config = ModelConfig(
        vocab=6, d_model=4, n_layers=1, n_heads=1, head_dim=2, d_ff=1, max_len=8, eps=1e-12,
        dtype="float64",
    )  # fmt: skip
    params = {name: np.zeros(shape) for name, shape in config.shapes().items()}
    cos = np.arange(6) / 5
    params["embedding"] = np.stack([0 * cos, 1 + 0 * cos, cos, np.sqrt(1 - cos**2)], axis=1)
    for name in ("layers.0.attn_norm", "layers.0.mlp_norm", "final_norm"):
        params[name] = np.ones(4)
    params["layers.0.qkv"][2, 4] = 5 * np.sqrt(0.5)  # columns: query 0 1, key 2 3, value 4 5
    params["layers.0.attn_out"][0, 0] = 1
    params["head"][0, 0] = params["head"][1, 1] = 1
    return Transformer.from_params(config, params)


def test_k7_two_new_rows_see_the_three_cached_and_not_the_future():
    lm = averager()
    cache = lm.new_cache()
    lm.prefill([1, 2, 3], cache)
    logits = lm.forward([4, 5], cache)
    np.testing.assert_allclose(logits[:, 0] / logits[:, 1], [2.5, 3.0], rtol=1e-10)


def test_k7_two_tokens_equal_two_single_forwards():
    lm, tokens = model(dtype="float64"), text(9)
    together, _ = fed(lm, tokens[:7], tokens[7:])
    singly, _ = fed(lm, tokens[:7], tokens[7:8], tokens[8:])
    np.testing.assert_allclose(together, singly, rtol=0, atol=1e-10)


def test_every_split_of_a_text_in_two(lm):
    tokens = text(50)
    whole, cache = fed(lm, tokens)
    for cut in range(1, 50):
        parts, other = fed(lm, tokens[:cut], tokens[cut:])
        assert_same(parts, whole)
        assert_holds(other, held(cache))


@pytest.mark.parametrize("width", range(1, 10))
def test_k16_every_width(lm, width):
    tokens = text(60)
    whole, _ = fed(lm, tokens)
    parts, cache = fed(lm, *(tokens[i : i + width] for i in range(0, 60, width)))
    assert_same(parts, whole)
    assert cache.length == 60


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"n_heads": 1, "head_dim": 256, "max_len": 1312}, 1296),  # an odd number of rows is cut
        ({"n_heads": 12, "n_kv_heads": 1, "head_dim": 64, "max_len": 640}, 602),  # wide groups
        ({"n_heads": 12, "n_kv_heads": 1, "head_dim": 64, "max_len": 1248}, 1210),  # one is large
    ],
)
def test_every_width_where_the_span_is_long(changes, seen):
    lm = model(n_layers=1, **changes)
    tokens = text(seen + 12)
    start = lm.new_cache()
    lm.prefill(tokens[:seen], start)
    whole = lm.forward(tokens[seen:], copy.deepcopy(start))
    for width in (1, 2, 3, 4, 5, 8):
        cache = copy.deepcopy(start)
        parts = [lm.forward(tokens[i : i + width], cache) for i in range(seen, seen + 12, width)]
        assert_same(np.concatenate(parts), whole)


def test_prefill_leaves_the_cache_that_forward_leaves(lm):
    tokens = text(41)
    _, cache = fed(lm, tokens)
    other = lm.new_cache()
    assert lm.prefill(tokens[:1], other) is None
    assert other.length == 1
    lm.prefill(tokens[1:], other)
    assert_holds(other, held(cache))
    assert_same(lm.forward(text(3), other), lm.forward(text(3), cache))


def test_k8_rollback_and_another_continuation_equal_a_fresh_pass(lm):
    tokens, other = text(40), text(6, seed=1)
    _, cache = fed(lm, tokens)
    for keep in (40, 39, 33, 32, 31, 17, 16, 15, 5, 1, 0):
        cache.truncate(keep)
        assert cache.length == keep
        fresh, _ = fed(lm, np.concatenate((tokens[:keep], other)))
        assert_same(lm.forward(other, cache), fresh[keep:])
        cache.truncate(keep)


def test_rounds_of_speculation_leave_no_trace(lm):
    """Forward of a few rows, rollback of some, as a loop does; the kept text is fed fresh."""
    rng = np.random.default_rng(13)
    cache, kept = lm.new_cache(), []
    while len(kept) < 80:
        rows = rng.integers(0, SMALL["vocab"], rng.integers(1, 10))
        logits = lm.forward(rows, cache)
        accepted = int(rng.integers(1, len(rows) + 1))
        kept += rows[:accepted].tolist()
        cache.truncate(len(kept))
        fresh, _ = fed(lm, kept)
        assert_same(logits[:accepted], fresh[-accepted:])


# Overflow in what is then thrown away is worth a warning of NumPy's, not an error.
stale_overflow = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
STALE = (np.nan, np.inf, -np.inf, 1e9, np.finfo(np.float32).max)


@stale_overflow
@pytest.mark.parametrize("value", STALE)
@pytest.mark.parametrize("keep", ROWS)
def test_k9_what_lies_beyond_the_length_does_not_change_a_bit(lm, keep, value):
    tokens, after = text(40), text(3, seed=1)
    expected = fed(lm, tokens[:keep], after)[0][keep:]
    _, cache = fed(lm, tokens)
    cache.truncate(keep)
    poison(cache, value)
    np.testing.assert_array_equal(lm.forward(after, cache), expected)
    cache.truncate(keep)
    poison(cache, value)
    lm.prefill(after[:1], cache)
    poison(cache, value)
    np.testing.assert_array_equal(lm.forward(after[1:2], cache), expected[1:2])


@stale_overflow
@pytest.mark.parametrize("value", STALE)
@pytest.mark.parametrize("which", ["keys", "values"])
def test_k9_keys_or_values_alone(which, value):
    lm, tokens, after = model(n_kv_heads=2), text(20), text(2, seed=1)
    expected = fed(lm, tokens[:7], after)[0][7:]
    _, cache = fed(lm, tokens)
    cache.truncate(7)
    array = cache.keys if which == "keys" else cache.values.swapaxes(3, 4)
    array[..., 7:] = value
    np.testing.assert_array_equal(lm.forward(after, cache), expected)


def test_k10_every_growth_boundary_equals_a_preallocated_cache(lm):
    tokens = text(SMALL["max_len"])
    whole, roomy = fed(lm, tokens)
    contents = held(roomy)
    roomy.truncate(0)
    growing = lm.new_cache()
    capacities = set()
    for i in range(len(tokens)):
        logits = lm.forward(tokens[i : i + 1], growing)
        assert_same(logits, lm.forward(tokens[i : i + 1], roomy))
        assert_same(logits, whole[i : i + 1])
        capacities.add(growing.keys.shape[-1])
    assert len(capacities) > 1, "the cache has grown on the way"
    assert_holds(growing, contents)
    assert_holds(roomy, contents)


def test_k10_growth_keeps_heads_and_layers_apart():
    """Every (layer, head, position) marked by its own number, then the cache grows."""
    lm = model(n_kv_heads=2)
    cache = lm.new_cache()
    lm.prefill(text(9), cache)
    layers, heads, width = len(cache.keys), cache.keys.shape[2], cache.keys.shape[3]
    marks = np.arange(layers * heads * 9).reshape(layers, heads, 9)
    cache.keys[:, 0, :, :, :9] = marks[:, :, None]
    cache.values[:, 0, :, :9, :width] = marks[..., None]
    held_before, capacity = held(cache), cache.keys.shape[-1]
    lm.prefill(text(capacity), cache)
    assert cache.keys.shape[-1] > capacity
    cache.truncate(9)
    assert_holds(cache, held_before)


def test_k11_a_snapshot_is_not_changed_by_what_comes_after(lm):
    tokens = text(12)
    _, cache = fed(lm, tokens)
    snapshot = copy.deepcopy(cache)
    kept = held(snapshot)
    expected = lm.forward(text(4, seed=1), copy.deepcopy(snapshot))
    lm.forward(text(30, seed=2), cache)
    cache.truncate(5)
    lm.forward(text(9, seed=3), cache)
    assert snapshot.length == 12
    assert_holds(snapshot, kept)
    assert_same(lm.forward(text(4, seed=1), snapshot), expected)


def test_caches_of_one_model_are_independent_and_logits_stay():
    lm = model()
    tokens = text(2, 30)
    expected = [fed(lm, row)[0] for row in tokens]
    caches = [lm.new_cache(), lm.new_cache()]
    seen = [[], []]
    for start in range(0, 30, 3):
        for i in (0, 1):
            seen[i].append(lm.forward(tokens[i, start : start + 3], caches[i]))
    for i in (0, 1):  # logits given out earlier were not written over
        assert_same(np.concatenate(seen[i]), expected[i])


# ---- truncate ----------------------------------------------------------------------------------


def test_k6_truncate_is_absolute_and_the_length_follows():
    _, cache = fed(model(), text(10))
    for length in (10, 7, np.int64(7), 3, 0, 0):
        assert cache.truncate(length) is None
        assert cache.length == length
        assert type(cache.length) is int


@pytest.mark.parametrize("length", [11, -1, 3.0, 2.5, np.nan, True, None, "3", [3], 2**40])
def test_k6_truncate_refuses_what_it_cannot_do(length):
    lm = model()
    _, cache = fed(lm, text(10))
    kept = held(cache)
    with pytest.raises(ValueError, match="length"):
        cache.truncate(length)
    assert cache.length == 10
    assert_holds(cache, kept)


def test_k6_the_error_names_the_length_and_what_is_allowed():
    _, cache = fed(model(), text(10))
    with pytest.raises(ValueError, match=r"length=11 must be whole and within 0\.\.10"):
        cache.truncate(11)


@pytest.mark.parametrize("lengths", [[3, 7], [-1, 0], [3.0, 1.0], [1, 2, 3], 3, [[1, 2]]])
def test_k6_truncate_of_a_batch_refuses_too(lengths):
    lm = model()
    cache = lm.new_cache(2)
    lm.prefill(text(2, 6), cache, counts=[4, 6])
    kept = held(cache)
    with pytest.raises(ValueError, match="length"):
        cache.truncate(lengths)
    assert cache.length.tolist() == [4, 6]
    assert_holds(cache, kept)


def test_lengths_given_out_are_copies():
    lm = model()
    cache = lm.new_cache(2)
    lm.prefill(text(2, 6), cache)
    lengths, wanted = cache.length, np.array([2, 3])
    lengths[:] = 0
    cache.truncate(wanted)
    wanted[:] = 0
    assert cache.length.tolist() == [2, 3]


# ---- Batches -----------------------------------------------------------------------------------


class OneByOne:
    """What a batch should do: a plain cache for every sequence."""

    def __init__(self, lm, batch):
        self.lm, self.caches = lm, [lm.new_cache() for _ in range(batch)]

    def assert_equal(self, tokens, counts, logits, cache):
        """Feed the real tokens, and compare logits (B, T, V), lengths and contents."""
        for b, plain in enumerate(self.caches):
            real = tokens[b, : counts[b]]
            if len(real):
                assert_same(logits[b, : counts[b]], self.lm.forward(real, plain))
            assert not logits[b, counts[b] :].any(), "logits that are not real are 0"
        assert cache.length.tolist() == [plain.length for plain in self.caches]
        assert_holds(cache, [held(plain)[0] for plain in self.caches])


def ragged(rng, batch, width):
    """Tokens (B, T) with rubbish where they are not real, and counts (B,), some 0, not all."""
    counts = rng.integers(0, width + 1, batch)
    counts[rng.integers(batch)] = rng.integers(1, width + 1)
    tokens = rng.integers(0, SMALL["vocab"], (batch, width))
    tokens[np.arange(width) >= counts[:, None]] = rng.choice([-1, 10**6])
    return tokens, counts


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_ragged_batches_equal_one_at_a_time(lm, batch):
    """Rounds of a random width, rolled back by random amounts, sequences leaving on the way."""
    rng = np.random.default_rng([14, batch])
    cache, single = lm.new_cache(batch), OneByOne(lm, batch)
    while cache.length.max() <= 64:
        tokens, counts = ragged(rng, len(single.caches), int(rng.integers(1, 10)))
        single.assert_equal(tokens, counts, lm.forward(tokens, cache, counts=counts), cache)
        keep = cache.length - rng.integers(0, counts // 2 + 1)
        cache.truncate(keep)
        for plain, length in zip(single.caches, keep.tolist(), strict=True):
            plain.truncate(length)
        if len(single.caches) > 1 and rng.random() < 0.1:
            rows = rng.permutation(len(single.caches))[:-1]
            cache.select(rows)
            single.caches = [single.caches[row] for row in rows]
    assert batch == 1 or len(single.caches) < batch, "one has left on the way"


def test_a_batch_without_counts_is_all_real(lm):
    tokens = text(3, 7)
    cache, single = lm.new_cache(3), OneByOne(lm, 3)
    single.assert_equal(tokens, [7, 7, 7], lm.forward(tokens, cache), cache)
    again = lm.new_cache(3)
    logits = lm.forward(tokens, again, counts=[7, 7, 7])
    again.truncate([0, 0, 0])
    assert_same(logits, lm.forward(tokens, again))


@pytest.mark.parametrize("counts", [[1, 0, 0], [0, 0, 1], [0, 3, 0], [2, 0, 1], [1, 1, 1]])
def test_rows_without_tokens(lm, counts):
    tokens = text(3, 3)
    cache, single = lm.new_cache(3), OneByOne(lm, 3)
    start = text(3, 40, seed=1)
    for lengths in ([0, 0, 0], [40, 3, 17]):
        if any(lengths):
            single.assert_equal(start, lengths, lm.forward(start, cache, counts=lengths), cache)
        single.assert_equal(tokens, counts, lm.forward(tokens, cache, counts=counts), cache)


def test_ragged_prefill_leaves_the_cache_that_forward_leaves(lm):
    tokens, counts = text(3, 9), [9, 0, 4]
    by_forward, by_prefill = lm.new_cache(3), lm.new_cache(3)
    lm.forward(tokens, by_forward, counts=counts)
    assert lm.prefill(tokens, by_prefill, counts=counts) is None
    assert by_prefill.length.tolist() == counts
    assert_holds(by_prefill, held(by_forward))


@stale_overflow
@pytest.mark.parametrize("value", STALE)
def test_k9_in_batches(lm, value):
    tokens, after = text(3, 40), text(3, 4, seed=1)
    lengths, counts = np.array([20, 0, 33]), [1, 4, 0]
    single = OneByOne(lm, 3)
    for row, length, plain in zip(tokens, lengths, single.caches, strict=True):
        if length:
            lm.prefill(row[:length], plain)
    cache = lm.new_cache(3)
    lm.prefill(tokens, cache)
    cache.truncate(lengths)
    for counts in ([1, 4, 0], [0, 0, 2], [4, 4, 4]):
        poison(cache, value)
        single.assert_equal(after, counts, lm.forward(after, cache, counts=counts), cache)


def test_k10_a_batch_grows_with_its_longest_sequence(lm):
    cache, single = lm.new_cache(2), OneByOne(lm, 2)
    for start in range(0, SMALL["max_len"], 10):
        tokens, counts = text(2, 10, seed=start), [10, 1]
        single.assert_equal(tokens, counts, lm.forward(tokens, cache, counts=counts), cache)


def test_select_keeps_these_in_this_order():
    lm = model(n_kv_heads=2)
    cache = lm.new_cache(4)
    lm.prefill(text(4, 8), cache, counts=[8, 2, 5, 1])
    before = held(cache)
    cache.select([2, 0])
    assert cache.length.tolist() == [5, 8]
    assert_holds(cache, [before[2], before[0]])
    cache.select(np.array([1]))
    assert cache.length.tolist() == [8]
    assert_holds(cache, [before[0]])


def test_k11_select_copies():
    lm = model()
    cache = lm.new_cache(3)
    lm.prefill(text(3, 8), cache)
    for rows in ([0, 1, 2], [0, 1], [1]):
        snapshot = copy.copy(cache)  # shares the arrays
        kept = held(snapshot)
        cache.select(rows)
        assert not np.shares_memory(cache.keys, snapshot.keys)
        assert not np.shares_memory(cache.values, snapshot.values)
        cache.truncate([0] * len(rows))
        lm.forward(text(len(rows), 8, seed=1), cache)
        assert snapshot.length.tolist() == [8] * snapshot.batch
        assert_holds(snapshot, kept)


def test_k11_a_sequence_selected_twice_goes_two_ways():
    lm, tokens = model(), text(1, 6)
    cache = lm.new_cache(1)
    lm.prefill(tokens, cache)
    cache.select([0, 0])
    after = text(2, 3, seed=1)
    logits = lm.forward(after, cache)
    for b in (0, 1):
        assert_same(logits[b], fed(lm, tokens[0], after[b])[0][6:])


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([3], r"rows=\[3\] must be whole numbers within 0\.\.2"),
        ([0, -1], r"rows=\[0, -1\]"),
        ([[0, 1]], r"rows=\[\[0, 1\]\]"),
        (1, r"rows=1"),
        ([0.5], r"rows=.*0\.5"),
        ([1.0], r"rows=.*1\.0"),
        ([False, True, True], r"rows=.*False, True"),  # a mask is not a list of rows
    ],
)
def test_select_refuses_what_it_cannot_do(rows, says):
    cache = model().new_cache(3)
    with pytest.raises(ValueError, match=says):
        cache.select(rows)
    assert cache.length.tolist() == [0, 0, 0]


def test_select_needs_a_batch():
    with pytest.raises(ValueError, match="select needs a cache made with new_cache"):
        model().new_cache().select([0])


# ---- Sizes, limits and dtypes ------------------------------------------------------------------


def test_new_caches_are_empty():
    lm = model()
    assert lm.new_cache().length == 0
    assert lm.new_cache(3).length.tolist() == [0, 0, 0]
    assert isinstance(lm.new_cache(), KVCache)


@pytest.mark.parametrize("batch", [0, -1, 1.5, 2.0, "2", True])
def test_a_batch_is_a_whole_number_above_zero(batch):
    with pytest.raises(ValueError, match=f"batch={batch!r}"):
        model().new_cache(batch)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_cache_has_the_dtype_of_the_model(dtype):
    lm = model(dtype=dtype)
    for batch in (None, 2):
        cache = lm.new_cache(batch)
        shape = (40,) if batch is None else (batch, 40)
        for _ in range(2):  # empty, and grown
            assert cache.keys.dtype == cache.values.dtype == dtype
            lm.forward(text(*shape), cache)


@pytest.mark.parametrize("max_len", [1, 15, 16, 17, 33, 100])
def test_exactly_max_len_positions_fit(max_len):
    lm, tokens = model(max_len=max_len), text(max_len)
    whole, cache = fed(lm, tokens)
    assert cache.length == max_len
    singly, _ = fed(lm, *tokens[:, None])
    assert_same(singly, whole)
    kept = held(cache)
    with pytest.raises(ValueError, match=f"position {max_len + 1}, max_len={max_len}"):
        lm.forward([0], cache)
    assert cache.length == max_len
    assert_holds(cache, kept)


BAD_TOKENS = {
    "token too large": ([1, 23], None, r"token 23 is not within 0\.\.22"),
    "token below 0": ([-1, 1], None, "token -1 "),
    "no token": ([], None, r"tokens must be \(T,\) with T >= 1, got shape \(0,\)"),
    "a number": (3, None, r"tokens must be \(T,\).*got shape \(\)"),
    "two rows": ([[1], [2]], None, r"tokens must be \(T,\).*got shape \(2, 1\)"),
    "floats": ([1.0], None, "tokens must be whole numbers, got dtype float64"),
    "bools": ([True], None, "tokens must be whole numbers, got dtype bool"),
    "too long": ([1] * 91, None, r"position 101, max_len=100 \(cache length 10"),
    "counts without a batch": ([1, 2], [2], r"counts=\[2\] must be None"),
}
BAD_BATCHES = {
    "token too large": ([[1, 2], [3, 23]], None, "token 23 "),
    "real token below 0": ([[1, -7], [3, -1]], [2, 1], "token -7 "),
    "one row": ([1, 2], None, r"tokens must be \(B=2, T\).*got shape \(2,\)"),
    "three rows": ([[1]] * 3, None, r"tokens must be \(B=2, T\).*got shape \(3, 1\)"),
    "no token": ([[], []], None, r"tokens must be \(B=2, T\) with T >= 1, got shape \(2, 0\)"),
    "too long": ([[1] * 91] * 2, None, r"max_len=100 \(cache length \[10  4\]"),
    "one too long": ([[1] * 91] * 2, [91, 1], r"position 101, max_len=100"),
    "count above width": ([[1, 2]] * 2, [3, 1], r"counts=\[3, 1\] must be .*0\.\.2"),
    "count below 0": ([[1, 2]] * 2, [-1, 1], r"counts=\[-1, 1\]"),
    "all counts 0": ([[1, 2]] * 2, [0, 0], r"counts=\[0, 0\] .*not all 0"),
    "counts too many": ([[1, 2]] * 2, [1, 1, 1], r"counts=\[1, 1, 1\] must be \(B=2,\)"),
    "counts floats": ([[1, 2]] * 2, [1.0, 2.0], r"counts=\[1\.0, 2\.0\]"),
    "counts a number": ([[1, 2]] * 2, 1, "counts=1 "),
}


@pytest.mark.parametrize("call", ["forward", "prefill"])
@pytest.mark.parametrize("batch", [None, 2])
def test_wrong_calls_name_the_value_and_change_nothing(batch, call):
    lm = model()
    for tokens, counts, says in (BAD_BATCHES if batch else BAD_TOKENS).values():
        cache = lm.new_cache(batch)
        if batch:
            lm.prefill(text(2, 10), cache, counts=[10, 4])
        else:
            lm.prefill(text(10), cache)
        kept, length = held(cache), cache.length
        with pytest.raises(ValueError, match=says):
            getattr(lm, call)(tokens, cache, counts=counts)
        np.testing.assert_array_equal(cache.length, length)
        assert_holds(cache, kept)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_tokens_of_any_integer_type(dtype):
    lm, tokens = model(), text(9)
    np.testing.assert_array_equal(fed(lm, tokens.astype(dtype))[0], fed(lm, tokens)[0])
    np.testing.assert_array_equal(fed(lm, tokens.tolist())[0], fed(lm, tokens)[0])
