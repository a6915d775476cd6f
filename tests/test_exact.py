"""The enumeration itself, on laws worked out by hand; and the small models."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from models import CHAIN_P, CHAIN_Q, FIX_C, GREEDY, PROMPT, P, Q, context_free
from rules import FAULTS, right

from lab.decode import Generation, speculative_generate
from lab.exact import (
    HashLM,
    TableLM,
    assert_lossless,
    audit,
    completed,
    difference,
    output_law,
    plain_law,
    prefix_law,
    prefix_masses,
    round_difference,
    round_law,
    total_variation,
)
from lab.sampling import Sampling, residual
from lab.theory import acceptance, expected_tokens
from lab.verify import RULES, Verdict, chain_rule

HALF = np.array([0.5, 0.5])


# ---- Every branch ------------------------------------------------------------------------------


def test_output_law_by_hand():
    def run(dice):
        first = dice.choose(np.array([0.25, 0, 0.75]))
        if first == 0:
            return (first,)
        return first, int(dice.accept(0.2)), dice.choose(HALF)

    law = output_law(run)
    assert law == pytest.approx(
        {(0,): 0.25, (2, 1, 0): 0.075, (2, 1, 1): 0.075, (2, 0, 0): 0.3, (2, 0, 1): 0.3}
    )


def test_different_ways_to_the_same_tokens_add_up():
    law = output_law(lambda dice: (dice.choose(HALF) + dice.choose(HALF),))
    assert law == {(0,): 0.25, (1,): 0.5, (2,): 0.25}


def test_branches_of_probability_0_are_never_taken():
    def run(dice):
        assert dice.accept(1.0)
        assert not dice.accept(0.0)
        assert dice.choose(np.array([0, 1.0, 0])) == 1
        return ()

    assert output_law(run) == {(): 1}


def test_a_run_without_questions_is_certain():
    assert output_law(lambda dice: [3, 4]) == {(3, 4): 1}


def test_a_generation_counts_by_its_tokens():
    law = output_law(
        lambda dice: speculative_generate(context_free(HALF), None, [0], 1, 0, rng=dice)
    )
    assert law == {(0,): 0.5, (1,): 0.5}
    assert all(type(token) is int for tokens in law for token in tokens)


def test_laws_in_fractions_are_exact():
    third = np.array([Fraction(1, 3), Fraction(2, 3)], dtype=object)
    law = output_law(lambda dice: (dice.choose(third), int(dice.accept(Fraction(1, 7)))))
    assert law[1, 0] == Fraction(4, 7)
    assert sum(law.values()) == 1


def test_laws_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"0\.9"):
        output_law(lambda dice: (dice.choose(np.array([0.5, 0.4])),))
    with pytest.raises(ValueError, match=r"probability=1\.5"):
        output_law(lambda dice: (dice.accept(1.5),))
    with pytest.raises(ValueError, match="probs"):
        output_law(lambda dice: (dice.choose(np.zeros(3)),))


@pytest.mark.parametrize("value", ["0.5", 0.5 + 0j, None, np.array([0.5]), [0.5], float("nan")])
def test_a_coin_is_one_real_number(value):
    with pytest.raises(ValueError, match=r"probability=.* must be one number within 0\.\.1"):
        output_law(lambda dice: [int(dice.accept(value))])


@pytest.mark.parametrize("probs", [HALF + 0j, ["0.5", "0.5"], [[0.5, 0.5]], 1.0])
def test_a_law_is_a_row_of_real_numbers(probs):
    with pytest.raises(ValueError, match=r"probs must be one law \(V,\) of real numbers"):
        output_law(lambda dice: [dice.choose(probs)])


def test_floats_of_few_digits_make_laws_all_the_same():
    """A law as RandomDice draws from it, and a coin whose sides add up to one."""
    thirds = np.array([0.3, 0.3, 0.4], np.float32)
    law = output_law(lambda dice: (dice.choose(thirds), int(dice.accept(np.float32(0.1)))))
    assert sum(law.values()) == pytest.approx(1, abs=1e-15)
    assert law[2, 1] == pytest.approx(0.4 * float(np.float32(0.1)), abs=1e-7)
    assert all(type(p) is float for p in law.values())


def test_too_many_branches_are_refused():
    with pytest.raises(ValueError, match="max_leaves=100"):
        output_law(lambda dice: [dice.choose(HALF) for _ in range(10)], max_leaves=100)
    law = output_law(lambda dice: [dice.choose(HALF) for _ in range(10)], max_leaves=1024)
    assert len(law) == 1024


# ---- The law that must come out ----------------------------------------------------------------


def test_plain_law_of_fix_b():
    law = plain_law(TableLM.of_probs(CHAIN_P), [0], 3)
    stated = [0.343, 0.147, 0.042, 0.168, 0.042, 0.018, 0.048, 0.192]
    np.testing.assert_allclose([law[z] for z in np.ndindex(2, 2, 2)], stated, rtol=1e-12)


def test_plain_law_with_a_stop_token_and_limits():
    target = TableLM.of_probs(CHAIN_P)
    law = plain_law(target, [0], 2, stop=[1])
    assert law == pytest.approx({(1,): 0.3, (0, 0): 0.49, (0, 1): 0.21})
    assert plain_law(target, [0], 0) == {(): 1}
    target = TableLM.of_probs(CHAIN_P, max_len=3)
    assert plain_law(target, [0, 1], 9) == pytest.approx({(0,): 0.2, (1,): 0.8})
    assert plain_law(target, [0, 1, 0], 9) == {(): 1}


def test_plain_law_with_settings():
    law = plain_law(context_free([0.3, 0.5, 0.2]), [0], 1, Sampling(0.5, top_k=2))
    assert law == pytest.approx({(0,): 9 / 34, (1,): 25 / 34})
    assert plain_law(HashLM(), PROMPT, 14, GREEDY) == {tuple(FIX_C): 1}
    penalised = plain_law(context_free([0.4, 0.4, 0.2]), [2], 1, Sampling(repetition_penalty=2))
    assert penalised == pytest.approx({(0,): 0.4 / 0.84, (1,): 0.4 / 0.84, (2,): 0.04 / 0.84})


def test_total_variation_by_hand():
    assert total_variation({"a": 0.5, "b": 0.5}, {"a": 0.2, "c": 0.8}) == pytest.approx(0.8)
    assert total_variation({}, {}) == 0


def test_the_difference_of_two_laws_by_hand():
    reference = {(0,): 0.25, (1, 0): 0.5, (1, 1): 0.25}
    found = difference({(0,): 0.25, (1, 0): 0.375, (1, 1): 0.375}, reference)
    assert found.prefix == (1, 0)
    assert found[::2] == pytest.approx((0.125, 0.5))
    assert found.p_law == pytest.approx(0.375)
    assert difference(reference, reference) == (0, None, 1, 1)
    assert difference({(0,): 1 + 1e-13}, {(0,): 1.0}).prefix is None, "rounding is none"


def test_prefixes_by_hand():
    law = {(0, 0): 0.4, (0, 1): 0.1, (1, 0): 0.2, (1, 1): 0.3}
    assert prefix_law(law, 1) == pytest.approx({(0,): 0.5, (1,): 0.5})
    assert prefix_law(law, 2) == law
    assert prefix_law(law, 0) == pytest.approx({(): 1.0})
    assert prefix_masses(law) == pytest.approx({(): 1.0, (0,): 0.5, (1,): 0.5} | law)


def test_what_a_law_leaves_open_is_continued_by_the_target():
    def target(prefix):
        return [Fraction(1, 2)] * 2 if not prefix else [Fraction(prefix[-1] == 0), Fraction(0)]

    half = Fraction(1, 2)
    assert completed({(0,): half, (1, 1): half}, target, 2) == {(0, 0): half, (1, 1): half}
    assert completed({(): 1}, lambda prefix: [half, half], 2) == {
        z: Fraction(1, 4) for z in np.ndindex(2, 2)
    }
    assert completed({(): 1}, target, 0) == {(): 1}
    stopped = completed({(): 1}, lambda prefix: [half, half], 2, stop=[1])
    assert stopped == {(1,): half, (0, 0): Fraction(1, 4), (0, 1): Fraction(1, 4)}


# ---- The law of a round ------------------------------------------------------------------------


def test_round_law_of_fix_a_by_hand():
    law = round_law("token", np.stack([P, P]), Q[None])
    both = np.minimum(P, Q)
    expected = {(x, y): both[x] * P[y] for x in range(4) for y in range(4)}
    expected |= {(x,): 0.35 * r for x, r in enumerate(residual(P, Q)) if r}
    assert law == pytest.approx(expected, rel=1e-12)


def test_round_law_of_arrays_and_of_functions_agree():
    rng = np.random.default_rng([40, 0])
    target, draft = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3), 2)
    by_array = round_law("token", target, draft)
    by_function = round_law("token", lambda z: target[len(z)], lambda z: draft[len(z)], gamma=2)
    assert by_array == pytest.approx(by_function, rel=1e-15)
    assert by_array.keys() == by_function.keys()


def test_round_law_of_functions_reads_the_prefix():
    asked = set()

    def target(prefix):
        asked.add(prefix)
        return CHAIN_P[prefix[-1] if prefix else 0]

    law = round_law("token", target, lambda z: CHAIN_Q[z[-1] if z else 0], gamma=2)
    assert asked == {(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)}
    # accepted 0 (.5) then 1 (.3), bonus after 1
    assert law[0, 1, 1] == pytest.approx(0.5 * 0.3 * 0.8)
    # accepted 0, then 1 proposed and rejected: .5 * (.5 - .3), corrected to 0
    assert law[0, 0] == pytest.approx(0.5 * 0.2)


def test_round_law_without_drafts_is_the_targets():
    law = round_law("token", P[None], np.zeros((0, 4)))
    assert law == pytest.approx({(x,): p for x, p in enumerate(P)})
    assert round_law("token", lambda z: P, lambda z: Q, gamma=0) == law


@pytest.mark.parametrize("change", [lambda law: law.astype(np.float32), lambda law: law + 3e-8])
def test_laws_that_are_off_by_rounding_are_scaled(change):
    """The rule is not blamed, and the text has the law that is then meant."""
    target, draft = change(np.array([P, Q, P])), change(np.array([Q, P]))
    law = round_law("token", target, draft)
    assert sum(law.values()) == pytest.approx(1, abs=1e-14)
    for rule in ("token", "block", "match"):
        found = round_difference(
            round_law(rule, target, draft), lambda prefix: target[len(prefix)], 2
        )
        assert found.total_variation < 1e-14


@pytest.mark.parametrize(
    ("laws", "message"),
    [
        ((None, None), "draft_probs=None must be laws by position"),
        ((3, [P]), "target_probs=3 must be laws by position"),
        (([P, P], P), "draft_probs=.* must be laws by position"),
        (([P, P], [HALF]), r"draft_probs after \(\) must be a law \(V=4,\), as the target's is"),
        (([HALF, HALF], [P]), r"draft_probs after \(\) must be a law \(V=2,\)"),
        ((lambda z: [P], lambda z: [P]), r"target_probs after \(\) must be a law \(V,\)"),
        (([P], [Q]), "target_probs has 1 rows"),
        (([P, P], [Q * 2]), "draft_probs"),
    ],
)
def test_round_law_says_which_laws_are_none(laws, message):
    with pytest.raises(ValueError, match=message):
        round_law("token", *laws)


def test_round_law_in_fractions():
    p = np.array([Fraction(n, 20) for n in (10, 5, 3, 2)], dtype=object)
    q = np.array([Fraction(n, 20) for n in (5, 9, 1, 5)], dtype=object)
    law = round_law("token", np.stack([p, p]), q[None])
    assert sum(law.values()) == 1
    assert sum(m for z, m in law.items() if len(z) == 2) == Fraction(13, 20)
    assert law[0,] == Fraction(7, 20) * Fraction(5, 7)
    first = [sum(m for z, m in law.items() if z[0] == x) for x in range(4)]
    assert first == p.tolist()


@pytest.mark.parametrize("gamma", [0, 1, 2, 3])
def test_expected_tokens_of_a_round_are_eq_1(gamma):
    law = round_law("token", np.stack([P] * (gamma + 1)), np.stack([Q] * (gamma + 1))[:gamma])
    mean = sum(len(tokens) * probability for tokens, probability in law.items())
    assert mean == pytest.approx(expected_tokens(acceptance(P, Q), gamma), rel=1e-12)


# ---- Audits ------------------------------------------------------------------------------------


def test_audit_by_hand():
    def run(dice):
        if dice.accept(0.25):
            return (0,)
        return 1, dice.choose(HALF)

    wanted = {(0,): 0.25, (1, 0): 0.5, (1, 1): 0.25}
    found = audit(run, wanted)
    assert found.total_variation == pytest.approx(0.125)
    assert found.first_difference == (1, 0)
    assert (found.p_reference, found.p_run) == pytest.approx((0.5, 0.375))
    assert (found.leaves, found.depth) == (3, 2)
    assert found.expected == {}
    same = audit(run, output_law(run))
    assert (same.total_variation, same.first_difference) == (0, None)
    assert (same.p_reference, same.p_run) == pytest.approx((1, 1))


def test_audit_finds_tokens_that_only_one_law_has():
    found = audit(lambda dice: (0, 1), {(0, 2): 1.0})
    assert (found.total_variation, found.first_difference) == (1, (0, 1))
    assert (found.p_reference, found.p_run) == (0, 1)
    shorter = audit(lambda dice: (0,), {(0, 2): 1.0})
    assert shorter.total_variation == 1
    assert shorter.first_difference == (0, 2)


def test_audits_expectations_against_eq_1():
    """One round of an i.i.d. law where nothing else limits it: alpha and eq. (1), exactly."""
    alpha, gamma = acceptance(P, Q), 2
    target, draft = context_free(P), context_free(Q)

    def run(dice):
        whole = speculative_generate(target, draft, [0], gamma + 1, gamma, rng=dice)
        head = whole.rounds[0]
        return Generation(
            whole.tokens[: head.emitted], "length", (head,), whole.origins[: head.emitted], 1,
            head.drafted,
        )  # fmt: skip

    expected = audit(run, round_law("token", np.stack([P] * 3), np.stack([Q] * 2))).expected
    assert expected["emitted"] == pytest.approx(expected_tokens(alpha, gamma), rel=1e-12)
    assert expected["accepted"] == pytest.approx(alpha + alpha**2, rel=1e-12)
    assert expected["tested"] == pytest.approx(1 + alpha, rel=1e-12)
    assert expected["drafted"] == expected["draft_calls"] == pytest.approx(2)
    assert expected["target_calls"] == pytest.approx(1)
    assert expected["accepted"] / expected["tested"] == pytest.approx(0.65)


# ---- assert_lossless, and rules it must refuse -------------------------------------------------


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize(
    "rule", [*(name for name, rule in RULES.items() if rule.lossless), chain_rule(right)]
)
def test_lossless_rules_pass(rule, gamma):
    assert_lossless(rule, vocab=3 if gamma < 3 else 2, gamma=gamma)


def argmax_correction(p, q):
    return np.eye(len(p))[residual(p, q).argmax()]


ARGMAX_CORRECTION = chain_rule(partial(right, correction=argmax_correction))


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_m18_mutants_are_refused(name, seed):
    with pytest.raises(AssertionError, match="not lossless: total variation"):
        assert_lossless(chain_rule(FAULTS[name]), seed=seed)


def test_m18_an_argmax_correction_is_refused_by_the_default_laws():
    """It shows only where a residual has two tokens or more: the laws must have such rows."""
    with pytest.raises(AssertionError, match="not lossless"):
        assert_lossless(ARGMAX_CORRECTION, vocab=5)
    for seed in range(3):
        with pytest.raises(AssertionError, match="not lossless"):
            assert_lossless(ARGMAX_CORRECTION, seed=seed)


def test_m18_more_than_ten_different_faults_are_refused():
    """The negative controls together, none counted twice; the sound rule passes."""
    rng = np.random.default_rng([18, 0])
    target_rows, draft_rows = rng.dirichlet(np.ones(4), 3), rng.dirichlet(np.ones(4), 2)
    assert_lossless("token")
    distinct = [round_law("token", target_rows, draft_rows)]
    for rule in (*map(chain_rule, FAULTS.values()), ARGMAX_CORRECTION):
        with pytest.raises(AssertionError, match="not lossless"):
            assert_lossless(rule)
        law = round_law(rule, target_rows, draft_rows)
        if all(total_variation(law, other) > 1e-6 for other in distinct):
            distinct.append(law)
    assert len(distinct) - 1 > 10


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda target_probs, proposal, dice: (0, 1), "rule.*Verdict"),
        (lambda target_probs, proposal, dice: Verdict((0, 1, 2), 0, 2), "path"),
        (lambda target_probs, proposal, dice: Verdict((1,), 0, 1), "path"),
        (lambda target_probs, proposal, dice: Verdict((False,), 0, 1), "path"),
        (chain_rule(lambda p, q, drafts, dice: (0, 1.5)), "rule.*token"),
        (chain_rule(lambda p, q, drafts, dice: (-1, 0)), "rule.*accepted"),
        (chain_rule(lambda p, q, drafts, dice: 3), r"accepted, token"),
    ],
)
def test_w8_what_is_no_verdict_is_refused_as_the_loop_does(rule, words):
    with pytest.raises(ValueError, match=words):
        assert_lossless(rule)


def test_assert_lossless_names_its_arguments():
    with pytest.raises(ValueError, match="seed=-1 must be a whole number"):
        assert_lossless("token", seed=-1)


def test_a_rule_with_randomness_of_its_own_is_told_so():
    rng = np.random.default_rng(0)

    def hidden(target_probs, draft_probs, drafts, dice):
        return 0, dice.choose(target_probs[0] if rng.random() < 0.5 else draft_probs[0])

    with pytest.raises(ValueError, match="did not go through the dice"):
        assert_lossless(chain_rule(hidden))


def test_a_rule_of_four_arguments_is_told_how_to_wrap_it():
    with pytest.raises(TypeError) as error:
        assert_lossless(lambda p, q, drafts, dice: (0, 0))
    assert "chain_rule" in " ".join(error.value.__notes__)
