"""Homework 3 and 4: what is right passes every check, what is wrong is told why by the first.

The solved files are held to the lab's own loop, question by question of the dice, and to a pass
without a cache; they share no line with either.
"""

from functools import cache

import numpy as np
import pytest
from homework_edits import loaded, outcomes
from homework_wrong_loop import RIGHT, WRONG

from lab import Sampling, default_rng, speculative_generate
from lab.enumeration import branches
from lab.exact import plain_law, total_variation
from lab.homework.checking import CHECKS, Wrong
from lab.homework.checks import loop_asked
from lab.homework.reference import set2_sampling, set3_cache, set4_loop
from lab.homework.tasks import starter, tasks
from lab.homework.watched import Pair, constant, whole_tokens
from lab.small import HashLM, TableLM

TASKS = [number for number in tasks() if number[0] in "34"]
SEEDS = 20


@cache
def failed(solution, seed):
    """The checks that a solution does not pass, in their order."""
    found = outcomes(solution.module(), solution.task, seed)
    return [one for one in found if one.state != "passed"]


# ---- The checks ------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_what_is_solved_passes_whatever_the_inputs(task):
    solved = {"3": set3_cache, "4": set4_loop}[task[0]]
    for seed in range(SEEDS):
        for one in outcomes(solved, task, seed):
            assert (one.state, one.sentence) == ("passed", "")


@pytest.mark.parametrize("task", TASKS)
def test_what_is_not_written_is_to_do(task):
    file = tasks()[task].file
    module = loaded(starter(file), file)
    assert {one.state for one in outcomes(module, task, 0)} == {"unwritten"}


@pytest.mark.parametrize("solution", WRONG, ids=lambda one: f"{one.task} {one.name}")
def test_what_is_wrong_is_told_the_law_it_breaks(solution):
    for seed in (0, 1):
        found = failed(solution, seed)
        assert found
        assert solution.says in found[0].sentence
        assert {one.state for one in found} == {"failed"}


@pytest.mark.parametrize("solution", RIGHT, ids=lambda one: f"{one.task} {one.name}")
def test_what_is_right_may_be_written_otherwise(solution):
    module = solution.module()
    for seed in (0, 1):
        assert {one.state for one in outcomes(module, solution.task, seed)} == {"passed"}


def test_how_much_is_asked():
    assert len(WRONG) >= 100
    assert {one.task for one in WRONG} == {one.task for one in RIGHT} == set(TASKS)
    assert {3, 4, 5, 6, 7} >= {len(CHECKS[task]) for task in TASKS}
    laws = [one.law for task in TASKS for one in CHECKS[task]]
    assert len(set(laws)) == len(laws)


@pytest.mark.parametrize("task", TASKS)
def test_every_check_is_the_first_to_find_something(task):
    first = {failed(solution, 0)[0].check for solution in WRONG if solution.task == task}
    assert first == {one.name for one in CHECKS[task]}


def test_a_loop_that_never_ends_is_told_so():
    pair = Pair(constant(3), constant(3), 3)
    with pytest.raises(Wrong, match="does the loop ever end"):
        read_for_ever(pair.target)


def read_for_ever(model):
    while True:
        model.forward([1], model.new_cache())


@pytest.mark.parametrize("tokens", [[1.0], [[1]], [3], [-1]])
def test_a_model_is_fed_tokens(tokens):
    with pytest.raises((ValueError, TypeError), match="tokens must be"):
        whole_tokens(tokens, 3)
    assert whole_tokens([np.int64(2), 1], 3) == whole_tokens(np.array([2, 1]), 3) == (2, 1)


def test_the_law_that_is_due_is_the_targets():
    """Against `lab.exact.plain_law`, of a table."""
    table = TableLM.random(3, seed=4, context=2)
    model, stop = Laws(table), {1}
    law = loop_asked.plain_law(
        lambda text: model.forward(text, model.new_cache())[-1], [2], 4, stop
    )
    assert total_variation(law, plain_law(table, [2], 4, stop=(1,))) < 1e-12


# ---- The solved files beside the lab ---------------------------------------------------------


class Laws:
    """A model of the lab as homework 4 has it: laws, not logits."""

    def __init__(self, model, temperature=1.0):
        self.model, self.vocab, self.new_cache = model, model.vocab, model.new_cache
        self.sampling = Sampling(temperature=temperature)

    def forward(self, tokens, cache):
        return self.sampling.probs(self.model.forward(tokens, cache))


