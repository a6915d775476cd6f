"""Rounds along texts, by position and with the texts drawn anew; the best γ of them."""

import math

import numpy as np
import pytest

from lab.costs import Costs, best_gamma
from lab.estimate import replay
from lab.replay import rounds_along
from lab.replay_tally import RESAMPLES, tally
from lab.theory import expected_tokens


def tallied(accept, gammas, seed=0, resamples=RESAMPLES):
    return tally(list(map(np.array, accept)), gammas, np.random.default_rng(seed), resamples)


def random_texts(count, length, seed):
    """Texts of which each has an acceptance of its own, around which its tokens vary."""
    rng = np.random.default_rng([9, seed])
    means = rng.uniform(0.4, 0.9, (count, 1))
    return np.clip(means + rng.uniform(-0.2, 0.2, (count, length)), 0, 1)


def test_rounds_by_hand():
    """a = .5, .25, 1 at γ 1. Rounds start at 0 surely; at 1 if the draft at 0 was rejected, which
    is half. γ 2: one place."""
    assert rounds_along([np.array([0.5, 0.25, 1.0])], 1).tolist() == [[1.5, 0.5 + 0.5 * 0.25]]
    assert rounds_along([np.array([0.5, 0.25, 1.0])], 2).tolist() == [[1.0, 0.5, 0.125]]
    two = rounds_along([np.array([0.5, 0.25]), np.array([1.0]), np.array([0.25, 1.0])], 1)
    assert two.tolist() == [[1.0, 0.5], [1.0, 0.25]]


def test_constant_acceptance_has_equal_hazards_and_equation_1():
    found = tallied(np.full((5, 40), 0.7), [1, 3, 6])
    assert (found.texts, found.tokens, found.clusters) == (5, 200, 5)
    assert found.acceptance == pytest.approx(0.7)
    for gamma in (1, 3, 6):
        tokens = found.tokens_per_call(gamma)
        ends = [tokens.value, tokens.low, tokens.high]
        assert ends == pytest.approx([expected_tokens(0.7, gamma)] * 3, rel=1e-12)
        hazards = [h for i in found.hazards(gamma) for h in (i.value, i.low, i.high)]
        assert hazards == pytest.approx([0.7] * 3 * gamma, rel=1e-12)
        assert found.reached(gamma) == pytest.approx(0.7 ** np.arange(gamma), rel=1e-12)


def test_hazards_of_long_stretches_rise():
    """Rounds that come far are those of the good stretch: draft i is accepted with
    (w .9^i + v .5^i) / (w .9^(i-1) + v .5^(i-1)), w and v the rounds of each per token."""
    found = tallied([np.repeat([0.9, 0.5], 20_000)], [4], resamples=1)
    w, v = (1 / expected_tokens(alpha, 4) for alpha in (0.9, 0.5))
    survival = np.array([w * 0.9**i + v * 0.5**i for i in range(5)])
    hazards = [hazard.value for hazard in found.hazards(4)]
    assert hazards == pytest.approx(survival[1:] / survival[:-1], rel=1e-3)
    assert hazards == sorted(hazards)


def test_the_value_is_replays_and_the_interval_agrees_with_its_error():
    """200 texts: percentiles of 1,000 resamples lie within a tenth of normal ones."""
    texts = random_texts(200, 30, 0)
    found, gammas = tallied(texts, [1, 4]), [1, 4]
    for gamma, wanted in replay(np.ones_like(texts), texts, gammas).items():
        tokens = found.tokens_per_call(gamma)
        assert tokens.value == pytest.approx(wanted.value, rel=1e-12)
        reach = 1.96 * wanted.stderr
        assert [tokens.value - tokens.low, tokens.high - tokens.value] == pytest.approx(
            [reach, reach], rel=0.12
        )


def test_the_bootstrap_covers_equation_1():
    """200 files of 40 prompts × 40 tokens, a = 1 or .2 at random: 90-99 % of the intervals, missed
    by chance less than once in 500."""
    texts = np.random.default_rng([9, 1]).choice([0.2, 1.0], (200, 40, 40))
    wanted, covered = expected_tokens(0.6, 3), 0
    for i, accept in enumerate(texts):
        tokens = tallied(accept, [3], i, 300).tokens_per_call(3)
        covered += tokens.low <= wanted <= tokens.high
    assert 180 <= covered <= 198


