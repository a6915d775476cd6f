"""`RandomDice` at every boundary: the one part that enumeration, which replaces it, cannot see.

What it does, exactly. `choose`: with s_i the float64 sums of the law, added one after the other,
and d = u s_last rounded once, the token is the first i with s_i > d; where rounding lifts d to
s_last it is the first i that reaches s_last. `accept`: u < probability. A generator's u are the
multiples of 2^-53 below 1, so the probability of every answer can be counted, by bisection.
"""

from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import LAST, RESIDUAL, FixedRng, P, SpyRng

from lab.sampling import RandomDice

ULP = Fraction(1, 2**53)  # the step of a generator's uniforms
REAL = 151_936  # the vocabulary of a real tokenizer


def dirichlet(vocab, dtype=np.float64):
    return np.random.default_rng([61, vocab]).dirichlet(np.ones(vocab)).astype(dtype)


def spread(probs, ids, vocab=REAL):
    law = np.zeros(vocab)
    law[ids] = probs
    return law


LAWS = {
    "FIX-A": P,
    "residual": RESIDUAL,
    "one token": np.array([1.0]),
    "certain": np.array([0, 0, 1.0, 0]),
    "zeros at the ends and inside": np.array([0, 0.2, 0, 0, 0.3, 0.5, 0, 0]),
    "thirds": np.full(3, 1 / 3),
    "tenths": np.array([0.1] * 10 + [0.0]),
    "tiny in front": np.array([1e-300, 5e-324, 1.0]),
    "tiny behind": np.array([1.0, 1e-300, 0]),
    "tiny inside": np.array([0.5, 1e-17, 2**-53, 0.5 - 2**-53]),
    "float32": dirichlet(300, np.float32),
    "float16": dirichlet(40, np.float16),
    "sum below 1": np.array([0.3, 0.3, 0.3]),
    "sum above 1": np.array([2.0, 0, 1, 1]),
    "sum off by rounding": np.array([0.7, 0.1, 0.1, 0.1 - 2**-40]),
    "a row of many": dirichlet(1000),
}
LARGE = {
    "4 of 151,936": spread([0.4, 0.3, 0.2, 0.1], [0, 77, 100_000, REAL - 1]),
    "all of 151,936": dirichlet(REAL),
}


def sums_of(law):
    """The float64 sums, one addition after the other."""
    return list(accumulate(float(p) for p in law))


def due(sums, u):
    """The token for the uniform u, by exact comparison: see above."""
    draw = float(Fraction(u) * Fraction(sums[-1]))  # rounded once, by Python
    token = bisect_right(sums, draw)
    return token if token < len(sums) else sums.index(sums[-1])


def around(value):
    """A number, its neighbours among the floats, and among a generator's uniforms."""
    step = int(Fraction(value) / ULP)
    near = {value, np.nextafter(value, 0), np.nextafter(value, 2)}
    near |= {float(k * ULP) for k in (step - 1, step, step + 1)}
    return {float(u) for u in near if 0 <= u <= LAST}


def chosen(law, u):
    return RandomDice(FixedRng(u)).choose(law)


# ---- A token -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAWS)
def test_choose_at_every_boundary(name):
    law = LAWS[name]
    sums = sums_of(law)
    uniforms = {0.0, LAST}.union(*(around(s / sums[-1]) for s in sums))
    for u in uniforms:
        token = chosen(law, u)
        assert token == due(sums, u), u
        assert law[token] > 0, u


