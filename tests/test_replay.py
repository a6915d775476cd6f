"""Rounds along a text, where what a draft is may depend on where its round starts."""

from itertools import product

import numpy as np
import pytest

from lab.replay import drafts_tested, rounds_along


def enumerated(accept, gamma):
    """Expected whole rounds by the drafts they accept at least, over all outcomes of all coins of
    an accept matrix (n, gamma), which round start s uses in its own row."""
    whole = len(accept) - gamma
    expected = np.zeros(gamma + 1)
    for coins in product((0, 1), repeat=whole * gamma):
        coin = np.reshape(coins, (whole, gamma))
        weight = np.prod(np.where(coin, accept[:whole], 1 - accept[:whole]))
        s = 0
        while s < whole:
            kept = int(np.cumprod(coin[s]).sum())
            expected[: kept + 1] += weight
            s += kept + 1
    return expected


@pytest.mark.parametrize(("n", "gamma"), [(6, 1), (6, 2), (7, 3)])
def test_a_matrix_of_acceptances_against_all_outcomes_of_its_coins(n, gamma):
    accept = np.random.default_rng([5, n]).random((n, gamma))
    assert rounds_along([accept], gamma, blocks=1)[0] == pytest.approx(enumerated(accept, gamma))


def test_certain_drafts_by_hand():
    """A copy from 0 is right twice; one from 1 would not be: the round decides, not the place."""
    accept = np.array([[1, 1], [0, 0], [0, 0], [1, 0], [1, 1], [1, 1], [1, 1]])
    # rounds start at 0 (2 kept), 3 (1 kept); 5 and later could be cut
    assert rounds_along([accept.astype(float)], 2, blocks=1).tolist() == [[2, 2, 1]]


@pytest.mark.parametrize("gamma", [0, 1, 4])
def test_where_only_the_place_counts_a_matrix_is_a_row(gamma):
    row = np.random.default_rng(6).random(40)
    matrix = np.array([np.roll(row, -s)[:6] for s in range(40)])  # wider than gamma
    assert np.array_equal(rounds_along([row], gamma), rounds_along([matrix], gamma))


def test_what_is_tested_and_accepted_is_accepted():
    row = np.random.default_rng(7).random(50)
    for gamma in (1, 3):
        rounds = rounds_along([row], gamma, blocks=1)[0]
        tested = drafts_tested(row, gamma)
        assert tested @ row == pytest.approx(rounds[1:].sum())
        assert tested.sum() == pytest.approx(rounds[:-1].sum())


def test_a_matrix_must_be_wide_enough():
    with pytest.raises(ValueError, match=r"accept must be .*gamma=3.*\(9, 1\)"):
        rounds_along([np.ones((9, 1))], 3)


@pytest.mark.parametrize(
    ("accept", "says"),
    [
        ([np.array([0.5, np.nan, 0.5, 0.5])], r"accept must be in \[0, 1\], got nan"),
        ([np.array([0.5, 1.5, 0.5, 0.5])], r"accept must be in \[0, 1\], got 1\.5"),
        ([np.full((4, 2), -0.1)], r"accept must be in \[0, 1\], got -0\.1"),
        ([np.zeros((4, 2, 2))], r"accept must be texts, .* got \[\(4, 2, 2\)\]"),
        (np.full(4, 0.5), r"accept must be texts, .* got \[\(\), "),
        ([], "accept must be texts, .* got none"),
    ],
)
def test_what_are_no_acceptances(accept, says):
    with pytest.raises(ValueError, match=says):
        rounds_along(accept, 2)


def test_lists_are_texts_too():
    assert np.array_equal(rounds_along([[0.5] * 9], 2), rounds_along([np.full(9, 0.5)], 2))
