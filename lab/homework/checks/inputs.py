"""Inputs that a student can follow by hand: few tokens, few digits."""

from __future__ import annotations

import numpy as np

from lab.domains import Floats

TWENTIETHS = 20


def law(rng: np.random.Generator, vocab: int) -> Floats:
    """A law (V,) in steps of 0.05, every token possible."""
    spare = rng.multinomial(TWENTIETHS - vocab, rng.dirichlet(np.ones(vocab)))
    return (spare + 1) / TWENTIETHS


def two_laws(rng: np.random.Generator, vocab: int) -> tuple[Floats, Floats]:
    """Target's and draft's, of which each gives some token more often than the other."""
    while True:
        target, draft = law(rng, vocab), law(rng, vocab)
        if (np.abs(target - draft) > 0.04).sum() >= 2:
            return target, draft


def fix_a() -> tuple[Floats, Floats]:
    """Laws that share 0.65; new ones at each call, as a student's function may change them."""
    return np.array([0.5, 0.25, 0.15, 0.1]), np.array([0.25, 0.45, 0.05, 0.25])


def share(rng: np.random.Generator, low: float, high: float) -> float:
    """A number between two, in steps of 0.01."""
    return float(rng.integers(round(low * 100), round(high * 100), endpoint=True)) / 100