@pytest.mark.parametrize("name", LARGE)
def test_choose_at_boundaries_of_a_real_vocabulary(name):
    law = LARGE[name]
    sums = sums_of(law)
    picked = [0, 1, 77, REAL // 2, REAL - 2, REAL - 1]
    picked += np.random.default_rng([62, 0]).integers(0, REAL, 60).tolist()
    uniforms = {0.0, LAST}.union(*(around(sums[i] / sums[-1]) for i in picked))
    assert len(uniforms) >= 10
    for u in uniforms:
        token = chosen(law, u)
        assert token == due(sums, u), u
        assert law[token] > 0, u
    if law[0] > 0:
        assert chosen(law, 0.0) == 0
    assert chosen(law, LAST) == REAL - 1


weights = st.lists(
    st.sampled_from([0.0, 0.0, 5e-324, 1e-300, 1e-17, 2**-53, 0.1, 1 / 3, 1.0, 3.0]),
    min_size=1, max_size=9,
).filter(lambda w: sum(w) >= 0.1)  # fmt: skip


@given(weights, st.booleans(), st.data())
def test_choose_on_random_laws(law, scaled, data):
    law = np.array(law) / (sum(law) if scaled else 1)
    sums = sums_of(law)
    edge = data.draw(st.sampled_from(sums)) / sums[-1]
    u = data.draw(st.sampled_from(sorted(around(edge))) | st.floats(0, LAST))
    assert chosen(law, u) == due(sums, u)
    assert law[chosen(law, u)] > 0


def test_a_draw_lifted_to_the_total_takes_the_last_possible_token():
    """A sum so small that u times it rounds up to it: the one way to go past all sums."""
    law = np.array([0, 2e-323, 1.5e-323, 0])
    assert LAST * law.sum() == law.sum(), "else this tests nothing"
    assert chosen(law, LAST) == 2
    assert np.searchsorted(np.cumsum(law), LAST * law.sum(), "right") == 4, "the fault"


def share_below(answer):
    """How many of a generator's uniforms come before `answer(u)` turns true, as a fraction."""
    low, high = 0, 2**53
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if answer(float(middle * ULP)) else (middle + 1, high)
    return low * ULP


def probability_of(law, token):
    """Exact probability that a generator's uniform chooses `token`."""
    past = share_below(lambda u: chosen(law, u) > token)
    return past - share_below(lambda u: chosen(law, u) >= token)


@pytest.mark.parametrize("name", [n for n, law in LAWS.items() if len(law) < 40])
def test_the_probability_of_every_token_is_the_laws(name):
    """Off by the rounding of its sum, of the draw, and of the step of the uniforms at most."""
    law = LAWS[name]
    total = sum(Fraction(float(p)) for p in law)
    found = [probability_of(law, token) for token in range(len(law))]
    assert sum(found) == 1
    for p, probability in zip(law, found, strict=True):
        if p == 0:
            assert probability == 0
        assert abs(probability - Fraction(float(p)) / total) <= 4 * ULP


@pytest.mark.parametrize("name", LARGE)
def test_the_probability_of_tokens_of_a_real_vocabulary(name):
    """As above; and the total, of V rounded additions, scales every token alike."""
    law = LARGE[name]
    total = sum(Fraction(p) for p in law[law > 0])
    for token in (0, 77, 100_000, REAL - 1):
        wanted = Fraction(law[token]) / total
        assert abs(probability_of(law, token) - wanted) <= (4 + wanted * REAL) * ULP
        assert wanted > 100 * ULP, "else this tests nothing"


@pytest.mark.parametrize("law", [[], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [-1.0, 0.5]])
def test_choose_refuses_what_has_no_sum(law):
    with pytest.raises(ValueError, match="probs"):
        chosen(np.array(law), 0.5)


# ---- A coin ------------------------------------------------------------------------------------


COINS = [0.0, 5e-324, 1e-300, 2**-60, 2**-53, 1.5 * 2**-53, 0.1, 1 / 3, 0.5, 0.65, LAST, 1.0]


@pytest.mark.parametrize("probability", COINS)
def test_accept_at_its_boundary(probability):
    def accepted(u):
        return RandomDice(FixedRng(u)).accept(probability)

    for u in {0.0, LAST} | around(probability):
        assert accepted(u) is (Fraction(u) < Fraction(probability))
    if probability <= LAST:
        assert not accepted(probability), "below it, not at it"
    exact = Fraction(probability)
    share = share_below(lambda u: not accepted(u))
    assert exact <= share < exact + ULP, "what is possible happens, and what is certain"


@pytest.mark.parametrize("probability", [1, 0, True, Fraction(1, 3), Fraction(1), np.float64(0.3)])
def test_accept_takes_the_numbers_that_rules_give(probability):
    for u in (0.0, LAST, *around(float(probability))):
        expected = Fraction(u) < Fraction(probability)
        assert RandomDice(FixedRng(u)).accept(probability) is expected


@given(st.floats(0, LAST), st.floats(0, 1))
def test_accept_is_an_exact_comparison(u, probability):
    assert RandomDice(FixedRng(u)).accept(probability) is (Fraction(u) < Fraction(probability))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_n4_accept_reads_a_narrow_probability_in_full(dtype):
    """Comparing a Python float with a float32 rounds it to float32, and 1 - 2^-53 becomes 1."""
    for probability in (dtype(1), dtype(0.1)):
        for u in (0.0, LAST, *around(float(probability))):
            expected = Fraction(u) < Fraction(float(probability))
            assert RandomDice(FixedRng(u)).accept(probability) is expected


# ---- Both --------------------------------------------------------------------------------------


def test_d12_one_uniform_per_question_even_where_the_answer_is_certain():
    rng = SpyRng()
    dice = RandomDice(rng)
    questions = [
        lambda: dice.choose(P), lambda: dice.choose(LAWS["certain"]), lambda: dice.choose([1.0]),
        lambda: dice.choose(LARGE["4 of 151,936"]), lambda: dice.accept(0.5),
        lambda: dice.accept(0.0), lambda: dice.accept(1.0), lambda: dice.accept(1),
    ]  # fmt: skip
    for asked, question in enumerate(questions, 1):
        question()
        assert len(rng.drawn) == asked
    assert len(set(rng.drawn)) == len(questions)


def test_the_dice_calls_nothing_but_random():
    class Only:
        def random(self):
            return 0.25

        def __getattr__(self, name):
            raise AssertionError(f"rng.{name} is asked for")

    dice = RandomDice(Only())
    assert dice.choose(P) == 0
    assert dice.accept(0.3)
    assert not dice.accept(0.25)
