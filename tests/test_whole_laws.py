"""The joint law of whole runs of the loop, for every lossless rule with every kind of draft, number
of drafts, setting of sampling and way to end: it is the target's, by every branch of every draw.

V is 3, and 2 with three drafts; runs are gamma + 2 tokens long, so that there is more than one
round. All combinations together are 2,070. A choice of them that has every pair of values, and
every rule with every draft at every gamma and at every setting, is always tried; the others are
slow. Each says how many branches it took, and `conftest.py` adds them up.
"""

from dataclasses import astuple, dataclass
from functools import lru_cache
from itertools import combinations, product

import numpy as np
import pytest
from models import GREEDY, FunctionDrafter, context_free

from lab.decode import speculative_generate
from lab.engine import generate_many
from lab.exact import EXACT, TableLM, audit, output_law, plain_law, total_variation
from lab.ngram import NGramLM, PromptLookup
from lab.sampling import Sampling
from lab.transformer import ModelConfig, Transformer
from lab.verify import RULES, Proposal, chain_rule, token_rule

PROMPT = (0, 1, 0)
MANY = 9  # more tokens than any context here has room for

RULE_NAMES = [name for name, rule in RULES.items() if rule.lossless]
SAMPLINGS = {
    "T 1": {},
    "top-k": {"temperature": 0.7, "top_k": 2},  # 1 at V 2, or it would be off
    "top-p": {"temperature": 0.7, "top_p": 0.8},
    "min-p": {"temperature": 0.7, "min_p": 0.3},
    "penalty": {"temperature": 0.7, "repetition_penalty": 1.4},
}
ENDINGS = ["limit", "stop 0", "stop 1", "stop 2", "target's context", "draft's context"]


class Remembered(Sampling):
    """Settings that compute no law twice: the branches of a run ask for the same ones."""

    def probs_after(self, logits, history, tokens):
        before = self.repetition_penalty != 1 and (history.tobytes(), tokens.tobytes())
        key = (self, logits.tobytes(), before)
        if key not in LAWS:
            LAWS[key] = super().probs_after(logits, history, tokens)
            LAWS[key].flags.writeable = False
        return LAWS[key]


LAWS = {}


# ---- Drafts ------------------------------------------------------------------------------------


def model(vocab):
    return TableLM.random(vocab, 2)


def ngram(vocab):
    text = [0, 1, 2, 0, 1, 1, 0, 2, 1, 0, 0, 1]
    return NGramLM(3, vocab).fit([token % vocab for token in text])


def lookup(vocab):
    return PromptLookup(vocab, n_max=2)


def counting(vocab):
    """Certain drafts out of a function: one token higher each time, from where the text is."""

    def propose(view, gamma, dice):
        return Proposal((view.tokens[-1] + 1 + len(view.tokens) % 2 + np.arange(gamma)) % vocab)

    return FunctionDrafter(vocab, propose)


@lru_cache
def target_of(vocab, max_len=None):
    return TableLM.random(vocab, 1, context=2, max_len=max_len)


@lru_cache
def draft_of(kind, vocab, max_len=None):
    draft = DRAFTS[kind][0](vocab)
    draft.max_len = max_len
    return draft


DRAFTS = {  # kind: (how it is made, its own sampling)
    "model": (model, None),
    "n-gram": (ngram, None),
    "lookup": (lookup, None),
    "certain model": (model, GREEDY),
    "certain function": (counting, None),
    "filtered apart": (model, Remembered(1.4, top_p=0.9)),
}
SAMPLED = ("model", "n-gram", "filtered apart")  # drafts that roll dice


