"""What `speclab replay` prints: numbers of the tally, and what they rest on."""

import json
import re

import numpy as np
import pytest

from lab.console import Report
from lab.costs import Costs
from lab.replay_file import Texts
from lab.replay_report import show
from lab.replay_tally import tally
from lab.theory import expected_tokens

RATIOS = [0.02, 0.1, 0.9]


def texts_of(count, length, seed=0, spread=0.3):
    rng = np.random.default_rng([9, seed])
    return list(np.clip(rng.uniform(0.7 - spread, 0.7 + spread, (count, length)), 0, 1))


@pytest.fixture
def shown(capsys):
    """Show texts -> what is printed, the JSON's parts, and the tally."""

    def shown(accept, gammas=(1, 2, 3), ratios=RATIOS, verify_cost=1.0, greedy=False):
        texts = Texts(accept, greedy)
        found = tally(accept, gammas, np.random.default_rng(0))
        for as_json in (False, True):
            report = Report("speclab replay", as_json)
            show(report, texts, found, ratios, verify_cost)
            report.close()
        out, _, content = capsys.readouterr().out.partition("\n{")
        return out, json.loads("{" + content)["parts"], found

    return shown


def table(parts, key):
    return next(part for part in parts if part.get("table") == key)


def how_to_read(out):
    return " ".join(out[out.index("Tokens per call") : out.index("Whole rounds")].split())


def test_tables_have_the_numbers_of_the_tally(shown):
    out, parts, found = shown(texts_of(40, 25), verify_cost=1.2)
    for row in table(parts, "tokens")["values"]:
        tokens = found.tokens_per_call(row["gamma"])
        assert (row["tokens"], row["tokens_low"], row["tokens_high"]) == (
            tokens.value, tokens.low, tokens.high,
        )  # fmt: skip
        assert row["hazards"] == [h.value for h in found.hazards(row["gamma"])]
        assert row["equation_1"] == expected_tokens(found.acceptance, row["gamma"])
        printed = rf"^{row['gamma']} +{tokens.value:.3f} +{tokens.low:.3f} +{tokens.high:.3f} "
        assert re.search(printed, out, re.M)
    hazards = table(parts, "hazards")["values"]
    assert [row["accepted"] for row in hazards] == [h.value for h in found.hazards(3)]
    assert [row["reached"] for row in hazards] == found.reached(3)
    for row in table(parts, "best")["values"]:
        best = found.best_gamma(Costs(lambda rows: 1.2 if rows > 1 else 1, row["c"]))
        assert (row["gamma"], row["speedup"]) == (best.gamma, best.speedup.value)
        assert row["share"] == best.share


def test_no_gamma_wins_is_said_and_so_is_the_largest(shown):
    out, parts, _ = shown(texts_of(30, 25))
    says = [part["says"] for part in parts if "says" in part]
    assert says == [
        "No γ wins at c = 0.9: plain decoding is fastest.",
        "γ 3 is the largest that was tried: at c = 0.02, 0.1 more may be better.",
    ]
    assert re.search(r"^0\.9 +none +1\.000 +1\.000 +1\.000 ", out, re.M)
    assert not [part for part in shown(texts_of(30, 25), ratios=[0.3])[1] if "says" in part]


def test_it_says_what_was_read(shown):
    out, _, found = shown(texts_of(40, 25))
    assert how_to_read(out).endswith(
        f"40 prompts, 1,000 tokens; α = {found.acceptance:.4f}, the mean of min(1, q / p). "
        "Intervals: the prompts drawn anew, 1,000 times."
    )
    out, _, _ = shown([np.array([1.0, 0, 1, 1, 1])] * 20, greedy=True)
    assert "α = 0.8000, the mean of the argmaxes' agreement (temperature 0)." in how_to_read(out)


def test_it_says_what_was_left_out_and_that_few_prompts_are_few(shown):
    out, _, _ = shown([*texts_of(4, 25), np.ones(3)])
    assert "1 prompt of no more than 3 tokens left out: too short for a round of γ 3." in (
        how_to_read(out)
    )
    assert "Of so few they are too narrow; 20 or more are wanted." in how_to_read(out)


def test_one_text(shown):
    out, _, _ = shown(texts_of(1, 700))
    assert "Intervals: its 20 blocks drawn anew, 1,000 times;" in how_to_read(out)
    out, parts, _ = shown(texts_of(1, 20))
    assert "One short text has no interval: give more prompts." in how_to_read(out)
    assert re.search(r"^1 +1\.\d{3} +n/a +n/a ", out, re.M)
    assert table(parts, "tokens")["values"][0]["tokens_low"] is None


def test_what_was_never_reached_is_not_available(shown):
    out, parts, _ = shown([np.zeros(9)] * 20, greedy=True)
    assert re.search(r"^2 +0\.0000 +n/a +n/a +n/a$", out, re.M)
    assert table(parts, "tokens")["values"][2]["hazards"] == [0, None, None]
    assert table(parts, "hazards")["values"][1]["accepted"] is None
