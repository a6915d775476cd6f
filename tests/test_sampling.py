"""Logits to laws against a pure-Python oracle and the reports' numbers; the dice at its edges."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from models import LAST, RESIDUAL, FixedRng, P, Q, SpyRng

from lab.sampling import RandomDice, Sampling, as_dice, residual
from lab.theory import acceptance

weights = st.lists(st.sampled_from([0.0, 0.0, 1e-300, 1e-9, 0.1, 1.0, 3.0]), min_size=1, max_size=8)
laws = weights.filter(lambda w: sum(w) > 0).map(lambda w: np.array(w) / sum(w))
pairs = st.integers(1, 8).flatmap(
    lambda v: st.tuples(*[st.lists(st.integers(0, 6), min_size=v, max_size=v).filter(any)] * 2)
)
rows = st.lists(st.floats(-30, 30).map(lambda x: round(x, 1)), min_size=1, max_size=9)


# ---- The dice ----------------------------------------------------------------------------------


@given(laws, st.sampled_from([0.0, 2**-53, 0.5, LAST]) | st.floats(0, LAST))
@example(np.array([0.0, 1.0, 0.0]), LAST)
@example(np.full(3, 1 / 3), LAST)
@example(np.array([0.1] * 10 + [0.0]), LAST)
def test_n2_no_outcome_of_probability_0_is_ever_drawn(law, u):
    assert law[RandomDice(FixedRng(u)).choose(law)] > 0


def test_n2_a_draw_of_exactly_0():
    law = np.array([0, 0.5, 0.5])
    assert RandomDice(FixedRng(0.0)).choose(law) == 1
    assert np.searchsorted(np.cumsum(law), 0.0, "left") == 0, "the fault this entry is about"
    assert not RandomDice(FixedRng(0.0)).accept(0.0)
    assert RandomDice(FixedRng(LAST)).accept(1.0)


def test_the_interval_of_each_token_is_as_long_as_its_probability():
    u = (np.arange(2000) + 0.5) / 2000
    drawn = [RandomDice(FixedRng(x)).choose(P) for x in u]
    assert np.bincount(drawn).tolist() == [1000, 500, 300, 200]
    assert sum(RandomDice(FixedRng(x)).accept(0.65) for x in u) == 1300


def test_d12_one_uniform_per_question():
    rng = SpyRng()
    dice = RandomDice(rng)
    for n in range(1, 20):
        dice.choose(P) if n % 2 else dice.accept(0.3)
        assert len(rng.drawn) == n


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_n4_laws_of_any_float_type_can_be_drawn_from(dtype):
    rng = np.random.default_rng([4, 0])
    laws = rng.dirichlet(np.ones(300), 200).astype(dtype).astype(np.float64)
    assert np.abs(laws.sum(axis=1) - 1).max() < 0.01
    for law in laws:
        assert law[RandomDice(FixedRng(LAST)).choose(law)] > 0
        assert law[RandomDice(rng).choose(law.astype(dtype))] > 0


def test_n4_numpys_own_choice_refuses_such_laws():
    rng = np.random.default_rng([4, 1])
    weights = np.exp(rng.standard_normal((200, 1000)), dtype=np.float32)
    cast = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float64)
    refused = 0
    for law in cast:
        try:
            rng.choice(1000, p=law)
        except ValueError:
            refused += 1
    assert refused > 100, "else this entry would have nothing to test"


def test_draws_of_a_generator_follow_the_law():
    """χ² with 3 degrees of freedom at 1e-6: it fails falsely once in a million seeds."""
    dice = RandomDice(np.random.default_rng([5, 0]))
    n = 50_000
    counts = np.bincount([dice.choose(P) for _ in range(n)], minlength=4)
    critical = 30.665
    assert ((counts - n * P) ** 2 / (n * P)).sum() < critical
    assert ((counts - n * Q) ** 2 / (n * Q)).sum() > critical


def test_as_dice_wraps_generators_and_keeps_dice():
    dice = RandomDice(np.random.default_rng(0))
    assert as_dice(dice) is dice
    rng = FixedRng(0.6)
    assert as_dice(rng).choose(P) == 1  # anything with random() is a generator
    for bad in (None, 7, np.random.default_rng):
        with pytest.raises(ValueError, match="rng="):
            as_dice(bad)


# ---- Logits to probabilities: an oracle in pure Python -----------------------------------------


def oracle(logits, setting, history):
    """The documented order, token by token, sorting by (-value, index)."""
    x = [float(v) for v in logits]
    for token in set(history):
        r = setting.repetition_penalty
        x[token] = x[token] / r if x[token] > 0 else x[token] * r
    by_rank = sorted(range(len(x)), key=lambda i: (-x[i], i))
    if setting.temperature == 0:
        return [float(i == by_rank[0]) for i in range(len(x))]
    kept = by_rank[: setting.top_k]
    top = x[by_rank[0]]
    w = {i: math.exp((x[i] - top) / setting.temperature) for i in kept}
    total = math.fsum(w.values())
    w = {i: v / total for i, v in w.items()}
    if setting.top_p is not None and setting.top_p < 1:
        before, chosen = 0.0, {}
        for i in kept:
            if before < setting.top_p - 1e-12:
                chosen[i] = w[i]
            before += w[i]
        w = chosen
    if setting.min_p is not None:
        w = {i: v for i, v in w.items() if v >= setting.min_p * max(w.values())}
    total = math.fsum(w.values())
    return [w.get(i, 0.0) / total for i in range(len(x))]


settings_of = st.builds(
    Sampling,
    temperature=st.sampled_from([0, 0.3, 0.7, 1.0, 2.5]),
    top_k=st.none() | st.integers(1, 10),
    top_p=st.none() | st.sampled_from([0.123, 0.517, 0.9137, 1.0]),
    min_p=st.none() | st.sampled_from([0, 0.0511, 0.317, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.7]),
)


@given(rows, settings_of, st.lists(st.integers(0, 50), max_size=5))
@settings(max_examples=300)
def test_laws_by_the_oracle(logits, setting, history):
    history = [token % len(logits) for token in history]
    law = setting.probs(np.array(logits), history)
    assert law.dtype == np.float64
    np.testing.assert_allclose(law, oracle(logits, setting, history), rtol=1e-9, atol=1e-15)


@given(st.lists(rows, min_size=1, max_size=4), settings_of)
def test_many_rows_are_each_row(some, setting):
    v = min(map(len, some))
    logits = np.array([row[:v] for row in some])
    law = setting.probs(logits)
    assert np.array_equal(law, np.stack([setting.probs(row) for row in logits]))
    assert np.array_equal(setting.probs(logits[:, None]), law[:, None])


def test_c1_temperature():
    law = Sampling(temperature=0.5).probs(np.log([0.3, 0.5, 0.2]))
    np.testing.assert_allclose(law, [9 / 38, 25 / 38, 4 / 38], rtol=1e-14)
    np.testing.assert_allclose(law, [0.2368, 0.6579, 0.1053], atol=5e-5)


def test_c2_temperature_0_is_one_hot():
    law = Sampling(temperature=0).probs(np.log([[0.3, 0.5, 0.2], [0.5, 0.3, 0.2]]))
    assert law.tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(("temperature", "alpha"), [(1, 0.7), (0.5, 0.4187), (0.1, 0.00604)])
def test_c3_a_low_temperature_need_not_raise_alpha(temperature, alpha):
    setting = Sampling(temperature=temperature)
    p, q = setting.probs(np.log([0.3, 0.5, 0.2])), setting.probs(np.log([0.6, 0.2, 0.2]))
    assert acceptance(p, q) == pytest.approx(alpha, rel=1e-3)


def test_c3_it_goes_to_1_only_where_the_argmaxes_agree():
    cold = Sampling(temperature=0.005)
    p = cold.probs(np.log([0.3, 0.5, 0.2]))
    assert acceptance(p, cold.probs(np.log([0.25, 0.6, 0.15]))) == pytest.approx(1)
    assert acceptance(p, cold.probs(np.log([0.6, 0.2, 0.2]))) == pytest.approx(0)


@pytest.mark.parametrize(
    ("law", "top_p", "right", "wrong"),
    [
        ([0.5, 0.41, 0.09], 0.9, [0.549, 0.451, 0], [1, 0, 0]),
        ([0.4, 0.3, 0.2, 0.1], 0.8, [0.444, 0.333, 0.222, 0], [0.571, 0.429, 0, 0]),
        ([0.5, 0.3, 0.15, 0.05], 0.6, [0.625, 0.375, 0, 0], [1, 0, 0, 0]),
        ([0.5, 0.3, 0.2], 0.5, [1, 0, 0], [1, 0, 0]),
    ],
)
def test_c5_top_p_keeps_the_token_that_crosses_the_edge(law, top_p, right, wrong):
    law = np.array(law)
    np.testing.assert_allclose(Sampling(top_p=top_p).probs(np.log(law)), right, atol=5e-4)
    kept = law * (np.cumsum(law) <= top_p)  # the fault: mass including the token
    np.testing.assert_allclose(kept / kept.sum(), wrong, atol=5e-4)


def test_c5_order_does_not_matter_to_the_cut():
    law = np.array([0.05, 0.5, 0.15, 0.3])
    kept = Sampling(top_p=0.6).probs(np.log(law))
    np.testing.assert_allclose(kept, [0, 0.625, 0, 0.375], rtol=1e-12)


def test_c6_ties_go_to_the_lower_index():
    np.testing.assert_allclose(
        Sampling(top_p=0.5).probs(np.log([0.4, 0.2, 0.2, 0.2])), [2 / 3, 1 / 3, 0, 0], rtol=1e-12
    )
    logits = np.array([2.0, 1, 1, 1])
    assert np.count_nonzero(Sampling(top_k=2).probs(logits)) == 2
    assert Sampling(top_k=2).probs(logits)[2:].tolist() == [0, 0]
    assert np.count_nonzero(logits >= np.sort(logits)[-2]) == 4, "cutting by value keeps them all"
    assert Sampling(top_k=2).probs(logits[::-1])[[1, 2]].tolist() == [0, 0]


def test_c7_log_probabilities_over_temperature_are_logits_over_temperature():
    """A false alarm worth keeping; the real bug nearby divides probabilities."""
    x = np.array([2, 1.5, 1, 0.5])
    setting = Sampling(temperature=0.5)
    probs = Sampling().probs(x)
    np.testing.assert_allclose(setting.probs(np.log(probs)), setting.probs(x), rtol=1e-14)
    np.testing.assert_allclose(setting.probs(x), [0.6439, 0.2369, 0.0871, 0.0321], atol=5e-5)
    np.testing.assert_allclose(setting.probs(probs), [0.363, 0.254, 0.204, 0.179], atol=5e-4)


def test_c8_repetition_penalty_by_hand():
    law = Sampling(repetition_penalty=2).probs(np.array([2.0, -1.0, 0.5, 1.0]), [0, 1, 0, 0])
    weights = np.exp([1.0, -2.0, 0.5, 1.0])  # divided, multiplied, untouched; once however often
    np.testing.assert_allclose(law, weights / weights.sum(), rtol=1e-14)


def test_filters_in_the_documented_order():
    logits = np.log([0.4, 0.3, 0.2, 0.1])
    # top-k first: of (4, 3, 2)/9 the first two have .444 and .778 before the third
    law = Sampling(top_k=3, top_p=0.75).probs(logits)
    np.testing.assert_allclose(law, [4 / 7, 3 / 7, 0, 0], rtol=1e-12)
    # top-p first would keep three: .7 < .75
    # temperature first: the squares are 16, 9, 4, 1, and .3 of the largest is 4.8
    law = Sampling(temperature=0.5, min_p=0.3).probs(logits)
    np.testing.assert_allclose(law, [16 / 25, 9 / 25, 0, 0], rtol=1e-12)
    # penalty before all: 0.4 falls behind
    law = Sampling(top_k=1, repetition_penalty=2).probs(logits - logits[3] + 0.1, [0, 1])
    assert law.tolist() == [0, 0, 1, 0]


def test_settings_that_filter_nothing():
    logits = np.random.default_rng([6, 0]).standard_normal((3, 7))
    plain = Sampling().probs(logits)
    for off in (Sampling(top_k=7), Sampling(top_k=99), Sampling(top_p=1.0), Sampling(min_p=0.0)):
        np.testing.assert_allclose(off.probs(logits), plain, rtol=1e-15)
    np.testing.assert_array_equal(Sampling(repetition_penalty=1.5).probs(logits, ()), plain)


def test_a_logit_of_minus_infinity_is_probability_0():
    logits = np.array([1.0, -np.inf, 0.0])
    for setting in (
        Sampling(), Sampling(temperature=0.1), Sampling(top_k=3), Sampling(top_p=0.999999),
        Sampling(min_p=0.01), Sampling(repetition_penalty=1.5), Sampling(repetition_penalty=0.5),
    ):  # fmt: skip
        law = setting.probs(logits, [0, 1, 2])
        assert law[1] == 0
        assert law.sum() == pytest.approx(1, abs=1e-15)


def test_n5_extreme_logits_and_temperatures():
    x = np.array([2.0, 1, 0])
    assert Sampling(temperature=1e-308).probs(x).tolist() == [1, 0, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = x / 1e-308
        assert np.isnan(np.exp(scaled - scaled.max())).any(), "division before centring"
    law = Sampling().probs(np.array([1000.0, 999, 0]))
    np.testing.assert_allclose(law, [0.7311, 0.2689, 0], atol=5e-5)
    assert Sampling(temperature=1e308).probs(x) == pytest.approx(1 / 3)


def test_n5_logits_at_the_ends_of_float64():
    assert Sampling().probs(np.array([1e308, -1e308])).tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_n6_laws_are_float64_whatever_the_logits_are(dtype):
    law = Sampling().probs(np.array([0, -18.4], dtype))  # e^-18.4 = 1e-8 is 0 in float16
    assert law.dtype == np.float64
    assert law[1] == pytest.approx(1e-8, rel=0.05)
    assert np.float16(law[1]) == 0


def test_n9_ties_at_temperature_0_go_to_the_first_index():
    assert Sampling(temperature=0).probs(np.array([1.0, 3, 3])).tolist() == [0, 1, 0]
    assert np.argsort([1.0, 3, 3])[-1] == 2, "the fault: last of an ascending sort"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0, 1])
def test_n10_nan_and_infinite_logits_are_refused(bad, temperature):
    assert np.argmax([0, np.nan, 5]) == 1, "NaN would win silently"
    for logits in ([0, bad, 5], [[0, 1, 5], [0, bad, 5]]):
        with pytest.raises(ValueError, match=f"logits.*{bad}"):
            Sampling(temperature=temperature).probs(np.array(logits))


def test_a_row_of_minus_infinity_is_refused():
    with pytest.raises(ValueError, match=r"logits.*-inf"):
        Sampling().probs(np.array([[0.0, 1], [-np.inf, -np.inf]]))


def test_d10_logits_are_not_written_to():
    logits = np.random.default_rng([7, 0]).standard_normal((4, 6))
    before = logits.copy()
    logits.flags.writeable = False
    for setting in (
        Sampling(0), Sampling(0.5), Sampling(top_k=2), Sampling(0.7, 4, 0.8, 0.1, 1.3),
    ):  # fmt: skip
        setting.probs(logits, [0, 1])
        assert np.array_equal(logits, before)


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        Sampling().temperature = 2  # type: ignore[misc]
    assert Sampling(0.5) == Sampling(temperature=0.5)


# ---- The residual ------------------------------------------------------------------------------


def test_d2_residual_of_fix_a():
    np.testing.assert_allclose(residual(P, Q), RESIDUAL, rtol=1e-14)
    assert (residual(P, Q)[P <= Q] == 0).all()
    clamped = np.exp(np.maximum(P - Q, 0))
    assert (clamped[P <= Q] / clamped.sum() > 0.2).all(), "the fault: a softmax of the clamp"


def test_d16_swapped_arguments_show():
    np.testing.assert_allclose(residual(target_probs=P, draft_probs=Q)[0], 5 / 7)
    np.testing.assert_allclose(residual(Q, P), [0, 4 / 7, 0, 3 / 7], rtol=1e-14)


def test_d10_residual_leaves_its_inputs_alone():
    p, one_hot = P.copy(), np.array([0, 1.0, 0, 0])
    first = residual(p, one_hot)
    np.testing.assert_array_equal(residual(p, one_hot), first)
    np.testing.assert_allclose(first, [2 / 3, 0, 0.2, 2 / 15], rtol=1e-14)
    assert np.array_equal(p, P)
    same = residual(p, p)
    same[0] = 9  # a copy, not the target's own row
    assert np.array_equal(p, P)


def test_n1_an_empty_residual_is_the_target():
    p, q = np.array([0.3, np.nextafter(0.7, 0)]), np.array([0.3, 0.7])
    assert np.maximum(p - q, 0).sum() == 0
    assert np.array_equal(residual(p, q), p)
    assert np.array_equal(residual(P, P), P)


@given(pairs)
def test_accepted_and_replaced_mass_make_the_target_exactly(pair):
    p, q = (np.array([Fraction(n, sum(counts)) for n in counts]) for counts in pair)
    beta = np.minimum(p, q).sum()
    law = np.minimum(p, q) + (1 - beta) * residual(p, q)
    assert (law == p).all()
    assert all(type(x) is Fraction for x in residual(p, q))


def test_shapes_that_differ():
    with pytest.raises(ValueError, match=r"target_probs \(4,\).*draft_probs \(3,\)"):
        residual(P, Q[:3])


def test_c8_rows_of_a_block_have_what_was_drafted_before_them():
    """History [0], then 0, 0 and 1 are fed; all logits 1, penalty 2; each token once."""
    setting = Sampling(repetition_penalty=2)
    rows = setting.probs_after(np.ones((3, 3)), [0], np.array([0, 0, 1]))
    for row, seen in zip(rows, ([0], [0], [0, 1]), strict=True):
        weights = np.exp([0.5 if token in seen else 1.0 for token in range(3)])
        np.testing.assert_allclose(row, weights / weights.sum(), rtol=1e-14)
    twice = np.exp([0.25, 1.0, 1.0])  # the fault: the last token is counted again
    assert abs(rows[1, 0] - twice[0] / twice.sum()) > 0.04
    assert abs(rows[2, 1] - rows[0, 1]) > 0.1, "the fault: all rows see the prompt alone"
