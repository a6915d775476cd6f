"""Correlated acceptance: printed cells, enumeration in fractions, replay, and coins."""

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lab.chains import (
    Chain,
    clustered_limits,
    examined_acceptance,
    hazards,
    long_run,
    round_starts,
    simulate,
    stationary_start,
    sticky_chain,
    tokens_from,
)
from lab.estimate import replay
from lab.stats import family_wise, normal_quantile, t_quantile
from lab.theory import expected_tokens

BETAS = (0.95, 0.55)
GAMMAS = (1, 2, 4, 8, 16)
LONG_RUN = {
    0.0: (1.7500, 2.3125, 3.0508, 3.6997, 3.9699),
    0.5: (1.7355, 2.2737, 2.9681, 3.6062, 3.9376),
    0.8: (1.7300, 2.2558, 2.9118, 3.4966, 3.8582),
    0.95: (1.7278, 2.2485, 2.8862, 3.4286, 3.7702),
}
STATIONARY_START = {
    0.0: LONG_RUN[0.0],
    0.5: (1.7500, 2.3325, 3.1565, 4.0091, 4.4927),
    0.8: (1.7500, 2.3445, 3.2453, 4.3866, 5.3963),
    0.95: (1.7500, 2.3505, 3.2983, 4.6822, 6.4126),
}
THREE = Chain([0.9, 0.5, 0.2], [[0.7, 0.3, 0.0], [0.1, 0.6, 0.3], [0.5, 0.0, 0.5]])
LEVEL = 1e-3  # of each test below that throws coins: the probability of any false alarm in it


# ---- Cells -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", LONG_RUN)
def test_tokens_per_round_to_four_decimals(rho):
    chain = sticky_chain(BETAS, rho)
    for gamma, long, start in zip(GAMMAS, LONG_RUN[rho], STATIONARY_START[rho], strict=True):
        assert f"{long_run(chain, gamma):.4f}" == f"{long:.4f}"
        assert f"{stationary_start(chain, gamma):.4f}" == f"{start:.4f}"


def test_the_acceptance_of_what_was_examined_is_not_that_of_the_text():
    chain = sticky_chain(BETAS, 0.8)
    assert f"{examined_acceptance(chain, 4):.4f}" == "0.7389"
    assert chain.mean == pytest.approx(0.75)
    assert examined_acceptance(sticky_chain(BETAS, 0.0), 4) == pytest.approx(0.75)


def test_where_states_last_for_ever_it_is_the_harmonic_and_the_arithmetic_mean():
    limits = clustered_limits(BETAS, 4)
    assert (f"{limits.long_run:.4f}", f"{limits.stationary_start:.4f}") == ("2.8782", "3.3174")
    weights = (0.3, 0.7)
    chain, limits = sticky_chain(BETAS, 1 - 1e-7, weights), clustered_limits(BETAS, 4, weights)
    assert long_run(chain, 4) == pytest.approx(limits.long_run, abs=1e-5)
    assert stationary_start(chain, 4) == pytest.approx(limits.stationary_start, abs=1e-5)
    assert clustered_limits([0.7], 3) == pytest.approx((expected_tokens(0.7, 3),) * 2)


def test_a_beta_3_1_acceptance_that_lasts_for_a_round():
    nodes, weights = np.polynomial.legendre.leggauss(20)
    betas = (nodes + 1) / 2
    shares = 3 * betas**2 * weights / 2  # the density of Beta(3, 1)
    found = [clustered_limits(betas, gamma, shares).stationary_start for gamma in (1, 2, 4, 8)]
    assert_allclose(found, [1.75, 2.35, 3.2786, 4.5596], atol=5e-5)


# ---- Enumeration -----------------------------------------------------------------------------


def fractions_of(chain):
    betas = [Fraction(float(b)).limit_denominator(100) for b in chain.betas]
    moves = [[Fraction(float(p)).limit_denominator(100) for p in row] for row in chain.moves]
    return betas, moves


def rounds_of(chain, start, gamma):
    """Every round from a state: {(tokens, next round's state): probability}, branch by branch."""
    betas, moves = fractions_of(chain)
    found = defaultdict(Fraction)

    def walk(state, accepted, chance):
        if accepted == gamma:
            outcomes = [(chance, None)]  # the bonus token
        else:
            outcomes = [
                (chance * (1 - betas[state]), None),
                (chance * betas[state], accepted + 1),
            ]
        for weight, further in outcomes:
            for following, move in enumerate(moves[state]):
                if further is None:
                    found[accepted + 1, following] += weight * move
                elif weight * move:
                    walk(following, further, weight * move)

    walk(start, 0, Fraction(1))
    return found


