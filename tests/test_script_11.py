"""Script 11: every figure it prints follows from its cells. No time is asserted."""

import numpy as np
import pytest
from script_runs import parts, printed, records_of, rows_of, values_of

from lab import theory

SCRIPT = "11_wall_clock"


@pytest.fixture(scope="module")
def found():
    return parts(SCRIPT, "--fast")


def test_memory_is_said_before_anything_is_made(found):
    sections = [part for part in found if "section" in part]
    assert found[0] is sections[0]
    assert sections[0]["text"].startswith("It needs ")
    assert "B of memory" in sections[0]["text"]


def test_every_acceptance_cost_and_gamma_has_its_cell(found):
    cells = records_of(found, "cells")
    keys = [(cell["cost"], cell["acceptance"], cell["gamma"]) for cell in cells]
    assert keys == [(c, a, g) for c in (0.0, 0.2) for a in (0.6, 0.95) for g in (1, 4)]
    costs = {part["gamma"]: part for part in records_of(found, "parts")}
    plain = sum(costs[0][name] for name in ("target", "sample", "per_round"))
    for cell in cells:
        a, c, gamma = cell["acceptance"], cell["cost"], cell["gamma"]
        assert cell["tokens"] == pytest.approx(theory.expected_tokens(a, gamma))
        assert cell["paper"] == pytest.approx(theory.walltime_speedup(a, gamma, c))
        verify = costs[gamma]["target"]
        assert cell["verify"] == pytest.approx(theory.walltime_speedup(a, gamma, c, verify))
        spent = sum(costs[gamma][name] for name in ("target", "sample", "per_round")) + gamma * c
        assert cell["full"] == pytest.approx(cell["tokens"] * plain / spent)
        assert cell["low"] <= cell["clock"] <= cell["high"]
        for form in ("paper", "verify", "full"):
            assert cell[f"{form}_error"] == pytest.approx(cell[form] / cell["clock"] - 1)


def test_what_is_said_of_the_cells_is_their_median(found):
    cells = records_of(found, "cells")
    (said,) = values_of(found, "paper", "full", "cells")
    assert said["cells"] == len(cells)
    for form in ("paper", "verify", "full"):
        assert said[form] == pytest.approx(np.median([abs(c[f"{form}_error"]) for c in cells]))
    (by_gamma,) = values_of(found, "by_gamma")
    for gamma in (1, 4):
        own = [c["paper_error"] for c in cells if c["gamma"] == gamma]
        assert by_gamma["by_gamma"][str(gamma)] == pytest.approx(np.median(own))
    (free,) = values_of(found, "largest")
    assert free["largest"] == max(c["clock"] for c in cells if c["cost"] == 0)


def test_the_best_gamma_of_each_row_is_that_of_its_cells(found):
    cells, rows = records_of(found, "cells"), records_of(found, "best")
    assert len(rows) == 4
    for row in rows:
        own = [c for c in cells if (c["acceptance"], c["cost"]) == (row["acceptance"], row["cost"])]
        clock = {0: 1.0} | {c["gamma"]: c["clock"] for c in own}
        assert clock[row["clock"]] == max(clock.values())
        for form in ("paper", "full"):
            speeds = {0: 1.0} | {c["gamma"]: c[form] for c in own}
            assert speeds[row[form]] == max(speeds.values())
            assert row[f"{form}_keeps"] == pytest.approx(clock[row[form]] / clock[row["clock"]])
    (said,) = values_of(found, "rows", "worst")
    assert said["rows"] == 4
    assert said["full"] == sum(row["full_keeps"] >= 0.95 for row in rows)
    assert said["paper"] == sum(row["paper_keeps"] >= 0.95 for row in rows)
    assert said["worst"] == min(row["paper_keeps"] for row in rows)


def test_the_machine_is_named(found):
    assert "BLAS threads" in dict(rows_of(found, "machine"))


@pytest.mark.slow
def test_plots_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    text = printed(SCRIPT, "--fast", "--plots", str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.png", "wall_clock.png"]
    assert text.count("Drawn: ") == 2


def test_wrong_options_are_named(capsys):
    with pytest.raises(SystemExit):
        printed(SCRIPT, "--seed", "x")
    assert "--seed" in capsys.readouterr().err
