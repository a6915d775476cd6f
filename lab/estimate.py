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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.domains import Floats, in_unit, integer, numbers
from lab.stats import (
    ClusteredMean,
    binomial_interval,
    clustered_mean,
    clustered_ratio,
    family_wise,
    influence_stderr,
    ratio_influence,
    t_quantile,
)
from lab.text import Generation, Round
from lab.theory import acceptance, accepted_law, expected_tokens

CONFIDENCE = 0.95
CHUNK = 2**20  # probabilities held at once beside the arrays given
BLOCKS = 20  # at most so many clusters are made of one text
BLOCK_ROUNDS = 8  # a block has room for at least so many rounds, so that it hardly sees the next
FEW = 30  # rejections (or acceptances) below which the spread between prompts tells too little
ROUNDING = 1e-12  # relative: a difference this small is none

Texts = npt.ArrayLike | Sequence[npt.ArrayLike]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its error and its 95 % interval.

    Attributes
    ----------
    name : what was estimated, and from what
    value : within low..high
    stderr : standard error; inf where there is one cluster only
    low, high : the interval, never outside the possible range
    n : how many values were averaged (positions, drafts, rounds: see each estimator)
    """

    name: str
    value: float
    stderr: float
    low: float
    high: float
    n: int


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
    rows = _rows("betas", betas)
    flat = np.concatenate(rows)
    if clusters is not None:
        labels = _flat_labels(clusters, flat.shape)
    else:
        labels = _row_labels(rows) if len(rows) > 1 else np.arange(len(flat))
    return _estimate("α, mean Σ min(p, q)", clustered_mean(flat, labels), len(flat), 0.0, 1.0)


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
    return _estimate("accepted / drafted", ratio, sum(drafted), 0.0, 1.0)


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
    gamma = integer("gamma", gamma)
    tokens, calls = _tokens_and_calls(_rounds_allowed(generations, gamma))
    ratio = clustered_ratio(tokens[calls > 0], calls[calls > 0])
    return _estimate(f"tokens per call, γ = {gamma}", ratio, int(calls.sum()), 1.0, gamma + 1.0)


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
    return {gamma: _replayed(accept, gamma) for gamma in [integer("gammas", g) for g in gammas]}


def _acceptances(target_token_probs: Texts, draft_token_probs: Texts) -> list[Floats]:
    """min(1, q / p) of each token, text by text."""
    target = _rows(
        "target_token_probs", target_token_probs, "in (0, 1]", lambda x: (x > 0) & (x <= 1)
    )
    draft = _rows("draft_token_probs", draft_token_probs)
    lengths = [len(p) for p in target]
    if lengths != [len(q) for q in draft]:
        raise ValueError(
            f"draft_token_probs must have the lengths {lengths} of target_token_probs, "
            f"got {[len(q) for q in draft]}"
        )
    # the smaller one first: no overflow where p is tiny
    return [np.minimum(p, q) / p for p, q in zip(target, draft, strict=True)]


def _replayed(accept: Sequence[Floats], gamma: int) -> Estimate:
    walks = [_walk(a, gamma) for a in accept if len(a) > gamma]
    if not walks:
        raise ValueError(
            f"gammas: gamma={gamma} needs a text of more than {gamma} tokens, "
            f"the longest has {max(len(a) for a in accept)}"
        )
    starts = [start for start, _ in walks]
    which = _row_labels(starts)
    if len(walks) == 1:
        n = len(starts[0])
        blocks = max(1, min(BLOCKS, n // (BLOCK_ROUNDS * (gamma + 1))))
        which = np.arange(n) * blocks // n
    calls = np.bincount(which, np.concatenate(starts))
    tokens = np.bincount(which, np.concatenate([start * mean for start, mean in walks]))
    name = f"tokens per call by replay, γ = {gamma}"
    return _estimate(name, clustered_ratio(tokens, calls), len(which), 1.0, gamma + 1.0)


def _walk(accept: Floats, gamma: int) -> tuple[Floats, Floats]:
    """Rounds along one text: accept (n,) -> for each of the first n - gamma positions the
    probability that a round starts there, and the mean tokens of that round."""
    whole = len(accept) - gamma
    inside = np.zeros((whole, gamma))  # [s, -j]: a round from s - j reaches s with its token j
    reached, tokens = np.ones(whole), np.ones(whole)
    for j in range(1, gamma + 1):
        reached *= accept[j - 1 : j - 1 + whole]  # its first j drafts accepted
        tokens += reached
        inside[j:, -j] = reached[:-j]
    starts = np.zeros(gamma + whole)  # none before the text
    for s in range(whole):  # s is token 0, 1, ... or gamma of its round
        starts[gamma + s] = 1 - starts[s : s + gamma] @ inside[s]
    return np.maximum(starts[gamma:], 0.0), tokens


# ---- Measured beside equation (1) ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gap:
    """Measured tokens per call less equation (1) at the alpha of the very same text.

    Attributes
    ----------
    gamma, alpha : of the cell; alpha is the mean β of the continuations
    measured, expected : tokens per call; E(alpha, gamma)
    difference, stderr : measured - expected, and its error: both share the text
    t, degrees : difference / stderr, with prompts - 1 degrees of freedom
    critical : |t| above it is a disagreement at the family-wise level
    """

    gamma: int
    alpha: float
    measured: float
    expected: float
    difference: float
    stderr: float
    t: float
    degrees: int
    critical: float

    @property
    def agrees(self) -> bool:
        return abs(self.t) <= self.critical

    @property
    def smallest_detectable(self) -> float:
        """The smallest difference that would have been called one (a true one of this size would
        be called every second time)."""
        return self.critical * self.stderr


def eq1_gap(
    generations: Sequence[Generation],
    betas_per_prompt: Sequence[npt.ArrayLike],
    gamma: int,
    *,
    comparisons: int = 1,
    level: float = 0.01,
) -> Gap:
    """Does equation (1) hold here? `tokens_per_call` against E(alpha, gamma), one cell of a family.

    Both are ratios of sums over the same prompts and move together, so the error is that of the
    difference: each prompt's influence on the one, less dE/dalpha times its influence on the other.

    Parameters
    ----------
    generations : runs of at least two independent prompts
    betas_per_prompt : for each run, β at the positions of its own continuation, in [0, 1]
    gamma : >= 1
    comparisons : cells compared in the same family (Bonferroni)
    level : probability of any false alarm among them

    Raises
    ------
    ValueError
        Lengths that differ, a single prompt (it tells no error), no round allowed gamma drafts.

    Notes
    -----
    The spread between prompts cannot be told from a handful of rejections (or acceptances): where
    fewer than 30 were seen, the error is at least what the acceptance coins alone make, given β.
    So a nearly perfect draft raises no false alarm for want of a rejection.
    """
    generations, gamma = list(generations), integer("gamma", gamma)
    betas = _rows("betas_per_prompt", list(betas_per_prompt))
    if not gamma:
        raise ValueError("gamma=0 must be at least 1: without drafts there is nothing to compare")
    if len(betas) != len(generations) or len(betas) < 2:
        raise ValueError(
            f"betas_per_prompt has {len(betas)} rows and generations has {len(generations)}: "
            "one row a run is needed, for at least two prompts"
        )
    runs = _rounds_allowed(generations, gamma)
    tokens, calls = _tokens_and_calls(runs)
    measured, of_measured = ratio_influence(tokens, calls)
    alpha, of_alpha = ratio_influence([b.sum() for b in betas], [len(b) for b in betas])
    alpha = min(alpha, 1.0)
    expected = expected_tokens(alpha, gamma)
    powers = np.arange(1, gamma + 1)
    slope = (powers * alpha ** (powers - 1.0)).sum()  # E = Σ alpha^k
    stderr = influence_stderr(of_measured - slope * of_alpha)
    rejected = sum(r.accepted < r.tested for run in runs for r in run)
    if min(rejected, (tokens - calls).sum()) < FEW:
        stderr = max(stderr, _coin_noise(np.concatenate(betas), gamma, calls.sum()))
    difference = measured - expected
    if abs(difference) <= ROUNDING * expected:
        t = 0.0
    else:
        t = difference / stderr if stderr else math.copysign(math.inf, difference)
    degrees = len(betas) - 1
    critical = t_quantile(1 - family_wise(level, comparisons) / 2, degrees)
    return Gap(gamma, alpha, measured, expected, difference, stderr, t, degrees, critical)


def _coin_noise(betas: Floats, gamma: int, calls: float) -> float:
    """Standard error of tokens per call from the acceptance coins alone, the text given.

    The truncated geometric law's, times the coins' share of the variance of an acceptance: given
    the text a coin varies by β (1 - β), over all texts by alpha (1 - alpha).
    """
    alpha = float(betas.mean())
    if not 0 < alpha < 1:
        return 0.0
    law, counts = accepted_law(alpha, gamma), np.arange(gamma + 1)
    variance = law @ counts**2 - (law @ counts) ** 2
    share = (betas * (1 - betas)).mean() / (alpha * (1 - alpha))
    return math.sqrt(variance * share / calls)


# ---- Common to all ---------------------------------------------------------------------------


def _estimate(name: str, mean: ClusteredMean, n: int, lowest: float, highest: float) -> Estimate:
    """The interval of a clustered mean within what is possible."""
    value, stderr, groups = mean
    value = min(max(value, lowest), highest)  # sums round
    if groups == 1:
        return Estimate(name, value, stderr, lowest, highest, n)
    reach = t_quantile((1 + CONFIDENCE) / 2, groups - 1) * stderr
    return Estimate(name, value, stderr, max(lowest, value - reach), min(highest, value + reach), n)


def _checked(rounds: Iterable[Round]) -> list[Round]:
    """The rounds as a list, if their counts can be."""
    rounds = list(rounds)
    for r in rounds:
        if not 0 <= r.accepted <= r.tested <= r.drafted <= r.allowed:
            raise ValueError(f"rounds must have accepted <= tested <= drafted <= allowed, got {r}")
    return rounds


def _rounds_allowed(generations: Iterable[Generation], gamma: int) -> list[list[Round]]:
    """Per run, the rounds that were allowed gamma drafts; at least one in all."""
    runs = [[r for r in _checked(run.rounds) if r.allowed == gamma] for run in generations]
    if not any(runs):
        raise ValueError(f"gamma={gamma}: no round of the generations was allowed {gamma} drafts")
    return runs


def _tokens_and_calls(runs: Sequence[Sequence[Round]]) -> tuple[Floats, Floats]:
    """Per run: Σ (accepted + 1), and the number of its rounds."""
    calls = np.array([len(rounds) for rounds in runs], np.float64)
    return np.array([sum([r.accepted for r in rounds]) for rounds in runs]) + calls, calls


def _rows(
    name: str,
    value: Texts,
    allowed: str = "in [0, 1]",
    holds: Callable[[Floats], npt.NDArray[np.bool_]] = in_unit,
) -> list[Floats]:
    """One row of numbers, or several of any lengths, as a list of rows, none of them empty."""
    given: Any = value
    several = hasattr(given, "__len__") and len(given) > 0 and np.ndim(given[0]) > 0
    rows = [numbers(name, row, allowed, holds) for row in (given if several else [given])]
    for row in rows:
        if row.ndim != 1 or not row.size:
            raise ValueError(f"{name} must be rows (n,) with n >= 1, got shape {row.shape}")
    return rows


def _row_labels(rows: Sequence[Floats]) -> npt.NDArray[np.int64]:
    """The row of each number of the joined rows."""
    return np.repeat(np.arange(len(rows)), [len(row) for row in rows])


def _flat_labels(clusters: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    labels = np.asarray(clusters)
    if labels.shape != shape:
        raise ValueError(f"clusters must be labels {shape}, one a context, got {labels.shape}")
    return labels.ravel()
