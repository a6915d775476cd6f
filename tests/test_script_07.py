"""scripts/07_what_tests_miss.py: every printed claim, from its JSON."""

import pytest
from script_runs import parts, records_of, rows_of, values_of
from script_runs import script as load

from lab.lawtest import Rate
from lab.mutants import MUTANTS
from lab.scoreboard import CHECKS, CONTROL

pytestmark = pytest.mark.slow  # half a minute; test_scoreboard and test_mutants are of every run

SCRIPT = "07_what_tests_miss"
OURS = [key for key, check in CHECKS.items() if check.ours]
POPULAR = [key for key, check in CHECKS.items() if not check.ours]


@pytest.fixture(scope="module")
def found():
    return parts(SCRIPT, "--fast")


@pytest.fixture(scope="module")
def board(found):
    """{mutant: {check: (fires, trials)}}."""
    rows = records_of(found, "board")
    return {row["mutant"]: {key: tuple(row[key]) for key in CHECKS} for row in rows}


def fired(board, name, key):
    fires, trials = board[name][key]
    return 2 * fires > trials


def of_kind(*kinds):
    return [name for name, mutant in MUTANTS.items() if mutant.changes.kind in kinds]


def test_every_mutant_is_listed_with_what_it_changes(found):
    listed = {value["mutant"]: value for value in values_of(found, "mutant", "before")}
    assert list(listed) == list(MUTANTS)
    for name, mutant in MUTANTS.items():
        assert listed[name]["after"] == mutant.changes.after
        assert listed[name]["case"] == mutant.changes.case


def test_m18_every_mutant_is_caught_by_ours_and_the_control_by_none(board):
    assert set(board) == {CONTROL, *MUTANTS}
    for name in MUTANTS:
        assert any(fired(board, name, key) for key in OURS)
    assert not any(board[CONTROL][key][0] for key in [*OURS, "greedy text"])


def test_the_exact_law_sees_what_changes_the_text_and_nothing_else(board):
    for name in MUTANTS:
        assert fired(board, name, "exact law") == (name in of_kind("text"))


def test_exact_means_see_acceptance_counters_and_estimators(board):
    for name in of_kind("acceptance", "counters", "estimator"):
        assert fired(board, name, "exact means")


def test_scripted_uniforms_see_every_fault_of_the_dice(board):
    for name in of_kind("dice"):
        assert fired(board, name, "uniforms")
        assert not fired(board, name, "exact law")  # enumeration replaces the dice


def test_policy_2_no_test_of_the_text_sees_a_draft_cache(board):
    for name in of_kind("acceptance", "counters", "estimator"):
        assert board[name]["greedy text"][0] == 0


def test_m18_faulty_rules_are_refuted_by_certificate(board):
    for area in ("residual", "ratio", "bonus"):
        for name, mutant in MUTANTS.items():
            if mutant.area == area and name != "block residual unweighted":  # V 3 shows it
                assert fired(board, name, "certificate"), name


def test_false_alarms_are_as_printed_and_as_due(found, board):
    (said,) = values_of(found, "rates", "due")
    assert set(said["rates"]) == {"sampled χ²", "first-token χ²", "joint χ²"}
    for key, due in said["due"].items():
        fires, trials = board[CONTROL][key]
        assert fires / trials == said["rates"][key]
        assert Rate(fires, trials, due).agrees(1e-4)
    assert said["due"]["sampled χ²"] == pytest.approx(0.2236, abs=1e-4)
    assert said["due"]["joint χ²"] == 0.05


def test_blind_sets_are_those_of_the_board(found, board):
    said = {value["check"]: value["missed"] for value in values_of(found, "check", "missed")}
    assert list(said) == list(CHECKS)
    for key, missed in said.items():
        assert missed == [name for name in MUTANTS if not fired(board, name, key)]
    assert all(len(said[key]) > len(MUTANTS) / 3 for key in POPULAR)


def test_the_summary_counts_the_board(found, board):
    (said,) = values_of(found, "unseen")
    unseen = [n for n in MUTANTS if not any(fired(board, n, key) for key in POPULAR)]
    assert said["unseen"] == unseen
    assert len(unseen) >= 10
    (said,) = values_of(found, "needed")
    assert set(said["needed"]) == set(OURS)
    assert set(said["needed"]["uniforms"]) == set(of_kind("dice"))


def test_cells_are_short(found):
    for row in rows_of(found, "board"):
        assert all(cell in ("yes", "-", "0") or "/" in cell for cell in row[1:])


def test_help_says_how_to_read_it():
    text = load(SCRIPT)["__doc__"]
    assert "How to read the board." in text


def test_the_full_board():
    rows = {row["mutant"]: row for row in records_of(parts(SCRIPT), "board")}
    for name in MUTANTS:
        assert any(rows[name][key][0] for key in OURS)
    assert rows["block residual unweighted"]["certificate"] == [1, 1]
    assert rows[CONTROL]["sampled χ²"][1] == 100
