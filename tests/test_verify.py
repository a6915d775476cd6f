"""Verification rules on arrays: the law of a round, exactly, and what known faults give."""

from fractions import Fraction
from functools import partial
from inspect import signature

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import CHAIN_P, CHAIN_Q, LAST, RESIDUAL, FixedRng, P, Q, ScriptedDice, context_free
from rules import FAULTS, right

from lab import certify
from lab.decode import speculate, speculative_generate
from lab.engine import generate_many
from lab.exact import assert_lossless, round_law, total_variation
from lab.examine import examine
from lab.sampling import RandomDice, residual
from lab.theory import acceptance
from lab.userrule import as_user_rule
from lab.verify import RULES, Proposal, Verdict, as_rule, chain_rule, token_rule
from lab.watch import Watch

TOKEN = RULES["token"]
LOSSLESS = [name for name, rule in RULES.items() if rule.lossless]


def first_token(rule, p=P, q=Q):
    """Law (V,) of the first token that a round with one draft emits."""
    law = np.zeros(len(p))
    for tokens, probability in round_law(rule, np.stack([p, p]), q[None]).items():
        law[tokens[0]] += probability
    return law


def accept_rate(rule, p=P, q=Q):
    law = round_law(rule, np.stack([p, p]), q[None])
    return sum(probability for tokens, probability in law.items() if len(tokens) == 2)


def law_of(fault):
    """Of the first token, with FIX-A."""
    return first_token(chain_rule(FAULTS[fault]))


# ---- FIX-A: what the rule gives, and what each published fault gives ---------------------------


def test_d1_fix_a_first_token_is_the_targets():
    np.testing.assert_allclose(first_token("token"), P, rtol=1e-14)
    assert accept_rate("token") == pytest.approx(0.65, rel=1e-14)
    np.testing.assert_allclose(law_of("d1_always_accepted"), Q, rtol=1e-14)


FAULTY = {
    "d2_softmax_of_the_gap": ([0.3524, 0.3297, 0.1381, 0.1797], 0.1595),
    "d3_resampled_from_p": ([0.425, 0.3375, 0.1025, 0.135], 0.1225),
    "d4_ratio_swapped": ([0.2381, 0.45, 0.0619, 0.25], 0.35),
    "d4_residual_reversed": (Q, 0.35),
    "d7_ratio_to_the_maximum": ([0.5786, 0.225, 0.1464, 0.05], 0.0786),
    "d8_no_coin": ([0.75, 0, 0.25, 0], 0.35),
}


@pytest.mark.parametrize("name", FAULTY)
def test_the_faults_of_d2_d3_d4_d7_d8_are_what_they_are_said_to_be(name):
    """So that the test above can fail, and the homework can show these numbers."""
    law, distance = FAULTY[name]
    np.testing.assert_allclose(law_of(name), law, atol=5e-5)
    assert np.abs(law_of(name) - P).sum() / 2 == pytest.approx(distance, abs=5e-5)


def test_d4_a_fault_can_raise_acceptance():
    swapped, to_the_maximum = FAULTS["d4_ratio_swapped"], FAULTS["d7_ratio_to_the_maximum"]
    assert accept_rate(chain_rule(swapped)) == pytest.approx(0.8417, abs=5e-5)
    assert accept_rate("token") == pytest.approx(acceptance(P, Q)) == 0.65
    assert accept_rate(chain_rule(to_the_maximum)) == pytest.approx(0.54)


def test_d6_exact_match_is_unbiased_but_accepts_less():
    def exact_match(target_probs, draft_probs, drafts, dice):
        own = dice.choose(target_probs[0])
        if own == drafts[0]:
            return 1, dice.choose(target_probs[1])
        return 0, own

    def hybrid(target_probs, draft_probs, drafts, dice):
        if dice.choose(target_probs[0]) == drafts[0]:
            return 1, dice.choose(target_probs[1])
        return 0, dice.choose(residual(target_probs[0], draft_probs[0]))

    rule = chain_rule(exact_match)
    np.testing.assert_allclose(first_token(rule), P, rtol=1e-14)
    assert accept_rate(rule) == pytest.approx(0.27)
    assert accept_rate(rule, P, P) == pytest.approx(0.345)
    assert accept_rate("token", P, P) == 1
    wrong = first_token(chain_rule(hybrid))
    np.testing.assert_allclose(wrong, [0.6464, 0.1125, 0.2161, 0.025], atol=5e-5)
    assert np.abs(wrong - P).sum() / 2 == pytest.approx(0.2125, abs=5e-5)


