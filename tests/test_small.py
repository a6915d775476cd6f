"""The small models: laws by hand, caches, and the loop at the size of a real vocabulary."""

import numpy as np
import pytest
from models import FIX_C, PROMPT, plain_greedy

from lab.exact import HashLM, SpreadLM, TableLM, audit_loop
from lab.sampling import Sampling
from lab.small import random_laws

REAL = 151_936  # the vocabulary of a real tokenizer
IDS = [0, 77, 100_000, REAL - 1]


# ---- By table, by hash -------------------------------------------------------------------------


def fix_c_logits(text, rotate):
    h = 0
    for j, t in enumerate(text):
        h = (31 * h + (t + 1) * (j + 7)) % 1000003
    logits = [((h * (v + 3) + 977 * v * v) % 10007) / 1000 for v in range(11)]
    if rotate and (sum(text) + len(text)) % 4 == 0:
        logits = logits[1:] + logits[:1]
    return logits


def test_hash_lm_is_fix_c():
    text = np.random.default_rng([41, 0]).integers(0, 11, 60).tolist()
    for rotate in (0, 4):
        model = HashLM(rotate=rotate)
        logits = model.forward(text, model.new_cache())
        expected = [fix_c_logits(text[: i + 1], rotate) for i in range(60)]
        np.testing.assert_array_equal(logits, expected)
    assert plain_greedy(HashLM(), PROMPT, 14) == FIX_C


@pytest.mark.parametrize("model", [HashLM(5, rotate=3), TableLM.random(5, 0, context=2)])
def test_small_models_append_truncate_and_agree_however_rows_are_grouped(model):
    text = [4, 0, 3, 3, 1, 2]
    whole = model.forward(text, model.new_cache())
    assert whole.shape == (6, 5)
    for cut in range(1, 6):
        cache = model.new_cache()
        parts = [model.forward(text[:cut], cache), model.forward(np.array(text[cut:]), cache)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        assert cache.length == 6
        cache.truncate(cut)
        assert cache.length == cut
        np.testing.assert_array_equal(model.forward(text[cut:], cache), whole[cut:])


def test_table_lm_by_hand():
    table = np.arange(27.0).reshape(3, 3, 3)
    model = TableLM(table, max_len=7)
    logits = model.forward([2, 1], model.new_cache())
    np.testing.assert_array_equal(logits, [table[0, 2], table[2, 1]])
    assert (model.vocab, model.max_len) == (3, 7)
    law = TableLM.of_probs([[0, 1.0], [0.5, 0.5]])
    rows = Sampling().probs(law.forward([0, 1], law.new_cache()))
    np.testing.assert_allclose(rows, [[0, 1], [0.5, 0.5]])
    first = TableLM(np.array([1.0, 2]))  # no context at all
    np.testing.assert_array_equal(first.forward([1, 0], first.new_cache()), [[1, 2], [1, 2]])


def test_tables_of_wrong_shapes():
    with pytest.raises(ValueError, match=r"table.*\(2, 3\)"):
        TableLM(np.zeros((2, 3)))


def test_random_tables_repeat_by_seed():
    one, same, other = TableLM.random(3, 1), TableLM.random(3, 1), TableLM.random(3, 2)
    np.testing.assert_array_equal(one.table, same.table)
    assert not np.array_equal(one.table, other.table)


# ---- At the ids of a large vocabulary ----------------------------------------------------------


def spread_pair(ids=IDS, vocab=REAL):
    """Target and draft, small and spread."""
    small = TableLM.random(len(ids), 1, context=2), TableLM.random(len(ids), 2)
    return small, tuple(SpreadLM(model, ids, vocab) for model in small)


def test_spread_logits_by_hand():
    model = SpreadLM(TableLM(np.arange(9.0).reshape(3, 3)), [6, 0, 4], 7)
    cache = model.new_cache()
    logits = model.forward(np.array([4, 6]), cache)
    off = -np.inf
    np.testing.assert_array_equal(
        logits, [[7, off, off, off, 8, off, 6], [1, off, off, off, 2, off, 0]]
    )
    assert cache.length == 2
    cache.truncate(1)
    np.testing.assert_array_equal(model.forward([6], cache), logits[1:])
    np.testing.assert_allclose(
        Sampling().probs(logits[0])[[6, 0, 4]], Sampling().probs(np.array([6.0, 7, 8]))
    )
    assert (model.vocab, model.max_len) == (7, None)
    assert SpreadLM(HashLM(3, max_len=9), [0, 1, 2], 3).max_len == 9


@pytest.mark.parametrize(
    ("ids", "words"),
    [([0, 1], "ids.*3 different"), ([0, 1, 1], "ids.*3 different"), ([0, 1, 7], "ids.*token 7")],
)
def test_ids_that_do_not_fit(ids, words):
    with pytest.raises(ValueError, match=words):
        SpreadLM(TableLM.random(3, 0), ids, 7)


def test_a_token_that_the_model_does_not_have():
    model = SpreadLM(TableLM.random(3, 0), [0, 3, 6], 7)
    with pytest.raises(ValueError, match="5 is none of ids"):
        model.forward([3, 5], model.new_cache())


def assert_same_audit(small, large):
    assert large.total_variation <= 1e-12
    assert large.first_difference is None
    assert (large.leaves, large.depth) == (small.leaves, small.depth)
    for name in ("expected", "exists", "pooled"):
        assert getattr(large, name) == pytest.approx(getattr(small, name), rel=1e-12)


def test_the_loop_at_a_real_vocabulary():
    """The same branches and expectations as at V = 4, with ids 0 and V - 1 among the tokens."""
    small, large = spread_pair()
    assert_same_audit(audit_loop(*small, [0, 1], 3, 1), audit_loop(*large, IDS[:2], 3, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "gamma", "sampling"),
    [
        ("match", 1, Sampling(0.7, top_p=0.9)),
        ("block", 2, Sampling(0.7, top_k=3)),
        ("token", 2, Sampling(0.7, min_p=0.3)),
        ("token", 2, Sampling(0.7, repetition_penalty=1.4)),
    ],
)
def test_rules_and_settings_at_a_real_vocabulary(rule, gamma, sampling):
    ids = [IDS[0], IDS[2], IDS[3]]
    small, large = spread_pair(ids)
    more = {"rule": rule, "sampling": sampling}
    assert_same_audit(
        audit_loop(*small, [0, 1], 3, gamma, **more), audit_loop(*large, ids[:2], 3, gamma, **more)
    )


# ---- For every prefix --------------------------------------------------------------------------


def test_random_laws_by_prefix_are_all_different_and_repeat():
    """Seeds that differ by trailing zeros only are the same to NumPy."""
    prefixes = [(), (0,), (0, 0), (1,), (0, 1)]
    laws = {key: random_laws(3, 5, key) for key in (0, 1)}
    drawn = [tuple(law(prefix)) for law in laws.values() for prefix in prefixes]
    assert len(set(drawn)) == len(drawn)
    again = random_laws(3, 5, 0)
    for prefix in reversed(prefixes):
        np.testing.assert_array_equal(again(prefix), laws[0](prefix))
