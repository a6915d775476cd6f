"""From public report to test: what people reported elsewhere, and which test holds it here.

A test carries the ids of the entries it answers in its name, such as `test_k3_...`. This module
finds them, sees that no entry is without a test or a reason, and keeps public_reports.md, the table
for readers, up to date:

    python tests/test_public_reports.py --write
"""

import ast
import re
import sys
from collections import defaultdict
from dataclasses import fields
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS / "public_reports.md"
COMMAND = "python tests/test_public_reports.py --write"

INTRODUCTION = """\
Laws are compared jointly, over at least γ + 2 tokens of models that look at their context, because
a first token alone is blind to half of these faults; and acceptance counts or the caches themselves
are compared beside the text, because a draft that has lost its place leaves the text as it was. A
run without a rejection proves nothing, so tests assert that rejections, partial and full
acceptances did happen."""

LEGEND = f"""\
FIX-A, FIX-B and FIX-C are the small models of `models.py`: one law without context, a chain of two
states, a hash of the whole text. p is the target's law, q the draft's, α the mean of Σ min(p, q).
This page is generated: `{COMMAND}`."""

KINDS = {
    "D": "Is the law the target's?",
    "K": "Caches, rollback, positions",
    "S": "Stop tokens and limits",
    "C": "Sampling settings beside speculation",
    "M": "Rates and their estimators",
    "T": "Choosing γ, and when it does not pay",
    "F": "The ledger of operations and bytes",
    "Q": "Quantised weights",
    "N": "Numbers at their edges",
    "W": "Inputs, options, wishes",
    "R": "Seeds and repeatability",
}

