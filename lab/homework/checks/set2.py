"""Homework 2: laws and verdicts, held to `lab.sampling` and to every branch of a round."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from lab.domains import Floats
from lab.enumeration import branches
from lab.exact import Law, round_difference
from lab.homework.checking import Clumsy, Wrong, alike, ask, call, check, equal, shaped, short
from lab.homework.checks.inputs import fix_a, share, two_laws
from lab.rule_laws import PrefixLaw
from lab.sampling import Sampling, residual
from lab.small import random_laws
from lab.verify import accepted_and_token

Rng = np.random.Generator

VOCAB = 3
EXACT = 1e-9  # total variation that rounding may leave


# ---- 2.1 temperature_law ---------------------------------------------------------------------


@check("2.1", "at T = 1 it is the softmax: exp(logit) over the sum of all of them")
def softmax(student: Any, rng: Rng) -> None:
    _tempered(student, rng.normal(0, 2, 4).round(1), 1.0)


@check("2.1", "logits are divided by T, before exp: below 1 the law is sharper, above 1 flatter")
def divided(student: Any, rng: Rng) -> None:
    for temperature in (0.5, share(rng, 1.2, 3.0)):
        _tempered(student, rng.normal(0, 2, 4).round(1), temperature)


@check("2.1", "subtract the largest logit first, which changes no law: exp(1000) is no number")
def large(student: Any, rng: Rng) -> None:
    for logits in ([1000.0, 999.0, 0.0], [-1000.0, -1001.0, -2000.0], [3000.0, 0.0, -1.0]):
        _tempered(student, np.array(logits) + rng.integers(3), 1.0)
        _tempered(student, np.array(logits), 0.5)


@check("2.1", "T = 0 is the limit, all mass on the largest logit: nothing is divided by 0")
def zero(student: Any, rng: Rng) -> None:
    logits = rng.permutation([-3.0, 0.5, 0.7, 2.0])
    equal(student.temperature_law, (logits, 0.0), np.eye(4)[logits.argmax()])


@check("2.1", "at T = 0 the first of equal logits has all the mass, and the others none")
def tie(student: Any, rng: Rng) -> None:
    first, second = sorted(rng.choice(5, 2, replace=False).tolist())
    logits = np.array([0.0, -1.0, 0.5, -2.0, 0.25])
    logits[[first, second]] = 3.0
    equal(student.temperature_law, (logits, 0.0), np.eye(5)[first])


def _tempered(student: Any, logits: Floats, temperature: float) -> None:
    wanted = Sampling(temperature=temperature).probs(logits)
    equal(student.temperature_law, (logits, temperature), wanted)


# ---- 2.2 top_p_law ---------------------------------------------------------------------------


@check("2.2", "top_p = 1 keeps every token, each in its own place")
def everything(student: Any, rng: Rng) -> None:
    law = np.roll([0.4, 0.3, 0.2, 0.1], rng.integers(1, 4))  # never in falling order
    equal(student.top_p_law, (law, 1.0), law)


@check(
    "2.2",
    "a token stays while the mass of the likelier ones before it is below top_p, so the one that "
    "reaches top_p stays too",
)
def nucleus(student: Any, rng: Rng) -> None:
    """top_p lies well between two sums, so rounding does not matter."""
    law = rng.permutation([0.4, 0.3, 0.2, 0.1])
    for top_p, count in ((0.55, 2), (0.8, 3), (0.95, 4), (0.25, 1)):
        _keeps(student, law, top_p, np.argsort(-law)[:count])


@check(
    "2.2", "where the mass before a token is top_p already, that token goes: no more than needed"
)
def reached(student: Any, rng: Rng) -> None:
    """Sixteenths, so that every sum is exact."""
    law = rng.permutation([8, 4, 3, 1]) / 16
    for top_p, count in ((0.5, 1), (0.75, 2), (0.9375, 3)):
        _keeps(student, law, top_p, np.argsort(-law)[:count])


@check("2.2", "of equally likely tokens the lower index comes first: a place, not a value, is cut")
def equals(student: Any, rng: Rng) -> None:
    """Many equals: a sort that is not stable leaves few of them in order."""
    law = np.full(40, 1 / 64)
    likeliest = int(rng.integers(40))
    law[likeliest] = 25 / 64
    others = np.delete(np.arange(40), likeliest)
    for count in (1, 8, 20):
        top_p = (25 + count - 0.5) / 64
        _keeps(student, law, top_p, np.append(likeliest, others[:count]))


@check("2.2", "what is kept is scaled to sum to 1 again: divided by the mass that was kept")
def scaled(student: Any, rng: Rng) -> None:
    for top_p in (0.25, 0.55, 0.8):
        law = rng.permutation([0.4, 0.3, 0.2, 0.1])
        equal(student.top_p_law, (law, top_p), Sampling(top_p=top_p).probs(np.log(law)))


def _keeps(student: Any, law: Floats, top_p: float, wanted: Any) -> None:
    _possible(student.top_p_law, (law, top_p), np.sort(wanted))


def _possible(function: Any, args: tuple[Any, ...], wanted: Any) -> None:
    """A law that a function returns gives mass to these tokens and to no other."""
    what = call(function, *args)
    law = shaped(what, ask(function, *args), args[0])
    tokens = np.flatnonzero(law)  # NaN is no 0
    if not np.array_equal(tokens, wanted):
        raise Wrong(
            f"{what} gave {short(law)}, which has mass on the tokens {short(tokens)}, expected it "
            f"on {short(wanted)}"
        )


# ---- 2.3 accept_probability ------------------------------------------------------------------


@check("2.3", "a token that q gives too often is accepted with p / q, so that p is what is left")
def too_often(student: Any, rng: Rng) -> None:
    p, q = two_laws(rng, 4)
    token = int(np.argmin(p / q))
    equal(student.accept_probability, (p, q, token), p[token] / q[token])
    equal(student.accept_probability, (np.array([0.2, 0.8]), np.array([0.5, 0.5]), 0), 0.4)


@check("2.3", "a token that p gives at least as often as q is always accepted: min(1, p / q)")
def always(student: Any, rng: Rng) -> None:
    p, q = two_laws(rng, 4)
    for token in (int(np.argmax(p / q)), int(np.argmax(p - q))):
        equal(student.accept_probability, (p, q, token), 1.0)
    equal(student.accept_probability, (p, p, int(rng.integers(4))), 1.0)


@check("2.3", "a token that p never gives is never accepted")
def impossible(student: Any, rng: Rng) -> None:
    equal(student.accept_probability, (np.array([0.0, 1.0]), np.array([0.5, 0.5]), 0), 0.0)


# ---- 2.4 residual ----------------------------------------------------------------------------


@check(
    "2.4",
    "only tokens that the target gives more often than the draft are left, max(0, p - q): neither "
    "|p - q| nor max(0, q - p), nor p itself",
)
def left_over(student: Any, rng: Rng) -> None:
    p, q = two_laws(rng, 5)
    _possible(student.residual, (p, q), np.flatnonzero(p > q))


@check("2.4", "what is left is divided by its own sum to make a law of it: norm(max(0, p - q))")
def normalised(student: Any, rng: Rng) -> None:
    equal(student.residual, fix_a(), np.array([5 / 7, 0, 2 / 7, 0]))
    for size in (2, 5, 12):
        p, q = two_laws(rng, size)
        equal(student.residual, (p, q), residual(p, q))


@check("2.4", "of equal laws nothing is left: return p, not 0 / 0")
def nothing_left(student: Any, rng: Rng) -> None:
    p, _ = two_laws(rng, 4)
    equal(student.residual, (p, p.copy()), p)
    equal(student.residual, (np.eye(3)[1], np.eye(3)[1]), np.eye(3)[1])


@check(
    "2.4", "laws that differ by rounding can leave nothing, too: ask for the sum, not for p == q"
)
def rounded(student: Any, rng: Rng) -> None:
    q = np.array([0.3, 0.7])
    p = np.array([0.3, np.nextafter(0.7, 0)])
    equal(student.residual, (p, q), q)


# ---- 2.5 verify ------------------------------------------------------------------------------


class Questions:
    """A dice that answers as told and notes what it is asked.

    answers : to `accept`, one after the other; whoever asks for more hears yes
    """

    def __init__(self, answers: list[bool]) -> None:
        self.answers = answers
        self.accepts: list[float] = []
        self.chooses: list[Floats] = []

    def __repr__(self) -> str:
        return "dice"

    def accept(self, probability: Any) -> bool:
        self.accepts.append(float(probability))
        asked = len(self.accepts)
        return self.answers[asked - 1] if asked <= len(self.answers) else True

    def choose(self, probs: Any) -> int:
        """The last token that has a probability."""
        self.chooses.append(np.array(probs, np.float64))
        return int(max(np.flatnonzero(self.chooses[-1]), default=0))


@check("2.5", "draft i is accepted with min(1, p / q) of its own token, p and q being row i")
def coins(student: Any, rng: Rng) -> None:
    p, q, drafts = _round(rng)
    each = np.arange(len(drafts))
    dice, _, what = _verdict(student, p, q, drafts, rejected=None)
    _said(what, "asked accept with", np.array(dice.accepts), p[each, drafts] / q[each, drafts])
    welcome = np.argmax(p[:-1] / q, axis=1)  # drafts that the target gives more often
    dice, _, what = _verdict(student, p, q, welcome, rejected=None)
    if max(dice.accepts, default=0.0) > 1 + EXACT:
        raise Wrong(f"{what} asked accept with {short(dice.accepts)}, expected none above 1")


@check(
    "2.5",
    "the first rejection ends the round: drafts behind it were drawn to follow a text that is no "
    "more",
)
def first_rejection(student: Any, rng: Rng) -> None:
    p, q, drafts = _round(rng)
    for rejected in range(len(drafts)):
        dice, answer, what = _verdict(student, p, q, drafts, rejected)
        _said(what, "asked accept this often:", len(dice.accepts), rejected + 1)
        _said(what, "accepted", answer[0], rejected)


@check(
    "2.5",
    "a rejected draft's place is drawn once, from the residual max(0, p - q) of its own row; p as "
    "a whole would bring back what the draft gives already",
)
def correction(student: Any, rng: Rng) -> None:
    p, q, drafts = _round(rng)
    for i in range(len(drafts)):
        _draws(_verdict(student, p, q, drafts, rejected=i), residual(p[i], q[i]))


@check("2.5", "behind accepted drafts the token is drawn once, from the target's last row")
def bonus(student: Any, rng: Rng) -> None:
    p, q, drafts = _round(rng)
    given = _verdict(student, p, q, drafts, rejected=None)
    _draws(given, p[-1])
    _said(given[2], "accepted", given[1][0], len(drafts))


@check("2.5", "with no draft nothing is tested, and the token is drawn from the target's one row")
def no_drafts(student: Any, rng: Rng) -> None:
    p, q, drafts = _round(rng)
    given = _verdict(student, p[:1], q[:0], drafts[:0], rejected=None)
    _draws(given, p[0])
    _said(given[2], "accepted", given[1][0], 0)


@check("2.5", "the text has the target's law, whatever the draft's, and Σ min(p, q) is accepted")
def lossless(student: Any, rng: Rng) -> None:
    """Every branch of every draw: no statistics, so nothing to be lucky with."""
    key = int(rng.integers(2**31))
    target, draft = random_laws(VOCAB, key, 0), random_laws(VOCAB, key, 1)
    _exact(student, target, draft, 1)
    _exact(student, target, draft, 2)
    _exact(student, target, target, 1)
    _exact(student, lambda prefix: np.eye(VOCAB)[target(prefix).argmax()], draft, 2)  # T = 0


Given = tuple[Questions, tuple[int, int], str]  # the dice, the verdict, how a sentence begins


def _round(rng: Rng) -> tuple[Floats, Floats, Any]:
    """Target laws (3, V), draft laws (2, V), two drafts; no probability of acceptance is 1 or the
    same as another, nor are any two of the rows and residuals."""
    while True:
        p, q = np.swapaxes([two_laws(rng, VOCAB) for _ in range(3)], 0, 1)
        drafts, each = np.argmin(p / q, axis=1)[:2], np.arange(2)
        coins = p[each, drafts] / q[each, drafts]
        laws = np.concatenate([p, q[:2], residual(p[:2], q[:2])])
        if abs(coins[0] - coins[1]) > 0.01 and len(np.unique(laws.round(6), axis=0)) == len(laws):
            return p, q[:2], drafts


def _verdict(student: Any, p: Floats, q: Floats, drafts: Any, rejected: int | None) -> Given:
    """What `verify` answers to a dice that rejects one draft, or none."""
    dice = Questions([True] * len(drafts) if rejected is None else [True] * rejected + [False])
    told = "" if rejected is None else f" with a dice that rejects draft {rejected}"
    return dice, _pair(student, p, q, drafts, dice), f"{call(student.verify, p, q, drafts)}{told}"


def _pair(student: Any, p: Floats, q: Floats, drafts: Any, dice: Any) -> tuple[int, int]:
    """(accepted, token), two whole numbers that can be."""
    answer = ask(student.verify, p, q, drafts, dice)
    with contextlib.suppress(ValueError):
        return accepted_and_token(answer, len(drafts), p.shape[1])
    raise Clumsy(
        f"{call(student.verify, p, q, drafts)} returned {short(answer)}, expected (accepted, "
        f"token), whole numbers within 0..{len(drafts)} and 0..{p.shape[1] - 1}"
    )


def _said(what: str, verb: str, got: Any, wanted: Any) -> None:
    if not alike(got, wanted, EXACT):
        raise Wrong(f"{what} {verb} {short(got)}, expected {short(wanted)}")


def _draws(given: Given, law: Floats) -> None:
    """One token was drawn, from this law, and it is the one returned."""
    dice, (_, token), what = given
    _said(what, "drew this many tokens:", len(dice.chooses), 1)
    _said(what, "drew its token from", dice.chooses[0], law)
    last = np.flatnonzero(law)[-1]
    _said(f"{what} drew token {last} and", "returned", token, last)


def _exact(student: Any, target: PrefixLaw, draft: PrefixLaw, gamma: int) -> None:
    """The law of one round's text beside the target's, and how many drafts it keeps."""
    law: Law = {}
    kept = 0.0

    def run(dice: Any) -> tuple[int, ...]:
        drafts: list[int] = []
        for _ in range(gamma):
            drafts.append(dice.choose(draft(tuple(drafts))))
        p = np.stack([target(tuple(drafts[:i])) for i in range(gamma + 1)])  # (gamma + 1, V)
        q = np.stack([draft(tuple(drafts[:i])) for i in range(gamma)])  # (gamma, V)
        accepted, token = _pair(student, p, q, np.array(drafts), dice)
        return (*drafts[:accepted], token)

    for leaf in branches(run):
        law[leaf.result] = law.get(leaf.result, 0.0) + leaf.probability
        kept += leaf.probability * (len(leaf.result) - 1)
    found = round_difference(law, target, gamma)
    what = f"verify, over all answers of the dice to rounds of γ={gamma},"
    if found.total_variation > EXACT:
        raise Wrong(
            f"{what} gave texts that begin with {short(found.prefix)} probability "
            f"{short(found.p_law)}, expected {short(found.p_reference)}"
        )
    _said(what, "accepted in the mean", kept, _overlap(target, draft, gamma))


def _overlap(
    target: PrefixLaw, draft: PrefixLaw, gamma: int, prefix: tuple[int, ...] = ()
) -> float:
    """Accepted drafts in the mean: a prefix is accepted with the product of its min(p, q)."""
    if gamma == 0:
        return 0.0
    kept = 0.0
    for token, mass in enumerate(np.minimum(target(prefix), draft(prefix)).tolist()):
        kept += mass * (1 + _overlap(target, draft, gamma - 1, (*prefix, token)))
    return kept