@pytest.mark.parametrize("gamma", [0, 1, 2, 4])
@pytest.mark.parametrize("chain", [THREE, sticky_chain(BETAS, 0.8)], ids=["three", "two"])
def test_rounds_by_enumeration(chain, gamma):
    states = range(len(chain.betas))
    every = [rounds_of(chain, s, gamma) for s in states]
    assert all(sum(found.values()) == 1 for found in every)
    tokens = [sum(n * p for (n, _), p in found.items()) for found in every]
    assert_allclose(tokens_from(chain, gamma), [float(t) for t in tokens], rtol=1e-14)
    between = np.zeros((len(states), len(states)))
    for s, found in zip(states, every, strict=True):
        for (_, following), p in found.items():
            between[s, following] += float(p)
    law = np.linalg.matrix_power(between, 4096)[0]  # many rounds later
    assert_allclose(round_starts(chain, gamma), law, atol=1e-12)
    assert long_run(chain, gamma) == pytest.approx(law @ [float(t) for t in tokens], rel=1e-12)


def test_the_text_passes_every_state_as_often_as_it_should():
    assert_allclose(THREE.stationary, np.linalg.matrix_power(THREE.moves, 4096)[0], atol=1e-13)
    # rounds and their tokens cover the text: a state's share is what rounds pass through it
    starts, passed = round_starts(THREE, 3), np.zeros(3)
    at = starts
    for _ in range(4):
        passed += at
        at = (at * THREE.betas) @ THREE.moves
    assert_allclose(passed / passed.sum(), THREE.stationary, atol=1e-13)


# ---- Identities ------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0, 1, 3, 9])
def test_independent_states_are_equation_1(gamma):
    chain = sticky_chain([0.9, 0.4, 0.7], 0.0, [0.2, 0.5, 0.3])
    due = expected_tokens(chain.mean, gamma)
    assert long_run(chain, gamma) == pytest.approx(due, rel=1e-13)
    assert stationary_start(chain, gamma) == pytest.approx(due, rel=1e-13)
    one = Chain([0.8], [[1.0]])
    assert long_run(one, gamma) == pytest.approx(expected_tokens(0.8, gamma), rel=1e-13)


def test_without_a_limit_on_gamma_correlation_costs_nothing():
    for chain in (THREE, sticky_chain(BETAS, 0.95), sticky_chain(BETAS, -0.9)):
        assert long_run(chain, math.inf) == pytest.approx(1 / (1 - chain.mean))
        assert long_run(chain, 3000) == pytest.approx(1 / (1 - chain.mean), rel=1e-12)
    for states in range(1, 9):  # whatever their shares sum to in floats
        assert long_run(sticky_chain(np.ones(states), 0.5), math.inf) == math.inf


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("gamma", [1, 2, 4, 8])
def test_the_two_answers_lie_on_either_side_of_equation_1(rho, gamma):
    chain = sticky_chain(BETAS, rho, (0.4, 0.6))
    even = expected_tokens(chain.mean, gamma)
    limits = clustered_limits(BETAS, gamma, (0.4, 0.6))
    assert limits.long_run < long_run(chain, gamma) < even
    if gamma > 1:  # one draft at a random position: the mean acceptance, however it clusters
        assert even < stationary_start(chain, gamma) < limits.stationary_start
    else:
        assert stationary_start(chain, gamma) == pytest.approx(even, rel=1e-13)
    against = sticky_chain(BETAS, -0.3)
    assert long_run(against, gamma) > expected_tokens(0.75, gamma)


def test_a_sticky_chain_has_the_correlation_that_is_asked_for():
    for rho, weights in ((0.8, None), (-0.4, (0.3, 0.7)), (0.3, (0.9, 0.1))):
        chain = sticky_chain(BETAS, rho, weights)
        off = chain.betas - chain.mean
        variance = chain.stationary @ off**2
        after = off.copy()
        for lag in range(1, 4):
            after = chain.moves @ after
            assert chain.stationary @ (off * after) == pytest.approx(rho**lag * variance, abs=1e-15)
        assert_allclose(chain.stationary, weights or (0.5, 0.5))
    assert_allclose(sticky_chain(BETAS, 0.8).moves, [[0.9, 0.1], [0.1, 0.9]])


