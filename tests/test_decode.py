"""The loop on models that count: greedy text, exact counts, both caches, limits, seeds, errors.

Its laws at T > 0 are in test_decode_law.py.
"""

import ast
from pathlib import Path

import numpy as np
import pytest
from models import (
    CHAIN_P,
    CHAIN_Q,
    FAULTS,
    FIX_C,
    GREEDY,
    PROMPT,
    Altered,
    FixedRng,
    FunctionDrafter,
    Raiser,
    RaisingPrefill,
    Recorder,
    SpyRng,
    Stuck,
    context_free,
    fixed_drafts,
    hash_pair,
    list_loop,
    plain_greedy,
)  # fmt: skip

from lab.decode import autoregressive_generate, speculate, speculative_generate
from lab.exact import HashLM, TableLM
from lab.forward import Forward, drive, respond
from lab.ledger import Ledger
from lab.ngram import NGramLM
from lab.sampling import RandomDice, Sampling
from lab.verify import Proposal, Verdict

V = 11


def no_rng():
    """T = 0 draws uniforms too, but their values do not matter."""
    return np.random.default_rng([1, 2])


def greedy(target, draft, prompt, n_new, gamma, **more):
    more.setdefault("rng", no_rng())
    return speculative_generate(target, draft, prompt, n_new, gamma, sampling=GREEDY, **more)


def counts(generation, name):
    return [getattr(r, name) for r in generation.rounds]


def share(generation):
    return sum(counts(generation, "accepted")), sum(counts(generation, "drafted"))


def cycle(schedule):
    """A gamma schedule: entry i of the list, over and over, in round i."""
    return lambda view: schedule[len(view.rounds) % len(schedule)]


def check(generation, n_prompt=None):
    """What holds for every generation."""
    n = len(generation.tokens)
    assert generation.tokens.dtype == np.int64
    assert generation.tokens.shape == (n,)
    assert len(generation.origins) == n
    assert sum(counts(generation, "emitted")) == n
    assert generation.target_calls == len(generation.rounds)
    for r in generation.rounds:
        assert 0 <= r.accepted <= r.tested <= r.drafted <= r.allowed
        assert 1 <= r.emitted <= r.accepted + 1
        assert r.end in ("reject", "full", "stop", "limit")
        if r.end in ("reject", "full"):
            assert r.emitted == r.accepted + 1
            assert (r.accepted == r.drafted) == (r.end == "full")
    assert all(r.end in ("reject", "full") for r in generation.rounds[:-1])
    if generation.rounds:
        ends = {"stop": "stop", "length": "limit"}
        assert generation.rounds[-1].end == ends[generation.finish]
    return generation


# ---- FIX-C: exact counts -----------------------------------------------------------------------


def test_fix_c_tokens_and_counts():
    target, draft = map(Recorder, hash_pair())
    generation = check(greedy(target, draft, PROMPT, 14, 3))
    assert generation.tokens.tolist() == FIX_C == plain_greedy(HashLM(), PROMPT, 14)
    assert counts(generation, "drafted") == [3, 3, 3, 3, 1]
    assert counts(generation, "accepted") == [3, 3, 0, 2, 1]
    assert counts(generation, "emitted") == [4, 4, 1, 3, 2]
    assert counts(generation, "end") == ["full", "full", "reject", "reject", "limit"]
    assert generation.finish == "length"
    assert generation.target_calls == len(target.fed) == 5
    assert (target.rows, target.prefill_rows) == (18, 2)  # 20 verify rows in all
    assert generation.draft_calls == len(draft.fed) == 13
    assert draft.prefilled == target.prefilled == [([4, 1], 0)]
    # The draft's rows: one for every draft, and the two it lacked after the two full rounds.
    assert draft.rows == 13 + 2
    assert [len(tokens) for tokens, _ in draft.fed] == [1, 1, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1]


def test_fix_c_origins_w3():
    generation = greedy(*hash_pair(), PROMPT, 14, 3)
    d, b, c = "draft", "bonus", "correction"
    assert generation.origins == (d, d, d, b, d, d, d, b, c, d, d, c, d, b)


@pytest.mark.parametrize(
    "fault", FAULTS[:5], ids=["k4_rejected_stay", "k5_zeroed", "k6_no_trim", "k6_less", "k6_more"]
)
def test_the_cache_faults_of_k4_k5_k6_change_fix_c(fault):
    """What the list loop gives with the fault; without it, what the lab gives."""
    first_difference = dict(zip(FAULTS[:5], (8, 4, 9, 9, 9), strict=True))
    right = list_loop(*hash_pair(), PROMPT, 14, 3)
    wrong = list_loop(*hash_pair(), PROMPT, 14, 3, fault)
    assert right.tokens == greedy(*hash_pair(), PROMPT, 14, 3).tokens.tolist()
    same = [a == b for a, b in zip(right.tokens, wrong.tokens, strict=True)]
    assert same.index(False) == first_difference[fault]
    assert right.excess == -1
    if fault == "no trim":
        assert wrong.excess == 11
    if fault == "rejected drafts stay":
        assert wrong.tokens[:9] == [7, 8, 6, 4, 2, 7, 9, 8, 9]
    if fault == "cache zeroed":
        assert wrong.tokens[:7] == [7, 8, 6, 4, 9, 9, 9]


