"""What was seen, as estimates: every "acceptance rate" under its own name, with its interval.

p = target, q = draft, β = Σ min(p, q) at one position, alpha = E[β] (Leviathan et al. 2023).
Tokens that a run emits depend on each other, so errors are those of independent clusters, the
prompts: 95 % intervals by Student's t with clusters - 1 degrees of freedom, cut to the possible
range. One cluster alone tells no error: its stderr is inf and its interval the whole range. No
spread at all gives an interval of no width: nothing varied, which is not that nothing can.

Shapes: n tokens of a text, V = vocabulary, G clusters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.domains import Floats, whole
from lab.interval import CONFIDENCE, Estimate, Texts, estimate, row_labels, rows_of
from lab.replay import replay
from lab.stats import (
    binomial_interval,
    clustered_mean,
    clustered_ratio,
)
from lab.text import Generation, Round
from lab.theory import acceptance

__all__ = [
    "Estimate",
    "accepted_per_drafted",
    "alpha_from_betas",
    "alpha_from_probs",
    "alpha_from_rounds",
    "drafted_per_round",
    "replay",
    "tokens_per_call",
]

CHUNK = 2**20  # probabilities held at once beside the arrays given


# ---- alpha, and what else is called an acceptance rate --------------------------------------


def alpha_from_probs(
    target_probs: npt.ArrayLike, draft_probs: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> Estimate:
    """alpha of the contexts given: the mean of β = Σ min(p, q), which is 1 - total variation.

    It has no noise of drafts or coins, only that of the contexts, and is the alpha of equation (1)
    where these are the target's own continuations; on other text it is another number.

    Parameters
    ----------
    target_probs, draft_probs : (..., V)
        Processed laws of the same contexts; read in slices, never copied whole.
    clusters : (...), optional
        The prompt (or text) of each context. None: contexts are independent.

    Returns
    -------
    Estimate
        n counts contexts.

    Raises
    ------
    ValueError
        Shapes that differ, rows that are no laws, no rows.
    """
    target, draft = np.asarray(target_probs), np.asarray(draft_probs)
    if target.shape != draft.shape or target.ndim == 0 or not target.size:
        raise ValueError(
            "target_probs and draft_probs must have one shape (..., V) with at least one row, "
            f"got {target.shape} and {draft.shape}"
        )
    labels = None if clusters is None else _flat_labels(clusters, target.shape[:-1])
    vocab = target.shape[-1]
    target, draft = target.reshape(-1, vocab), draft.reshape(-1, vocab)
    step = max(1, CHUNK // vocab)
    betas = [
        acceptance(target[i : i + step], draft[i : i + step]) for i in range(0, len(target), step)
    ]
    return alpha_from_betas(np.concatenate(betas), labels)


def alpha_from_betas(betas: Texts, clusters: npt.ArrayLike | None = None) -> Estimate:
    """`alpha_from_probs` from the β of each context.

    Parameters
    ----------
    betas : (N,) in [0, 1]; or several such rows, one per prompt, which then are the clusters
    clusters : (N,), optional, for one row
    """
    rows = rows_of("betas", betas)
    flat = np.concatenate(rows)
    if clusters is not None:
        labels = _flat_labels(clusters, flat.shape)
    else:
        labels = row_labels(rows) if len(rows) > 1 else np.arange(len(flat))
    return estimate("α, mean Σ min(p, q)", clustered_mean(flat, labels), len(flat), 0.0, 1.0)


def alpha_from_rounds(rounds: Iterable[Round]) -> Estimate:
    """alpha from what a run did: drafts accepted / drafts tested, with an exact interval.

    A round tests its drafts until one is rejected. With a acceptances it has the likelihood
    alpha^a (1 - alpha) if it ended in a rejection and alpha^a if it did not: acceptance of all
    drafts is censored, more might have been accepted. The product over rounds is largest at
    accepted / tested. Drafts behind a rejection tell nothing, so accepted / drafted
    (`accepted_per_drafted`) is another, smaller number.

    Returns
    -------
    Estimate
        n counts tested drafts. The interval is Clopper and Pearson's, for equally likely and
        independent acceptances, never a point: at 0 or 1 read it rather than the stderr, which is
        0 there.

    Raises
    ------
    ValueError
        If nothing was tested, or counts cannot be (accepted > tested, tested > drafted, ...).
    """
    rounds = _checked(rounds)
    accepted, tested = sum(r.accepted for r in rounds), sum(r.tested for r in rounds)
    if not tested:
        raise ValueError(f"rounds must hold at least one tested draft, got {len(rounds)} without")
    value = accepted / tested
    stderr = math.sqrt(value * (1 - value) / tested)
    low, high = binomial_interval(accepted, tested, CONFIDENCE)
    return Estimate("α, accepted / tested", value, stderr, low, high, tested)


def accepted_per_drafted(rounds: Iterable[Round]) -> Estimate:
    """Share of all drafts that were accepted, which many servers call the acceptance rate.

    It is not alpha: drafts behind a rejection were wasted untested, so it falls with gamma (under
    equation (1) to (E - 1) / gamma). Rounds without drafts have no part in it; how many drafts
    there were is `drafted_per_round`, which belongs beside it: a draft that proposes only what is
    certain has a share near 1 and gains nothing.

    Returns
    -------
    Estimate
        n counts drafts. The drafts of a round stand or fall together: rounds are the clusters.

    Raises
    ------
    ValueError
        If nothing was drafted, or counts cannot be.
    """
    rounds = [r for r in _checked(rounds) if r.drafted]
    if not rounds:
        raise ValueError("rounds must hold at least one draft, got none")
    drafted = [r.drafted for r in rounds]
    ratio = clustered_ratio([r.accepted for r in rounds], drafted)
    return estimate("accepted / drafted", ratio, sum(drafted), 0.0, 1.0)


def drafted_per_round(rounds: Iterable[Round]) -> float:
    """Mean number of drafts a round really made, rounds without any included."""
    rounds = _checked(rounds)
    if not rounds:
        raise ValueError("rounds must hold at least one round, got none")
    return sum(r.drafted for r in rounds) / len(rounds)


# ---- Tokens per call of the target -----------------------------------------------------------


def tokens_per_call(generations: Iterable[Generation], gamma: int) -> Estimate:
    """The quantity of equation (1): Σ (accepted + 1) / number of rounds, bonus included.

    Over the rounds that were allowed gamma drafts, of all runs together. Whether a round is one of
    these depends only on what came before it, so by Wald's identity the sums keep the ratio of
    equation (1), near the end of a run too; a mean of per-run ratios does not. `accepted` is the
    rule's count, before a stop token cut the round.

    Parameters
    ----------
    generations : runs of independent prompts, the clusters
    gamma : >= 0; 0 is plain decoding, with one token per call

    Returns
    -------
    Estimate
        n counts rounds; the possible range is 1..gamma + 1.

    Raises
    ------
    ValueError
        If no round was allowed gamma drafts.
    """
    gamma = whole("gamma", gamma)
    tokens, calls = tokens_and_calls(rounds_allowed(generations, gamma))
    ratio = clustered_ratio(tokens[calls > 0], calls[calls > 0])
    return estimate(f"tokens per call, γ = {gamma}", ratio, int(calls.sum()), 1.0, gamma + 1.0)


# ---- Common to all ---------------------------------------------------------------------------


def _checked(rounds: Iterable[Round]) -> list[Round]:
    """The rounds as a list, if their counts can be."""
    rounds = list(rounds)
    for r in rounds:
        if not 0 <= r.accepted <= r.tested <= r.drafted <= r.allowed:
            raise ValueError(f"rounds must have accepted <= tested <= drafted <= allowed, got {r}")
    return rounds


def rounds_allowed(generations: Iterable[Generation], gamma: int) -> list[list[Round]]:
    """Per run, the rounds that were allowed gamma drafts; at least one in all."""
    runs = [[r for r in _checked(run.rounds) if r.allowed == gamma] for run in generations]
    if not any(runs):
        raise ValueError(f"gamma={gamma}: no round of the generations was allowed {gamma} drafts")
    return runs


def tokens_and_calls(runs: Sequence[Sequence[Round]]) -> tuple[Floats, Floats]:
    """Per run: Σ (accepted + 1), and the number of its rounds."""
    calls = np.array([len(rounds) for rounds in runs], np.float64)
    return np.array([sum([r.accepted for r in rounds]) for rounds in runs]) + calls, calls


def _flat_labels(clusters: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    labels = np.asarray(clusters)
    if labels.shape != shape:
        raise ValueError(f"clusters must be labels {shape}, one a context, got {labels.shape}")
    return labels.ravel()
