"""Certificates of rules: sound ones hold over all cells, wrong ones are refuted by fractions that
`exact.round_law` confirms, which shares no number and no search with them."""

import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from lab import certify, certify_rule, rule_branches, rule_cells
from lab.certificate import Certificate, Violation
from lab.exact import round_law
from lab.rule_numbers import BITS, Inexact
from lab.sampling import residual
from lab.verify import RULES, Rule, block_rule, chain_rule, lenient, token_rule

SEED = 0


@pytest.fixture
def few_edges(monkeypatch):
    """What is certified is the cells' business here."""
    monkeypatch.setattr(certify_rule, "EDGES", 20)
    monkeypatch.setattr(certify_rule, "UNEVEN", 20)
    monkeypatch.setattr(rule_branches, "SIMPLER", 5)


def variant(
    correction=lambda p, q, i, x: residual(p[i], q[i]),
    bonus=lambda p, q: p[-1],
    coin=lambda p, q, i, x: min(1, p[i][x] / q[i][x]),
):
    """The token rule with one part changed; each part looks at what it needs only."""

    def verify(target_probs, draft_probs, drafts, dice):
        for i, x in enumerate(drafts):
            if not dice.accept(coin(target_probs, draft_probs, i, x)):
                return i, dice.choose(correction(target_probs, draft_probs, i, x))
        return len(drafts), dice.choose(bonus(target_probs, draft_probs))

    return chain_rule(verify)


def evenly(p, q, i, x):
    """Spread over {p > q}."""
    above = p[i] > q[i]
    return np.array([Fraction(int(a), int(above.sum()) or 1) for a in above], object)


def argmax(p, q, i, x):
    law = np.zeros(len(p[i]), object)
    law[np.argmax(p[i])] = 1
    return law


def rare(p, q, i, x):
    """Wrong in one sign pattern of the second draft's laws."""
    wrong = i == 1 and [a < b for a, b in zip(p[1], q[1], strict=True)] == [True, False, True]
    return p[1] if wrong else residual(p[i], q[i])


def tied(p, q, i, x):
    """Wrong where p = q somewhere."""
    return p[i] if any(a == b for a, b in zip(p[i], q[i], strict=True)) else residual(p[i], q[i])


def unsupported(p, q, i, x):
    """Wrong where q leaves a token out."""
    return p[i] if min(q[i]) == 0 else residual(p[i], q[i])


def without_coin(target_probs, draft_probs, drafts, dice):
    """Accepts what is at least as likely under p, else rejects."""
    for i, x in enumerate(drafts):
        if target_probs[i][x] < draft_probs[i][x]:
            return i, dice.choose(residual(target_probs[i], draft_probs[i]))
    return len(drafts), dice.choose(target_probs[len(drafts)])


def block_by_first_failure(target_probs, draft_probs, drafts, dice):
    """Block verification that stops at the first prefix whose coin says no."""
    weight = 1
    for i, x in enumerate(drafts):
        weight = min(1, weight * target_probs[i][x] / draft_probs[i][x])
        gain = np.maximum(
            weight * target_probs[i + 1] - draft_probs[min(i + 1, len(drafts) - 1)], 0
        )
        last = i + 1 == len(drafts)
        lost = 1 - weight
        coin = weight if last else gain.sum() / (gain.sum() + lost) if lost > 0 else 1
        if not dice.accept(coin):
            return i, dice.choose(residual(target_probs[i], draft_probs[i]))
    return len(drafts), dice.choose(target_probs[len(drafts)])