def test_d8_the_pages_own_example():
    p, q = np.array([0.3, 0.7]), np.array([0.5, 0.5])
    no_coin = chain_rule(FAULTS["d8_no_coin"])
    np.testing.assert_allclose(first_token(no_coin, p, q), [0, 1], atol=1e-15)
    np.testing.assert_allclose(first_token("token", p, q), p, rtol=1e-14)


def test_d10_the_rule_writes_to_nothing():
    target_probs, draft_probs = np.stack([P, P]), Q[None].copy()
    drafts = np.array([1])
    for array in (target_probs, draft_probs, drafts):
        array.flags.writeable = False
    for accepted in (True, False):
        for probs in (draft_probs, None):
            dice = ScriptedDice(chosen=[0], accepted=[accepted])
            TOKEN(target_probs, Proposal(drafts, probs), dice)
    spoilt = P.copy()  # the fault: the residual of a one-hot draft is taken in place
    spoilt[1] = 0
    second = residual(spoilt, np.array([0, 1.0, 0, 0]))
    np.testing.assert_allclose(second, [2 / 3, 0, 0.2, 2 / 15], atol=1e-12)
    assert np.abs(second - P).sum() / 2 == pytest.approx(0.25)


def grid_law(pick_uniforms, n=200):
    """Law of the first token where draft, coin and correction read u, v, w of `pick_uniforms`,
    on a grid of midpoints; FIX-A by inverse CDF."""
    law = np.zeros(4)
    middle = (np.arange(n) + 0.5) / n
    for a in middle:
        for b in middle:
            u, v, w = pick_uniforms(a, b)
            dice = RandomDice(FixedRng(u, v, w))
            draft = dice.choose(Q)
            verdict = None
            if dice.accept(min(1, P[draft] / Q[draft])):
                verdict = draft
            law[dice.choose(RESIDUAL) if verdict is None else verdict] += 1
    return law / n**2


@pytest.mark.parametrize(
    ("shared", "law"),
    [
        (lambda a, b: (a, a, b), [0.5317, 0.3056, 0.1627, 0]),
        (lambda a, b: (a, b, b), [0.4, 0.25, 0.25, 0.1]),
    ],
    ids=["draft and coin", "coin and residual"],
)
def test_d12_shared_uniforms_give_another_law(shared, law):
    """What `test_d12_r4_one_uniform_per_question_all_distinct` of test_decode.py guards against."""
    np.testing.assert_allclose(grid_law(shared), law, atol=4e-3)
    assert np.abs(np.array(law) - P).sum() / 2 == pytest.approx(0.10, abs=5e-3)


def test_d12_shared_gumbel_noise_gives_another_law():
    """10^6 draws: standard errors below 5e-4; the bounds are 4 of them."""
    rng = np.random.default_rng([12, 0])
    gumbel = rng.gumbel(size=(1_000_000, 4))
    draft = (np.log(Q) + gumbel).argmax(axis=1)
    with np.errstate(divide="ignore"):
        correction = (np.log(RESIDUAL) + gumbel).argmax(axis=1)  # the fault: the same noise
    kept = rng.random(len(draft)) < np.minimum(1, P / Q)[draft]
    law = np.bincount(np.where(kept, draft, correction), minlength=4) / len(draft)
    np.testing.assert_allclose(law, [0.488, 0.250, 0.162, 0.100], atol=2e-3)
    assert np.abs(law - P).sum() / 2 == pytest.approx(0.012, abs=2e-3)


