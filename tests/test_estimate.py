"""Estimators against hand counts, exact laws and trials; the reports of section 5."""

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.console import Report
from lab.decode import autoregressive_generate, speculative_generate
from lab.equation1 import eq1_gap
from lab.estimate import (
    accepted_per_drafted,
    alpha_from_betas,
    alpha_from_probs,
    alpha_from_rounds,
    drafted_per_round,
    replay,
    tokens_per_call,
)
from lab.exact import HashLM, TableLM, branches
from lab.sampling import Sampling
from lab.stats import t_quantile
from lab.text import Generation, Round
from lab.theory import acceptance, accepted_law, expected_tokens
from lab.verify import RULES, Proposal

INF = math.inf
GREEDY = Sampling(temperature=0)
GAMMAS = (1, 2, 4, 8)


def a_round(accepted, drafted, allowed=None, tested=None):
    end = "full" if accepted == drafted else "reject"
    tested = min(accepted + 1, drafted) if tested is None else tested
    return Round(
        drafted if allowed is None else allowed, drafted, tested, accepted, accepted + 1, end
    )


def a_run(rounds):
    return Generation(np.zeros(0, np.int64), "length", tuple(rounds), (), len(rounds), 0)


def fresh_rng():
    return np.random.default_rng([5, 0])


def walk(flags, gamma):
    """Runs whose token t would be accepted where flags[run, t]; the rounds allowed gamma drafts."""
    n_runs, n = flags.shape
    streak = np.zeros((n_runs, n + 1), np.int64)  # acceptances in a row from each position on
    for t in reversed(range(n)):
        streak[:, t] = np.where(flags[:, t], streak[:, t + 1] + 1, 0)
    made = [a_round(accepted, gamma) for accepted in range(gamma + 1)]
    at, steps = np.zeros(n_runs, np.int64), []
    while (at + gamma < n).any():
        whole = at + gamma < n
        accepted = np.minimum(streak[np.arange(n_runs), np.minimum(at, n)], gamma)
        steps.append(np.where(whole, accepted, -1))
        at += np.where(whole, accepted + 1, 0)
    return [a_run([made[a] for a in run if a >= 0]) for run in np.array(steps).T.tolist()]


# ---- alpha -----------------------------------------------------------------------------------


def test_m17_alpha_is_mean_sum_min_with_its_contexts_counted_and_its_error():
    rng = np.random.default_rng([17, 1])
    target, draft = rng.dirichlet(np.ones(5), (2, 8, 16))  # 8 prompts of 16 contexts
    clusters = np.repeat(np.arange(8), 16).reshape(8, 16)
    alpha = alpha_from_probs(target, draft, clusters)
    total_variation = np.abs(target - draft).sum(-1) / 2
    assert alpha.value == pytest.approx(1 - total_variation.mean(), abs=1e-14)
    assert alpha.n == 128
    means = acceptance(target, draft).mean(-1)  # prompts of one size: the error of their means
    assert alpha.stderr == pytest.approx(means.std(ddof=1) / math.sqrt(8))
    reach = t_quantile(0.975, 7) * alpha.stderr
    assert (alpha.low, alpha.high) == pytest.approx((alpha.value - reach, alpha.value + reach))
    assert alpha == alpha_from_betas(list(acceptance(target, draft)))


def test_alpha_from_probs_of_independent_rows_and_in_slices(monkeypatch):
    rng = np.random.default_rng([17, 2])
    target, draft = rng.dirichlet(np.ones(7), (2, 100))
    beta = acceptance(target, draft)
    alpha = alpha_from_probs(target, draft)
    assert alpha.stderr == pytest.approx(beta.std(ddof=1) / 10)
    monkeypatch.setattr("lab.estimate.CHUNK", 20)  # two rows at a time
    assert alpha_from_probs(target, draft) == alpha
    as_float32 = alpha_from_probs(target.astype(np.float32), draft.astype(np.float32))
    assert as_float32.value == pytest.approx(alpha.value, abs=1e-7)


def test_alpha_of_a_model_with_itself_is_one():
    law = np.random.default_rng([17, 3]).dirichlet(np.ones(50), 20)
    alpha = alpha_from_probs(law, law)
    assert alpha.value == alpha.high == 1
    assert alpha.low > 1 - 1e-12