def test_k3_the_draft_cache_is_trimmed_right():
    generation = check(greedy(*hash_pair(), PROMPT, 400, 4))
    right = list_loop(*hash_pair(), PROMPT, 400, 4)
    assert share(generation) == right.share == (272, 508)
    assert generation.tokens.tolist() == right.tokens
    for fault, pair in {
        "draft trim min(rejected + 1, k)": (40, 1434), "no draft trim": (33, 1462),
    }.items():  # fmt: skip
        wrong = list_loop(*hash_pair(), PROMPT, 400, 4, fault)
        assert wrong.tokens == right.tokens, "the text does not show it"
        assert wrong.share == pair
    pattern = [1, 2, 0, 3, 2, 1]
    fault = "draft trim min(rejected + 1, k)"
    for name, lag in ((fault, [2, 4, 5, 7, 9, 11]), (None, [0] * 6)):
        trace = list_loop(*hash_pair(), PROMPT, 40, 4, name, accepts=pattern + [0] * 40)
        assert trace.lag[:6] == lag


def test_k12_rounds_without_drafts_do_not_leave_the_draft_behind():
    schedule = [4, 0, 4, 0, 0]
    generation = check(greedy(*hash_pair(), PROMPT, 400, cycle(schedule)))
    right = list_loop(*hash_pair(), PROMPT, 400, schedule)
    assert generation.tokens.tolist() == right.tokens
    assert share(generation) == right.share == (175, 358)
    wrong = list_loop(*hash_pair(), PROMPT, 400, schedule, "gamma 0 forgets the draft")
    assert wrong.tokens == right.tokens
    assert wrong.share == (26, 596)


def test_s3_the_clamp_of_the_last_round():
    wrong = list_loop(*hash_pair(), PROMPT, 14, 3, "limit not looked at")
    assert len(wrong.tokens) == 15


def test_s4_the_first_token_is_returned():
    tokens = greedy(*hash_pair(), PROMPT, 14, 3).tokens.tolist()
    lost = plain_greedy(HashLM(), PROMPT, 15)[1:]  # the fault
    assert tokens[0] == 7
    assert (lost[0], lost[-1]) == (8, 3)
    stopped = check(greedy(*hash_pair(), PROMPT, 14, 3, stop=[7]))  # and it is stop-checked
    assert stopped.tokens.tolist() == [7]
    assert stopped.finish == "stop"


@pytest.mark.parametrize("gamma", [*range(9), [4, 0, 4, 0, 0], [0, 3], [1, 2, 8]])
def test_every_round_is_the_oracles(gamma):
    ends = set()
    for prompt in PROMPTS[:8]:
        for n_new in (1, 2, 7, 23):
            schedule = gamma if isinstance(gamma, int) else cycle(gamma)
            generation = check(greedy(*hash_pair(), prompt, n_new, schedule))
            trace = list_loop(*hash_pair(), prompt, n_new, gamma)
            assert generation.tokens.tolist() == trace.tokens
            assert counts(generation, "drafted") == counts(generation, "allowed") == trace.drafted
            assert counts(generation, "accepted") == trace.accepted
            ends.update(zip(trace.drafted, trace.accepted, strict=True))
    if gamma not in (0, 1):
        assert_all_kinds(ends)


def assert_all_kinds(ends):
    """Policy 3: a reject, a partial accept and a full accept happened; (drafted, accepted)."""
    assert any(a == 0 < k for k, a in ends)
    assert any(0 < a < k for k, a in ends)
    assert any(0 < a == k for k, a in ends)


# ---- T = 0: the text of plain decoding ---------------------------------------------------------


PROMPTS = [
    np.random.default_rng([20, i]).integers(0, V, 1 + i % 6).tolist() for i in range(20)
]  # fmt: skip


def drafts_of_all_kinds():
    text = plain_greedy(HashLM(), PROMPT, 120)
    noise = np.random.default_rng([21, 0]).integers(0, V, 200).tolist()
    return {
        "itself": HashLM(),
        "hash rotated at every 4th sum": HashLM(rotate=4),
        "hash rotated at every 2nd sum": HashLM(rotate=2),
        "table": TableLM.random(V, 3, context=1),
        "3-gram": NGramLM(3, V).fit([text, noise]),
        "lookup": FunctionDrafter(V, last_seen),
    }


def last_seen(view, gamma, dice):
    """Prompt lookup in three lines: what followed the last token where it was seen before."""
    tokens = view.tokens.tolist()
    places = [i for i, token in enumerate(tokens[:-1]) if token == tokens[-1]]
    return Proposal(np.array(tokens[places[-1] + 1 :][:gamma] if places else [], int))


TARGETS = {"hash": HashLM(), "table": TableLM.random(V, 8, context=2)}


@pytest.mark.parametrize("kind", drafts_of_all_kinds())
@pytest.mark.parametrize("target", TARGETS)
def test_at_temperature_0_the_text_is_plain_decodings(target, kind):
    model, draft = TARGETS[target], drafts_of_all_kinds()[kind]
    ends = set()
    for prompt in PROMPTS:
        text = plain_greedy(model, prompt, 17)
        rng = no_rng()
        plain = autoregressive_generate(model, prompt, 17, sampling=GREEDY, rng=rng)
        assert plain.tokens.tolist() == text
        for gamma in range(9):
            generation = check(greedy(model, draft, prompt, 17, gamma))
            assert generation.tokens.tolist() == text
            ends.update((r.drafted, r.accepted) for r in generation.rounds)
    if target == "hash" and kind.startswith("hash"):
        assert_all_kinds(ends)  # policy 3
    if target == "hash" and kind == "itself":
        assert all(k == a for k, a in ends)


