"""Certificates of the loop: what they cover, what they say, and which wrong loops they refute.

The independent check is `lab.exact.audit` of whole runs: where a certificate holds, the joint law
over a longer horizon is right, and where it does not, the audit finds the same fault.
"""

import numpy as np
import pytest
from models import FunctionDrafter, Stuck, fixed_drafts

from lab import decode, drafting, text
from lab.certify_loop import loop
from lab.exact import EXACT, HashLM, TableLM, audit, plain_law
from lab.loop_walk import MAX_VIOLATIONS
from lab.loop_watched import Certain
from lab.mutants import MUTANTS
from lab.ngram import NGramLM, PromptLookup
from lab.sampling import Sampling
from lab.verify import Proposal, chain_rule, token_rule

TARGET = TableLM.random(3, 1)
DRAFT = TableLM.random(3, 2)
BIGRAM = NGramLM(2, 3).fit([0, 1, 2, 0, 1, 1, 2, 2, 0, 1])
TWO = TableLM.random(2, 3), TableLM.random(2, 4)  # V = 2: the same loop, fewer branches
WARM = Sampling(0.7, top_k=2)
HOT = Sampling(1.3, min_p=0.1)


def draws(vocab):
    """A drafter that draws one token from a law of the last one, which it tells."""
    laws = np.random.default_rng(5).dirichlet(np.ones(vocab), vocab)

    def propose(view, gamma, dice):
        law = laws[view.tokens[-1]]
        return Proposal(np.array([dice.choose(law)]), law[None])

    return FunctionDrafter(vocab, propose)


DRAFTS = {
    "model": (DRAFT, {}),
    "n-gram": (BIGRAM, {}),
    "lookup": (PromptLookup(3), {}),
    "certain": (FunctionDrafter(3, fixed_drafts([0, 1])), {}),
    "filtered": (DRAFT, {"sampling": WARM, "draft_sampling": HOT}),
}
QUICK = {
    ("token", "model"), ("token", "lookup"), ("token", "filtered"),
    ("block", "n-gram"), ("match", "filtered"),
}  # fmt: skip


def matrix():
    return [
        pytest.param(
            rule, draft, marks=() if (rule, draft) in QUICK else pytest.mark.slow,
            id=f"{rule}-{draft}",
        )
        for rule in ("token", "block", "match")
        for draft in DRAFTS
    ]  # fmt: skip


def audited(target, draft, prompt, n_new, gamma, **more):
    """The whole run's law beside the target's own, by every branch of it."""
    wanted = {k: more[k] for k in ("sampling", "stop") if k in more}
    return audit(
        lambda dice: decode.speculative_generate(
            target, draft, prompt, n_new, gamma, rng=dice, **more
        ),
        plain_law(target, prompt, n_new, **wanted),
    )


def text_of(certificate):
    return "\n".join(map(str, certificate.violations))


# ---- What holds --------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "draft"), matrix())
def test_the_loop_is_right_for_all_horizons(rule, draft):
    draft, settings = DRAFTS[draft]
    found = loop(TARGET, draft, 2, rule, **settings)
    assert found.violations == ()
    assert 0 < found.error_bound <= EXACT
    assert found.cells <= found.points < found.leaves
    words = ("states", found.cells), ("rounds", found.points), ("branches", found.leaves)
    for word, count in words:
        assert f"\n  {word:<25}{count:,}\n" in str(found)
    assert f"\n  largest total variation  {found.error_bound:.0e}\n" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_a_target_that_sees_two_tokens(rule):
    found = loop(TableLM.random(3, 1, context=2), DRAFT, 2, rule)
    assert found.holds
    assert found.cells >= 9 * 3 + 3


@pytest.mark.parametrize("gamma", [0, 1, pytest.param(3, marks=pytest.mark.slow)])
def test_other_draft_lengths(gamma):
    assert loop(*TWO, gamma).holds


def test_the_joint_law_agrees():
    """The audit's horizon of 4 tokens is more than a block; the certificate's has no end."""
    for draft, more in ((TWO[1], {}), (PromptLookup(2), {}), (TWO[1], {"stop": [1]})):
        assert loop(TWO[0], draft, 2, **more).holds
        for prompt in ([0], [1, 1, 0]):
            assert audited(TWO[0], draft, prompt, 4, 2, **more).total_variation <= EXACT


