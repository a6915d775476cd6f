"""The targets and drafts that the scripts measure, and prompts to run them on.

One pair is random: it speaks no language, but it is made in a second and its drafts differ in
worth. The other has learned real text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import corpus
from lab.checkpoint import load_trained
from lab.measure import Draft, continuations, cut_prompts, random_prompts
from lab.ngram import NGramLM
from lab.transformer import ModelConfig, Transformer

Tokens = npt.NDArray[np.int64]

FIT_TEXTS, FIT_LENGTH = 64, 128  # the bigram's fitting data: tokens sampled from the target


@dataclass(frozen=True)
class Pair:
    """A target with its drafts, and prompts."""

    name: str
    target: Any
    drafts: tuple[Draft, ...]
    prompts: tuple[Tokens, ...]

    def draft(self, name: str) -> Draft:
        for draft in self.drafts:
            if draft.name == name:
                return draft
        raise ValueError(f"name={name!r} must be one of {[draft.name for draft in self.drafts]}")


def own_drafts(target: Transformer) -> tuple[Draft, ...]:
    """Drafts that the target is itself: quantised, and cut after some layers."""
    return (
        Draft("INT4", target.quantized(4, 32)),
        Draft("3 layers", target.first_layers(3)),
        Draft("1 layer", target.first_layers(1)),
    )


def random_pair(seed: int, prompts: int = 8, prompt_length: int = 16) -> Pair:
    """The random model (V 256, d 64, 4 layers) and four drafts: its INT4 self, its first three
    layers, its first layer, and a bigram fitted on tokens that it sampled."""
    target = Transformer.init(ModelConfig(), seed)
    starts = random_prompts(target.vocab, FIT_TEXTS, 1, seed, 1)
    sampled = continuations(target, starts, FIT_LENGTH, seed, 2)
    bigram = NGramLM(2, target.vocab).fit([text[1:] for text in sampled])
    return Pair(
        "random model",
        target,
        (*own_drafts(target), Draft("bigram", bigram)),
        tuple(random_prompts(target.vocab, prompts, prompt_length, seed, 3)),
    )


def text_pair(seed: int, prompts: int = 8, prompt_length: int = 32) -> Pair:
    """The target trained on Shakespeare and six drafts; prompts cut from the held-out play."""
    target = load_trained("target")
    drafts = (
        *own_drafts(target),
        Draft("trained 2L", load_trained("draft_2l")),
        Draft("trained 1L", load_trained("draft_1l")),
        Draft("4-gram", NGramLM(4, target.vocab).fit(corpus.train_tokens())),
    )
    cut = cut_prompts(corpus.held_out_tokens(), prompts, prompt_length, seed, 3)
    return Pair("model trained on Shakespeare", target, drafts, tuple(cut))