def test_hazards_add_up_to_tokens():
    for starts in (None, THREE.stationary, [1.0, 0.0, 0.0]):
        reached = np.cumprod(hazards(THREE, 6, starts))
        law = round_starts(THREE, 6) if starts is None else np.asarray(starts)
        assert 1 + reached.sum() == pytest.approx(law @ tokens_from(THREE, 6), rel=1e-13)
    reached = np.cumprod(hazards(THREE, 6))  # accepted at 1, .. 6; examined at 2, .. 7
    share = reached.sum() / (1 + reached[:-1].sum())
    assert examined_acceptance(THREE, 6) == pytest.approx(share, rel=1e-13)
    assert_allclose(hazards(sticky_chain(BETAS, 0.0), 4), [0.75] * 4)
    assert_allclose(hazards(Chain([0.0], [[1.0]]), 3), [0.0, np.nan, np.nan])
    assert len(hazards(THREE, 0)) == 0


def test_hazards_rise_along_a_round_of_a_text_with_hard_stretches():
    rates = hazards(sticky_chain(BETAS, 0.8), 6)
    assert (np.diff(rates) > 0).all()
    assert rates[0] < 0.75 < rates[-1]  # rounds begin where it is hard, and go on where it is easy


# ---- The same, without the formulas ----------------------------------------------------------


@pytest.mark.parametrize("rho", [0.5, 0.8, 0.95])
def test_coins_agree_with_the_long_run(rho):
    chain = sticky_chain(BETAS, rho)
    gammas = (1, 2, 4, 8, 16)
    for gamma in gammas:
        rng = np.random.default_rng([42, int(100 * rho), gamma])
        tokens = simulate(chain, gamma, rng, texts=1000, rounds=60, skipped=60).tokens
        critical = t_quantile(1 - family_wise(LEVEL, len(gammas)) / 2, 999)
        assert abs(tokens.value - long_run(chain, gamma)) <= critical * tokens.stderr
        if rho >= 0.8 and gamma in (4, 8):  # the other answers would not have passed
            for other in (stationary_start(chain, gamma), expected_tokens(0.75, gamma)):
                assert abs(tokens.value - other) > critical * tokens.stderr


def test_coins_agree_with_a_round_from_a_random_position():
    gammas = (1, 2, 4, 8)
    for chain, which in ((sticky_chain(BETAS, 0.8), 0), (THREE, 1)):
        for gamma in gammas:
            rng = np.random.default_rng([43, which, gamma])
            tokens = simulate(chain, gamma, rng, texts=4000, rounds=1, skipped=0, ahead=50).tokens
            critical = t_quantile(1 - family_wise(LEVEL, 2 * len(gammas)) / 2, 3999)
            assert abs(tokens.value - stationary_start(chain, gamma)) <= critical * tokens.stderr


def test_coins_agree_with_hazards():
    gamma, texts = 5, 20_000
    rng = np.random.default_rng([44, 0])
    found = simulate(THREE, gamma, rng, texts=texts, rounds=1, skipped=40)  # texts are independent
    critical = normal_quantile(1 - family_wise(LEVEL, gamma) / 2)
    assert found.examined[0] == texts
    assert_allclose(found.examined[1:], found.accepted[:-1])
    for rate, examined, accepted in zip(
        hazards(THREE, gamma), found.examined, found.accepted, strict=True
    ):
        error = math.sqrt(rate * (1 - rate) / examined)
        assert abs(accepted / examined - rate) <= critical * error
    assert found.tokens.value == pytest.approx(1 + found.accepted.sum() / texts)


def test_replay_of_a_text_with_hidden_states_gives_the_long_run():
    chain, gammas = sticky_chain(BETAS, 0.8), (1, 2, 4, 8)
    rng = np.random.default_rng([45, 0])
    texts = []
    for _ in range(30):
        moved = rng.random(800) < 0.2  # with 1 - ρ a new state
        drawn = rng.integers(2, size=800)
        states = drawn[np.maximum.accumulate(np.where(moved, np.arange(800), 0))]
        texts.append(chain.betas[states])
    found = replay([np.ones(800)] * 30, texts, gammas)
    critical = t_quantile(1 - family_wise(LEVEL, len(gammas)) / 2, 29)
    for gamma in gammas:
        seen = found[gamma]
        assert abs(seen.value - long_run(chain, gamma)) <= critical * seen.stderr
    assert stationary_start(chain, 8) - found[8].value > 5 * found[8].stderr