def test_d15_a_lossy_mixture_is_labelled_and_off_by_default():
    mixed = 0.5 * P + 0.5 * Q
    np.testing.assert_allclose(first_token("token", mixed, Q), [0.375, 0.35, 0.10, 0.175])
    for name, rule in RULES.items():
        assert rule.name.startswith(name)
        assert rule.source
        lossless = np.allclose(first_token(rule), P, rtol=0, atol=1e-14)
        assert lossless == rule.lossless
    assert TOKEN.lossless


def test_d16_arguments_are_named_target_and_draft():
    np.testing.assert_allclose(first_token("token", p=Q, q=P), Q, rtol=1e-14)
    with pytest.raises(TypeError, match="p"):
        residual(p=P, q=Q)  # type: ignore[call-arg]


# ---- Several drafts ----------------------------------------------------------------------------


def test_d13_fix_b_a_rounds_law_times_the_target_is_the_joint_law():
    emitted = round_law(
        "token",
        lambda prefix: CHAIN_P[prefix[-1] if prefix else 0],
        lambda prefix: CHAIN_Q[prefix[-1] if prefix else 0],
        gamma=2,
    )
    joint = {}
    for tokens, probability in emitted.items():
        for rest in np.ndindex(*[2] * (3 - len(tokens))):
            whole, mass = tokens, probability
            for token in rest:
                mass *= CHAIN_P[whole[-1], token]
                whole = (*whole, token)
            joint[whole] = joint.get(whole, 0) + mass
    stated = [0.343, 0.147, 0.042, 0.168, 0.042, 0.018, 0.048, 0.192]
    np.testing.assert_allclose([joint[z] for z in np.ndindex(2, 2, 2)], stated, rtol=1e-12)


PERMUTED = [P, P[[3, 0, 1, 2]], P[[2, 3, 0, 1]]]


def test_after_each_number_of_acceptances_the_right_row_is_drawn_from():
    target_probs, draft_probs = np.stack(PERMUTED), np.stack([Q, Q[[1, 2, 3, 0]]])
    for drafts in np.ndindex(4, 4):
        for accepted in range(3):
            dice = ScriptedDice([2], [True] * accepted + [False] * (accepted < 2))
            verdict = TOKEN(target_probs, Proposal(np.array(drafts), draft_probs), dice)
            assert verdict == Verdict(tuple(range(accepted)), 2, min(accepted + 1, 2))
            row = target_probs[accepted]
            law = row if accepted == 2 else residual(row, draft_probs[accepted])
            np.testing.assert_array_equal(dice.laws, [law])
            ratios = [target_probs[i, x] / draft_probs[i, x] for i, x in enumerate(drafts)]
            assert dice.coins == [min(1, r) for r in ratios[: accepted + 1]]


def test_certain_drafts_are_accepted_with_the_targets_probability():
    dice = ScriptedDice([0], [True, False])
    verdict = TOKEN(np.stack(PERMUTED), Proposal(np.array([1, 2])), dice)
    assert verdict == Verdict((0,), 0, 2)
    assert dice.coins == [0.25, 0.25]
    np.testing.assert_allclose(dice.laws, [[0.1 / 0.75, 0.5 / 0.75, 0, 0.15 / 0.75]])
    explicit = ScriptedDice([0], [True, False])
    assert TOKEN(np.stack(PERMUTED), Proposal(np.array([1, 2]), np.eye(4)[[1, 2]]), explicit)
    assert explicit.coins == dice.coins


def test_c2_at_temperature_0_only_the_targets_argmax_is_accepted():
    target = np.array([[0, 1.0, 0], [0, 1, 0]])
    for draft in range(3):
        emitted = round_law("token", target, np.eye(3)[[draft]])
        assert emitted == ({(1, 1): 1} if draft == 1 else {(1,): 1})
    p, q = np.array([0.3, 0.5, 0.2]), np.array([0.2, 0.1, 0.7])
    assert min(1, p[0] / q[0]) == 1, "the fault: the unsharpened ratio 1.5 accepts a"


counts = st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any)


def fractions(rows):
    return np.array([[Fraction(n, sum(row)) for n in row] for row in rows], dtype=object)