WRONG = {
    "residual from p": variant(lambda p, q, i, x: p[i]),
    "residual late": variant(lambda p, q, i, x: residual(p[i + 1], q[i])),
    "residual early": variant(lambda p, q, i, x: residual(p[max(i - 1, 0)], q[i])),
    "residual evenly": variant(evenly),
    "correction by argmax": variant(argmax),
    "bonus from q": variant(bonus=lambda p, q: q[-1]),
    "bonus from the row before": variant(bonus=lambda p, q: p[-2]),
    "coin always yes": variant(coin=lambda p, q, i, x: 1),
    "no coin": chain_rule(without_coin),
    "ratio upside down": variant(coin=lambda p, q, i, x: min(1, q[i][x] / p[i][x])),
    "coin p": variant(coin=lambda p, q, i, x: p[i][x]),
    "coin of the row before": variant(
        coin=lambda p, q, i, x: min(1, p[max(i - 1, 0)][x] / q[i][x])
    ),
    "wrong in one cell": variant(rare),
    "wrong where p = q": variant(tied),
    "wrong where q is 0": variant(unsupported),
    "block, first failure": chain_rule(block_by_first_failure, whole_block=True),
    "lenient": "lenient",
    "lenient, other residual": lenient(Fraction(1, 2), scaled_residual=False),
}


def confirm(rule, violation, vocab, gamma):
    """The same two numbers from `round_law`; laws that are not given do not matter."""
    uniform = np.array([Fraction(1, vocab)] * vocab, object)

    def law(given):
        return lambda z: np.array(given[z], object) if z in given else uniform

    target, draft = law(violation.target), law(violation.draft)
    text, got = violation.text, Fraction(0)
    for emitted, probability in round_law(rule, target, draft, gamma).items():
        if emitted[: len(text)] == text[: len(emitted)]:
            rest = range(len(emitted), len(text))
            got += probability * math.prod((target(text[:i])[text[i]] for i in rest), start=1)
    due = math.prod(target(text[:i])[text[i]] for i in range(len(text)))
    assert (violation.got, violation.due) == (got, due)
    assert got != due


# ---- Sound rules --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vocab", "gamma", "expected"),
    [
        (2, 1, 2), (2, 2, 8), (2, 3, 128), (3, 1, 6), (4, 1, 14),
        pytest.param(3, 2, 1296, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_token_is_certified_over_all_cells(vocab, gamma, expected, few_edges):
    """2^V - 2 sign patterns at every prefix that has a draft."""
    found = certify.rule("token", vocab, gamma)
    assert found.proved
    assert found.cells == expected
    assert found.points == 2 * (expected + certify_rule.UNEVEN + certify_rule.EDGES)
    assert found.unseen is None
    assert 0 < found.error_bound < 1e-20
    assert any("two points of each cell agreed" in line for line in found.assumptions)
    assert "over the prefixes" in found.subject


@pytest.mark.parametrize(
    ("vocab", "gamma", "expected"),
    [(2, 2, 8), (2, 3, 128), pytest.param(3, 2, 1296, marks=pytest.mark.slow)],
)
def test_a_rule_that_looks_ahead_needs_all_combinations_over_prefixes(
    vocab, gamma, expected, few_edges, monkeypatch
):
    """2^V - 2 sign patterns at every prefix; where these are too many, points anywhere."""

    def looks_ahead(target_probs, draft_probs, drafts, dice):
        return token_rule(target_probs, draft_probs, np.asarray(drafts), dice)

    found = certify.rule(chain_rule(looks_ahead), vocab, gamma)
    assert found.proved
    assert found.cells == expected
    assert "over the prefixes" in found.subject
    monkeypatch.setattr(certify_rule, "TREE_CELLS", expected - 1)
    monkeypatch.setattr(certify_rule, "QUIET", 5)
    found = certify.rule(chain_rule(looks_ahead), vocab, gamma)
    assert found.holds
    assert "points anywhere" in found.subject


@pytest.mark.slow
@pytest.mark.parametrize(("vocab", "gamma", "expected"), [(3, 3, 216), (4, 2, 196)])
def test_token_is_certified_along_each_text(vocab, gamma, expected):
    found = certify.rule("token", vocab, gamma)
    assert found.holds
    assert found.cells == expected
    assert "along each text" in found.subject
    assert found.error_bound < 1e-20


@pytest.mark.parametrize(("vocab", "gamma"), [(2, 1), (3, 2), (4, 2), (12, 1)])
def test_a_rule_that_compares_nothing_has_one_cell(vocab, gamma, few_edges):
    found = certify.rule("match", vocab, gamma)
    assert found.holds
    assert found.cells == 1
    assert "compares nothing" in found.subject
    assert not any("comparisons" in line for line in found.assumptions)


@pytest.mark.parametrize("vocab", [2, 3, 4])
def test_block_with_one_draft_has_the_cells_of_token(vocab, few_edges):
    found = certify.rule("block", vocab, 1)
    assert found.holds
    assert found.cells == 2**vocab - 2


def test_block_is_sampled_and_the_chance_of_an_unseen_cell_is_stated(few_edges):
    found = certify.rule("block", 2, 2)
    assert found.holds
    assert "points anywhere" in found.subject
    assert found.cells > 15
    assert 0 < found.unseen <= 3 / certify_rule.QUIET
    assert found.error_bound < 1e-8
    assert any("do not cancel" in line for line in found.assumptions)
    assert any("half with numbers up to 2^96 apart" in line for line in found.assumptions)


def test_the_estimated_chance_of_an_unseen_cell_is_about_right(monkeypatch):
    """Good-Turing after 20 points beside the new cells in each of 20 more, mean over 12 searches.
    Their standard errors are measured; off by four of them once in 16,000 suites or so."""
    monkeypatch.setattr(certify_rule, "SAMPLED_POINTS", 20)
    gaps = []
    for seed in range(12):
        search = certify_rule.Search("block", 2, 2, seed)
        search.sample()
        new = 0
        for _ in range(20):
            point = search.rounds.play(search._anywhere(search._random_kinds()))
            new += sum(cell not in search.seen for cell in point.cells.items())
        once = sum(count == 1 for count in search.seen.values())
        assert search.unseen == min(1, (once or 3) / 20)
        gaps.append(once / 20 - new / 20)
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / math.sqrt(12)
    assert np.mean(gaps) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("vocab", "gamma"), [(2, 3), (3, 2)])
def test_block_is_certified_where_cells_can_be_met(vocab, gamma):
    found = certify.rule("block", vocab, gamma)
    assert found.holds
    assert found.unseen < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("vocab", "gamma"), [(3, 3), (4, 2), (4, 3)])