# id: where it was reported, what must hold
REPORTS = {
    "D1": ("HF transformers PR 28508",
           "A draft can be rejected: the first token of FIX-A has law p, not q."),
    "D2": ("HF transformers PR 28508",
           "The residual is (p − q)+ over its sum: no softmax, and 0 wherever p ≤ q."),
    "D3": ("NJUNLP/MCSD #5, eth-sri/language-model-arithmetic #14, notes.yanda.rocks",
           "After a rejection the residual is drawn from; p in its place gives another law."),
    "D4": ("feifeibear/LLMSpeculativeSampling #36",
           "The ratio is p/q: turned over it accepts more (.84, not .65) and the law is wrong."),
    "D6": ("ml-explore/mlx-swift-lm PR 459, lablup/mlxcel PR 992",
           "Exact match emitting the target's own draw is unbiased; it accepts Σ pq, not α."),
    "D7": ("1bit-MONSTER #637",
           "The ratio divides by q of the very token drafted, not by a maximum of p."),
    "D8": ("jinghong-chen.net",
           "A draft with p < q is kept with probability p/q, not always thrown away."),
    "D10": ("vllm-ascend PR 2881",
            "Verification, residual and sampling write to none of the arrays they are given."),
    "D12": ("vLLM PR 47386 and 54282, local-inference-lab/vllm #205",
            "Each draft, coin, correction and bonus takes exactly one random number of its own."),
    "D13": ("vllm-ascend #7807",
            "Every rule marked lossless gives the joint law of FIX-B over three tokens."),
    "D14": ("feifeibear #1, anarchy LLM-VM PR 239, vLLM #7627 and #5313, dilab-zju #16",
            "What is kept is the law, and at T = 0 the text; one seed's text at T = 1 is not."),
    "D15": ("HF transformers #45865, EAGLE #148, vLLM PR 5131",
            "A rule that changes the law is marked lossy, is no default, and fails the checks."),
    "D16": ("feifeibear #36, EAGLE #115",
            "Arguments are named target and draft; exchanging them shows in the result."),
    "K3": ("lablup/mlxcel #994, PR 1002",
           "After a rejection the draft's cache ends at the text: 272 of 508 accepted on FIX-C."),
    "K4": ("lucidrains/speculative-decoding #3",
           "Rejected drafts never reach the text: five rejected lengthen it by one token."),
    "K5": ("aprender PR 2014",
           "A rejection rolls the cache back to the text; it does not empty it."),
    "K6": ("mlx-lm PR 1109, #1423 and #1914, mlx-swift-lm #424 and PR 584",
           "truncate refuses lengths it cannot give, and a cache that ignores it is an error."),
    "K7": ("hyprstream PR 1521, executorch PR 21749, mlx-node PR 24, candle PR 3743",
           "New rows after cached ones see all history and no future."),
    "K8": ("VeloxQuant #171 and #389, hipfire PR 391, shainet PR 110, llama.cpp #26478",
           "After a rollback another continuation gives the logits of a fresh pass."),
    "K9": ("picolm PR 30",
           "What lies in a cache beyond its length, NaN even, does not change one bit."),
    "K10": ("karpathy/nanochat PR 186",
            "Growing a cache keeps every head, layer and position where it was."),
    "K11": ("vllm-mlx PR 576 and #575, HF transformers #30312",
            "A snapshot of a cache shares no memory with what is written later."),
    "K12": ("vllm-metal PR 716",
            "Rounds with γ = 0 do not leave the draft behind: 175 of 358 accepted on FIX-C."),
    "K13": ("jjang-ai/vmlx PR 150 and 173",
            "A round without a proposal is a plain step, and the next one starts from its token."),
    "K14": ("lattice PR 284",
            "An error inside a round puts both caches back; the next call succeeds."),
    "K15": ("mlx-vlm PR 2206",
            "Each prompt token is fed once; prefill leaves the last one pending."),
    "K16": ("Mesh-LLM #1076",
            "Every width of a verification pass gives the same logits, not only widths 1 and 2."),
    "S2": ("sglang #31599, PR 31569",
           "Within a block the stop token is looked for before the limit."),
    "S3": ("lattice #242 and PR 245, ferrox PR 311, ai-engineering-from-scratch PR 185, litgpt "
           "PR 2308",
           "Exactly as many tokens as were asked for, at every length; 0 asks no model."),
    "S4": ("litgpt #2307",
           "The very first token is returned, and is looked at for a stop."),
    "S5": ("exllamav2 #274, vLLM #5342 and PR 53812, lorax #474",
           "At the end of the target's context γ shrinks; the run ends with 'length', no error."),
    "S6": ("vLLM #58080 and PR 34751, ik_llama #732",
           "Past the draft's context nothing is drafted, the text is right, the rate unknown."),
    "S7": ("ik_llama PR 2358, sglang PR 37450 and #39826, vLLM #56101",
           "Counts of emitted tokens leave out what a stop cuts off, and sum to the text."),
    "S8": ("vLLM PR 41768",
           "A least length forbids the stop token on exactly the rows before it."),
    "S9": ("vmlx-swift PR 148, tt-metal PR 56048, ik_llama PR 1274",
           "The callback sees the tokens of the result, all of them, in order, and no others."),
    "C1": ("vLLM #9834 and PR 10198, lattice #388, ROCm/ATOM PR 2318, LiteRT-LM #3017",
           "Verification uses the temperature and filters of the request."),
    "C2": ("jaymody #9",
           "At T = 0 both laws are one-hot: only the target's argmax is accepted."),
    "C3": ("checked beside C2",
           "A low temperature raises α only where both argmaxes agree; else it goes to 0."),
    "C4": ("vLLM PR 56724 and 10198, local-lab PR 573",
           "The draft may be sampled in any way, as long as q is the law it was drawn from."),
    "C5": ("rasbt/reasoning-from-scratch #164, C2C PR 21, esm PR 360, fish-speech PR 1171, "
           "labml #203",
           "top-p keeps a token if the mass before it is below the threshold."),
    "C6": ("maxtext #950",
           "Ties at a cut go to the lower index, for both models alike."),
    "C7": ("Kimi-Audio PR 161",
           "Log-probabilities over T give the law of logits over T; probabilities over T do not."),
    "C8": ("vLLM #6718 and PR 33251, sglang PR 33643",
           "A penalty sees, row by row, what was drafted before that row, each token once."),
    "C9": ("skyzh/tiny-llm PR 299",
           "An option is either obeyed or an error that names it."),
    "C10": ("llama.cpp #27972, vLLM #34497 and PR 33391",
            "Log-probabilities of emitted tokens are the target's, corrections included."),
    "M3": ("sglang PR 23530",
           "Accepted over drafted leaves the bonus out of both numbers."),
    "M4": ("vLLM PR 17908",
           "Accepted drafts and tokens per call differ by one, and each is called by its name."),
    "M5": ("vLLM PR 2658",
           "What would have been accepted after a rejection does not count."),
    "M6": ("vLLM PR 24322, Bonsai-demo PR 190",
           "With nothing drafted a rate is unknown: neither zero nor a division by zero."),
    "M7": ("TensorRT-LLM PR 14724, sglang PR 13212",
           "Drafted is counted, not rebuilt as γ times rounds."),
    "M8": ("llama.cpp PR 14104 and #14048",
           "Drafts that were never sent to the target are not drafted."),
    "M9": ("vLLM PR 49825",
           "α from a speed-up inverts eq. (1); (speed-up − 1)/γ is another number."),
    "M10": ("keyboardAnt/distributed-speculative-inference PR 34",
            "When all drafts are accepted the estimate of α is 1."),
    "M11": ("llama.cpp PR 24536, vLLM PR 39359",
            "Rates by position fall because they are cumulative; conditional ones need not."),
    "M12": ("llama-cpp-windows-manager #59",
            "A rate above one is an error, not clamped to one."),
    "M15": ("a lesson script",
            "The expectation beside a measurement is that of this draft's own α."),
    "M16": ("forgecascade.org",
            "Speed is (1 − α^(γ+1))/(1 − α) at c = 0, right at α = 0 and 1 too."),
    "M17": ("EAGLE #180 and #115, unsloth #10401 and PR 10416, fak #4201",
            "α is the mean of Σ min(p, q) = 1 − TV over named contexts, with n and its error."),
    "M18": ("DeepSpec PR 48",
            "Tests of exactness have negative controls: ten different faults at least turn red."),
    "T1": ("llama.cpp #3649",
           "γ c + 1 stands in the denominator of Thm 3.8, with the number of drafts as γ."),
    "T2": ("llama.cpp #3649 and PR 17034, rMLX #516, sparkinfer PR 886",
           "Where rows of a verification cost time, the best γ and its speed are lower."),
    "T4": ("Spec-Bench #29",
           "More tokens per call can be slower, if the draft is dearer."),
    "T5": ("nibor1896/Crow #29, mattn/tensai PR 44",
           "A draft about as dear as its target gains nothing, however often it is right."),
    "T6": ("dilab-zju #22",
           "A perfect draft at half the target's time gives 1.333, 1.5, 1.667 at γ 1, 2, 4."),
    "T7": ("llama.cpp PR 10455",
           "Every repeat of a measurement starts with empty caches and gives the same counts."),
    "T8": ("cs249r_book PR 1935",
           "Prefill is counted once, as a phase of its own."),
    "T9": ("llama.cpp #3919 and #25908",
           "Beside a share accepted stands how much was drafted per round."),
    "T10": ("vLLM #6993 and RFC #48627, sglang PR 13376",
            "γ = 0 is plain decoding, through the same call and with the same counts."),
    "T11": ("Leviathan et al. 2023, Theorem 3.11",
            "The factor of operations includes the draft's own, which a layer-skip draft has."),
    "F2": ("fvcore #69 and PR 77, onnx-tool #80, Model-Optimizer #387",
           "A multiply-add is two FLOPs: (9, 64) by (64, 256) is 294,912."),
    "F3": ("trl #6708 and PR 6709, torchtitan PR 280, verl PR 4173",
           "A lookup of an embedding is no FLOPs; a head is 2 V d a row, tied or not."),
    "F5": ("fak #9136",
           "Bytes per emitted token count target, draft and cache; totals are sums of the rows."),
    "Q2": ("GPTQModel PR 1531, aiter #4289, llama.cpp PR 7313 and 20460",
           "A group of zeros, or too small for a scale, becomes 0; NaN and infinity are errors."),
    "Q3": ("torch-xpu-ops PR 5001",
           "Input i takes the scale of group i // group."),
    "Q4": ("LightCompress #334, distiller PR 463, torchao PR 805",
           "Codes are symmetric, −7..7 in INT4, and quantising twice changes nothing."),
    "Q5": ("tilelang PR 2490, gptq #19",
           "A nibble is two's complement: 8..15 are −8..−1."),
    "Q6": ("compressed-tensors PR 518",
           "Codes are masked before they are packed, the lower index in the low nibble."),
    "Q7": ("nncf PR 4074",
           "An asymmetric range includes zero, so weights of one sign keep their differences."),
    "Q8": ("colibri #225 and PR 242",
           "Groups run along the inputs: one large input does not spoil a whole row."),
    "Q9": ("TensorRT-LLM #1922, diffusers PR 10009, BitNet #25",
           "Bytes of packed weights include the scales: 4.5 bits a weight, not 4."),
    "Q10": ("ltx-2-mlx PR 60",
            "Bits, group and shape are stored; they cannot be guessed from sizes."),
    "Q11": ("llama.cpp #25618",
            "Quantising the draft leaves greedy text as it is; acceptance alone moves."),
    "Q12": ("checked beside Q4",
            "Halves are rounded to even, and codes are never cut towards zero."),
    "N1": ("duoan/TorchCode #16, ScaleLLM PR 202",
           "A residual emptied by rounding falls back to p; there is no 0/0."),
    "N2": ("fwdpp #20, Distributions.jl PR 1799, artis PR 463",
           "A token of probability 0 is never accepted or drawn, not at a uniform of 0 either."),
    "N4": ("char-rnn-tf #1, Theano #2592, llamppl #12",
           "Laws that sum to 1 only in float32 can be drawn from."),
    "N5": ("vLLM PR 890, mamba PR 1041, ollama PR 9631, SlopDotCash/asi PR 2888",
           "Logits are centred before they are divided; T = 0 is an argmax, T < 0 an error."),
    "N6": ("lablup/mlxcel PR 992",
           "Laws are float64: tiny probabilities keep their ratio."),
    "N7": ("vLLM PR 46665",
           "Where acceptance is computed in logs, 1 − ratio goes through log1p."),
    "N8": ("nltk #158",
           "A context that an n-gram never saw gives a finite law that sums to 1."),
    "N9": ("lattice #280, PR 281, PR 386 and #861",
           "At exact ties the first index wins everywhere: speculative text equals plain text."),
    "N10": ("checked beside N9",
            "A NaN among logits is an error, and no argmax."),
    "N11": ("mlx-lm #1470 and PR 1592, HF transformers #39421, llama.cpp #27407",
            "Rows together and one by one agree; greedy comparisons stay clear of near ties."),
    "W1": ("llama.cpp PR 3812, vLLM #7252, #5203 and PR 13849",
           "Vocabularies that differ are refused before any forward; both sizes are named."),
    "W2": ("unsloth #10401, vLLM PR 49825, cneuralnetwork #5",
           "The lab says when a draft is not worth it, as at α = .4, c = .5."),
    "W3": ("lms #172",
           "Every token says whether it was a draft, a correction or a bonus; the counts agree."),
    "W4": ("mlx-engine #280",
           "A missing model is an error that names its file; nothing decodes plainly instead."),
    "W5": ("vLLM PR 22437 and 40704, onnxruntime-genai PR 2314",
           "Prompt lookup says which of several matches it takes, and never matches itself."),
    "W6": ("vLLM #40875",
           "Prompt lookup lets its least and greatest match length be chosen."),
    "W7": ("llama.cpp #24768 and PR 25726, Nathanw1014 #11",
           "A round accepted in full is censored data, not γ accepted and an end."),
    "W8": ("llama.cpp PR 10455",
           "Wrong arguments are errors that name argument and value; γ 0 and prompts of 1 work."),
    "W9": ("vLLM #7627",
           "The documentation states the lossless guarantee together with its limits."),
    "W10": ("tiny-llm PR 203",
            "Code that students write is checked by the tests that the reference passes."),
    "W11": ("ollama PR 8134",
            "An estimate of memory counts target, draft and both caches."),
    "R1": ("vLLM #13196",
           "At T = 0 every seed gives the same text, and every ratio is 0 or 1."),
    "R2": ("vLLM #6038, PR 6034 and PR 10863",
           "One seed repeats, seeds differ, and interleaved runs do not disturb each other."),
    "R3": ("lattice #237 and #388",
           "No generator is made without a seed; NumPy's global state is left alone."),
    "R4": ("onnxruntime-genai PR 2528",
           "How far a run moves its generator follows from its rounds, a stop included."),
    "R5": ("HF transformers PR 22949",
           "Texts of one seed differ from plain decoding and between γ; laws are compared."),
}  # fmt: skip

