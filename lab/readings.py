"""What is exactly true of the code that is in place: numbers by name, none of them sampled.

Of a run of the loop: its law and its expectations, by enumeration. Of the estimators: their values
on a population in which every run occurs as often as it is likely. Of `RandomDice`: its law where
uniforms are replaced by a grid, and its answers at every boundary.
Shapes: V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.decode import speculative_generate
from lab.equation1 import eq1_gap
from lab.estimate import (
    accepted_per_drafted,
    alpha_from_probs,
    alpha_from_rounds,
    drafted_per_round,
    tokens_per_call,
)
from lab.exact import Law, branches, output_law, plain_law, tokens_of, total_variation
from lab.expectations import expectations
from lab.replay import replay
from lab.sampling import RandomDice
from lab.small import TableLM
from lab.text import Generation

Array = npt.NDArray[Any]
Reading = dict[str, float]

TV = "total variation"
LAST = 1 - 2**-53  # the largest uniform that a generator gives
MAX_LEAVES = 2000  # of a case, sound ones have some 100: what has so many is wrong anyway


# ---- A run of the loop ------------------------------------------------------------------------


class Normalising:
    """A dice that divides a law by its sum first, as `RandomDice` does: what is enumerated is what
    would be sampled, also where somebody forgot to."""

    def __init__(self, dice: Any) -> None:
        self.dice, self.accept = dice, dice.accept

    def choose(self, probs: Array) -> int:
        token: int = self.dice.choose(probs / probs.sum())
        return token


def enumerated(run: Callable[[Any], Generation], due: Law) -> Reading:
    """Total variation of `run(dice)` from the law that is due, and all expectations: counters,
    estimators (one run; pooled over many), ends and origins."""
    law: Law = {}
    chances: dict[Any, tuple[Generation, float]] = {}  # runs with the same counts are one
    for leaf in branches(lambda dice: run(Normalising(dice)), MAX_LEAVES):
        made, tokens = leaf.result, tokens_of(leaf.result)
        law[tokens] = law.get(tokens, 0) + leaf.probability
        key = (made.rounds, made.origins, made.finish, made.target_calls, made.draft_calls)
        chances[key] = made, chances.get(key, (made, 0.0))[1] + leaf.probability
    runs = list(chances.values())
    expected, exists, pooled = expectations(runs)
    reading = {TV: float(total_variation(law, due))} | expected
    reading |= {f"{name} exists": chance for name, chance in exists.items()}
    reading |= {f"{name}, pooled": value for name, value in pooled.items()}
    reading["stopped"] = sum(chance for made, chance in runs if made.finish == "stop")
    for origin in ("draft", "correction", "bonus"):
        counted = sum(chance * made.origins.count(origin) for made, chance in runs)
        reading[f"origin {origin}"] = counted
    return reading


# ---- The estimators ---------------------------------------------------------------------------

TOSS = TableLM.of_probs(np.array([0.75, 0.25])), TableLM.of_probs(np.array([0.5, 0.5]))
TOSS_ALPHA, TOSS_GAMMA, TOSS_LENGTH = 0.75, 2, 4
TOSSES = 1024  # every run's probability is a multiple of 1 / 1024
FIX_A = np.array([0.5, 0.25, 0.15, 0.1]), np.array([0.25, 0.45, 0.05, 0.25])  # α .65


def population() -> list[Generation]:
    """Runs of 4 tokens, each as often among 1,024 as it is likely: what many runs would be."""
    leaves = branches(
        lambda dice: speculative_generate(*TOSS, [0], TOSS_LENGTH, TOSS_GAMMA, rng=dice)
    )
    return [leaf.result for leaf in leaves for _ in range(round(leaf.probability * TOSSES))]


def estimates(runs: Sequence[Generation]) -> Reading:
    """Every printed estimator's value for the population; `replay` reads its texts."""
    rounds = [r for run in runs for r in run.rounds]
    probs = [np.where(run.tokens == 0, 0.75, 0.25) for run in runs]
    half = [np.full(TOSS_LENGTH, 0.5)] * len(runs)
    betas = [np.full(TOSS_LENGTH, TOSS_ALPHA)] * len(runs)
    return {
        "alpha_from_probs": alpha_from_probs(*FIX_A).value,
        "alpha_from_rounds": alpha_from_rounds(rounds).value,
        "accepted_per_drafted": accepted_per_drafted(rounds).value,
        "drafted_per_round": drafted_per_round(rounds),
        "tokens_per_call": tokens_per_call(runs, TOSS_GAMMA).value,
        "replay": replay(probs, half, [TOSS_GAMMA])[TOSS_GAMMA].value,
        "eq. (1)": eq1_gap(runs, betas, TOSS_GAMMA).expected,
    }