@pytest.mark.parametrize(
    "sampling", [Sampling(0), Sampling(0.7, top_p=0.6), Sampling(1.5, min_p=0.3)], ids=str
)
def test_settings(sampling):
    assert loop(TARGET, DRAFT, 2, sampling=sampling).holds


def test_a_penalty_tells_states_apart_by_what_was_seen():
    plain = loop(*TWO, 1)
    found = loop(*TWO, 1, sampling=Sampling(repetition_penalty=1.7))
    assert found.holds
    assert found.cells > plain.cells
    assert "the set of all tokens before" in found.assumptions[0]


def test_models_that_bring_their_own_context_end():
    target, draft = (TableLM(one.table, max_len=end) for one, end in zip(TWO, (5, 4), strict=True))
    assert loop(target, draft, 2).holds


def test_a_prompt_shorter_than_the_view_is_a_state_of_its_own():
    deep = NGramLM(3, 2).fit([0, 1, 1, 0, 0, 0, 1, 0])
    plain = loop(NGramLM(2, 2).fit([0, 1, 1, 0, 0, 0, 1, 0]), TWO[1], 1)
    found = loop(deep, TWO[1], 1)
    assert found.holds
    assert found.cells >= 2 * plain.cells  # 00 01 10 11 for 0 1, and more


def test_a_drafter_that_draws_is_covered_as_far_as_it_was_run():
    found = loop(TWO[0], draws(2), 2)
    assert found.holds
    assert "on longer ones is not covered" in found.assumptions[-1]


def test_certain_proposals_cover_what_a_lookup_may_find():
    found = loop(TWO[0], PromptLookup(2), 2)
    assert found.holds
    assert "every certain proposal of up to 2 tokens" in found.assumptions[-1]
    assert "PromptLookup" in found.subject
    assert "V 2, γ 2" in found.subject


def test_a_rule_by_function_and_a_stop_token():
    found = loop(*TWO, 1, chain_rule(token_rule), stop=[1])
    assert found.holds
    assert "stop at 1" in found.subject
    assert loop(*TWO, 1).points > found.points  # without one, each token is tried


# ---- Wrong loops -------------------------------------------------------------------------------


def keeps_rejected(patch):
    patch.setattr(drafting.ModelDraft, "settle", lambda self, tokens: None)


def target_one_too_long(patch):
    right = text.truncate

    def truncate(owner, cache, length):
        right(owner, cache, min(length + 1, cache.length))

    patch.setattr(text, "truncate", truncate)


def stop_only_at_the_end(patch):
    """A stop token inside a block is missed."""
    right = text.Text.commit

    def commit(self, proposal, verdict):
        stop, self.stop = self.stop, self.stop & {verdict.token}
        if self.stop & {int(proposal.tokens[i]) for i in verdict.path}:
            self.stop = set()
        right(self, proposal, verdict)
        self.stop = stop

    patch.setattr(text.Text, "commit", commit)


def one_draft_too_many(patch):
    def allowed(self):
        return min(self.gamma(self.text.view), self.text.limit - self.text.length)

    patch.setattr(drafting.Drafting, "allowed", allowed)


def a_round_of_nothing(patch):
    """Every second question for gamma is asked in vain."""
    right = drafting.Drafting.allowed
    patch.setattr(drafting.Drafting, "allowed", lambda self: right(self) and right(self))


def draft_end_ignored(patch):
    def allowed(self):
        return max(0, min(self.gamma(self.text.view), self.text.limit - self.text.length - 1))

    patch.setattr(drafting.Drafting, "allowed", allowed)


def one_token_too_few(patch):
    right = text.Text.__init__

    def init(self, *args):
        right(self, *args)
        if self.finish is None and self.limit - self.start > 1:
            self.limit -= 1

    patch.setattr(text.Text, "__init__", init)


def rows_of_the_round_before(patch):
    """A fault that only one kind of round before brings out."""
    right = text.Text.score

    def score(self, proposal):
        rows = yield from right(self, proposal)
        spoilt = self.rounds and self.rounds[-1].accepted == 1
        return np.roll(rows, 1, axis=0) if spoilt else rows

    patch.setattr(text.Text, "score", score)


def history_without_drafts(patch):
    """A penalty that does not see the tokens of its own round."""
    right = Sampling.probs_after

    def probs_after(self, logits, history, tokens):
        if self.repetition_penalty == 1:
            return right(self, logits, history, tokens)
        return self.probs(logits, [*history, *tokens[:1]])

    patch.setattr(Sampling, "probs_after", probs_after)


