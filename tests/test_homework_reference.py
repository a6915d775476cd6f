"""Homework 1, 2 and 5, solved: equal to the lab, and passed by every check; no starter is."""

import numpy as np
import pytest
from homework_edits import loaded, outcomes

from lab import quant, stats, theory
from lab.exact import assert_lossless
from lab.homework.checking import CHECKS
from lab.homework.tasks import reference_module, starter, tasks
from lab.ledger import MATMUL_OPS, Ledger
from lab.ngram import NGramLM
from lab.sampling import Sampling, residual
from lab.transformer import ModelConfig, Transformer
from lab.verify import chain_rule

TASKS = [number for number in tasks() if number[0] in "125"]
SET1, SET2, SET5 = map(reference_module, ("set1_theory", "set2_sampling", "set5_drafts"))


@pytest.fixture
def rng(request):
    return np.random.default_rng([5, *request.node.name.encode()])


# ---- The checks ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", TASKS)
def test_w10_the_solved_file_passes_every_check_whatever_the_seed(number):
    reference = reference_module(tasks()[number].file)
    found = [one for seed in range(30) for one in outcomes(reference, number, seed)]
    assert [one for one in found if one.state != "passed"] == []
    assert len(found) == 30 * len(CHECKS[number])


@pytest.mark.parametrize("number", TASKS)
def test_a_starter_is_unwritten_in_every_check(number):
    file = tasks()[number].file
    found = outcomes(loaded(starter(file), file), number, seed=0)
    assert {one.state for one in found} == {"unwritten"}
    assert len(found) == len(CHECKS[number])


def test_a_task_has_three_to_six_checks_and_each_a_law_of_its_own():
    assert all(3 <= len(CHECKS[number]) <= 6 for number in TASKS)
    laws = [one.law for number in TASKS for one in CHECKS[number]]
    assert len(set(laws)) == len(laws) == 67
    assert all(30 < len(law) < 200 and not law.endswith(".") for law in laws)


# ---- The functions, beside the lab's ---------------------------------------------------------


def test_the_formulas_are_the_labs(rng):
    for _ in range(200):
        drawn, gamma, c = rng.uniform(0, 1), int(rng.integers(0, 30)), rng.uniform(0, 1.2)
        for alpha in (drawn, round(drawn)):
            given = alpha, gamma, c
            assert SET1.expected_tokens(*given[:2]) == pytest.approx(
                theory.expected_tokens(*given[:2]), rel=1e-11
            )
            assert SET1.ops_factor(*given) == pytest.approx(theory.ops_factor(*given), rel=1e-11)
            assert SET1.walltime_speedup(*given) == pytest.approx(
                theory.walltime_speedup(*given), rel=1e-11
            )


def test_the_best_gamma_is_the_labs(rng):
    for _ in range(200):
        alpha, c = rng.uniform(0, 0.98), rng.uniform(0.002, 1)
        gamma, speedup = SET1.best_gamma(alpha, c)
        assert (gamma, speedup) == pytest.approx(theory.best_gamma(alpha, c), rel=1e-11)
    for gamma, c in ((1, 0.2), (0, 0.5)):  # ties: with γ = 2, and with plain decoding
        assert SET1.best_gamma(0.5, c)[0] == theory.best_gamma(0.5, c)[0] == gamma


def test_the_laws_are_the_labs(rng):
    for size in rng.integers(2, 40, 100):
        logits = rng.normal(0, 3, size).round(1)  # rounded: ties
        for temperature in (0.0, 0.3, 1.0, 2.5):
            wanted = Sampling(temperature=temperature).probs(logits)
            law = SET2.temperature_law(logits, temperature)
            np.testing.assert_allclose(law, wanted, atol=1e-14)
        top_p = float(rng.uniform(0.01, 1))
        wanted = Sampling(top_p=top_p).probs(logits)
        law = SET2.top_p_law(Sampling().probs(logits), top_p)
        np.testing.assert_allclose(law, wanted, atol=1e-14)


def test_acceptance_and_residual_are_the_labs(rng):
    for size in rng.integers(2, 40, 100):
        p, q = rng.dirichlet(np.ones(size), size=2)
        np.testing.assert_array_equal(SET2.residual(p, q), residual(p, q))
        np.testing.assert_array_equal(SET2.residual(p, p), residual(p, p))
        accepted = sum(q[x] * SET2.accept_probability(p, q, x) for x in range(size))
        assert SET1.acceptance(p, q) == pytest.approx(accepted)
        assert SET1.acceptance(p, q) == pytest.approx(theory.acceptance(p, q))


def test_the_verdict_is_lossless():
    assert_lossless(chain_rule(SET2.verify))


def test_the_quantiser_is_the_labs(rng):
    for rows, group in ((70, 32), (64, 32), (5, 2), (1, 32), (33, 7)):
        weights = rng.normal(0, rng.uniform(1e-8, 3), (rows, 4))
        weights[:, 0] = 0
        wanted = quant.quantize(weights, 4, group)
        codes, scales = SET5.quantize(weights, group)
        np.testing.assert_array_equal(codes, wanted.unpack())
        np.testing.assert_array_equal(scales, wanted.scales)
        np.testing.assert_array_equal(SET5.dequantize(codes, scales, group), wanted.dequantize())
        np.testing.assert_array_equal(SET5.pack(codes), wanted.codes)


def test_a_byte_holds_minus_eight_too():
    """The lab's quantiser never uses it; a public report has it (Q6)."""
    codes = np.array([[-1, 3, -8], [3, -1, 7]], np.int8)
    assert SET5.pack(codes).tolist() == [[0x3F, 0xF3, 0x78]]


def test_the_bigram_is_the_labs(rng):
    for vocab in (1, 3, 9):
        tokens, weight = rng.integers(0, vocab, 40), float(rng.uniform(0.1, 5))
        model = NGramLM(2, vocab, weight).fit(tokens)
        wanted = [model.probs([token]) for token in range(vocab)]
        np.testing.assert_allclose(SET5.bigram(tokens, vocab, weight), wanted, rtol=1e-13)


def test_costs_are_what_the_ledger_counts(rng):
    config = ModelConfig(vocab=11, d_model=8, n_layers=2, n_heads=2, n_kv_heads=2, d_ff=12)
    model, ledger = Transformer.init(config, seed=0), Ledger()
    cached, rows = 5, 3
    cache = model.new_cache()
    model.forward(rng.integers(0, 11, cached), cache)
    model.forward(rng.integers(0, 11, rows), cache, ledger)
    layer = [(8, 24), (8, 8), (8, 12), (8, 12), (12, 8)]  # qkv, output, gate, up, down
    flops, weight_bytes, pairs = SET5.forward_cost([*layer, *layer, (8, 11)], rows, cached)
    assert flops == ledger.total("flops", MATMUL_OPS)
    assert weight_bytes == ledger.total("weight_bytes", MATMUL_OPS)
    assert 4 * pairs * 8 * config.n_layers == ledger.total("flops", "attention")


def test_the_report_is_the_labs_clustered_mean(rng):
    for groups in (2, 3, 20):
        betas = [rng.uniform(0, 1, n) for n in rng.integers(1, 30, groups)]
        prompts = np.repeat(np.arange(groups), [len(row) for row in betas])
        wanted = stats.clustered_mean(np.concatenate(betas), prompts)
        assert SET5.alpha_report(betas) == pytest.approx((wanted.mean, wanted.stderr))
