"""Calling a student's loop, and what must come of it: what homework 4's checks share.

Each call is a fresh one, of models that note what is done to them; see `lab.homework.watched`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.enumeration import Script
from lab.exact import difference, output_law
from lab.homework.checking import Clumsy, Wrong, ask, call, must_be, short
from lab.homework.watched import Call, Model, Pair, TextLaw, Tokens, holding, random_law

Rng = np.random.Generator
Array = npt.NDArray[Any]
Law = dict[Tokens, float]
Run = Callable[[Script], Sequence[int]]

VOCAB = 3
SAME_LAW = 1e-9  # total variation
MOST_BRANCHES = 20_000
NO_STOP: frozenset[int] = frozenset()


def random_text(rng: Rng, length: int) -> list[int]:
    return [int(token) for token in rng.integers(VOCAB, size=length)]


# ---- One step of a round ---------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A call of `propose` or `score`.

    said : how it reads
    law : the model's
    fed : what the model was fed, call by call
    held : what the cache held afterwards
    drafts, laws : what came: tokens, and a law for each or one more
    """

    said: str
    law: TextLaw
    fed: list[list[int]]
    held: list[int]
    drafts: list[int]
    laws: Any


def proposed(student: Any, rng: Rng, text: list[int], lacking: int, count: int) -> Step:
    """Propose behind a text of which the cache lacks so many tokens, along one random branch."""
    law, log, cache = random_law(rng, VOCAB), list[Call](), holding(text[:-lacking])
    args = (Model("draft", law, VOCAB, log), cache, text, count, Script(random_text(rng, count)))
    said = call(student.propose, *args)
    drafts, laws = proposal(said, ask(student.propose, *args, may_change=(1,)), count)
    return Step(said, law, [list(one.fed) for one in log], cache.tokens, drafts, laws)


def proposal(said: str, answer: Any, count: int) -> tuple[list[int], Any]:
    """Drafts and their laws, of lists or of arrays."""
    if not (isinstance(answer, tuple | list) and len(answer) == 2):
        must_be(said, answer, ([0] * count, np.zeros((count, VOCAB))))
    drafts = plain_tokens(f"the drafts of {said}", answer[0])
    if len(drafts) != count:
        raise Clumsy(f"{said} drafted {drafts}, expected count={count} of them")
    return drafts, answer[1]


def scored(student: Any, rng: Rng, text: list[int], drafts: list[int]) -> Step:
    """Score drafts behind a text; the rows must be the target's laws."""
    law, log, cache = random_law(rng, VOCAB), list[Call](), holding(text[:-1])
    args = (Model("target", law, VOCAB, log), cache, text, drafts)
    said = call(student.score, *args)
    rows = ask(student.score, *args, may_change=(1,))
    must_be(said, rows, np.array([law([*text, *drafts[:i]]) for i in range(len(drafts) + 1)]))
    return Step(said, law, [list(one.fed) for one in log], cache.tokens, drafts, rows)


def committed(
    student: Any, drafts: list[int], accepted: int, token: int, stop: AbstractSet[int],
    emitted: list[int],
) -> None:  # fmt: skip
    """Commit behind [3, 1]; the text must have grown by these."""
    text = [3, 1]
    args = (text, list(drafts), accepted, token, set(stop))
    said = call(student.commit, *args)
    ask(student.commit, *args, may_change=(0,))
    same_tokens(f"after {said}, the text is", text, [3, 1, *emitted])


def says(
    student: Any, text: list[int], drafts: list[int], accepted: int, token: int,
    stop: AbstractSet[int], wanted: bool,
) -> None:  # fmt: skip
    """Commit must return this."""
    args = (list(text), list(drafts), accepted, token, set(stop))
    said = call(student.commit, *args)
    must_be(said, ask(student.commit, *args, may_change=(0,)), wanted)


def rolled_back(student: Any, held: Sequence[int], text: list[int], wanted: Sequence[int]) -> None:
    """Roll a cache back; it must then hold this."""
    cache = holding(held)
    said = call(student.roll_back, cache, text)
    ask(student.roll_back, cache, text, may_change=(0,))
    same_tokens(f"after {said}, the cache holds", cache.tokens, wanted)


# ---- A whole run -----------------------------------------------------------------------------