def estimates_due(runs: Sequence[Generation]) -> Reading:
    """Closed forms and plain sums. The coins are independent, so by Wald's identity accepted over
    tested is α, and tokens over calls is equation (1), exactly."""
    rounds = [r for run in runs for r in run.rounds]
    drafted = sum(r.drafted for r in rounds)
    per_call = sum(TOSS_ALPHA**k for k in range(TOSS_GAMMA + 1))
    return {
        "alpha_from_probs": 0.65,
        "alpha_from_rounds": TOSS_ALPHA,
        "accepted_per_drafted": sum(r.accepted for r in rounds) / drafted,
        "drafted_per_round": drafted / len(rounds),
        "tokens_per_call": per_call,
        "replay": per_call,
        "eq. (1)": per_call,
    }


# ---- The dice ---------------------------------------------------------------------------------

QUARTER = np.full(4, 0.25)
QUARTERS = TableLM.of_probs(QUARTER), TableLM.of_probs(np.array([0, 0, 0.5, 0.5]))  # coins: 1/2
BOUNDARY_LAWS = ([0, 0.25, 0.15, 0, 0.6, 0], [0.1] * 10, [0.5, 0.5], [0, 1.0])
COINS = (0.0, 0.25, 0.3, 0.65, 1.0)


class Grid:
    """A generator of the middles of quarters: which one, a dice is asked. Where every comparison
    has its boundary at a quarter, all branches together are the exact law of uniforms."""

    def __init__(self, dice: Any) -> None:
        self.dice, self.asked = dice, 0

    def random(self) -> float:
        self.asked += 1
        return (int(self.dice.choose(QUARTER)) + 0.5) / 4


class Fixed:
    """A generator of one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def dice_due() -> tuple[Law, Reading]:
    """The law of `of_dice`'s runs, and what it should read."""
    return plain_law(QUARTERS[0], [0], 2), {TV: 0, "wrong answers": 0, "uniforms a question": 1}


def of_dice(due: Law) -> Reading:
    """`RandomDice` in the loop, all its uniforms taken; and at the boundaries of its questions."""
    asked = questions = 0

    def run(dice: Any) -> Generation:
        nonlocal asked, questions
        grid = Grid(dice)
        made = speculative_generate(*QUARTERS, [0], 2, 1, rng=RandomDice(grid))
        asked += grid.asked
        # a draw for each draft, a coin for each one tested, and the round's last token
        questions += sum(r.drafted + r.tested + 1 for r in made.rounds)
        return made

    variation = float(total_variation(output_law(run, MAX_LEAVES), due))
    return {
        TV: variation,
        "wrong answers": wrong_answers(),
        "uniforms a question": asked / questions,
    }


def wrong_answers() -> int:
    """Questions at the boundaries (0, the largest uniform, every cumulative sum, an ulp to either
    side) that get another answer than the definition's."""
    wrong = 0
    for law in BOUNDARY_LAWS:
        sums = list(accumulate(law))
        for u in _around(s / sums[-1] for s in sums):
            due = next((i for i, s in enumerate(sums) if s > u * sums[-1]), sums.index(sums[-1]))
            wrong += RandomDice(Fixed(u)).choose(np.array(law)) != due
    for probability in COINS:
        for u in _around([probability]):
            wrong += RandomDice(Fixed(u)).accept(probability) != (u < probability)
    return wrong


def _around(places: Any) -> list[float]:
    """Uniforms at the places, an ulp below and above, and at both ends."""
    near = {float(np.nextafter(x, to)) for x in places for to in (0, x, 1)}
    return sorted({0.0, LAST} | {u for u in near if 0 <= u <= LAST})
