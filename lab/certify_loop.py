"""Certificates of the loop: by induction, the joint law of the text is right for all horizons.

If every round is valid given its history, and the caches are a function of the tokens, then what a
run writes has the target's own law, however long it is. A round is valid if the law of what it
emits, continued by the target's own laws to gamma + 1 tokens, is the target's own. That is checked
in every state that `lab.decode.speculate` itself can be in: far from any limit, near it, with stop
tokens, and where the contexts end. `lab.loop_walk` goes through them. V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from lab import domains
from lab.certificate import OF_LOOP, Certificate, Tokens, shown
from lab.decode import speculate
from lab.exact import EXACT, Script
from lab.forward import drive
from lab.loop_states import DueLaws, Region, Setup, Start, far_room, is_model
from lab.loop_walk import Enough, Explorer, Findings
from lab.loop_watched import Certain, KnownSampling
from lab.sampling import Sampling
from lab.verify import name_of

MAX_LEAVES = 200_000
MAX_PROMPTS = 2_000
DRAFTER_TEXTS = 150  # texts on which a drafter that is no model is run


def loop(
    target: Any,
    draft: Any,
    gamma: int,
    rule: Any = "token",
    sampling: Sampling = Sampling(),
    stop: Iterable[int] = (),
    *,
    draft_sampling: Sampling | None = None,
    max_leaves: int = MAX_LEAVES,
) -> Certificate:
    """Prove that `speculate` with these arguments writes the target's law, for all horizons.

    Parameters
    ----------
    target, draft, gamma, rule, sampling, draft_sampling : as `speculative_generate`; gamma is a
        number. A model says on how many of the last tokens its laws depend: `context`, as
        `TableLM` and `NGramLM` have it. A drafter that is no model is run on all texts up to a
        length; if all it proposed was certain, so is then every proposal there can be.
    stop : stop tokens; none: every token is tried as the only one, besides runs without
    max_leaves : branches, in all

    Returns
    -------
    Certificate : states are told apart by tokens in view, draft cache and what the round before
        accepted; a round is enumerated for each of them and each distance from an end. The search
        ends at `lab.loop_walk.MAX_VIOLATIONS` violations.

    Raises
    ------
    ValueError
        Names the argument, its value and what is allowed; or says that there are too many branches.
    """
    gamma = domains.whole("gamma", gamma)
    max_leaves = domains.whole("max_leaves", max_leaves, 1)
    stop = tuple(stop) if isinstance(stop, Iterable) else stop
    drive(  # nothing to be written: it checks the arguments
        speculate(
            target, draft, [0], 0, gamma, sampling=sampling, draft_sampling=draft_sampling,
            rng=Script([]), stop=stop, rule=rule,
        )
    )  # fmt: skip
    if draft is None:
        raise ValueError("draft=None must be a language model or a drafter")
    view = _context("target", target)
    if is_model(draft):
        view = max(view, _context("draft", draft))
    known = KnownSampling.of(sampling)
    known_draft = known if draft_sampling is None else KnownSampling.of(draft_sampling)
    setup = Setup(target, draft, gamma, rule, known, known_draft, view)
    found = Findings(max_leaves)
    with suppress(Enough):
        _explore(setup, stop, found)
    if not found.states and not found.violations:
        raise ValueError(
            f"target.max_len={setup.target.max_len} must leave room for a token after a prompt: "
            "there is no round to certify"
        )
    return Certificate(
        len(found.states), found.rounds, found.leaves, tuple(found.violations),
        _assumptions(setup, found), found.largest, _subject(setup, rule, stop), words=OF_LOOP,
    )  # fmt: skip


def _explore(setup: Setup, stop: Tokens, found: Findings) -> None:
    """All regions, one after the other; what is found is noted in `found`."""
    target_laws = DueLaws("target", setup.target, _context("target", setup.target), setup.sampling)

    def explore(setup: Setup, regions: Iterable[Region], draft_laws: DueLaws | None = None) -> None:
        for region in regions:
            Explorer(setup, region, target_laws, draft_laws, found).explore()

    if setup.draft_is_model:
        draft_view = _context("draft", setup.draft)
        draft_laws = DueLaws("draft", setup.draft, draft_view, setup.draft_sampling)
        explore(setup, _regions(setup, stop), draft_laws)
        return
    vocab, longest = setup.target.vocab, _longest_text(setup.target.vocab)
    short = max(map(len, _prompts(setup)), default=1)  # beyond it, caches that are right are enough
    far, *others = _regions(setup, stop)
    starts = tuple(Start(text) for text in _texts(vocab, longest))
    explore(setup, [replace(far, starts=starts, whole=True, longest=longest)])
    explore(setup, [replace(region, whole=True, longest=short) for region in others])
    for tokens in _texts(vocab, setup.gamma) if found.certain else ():
        stub = replace(setup, draft=Certain(vocab, tokens))
        far, *others = (
            replace(region, name=f"{region.name}, proposal {shown(tokens)}")
            for region in _regions(stub, stop)
        )
        explore(stub, [far, *(replace(region, longest=short) for region in others)])


# ---- What there is to look at ----------------------------------------------------------------


def _regions(setup: Setup, stop: Tokens) -> Iterator[Region]:
    """Where the loop is looked at; at first far from everything."""
    prompts, gamma = _prompts(setup), setup.gamma
    far = tuple(Start(prompt) for prompt in prompts)
    near = (Start(prompt, n_new=n) for prompt in prompts for n in range(far_room(gamma)))
    target_end = (
        Start(prompt, target_len=len(prompt) + room)
        for prompt in prompts
        for room in range(gamma + 3)
    )
    draft_end = (
        Start(prompt, draft_len=len(prompt) + room)
        for prompt in prompts
        for room in range(-1, gamma + 3)
        if len(prompt) + room > 0
    )
    yield Region("far from any limit", far, stop)
    yield Region("near the limit", tuple(near), stop)
    for token in range(setup.target.vocab) if not stop else ():
        yield Region("a stop token", far, (token,))
    yield Region("near the target's context end", tuple(target_end), stop)
    if setup.draft_is_model:
        yield Region("near the draft's context end", tuple(draft_end), stop)


def _prompts(setup: Setup) -> list[Tokens]:
    """Every context: texts as long as the view, shorter ones, and longer ones that are prefilled;
    where a penalty looks at all tokens, after every set of tokens."""
    vocab, longest = setup.target.vocab, max(setup.view, 1) + 1
    if vocab**longest > MAX_PROMPTS:
        raise ValueError(
            f"vocab={vocab} with laws that depend on the last {setup.view} tokens is too large: "
            f"more than {MAX_PROMPTS} prompts to start from; take a smaller vocabulary or context"
        )
    prompts = list(_texts(vocab, longest))
    if setup.penalised:
        sets = [chosen for n in range(vocab + 1) for chosen in combinations(range(vocab), n)]
        longs = [prompt for prompt in prompts if len(prompt) == longest]
        prompts += [chosen + prompt for chosen in sets for prompt in longs if chosen]
    max_len = getattr(setup.target, "max_len", None)
    return [prompt for prompt in prompts if max_len is None or len(prompt) <= max_len]


def _texts(vocab: int, longest: int) -> Iterator[Tokens]:
    """All texts of 1 to `longest` tokens."""
    for length in range(1, longest + 1):
        yield from product(range(vocab), repeat=length)


def _longest_text(vocab: int) -> int:
    """Such that there are no more than DRAFTER_TEXTS, but one token at least."""
    longest = 1
    while sum(vocab**n for n in range(1, longest + 2)) <= DRAFTER_TEXTS:
        longest += 1
    return longest


def _context(name: str, model: Any) -> int:
    context = getattr(model, "context", None)
    if context is None:
        raise ValueError(
            f"{name}={model!r} must have an attribute context: on how many of the last tokens its "
            "laws depend (TableLM and NGramLM have it); else its states are without number"
        )
    return domains.whole(f"{name}.context", context)


# ---- What it says ----------------------------------------------------------------------------


def _subject(setup: Setup, rule: Any, stop: Tokens) -> str:
    target, draft = type(setup.target).__name__, type(setup.draft).__name__
    ends = f"stop at {shown(stop)}" if stop else "no stop token, and each token as the only one"
    return (
        f"the loop with rule {name_of(rule)}, {target} target, {draft} draft, "
        f"V {setup.target.vocab}, γ {setup.gamma}; {ends}"
    )


def _assumptions(setup: Setup, found: Findings) -> tuple[str, ...]:
    tokens = "the last token" if setup.view == 1 else f"the last {setup.view} tokens"
    seen = " and the set of all tokens before" if setup.penalised else ""
    plain = [
        f"the models' laws depend on no more than {tokens}{seen}, as they say",
        "what a round does depends on the models' caches, the tokens in view, the room left and "
        "what the round before accepted; a longer prompt is read as one of "
        f"{max(setup.view, 1) + 1} tokens is",
        "γ is a fixed number, and all randomness passes through the dice",
        f"floats: probabilities are right up to rounding, {EXACT:g} at most in a round",
    ]
    if setup.draft_is_model:
        return tuple(plain)
    longest = _longest_text(setup.target.vocab)
    texts = f"the drafter itself was run on all texts of up to {longest} tokens"
    if found.certain:
        return (
            *plain,
            f"{texts}; all it proposed was certain, and every certain proposal of up to "
            f"{setup.gamma} tokens was then tried at every context: this covers what it may find "
            "in longer texts, as long as it stays certain",
        )
    return (*plain, f"{texts}; it draws from laws, and what it does on longer ones is not covered")
