"""scripts/05_when_it_does_not_pay.py: every printed claim, from its JSON; and its text."""

import pytest
from script_runs import parts, printed, rows_of, script

from lab import hardware, theory
from lab.bench import RowCosts
from lab.console import Report
from lab.hardware import Device, ModelSize

SCRIPT = "05_when_it_does_not_pay"


@pytest.fixture(scope="module")
def module():
    return script(SCRIPT)


@pytest.fixture(scope="module")
def text():
    return printed(SCRIPT, "--fast")


@pytest.fixture(scope="module")
def found():
    return parts(SCRIPT, "--fast")


def values_of(found, *names):
    (values,) = [p["values"] for p in found if set(names) <= set(p.get("values", ()))]
    return values


def test_break_even_table(found):
    rows = {row[0]: [float(cell) for cell in row[1:]] for row in rows_of(found, "break_even")}
    assert rows["0.5"][:3] == [0.5, 0.375, 0.2344]  # (E - 1) / γ: .5, .75 / 2, .9375 / 4
    for alpha, limits in rows.items():
        assert limits[0] == float(alpha)
        assert limits == sorted(limits, reverse=True)


def test_both_sides_of_break_even(found):
    cheap, even, dear = rows_of(found, "both_sides")
    assert float(cheap[2][:-1]) > 1 > float(dear[2][:-1])
    assert even[2] == "1.0000x"
    assert float(dear[4][:-1]) > 1  # a smaller γ still pays


def test_alpha_equal_to_c_never_pays(found):
    rows = rows_of(found, "equal_cost")
    assert len(rows) == 7
    for row in rows:
        assert row[1] == "1.0000x"
        assert all(float(cell[:-1]) < 1 for cell in row[2:-1])
        assert row[-1] == "not worth it"


def test_t5_a_draft_as_large_as_its_target(found):
    rows = rows_of(found, "cases")
    assert [(row[3], row[5]) for row in rows[:2]] == [(4, "0.984x"), (1, "1.026x")]


def test_t4_more_accepted_tokens_less_speed(found):
    rows = rows_of(found, "cases")
    assert [(row[4], row[5]) for row in rows[2:]] == [("3.288", "2.630x"), ("4.152", "1.384x")]


def test_t2_verification_is_not_free(found):
    assert rows_of(found, "slopes") == [
        ["1 + 0.0 γ", 8, "3.092x", "3.092x"],
        ["1 + 0.04 γ", 6, "2.566x", "2.517x"],
        ["1 + 0.24 γ", 3, "1.579x", "1.304x"],
    ]


def test_verification_is_free_up_to_the_ridge(found):
    for row in rows_of(found, "intensity"):
        batch, rows, decoding, verifying = row[0], row[1], float(row[2]), float(row[3])
        assert (rows, decoding, verifying) == (5 * batch, batch, 5 * batch)
        costs = [float(cell) for cell in row[4:]]
        assert (costs == [1, 1, 1]) == (rows <= 200)
        assert costs == sorted(costs, reverse=True)


def test_speed_by_batch_and_context(found):
    rows = rows_of(found, "batch_context")
    columns = list(zip(*[[float(cell[:-1]) for cell in row[1:]] for row in rows], strict=True))
    assert {column[0] for column in columns} == {2.311}
    for column in columns:
        assert list(column) == sorted(column, reverse=True)
    for row in rows:
        assert [float(c[:-1]) for c in row[1:]] == sorted(float(c[:-1]) for c in row[1:])
    values = values_of(found, "promised", "free_rows", "break_even")
    assert round(values["promised"], 4) == 2.3109
    assert values["free_rows"] == 200
    size = ModelSize(7504658432, 131072)
    batch = values["break_even"][0]
    around = [hardware.speedup(size, Device(), 0.7, 4, 0.05, b, 256) for b in (batch - 1, batch)]
    assert around[0] > 1 >= around[1]
    assert values["break_even"][1:] == [None, None]


def test_best_gamma_falls_with_the_batch(found):
    rows = rows_of(found, "best_by_batch")
    gammas = [0 if row[1] == "not worth it" else int(row[1].split()[0]) for row in rows]
    assert gammas[0] == theory.best_gamma(0.7, 0.05)[0]
    assert gammas == sorted(gammas, reverse=True)
    assert gammas[-1] == 0


def test_another_device(module, capsys):
    module["print_device"](Report("Device", as_json=True), Device(50e12, 1e12))
    report = Report("Device", as_json=True)
    module["print_device"](report, Device(50e12, 1e12))
    assert report.content["parts"][-2]["values"]["free_rows"] == 50
    assert capsys.readouterr().out == ""
    for option, value in (("--flop-rate", "0"), ("--bandwidth", "nan"), ("--bandwidth", "fast")):
        with pytest.raises(SystemExit) as stop:
            module["main"]([option, value])
        assert stop.value.code == 2
        said = capsys.readouterr().err
        assert option in said
        assert repr(value) in said


def test_measured_tables_have_every_model_and_product(found):
    rows = rows_of(found, "rows")
    names = ["random, d 64", "trained, d 128", "random, d 768"]
    assert [row[:2] for row in rows] == [[n, p] for n in names for p in ("tiled", "plain")]
    for row in rows:
        assert row[3] == "1.00"
        assert all(float(cell) > 0 for cell in row[2:])
        assert row[1] == "plain" or row[2] == "1.00"
    assert len(rows_of(found, "consequences")) == 4 * len(rows)


def test_consequences_of_a_measured_verify_cost(module):
    """On made-up measurements: free verification is Thm 3.8, dear verification never pays."""
    rows = tuple(range(1, 18))
    free = RowCosts("tiled", rows, (1.0,) * 17, 0.01)
    dear = RowCosts("plain", rows, tuple(float(n) for n in rows), 0.01)
    report = Report("Made up", as_json=True)
    module["print_consequences"](report, [("a model", free), ("a model", dear)])
    table, said = report.content["parts"]
    for with_free, with_dear in zip(table["rows"][::2], table["rows"][1::2], strict=True):
        assert with_free[6] == with_free[2]
        assert with_free[5] == with_free[2].partition("(")[2].rstrip(")")
        assert with_dear[6] == "not worth it"
        assert float(with_dear[5][:-1]) < 1
    assert said["values"]["least"] == 1.0
    assert said["values"]["most"] == said["values"]["promised"]


def test_measured_stands_apart_at_the_end(found, text):
    keys = [part["table"] for part in found if "table" in part]
    assert keys[-3:] == ["machine", "rows", "consequences"]
    assert keys.index("best_by_batch") == len(keys) - 4
    before, _, after = text.partition("Measured on this machine")
    assert "BLAS threads" in after
    assert "BLAS threads" not in before


def test_formula_part_is_the_same_in_text_and_again(text):
    again = printed(SCRIPT, "--fast")
    head = "Measured on this machine"
    assert again.partition(head)[0] == text.partition(head)[0]
    assert "Verification is free up to 200 rows in all" in text
