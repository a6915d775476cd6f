"""Script 10: every claim it prints follows from its tables.

The script asserts its claims itself: a false alarm of 1e-4 in each of its five families.
"""

import pytest
from script_runs import parts, printed, records_of, saying

from lab.chains import clustered_limits
from lab.theory import alpha_from_expected_tokens, expected_tokens

SCRIPT = "10_acceptance_is_not_iid"
KINDS = ["shakespeare", "python", "unicode"]


@pytest.fixture(scope="module")
def found():
    return parts(SCRIPT, "--fast")


def test_three_texts_with_their_correlations(found):
    rows = records_of(found, "texts")
    assert [row["text"] for row in rows] == KINDS
    for row in rows:
        assert 0 < row["accept"] < 1
        assert abs(row["accept"] - row["beta"]) < 0.1
        assert all(row[f"lag {lag}_stderr"] > 0 for lag in (1, 2, 3))
    claim = saying(found, "The correlation is above 0")
    assert claim["values"]["cells"] == 9
    beyond = [row[f"lag {k}"] / row[f"lag {k}_stderr"] for row in rows for k in (1, 2, 3)]
    assert claim["values"]["positive"] <= sum(t > 3.5 for t in beyond)


def test_order_has_a_cell_for_every_text_and_gamma_and_its_claims_are_of_these(found):
    rows = records_of(found, "order")
    assert [(row["kind"], row["gamma"]) for row in rows] == [
        (k, g) for k in KINDS for g in (2, 4, 8)
    ]
    for row in rows:
        assert row["eq1"] == pytest.approx(expected_tokens(row["alpha"], row["gamma"]))
        assert row["replay_gap"] == pytest.approx(row["replay"] / row["eq1"] - 1)
        assert row["over_gap"] == pytest.approx(row["over"] / row["eq1"] - 1)
        assert row["order_gap"] == pytest.approx(row["replay"] / row["within"] - 1)
        assert row["loop_gap"] == pytest.approx(row["loop"] / row["replay"] - 1)
        assert row["loop_eq1_gap"] == pytest.approx(row["loop"] / row["eq1"] - 1)
        assert abs(row["over_gap"]) < 10 * row["over_gap_stderr"]  # t of 11 degrees
        assert abs(row["loop_gap"]) < 9 * row["loop_gap_stderr"]  # t of 15 degrees
    lower = saying(found, "In true order")["values"]
    assert lower["lower"] <= sum(row["replay_gap"] < 0 for row in rows)
    farthest = saying(found, "What two hidden states")["values"]["farthest"]
    assert farthest == max(abs(row["formula_gap"]) for row in rows)


def test_hazards_are_there_by_three_ways_for_every_text(found):
    rows = records_of(found, "hazards")
    assert [row["by"] for row in rows] == ["replay", "real loop", "hidden states"] * 3
    assert all(0 <= row[str(i)] <= 1 for row in rows for i in range(1, 9))
    assert 0 <= saying(found, "From draft 1 to draft 2")["values"]["rising"] <= 3


def test_the_harmonic_mean_is_what_replay_gives_and_the_arithmetic_is_too_high(found):
    for row in records_of(found, "mixed"):
        even = clustered_limits(row["alphas"], row["gamma"])
        assert row["harmonic"] == pytest.approx(even.long_run, rel=0.06)  # nearly equal shares
        assert row["shuffled"] == pytest.approx(row["harmonic"], rel=0.01)
        assert row["harmonic"] < row["arithmetic"]
        assert row["arithmetic_gap"] < -5 * row["arithmetic_gap_stderr"]
    claim = saying(found, "Calls add up")["values"]
    assert claim["cells"] == 3
    assert claim["arithmetic_too_high"] >= 1


def test_each_alpha_has_its_error_of_equation_1(found):
    tokens = {(row["kind"], row["gamma"]): row["replay"] for row in records_of(found, "order")}
    rows = records_of(found, "estimators")
    assert len(rows) == 15
    for row in rows:
        for gamma in (2, 4, 8):
            if (row["estimator"], gamma) == ("from tokens per call", 4):
                assert row["γ 4"] == row["γ 4_stderr"] == 0
                solved = alpha_from_expected_tokens(tokens[row["text"], 4], 4)
                assert row["alpha"] == pytest.approx(solved)
                continue
            error = expected_tokens(row["alpha"], gamma) / tokens[row["text"], gamma] - 1
            assert row[f"γ {gamma}"] == pytest.approx(error)
            if row["estimator"] == "accepted / drafted":
                assert error < -0.1
    counts = saying(found, "Eq. (1) beyond its error")["values"]
    assert counts["accepted / drafted"] == {"high": 0, "low": 9, "cells": 9}
    assert counts["mean a"]["low"] == counts["mean β"]["low"] == 0


def test_wrong_options_are_named(capsys):
    with pytest.raises(SystemExit):
        printed(SCRIPT, "--seed", "-1")
    assert "--seed" in capsys.readouterr().err


@pytest.mark.slow
def test_plots_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    text = printed(SCRIPT, "--fast", "--plots", str(tmp_path))
    drawn = ["acceptance_order.png", "acceptance_position.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == drawn
    assert text.count("Drawn: ") == 2


@pytest.mark.slow
def test_the_whole_run_sees_what_the_fast_one_cannot():
    """Of 9 cells each; the bounds leave room for other machines' rounding of the texts."""
    found = parts(SCRIPT)
    assert saying(found, "The correlation is above 0")["values"]["positive"] >= 5
    assert saying(found, "In true order")["values"]["lower"] >= 5
    assert saying(found, "From draft 1 to draft 2")["values"]["rising"] == 3
    assert saying(found, "Eq. (1) beyond its error")["values"]["mean a"]["high"] >= 5