@given(st.lists(counts, min_size=3, max_size=3), st.lists(counts, min_size=2, max_size=2))
def test_in_fractions_the_law_is_exactly_the_targets(target, draft):
    target_probs, draft_probs = fractions(target), fractions(draft)
    for name in LOSSLESS:
        emitted = round_law(name, target_probs, draft_probs)
        completed = {}
        for tokens, mass in emitted.items():
            for rest in np.ndindex(*[3] * (3 - len(tokens))):
                tail = mass
                for i, token in enumerate(rest, len(tokens)):
                    tail = tail * target_probs[i, token]
                whole = (*tokens, *rest)
                completed[whole] = completed.get(whole, 0) + tail
        wanted = {
            z: target_probs[0, z[0]] * target_probs[1, z[1]] * target_probs[2, z[2]]
            for z in np.ndindex(3, 3, 3)
        }
        assert total_variation(completed, wanted) == 0, name
        assert type(sum(emitted.values())) is Fraction


# ---- Edges -------------------------------------------------------------------------------------


def test_n1_a_residual_emptied_by_rounding_falls_back_to_the_target():
    p, q = np.array([0.3, np.nextafter(0.7, 0)]), np.array([0.3, 0.7])
    verdict = TOKEN(
        np.stack([p, p]), Proposal(np.array([1]), q[None]), RandomDice(FixedRng(LAST, 0.5))
    )
    assert verdict == Verdict((), 1, 1)
    gap = np.maximum(p - q, 0)
    with np.errstate(invalid="ignore"):
        assert np.isnan(gap / gap.sum()).all(), "the fault"


def test_n2_a_draft_of_target_probability_0_is_rejected_at_a_draw_of_0():
    p, q = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    proposal = Proposal(np.array([0]), q[None])
    assert TOKEN(np.stack([p, p]), proposal, RandomDice(FixedRng(0.0, 0.0))) == Verdict((), 1, 1)
    u = 0.0
    assert u <= p[0] / q[0], "the fault: u <= ratio"


def test_n6_a_tiny_draft_probability_keeps_its_ratio():
    p, q = np.array([1 - 1e-9, 1e-9]), np.array([1 - 1e-8, 1e-8])
    dice = ScriptedDice([0], [True])
    TOKEN(np.stack([p, p]), Proposal(np.array([1]), q[None]), dice)
    assert dice.coins[0] == pytest.approx(0.1)
    assert np.float16(q[1]) == 0, "the fault: in float16 the ratio is infinite"


def test_a_draft_that_its_own_law_excludes_is_an_error():
    proposal = Proposal(np.array([2, 1]), np.array([[0.5, 0, 0.5], [1.0, 0, 0]]))
    with pytest.raises(ValueError, match=r"draft_probs gives its own draft 1 probability 0"):
        TOKEN(np.full((3, 3), 1 / 3), proposal, ScriptedDice([0], [True, True]))


def test_a_chain_rule_refuses_a_tree():
    tree = Proposal(np.array([0, 1]), np.stack([Q, Q]), np.array([-1, -1]))
    with pytest.raises(ValueError, match="parents"):
        TOKEN(np.stack([P, P, P]), tree, ScriptedDice())


