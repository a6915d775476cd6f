"""Two states fitted to a text: what they must reproduce exactly, and what they must find."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lab.chainfit import autocovariances, fit_lags, fit_moments
from lab.chains import clustered_limits, long_run, sticky_chain
from lab.estimate import replay
from lab.theory import expected_tokens


def states_of(rng, rho, length, weights=(0.5, 0.5)):
    """A text of hidden states: with probability ρ the last state, else a new one."""
    fresh = np.where(rng.random(length) >= rho, np.arange(length), 0)
    return rng.choice(2, length, p=weights)[np.maximum.accumulate(fresh)]


def lag_one(chain):
    off = chain.betas - chain.mean
    return chain.stationary @ (off * (chain.moves @ off)) / (chain.stationary @ off**2)


# ---- Moments ---------------------------------------------------------------------------------


def test_autocovariances_by_hand():
    rows = [[0.0, 1.0, 1.0], [0.5, 0.0]]  # mean .5: deviations -.5 .5 .5, 0 -.5
    assert_allclose(autocovariances(rows, 2), [1.0 / 5, (-0.25 + 0.25 + 0) / 3, -0.25])
    assert_allclose(autocovariances([0.2, 0.4], 0), [0.01])
    with pytest.raises(ValueError, match=r"lags=3 must be a whole number within 0\.\.2"):
        autocovariances(rows, 3)
    with pytest.raises(ValueError, match=r"rows must be in \[0, 1\], got 1\.5"):
        autocovariances([0.5, 1.5], 1)


def test_autocovariances_of_no_correlation_as_numpy_has_them():
    row = np.random.default_rng([3, 0]).random(500)
    off = row - row.mean()
    due = np.correlate(off, off, "full")[499:504] / (500 - np.arange(5))
    assert_allclose(autocovariances(row, 4), due, atol=1e-15)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 20), min_size=3, max_size=12).filter(lambda row: len(set(row)) > 1),
)
def test_two_states_have_the_moments_of_the_rows_and_lie_among_them(counts):
    row = np.array(counts) / 20
    chain = fit_moments(row)
    assert row.min() - 1e-9 <= chain.betas.min() <= chain.betas.max() <= row.max() + 1e-9
    for power in (1, 2, 3):
        found = chain.stationary @ chain.betas**power
        assert found == pytest.approx((row**power).mean(), abs=1e-9)
    weights = np.sort(chain.stationary)
    correlation = autocovariances(row, 1)[1] / row.var()
    within = min(max(correlation, -weights[0] / weights[1]), 0.999)
    assert lag_one(chain) == pytest.approx(within, abs=1e-6)


def test_rows_of_two_values_are_their_own_two_states():
    rows = [[0.9, 0.9, 0.9, 0.5, 0.5], [0.9, 0.5, 0.5, 0.9, 0.9, 0.9]]
    chain = fit_moments(rows)
    assert_allclose(np.sort(chain.betas), [0.5, 0.9])
    assert_allclose(np.sort(chain.stationary), [4 / 11, 7 / 11])


# ---- Through noise -----------------------------------------------------------------------------


def test_coins_thrown_in_hidden_states_tell_what_the_states_are():
    chain = sticky_chain((0.95, 0.55), 0.8)
    rng = np.random.default_rng([7, 0])
    rows = [chain.betas[states_of(rng, 0.8, 20_000)] > rng.random(20_000) for _ in range(10)]
    fitted = fit_lags([row.astype(int) for row in rows])
    # 200,000 coins: errors of .002 in the mean, .01 in the betas, .02 in ρ; four of each
    assert fitted.mean == pytest.approx(0.75, abs=0.01)
    assert_allclose(np.sort(fitted.betas), [0.55, 0.95], atol=0.04)
    assert lag_one(fitted) == pytest.approx(0.8, abs=0.08)
    for gamma in (2, 4, 8):
        assert long_run(fitted, gamma) == pytest.approx(long_run(chain, gamma), rel=0.01)
    # variance and lag-1 correlation of coins are no states: nearly independent, 0 or 1
    assert_allclose(
        np.sort(fit_moments([row.astype(int) for row in rows]).betas), [0, 1], atol=1e-9
    )


def test_noise_around_the_states_does_not_enter_tokens_per_call():
    rng = np.random.default_rng([7, 1])
    states = [states_of(rng, 0.7, 3000) for _ in range(20)]
    clean = [np.array((0.9, 0.5))[row] for row in states]
    noisy = [row + rng.uniform(-0.1, 0.1, 3000) * (1 + 3 * (row < 0.7)) for row in clean]
    gammas = (1, 2, 4, 8)
    replayed = replay([np.ones(3000)] * 20, noisy, gammas)
    alpha = np.concatenate(noisy).mean()
    fitted = fit_lags(noisy)
    for gamma in gammas:
        assert long_run(fitted, gamma) == pytest.approx(replayed[gamma].value, rel=0.005)
    off = expected_tokens(alpha, 4) / replayed[4].value - 1
    assert off > 0.02  # equation (1) is too high by more than that, and so is the other fit
    assert long_run(fit_moments(noisy), 4) / replayed[4].value - 1 > 0.003


def test_easy_and_hard_documents_are_fitted_by_states_that_last():
    rows = [np.full(400, 0.9), np.full(400, 0.5)] * 5
    for fit in (fit_lags, fit_moments):
        fitted = fit(rows)
        assert_allclose(np.sort(fitted.betas), [0.5, 0.9], atol=1e-3)
        assert lag_one(fitted) == pytest.approx(0.999)
        harmonic = clustered_limits((0.9, 0.5), 4).long_run
        assert long_run(fitted, 4) == pytest.approx(harmonic, rel=2e-3)


@pytest.mark.parametrize("fit", [fit_lags, fit_moments])
def test_what_does_not_vary_or_is_not_correlated_is_equation_1(fit):
    assert long_run(fit(np.full(50, 0.8)), 4) == pytest.approx(expected_tokens(0.8, 4))
    assert long_run(fit([np.ones(9), np.ones(7)]), 4) == pytest.approx(5)
    assert long_run(fit(np.zeros(9)), 4) == 1
    swing = np.tile([0.2, 0.8], 50)  # as anticorrelated as can be
    fitted = long_run(fit(swing), 4)
    assert fitted >= expected_tokens(0.5, 4) - 1e-12
    shuffled = np.random.default_rng([7, 2]).permutation(np.repeat([0.9, 0.5], 20_000))
    assert long_run(fit(shuffled), 4) == pytest.approx(expected_tokens(0.7, 4), rel=0.01)


@pytest.mark.parametrize(("mean", "ends"), [(0.9, (None, 1.0)), (0.1, (0.0, None))])
def test_states_that_would_leave_the_unit_interval_stop_at_its_end(mean, ends):
    rng = np.random.default_rng([7, 3])
    states = states_of(rng, 0.9, 20_000, (0.1, 0.9) if mean > 0.5 else (0.9, 0.1))
    row = np.array((0.0, 1.0))[states]
    fitted = fit_lags(row)
    low, high = np.sort(fitted.betas)
    assert ends in ((None, high), (low, None))
    assert fitted.mean == pytest.approx(row.mean(), abs=1e-12)
    variance = fitted.stationary @ (fitted.betas - fitted.mean) ** 2
    assert variance == pytest.approx(row.var(), rel=0.1)


def test_rows_that_are_too_short():
    with pytest.raises(ValueError, match=r"lags=1 must be a whole number >= 2"):
        fit_lags([0.5, 0.6, 0.7], 1)
    with pytest.raises(ValueError, match=r"lags=4 must be a whole number within 0\.\.2"):
        fit_lags([[0.5, 0.6, 0.7], [0.4]])
    with pytest.raises(ValueError, match="lags=1 must be a whole number within"):
        fit_moments([0.5])
