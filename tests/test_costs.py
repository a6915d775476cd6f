"""Costs of a round: Theorem 3.8 is the case of constants, and the search for the best γ agrees."""

import math
from itertools import product

import numpy as np
import pytest

from lab import theory
from lab.costs import Costs, best_gamma, catching_up, measured, one_pass
from lab.estimate import replay

GRID = tuple(
    product((0.0, 0.3, 0.53, 0.75, 0.82, 0.9, 1.0), (0, 1, 2, 5, 7, 10), (0.0, 0.02, 0.11))
)
TABLE_4 = (  # γ, α, c of the paper's twelve rows
    *((7, 0.75, 0.02), (7, 0.80, 0.04), (7, 0.82, 0.11), (7, 0.62, 0.02), (5, 0.68, 0.04)),
    *((3, 0.71, 0.11), (5, 0.65, 0.02), (5, 0.73, 0.04), (3, 0.74, 0.11), (5, 0.53, 0.02)),
    *((3, 0.55, 0.04), (3, 0.56, 0.11)),
)


def tokens(alpha):
    return lambda gamma: theory.expected_tokens(alpha, gamma)


# ---- The paper's case ------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1.0, 14.1e-3])
def test_theorem_3_8_is_the_case_of_constants(unit):
    cells = [*GRID, *((alpha, gamma, c) for gamma, alpha, c in TABLE_4)]
    for alpha, gamma, c in cells:
        costs = Costs(unit, c * unit)
        due = theory.walltime_speedup(alpha, gamma, c)
        assert costs.speedup(tokens(alpha), gamma) == pytest.approx(due, rel=1e-13)
        assert costs.speedup(tokens(alpha)(gamma), gamma) == pytest.approx(due, rel=1e-13)


@pytest.mark.parametrize("max_gamma", [None, 0, 3, 50])
def test_the_best_gamma_of_constants_is_the_theorems(max_gamma):
    for alpha, c in product(np.arange(0.05, 1, 0.05), (0.01, 0.05, 0.2, 0.5, 0.9)):
        gamma, speed = best_gamma(float(alpha), Costs(3.0, c * 3.0), max_gamma)
        due = theory.best_gamma(alpha, c, max_gamma=max_gamma)
        assert gamma == due[0] or speed == pytest.approx(due[1], rel=1e-12)
        assert speed == pytest.approx(due[1], rel=1e-12)


def test_figure_3_by_search_over_functions():
    costs = Costs(lambda rows: 1.0, lambda gamma: 0.05 * gamma)
    grid = (0.5, 0.543, 0.7005, 0.8, 0.9)
    found = [best_gamma(alpha, costs, 40) for alpha in grid]
    assert [gamma for gamma, _ in found] == [3, 4, 6, 8, 13]
    due = [theory.best_gamma(alpha, 0.05)[1] for alpha in grid]
    assert [speed for _, speed in found] == pytest.approx(due, rel=1e-13)


def test_a_verify_cost_is_a_target_whose_rows_cost():
    def verify(gamma):
        return 1 + 0.24 * gamma

    costs = Costs(lambda rows: verify(rows - 1), 0.05)
    for gamma in (1, 3, 8):
        due = theory.walltime_speedup(0.8, gamma, 0.05, verify)
        assert costs.speedup(tokens(0.8), gamma) == pytest.approx(due, rel=1e-13)
    gamma, speed = best_gamma(0.8, costs, 30)
    assert (gamma, speed) == pytest.approx(theory.best_gamma(0.8, 0.05, verify, max_gamma=30))
    assert (gamma, f"{speed:.3f}") == (3, "1.579")


# ---- What the theorem leaves out ---------------------------------------------------------------


def test_a_round_by_hand():
    costs = Costs(10, 1, sample=0.5, per_round=2)
    assert costs.parts(4) == {"target": 10, "draft": 4, "sample": 2.5, "per_round": 2}
    assert costs.round(4) == 18.5
    assert costs.plain() == costs.round(0) == 12.5
    assert costs.speedup(3.7, 4) == pytest.approx(2.5)
    assert costs.speedup(1, 0) == 1
    # numbers only: the theorem again, at another c
    assert costs.speedup(tokens(0.8), 4) == pytest.approx(
        theory.walltime_speedup(0.8, 4, (1 + 0.5) / 12.5)
    )
    assert best_gamma(0.8, costs) == pytest.approx(theory.best_gamma(0.8, 0.12))


