"""Homework 1: formulas, held to `lab.theory`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lab import theory
from lab.homework.checking import check, equal

Rng = np.random.Generator


@check("1.1", "acceptance is the mass that p and q share, the sum of the smaller of the two")
def shared_mass(student: Any, rng: Rng) -> None:
    for size in (2, 5, 30):
        p, q = rng.dirichlet(np.ones(size), size=2)
        equal(student.acceptance, (p, q), theory.acceptance(p, q))


@check("1.1", "equal laws are always accepted, laws that share nothing never")
def ends(student: Any, rng: Rng) -> None:
    p = rng.dirichlet(np.ones(4))
    equal(student.acceptance, (p, p), 1.0)
    equal(student.acceptance, (np.array([1.0, 0.0]), np.array([0.0, 1.0])), 0.0)


@check(
    "1.2", "a round emits the target's own token too, so the sum 1 + α + … + α^γ has γ + 1 terms"
)
def terms(student: Any, rng: Rng) -> None:
    for gamma in (0, 1, 4, 9):
        alpha = float(rng.uniform(0.05, 0.95))
        equal(student.expected_tokens, (alpha, gamma), theory.expected_tokens(alpha, gamma))


@check("1.2", "at α = 1 every draft is kept: γ + 1 tokens, and the formula divides by 0")
def certain(student: Any, rng: Rng) -> None:
    for gamma in (0, 1, 7):
        equal(student.expected_tokens, (1.0, gamma), gamma + 1.0)


@check("1.2", "at α = 0 only the target's own token comes")
def never(student: Any, rng: Rng) -> None:
    equal(student.expected_tokens, (0.0, 5), 1.0)
