"""scripts/03_spec_decode_is_exact.py: every printed claim, from its JSON; and its text."""

import pytest
from script_runs import parts, printed, rows_of
from script_runs import script as load

from lab import theory
from lab.console import Report

SCRIPT = "03_spec_decode_is_exact"


@pytest.fixture(scope="module")
def script():
    return load(SCRIPT)


@pytest.fixture(scope="module")
def found():
    return parts(SCRIPT, "--fast")


def measured(text):
    """'0.870 ± 0.004' -> (0.870, 0.004)."""
    value, stderr = text.split(" ± ")
    return float(value), float(stderr)


def test_m17_alpha_is_exact_and_measured_with_its_error(found):
    rows = rows_of(found, "context-free")
    assert [row[1] for row in rows] == ["0.797781", "0.932451", "0.980200"]
    for row in rows:
        value, stderr = measured(row[2])
        assert abs(value - float(row[1])) < 5 * stderr
        assert float(row[4]) < 1e-12
        assert min(float(row[5]), float(row[6])) > 1e-4


@pytest.mark.parametrize("alpha", [0.797781, 0.932451, 0.980200])
def test_drafts_are_laws_with_the_alpha_they_claim(script, alpha):
    weight, law = script["perturbed"](alpha)
    assert 0 < weight < 1
    assert sum(law) == pytest.approx(1, abs=1e-12)
    assert theory.acceptance(script["VERIFIER"], law) == pytest.approx(alpha, abs=1e-12)


def test_m15_the_expectation_is_that_of_this_very_draft(found):
    rows = rows_of(found, "expectation")
    assert [row[2] for row in rows] == ["3.6702", "5.0735", "5.7107"]
    for row in rows:
        value, stderr = measured(row[3])
        assert abs(value - float(row[2])) < 8 * stderr  # 8 runs: t with 7 degrees of freedom
        assert row[1] > 100


def test_the_joint_law_is_exact(script, found):
    whole = Report("whole", as_json=True)
    script["print_exact_laws"](whole, 0, fast=False)
    rows = rows_of(whole.content["parts"], "exact")
    assert [row[:3] for row in rows] == [[0, 3, 2], [1, 3, 3], [2, 3, 4], [3, 2, 5]]
    assert [row[3] for row in rows] == [9, 57, 981, 728]
    fast = rows_of(found, "exact")
    assert [row[:3] for row in fast] == [[0, 3, 2], [1, 3, 3], [2, 2, 4], [3, 2, 5]]
    for row in rows + fast:
        assert float(row[5]) <= 1e-12
        assert row[6] == "none"
        assert float(row[7]) + float(row[8]) == pytest.approx(row[2], abs=1e-3)  # all tokens


def test_the_joint_law_is_exact_under_every_setting(found):
    rows = {row[0]: row[1:] for row in rows_of(found, "settings")}
    assert len(rows) == 9
    for _, leaves, _, variation, first in rows.values():
        assert float(variation) <= 1e-12
        assert first == "none"
        assert leaves >= 1
    assert rows["T = 0"][1] == 1
    assert rows["target's context ends after 3"][0] == 3


def test_chi_square_holds_its_level(found):
    for row in rows_of(found, "level"):
        rate, _ = row[2].split(" ± ")
        assert abs(float(rate.rstrip("%")) - 5) < 4.5 * 0.975  # 500 samples, 4.5 standard errors
        assert float(row[5].rstrip("%")) > 10  # two samples, the limit of one


def test_m18_every_planted_fault_is_seen_and_the_sound_loop_is_not(script, found):
    exact = {row[0]: row[1:] for row in rows_of(found, "faults, exact")}
    sampled = {row[0]: row[5] for row in rows_of(found, "faults, sampled")}
    faults = script["FAULTS"]
    assert set(exact) == set(sampled) == {"none", *faults}
    assert len(faults) == 6
    assert sampled["none"] == "nothing"
    assert exact["none"][:3] == ["0.0000", "0.0000", "none"]
    for name, mutant in faults.items():
        assert ("joint law" in sampled[name]) == (mutant.changes.kind == "text")
        assert (float(exact[name][1]) > 0.1) == (mutant.changes.kind == "text")
    # Policy 1: the first token alone has the right law
    blind = [name for name in faults if name != "residual from p"]
    assert all(float(exact[name][0]) == 0 for name in blind)
    assert not any("first token" in sampled[name] for name in blind)
    # Policy 2: so has the text, whatever happened to the draft's cache
    assert sampled["draft cache not rolled back"] == "acceptance"
    assert float(exact["draft cache not rolled back"][3]) < float(exact["none"][3]) - 0.3
    assert "first token" in sampled["residual from p"]


def test_rejections_partial_and_full_acceptances_all_happened(found):
    """Policy 3."""
    (ends,) = [p["values"] for p in found if "accepted in part" in p.get("values", {})]
    assert min(ends.values()) > 50
    assert len(ends) == 3


def test_the_same_seed_prints_the_same_tables(script, found):
    again = Report("again", as_json=True)
    script["print_context_free"](again, 0, runs=300)
    script["print_expectation"](again, 0, runs=8, n_new=120)
    for key in ("context-free", "expectation"):
        assert rows_of(again.content["parts"], key) == rows_of(found, key)


@pytest.mark.slow
def test_text_and_another_seed(script):
    text = printed(SCRIPT, "--fast", "--seed", "5")
    assert text.startswith("Speculative decoding does not change the law\n=====")
    assert "All 6 faults are seen, the sound loop by nothing." in text
    assert "Only its acceptance falls." in text
