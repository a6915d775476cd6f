"""Acceptance by position: flat where all is alike, rising where easy places stand together."""

import numpy as np
import pytest

from lab.acceptance import Along, hazards_of
from lab.positions import positions_of
from lab.replay import rounds_along

GAMMA = 4


def along(rows):
    rows = tuple(rows)
    return Along("made", rows, rows, {GAMMA: rounds_along(rows, GAMMA)})


def test_where_all_is_alike_every_position_is_equation_1s():
    found = positions_of(along([np.full(60, 0.8)] * 6), GAMMA)
    assert found.alpha == pytest.approx(0.8)
    assert found.hidden == pytest.approx(np.full(GAMMA, 0.8))
    for rate in (*found.replay, *found.loop):
        assert rate[:2] == pytest.approx((0.8, 0), abs=1e-9)
    assert found.rise[:2] == pytest.approx((0, 0), abs=1e-9)


def test_a_text_of_all_or_nothing_by_hand():
    """Texts 1 1 1 .. and 0 0 0 ..: every whole round accepts all or none, so whoever passes draft 1
    passes all. Whole rounds start at the first n - γ tokens: at all of them where nothing is
    accepted, at every fifth where everything is."""
    found = positions_of(along([np.ones(24), np.zeros(24)] * 3), GAMMA)
    starts = 20
    assert [rate.mean for rate in found.replay] == pytest.approx([4 / (4 + starts), 1, 1, 1])
    assert found.rise.mean == pytest.approx(1 - 4 / (4 + starts))
    assert found.replay[0].stderr > 0
    assert found.replay[1].stderr == 0


def test_in_stretches_it_rises_and_the_errors_are_those_of_texts():
    """Six standard errors: a false alarm below 1e-4 with 39 degrees of freedom."""
    rng = np.random.default_rng(1)
    rows = [np.repeat(rng.choice([0.4, 0.95], 20), 10) for _ in range(40)]
    found = positions_of(along(rows), GAMMA)
    rates = hazards_of(rounds_along(rows, GAMMA))
    assert [rate.mean for rate in found.replay] == pytest.approx(rates)
    assert found.rise.mean == pytest.approx(rates[1] - rates[0])
    assert found.rise.mean > 6 * found.rise.stderr > 0
    assert np.all(np.diff(found.hidden) > 0)
    assert found.hidden == pytest.approx(rates, abs=0.05)