def test_block_where_cells_are_many_says_so(vocab, gamma, monkeypatch):
    monkeypatch.setattr(certify_rule, "SAMPLED_LEAVES", 20_000)
    found = certify.rule("block", vocab, gamma)
    assert found.holds
    assert found.unseen > 0.01
    assert found.error_bound < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("vocab", "gamma"), [(2, 2), (2, 3), (3, 3), (4, 3)])
def test_match_is_certified(vocab, gamma):
    found = certify.rule("match", vocab, gamma)
    assert found.holds
    assert found.cells == 1


def test_floats_that_are_exact_do_no_harm(few_edges):
    """1.0 for 1, clip for min, whole rows for one number, a division by 0 that nobody uses."""
    for coin in (
        lambda p, q, i, x: min(1.0, p[i][x] / q[i][x]),
        lambda p, q, i, x: np.clip(p[i][x] / q[i][x], 0, 1),
        lambda p, q, i, x: (p[i] / q[i])[x] if p[i][x] < q[i][x] else 1,
        lambda p, q, i, x: 1 - max(0, 1 - p[i][x] / q[i][x]),
        lambda p, q, i, x: (
            ((p[i] - q[i]) / (p[i] - q[i]).clip(0).sum())[x] * 0 + 1
            if p[i][x] > q[i][x]
            else p[i][x] / q[i][x]
        ),
    ):
        found = certify.rule(variant(coin=coin), 3, 1)
        assert found.holds
        assert found.cells == 6


