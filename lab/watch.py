"""A user's rule, watched at every call: does it draw through the dice, and only through it?

Enumeration proves a law only if what a rule does is a function of its arguments and of the dice's
answers. So every branch that is new is run twice, every call is compared with what was seen of the
same branch before, and questions, answers and arguments are checked. What is wrong is told as a
`lab.userrule.Trouble`. N drafts, V = vocabulary.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from lab import domains, guest
from lab.exact import Script
from lab.sampling import Dice
from lab.userrule import Trouble, UserRule, line_of, shown, told
from lab.verify import Proposal, Verdict, Verify, accepted_and_token, as_verdict, chain_rule

T = TypeVar("T")
Array = npt.NDArray[Any]
Step = tuple[str, Any]  # ("choose", law), ("accept", probability) or ("returned", answer)
Call = Callable[[list[Any], Dice], Any]

MOST_QUESTIONS = 50  # in one call, and two more for every probability of the target
MOST_OUTCOMES = 100  # of one question, or as many as the target has probabilities
MOST_CALLS = 200_000  # of all cases together
COPY_FIRST = "copy what you change"


class Watch:
    """A rule that is looked at while it runs; `rule` is what a loop is given.

    where : the case being run, for what is told; set by whoever runs it
    asked : questions so far
    calls : calls so far; MOST_CALLS are the end
    """

    def __init__(self, user: UserRule) -> None:
        self.user = user
        self.where = ""
        self.asked = self.calls = 0
        self._seen: dict[Any, Step] = {}  # (arguments, answers so far): what came next

    @property
    def rule(self) -> Verify:
        return chain_rule(self._chain) if self.user.is_chain else self._verify

    def _chain(
        self, target_probs: Array, draft_probs: Array, drafts: Array, dice: Dice
    ) -> tuple[int, int]:
        def call(arrays: list[Any], dice: Dice) -> tuple[int, int]:
            answer = self.user.function(*arrays, dice)
            return _checked(accepted_and_token, answer, len(drafts), target_probs.shape[1])

        answer: tuple[int, int] = self._watched(
            call, [target_probs, draft_probs, drafts], drafts, dice
        )
        return answer

    def _verify(self, target_probs: Array, proposal: Proposal, dice: Dice) -> Verdict:
        def call(arrays: list[Any], dice: Dice) -> Verdict:
            answer = self.user.function(arrays[0], Proposal(*arrays[1:]), dice)
            return _checked(as_verdict, answer, len(proposal), target_probs.shape[1])

        given = [target_probs, proposal.tokens, proposal.probs, proposal.parents]
        answer: Verdict = self._watched(call, given, proposal.tokens, dice)
        return answer

    def _watched(self, call: Call, given: list[Any], drafts: Array, dice: Dice) -> Any:
        key = tuple(None if array is None else (array.shape, array.tobytes()) for array in given)
        branch = Branch(key, tuple(drafts.tolist()), given[0].size)
        known = len(self._seen)
        answer = self._run(call, given, dice, branch)
        self.asked += len(branch.questions)
        if len(self._seen) > known:  # a branch that is new
            again = Branch(key, branch.drafts, branch.numbers)
            self._run(call, given, Script(branch.answers), again)
        return answer

    def _run(self, call: Call, given: list[Any], dice: Dice, branch: Branch) -> Any:
        """Run the rule, on copies that cannot be written to."""
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise Trouble(
                f"{self.user.name} has too many branches: more than {MOST_CALLS} calls, the last "
                f"with {self.where or 'this one'}; take a smaller vocab or gamma."
            )
        arrays = [None if array is None else _frozen(array) for array in given]
        try:
            with guest.limited(self.user.name):
                answer = call(arrays, Asked(dice, branch, self._compare))
            self._compare(branch, ("returned", answer))
        except Nonsense as error:
            branch.fault = branch.fault or str(error)
        except guest.Interrupted:
            raise
        except BaseException as error:
            if branch.fault is None:
                raise self._trouble(self._raised(error), branch) from error
        if branch.fault is None:
            if all(_same(*pair) for pair in zip(given, arrays, strict=True)):
                return answer
            branch.fault = f"writes into its arguments; {COPY_FIRST}"
        raise self._trouble(branch.fault, branch)

    def _compare(self, branch: Branch, step: Step) -> None:
        """The same arguments and answers must lead to the same next step."""
        known = self._seen.setdefault((branch.key, tuple(branch.answers)), step)
        if known != step:
            branch.fault = branch.fault or (
                "hides randomness, or a memory, of its own: run again on the same branch, it "
                f"{_told(step)} where it {_told(known)} before; every draw must go through the dice"
            )
            raise Nonsense(branch.fault)

    def _raised(self, error: BaseException) -> str:
        text = shown(error)
        if isinstance(error, ValueError) and ("read-only" in text or "WRITEABLE" in text):
            return f"writes into its arguments{line_of(error, self.user.file)}; {COPY_FIRST}"
        return told(error, self.user.file)

    def _trouble(self, what: str, branch: Branch) -> Trouble:
        where = f"{self.where}, " if self.where else ""
        return Trouble(f"{self.user.name} {what}. Seen with {where}{branch}.")


class Nonsense(Exception):
    """A question or an answer that is none."""


def _frozen(array: Array) -> Array:
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def _same(array: Array | None, copy: Array | None) -> bool:
    return array is None or copy is None or np.array_equal(array, copy)


# ---- What it asks -----------------------------------------------------------------------------


@dataclass
class Branch:
    """One call as it goes: what was asked, and what the dice said.

    key : the arguments
    numbers : probabilities of the target's, by which its size is judged
    fault : what was wrong; noted here as well as raised, since a rule may swallow exceptions
    """

    key: Any
    drafts: tuple[int, ...]
    numbers: int
    questions: list[Step] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    fault: str | None = None

    def __str__(self) -> str:
        steps = [f"drafts {' '.join(map(str, self.drafts))}"]
        for (kind, value), answer in zip(self.questions, self.answers, strict=False):
            said = ("no", "yes")[answer] if kind == "accept" else answer
            steps.append(f"{kind}({_numbers(value)}) -> {said}")
        return textwrap.shorten(", ".join(steps), 300, placeholder=" …")


class Asked:
    """The dice that a rule is given: questions are checked, noted and passed on."""

    def __init__(self, dice: Dice, branch: Branch, compare: Callable[[Branch, Step], None]) -> None:
        self._dice, self._branch, self._compare = dice, branch, compare

    def choose(self, probs: Any) -> int:
        law = self._law(probs)
        token: int = self._ask(("choose", tuple(law.tolist())), lambda: self._dice.choose(law))
        return token

    def accept(self, probability: Any) -> bool:
        given = _real(probability)
        if given is None or given.ndim:
            self._fail(f"asks accept about {_brief(probability)}, which is not one number")
        number = float(given)
        if number != number:
            self._fail("asks accept with probability NaN; is it 0 / 0?")
        if not 0 <= number <= 1:
            hint = "; take min(1, ·) first" if number > 1 else ""
            self._fail(f"asks accept with probability {number:.7g}, outside 0..1{hint}")
        answer: bool = self._ask(("accept", number), lambda: self._dice.accept(number))
        return answer

    def _law(self, probs: Any) -> Array:
        """A law (V,) as float64, scaled to 1 as `RandomDice` does, if it is one up to rounding."""
        law = _real(probs)
        if law is None:
            self._fail(f"asks choose about {_brief(probs)}, which is no row of numbers")
        if law.ndim != 1 or not law.size:
            self._fail(f"asks choose about an array of shape {law.shape}; it takes one law (V,)")
        if np.isnan(law).any():
            self._fail("asks choose about a law with NaN in it; is it 0 / 0?")
        if (law < 0).any():
            self._fail(f"asks choose about a law with the negative entry {law.min():.6g}")
        total = law.sum()
        if total == 0:
            self._fail("asks choose about a law that is 0 everywhere")
        if abs(total - 1) > domains.LAW_SUM:
            self._fail(
                f"asks choose about a vector that sums to {total:.6g}, not to 1; divide by the sum"
            )
        outcomes, most = np.count_nonzero(law), max(MOST_OUTCOMES, self._branch.numbers)
        if outcomes > most:
            self._fail(
                f"asks choose about a law of {outcomes} outcomes, each of them a branch; {most} "
                "can be examined"
            )
        scaled: Array = law / total
        return scaled

    def _ask(self, question: Step, ask: Callable[[], Any]) -> Any:
        branch = self._branch
        most = MOST_QUESTIONS + 2 * branch.numbers
        if len(branch.questions) >= most:
            del branch.questions[3:]
            self._fail(f"asks without end, {most} questions in one call")
        self._compare(branch, question)
        branch.questions.append(question)
        branch.answers.append(ask())
        return branch.answers[-1]

    def _fail(self, what: str) -> NoReturn:
        self._branch.fault = self._branch.fault or what
        raise Nonsense(what)


# ---- What it returns --------------------------------------------------------------------------


def _checked(check: Callable[[Any, int, int], T], answer: Any, drafts: int, vocab: int) -> T:
    """An answer as the loop takes it; what the loop would say of it, in the sentence."""
    try:
        return check(answer, drafts, vocab)
    except ValueError as error:
        text = textwrap.shorten(str(error).removeprefix("rule: "), 200, placeholder=" …")
        raise Nonsense(f"returns nonsense: {text}") from None


def _real(value: Any) -> Array | None:
    """Real numbers as float64, of any library; None if they are text, complex, or nothing."""
    try:
        given = np.asarray(value)
        if given.dtype == object and any(isinstance(x, str | bytes | None) for x in given.flat):
            return None
        return given.astype(np.float64) if given.dtype.kind in "biufO" else None
    except (TypeError, ValueError, RuntimeError):
        return None


def _brief(value: Any) -> str:
    return textwrap.shorten(repr(value), 80, placeholder=" …")


def _numbers(value: Any) -> str:
    values = value if isinstance(value, tuple) else (value,)
    return " ".join(f"{number:.4g}" for number in values)


def _told(step: Step) -> str:
    kind, value = step
    if kind != "returned":
        return f"asked {kind}({_numbers(value)})"
    return f"returned {value}"
