"""Tests of tests: what is counted, what is red, and how often by chance."""

import math

import numpy as np
import pytest

from lab.decode import Generation, speculative_generate
from lab.exact import TableLM, plain_law, prefix_law
from lab.lawtest import (
    Rate,
    acceptance_test,
    alarms,
    counts,
    false_alarms,
    fit,
    sample,
    two_sample_alarms,
)
from lab.measure import streams
from lab.text import Round

LAW = {(0, 0): 0.4, (0, 1): 0.1, (1, 0): 0.2, (1, 1): 0.3}
PAIR = TableLM.random(2, 0, 1), TableLM.random(2, 1, 1)


def run(dice):
    return speculative_generate(*PAIR, [0], 3, 2, rng=dice)


def of_accepted(*accepted):
    rounds = tuple(Round(4, 4, 4, a, a + 1, "full") for a in accepted)
    return Generation(np.zeros(0, np.int64), "length", rounds, (), 0, 0)


def test_counts_are_in_the_order_of_the_law_and_keep_strangers():
    assert counts([[0, 1], [1, 1], [0, 1], [0, 2]], LAW).tolist() == [0, 2, 0, 1, 1]
    assert counts([[0, 1], [1, 1], [0, 2]], prefix_law(LAW, 1), 1).tolist() == [2, 1, 0]


def test_an_impossible_outcome_refutes_a_law():
    runs = [[0, 0]] * 40 + [[0, 1]] * 10 + [[1, 0]] * 20 + [[1, 1]] * 30
    assert fit(runs, LAW).p_value == pytest.approx(1)
    assert fit([*runs, [0, 2]], LAW).p_value == 0


def test_fit_by_hand():
    runs = [[0, 0]] * 30 + [[0, 1]] * 20 + [[1, 0]] * 20 + [[1, 1]] * 30
    found = fit(runs, LAW)
    assert found.statistic == pytest.approx(10**2 / 40 + 10**2 / 10)
    assert found.degrees == 3


def test_a_sample_of_the_loop_fits_its_law():
    """False alarm 1e-4, for each of the two."""
    law = plain_law(PAIR[0], [0], 3)
    runs = sample(run, streams(1000, 5))
    assert fit(runs, law).p_value > 1e-4
    assert fit(runs, prefix_law(law, 1), 1).p_value > 1e-4
    again = sample(run, streams(1000, 5))
    assert [r.tokens.tolist() for r in runs] == [r.tokens.tolist() for r in again]


def test_acceptance_by_hand():
    found = acceptance_test([of_accepted(1, 2), of_accepted(1), of_accepted(2)], 1.0)
    assert found.mean == 2
    assert found.stderr == pytest.approx(math.sqrt(1 / 3))
    assert found.z == pytest.approx(math.sqrt(3))
    assert found.p_value == pytest.approx(0.0832645, abs=1e-6)


def test_chi_square_holds_its_level():
    """False alarm 1e-4: the exact interval leaves out the level so rarely."""
    rate = false_alarms(LAW, 2000, 2000, 0.05, np.random.default_rng(0))
    assert rate.agrees(1e-4)
    assert rate.trials == 2000
    assert 0.03 < rate.value < 0.07  # 4 standard errors


@pytest.mark.slow
def test_chi_square_holds_its_level_on_2000_samples_of_the_loop():
    """Of 40 runs each. False alarm 1e-4: 3 % and 7 % are 4 standard errors away."""
    law = plain_law(PAIR[0], [0], 3)
    batches = [sample(run, streams(40, 7, batch)) for batch in range(2000)]
    for length in (1, 3):
        rate = alarms(batches, prefix_law(law, length), length, 0.05)
        assert 0.03 < rate.value < 0.07


def test_a_second_sample_as_the_reference_does_not():
    rate = two_sample_alarms(prefix_law(LAW, 1), 10_000, 2000, 0.05, np.random.default_rng(1))
    assert rate.due == pytest.approx(0.1657, abs=1e-4)  # 2 (1 - Φ(1.95996 / √2))
    assert rate.agrees(1e-4)
    assert not Rate(rate.hits, rate.trials, 0.05).agrees(1e-4)


def test_alarms_count_red_batches():
    law = prefix_law(LAW, 1)
    good, bad = [[0], [1]] * 20, [[0]] * 40
    assert alarms([good, bad, good], law, 1, 0.05) == Rate(1, 3, 0.05)
    assert Rate(1, 4, 0.2).value == 0.25
    assert Rate(1, 4, 0.2).stderr == pytest.approx(0.2)
