"""The wrong implementations are wrong in the way that was reported, and by as much as they say."""

from fractions import Fraction

import numpy as np
import pytest
from models import FIX_C, GREEDY, PROMPT, FixedRng, P, Q, context_free, hash_pair

from lab import certify
from lab.battery import Battery
from lab.decode import speculative_generate
from lab.estimate import accepted_per_drafted
from lab.exact import output_law, prefix_law, round_law
from lab.mutants import MUTANTS, TABLES
from lab.ngram import PromptLookup
from lab.readings import TV
from lab.sampling import RandomDice, Sampling, residual
from lab.scoreboard import RULE_PARTS
from lab.text import Round

AREAS = {
    "sampling", "residual", "ratio", "bonus", "indices", "uniforms", "probabilities",
    "early stopping", "cache lengths", "catch-up", "lockstep", "stop and length", "counters",
    "estimators",
}  # fmt: skip
KINDS = {"text", "acceptance", "counters", "estimator", "dice"}
OF_RULES = [
    (name, rule)
    for name, mutant in MUTANTS.items()
    for rule, parts in RULE_PARTS.items()
    if any(edit.function in parts for edit in mutant.edits)
]


@pytest.fixture(scope="module")
def battery():
    return Battery()


def test_m18_there_are_many_of_every_area():
    assert len(MUTANTS) == sum(map(len, TABLES)) >= 42
    assert {mutant.area for mutant in MUTANTS.values()} == AREAS
    assert {mutant.changes.kind for mutant in MUTANTS.values()} == KINDS
    assert len({mutant.diff for mutant in MUTANTS.values()}) == len(MUTANTS)
    assert all(len(name) <= 31 for name in MUTANTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_m18_every_mutant_changes_what_it_says_by_as_much_as_it_says(battery, name):
    """Recomputed exactly; written down to four figures."""
    mutant, changes = MUTANTS[name], MUTANTS[name].changes
    with mutant.patch(), np.errstate(divide="ignore"):
        found = battery.reading(changes.case)
    due = battery.due[changes.case]
    assert due[changes.quantity] == pytest.approx(changes.before, rel=5e-4, abs=1e-12)
    assert found[changes.quantity] == pytest.approx(changes.after, rel=5e-4, abs=1e-12)
    assert abs(found[changes.quantity] - due[changes.quantity]) > 1e-9
    if changes.kind == "text":
        assert changes.quantity == TV
    elif TV in found and changes.kind != "dice":
        assert found[TV] <= 1e-12


def test_all_is_as_before(battery):
    """After all of these patches."""
    assert not any(battery.differing(name) for name in battery.due)


# ---- Rules: the laws that were reported, on FIX-A ----------------------------------------------


def first_token(name, rule="token"):
    """Law of the first token of a round with one draft."""
    with MUTANTS[name].patch():
        law = prefix_law(round_law(rule, np.stack([P, P]), Q[None]), 1)
    return [float(law.get((token,), 0)) for token in range(len(P))]


@pytest.mark.parametrize(
    ("name", "law"),
    [
        pytest.param("always accepted", Q, id="d1"),
        pytest.param("residual from p", [0.425, 0.3375, 0.1025, 0.135], id="d3"),
        pytest.param("ratio swapped", [0.2381, 0.45, 0.0619, 0.25], id="d4 ratio"),
        pytest.param("residual reversed", Q, id="d4 residual"),
        pytest.param("ratio to the maximum", [0.5786, 0.225, 0.1464, 0.05], id="d7"),
        pytest.param("no coin", [0.75, 0, 0.25, 0], id="d8"),
    ],
)
def test_d1_d3_d4_d7_d8_the_reported_laws(name, law):
    assert first_token(name) == pytest.approx(list(law), abs=5e-5)


def test_d2_a_softmax_of_the_clamped_gap():
    """Its exponential to second order is near the reported [.3524, .3297, .1381, .1797]."""
    assert first_token("residual softmax") == pytest.approx(
        [0.3524, 0.3297, 0.1381, 0.1797], abs=1e-3
    )
    with MUTANTS["residual softmax"].patch():
        assert (residual(P, Q) > 0).all()


def test_d6_match_with_a_residual():
    assert first_token("match with a residual", "match") == pytest.approx(
        [0.6464, 0.1125, 0.2161, 0.025], abs=5e-5
    )


@pytest.mark.parametrize("name", ["residual row late", "residual row early", "bonus from q"])
def test_the_first_token_on_a_law_without_context_shows_nothing(name):
    """Policy 1: joint laws on models that depend on their text."""
    assert first_token(name) == pytest.approx(P.tolist(), abs=1e-12)


def test_two_tokens_hide_what_three_show():
    """Where p > q at one token only, its residual is certain."""
    for name in ("residual even", "residual argmax", "residual from p less the draft"):
        with MUTANTS[name].patch():
            law = round_law("token", np.array([[0.7, 0.3]] * 2), np.array([[0.4, 0.6]]))
        assert prefix_law(law, 1) == pytest.approx({(0,): 0.7, (1,): 0.3})
        assert first_token(name) != pytest.approx(P.tolist(), abs=1e-3)


def refutations(name, rule, vocab, gamma):
    with MUTANTS[name].patch():
        return certify.rule(rule, vocab, gamma).violations


@pytest.mark.parametrize("name", ["residual even", "no coin", "bonus from q"])
def test_some_are_refuted_in_fractions(name):
    assert_in_fractions(refutations(name, "token", 3, 1))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rule"), OF_RULES)
def test_every_faulty_rule_is_refuted_in_fractions(name, rule):
    assert_in_fractions(refutations(name, rule, 3, 2))


def assert_in_fractions(violations):
    assert violations
    for violation in violations:
        got, due = Fraction(violation.got), violation.due
        assert isinstance(due, Fraction)
        assert got != due


# ---- The draft's part --------------------------------------------------------------------------


def test_a_draft_that_drops_unlikely_tokens_by_hand():
    """p = q = (.5, .3, .2): the law of the first token becomes (.6, .36, .04)."""
    model = context_free(np.array([0.5, 0.3, 0.2]))
    with MUTANTS["unlikely draft dropped"].patch():
        law = output_law(lambda dice: speculative_generate(model, model, [0], 2, 1, rng=dice))
    first = [sum(p for z, p in law.items() if z[0] == token) for token in range(3)]
    assert first == pytest.approx([0.6, 0.36, 0.04], abs=1e-12)


def greedy(gamma, n_new):
    target, draft = hash_pair()
    rng = np.random.default_rng(0)
    return speculative_generate(target, draft, PROMPT, n_new, gamma, sampling=GREEDY, rng=rng)


def accepted(run):
    return sum(r.accepted for r in run.rounds), sum(r.drafted for r in run.rounds)


def test_k3_a_draft_cache_that_is_not_rolled_back_is_no_matter_of_the_text():
    """33 of 1,462 drafts were reported as accepted where the draft is never trimmed."""
    sound = greedy(4, 400)
    with MUTANTS["draft cache not rolled back"].patch():
        wrong = greedy(4, 400)
    assert wrong.tokens.tolist() == sound.tokens.tolist()
    assert accepted(sound) == (272, 508)
    kept, drafted = accepted(wrong)
    assert kept / drafted == pytest.approx(33 / 1462, abs=0.02)


@pytest.mark.parametrize("name", ["draft catch-up missing", "draft catch-up doubled"])
def test_k3_nor_is_its_catch_up(name):
    sound = greedy(3, 200)
    with MUTANTS[name].patch():
        wrong = greedy(3, 200)
    assert wrong.tokens.tolist() == sound.tokens.tolist()
    assert accepted(wrong)[0] < accepted(sound)[0] / 2


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        pytest.param("target cache zeroed", 4, id="k5"),
        pytest.param("target cache not rolled back", 9, id="k6 no trim"),
        pytest.param("target cache one too long", 9, id="k6 one too few"),
        pytest.param("rejected draft kept", 8, id="k4"),
    ],
)
def test_k4_k5_k6_the_text_differs_where_it_was_reported_to(name, differs):
    with MUTANTS[name].patch():
        text = greedy(3, 14).tokens.tolist()
    assert text[:differs] == FIX_C[:differs]
    assert text[differs] != FIX_C[differs]