def test_n11_the_prompts_have_no_near_ties():
    """Only exact ones, which go to the first index: so the text is the same in whatever order a
    model adds its numbers up."""
    for model in TARGETS.values():
        for prompt in PROMPTS:
            text = [*prompt, *plain_greedy(model, prompt, 17)]
            logits = np.sort(model.forward(text, model.new_cache()), axis=1)
            gap = logits[:, -1] - logits[:, -2]
            assert ((gap > 1e-9) | (gap == 0)).all()
            assert np.count_nonzero(gap) > 0.9 * len(gap)


def test_n9_exact_ties_at_every_step():
    table = np.random.default_rng([22, 0]).integers(0, 2, (5, 5, 5)).astype(float)
    top = np.sort(table, axis=-1)
    assert (top[..., -1] == top[..., -2]).mean() > 0.6
    target, draft = TableLM(table), TableLM(np.roll(table, 1, axis=0))
    for prompt in ([0, 1], [4, 3], [2, 2, 2]):
        text = plain_greedy(target, prompt, 20)
        for gamma in range(5):
            assert greedy(target, draft, prompt, 20, gamma).tokens.tolist() == text


def test_n8_a_draft_that_never_saw_a_context():
    target, draft = TableLM.random(4, 5), NGramLM(2, 4).fit([0, 1, 0, 1])
    unseen = np.exp(draft.forward([3], draft.new_cache())[0])
    assert np.isfinite(unseen).all()
    assert unseen.sum() == pytest.approx(1)
    for seed in range(5):
        rng = np.random.default_rng([23, seed])
        check(speculative_generate(target, draft, [3], 20, 3, rng=rng))


def test_r1_ten_seeds_one_output_at_temperature_0():
    for gamma in (0, 3):
        found = {
            tuple(greedy(*hash_pair(), PROMPT, 30, gamma, rng=np.random.default_rng(s)).tokens)
            for s in range(0, 100, 10)
        }
        assert found == {tuple(plain_greedy(HashLM(), PROMPT, 30))}


# ---- What the models are asked -----------------------------------------------------------------


def watched(target, draft, prompt, n_new, gamma, **more):
    """Drive a loop, and check before every forward that the cache holds what the request says."""
    more.setdefault("sampling", GREEDY)
    more.setdefault("rng", no_rng())
    seen = []
    loop = speculate(target, draft, prompt, n_new, gamma, **more)
    answer = None
    try:
        while True:
            request = loop.send(answer)
            assert isinstance(request, Forward)
            if not request.prefill:
                assert request.cache.tokens == request.history.tolist()
            seen.append((request.model, request.tokens.tolist(), request.history.tolist()))
            answer = respond(request)
    except StopIteration as done:
        return check(done.value), seen


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.5)], ids=["T 0", "T .5"])
@pytest.mark.parametrize("schedule", [[0], [1], [2], [3], [8], [4, 0, 4, 0, 0], [0, 1, 5]])
def test_before_every_forward_each_cache_is_the_text(schedule, sampling):
    """History and cache contents agree, and both are the text so far, in both models."""
    for i, prompt in enumerate(PROMPTS[:10]):
        target, draft = hash_pair()
        rng = np.random.default_rng([24, i])
        generation, seen = watched(
            target, draft, prompt, 19, cycle(schedule), sampling=sampling, rng=rng
        )
        text = [*prompt, *generation.tokens.tolist()]
        passes = [(new, old) for model, new, old in seen if model is target and old]
        for new, old in passes:
            assert old == text[: len(old)]  # no rejected token in the cache
            assert new[0] == text[len(old)]  # the pending token
        drafted = [(new, old) for model, new, old in seen if model is draft]
        assert len(drafted) == generation.draft_calls + (bool(schedule != [0]) and len(prompt) > 1)


@pytest.mark.parametrize("schedule", [[0], [1], [3], [8], [4, 0, 4, 0, 0], [0, 0, 2]])
@pytest.mark.parametrize("temperature", [0, 0.6])
def test_both_cache_lengths_after_every_round(schedule, temperature):
    for i, prompt in enumerate(PROMPTS):
        target, draft = map(Recorder, hash_pair())
        held = []

        def gamma(view, draft=draft, held=held):
            text = view.tokens.tolist()
            assert view.target_cache.length == len(text) - 1
            assert view.target_cache.tokens == text[:-1]
            own = draft.cache.tokens
            assert own == text[: len(own)]
            assert len(own) <= len(text) - 1
            held.append(len(own))
            return schedule[len(view.rounds) % len(schedule)]

        generation = speculative_generate(
            target, draft, prompt, 25, gamma,
            sampling=Sampling(temperature), rng=np.random.default_rng([25, i]),
        )  # fmt: skip
        text = [*prompt, *generation.tokens.tolist()]
        assert target.cache.tokens == text[:-1]
        assert draft.cache.tokens == text[: draft.cache.length]
        assert held == sorted(held), "never truncated below what a round found"
        assert target.rows == sum(counts(generation, "drafted")) + len(generation.rounds)
        assert len(target.fed) == generation.target_calls
        assert len(draft.fed) == generation.draft_calls == sum(counts(generation, "drafted"))
        fed = [token for tokens, _ in draft.prefilled + draft.fed for token in tokens]
        rejected = sum(
            max(0, r.drafted - 1 - r.accepted) for r in generation.rounds
        )  # fed, then forgotten
        assert len(fed) - rejected == draft.cache.length