def prefill_twice(patch):
    right = text.Text.prefill

    def prefill(self):
        yield from right(self)
        yield from right(self)

    patch.setattr(text.Text, "prefill", prefill)


WRONG = {
    keeps_rejected: ("leaves the draft's cache with", "tokens in view", {}),
    target_one_too_long: ("leaves the target's cache with", "far from any limit", {}),
    stop_only_at_the_end: ("ends the run with probability", "a stop token: tokens in view", {}),
    one_draft_too_many: ("a round computes only what it can keep", "near the limit", {}),
    draft_end_ignored: ("3 positions, not max_len=2 at most", "near the draft's context end", {}),
    a_round_of_nothing: ("is followed by a round of nothing", "far from any limit", {}),
    one_token_too_few: ("ends the run with probability", "near the limit", {}),
    rows_of_the_round_before: ("has probability", "after a round that accepted 1", {}),
    history_without_drafts: (
        "has probability", "seen so far", {"sampling": Sampling(repetition_penalty=2)},
    ),
    prefill_twice: ("leaves the target's cache with 0 0, not 0", "before the first round", {}),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG, ids=lambda fault: fault.__name__)
def test_a_wrong_loop_is_refuted(fault, monkeypatch):
    fault(monkeypatch)
    what, where, settings = WRONG[fault]
    found = loop(*TWO, 2, **settings)
    assert not found.holds
    assert what in text_of(found)
    assert where in text_of(found)
    assert len(found.violations) <= MAX_VIOLATIONS


def test_the_control():
    """What the wrong loops are patches of."""
    assert loop(*TWO, 2).holds
    assert loop(*TWO, 2, sampling=Sampling(repetition_penalty=2)).holds


def bonus_of_the_draft(target_probs, draft_probs, drafts, dice):
    """Wrong after two drafts, so that in a run of three tokens only the first round is."""
    rows = target_probs.copy()
    if len(drafts) == 2:
        rows[-1] = draft_probs[-1]
    return token_rule(rows, draft_probs, drafts, dice)


def test_a_violation_can_be_checked_by_hand():
    """The bonus token from q: what the state's text and laws say is what the audit of that very
    run finds."""
    found = loop(*TWO, 2, chain_rule(bonus_of_the_draft))
    first = next(one for one in found.violations if "before the first round" in one.where)
    prompt = first.where.partition("(prompt ")[2].partition(",")[0]
    wrong = audited(
        *TWO, [int(t) for t in prompt.split()], 3, 2, rule=chain_rule(bonus_of_the_draft)
    )
    assert first.text == wrong.first_difference
    assert (first.got, first.due) == pytest.approx((wrong.p_run, wrong.p_reference), rel=1e-12)
    product = np.prod([first.target[first.text[:i]][t] for i, t in enumerate(first.text)])
    assert product == pytest.approx(first.due)
    assert set(first.draft) == {first.text[:i] for i in range(2)}
    assert str(first).startswith(f"text {' '.join(map(str, first.text))} has probability")


def test_a_rule_with_randomness_of_its_own():
    hidden = np.random.default_rng(0)

    def own_randomness(target_probs, draft_probs, drafts, dice):
        if hidden.random() < 0.5:
            return 0, dice.choose(target_probs[0])
        return token_rule(target_probs, draft_probs, drafts, dice)

    found = loop(*TWO, 1, chain_rule(own_randomness))
    assert not found.holds
    assert "has a round of 2 questions, not 3, as before" in text_of(found)


def test_a_rule_that_raises():
    def raising(target_probs, draft_probs, drafts, dice):
        raise ZeroDivisionError("1 / 0")

    found = loop(*TWO, 1, chain_rule(raising))
    assert not found.holds
    assert "ends in ZeroDivisionError: 1 / 0" in text_of(found)


def test_lossy_rules_do_not_hold():
    assert not loop(*TWO, 1, "lenient").holds
    assert not loop(*TWO, 1, "typical").holds


