"""Tokens per call for every γ from one text of the target: no speculation has to be run.

p = target law, q = draft law. Shapes: n tokens of a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lab.domains import Floats, in_unit, numbers, whole
from lab.interval import Estimate, Texts, estimate, row_labels, rows_of
from lab.stats import clustered_ratio

BLOCKS = 20  # at most so many clusters are made of one text
BLOCK_ROUNDS = 8  # a block has room for at least so many rounds, so that it hardly sees the next


def replay(
    target_token_probs: Texts, draft_token_probs: Texts, gammas: Iterable[int]
) -> dict[int, Estimate]:
    """Tokens per call for every gamma, from texts of the target: no speculation has to be run.

    Given the text that comes out, the draft at position t was accepted with probability
    a_t = min(1, q(x_t) / p(x_t)), independently within a round: of the p(x_t) with which x_t is
    emitted there, min(p, q) goes through an accepted draft. So rounds walk along the text as a
    Markov chain, whose expected rounds and tokens follow by recursion over positions, O(n gamma).

    A round that the text's end could cut is left out: whole rounds start at the first n - gamma
    positions. This is `tokens_per_call` of runs that wrote these texts, numerator and denominator
    averaged over all coins: consistent for the same reason, and less noisy. It holds for texts that
    end at a length, not for such as end at a stop token.

    Parameters
    ----------
    target_token_probs : (n,) in (0, 1], p(x_t) of each token of a text sampled from the target;
        or a list of such arrays, one per prompt
    draft_token_probs : q(x_t) in [0, 1] of the same tokens
    gammas : drafts per round, each >= 0

    Returns
    -------
    {gamma: Estimate}
        n counts positions where a whole round may start. The error is clustered by prompt; a single
        text is cut into at most 20 blocks, each with room for at least 8 full rounds, and these
        are the clusters.

    Raises
    ------
    ValueError
        Probabilities outside their range, texts that differ in length, or no text longer than
        gamma.
    """
    accept = _acceptances(target_token_probs, draft_token_probs)
    return {gamma: _replayed(accept, gamma) for gamma in [whole("gammas", g) for g in gammas]}


def _acceptances(target_token_probs: Texts, draft_token_probs: Texts) -> list[Floats]:
    """min(1, q / p) of each token, text by text."""
    target = rows_of(
        "target_token_probs", target_token_probs, "in (0, 1]", lambda x: (x > 0) & (x <= 1)
    )
    draft = rows_of("draft_token_probs", draft_token_probs)
    lengths = [len(p) for p in target]
    if lengths != [len(q) for q in draft]:
        raise ValueError(
            f"draft_token_probs must have the lengths {lengths} of target_token_probs, "
            f"got {[len(q) for q in draft]}"
        )
    # the smaller one first: no overflow where p is tiny
    return [np.minimum(p, q) / p for p, q in zip(target, draft, strict=True)]


def rounds_along(accept: Sequence[Floats], gamma: int, blocks: int | None = None) -> Floats:
    """Expected whole rounds along texts, by the drafts they accept at least: all that `replay`
    knows of a gamma, cluster by cluster.

    Column sums r give tokens per call, sum(r) / r[0], survival at draft i, r[i] / r[0], and
    acceptance there given that it was reached, r[i] / r[i - 1].

    Parameters
    ----------
    accept : for each text (n,) the probability that its token is accepted if it is drafted; or, for
        drafters whose j-th draft depends on where the round starts, (n, gamma) or wider: entry
        [s, j] that of draft j, which is token s + j, of a round that starts at token s
    gamma : drafts per round, >= 0
    blocks : clusters that a single text is cut into; None: as many as `replay` makes

    Returns
    -------
    (G, gamma + 1)
        G texts of more than gamma tokens, or blocks of a single one.

    Raises
    ------
    ValueError
        Probabilities outside [0, 1], no text longer than gamma, or `accept` less than gamma wide.
    """
    gamma = whole("gamma", gamma)
    accept = [numbers("accept", a, "in [0, 1]", in_unit) for a in accept]
    odd = [a.shape for a in accept if a.ndim not in (1, 2)]
    if odd or not accept:
        raise ValueError(f"accept must be texts, (n,) or (n, gamma) each, got {odd or 'none'}")
    narrow = [a.shape for a in accept if a.ndim == 2 and a.shape[1] < gamma]
    if narrow:
        raise ValueError(f"accept must be (n,) or (n, gamma={gamma}) or wider, got {narrow[0]}")
    walks = [_walk(a, gamma) for a in accept if len(a) > gamma]
    if not walks:
        raise ValueError(
            f"gammas: gamma={gamma} needs a text of more than {gamma} tokens, "
            f"the longest has {max(len(a) for a in accept)}"
        )
    which = row_labels([starts for starts, _ in walks])
    if len(walks) == 1:
        n = len(which)
        which = np.arange(n) * (blocks or blocks_of(n + gamma, gamma)) // n
    rounds = np.concatenate([starts[:, None] * reached for starts, reached in walks])
    return np.stack([np.bincount(which, column) for column in rounds.T], axis=1)


def drafts_tested(accept: Floats, gamma: int) -> Floats:
    """(n,): the probability that a whole round tests the draft at each position of one text (n,).

    A draft is tested where all before it in its round were accepted, which tokens before it decide.
    """
    starts, reached = _walk(accept, gamma)
    tested = np.zeros(len(accept))
    for j in range(gamma):
        tested[j : j + len(starts)] += starts * reached[:, j]
    return tested


def blocks_of(n: int, gamma: int) -> int:
    """How many clusters a single text of n tokens is cut into."""
    return max(1, min(BLOCKS, (n - gamma) // (BLOCK_ROUNDS * (gamma + 1))))


def _replayed(accept: Sequence[Floats], gamma: int) -> Estimate:
    rounds = rounds_along(accept, gamma)
    places = sum(max(0, len(a) - gamma) for a in accept)
    name = f"tokens per call by replay, γ = {gamma}"
    mean = clustered_ratio(rounds.sum(axis=1), rounds[:, 0])
    return estimate(name, mean, places, 1.0, gamma + 1.0)


def _walk(accept: Floats, gamma: int) -> tuple[Floats, Floats]:
    """Rounds along one text: accept (n,) or (n, gamma) -> for each of the first n - gamma positions
    the probability that a round starts there, and (n - gamma, gamma + 1) that it then accepts at
    least so many drafts."""
    whole = len(accept) - gamma
    drafts = accept if accept.ndim == 2 else sliding_window_view(accept, gamma)
    reached = np.ones((whole, gamma + 1))
    reached[:, 1:] = np.cumprod(drafts[:whole, :gamma], axis=1)
    inside = np.zeros((whole, gamma))  # [s, -j]: a round from s - j reaches s with its token j
    for j in range(1, gamma + 1):
        inside[j:, -j] = reached[:-j, j]
    starts = np.zeros(gamma + whole)  # none before the text
    for s in range(whole):  # s is token 0, 1, ... or gamma of its round
        starts[gamma + s] = 1 - starts[s : s + gamma] @ inside[s]
    return np.maximum(starts[gamma:], 0.0), reached