@pytest.mark.parametrize("gamma", [1, 3, 6])
@pytest.mark.parametrize("stop", range(V))
def test_both_caches_after_a_stop_token_inside_a_block(stop, gamma):
    """Only a stop leaves accepted drafts behind: what was cut is in no cache."""
    cut = 0
    for draft_model in (HashLM(), HashLM(rotate=4)):
        for prompt in PROMPTS[:8]:
            target, draft = Recorder(HashLM()), Recorder(draft_model)
            generation = check(greedy(target, draft, prompt, 25, gamma, stop=[stop]))
            text = [*prompt, *generation.tokens.tolist()]
            assert target.cache.tokens == text[:-1]
            assert draft.cache.length <= len(text) - 1
            assert draft.cache.tokens == text[: draft.cache.length]
            last = generation.rounds[-1]
            cut += last.emitted < last.accepted + 1
    if gamma > 1:
        assert cut, "else nothing was cut"


@pytest.mark.parametrize("length", [1, 2, 3, 7])
@pytest.mark.parametrize("gamma", [0, 3])
def test_k15_each_prompt_token_is_fed_once(length, gamma):
    target, draft = map(Recorder, hash_pair())
    prompt = PROMPT * 3
    greedy(target, draft, prompt[:length], 12, gamma)
    for model in (target, draft) if gamma else (target,):
        assert model.prefilled == ([(prompt[: length - 1], 0)] if length > 1 else [])
        assert model.fed[0] == (
            [prompt[length - 1], *model.fed[0][0][1:]], length - 1,
        )  # fmt: skip
        starts = [before for _, before in model.fed]
        assert min(starts) == length - 1, "no later call goes back into the prompt"


def test_a_model_without_prefill_is_fed_the_prompt_by_forward():
    fed = []

    class Plain(HashLM):
        def forward(self, tokens, cache):
            fed.append(len(tokens))
            return super().forward(tokens, cache)

    assert greedy(Plain(), None, PROMPT, 3, 0).tokens.tolist() == FIX_C[:3]
    assert fed == [2, 1, 1, 1]


@pytest.mark.parametrize("finish", ["n_new", "max_len"])
def test_s3_nothing_wanted_makes_no_forward_and_no_draw(finish):
    target, draft, rng = Recorder(HashLM()), Recorder(HashLM()), SpyRng()
    target.max_len = len(PROMPT) if finish == "max_len" else None
    generation = greedy(target, draft, PROMPT, 9 if finish == "max_len" else 0, 3, rng=rng)
    assert generation.tokens.tolist() == []
    assert generation.finish == "length"
    assert (generation.rounds, generation.origins) == ((), ())
    assert (generation.target_calls, generation.draft_calls) == (0, 0)
    assert target.fed == target.prefilled == draft.fed == draft.prefilled == rng.drawn == []


def test_t10_gamma_0_is_plain_decoding():
    target, draft = map(Recorder, hash_pair())
    rng = np.random.default_rng([26, 0])
    generation = check(speculative_generate(target, draft, PROMPT, 12, 0, rng=rng))
    assert draft.fed == draft.prefilled == []
    plain = autoregressive_generate(HashLM(), PROMPT, 12, rng=np.random.default_rng([26, 0]))
    assert plain.tokens.tolist() == generation.tokens.tolist()
    for one in (generation, plain):
        assert one.target_calls == 12
        assert one.draft_calls == 0
        assert set(one.origins) == {"bonus"}
        for name in ("allowed", "drafted", "tested", "accepted"):
            assert set(counts(one, name)) == {0}
        assert set(counts(one, "emitted")) == {1}


def test_plain_decoding_reads_one_row_a_token():
    target = Recorder(HashLM())
    autoregressive_generate(target, PROMPT, 5, sampling=GREEDY, rng=no_rng())
    assert [len(tokens) for tokens, _ in target.fed] == [1] * 5
    assert [before for _, before in target.fed] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("gamma", [0, 1, 2, 5])
def test_d12_r4_one_uniform_per_question_all_distinct(gamma):
    """Each draft one, each test one, each correction or bonus one; R4: so the position of a
    generator after a run follows from its rounds, discarded tail and stop cut included."""
    for seed in range(10):
        rng = SpyRng([27, seed])
        ended = []
        generation = speculative_generate(
            *hash_pair(), PROMPT, 20, gamma, sampling=Sampling(0.6), rng=rng, stop=[3],
            on_token=lambda token, rng=rng, ended=ended: ended.append(len(rng.drawn)),
        )  # fmt: skip
        spent = [r.drafted + r.tested + 1 for r in generation.rounds]
        assert len(rng.drawn) == sum(spent)
        assert len(set(rng.drawn)) == len(rng.drawn)
        after = np.repeat(np.cumsum(spent), counts(generation, "emitted"))
        assert ended == after.tolist()


def test_r2_seeds_repeat_and_differ():
    pair = TableLM.of_probs(CHAIN_P), TableLM.of_probs(CHAIN_Q)  # FIX-B, 50 tokens

    def run(seed):
        rng = np.random.default_rng(seed)
        return speculative_generate(*pair, [0], 50, 3, rng=rng).tokens.tolist()

    texts = [run(seed) for seed in range(6)]
    assert texts == [run(seed) for seed in range(6)]
    assert len(set(map(tuple, texts))) == 6


