"""Acceptance along real text: how it clusters, and what that costs.

Texts are the target's own continuations of held-out prompts, p the target's law, q the draft's. At
a position of a text its token x was accepted, if it was drafted, with probability
a = min(1, q(x) / p(x)); the mean of a over what the target may write is β = Σ min(p, q). All that
a γ needs to know of texts is their `rounds` (G, γ + 1): rounds of each text that accept at least so
many drafts, expected along the text (`lab.replay.rounds_along`) or counted in the real loop.

Texts are independent, so errors are jackknifed: each value with one text left out at a time, which
holds for differences of values from the same texts as well. Shapes: G texts, n positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lab import corpus
from lab.checkpoint import load_trained
from lab.domains import Bools, Floats, Ints, whole
from lab.engine import generate_many
from lab.estimate import rounds_allowed
from lab.interval import in_stderrs
from lab.measure import PLAIN, continuations, cut_prompts, laws_along, streams
from lab.sampling import Sampling
from lab.stats import ClusteredMean, family_wise, t_quantile
from lab.sweep import sweep
from lab.text import Generation
from lab.theory import acceptance, alpha_from_expected_tokens, expected_tokens

PROMPT = 32  # tokens
KINDS = tuple(corpus.FILES)


@dataclass(frozen=True)
class Along:
    """Acceptance along the texts of one kind, and the real loop behind the same prompts.

    Attributes
    ----------
    kind : of `corpus.FILES`
    accept : for each text (n,), min(1, q / p) of its tokens
    betas : for each text (n,), Σ min(p, q) at the same positions
    loops : {gamma: (G, gamma + 1)}, rounds of real runs
    """

    kind: str
    accept: tuple[Floats, ...]
    betas: tuple[Floats, ...]
    loops: dict[int, Floats]


def acceptance_along(
    kinds: Iterable[str], target: str, draft: str, count: int, n_new: int,
    gammas: Sequence[int], seed: int,
) -> list[Along]:  # fmt: skip
    """`Along` for each kind of text, with models of `load_trained`, on all cores.

    Parameters
    ----------
    count : prompts of each kind, cut from its held-out tenth
    n_new : tokens behind each prompt
    gammas : of the real loop, whose randomness is another than that of the texts
    """
    sizes = (count, n_new, tuple(gammas), seed)
    return sweep([partial(_along, kind, target, draft, *sizes) for kind in kinds])


def _along(
    kind: str, target_name: str, draft_name: str, count: int, n_new: int,
    gammas: Sequence[int], seed: int,
) -> Along:  # fmt: skip
    target, draft = load_trained(target_name), load_trained(draft_name)
    cell = (seed, KINDS.index(kind))
    prompts = cut_prompts(corpus.held_out_tokens(kind), count, PROMPT, *cell, 1)
    texts = continuations(target, prompts, n_new, *cell, 2)
    target_laws, draft_laws = (
        laws_behind_prompts(model, texts, PLAIN) for model in (target, draft)
    )
    accept, betas = accept_and_betas(target_laws, draft_laws, texts)
    loops = {}
    for gamma in gammas:
        rngs = streams(count, *cell, 3, gamma)
        loops[gamma] = rounds_seen(
            generate_many(target, draft, prompts, n_new, gamma, rngs=rngs), gamma
        )
    return Along(kind, accept, betas, loops)


def laws_behind_prompts(model: Any, texts: Sequence[Ints], sampling: Sampling) -> list[Floats]:
    """A model's laws (n, V) of the tokens behind each text's prompt."""
    return [law[PROMPT - 1 :] for law in laws_along(model, texts, sampling)]


def accept_and_betas(
    target_laws: Sequence[Floats], draft_laws: Sequence[Floats], texts: Sequence[Ints]
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Of each text (n,), a and β behind its prompt, by the laws (n, V) there."""
    rows = list(zip(target_laws, draft_laws, texts, strict=True))
    return (
        tuple(accept_of(p, q, text[PROMPT:]) for p, q, text in rows),
        tuple(np.asarray(acceptance(p, q)) for p, q, _ in rows),
    )


def accept_of(target_laws: Floats, draft_laws: Floats, tokens: Ints) -> Floats:
    """a = min(1, q / p) of each token of a text, (n,); laws (n, V).

    A token that the target could not have written is rejected: where a near tie falls the other way
    for another grouping of rows, that happens at temperature 0.
    """
    at = np.arange(len(tokens)), tokens
    p, q = target_laws[at], draft_laws[at]
    accept: Floats = np.divide(np.minimum(p, q), p, out=np.zeros_like(p), where=p > 0)
    return accept