# ---- Cases -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    rule: str
    draft: str
    gamma: int
    sampling: str
    ending: str

    def __str__(self):
        return ", ".join(map(str, astuple(self)))

    @property
    def vocab(self):
        return 3 if self.gamma <= 2 else 2

    @property
    def settings(self):
        given = SAMPLINGS[self.sampling]
        return Remembered(**given | ({"top_k": self.vocab - 1} if "top_k" in given else {}))

    @property
    def stop(self):
        return [int(self.ending[-1])] if self.ending.startswith("stop") else []

    @property
    def n_new(self):
        return MANY if self.ending == "target's context" else self.gamma + 2

    @property
    def target(self):
        ends = self.ending == "target's context"
        return target_of(self.vocab, len(PROMPT) + self.gamma + 2 if ends else None)

    @property
    def own_draft(self):
        """Where its context ends some rounds draft less, and the last ones nothing."""
        ends = self.ending == "draft's context"
        return draft_of(self.draft, self.vocab, len(PROMPT) + self.gamma if ends else None)

    @property
    def large(self):
        """Two draws for every draft make many branches, unless a filter cuts them."""
        many = self.rule == "match" and self.draft in SAMPLED and self.gamma >= 2
        return many and self.sampling in ("T 1", "min-p", "penalty")

    @property
    def run(self):
        """The run, as a function of its dice."""
        given = (self.target, self.own_draft, PROMPT, self.n_new, self.gamma)
        more = {
            "sampling": self.settings, "draft_sampling": DRAFTS[self.draft][1], "stop": self.stop,
            "rule": self.rule,
        }  # fmt: skip
        return lambda dice: speculative_generate(*given, **more, rng=dice)

    @property
    def parts(self):
        """What it has a share in covering: every pair of its values, and two triples."""
        values = list(enumerate(astuple(self)))
        rule, draft, gamma, sampling, _ = values
        return {*combinations(values, 2), (rule, draft, gamma), (rule, draft, sampling)}


CASES = [
    case
    for case in (Case(*v) for v in product(RULE_NAMES, DRAFTS, range(4), SAMPLINGS, ENDINGS))
    if not case.stop or case.stop[0] < case.vocab
]


def covering(cases):
    """A choice that has all parts of all: again and again those that add the most."""
    parts = [case.parts for case in cases]
    missing = set().union(*parts)
    chosen = []
    for most in range(max(map(len, parts)), 0, -1):
        for i in np.random.default_rng([71, most]).permutation(len(cases)):
            if len(parts[i] & missing) >= most:
                missing -= parts[i]
                chosen.append(cases[i])
    return chosen


CHOSEN = covering([case for case in CASES if not case.large])
OTHERS = sorted(set(CASES) - set(CHOSEN), key=str)


@lru_cache
def reference(gamma, sampling, ending):
    """The law that must come out; the rule and the draft have no part in it."""
    case = Case(RULE_NAMES[0], "model", gamma, sampling, ending)
    return plain_law(case.target, PROMPT, case.n_new, case.settings, case.stop)


def check(case, record_property):
    found = audit(case.run, reference(case.gamma, case.sampling, case.ending))
    assert found.total_variation <= EXACT
    assert found.first_difference is None
    record_property("branches", found.leaves)
    record_property("of", len(CASES))


