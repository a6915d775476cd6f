"""Acceptance by position within a round: replay, the real loop, two hidden states.

Equation (1) has one number for all positions. A round behind a rejection starts where the text is
hard, and whoever gets far stands in an easy stretch. Rounds (G, gamma + 1) as in `lab.acceptance`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.acceptance import Along, hazards_of, jackknife
from lab.chainfit import fit_lags
from lab.chains import hazards
from lab.domains import Bools, Floats, whole
from lab.replay import rounds_along
from lab.stats import ClusteredMean


@dataclass(frozen=True, slots=True)
class Positions:
    """Accepted / tested at draft 1 .. gamma of a round, along the texts of one kind.

    Attributes
    ----------
    alpha : mean of a, what equation (1) has at every position
    replay, loop : (gamma,), replayed and in the real loop, with their errors between texts
    hidden : (gamma,), by two hidden states fitted to these texts
    rise : replay at draft 2 less that at draft 1
    """

    kind: str
    alpha: float
    replay: list[ClusteredMean]
    loop: list[ClusteredMean]
    hidden: Floats
    rise: ClusteredMean


def positions_of(along: Along, gamma: int) -> Positions:
    """`gamma` >= 2, of `along.loops`."""
    gamma = whole("gamma", gamma, 2)
    rounds = rounds_along(along.accept, gamma)

    def rise(kept: Bools) -> float:
        rates = hazards_of(rounds[kept])
        return float(rates[1] - rates[0])

    return Positions(
        along.kind,
        float(np.concatenate(along.accept).mean()),
        _by_position(rounds),
        _by_position(along.loops[gamma]),
        hazards(fit_lags(along.accept), gamma),
        jackknife(rise, len(rounds)),
    )


def _by_position(rounds: Floats) -> list[ClusteredMean]:
    def at(position: int) -> ClusteredMean:
        return jackknife(lambda kept: float(hazards_of(rounds[kept])[position]), len(rounds))

    return [at(position) for position in range(rounds.shape[1] - 1)]