def rounds_seen(generations: Sequence[Generation], gamma: int) -> Floats:
    """(G, gamma + 1): rounds of each run that accepted at least 0, 1, .. gamma drafts, of those
    that were allowed gamma."""
    steps = np.arange(gamma + 1)
    runs = rounds_allowed(generations, gamma)
    counts = [(np.array([r.accepted for r in run])[:, None] >= steps).sum(axis=0) for run in runs]
    return np.array(counts, np.float64)


# ---- What rounds tell, of one gamma ----------------------------------------------------------


def tokens_of(rounds: Floats) -> float:
    """Tokens per call of the target, from rounds (G, gamma + 1)."""
    total = rounds.sum(axis=0)
    return float(total.sum() / total[0])


def hazards_of(rounds: Floats) -> Floats:
    """(gamma,): accepted / tested at each position of a round."""
    total = rounds.sum(axis=0)
    rates: Floats = total[1:] / total[:-1]
    return rates


def alpha_estimates(
    rounds: Floats, accept: Sequence[Floats], betas: Sequence[Floats]
) -> dict[str, float]:
    """Five numbers that are called α: three from rounds with gamma >= 1, two from the whole text.

    Where acceptance is equally likely everywhere, all but accepted / drafted are the same.
    """
    total = rounds.sum(axis=0)
    gamma = len(total) - 1
    return {
        "mean β": float(np.concatenate(betas).mean()),
        "mean a": float(np.concatenate(accept).mean()),
        "accepted / tested": float(total[1:].sum() / total[:-1].sum()),
        "accepted / drafted": float(total[1:].sum() / (gamma * total[0])),
        "from tokens per call": float(alpha_from_expected_tokens(tokens_of(rounds), gamma)),
    }


# ---- Correlation ------------------------------------------------------------------------------


def correlations(rows: Sequence[Floats], lags: int) -> list[ClusteredMean]:
    """Correlation of values 1, .. lags positions apart, around the mean of all texts."""
    lags = whole("lags", lags, 1, min(map(len, rows)) - 1)
    mean = np.concatenate(rows).mean()
    off = [row - mean for row in rows]
    squares = np.array([[x @ x, len(x)] for x in off])
    found = []
    for lag in range(1, lags + 1):
        products = np.array([[x[:-lag] @ x[lag:], len(x) - lag] for x in off])
        sums = np.concatenate([products, squares], axis=1)
        found.append(jackknife(partial(_correlation, sums), len(rows)))
    return found


def _correlation(sums: Floats, kept: Bools) -> float:
    product, pairs, square, count = sums[kept].sum(axis=0)
    return float((product / pairs) / (square / count)) if square else 0.0


# ---- Errors and verdicts ---------------------------------------------------------------------


def jackknife(statistic: Callable[[Bools], float], groups: int) -> ClusteredMean:
    """A value with its error over independent groups, each left out once.

    Parameters
    ----------
    statistic : of the groups kept (G,), a smooth function of their sums
    groups : G >= 2
    """
    groups = whole("groups", groups, 2)
    left = np.array([statistic(np.arange(groups) != i) for i in range(groups)])
    spread = np.square(left - left.mean()).sum() * (groups - 1) / groups
    return ClusteredMean(statistic(np.ones(groups, np.bool_)), float(np.sqrt(spread)), groups)


def eq1_error(
    alpha: Callable[[Bools], float], tokens: Callable[[Bools], float], gamma: int, groups: int
) -> ClusteredMean:
    """Equation (1) at an α, less the tokens per call that it should foretell, over these.

    alpha, tokens : of the groups kept; from the same texts, so that the error is the difference's
    """

    def error(kept: Bools) -> float:
        return float(expected_tokens(alpha(kept), gamma)) / tokens(kept) - 1

    return jackknife(error, groups)


def sign_of(mean: ClusteredMean, level: float, comparisons: int) -> int:
    """-1 or 1 where a difference is beyond its error, 0 where it is not.

    level : chance of any false alarm among so many comparisons (Bonferroni, Student's t)
    """
    t = in_stderrs(mean)
    critical = t_quantile(1 - family_wise(level, comparisons) / 2, mean.n_clusters - 1)
    return int(np.sign(t)) if abs(t) > critical else 0
