"""Acceptance along texts: equation (1) where it holds, chains where it does not, by hand."""

import numpy as np
import pytest

from lab import acceptance
from lab.chains import examined_acceptance, hazards, long_run, sticky_chain
from lab.replay import rounds_along
from lab.stats import ClusteredMean, clustered_ratio
from lab.text import Generation, Round
from lab.theory import expected_tokens


def chain_rows(chain, texts, length, seed):
    """b of a simulated state at each position of each text."""
    rng = np.random.default_rng(seed)
    states = rng.choice(len(chain.betas), size=texts, p=chain.stationary)
    rows = np.zeros((texts, length))
    for t in range(length):
        rows[:, t] = chain.betas[states]
        drawn = rng.random((texts, 1)) >= np.cumsum(chain.moves, axis=1)[states, :-1]
        states = drawn.sum(axis=1)
    return list(rows)


def test_constant_acceptance_is_equation_1_and_every_estimator_but_one_is_alpha():
    rows = [np.full(40, 0.7)] * 3
    rounds = rounds_along(rows, 4)
    assert acceptance.tokens_of(rounds) == pytest.approx(expected_tokens(0.7, 4), rel=1e-12)
    assert acceptance.hazards_of(rounds) == pytest.approx([0.7] * 4)
    found = acceptance.alpha_estimates(rounds, rows, rows)
    drafted = found.pop("accepted / drafted")
    assert list(found.values()) == pytest.approx([0.7] * 4)
    assert drafted == pytest.approx((expected_tokens(0.7, 4) - 1) / 4)


def test_a_long_simulated_chain_has_its_formulas():
    """Within 5 jackknifed errors: a false alarm of about 1e-5 a comparison, five of them."""
    chain = sticky_chain([0.5, 0.95], 0.6)
    rows = chain_rows(chain, 100, 300, 1)
    rounds = rounds_along(rows, 4)
    tokens = acceptance.jackknife(lambda kept: acceptance.tokens_of(rounds[kept]), 100)
    assert abs(tokens.mean - long_run(chain, 4)) < 5 * tokens.stderr
    assert tokens.stderr < 0.02 * tokens.mean
    first = acceptance.jackknife(lambda kept: acceptance.hazards_of(rounds[kept])[0], 100)
    assert abs(first.mean - hazards(chain, 4)[0]) < 5 * first.stderr
    tested = acceptance.jackknife(
        lambda kept: acceptance.alpha_estimates(rounds[kept], rows, rows)["accepted / tested"], 100
    )
    assert abs(tested.mean - examined_acceptance(chain, 4)) < 5 * tested.stderr
    for lag, found in enumerate(acceptance.correlations(rows, 2), 1):
        assert abs(found.mean - 0.6**lag) < 5 * found.stderr
        assert found.stderr < 0.05


def test_jackknife_of_a_mean_is_its_textbook_error_and_of_a_ratio_near_the_linearised():
    rng = np.random.default_rng(2)
    tops, bottoms = rng.random(50) + 1, rng.random(50) + 5
    mean = acceptance.jackknife(lambda kept: tops[kept].mean(), 50)
    assert mean == pytest.approx((tops.mean(), tops.std(ddof=1) / np.sqrt(50), 50))
    ratio = acceptance.jackknife(lambda kept: tops[kept].sum() / bottoms[kept].sum(), 50)
    assert ratio == pytest.approx(clustered_ratio(tops, bottoms), rel=0.02)


def test_correlation_by_hand():
    rows = [np.array([0.0, 1, 0, 1]), np.array([1.0, 0, 1, 0])]
    one, two = acceptance.correlations(rows, 2)
    assert (one.mean, two.mean) == (pytest.approx(-1), pytest.approx(1))
    assert [c.mean for c in acceptance.correlations([np.full(5, 0.5)] * 2, 1)] == [0]


def test_equation_1_at_its_own_alpha_has_no_error_and_at_a_larger_one_is_too_high():
    rounds = rounds_along([np.full(40, 0.7), np.full(40, 0.7)], 4)

    def error(alpha):
        return acceptance.eq1_error(
            lambda kept: alpha, lambda kept: acceptance.tokens_of(rounds[kept]), 4, 2
        )

    assert error(0.7).mean == pytest.approx(0, abs=1e-12)
    assert error(0.8).mean == pytest.approx(expected_tokens(0.8, 4) / expected_tokens(0.7, 4) - 1)
    assert error(0.6).mean < 0


@pytest.mark.parametrize(
    ("t", "comparisons", "sign"), [(2.1, 1, 1), (-2.1, 1, -1), (1.9, 1, 0), (2.1, 10, 0)]
)
def test_a_sign_is_beyond_its_error_and_the_number_of_comparisons(t, comparisons, sign):
    """Student's t: 1.98 for 100 degrees at 5 %, 2.87 for ten comparisons."""
    assert acceptance.sign_of(ClusteredMean(t, 1.0, 101), 0.05, comparisons) == sign


def test_rounds_seen_are_counted_by_hand():
    def of(*accepted):
        rounds = [Round(2, 2, min(a + 1, 2), a, a + 1, "full") for a in accepted]
        short = Round(1, 1, 1, 1, 2, "limit")
        return Generation(np.arange(3), "length", (*rounds, short), (), 1, 1)

    rounds = acceptance.rounds_seen([of(0, 2, 1), of(2)], 2)
    assert rounds.tolist() == [[3, 2, 1], [1, 1, 1]]
    assert acceptance.tokens_of(rounds) == (1 + 3 + 2 + 3) / 4


def test_along_text_is_the_same_twice_and_other_for_another_seed():
    one, again, other = (
        acceptance.acceptance_along(["unicode"], "mixed_1l", "mixed_1l", 2, 8, (2,), seed)[0]
        for seed in (0, 0, 1)
    )
    assert [row.shape for row in one.accept] == [(8,), (8,)]
    assert all(row == pytest.approx(1) for row in (*one.accept, *one.betas))  # its own draft
    assert one.loops[2].tolist() == again.loops[2].tolist()
    assert one.loops[2][:, 0] == pytest.approx(one.loops[2][:, 2])  # all accepted
    mixed = [
        acceptance.acceptance_along(["unicode"], "mixed_2l", "mixed_1l", 2, 8, (2,), seed)[0]
        for seed in (0, 0, 1)
    ]
    rows = [np.concatenate(along.accept) for along in mixed]
    assert rows[0].tolist() == rows[1].tolist() != rows[2].tolist()
    assert other.kind == "unicode"


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="groups"):
        acceptance.jackknife(lambda kept: 1.0, 1)
    with pytest.raises(ValueError, match="lags"):
        acceptance.correlations([np.ones(3)] * 2, 3)
