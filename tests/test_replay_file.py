"""Files of log-probabilities: what they say of every γ, in any form, and what can be wrong."""

import json
import math

import numpy as np
import pytest
from models import GREEDY

from lab.decode import speculative_generate
from lab.estimate import replay, tokens_per_call
from lab.exact import TableLM
from lab.measure import texts_of
from lab.replay_file import lines_along, read, write
from lab.sampling import Sampling
from lab.theory import expected_tokens


@pytest.fixture
def path(tmp_path):
    return tmp_path / "texts.jsonl"


def replayed(path, gamma):
    """Tokens per call of what a file says."""
    accept = read(path).accept
    return replay([np.ones(len(a)) for a in accept], accept, [gamma])[gamma]


# ---- What a file says -------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_constant_acceptance_is_equation_1(path, gamma):
    p = np.linspace(-3, -0.3, 90)
    write(path, [{"target_logprobs": list(p), "draft_logprobs": list(p + math.log(0.7))}] * 2)
    assert replayed(path, gamma).value == pytest.approx(expected_tokens(0.7, gamma), rel=1e-13)


def test_long_stretches_give_the_harmonic_mean(path):
    stretches = np.tile(np.repeat([0.9, 0.5], 2000), 2)
    lines = [{"target_logprobs": [-1.0] * 8000, "draft_logprobs": list(np.log(stretches) - 1)}]
    write(path, lines)
    good, bad = expected_tokens(0.9, 4), expected_tokens(0.5, 4)
    harmonic = 2 / (1 / good + 1 / bad)
    assert replayed(path, 4).value == pytest.approx(harmonic, rel=2e-3)
    assert abs((good + bad) / 2 / harmonic - 1) > 0.1


