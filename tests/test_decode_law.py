"""The joint law of what the loop emits, by enumeration of every branch: it is the target's.

A test of the first token alone is blind to half the known faults, so the laws here are of
gamma + 2 tokens, on models whose laws depend on the context.
"""

import numpy as np
import pytest
from models import CHAIN_P, CHAIN_Q, GREEDY, FunctionDrafter, P, Q, context_free

from lab.decode import autoregressive_generate, speculative_generate
from lab.exact import (
    EXACT,
    HashLM,
    TableLM,
    audit,
    audit_loop,
    output_law,
    plain_law,
    total_variation,
)
from lab.ngram import TokenCache
from lab.sampling import Sampling, residual
from lab.theory import acceptance
from lab.verify import Proposal, chain_rule

PLAIN = Sampling()


def table_pair(vocab, max_len=None, draft_max_len=None):
    """Laws that depend on the last two tokens; the draft's on one."""
    return (
        TableLM.random(vocab, 1, context=2, max_len=max_len),
        TableLM.random(vocab, 2, context=1, max_len=draft_max_len),
    )


def hash_models(vocab, max_len=None, draft_max_len=None):
    """Laws that depend on the whole text, and often agree."""
    return (
        HashLM(vocab, scale=0.15, max_len=max_len),
        HashLM(vocab, rotate=2, scale=0.15, max_len=draft_max_len),
    )


PAIRS = {"table": table_pair, "hash": hash_models}


def assert_exact(found):
    assert found.total_variation <= EXACT
    assert found.first_difference is None


def first_tokens(law, vocab):
    return [sum(p for z, p in law.items() if z[0] == token) for token in range(vocab)]


# ---- The fixtures, through the loop ------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0, 1, 2])
def test_d1_fix_a_first_token(gamma):
    law = output_law(
        lambda dice: speculative_generate(
            context_free(P), context_free(Q), [0], gamma + 1, gamma, rng=dice
        )
    )
    np.testing.assert_allclose(first_tokens(law, 4), P, rtol=1e-12)


def test_d6_the_reported_alpha_is_sum_min():
    """accepted / tested of FIX-A is .65; .27 is the rate of another algorithm."""
    found = audit_loop(context_free(P), context_free(Q), [0], 3, 2)
    assert found.expected["accepted"] / found.expected["tested"] == pytest.approx(0.65, rel=1e-12)


@pytest.mark.parametrize("gamma", [0, 1, 2, 3])
def test_d13_fix_b_joint_law_of_three_tokens(gamma):
    target, draft = TableLM.of_probs(CHAIN_P), TableLM.of_probs(CHAIN_Q)
    law = output_law(lambda dice: speculative_generate(target, draft, [0], 3, gamma, rng=dice))
    stated = [0.343, 0.147, 0.042, 0.168, 0.042, 0.018, 0.048, 0.192]
    np.testing.assert_allclose([law[z] for z in np.ndindex(2, 2, 2)], stated, rtol=1e-12)


# ---- gamma + 2 tokens on models whose laws depend on the context -------------------------------


SIZES = [(0, 3), (1, 3), (2, 3), (3, 2)]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("gamma", "vocab"), SIZES)
def test_d14_joint_law(gamma, vocab, pair):
    found = audit_loop(*PAIRS[pair](vocab), [1, 1], gamma + 2, gamma)
    assert_exact(found)
    assert found.expected["emitted"] == pytest.approx(gamma + 2, rel=1e-12)
    if gamma:  # policy 3: rejections, acceptances, and more than one round
        assert 0 < found.expected["accepted"] < found.expected["tested"]
        assert found.expected["target_calls"] > 1
    assert found.expected["draft_calls"] == found.expected["drafted"]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    ("gamma", "vocab", "stop"),
    [(1, 3, 0), (1, 3, 1), (1, 3, 2), (2, 3, 0), (2, 3, 1), (2, 3, 2), (3, 2, 0), (3, 2, 1)],
)
def test_s2_joint_law_with_a_stop_token(gamma, vocab, stop, pair):
    found = audit_loop(*PAIRS[pair](vocab), [0, 1], gamma + 2, gamma, stop=[stop])
    assert_exact(found)
    assert found.expected["emitted"] < gamma + 2


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("n_new", [0, 1, 2, 3])
def test_s3_joint_law_where_the_limit_cuts_a_block(n_new, pair):
    for gamma, vocab in ((2, 3), (3, 2), (9, 2)):
        found = audit_loop(*PAIRS[pair](vocab), [1], n_new, gamma)
        assert_exact(found)
        assert found.expected.get("emitted", 0) == pytest.approx(n_new, rel=1e-12)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("max_len", [2, 3, 4, 5])