def test_one_cluster_gives_the_whole_range():
    alpha = alpha_from_betas([0.4, 0.6], clusters=[1, 1])
    assert (alpha.value, alpha.stderr, alpha.low, alpha.high) == (0.5, INF, 0, 1)
    tokens = tokens_per_call([a_run([a_round(1, 3), a_round(3, 3)])], 3)
    assert (tokens.value, tokens.stderr, tokens.low, tokens.high) == (3, INF, 1, 4)


def test_alpha_from_betas_covers_the_truth_at_95_percent():
    """1,000 trials of 20 prompts that differ; standard error .7 %: 93-97 %, missed by chance about
    once in 200."""
    rng = np.random.default_rng([17, 4])
    covered = 0
    for level in rng.uniform(0.5, 0.9, (1000, 20)):  # each prompt's own alpha, .7 on average
        betas = rng.beta(8 * level[:, None], 8 * (1 - level[:, None]), (20, 32))
        alpha = alpha_from_betas(betas)
        covered += alpha.low <= 0.7 <= alpha.high
    assert 930 <= covered <= 970


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), min_size=1, max_size=5))
def test_intervals_stay_in_range_and_are_never_nan(rows):
    alpha = alpha_from_betas([np.array(row) for row in rows])
    assert 0 <= alpha.low <= alpha.value <= alpha.high <= 1
    assert alpha.stderr >= 0


# ---- From rounds -----------------------------------------------------------------------------


def test_alpha_from_rounds_is_accepted_over_tested_with_an_exact_interval():
    rounds = [a_round(k, 5) for k in (5, 2, 0, 5, 1)]
    alpha = alpha_from_rounds(rounds)
    assert (alpha.value, alpha.n) == (13 / 16, 16)  # tested 5 + 3 + 1 + 5 + 2
    # Clopper-Pearson for 13 of 16, as printed in tables
    assert (alpha.low, alpha.high) == pytest.approx((0.5435, 0.9595), abs=5e-5)
    assert alpha.stderr == pytest.approx(math.sqrt(13 / 16 * 3 / 16 / 16))


def test_m3_a_rate_is_accepted_over_drafted_without_the_bonus():
    shares = [accepted_per_drafted([a_round(k, 4)]).value for k in range(5)]
    assert shares == [0, 0.25, 0.5, 0.75, 1]


def test_m4_accepted_drafts_and_tokens_per_call_differ_by_one_and_say_which():
    run = a_run([a_round(k, 5) for k in (5, 2, 0, 5, 1)])
    tokens = tokens_per_call([run], 5)
    assert (tokens.value, tokens.n, tokens.name) == (3.6, 5, "tokens per call, γ = 5")
    share = accepted_per_drafted(run.rounds)
    assert share.value * 5 == pytest.approx(2.6)
    assert (share.name, share.n) == ("accepted / drafted", 25)


def test_m5_what_follows_a_rejection_is_never_accepted():
    class Answers:
        """A dice that accepts as a mask says."""

        def __init__(self, mask):
            self.mask = iter(mask)

        def accept(self, probability):
            return bool(next(self.mask))

        def choose(self, probs):
            return 0

    proposal = Proposal(np.zeros(3, np.int64), np.full((3, 2), 0.5))
    rounds = []
    for mask in ([1, 0, 1], [1, 1, 1]):
        verdict = RULES["token"](np.full((4, 2), 0.5), proposal, Answers(mask))
        rounds.append(a_round(len(verdict.path), 3, tested=verdict.tested))
    assert [r.accepted for r in rounds] == [1, 3]
    assert tokens_per_call([a_run(rounds)], 3).value == (2 + 4) / 2
    assert alpha_from_rounds(rounds).value == 4 / 5  # 2 + 3 were tested


@pytest.mark.parametrize("estimate", [alpha_from_rounds, accepted_per_drafted])
def test_m6_nothing_drafted_is_not_a_rate_of_zero(estimate):
    with pytest.raises(ValueError, match="rounds must hold at least one"):
        estimate([a_round(0, 0, allowed=4)])
    with pytest.raises(ValueError, match="rounds must hold at least one"):
        estimate([])


def test_m7_drafted_is_what_was_drafted_not_gamma_times_rounds():
    rounds = [a_round(3, 4), a_round(4, 4), a_round(1, 2, allowed=4)]
    assert accepted_per_drafted(rounds).value == pytest.approx(0.8)  # WRONG 8/12


