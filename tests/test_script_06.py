"""scripts/06_rules.py: every printed claim, from its JSON; and its text."""

from fractions import Fraction

import pytest
from script_runs import parts, printed, records_of, rows_of, values_of
from script_runs import script as load

from lab.console import Report
from lab.rulecost import CANDIDATES
from lab.verify import RULES

SCRIPT = "06_rules"
DRAFTS = ("trained 2L", "trained 1L", "4-gram")
LOSSLESS = ("token", "block", "match")
TYPICAL = RULES["typical"].name


@pytest.fixture(scope="module")
def script():
    return load(SCRIPT)


@pytest.fixture(scope="module")
def found():
    return parts(SCRIPT, "--fast")


def claims(found, *names):
    """The values of the one observation that has all these names."""
    (values,) = values_of(found, *names)
    return values


def test_the_published_toy(found):
    rows = rows_of(found, "toy")
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [row[1] for row in rows] == ["2/3", "10/9", "38/27", "130/81", "422/243"]
    assert [row[2] for row in rows] == ["2/3", "11/9", "5/3", "166/81", "64/27"]
    for row in rows:
        assert Fraction(row[3]) == sum(Fraction(4, 9) ** n for n in range(1, int(row[0]) + 1))
        gain = Fraction(row[2]) / Fraction(row[1]) - 1
        assert row[5] == (f"{float(gain):.1%}" if gain else "0")
    assert Fraction(rows[1][4]) == Fraction(12, 9)  # what circulates
    claim = claims(found, "circulating")
    assert claim == {"circulating": "4/3", "block": "11/9"}


def test_d15_lossy_rules_are_named_so_and_show_their_bias(found):
    rows = {row[0]: row[1:] for row in rows_of(found, "small laws")}
    assert set(rows) == {*CANDIDATES, "T = 0, every rule"}
    for name, one in CANDIDATES.items():
        kind, *_, first, two, three = rows[name]
        assert kind == ("lossless" if name in LOSSLESS else "lossy")
        assert one.rule.lossless == (name in LOSSLESS)
        if name in LOSSLESS:
            assert (first, two, three) == ("0", "0", "0")
        else:
            assert 0 < float(first) < float(two) < float(three) < 1
    assert {name for name in RULES if RULES[name].lossless} == set(LOSSLESS)


def test_block_is_never_below_token_and_equal_at_one_draft(found):
    rows = {row[0]: [float(cell) for cell in row[2:6]] for row in rows_of(found, "small laws")}
    accepted, one, two, three = rows["token"]
    assert rows["block"][:2] == [accepted, one]
    assert one == pytest.approx(1 + accepted, abs=1e-3)
    assert rows["block"][2] > two
    assert rows["block"][3] > three
    assert rows["match"][3] < three < rows["lenient(1/2)"][3] < rows["lenient(3/10)"][3]
    claim = claims(found, "above", "gains")
    assert claim["above"][0] == 0
    assert all(0 < n <= 3 for n in claim["above"][1:])
    assert claim["gains"][0] == 0


def test_lenience_on_the_fixed_law(found):
    cells = {cell["leniency"]: cell for cell in records_of(found, "lenience, one law")}
    assert list(cells) == [1, 0.9, 0.7, 0.5, 0.3, 0.1]
    assert [cells[n]["acceptance"] for n in (1, 0.5, 0.3, 0.1)] == [0.7, 0.9, 1, 1]
    assert cells[0.5]["scaled_bias"] == pytest.approx(0.2273, abs=5e-5)
    assert cells[0.5]["plain_bias"] == cells[0.5]["bound"] == 0.2
    assert cells[1]["scaled_bias"] == cells[1]["plain_bias"] == 0
    row = next(row for row in rows_of(found, "lenience, one law") if row[0] == "0.5")
    assert row == ["0.5", "0.9000", "4.095", "0.2273", "0.2000", "0.2000"] + ["2.000"] * 3


@pytest.mark.parametrize("key", ["lenience, one law", "lenience, random laws"])
def test_lenience_never_beats_the_bound_nor_passes_1_over_l(found, key):
    cells = records_of(found, key)
    for cell in cells:
        assert cell["plain_bias"] == cell["bound"] <= cell["scaled_bias"]
        largest = max(cell["scaled_largest"], cell["plain_largest"])
        assert largest <= cell["most"] + 1e-12 == 1 / cell["leniency"] + 1e-12
    for name in ("acceptance", "plain_bias"):  # l falls
        values = [cell[name] for cell in cells]
        assert values == sorted(values)


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("temperature", ["1", "0.7"])
def test_every_position_of_the_text(found, temperature, draft):
    at = {
        cell["rule"]: (cell[f"acceptance, T {temperature}"], cell[f"bias, T {temperature}"])
        for cell in records_of(found, "positions")
        if cell["draft"] == draft
    }
    assert list(at) == list(CANDIDATES)
    accepted = [at[name][0] for name in ("match", "token", "lenient(1/2)", "lenient(3/10)")]
    assert accepted == sorted(accepted)
    assert at["block"] == at["token"]
    assert [name for name in at if at[name][1] == 0] == list(LOSSLESS)
    for leniency in ("1/2", "3/10"):
        scaled, other = at[f"lenient({leniency})"], at[f"lenient({leniency}, p - q)"]
        assert other[0] == scaled[0]
        assert other[1] < scaled[1]