# ---- Wrong rules --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_are_refuted_by_fractions(name, monkeypatch):
    """With two drafts; with one where all cells pass."""
    monkeypatch.setattr(rule_branches, "SIMPLER", 5)
    gamma = 1 if name in ("wrong where p = q", "wrong where q is 0") else 2
    found = certify.rule(WRONG[name], 3, gamma)
    assert not found.holds
    assert 1 <= len(found.violations) <= 5
    for violation in found.violations:
        confirm(WRONG[name], violation, 3, gamma)
    assert "stopped at the first wrong point" in found.subject


def test_two_tokens_are_blind_to_a_residual_spread_evenly(few_edges):
    assert certify.rule(WRONG["residual evenly"], 2, 2).holds
    assert any("V 2 is blind" in line for line in certify.rule("token", 2, 1).assumptions)
    assert not certify.rule(WRONG["residual evenly"], 3, 1).holds


def test_a_fault_of_one_cell_is_found_there():
    found = certify.rule(WRONG["wrong in one cell"], 3, 2)
    violation = found.violations[0]
    (prefix,) = [z for z in violation.draft if len(z) == 1]
    p, q = violation.target[prefix], violation.draft[prefix]
    assert [a < b for a, b in zip(p, q, strict=True)] == [True, False, True]
    assert found.cells > 1


def test_a_fault_of_edges_is_found_after_all_cells_passed():
    found = certify.rule(WRONG["wrong where p = q"], 3, 1)
    assert found.cells == 6
    p, q = found.violations[0].target[()], found.violations[0].draft[()]
    assert any(a == b for a, b in zip(p, q, strict=True))


def test_counterexamples_are_small():
    for name in ("residual from p", "residual evenly", "no coin"):
        (p, q) = (laws[()] for laws in (
            certify.rule(WRONG[name], 3, 1).violations[0].target,
            certify.rule(WRONG[name], 3, 1).violations[0].draft,
        ))  # fmt: skip
        assert max(x.denominator for x in (*p, *q)) < 50


def test_a_safety_margin_of_1e_10_is_a_fault():
    found = certify.rule(variant(coin=lambda p, q, i, x: min(1, p[i][x] / (q[i][x] + 1e-10))), 3, 1)
    violation = found.violations[0]
    assert 0 < abs(violation.got - violation.due) < 1e-9


def test_a_probability_that_is_lost_is_a_fault():
    found = certify.rule(variant(lambda p, q, i, x: np.maximum(p[i] - q[i], 0)), 2, 1)
    assert not found.holds


def test_a_rule_that_draws_from_no_law_is_refuted_too():
    half = np.array([Fraction(1, 2), Fraction(1, 2)], object)
    for rule in (
        chain_rule(lambda p, q, drafts, dice: (0, 1)),
        chain_rule(lambda p, q, drafts, dice: (0, dice.choose(half))),
        chain_rule(lambda p, q, drafts, dice: (0, int(dice.accept(Fraction(1, 3))))),
    ):
        found = certify.rule(rule, 2, 1)
        assert found.cells == 1
        for violation in found.violations:
            confirm(rule, violation, 2, 1)


# ---- What cannot be certified -------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        "typical",
        variant(coin=lambda p, q, i, x: min(1, math.exp(p[i][x]))),
        variant(lambda p, q, i, x: np.exp(p[i])),
        variant(lambda p, q, i, x: residual(np.asarray(p[i], dtype=np.float64), q[i])),
    ],
)
def test_floats_are_refused_in_plain_words(rule):
    with pytest.raises(Inexact, match=r"^rule=.*a certificate needs exact numbers"):
        certify.rule(rule, 2, 1)


def test_a_rule_with_dice_of_its_own_is_told_so():
    rng = np.random.default_rng(0)
    for coin in (
        lambda p, q, i, x: int(rng.random() < p[i][x] / q[i][x]),
        lambda p, q, i, x: min(1, p[i][x] / q[i][x]) * Fraction(rng.random()),
    ):
        with pytest.raises(ValueError, match="must draw through its dice only"):
            certify.rule(variant(coin=coin), 3, 2)


