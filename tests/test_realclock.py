"""What the clock is asked and what is made of it; no time is asserted."""

import numpy as np
import pytest

from lab import realclock
from lab.ngram import TokenCache
from lab.realclock import (
    CONTEXT,
    ClockCell,
    Plan,
    RoundParts,
    Timed,
    best_drafted,
    clock_cells,
    measure_parts,
    measure_passes,
    stepping,
    timed_run,
)
from lab.realtext import LOOKUP, prompts_of
from lab.sampling import Sampling
from lab.theory import walltime_speedup

PARTS = RoundParts(
    target={1: 10.0, 2: 11.0, 3: 12.0},
    drafts={"bigram": {1: 1.0, 2: 1.5}, LOOKUP: {1: 2.0}},
    sample={1: 0.5, 2: 0.6, 3: 0.7},
    per_round={0: 1.0, 1: 2.0, 2: 3.0},
    per_lookup={0: 1.0, 1: 1.5, 2: 1.6},
)
ROUNDS = {1: np.array([[4.0, 3.0]]), 2: np.array([[3.0, 2.4, 1.2]])}


def test_a_round_is_the_sum_of_its_parts_by_hand():
    costs = PARTS.costs("bigram", lambda gamma: 0.5)
    assert costs.plain() == 10 + 0.5 + 1
    assert costs.round(2) == 12 + (1.5 * 1.0 + 0.5 * 1.5) + 0.7 + 3  # one pass of 2 in half of them
    assert PARTS.costs(LOOKUP, lambda gamma: 0.5).round(2) == 12 + 2 + 0.7 + 1.6
    assert PARTS.cost("bigram") == 0.1


def test_a_plan_reads_rounds_by_hand():
    plan = Plan("bigram", 0.7, ROUNDS)
    assert plan.tokens(1) == 7 / 4
    assert plan.tokens(2) == pytest.approx(6.6 / 3)
    assert plan.full_acceptance(2) == pytest.approx(0.4)


def test_the_best_gamma_is_at_least_1_even_where_none_pays():
    plan = Plan("bigram", 0.7, ROUNDS)
    costs = PARTS.costs("bigram", plan.full_acceptance)
    speeds = [costs.speedup(plan.tokens, gamma) for gamma in (1, 2)]
    assert best_drafted(costs, plan.tokens, 2) == (1 + int(np.argmax(speeds)), max(speeds))
    gamma, speed = best_drafted(costs, lambda gamma: 1.0, 2)
    assert (gamma, speed) == (1, costs.plain() / costs.round(1))
    assert speed < 1


class Recorder:
    """A model that notes what it reads."""

    def __init__(self):
        self.read = []

    def new_cache(self):
        return TokenCache()

    def prefill(self, tokens, cache):
        cache.tokens.extend(tokens)

    def forward(self, tokens, cache):
        self.read.append(tokens.tolist())
        cache.tokens.extend(tokens)


def test_steps_follow_each_other_along_the_text_and_begin_anew():
    model, text = Recorder(), np.arange(CONTEXT + 5)
    call = stepping(model, text, 2)
    for _ in range(3):
        call()
    first = [CONTEXT, CONTEXT + 1]
    assert model.read == [first, [CONTEXT + 2, CONTEXT + 3], first]
    with pytest.raises(ValueError, match=f"at least {CONTEXT + 6} tokens"):
        stepping(model, text, 6)


def test_every_part_is_measured_once_for_each_size():
    texts = prompts_of("unicode", 4, 0)
    long = [np.concatenate(texts[:2]), np.concatenate(texts[2:])]
    passes = measure_passes(("bigram", LOOKUP), long, 2, repeats=3)
    parts = measure_parts(passes, 2, Sampling(temperature=0), repeats=3)
    assert list(parts.target) == list(parts.sample) == [1, 2, 3]
    assert {name: list(spent) for name, spent in parts.drafts.items()} == {
        "bigram": [1, 2],
        LOOKUP: [1],
    }
    assert list(parts.per_round) == list(parts.per_lookup) == [0, 1, 2]
    assert all(s > 0 for s in (*parts.target.values(), *parts.sample.values()))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_bare_loop_rejects_now_and_then(temperature):
    for certain in (False, True):
        run = realclock._bare_run(4, certain, Sampling(temperature=temperature))
        rounds = [r for r in run.rounds if r.allowed == 4]
        assert 0 < sum(r.accepted for r in rounds) < sum(r.drafted for r in rounds)


def test_a_timed_run_counts_whole_rounds_behind_the_first():
    (prompt,) = prompts_of("unicode", 1, 0)
    plain = timed_run(None, prompt, 12, 0, Sampling(), 0, 1)
    assert (plain.rounds, plain.tokens) == (11, 11)
    drafted = timed_run("bigram", prompt, 12, 2, Sampling(), 0, 1)
    assert drafted.rounds <= drafted.tokens <= 3 * drafted.rounds
    assert min(plain.seconds, drafted.seconds) > 0
    with pytest.raises(ValueError, match=r"n_new=3 .*gamma=2"):
        timed_run("bigram", prompt, 3, 2, Sampling(), 0, 1)


def test_a_cell_of_the_clock_by_hand(monkeypatch):
    """Plain: 2 s a token. Drafted: rounds of 4, 5, 9 s; the median turn is .4 rounds a token."""
    spent = {None: [20.0, 20.0, 20.0], "bigram": [40.0, 50.0, 90.0]}
    tokens = {"bigram": [15, 20, 25]}
    turn = {None: 0, "bigram": 0}

    def run(name, prompt, n_new, gamma, sampling, *cell):
        i = turn[name]
        turn[name] += 1
        return Timed(spent[name][i], 10, tokens[name][i] if name else 10)

    monkeypatch.setattr(realclock, "timed_run", run)
    plan = Plan("bigram", 0.7, ROUNDS)
    (cell,) = clock_cells("unicode", 1.0, [plan], PARTS, [None] * 3, 20, 0)
    assert cell.timed_tokens == 2.0
    assert cell.clock == pytest.approx(2 / 5 * 2.0)
    assert cell.without_luck == pytest.approx(2 / 5 * plan.tokens(cell.gamma))
    assert cell.paper == pytest.approx(walltime_speedup(0.7, cell.gamma, 0.1))
    costs = PARTS.costs("bigram", plan.full_acceptance)
    assert (cell.gamma, cell.full) == best_drafted(costs, plan.tokens, 2)
    assert isinstance(cell, ClockCell)