# ---- Sampling and dice -------------------------------------------------------------------------


def patched(name, function):
    with MUTANTS[name].patch():
        return function()


def test_c5_c6_n9_settings_as_reported():
    of_probs = Sampling(top_p=0.9).probs
    law = patched("top-p cut one token early", lambda: of_probs(np.log([0.5, 0.41, 0.09])))
    assert law == pytest.approx([1, 0, 0])
    law = patched("top-k keeps ties", lambda: Sampling(top_k=2).probs([2, 1, 1, 1]))
    assert (law > 0).all()
    law = patched("T = 0 takes the last argmax", lambda: GREEDY.probs([1, 3, 3]))
    assert law.tolist() == [0, 0, 1]


def test_n2_zero_draws_what_is_impossible():
    def at_zero():
        dice = RandomDice(FixedRng(0.0, 0.0))
        return dice.choose(np.array([0, 0.5, 0.5])), dice.accept(0.0)

    assert at_zero() == (1, False)
    assert patched("impossible token drawn at 0", at_zero) == (0, False)
    assert patched("impossible draft accepted at 0", at_zero) == (1, True)


def test_d12_a_draft_and_its_coin_share_a_uniform_as_reported():
    """FIX-A: [.5317, .3056, .1627, 0]; every boundary lies on the grid, so this is exact."""
    target, draft = context_free(P), context_free(Q)
    counts = np.zeros(4)
    with MUTANTS["draft's uniform is its coin"].patch():
        for i in range(180):  # draft boundaries are twentieths, coins p / q are 5/9 and 2/5
            for j in range(7):  # the residual's are sevenths
                rng = FixedRng((i + 0.5) / 180, (j + 0.5) / 7, 0.5)
                run = speculative_generate(target, draft, [0], 2, 1, rng=RandomDice(rng))
                counts[run.tokens[0]] += 1
    assert counts / counts.sum() == pytest.approx([0.5317, 0.3056, 0.1627, 0], abs=5e-5)


