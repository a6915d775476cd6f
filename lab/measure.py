"""Experiments: texts of the target, acceptance along them, and the real loop on them.

Streams of randomness are keyed, `np.random.default_rng([seed, *cell])`, so the order in which cells
are run does not matter. Shapes: B texts, V = vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import theory
from lab.decode import autoregressive_generate, speculative_generate
from lab.engine import generate_many, has_batches
from lab.ledger import Ledger
from lab.sampling import Sampling
from lab.text import Generation

Array = npt.NDArray[Any]
Tokens = npt.NDArray[np.int64]


PLAIN = Sampling()  # temperature 1, no filter


@dataclass(frozen=True)
class Draft:
    """A draft with the name it has in tables."""

    name: str
    model: Any


def streams(count: int, *cell: int) -> list[np.random.Generator]:
    """A generator of randomness for each of `count` sequences of a cell."""
    return [np.random.default_rng([*cell, i]) for i in range(count)]


def random_prompts(vocab: int, count: int, length: int, *cell: int) -> list[Tokens]:
    """Prompts of uniformly random tokens, for models that speak no language."""
    rng = np.random.default_rng([*cell])
    return list(rng.integers(0, vocab, (count, length)))


def cut_prompts(text: Tokens, count: int, length: int, *cell: int) -> list[Tokens]:
    """Prompts cut out of a text at random places, without overlap."""
    places = len(text) // length
    if places < count:
        raise ValueError(f"text has {len(text)} tokens, too few for {count} prompts of {length}")
    starts = np.random.default_rng([*cell]).choice(places, count, replace=False) * length
    return [text[start : start + length] for start in np.sort(starts)]


def continuations(
    target: Any, prompts: Sequence[Tokens], n_new: int, *cell: int, sampling: Sampling = Sampling()
) -> list[Tokens]:
    """The target's own continuation of every prompt: the whole texts."""
    runs = generate_many(
        target, None, prompts, n_new, 0, sampling=sampling, rngs=streams(len(prompts), *cell)
    )
    return texts_of(prompts, runs)


def laws_along(model: Any, texts: Sequence[Tokens], sampling: Sampling) -> list[Array]:
    """Teacher forcing: row t of a text's (T - 1, V) is the law of its token t + 1."""
    if sampling.repetition_penalty == 1 and has_batches(model):
        counts = np.array([len(text) - 1 for text in texts])
        tokens = np.zeros((len(texts), counts.max()), np.int64)
        for row, text in zip(tokens, texts, strict=True):
            row[: len(text) - 1] = text[:-1]
        logits = model.forward(tokens, model.new_cache(len(texts)), counts=counts)
        return [sampling.probs(rows[:n]) for rows, n in zip(logits, counts, strict=True)]
    return [
        sampling.probs_after(model.forward(text[:-1], model.new_cache()), (), text[:-1])
        for text in texts
    ]


def mean_entropy(laws: Sequence[Array]) -> float:
    """Mean entropy, in nats, of the rows of laws (T, V)."""
    rows = np.concatenate(laws)
    return float(-np.sum(rows * np.log(np.where(rows > 0, rows, 1))) / len(rows))


def betas_along(
    target: Any,
    draft: Any,
    texts: Sequence[Tokens],
    starts: Sequence[int],
    sampling: Sampling = Sampling(),
    target_laws: Sequence[Array] | None = None,
) -> list[Array]:
    """β = Σ min(p, q) (Thm 3.5) at every position of each text from its entry of `starts` on.

    `target_laws`, of `laws_along`, saves the target's pass where several drafts share the texts.
    """
    laws = laws_along(target, texts, sampling) if target_laws is None else target_laws
    draft_laws = laws_along(draft, texts, sampling)
    return [
        np.asarray(theory.acceptance(p[start - 1 :], q[start - 1 :]))
        for p, q, start in zip(laws, draft_laws, starts, strict=True)
    ]


def texts_of(prompts: Sequence[Tokens], runs: Sequence[Generation]) -> list[Tokens]:
    """Prompt and what was generated, one array each."""
    return [np.concatenate((p, run.tokens)) for p, run in zip(prompts, runs, strict=True)]


@dataclass(frozen=True)
class LedgerRun:
    """Ledgers of one-sequence runs over some prompts."""

    tokens: int
    target: Ledger
    draft: Ledger
    runs: tuple[Generation, ...]


def count_plain(target: Any, prompts: Sequence[Tokens], n_new: int, *cell: int) -> LedgerRun:
    """Plain decoding, one sequence at a time, counted."""
    ledger = Ledger()
    runs = tuple(
        autoregressive_generate(target, prompt, n_new, rng=rng, ledger=ledger)
        for prompt, rng in zip(prompts, streams(len(prompts), *cell), strict=True)
    )
    return LedgerRun(sum(len(run.tokens) for run in runs), ledger, Ledger(), runs)


def count_speculative(
    target: Any, draft: Any, prompts: Sequence[Tokens], n_new: int, gamma: int, *cell: int
) -> LedgerRun:
    """Speculative decoding, one sequence at a time, both models counted."""
    of_target, of_draft = Ledger(), Ledger()
    runs = tuple(
        speculative_generate(
            target, draft, prompt, n_new, gamma, rng=rng,
            target_ledger=of_target, draft_ledger=of_draft,
        )
        for prompt, rng in zip(prompts, streams(len(prompts), *cell), strict=True)
    )  # fmt: skip
    return LedgerRun(sum(len(run.tokens) for run in runs), of_target, of_draft, runs)


def paired_seconds(calls: Sequence[Callable[[], object]], repeats: int) -> Array:
    """Seconds (repeats, calls), measured side by side: A B A B; each once before, unmeasured."""
    for call in calls:
        call()
    seconds = np.zeros((repeats, len(calls)))
    for row in seconds:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            row[i] = time.perf_counter() - start
    return seconds


def paired_ratio(seconds: Array) -> Array:
    """Median over the repeats of each call's time to that of the first in the same repeat."""
    ratios: Array = np.median(seconds / seconds[:, :1], axis=0)
    return ratios


def seconds_of_laws(
    sampling: Sampling, logits: Array, counts: Sequence[int], repeats: int
) -> dict[int, float]:
    """{n: seconds in which the first n rows of logits (.., V) become laws}: medians of turns."""
    draws = [partial(sampling.probs, logits[:n]) for n in counts]
    medians = np.median(paired_seconds(draws, repeats), axis=0)
    return dict(zip(counts, medians.tolist(), strict=True))
