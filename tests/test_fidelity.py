"""Copies of a model: sizes by hand, errors by hand, differences with their errors."""

from dataclasses import replace

import numpy as np
import pytest

from lab import corpus
from lab.checkpoint import load_trained
from lab.engine import generate_many
from lab.fidelity import (
    Difference,
    alpha_difference,
    compare,
    copies_of,
    logits_error,
    weight_error,
)
from lab.measure import Draft, continuations, cut_prompts, random_prompts, streams
from lab.sampling import Sampling
from lab.transformer import ModelConfig, Transformer

CONFIG = ModelConfig(vocab=32, d_model=32, n_layers=3, n_heads=2, d_ff=64, max_len=64)
WEIGHTS = 3 * (32 * 96 + 32 * 32 + 32 * 128 + 64 * 32) + 32 * 32


@pytest.fixture(scope="module")
def model():
    return Transformer.init(CONFIG, 0)


@pytest.fixture(scope="module")
def copies(model):
    prompts = random_prompts(32, 5, 4, 0)
    texts = continuations(model, prompts, 12, 1)
    return {copy.name: copy for copy in compare(model, copies_of(model), texts, [4] * 5)}


def test_matrices_are_all_that_is_multiplied(model):
    assert sum(m.d_in * m.d_out for m in model.matrices) == WEIGHTS == model.matmul_parameters
    assert model.matrices[-1] is model.head.matrix


def test_copies_are_named_after_what_they_keep(copies):
    assert list(copies) == [
        "INT8, groups of 32",
        "INT4, groups of 32",
        "INT4, groups of 64",
        "INT4, whole columns",
        "INT3, groups of 32",
        "first 2 layers",
        "first layer",
    ]


def test_q9_bytes_of_a_copy_include_scales(copies):
    int4 = copies["INT4, groups of 32"]
    assert int4.bits == 4.5
    assert int4.weight_bytes == WEIGHTS / 2 + 2 * WEIGHTS / 32
    assert int4.bytes_ratio == 4.5 / 16
    assert int4.held_bytes == int4.weight_bytes + 4 * WEIGHTS
    assert copies["INT8, groups of 32"].bits == 8.5
    assert copies["INT3, groups of 32"].bits == 3.5


def test_quantising_saves_bytes_and_skipping_saves_both(copies):
    for name, copy in copies.items():
        if name.startswith("INT"):
            assert copy.flops_ratio == 1 > copy.bytes_ratio
        else:
            assert copy.bits == 16
            assert copy.flops_ratio == copy.bytes_ratio < 1
    one = 1 - 2 * (WEIGHTS - 32 * 32) / 3 / WEIGHTS
    assert copies["first layer"].flops_ratio == pytest.approx(one)


def test_more_bits_and_more_scales_are_nearer(copies):
    for error in ("weight_error", "logits_error"):
        int8, int4, int3 = (
            getattr(copies[f"INT{bits}, groups of 32"], error) for bits in (8, 4, 3)
        )
        assert 0 < int8 < int4 < int3
    assert copies["INT8, groups of 32"].alpha.value > copies["INT3, groups of 32"].alpha.value
    assert copies["first layer"].weight_error == 0
    assert copies["first layer"].logits_error > 0


def test_the_model_itself_is_no_distance_away(model):
    texts = continuations(model, random_prompts(32, 3, 4, 0), 6, 1)
    (same,) = compare(model, [Draft("itself", model)], texts, [4] * 3)
    assert (same.weight_error, same.logits_error, same.alpha.value) == (0, 0, 1)
    assert (same.bytes_ratio, same.flops_ratio, same.bits) == (1, 1, 16)


def test_weight_error_by_hand(model):
    params = model.params()
    params["head"] = params["head"] * 2
    doubled = Transformer.from_params(CONFIG, params)
    norms = {n: np.square(p.astype(float)).sum() for n, p in model.params().items() if p.ndim == 2}
    whole = sum(norms.values()) - norms["embedding"]
    assert weight_error(model, doubled) == pytest.approx(np.sqrt(norms["head"] / whole))


def test_logits_error_does_not_see_a_constant():
    logits = np.random.default_rng(0).standard_normal((7, 5))
    laws = Sampling().probs(logits)
    assert logits_error([(laws, Sampling().probs(logits + 3))]) == pytest.approx(0, abs=1e-12)
    assert logits_error([(laws, Sampling().probs(2 * logits))]) == pytest.approx(1)


def test_logits_error_needs_logits():
    with pytest.raises(ValueError, match="probs must be above 0"):
        logits_error([(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]))])


def test_differences_are_paired_and_have_errors(copies):
    int8, int3 = copies["INT8, groups of 32"], copies["INT3, groups of 32"]
    gap = alpha_difference(int8, int3)
    means = np.array([a.mean() - b.mean() for a, b in zip(int8.betas, int3.betas, strict=True)])
    assert gap.value == pytest.approx(means.mean())
    assert gap.stderr == pytest.approx(means.std(ddof=1) / np.sqrt(5))
    assert gap.degrees == 4
    assert gap.t == pytest.approx(gap.value / gap.stderr)
    assert alpha_difference(int8, int8).t == 0


def test_difference_of_differences():
    gap = Difference(0.3, 0.03, 9) - Difference(-0.1, 0.04, 4)
    assert gap.value == pytest.approx(0.4)
    assert gap.stderr == pytest.approx(0.05)
    assert gap.degrees == 4
    assert (-gap).t == pytest.approx(-8)
    assert Difference(0.1, 0.0, 4).t == np.inf


# ---- Quantised drafts: greedy text stays, acceptance moves -------------------------------------


def in_float64(model):
    """The same weights, so that no order of additions decides between near ties."""
    return Transformer.from_params(replace(model.config, dtype="float64"), model.params())


def random_case():
    target = in_float64(Transformer.init(CONFIG, 1))
    return target, target.first_layers(2), random_prompts(32, 8, 5, 2)


def trained_case():
    target, draft = (in_float64(load_trained(name)) for name in ("target", "draft_2l"))
    return target, draft, cut_prompts(corpus.held_out_tokens(), 8, 32, 2)


@pytest.mark.parametrize("case", [random_case, trained_case])
def test_q11_a_drafts_bits_change_acceptance_and_not_the_greedy_text(case):
    target, draft, prompts = case()
    drafts = {"float": draft, "INT8": draft.quantized(8), "INT4": draft.quantized(4)}

    def decode(model):
        return generate_many(
            target, model, prompts, 48, 4, sampling=Sampling(0), rngs=streams(8, 3)
        )

    plain = decode(None)
    for prompt, run in zip(prompts, plain, strict=True):
        text = np.concatenate((prompt, run.tokens))
        top = np.sort(target.forward(text[:-1], target.new_cache())[len(prompt) - 1 :], axis=1)
        assert (top[:, -1] - top[:, -2]).min() > 1e-9, "no near ties on these prompts"
    accepted = {}
    for name, model in drafts.items():
        runs = decode(model)
        for run, alone in zip(runs, plain, strict=True):
            assert run.tokens.tolist() == alone.tokens.tolist()
        accepted[name] = [r.accepted for run in runs for r in run.rounds if r.drafted == 4]
        assert {0, 4} < set(accepted[name]), "rejections, part and full acceptances"
    assert accepted["INT4"] != accepted["float"]