# ---- Counts ------------------------------------------------------------------------------------


def test_m3_share_with_the_bonus():
    for accepted_, wrong in enumerate((0.2, 0.4, 0.6, 0.8, 1.0)):
        one = [Round(4, 4, 4, accepted_, accepted_ + 1, "full")]
        assert accepted_per_drafted(one).value == accepted_ / 4
        assert patched("share with the bonus", lambda: accepted_per_drafted(one).value) == wrong  # noqa: B023


def test_w5_lookups_as_reported():
    text, lookup = [5, 6, 7, 5, 6, 8, 5, 6], PromptLookup(9, 2, 2)
    assert lookup.lookup(text, 3).tolist() == [8, 5, 6]
    assert patched("lookup finds itself", lambda: lookup.lookup(text, 3)).tolist() == []


def test_s2_s7_a_stop_token_inside_a_block():
    """FIX-C with stop token 6: the text is 7, 8, 6, and a block held more."""
    target, draft = hash_pair()

    def run():
        return speculative_generate(
            target, draft, PROMPT, 14, 3, sampling=GREEDY, stop=[6], rng=np.random.default_rng(0)
        )

    assert run().tokens.tolist() == FIX_C[:3]
    assert patched("stop seen at block ends only", run).tokens.tolist()[:5] == FIX_C[:5]
    assert patched("stop token not returned", run).tokens.tolist() == FIX_C[:2]
    cut = patched("emitted counts what was cut", run)
    assert sum(r.emitted for r in cut.rounds) > len(cut.tokens)
