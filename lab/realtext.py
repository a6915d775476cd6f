"""One target, ten drafts, three kinds of real text: how much each draft agrees with the target.

p = target law, q = draft law. Texts are the target's own continuations of held-out prompts, as
everywhere in the lab: only along them is the mean of β = Σ min(p, q) the α of equation (1). At
temperature 0 both laws are one-hot, and β is 1 where their argmax agrees. Prompt lookup has no law:
its j-th draft depends on where the round starts, so its acceptance is a matrix (n, γ).

Shapes: G texts, n positions, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import corpus
from lab.acceptance import PROMPT, accept_and_betas, laws_behind_prompts
from lab.checkpoint import load_trained
from lab.domains import Floats
from lab.measure import continuations, cut_prompts, laws_along
from lab.ngram import NGramLM, PromptLookup
from lab.rulecost import lenience
from lab.sampling import Sampling
from lab.stats import ClusteredMean, clustered_ratio
from lab.successors import lenient_at_zero
from lab.sweep import sweep
from lab.transformer import Transformer

Tokens = npt.NDArray[np.int64]

KINDS = tuple(corpus.FILES)
LOOKUP = "prompt lookup"


# ---- The models, each made once a process ------------------------------------------------------


@cache
def target() -> Transformer:
    """It learned all three kinds of text."""
    return load_trained("mixed_target")


def _ngram(order: int) -> NGramLM:
    return NGramLM(order, corpus.VOCAB).fit(corpus.mixed_tokens())


_MAKERS: dict[str, Callable[[], Any]] = {
    "unigram": partial(_ngram, 1),
    "bigram": partial(_ngram, 2),
    "trigram": partial(_ngram, 3),
    "4-gram": partial(_ngram, 4),
    "trained 1L": partial(load_trained, "mixed_1l"),
    "trained 2L": partial(load_trained, "mixed_2l"),
    "INT4": lambda: target().quantized(4, 32),
    "INT3": lambda: target().quantized(3, 32),
    "first 3 layers": lambda: target().first_layers(3),
    LOOKUP: lambda: PromptLookup(corpus.VOCAB),
}
DRAFTS = tuple(_MAKERS)


@cache
def draft(name: str) -> Any:
    """A language model, or for `LOOKUP` a drafter; jobs name it, so that no model is sent to them.

    Trained on what the target learned; the quantised and cut ones are the target itself.
    """
    if name not in _MAKERS:
        raise ValueError(f"name={name!r} must be one of {list(DRAFTS)}")
    return _MAKERS[name]()


def cell_of(kind: str, temperature: float, *more: int) -> tuple[int, ...]:
    """The key of a cell's random streams."""
    return KINDS.index(kind), round(1000 * temperature), *more


def prompts_of(kind: str, count: int, seed: int) -> list[Tokens]:
    """Prompts of `PROMPT` tokens from a kind's held-out tenth."""
    cell = KINDS.index(kind)
    return cut_prompts(corpus.held_out_tokens(kind), count, PROMPT, seed, cell, 1)


# ---- How well the target knows a text ----------------------------------------------------------


def held_out_nats(kind: str, windows: int, length: int = 256) -> ClusteredMean:
    """Cross-entropy of the target on windows spread over a held-out text, in nats a byte; every
    position but a window's first is counted."""
    tokens = corpus.held_out_tokens(kind)
    starts = np.linspace(0, len(tokens) - length, windows).astype(int)
    texts = [tokens[start : start + length] for start in starts]
    laws = laws_along(target(), texts, Sampling())
    at = np.arange(length - 1)
    return mean_of([-np.log(law[at, x[1:]]) for law, x in zip(laws, texts, strict=True)])


# ---- Acceptance along texts --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DraftAlong:
    """One draft along texts.

    Attributes
    ----------
    accept : for each text (n,), min(1, q / p) of its tokens; of prompt lookup (n, γ), 1 where it
        proposes the text's own token
    betas : for each text (n,), Σ min(p, q); none of prompt lookup
    """

    accept: tuple[Floats, ...]
    betas: tuple[Floats, ...]

    @property
    def alpha(self) -> ClusteredMean:
        """α, clustered by text."""
        return mean_of(self.betas)


def mean_of(rows: Sequence[Floats]) -> ClusteredMean:
    """Mean over all positions, its error clustered by text."""
    return clustered_ratio([row.sum() for row in rows], [len(row) for row in rows])


