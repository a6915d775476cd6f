"""The command: exit codes, what is printed where, JSON, and options."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import broken_rules
import pytest

from lab.certificate import Certificate, Violation
from lab.cli import COMMANDS, main
from lab.guest import Interrupted, OutOfTime

RULES = Path(__file__).with_name("audited_rules.py")
BROKEN = Path(broken_rules.__file__)
WIDTH = 100


@pytest.fixture(autouse=True)
def _path(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def speclab(capfd):
    """Run the command -> exit code, stdout, stderr."""

    def speclab(*options):
        code = main(list(map(str, options)))
        return code, *capfd.readouterr()

    return speclab


def parts_of(out):
    return json.loads(out)["parts"]


def says_of(out):
    return [part for part in parts_of(out) if "says" in part]


# ---- audit ------------------------------------------------------------------------------------


def test_a_right_rule(speclab):
    code, out, err = speclab("audit", f"{RULES}:right", "--gamma", "1")
    assert (code, err) == (0, "")
    assert re.search(r"^random laws +1 +0 +(\d\.\d+) +\1 +\1$", out, re.M)
    assert re.search(r"^loop, lookup +1 +0 ", out, re.M)
    verdict = out[out.index("Verdict") :]
    assert "exact: in all 9 cases the text has the target's law. It emits 1." in verdict
    assert f"speclab certify {RULES}:right" in verdict
    assert max(map(len, out.splitlines())) <= max(WIDTH, len(f"{RULES}:right") + WIDTH)


def test_a_wrong_rule_gets_its_bias_and_what_it_bought(speclab):
    code, out, err = speclab("audit", f"{RULES}:resampled", "--gamma", "1")
    assert (code, err) == (1, "")
    assert max(map(len, out.splitlines())) <= WIDTH
    found = re.search(
        r"^random laws +1 +(\S+) +(\S+) +(\S+) +(\S+) +(\d) +(\S+) +(\S+)$", out, re.M
    )
    variation, *tokens, _, probability, due = map(float, found.groups())
    assert variation >= abs(probability - due) - 1e-3 > 0.01
    assert tokens[0] == tokens[1] == tokens[2]
    verdict = " ".join(out[out.index("Verdict") :].split())
    assert re.search(
        r"not exact: \d of 9 cases differ\. The largest total variation is 0\.\d+ "
        r"\([\w ,=]+, γ 1\)\. For that it emits 1\.\d{3} tokens per round in the mean of the "
        r"cases, against 1\.\d{3} \(token\) and 1\.\d{3} \(block\)\.$",
        verdict,
    )


def test_a_lossy_rule_buys_tokens(speclab):
    code, out, _ = speclab("audit", "lenient", "--gamma", "1", "--json")
    (verdict,) = [part["values"] for part in parts_of(out) if "exact" in part.get("values", ())]
    assert code == 1
    assert not verdict["exact"]
    assert verdict["total_variation"] > 0.01
    assert verdict["tokens"] > verdict["token_tokens"] + 0.05


def test_rounding_is_not_called_a_bias(speclab):
    code, out, _ = speclab("audit", f"{RULES}:in_float32", "--gamma", "1")
    assert code == 1
    assert "So little may be rounding: try float64." in " ".join(out.split())


def test_json_is_one_object_with_the_raw_numbers(speclab):
    code, out, err = speclab("audit", f"{RULES}:prints", "--gamma", "1", "--json")
    assert code == 0
    assert set(err.splitlines()) == {"called", "past print"}  # what a rule prints is not here
    (table,) = [part for part in parts_of(out) if "table" in part]
    assert [row["gamma"] for row in table["values"]] == [1] * 9
    for row in table["values"]:
        assert row["exact"] is True
        assert 0 <= row["total_variation"] <= 1e-12
        assert row["tokens"] == pytest.approx(row["token_tokens"], abs=1e-12)
        assert row["prefix"] is None
    assert says_of(out)[0]["values"]["exact"] is True


def test_what_cannot_be_examined_is_said_in_json_too(speclab):
    code, out, err = speclab("audit", f"{BROKEN}:greedy", "--gamma", "1", "--json")
    assert (code, err) == (2, "")
    (said,) = parts_of(out)
    assert said["says"].startswith("greedy draws nothing")
    assert said["values"] == {"examined": False}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("rule", ["nowhere.py:rule", f"{BROKEN}:nothing", "tokn"])
def test_a_rule_that_is_not_there(command, rule, speclab):
    code, out, err = speclab(command, rule)
    assert (code, out) == (2, "")
    assert re.match(r"speclab: .*\.$", " ".join(err.split()))


def test_a_traceback_only_if_asked_for(speclab):
    rule = f"{BROKEN}:raises"
    _, _, err = speclab("audit", rule, "--gamma", "1")
    assert "Traceback" not in err
    code, out, err = speclab("audit", rule, "--gamma", "1", "-v")
    assert (code, out) == (2, "")
    assert "Traceback" in err
    assert "return 1 // 0" in err
    assert "\nspeclab: raises raises ZeroDivisionError" in err
    assert max(map(len, err[err.index("speclab: ") :].splitlines())) <= WIDTH


def test_seeds_and_sizes(speclab):
    one, again, other, three = (
        speclab("audit", "typical", "--gamma", "1", "--json", *options)
        for options in (
            ("--vocab", "2"), ("--vocab", "2"), ("--vocab", "2", "--seed", "1"), ("--seed", "1")
        )
    )  # fmt: skip
    assert one == again
    assert one[0] == other[0] == three[0] == 1
    assert len({one[1], other[1], three[1]}) == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--vocab", "1"], "vocab=1 must be a whole number >= 2"),
        (["--vocab", "200", "--gamma", "2"], "take a smaller vocab or gamma"),
    ],
)
def test_sizes_that_cannot_be(options, sentence, speclab):
    code, out, err = speclab("audit", "token", *options)
    assert (code, out) == (2, "")
    assert sentence in " ".join(err.split())


# ---- certify ----------------------------------------------------------------------------------


def test_a_right_rule_is_certified(speclab):
    code, out, err = speclab("certify", f"{RULES}:right", "--gamma", "1")
    assert (code, err) == (0, "")
    assert "rule right, V 3, γ 1" in out
    assert re.search(r"^ +holds$", out, re.M)


def test_a_wrong_rule_is_refuted_with_fractions(speclab):
    code, out, _ = speclab("certify", f"{RULES}:resampled", "--gamma", "1..2", "--json")
    assert code == 1
    certificates = [said["values"] for said in says_of(out)]
    assert [(found["gamma"], found["holds"]) for found in certificates] == [(1, False), (2, False)]
    for found in certificates:
        assert re.search(r"has probability \d+/\d+, not \d+/\d+", found["violations"][0])


def test_a_rule_in_floats_can_be_audited_but_not_certified(speclab):
    rule = f"{RULES}:in_float64"
    assert speclab("audit", rule, "--gamma", "1")[0] == 0
    code, out, _ = speclab("certify", rule, "--gamma", "1")
    assert code == 2
    assert "It cannot be certified. " in out
    assert "cast to float" in out
    assert max(map(len, out.splitlines())) <= WIDTH


def test_only_what_draws_through_the_dice_is_certified(speclab):
    code, out, err = speclab("certify", f"{BROKEN}:a_generator_of_its_own", "--gamma", "1")
    assert (code, out) == (2, "")
    assert "hides randomness" in err


def test_a_rule_that_takes_another_way_with_exact_numbers_is_not_certified(speclab):
    """Their logarithm cannot be taken; the rule catches that, and what it then does is right."""
    code, out, _ = speclab("certify", f"{RULES}:another_way_in_floats", "--gamma", "1")
    assert code == 2
    assert "It cannot be certified. " in out
    assert "a probability was cast to float" in " ".join(out.split())


def test_what_is_not_decided_is_no_proof(speclab, monkeypatch):
    def rule(rule, vocab, gamma, seed):
        return Certificate(1, 2, 3, (), (), 0.0, "it", unseen=0.04 if gamma == 1 else 0.3)

    monkeypatch.setattr("lab.certify.rule", rule)
    assert speclab("certify", "token", "--gamma", "1")[0] == 0
    code, out, _ = speclab("certify", "token", "--gamma", "1..2", "--json")
    assert code == 1
    values = [said["values"] for said in says_of(out) if "values" in said]
    assert [(one["holds"], one["proved"]) for one in values] == [(True, True), (True, False)]
    assert says_of(out)[-1]["says"].startswith("Not decided: nothing wrong was found")


@pytest.mark.parametrize(
    ("found_exact", "wanted"), [(True, (0, False)), (False, (1, True))], ids=["exact", "not"]
)
def test_a_certificate_beside_the_audit(found_exact, wanted, speclab, monkeypatch):
    """The audit comes first; where it found a bias, no certificate ends with success."""
    monkeypatch.setattr("lab.certify.rule", lambda *args: Certificate(1, 2, 3, (), (), 0.0, "it"))
    rule = f"{RULES}:right" if found_exact else f"{RULES}:resampled"
    code, out, _ = speclab("certify", rule, "--gamma", "2")
    assert (code, "Not certified: in floats the rule is not exact." in out) == wanted


@pytest.mark.parametrize("error", [OutOfTime("does not come back within 1 s"), SystemExit(0)])
def test_what_ends_the_certifier_is_told(error, speclab, monkeypatch):
    def rule(*args):
        raise error

    monkeypatch.setattr("lab.certify.rule", rule)
    code, out, _ = speclab("certify", "token", "--gamma", "1")
    assert code == 2
    assert re.search(r"It cannot be certified\. token (does not come|calls sys\.exit)", out)


def test_ctrl_c_is_130(speclab, monkeypatch):
    def examine(*args):
        raise Interrupted

    monkeypatch.setattr("lab.cli.examine", examine)
    assert speclab("audit", "token") == (130, "", "")


def test_every_gamma_is_certified_and_long_lines_are_folded(speclab, monkeypatch):
    def rule(rule, vocab, gamma, seed):
        wrong = Violation("the cell", {(): (1, 0)}, {(): (0, 1)}, (1,), "1/2", "1/3")
        return Certificate(1, 2, 3, (wrong,) * (gamma == 2), ("x " * 90,), 0.0, f"γ {gamma}")

    monkeypatch.setattr("lab.certify.rule", rule)
    code, out, _ = speclab("certify", "token", "--gamma", "1..3")
    assert code == 1  # though the last one holds
    assert out.count("holds\n") == 2
    assert out.count("DOES NOT HOLD") == 1
    assert max(map(len, out.splitlines())) <= WIDTH


# ---- replay -----------------------------------------------------------------------------------


def test_a_file_is_replayed(speclab, tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text('{"agree": [true, true, false, true, true, false]}\n' * 30)
    code, out, err = speclab("replay", file, "--gamma", "1..3", "--c", "0.1,0.8")
    assert (code, err) == (0, "")
    assert re.search(r"^2 +3\.000 +3\.000 +3\.000 ", out, re.M)  # a a r: three tokens a call
    assert max(map(len, out.splitlines())) <= WIDTH
    code, out, err = speclab("replay", file, "--gamma", "1..3", "--json")
    assert (code, err) == (0, "")
    assert {part.get("table") for part in parts_of(out)} > {"tokens", "hazards", "best"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty: it has no line to replay."),
        (b'{"agree": [true]}\n{"agree": 1}\n', ", line 2: agree must be true or false, got 1."),
        (b'{"agree": [true, false]}', "gamma=8 needs a text of more than 8 tokens"),
        (b"\xff", ", line 1: is not UTF-8."),
    ],
)
def test_a_file_that_cannot_be_replayed(speclab, tmp_path, content, told):
    file = tmp_path / "texts.jsonl"
    file.write_bytes(content)
    code, out, err = speclab("replay", file)
    assert (code, out) == (2, "")
    assert err.startswith("speclab: ")
    assert told in " ".join(err.split())
    code, out, err = speclab("replay", file, "--json")
    assert (code, err) == (2, "")
    assert told in says_of(out)[0]["says"]


def test_the_seed_is_of_the_bootstrap(speclab, tmp_path):
    file = tmp_path / "texts.jsonl"
    pattern = [True, False, False, True, True, True, False]
    file.write_text("".join(json.dumps({"agree": pattern * i}) + "\n" for i in range(2, 9)))
    first, again, other = (speclab("replay", file, "--seed", seed)[1] for seed in (1, 1, 2))
    assert first == again != other


# ---- The command ------------------------------------------------------------------------------


def test_without_a_command_there_is_help(speclab):
    code, out, err = speclab()
    assert (code, out) == (2, "")
    assert all(f"\n    {name} " in err for name in COMMANDS)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "hw"])  # has verbs
def test_help_says_what_the_exit_codes_mean(command, capsys):
    with pytest.raises(SystemExit) as done:
        main([command, "--help"])
    out = capsys.readouterr().out
    assert done.value.code == 0
    assert re.search(r"exit code: 0 \w+; (1 [\w ,]+; )?2 the (rule|file) cannot be \w+", out)
    assert re.search(r"such as 2, 1\.\.3 or 1,3 \(1\.\.\d\)", out)
    assert max(map(len, out.splitlines())) <= WIDTH


@pytest.mark.parametrize(
    "options",
    [
        ["audit"],
        ["audit", "token", "--gamma", "0"],
        ["nothing"],
        ["replay"],
        ["replay", "x", "--c", "-1"],
    ],
)
def test_wrong_usage_is_exit_2(options, capsys):
    with pytest.raises(SystemExit) as done:
        main(options)
    assert done.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_as_a_command_of_the_shell(tmp_path):
    """`python -m lab.cli`, in another folder, on an ASCII terminal, its reader gone early."""
    (tmp_path / "mine.py").write_text(RULES.read_text())
    path = map(str, Path(__file__).parents[:2])  # of what the rule imports, and of the lab
    command = [sys.executable, "-m", "lab.cli", "audit", "mine.py:resampled", "--gamma", "1"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path), "PYTHONIOENCODING": "ascii"},
    ) as child:  # fmt: skip
        first = child.stdout.readline()
        child.stdout.close()
        assert first.startswith("speclab audit")
        assert child.wait(60) == 1
        assert child.stderr.read() == ""
