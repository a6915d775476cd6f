"""Which check would have found it? The checks that public projects use, and the lab's own.

Every check runs on the loop that is in place (see `lab.mutation`). What it compares with was made
by sound code before, which is kinder than life: a project compares with its own plain decoding,
which may share the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np

from lab import certify
from lab.battery import ESTIMATORS, UNIFORMS, Battery, Case
from lab.certificate import Certificate
from lab.estimate import accepted_per_drafted
from lab.exact import Law, prefix_law, round_law
from lab.lawtest import fit
from lab.mutants import MUTANTS
from lab.mutation import Mutant
from lab.readings import TV
from lab.sampling import RandomDice, Sampling, residual
from lab.small import HashLM, TableLM
from lab.sweep import sweep
from lab.verify import _ratio, block_rule, match_rule, token_rule

T = TypeVar("T")

LEVEL = 0.05  # of the χ² tests
HORIZON = 4  # tokens of a sampled run, γ + 2
BAND = 0.1  # around the share of accepted drafts
GREEDY = 40  # tokens of the text at T = 0
CONTROL = "none"  # the name of the shipped code among the mutants
RULE_PARTS: dict[str, tuple[Any, ...]] = {  # the functions that a certificate of a rule reads
    "token": (token_rule, _ratio, residual),
    "block": (block_rule, _ratio, residual),
    "match": (match_rule,),
}
LOOP_MODULES = {"lab.decode", "lab.drafting", "lab.sampling", "lab.text", "lab.verify"}


@dataclass(frozen=True)
class Check:
    """A way to test a decoder.

    what : what it does, in words
    ours : whether it is the lab's, not one that public projects use
    sampled : whether it may come out differently with other random numbers
    """

    what: str
    ours: bool = False
    sampled: bool = False


CHECKS = {
    "sampled χ²": Check(
        f"χ² of the first token at {LEVEL:.0%}, its expectation a sample of as many", sampled=True
    ),
    "first-token χ²": Check(
        f"χ² of the first token at {LEVEL:.0%}, against the exact law", sampled=True
    ),
    "joint χ²": Check(
        f"χ² of {HORIZON} tokens together at {LEVEL:.0%}, against the exact law", sampled=True
    ),
    "greedy text": Check(f"the same {GREEDY} tokens as plain decoding at T = 0"),
    "acceptance band": Check(
        f"accepted / drafted of a long text within ±{BAND} of the exact share", sampled=True
    ),
    "exact law": Check("the law of every case of the battery, by enumeration", ours=True),
    "exact means": Check(
        "the expectations of all counters, origins and ends there, and every estimator", ours=True
    ),
    "uniforms": Check(
        "scripted uniforms: the law on a grid of them, one a question, all boundaries", ours=True
    ),
    "certificate": Check(
        "the lossless rules certified for all laws, the loop for all horizons", ours=True
    ),
}


@dataclass(frozen=True)
class Effort:
    """Sizes of a scoreboard.

    runs : of one χ² test
    tokens : of the text whose share of accepted drafts is looked at
    repeats, control_repeats : how often each sampled check is made, on a mutant and on the control
    rule_sizes : rule -> every (V, γ) at which it is certified
    loop_gamma : γ at which the loop is certified (V 2)
    """

    runs: int
    tokens: int
    repeats: int
    control_repeats: int
    rule_sizes: Mapping[str, Sequence[tuple[int, int]]]
    loop_gamma: int


FULL = Effort(300, 400, 10, 100, {"token": [(3, 2)], "block": [(3, 2)], "match": [(3, 2)]}, 2)
FAST = Effort(
    100, 200, 2, 20, {"token": [(3, 1), (2, 2)], "block": [(2, 2)], "match": [(3, 1)]}, 1
)  # fmt: skip


@dataclass(frozen=True)
class Tally:
    """How often a check fired."""

    fires: int
    trials: int

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.fires + other.fires, self.trials + other.trials)

    @property
    def catches(self) -> bool:
        """More often than not."""
        return 2 * self.fires > self.trials


Row = dict[str, Tally]  # by check


# ---- What the checks compare with -------------------------------------------------------------


class References:
    """Made once by sound code."""

    def __init__(self) -> None:
        self.battery = Battery()
        plain = self.battery.cases["plain"]
        assert isinstance(plain, Case)
        self.plain = plain
        self.joint = plain.due(HORIZON)
        self.first = prefix_law(self.joint, 1)
        self.accepted = long_run_acceptance(plain.target, plain.draft, plain.gamma)
        self.greedy = Case(
            HashLM(), HashLM(rotate=4), GREEDY, 3, (4, 1, 5), {"sampling": Sampling(temperature=0)}
        )
        (self.greedy_text,) = self.greedy.due()  # the only text that is possible


@cache
def references() -> References:
    return References()


def long_run_acceptance(target: TableLM, draft: TableLM, gamma: int) -> float:
    """Accepted / drafted in the long run, exactly: rounds are a Markov chain over the last tokens
    (the tables' context), each with the law of one round."""
    vocab, context = target.vocab, target.table.ndim - 1
    states = list(np.ndindex((vocab,) * context))
    step = np.zeros((len(states), len(states)))
    accepted = np.zeros(len(states))

    def law_of(model: TableLM, state: tuple[int, ...]) -> Callable[[tuple[int, ...]], Any]:
        return lambda prefix: Sampling().probs(model.table[(*state, *prefix)[len(prefix) :]])

    for i, state in enumerate(states):
        round_ = round_law("token", law_of(target, state), law_of(draft, state), gamma)
        for tokens, probability in round_.items():
            step[i, states.index((*state, *tokens)[len(tokens) :])] += probability
            accepted[i] += probability * (len(tokens) - 1)
    stationary = np.linalg.matrix_power(step, 1000)[0]
    return float(stationary @ accepted) / gamma


# ---- One mutant, all checks -------------------------------------------------------------------


def score(name: str, seed: int, effort: Effort, repeats: Iterable[int]) -> Row:
    """All checks on one mutant, or on the control.

    Sampled ones are made once for each of `repeats`, which are numbers of random streams; the
    others once, if 0 is among these.
    """
    due, mutant = references(), MUTANTS.get(name)
    cell = (seed, 7, 1 + list(MUTANTS).index(name) if mutant else 0)
    repeats = list(repeats)
    row = {key: Tally(0, 0) for key in CHECKS}
    patch = mutant.patch() if mutant else nullcontext()
    with patch, np.errstate(all="ignore"):
        for repeat in repeats:
            rng = np.random.default_rng([*cell, repeat])
            for key, fires in sampled_checks(due, rng, effort).items():
                row[key] += Tally(int(fires), 1)
        if 0 in repeats:
            for key, fires in certain_checks(due, mutant, effort).items():
                row[key] += Tally(int(fires), 1)
    return row


def sampled_checks(due: References, rng: np.random.Generator, effort: Effort) -> dict[str, bool]:
    """Each with runs of its own; one that raises is seen by whoever makes it."""

    def chi_squares() -> dict[str, bool]:
        dice = RandomDice(rng)
        made = [due.plain.run(dice, HORIZON) for _ in range(effort.runs)]
        p_values = {
            "sampled χ²": fit(made, sample_of(due.first, effort.runs, rng), 1).p_value,
            "first-token χ²": fit(made, due.first, 1).p_value,
            "joint χ²": fit(made, due.joint).p_value,
        }
        return {key: p_value < LEVEL for key, p_value in p_values.items()}

    def acceptance() -> bool:
        run = due.plain.run(RandomDice(rng), effort.tokens)
        return not abs(accepted_per_drafted(run.rounds).value - due.accepted) <= BAND

    raised = dict.fromkeys(("sampled χ²", "first-token χ²", "joint χ²"), True)
    return _or(raised, chi_squares) | {"acceptance band": _or(True, acceptance)}


def sample_of(law: Law, size: int, rng: np.random.Generator) -> Law:
    """The shares of a sample, as an expectation."""
    probs = np.array(list(law.values()), np.float64)
    seen = rng.multinomial(size, probs / probs.sum())
    return dict(zip(law, (seen / size).tolist(), strict=True))


def certain_checks(due: References, mutant: Mutant | None, effort: Effort) -> dict[str, bool]:
    """The checks without chance."""

    def greedy() -> bool:
        made = due.greedy.run(RandomDice(np.random.default_rng(0)))
        return tuple(made.tokens.tolist()) != due.greedy_text

    law, means = exact_checks(due.battery)
    return {
        "greedy text": _or(True, greedy),
        "exact law": law,
        "exact means": means,
        "uniforms": _or(True, lambda: bool(due.battery.differing(UNIFORMS))),
        "certificate": refuted(mutant, effort),
    }


def exact_checks(battery: Battery) -> tuple[bool, bool]:
    """Whether any case has a wrong law; whether any has wrong expectations."""
    law = means = False
    for name in (*battery.cases, ESTIMATORS):
        if not (law and means):
            differing = _or({TV, "raised"}, partial(battery.differing, name))
            law, means = law or TV in differing, means or bool(differing - {TV})
    return law, means


def refuted(mutant: Mutant | None, effort: Effort) -> bool:
    """Whether a certificate fails: of a lossless rule, or of the loop with the token rule (V 2,
    laws of the last two tokens). Made again are those that run edited functions; the others are as
    they were."""
    edited = None if mutant is None else [edit.function for edit in mutant.edits]
    for rule, parts in RULE_PARTS.items():
        if edited is None or any(function in parts for function in edited):
            for vocab, gamma in effort.rule_sizes[rule]:
                if _or(True, partial(_fails, certify.rule, rule, vocab, gamma)):
                    return True
    if edited is None or any(function.__module__ in LOOP_MODULES for function in edited):
        pair = TableLM.random(2, 4, 2), TableLM.random(2, 109, 2)
        return _or(True, partial(_fails, certify.loop, *pair, effort.loop_gamma))
    return False


def _fails(certifier: Callable[..., Certificate], *arguments: Any) -> bool:
    return not certifier(*arguments).holds


def _or(raised: T, check: Callable[[], T]) -> T:
    """The check's result; `raised` if it raises: a fault that stops the program is seen."""
    try:
        return check()
    except Exception:
        return raised


# ---- The board --------------------------------------------------------------------------------


def board(seed: int, effort: Effort) -> dict[str, Row]:
    """All checks on the control and on every mutant, on all cores."""
    references()  # before the processes are made, so that they have it
    shares = range(0, effort.control_repeats, effort.repeats)
    jobs = [(CONTROL, range(first, first + effort.repeats)) for first in shares]
    jobs += [(name, range(effort.repeats)) for name in MUTANTS]
    found = sweep([partial(score, name, seed, effort, repeats) for name, repeats in jobs])
    rows: dict[str, Row] = {}
    for (name, _), row in zip(jobs, found, strict=True):
        before = rows.get(name, dict.fromkeys(CHECKS, Tally(0, 0)))
        rows[name] = {key: before[key] + row[key] for key in CHECKS}
    return rows


def blind(rows: Mapping[str, Row], key: str) -> list[str]:
    """The mutants that a check does not see: it does not fire more often than not."""
    return [name for name, row in rows.items() if name != CONTROL and not row[key].catches]
