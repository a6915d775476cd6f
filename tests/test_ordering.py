"""Order along texts: exact where order cannot matter, the harmonic mean where texts differ."""

import numpy as np
import pytest

from lab import ordering
from lab.acceptance import Along, sign_of
from lab.chains import clustered_limits
from lab.replay import rounds_along
from lab.theory import expected_tokens

GAMMA = 4


def along(rows, kind="made"):
    rows = tuple(map(np.asarray, rows))
    return Along(kind, rows, rows, {GAMMA: rounds_along(rows, GAMMA)})


def stretches(texts, length, seed):
    """Acceptance .95 and .4 in stretches of ten."""
    rng = np.random.default_rng(seed)
    return [np.repeat(rng.choice([0.4, 0.95], length // 10), 10) for _ in range(texts)]


def cell(rows, seed=0):
    return ordering.order_cell(along(rows), GAMMA, 10, np.random.default_rng(seed))


def test_shuffles_keep_what_they_say():
    rows = [np.arange(5) / 10, 0.5 + np.arange(3) / 10]
    within = ordering.shuffled_within(rows, np.random.default_rng(0))
    assert [sorted(row) for row in within] == [sorted(row) for row in rows]
    over = ordering.shuffled_over(rows, np.random.default_rng(0))
    assert [len(row) for row in over] == [5, 3]
    assert sorted(np.concatenate(over)) == sorted(np.concatenate(rows))


def test_where_all_is_alike_every_way_is_equation_1():
    found = cell([np.full(60, 0.8)] * 6)
    expected = expected_tokens(0.8, GAMMA)
    for one in (found.replay, found.within, found.over, found.loop):
        assert one.mean == pytest.approx(expected, rel=1e-12)
    assert (found.eq1, found.formula) == (pytest.approx(expected), pytest.approx(expected))
    assert found.formula_gap.mean == pytest.approx(0, abs=1e-12)


def test_stretches_cost_tokens_and_a_random_order_gives_them_back():
    """Null verdicts at a false-alarm rate of 1e-4 each."""
    found = cell(stretches(40, 200, 1))
    assert sign_of(found.replay_gap, 1e-4, 1) == sign_of(found.order_gap, 1e-4, 1) == -1
    assert sign_of(found.over_gap, 1e-4, 1) == 0
    assert abs(found.over_gap.mean) < 0.01
    assert found.replay_gap.mean < -0.05
    assert abs(found.formula_gap.mean) < 0.03  # fitted on the other half


def test_texts_that_differ_cost_tokens_in_any_order_within_them():
    found = cell([np.full(60, alpha) for alpha in (0.5, 0.9) * 6])
    assert found.order_gap.mean == pytest.approx(0, abs=1e-12)
    assert found.within_gap.mean == pytest.approx(found.replay_gap.mean)
    assert found.within_gap.mean < -0.03


def test_long_stretches_of_easy_and_hard_are_the_harmonic_mean():
    kinds = [along([np.full(2000, alpha)] * 2) for alpha in (0.9, 0.5)]
    found = ordering.mixed_cell(kinds, GAMMA, 2, np.random.default_rng(0))
    harmonic, arithmetic = clustered_limits([0.9, 0.5], GAMMA)
    assert found.replay.mean == pytest.approx(found.harmonic, rel=1e-9)  # weights by their tokens
    assert found.shuffled.mean == pytest.approx(harmonic, rel=1e-3)
    assert found.arithmetic == pytest.approx(arithmetic, rel=1e-3)
    assert found.harmonic < found.pooled < found.arithmetic
    assert found.arithmetic_gap.mean == pytest.approx(harmonic / arithmetic - 1, rel=1e-2)
    assert found.loop_gap.mean == 0
    assert found.alphas == pytest.approx([0.9, 0.5])


def test_odd_texts_are_fitted_and_even_ones_replayed():
    """Even texts in stretches, odd ones without: the formula then knows of no cost, replay does."""
    alike = [np.full(200, 0.7)] * 20
    rows = [row for pair in zip(stretches(20, 200, 3), alike, strict=True) for row in pair]
    formula, replayed = ordering.split_costs(rows, rounds_along(rows, GAMMA))
    assert formula == pytest.approx(1)
    assert replayed < 0.95
    swapped = [*rows[1:], rows[0]]
    formula, replayed = ordering.split_costs(swapped, rounds_along(swapped, GAMMA))
    assert formula < 0.95
    assert replayed == pytest.approx(1)
    only = np.arange(40) < 10
    formula, replayed = ordering.split_costs(swapped, rounds_along(swapped, GAMMA), only)
    fewer = swapped[:10]
    assert (formula, replayed) == ordering.split_costs(fewer, rounds_along(fewer, GAMMA))