def test_r2_interleaved_runs_equal_their_solo_runs():
    def loop(seed):
        rng = np.random.default_rng([28, seed])
        return speculate(*hash_pair(), PROMPT, 30, 3, sampling=Sampling(0.7), rng=rng)

    solo = [drive(loop(seed)).tokens.tolist() for seed in range(3)]
    loops = {seed: loop(seed) for seed in range(3)}
    requests = {seed: next(one) for seed, one in loops.items()}
    done = {}
    while loops:
        for seed in list(loops):
            try:
                requests[seed] = loops[seed].send(respond(requests[seed]))
            except StopIteration as stop:
                done[seed] = stop.value.tokens.tolist()
                del loops[seed]
    assert [done[seed] for seed in range(3)] == solo
    assert len(set(map(tuple, solo))) == 3


def test_r3_numpys_global_state_is_untouched():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    speculative_generate(*hash_pair(), PROMPT, 20, 3, rng=no_rng())
    greedy(*hash_pair(), PROMPT, 20, 3)
    after = np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0]
    assert np.array_equal(before[1], after[1])
    assert before[2:] == after[2:]


def test_r5_d14_texts_of_one_seed_differ_at_temperature_1():
    """Same law, not the same text: neither as plain decoding nor as another gamma. Laws are
    compared in test_decode_law.py; this only shows that texts must not be."""
    texts = {
        tuple(speculative_generate(*hash_pair(), PROMPT, 40, gamma, rng=no_rng()).tokens.tolist())
        for gamma in (0, 2, 4)
    }
    assert len(texts) == 3


# ---- Stop tokens and limits --------------------------------------------------------------------


def chain(text, vocab=32):
    """A target and drafts that say `text` after token 0, one token after the other."""
    table = np.zeros((vocab, vocab))
    for token, following in zip([0, *text], [*text, 0], strict=True):
        table[token, following] = 9
    return TableLM(table), FunctionDrafter(vocab, fixed_drafts(text))


BLOCK = [10, 11, 12, 20, 21, 22]


def test_s2_stop_is_looked_for_before_the_limit():
    generation = check(greedy(*chain(BLOCK), [0], 6, 5, stop=[12]))
    assert (counts(generation, "accepted"), counts(generation, "emitted")) == ([5], [3])
    assert generation.tokens.tolist() == [10, 11, 12]
    assert generation.finish == "stop"
    capped = check(greedy(*chain(BLOCK), [0], 5, 5, stop=[12]))  # WRONG: 5 tokens, "length"
    assert (capped.tokens.tolist(), capped.finish) == ([10, 11, 12], "stop")
    late = check(greedy(*chain(BLOCK), [0], 5, 5, stop=[22]))  # index 5 is behind the limit
    assert (late.tokens.tolist(), late.finish) == (BLOCK[:5], "length")


def test_s2_a_stop_token_that_is_the_last_wanted_one():
    generation = check(greedy(*chain(BLOCK), [0], 3, 5, stop=[12]))
    assert (generation.tokens.tolist(), generation.finish) == ([10, 11, 12], "stop")


def test_s7_counters_leave_the_discarded_tail_out():
    generation = check(greedy(*chain(BLOCK), [0], 50, 5, stop=[12]))
    (only,) = generation.rounds
    assert (only.drafted, only.tested, only.accepted) == (5, 5, 5)
    assert only.emitted == 3  # WRONG: 6
    assert (only.end, generation.origins) == ("stop", ("draft",) * 3)


@pytest.mark.parametrize("at", range(7))
def test_a_stop_token_at_each_place_of_a_block(at):
    text = [*BLOCK, 23]
    shown = []
    generation = check(greedy(*chain(text), [0], 50, 5, stop=[text[at], 30], on_token=shown.append))
    assert generation.tokens.tolist() == shown == text[: at + 1]
    assert generation.finish == "stop"
    assert generation.origins == (*["draft"] * 5, "bonus", "correction")[: at + 1]


def test_a_stop_token_in_the_prompt_or_among_rejected_drafts_stops_nothing():
    target, _ = chain(BLOCK)
    generation = check(greedy(target, None, [12, 0], 3, 0, stop=[12]))
    assert generation.tokens.tolist() == [10, 11, 12]
    drafter = FunctionDrafter(32, fixed_drafts([10, 21, 12]))  # the last two are rejected
    generation = check(greedy(target, drafter, [0], 2, 3, stop=[21]))
    assert generation.tokens.tolist() == [10, 11]
    assert generation.finish == "length"


@pytest.mark.parametrize("gamma", range(5))
def test_s3_exactly_as_many_tokens_as_wanted(gamma):
    for draft in (HashLM(), HashLM(rotate=2)):
        text = plain_greedy(HashLM(), PROMPT, 2 * gamma + 2)
        for n_new in range(2 * gamma + 3):
            target = Recorder(HashLM())
            generation = check(greedy(target, draft, PROMPT, n_new, gamma))
            assert generation.tokens.tolist() == text[:n_new]
            assert target.prefill_rows + target.rows == (
                (len(PROMPT) - 1) * (n_new > 0)
                + sum(counts(generation, "drafted")) + len(generation.rounds)
            )  # fmt: skip
            if draft.rotate == 0:
                wanted = []
                while sum(wanted) + len(wanted) < n_new:
                    wanted.append(min(gamma, n_new - sum(wanted) - len(wanted) - 1))
                assert counts(generation, "allowed") == wanted