def generated(
    student: Any, pair: Pair, prompt: list[int], n_new: int, gamma: int, dice: Any = None,
    stop: AbstractSet[int] = NO_STOP,
) -> tuple[str, list[int]]:  # fmt: skip
    """Generate; returns how the call reads, and the new tokens. No dice: laws are certain."""
    dice = Script([]) if dice is None else dice
    args = (pair.target, pair.draft, list(prompt), n_new, gamma, pair.rule, dice, set(stop))
    given = f"prompt={prompt}, n_new={n_new}, gamma={gamma}"
    said = f"generate({given}{f', stop={set(stop)}' if stop else ''})"
    return said, plain_tokens(said, ask(student.generate, *args))


def reaches(one: Call, prompt: list[int]) -> bool:
    """Whether a call of a model goes beyond the prompt without its last token."""
    return one.who != "rule" and len(one.held) + len(one.fed) >= len(prompt)


def caches_right(said: str, log: Iterable[Call], prompt: list[int], text: list[int]) -> None:
    """Every round must begin with what the caches may hold of the text so far.

    text : the new tokens
    """
    whole, length = [*prompt, *text], len(prompt)
    new_round = True  # nothing was drafted in it yet
    for one in log:
        so_far = whole[:length]
        behind = f"{said}: at the text {so_far}, the {one.who}'s cache"
        if one.who == "rule":
            length, new_round = length + len(one.emitted), True
        elif not reaches(one, prompt):
            continue  # the prompt is being read
        elif one.who == "draft" and new_round:
            same_tokens(f"{behind} with what it was fed held", [*one.held, *one.fed], so_far)
            new_round = False
        elif one.who == "target":
            same_tokens(f"{behind} held", one.held, so_far[:-1])
            if len(one.fed) == 1:  # no drafts, so there will be no verdict
                length, new_round = length + 1, True


def texts_of_the_target(
    student: Any, pair: Pair, prompt: list[int], n_new: int, gamma: int,
    stop: AbstractSet[int] = NO_STOP,
) -> None:  # fmt: skip
    """The exact law of what generate writes must be the target's."""
    said = ""

    def run(dice: Script) -> list[int]:
        nonlocal said
        said, text = generated(student, pair.fresh(), prompt, n_new, gamma, dice, stop)
        return text

    law = every_branch(run)
    same_law(said, law, plain_law(pair.target_law, prompt, n_new, stop))


# ---- What is due, and telling the difference -------------------------------------------------


def plain_text(
    law: TextLaw, prompt: list[int], n_new: int, stop: AbstractSet[int] = NO_STOP
) -> list[int]:
    """Plain decoding at temperature 0."""
    text = list(prompt)
    while len(text) < len(prompt) + n_new:
        text.append(int(law(text).argmax()))
        if text[-1] in stop:
            break
    return text[len(prompt) :]


def plain_law(law: TextLaw, prompt: list[int], n_new: int, stop: AbstractSet[int] = NO_STOP) -> Law:
    """The law of what plain decoding writes: products of the target's laws."""
    found: Law = {}
    pending: list[tuple[Tokens, float]] = [((), 1.0)]
    while pending:
        text, chance = pending.pop()
        if len(text) == n_new or (text and text[-1] in stop):
            found[text] = chance
        else:
            probs = law([*prompt, *text])
            pending += [((*text, t), chance * float(probs[t])) for t in range(VOCAB)]
    return found


def every_branch(run: Run) -> Law:
    """The exact law of what a run returns."""
    try:
        return output_law(run, MOST_BRANCHES)
    except ValueError as error:
        raise Wrong(f"over all branches of the dice, {error}") from error


def same_law(said: str, law: Law, due: Law) -> None:
    found = difference(law, due)
    if found.total_variation > SAME_LAW:
        begins = "what begins with " + str(list(found.prefix or ()))
        raise Wrong(
            f"{said}: over all answers of the dice, {begins} has probability {found.p_law:.6g}, "
            f"expected {found.p_reference:.6g}"
        )


def same_tokens(said: str, got: Iterable[Any], wanted: Sequence[Any]) -> None:
    """Tokens, or lists of them, one for each call."""
    came = list(got)
    if came != list(wanted):
        raise Wrong(f"{said} {came}, expected {list(wanted)}")


def plain_tokens(said: str, answer: Any) -> list[int]:
    """Tokens, of a list or an array of any ints."""
    if answer is None:
        must_be(said, None, [])
    try:
        return [int(token) for token in answer]
    except (TypeError, ValueError):
        raise Wrong(f"{said} gave {short(answer)}, expected a list of tokens") from None
