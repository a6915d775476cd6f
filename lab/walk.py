"""Every round of the loop from every state that it can be in.

One run of the loop walks from state to state, in each along a branch that was not taken yet; once
a state is exhausted, the law of what its round emits is compared with the target's own. Branches
of one state are taken after whatever text led to it, so they add up to one only if the state is
all that a round depends on. V = vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from lab.caches import Fault, KnownDrafter, KnownModel, Text, shown
from lab.certificate import Violation
from lab.decode import speculate
from lab.exact import Law, Script, difference
from lab.forward import drive
from lab.states import END, Case, Laws, Part, Start, State, far_room, in_view

Array = npt.NDArray[Any]
Path = tuple[tuple[int, ...], ...]

EXACT = 1e-12
WALK = 3  # new rounds of one run: a fault is told by a short text
MAX_VIOLATIONS = 10  # more would say nothing new


@dataclass(eq=False)
class Visit:
    """A state: a way to it, and what its round was seen to emit.

    path : the dice's answers, round by round, that lead from `start` to it
    text : all tokens there
    pending : answers that begin branches which were not taken yet
    law : probability of what is emitted, with an END where the run was over
    """

    state: State
    start: Start
    path: Path
    text: Text
    pending: list[list[int]] = field(default_factory=lambda: [[]])
    law: Law = field(default_factory=dict)
    failed: bool = False


class TooManyBranches(ValueError):
    """No fault of the loop."""


class Enough(Exception):
    """MAX_VIOLATIONS were found."""


@dataclass(eq=False)
class Findings:
    """What all parts found together."""

    max_leaves: int
    states: set[State] = field(default_factory=set)
    rounds: int = 0
    leaves: int = 0
    largest: float = 0.0  # total variation
    certain: bool = True  # all that a drafter proposed
    violations: list[Violation] = field(default_factory=list)

    def branch(self) -> None:
        self.leaves += 1
        if self.leaves > self.max_leaves:
            raise TooManyBranches(
                f"more than max_leaves={self.max_leaves} branches: take a smaller vocabulary, "
                "gamma or context, or laws with fewer possible tokens"
            )

    def violation(self, violation: Violation) -> None:
        self.violations.append(violation)
        if len(self.violations) == MAX_VIOLATIONS:
            raise Enough


class Explorer:
    """All states of one part, and every round from each."""

    def __init__(
        self, case: Case, part: Part, target: Laws, draft: Laws | None, found: Findings
    ) -> None:
        self.case, self.part, self.target, self.draft, self.found = case, part, target, draft, found
        self.visits: dict[State, Visit] = {}
        self.order: list[Visit] = []

    def explore(self) -> None:
        for start in self.part.starts:
            Walk(self, start).run()
        for visit in self.order:  # it grows on the way
            while visit.pending:
                Walk(self, visit.start, visit.path, visit).run()
            if not visit.failed:
                self._judge(visit)

    def visit(self, state: State, start: Start, path: Path, text: Text) -> Visit:
        """The visit of a state that a run has come to, by this way or another."""
        visit = self.visits.get(state)
        if visit is None:
            visit = self.visits[state] = Visit(state, start, path, text)
            self.order.append(visit)
        elif len(path) < len(visit.path) and not self.part.whole:
            visit.start, visit.path, visit.text = start, path, text
        return visit

    def blame(self, visit: Visit, text: Text, fault: Fault) -> None:
        """A fault that no law shows; the first of each state."""
        if not visit.failed:
            visit.failed = True
            self.found.violation(Violation(self._where(visit), {}, {}, text, *fault))

    def _judge(self, visit: Visit) -> None:
        """The law of the round, continued by the target's own, is the target's own."""
        state, stop = visit.state, self.part.stop
        length = min(self.case.gamma + 1, state.room)
        due = self.target.complete(visit.text, {(): 1.0}, length, state.room, stop)
        got = self.target.complete(visit.text, visit.law, length, state.room, stop)
        gap = difference(got, due)
        self.found.rounds += 1
        self.found.states.add(state._replace(room=0, draft_room=None))
        self.found.largest = max(self.found.largest, gap.total_variation)
        if gap.total_variation <= EXACT:
            return
        text, what = gap.prefix or (), "has probability"  # none: no prefix by itself is far off
        if END in text:
            text, what = text[:-1], "ends the run with probability"
        draft_laws = {}
        if self.draft is not None:
            draft_laws = self.draft.along(visit.text, text[: self.case.gamma])
        self.found.violation(
            Violation(
                f"{self._where(visit)}, total variation {gap.total_variation:.3g}",
                self.target.along(visit.text, text), draft_laws,
                text, gap.p_law, gap.p_reference, what,
            )
        )  # fmt: skip

    def _where(self, visit: Visit) -> str:
        stop = f", stop at {shown(self.part.stop)}" if self.part.stop else ""
        prompt = visit.start.prompt
        way = f"prompt {shown(prompt)}, then {shown(visit.text[len(prompt) :])}"
        return f"{self.part.name}: {visit.state.words(self.case.gamma)}{stop} ({way})"


class Walk:
    """One run of the loop: it repeats `path`, then takes in every state that it comes to a branch
    which was not taken yet. It is the run's dice, and the schedule that is asked for gamma at the
    start of every round."""

    def __init__(
        self, explorer: Explorer, start: Start, path: Path = (), aim: Visit | None = None
    ) -> None:
        case = explorer.case
        self.explorer, self.start, self.path, self.aim = explorer, start, path, aim
        self.target = KnownModel("target", case.target, _least(case.target, start.target_len))
        draft_len = _least(case.draft, start.draft_len)
        self.draft: KnownModel | KnownDrafter = (
            KnownModel("draft", case.draft, draft_len)
            if case.draft_is_model
            else KnownDrafter(case.draft, draft_len)
        )
        self.limit = len(start.prompt) + start.n_new
        if self.target.max_len is not None:
            self.limit = min(self.limit, self.target.max_len)
        self.taken: list[tuple[int, ...]] = []  # answers, by round
        self.script = Script([])
        self.before = start.prompt  # the text at the round's start
        self.visit: Visit | None = None  # whose branch is taken; None in what is repeated
        self.rounds = 0
        self.arrived = False

    def run(self) -> None:
        case, start = self.explorer.case, self.start
        try:
            loop = speculate(
                self.target, self.draft, start.prompt, start.n_new, self.begin,
                sampling=case.sampling, draft_sampling=case.draft_sampling, rng=self,
                stop=self.explorer.part.stop, rule=case.rule,
            )  # fmt: skip
            self.end(start.prompt + tuple(drive(loop).tokens.tolist()))
        except RunOver:
            pass
        except (Enough, TooManyBranches):
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            self._blame(self.before, Fault(said, "a finished round", "ends in"))
        if self.aim is not None and not self.arrived:  # and never will
            self.aim.pending.clear()
            fault = Fault("elsewhere", "here once more", "leads, with the same answers,")
            self.explorer.blame(self.aim, self.aim.text, fault)
        if isinstance(self.draft, KnownDrafter) and not self.draft.certain:
            self.explorer.found.certain = False

    # The dice of the run.

    def choose(self, probs: Array) -> int:
        return self.script.choose(probs)

    def accept(self, probability: Any) -> bool:
        return self.script.accept(probability)

    # Its rounds.

    def begin(self, view: Any) -> int:
        """The schedule: a round begins."""
        text = tuple(view.tokens.tolist())
        if self.rounds:
            self._close(text, over=False)
        self._check_caches(text)
        if self.rounds < len(self.path):
            self.script = Script(self.path[self.rounds])
        else:
            accepted = view.rounds[-1].accepted if view.rounds else None
            self.visit = self._arrive(text, accepted)
            self.script = Script(self.visit.pending.pop())
            self.explorer.found.branch()
        self.rounds, self.before = self.rounds + 1, text
        return self.explorer.case.gamma

    def end(self, text: Text) -> None:
        """The run has finished by itself."""
        if self.rounds:
            self._close(text, over=True)
        self._check_caches(text)
        if not self.rounds and self.limit > len(text):
            self._blame(text, Fault("nothing", "a round", "is followed by"))

    def _close(self, text: Text, over: bool) -> None:
        """A round has ended: note what it emitted, and which answers were possible besides."""
        script, visit = self.script, self.visit
        self.taken.append(tuple(script.answers))
        if visit is not None:
            emitted = text[len(self.before) :] + ((END,) if over else ())
            visit.law[emitted] = visit.law.get(emitted, 0) + script.probability
            visit.pending += [[*script.answers[:i], other] for i, other in script.open]
            if text == self.before:
                self._blame(text, Fault("nothing", "a token at least", "is followed by a round of"))
            if script.asked < len(script.answers):
                asked, before = f"{script.asked} questions", f"{len(script.answers)}, as before"
                self._blame(text, Fault(asked, before, "has a round of"))

    def _check_caches(self, text: Text) -> None:
        faults = [self.target.fault(text, exactly=True)]
        if isinstance(self.draft, KnownModel):
            faults.append(self.draft.fault(text, exactly=False))
        for fault in faults:
            if fault is not None:
                self._blame(text, fault)
                raise RunOver

    def _arrive(self, text: Text, accepted: int | None) -> Visit:
        """The state that the run has come to, if there is something left to do in it."""
        explorer, taken = self.explorer, tuple(self.taken)
        part = explorer.part
        if part.longest is not None and len(text) > part.longest:
            raise RunOver
        visit = explorer.visit(self._state(text, accepted), self.start, taken, text)
        if self.aim is not None and self.rounds == len(self.path):
            if visit is not self.aim:
                raise RunOver
            self.arrived = True
        own_way = not part.whole or (visit.start, visit.path) == (self.start, taken)
        if not visit.pending or not own_way or self.rounds == len(self.path) + WALK:
            raise RunOver
        return visit

    def _state(self, text: Text, accepted: int | None) -> State:
        case = self.explorer.case
        draft_room, lag = None, None
        if self.draft.max_len is not None:  # none or less is the same for ever
            draft_room = min(max(self.draft.max_len - len(text), -1), case.gamma + 3)
        if isinstance(self.draft, KnownModel) and case.gamma > 0 and draft_room != -1:
            lag = len(text) - 1 - self.draft.length
        return State(
            view=text if self.explorer.part.whole else in_view(text, case.view),
            seen=frozenset(text) if case.penalised else frozenset(),
            lag=lag,
            accepted=accepted,
            room=min(self.limit - len(text), far_room(case.gamma)),
            draft_room=draft_room,
        )

    def _blame(self, text: Text, fault: Fault) -> None:
        """A fault of the round from `visit`, or of what comes before the first."""
        if self.visit is None and self.aim is None:
            prompt = self.start.prompt
            self.visit = self.explorer.visit(self._state(prompt, None), self.start, (), prompt)
        if self.visit is not None:
            self.explorer.blame(self.visit, text, fault)


class RunOver(Exception):
    """The run has gone where it was to go."""


def _least(model: Any, max_len: int | None) -> int | None:
    """Where a context ends: the model's own end, or an earlier one."""
    ends = [end for end in (getattr(model, "max_len", None), max_len) if end is not None]
    return min(ends, default=None)
