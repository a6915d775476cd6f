"""The cases: what is due in them, and the batched model of the lockstep case."""

import numpy as np
import pytest

from lab.battery import ESTIMATORS, PROMPT, UNIFORMS, BatchOf, Battery, Case
from lab.exact import plain_law
from lab.mutants import MUTANTS
from lab.readings import TV
from lab.sampling import RandomDice
from lab.small import TableLM


@pytest.fixture(scope="module")
def battery():
    return Battery()


def test_sound_code_is_as_due(battery):
    assert set(battery.due) == {*battery.cases, ESTIMATORS, UNIFORMS}
    for name in battery.due:
        assert battery.differing(name) == set()


def test_every_law_is_one_and_every_case_has_what_it_is_for(battery):
    for name, law in battery.laws.items():
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
        if name != "T 0, ties":  # policy 3: rejections and acceptances
            assert 0 < battery.due[name]["accepted"] < battery.due[name]["tested"]
    assert battery.due["γ 1"]["target_calls"] > 2
    assert battery.due["stop"]["stopped"] > 0.5
    assert {len(tokens) for tokens in battery.laws["contexts end"]} == {3}
    assert battery.due["lookup"]["drafted"] < battery.due["T .7, top-k 2"]["drafted"] * 2
    assert len(battery.laws["T 0, ties"]) == 1


def test_what_is_due_does_not_follow_the_patch(battery):
    with MUTANTS["residual from p"].patch():
        assert TV in battery.differing("plain")
        assert battery.differing("match") == set()
    with MUTANTS["tested counts all drafts"].patch():
        assert "tested" in battery.differing("plain")
        assert TV not in battery.differing("plain")


def test_missing_quantities_differ(battery):
    """An estimator that refuses a run has no expectation."""
    with MUTANTS["accepted counts the bonus"].patch():
        found = battery.reading("plain")
        assert battery.due["plain"].keys() - found.keys() <= battery.differing("plain")
        assert found["alpha_from_rounds exists"] < 1


def test_a_case_runs_and_its_law_is_the_targets(battery):
    plain = battery.cases["plain"]
    assert isinstance(plain, Case)
    assert plain.due(4) == plain_law(plain.target, PROMPT, 4)
    run = plain.run(RandomDice(np.random.default_rng(0)), 7)
    assert len(run.tokens) == 7


def test_the_law_of_two_sequences_is_the_product(battery):
    case, law = battery.cases["lockstep"], battery.laws["lockstep"]
    first, second = (plain_law(case.target, prompt, 2) for prompt in case.prompts)
    assert law[0, 1, 1, 0] == pytest.approx(first[0, 1] * second[1, 0])
    assert len(law) == 16


def test_a_batch_is_its_sequences():
    model = TableLM.random(3, 0, 2)
    batch = BatchOf(model)
    cache, alone = batch.new_cache(2), [model.new_cache(), model.new_cache()]
    tokens = np.array([[0, 1, 2], [2, 0, 0]])
    logits = batch.forward(tokens, cache, counts=np.array([3, 1]))
    np.testing.assert_array_equal(logits[0], model.forward([0, 1, 2], alone[0]))
    np.testing.assert_array_equal(logits[1, :1], model.forward([2], alone[1]))
    cache.truncate(np.array([2, 1]))
    cache.select([1])
    after = batch.forward(np.array([[1]]), cache, counts=np.array([1]))
    np.testing.assert_array_equal(after[0], model.forward([1], alone[1]))
