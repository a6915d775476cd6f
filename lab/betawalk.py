"""Rounds that walk along a text by β instead of a: what is it to record the wrong number?

At a position with the token x of a text, a = min(1, q(x) / p(x)) is the probability that x was
accepted if it was drafted, and β = Σ min(p, q) is its mean over what might have been written. The
means agree, but a text goes on from x: behind a token that the draft would not have said, the next
ones are hard as well. A walk by β starts its rounds there too seldom.

Shapes: G texts, n positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.domains import Floats, whole
from lab.replay import drafts_tested, rounds_along
from lab.stats import ClusteredMean, influence_stderr, ratio_influence


@dataclass(frozen=True, slots=True)
class BetaGap:
    """Tokens per call of the walk by β over those by a, less 1, from the same texts.

    Attributes
    ----------
    raw : as it comes
    value, moves : without the noise of which tokens were written, and what each text (G,) moves it
        by
    """

    raw: ClusteredMean
    value: float
    moves: Floats

    @property
    def sharp(self) -> ClusteredMean:
        """`value` with its error."""
        return ClusteredMean(self.value, influence_stderr(self.moves), len(self.moves))


def beta_gap(accept: Sequence[Floats], betas: Sequence[Floats], gamma: int) -> BetaGap:
    """β's walk against a's, at G >= 4 texts of more than gamma tokens.

    Given the tokens before it, a has the mean β. So β - a sums to 0 in the mean, over all positions
    and also over those that a walk by a tests, as earlier tokens decide which these are. Both sums
    are known and are nothing but noise; what `raw` shares with them, by regression over texts, is
    taken from it (control variates).
    """
    whole("texts", len(accept), 4)  # two controls and a mean leave nothing of three
    by_a, by_beta = rounds_along(accept, gamma), rounds_along(betas, gamma)
    of_a, moves_a = ratio_influence(by_a.sum(axis=1), by_a[:, 0])
    of_beta, moves_beta = ratio_influence(by_beta.sum(axis=1), by_beta[:, 0])
    raw = of_beta / of_a - 1
    raw_moves = (moves_beta - of_beta / of_a * moves_a) / of_a
    off = [beta - a for a, beta in zip(accept, betas, strict=True)]
    tested = [drafts_tested(a, gamma) @ x for a, x in zip(accept, off, strict=True)]
    noise = [
        ratio_influence([x.sum() for x in off], [len(x) for x in off]),
        ratio_influence(tested, by_a[:, 0]),
    ]
    basis = np.stack([moves for _, moves in noise], axis=1)  # (G, 2)
    weights, *_ = np.linalg.lstsq(basis, raw_moves)
    return BetaGap(
        ClusteredMean(raw, influence_stderr(raw_moves), len(raw_moves)),
        raw - float(weights @ [mean for mean, _ in noise]),
        raw_moves - basis @ weights,
    )


def pooled(gaps: Sequence[BetaGap]) -> ClusteredMean:
    """Their mean, for cells with as many texts each; cells may share texts, text by text."""
    value = float(np.mean([gap.value for gap in gaps]))
    moves = np.mean([gap.moves for gap in gaps], axis=0)
    return ClusteredMean(value, influence_stderr(moves), len(moves))
