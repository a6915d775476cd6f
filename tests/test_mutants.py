"""The wrong implementations are wrong in the way that was reported, and only in that way."""

import numpy as np
import pytest
from models import FIX_C, GREEDY, PROMPT, P, Q, hash_pair

from lab.decode import speculative_generate
from lab.exact import TableLM, audit, output_law, plain_law, round_law
from lab.lawtest import prefix_law
from lab.mutants import MUTANTS, SOUND, KeepsRejected
from lab.sampling import RandomDice
from lab.verify import RULES, Proposal


def first_token(rule):
    """Law of the first token of a round with one draft, FIX-A at every position."""
    law = prefix_law(round_law(rule, np.stack([P, P]), Q[None]), 1)
    return [float(law.get((token,), 0)) for token in range(len(P))]


def test_d3_resampling_from_p_gives_the_reported_law():
    assert first_token(MUTANTS["residual from p"].rule) == pytest.approx(
        [0.425, 0.3375, 0.1025, 0.135], abs=1e-12
    )


def test_d12_shared_uniform_gives_the_reported_law():
    law = first_token(MUTANTS["shared uniform"].rule)
    assert law == pytest.approx([0.5317, 0.3056, 0.1627, 0], abs=5e-5)


class OneUniform:
    """The fault itself: the coin of the first draft is the number that drew it."""

    def __init__(self, rng):
        self.dice, self.uniform = RandomDice(rng), None

    def draw(self, probs):
        self.uniform = self.dice.rng.random()
        return int(np.searchsorted(np.cumsum(probs), self.uniform, side="right"))

    def accept(self, probability):
        return self.uniform < probability

    def choose(self, probs):
        return self.dice.choose(probs)


def test_d12_shared_uniform_is_what_sharing_a_uniform_does():
    rng, counts, n = np.random.default_rng(0), np.zeros(4), 20_000
    for _ in range(n):
        dice = OneUniform(rng)
        draft = dice.draw(Q)
        verdict = RULES["token"](np.stack([P, P]), Proposal(np.array([draft]), Q[None]), dice)
        counts[draft if verdict.path else verdict.token] += 1
    law = np.array(first_token(MUTANTS["shared uniform"].rule))
    error = np.sqrt(law * (1 - law) / n)
    assert (np.abs(counts / n - law) <= 4.5 * error).all()  # false alarm below 3e-5


@pytest.mark.parametrize("name", ["residual row late", "residual row early", "bonus from q"])
def test_the_first_token_on_a_law_without_context_shows_nothing(name):
    """Policy 1: joint laws on models that depend on their text."""
    assert first_token(MUTANTS[name].rule) == pytest.approx(P.tolist(), abs=1e-12)


def run_of(mutant, seed=0):
    target, draft = TableLM.random(2, seed, 2), TableLM.random(2, seed + 1, 2)
    wrapped = mutant.wrap_draft(draft)
    return target, lambda dice: speculative_generate(
        target, wrapped, [0, 1], 4, 2, rng=dice, rule=mutant.rule
    )


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_changes_what_it_says(name):
    mutant = MUTANTS[name]
    target, run = run_of(mutant)
    found = audit(run, plain_law(target, [0, 1], 4))
    assert (found.total_variation > 1e-3) == mutant.changes_text
    if not mutant.changes_text:
        sound = audit(run_of(SOUND)[1], plain_law(target, [0, 1], 4))
        assert found.total_variation <= 1e-12
        assert abs(found.expected["accepted"] - sound.expected["accepted"]) > 1e-3


def test_the_control_is_sound():
    target, run = run_of(SOUND)
    assert audit(run, plain_law(target, [0, 1], 4)).total_variation <= 1e-12


def test_k3_a_draft_that_keeps_what_was_rejected_only_accepts_less():
    target, draft = hash_pair()

    def share(model):
        rng = np.random.default_rng(0)
        run = speculative_generate(target, model, PROMPT, 400, 4, sampling=GREEDY, rng=rng)
        assert run.tokens[: len(FIX_C)].tolist() == FIX_C
        return sum(r.accepted for r in run.rounds) / sum(r.drafted for r in run.rounds)

    assert share(KeepsRejected(draft)) < share(draft) / 5


def test_law_of_a_mutant_is_a_law():
    law = output_law(run_of(MUTANTS["shared uniform"])[1])
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