def test_m8_rounds_that_skipped_their_drafts_do_not_count():
    rounds = [a_round(0, 0, allowed=5), a_round(4, 5), a_round(5, 5)]
    assert accepted_per_drafted(rounds).value == pytest.approx(0.9)  # WRONG 9/12
    assert drafted_per_round(rounds) == pytest.approx(10 / 3)


def test_m10_all_accepted_is_one_though_drafts_are_few():
    alpha = alpha_from_rounds([a_round(4, 4)] * 5)
    assert (alpha.value, alpha.high) == (1, 1)  # WRONG 1 - 1/(1 + 4) = .8
    assert alpha.low == pytest.approx(0.025 ** (1 / 20))  # 20 tested: not a point
    assert alpha_from_rounds([a_round(k, 5) for k in (5, 2, 0, 5, 1)]).value != pytest.approx(
        0.7222, abs=1e-3
    )


@pytest.mark.parametrize(
    "impossible",
    [Round(4, 4, 4, 5, 6, "full"), Round(4, 4, 5, 4, 5, "full"), Round(4, 4, 1, 2, 3, "reject"),
     Round(2, 4, 4, 4, 5, "full"), Round(4, 4, 4, -1, 0, "reject")],
)  # fmt: skip
@pytest.mark.parametrize(
    "estimate",
    [alpha_from_rounds, accepted_per_drafted, drafted_per_round,
     lambda rounds: tokens_per_call([a_run(rounds)], 4)],
)  # fmt: skip
def test_m12_a_rate_above_one_raises_and_is_not_clamped(impossible, estimate):
    with pytest.raises(ValueError, match=r"rounds must have accepted <= tested <= drafted <= all"):
        estimate([a_round(4, 4), impossible])


def test_t9_the_share_accepted_stands_beside_how_much_was_drafted():
    rounds = [a_round(1, 1, allowed=5)] * 7 + [a_round(0, 0, allowed=5)] * 93
    assert accepted_per_drafted(rounds).value == 1
    assert drafted_per_round(rounds) == 0.07
    assert tokens_per_call([a_run(rounds)], 5).value == 1.07


def test_w7_full_acceptance_is_censored():
    """20,000 rounds of γ = 2 at α = .8: five standard errors, missed once in two million."""
    counts = np.random.default_rng([7, 0]).multinomial(20_000, accepted_law(0.8, 2))
    rounds = [a_round(k, 2) for k, count in enumerate(counts) for _ in range(count)]
    alpha = alpha_from_rounds(rounds)
    assert abs(alpha.value - 0.8) < 5 * alpha.stderr
    share = accepted_per_drafted(rounds)
    assert abs(share.value - (expected_tokens(0.8, 2) - 1) / 2) < 5 * share.stderr  # .72
    # the maximum of the likelihood, found by trying: full rounds have no factor 1 - alpha
    grid = np.linspace(0.001, 0.999, 999)
    likelihood = sum(
        r.accepted * np.log(grid) + (r.end == "reject") * np.log(1 - grid) for r in rounds[::50]
    )
    assert alpha_from_rounds(rounds[::50]).value == pytest.approx(
        grid[likelihood.argmax()], abs=1e-3
    )


def test_s6_past_the_draft_context_there_is_no_rate():
    target, draft = HashLM(max_len=64), HashLM(rotate=4, max_len=12)
    prompt = [4, 1, 5]
    run = speculative_generate(target, draft, prompt, 20, 3, sampling=GREEDY, rng=fresh_rng())
    plain = autoregressive_generate(target, prompt, 20, sampling=GREEDY, rng=fresh_rng())
    assert run.tokens.tolist() == plain.tokens.tolist()
    lengths = len(prompt) + np.cumsum([0, *(r.emitted for r in run.rounds)])[:-1]
    past = [r for r, n in zip(run.rounds, lengths, strict=True) if n >= 12]
    assert past
    assert drafted_per_round(past) == 0
    with pytest.raises(ValueError, match="rounds must hold at least one tested draft"):
        alpha_from_rounds(past)
    before = [r for r, n in zip(run.rounds, lengths, strict=True) if n < 12]
    assert alpha_from_rounds(run.rounds) == alpha_from_rounds(before)  # undrafted rounds: no zeros


