"""Wrong calls: the error names the argument and the value, and nothing is left half done."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from models import (
    FIX_C,
    GREEDY,
    PROMPT,
    Altered,
    FunctionDrafter,
    Recorder,
    Stuck,
    fixed_drafts,
    hash_pair,
)

from lab import checkpoint, theory
from lab.config import ModelConfig
from lab.decode import autoregressive_generate, speculative_generate
from lab.exact import HashLM, TableLM, assert_lossless, output_law, round_law
from lab.ledger import Ledger
from lab.ngram import NGramLM
from lab.quant import quantize
from lab.sampling import Sampling, residual
from lab.transformer import Transformer
from lab.verify import Proposal, Verdict

NAN, INF = float("nan"), float("inf")
V = 11


# ---- Arguments of one run of the loop, refused before any forward ------------------------------

ARGUMENTS = {
    "w8 gamma -1": ({"gamma": -1}, "gamma=-1", "whole number >= 0"),
    "w8 gamma 1.5": ({"gamma": 1.5}, "gamma=1.5", "whole number"),
    "gamma True": ({"gamma": True}, "gamma=True", "whole number"),
    "gamma None": ({"gamma": None}, "gamma=None", "whole number"),
    "gamma text": ({"gamma": "4"}, "gamma='4'", "whole number"),
    "w8 n_new -1": ({"n_new": -1}, "n_new=-1", "whole number >= 0"),
    "n_new 2.5": ({"n_new": 2.5}, "n_new=2.5", "whole number"),
    "n_new True": ({"n_new": True}, "n_new=True", "whole number"),
    "w8 prompt empty": ({"prompt": []}, "prompt=[]", "at least one token"),
    "prompt of two rows": ({"prompt": [[1, 2], [3, 4]]}, "prompt", "(2, 2)"),
    "prompt a number": ({"prompt": 3}, "prompt", "()"),
    "prompt of floats": ({"prompt": [1.0, 2.0]}, "prompt", "float64"),
    "prompt of text": ({"prompt": ["a"]}, "prompt", "<U1"),
    "prompt of booleans": ({"prompt": [True, False]}, "prompt", "bool"),
    "w8 token >= V": ({"prompt": [1, 11]}, "prompt", "11", "0..10"),
    "token negative": ({"prompt": [1, -2]}, "prompt", "-2", "0..10"),
    "stop >= V": ({"stop": [3, 12]}, "stop", "12", "0..10"),
    "stop negative": ({"stop": [-1]}, "stop", "-1", "0..10"),
    "stop a number": ({"stop": 3}, "stop=3", "collection"),
    "stop text": ({"stop": "end"}, "stop='end'", "collection"),
    "stop None": ({"stop": None}, "stop=None", "collection"),
    "prompt ragged": ({"prompt": [[1], [2, 3]]}, "prompt"),
    "stop of floats": ({"stop": [1.5]}, "stop", "float64"),
    "rng None": ({"rng": None}, "rng=None", "Generator", "dice"),
    "rng a seed": ({"rng": 0}, "rng=0", "Generator", "dice"),
    "rule unknown": ({"rule": "tokn"}, "rule='tokn'", "token"),
    "rule None": ({"rule": None}, "rule=None", "callable"),
    "sampling a number": ({"sampling": 0.7}, "sampling=0.7", "Sampling"),
    "sampling None": ({"sampling": None}, "sampling=None", "Sampling"),
    "draft_sampling a dict": ({"draft_sampling": {"T": 1}}, "draft_sampling={'T': 1}", "Sampling"),
    "w1 vocabularies differ": ({"draft": HashLM(12)}, "12", "11", "vocab"),
    "w1 a drafter's too": (
        {"draft": FunctionDrafter(12, fixed_drafts([1]))}, "12", "11", "vocab",
    ),
    "draft no model": ({"draft": 7}, "draft=7", "model"),
    "target no model": ({"target": "gpt2"}, "target='gpt2'", "vocab"),
    "s5 prompt longer than max_len": (
        {"target": HashLM(max_len=2)}, "prompt", "3", "max_len=2",
    ),
    "on_token not callable": ({"on_token": 3}, "on_token=3", "callable"),
}  # fmt: skip


def says(error, *fragments):
    for fragment in fragments:
        assert fragment in str(error.value), f"{error.value} does not say {fragment}"


def run(**changed):
    target, draft = hash_pair()
    arguments = {
        "target": target, "draft": draft, "prompt": PROMPT, "n_new": 5, "gamma": 2,
        "rng": np.random.default_rng(0), **changed,
    }  # fmt: skip
    first = [arguments.pop(name) for name in ("target", "draft", "prompt", "n_new", "gamma")]
    return speculative_generate(*first, **arguments)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_w8_arguments_of_a_run(name):
    changed, *fragments = ARGUMENTS[name]
    changed = dict(changed)
    models = []
    for side, model in zip(("target", "draft"), hash_pair(), strict=True):
        model = changed.get(side, model)
        if hasattr(model, "new_cache"):
            models.append(Recorder(model))
            changed[side] = models[-1]
    with pytest.raises(ValueError) as error:
        run(**changed)
    says(error, *fragments)
    assert all(model.fed == model.prefilled == [] for model in models), "before any forward"


def test_plain_decoding_checks_the_same():
    for changed, *fragments in (ARGUMENTS[n] for n in ("w8 n_new -1", "rng None", "stop a number")):
        arguments = {"n_new": 3, "rng": np.random.default_rng(0), **changed}
        with pytest.raises(ValueError) as error:
            autoregressive_generate(HashLM(), PROMPT, arguments.pop("n_new"), **arguments)
        says(error, *fragments)


# ---- Models, drafters, rules that misbehave in a run: caches go back to where the round began --


def with_logit(value):
    def change(logits):
        changed = logits.copy()
        changed[-1, 3] = value
        return changed

    return change


def returning(value):
    return lambda target_probs, proposal, dice: value


TWO = np.full((2, V), 1 / V)

MISBEHAVING = {
    "n10 NaN logits": ({"target": with_logit(NAN)}, "logits", "nan"),
    "+inf logits": ({"target": with_logit(INF)}, "logits", "inf"),
    "all -inf logits": ({"target": lambda x: np.full_like(x, -INF)}, "logits", "-inf"),
    "n10 the draft's NaN": ({"draft": with_logit(NAN)}, "logits", "nan"),
    "logits of one row": ({"target": lambda x: x[-1]}, "logits", "(T=3, V=11)", "(11,)"),
    "logits too narrow": ({"target": lambda x: x[:, :5]}, "logits", "(T=3, V=11)", "(3, 5)"),
    "logits of too few rows": ({"target": lambda x: x[:1]}, "(T=3, V=11)", "(1, 11)"),
    "the draft's logits": ({"draft": lambda x: x[:, :5]}, "logits", "(T=1, V=11)", "(1, 5)"),
    "gamma schedule -1": ({"gamma": lambda view: -1}, "gamma(view)=-1", ">= 0"),
    "gamma schedule 1.5": ({"gamma": lambda view: 1.5}, "gamma(view)=1.5", "whole"),
    "gamma schedule None": ({"gamma": lambda view: None}, "gamma(view)=None", "whole"),
    "too many drafts": (
        {"draft": lambda v, g, d: Proposal(np.array([1] * 4))}, "proposal", "4", "2 were allowed",
    ),
    "a draft >= V": ({"draft": fixed_drafts([11])}, "proposal.tokens", "11", "0..10"),
    "drafts of floats": ({"draft": fixed_drafts([1.5])}, "proposal.tokens", "float64"),
    "wrong draft laws": (
        {"draft": fixed_drafts([1], TWO)}, "proposal.probs", "(N=1, V=11)", "(2, 11)",
    ),
    "draft of probability 0": (
        {"draft": fixed_drafts([1], np.eye(V)[[3]])}, "draft 1", "probability 0",
    ),
    "a tree": (
        {"draft": lambda v, g, d: Proposal(np.array([1, 2]), TWO, np.array([-1, -1]))},
        "parents=[-1 -1]", "chain",
    ),
    "no proposal": ({"draft": lambda v, g, d: [1, 2]}, "proposal"),
    "rule says too much": (
        {"rule": returning(Verdict((0, 1, 2), 0, 2))}, "rule", "path=(0, 1, 2)",
    ),
    "rule skips a draft": ({"rule": returning(Verdict((1,), 0, 2))}, "rule", "path=(1,)"),
    "rule's token": ({"rule": returning(Verdict((), 11, 1))}, "rule", "token=11", "0..10"),
    "rule's token -1": ({"rule": returning(Verdict((), -1, 1))}, "rule", "token=-1"),
    "rule's count": ({"rule": returning(Verdict((), 0, 9))}, "rule", "tested=9"),
    "rule returns None": ({"rule": returning(None)}, "rule", "None", "Verdict"),
    "rule returns a pair": ({"rule": returning((1, 3))}, "rule", "(1, 3)", "Verdict"),
    "k6 stuck truncate": ({"stuck": True, "n_new": 14, "gamma": 3}, "truncate(11)", "14"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISBEHAVING)
def test_k14_what_goes_wrong_in_a_run(name):
    changed, *fragments = MISBEHAVING[name]
    changed = dict(changed)
    stuck = changed.pop("stuck", False)
    target, draft = Recorder(HashLM()), Recorder(HashLM(rotate=4))
    change, own = changed.pop("target", None), changed.pop("draft", None)
    models = {"target": target, "draft": draft}
    if change is not None:
        models["target"] = Unprefilled(target, change)
    if own is not None:
        takes_view = own.__code__.co_argcount == 3
        models["draft"] = FunctionDrafter(V, own) if takes_view else Unprefilled(draft, own)
    if stuck:
        target.model = Stuck()
    entry = []
    gamma = changed.pop("gamma", 2)

    def noted(view):
        entry.append((view.target_cache.length, draft.caches[0].length if draft.caches else 0))
        return gamma(view) if callable(gamma) else gamma

    with pytest.raises(ValueError) as error:
        run(**models, gamma=noted, sampling=GREEDY, **changed)
    says(error, *fragments)
    if not stuck:
        held = target.cache.length, draft.caches[0].length if draft.caches else 0
        assert held == entry[-1]
        assert target.cache.tokens == (PROMPT + FIX_C)[: held[0]]


class Unprefilled(Altered):
    """Its prompt goes in as it is; only logits that are asked for are altered."""

    def prefill(self, tokens, cache):
        self.model.prefill(tokens, cache)


def test_the_caller_can_go_on_after_an_error():
    target, draft = Recorder(HashLM()), Recorder(HashLM(rotate=4))
    with pytest.raises(ValueError):
        run(target=target, draft=draft, rule=returning(Verdict((), 11, 1)))
    target.caches.clear()
    assert run(target=target, draft=draft, n_new=14, sampling=GREEDY).tokens.tolist() == FIX_C


# ---- All other public functions ----------------------------------------------------------------


def forward(tokens, model=None):
    model = model or TINY
    return model.forward(tokens, model.new_cache())


TINY = Transformer.init(
    ModelConfig(vocab=7, d_model=8, n_layers=1, n_heads=2, d_ff=16, max_len=6), seed=0
)
W = np.eye(4)

CALLS = {
    "w8 T -1": (lambda: Sampling(-1), "temperature=-1", ">= 0"),
    "T NaN": (lambda: Sampling(NAN), "temperature=nan", "finite"),
    "T inf": (lambda: Sampling(INF), "temperature=inf", "finite"),
    "T text": (lambda: Sampling("hot"), "temperature='hot'", ">= 0"),
    "T None": (lambda: Sampling(None), "temperature=None", ">= 0"),
    "top_k 0": (lambda: Sampling(top_k=0), "top_k=0", ">= 1"),
    "top_k 2.5": (lambda: Sampling(top_k=2.5), "top_k=2.5", "whole"),
    "top_k True": (lambda: Sampling(top_k=True), "top_k=True", "whole"),
    "w8 top_p 0": (lambda: Sampling(top_p=0), "top_p=0", "above 0"),
    "w8 top_p 1.1": (lambda: Sampling(top_p=1.1), "top_p=1.1", "at most 1"),
    "top_p NaN": (lambda: Sampling(top_p=NAN), "top_p=nan", "at most 1"),
    "min_p 2": (lambda: Sampling(min_p=2), "min_p=2", "0..1"),
    "min_p -.1": (lambda: Sampling(min_p=-0.1), "min_p=-0.1", "0..1"),
    "penalty 0": (lambda: Sampling(repetition_penalty=0), "repetition_penalty=0", "above 0"),
    "penalty NaN": (lambda: Sampling(repetition_penalty=NAN), "repetition_penalty=nan", "finite"),
    "logits a number": (lambda: Sampling().probs(np.array(3.0)), "logits", "()"),
    "logits empty": (lambda: Sampling().probs(np.zeros((2, 0))), "logits", "(2, 0)"),
    "history outside V": (
        lambda: Sampling(repetition_penalty=2).probs(np.zeros(3), [5]), "history", "5", "0..2",
    ),
    "history negative": (
        lambda: Sampling(repetition_penalty=2).probs(np.zeros(3), [-1]), "history", "-1", "0..2",
    ),
    "residual shapes": (lambda: residual(np.ones(3), np.ones(2)), "target_probs", "(3,)", "(2,)"),
    "round_law rule": (lambda: round_law("x", W, W[:3]), "rule='x'", "token"),
    "law not a law": (lambda: output_law(lambda d: [d.accept(1.5)]), "probability=1.5", "0..1"),
    "assert_lossless rule": (lambda: assert_lossless("x"), "rule='x'", "token"),
    "table shape": (lambda: TableLM(np.zeros((2, 3))), "table", "(2, 3)"),
    "group 0": (lambda: quantize(W, 4, 0), "group=0", "whole number >= 1"),
    "group 1.5": (lambda: quantize(W, 4, 1.5), "group=1.5", "whole number"),
    "bits 5": (lambda: quantize(W, 5), "bits=5", "8, 4, 3"),
    "bits 4.0": (lambda: quantize(W, 4.0), "bits=4.0", "integer"),
    "q2 quantize NaN": (lambda: quantize(W * NAN), "weights", "nan"),
    "q2 quantize inf": (lambda: quantize(np.array([[INF]])), "weights", "inf"),
    "quantize one row": (lambda: quantize(np.ones(4)), "weights", "(4,)"),
    "alpha 1.2": (lambda: theory.expected_tokens(1.2, 3), "alpha", "1.2", "[0, 1]"),
    "alpha -.1": (lambda: theory.best_gamma(-0.1, 0.1), "alpha", "-0.1", "[0, 1]"),
    "alpha NaN": (lambda: theory.ops_factor(NAN, 3, 0), "alpha", "nan", "[0, 1]"),
    "theory gamma -1": (lambda: theory.expected_tokens(0.5, -1), "gamma", "-1", "at least 0"),
    "theory gamma .5": (lambda: theory.walltime_speedup(0.5, 0.5, 0), "gamma", "0.5", "integer"),
    "c -1": (lambda: theory.walltime_speedup(0.5, 3, -1), "c must", "-1", "at least 0"),
    "c_hat NaN": (lambda: theory.ops_factor(0.5, 3, NAN), "c_hat", "nan"),
    "verify_cost 0": (lambda: theory.walltime_speedup(0.5, 3, 0.1, 0), "verify_cost", "0", "above"),
    "alpha 1 has no optimum": (lambda: theory.best_gamma(1, 0.1), "alpha=1", "max_gamma"),
    "laws that do not sum": (
        lambda: theory.acceptance([0.5, 0.4], [0.5, 0.5]), "target_probs", "0.9",
    ),
    "law negative": (lambda: theory.acceptance([0.5, 0.5], [1.5, -0.5]), "draft_probs", "1.5"),
    "heads do not divide": (lambda: ModelConfig(d_model=64, n_heads=5), "d_model=64", "n_heads=5"),
    "no layers": (lambda: ModelConfig(n_layers=0), "n_layers=0", ">= 1"),
    "kv heads": (lambda: ModelConfig(n_heads=4, n_kv_heads=3), "n_heads=4", "n_kv_heads=3"),
    "norm unknown": (lambda: ModelConfig(norm="batch"), "norm='batch'", "rms"),
    "dtype float16": (lambda: ModelConfig(dtype="float16"), "dtype='float16'", "float32"),
    "dtype unknown": (lambda: ModelConfig(dtype="floaty"), "dtype='floaty'", "float32"),
    "vocab 1.5": (lambda: ModelConfig(vocab=1.5), "vocab=1.5", "whole"),
    "first_layers 0": (lambda: TINY.first_layers(0), "k=0", "1..1"),
    "first_layers 2": (lambda: TINY.first_layers(2), "k=2", "1..1"),
    "quantized bits 2": (lambda: TINY.quantized(2), "bits=2", "8, 4, 3"),
    "forward token >= V": (lambda: forward([1, 7]), "7", "0..6"),
    "forward token negative": (lambda: forward([-1]), "-1", "0..6"),
    "forward nothing": (lambda: forward([]), "tokens", "(0,)"),
    "forward floats": (lambda: forward([1.0]), "tokens", "float64"),
    "forward beyond max_len": (lambda: forward([1] * 7), "tokens", "7", "max_len=6"),
    "batch 0": (lambda: TINY.new_cache(0), "batch=0", ">= 1"),
    "order 0": (lambda: NGramLM(0, 5), "order=0", "1", "5"),
    "order 6": (lambda: NGramLM(6, 5), "order=6", "5"),
    "n-gram strength 0": (lambda: NGramLM(2, 5, strength=0), "0"),
    "n-gram fit on nothing": (lambda: NGramLM(2, 5).fit([]), "tokens", "none"),
    "n-gram token >= V": (lambda: NGramLM(2, 5).fit([1, 5]), "5", "0..4"),
    "n-gram not fitted": (lambda: NGramLM(2, 5).new_cache(), "fit"),
    "ledger field": (lambda: Ledger().total("flop"), "flop", "flops"),
    "trained model unknown": (lambda: checkpoint.load_trained("big"), "big", "target"),
    "save without .npz": (
        lambda: checkpoint.save("model.bin", TINY.config, {}), "path", "model.bin",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_w8_wrong_calls_name_argument_and_value(name):
    call, *fragments = CALLS[name]
    with pytest.raises(ValueError) as error:
        call()
    says(error, *fragments)


def test_there_are_enough_of_them():
    assert len(ARGUMENTS) + len(MISBEHAVING) + len(CALLS) >= 100


def test_a_refused_forward_leaves_the_transformers_cache_alone():
    cache = TINY.new_cache()
    TINY.forward([1, 2], cache)
    for bad in ([7], [1] * 5, [1.5], [[1, 2]]):
        with pytest.raises(ValueError):
            TINY.forward(bad, cache)
        assert cache.length == 2
    for bad in (-1, 3, 1.5):
        with pytest.raises(ValueError, match=re.escape(f"length={bad}")):
            cache.truncate(bad)
        assert cache.length == 2
    after = TINY.forward([3], cache)
    np.testing.assert_array_equal(after, forward([1, 2, 3])[-1:])


# ---- Files -------------------------------------------------------------------------------------


def saved(tmp_path):
    path = tmp_path / "tiny.npz"
    checkpoint.save(path, TINY.config, TINY.params())
    return path


def test_w4_a_missing_file_is_an_oserror_that_names_it(tmp_path):
    with pytest.raises(OSError, match=r"missing\.npz"):
        checkpoint.load(tmp_path / "missing.npz")
    with pytest.raises(OSError):
        checkpoint.load(tmp_path)
    with pytest.raises(OSError):
        checkpoint.save(tmp_path / "no" / "tiny.npz", TINY.config, TINY.params())


def test_a_file_cut_off_anywhere_is_refused(tmp_path):
    whole = saved(tmp_path).read_bytes()
    cut = tmp_path / "cut.npz"
    for end in [0, 1, 3, 100, *range(200, len(whole), 211), len(whole) - 1]:
        cut.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"path '.*cut\.npz'"):
            checkpoint.load(cut)


def test_a_damaged_file_is_refused(tmp_path):
    path = saved(tmp_path)
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2
    whole[middle] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"path '.*tiny\.npz'"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    "content", [b"hello", b"PK\x03\x04", b"\x93NUMPY\x01\x00"], ids=["text", "zip", "npy"]
)
def test_a_file_of_something_else_is_refused(tmp_path, content):
    path = tmp_path / "else.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"path '.*else\.npz'"):
        checkpoint.load(path)


def test_an_npz_of_something_else_is_refused(tmp_path):
    path = tmp_path / "else.npz"
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match=r"path '.*else\.npz'"):
        checkpoint.load(path)
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "array.npy").rename(path)
    with pytest.raises(ValueError, match=r"path '.*else\.npz'"):
        checkpoint.load(path)


def test_a_refused_save_leaves_the_old_file_and_no_part_of_a_new_one(tmp_path):
    path = saved(tmp_path)
    before = path.read_bytes()
    params = TINY.params()
    too_large = {**params, "head": np.full_like(params["head"], 1e6)}
    wrong_shape = {**params, "head": params["head"][:, :-1]}
    missing = {name: value for name, value in params.items() if name != "head"}
    for bad, fragment in ((too_large, "head"), (wrong_shape, "(8, 6)"), (missing, "head")):
        with pytest.raises(ValueError, match=re.escape(fragment)):
            checkpoint.save(path, TINY.config, bad)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_save_that_fails_while_writing_leaves_no_part(tmp_path, monkeypatch):
    path = saved(tmp_path)
    before = path.read_bytes()

    def full(file, **arrays):
        file.write(b"part")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(path, TINY.config, TINY.params())
    assert path.read_bytes() == before
    assert [Path(p).name for p in tmp_path.iterdir()] == ["tiny.npz"]


# ---- Scripts: options and files ----------------------------------------------------------------

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path.name for path in ROOT.glob("scripts/*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_c9_an_option_that_a_script_does_not_have_is_named(script, capsys):
    main = runpy.run_path(str(ROOT / "scripts" / script))["main"]
    with pytest.raises(SystemExit) as ended:
        main(["x", "--temperature", "0.5"])  # "x": one script asks for a path first
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert "--temperature" in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("script", SCRIPTS)
def test_c9_no_option_is_accepted_and_then_ignored(script):
    tree = ast.parse((ROOT / "scripts" / script).read_text(encoding="utf-8"))
    offered = set()
    for call in [node for node in ast.walk(tree) if isinstance(node, ast.Call)]:
        if ast.unparse(call.func) == "arguments":  # of lab.console
            offered |= {"seed", "fast", "json", *(keyword.arg for keyword in call.keywords)}
        if ast.unparse(call.func) == "parser.add_argument":
            offered.add(ast.literal_eval(call.args[0]).removeprefix("--").replace("-", "_"))
    read = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "args"
    }
    assert offered
    assert offered == read


@pytest.mark.parametrize("gone", ["target", "draft_2l"])
def test_w4_a_script_without_its_model_fails_and_prints_no_result(tmp_path, gone):
    """It neither decodes plainly instead, nor says that all is well."""
    left_out = shutil.ignore_patterns(f"{gone}.npz", "*.partial", "__pycache__")
    shutil.copytree(ROOT / "lab", tmp_path / "lab", ignore=left_out)
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "04_spec_decode_speedup.py", "--fast", "--json",
         "--model", "text"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode != 0
    assert f"{gone}.npz" in done.stderr.splitlines()[-1]
    assert done.stdout == ""


def test_w8_a_drafter_without_propose_is_named_before_any_forward():
    class NoPropose:
        vocab = 11

        def start(self, prompt):
            return object()

    with pytest.raises(ValueError, match=r"draft=.*start"):
        speculative_generate(HashLM(), NoPropose(), [1], 3, 2, rng=np.random.default_rng(0))


def test_w8_text_is_no_prompt():
    with pytest.raises(ValueError, match=r"prompt.*To be.*encode"):
        speculative_generate(HashLM(), None, "To be", 3, 0, rng=np.random.default_rng(0))