def test_s5_joint_law_where_the_targets_context_ends(max_len, pair):
    found = audit_loop(*PAIRS[pair](2, max_len), [0, 1], 9, 3)
    assert_exact(found)
    assert found.expected["emitted"] == pytest.approx(max_len - 2, rel=1e-12)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("max_len", [1, 2, 3, 4, 5])
def test_s6_joint_law_where_the_drafts_context_ends(max_len, pair):
    found = audit_loop(*PAIRS[pair](2, None, max_len), [0, 1], 4, 3)
    assert_exact(found)
    assert (found.expected["drafted"] == 0) == (max_len <= 2)


FILTERS = {
    "T .7": Sampling(0.7),
    "top_k": Sampling(0.7, top_k=2),
    "top_p": Sampling(0.7, top_p=0.8),
    "min_p": Sampling(0.7, min_p=0.3),
    "penalty": Sampling(0.7, repetition_penalty=1.4),
    "all": Sampling(0.7, top_k=3, top_p=0.95, min_p=0.05, repetition_penalty=0.8),
    "T 0": GREEDY,
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", FILTERS)
def test_c1_joint_law_with_every_setting(name, pair):
    assert_exact(audit_loop(*PAIRS[pair](3), [0, 1, 1], 4, 2, sampling=FILTERS[name]))


@pytest.mark.parametrize("own", [PLAIN, Sampling(1.5, top_k=2), Sampling(repetition_penalty=2)])
@pytest.mark.parametrize("name", ["top_k", "top_p", "penalty", "T 0"])
def test_c4_the_drafts_settings_are_free(name, own):
    """Also where the draft excludes tokens that the target would say, and the other way round."""
    for gamma, vocab in ((1, 3), (3, 2)):
        found = audit_loop(
            *table_pair(vocab), [0, 1], gamma + 2, gamma, sampling=FILTERS[name], draft_sampling=own
        )
        assert_exact(found)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("schedule", [[2, 0, 1], [0, 2], [3, 0, 3, 0, 0], [1, 2]])
def test_k12_joint_law_with_a_gamma_schedule(schedule, pair):
    def gamma(view):
        return schedule[len(view.rounds) % len(schedule)]

    assert_exact(audit_loop(*PAIRS[pair](2), [0], 5, gamma))


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_k12_joint_law_with_the_schedule_of_the_report(pair):
    schedule = [4, 0, 4, 0, 0]
    assert_exact(audit_loop(*PAIRS[pair](2), [0], 6, lambda v: schedule[len(v.rounds) % 5]))


def test_a_gamma_that_depends_on_the_text():
    found = audit_loop(*table_pair(3), [0, 2], 4, lambda view: int(view.tokens[-1]))
    assert_exact(found)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_joint_law_with_three_drafts_of_three_tokens(pair):
    found = audit_loop(*PAIRS[pair](3), [0, 1], 5, 3)
    assert_exact(found)


def test_plain_decodings_law_is_the_oracles():
    target = table_pair(3)[0]
    found = audit(
        lambda dice: autoregressive_generate(target, [0, 1], 4, rng=dice, sampling=Sampling(0.6)),
        plain_law(target, [0, 1], 4, Sampling(0.6)),
    )
    assert_exact(found)
    assert found.leaves == 81


# ---- The reports' numbers on settings ----------------------------------------------------------


def test_c1_the_targets_temperature_is_the_one_that_counts():
    target, draft = context_free([0.3, 0.5, 0.2]), context_free([0.6, 0.2, 0.2])
    for own in (None, PLAIN):
        law = output_law(
            lambda dice, own=own: speculative_generate(
                target, draft, [0], 3, 2, sampling=Sampling(0.5), draft_sampling=own, rng=dice
            )
        )
        np.testing.assert_allclose(first_tokens(law, 3), [0.2368, 0.6579, 0.1053], atol=5e-5)
        assert abs(first_tokens(law, 3)[1] - 0.5) > 0.1, "the fault: the law at T = 1"


def test_c2_at_temperature_0_both_laws_are_one_hot():
    target, draft = context_free([0.3, 0.5, 0.2]), context_free([0.2, 0.1, 0.7])
    found = audit_loop(target, draft, [0], 3, 2, sampling=GREEDY)
    assert_exact(found)
    law = output_law(
        lambda dice: speculative_generate(target, draft, [0], 3, 2, sampling=GREEDY, rng=dice)
    )
    assert law == {(1, 1, 1): 1}
    honest = audit_loop(target, draft, [0], 3, 2, sampling=GREEDY, draft_sampling=PLAIN)
    assert_exact(honest)
    assert honest.expected["accepted"] > 0, "a draft that samples is at times right"


def test_c4_a_truthful_unfiltered_draft_of_a_filtered_target():
    p, q = np.array([0.25, 0.35, 0.25, 0.15]), np.array([0.4, 0.3, 0.2, 0.1])
    target, draft = context_free(p), context_free(q)
    filtered = Sampling(top_k=2)
    for own, alpha in ((PLAIN, 0.70), (None, 0.845)):
        run = {"sampling": filtered, "draft_sampling": own}
        found = audit_loop(target, draft, [0], 3, 2, **run)
        assert_exact(found)
        rate = found.expected["accepted"] / found.expected["tested"]
        assert rate == pytest.approx(alpha, abs=5e-4)
        law = output_law(
            lambda dice, run=run: speculative_generate(target, draft, [0], 3, 2, rng=dice, **run)
        )
        np.testing.assert_allclose(first_tokens(law, 4), [5 / 12, 7 / 12, 0, 0], rtol=1e-12)
    drawn_unfiltered = chain_rule(  # the fault: q is reported filtered, but was not drawn so
        lambda tp, dp, drafts, dice: lying_rule(tp, [[4 / 7, 3 / 7, 0, 0]], drafts, dice)
    )
    law = output_law(
        lambda dice: speculative_generate(
            target, draft, [0], 2, 1, sampling=filtered, draft_sampling=PLAIN,
            rule=drawn_unfiltered, rng=dice,
        )
    )  # fmt: skip
    assert np.abs(np.array(first_tokens(law, 4)) - [5 / 12, 7 / 12, 0, 0]).sum() > 0.01


def lying_rule(target_probs, draft_probs, drafts, dice):
    """The token rule with another law of the draft than it was drawn from."""
    p, q, x = target_probs[0], np.array(draft_probs[0]), drafts[0]
    if dice.accept(min(1, p[x] / q[x]) if q[x] else 0):
        return 1, dice.choose(target_probs[1])
    return 0, dice.choose(residual(p, q))


def test_c8_each_row_has_its_own_history():
    target, draft = table_pair(3)
    penalty = Sampling(repetition_penalty=3)
    assert_exact(audit_loop(target, draft, [0], 4, 2, sampling=penalty))

    class Frozen:
        """The fault: every row is penalised for the prompt alone."""

        def probs(self, logits, history):
            return penalty.probs(logits, [0])

    right, wrong = plain_law(target, [0], 4, penalty), plain_law(target, [0], 4, Frozen())
    assert total_variation(right, wrong) > 0.05
    marginals = [first_tokens(law, 3) for law in (right, wrong)]
    np.testing.assert_allclose(*marginals, rtol=1e-12)  # a first token does not show it


# ---- Drafters ----------------------------------------------------------------------------------


def test_certain_drafts_keep_the_law():
    """Prompt lookup proposes without a law: what followed the last token's last place."""

    def lookup(view, gamma, dice):
        tokens = view.tokens.tolist()
        places = [i for i, token in enumerate(tokens[:-1]) if token == tokens[-1]]
        return Proposal(np.array(tokens[places[-1] + 1 :][:gamma] if places else [], int))

    for pair in PAIRS.values():
        found = audit_loop(pair(3)[0], FunctionDrafter(3, lookup), [0, 1, 2, 0], 4, 2)
        assert_exact(found)
        assert 0 < found.expected["accepted"] < found.expected["drafted"]


def test_k13_joint_law_of_a_drafter_that_proposes_only_every_third_round():
    law = np.array([0.2, 0.3, 0.5])

    def propose(view, gamma, dice):
        if len(view.rounds) % 3:
            return Proposal(np.zeros(0, int))
        return Proposal(
            np.array([dice.choose(law) for _ in range(gamma)]), np.tile(law, (gamma, 1))
        )

    assert_exact(audit_loop(table_pair(3)[0], FunctionDrafter(3, propose), [0], 4, 2))


def stopping(throw_away):
    """A drafter that stops at token 0, which it keeps or throws away."""
    law = np.array([0.5, 0.3, 0.2])

    def propose(view, gamma, dice):
        drafts = []
        while len(drafts) < gamma:
            drafts.append(dice.choose(law))
            if drafts[-1] == 0:
                drafts = drafts[:-1] if throw_away else drafts
                break
        return Proposal(np.array(drafts, int), np.tile(law, (len(drafts), 1)))

    return FunctionDrafter(3, propose)


def test_going_on_may_depend_on_drafts_that_are_kept():
    assert_exact(audit_loop(table_pair(3)[0], stopping(throw_away=False), [0], 4, 2))


def test_going_on_must_not_depend_on_drafts_that_are_thrown_away():
    found = audit_loop(table_pair(3)[0], stopping(throw_away=True), [0], 4, 2)
    assert found.total_variation > 0.01


# ---- Planted faults turn the audit red ---------------------------------------------------------


def wrong_bonus(target_probs, draft_probs, drafts, dice):
    """The bonus token is drawn from the draft."""
    return token_like(target_probs, draft_probs, drafts, dice, bonus=draft_probs[-1])


def wrong_residual_row(target_probs, draft_probs, drafts, dice):
    """The residual uses the draft's previous row."""
    return token_like(target_probs, draft_probs, drafts, dice, back=1)


def wrong_bonus_row(target_probs, draft_probs, drafts, dice):
    """The bonus token is drawn from the row before the last."""
    return token_like(target_probs, draft_probs, drafts, dice, bonus=target_probs[-2])


def token_like(target_probs, draft_probs, drafts, dice, bonus=None, back=0):
    for i, x in enumerate(drafts):
        if not dice.accept(min(1, target_probs[i, x] / draft_probs[i, x])):
            return i, dice.choose(residual(target_probs[i], draft_probs[max(0, i - back)]))
    return len(drafts), dice.choose(target_probs[-1] if bonus is None else bonus)


@pytest.mark.parametrize("fault", [wrong_bonus, wrong_residual_row, wrong_bonus_row])
def test_faults_that_a_test_of_the_first_token_cannot_see(fault):
    """Policy 1."""
    target, draft = table_pair(3)
    found = audit_loop(target, draft, [0, 1], 4, 2, rule=chain_rule(fault))
    assert found.total_variation > 0.005
    assert len(found.first_difference) > 1
    assert abs(found.p_run - found.p_reference) > 1e-4
    assert_exact(audit_loop(target, draft, [0, 1], 4, 2, rule=chain_rule(token_like)))


class LyingCache(TokenCache):
    """Says that it was rolled back, and was not: new positions come after the rejected ones."""

    def __init__(self):
        super().__init__()
        self.forgotten = 0

    @property
    def length(self):
        return len(self.tokens) - self.forgotten

    def truncate(self, length):
        self.forgotten = len(self.tokens) - length


class LyingTable(TableLM):
    def new_cache(self):
        return LyingCache()


class LyingHash(HashLM):
    def new_cache(self):
        return LyingCache()


def test_k6_a_target_cache_that_is_not_rolled_back_changes_the_law():
    target, draft = table_pair(3)
    honest_hash, hash_draft = hash_models(3)
    for model, faulty, other in (
        (target, LyingTable(target.table), draft),
        (honest_hash, LyingHash(3, scale=0.15), hash_draft),
    ):
        found = audit(
            lambda dice, m=faulty, d=other: speculative_generate(m, d, [1, 1], 4, 2, rng=dice),
            plain_law(model, [1, 1], 4),
        )
        assert found.total_variation > 0.005
        assert len(found.first_difference) > 1


def test_k3_a_draft_cache_that_is_not_rolled_back_only_costs_acceptance():
    """Policy 2: the law stays right, so a test of the law is blind to it."""
    target = HashLM(3, scale=0.3)
    accepted = []
    for draft in (target, LyingHash(3, scale=0.3)):
        found = audit_loop(target, draft, [0, 1], 4, 2, draft_sampling=Sampling(2.0))
        assert_exact(found)
        accepted.append(found.expected["accepted"] / found.expected["tested"])
    assert accepted[1] < accepted[0] - 0.005


# ---- Exact expectations ------------------------------------------------------------------------


@pytest.mark.parametrize(("gamma", "n_new"), [(0, 3), (1, 4), (2, 4), (3, 4), (5, 4)])
def test_expected_counts_of_a_law_without_context(gamma, n_new):
    """By recursion over the tokens still wanted: a draft is accepted with alpha, each alone."""
    p, q = np.array([0.7, 0.3]), np.array([0.4, 0.6])
    alpha = acceptance(p, q)

    def expectation(left):
        if left == 0:
            return np.zeros(4)
        k = min(gamma, left - 1)
        total = np.zeros(4)  # drafted, tested, accepted, rounds
        for a in range(k + 1):
            chance = alpha**k if a == k else alpha**a * (1 - alpha)
            total += chance * (np.array([k, min(a + 1, k), a, 1]) + expectation(left - a - 1))
        return total

    found = audit_loop(context_free(p), context_free(q), [0], n_new, gamma)
    names = ("drafted", "tested", "accepted", "target_calls")
    np.testing.assert_allclose(
        [found.expected[name] for name in names], expectation(n_new), rtol=1e-12
    )


@pytest.mark.slow
def test_d12_a_generators_draws_follow_the_law():
    """FIX-B, 3 tokens, gamma 2, 50 000 runs; χ² with 7 degrees of freedom at 1e-6."""
    target, draft = TableLM.of_probs(CHAIN_P), TableLM.of_probs(CHAIN_Q)
    rng = np.random.default_rng([31, 0])
    n, counts = 50_000, np.zeros((2, 2, 2))
    for _ in range(n):
        counts[tuple(speculative_generate(target, draft, [0], 3, 2, rng=rng).tokens)] += 1
    expected = np.array([0.343, 0.147, 0.042, 0.168, 0.042, 0.018, 0.048, 0.192]) * n
    assert ((counts.ravel() - expected) ** 2 / expected).sum() < 40.52
