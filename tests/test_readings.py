"""What is exactly true: by hand, by closed forms, and by counting."""

from fractions import Fraction

import numpy as np
import pytest
from models import LAST, FixedRng, P, Q, SpyRng

from lab.decode import speculative_generate
from lab.exact import audit, plain_law
from lab.mutants import MUTANTS
from lab.readings import (
    FIX_A,
    QUARTERS,
    TOSS,
    TV,
    Grid,
    Normalising,
    dice_due,
    enumerated,
    estimates,
    estimates_due,
    of_dice,
    population,
    wrong_answers,
)
from lab.sampling import RandomDice
from lab.small import TableLM
from lab.theory import acceptance, expected_tokens

PAIR = TableLM.random(2, 0, 1), TableLM.random(2, 1, 1)


def run(dice, stop=()):
    return speculative_generate(*PAIR, [0], 4, 2, rng=dice, stop=stop)


def test_enumerated_says_what_an_audit_says():
    law = plain_law(PAIR[0], [0], 4)
    found, reading = audit(run, law), enumerated(run, law)
    assert reading[TV] == pytest.approx(0, abs=1e-12)
    for name, value in found.expected.items():
        assert reading[name] == pytest.approx(value, rel=1e-12)
    for name, value in found.pooled.items():
        assert reading[f"{name}, pooled"] == pytest.approx(value, rel=1e-12)
    origins = {name: reading[f"origin {name}"] for name in ("draft", "correction", "bonus")}
    assert origins["draft"] == pytest.approx(found.expected["accepted"])
    assert sum(origins.values()) == pytest.approx(4)
    assert reading["stopped"] == 0


def test_enumerated_weighs_ends_and_wrong_laws():
    due = plain_law(PAIR[0], [0], 4, stop=[1])
    reading = enumerated(lambda dice: run(dice, stop=[1]), due)
    assert reading["stopped"] == pytest.approx(1 - due[0, 0, 0, 0])
    shifted = dict(due)
    shifted[1,] -= 0.25
    shifted[0, 1] += 0.25
    assert enumerated(lambda dice: run(dice, stop=[1]), shifted)[TV] == pytest.approx(0.25)


def test_a_law_is_divided_by_its_sum_as_random_dice_does():
    class Asked:
        def choose(self, probs):
            self.probs = probs
            return 1

        def accept(self, probability):
            return True

    asked = Asked()
    assert Normalising(asked).choose(np.array([0.1, 0.3])) == 1
    np.testing.assert_allclose(asked.probs, [0.25, 0.75])
    assert RandomDice(FixedRng(0.24)).choose(np.array([0.1, 0.3])) == 0
    assert RandomDice(FixedRng(0.26)).choose(np.array([0.1, 0.3])) == 1


def test_the_population_has_every_run_as_often_as_it_is_likely():
    runs = population()
    assert len(runs) == 1024
    law = plain_law(TOSS[0], [0], 4)
    texts = [tuple(run.tokens.tolist()) for run in runs]
    assert {text: Fraction(texts.count(text), 1024) for text in set(texts)} == {
        text: pytest.approx(probability, rel=1e-12) for text, probability in law.items()
    }


def test_estimates_are_the_closed_forms():
    runs = population()
    found, due = estimates(runs), estimates_due(runs)
    assert found == pytest.approx(due, rel=1e-12)
    assert due["tokens_per_call"] == expected_tokens(0.75, 2) == 37 / 16
    assert due["alpha_from_probs"] == pytest.approx(acceptance(P, Q), rel=1e-12)
    np.testing.assert_array_equal(FIX_A, [P, Q])
    assert due["accepted_per_drafted"] < due["alpha_from_rounds"] == 0.75


def test_a_grid_takes_every_uniform():
    class Counting:
        def choose(self, probs):
            np.testing.assert_array_equal(probs, np.full(4, 0.25))
            return 3

    grid = Grid(Counting())
    assert grid.random() == 0.875
    assert grid.asked == 1


def test_of_dice_is_as_due():
    law, due = dice_due()
    assert of_dice(law) == pytest.approx(due, abs=1e-12)
    spy = SpyRng()
    made = speculative_generate(*QUARTERS, [0], 2, 1, rng=RandomDice(spy))
    assert len(spy.drawn) == sum(r.drafted + r.tested + 1 for r in made.rounds)


def test_n2_wrong_answers_are_found_at_the_boundaries_only():
    assert wrong_answers() == 0
    for name in ("impossible draft accepted at 0", "impossible token drawn at 0"):
        with MUTANTS[name].patch():
            assert wrong_answers() > 0
            assert of_dice(dice_due()[0])[TV] == pytest.approx(0, abs=1e-12)
    assert RandomDice(FixedRng(LAST)).choose(np.array([0.5, 0.5, 0])) == 1
