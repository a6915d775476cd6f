"""N-grams against a pure-Python oracle of the recursion, and as a language model like any other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.ledger import Ledger
from lab.ngram import FEW_ROWS, NGramLM, TokenCache

V = 5


def oracle(documents, context, order, vocab, strength=2.0, pseudo_count=0.5):
    """The recursion of the module's docstring, by scanning the text again for every number."""
    if order == 1:
        tokens = [token for document in documents for token in document]
        total = len(tokens) + pseudo_count * vocab
        return [(tokens.count(x) + pseudo_count) / total for x in range(vocab)]
    lower = oracle(documents, context, order - 1, vocab, strength, pseudo_count)
    length = order - 1
    if len(context) < length:
        return lower
    context = list(context[len(context) - length :])
    followers = [
        document[i]
        for document in documents
        for i in range(length, len(document))
        if list(document[i - length : i]) == context
    ]
    total = len(followers) + strength
    return [(followers.count(x) + strength * lower[x]) / total for x in range(vocab)]


documents = st.lists(st.lists(st.integers(0, V - 1), max_size=40), min_size=1, max_size=4).filter(
    any
)
orders = st.integers(1, 5)


def text(length, vocab=V, seed=0):
    """A text in which some contexts are common, some are rare and some are never seen."""
    rng = np.random.default_rng([3, seed])
    return np.minimum(rng.geometric(0.4, length) - 1, vocab - 1)


# Against the outside: the recursion, the lesson's formula, hand-worked numbers.


