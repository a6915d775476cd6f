"""Does equation (1) hold here? Measured tokens per call beside it, as one cell of a family.

Shapes: G prompts, the clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lab.domains import Floats, whole
from lab.estimate import rounds_allowed, tokens_and_calls
from lab.interval import rows_of
from lab.stats import family_wise, influence_stderr, ratio_influence, t_quantile
from lab.text import Generation
from lab.theory import accepted_law, expected_tokens

ROUNDING = 1e-12  # relative: a difference this small is none
FEW = 30  # rejections (or acceptances) below which the spread between prompts tells too little


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
    generations, gamma = list(generations), whole("gamma", gamma, 1)
    betas = rows_of("betas_per_prompt", list(betas_per_prompt))
    if len(betas) != len(generations) or len(betas) < 2:
        raise ValueError(
            f"betas_per_prompt has {len(betas)} rows and generations has {len(generations)}: "
            "one row a run is needed, for at least two prompts"
        )
    runs = rounds_allowed(generations, gamma)
    tokens, calls = tokens_and_calls(runs)
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