class Asked:
    """A dice that answers by a generator and keeps what it was asked."""

    def __init__(self, seed):
        self.rng, self.questions = default_rng(seed), []

    def choose(self, probs):
        self.questions.append(("choose", np.asarray(probs).tolist()))
        return int(np.searchsorted(np.cumsum(probs), self.rng.random() * (1 - 1e-12), "right"))

    def accept(self, probability):
        self.questions.append(("accept", float(probability)))
        return bool(self.rng.random() < probability)


def both(target, draft, prompt, n_new, gamma, stop, seed, temperature=1.0):
    """The same run by the solved homework and by the lab -> texts and questions of both."""
    plain, lab = Asked(seed), Asked(seed)
    text = set4_loop.generate(
        Laws(target, temperature), Laws(draft, temperature), prompt, n_new, gamma,
        set2_sampling.verify, plain, stop,
    )  # fmt: skip
    sampling = Sampling(temperature=temperature)
    run = speculative_generate(
        target, draft, prompt, n_new, gamma, sampling=sampling, rng=lab, stop=stop
    )
    return (text, plain.questions), (run.tokens.tolist(), lab.questions)


@pytest.mark.parametrize("gamma", [0, 1, 2, 5])
@pytest.mark.parametrize("stop", [(), (3,), (0, 2)])
def test_generate_writes_what_the_lab_writes_by_the_same_questions(gamma, stop):
    for seed in range(6):
        target, draft = TableLM.random(5, seed, context=2), TableLM.random(5, seed + 100)
        for prompt, n_new in (([1], 12), ([4, 1, 2], 7), ([3, 0], 1), ([0, 2], 0)):
            (text, asked), (due, lab_asked) = both(target, draft, prompt, n_new, gamma, stop, seed)
            assert text == due
            assert [kind for kind, _ in asked] == [kind for kind, _ in lab_asked]
            for (_, mine), (_, labs) in zip(asked, lab_asked, strict=True):
                np.testing.assert_allclose(mine, labs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("rotate", [0, 4, 1])
def test_at_temperature_0_it_writes_what_the_lab_writes(rotate):
    """FIX-C of tests/public_reports.md, and beyond it."""
    target, draft = HashLM(), HashLM(rotate=rotate)
    for gamma, n_new, stop in ((3, 14, ()), (2, 9, (2,)), (4, 30, (10,))):
        (text, _), (due, _) = both(target, draft, [4, 1, 5], n_new, gamma, stop, 0, temperature=0)
        assert text == due
        if n_new == 14:
            assert text == [7, 8, 6, 4, 2, 7, 9, 8, 10, 10, 5, 9, 7, 9]


def test_the_whole_law_of_generate_is_the_targets():
    target, draft = TableLM.random(3, seed=1, context=2), TableLM.random(3, seed=2)
    models = Laws(target), Laws(draft)
    law = {}
    for leaf in branches(
        lambda dice: set4_loop.generate(*models, [2, 1], 4, 2, set2_sampling.verify, dice, {0})
    ):
        text = tuple(leaf.result)
        law[text] = law.get(text, 0) + leaf.probability
    assert total_variation(law, plain_law(target, [2, 1], 4, stop=(0,))) < 1e-12


def fresh_logits(tokens, weights):
    """One head over a whole text: a (T, T) mask, no cache."""
    x = weights.embedding[tokens]
    scores = (x @ weights.to_query) @ (x @ weights.to_key).T / np.sqrt(x.shape[1])
    exp = np.exp(scores) * np.tri(len(x))
    return exp / exp.sum(axis=1, keepdims=True) @ (x @ weights.to_value) @ weights.head


def test_cached_equals_fresh():
    rng = default_rng(0)
    for _ in range(20):
        width, vocab = rng.integers(2, 9, size=2)
        square = rng.normal(size=(3, width, width)) / 2
        weights = set3_cache.Weights(
            rng.normal(size=(vocab, width)), *square, rng.normal(size=(width, vocab))
        )
        text = rng.integers(vocab, size=12)
        cache, rows = set3_cache.new_cache(12, width), []
        while cache.length < 12:
            if rng.random() < 0.3:  # a rollback
                set3_cache.truncate(cache, int(rng.integers(cache.length + 1)))
                rows = rows[: cache.length]
                cache.keys[cache.length :] = cache.values[cache.length :] = np.nan
            new = text[cache.length : cache.length + int(rng.integers(1, 5))]
            rows += list(set3_cache.forward(new, cache, weights))
        np.testing.assert_allclose(rows, fresh_logits(text, weights), rtol=1e-9, atol=1e-12)