def test_functions_are_asked_for_rows_and_for_gamma():
    asked = []

    def part(name, seconds):
        return lambda n: asked.append((name, n)) or seconds

    costs = Costs(part("target", 8), part("draft", 4), part("sample", 2), part("per_round", 1))
    assert costs.round(3) == 15
    assert asked == [("target", 4), ("draft", 3), ("sample", 4), ("per_round", 3)]
    asked.clear()
    assert costs.plain() == 11
    assert asked == [("target", 1), ("sample", 1), ("per_round", 0)]  # nothing is drafted


def test_parallel_drafts_cost_one_pass_a_round():
    costs = Costs(10, one_pass(3))
    assert [costs.round(gamma) for gamma in (0, 1, 2, 9)] == [10, 13, 13, 13]
    # drafts are free then but for the first: the more the better, up to the cap
    assert best_gamma(0.7, costs, 12) == pytest.approx((12, theory.expected_tokens(0.7, 12) / 1.3))
    assert best_gamma(0.2, costs, 12) == (0, 1.0)  # at most 1.25 tokens for 1.3 of the time


def test_the_catch_up_row_is_the_ledgers_where_rows_are_counted():
    for alpha, gamma, c_hat in ((0.8, 5, 0.1), (0.6, 1, 0.3), (1.0, 4, 0.2), (0.0, 3, 0.2)):
        rows = Costs(lambda n: float(n), catching_up(lambda n, c=c_hat: c * n, alpha))
        operations = rows.round(gamma) / theory.expected_tokens(alpha, gamma)
        due = theory.ops_factor_with_catch_up(alpha, gamma, c_hat)
        assert operations == pytest.approx(due, rel=1e-14)


def test_the_catch_up_row_by_hand():
    passes = measured({1: 2.0, 2: 2.6}, "rows")
    assert catching_up(passes, lambda gamma: 0.25)(4) == pytest.approx(
        3 * 2 + 0.75 * 2 + 0.25 * 2.6
    )
    assert catching_up(passes, 0.0)(4) == 8
    assert catching_up(passes, 1.0)(1) == pytest.approx(2.6)
    with pytest.raises(ValueError, match=r"full_acceptance\(4\)=1.5 must be in \[0, 1\]"):
        catching_up(passes, lambda gamma: 1.5)(4)


def test_a_table_answers_for_what_was_measured_only():
    cost = measured({1: 0.2, 5: 0.3}, "rows")
    assert (cost(1), cost(np.int64(5))) == (0.2, 0.3)
    with pytest.raises(ValueError, match=r"rows=4 must be one of those measured, \[1, 5\]"):
        cost(4)
    with pytest.raises(ValueError, match=r"seconds\[2\] must be finite and at least 0"):
        measured({2: -1.0})
    with pytest.raises(ValueError, match=r"gamma=1\.5 must be a whole number"):
        measured({1.5: 1.0}, "gamma")


# ---- The best γ --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_measured_costs_by_trying_them_all(seed):
    rng = np.random.default_rng([61, seed])
    target = dict(enumerate(np.sort(rng.uniform(1, 2, 17)), 1))
    draft = dict(enumerate(np.cumsum(rng.uniform(0, 0.2, 16)), 1))
    costs = Costs(measured(target), measured(draft), sample=0.01, per_round=0.1)
    accept = rng.uniform(0, 1, 400) ** 0.3
    called = replay(np.ones(400), accept, range(1, 17))
    speeds = {
        gamma: called[gamma].value
        * (target[1] + 0.11)
        / (target[gamma + 1] + draft[gamma] + 0.01 * (gamma + 1) + 0.1)
        for gamma in called
    }
    gamma, speed = best_gamma(lambda gamma: called[gamma].value, costs, 16)
    assert gamma == max(speeds, key=speeds.get)
    assert speed == pytest.approx(speeds[gamma], rel=1e-13)
    assert speed > 1