def test_s7_a_stop_cuts_what_was_emitted_not_what_the_rule_accepted():
    model = HashLM()  # its own draft: all five accepted, the third of them a stop token
    run = speculative_generate(
        model, model, [4, 1, 5], 14, 5, sampling=GREEDY, rng=fresh_rng(), stop=[6]
    )
    assert run.tokens.tolist() == [7, 8, 6]
    assert sum(r.emitted for r in run.rounds) == len(run.tokens) == 3
    assert [(r.drafted, r.accepted, r.end) for r in run.rounds] == [(5, 5, "stop")]
    assert tokens_per_call([run], 5).value == 6  # what the round was worth


# ---- Tokens per call -------------------------------------------------------------------------


def test_tokens_per_call_pools_rounds_of_full_length_only():
    runs = [
        a_run([a_round(4, 4), a_round(0, 4), a_round(1, 2)]),  # the last one was cut short
        a_run([a_round(2, 4), a_round(1, 1, allowed=4)]),  # a drafter that stopped early counts
        a_run([a_round(1, 2)]),  # not allowed four: no cluster
    ]
    tokens = tokens_per_call(runs, 4)
    assert (tokens.value, tokens.n) == ((5 + 1 + 3 + 2) / 4, 4)
    assert tokens.stderr == pytest.approx(math.sqrt(2 * 2 * ((6 - 5.5) / 4) ** 2))
    assert (tokens.low, tokens.high) == (1, 5)  # t with one degree of freedom, cut to the range
    with pytest.raises(ValueError, match=r"gamma=3: no round"):
        tokens_per_call(runs, 3)
    with pytest.raises(ValueError, match=r"gamma=.* must be a whole number >= 0"):
        tokens_per_call(runs, -1)


def test_plain_decoding_has_one_token_per_call():
    runs = [
        autoregressive_generate(HashLM(), [prompt], 5, rng=np.random.default_rng([5, prompt]))
        for prompt in range(3)
    ]
    tokens = tokens_per_call(runs, 0)
    assert (tokens.value, tokens.stderr, tokens.low, tokens.high, tokens.n) == (1, 0, 1, 1, 15)


def test_tokens_per_call_covers_equation_1_at_95_percent():
    """1,000 trials of 20 runs, 60 tokens, α = .8, γ = 4; standard error .7 %: 93-97 %, missed by
    chance about once in 200. The mean of per-run ratios is off by more than its error."""
    flags = np.random.default_rng([5, 1]).random((20_000, 60)) < 0.8
    runs, truth = walk(flags, 4), expected_tokens(0.8, 4)
    estimates = [tokens_per_call(runs[i : i + 20], 4) for i in range(0, 20_000, 20)]
    assert 930 <= sum(e.low <= truth <= e.high for e in estimates) <= 970
    pooled = tokens_per_call(runs, 4)
    assert abs(pooled.value - truth) < 4 * pooled.stderr
    ratios = np.array([np.mean([r.accepted + 1 for r in run.rounds]) for run in runs])
    assert (ratios.mean() - truth) / (ratios.std() / math.sqrt(len(ratios))) > 10


# ---- Replay ----------------------------------------------------------------------------------


def test_replay_of_three_tokens_by_hand():
    # γ = 1: rounds start at token 0, and at token 1 if the first draft fell (a = .5)
    half, quarter = 0.5, 0.25
    tokens = replay([0.8, 0.8, 0.8], [0.4, 0.2, 0.1], [1])[1]
    calls = 1 + (1 - half)
    assert tokens.value == pytest.approx(((1 + half) + (1 - half) * (1 + quarter)) / calls)
    assert (tokens.n, tokens.stderr, tokens.low, tokens.high) == (2, INF, 1, 2)
    # γ = 2: the one whole round is that of token 0, and the last token is never tested
    assert replay([0.8, 0.8, 0.8], [0.4, 0.2, 0.1], [2])[2].value == 1 + half + half * quarter
    # q above p is always accepted
    assert replay([0.3] * 3, [0.4, 0.3, 1.0], [2])[2].value == 3


def test_replay_at_gamma_zero_is_plain_decoding():
    tokens = replay([[0.1, 0.2], [0.3]], [[0.0, 0.2], [0.3]], [0])[0]
    assert (tokens.value, tokens.stderr, tokens.low, tokens.high, tokens.n) == (1, 0, 1, 1, 3)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
def test_replay_of_a_constant_ratio_is_equation_1(alpha):
    texts = [np.full(n, 0.5) for n in (9, 30, 200)]
    estimates = replay(texts, [alpha * p for p in texts], range(9))
    for gamma, tokens in estimates.items():
        assert tokens.value == pytest.approx(expected_tokens(alpha, gamma), rel=1e-13)
        assert tokens.stderr == pytest.approx(0, abs=1e-13)