def test_no_acceptance_without_its_error(found):
    for _, rule, *cells in rows_of(found, "positions"):
        assert all(float(cell.split(" ± ")[1]) > 0 for cell in cells[::2])
        assert cells.count("0") == (2 if rule in LOSSLESS else 0)


def test_the_real_loop(found):
    cells = records_of(found, "loop")
    assert [cell["draft"] for cell in cells[::6]] == list(DRAFTS)
    claim = claims(found, "critical", "beyond")
    for cell in cells:
        assert cell["measured"] == pytest.approx(cell["own_drafts"] + cell["luck"], abs=1e-9)
        assert abs(cell["luck_t"]) <= claim["critical"]
        beyond = f"{cell['rule']}, {cell['draft']}" in claim["beyond"]
        assert beyond == (abs(cell["t"]) > claim["critical"])
        assert not (beyond and cell["rule"] in LOSSLESS)
        assert cell["rule"] != TYPICAL or cell["luck"] == 0  # it throws no coin
    for draft in DRAFTS:
        worth = {cell["rule"]: cell["token_drafts"] for cell in cells if cell["draft"] == draft}
        order = ("match", "token", "block", "lenient(1/2)", "lenient(3/10)")
        assert [worth[name] for name in order] == sorted(worth[name] for name in order)
        assert all(1 < value <= 5 for value in worth.values())


def test_block_gains_on_the_same_drafts(found):
    cells = records_of(found, "gain")
    assert [(c["draft"], c["gamma"]) for c in cells] == [(d, g) for g in (4, 8) for d in DRAFTS]
    assert all(cell["least"] >= -1e-12 for cell in cells)  # on no drafted path
    assert all(0 < cell["relative"] < 0.25 for cell in cells)
    short, long = cells[:3], cells[3:]
    assert all(b["relative"] > a["relative"] for a, b in zip(short, long, strict=True))
    claim = claims(found, "apart", "sharper")
    ratios = [cell["loops_stderr"] / cell["same_stderr"] for cell in cells]
    assert claim["sharper"] == min(ratios) > 2
    assert claim["apart"] == max(
        abs(c["loops"] - c["same"]) / (c["loops_stderr"] + c["same_stderr"]) for c in cells
    )
    assert sum(cell["paths"] for cell in cells) > 500


def test_the_closing_sentence_is_what_the_tables_say(found):
    claim = claims(found, "worth", "bias")
    cells = [cell for cell in records_of(found, "loop") if cell["draft"] == DRAFTS[0]]
    base = cells[0]["token_drafts"]
    for cell in cells:
        assert claim["worth"][cell["rule"]] == cell["token_drafts"] / base - 1
    positions = {c["rule"]: c for c in records_of(found, "positions") if c["draft"] == DRAFTS[0]}
    assert set(claim["bias"]) == {name for name in CANDIDATES if name not in LOSSLESS}
    assert claim["bias"] == {name: positions[name]["bias, T 1"] for name in claim["bias"]}
    (says,) = [
        part["says"] for part in found if "says" in part and "worth" in part.get("values", {})
    ]
    assert says.startswith(f"Token is worth {base:.2f} tokens a call.")
    assert f"block gives {claim['worth']['block']:+.1%}" in says


def test_temperature_0_is_one_text(found):
    (claim,) = [part for part in found if "At T = 0 all 8 rules" in part.get("says", "")]
    assert "the same text" in claim["says"]
    assert 4 * 24 / 5 <= claim["values"]["rounds"] < 4 * 24


def test_the_same_seed_prints_the_same_tables_and_another_seed_others(script, found):
    key = "lenience, random laws"
    rows = []
    for seed in (0, 1):
        again = Report("again", as_json=True)
        script["print_lenience"](again, seed, pairs=20)
        rows.append(rows_of(again.content["parts"], key))
    assert rows[0] == rows_of(found, key) != rows[1]
    laws = [
        [law(()).tolist() for pair in script["_laws"](*cell, 2) for law in pair]
        for cell in ((0, 1), (0, 1), (1, 1), (0, 2))
    ]
    assert laws[0] == laws[1] != laws[2] != laws[3] != laws[0]


def test_text(script, capsys):
    report = Report("Verification rules: cost against bias")
    script["print_toy"](report)
    script["print_small_laws"](report, 5, sets=1)
    script["print_lenience"](report, 5, pairs=5)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith("Verification rules: cost against bias\n=====")
    assert "Target (1/3, 2/3), draft (2/3, 1/3)" in text
    assert "4/3 at γ 2, where every branch gives 11/9." in " ".join(text.split())
    assert "meets the bound exactly in all 36 cells" in " ".join(text.split())


@pytest.mark.parametrize("options", [["--seed", "-1"], ["--rule", "block"]])
def test_wrong_options_are_named(capsys, options):
    with pytest.raises(SystemExit) as stop:
        printed(SCRIPT, *options)
    assert stop.value.code == 2
    assert options[0] in capsys.readouterr().err


@pytest.mark.slow
def test_the_full_run_with_another_seed():
    text = printed(SCRIPT, "--seed", "5")
    assert max(map(len, text.splitlines())) <= 100
    assert "No alarm proves nothing" in " ".join(text.split())
    assert "In short: trained 2L" in text