def test_k4_rejected_drafts_are_not_part_of_the_text():
    target = context_free(np.eye(8)[2])
    drafter = FunctionDrafter(8, fixed_drafts([5] * 5))
    prompt = [1] * 128
    lengths = []
    rounds = check(
        greedy(target, drafter, prompt, 3, lambda v: lengths.append(len(v.tokens)) or 5)
    ).rounds
    assert lengths == [128, 129, 130]  # WRONG: 134 after the first round
    assert [r.accepted for r in rounds] == [0, 0, 0]


@pytest.mark.parametrize("draft", [HashLM(), HashLM(rotate=2)], ids=["perfect", "poor"])
def test_s5_the_targets_context_ends(draft):
    target = Recorder(HashLM(max_len=16))
    prompt = (PROMPT * 4)[:10]
    generation = check(greedy(target, draft, prompt, 100, 5))
    assert generation.tokens.tolist() == plain_greedy(HashLM(), prompt, 6)
    assert generation.finish == "length"
    assert max(before + len(tokens) for tokens, before in target.fed) <= 16
    length = 10
    for r in generation.rounds:
        assert r.allowed == min(5, 16 - length - 1)
        length += r.emitted
    assert length == 16


def test_s5_a_prompt_one_short_of_the_context():
    generation = check(greedy(HashLM(max_len=4), HashLM(), PROMPT, 9, 5))
    assert (generation.tokens.tolist(), counts(generation, "allowed")) == ([7], [0])


@pytest.mark.parametrize("prompt_length", [3, 11, 12, 13, 20])
def test_s6_the_drafts_context_is_shorter(prompt_length):
    draft = Recorder(HashLM(max_len=12))
    prompt = (PROMPT * 7)[:prompt_length]
    generation = check(greedy(HashLM(max_len=64), draft, prompt, 20, 4))
    assert generation.tokens.tolist() == plain_greedy(HashLM(), prompt, 20)
    length = prompt_length
    for r in generation.rounds:
        assert r.allowed == r.drafted == max(0, min(4, 12 - length, prompt_length + 19 - length))
        length += r.emitted
    assert draft.cache.length <= 12
    if prompt_length >= 12:
        assert draft.fed == draft.prefilled == []
        assert share(generation) == (0, 0)  # nothing tested: "n/a", not a rate of 0


def test_s9_on_token_shows_every_kept_token_in_order():
    for stop in ([], [9]):
        shown = []
        generation = greedy(*hash_pair(), PROMPT, 14, 3, stop=stop, on_token=shown.append)
        assert shown == generation.tokens.tolist()
        assert all(type(token) is int for token in shown)


def test_w3_origins_match_the_counts():
    for seed in range(5):
        generation = check(
            speculative_generate(
                *hash_pair(), PROMPT, 60, 4, sampling=Sampling(0.7),
                rng=np.random.default_rng([29, seed]),
            )
        )  # fmt: skip
        origins = list(generation.origins)
        assert origins.count("draft") == sum(counts(generation, "accepted"))
        place = 0
        for r in generation.rounds:
            last = "bonus" if r.accepted == r.drafted else "correction"
            assert origins[place : place + r.emitted] == ["draft"] * r.accepted + [last]
            place += r.emitted


# ---- Drafters, rules, views --------------------------------------------------------------------


def test_k13_a_drafter_that_proposes_only_every_third_round():
    def propose(view, gamma, dice):
        if len(view.rounds) % 3:
            return Proposal(np.zeros(0, int))
        return Proposal(np.array(plain_greedy(HashLM(rotate=4), view.tokens.tolist(), gamma)))

    drafter = FunctionDrafter(V, propose)
    for prompt in PROMPTS:
        generation = check(greedy(HashLM(), drafter, prompt, 30, 4))
        assert generation.tokens.tolist() == plain_greedy(HashLM(), prompt, 30)
        drafted = counts(generation, "drafted")
        assert not any(k for i, k in enumerate(drafted) if i % 3)
        assert any(drafted)
        proposing = [r for r in generation.rounds if r.allowed]
        assert generation.draft_calls == len(proposing)
    assert drafter.starts == len(PROMPTS)


def test_a_round_without_drafts_asks_no_rule():
    def rule(target_probs, proposal, dice):
        raise AssertionError("asked")

    drafter = FunctionDrafter(V, fixed_drafts([]))
    generation = greedy(HashLM(), drafter, PROMPT, 5, 3, rule=rule)
    assert generation.tokens.tolist() == FIX_C[:5]
    assert counts(generation, "allowed") == [3, 3, 2, 1, 0]
    assert counts(generation, "end") == ["full"] * 4 + ["limit"]
    assert len(drafter.asked) == 4, "not asked where no draft is allowed"


def test_a_drafter_may_yield_forwards():
    inner = Recorder(HashLM(rotate=4))

    class Slow:
        """Drafts by fresh forward passes of the whole text, asked of the driver."""

        vocab = V

        def start(self, prompt):
            assert prompt.tolist() == PROMPT
            return self

        def propose(self, view, gamma, dice):
            text, laws = view.tokens.tolist(), []
            for _ in range(gamma):
                law = yield Forward(
                    inner, np.array(text), inner.model.new_cache(), view.sampling, np.zeros(0, int)
                )
                laws.append(law[-1])
                text.append(dice.choose(law[-1]))
            return Proposal(np.array(text[len(view.tokens) :]), np.stack(laws))

    generation = check(greedy(HashLM(), Slow(), PROMPT, 14, 3))
    assert generation.tokens.tolist() == FIX_C
    assert counts(generation, "accepted") == [3, 3, 0, 2, 1]
    assert len(inner.fed) == 13
    assert generation.draft_calls == 5, "propose calls"
    model = speculative_generate(*hash_pair(), PROMPT, 30, 3, rng=no_rng())
    drafter = speculative_generate(HashLM(), Slow(), PROMPT, 30, 3, rng=no_rng())
    assert model.tokens.tolist() == drafter.tokens.tolist(), "also at T = 1, draw for draw"
    assert model.rounds == drafter.rounds


