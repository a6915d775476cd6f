"""Lockstep equals one at a time: the same loop, so the same tokens, rounds and counts."""

import numpy as np
import pytest

from lab.decode import speculative_generate
from lab.engine import generate_many, has_batches
from lab.exact import HashLM, TableLM, audit, output_law, plain_law
from lab.ledger import MATMUL_OPS, Ledger
from lab.linear import row_product
from lab.ngram import NGramLM
from lab.sampling import Sampling
from lab.transformer import ModelConfig, Transformer
from lab.verify import Proposal

TINY = ModelConfig(vocab=19, d_model=16, n_layers=2, n_heads=2, d_ff=24, max_len=96)
TARGET = Transformer.init(TINY, 0)
SETTINGS = {
    "T 1": Sampling(),
    "T 0": Sampling(temperature=0),
    "filters": Sampling(0.8, top_k=9, top_p=0.9, min_p=0.01),
    "penalty": Sampling(repetition_penalty=1.3),
}


def prompts(count=7, vocab=19, seed=0):
    """Of different lengths, one of a single token."""
    rng = np.random.default_rng([seed, count])
    return [rng.integers(0, vocab, 1 + 3 * i % 11) for i in range(count)]


def rngs(count, seed=1):
    return [np.random.default_rng([seed, i]) for i in range(count)]


def assert_same_runs(many, alone):
    for one, other in zip(many, alone, strict=True):
        np.testing.assert_array_equal(one.tokens, other.tokens)
        assert one.rounds == other.rounds
        assert one.origins == other.origins
        assert one.finish == other.finish
        assert one.target_calls == other.target_calls
        assert one.draft_calls == other.draft_calls


def both(target, draft, n_new, gamma, given=None, **settings):
    given = prompts(vocab=target.vocab) if given is None else given
    many = generate_many(target, draft, given, n_new, gamma, rngs=rngs(len(given)), **settings)
    gammas = gamma if isinstance(gamma, list) else [gamma] * len(given)
    alone = [
        speculative_generate(target, draft, prompt, n_new, own, rng=rng, **settings)
        for prompt, own, rng in zip(given, gammas, rngs(len(given)), strict=True)
    ]
    return many, alone


needs_row_invariance = pytest.mark.skipif(
    not row_product().row_invariant, reason="this BLAS rounds by how rows are grouped"
)


