"""Certificates of the loop: by induction, the joint law of the text is right for all horizons.

If every round is valid given its history, and the caches are a function of the tokens, then what a
run writes has the target's own law, however long it is. A round is valid if the law of what it
emits, continued by the target's own laws to gamma + 1 tokens, is the target's own. That is checked
in every state that `lab.decode.speculate` itself can be in: far from any limit, near it, with stop
tokens, and where the contexts end. `lab.walk` goes through them. V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from lab import domains
from lab.caches import Certain, KnownSampling, Text, shown
from lab.certificate import Certificate
from lab.decode import speculate
from lab.exact import Script
from lab.forward import drive
from lab.sampling import Sampling
from lab.states import Case, Laws, Part, Start, far_room, is_model
from lab.verify import as_rule
from lab.walk import EXACT, Enough, Explorer, Findings

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
    Certificate : `cells` states of the loop, told apart by tokens in view, draft cache and what the
        round before accepted; `points` rounds that were enumerated, one for each state and
        distance from an end; `error_bound` the largest total variation, 1e-12 at most if it holds.
        The search ends at `lab.walk.MAX_VIOLATIONS` violations.

    Raises
    ------
    ValueError
        Names the argument, its value and what is allowed; or says that there are too many branches.
    """
    gamma = domains.whole("gamma", gamma)
    max_leaves = domains.whole("max_leaves", max_leaves, 1)
    stop = tuple(stop)
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
    case = Case(target, draft, gamma, rule, known, known_draft, view)
    found = Findings(max_leaves)
    with suppress(Enough):
        _explore(case, stop, found)
    return Certificate(
        cells=len(found.states),
        points=found.rounds,
        leaves=found.leaves,
        violations=tuple(found.violations),
        assumptions=_assumptions(case, found),
        error_bound=found.largest,
        subject=_subject(case, rule, stop),
    )


def _explore(case: Case, stop: Text, found: Findings) -> None:
    """All parts, one after the other; what is found is noted in `found`."""
    target_laws = Laws("target", case.target, _context("target", case.target), case.sampling)

    def explore(case: Case, parts: Iterable[Part], draft_laws: Laws | None = None) -> None:
        for part in parts:
            Explorer(case, part, target_laws, draft_laws, found).explore()

    if case.draft_is_model:
        draft_view = _context("draft", case.draft)
        draft_laws = Laws("draft", case.draft, draft_view, case.draft_sampling)
        explore(case, _parts(case, stop), draft_laws)
        return
    vocab, longest = case.target.vocab, _longest_text(case.target.vocab)
    short = max(map(len, _prompts(case)), default=1)  # beyond it, caches that are right are enough
    far, *others = _parts(case, stop)
    starts = tuple(Start(text) for text in _texts(vocab, longest))
    explore(case, [replace(far, starts=starts, whole=True, longest=longest)])
    explore(case, [replace(part, whole=True, longest=short) for part in others])
    for tokens in _texts(vocab, case.gamma) if found.certain else ():
        stub = replace(case, draft=Certain(vocab, tokens))
        proposal = f", proposal {shown(tokens)}"
        far, *others = (replace(part, name=part.name + proposal) for part in _parts(stub, stop))
        explore(stub, [far, *(replace(part, longest=short) for part in others)])


# ---- What there is to look at ----------------------------------------------------------------


def _parts(case: Case, stop: Text) -> Iterator[Part]:
    """Where the loop is looked at; at first far from everything."""
    prompts, gamma = _prompts(case), case.gamma
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
    yield Part("far from any limit", far, stop)
    yield Part("near the limit", tuple(near), stop)
    for token in range(case.target.vocab) if not stop else ():
        yield Part("a stop token", far, (token,))
    yield Part("near the target's context end", tuple(target_end), stop)
    if case.draft_is_model:
        yield Part("near the draft's context end", tuple(draft_end), stop)


def _prompts(case: Case) -> list[Text]:
    """Every context: texts as long as the view, shorter ones, and longer ones that are prefilled;
    where a penalty looks at all tokens, after every set of tokens."""
    vocab, longest = case.target.vocab, max(case.view, 1) + 1
    if vocab**longest > MAX_PROMPTS:
        raise ValueError(
            f"vocab={vocab} with laws that depend on the last {case.view} tokens is too large: "
            f"more than {MAX_PROMPTS} prompts to start from; take a smaller vocabulary or context"
        )
    prompts = list(_texts(vocab, longest))
    if case.penalised:
        sets = [chosen for n in range(vocab + 1) for chosen in combinations(range(vocab), n)]
        longs = [prompt for prompt in prompts if len(prompt) == longest]
        prompts += [chosen + prompt for chosen in sets for prompt in longs if chosen]
    max_len = getattr(case.target, "max_len", None)
    return [prompt for prompt in prompts if max_len is None or len(prompt) <= max_len]


def _texts(vocab: int, longest: int) -> Iterator[Text]:
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


def _subject(case: Case, rule: Any, stop: Text) -> str:
    name = rule if isinstance(rule, str) else getattr(as_rule(rule), "name", None)
    name = name or getattr(rule, "__name__", type(rule).__name__)
    target, draft = type(case.target).__name__, type(case.draft).__name__
    ends = f"stop at {shown(stop)}" if stop else "no stop token, and each token as the only one"
    return (
        f"the loop with rule {name}, {target} target, {draft} draft, V {case.target.vocab}, "
        f"γ {case.gamma}; {ends}"
    )


def _assumptions(case: Case, found: Findings) -> tuple[str, ...]:
    tokens = "the last token" if case.view == 1 else f"the last {case.view} tokens"
    seen = " and the set of all tokens before" if case.penalised else ""
    plain = [
        f"the models' laws depend on no more than {tokens}{seen}, as they say",
        "what a round does depends on the models' caches, the tokens in view, the room left and "
        "what the round before accepted; a longer prompt is read as one of "
        f"{max(case.view, 1) + 1} tokens is",
        "γ is a fixed number, and all randomness passes through the dice",
        f"floats: probabilities are right up to rounding, {EXACT:g} at most in a round",
    ]
    if case.draft_is_model:
        return tuple(plain)
    longest = _longest_text(case.target.vocab)
    texts = f"the drafter itself was run on all texts of up to {longest} tokens"
    if found.certain:
        return (
            *plain,
            f"{texts}; all it proposed was certain, and every certain proposal of up to "
            f"{case.gamma} tokens was then tried at every context: this covers what it may find in "
            "longer texts, as long as it stays certain",
        )
    return (*plain, f"{texts}; it draws from laws, and what it does on longer ones is not covered")