class Tensor:
    """As one with a single element."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return int(self.value)


def pair(kind, p, q, drafts, dice):
    return list(map(kind, right(p, q, drafts, dice)))


def verdict(kind, p, proposal, dice):
    if proposal.probs is None:
        return chain_rule(right)(p, proposal, dice)
    accepted, token = right(p, proposal.probs, proposal.tokens, dice)
    tested = min(accepted + 1, len(proposal))
    return Verdict(list(map(kind, range(accepted))), kind(token), kind(tested))


@pytest.mark.parametrize("kind", [int, np.int8, np.uint64, np.array, Tensor])
@pytest.mark.parametrize("answer", [pair, verdict])
def test_what_a_rule_may_return_is_the_same_everywhere(answer, kind):
    """Lists, and whole numbers of any library: in the audit, the proof, the check and the loop."""
    given = partial(answer, kind)
    rule = chain_rule(given) if answer is pair else given
    assert all(found.exact for found in examine(Watch(as_user_rule(given, "it")), [1], vocab=2))
    assert certify.rule(rule, 2, 1).holds
    assert_lossless(rule)
    models = context_free(P), context_free(Q)
    run, same = (
        speculative_generate(*models, [0], 20, 2, rng=np.random.default_rng(0), rule=one)
        for one in (rule, "token")
    )
    assert run.tokens.tolist() == same.tokens.tolist()
    assert run.rounds == same.rounds


def test_rules_by_name_object_or_function():
    assert as_rule("token") is TOKEN
    assert as_rule(TOKEN) is TOKEN

    def mine(target_probs, proposal, dice):
        return Verdict((), 0, 1)

    assert as_rule(mine) is mine
    for bad in ("tokne", None, 3):
        with pytest.raises(ValueError, match=f"rule={bad!r}.*token"):
            as_rule(bad)


# ---- FIX-B and the lossy mixture, for whatever rules the table holds ---------------------------


FIX_B = [0.343, 0.147, 0.042, 0.168, 0.042, 0.018, 0.048, 0.192]


def joint_of_three(rule):
    """Joint law (8,) of three tokens: a round of two drafts, then the target's own law."""
    emitted = round_law(
        rule,
        lambda prefix: CHAIN_P[prefix[-1] if prefix else 0],
        lambda prefix: CHAIN_Q[prefix[-1] if prefix else 0],
        gamma=2,
    )
    joint = np.zeros((2, 2, 2))
    for tokens, probability in emitted.items():
        for rest in np.ndindex(*[2] * (3 - len(tokens))):
            whole = (*tokens, *rest)
            follows = [CHAIN_P[whole[i - 1], whole[i]] for i in range(len(tokens), 3)]
            joint[whole] += probability * np.prod(follows)
    return joint.ravel()


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.lossless])
def test_d13_every_rule_called_lossless_keeps_the_joint_law_of_fix_b(name):
    np.testing.assert_allclose(joint_of_three(name), FIX_B, rtol=1e-12)


def test_d13_a_block_decided_by_each_tokens_own_coin_does_not():
    """The fault: all coins are thrown, each with min(1, p / q), and the last head ends the kept
    block, whatever came before it."""

    def last_head(target_probs, draft_probs, drafts, dice):
        accepted = 0
        for i, x in enumerate(drafts):
            if dice.accept(min(1, target_probs[i, x] / draft_probs[i, x])):
                accepted = i + 1
        if accepted == len(drafts):
            return accepted, dice.choose(target_probs[-1])
        return accepted, dice.choose(residual(target_probs[accepted], draft_probs[accepted]))

    wrong = joint_of_three(chain_rule(last_head))
    assert wrong.sum() == pytest.approx(1, rel=1e-12)
    assert np.abs(wrong - FIX_B).sum() / 2 > 0.05


def test_d15_what_runs_unasked_is_lossless():
    for run in (speculate, speculative_generate, generate_many):
        assert RULES[signature(run).parameters["rule"].default].lossless


def test_d15_a_lossy_mixture_does_not_pass_for_lossless():
    """Verification against half target, half draft: the law that it gives, and that it is refused
    by the check that every lossless rule passes."""

    def mixture(target_probs, draft_probs, drafts, dice):
        mixed = target_probs.copy()
        mixed[:-1] = (target_probs[:-1] + draft_probs) / 2
        return token_rule(mixed, draft_probs, drafts, dice)

    rule = chain_rule(mixture)
    np.testing.assert_allclose(first_token(rule), [0.375, 0.35, 0.10, 0.175], rtol=1e-12)
    assert accept_rate(rule) > accept_rate("token"), "more is accepted, which is no merit"
    with pytest.raises(AssertionError, match="not lossless"):
        assert_lossless(rule)


@pytest.mark.parametrize(
    ("name", "distance"), [("d7_ratio_to_the_maximum", 799), ("d3_resampled_from_p", 1383)]
)
def test_m18_how_far_a_fault_is_from_the_target_at_20_000_draws(name, distance):
    """The non-centrality of χ²: N Σ (law - p)² / p. Both are far beyond any critical value."""
    assert 20_000 * ((law_of(name) - P) ** 2 / P).sum() == pytest.approx(distance, abs=1)
