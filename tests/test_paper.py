"""Every stored cell against its formula: 12 of Table 1, 52 edges and 4 starts of Figure 3."""

import pickle

import pytest

from lab.paper import (
    BLOCK_GAINS,
    FIGURE_3,
    FIGURE_3_ALPHAS,
    FIGURE_3_STARTS,
    LEVIATHAN,
    TABLE_1,
    Cell,
    figure_3_edge,
)
from lab.theory import best_gamma


def name(cell):
    return f"{cell.row}, {cell.column}"


# ---- Table 1 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", TABLE_1, ids=name)
def test_table_1_cell_holds_at_its_printed_decimals(cell):
    assert cell.decimals == 2
    assert format(cell.recompute(), ".2f") == cell.printed
    assert cell.agrees(cell.recompute())
    assert not cell.agrees(cell.recompute() + 0.01)


def test_table_1_is_whole():
    assert len(TABLE_1) == len(set(TABLE_1)) == 12
    assert {cell.source for cell in TABLE_1} == {LEVIATHAN}
    assert {cell.table for cell in TABLE_1} == {"Table 1"}
    assert [cell.column for cell in TABLE_1] == ["OPERATIONS", "SPEED"] * 6
    rows = [(cell.inputs["alpha"], cell.inputs["gamma"]) for cell in TABLE_1[::2]]
    assert rows == [(0.6, 2), (0.7, 3), (0.8, 2), (0.8, 5), (0.9, 2), (0.9, 10)]
    printed = "1.53 1.96 1.58 2.53 1.23 2.44 1.63 3.69 1.11 2.71 1.60 6.86"
    assert " ".join(cell.printed for cell in TABLE_1) == printed


# ---- Figure 3 --------------------------------------------------------------------------------


def test_figure_3_grid():
    assert len(FIGURE_3_ALPHAS) == 400
    assert (FIGURE_3_ALPHAS[0], FIGURE_3_ALPHAS[200], FIGURE_3_ALPHAS[-1]) == (0.5, 0.7, 0.899)


@pytest.mark.parametrize("cell", FIGURE_3, ids=name)
def test_figure_3_edge_holds_on_both_sides(cell):
    c, gamma = cell.inputs["c"], cell.inputs["gamma"]
    edge = FIGURE_3_ALPHAS.index(cell.value)
    assert best_gamma(FIGURE_3_ALPHAS[edge - 1], c)[0] == gamma - 1
    assert best_gamma(FIGURE_3_ALPHAS[edge], c)[0] == gamma
    assert cell.agrees(cell.recompute())
    assert cell.decimals == 3


@pytest.mark.parametrize("cell", FIGURE_3_STARTS, ids=name)
def test_figure_3_start(cell):
    assert cell.recompute() == cell.value
    assert cell.agrees(cell.recompute())


@pytest.mark.parametrize(
    ("c", "start", "end", "edges"),
    [(0.01, 5, 24, 19), (0.02, 4, 19, 15), (0.05, 3, 13, 10), (0.1, 2, 10, 8)],
)
def test_figure_3_optimum_changes_at_its_edges_and_nowhere_else(c, start, end, edges):
    gammas, _ = best_gamma(FIGURE_3_ALPHAS, c)
    printed = {cell.value: cell.inputs["gamma"] for cell in FIGURE_3 if cell.inputs["c"] == c}
    assert len(printed) == edges
    steps = zip(FIGURE_3_ALPHAS[1:], gammas[1:], gammas[:-1], strict=True)
    assert {alpha: gamma for alpha, gamma, before in steps if gamma != before} == printed
    assert (gammas[0], gammas[-1]) == (start, end)


def test_figure_3_is_whole():
    assert len(FIGURE_3) == len(set(FIGURE_3)) == 52
    assert len(FIGURE_3_STARTS) == 4


def test_figure_3_edge_beyond_the_grid_is_an_error():
    with pytest.raises(ValueError, match=r"gamma=25 .* c=0\.01"):
        figure_3_edge(0.01, 25)


# ---- Block verification ----------------------------------------------------------------------


@pytest.mark.parametrize("cell", BLOCK_GAINS, ids=name)
def test_the_gain_of_block_verification_is_that_of_its_tokens(cell):
    assert cell.agrees(cell.recompute())
    assert not cell.agrees(cell.recompute() + 0.01)


def test_the_gains_of_block_verification_are_whole():
    assert [cell.row for cell in BLOCK_GAINS] == ["γ = 4", "γ = 6", "γ = 8"]
    token = [3.21, 3.41, 3.44, 3.40, 3.34, 3.49, 3.81, 3.19]  # printed for each dataset, γ 8
    block = [3.49, 3.76, 3.70, 3.68, 3.62, 3.76, 4.15, 3.41]
    means = {"token": round(sum(token) / 8, 2), "block": round(sum(block) / 8, 2)}
    assert BLOCK_GAINS[-1].inputs == means


# ---- The form of a cell ----------------------------------------------------------------------


def cell_of(printed, formula=None):
    return Cell("source", "Table 0", "row", "column", printed, {}, formula)


def test_decimals_are_kept_and_decide():
    assert cell_of("1.60").decimals == 2
    assert cell_of("1.6").decimals == 1
    assert cell_of("7").decimals == 0
    assert cell_of("1.6").agrees(1.64)
    assert not cell_of("1.60").agrees(1.64)
    assert cell_of("1.60").value == 1.6


def test_halfway_agrees_with_both_neighbours_and_with_no_other():
    for value in (2.675, 1.125, 1.115, -0.285):  # some above, some below halfway in binary
        low, high = sorted((f"{value - 0.005:.2f}", f"{value + 0.005:.2f}"), key=float)
        assert cell_of(low).agrees(value)
        assert cell_of(high).agrees(value)
        assert not cell_of(high).agrees(value - 1e-9)
        assert not cell_of(low).agrees(value + 1e-9)
    assert not cell_of("2.69").agrees(2.675)


def test_zero_has_no_sign_and_nan_never_agrees():
    assert cell_of("0.00").agrees(-0.001)
    assert not cell_of("0.00").agrees(float("nan"))


def test_cells_travel_to_other_processes():
    assert pickle.loads(pickle.dumps(TABLE_1 + FIGURE_3)) == TABLE_1 + FIGURE_3


def test_a_measured_cell_has_no_formula():
    with pytest.raises(ValueError, match=r"Table 0.*formula is None"):
        cell_of("3.4").recompute()
    assert cell_of("3.4", lambda: 3.42).recompute() == 3.42


@pytest.mark.parametrize("printed", ["", "1.", ".5", "1.6x", "nan", "1,6", "1.60\n"])
def test_printed_must_be_a_number(printed):
    with pytest.raises(ValueError, match="printed must be a decimal number"):
        cell_of(printed)
