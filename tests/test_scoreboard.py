"""The board's own parts, and the checks on a few mutants."""

import numpy as np
import pytest
from models import P, Q, context_free

from lab import scoreboard
from lab.decode import speculative_generate
from lab.estimate import accepted_per_drafted
from lab.exact import plain_law
from lab.mutants import MUTANTS
from lab.sampling import RandomDice
from lab.scoreboard import (
    BAND,
    CHECKS,
    CONTROL,
    FAST,
    Effort,
    Tally,
    blind,
    exact_checks,
    long_run_acceptance,
    references,
    refuted,
    sample_of,
    score,
)

SMALL = Effort(80, 60, 2, 4, {"token": [(2, 1)], "block": [(2, 1)], "match": [(2, 1)]}, 1)


def test_tallies_add_and_catch_more_often_than_not():
    assert Tally(2, 3) + Tally(0, 2) == Tally(2, 5)
    assert Tally(6, 10).catches
    assert not Tally(5, 10).catches
    assert not Tally(0, 0).catches


def test_blind_is_what_did_not_fire():
    rows = {
        CONTROL: {"exact law": Tally(0, 1)},
        "a": {"exact law": Tally(0, 1)},
        "b": {"exact law": Tally(1, 1)},
    }
    assert blind(rows, "exact law") == ["a"]


@pytest.mark.parametrize("gamma", [1, 2])
def test_long_run_acceptance_of_a_law_without_context(gamma):
    """Σ α^k / γ, k = 1..γ."""
    share = long_run_acceptance(context_free(P), context_free(Q), gamma)
    assert share == pytest.approx(sum(0.65**k for k in range(1, gamma + 1)) / gamma, rel=1e-12)


def test_long_run_acceptance_is_what_a_long_run_has():
    """Within five standard errors."""
    plain = references().plain
    dice = RandomDice(np.random.default_rng(11))
    run = speculative_generate(plain.target, plain.draft, plain.prompt, 4000, 2, rng=dice)
    found = accepted_per_drafted(run.rounds)
    assert abs(found.value - references().accepted) < 5 * found.stderr
    assert 5 * found.stderr < BAND


def test_references_are_of_sound_code():
    due = references()
    assert due.joint == plain_law(due.plain.target, due.plain.prompt, 4)
    assert sum(due.first.values()) == pytest.approx(1)
    assert due.greedy_text[:4] == (7, 8, 6, 4)  # FIX-C
    run = due.greedy.run(RandomDice(np.random.default_rng(1)))
    ends = {r.end for r in run.rounds}
    assert {"reject", "full"} <= ends  # policy 3


def test_a_sampled_expectation_is_a_sample():
    law = {(0,): 0.75, (1,): 0.25}
    shares = sample_of(law, 400, np.random.default_rng(0))
    assert sum(shares.values()) == pytest.approx(1)
    assert shares != law
    assert abs(shares[0,] - 0.75) < 5 * np.sqrt(0.75 * 0.25 / 400)


def test_the_control_and_a_mutant():
    control = score(CONTROL, 0, SMALL, range(2))
    assert {
        key for key, tally in control.items() if tally.fires and not CHECKS[key].sampled
    } == set()
    assert [tally.trials for tally in control.values()] == [2, 2, 2, 1, 2, 1, 1, 1, 1]
    row = score("residual reversed", 0, SMALL, range(2))
    assert all(row[key].catches for key in ("joint χ²", "exact law", "uniforms", "certificate"))
    assert not row["acceptance band"].catches
    again = score("residual reversed", 0, SMALL, range(2))
    assert again == row
    assert score(CONTROL, 0, SMALL, [5])["exact law"] == Tally(0, 0)  # made with the first share


def test_what_raises_is_seen(monkeypatch):
    def broken(*arguments):
        raise RuntimeError

    monkeypatch.setattr(scoreboard, "fit", broken)
    row = score(CONTROL, 0, SMALL, [1])
    assert row["joint χ²"] == Tally(1, 1)
    assert row["acceptance band"].trials == 1


def test_exact_checks_tell_law_from_counts():
    battery = references().battery
    assert exact_checks(battery) == (False, False)
    with MUTANTS["calls count the prefill"].patch():
        assert exact_checks(battery) == (False, True)
    with MUTANTS["bonus from q"].patch():
        assert exact_checks(battery)[0]


def test_certificates_are_made_again_where_an_edit_is_run():
    with MUTANTS["bonus from q"].patch():
        assert refuted(MUTANTS["bonus from q"], FAST)
    with MUTANTS["target cache not rolled back"].patch():
        assert refuted(MUTANTS["target cache not rolled back"], FAST)
    with MUTANTS["replay with p / q"].patch():
        assert not refuted(MUTANTS["replay with p / q"], FAST)