def test_ties_go_to_the_smaller_gamma_and_no_gain_is_no_draft():
    level = Costs(lambda rows: 1.0 if rows == 1 else 2.0 * rows, 0.0)  # a round: 2 a row
    assert best_gamma(lambda gamma: 1 + gamma, level, 9) == (0, 1.0)
    dear = Costs(lambda rows: max(1.0, rows / 1.5), 0.0)  # 2, 3, .. tokens in 1.33, 2, ..
    assert best_gamma(lambda gamma: gamma + 1, dear, 9) == (1, 1.5)
    nearly = Costs(lambda rows: max(1.0, rows / 1.5) * (1 - 1e-13 * rows), 0.0)
    assert best_gamma(lambda gamma: gamma + 1, nearly, 9)[0] == 1
    hardly = Costs(lambda rows: 1.0 if rows == 1 else rows * (1 - 1e-13), 0.0)
    assert best_gamma(lambda gamma: gamma + 1, hardly, 9) == (0, 1.0)
    assert best_gamma(0.5, Costs(1.0, 0.5)) == (0, 1.0)  # exactly even
    assert best_gamma(0.5, Costs(lambda rows: 1.0, 0.5), 9) == (0, 1.0)
    assert best_gamma(0.9, Costs(lambda rows: 1.0, 0.1), 0) == (0, 1.0)


def test_a_search_that_nothing_bounds_is_refused():
    for costs, given in ((Costs(lambda rows: 1.0, 0.1), 0.8), (Costs(1.0, 0.1), tokens(0.8))):
        with pytest.raises(ValueError, match="max_gamma=None must be a number where"):
            best_gamma(given, costs)
    with pytest.raises(ValueError, match=r"alpha=1\.0 with c=0\.1 has no best gamma"):
        best_gamma(1, Costs(1.0, 0.1))
    assert best_gamma(1, Costs(1.0, 0.1), 7) == pytest.approx((7, 8 / 1.7))


# ---- What cannot be ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Costs(0, 1), "target=0 must be a finite number above 0"),
        (lambda: Costs(1, -0.1), r"draft must be finite and at least 0, got -0\.1"),
        (lambda: Costs(1, math.inf), "draft must be finite and at least 0, got inf"),
        (lambda: Costs(1, 0, sample=math.nan), "sample must be finite"),
        (lambda: Costs(1, 0, per_round="2"), "per_round must be finite"),
        (
            lambda: Costs(lambda n: 0.0, 1).round(2),
            r"target\(3\)=0\.0 must be a finite number above",
        ),
        (
            lambda: Costs(1, lambda g: -g).round(2),
            r"draft\(2\) must be finite and at least 0, got -2",
        ),
        (lambda: Costs(1, 1).round(-1), "gamma=-1 must be a whole number >= 0"),
        (
            lambda: Costs(1, 1).speedup(3.1, 2),
            r"tokens_per_round=3\.1 must be in \[1, gamma \+ 1 = 3\]",
        ),
        (lambda: Costs(1, 1).speedup(0.9, 2), r"tokens_per_round=0\.9 must be in \[1"),
        (lambda: Costs(1, 1).speedup(lambda g: 9, 2), r"tokens_per_round\(2\)=9 must be in"),
        (lambda: best_gamma(1.5, Costs(1, 1)), r"alpha=1\.5 must be in \[0, 1\]"),
        (lambda: best_gamma(0.5, Costs(1, 1), -1), "max_gamma=-1"),
        (lambda: one_pass(-1), "seconds must be finite and at least 0"),
        (lambda: Costs(1, [0.1]), r"draft=\[0\.1\] must be one number"),
        (lambda: Costs(1, lambda g: [g]).round(2), r"draft\(2\)=\[2\] must be one number"),
        (lambda: catching_up(lambda n: n - 1.5, 0.5)(1), r"draft_pass\(1\) must be .* got -0\.5"),
        (lambda: catching_up(lambda n: 1.0, 2), r"full_acceptance=2 must be in \[0, 1\]"),
    ],
)
def test_costs_that_cannot_be(call, says):
    with pytest.raises(ValueError, match=says):
        call()
