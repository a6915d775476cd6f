"""Drafts that are drawn when they are first looked at: the law of a round is the same."""

import copy
import functools
from fractions import Fraction

import numpy as np
import pytest

from lab.exact import branches, round_law
from lab.rule_round import Deferred, Rows
from lab.sampling import residual
from lab.verify import as_rule, chain_rule


class FractionLaws:
    """Random laws in fractions, by prefix."""

    def __init__(self, vocab, seed):
        self.vocab, self.seed = vocab, seed
        self.target = functools.cache(functools.partial(self._law, 0))
        self.draft = functools.cache(functools.partial(self._law, 1))

    def _law(self, which, prefix):
        rng = np.random.default_rng([self.seed, which, *prefix])
        shares = rng.integers(0, 5, self.vocab) + (np.arange(self.vocab) == 1)
        return np.array([Fraction(int(n), int(shares.sum())) for n in shares], object)


def by_arrays(target_probs, draft_probs, drafts, dice):
    """The token rule on whole arrays at once."""
    rows = np.arange(len(drafts))
    ratios = np.asarray(target_probs)[rows, np.asarray(drafts)] / draft_probs[rows, drafts[:]]
    coins = np.minimum(ratios, 1)
    corrections = residual(target_probs[:-1], draft_probs * 1)
    for i in rows:
        if not dice.accept(coins[i]):
            return int(i), dice.choose(corrections[i])
    return len(drafts), dice.choose(target_probs[-1])


def from_behind(target_probs, draft_probs, drafts, dice):
    """The token rule that looks at its last draft first, and at rows by tuple and slice."""
    assert drafts[-1] in list(drafts)
    for i in range(drafts.shape[0]):
        x = drafts[i]
        if not dice.accept(min(1, target_probs[i, x] / draft_probs[i][x])):
            return i, dice.choose(residual(target_probs[i : i + 1][0], draft_probs[i, :]))
    return len(drafts), dice.choose(target_probs[target_probs.shape[0] - 1, ...])


def writes(target_probs, draft_probs, drafts, dice):
    """Spoils the rows it is done with, as it may, and finds them spoilt."""
    for i, x in enumerate(drafts):
        p, q = target_probs[i].copy(), draft_probs[i].copy()
        target_probs[i][:] = 0
        draft_probs[i][:] = 1
        assert not target_probs[i].any()
        assert draft_probs[i].sum() == len(p)
        if not dice.accept(min(1, p[x] / q[x])):
            return i, dice.choose(residual(p, q))
    return len(drafts), dice.choose(target_probs[len(drafts)])


RULES = {
    "token": "token",
    "block": "block",
    "match": "match",
    "arrays": chain_rule(by_arrays),
    "behind": chain_rule(from_behind),
    "writes": chain_rule(writes),
}


def deferred_law(rule, laws, gamma):
    """The law of a round whose drafts are deferred, how many branches it has, and what was read."""
    law, plays = {}, []

    def run(dice):
        plays.append(Deferred(laws, gamma, dice))
        return plays[-1].play(as_rule(rule))

    for leaf in branches(run):
        law[leaf.result] = law.get(leaf.result, 0) + leaf.probability
        plays[-1].emitted = leaf.result
    return law, plays


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("vocab", "gamma"), [(2, 3), (3, 1), (3, 2)])
def test_the_law_of_a_round_is_that_of_eager_drafts(name, vocab, gamma):
    for seed in range(3):
        laws = FractionLaws(vocab, seed)
        law, _ = deferred_law(RULES[name], laws, gamma)
        assert law == round_law(RULES[name], laws.target, laws.draft, gamma)
        assert sum(law.values()) == 1


def test_only_what_was_looked_at_is_drawn_and_read():
    laws = FractionLaws(3, 0)
    for name in ("token", "match", "writes"):
        _, plays = deferred_law(RULES[name], laws, 3)
        assert all(p.depth < len(p.emitted) for p in plays), name
        assert {len(p.drafts) for p in plays} == {1, 2, 3}
        eager = sum(1 for _ in branches(lambda dice, name=name: _eager(RULES[name], laws, dice)))
        assert len(plays) < eager
    for name in ("block", "arrays", "behind"):
        _, plays = deferred_law(RULES[name], laws, 3)
        assert {len(p.drafts) for p in plays} == {3}, name
        assert any(p.depth >= len(p.emitted) for p in plays)


def _eager(rule, laws, dice):
    """All three drafts drawn first."""
    one = Deferred(laws, 3, dice)
    one._draw(3)
    return one.play(as_rule(rule))


def test_a_rule_that_looks_at_nothing_reads_nothing():
    one = Deferred(FractionLaws(3, 0), 2, None)
    assert one.play(chain_rule(lambda p, q, drafts, dice: (0, 2))) == (2,)
    assert (one.drafts, one.depth) == ([], -1)


def rows(made, shape=(4, 3), dtype=object):
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)

    def make(i):
        made.append(i)
        return values[i]

    return Rows(shape, dtype, make), values


INDEXES = (
    0, 2, -1, (1, 2), (np.int64(1), np.int64(2)), (-1, -1), slice(1, 3), slice(None), slice(0, 0),
    slice(None, None, -1), [0, 2], np.array([True, False, True, False]), (slice(0, 2), 1), ...,
    (..., 0), np.arange(2), (np.arange(2), np.arange(2)), None, (0, None), (),
)  # fmt: skip


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_indexing_is_numpys(index):
    lazy, values = rows([])
    np.testing.assert_array_equal(lazy[index], values[index])


def test_rows_are_made_in_order_up_to_the_last_one_asked_for():
    for index, expected in ((0, 1), (2, 3), ((1, 2), 2), (-1, 4), (slice(0, 2), 2), ([0, 1], 4)):
        made = []
        lazy, _ = rows(made)
        assert lazy.shape == (4, 3)
        assert (len(lazy), lazy.ndim, lazy.dtype) == (4, 2, object)
        assert made == []
        lazy[index]
        lazy[0]
        assert made == list(range(expected))


def test_out_of_range_is_an_index_error():
    for index in (4, -5, (4, 0), (0, 3)):
        with pytest.raises(IndexError):
            rows([])[0][index]


def test_everything_else_is_numpys():
    lazy, values = rows([], dtype=np.int64)
    for work in (
        np.asarray, np.copy, copy.copy, copy.deepcopy, list, len, repr,
        lambda a: a + 1, lambda a: 1 - a, lambda a: a @ a.T, lambda a: a.sum(axis=1),
        lambda a: np.maximum(a, 4), lambda a: np.where(a > 3, a, 0), lambda a: np.zeros_like(a),
        lambda a: a.tolist(), lambda a: a.T.shape, lambda a: a.size, lambda a: 5 in a,
        lambda a: np.add(a, a, out=np.zeros((4, 3), np.int64)), lambda a: np.array(a, float),
    ):  # fmt: skip
        if work is not repr:
            np.testing.assert_array_equal(work(lazy), work(values))
    lazy += 1
    np.testing.assert_array_equal(lazy, values + 1)
    lazy[1:3] = 7
    assert (np.asarray(lazy)[1:3] == 7).all()
    with pytest.raises(AttributeError):
        rows([])[0].no_such_thing  # noqa: B018
    assert repr(rows([])[0]) == "Rows(shape=(4, 3), 0 made)"