@pytest.mark.parametrize("gamma", [2, 4])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_p=0.8), GREEDY])
def test_against_the_real_loop(path, gamma, sampling):
    """30 prompts × 60 tokens, on the very texts that the loop wrote: four standard
    errors, missed by chance less than once in 2,500; at T = 0 there is no noise."""
    target = TableLM.random(6, 3, context=2, scale=0.7)
    noise = np.random.default_rng([9, 0]).normal(0, 0.8, target.table.shape)
    draft = TableLM(target.table + noise)
    prompts = [np.array([i % 6, i // 6]) for i in range(30)]
    runs = [
        speculative_generate(
            target, draft, prompt, 60, gamma, sampling=sampling,
            rng=np.random.default_rng([5, gamma, i]),
        )
        for i, prompt in enumerate(prompts)
    ]  # fmt: skip
    write(path, lines_along(target, draft, texts_of(prompts, runs), [2] * 30, sampling))
    assert read(path).greedy == (sampling is GREEDY)
    measured, found = tokens_per_call(runs, gamma), replayed(path, gamma)
    assert found.n == 30 * (60 - gamma)
    allowed = 1e-12 if sampling is GREEDY else 4 * measured.stderr
    assert abs(found.value - measured.value) <= allowed
    assert 1.2 < found.value < gamma + 0.9


def lines_of(accept, form, greedy):
    """The lines of texts in one of the forms; acceptances are 0 or 1 if greedy."""
    for name, text in zip("ab", accept, strict=True):
        if greedy and form == "prompts":
            yield {"agree": [bool(a) for a in text]}
        elif form == "prompts":
            logs = [math.log(a) - 2 for a in text]
            yield {"target_logprobs": [-2] * len(text), "draft_logprobs": logs, "other": None}
        for token, a in enumerate(text):
            if form == "tokens" and greedy:
                yield {"prompt": name, "token": token, "agree": bool(a)}
            elif form == "tokens":
                yield {"prompt": name, "target_logprob": -2, "draft_logprob": math.log(a) - 2}


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("form", ["prompts", "tokens"])
def test_all_forms_say_the_same(path, form, greedy):
    accept = [[1, 0, 1, 1], [0, 1]] if greedy else [[0.5, 1, 0.25, 0.125], [1, 0.75]]
    write(path, lines_of(accept, form, greedy))
    texts = read(path)
    assert texts.greedy == greedy
    assert [a.tolist() for a in texts.accept] == [pytest.approx(a, rel=1e-15) for a in accept]


def test_tokens_without_a_prompt_are_one_text_and_prompts_may_take_turns(path):
    line = {"target_logprob": -1.0, "draft_logprob": -1.0}
    write(path, [line] * 3)
    assert [len(a) for a in read(path).accept] == [3]
    write(path, [line | {"prompt": name} for name in (1, "1", 1, 2, "1", 1)])
    assert [len(a) for a in read(path).accept] == [3, 2, 1]


def test_blank_lines_a_byte_order_mark_and_windows_line_ends(path):
    path.write_bytes(b'\xef\xbb\xbf{"agree": [true]}\r\n\r\n{"agree": [false]}\r\n')
    assert [a.tolist() for a in read(path).accept] == [[1.0], [0.0]]


def test_probabilities_too_small_for_a_float_and_what_the_draft_never_says(path):
    """p = e^-800 is 0 as a float, and q / p is not; log 0 is -Infinity, or -9999 as servers say."""
    path.write_text(
        '{"target_logprobs": [-801, -1, -1, -800], "draft_logprobs": [-802, -Infinity, -9999, 0]}'
    )
    assert read(path).accept[0].tolist() == [pytest.approx(math.exp(-1)), 0, 0, 1]
    path.write_text('{"target_logprobs": [1e-7], "draft_logprobs": [-%s]}' % ("9" * 400))
    assert read(path).accept[0].tolist() == [0]


def test_what_the_lab_writes_is_json_for_everybody(path):
    never = TableLM.of_probs([[1.0, 0.0], [1.0, 0.0]])
    write(path, lines_along(TableLM.random(2, 0), never, [np.array([0, 1, 0])], [1]))
    (line,) = path.read_text().splitlines()
    content = json.loads(line, parse_constant=pytest.fail)
    assert content["tokens"] == [1, 0]
    assert content["draft_logprobs"] == [-9999.0, 0.0]
    with pytest.raises(ValueError, match="texts: token 1 has probability 0 under the target"):
        lines_along(never, never, [np.array([0, 1, 0])], [1])


# ---- What is wrong with it --------------------------------------------------------------------

PAIR = '{"target_logprobs": [-1, %s], "draft_logprobs": [-1, -2]}'
AS_DRAFT = '{"target_logprobs": [-1, -2], "draft_logprobs": [-1, %s]}'
TOKEN = '{"target_logprob": -1, "draft_logprob": %s, "prompt": %s}'

WRONG = {
    "not json": ("{", "is not JSON: Expecting property name .* at column 2"),
    "a csv": ("-1, -2", "is not JSON: Extra data"),
    "digits": ('{"agree": %s}' % ("1" * 5000), "is not JSON that can be read: a number"),
    "brackets": ("[" * 100_000, "is not JSON that can be read: .* a nesting"),
    "a list": ("[1, 2]", r"must be an object \{..\}, got \[1, 2\]"),
    "a number": ("1" * 60, r"must be an object \{..\}, got 1{40}…"),
    "no keys": ("{}", "must have target_logprobs and draft_logprobs, or .* it has no keys"),
    "other keys": ('{"logprob": 1, "é": 2}', 'or agree; its keys are "logprob", "é"'),
    "no draft": ('{"target_logprobs": [-1]}', "draft_logprobs is missing"),
    "no target": ('{"draft_logprob": -1}', "target_logprob is missing"),
    "two forms": (
        '{"target_logprob": -1, "draft_logprob": -1, "agree": true}',
        "has keys of two forms, target_logprob and draft_logprob, and agree",
    ),
    "not a list": ('{"target_logprobs": -1, "draft_logprobs": [-1]}', "must be a list .* got -1"),
    "nothing": ('{"target_logprobs": [], "draft_logprobs": []}', r"at least one, got \[\]"),
    "lengths": (
        '{"target_logprobs": [-1, -2], "draft_logprobs": [-1]}',
        "target_logprobs and draft_logprobs must be equally long, got 2 and 1",
    ),
    "lengths of tokens": (
        '{"tokens": [1], "agree": [true, true]}',
        "tokens and agree must be equally long, got 1 and 2",
    ),
    "nan": (PAIR % "NaN", r"target_logprobs\[1\] must be a log-probability, .* got NaN"),
    "infinity": (AS_DRAFT % "Infinity", r"draft_logprobs\[1\] must be .* got Infinity"),
    "positive": (PAIR % "0.5", r"target_logprobs\[1\] must be .*at most 0, got 0.5"),
    "text": (AS_DRAFT % '"-1"', r'draft_logprobs\[1\] must be .* got "-1"'),
    "true": (PAIR % "true", r"target_logprobs\[1\] must be .* got true"),
    "null": (PAIR % "null", r"target_logprobs\[1\] is null: servers have none for the first token"),
    "impossible": (PAIR % "-Infinity", r"target_logprobs\[1\] must be above -9999, log 0"),
    "impossible token": (PAIR % "-9999", r"target_logprobs\[1\] must be above -9999, log 0"),
    "one token": (TOKEN % ("0.1", "0"), "draft_logprob must be .*, got 0.1"),
    "prompt": (TOKEN % ("-1", "[1]"), r"prompt must be a string or a whole number, got \[1\]"),
    "no agreement": ('{"agree": [true, 1]}', r"agree\[1\] must be true or false, got 1"),
    "no boolean": ('{"agree": "yes"}', 'agree must be true or false, got "yes"'),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_line_is_one_sentence_with_its_place(path, name):
    line, told = WRONG[name]
    good = {"token": 7, "agree": [True]} if "agree" in line else {}
    path.write_text(f"\n{line}\n{json.dumps(good)}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^.*texts\.jsonl, line 2: .*{told}.*\.$") as error:
        read(path)
    assert "\n" not in str(error.value)


def test_lines_of_two_kinds(path):
    path.write_text('{"agree": [true]}\n' + PAIR % "-1")
    told = r"line 2: has target_logprobs and draft_logprobs, and the lines before it have agree\.$"
    with pytest.raises(ValueError, match=told):
        read(path)


@pytest.mark.parametrize("content", [b"\xff\xfe{\x00}\x00", b'{"agree": "\xe9"}'])
def test_not_utf_8(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"texts\.jsonl, line 1: is not UTF-8\.$"):
        read(path)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_empty(path, content):
    path.write_text(content)
    with pytest.raises(ValueError, match=r"texts\.jsonl is empty: it has no line to replay\.$"):
        read(path)


def test_no_such_file_and_a_folder(path):
    with pytest.raises(ValueError, match=r"texts\.jsonl cannot be read: No such file"):
        read(path)
    path.mkdir()
    with pytest.raises(ValueError, match=r"texts\.jsonl cannot be read: Is a directory"):
        read(path)