def draft_along(
    name: str,
    texts: Sequence[Tokens],
    target_laws: Sequence[Floats],
    sampling: Sampling,
    most: int,
) -> DraftAlong:
    """A draft along texts that go on after `PROMPT` tokens, given the target's laws (n, V) there;
    `most` is the largest γ that prompt lookup will be asked for."""
    if name == LOOKUP:
        return DraftAlong(tuple(lookup_along(draft(name), text, most) for text in texts), ())
    laws = laws_behind_prompts(draft(name), texts, sampling)
    return DraftAlong(*accept_and_betas(target_laws, laws, texts))


def lookup_along(lookup: PromptLookup, text: Tokens, gamma: int) -> Floats:
    """(n, gamma) along a text of PROMPT + n tokens: 1 where draft j of a round that starts at s is
    the text's token s + j.

    Given the text this is certain: a draft that is another token was rejected, and one that is the
    text's own was accepted, as no rejected draft is drawn from what is left of the target's law.
    """
    new = text[PROMPT:]
    accept = np.zeros((len(new), gamma))
    for s in range(len(new)):
        drafts = lookup.lookup(text[: PROMPT + s], min(gamma, len(new) - s))
        accept[s, : len(drafts)] = drafts == new[s : s + len(drafts)]
    return accept


def target_laws_along(texts: Sequence[Tokens], sampling: Sampling) -> list[Floats]:
    """The target's laws (n, V) of the tokens behind the prompt."""
    return laws_behind_prompts(target(), texts, sampling)


# ---- Lenience ----------------------------------------------------------------------------------


def lenient_along(
    name: str,
    texts: Sequence[Tokens],
    target_laws: Sequence[Floats],
    temperature: float,
    leniencies: Sequence[float],
) -> dict[tuple[str, float], list[Floats]]:
    """By draft and l, for each text (n,) the probability that a lenient rule keeps a draft there:
    Σ min(p / l, q); at temperature 0, whether the draft's argmax has p(x) >= l max p (appendix A.5,
    `successors.lenient_at_zero`).

    target_laws : p (n, V) at that temperature, but at 1 for temperature 0
    """
    laws = laws_behind_prompts(draft(name), texts, Sampling(temperature=temperature))
    pairs = list(zip(target_laws, laws, strict=True))

    def kept(leniency: float, p: Floats, q: Floats) -> Floats:
        if temperature:
            return np.asarray(lenience(leniency).acceptance(p, q))
        return np.asarray((q * lenient_at_zero(p, leniency)).sum(axis=-1))

    return {(name, one): [kept(one, p, q) for p, q in pairs] for one in leniencies}


# ---- All of it ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextCell:
    """Texts of one kind at one temperature, and every draft along them.

    Attributes
    ----------
    drafts : by name
    lenient : by draft and leniency, for each text (n,)
    """

    kind: str
    temperature: float
    drafts: dict[str, DraftAlong]
    lenient: dict[tuple[str, float], list[Floats]]


def text_cells(
    kinds: Sequence[str],
    counts: dict[float, int],
    n_new: int,
    drafts: Sequence[str],
    most: int,
    lenient: Sequence[str],
    leniencies: Sequence[float],
    seed: int,
) -> dict[tuple[str, float], TextCell]:
    """By kind and temperature, on all cores.

    Parameters
    ----------
    counts : texts of each kind, by temperature
    n_new : tokens behind each prompt
    drafts, lenient : names of drafts, and of those that are judged leniently too
    most : the largest γ that prompt lookup is replayed at
    """
    keys = [(kind, temperature) for temperature in counts for kind in kinds]
    longest_first = sorted(keys, key=lambda key: counts[key[1]], reverse=True)
    jobs = [
        partial(
            text_cell, kind, temperature, counts[temperature], n_new, drafts, most, lenient,
            leniencies, seed,
        )
        for kind, temperature in longest_first
    ]  # fmt: skip
    found = dict(zip(longest_first, sweep(jobs), strict=True))
    return {key: found[key] for key in keys}


def text_cell(
    kind: str,
    temperature: float,
    count: int,
    n_new: int,
    drafts: Sequence[str],
    most: int,
    lenient: Sequence[str],
    leniencies: Sequence[float],
    seed: int,
) -> TextCell:
    """One cell of `text_cells`."""
    sampling, cell = Sampling(temperature=temperature), cell_of(kind, temperature, 2)
    prompts = prompts_of(kind, count, seed)
    texts = continuations(target(), prompts, n_new, seed, *cell, sampling=sampling)
    laws = target_laws_along(texts, sampling)
    plain = laws if temperature else target_laws_along(texts, Sampling())
    return TextCell(
        kind,
        temperature,
        {name: draft_along(name, texts, laws, sampling, most) for name in drafts},
        {
            key: rows
            for name in lenient
            for key, rows in lenient_along(name, texts, plain, temperature, leniencies).items()
        },
    )