def test_replay_of_long_stretches_gives_the_harmonic_mean():
    accept = np.repeat([0.9, 0.5, 0.9, 0.5], 5000)
    found = replay(np.ones(20_000), accept, [4])[4].value
    assert found == pytest.approx(clustered_limits((0.9, 0.5), 4).long_run, rel=2e-4)


def test_simulation_draws_from_the_generator_given_and_counts_rounds():
    runs = [
        simulate(THREE, 3, np.random.default_rng([1, i]), texts=50, rounds=4) for i in (0, 0, 1)
    ]
    assert runs[0].tokens == runs[1].tokens != runs[2].tokens
    assert runs[0].tokens.n == 200
    plain = simulate(THREE, 0, np.random.default_rng(0), texts=5)
    assert (plain.tokens.value, plain.tokens.stderr, len(plain.examined)) == (1.0, 0.0, 0)
    sure = simulate(Chain([1.0], [[1.0]]), 3, np.random.default_rng(0), texts=5, rounds=7)
    assert sure.tokens.value == 4
    assert sure.accepted.tolist() == [35, 35, 35]


# ---- What cannot be ----------------------------------------------------------------------------

SWAP = [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Chain([0.5, 1.2], SWAP), r"betas must be in \[0, 1\], got 1\.2"),
        (lambda: Chain([0.5], SWAP), r"betas must be \(S,\) and moves \(S, S\), got \(1,\) and"),
        (lambda: Chain([0.5, 0.5], [[0.5, 0.6], [0.5, 0.5]]), "moves must sum to 1"),
        (lambda: Chain([0.5, 0.6], np.eye(2)), "moves must have one stationary law"),
        (lambda: long_run(Chain([1.0, 1.0], SWAP), 1), "rounds of gamma=1 must have one station"),
        (lambda: sticky_chain(BETAS, 1.0), r"correlation=1\.0 must be in \[-1, 1\)"),
        (lambda: sticky_chain(BETAS, 1 - 1e-16), "moves must have one stationary law"),
        (
            lambda: sticky_chain(BETAS, -0.5, [0.2, 0.8]),
            r"correlation=-0\.5 must be in \[-0\.25, 1",
        ),
        (lambda: sticky_chain(BETAS, 0.5, [0.2, 0.3]), "weights must sum to 1"),
        (lambda: sticky_chain(BETAS, 0.5, [1.0]), r"weights must be \(2,\) as betas, got \(1,\)"),
        (lambda: sticky_chain([], 0.5), r"betas must be one row \(S,\), got shape \(0,\)"),
        (lambda: long_run(THREE, 1.5), r"gamma=1\.5 must be a whole number"),
        (lambda: stationary_start(THREE, -1), "gamma=-1"),
        (lambda: examined_acceptance(THREE, 0), "gamma=0 must be a whole number >= 1"),
        (lambda: hazards(THREE, 2, [0.5, 0.5]), r"starts must be \(3,\) as betas, got \(2,\)"),
        (lambda: simulate(THREE, 2, np.random.default_rng(0), texts=1), "texts=1"),
        (lambda: simulate(THREE, 2, np.random.default_rng(0), rounds=0), "rounds=0"),
        (lambda: clustered_limits(BETAS, -2), "gamma=-2"),
    ],
)
def test_chains_that_cannot_be(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_a_chain_copies_what_it_is_given():
    betas, moves = np.array([0.9, 0.5]), np.array([[0.8, 0.2], [0.2, 0.8]])
    chain = Chain(betas, moves)
    betas[:], moves[:] = 0, 0.5
    assert chain.betas.tolist() == [0.9, 0.5]
    assert_allclose(chain.moves, [[0.8, 0.2], [0.2, 0.8]])


@pytest.mark.parametrize("gamma", [1, 4, 5, 8])
def test_certain_drafts_give_all_tokens_and_not_a_rounding_more(gamma):
    assert long_run(sticky_chain([1.0, 1.0, 1.0], 0.3), gamma) == gamma + 1
