"""The picture behind the proof: two laws over each other, what is accepted, what is rejected, and
where the correction comes from.

p = target law, q = draft law. Shapes: V = vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lab import domains
from lab.domains import Floats
from lab.plots import DASH, GREY, INK, Axes, Figure, one_panel

WIDTH = 0.7  # of a token's pillar
FILL = "0.78"


def overlap(target_probs: ArrayLike, draft_probs: ArrayLike) -> Figure:
    """Pillars of p and q for every token, (V,) each: min(p, q) is filled, p - q hatched where p is
    larger (the residual's share), q - p left white where q is (rejected)."""
    target, draft = domains.laws(target_probs, draft_probs)
    if target.ndim != 1:
        raise ValueError(f"target_probs must be one law (V,), got shape {target.shape}")
    shared, tokens = np.minimum(target, draft), np.arange(len(target))
    accepted = shared.sum()
    figure, axes = one_panel(
        "What the draft brings is kept where the laws overlap", "token x", "probability", 3.9
    )
    axes.bar(
        tokens, shared, WIDTH, color=FILL, edgecolor="none",
        label=f"min(p, q): accepted, {accepted:.2f} in all",
    )  # fmt: skip
    axes.bar(
        tokens, target - shared, WIDTH, shared, color="white", edgecolor=GREY, hatch="///",
        linewidth=0, label=f"p − q: the residual, {1 - accepted:.2f} in all",
    )  # fmt: skip
    _outline(axes, target, "p: the target", "-", 3)  # in front: where both stand, p shows
    _outline(axes, draft, "q: the draft", DASH, 2.5)
    for token in tokens[draft > target]:
        axes.annotate(
            "rejected", (token, (target[token] + draft[token]) / 2), ha="center", va="center"
        )
    axes.set_xticks(tokens)
    axes.set_ylim(0, 1.12 * max(target.max(), draft.max()))
    axes.legend(frameon=False, loc="upper right")
    return figure


def _outline(axes: Axes, law: Floats, name: str, style: Any, order: float) -> None:
    for token, height in enumerate(law):
        left, right = token - WIDTH / 2, token + WIDTH / 2
        axes.plot(
            [left, left, right, right], [0, height, height, 0], color=INK, linestyle=style,
            linewidth=1.4, zorder=order, label=None if token else name,
        )  # fmt: skip
