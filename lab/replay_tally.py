"""What texts of the target tell of every γ, with a bootstrap over prompts.

A prompt's expected rounds (`lab.replay.rounds_along`) are all that is needed of it, so prompts are
drawn anew by adding these up in other numbers. Prompts are drawn once for all γ: differences
between γ keep what they share. Shapes: R resamples, G prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.costs import Costs
from lab.domains import Floats
from lab.interval import CONFIDENCE
from lab.optimum import TIE
from lab.replay import blocks_of, rounds_along
from lab.theory import conditional_acceptance

RESAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """A value, and the 95 % percentile interval of its resamples.

    value : NaN where it is not defined, such as the acceptance where nothing ever arrived
    low, high : NaN with a single cluster, or where the value is
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Best:
    """The best γ under given costs.

    gamma : of those replayed, or 0 if none of them wins over plain decoding
    speedup : there; 1 if none wins
    share : of the resamples that choose the same γ; NaN with a single cluster
    """

    gamma: int
    speedup: Interval
    share: float


@dataclass(frozen=True)
class Tally:
    """Expected whole rounds along texts.

    texts : how many there are of more than max(gammas) tokens: all others are left out
    tokens : in them
    clusters : what was drawn anew: the texts, or blocks of a single one
    acceptance : mean of min(1, q / p), the share of the texts' tokens that a draft would give: an
        estimate of alpha
    rounds : {gamma: (1 + R, gamma + 1)}, rounds that accept at least so many drafts; row 0 as they
        are, the others with the clusters drawn anew
    """

    texts: int
    tokens: int
    clusters: int
    acceptance: float
    rounds: dict[int, Floats]

    def tokens_per_call(self, gamma: int) -> Interval:
        """Tokens per target run, in [1, gamma + 1]."""
        return self._interval(self._tokens(gamma))

    def hazards(self, gamma: int) -> list[Interval]:
        """Acceptance at draft 1 .. gamma of a round, given that all before it were accepted."""
        rounds = self.rounds[gamma]
        survival = np.minimum.accumulate(rounds[:, 1:] / rounds[:, :1], axis=1)  # sums round
        return list(map(self._interval, conditional_acceptance(np.minimum(survival, 1.0)).T))

    def reached(self, gamma: int) -> list[float]:
        """Share of the rounds that come to draft 1 .. gamma: all drafts before it accepted."""
        rounds = self.rounds[gamma][0]
        shares: list[float] = (rounds[:-1] / rounds[0]).tolist()
        return shares

    def best_gamma(self, costs: Costs) -> Best:
        """As `lab.costs.best_gamma`, of the gammas replayed, for the texts and each resample."""
        gammas = [0, *self.rounds]
        tokens = [np.ones(len(self.rounds[gammas[1]])), *map(self._tokens, self.rounds)]
        relative = [costs.round(gamma) / costs.plain() for gamma in gammas]
        speeds = np.stack(tokens, axis=1) / relative  # (1 + R, gammas)
        best = (speeds >= speeds.max(axis=1, keepdims=True) * (1 - TIE)).argmax(axis=1)
        share = float(np.mean(best[1:] == best[0])) if self.clusters > 1 else np.nan
        return Best(gammas[best[0]], self._interval(speeds[:, best[0]]), share)

    def _tokens(self, gamma: int) -> Floats:
        rounds = self.rounds[gamma]
        tokens: Floats = np.clip(rounds.sum(axis=1) / rounds[:, 0], 1.0, gamma + 1.0)  # sums round
        return tokens

    def _interval(self, values: Floats) -> Interval:
        value, resampled = float(values[0]), values[1:]
        if self.clusters == 1 or np.isnan(value):
            return Interval(value, np.nan, np.nan)
        tail = (1 - CONFIDENCE) / 2
        low, high = np.quantile(resampled[~np.isnan(resampled)], [tail, 1 - tail])
        return Interval(value, float(low), float(high))


def tally(
    accept: Sequence[Floats],
    gammas: Sequence[int],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> Tally:
    """Rounds along texts, as they are and with the texts drawn anew.

    Parameters
    ----------
    accept : for each text (n,) the probability that its token is accepted if it is drafted
    gammas : drafts per round, each >= 1, rising
    rng : draws the texts, or the blocks of a single one
    resamples : how often

    Raises
    ------
    ValueError
        No text is longer than every gamma.
    """
    most = max(gammas)
    long = [a for a in accept if len(a) > most]
    if not long:
        raise ValueError(
            f"gammas: gamma={most} needs a text of more than {most} tokens, "
            f"the longest has {max(map(len, accept))}"
        )
    blocks = blocks_of(len(long[0]), most) if len(long) == 1 else None
    clusters = blocks or len(long)
    walks = np.hstack([rounds_along(long, gamma, blocks) for gamma in gammas])
    evenly = np.full(clusters, 1 / clusters)
    anew = [rng.multinomial(clusters, evenly) @ walks for _ in range(resamples)]
    sums = np.stack([walks.sum(axis=0), *anew])  # (1 + R, columns of all gammas)
    ends = np.cumsum([gamma + 1 for gamma in gammas])[:-1]
    rounds = dict(zip(gammas, np.split(sums, ends, axis=1), strict=True))
    joined = np.concatenate(long)
    return Tally(len(long), len(joined), clusters, float(joined.mean()), rounds)