def test_a_rule_without_cells_is_told_so():
    """It compares binary digits far beyond those that two points close together share."""

    def digits(p, q, i, x):
        rest = p[i][x]
        for _ in range(60):
            rest = rest * 2 - (rest * 2 >= 1)
        return int(rest * 2 < 1)

    with pytest.raises(ValueError, match=r"^rule=verify: at 100 pairs .* must have cells in which"):
        certify.rule(variant(coin=digits), 2, 1)


def test_an_error_names_the_laws_with_small_numbers_and_is_chained():
    with pytest.raises(ValueError, match="it raised IndexError: index 2 is out of bounds") as found:
        certify.rule(variant(lambda p, q, i, x: p[i][len(p[i])]), 2, 2)
    assert isinstance(found.value.__cause__, IndexError)
    text = str(found.value)
    assert "target after nothing: " in text
    assert "draft after nothing: " in text
    assert len(text) < 400
    with pytest.raises(ValueError, match=r"within 0\.\.1"):
        certify.rule(variant(coin=lambda p, q, i, x: p[i][x] / q[i][x]), 2, 1)
    with pytest.raises(ValueError, match="divided by 0"):
        certify.rule(variant(lambda p, q, i, x: p[i] / (p[i][0] - p[i][0])), 2, 1)
    with pytest.raises(ValueError, match=r"probs must be \(V,\)"):
        certify.rule(variant(lambda p, q, i, x: p[i][None]), 2, 1)
    with pytest.raises(ValueError, match="must be \\(accepted, token\\)"):
        certify.rule(chain_rule(lambda *_: 3), 2, 1)


def test_too_many_branches_are_refused(monkeypatch):
    monkeypatch.setattr(rule_branches, "MAX_LEAVES", 10)
    with pytest.raises(
        ValueError, match=r"^rule=token: .* vocab=3, gamma=2: take a smaller vocab or gamma"
    ):
        certify.rule("token", 3, 2)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("token", 1, 1), "vocab=1"),
        (("token", 2.5, 1), "vocab=2.5"),
        (("token", 3, 0), "gamma=0"),
        (("nothing", 3, 1), "rule='nothing'"),
        (("token", 3, 1, -1), "seed=-1"),
    ],
)
def test_bad_input_is_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        certify.rule(*arguments)


@pytest.mark.parametrize("gamma", [9, 99, 2**62])
def test_more_texts_than_can_be_looked_at_are_refused_at_once(gamma):
    with pytest.raises(ValueError, match=rf"vocab=3, gamma={gamma}: there are vocab\^\(gamma"):
        certify.rule("token", 3, gamma)
    with pytest.raises(ValueError, match="more than 20,000: take a smaller vocab or gamma"):
        certify.rule("token", 2**62, 1)


def test_cells_that_would_take_too_many_branches_are_sampled(few_edges, monkeypatch):
    """The branches are foreseen from the first point: no hour is spent before it is known."""
    monkeypatch.setattr(certify_rule, "ALL_LEAVES", 300)
    monkeypatch.setattr(certify_rule, "SAMPLED_LEAVES", 200)
    found = certify.rule("token", 3, 2)
    assert "points anywhere" in found.subject
    assert found.leaves < 3000
    assert found.holds
    assert not found.proved
    assert "\n  not decided: no fault found; " in str(found)


# ---- Thresholds ----------------------------------------------------------------------------------


def floored(threshold):
    """Where the residual has little mass, p."""

    def correction(p, q, i, x):
        gap = np.maximum(p[i] - q[i], 0)
        return gap / gap.sum() if gap.sum() > threshold else p[i]

    return variant(correction)


def clipped(threshold):
    return variant(coin=lambda p, q, i, x: min(1, p[i][x] / max(q[i][x], threshold)))


def sure(threshold):
    return variant(
        coin=lambda p, q, i, x: 1 if 1 - p[i][x] < threshold else min(1, p[i][x] / q[i][x])
    )