def test_the_view_is_read_only():
    looked = []

    def gamma(view):
        with pytest.raises(ValueError, match="read-only"):
            view.tokens[0] = 3
        with pytest.raises(AttributeError):
            view.tokens = []
        with pytest.raises(AttributeError, match="read-only"):
            view.target_cache.truncate(0)
        assert view.sampling is GREEDY
        looked.append((view.tokens.tolist(), len(view.rounds), view.target_cache.length))
        return 3

    greedy(*hash_pair(), PROMPT, 14, gamma)
    text = PROMPT + FIX_C
    assert looked == [(text[:n], i, n - 1) for i, n in enumerate([3, 7, 11, 12, 15])]


def test_the_callers_prompt_is_left_alone():
    prompt = np.array(PROMPT)
    greedy(*hash_pair(), prompt, 14, 3)
    assert prompt.tolist() == PROMPT
    assert prompt.flags.writeable
    prompt.flags.writeable = False
    for same in (prompt, tuple(PROMPT), prompt.astype(np.uint8), np.array(PROMPT, np.int32)):
        assert greedy(*hash_pair(), same, np.int64(14), np.int64(3)).tokens.tolist() == FIX_C


def test_w8_gamma_0_and_a_prompt_of_one_token_work():
    for gamma in (0, 1, 5):
        generation = check(greedy(*hash_pair(), [3], 6, gamma))
        assert generation.tokens.tolist() == plain_greedy(HashLM(), [3], 6)


def test_a_dice_of_ones_own_is_asked_everything():
    class Noting(RandomDice):
        def __init__(self):
            super().__init__(no_rng())
            self.asked = ""

        def choose(self, probs):
            assert probs.shape == (V,)
            self.asked += "c"
            return super().choose(probs)

        def accept(self, probability):
            assert 0 <= probability <= 1, "the rule takes min(1, ratio)"
            self.asked += "a"
            return super().accept(probability)

    dice = Noting()
    rng = speculative_generate(*hash_pair(), PROMPT, 40, 3, rng=no_rng())
    own = speculative_generate(*hash_pair(), PROMPT, 40, 3, rng=dice)
    assert own.tokens.tolist() == rng.tokens.tolist()
    assert dice.asked == "".join("c" * r.drafted + "a" * r.tested + "c" for r in own.rounds)


def test_rules_get_the_laws_of_their_rows():
    target, draft = hash_pair()
    seen = []

    def rule(target_probs, proposal, dice):
        seen.append((target_probs, proposal))
        return Verdict((), dice.choose(target_probs[0]), 1)

    setting = Sampling(0.7, top_k=5, repetition_penalty=1.2)
    other = Sampling(1.3)
    generation = speculative_generate(
        target, draft, PROMPT, 9, 3, sampling=setting, draft_sampling=other, rng=no_rng(), rule=rule
    )
    text = [*PROMPT, *generation.tokens.tolist()]
    for i, (target_probs, proposal) in enumerate(seen):
        n, k = len(PROMPT) + i, len(proposal)
        whole = text[:n] + proposal.tokens.tolist()
        assert target_probs.shape == (k + 1, V)
        assert proposal.probs.shape == (k, V)
        assert target_probs.dtype == proposal.probs.dtype == np.float64
        for j in range(k + 1):
            prefix = whole[: n + j]
            logits = target.forward(prefix, target.new_cache())[-1]
            np.testing.assert_array_equal(target_probs[j], setting.probs(logits, prefix))
            if j < k:
                logits = draft.forward(prefix, draft.new_cache())[-1]
                np.testing.assert_array_equal(proposal.probs[j], other.probs(logits, prefix))


def test_ledgers_are_passed_only_where_they_are_given():
    target, draft = Ledger(), Ledger()
    model = NGramLM(2, V).fit(FIX_C)
    unigram = NGramLM(1, V).fit(FIX_C)
    generation = greedy(model, unigram, PROMPT, 9, 2, target_ledger=target, draft_ledger=draft)
    alone = Ledger()
    plain = autoregressive_generate(model, PROMPT, 9, sampling=GREEDY, rng=no_rng(), ledger=alone)
    assert plain.tokens.tolist() == generation.tokens.tolist()
    for ledger in (target, draft, alone):
        assert ledger.total("weight_bytes", phase="decode") > 0
    rows = sum(counts(generation, "drafted")) + len(generation.rounds)
    assert rows > 9
    assert target.total("weight_bytes") > alone.total("weight_bytes")
    greedy(*hash_pair(), PROMPT, 9, 2)  # HashLM.forward takes no ledger: it is not passed