@needs_row_invariance
@pytest.mark.parametrize("sampling", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("gamma", [0, 1, 4, [0, 1, 2, 3, 4, 5, 9]])
def test_transformers_in_lockstep_equal_one_at_a_time_bit_for_bit(sampling, gamma):
    draft = TARGET.quantized(4, 8)
    many, alone = both(TARGET, draft, 30, gamma, sampling=sampling, stop=[3])
    assert_same_runs(many, alone)
    assert len({len(run.tokens) for run in many}) > 1  # rows do not leave together


@needs_row_invariance
def test_rows_that_stop_early_leave_and_the_rest_go_on():
    many, alone = both(TARGET, TARGET.first_layers(1), 30, 3, stop=[18])
    assert_same_runs(many, alone)
    assert {run.finish for run in many} == {"stop", "length"}


@pytest.mark.parametrize("draft", [HashLM(11, rotate=4), NGramLM(2, 11).fit([1, 2, 3, 1, 2, 4])])
@pytest.mark.parametrize("gamma", [0, 3, lambda view: (4, 0, 2)[len(view.rounds) % 3]])
def test_models_without_batches_are_run_row_by_row(draft, gamma):
    many, alone = both(HashLM(11), draft, 25, gamma, sampling=Sampling(temperature=0.9))
    assert_same_runs(many, alone)


@needs_row_invariance
def test_a_batched_target_with_a_draft_that_has_no_batches():
    bigram = NGramLM(2, 19).fit(np.arange(60) % 19)
    assert_same_runs(*both(TARGET, bigram, 25, 3))


@needs_row_invariance
def test_a_model_may_be_its_own_draft():
    many, alone = both(TARGET, TARGET, 40, 4)
    assert_same_runs(many, alone)
    assert all(r.accepted == r.drafted for run in many for r in run.rounds)


@needs_row_invariance
def test_a_drafter_that_is_no_model_may_be_shared_by_all_rows():
    class Repeats:
        """Proposes the last token again, which is certain, every second round."""

        vocab = 19

        def start(self, prompt):
            return self

        def propose(self, view, gamma, dice):
            again = gamma if len(view.rounds) % 2 else 0
            return Proposal(np.full(again, view.tokens[-1]))

    assert_same_runs(*both(TARGET, Repeats(), 25, 3))


def test_draft_none_is_plain_decoding():
    many, alone = both(TARGET, None, 12, 0)
    assert_same_runs(many, alone)
    assert all(run.draft_calls == 0 for run in many)
    assert all(r.drafted == 0 and r.emitted == 1 for run in many for r in run.rounds)


def test_context_limits_and_nothing_to_do():
    given = [np.zeros(n, int) for n in (96, 95, 90, 1)]
    many, alone = both(TARGET, TARGET.first_layers(1), 10, 3, given)
    assert_same_runs(many, alone)
    assert [len(run.tokens) for run in many] == [0, 1, 6, 10]
    assert generate_many(TARGET, None, [], 5, 0, rngs=[]) == []
    assert len(generate_many(TARGET, None, given[2:], 0, 0, rngs=rngs(2))[0].tokens) == 0


@pytest.mark.parametrize("rows", [1, 2])
def test_the_law_of_a_batch_is_the_product_of_the_rows_laws(rows):
    target, draft = TableLM.random(2, 0, 2), TableLM.random(2, 1, 1)
    starts = [[1], [0]][:rows]

    def run(dice):
        runs = generate_many(target, draft, starts, 2, 1, rngs=[dice] * rows)
        return [token for one in runs for token in one.tokens]

    alone = [plain_law(target, start, 2) for start in starts]
    wanted = {(): 1.0}
    for law in alone:
        wanted = {(*z, *x): p * q for z, p in wanted.items() for x, q in law.items()}
    found = audit(run, wanted)
    assert found.total_variation <= 1e-12
    assert found.leaves > 4**rows
    assert sum(output_law(run).values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("gamma", [0, 3])
def test_weights_are_read_once_per_batch(gamma):
    draft = TARGET.first_layers(1)
    given = [np.array([1, 2, 3])] * 5
    together, drafted = Ledger(), Ledger()
    runs = generate_many(
        TARGET, draft, given, 8, gamma, rngs=rngs(5), target_ledger=together, draft_ledger=drafted
    )
    rows = sum(r.drafted + 1 for run in runs for r in run.rounds)
    flops = together.total("flops", MATMUL_OPS, "decode")
    assert flops == 2 * rows * TARGET.matmul_parameters
    forwards = together.total("weight_bytes", MATMUL_OPS, "decode") / (2 * TARGET.matmul_parameters)
    assert forwards == max(run.target_calls for run in runs)  # of the longest row, not the sum
    drafts = sum(run.draft_calls for run in runs)
    lagging = drafted.total("flops", MATMUL_OPS, "decode") / (2 * draft.matmul_parameters)
    assert lagging >= drafts  # a draft's catch-up rows are rows too
    assert drafted.total("flops", phase="prefill") == 0 if gamma == 0 else lagging > 0


@pytest.mark.parametrize("fails_at", range(1, 12))
def test_k14_an_error_puts_every_rows_caches_back_at_once(fails_at):
    """What they hold is text: at T = 0 a rejected draft would differ from it."""
    caches = []

    class Recorded(HashLM):
        def new_cache(self):
            caches.append(super().new_cache())
            return caches[-1]

    class Fails(Recorded):
        calls = 0

        def forward(self, tokens, cache):
            Fails.calls += 1
            if Fails.calls == fails_at:
                raise RuntimeError("no answer")
            return super().forward(tokens, cache)

    given, greedy = [[1, 2, 3], [4], [5, 6]], Sampling(temperature=0)
    whole = generate_many(HashLM(), None, given, 12, 0, rngs=rngs(3), sampling=greedy)
    texts = [[*prompt, *run.tokens] for prompt, run in zip(given, whole, strict=True)]
    with pytest.raises(RuntimeError, match="no answer") as kept:  # with its frames, uncollected
        generate_many(Fails(), Recorded(rotate=4), given, 12, 3, rngs=rngs(3), sampling=greedy)
    assert kept.value
    assert len(caches) == 6  # target's and draft's, of each sequence in turn
    for cache, text in zip(caches, [text for text in texts for _ in range(2)], strict=True):
        assert cache.tokens == text[: cache.length]


def test_has_batches():
    assert has_batches(TARGET)
    assert not has_batches(HashLM(5))
    assert not has_batches(None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rngs": rngs(3)}, ("rngs", "3", "7")),
        ({"gamma": [1, 2]}, ("gamma", "2", "7")),
        ({"gamma": -1}, ("gamma", "-1")),
        ({"rngs": None}, ("rngs", "None")),
        ({"rngs": np.random.default_rng(0)}, ("rngs", "Generator")),
        ({"rngs": rngs(1) * 7}, ("rngs", "one generator twice")),
        ({"prompts": 3}, ("prompts", "3")),
        ({"stop": None}, ("stop", "None")),
        ({"n_new": -2}, ("n_new", "-2")),
        ({"draft": HashLM(5)}, ("vocab=5", "vocab=19")),
        ({"prompts": [[1], []] + [[1]] * 5}, ("prompt",)),
    ],
)
def test_bad_calls_are_named_before_any_forward(change, words):
    given = {"draft": None, "prompts": prompts(), "n_new": 3, "gamma": 0, "rngs": rngs(7)} | change
    with pytest.raises(ValueError) as error:
        generate_many(
            TARGET, given["draft"], given["prompts"], given["n_new"], given["gamma"],
            rngs=given["rngs"], stop=given.get("stop", ()),
        )  # fmt: skip
    assert all(word in str(error.value) for word in words)