def test_a_drafter_that_throws_away_what_it_looked_at():
    """Drafts of probability below .25 are dropped, and that depends on the draft itself."""
    law = np.array([0.5, 0.3, 0.2])
    same = TableLM.of_probs(np.tile(law, (3, 1)))

    def propose(view, gamma, dice):
        token = dice.choose(law)
        kept = int(law[token] >= 0.25)
        return Proposal(np.array([token])[:kept], law[None][:kept])

    found = loop(same, FunctionDrafter(3, propose), 1)
    assert not found.holds
    assert found.violations[0].got == pytest.approx(0.6)
    assert found.violations[0].due == pytest.approx(0.5)


def test_a_drafter_whose_law_is_another_one():
    def propose(view, gamma, dice):
        return Proposal(np.array([dice.choose([0.5, 0.5])]), np.array([[0.9, 0.1]]))

    assert not loop(TWO[0], FunctionDrafter(2, propose), 1).holds


def test_a_drafter_that_keeps_or_draws_something_outside_the_dice():
    calls, hidden = [], np.random.default_rng(0)

    def alternates(view, gamma, dice):
        calls.append(1)
        return Proposal(np.array([len(calls) % 2]))

    def throws(view, gamma, dice):
        return Proposal(np.array([hidden.integers(2)]))

    for propose in (alternates, throws):
        text = text_of(loop(TWO[0], FunctionDrafter(2, propose), 1))
        assert "has branches that add up to 0." in text
        assert "not 1: a law is none, or something is drawn, or kept, outside the dice" in text


def test_a_draft_cache_that_falls_behind_for_ever():
    """Without an end of lags there would be no end of states."""
    with MUTANTS["draft catch-up missing"].patch():
        found = loop(*TWO, 1, stop=[1])
    assert "leaves the draft's cache with 7 tokens missing, not 6 at most" in text_of(found)
    assert found.leaves < 2000


def test_k6_a_cache_that_cannot_be_cut():
    class StuckTable(TableLM):
        new_cache = Stuck.new_cache

    found = loop(StuckTable(TWO[0].table), TWO[1], 2)
    assert "truncate" in text_of(found)


def test_a_fault_before_the_first_round_is_seen():
    class Fails(TableLM):
        def prefill(self, tokens, cache):
            raise RuntimeError("no prefill")

    found = loop(Fails(TWO[0].table), TWO[1], 1)
    assert "ends in RuntimeError: no prefill" in text_of(found)


# ---- What it cannot do -------------------------------------------------------------------------


class Liar(HashLM):
    context = 1


class DeepLiar(Liar):
    """It hides all but the third last token."""

    table = TableLM.random(2, 4, context=3)

    def new_cache(self):
        return self.table.new_cache()

    def forward(self, tokens, cache):
        return self.table.forward(tokens, cache)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((HashLM(2), TWO[1], 1), r"target=.*context"),
        ((TWO[0], HashLM(2), 1), r"draft=.*context"),
        ((TWO[0], None, 1), "draft=None"),
        ((TWO[0], object(), 1), "draft="),
        ((TWO[0], DRAFT, 1), "vocab=3"),
        ((*TWO, -1), "gamma=-1"),
        ((*TWO, lambda view: 1), "gamma="),
        ((*TWO, 1, "none"), "rule='none'"),
        ((*TWO, 1, "token", None), "sampling=None"),
        ((*TWO, 1, "token", Sampling(), [2]), "stop: token 2"),
        ((Liar(2), TWO[1], 1), r"target=.*context=1"),
        ((TWO[0], Liar(2), 1), r"draft=.*context=1"),
        ((TWO[0], Liar(2), 2, "lenient"), r"draft=.*context=1"),
        ((TWO[0], DeepLiar(2), 1), r"draft=.*context=1"),
        ((*TWO, 1, "token", Sampling(), 1), "stop=1 must be a collection of tokens"),
        ((TableLM(TWO[0].table, max_len=1), TWO[1], 1), "max_len=1 must leave room"),
        ((TableLM.random(13, 1, context=2), TableLM.random(13, 1), 1), "vocab=13 .*smaller"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        loop(*arguments)


def test_too_many_branches_are_refused():
    with pytest.raises(ValueError, match=r"max_leaves=50 .*smaller vocabulary"):
        loop(*TWO, 2, max_leaves=50)


def test_a_drafter_without_memory_is_run_as_certain():
    """The stub proposes what it was told to, cut to what is allowed."""
    proposal = Certain(3, (2, 0)).start(None).propose(None, 1, None)
    assert proposal.tokens.tolist() == [2]
    assert proposal.probs is None
