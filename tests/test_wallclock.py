"""The stopwatch and the formulas, on a clock that the tests wind.

The target says what its passes take, and moves the clock by that: then what is measured is known,
and full costs must foretell it to the last digit, where Theorem 3.8 must not.
"""

import time
from dataclasses import replace

import numpy as np
import pytest

from lab import Transformer, planted, theory
from lab.bench import Ratio
from lab.planted import Recital
from lab.transformer import ModelConfig
from lab.wallclock import (
    GPT2,
    Passes,
    PlantedCell,
    TimedRun,
    best_of_rows,
    measure,
    memory_of,
    own_text,
    timed_rounds,
)

GAMMAS = (1, 2, 4, 8)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def busy(self, seconds):
        self.now += seconds


class Timed(Recital):
    """A target that takes 1 for a pass, and an eighth more for each further row."""

    def __init__(self, clock, vocab=7, length=400):
        super().__init__(vocab, np.arange(length) * 3 % vocab)
        self.clock, self.slower = clock, 1

    def forward(self, tokens, cache):
        self.clock.now += self.slower * (1 + (len(tokens) - 1) / 8)
        return super().forward(tokens, cache)

    def prefill(self, tokens, cache):
        super().forward(tokens, cache)


@pytest.fixture
def clock(monkeypatch):
    wound = Clock()
    monkeypatch.setattr(time, "perf_counter", wound)
    monkeypatch.setattr(planted, "busy", wound.busy)
    return wound


def test_the_parts_of_a_round_are_what_the_clock_says(clock):
    passes = Passes(Timed(clock), GAMMAS)
    assert passes.again(3) == pytest.approx(1)
    parts = passes.parts(rounds=5)
    for gamma in GAMMAS:
        assert parts.target[gamma + 1] == pytest.approx(1 + gamma / 8)
        assert parts.ratios[gamma + 1] == pytest.approx(1 + gamma / 8)
        assert parts.quartiles[gamma + 1] == pytest.approx([1 + gamma / 8] * 2)
    assert set(parts.per_round) == {0, *GAMMAS}
    assert set(parts.sample) == {1, 2, 3, 5, 9}
    assert max(*parts.sample.values(), *parts.per_round.values()) < 1e-9


def test_full_costs_foretell_the_stopwatch_and_the_theorem_does_not(clock):
    target = Timed(clock)
    _, cells = measure(target, (0.6, 0.9), (0.0, 0.25), GAMMAS, rounds=20, repeats=2, seed=0)
    assert len(cells) == 16
    for cell in cells:
        half = 0.5 / 20  # of a token in 20 rounds: the plan is no nearer to eq. (1)
        assert abs(cell.error("full")) <= half / (cell.tokens - half) + 1e-9
        assert cell.verify == pytest.approx(cell.full, rel=1e-6)
        assert cell.error("paper") > cell.gamma / 8 / (1.25 + 0.25 * cell.gamma) - 0.03
        spent = 1 + cell.gamma / 8 + cell.gamma * cell.cost
        assert cell.full == pytest.approx(
            theory.expected_tokens(cell.acceptance, cell.gamma) / spent
        )
        assert cell.clock.low == pytest.approx(cell.clock.high)  # every round takes the same
    for row in best_of_rows(cells):
        assert row.full == row.clock
        assert row.full_keeps == 1


def test_runs_take_turns_round_by_round(clock):
    target = Timed(clock)
    text = own_text(target, 60, 0)
    accepted = np.array([2, 0, 1])
    runs = [
        TimedRun(target, text, np.zeros(3, np.int64), 0, 0.0),
        TimedRun(target, text, accepted, 2, 0.5),
    ]
    assert timed_rounds(runs, 3) == pytest.approx(np.array([[1, 1.25 + 1.0]] * 3))
    assert runs[1].written == text[16 : 16 + 1 + 3 + 3].tolist()


def test_a_run_that_does_not_do_as_planned_is_seen(clock):
    target = Timed(clock)
    text = own_text(target, 60, 0)
    other = text.copy()
    other[20:] = (other[20:] + 1) % 7
    with pytest.raises(AssertionError):
        timed_rounds([TimedRun(target, other, np.array([2, 2, 2]), 2, 0.0)], 3)


def test_the_text_is_what_a_real_model_writes_at_temperature_0():
    target = Transformer.init(ModelConfig(vocab=11, d_model=16, n_layers=1, n_heads=2, d_ff=16), 0)
    text = own_text(target, 20, 3)
    for n in range(16, 36):
        logits = target.forward(text[:n], target.new_cache())
        assert text[n] == logits[-1].argmax()


def row(speeds, fulls, papers):
    return [
        PlantedCell(0.8, 0.1, gamma, 2.0, paper, full, full, Ratio(speed, speed, speed, (1.0, 1.0)))
        for gamma, speed, full, paper in zip((1, 2, 4), speeds, fulls, papers, strict=True)
    ]


def test_best_of_rows_by_hand():
    (best,) = best_of_rows(row((1.5, 1.25, 1.2), (1.4, 1.3, 1.0), (1.2, 1.3, 2.0)))
    assert (best.clock, best.full, best.paper) == (1, 1, 4)
    assert (best.full_keeps, best.paper_keeps) == (1.0, pytest.approx(0.8))


def test_plain_decoding_is_one_of_the_choices():
    (best,) = best_of_rows(row((0.5, 0.8, 0.7), (0.9, 0.8, 0.7), (1.1, 1.0, 0.9)))
    assert (best.clock, best.full, best.paper) == (0, 0, 1)
    assert (best.full_keeps, best.paper_keeps) == (1.0, 0.5)


def test_memory_is_what_the_arrays_of_a_model_take():
    sizes = {"d_model": 32, "n_layers": 2, "n_heads": 2, "n_kv_heads": 2, "d_ff": 48}
    config = replace(GPT2, vocab=64, max_len=40, head_dim=16, **sizes)
    model = Transformer.init(config, 0)
    arrays = {id(array): array.nbytes for array in model.params().values()}
    most, then = memory_of(config)
    assert then == sum(arrays.values()) + 4 * 64 * 32  # the tied head's own layout
    assert most == then + 2 * sum(arrays.values())
    assert memory_of(GPT2)[1] == pytest.approx(0.65e9, rel=0.01)


def test_passes_are_of_all_minutes(clock):
    """A machine that becomes slower: the ratios stay, the seconds are the median of both times."""
    target = Timed(clock)
    passes = Passes(target, (2,))
    assert passes.again(3) == pytest.approx(1)
    target.slower = 2
    assert passes.again(3) == pytest.approx(2)
    parts = passes.parts(rounds=3)
    assert parts.target[1] == pytest.approx(1.5)
    assert parts.ratios[3] == pytest.approx(1.25)
