"""Our own points for the paper's Figures 2, 3 and 4: the model trained on Shakespeare, its drafts.

Tokens per target call come from the real loop; the best γ for a given c from replay of the target's
own texts, which has every γ at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import measure, theory
from lab.estimate import Estimate, alpha_from_betas, replay
from lab.measure import Draft
from lab.pairs import Pair, text_pair
from lab.paper_figures import FIGURE_ENDS
from lab.speedup import LoopCell, loop_cells
from lab.sweep import sweep

Array = npt.NDArray[Any]

GAMMAS = (1, 3, 5, 7, 10)  # of Figures 2 and 4; Figure 2 leaves out the last
COSTS = (0.01, 0.02, 0.05, 0.1)  # c of Figure 3
MOST_GAMMA = 30  # replayed: more than any best γ of Figure 3


@dataclass(frozen=True)
class Point:
    """One draft at one γ in the real loop."""

    draft: str
    gamma: int
    alpha: Estimate  # mean Σ min(p, q) of these very texts
    tokens: Estimate  # per call of the target

    @property
    def operations(self) -> tuple[float, float]:
        """Rows that the target computes per token, with error: Thm 3.11 at ĉ = 0."""
        factor = (self.gamma + 1) / self.tokens.value
        return factor, factor * self.tokens.stderr / self.tokens.value


@dataclass(frozen=True)
class BestGamma:
    """The γ with the best measured speed-up at one c."""

    draft: str
    c: float
    alpha: Estimate
    gamma: int
    low: int  # low..high: no γ outside is within one standard error of the best speed
    high: int


@dataclass(frozen=True)
class Measured:
    """What is drawn over the formulas."""

    points: tuple[Point, ...]
    best: tuple[BestGamma, ...]


def measure_figures(seed: int, fast: bool = False) -> Measured:
    """All points: 16 prompts (fast: 8), 64 (32) new tokens a γ; as many texts of 128 to replay."""
    pair = text_pair(seed, prompts=8 if fast else 16)
    n_new = 32 if fast else 64
    jobs = [
        partial(loop_cells, pair.target, draft, pair.prompts, n_new, GAMMAS, seed, 80, i)
        for i, draft in enumerate(pair.drafts)
    ]
    points = [_point(cell) for cells in sweep(jobs) for cell in cells]
    return Measured(tuple(points), tuple(best_gammas(pair, 128, seed, 81)))


def _point(cell: LoopCell) -> Point:
    return Point(cell.draft, cell.gamma, cell.alpha, cell.tokens_per_call)


def best_gammas(pair: Pair, length: int, *cell: int) -> list[BestGamma]:
    """Every draft whose α is on Figure 3's axis, at every c, from the same texts of the target,
    `length` tokens each."""
    texts = measure.continuations(pair.target, pair.prompts, length, *cell)
    starts = [len(prompt) for prompt in pair.prompts]
    laws = measure.laws_along(pair.target, texts, measure.PLAIN)
    jobs = [partial(_best, draft, texts, starts, laws) for draft in pair.drafts]
    return [one for found in sweep(jobs) for one in found]


def _best(
    draft: Draft, texts: Sequence[Array], starts: Sequence[int], target_laws: Sequence[Array]
) -> list[BestGamma]:
    draft_laws = measure.laws_along(draft.model, texts, measure.PLAIN)
    betas, target_probs, draft_probs = [], [], []
    for text, start, p, q in zip(texts, starts, target_laws, draft_laws, strict=True):
        own = np.arange(start - 1, len(text) - 1)  # rows that gave the text's own tokens
        betas.append(theory.acceptance(p[own], q[own]))
        target_probs.append(p[own, text[own + 1]])
        draft_probs.append(q[own, text[own + 1]])
    alpha = alpha_from_betas(betas)
    if not FIGURE_ENDS[0] <= alpha.value <= FIGURE_ENDS[1]:
        return []
    tokens = replay(target_probs, draft_probs, range(1, MOST_GAMMA + 1))
    return [_best_at(draft.name, alpha, tokens, c) for c in COSTS]


def _best_at(draft: str, alpha: Estimate, tokens: dict[int, Estimate], c: float) -> BestGamma:
    gammas = np.array(list(tokens))
    speeds = np.array([t.value for t in tokens.values()]) / (gammas * c + 1)
    errors = np.array([t.stderr for t in tokens.values()]) / (gammas * c + 1)
    best = int(speeds.argmax())
    near = gammas[speeds >= speeds[best] - errors[best]]
    return BestGamma(draft, c, alpha, int(gammas[best]), int(near[0]), int(near[-1]))