@pytest.mark.parametrize("made", [floored, clipped, sure])
@pytest.mark.parametrize(
    "threshold", [Fraction(1, 1000), 1e-6, 1e-10, 1e-30, np.finfo(float).tiny], ids=float
)
def test_thresholds_however_small_are_faults(made, threshold, monkeypatch):
    """Each decides a comparison that the signs of p - q do not, far from where even points lie."""
    monkeypatch.setattr(rule_branches, "SIMPLER", 10)
    found = certify.rule(made(threshold), 3, 1)
    assert not found.holds
    assert "points anywhere" in found.subject
    confirm(made(Fraction(threshold)), found.violations[0], 3, 1)


def test_a_threshold_that_changes_nothing_is_allowed_but_sampled(few_edges):
    """Both ways are right: no sign cell then, yet no fault."""

    def either(target_probs, draft_probs, drafts, dice):
        if target_probs[0][0] < 1e-10:
            return 0, dice.choose(target_probs[0])
        return token_rule(target_probs, draft_probs, drafts, dice)

    found = certify.rule(chain_rule(either), 3, 1)
    assert found.proved
    assert "points anywhere" in found.subject


# ---- Constants -----------------------------------------------------------------------------------


def also(ask):
    """The token rule, after a question whose answer it does not use."""

    def verify(target_probs, draft_probs, drafts, dice):
        ask(dice)
        return token_rule(target_probs, draft_probs, drafts, dice)

    return chain_rule(verify)


@pytest.mark.parametrize(
    "constant",
    [0.3, 1 / 3, np.float32(0.3), np.float16(0.1), np.longdouble(0.3), np.int64(1), np.True_,
     np.array(0.3), np.array([0.3]), Decimal("0.3"), Fraction(1, 3)],
    ids=repr,
)  # fmt: skip
def test_coins_may_be_constants_of_any_kind(constant, few_edges):
    assert certify.rule(also(lambda dice: dice.accept(constant)), 2, 1).proved


@pytest.mark.parametrize(
    "law",
    [[0.1] * 10, np.full(3, 1 / 3), np.array([0.2, 0.3, 0.5], np.float32), (0.5, 0.5),
     [Fraction(1, 3), 1 / 3, 1 / 3], [1], [True, False]],
    ids=repr,
)  # fmt: skip
def test_laws_may_be_constants_of_any_kind(law, few_edges):
    assert certify.rule(also(lambda dice: dice.choose(law)), 2, 1).proved


def test_a_mixture_by_floats_is_one(few_edges):
    """.1 + .9 is 1 up to rounding; the coin says which part."""

    def verify(target_probs, draft_probs, drafts, dice):
        p = target_probs[0]
        if dice.accept(0.1):
            return token_rule(target_probs, draft_probs, drafts, dice)
        return 0, dice.choose(0.7 * p + 0.1 * p + 0.2 * p)

    assert certify.rule(chain_rule(verify), 3, 1).proved
    lost = variant(lambda p, q, i, x: residual(p[i], q[i]) * 0.99)
    assert not certify.rule(lost, 3, 1).holds, "more than rounding"


@pytest.mark.parametrize(
    "answer", ["0.5", None, 1j, np.ones(2) / 2, math.nan, 1.5, -1, Decimal("NaN")]
)
def test_a_probability_that_is_no_number_within_0_and_1_is_told_so(answer):
    with pytest.raises(ValueError, match=r"(must be .*within 0\.\.1|cannot convert NaN)"):
        certify.rule(also(lambda dice: dice.accept(answer)), 2, 1)


@pytest.mark.parametrize("law", ["ab", None, [1j], ["a"], [], [math.nan, 1], [[1]]])
def test_a_law_that_is_none_is_told_so(law):
    with pytest.raises(ValueError, match="probs"):
        certify.rule(also(lambda dice: dice.choose(law)), 2, 1)


# ---- The bound, and what is printed --------------------------------------------------------------


