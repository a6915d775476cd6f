"""Replay along what the loop wrote is the loop, exactly where no coins are."""

import numpy as np
import pytest

from lab.linear import row_product
from lab.realloop import loop_cell, loop_cells
from lab.realtext import LOOKUP
from lab.stats import t_quantile
from lab.theory import expected_tokens


@pytest.mark.parametrize(
    ("name", "temperature"), [("trained 1L", 0.0), ("bigram", 0.0), (LOOKUP, 0.0), (LOOKUP, 1.0)]
)
def test_without_coins_every_round_is_that_of_replay(name, temperature):
    cell = loop_cell("unicode", name, temperature, 3, 4, 24, seed=1)
    if row_product().row_invariant or temperature:
        assert np.array_equal(cell.loop, cell.replay)
        assert cell.identical == 4
        assert cell.gap[:2] == (0, 0)


def test_lookup_counts_what_was_tested_and_has_no_equation_1():
    cell = loop_cell("unicode", LOOKUP, 1.0, 3, 4, 24, seed=1)
    assert cell.eq1 is None
    accepted = cell.loop[:, 1:].sum()
    assert cell.alpha.mean == pytest.approx(accepted / cell.positions)
    assert accepted <= cell.positions


def test_with_coins_the_loop_is_replay_within_their_noise():
    """Two-sided t with 11 degrees of freedom: a false alarm of 1e-4."""
    key = ("unicode", "4-gram", 1.0, 4)
    cell = loop_cells([key], {1.0: 12}, 32, seed=0)[key]
    assert abs(cell.gap.mean) < t_quantile(1 - 1e-4 / 2, 11) * cell.gap.stderr
    assert 0 < cell.identical + 1 <= 12  # whole texts seldom agree
    assert cell.gap.mean == pytest.approx(cell.loop_tokens.mean / cell.replay_tokens.mean - 1)
    assert cell.eq1 == pytest.approx(expected_tokens(cell.alpha.mean, 4))
    assert cell.positions == 12 * 32