def test_a_seed_gives_one_answer_and_gammas_share_the_draws():
    texts = random_texts(30, 30, 2)
    one, again, other = (tallied(texts, [2, 5], seed) for seed in (1, 1, 2))
    assert one.tokens_per_call(5) == again.tokens_per_call(5) != other.tokens_per_call(5)
    tokens = [one.rounds[gamma].sum(axis=1) / one.rounds[gamma][:, 0] for gamma in (2, 5)]
    assert np.corrcoef(*tokens)[0, 1] > 0.9


def test_one_text_is_drawn_in_blocks_and_a_short_one_not_at_all():
    text = random_texts(1, 900, 3)
    found = tallied(text, [1, 4])
    assert (found.texts, found.clusters) == (1, 20)
    assert all(len(rounds) == 1 + RESAMPLES for rounds in found.rounds.values())
    tokens = found.tokens_per_call(4)
    assert tokens.low < tokens.value < tokens.high
    assert tokens.value == pytest.approx(replay(np.ones((1, 900)), text, [4])[4].value, rel=1e-12)

    short = tallied(text[:, :30], [4])
    assert (short.texts, short.clusters) == (1, 1)
    tokens = short.tokens_per_call(4)
    assert np.isnan([tokens.low, tokens.high, short.best_gamma(Costs(1, 0.1)).share]).all()


def test_short_texts_are_left_out_for_all_gammas():
    long = random_texts(3, 20, 4)
    some = tallied([*long, [0.1] * 5], [1, 5])
    assert (some.texts, some.tokens) == (3, 60)
    assert some.tokens_per_call(1) == tallied(long, [1, 5]).tokens_per_call(1)
    with pytest.raises(ValueError, match=r"gamma=5 needs a text of more than 5 .* longest has 5$"):
        tallied([[0.1] * 5, [0.2]], [1, 5])


def test_where_nothing_ever_arrives_there_is_no_hazard():
    never = tallied(np.zeros((4, 10)), [3])
    first, *others = never.hazards(3)
    assert (first.value, first.low, first.high) == (0, 0, 0)
    assert all(math.isnan(x) for h in others for x in (h.value, h.low, h.high))
    always = tallied(np.ones((4, 10)), [3])
    assert [h.value for h in always.hazards(3)] == [1, 1, 1]
    assert always.tokens_per_call(3).value == 4
    one = np.zeros((4, 10))
    one[0] = 1.0  # many resamples have none of it
    assert tallied(one, [3]).hazards(3)[1].value == 1


@pytest.mark.parametrize("c", [0.0, 0.02, 0.1, 0.3, 0.9])
@pytest.mark.parametrize("v", [1.0, 1.4])
def test_the_best_gamma_is_that_of_the_costs(c, v):
    gammas = range(1, 9)
    found = tallied(random_texts(40, 30, 5), gammas)
    costs = Costs(lambda rows: v if rows > 1 else 1.0, c)
    best = found.best_gamma(costs)
    tokens = {gamma: found.tokens_per_call(gamma).value for gamma in gammas}
    gamma, speed = best_gamma(tokens.__getitem__, costs, 8)
    assert (best.gamma, best.speedup.value) == (gamma, pytest.approx(speed, rel=1e-12))
    assert 0 < best.share <= 1
    assert best.speedup.low <= speed <= best.speedup.high


def test_no_gamma_wins_and_only_those_asked_are_chosen():
    found = tallied(np.full((5, 40), 0.7), [1, 8])
    none = found.best_gamma(Costs(1, 0.7))  # alpha <= c
    assert (none.gamma, none.speedup.value, none.speedup.high, none.share) == (0, 1, 1, 1)
    assert found.best_gamma(Costs(1, 0.2)).gamma == 1
    assert found.best_gamma(Costs(1, 0.01)).gamma == 8