def token_probs(model, prompt, tokens, sampling=Sampling()):
    """The probability of each token of a continuation."""
    laws = sampling.probs(model.forward([*prompt, *tokens[:-1]], model.new_cache()))
    return laws[np.arange(len(prompt) - 1, len(laws)), tokens]


@pytest.mark.parametrize(("vocab", "n_new", "gamma"), [(2, 5, 2), (2, 5, 1), (3, 4, 1)])
def test_replay_is_the_exact_expectation_of_the_loop_given_its_text(vocab, n_new, gamma):
    target, draft = TableLM.random(vocab, 1), TableLM.random(vocab, 2)
    prompt = [1, 0]
    sums = defaultdict(lambda: np.zeros(2))  # text -> expected tokens, expected rounds

    def run(dice):
        return speculative_generate(target, draft, prompt, n_new, gamma, rng=dice)

    for leaf in branches(run):
        whole = [r for r in leaf.result.rounds if r.allowed == gamma]
        tokens = sum(r.accepted + 1 for r in whole)
        sums[tuple(leaf.result.tokens)] += leaf.probability * np.array([tokens, len(whole)])
    assert len(sums) == vocab**n_new
    for text, (tokens, calls) in sums.items():
        p, q = (token_probs(model, prompt, text) for model in (target, draft))
        assert replay(p, q, [gamma])[gamma].value == pytest.approx(tokens / calls, rel=1e-12)