# id: why, and what would be needed
NOT_OFFERED = {
    "S8": "there is no least length; it would be a setting of `Sampling` that knows, row by row, "
          "how many tokens came before",
    "C10": "a run returns no log-probabilities; `Generation` would have to keep log p of each "
           "emitted token from the scored rows",
    "Q7": "codes are symmetric, so zero is in every range; asymmetric ones would need a zero point "
          "per group",
    "N7": "no rule works in logs: coins are compared as probabilities in float64",
    "W11": "no estimate of memory is printed; the ledger counts what is read, of both models and "
           "both caches (F5)",
}  # fmt: skip

NO_IDS = {f"{half}{row}" for half in "ab" for row in range(1, 13)}  # rows of the two lessons


def ids_in(name):
    """Ids that the name of a test carries: test_d12_r4_one_uniform -> ["D12", "R4"]."""
    parts = [part for part in name.split("_") if re.fullmatch(r"[a-z]\d{1,2}", part)]
    return [part.upper() for part in parts if part not in NO_IDS]


def find_tests():
    """{id: ["test_decode.py::test_k3_...", ...]}, in the order of files and lines."""
    found = defaultdict(list)
    for path in sorted(TESTS.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for name in ids_in(node.name):
                    found[name].append(f"{path.name}::{node.name}")
    return found


def render():
    """public_reports.md."""
    found = find_tests()
    lines = ["# From public report to test", "", INTRODUCTION, "", LEGEND]
    for kind, heading in KINDS.items():
        lines += ["", f"## {heading}", ""]
        lines += ["| id | reported | what must hold | tests |", "|---|---|---|---|"]
        for name, (where, must_hold) in REPORTS.items():
            if name[0] == kind:
                tests = "<br>".join(f"`{test}`" for test in found.get(name, ()))
                reason = f"not offered: {NOT_OFFERED.get(name, '')}"
                lines.append(f"| {name} | {where} | {must_hold} | {tests or reason} |")
    return "\n".join(lines) + "\n"


# ---- The tests of this module ------------------------------------------------------------------


def test_every_report_has_a_test_or_a_reason_and_not_both():
    found = find_tests()
    assert set(NOT_OFFERED) <= set(REPORTS)
    neither = [name for name in REPORTS if name not in found and name not in NOT_OFFERED]
    assert not neither, "a test of its own, or an entry of NOT_OFFERED"
    both = {name: found[name] for name in NOT_OFFERED if name in found}
    assert not both, "there is a test now: take it out of NOT_OFFERED"


def test_what_is_not_offered_is_not_there():
    """So that a reason does not outlive its truth."""
    from lab import verify  # here: the page is written where the lab is not installed too
    from lab.quant import QuantizedMatrix
    from lab.sampling import Sampling
    from lab.text import Generation

    assert {field.name for field in fields(Sampling)} == {  # S8
        "temperature", "top_k", "top_p", "min_p", "repetition_penalty",
    }  # fmt: skip
    assert not any("log" in field.name for field in fields(Generation))  # C10
    assert [field.name for field in fields(QuantizedMatrix)][:2] == ["codes", "scales"]  # Q7
    assert not any("zero" in field.name for field in fields(QuantizedMatrix))
    assert "np.log" not in Path(verify.__file__).read_text(encoding="utf-8")  # N7


def test_every_id_in_the_name_of_a_test_is_one_of_a_report():
    unknown = {name: tests for name, tests in find_tests().items() if name not in REPORTS}
    assert not unknown, "rename the test, or describe the report in REPORTS"


def test_what_is_and_what_is_not_an_id():
    assert ids_in("test_d12_r4_one_uniform") == ["D12", "R4"]
    assert ids_in("test_fix_c_origins_w3") == ["W3"]
    assert ids_in("test_k99_no_such_report") == ["K99"]
    assert ids_in("test_lesson_a7_b12_tokens_of_t1") == ["T1"]
    assert ids_in("test_b13_is_no_row_of_a_lesson") == ["B13"]
    assert ids_in("test_int4_of_d128_x1y_v") == []


def test_every_report_is_of_a_kind_and_stands_in_order():
    kinds = list(KINDS)
    order = [(kinds.index(name[0]), int(name[1:])) for name in REPORTS]
    assert order == sorted(set(order))
    assert {name[0] for name in REPORTS} == set(KINDS)
    for where, must_hold in REPORTS.values():
        assert where
        assert must_hold.endswith(".")
        assert "|" not in where + must_hold, "it would break the table"


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == render(), f"run: {COMMAND}"


def test_the_page_shows_every_entry_once():
    rows = [line.split(" | ") for line in render().splitlines() if re.match(r"\| [A-Z]\d", line)]
    assert [row[0].removeprefix("| ") for row in rows] == list(REPORTS)
    for row in rows:
        assert len(row) == 4
        assert ("::test_" in row[3]) != ("not offered: " in row[3])


def test_w9_d14_r5_the_readme_promises_the_law_and_says_what_it_does_not_promise():
    """One section says all of it: same law, same text at T = 0 up to ties, no text by seed, and
    that what is lossy says so."""
    text = (TESTS.parent / "README.md").read_text(encoding="utf-8")
    sections = [" ".join(section.lower().split()) for section in text.split("\n## ")]
    promise = ("law of the target", "temperature 0", "ties", "same seed", "lossy")
    assert any(all(words in section for words in promise) for section in sections)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: {COMMAND}")
    PAGE.write_text(render(), encoding="utf-8")
