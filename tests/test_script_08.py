"""Script 08: every cell is printed with its verdict, every exception has its sentence."""

import sys

import pytest
from script_runs import parts, printed, records_of, saying, table_of

from lab.paper import CELLS, MISPRINTS, PAGES, count, sentence

SCRIPT = "08_paper_tables"


@pytest.fixture(scope="module")
def found():
    return parts(SCRIPT)


@pytest.fixture(scope="module")
def text():
    return printed(SCRIPT)


def key(page):
    return f"{page.source}: {page.title}"


def test_the_last_line_counts(text):
    found = count(CELLS)
    assert text.splitlines()[-1] == "287 cells, 247 agree, 40 exceptions"
    assert found.cells == found.agree + found.exceptions == 287
    assert "297 numbers were only measured. 34 of the cells counted are worked by hand" in text


def test_every_cell_is_in_its_table_with_its_verdict(found):
    seen = 0
    for page in PAGES:
        part = table_of(found, key(page))
        cells = {(cell.row, cell.column): cell for cell in page.cells}
        for row, values in zip(part["rows"], part["values"], strict=True):
            for column, value in values.items():
                cell = cells.pop((row[0], column))
                assert value["printed"] == cell.printed
                assert value["status"] == cell.status
                assert cell.printed in row
                if cell.formula:
                    mark = "≠ " if cell.exception else ""
                    assert mark + cell.digits(cell.recompute()) in row
                    assert value["formula"] == float(cell.recompute())
                    assert row[-1] != ("yes" if cell.exception else "no")
                seen += 1
        assert not cells
    assert seen == len(CELLS)


def test_every_exception_has_its_sentence_and_no_other_cell_has_one(found, text):
    said = [
        part["says"] for part in found if "is printed, the formula gives" in part.get("says", "")
    ]
    assert said == [sentence(cell) for page in PAGES for cell in page.cells if cell.exception]
    assert len(said) == 40
    assert text.count("≠") == 40


def test_titles_name_the_functions(text):
    assert (
        "Table 1: operations and speed, c = ĉ = 0\n(theory.ops_factor, theory.walltime_speedup)"
        in text
    )
    assert "Table 3: α\n(measured)" in text


def test_what_the_tables_say_together(found):
    assert saying(found, "The γ that was run")["values"] == {"best": 2}
    beyond = saying(found, "are above 1 / (1 - α)")["values"]["beyond"]
    assert beyond == [
        "CNNDM, T5-small, T = 0, γ = 5 (3.1 > 2.857)",
        "CNNDM, T5-small, T = 1, γ = 5 (2.3 > 2.128)",
    ]
    assert saying(found, "are those of Table 3")["says"].startswith(
        "The 12 α of Table 2 and the 4 of"
    )
    for misprint in MISPRINTS:
        assert misprint.but in saying(found, misprint.says)["says"]


def test_alphas_implied_by_chen(found):
    values = saying(found, "No α is printed")["values"]
    assert list(values["alphas"].values()) == pytest.approx([0.711, 0.749, 0.851], abs=5e-4)


def test_c_needed_by_token_and_block(found):
    values = saying(found, "belong together at c")["values"]
    assert [round(f(values["token"]), 4) for f in (min, max)] == [0.0599, 0.0618]
    assert [round(f(values["block"]), 4) for f in (min, max)] == [0.0628, 0.0650]


def test_magicdecs_rest_and_the_time_model(found):
    rest = saying(found, "what a round costs")
    assert len(rest["values"]["rest"]) == 59
    assert "0.7% to 6.8% of T_SD (median 3.1%)" in rest["says"]
    halves = records_of(found, "time model")
    assert sum(half["rows"] for half in halves) == 47
    for half in halves:
        assert half["plain"] <= 0.06
        assert half["verifying"] <= 0.06
        assert half["plain"] <= half["plain_most"]
    worst = saying(found, "The same three numbers")["says"]
    assert worst.count("Llama-") == 2


def test_gpt_fast_in_words(found):
    said = saying(found, "three ratios")["says"]
    assert "0.329 of the target's bytes and takes 0.533 of its time" in said


def test_without_matplotlib_plots_are_refused_before_anything_is_printed(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.delitem(sys.modules, "lab.plots", raising=False)
    with pytest.raises(SystemExit) as stop:
        printed(SCRIPT, "--plots", str(tmp_path))
    assert stop.value.code == 2
    assert "specdec-lab[plot]" in capsys.readouterr().err


@pytest.mark.slow
def test_plots_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    text = printed(SCRIPT, "--fast", "--plots", str(tmp_path))
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "figure_2.png",
        "figure_3.png",
        "figure_4.png",
    ]
    assert text.count("Drawn: ") == 3
    assert text.splitlines()[-1].endswith("exceptions")
