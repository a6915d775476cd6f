"""Homework 4: the loop, on models that note every call, through every branch of every draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from lab.enumeration import Script
from lab.homework.checking import Wrong, ask, check, equal, must_be, short
from lab.homework.checks.loop_asked import (
    VOCAB,
    caches_right,
    committed,
    every_branch,
    generated,
    plain_law,
    plain_text,
    proposal,
    proposed,
    random_text,
    reaches,
    rolled_back,
    same_law,
    same_tokens,
    says,
    scored,
    texts_of_the_target,
)
from lab.homework.watched import (
    Model,
    Pair,
    certain,
    constant,
    holding,
    mostly,
    planned,
    random_law,
)
from lab.planted import right_along

Rng = np.random.Generator


# ---- 4.1 drafts_allowed ----------------------------------------------------------------------


@check("4.1", "gamma is the most that a round drafts")
def at_most_gamma(student: Any, rng: Rng) -> None:
    for gamma in (1, 4, 7):
        equal(student.drafts_allowed, (gamma, gamma + int(rng.integers(2, 9))), gamma)


@check(
    "4.1",
    "a round emits its accepted drafts and one token more, so wanted - 1 drafts are enough",
)
def room_for_one_more(student: Any, rng: Rng) -> None:
    for gamma, wanted in ((4, 3), (4, 4), (4, 5), (9, 2), (1, 1), (5, 1)):
        equal(student.drafts_allowed, (gamma, wanted), min(gamma, wanted - 1))


@check("4.1", "gamma = 0 is plain decoding: nothing is drafted, ever")
def plain_decoding(student: Any, rng: Rng) -> None:
    for wanted in (1, 2, 9):
        equal(student.drafts_allowed, (0, wanted), 0)


# ---- 4.2 propose -----------------------------------------------------------------------------


@check(
    "4.2",
    "what the cache lacks of the text is fed first, all of it in one call: after a full "
    "acceptance two tokens, the last draft and the token behind it",
)
def catches_up(student: Any, rng: Rng) -> None:
    for lacking in (2, 1, 3):
        text = random_text(rng, 5)
        step = proposed(student, rng, text, lacking, 1)
        same_tokens(f"{step.said} fed the draft", step.fed[:1], [text[-lacking:]])


@check(
    "4.2",
    "every token is fed once: what the cache lacks, then each draft but the last, behind which "
    "nothing is asked",
)
def feeds_once(student: Any, rng: Rng) -> None:
    for count, lacking in ((1, 1), (3, 1), (3, 2)):
        text = random_text(rng, 4)
        step = proposed(student, rng, text, lacking, count)
        wanted = [text[-lacking:], *([draft] for draft in step.drafts[:-1])]
        same_tokens(f"{step.said} drafted {step.drafts} and fed the draft", step.fed, wanted)
        same_tokens(f"after {step.said}, the cache holds", step.held, [*text, *step.drafts[:-1]])


@check("4.2", "row i is the draft's law behind the text and the i drafts before it")
def laws_of_the_draft(student: Any, rng: Rng) -> None:
    for count, lacking in ((1, 1), (3, 1), (2, 2), (1, 3)):
        text = random_text(rng, 4)
        step = proposed(student, rng, text, lacking, count)
        wanted = [step.law([*text, *step.drafts[:i]]) for i in range(count)]
        said = f"draft_probs of {step.said}, which drafted {step.drafts},"
        must_be(said, np.asarray(step.laws), np.array(wanted))


@check("4.2", "each draft is drawn by the dice from the law in its own row")
def drawn_from_its_row(student: Any, rng: Rng) -> None:
    text, law = random_text(rng, 3), random_law(rng, VOCAB)
    said = f"propose(tokens={short(text)}, count=2)"

    def run(dice: Script) -> list[int]:
        args = (Model("draft", law, VOCAB, []), holding(text[:-1]), text, 2, dice)
        return proposal(said, ask(student.propose, *args, may_change=(1,)), 2)[0]

    same_law(f"the drafts of {said}", every_branch(run), plain_law(law, text, 2))


# ---- 4.3 score -------------------------------------------------------------------------------


@check(
    "4.3",
    "the pending token is in no cache yet: it is fed, and its row is the law behind the text",
)
def pending(student: Any, rng: Rng) -> None:
    for length in (1, 4):
        scored(student, rng, random_text(rng, length), [])


@check("4.3", "N drafts have N + 1 rows: the last is the law behind them all, for the bonus token")
def one_row_more(student: Any, rng: Rng) -> None:
    for count in (1, 2, 4):
        scored(student, rng, random_text(rng, 3), random_text(rng, count))


@check("4.3", "one call of the target scores the whole round: that is all the gain there is")
def one_call(student: Any, rng: Rng) -> None:
    for count in (0, 1, 3):
        text, drafts = random_text(rng, 3), random_text(rng, count)
        step = scored(student, rng, text, drafts)
        same_tokens(f"{step.said} fed the target", step.fed, [[text[-1], *drafts]])


@check("4.3", "scoring leaves the text and all drafts in the cache: the rollback comes later")
def leaves_the_drafts(student: Any, rng: Rng) -> None:
    text, drafts = random_text(rng, 3), random_text(rng, 2)
    step = scored(student, rng, text, drafts)
    same_tokens(f"after {step.said}, the cache holds", step.held, [*text, *drafts])


# ---- 4.4 commit ------------------------------------------------------------------------------


@check("4.4", "a round emits its accepted drafts in their order, then the rule's token")
def emits(student: Any, rng: Rng) -> None:
    for accepted in (0, 1, 2, 3):
        committed(student, [5, 6, 7], accepted, 8, set(), [*[5, 6, 7][:accepted], 8])
    committed(student, [], 0, 8, set(), [8])


@check("4.4", "the first stop token ends the text wherever in the round it stands, and is kept")
def stops_inside(student: Any, rng: Rng) -> None:
    drafts, at = [5, 6, 7], int(rng.integers(3))
    drafts[at] = 2
    committed(student, drafts, 3, 8, {2}, drafts[: at + 1])
    committed(student, [5, 2, 4, 2], 4, 2, {2, 4}, [5, 2])
    committed(student, [5, 6], 2, 8, {8}, [5, 6, 8])


@check("4.4", "only what is emitted can end a text: no rejected draft, nothing that was there")
def not_emitted(student: Any, rng: Rng) -> None:
    for drafts, accepted in (([5, 2], 1), ([2, 2], 0), ([5, 6, 2], 2)):
        says(student, [3, 1], drafts, accepted, 8, {2}, False)
    says(student, [2, 1], [5, 6], 1, 8, {2}, False)


@check("4.4", "True where a stop token was emitted, else False: the loop goes by it")
def says_whether(student: Any, rng: Rng) -> None:
    says(student, [3, 1], [5, 6], 1, 8, set(), False)
    says(student, [3, 1], [5, 6], 1, 8, {7}, False)
    says(student, [3, 1], [5, 6], 2, 8, {5}, True)
    says(student, [3, 1], [5, 6], 2, 8, {6}, True)
    says(student, [3, 1], [5, 6], 1, 8, {8}, True)


# ---- 4.5 roll_back ---------------------------------------------------------------------------


@check("4.5", "between rounds a cache holds the text without its last token, the pending one")
def without_the_pending(student: Any, rng: Rng) -> None:
    for drafted, accepted in ((3, 1), (2, 0), (4, 2), (1, 1)):
        text, drafts = random_text(rng, 3), random_text(rng, drafted)
        after = [*text, *drafts[:accepted], int(rng.integers(VOCAB))]
        rolled_back(student, [*text, *drafts], after, after[:-1])


@check("4.5", "the draft's cache forgets what was rejected too, though it was fed one token less")
def of_the_draft(student: Any, rng: Rng) -> None:
    for drafted, accepted in ((2, 0), (3, 0), (4, 1), (3, 2)):
        text, drafts = random_text(rng, 3), random_text(rng, drafted)
        after = [*text, *drafts[:accepted], int(rng.integers(VOCAB))]
        rolled_back(student, [*text, *drafts[:-1]], after, after[:-1])


@check("4.5", "a cache that holds less stays as it is: no truncate makes it longer")
def shorter_stays(student: Any, rng: Rng) -> None:
    text = random_text(rng, 6)
    for length in (4, 3, 0):
        rolled_back(student, text[:length], text, text[:length])


# ---- 4.6 generate ----------------------------------------------------------------------------


@check(
    "4.6",
    "before the first round the prompt is read without its last token: that one is pending, and "
    "no token is fed twice",
)
def prefill(student: Any, rng: Rng) -> None:
    pair = Pair(constant(VOCAB), constant(VOCAB), VOCAB)
    for length in (3, 1, 2):
        one, prompt = pair.fresh(), [*random_text(rng, length - 1), int(rng.integers(1, VOCAB))]
        said, _ = generated(student, one, prompt, 3, 2)  # one round, of tokens 0
        calls = [made for made in one.log if made.who == "target"]
        scoring = next((made for made in calls if reaches(made, prompt)), calls[-1])
        held, fed = list(scoring.held), list(scoring.fed)
        if (held, fed[:1]) != (prompt[:-1], prompt[-1:]):
            due = f"{prompt[-1:]} and drafts behind {prompt[:-1]}"
            raise Wrong(f"{said} fed the target {fed} behind a cache of {held}, expected {due}")
        fed = [token for made in one.log if made.who == "draft" for token in made.fed]
        due_fed = [*prompt, 0][: len(fed)]
        same_tokens(f"{said} fed the draft", fed[: length + 1], due_fed)


@check("4.6", "n_new new tokens come back: never more, not fewer without a stop, and no prompt")
def as_many_as_wanted(student: Any, rng: Rng) -> None:
    pair = Pair(constant(VOCAB), constant(VOCAB), VOCAB)
    for gamma in (2, 3, 0):
        for n_new in range(2 * gamma + 4):
            said, text = generated(student, pair.fresh(), random_text(rng, 2), n_new, gamma)
            if len(text) != n_new:
                raise Wrong(f"{said} gave {len(text)} tokens, expected {n_new}")


@check(
    "4.6",
    "where nothing may be drafted neither draft nor rule is asked, the token is drawn from the "
    "target's one row",
)
def nothing_drafted(student: Any, rng: Rng) -> None:
    pair = Pair(constant(VOCAB), constant(VOCAB), VOCAB)
    for n_new, gamma in ((3, 0), (1, 2), (4, 2)):
        one, prompt = pair.fresh(), random_text(rng, 2)
        said, _ = generated(student, one, prompt, n_new, gamma)
        if any(made.who == "rule" and not made.fed for made in one.log):
            raise Wrong(f"{said} asked the rule about no drafts")
        if n_new == 1 or gamma == 0:
            asked = sum(made.who == "draft" and reaches(made, prompt) for made in one.log)
            must_be(f"{said}: calls of the draft behind the prompt", asked, 0)


@check("4.6", "a round is one call of the target and emits its accepted drafts and one token more")
def calls_of_the_target(student: Any, rng: Rng) -> None:
    pair = Pair(constant(VOCAB), constant(VOCAB), VOCAB)
    for gamma, n_new, due in ((2, 7, 3), (3, 8, 2), (1, 4, 2), (0, 3, 3)):
        one, prompt = pair.fresh(), random_text(rng, 2)
        said, _ = generated(student, one, prompt, n_new, gamma)
        made = sum(made.who == "target" and reaches(made, prompt) for made in one.log)
        must_be(f"{said}, all drafts right: calls of the target", made, due)


@check(
    "4.6",
    "between rounds the target's cache holds the text without its last token, the draft's no more "
    "than that: both forget what was rejected",
)
def caches(student: Any, rng: Rng) -> None:
    law = certain(random_law(rng, VOCAB))
    for gamma, accepted in ((2, [0, 2, 1, 2, 2, 0]), (3, [3, 1, 0, 3]), (1, [1, 0, 1])):
        for length in (2, 1):
            prompt = random_text(rng, length)
            right = [False] * length + right_along(accepted, gamma).tolist()
            pair = Pair(law, planned(law, right), VOCAB)
            said, text = generated(student, pair, prompt, len(right) - length, gamma)
            caches_right(said, pair.log, prompt, text)


@check("4.6", "whatever the draft, the text has the target's own law")
def exact(student: Any, rng: Rng) -> None:
    pair = Pair(random_law(rng, VOCAB), random_law(rng, VOCAB), VOCAB)
    for length, n_new, gamma in ((2, 3, 2), (1, 3, 1), (3, 2, 0), (1, 1, 2), (2, 0, 2)):
        texts_of_the_target(student, pair, random_text(rng, length), n_new, gamma)


@check("4.6", "a text ends with its first stop token, wherever in a round that falls")
def stops(student: Any, rng: Rng) -> None:
    law = certain(random_law(rng, VOCAB))
    for draft in (law, mostly(law, rng, VOCAB)):
        for gamma in (0, 1, 3):
            prompt = random_text(rng, 2)
            for stop in ({0}, {1}, {2}, {0, 2}, set[int]()):
                said, text = generated(
                    student, Pair(law, draft, VOCAB), prompt, 7, gamma, stop=stop
                )
                same_tokens(f"{said} gave", text, plain_text(law, prompt, 7, stop))
    pair = Pair(random_law(rng, VOCAB), random_law(rng, VOCAB), VOCAB)
    for prompt in ([1], [1, 2]):
        texts_of_the_target(student, pair, prompt, 3, 2, {int(rng.integers(VOCAB))})