# ---- Errors leave nothing half done ------------------------------------------------------------


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("side", ["target", "draft"])
def test_k14_a_forward_that_raises_leaves_caches_at_entry(side, at):
    pair = [Recorder(model) for model in hash_pair()]
    which = 0 if side == "target" else 1
    pair[which] = Raiser(pair[which].model, at)
    entry = []

    def gamma(view):
        entry.append((view.target_cache.length, pair[1].cache.length))
        return 3

    with pytest.raises(RuntimeError, match=f"call {at} fails"):
        greedy(*pair, PROMPT, 14, gamma)
    assert (pair[0].cache.length, pair[1].cache.length) == entry[-1]
    text = PROMPT + FIX_C
    for model in pair:
        assert model.cache.tokens == text[: model.cache.length]
        model.caches.clear()
    assert greedy(*pair, PROMPT, 14, 3).tokens.tolist() == FIX_C, "the second call succeeds"


@pytest.mark.parametrize("side", ["target", "draft"])
def test_k14_a_prefill_that_raises_leaves_the_cache_empty(side):
    pair = [Recorder(model) for model in hash_pair()]
    which = 0 if side == "target" else 1
    pair[which] = RaisingPrefill(pair[which].model)
    with pytest.raises(RuntimeError, match="prefill fails"):
        greedy(*pair, PROMPT, 14, 3)
    assert pair[which].cache.length == 0
    assert pair[0].cache.length == (0 if side == "target" else len(PROMPT) - 1)


@pytest.mark.parametrize("where", ["rule", "on_token", "dice", "closed", "interrupt"])
def test_k14_so_does_anything_else_that_goes_wrong_in_a_round(where):
    pair = [Recorder(model) for model in hash_pair()]
    more = {}

    def fail(*_):
        raise RuntimeError("no")

    if where == "rule":
        more["rule"] = fail
    if where == "on_token":
        more["on_token"] = fail
    if where == "dice":
        more["rng"] = FixedRng(0.5, 0.5, 0.5, 0.5)  # the fifth draw fails
    if where == "interrupt":
        pair[0] = Raiser(pair[0].model, 0, KeyboardInterrupt)
    if where == "closed":
        loop = speculate(*pair, PROMPT, 14, 3, sampling=GREEDY, rng=no_rng())
        answer = None
        for _ in range(6):  # two prefills, three drafts, the target's pass
            request = loop.send(answer)
            answer = respond(request)
        assert request.model is pair[0]
        loop.close()
    else:
        with pytest.raises((RuntimeError, IndexError, KeyboardInterrupt)):
            greedy(*pair, PROMPT, 14, 3, **more)
    assert pair[0].cache.length == len(PROMPT) - 1
    assert pair[1].cache.length <= len(PROMPT) - 1
    assert pair[1].cache.tokens == PROMPT[: pair[1].cache.length]


@pytest.mark.parametrize("side", ["target", "draft"])
def test_k6_a_cache_that_cannot_be_rolled_back_is_an_error(side):
    pair = (Stuck(), HashLM(rotate=4)) if side == "target" else (HashLM(), Stuck(rotate=4))
    with pytest.raises(ValueError, match=rf"{side}: truncate\(\d+\) left \d+ positions"):
        greedy(*pair, PROMPT, 14, 3)


def test_k6_truncate_outside_the_cache_raises():
    for model in (HashLM(), TableLM.random(3, 0), NGramLM(2, 3).fit([0, 1, 2])):
        cache = model.new_cache()
        model.forward([1, 2], cache)
        for bad in (-1, 3):
            with pytest.raises(ValueError, match=f"length={bad}"):
                cache.truncate(bad)
            assert cache.length == 2
        cache.truncate(2)
        cache.truncate(0)
        assert cache.length == 0


def test_w1_vocabularies_that_differ_are_seen_before_any_forward():
    target, draft = Recorder(HashLM(64)), Recorder(HashLM(65))
    with pytest.raises(ValueError, match=r"65.*64|64.*65"):
        greedy(target, draft, PROMPT, 5, 3)
    assert target.fed == target.prefilled == draft.fed == draft.prefilled == []
    with pytest.raises(ValueError, match=r"65.*64|64.*65"):
        greedy(target, FunctionDrafter(65, fixed_drafts([0])), PROMPT, 5, 3)


def test_n10_bad_logits_name_themselves_and_restore_the_caches():
    good = Recorder(HashLM())
    bad = Altered(good, lambda logits: np.where(logits == logits.max(), np.nan, logits))
    with pytest.raises(ValueError, match=r"logits.*nan"):
        greedy(bad, HashLM(), PROMPT, 5, 2)
    assert good.cache.length == len(PROMPT) - 1


def test_r1_at_temperature_0_every_coin_is_certain():
    class Noting(RandomDice):
        coins = ()

        def accept(self, probability):
            self.coins += (float(probability),)
            return super().accept(probability)

    dice = Noting(no_rng())
    assert greedy(*hash_pair(), PROMPT, 14, 3, rng=dice).tokens.tolist() == FIX_C
    assert set(dice.coins) == {0.0, 1.0}


def test_r3_no_generator_is_made_without_a_seed():
    """Nor is NumPy's global state asked, in the lab or in its scripts."""
    root, made = Path(__file__).parent.parent, 0
    for path in sorted([*root.glob("lab/*.py"), *root.glob("scripts/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng"):
                made += 1
                assert node.args, f"{path.name}:{node.lineno} makes a generator without a seed"
                assert ast.unparse(node.args[0]) != "None", f"{path.name}:{node.lineno}"
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "np.random":
                assert node.attr in ("default_rng", "Generator"), f"{path.name}:{node.lineno}"
    assert made > 0
