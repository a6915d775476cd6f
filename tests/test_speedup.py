"""The measured cells of script 04: identities of the ledger, and the loop beside eq. (1)."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from lab import measure, theory
from lab.engine import generate_many
from lab.intensity import one_token
from lab.ledger import MATMUL_OPS, Ledger
from lab.linear import row_product
from lab.measure import Draft
from lab.ngram import NGramLM
from lab.pairs import Pair, own_drafts, random_pair, text_pair
from lab.sampling import Sampling
from lab.speedup import accepted_fit, loop_cells, measure_pair
from lab.sweep import sweep
from lab.transformer import ModelConfig, Transformer
from lab.verify import Proposal

TINY = ModelConfig(vocab=32, d_model=32, n_layers=4, n_heads=2, d_ff=64, max_len=96)


@pytest.fixture(scope="module")
def pair():
    target = Transformer.init(TINY, 0)
    bigram = NGramLM(2, 32).fit(np.arange(200) % 32)
    prompts = tuple(measure.random_prompts(32, 4, 8, 0))
    return Pair("tiny", target, (*own_drafts(target), Draft("bigram", bigram)), prompts)


@pytest.fixture(scope="module")
def cells(pair):
    return measure_pair(pair, 40, (1, 2, 4), ("3 layers", "INT4"), (2, 4), 3, seed=0)


def test_ops_over_reads_is_the_mean_rows_per_target_call_exactly(cells):
    assert len(cells.savings) == 4
    for cell in cells.savings:
        assert cell.ops_over_reads == cell.rows_per_call
        assert 1 < cell.rows_per_call <= cell.gamma + 1


def test_base_flops_are_tokens_times_twice_the_matmul_parameters(pair, cells):
    plain = cells.savings[0].plain
    assert plain.tokens == 3 * 40
    total = plain.target.total("flops", MATMUL_OPS, "decode")
    assert total == plain.tokens * 2 * pair.target.matmul_parameters
    read = plain.target.total("weight_bytes", MATMUL_OPS, "decode")
    assert read == plain.tokens * 2 * pair.target.matmul_parameters  # 16 bits a weight


def test_the_target_alone_saves_what_its_calls_and_rows_say(cells):
    for cell in cells.savings:
        rounds = [r for run in cell.run.runs for r in run.rounds]
        calls = Fraction(len(rounds), cell.run.tokens)
        assert cell.target_reads == pytest.approx(float(calls), rel=1e-12)
        assert cell.target_flops == pytest.approx(float(calls * cell.rows_per_call), rel=1e-12)


def test_t11_the_draft_counts_in_thm_3_11(cells):
    """The draft's operations are not left out: γ ĉ per round, and a catch-up row where all were
    accepted."""
    for cell in cells.savings:
        rounds = [r for run in cell.run.runs for r in run.rounds]
        rows = cell.run.draft.total("flops", MATMUL_OPS, "decode")
        per_row = 2 * cell.c_hat * cell.plain.target.total("flops", MATMUL_OPS, "decode")
        per_row /= 2 * cell.plain.tokens
        drafted = sum(r.drafted for r in rounds)
        # catch-up: the last draft of a round that was accepted whole, if another round drafts
        caught = sum(
            before.drafted > 0 and before.accepted == before.drafted and after.drafted > 0
            for run in cell.run.runs
            for before, after in zip(run.rounds, run.rounds[1:], strict=False)
        )
        assert rows == pytest.approx((drafted + caught) * per_row, rel=1e-12)
        assert cell.flops > cell.target_flops


def test_f5_bytes_per_token_count_target_draft_weights_and_kv(cells):
    for cell in cells.savings:
        total = 0
        for ledger in (cell.run.target, cell.run.draft):
            rows = [row for row in ledger.rows() if row.phase == "decode"]
            total += sum(r.weight_bytes + r.kv_read_bytes + r.kv_write_bytes for r in rows)
        assert cell.bytes_per_token == pytest.approx(total / cell.run.tokens, rel=1e-12)


def test_t8_prefill_is_counted_apart_and_once(pair, cells):
    for cell in cells.savings:
        prefill = cell.run.target.total("flops", MATMUL_OPS, "prefill")
        rows = sum(len(prompt) - 1 for prompt in pair.prompts[:3])
        without_head = pair.target.matmul_parameters - 32 * 32
        assert prefill == 2 * rows * without_head
        assert prefill == cell.plain.target.total("flops", MATMUL_OPS, "prefill")


def test_loop_cells_are_the_same_however_many_processes_run_them(pair, cells):
    alone = loop_cells(pair.target, pair.drafts[1], pair.prompts, 40, (1, 2, 4), 0, 10, 1)
    for one, other in zip(alone, cells.loop[3:6], strict=True):
        assert (one.draft, one.gamma) == (other.draft, other.gamma) == ("3 layers", one.gamma)
        for run, twin in zip(one.runs, other.runs, strict=True):
            np.testing.assert_array_equal(run.tokens, twin.tokens)
            assert run.rounds == twin.rounds


def test_m15_the_expectation_beside_a_measurement_uses_that_runs_alpha(cells):
    for cell in cells.loop:
        gap = cell.gap(0.01, 1)
        assert gap.alpha == pytest.approx(np.concatenate(cell.betas).mean(), abs=1e-12)
        assert gap.expected == theory.expected_tokens(gap.alpha, cell.gamma)
        assert gap.smallest_detectable > 0


def test_accepted_fit_counts_the_rounds_that_were_allowed_gamma(cells):
    cell = next(c for c in cells.loop if c.draft == "3 layers" and c.gamma == 4)
    fit = accepted_fit(cell)
    rounds = [r for run in cell.runs for r in run.rounds if r.allowed == 4]
    assert sum(fit.counts) == len(rounds)
    assert fit.counts[4] == sum(r.accepted == 4 for r in rounds)
    np.testing.assert_allclose(fit.law, theory.accepted_law(fit.alpha, 4))


def test_mean_entropy_of_a_uniform_model_is_log_v():
    laws = [np.full((3, 16), 1 / 16), np.eye(16)[:1]]  # and of a certain token 0
    assert measure.mean_entropy(laws) == pytest.approx(0.75 * np.log(16), abs=1e-12)


def test_betas_along_is_the_teacher_forced_overlap(pair):
    texts = [np.array([1, 2, 3, 4, 5]), np.array([7, 8, 9])]
    draft = pair.drafts[2].model
    betas = measure.betas_along(pair.target, draft, texts, [2, 1])
    assert [len(beta) for beta in betas] == [3, 2]
    for text, start, beta in zip(texts, [2, 1], betas, strict=True):
        for i, value in enumerate(beta):
            context = text[: start + i]
            p, q = (
                measure.PLAIN.probs(model.forward(context, model.new_cache())[-1])
                for model in (pair.target, draft)
            )
            assert value == pytest.approx(np.minimum(p, q).sum(), abs=1e-6)


def test_one_token_of_int4_costs_its_bytes(pair):
    whole, int4 = (one_token(m, [1, 2, 3]) for m in (pair.target, pair.drafts[0].model))
    assert int4.flops == whole.flops
    embedding = 2 * 32  # one row of it, which is not quantised
    assert (int4.weight_bytes - embedding) / (whole.weight_bytes - embedding) == 4.5 / 16


def test_the_random_pair_is_the_lessons():
    pair = random_pair(1)
    assert [draft.name for draft in pair.drafts] == ["INT4", "3 layers", "1 layer", "bigram"]
    config = pair.target.config
    assert (config.vocab, config.d_model, config.n_layers) == (256, 64, 4)
    texts = measure.continuations(pair.target, pair.prompts, 64, 1, 20)
    laws = measure.laws_along(pair.target, texts, measure.PLAIN)
    assert 1.5 < measure.mean_entropy([law[15:] for law in laws]) < 2.1
    alphas = [
        np.concatenate(measure.betas_along(pair.target, d.model, texts, [16] * 8)).mean()
        for d in pair.drafts
    ]
    assert alphas == pytest.approx([0.87, 0.85, 0.75, 0.75], abs=0.04)


def test_the_text_pair_has_six_drafts_and_held_out_prompts():
    pair = text_pair(0)
    assert len(pair.drafts) == 6
    with pytest.raises(ValueError, match=r"2 layers.*INT4"):
        pair.draft("2 layers")
    assert len({prompt.tobytes() for prompt in pair.prompts}) == 8


def test_a_sweep_keeps_the_order_of_its_jobs():
    assert sweep([partial(pow, 2, n) for n in range(9)]) == [2**n for n in range(9)]
    assert sweep([]) == []


def test_an_error_in_a_job_comes_through():
    with pytest.raises(ZeroDivisionError):
        sweep([partial(divmod, 1, 0), partial(pow, 2, 3)])


@pytest.mark.slow
def test_the_model_drafts_have_no_shortfall():
    """Family-wise false alarm 1e-3; a difference of 1.5 % would be seen."""
    pair = random_pair(0, prompts=512)
    for name in ("INT4", "3 layers", "1 layer"):
        (cell,) = loop_cells(pair.target, pair.draft(name), pair.prompts, 96, (4,), 0, 41)
        gap = cell.gap(0.001, 3)
        assert gap.agrees
        assert gap.smallest_detectable / gap.expected < 0.02
        assert cell.lag_correlation < 0.05  # positive correlation is what costs


def test_ledger_totals_are_sums_of_rows(cells):
    ledger: Ledger = cells.savings[0].run.target
    for name in ("flops", "weight_bytes", "kv_read_bytes", "kv_write_bytes"):
        assert ledger.total(name) == sum(getattr(row, name) for row in ledger.rows())


class Remembers:
    """A drafter that proposes what it saw follow the same prompt in an earlier run."""

    vocab = 32

    def __init__(self):
        self.seen = {}

    def start(self, prompt):
        self.prompt, self.known = tuple(prompt), self.seen.get(tuple(prompt), ())
        return self

    def propose(self, view, gamma, dice):
        self.seen[self.prompt] = view.tokens.tolist()
        return Proposal(np.array(self.known[len(view.tokens) :][:gamma], np.int64))


def test_t7_a_repeated_measurement_starts_from_nothing(pair):
    """The same prompts again give the same counts, with every kind of draft; with a draft that
    remembers they do not, so a difference would be seen."""

    def measured(draft):
        run = measure.count_speculative(pair.target, draft, pair.prompts, 24, 3, 7)
        texts = [one.tokens.tolist() for one in run.runs]
        rounds = [one.rounds for one in run.runs]
        return texts, rounds, run.target.rows(), run.draft.rows()

    for draft in (*(named.model for named in pair.drafts), pair.target):
        assert measured(draft) == measured(draft)
    remembering = Remembers()
    first, second = measured(remembering), measured(remembering)
    assert first[1] != second[1]
    plain = [measure.count_plain(pair.target, pair.prompts, 24, 7) for _ in range(2)]
    assert plain[0].target.rows() == plain[1].target.rows()


@pytest.mark.skipif(not row_product().row_invariant, reason="rounds by how rows are grouped")
@pytest.mark.parametrize("gamma", range(9))
def test_at_t_0_the_trained_targets_text_is_the_same_with_every_draft(trained, gamma):
    """20 prompts; at γ 4 with a stop token too, a line's end."""
    prompts, ends = trained.prompts, set()
    settings = {"sampling": Sampling(temperature=0), "stop": (10,) if gamma == 4 else ()}
    rngs = measure.streams(len(prompts), 0)
    plain = generate_many(trained.target, None, prompts, 16, 0, rngs=rngs, **settings)
    for draft in trained.drafts:
        found = generate_many(
            trained.target, draft.model, prompts, 16, gamma, rngs=rngs, **settings
        )
        for run, wanted in zip(found, plain, strict=True):
            np.testing.assert_array_equal(run.tokens, wanted.tokens)
            assert run.finish == wanted.finish
        ends |= {r.end for run in found for r in run.rounds}
    assert not gamma or {"reject", "full"} <= ends
    assert ("stop" in ends) == (gamma == 4)


@pytest.fixture(scope="module")
def trained():
    return text_pair(0, prompts=20, prompt_length=24)