@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_whole_runs_have_the_targets_law(case, record_property):
    check(case, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_all_other_whole_runs_have_it_too(case, record_property):
    check(case, record_property)


def test_the_choice_has_every_pair():
    assert len(CASES) == 2070
    every = set().union(*(case.parts for case in CASES))
    assert set().union(*(case.parts for case in CHOSEN)) == every
    assert {case.rule for case in CASES} == {"token", "block", "match"}


def test_the_cases_are_what_they_are_called():
    """Every kind of draft has drafts accepted and drafts rejected, every ending happens."""
    for draft in DRAFTS:
        counts = audited(Case("token", draft, 1, "T 1", "limit")).expected
        assert 0.1 < counts["accepted"] < counts["tested"] - 0.1, draft
        assert counts["target_calls"] > 1.1, draft
    ends = {ending: endings_of(Case("token", "model", 1, "T 1", ending)) for ending in ENDINGS}
    assert ends["limit"] == {("length", 3)}
    assert ends["target's context"] == {("length", 3)}, "though nine were asked for"
    assert ends["draft's context"] == {("length", 3)}
    for token in range(3):
        assert {("stop", n) for n in range(1, 4)} < ends[f"stop {token}"]
    less = audited(Case("token", "model", 1, "T 1", "draft's context"))
    full = audited(Case("token", "model", 1, "T 1", "limit"))
    assert less.expected["drafted"] < full.expected["drafted"]
    laws = [reference(2, sampling, "limit") for sampling in SAMPLINGS]
    for one, other in combinations(laws, 2):
        assert total_variation(one, other) > 0.01, "no setting is off"


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_fault_shows_with_every_kind_of_draft(draft):
    """The bonus token drawn from the row before: a first token alone would not show it."""

    def stale_bonus(target_probs, draft_probs, drafts, dice):
        rows = [*target_probs[:-1], target_probs[-2]]
        return token_rule(rows, draft_probs, drafts, dice)

    found = audited(Case(chain_rule(stale_bonus), draft, 1, "T 1", "limit"))
    assert found.total_variation > 0.01
    assert len(found.first_difference) > 1


def audited(case):
    return audit(case.run, reference(case.gamma, case.sampling, case.ending))


def endings_of(case):
    runs = set()

    generate = case.run

    def run(dice):
        made = generate(dice)
        runs.add((made.finish, len(made.tokens)))
        return made

    output_law(run)
    return runs


# ---- Rows in lockstep --------------------------------------------------------------------------


class Row:
    """The dice of one row, in front of one that all rows share."""

    def __init__(self, dice):
        self.dice = dice

    def choose(self, probs):
        return self.dice.choose(probs)

    def accept(self, probability):
        return self.dice.accept(probability)


END = -1  # between the rows' tokens


@pytest.mark.parametrize("rule", RULE_NAMES)
@pytest.mark.parametrize(
    ("draft", "own", "gamma", "n_new", "settings", "stop"),
    [
        (model, None, 1, 3, {}, []),
        (model, None, [1, 0], 3, {"top_p": 0.8}, [1]),
        (ngram, None, 2, 2, {"repetition_penalty": 1.4}, []),
        (lookup, None, 2, 3, {}, [0]),
        (model, GREEDY, 2, 3, {"temperature": 0.7}, []),
    ],
    ids=["model", "stop token, own gammas", "n-gram, penalty", "lookup, stop token", "certain"],
)
@pytest.mark.parametrize("rows", [1, 2])
def test_rows_in_lockstep_have_the_product_of_their_laws(
    rows, draft, own, gamma, n_new, settings, stop, rule, record_property
):
    more = {"draft_sampling": own, "stop": stop, "rule": rule}
    found = audit_of_rows(
        TableLM.random(2, 1, context=2), draft(2), rows, n_new, gamma, Sampling(**settings), **more
    )
    record_property("branches", found.leaves)


@pytest.mark.parametrize("rule", RULE_NAMES)
@pytest.mark.parametrize("rows", [1, 2])
def test_rows_of_one_batched_cache_have_it_too(rows, rule, record_property):
    """Target and draft are transformers: one forward for both rows, rolled back row by row."""
    size = {"vocab": 2, "d_model": 8, "n_heads": 2, "d_ff": 8, "max_len": 8, "dtype": "float64"}
    target = Transformer.init(ModelConfig(**size, n_layers=2), 0)
    draft = Transformer.init(ModelConfig(**size, n_layers=1), 1)
    found = audit_of_rows(target, draft, rows, 3 if rows == 1 else 2, 1, Sampling(), rule=rule)
    record_property("branches", found.leaves)


def audit_of_rows(target, draft, rows, n_new, gamma, sampling, stop=(), **more):
    """The audit of rows that run together, asserted to be exact; rows of different lengths."""
    prompts = [[0, 1, 0], [1]][:rows]
    wanted = {(): 1.0}
    for prompt in prompts:
        law = plain_law(target, prompt, n_new, sampling, stop)
        wanted = {(*z, *x, END): p * q for z, p in wanted.items() for x, q in law.items()}

    def run(dice):
        runs = generate_many(
            target, draft, prompts, n_new, gamma[:rows] if isinstance(gamma, list) else gamma,
            sampling=sampling, stop=stop, rngs=[Row(dice) for _ in prompts], **more,
        )  # fmt: skip
        return [token for made in runs for token in (*made.tokens.tolist(), END)]

    found = audit(run, wanted)
    assert found.total_variation <= EXACT
    assert found.first_difference is None
    return found


# ---- Drafts that stop early, drafts that were certain ------------------------------------------


LAW = np.array([0.5, 0.3, 0.2])


def first_tokens(law):
    return [sum(p for z, p in law.items() if z[0] == token) for token in range(3)]


def unsure(keep):
    """A draft that stops where its token had a probability below .25; that token it keeps or
    throws away."""

    def propose(view, gamma, dice):
        drafts = []
        while len(drafts) < gamma:
            token = dice.choose(LAW)
            if LAW[token] >= 0.25 or keep:
                drafts.append(token)
            if LAW[token] < 0.25:
                break
        return Proposal(np.array(drafts, np.int64), np.tile(LAW, (len(drafts), 1)))

    return FunctionDrafter(3, propose)


def law_with(drafter, target_law, gamma=2, rule="token"):
    target = context_free(target_law)
    return output_law(
        lambda dice: speculative_generate(
            target, drafter, [0], gamma + 1, gamma, rng=dice, rule=rule
        )
    )


@pytest.mark.parametrize("rule", RULE_NAMES)
@pytest.mark.parametrize("gamma", [1, 2])
def test_stopping_at_a_token_that_is_thrown_away_is_biased(gamma, rule):
    """p = q = (.5, .3, .2), tokens below .25 dropped: a first token is 0 or 1 as drafted, or else
    drawn anew from p: .5 + .2 x .5, .3 + .2 x .3, .2 x .2. (`match` draws its own token, and is
    right whatever was proposed, as long as the proposal does not look at that draw.)"""
    law = first_tokens(law_with(unsure(keep=False), LAW, gamma, rule))
    wanted = LAW if rule == "match" else [0.6, 0.36, 0.04]
    np.testing.assert_allclose(law, wanted, rtol=1e-12)


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_stopping_at_a_token_that_stays_is_exact(rule):
    for probs in (LAW, LAW[::-1]):
        wanted = plain_law(context_free(probs), [0], 3)
        law = law_with(unsure(keep=True), probs, rule=rule)
        assert total_variation(law, wanted) <= EXACT


def argmax(probs):
    """A draft that always proposes its most likely token, and says so with `probs`: None for
    certain, one-hot laws, or the softmax that the token came from."""
    laws = {"none": None, "one-hot": np.eye(3)[[0]], "softmax": LAW[None]}

    def propose(view, gamma, dice):
        law = laws[probs]
        return Proposal(np.zeros(gamma, np.int64), None if law is None else law.repeat(gamma, 0))

    return FunctionDrafter(3, propose)


@pytest.mark.parametrize("rule", RULE_NAMES)
@pytest.mark.parametrize("probs", ["none", "one-hot"])
def test_a_token_that_was_certain_has_probability_one(probs, rule):
    target = LAW[::-1]
    wanted = plain_law(context_free(target), [0], 3)
    assert total_variation(law_with(argmax(probs), target, rule=rule), wanted) <= EXACT


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_with_the_probability_of_its_softmax_the_law_is_wrong(rule):
    """p = (.2, .3, .5), the draft's argmax 0 had .5: it is accepted with .2 / .5 instead of .2, and
    replaced from (p - q)+, which is token 2 alone."""
    law = first_tokens(law_with(argmax("softmax"), LAW[::-1], 1, rule))
    wrong = [0.4, 0.0, 0.6]
    wanted = LAW[::-1] if rule == "match" else wrong  # match asks no draft's law
    np.testing.assert_allclose(law, wanted, rtol=1e-12, atol=1e-15)
    assert np.abs(np.array(wrong) - LAW[::-1]).sum() / 2 == pytest.approx(0.3)
