"""The cases: laws by hand, shipped rules against their closed forms, and what each case sees."""

import functools
import re

import numpy as np
import pytest
from broken_rules import right
from models import P, Q

from lab import examine as module
from lab.examine import EXACT, examine
from lab.userrule import as_user_rule, load
from lab.verify import RULES
from lab.watch import Watch

CASES = [
    "random laws", "draft = target", "laws far apart", "target at T = 0", "certain drafts",
    "loop", "loop, stop token", "loop, context end", "loop, lookup",
]  # fmt: skip
SLOW_SIZES = [(5, 1), (2, 3), (2, 5), (3, 3), (3, 4), (4, 2), (21, 1)]


@functools.cache
def examined(rule, gammas=(1,), **options):
    user = load(rule) if isinstance(rule, str) else as_user_rule(rule, "it")
    return examine(Watch(user), gammas, **options)


def by_case(rule, gammas=(1,), **options):
    return {found.case: found for found in examined(rule, gammas, **options)}


def resampled_from_p(p, q, drafts, dice):
    """A rejected draft is replaced by a draw from the target's law, not from the residual."""
    return right(p, q, drafts, dice, residual=lambda left: p[0])


def test_a_round_by_hand():
    """FIX-A, rejections resampled from p: the first token has min(p, q) + (1 - β) p, β = .65."""
    found = module._round(
        as_user_rule(resampled_from_p, "it").verify, "by hand", 1, 4,
        [(lambda prefix: P, lambda prefix: Q)],
    )  # fmt: skip
    assert found.total_variation == pytest.approx(0.1225, abs=1e-15)
    assert (found.prefix, found.vocab, found.gamma) == ((0,), 4, 1)
    assert (found.p_rule, found.p_target) == (pytest.approx(0.425), pytest.approx(0.5))
    assert found.tokens == found.token_tokens == found.block_tokens == pytest.approx(1.65)
    assert not found.exact


def test_of_several_sets_the_worst_is_told_and_tokens_are_the_mean():
    def fixed(law):
        return lambda prefix: law

    found = module._round(
        as_user_rule(resampled_from_p, "it").verify, "by hand", 1, 4,
        [(fixed(P), fixed(P)), (fixed(P), fixed(Q)), (fixed(Q), fixed(Q))],
    )  # fmt: skip
    assert found.total_variation == pytest.approx(0.1225, abs=1e-15)
    assert found.tokens == pytest.approx((2 + 1.65 + 2) / 3)


@pytest.mark.parametrize(
    ("name", "gamma"), [*((name, 1) for name in RULES), ("token", 2), ("block", 2)]
)
def test_shipped_rules(name, gamma):
    """Exact if marked so; token and block emit what their closed forms say, and never differ where
    the loop has them beside themselves."""
    found = examined(name, (gamma,))
    assert [one.case for one in found] == CASES
    assert all(one.exact for one in found) == RULES[name].lossless
    for one in found:
        assert one.token_tokens <= one.block_tokens + 1e-12
        if name in ("token", "block"):
            assert one.tokens == pytest.approx(getattr(one, f"{name}_tokens"), abs=1e-12)
        if name == "match":
            assert one.tokens <= one.token_tokens + 1e-12
        if one.exact:
            assert one.prefix is None
        else:
            assert abs(one.p_rule - one.p_target) > EXACT
            assert one.total_variation >= abs(one.p_rule - one.p_target) - 1e-15


def test_block_is_better_than_token_in_the_cases():
    found = by_case("block", (2,))
    better = {case for case, one in found.items() if one.tokens > one.token_tokens + 1e-9}
    assert better >= {"random laws", "loop", "loop, stop token", "loop, context end"}


def test_a_draft_that_is_the_target_is_always_kept():
    found = by_case("token", (2,))["draft = target"]
    assert found.tokens == pytest.approx(3, abs=1e-12)


def bonus_from_the_row_before(p, q, drafts, dice):
    accepted, token = right(p, q, drafts, dice)
    return (accepted, token) if accepted < len(drafts) else (accepted, dice.choose(p[-2]))


def residual_spread_evenly(p, q, drafts, dice):
    return right(p, q, drafts, dice, residual=lambda left: (left > 0) / (left > 0).sum())


def softmax_of_the_residual(p, q, drafts, dice):
    return right(p, q, drafts, dice, residual=lambda left: np.exp(left) / np.exp(left).sum())


def wrong_where_p_is_zero(p, q, drafts, dice):
    if (p[0] == 0).any() and p[0].max() < 1:
        return 0, dice.choose(q[0])
    return right(p, q, drafts, dice)


def wrong_with_fewer_drafts_than_two(p, q, drafts, dice):
    return right(p, q, drafts, dice) if len(drafts) > 1 else (0, dice.choose(q[0]))


SEEN_IN = {
    resampled_from_p: {"random laws", "laws far apart", "certain drafts", "loop, lookup"},
    bonus_from_the_row_before: {"random laws", "draft = target", "loop", "loop, lookup"},
    residual_spread_evenly: {"random laws", "certain drafts"},
    softmax_of_the_residual: {"random laws", "laws far apart", "certain drafts"},
    wrong_where_p_is_zero: {"laws far apart"},
}


@pytest.mark.parametrize("rule", SEEN_IN, ids=lambda rule: rule.__name__)
def test_wrong_rules_are_seen(rule):
    wrong = {case for case, one in by_case(rule).items() if not one.exact}
    assert wrong >= SEEN_IN[rule]


def test_at_temperature_0_any_residual_is_right():
    """A certain target rejects only drafts it never emits, and the residual is itself."""
    for rule in (resampled_from_p, residual_spread_evenly):
        assert by_case(rule)["target at T = 0"].exact


def test_the_loop_sees_rounds_shorter_than_gamma():
    """Near its limits the loop asks for fewer drafts; a round by itself never does."""
    wrong = {case for case, one in by_case(wrong_with_fewer_drafts_than_two, (2,)).items()
             if not one.exact}  # fmt: skip
    assert wrong
    assert all(case.startswith("loop") for case in wrong)


def test_every_prefix_and_set_has_a_law_of_its_own():
    """Seeds that differ by trailing zeros only are the same to NumPy."""
    (_, measure), *_ = module._rounds(2, 3, seed=0)
    pairs = measure.keywords["sets"]
    prefixes = [(), (0,), (0, 0), (1,), (0, 1)]
    laws = [law(prefix).tobytes() for pair in pairs for law in pair for prefix in prefixes]
    assert len(set(laws)) == len(laws) == module.RANDOM_SETS * len(prefixes)


def test_seeds():
    assert examined("typical", seed=1) != examined("typical")


@pytest.mark.parametrize(
    ("vocab", "gamma"),
    [(2, 1), *(pytest.param(*size, marks=pytest.mark.slow) for size in SLOW_SIZES)],
)
def test_other_sizes(vocab, gamma):
    found = examined("token", (gamma,), vocab=vocab)
    assert all(one.exact for one in found)
    assert {one.vocab for one in found} == {vocab}


def test_bad_sizes():
    with pytest.raises(ValueError, match=r"vocab=1 must be a whole number >= 2"):
        examined("token", vocab=1)
    with pytest.raises(ValueError, match=re.escape("vocab=100 and gamma=2 make 1000000 texts of")):
        examined("token", (1, 2), vocab=100)