def test_the_error_bound_is_that_of_schwartz_and_zippel(few_edges, monkeypatch):
    """`match`, V 2, γ 1, one cell: each side of a text is a sum of products of laws of degree 2."""
    found = certify.rule("match", 2, 1)
    degree = math.sqrt(found.error_bound) * 2**BITS
    assert degree == pytest.approx(round(degree))
    # z = (x, y): q(x) p(x) p(y) + Σ_{w != x} q(w) p(x) p(y) against p(x) p(y)
    assert round(degree) == 2 * (3 + 3 + 2)
    token = certify.rule("token", 2, 1)
    assert 2 * (2 / 2**BITS) ** 2 < token.error_bound < 2 * (1000 / 2**BITS) ** 2


def test_a_wrong_rule_passes_no_more_often_than_bounded(monkeypatch):
    """With few values for each free number, points on which a wrong rule looks right do occur."""
    monkeypatch.setattr(rule_cells, "BITS", 1)
    monkeypatch.setattr(rule_cells, "SPREAD", 0)
    rule, passed, trials = variant(evenly), 0, 200
    for seed in range(trials):
        search = certify_rule.Search(rule, 3, 1, seed)
        laws = rule_cells.CellLaws(
            3, lambda z: (">><", "===")[len(z)], rule_cells.apart(search.rng, 0)
        )
        passed += search.rounds.enumerated(laws).holds()
    assert 0 < passed < trials, "the two gaps of {p > q} are equal at both points: 1 in 4"
    assert abs(passed / trials - 1 / 4) < 4 * math.sqrt(3 / 16 / trials)


def test_a_certificate_prints_what_it_rests_on():
    text = str(certify.rule("token", 3, 1))
    for part in ("rule token, V 3, γ 1", "holds", "cells             6\n", "assumed: "):
        assert part in text
    assert re.search(r"points +532\n  branches +[\d,]+\n  chance of a miss +\de-\d\d\n", text)
    text = str(certify.rule("lenient", 3, 1))
    assert "DOES NOT HOLD" in text
    assert "assumed" not in text
    assert text.count("target after nothing") == 2
    assert "p against q, token by token: " in text
    three = (Violation("here", {(): (1,)}, {}, (0,), 1, 2),) * 3
    assert str(Certificate(1, 2, 3, three, (), 0.0)).endswith("… and 1 more")


def test_only_a_proof_has_the_headline_of_one():
    three = (Violation("here", {(): (1,)}, {}, (0,), 1, 2),)
    for unseen, found, proved, headline in (
        (None, (), True, "holds"),
        (0.007, (), True, "holds"),
        (0.05, (), True, "holds"),
        (0.16, (), False, "not decided: no fault found; 16% of the cells not seen"),
        (1.0, (), False, "not decided: no fault found; 100% of the cells not seen"),
        (None, three, False, "DOES NOT HOLD"),
        (0.5, three, False, "DOES NOT HOLD"),
    ):
        certificate = Certificate(1, 2, 3, found, (), 0.0, "rule x", unseen)
        assert certificate.proved is proved
        assert certificate.holds is not found or not found
        assert str(certificate).splitlines()[1] == f"  {headline}"


def test_counterexamples_of_edges_and_thresholds_are_short():
    """As short as the threshold allows: 1e-6 and 1e-10 need numbers of 7 and 11 digits."""
    for rule, digits in (
        (WRONG["wrong where p = q"], 3),
        (floored(1e-6), 16),
        (clipped(1e-10), 24),
    ):
        violation = certify.rule(rule, 3, 1).violations[0]
        laws = (*violation.target.values(), *violation.draft.values())
        assert max(len(str(x.denominator)) for law in laws for x in law) <= digits


def test_the_same_seed_gives_the_same_certificate(few_edges):
    assert certify.rule("token", 3, 1, 5) == certify.rule("token", 3, 1, 5)


def test_rules_may_be_objects_and_functions(few_edges):
    assert certify.rule(RULES["token"], 2, 1).subject.startswith("rule token")
    rule = Rule("mine", chain_rule(block_rule), True, "")
    assert certify.rule(rule, 2, 1).subject.startswith("rule mine")
    assert certify.rule(chain_rule(token_rule), 2, 1).subject.startswith("rule token_rule")
