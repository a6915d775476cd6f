"""Homework 1: formulas, held to `lab.theory`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lab import theory
from lab.homework.checking import check, equal
from lab.homework.checks.inputs import fix_a, law, share, two_laws

Rng = np.random.Generator


# ---- 1.1 acceptance --------------------------------------------------------------------------


@check("1.1", "equal laws are always accepted: a draft is not compared with a draw of the target")
def alike(student: Any, rng: Rng) -> None:
    p = law(rng, 4)
    equal(student.acceptance, (p, p), 1.0)


@check("1.1", "acceptance is the mass that p and q share, the sum of the smaller of the two")
def shared_mass(student: Any, rng: Rng) -> None:
    equal(student.acceptance, fix_a(), 0.65)
    for size in (2, 5, 30):
        p, q = two_laws(rng, size) if size < 20 else rng.dirichlet(np.ones(size), size=2)
        equal(student.acceptance, (p, q), theory.acceptance(p, q))


@check("1.1", "laws that share no token accept nothing")
def nothing_shared(student: Any, rng: Rng) -> None:
    p = law(rng, 3)
    none = np.zeros(3)
    equal(student.acceptance, (np.append(p, none), np.append(none, p)), 0.0)
    equal(student.acceptance, (np.eye(3)[0], np.eye(3)[2]), 0.0)


# ---- 1.2 expected_tokens ---------------------------------------------------------------------


@check(
    "1.2", "a round emits the target's own token too, so the sum 1 + α + … + α^γ has γ + 1 terms"
)
def own_token(student: Any, rng: Rng) -> None:
    for gamma in (0, 1):
        alpha = share(rng, 0.1, 0.9)
        equal(student.expected_tokens, (alpha, gamma), 1 + gamma * alpha)


@check(
    "1.2",
    "draft i counts only if all before it were accepted too, with probability α^i: the terms are "
    "powers of α, not γ times α",
)
def powers(student: Any, rng: Rng) -> None:
    for gamma in (4, 2, 9, 30):
        alpha = 0.8 if gamma == 4 else share(rng, 0.1, 0.9)
        equal(student.expected_tokens, (alpha, gamma), theory.expected_tokens(alpha, gamma))


@check("1.2", "at α = 1 every draft is kept: γ + 1 tokens, and the formula divides by 0")
def certain(student: Any, rng: Rng) -> None:
    for gamma in (7, 1, 0):
        equal(student.expected_tokens, (1.0, gamma), gamma + 1.0)


@check("1.2", "at α = 0 only the target's own token comes")
def never(student: Any, rng: Rng) -> None:
    for gamma in (5, 0):
        equal(student.expected_tokens, (0.0, gamma), 1.0)


# ---- 1.3 ops_factor --------------------------------------------------------------------------


@check(
    "1.3", "the target computes γ + 1 rows a round: one for each draft, one for the token before"
)
def target_rows(student: Any, rng: Rng) -> None:
    """With a free draft that is never accepted, a round is γ + 1 rows for one token."""
    for gamma in (0, 1, int(rng.integers(2, 9))):
        equal(student.ops_factor, (0.0, gamma, 0.0), gamma + 1.0)


@check("1.3", "each of the γ drafts of a round costs ĉ")
def draft_rows(student: Any, rng: Rng) -> None:
    for gamma in (2, int(rng.integers(3, 9))):
        c_hat = share(rng, 0.1, 0.9)
        equal(student.ops_factor, (0.0, gamma, c_hat), gamma * c_hat + gamma + 1)


@check("1.3", "it is work per token that comes out: a round's work over its expected tokens")
def per_token(student: Any, rng: Rng) -> None:
    for alpha, gamma, c_hat in ((0.8, 5, 0.0), (0.7, 8, 0.75), (1.0, 4, 0.5)):
        equal(student.ops_factor, (alpha, gamma, c_hat), theory.ops_factor(alpha, gamma, c_hat))
    alpha, c_hat, gamma = share(rng, 0.1, 0.9), share(rng, 0.1, 0.9), int(rng.integers(1, 12))
    equal(student.ops_factor, (alpha, gamma, c_hat), theory.ops_factor(alpha, gamma, c_hat))


# ---- 1.4 walltime_speedup --------------------------------------------------------------------


@check(
    "1.4",
    "a round runs the target once, however many drafts it checks: with a free draft the speed-up "
    "is the expected tokens",
)
def one_target_run(student: Any, rng: Rng) -> None:
    for gamma in (1, int(rng.integers(2, 9))):
        alpha = share(rng, 0.1, 0.9)
        equal(student.walltime_speedup, (alpha, gamma, 0.0), theory.expected_tokens(alpha, gamma))


@check("1.4", "the draft runs γ times a round, one after the other, so a round takes γ c + 1")
def draft_runs(student: Any, rng: Rng) -> None:
    """A draft that is never accepted only costs."""
    for gamma in (2, int(rng.integers(3, 9))):
        c = share(rng, 0.02, 0.5)
        equal(student.walltime_speedup, (0.0, gamma, c), 1 / (gamma * c + 1))


@check("1.4", "the speed-up is the expected tokens of a round over the time that it takes")
def tokens_over_time(student: Any, rng: Rng) -> None:
    """Also α = 0.44 with c = 0.11, where a public issue reads γ as α in the denominator."""
    for alpha, gamma, c in ((0.44, 5, 0.11), (1.0, 4, 0.5), (0.95, 4, 0.9)):
        wanted = theory.walltime_speedup(alpha, gamma, c)
        equal(student.walltime_speedup, (alpha, gamma, c), wanted)
    alpha, c, gamma = share(rng, 0.1, 0.9), share(rng, 0.02, 0.5), int(rng.integers(1, 12))
    wanted = theory.walltime_speedup(alpha, gamma, c)
    equal(student.walltime_speedup, (alpha, gamma, c), wanted)


@check("1.4", "where nothing is drafted it is plain decoding: the factor is 1")
def plain(student: Any, rng: Rng) -> None:
    equal(student.walltime_speedup, (share(rng, 0.1, 0.9), 0, share(rng, 0.02, 0.5)), 1.0)


# ---- 1.5 best_gamma --------------------------------------------------------------------------


@check("1.5", "the best γ is the one with the largest speed-up of all, given with that speed-up")
def largest(student: Any, rng: Rng) -> None:
    for alpha in (0.6, 0.7, 0.8):  # the best γ is 3 to 8
        c = share(rng, 0.05, 0.1)
        equal(student.best_gamma, (alpha, c), theory.best_gamma(alpha, c))


@check("1.5", "the speed-up may rise for long: search until it falls, not up to a fixed γ")
def far(student: Any, rng: Rng) -> None:
    """The best γ is 14, 31 and a few hundred."""
    near_one = 0.99 + share(rng, 0.2, 0.5) / 100
    for alpha, c in ((0.8, 0.01), (0.95, 0.02), (near_one, 0.001)):
        equal(student.best_gamma, (alpha, c), theory.best_gamma(alpha, c))


@check("1.5", "of equal speed-ups the smaller γ wins: the same speed for less work")
def ties(student: Any, rng: Rng) -> None:
    """γ = 1 and γ = 2 are equally fast where (1 + α)(2c + 1) = (1 + α + α²)(c + 1)."""
    for alpha in (0.5, share(rng, 0.2, 0.8)):
        c = alpha**2 / (1 + alpha - alpha**2)
        equal(student.best_gamma, (alpha, c), (1, (1 + alpha) / (1 + c)))


@check("1.5", "where α ≤ c no γ ≥ 1 is faster than plain decoding (Corollary 3.9): then (0, 1.0)")
def not_worth_it(student: Any, rng: Rng) -> None:
    c = share(rng, 0.5, 0.9)
    for alpha in (round(c - 0.2, 2), 0.0, c):
        equal(student.best_gamma, (alpha, c), (0, 1.0))