@given(documents, st.lists(st.integers(0, V - 1), max_size=7), orders, st.floats(0.01, 50))
@settings(max_examples=150)
def test_the_recursion_by_brute_force(documents, context, order, strength):
    model = NGramLM(order, V, strength).fit(documents)
    expected = oracle(documents, context, order, V, strength)
    np.testing.assert_allclose(model.probs(context), expected, rtol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_every_context_by_brute_force(order):
    documents = [text(150, 3, seed) for seed in range(2)]
    model = NGramLM(order, 3).fit(documents)
    lists = [document.tolist() for document in documents]
    for context in np.ndindex((3,) * 4):
        expected = oracle(lists, context, order, 3)
        np.testing.assert_allclose(model.probs(context), expected, rtol=1e-13)


def test_order_2_is_the_bigram_of_the_lesson_bit_for_bit():
    """(count + 2 unigram) / (row sum + 2), unigram = (count + .5) normalised."""
    documents = text(128 * 64, 256, seed=1).reshape(64, 128)
    counts = np.zeros((256, 256))
    np.add.at(counts, (documents[:, :-1], documents[:, 1:]), 1)
    unigram = np.bincount(documents.ravel(), minlength=256) + 0.5
    unigram /= unigram.sum()
    expected = (counts + 2 * unigram) / (counts.sum(1, keepdims=True) + 2)

    model = NGramLM(2, 256).fit(documents)
    np.testing.assert_array_equal(model.unigram_, unigram)
    np.testing.assert_array_equal([model.probs([token]) for token in range(256)], expected)
    np.testing.assert_array_equal(model.rows(np.arange(256)), expected)


def test_hand_computed_trigram():
    """0 1 0 1 1, V = 2: unigram (2.5, 3.5)/6; after 1, (1 + 2u)/4; after 0 1, (1 + 2b)/4."""
    model = NGramLM(3, 2).fit([0, 1, 0, 1, 1])
    np.testing.assert_allclose(model.probs([]), [5 / 12, 7 / 12])
    after_1 = np.array([1 + 5 / 6, 1 + 7 / 6]) / 4
    np.testing.assert_allclose(model.probs([1]), after_1)
    np.testing.assert_allclose(model.probs([0, 1]), (1 + 2 * after_1) / 4)
    np.testing.assert_allclose(model.probs([0, 0, 1]), (1 + 2 * after_1) / 4)


def test_n8_an_unseen_context_backs_off_to_a_finite_row():
    model = NGramLM(2, 4).fit([0, 1, 0, 1])
    row = model.probs([3])
    np.testing.assert_allclose(row, np.array([2.5, 2.5, 0.5, 0.5]) / 6)
    logits = model.forward([3], model.new_cache())
    assert np.isfinite(logits).all()
    assert np.exp(logits).sum() == pytest.approx(1, abs=1e-12)


@given(documents, st.lists(st.integers(0, V - 1), min_size=1, max_size=20), orders)
def test_n8_every_row_is_finite_positive_and_sums_to_one(documents, tokens, order):
    model = NGramLM(order, V).fit(documents)
    logits = model.forward(tokens, model.new_cache())
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(np.exp(logits).sum(-1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.rows(tokens).sum(-1), 1, rtol=0, atol=1e-12)


def test_smallest_weights_still_leave_no_probability_zero():
    model = NGramLM(5, V, strength=1e-9, pseudo_count=1e-9).fit(np.zeros(5000, int))
    assert model.probs([0, 0, 0, 0]).min() > 0


def test_a_higher_order_predicts_a_text_with_memory_better():
    tokens = [0, 0, 1, 2, 1, 3] * 200
    losses = []
    for order in (1, 2, 3, 4):
        rows = NGramLM(order, 4).fit(tokens).rows(tokens)
        losses.append(-np.log(rows[np.arange(len(tokens) - 1), tokens[1:]]).mean())
    assert losses[0] > losses[1] > losses[2] > losses[3]
    assert losses[3] < 0.1


# What is counted.


def test_nothing_is_counted_across_documents():
    apart = NGramLM(3, V).fit([[0, 1, 2], [3, 4]])
    for context in ([2], [1, 2], [2, 3]):
        expected = oracle([[0, 1, 2], [3, 4]], context, 3, V)
        np.testing.assert_allclose(apart.probs(context), expected, rtol=1e-13)
    joined = NGramLM(3, V).fit([0, 1, 2, 3, 4])
    assert joined.probs([2])[3] > apart.probs([2])[3]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_forms_of_input_agree(order):
    rows = text(60).reshape(3, 20)
    context = rows[0, :3]
    expected = NGramLM(order, V).fit(rows).probs(context)
    for same in (list(rows), rows.tolist(), rows.astype(np.uint8), tuple(rows.astype(np.uint64))):
        np.testing.assert_array_equal(NGramLM(order, V).fit(same).probs(context), expected)
    one = NGramLM(order, V).fit(rows[:1]).probs(context)
    for same in (rows[0], rows[0].tolist(), [rows[0], []]):
        np.testing.assert_array_equal(NGramLM(order, V).fit(same).probs(context), one)


def test_fit_returns_self_and_starts_afresh():
    model = NGramLM(3, V)
    assert model.fit(text(50)) is model
    model.forward(text(5), model.new_cache())  # fills the store of rows
    model.fit(text(50, seed=1))
    fresh = NGramLM(3, V).fit(text(50, seed=1))
    tokens = text(30, seed=2)
    for n in (5, 30):
        np.testing.assert_array_equal(
            model.forward(tokens[:n], model.new_cache()),
            fresh.forward(tokens[:n], fresh.new_cache()),
        )


def test_a_large_vocabulary_holds_only_what_was_seen():
    vocab = 151_936
    tokens = np.random.default_rng([3, 3]).integers(0, vocab, 3000)
    model = NGramLM(5, vocab).fit(tokens)  # keys of four tokens would overflow int64
    learned = [value for name, value in vars(model).items() if name.endswith("_")]
    assert len(learned) == 6
    assert sum(value.nbytes for value in learned) < 8 * (vocab + 16 * 5 * len(tokens))
    row = model.probs(tokens[:4])
    assert row.argmax() == tokens[4]
    assert row.sum() == pytest.approx(1, abs=1e-12)
    cache = model.new_cache()
    for token in tokens[:40]:  # more rows than are kept
        model.forward([token], cache)
    assert len(model._row_store) < 40


# A language model like any other.


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_pieces_give_the_same_bits_as_the_whole(order):
    model = NGramLM(order, V).fit(text(300))
    tokens = text(4 * FEW_ROWS, seed=5)
    whole = model.forward(tokens, model.new_cache())
    assert whole.shape == (len(tokens), V)
    assert whole.dtype == np.float64
    for width in range(1, FEW_ROWS + 3):
        cache = model.new_cache()
        pieces = [model.forward(tokens[i : i + width], cache) for i in range(0, len(tokens), width)]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)
    rows = model.rows(tokens)
    np.testing.assert_array_equal(np.log(rows), whole)
    np.testing.assert_array_equal(rows, [model.probs(tokens[: i + 1]) for i in range(len(tokens))])


def test_same_bits_for_bytes_and_order_4():
    """Rows of 256 numbers, singly and together: the logarithm must not depend on the grouping."""
    model = NGramLM(4, 256).fit(text(5000, 256, seed=6))
    tokens = text(200, 256, seed=7)
    cache = model.new_cache()
    single = [model.forward([token], cache)[0] for token in tokens]
    np.testing.assert_array_equal(single, model.forward(tokens, model.new_cache()))


@given(st.data())
def test_k8_after_truncation_logits_equal_a_fresh_pass(data):
    model = NGramLM(data.draw(orders), V).fit(text(200))
    cache = model.new_cache()
    kept = []
    for _ in range(4):
        tokens = data.draw(st.lists(st.integers(0, V - 1), max_size=12))
        logits = model.forward(tokens, cache)
        fresh = model.forward(kept + tokens, model.new_cache())
        np.testing.assert_array_equal(logits, fresh[len(kept) :])
        kept += tokens
        assert cache.length == len(kept)
        length = data.draw(st.integers(0, len(kept)))
        cache.truncate(length)
        del kept[length:]
        assert cache.length == length
        assert cache.tokens == kept


@pytest.mark.parametrize("length", [-1, 4])
def test_k6_truncate_outside_the_cache_raises_and_changes_nothing(length):
    model = NGramLM(2, V).fit(text(50))
    cache = model.new_cache()
    model.prefill([1, 2, 3], cache)
    with pytest.raises(ValueError, match=rf"length={length} must be a whole number within 0\.\.3"):
        cache.truncate(length)
    assert cache.tokens == [1, 2, 3]


def test_prefill_appends_without_logits():
    model = NGramLM(4, V).fit(text(200))
    cache, other = model.new_cache(), model.new_cache()
    assert model.prefill([0, 1, 2], cache) is None
    model.forward([0, 1, 2], other)
    assert cache.tokens == other.tokens
    np.testing.assert_array_equal(model.forward([1], cache), model.forward([1], other))


def test_no_tokens_give_no_rows():
    model = NGramLM(3, V).fit(text(50))
    cache = model.new_cache()
    assert model.forward([], cache).shape == (0, V)
    assert model.rows([]).shape == (0, V)
    assert cache.length == 0


def test_caches_share_nothing():
    model = NGramLM(3, V).fit(text(50))
    first, second = model.new_cache(), model.new_cache()
    model.forward([1, 2], first)
    assert (first.length, second.length) == (2, 0)
    assert isinstance(first, TokenCache)
    assert (model.vocab, model.max_len) == (V, None)


def test_d10_what_a_caller_does_to_a_result_stays_with_the_caller():
    model = NGramLM(2, V).fit(text(50))
    for result in (
        lambda: model.forward([1], model.new_cache()),
        lambda: model.probs([1]),
        lambda: model.probs([]),
        lambda: model.rows([1]),
    ):
        kept = result().copy()
        result()[...] = np.nan
        np.testing.assert_array_equal(result(), kept)


# The ledger.


def test_ledger_counts_the_numbers_read_and_no_flops():
    """After 0 1 in 0 1 0 1 1: V numbers, and 2 for each of {0, 1} after 1, and after 0 1."""
    model = NGramLM(3, 2).fit([0, 1, 0, 1, 1])
    ledger, cache = Ledger(), model.new_cache()
    model.prefill([0], cache, ledger)
    assert ledger.rows() == []
    model.forward([1], cache, ledger)
    assert ledger.total("weight_bytes", "embedding") == 2 * (2 + 2 * 2 + 2 * 2)
    assert ledger.total("flops") == 0
    assert ledger.total("kv_read_bytes") == 0
    assert len(ledger.rows()) == 1


@given(st.lists(st.integers(0, V - 1), min_size=1, max_size=25), orders)
def test_ledger_does_not_depend_on_the_grouping(tokens, order):
    model = NGramLM(order, V).fit(text(100))
    whole, single = Ledger(), Ledger()
    model.forward(tokens, model.new_cache(), whole)
    cache = model.new_cache()
    for token in tokens:
        model.forward([token], cache, single)
    assert whole.rows() == single.rows()
    if order == 1:
        assert whole.total("weight_bytes") == 2 * V * len(tokens)


# Bad input.


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: NGramLM(0, V), r"order=0 must be a whole number within 1\.\.5"),
        (lambda: NGramLM(6, V), r"order=6 must be a whole number within 1\.\.5"),
        (lambda: NGramLM(2.0, V), r"order=2.0 must be a whole number"),
        (lambda: NGramLM(2, 0), r"vocab=0 must be a whole number >= 1"),
        (lambda: NGramLM(2, V, strength=0), r"strength=0 must be finite and at least 1e-09"),
        (lambda: NGramLM(2, V, strength=np.nan), r"strength=nan must be"),
        (lambda: NGramLM(2, V, pseudo_count=np.inf), r"pseudo_count=inf must be"),
        (lambda: NGramLM(2, V).fit([]), r"tokens must hold at least one token"),
        (lambda: NGramLM(2, V).fit(np.zeros((2, 0), int)), r"tokens must hold at least one token"),
        (lambda: NGramLM(2, V).fit([0, V]), r"token 5 is not within 0\.\.4"),
        (lambda: NGramLM(2, V).fit([[0, 1], [-1]]), r"token -1 is not within 0\.\.4"),
        (lambda: NGramLM(2, V).fit([0.5]), r"tokens must be whole numbers, got dtype float64"),
        (lambda: NGramLM(2, V).fit(np.zeros((1, 2, 3), int)), r"tokens must be .*\(1, 2, 3\)"),
        (lambda: NGramLM(2, V).new_cache(), r"call fit\(tokens\) first"),
        (lambda: NGramLM(2, V).probs([0]), r"call fit\(tokens\) first"),
        (lambda: NGramLM(2, V).rows([0]), r"call fit\(tokens\) first"),
    ],
)
def test_bad_calls_name_argument_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize("bad", [[0, V], [-1], [0.0], [[0, 1]], [True]])
@pytest.mark.parametrize("method", ["forward", "prefill"])
def test_a_refused_call_leaves_the_cache_as_it_was(method, bad):
    model = NGramLM(3, V).fit(text(50))
    cache = model.new_cache()
    model.forward([1, 2], cache)
    with pytest.raises(ValueError, match="token"):
        getattr(model, method)(bad, cache)
    assert cache.tokens == [1, 2]
