"""scripts/01_decode_reads_every_weight.py: every printed claim, from its JSON; and its text."""

import pytest
from script_runs import parts, printed, rows_of, script, values_of

from lab.linear import row_product
from lab.transformer import ModelConfig, Transformer

SCRIPT = "01_decode_reads_every_weight"
NAMES = ("random model", "trained target")
WEIGHTS = {"random model": 278528, "trained target": 811008}  # in matrices, counted by hand


@pytest.fixture(scope="module")
def found():
    return parts(SCRIPT, "--fast")


@pytest.mark.parametrize("name", NAMES)
def test_one_token_reads_every_weight(found, name):
    section = next(p for p in found if p.get("section") == f"The {name}")
    assert f"{WEIGHTS[name]:,} weights in matrices" in section["text"]
    rows = {row[0]: row for row in rows_of(found, f"one token, {name}")}
    assert rows["embedding"][1] == "0"
    assert {row[4] for op, row in rows.items() if op != "embedding"} == {"1.000"}
    assert [v["intensity"] for v in values_of(found, "intensity", "weight_share")] == [1, 1]


def test_weights_are_most_of_the_bytes(found):
    for values, name in zip(values_of(found, "weight_share"), NAMES, strict=True):
        d = {"random model": 64, "trained target": 128}[name]
        weights = 2 * WEIGHTS[name] + 2 * d  # and a row of the embedding
        cache = 65 * 2 * 4 * d * 2  # 64 positions read, one written
        assert values["weight_share"] == pytest.approx(weights / (weights + cache))


@pytest.mark.parametrize("name", NAMES)
def test_without_a_cache_work_grows_with_the_position(found, name):
    rows = rows_of(found, f"cache, {name}")
    assert [row[0] for row in rows] == [32, 44, 56, 68, 79]
    ratios = [float(row[3]) for row in rows]
    assert ratios == sorted(ratios)
    assert ratios[0] > 31
    assert all(float(row[7]) > 20 * float(row[6]) for row in rows)


def test_with_and_without_a_cache_the_text_is_the_same(found):
    for values in values_of(found, "same", "tokens", "work"):
        assert values["tokens"] == 48
        if row_product().row_invariant:
            assert values["same"] == values["tokens"]
        assert values["work"] > 32


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_shares_weights_and_not_the_cache(found, name):
    rows = rows_of(found, f"batch, {name}")
    assert [row[0] for row in rows] == [1, 2, 4, 8, 16, 32, 64]
    assert len({row[1] for row in rows}) == 1
    assert len({row[3] for row in rows}) == 1
    intensities = [float(row[4]) for row in rows]
    assert intensities == sorted(intensities)
    assert all(float(row[5]) >= row[0] for row in rows)


def test_no_batch_reaches_the_limit_of_the_cache(found):
    for values, d in zip(values_of(found, "gain", "limit"), (64, 128), strict=True):
        flops = 2 * {64: 278528, 128: 811008}[d] + 4 * 4 * d * 65
        assert values["limit"] == pytest.approx(flops / (65 * 2 * 4 * d * 2))
        assert 1 < values["gain"] < values["limit"]


@pytest.mark.parametrize("name", NAMES)
def test_a_long_context_lowers_the_intensity_of_a_batch(found, name):
    for row in rows_of(found, f"context, {name}")[1:]:
        cells = [float(cell) for cell in row[1:]]
        assert cells == sorted(cells, reverse=True)
        assert len(set(cells)) > 1


def test_where_the_cache_outweighs_the_weights(found):
    expected = [(1024, 544), (2048, 792)]
    found_values = values_of(found, "kv_bytes_per_position", "positions")
    assert [(v["kv_bytes_per_position"], v["positions"]) for v in found_values] == expected


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_one_sequence_cost_fewer_bytes_than_sequences(found, name):
    rows = rows_of(found, f"rows, {name}")
    assert [row[0] for row in rows] == [1, 2, 3, 5, 9]
    assert rows[0][1] == rows[0][3]
    assert all(float(row[4]) > float(row[2]) for row in rows[1:])


def test_nine_rows_read_little_more_than_one(found):
    for values in values_of(found, "bytes_ratio"):
        assert 1 < values["bytes_ratio"] < 1.02


@pytest.mark.parametrize("name", NAMES)
def test_t8_prefill_is_a_phase_of_its_own(found, name):
    rows = {row[0]: row for row in rows_of(found, f"phases, {name}")}
    assert set(rows) == {"prefill", "decode"}
    assert float(rows["prefill"][4]) > 50 * float(rows["decode"][4])


def test_times_stand_apart_at_the_end(found):
    keys = [part["table"] for part in found if "table" in part]
    assert keys[-2:] == ["machine", "times"]
    assert [row[0] for row in rows_of(found, "times")] == list(NAMES)


@pytest.mark.slow
def test_the_text_says_the_same_again(found):
    """The same seed gives the same tables, times aside, in print as in JSON."""
    text = printed(SCRIPT, "--fast")
    counted, _, times = text.partition("Times of this machine")
    assert "BLAS threads" in times
    lines = [line.split() for line in counted.splitlines()]
    flowing = " ".join(counted.split())
    for part in found[: next(i for i, p in enumerate(found) if p.get("table") == "machine")]:
        for row in part.get("rows", ()):
            assert " ".join(map(str, row)).split() in lines
        if "says" in part:
            assert " ".join(part["says"].split()) in flowing
    assert "Every weight is read, 2 bytes, for one multiply-add, 2 FLOPs: 1 FLOP/byte." in flowing
    assert "9 rows of one sequence read 1.01 times the bytes of one row" in flowing


def test_formula_of_the_flops():
    flops = script(SCRIPT)["flops_of_rows"]
    model = Transformer.init(ModelConfig(), 0)
    assert flops(model, 0, 5) == sum(flops(model, i, i + 1) for i in range(5))
    assert flops(model, 2, 3) == 2 * 278528 + 4 * 4 * 64 * 3
