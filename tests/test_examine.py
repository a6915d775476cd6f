"""The cases: laws by hand, shipped rules against their closed forms, and what each case sees."""

import functools
import re

import pytest
from models import P, Q
from rules import FAULTS, right

from lab import examine as module
from lab.exact import EXACT
from lab.examine import examine
from lab.userrule import as_user_rule, load
from lab.verify import RULES, chain_rule
from lab.watch import Watch

CASES = [
    "random laws", "draft = target", "laws far apart", "target at T = 0", "certain drafts",
    "loop", "loop, stop token", "loop, context end", "loop, lookup",
]  # fmt: skip
RESAMPLED = chain_rule(FAULTS["d3_resampled_from_p"])
SLOW_SIZES = [(5, 1), (2, 3), (2, 5), (3, 3), (3, 4), (4, 2), (21, 1)]


@functools.cache
def examined(rule, gammas=(1,), **options):
    user = load(rule) if isinstance(rule, str) else as_user_rule(rule, "it")
    return examine(Watch(user), gammas, **options)


def by_case(rule, gammas=(1,), **options):
    return {found.case: found for found in examined(rule, gammas, **options)}


def test_a_round_by_hand():
    """FIX-A, rejections resampled from p: the first token has min(p, q) + (1 - β) p, β = .65."""
    found, tokens = module._round([(lambda prefix: P, lambda prefix: Q)], 1, RESAMPLED)
    assert found.total_variation == pytest.approx(0.1225, abs=1e-15)
    assert found.prefix == (0,)
    assert (found.p_law, found.p_reference) == (pytest.approx(0.425), pytest.approx(0.5))
    assert tokens == pytest.approx((1.65, 1.65, 1.65))


def test_of_several_sets_the_worst_is_told_and_tokens_are_the_mean():
    def fixed(law):
        return lambda prefix: law

    sets = [(fixed(P), fixed(P)), (fixed(P), fixed(Q)), (fixed(Q), fixed(Q))]
    found, tokens = module._round(sets, 1, RESAMPLED)
    assert found.total_variation == pytest.approx(0.1225, abs=1e-15)
    assert tokens[0] == pytest.approx((2 + 1.65 + 2) / 3)


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
        off = one.difference
        if one.exact:
            assert off.prefix is None
        else:
            assert abs(off.p_law - off.p_reference) > EXACT
            assert off.total_variation >= abs(off.p_law - off.p_reference) - 1e-15


def test_block_is_better_than_token_in_the_cases():
    found = by_case("block", (2,))
    better = {case for case, one in found.items() if one.tokens > one.token_tokens + 1e-9}
    assert better >= {"random laws", "loop", "loop, stop token", "loop, context end"}


def test_a_draft_that_is_the_target_is_always_kept():
    found = by_case("token", (2,))["draft = target"]
    assert found.tokens == pytest.approx(3, abs=1e-12)


def wrong_where_p_is_zero(p, q, drafts, dice):
    if (p[0] == 0).any() and p[0].max() < 1:
        return 0, dice.choose(q[0])
    return right(p, q, drafts, dice)


def wrong_with_fewer_drafts_than_two(p, q, drafts, dice):
    return right(p, q, drafts, dice) if len(drafts) > 1 else (0, dice.choose(q[0]))


SEEN_IN = {
    "d3_resampled_from_p": {"random laws", "laws far apart", "certain drafts", "loop, lookup"},
    "bonus_from_the_row_before": {"random laws", "draft = target", "loop", "loop, lookup"},
    "residual_spread_evenly": {"random laws", "certain drafts"},
    "d2_softmax_of_the_gap": {"random laws", "laws far apart", "certain drafts"},
}


def wrong_in(rule, *gammas):
    return {case for case, one in by_case(rule, *gammas).items() if not one.exact}


@pytest.mark.parametrize("name", SEEN_IN)
def test_wrong_rules_are_seen(name):
    assert wrong_in(FAULTS[name]) >= SEEN_IN[name]


def test_a_rule_that_is_wrong_where_p_is_zero_is_seen_in_laws_far_apart():
    assert "laws far apart" in wrong_in(wrong_where_p_is_zero)


def test_at_temperature_0_any_residual_is_right():
    """A certain target rejects only drafts it never emits, and the residual is itself."""
    for name in ("d3_resampled_from_p", "residual_spread_evenly"):
        assert by_case(FAULTS[name])["target at T = 0"].exact


def test_the_loop_sees_rounds_shorter_than_gamma():
    """Near its limits the loop asks for fewer drafts; a round by itself never does."""
    wrong = wrong_in(wrong_with_fewer_drafts_than_two, (2,))
    assert wrong
    assert all(case.startswith("loop") for case in wrong)


def test_every_prefix_and_set_has_a_law_of_its_own():
    """Seeds that differ by trailing zeros only are the same to NumPy."""
    pairs, _ = module._rounds(2, 3, seed=0)["random laws"].args
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
    with pytest.raises(ValueError, match="10000 texts of a round, more than 1500: take a smaller"):
        examined("token", vocab=100)
    for seed in (-1, 2**63):
        with pytest.raises(ValueError, match=f"seed={seed} must be a whole number"):
            examined("token", seed=seed)
