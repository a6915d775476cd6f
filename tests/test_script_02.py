"""scripts/02_quantized_draft.py: every printed claim, from its JSON; and its text."""

import pytest
from script_runs import parts, printed, rows_of
from script_runs import script as load

from lab.console import Report
from lab.linear import row_product

SCRIPT = "02_quantized_draft"
NAMES = ("random, d 64", "random, d 128", "trained on Shakespeare")
COPIES = (
    "INT8, groups of 32",
    "INT4, groups of 32",
    "INT4, groups of 64",
    "INT4, whole columns",
    "INT3, groups of 32",
    "first 3 layers",
    "first 2 layers",
    "first layer",
)


@pytest.fixture(scope="module")
def script():
    return load(SCRIPT)


@pytest.fixture(scope="module")
def found():
    return parts(SCRIPT, "--fast")


def copies_of(found, name):
    """{copy: (bits, bytes ratio, FLOPs ratio, weight error, logits error, α)}."""
    return {
        row[0]: (*map(float, (row[1], *row[3:7])), float(row[7].split()[0]))
        for row in rows_of(found, f"copies, {name}")
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_copy_has_its_row(found, name):
    assert tuple(copies_of(found, name)) == COPIES


@pytest.mark.parametrize("name", NAMES)
def test_bytes_and_flops_are_different_ratios(found, name):
    for copy, (bits, size, flops, *_) in copies_of(found, name).items():
        assert size == pytest.approx(bits / 16 * flops, abs=1e-3)
        assert (flops == 1) == copy.startswith("INT")
    bits, size, *_ = copies_of(found, name)["INT4, groups of 32"]
    assert bits == 4.5 if name == "random, d 64" else 4.5 < bits < 4.51
    assert size == pytest.approx(0.281, abs=1.1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_fewer_bits_or_layers_are_further_away(found, name):
    copies = copies_of(found, name)
    int8, int4, _, column, int3, three, two, one = (copies[copy] for copy in COPIES)
    for near, far in ((int8, int4), (int4, int3), (three, two), (two, one)):
        assert near[4] < far[4]  # logits
        assert near[5] > far[5]  # α
    assert int8[3] < int4[3] < column[3] < int3[3]
    assert three[3] == two[3] == one[3] == 0


def test_random_weights_flatter_layer_skipping(found):
    small, same_shape, learned = rows_of(found, "random flatters")
    for row in (small, same_shape):
        assert float(row[2]) > float(row[4]) + 0.05
        assert float(row[6]) > 8
    assert float(learned[2]) < float(learned[4]) - 0.05
    assert float(learned[6]) < -8
    (values,) = [p["values"] for p in found if "t_change" in p.get("values", {})]
    assert values["t_learned"] < 0 < values["t_random"]
    assert values["t_change"] < -10


def test_groups_lower_the_weight_error(found):
    rows = rows_of(found, "groups")
    assert len(rows) == 2 * len(NAMES)
    assert all(float(row[3]) < 1 < 1 + float(row[2]) for row in rows)


def test_q11_the_draft_never_changes_greedy_text(found):
    rows = rows_of(found, "greedy")
    shares = {row[0]: float(row[2]) for row in rows}
    assert shares["INT8, groups of 32"] > shares["first layer"]
    if row_product().row_invariant:
        assert {row[1] for row in rows} == {"4/4"}


def test_times_stand_apart_with_what_they_depend_on(found):
    headings = [part["section"] for part in found if "section" in part]
    assert headings[-1] == "Time, bytes and FLOPs are three ratios"
    for row in rows_of(found, "times"):
        assert float(row[1]) > 0
        assert float(row[3]) == 1 or not row[0].startswith("INT")
    assert {"BLAS", "BLAS threads", "product of a few rows"} <= {
        row[0] for row in rows_of(found, "machine")
    }


@pytest.mark.slow
def test_the_same_seed_prints_the_same_tables(script, found):
    again = Report("again", as_json=True)
    subjects = script["study_all"](0, prompts=10, n_new=32)
    for subject in subjects:
        script["print_copies"](again, subject)
    for name in NAMES:
        assert rows_of(again.content["parts"], f"copies, {name}") == rows_of(
            found, f"copies, {name}"
        )


@pytest.mark.slow
def test_text_and_another_seed(script):
    text = printed(SCRIPT, "--fast", "--seed", "3")
    assert text.startswith("Drafts made of the target: quantised, or cut short\n=====")
    for name in NAMES:
        assert f"Target: {name}\n" in text
    assert "NumPy has no product of packed codes" in text
