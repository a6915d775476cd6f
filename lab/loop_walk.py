"""Every round of the loop from every state that it can be in.

A walk is one run of the loop: it goes to a state, and takes a branch there that was not taken yet.
Once a state is exhausted, the law of what its round emits is compared with the target's own.
Branches of one state are taken after whatever text led to it, so they add up to one only if the
state is all that a round depends on. V = vocabulary. A walk with one draft a round:

    text 0        answers that lead on, 1 1 0 (draft 1, accepted, bonus 0): nothing is noted
    text 0 1 0    the state, and answers pending there, 0 0 (draft 0, rejected), with the first
                  correction possible, 1: that is added to its law, other corrections are pending
    text 0 1 0 1  another state, a branch that is pending there; and so on for `WALK` new rounds
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from lab.certificate import Fault, Tokens, Violation, shown
from lab.decode import speculate
from lab.exact import EXACT, Law, Script, difference
from lab.forward import drive
from lab.loop_states import END, DueLaws, Misstated, Region, Setup, Start, State, far_room, in_view
from lab.loop_watched import KnownDrafter, KnownModel

Array = npt.NDArray[Any]
Path = tuple[tuple[int, ...], ...]  # answers of the dice, round by round

WALK = 3  # new rounds of one run: a fault is told by a short text
MAX_VIOLATIONS = 10  # more would say nothing new


class TooManyBranches(ValueError):
    """No fault of the loop."""


class Enough(Exception):
    """MAX_VIOLATIONS were found."""


class RunOver(Exception):
    """The run has gone where it was to go."""


@dataclass(eq=False)
class Visit:
    """A state: a way to it, and what its round was seen to emit.

    path : the answers that lead from `start` to it
    text : all tokens there
    pending : answers that begin branches which were not taken yet
    law : probability of what is emitted, with an END where the run was over
    """

    state: State
    start: Start
    path: Path
    text: Tokens
    pending: list[list[int]] = field(default_factory=lambda: [[]])
    law: Law = field(default_factory=dict)
    failed: bool = False

    def take(self) -> Script:
        """A branch that was not taken yet."""
        return Script(self.pending.pop())

    def add(self, emitted: Tokens, taken: Script) -> None:
        """It has emitted something; branches beside it are pending."""
        self.law[emitted] = self.law.get(emitted, 0) + taken.probability
        self.pending += taken.siblings()


@dataclass(eq=False)
class Findings:
    """What all regions found together."""

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
    """All states of one region, and every round from each."""

    def __init__(
        self, setup: Setup, region: Region, target: DueLaws, draft: DueLaws | None, found: Findings
    ) -> None:
        self.setup, self.region, self.found = setup, region, found
        self.target, self.draft = target, draft
        self.visits: dict[State, Visit] = {}
        self.order: list[Visit] = []

    def explore(self) -> None:
        for start in self.region.starts:
            Walk(self, start).run()
        for visit in self.order:  # it grows on the way
            while visit.pending:
                if not Walk(self, visit.start, visit).run():  # nor will another
                    visit.pending.clear()
                    fault = Fault("elsewhere", "here once more", "leads, with the same answers,")
                    self.blame(visit, visit.text, fault)
            if not visit.failed:
                self._judge(visit)

    def visit(self, state: State, start: Start, path: Path, text: Tokens) -> Visit:
        """The visit of a state that a run has come to, by this way or another."""
        if self.draft is not None:
            self.draft.check(text)
        visit = self.visits.get(state)
        if visit is None:
            visit = self.visits[state] = Visit(state, start, path, text)
            self.order.append(visit)
        elif len(path) < len(visit.path) and not self.region.whole:
            visit.start, visit.path, visit.text = start, path, text
        return visit

    def blame(self, visit: Visit, text: Tokens, fault: Fault) -> None:
        """A fault that no law shows; the first of each state."""
        if not visit.failed:
            visit.failed = True
            self.found.violation(Violation(self._where(visit), {}, {}, text, *fault))

    def _judge(self, visit: Visit) -> None:
        """The law of the round, continued by the target's own, is the target's own."""
        state, stop = visit.state, self.region.stop
        length = min(self.setup.gamma + 1, state.room)
        due = self.target.complete(visit.text, {(): 1.0}, length, state.room, stop)
        got = self.target.complete(visit.text, visit.law, length, state.room, stop)
        gap = difference(got, due)
        self.found.rounds += 1
        self.found.states.add(state._replace(room=0, draft_room=None))
        self.found.largest = max(self.found.largest, gap.total_variation)
        mass = sum(visit.law.values())
        if abs(mass - 1) > EXACT:
            one = "1: a law is none, or something is drawn, or kept, outside the dice"
            self.blame(visit, visit.text, Fault(f"{mass:.6g}", one, "has branches that add up to"))
            return
        if gap.total_variation <= EXACT:
            return
        text, what = gap.prefix or (), "has probability"  # none: no prefix by itself is far off
        if END in text:
            text, what = text[:-1], "ends the run with probability"
        drafts = text[: self.setup.gamma]
        self.found.violation(
            Violation(
                f"{self._where(visit)}, total variation {gap.total_variation:.3g}",
                self.target.along(visit.text, text),
                self.draft.along(visit.text, drafts) if self.draft else {},
                text, gap.p_law, gap.p_reference, what,
            )
        )  # fmt: skip

    def _where(self, visit: Visit) -> str:
        stop = f", stop at {shown(self.region.stop)}" if self.region.stop else ""
        prompt = visit.start.prompt
        way = f"prompt {shown(prompt)}, then {shown(visit.text[len(prompt) :])}"
        return f"{self.region.name}: {visit.state.words(self.setup.gamma)}{stop} ({way})"


class Walk:
    """One run of the loop: it goes where `aim` is, then takes in every state that it comes to a
    branch which was not taken yet. It is the run's dice, and the schedule that is asked for gamma
    at the start of every round.

    scripts : the answers of its rounds
    before : the text at the round's start
    visit : whose branch the round is; None on the way to `aim`
    """

    def __init__(self, explorer: Explorer, start: Start, aim: Visit | None = None) -> None:
        setup = explorer.setup
        self.explorer, self.start, self.aim = explorer, start, aim
        self.path = aim.path if aim else ()
        self.target = KnownModel("target", setup.target, _least(setup.target, start.target_len))
        draft_len = _least(setup.draft, start.draft_len)
        self.draft: KnownModel | KnownDrafter = (
            KnownModel("draft", setup.draft, draft_len)
            if setup.draft_is_model
            else KnownDrafter(setup.draft, draft_len)
        )
        self.scripts: list[Script] = []
        self.before = start.prompt
        self.visit: Visit | None = None

    def run(self) -> bool:
        """Whether it came to its aim."""
        setup, start = self.explorer.setup, self.start
        try:
            loop = speculate(
                self.target, self.draft, start.prompt, start.n_new, self.begin,
                sampling=setup.sampling, draft_sampling=setup.draft_sampling, rng=self,
                stop=self.explorer.region.stop, rule=setup.rule,
            )  # fmt: skip
            self.end(start.prompt + tuple(drive(loop).tokens.tolist()))
        except RunOver:
            pass
        except (Enough, TooManyBranches, Misstated):
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            self._blame(self.before, Fault(said, "a finished round", "ends in"))
        if isinstance(self.draft, KnownDrafter) and not self.draft.certain:
            self.explorer.found.certain = False
        return self.aim is None or len(self.scripts) > len(self.path)

    # The dice of the run.

    def choose(self, probs: Array) -> int:
        return self.scripts[-1].choose(probs)

    def accept(self, probability: Any) -> bool:
        return self.scripts[-1].accept(probability)

    # Its rounds.

    def begin(self, view: Any) -> int:
        """The schedule: a round begins."""
        text, rounds = tuple(view.tokens.tolist()), len(self.scripts)
        self._close(text)
        if rounds < len(self.path):
            self.scripts.append(Script(self.path[rounds]))
        else:
            self.visit = self._arrive(text, view.rounds[-1].accepted if view.rounds else None)
            self.scripts.append(self.visit.take())
            self.explorer.found.branch()
        self.before = text
        return self.explorer.setup.gamma

    def end(self, text: Tokens) -> None:
        """The run has finished by itself."""
        self._close(text, (END,))
        if not self.scripts and self._limit > len(text):
            self._blame(text, Fault("nothing", "a round", "is followed by"))

    def _close(self, text: Tokens, end: Tokens = ()) -> None:
        """A round has ended, if there was one: note what it emitted, and look at the caches."""
        if self.visit is not None:
            script = self.scripts[-1]
            self.visit.add(text[len(self.before) :] + end, script)
            if text == self.before:
                self._blame(text, Fault("nothing", "a token at least", "is followed by a round of"))
            if script.asked < len(script.answers):
                asked, before = f"{script.asked} questions", f"{len(script.answers)}, as before"
                self._blame(text, Fault(asked, before, "has a round of"))
        faults = [self.target.fault(text, exactly=True)]
        if isinstance(self.draft, KnownModel):
            faults += [self.draft.fault(text, exactly=False), self._behind(text)]
        for fault in faults:
            if fault is not None:
                self._blame(text, fault)
                raise RunOver

    def _behind(self, text: Tokens) -> Fault | None:
        """Whether the draft's cache lacks more than the prompt and rounds that could not draft may
        leave to do: it then lacks more with every round, and there is no end of states."""
        lag, most = self._lag(text), len(self.start.prompt) + far_room(self.explorer.setup.gamma)
        if lag is None or lag <= most:
            return None
        return Fault(f"{lag} tokens missing", f"{most} at most", "leaves the draft's cache with")

    def _lag(self, text: Tokens) -> int | None:
        """Positions that the draft's cache lacks; None where it does not matter."""
        if not isinstance(self.draft, KnownModel) or self.explorer.setup.gamma == 0:
            return None
        if self.draft.max_len is not None and len(text) > self.draft.max_len:
            return None
        return len(text) - 1 - self.draft.length

    def _arrive(self, text: Tokens, accepted: int | None) -> Visit:
        """The state that the run has come to, if there is something left to do in it."""
        explorer, region, rounds = self.explorer, self.explorer.region, len(self.scripts)
        if region.longest is not None and len(text) > region.longest:
            raise RunOver
        path = tuple(tuple(script.answers) for script in self.scripts)
        visit = explorer.visit(self._state(text, accepted), self.start, path, text)
        astray = self.aim is not None and rounds == len(self.path) and visit is not self.aim
        own_way = not region.whole or (visit.start, visit.path) == (self.start, path)
        if astray or not visit.pending or not own_way or rounds == len(self.path) + WALK:
            raise RunOver
        return visit

    @property
    def _limit(self) -> int:
        """Tokens that the text may have."""
        limit = len(self.start.prompt) + self.start.n_new
        return limit if self.target.max_len is None else min(limit, self.target.max_len)

    def _state(self, text: Tokens, accepted: int | None) -> State:
        setup = self.explorer.setup
        draft_room = None
        if self.draft.max_len is not None:  # none or less is the same for ever
            draft_room = min(max(self.draft.max_len - len(text), -1), setup.gamma + 3)
        return State(
            view=text if self.explorer.region.whole else in_view(text, setup.view),
            seen=frozenset(text) if setup.penalised else frozenset(),
            lag=self._lag(text),
            accepted=accepted,
            room=min(self._limit - len(text), far_room(setup.gamma)),
            draft_room=draft_room,
        )

    def _blame(self, text: Tokens, fault: Fault) -> None:
        """A fault of the round from `visit`, or of what comes before the first."""
        if self.visit is None and self.aim is None:
            prompt = self.start.prompt
            self.visit = self.explorer.visit(self._state(prompt, None), self.start, (), prompt)
        if self.visit is not None:
            self.explorer.blame(self.visit, text, fault)


def _least(model: Any, max_len: int | None) -> int | None:
    """Where a context ends: the model's own end, or an earlier one."""
    ends = [end for end in (getattr(model, "max_len", None), max_len) if end is not None]
    return min(ends, default=None)