def test_replay_agrees_with_speculation_on_long_texts_and_is_less_noisy():
    """30 prompts × 60 tokens, replayed on the very texts that speculation wrote: four standard
    errors of the coins alone (below the printed ones), missed by chance once in 10,000."""
    target, draft = (TableLM.random(6, seed, context=2, scale=0.7) for seed in (3, 4))
    prompts = [[i % 6, i // 6] for i in range(30)]
    runs = [
        speculative_generate(target, draft, prompt, 60, 3, rng=np.random.default_rng([5, 2, i]))
        for i, prompt in enumerate(prompts)
    ]
    measured = tokens_per_call(runs, 3)
    probs = [
        [token_probs(model, prompt, run.tokens) for prompt, run in zip(prompts, runs, strict=True)]
        for model in (target, draft)
    ]
    replayed = replay(*probs, [3])[3]
    assert abs(replayed.value - measured.value) < 4 * measured.stderr
    assert replayed.stderr < measured.stderr
    assert replayed.n == 30 * 57


def test_replay_of_one_text_covers_equation_1_at_95_percent():
    """400 texts of 600 tokens, a = 1 or .2 at random, 20 or 15 blocks; standard error 1.1 %:
    91-98.5 %, missed by chance about once in 500."""
    rng = np.random.default_rng([5, 3])
    covered = {2: 0, 4: 0}
    for text in rng.choice([0.2, 1.0], (400, 600)):
        for gamma, tokens in replay(np.full(600, 0.9), 0.9 * text, covered).items():
            covered[gamma] += tokens.low <= expected_tokens(0.6, gamma) <= tokens.high
    assert all(364 <= count <= 394 for count in covered.values()), covered


def test_replay_of_correlated_acceptance_is_below_equation_1():
    """Good and bad stretches of 40 tokens: the truth is the pooled calls of both."""
    a = np.tile(np.repeat([0.9, 0.3], 40), 50)
    replayed = replay(np.full(4000, 0.5), 0.5 * a, [4])[4]
    good, bad = expected_tokens(0.9, 4), expected_tokens(0.3, 4)
    long_stretches = 2 / (1 / good + 1 / bad)  # as many tokens of each
    assert replayed.value == pytest.approx(long_stretches, rel=0.02)
    assert replayed.high < expected_tokens(0.6, 4)


# ---- Beside equation (1) ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "tokens"), [(0.797781, 3.6702), (0.932451, 5.0735), (0.980200, 5.7107)]
)
def test_m15_the_expectation_beside_a_measurement_is_that_of_its_own_alpha(alpha, tokens):
    runs = [a_run([a_round(5, 5)]), a_run([a_round(3, 5)])]
    gap = eq1_gap(runs, [np.full(6, alpha), np.full(4, alpha)], 5)
    assert gap.alpha == pytest.approx(alpha)
    assert gap.expected == pytest.approx(tokens, abs=5e-5)  # WRONG 5.298 for every draft
    assert (gap.measured, gap.difference) == (5, pytest.approx(5 - tokens, abs=5e-5))


def test_the_gap_by_hand():
    # γ = 1: E = 1 + α, slope 1. Tokens 17 in 10 calls, β 0.8 + .6·2 in 3: α = 2/3
    runs = [a_run([a_round(1, 1)] * 24 + [a_round(0, 1)] * 16), a_run([a_round(1, 1)] * 46)]
    runs[1] = a_run([a_round(1, 1)] * 46 + [a_round(0, 1)] * 14)
    gap = eq1_gap(runs, [[0.8], [0.6, 0.6]], 1, comparisons=4, level=0.05)
    assert (gap.measured, gap.alpha) == (pytest.approx(1.7), pytest.approx(2 / 3))
    assert gap.difference == pytest.approx(1.7 - 5 / 3)
    tokens, beta = (64 - 1.7 * 40) / 100, (0.8 - 2 / 3) / 3  # influences of the first run
    assert gap.stderr == pytest.approx(2 * abs(tokens - beta))
    assert gap.t == pytest.approx(gap.difference / gap.stderr)
    assert (gap.degrees, gap.critical) == (1, t_quantile(1 - 0.05 / 4 / 2, 1))
    assert gap.smallest_detectable == gap.critical * gap.stderr
    assert gap.agrees


def test_a_perfect_draft_agrees_exactly():
    gap = eq1_gap([a_run([a_round(4, 4)] * 3)] * 2, [np.ones(15), np.ones(15)], 4)
    assert (gap.measured, gap.expected, gap.t, gap.agrees) == (5, 5, 0, True)


def families(rng, n_families, n_prompts, alphas, spread, n_new=96):
    """Gaps of a row-B6 table: three drafts × four gammas; β ~ beta with mean α, independent."""
    for alpha in alphas:
        for gamma in GAMMAS:
            shape = (n_families * n_prompts, n_new)
            betas = rng.beta(spread * alpha, spread * (1 - alpha), shape)
            runs = walk(rng.random(shape) < betas, gamma)
            yield [
                eq1_gap(runs[i : i + n_prompts], betas[i : i + n_prompts], gamma, comparisons=12)
                for i in range(0, len(runs), n_prompts)
            ]


def test_false_alarms_of_the_gap_are_nominal():
    """400 families of 12 cells, 8 prompts × 96 tokens. Family-wise at 1 %: 4 expected, more than
    12 by chance once in 3,000. Cell by cell at 5 %: standard error .3 %, so 4-6 % is missed once
    in 700."""
    rng = np.random.default_rng([5, 4])
    cells = list(families(rng, 400, 8, (0.87, 0.84, 0.73), spread=4))
    alarms = sum(not all(gap.agrees for gap in family) for family in zip(*cells, strict=True))
    assert alarms <= 12
    at_5_percent = t_quantile(0.975, 7)
    share = np.mean([abs(gap.t) > at_5_percent for cell in cells for gap in cell])
    assert 0.04 <= share <= 0.06


def test_a_nearly_perfect_draft_raises_no_alarm_for_want_of_rejections():
    """50 families where a rejection is rare; the spread of what was seen would call nearly every
    one of them a disagreement."""
    rng = np.random.default_rng([5, 5])
    cells = list(families(rng, 50, 8, (0.999, 0.995, 0.99), spread=1000))
    assert all(gap.agrees for cell in cells for gap in cell)


def test_a_planted_shortfall_is_seen_with_many_prompts_and_not_with_eight():
    """Stretches of good and bad β put tokens per call 5 % below equation (1), as true correlation
    does; nothing else is wrong."""
    rng = np.random.default_rng([5, 6])
    n_prompts, n_new, gamma = 400, 96, 4
    good = rng.random((n_prompts, n_new // 8)) < 0.5
    betas = np.repeat(np.where(good, 0.95, 0.65), 8, axis=1)  # in stretches of eight
    runs = walk(rng.random(betas.shape) < betas, gamma)
    gap = eq1_gap(runs, betas, gamma, comparisons=12)
    assert -0.07 < gap.difference / gap.expected < -0.03
    assert not gap.agrees
    few = eq1_gap(runs[:8], betas[:8], gamma, comparisons=12)
    assert few.agrees
    assert few.smallest_detectable > 0.05 * few.expected > gap.smallest_detectable


def test_the_gap_knows_that_both_sides_share_the_text():
    """At T = 0 β is 0 or 1 and the text decides all: errors added as if independent are too large,
    while those of the difference hold 95 % (400 trials, standard error 1.1 %: 91-98.5 %)."""
    rng = np.random.default_rng([5, 7])
    covered, ratios = 0, []
    for _ in range(400):
        betas = (rng.random((20, 96)) < 0.8).astype(float)
        runs = walk(betas == 1, 2)
        gap = eq1_gap(runs, betas, 2)
        covered += abs(gap.t) <= t_quantile(0.975, 19)
        slope = 1 + 2 * gap.alpha
        apart = math.hypot(tokens_per_call(runs, 2).stderr, slope * alpha_from_betas(betas).stderr)
        ratios.append(apart / gap.stderr)
    assert 364 <= covered <= 394
    assert np.mean(ratios) > 1.5


# ---- Wrong calls -----------------------------------------------------------------------------

RUNS = [a_run([a_round(1, 2)]), a_run([a_round(2, 2)])]
BETAS = [[0.5], [0.6]]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: alpha_from_probs([[1.0]], [[0.5, 0.5]]), r"one shape.*\(1, 1\) and \(1, 2\)"),
        (lambda: alpha_from_probs(np.zeros((0, 3)), np.zeros((0, 3))), r"at least one row"),
        (lambda: alpha_from_probs([[0.5, 0.6]], [[0.5, 0.5]]), r"target_probs must sum to 1"),
        (lambda: alpha_from_probs([[0.5, 0.5]], [[0.5, 0.5]], [1, 2]), r"clusters must be labels"),
        (lambda: alpha_from_betas([0.5, 1.2]), r"betas must be in \[0, 1\], got 1.2"),
        (lambda: alpha_from_betas([]), r"betas must be rows .* got shape \(0,\)"),
        (lambda: alpha_from_betas(0.5), r"betas must be"),
        (lambda: alpha_from_betas([0.5, 0.6], [1]), r"clusters must be labels \(2,\)"),
        (lambda: drafted_per_round([]), r"rounds must hold at least one round, got none"),
        (lambda: replay([0.0, 0.5], [0.1, 0.1], [1]), r"target_token_probs must be in \(0, 1\]"),
        (lambda: replay([0.1, 1.5], [0.1, 0.1], [1]), r"target_token_probs .* got 1.5"),
        (lambda: replay([0.1, 0.5], [0.1, -0.1], [1]), r"draft_token_probs .* got -0.1"),
        (lambda: replay([0.1, 0.5], [0.1, np.nan], [1]), r"draft_token_probs .* got nan"),
        (lambda: replay([0.1, 0.5], [0.1], [1]), r"draft_token_probs must have .*\[2\].*\[1\]"),
        (lambda: replay([0.1, 0.5], [0.1, 0.1], [2]), r"gamma=2 needs a text of more than 2"),
        (lambda: replay([0.1, 0.5], [0.1, 0.1], [1.5]), r"gammas=1.5 must be a whole number >= 0"),
        (lambda: eq1_gap(RUNS, BETAS, 0), r"gamma=0 must be a whole number >= 1"),
        (lambda: eq1_gap(RUNS, BETAS, 5), r"gamma=5: no round"),
        (lambda: eq1_gap(RUNS, BETAS[:1], 2), r"betas_per_prompt has 1 rows and .* has 2"),
        (lambda: eq1_gap(RUNS[:1], BETAS[:1], 2), r"at least two prompts"),
        (lambda: eq1_gap(RUNS, [[0.5], [1.5]], 2), r"betas_per_prompt must be in \[0, 1\]"),
        (lambda: eq1_gap(RUNS, BETAS, 2, comparisons=0), r"comparisons=0 must be"),
        (lambda: eq1_gap(RUNS, BETAS, 2, level=1.0), r"level=1.0 must be in \(0, 1\)"),
    ],
)
def test_bad_calls_name_argument_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_m6_a_table_shows_what_is_unknown_as_such(capsys):
    for as_json, shown in ((False, "n/a"), (True, "null")):
        report = Report("Rates", as_json)
        report.table("accepted / drafted", ("draft", "rate"), [["idle", None], ["poor", 0.0]])
        report.close()
        out = capsys.readouterr().out
        assert out.count(shown) == 1
        assert "nan" not in out
