"""All that is measured of ten drafts on real text in one run: how much of what, and in which order.

Texts and the real loop take all cores; times are taken in one process, with nothing beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.betawalk import BetaGap, beta_gap
from lab.measure import continuations
from lab.paper_leviathan import LENIENCES
from lab.realclock import ClockCell, Plan, RoundParts, clock_cells, measure_parts, measure_passes
from lab.realloop import Key, LoopCell, loop_cells
from lab.realtext import DRAFTS, KINDS, LOOKUP, TextCell, prompts_of, target, text_cells
from lab.replay import rounds_along
from lab.sampling import Sampling
from lab.stats import ClusteredMean

TEMPERATURES = (0.0, 1.0)
GAMMA, GAMMAS, MOST = 4, (2, 4, 8), 8
WALKED = ("trained 1L", "trained 2L", "4-gram")  # by a and by β
LENIENT = ("bigram", "4-gram", "trained 2L")

TextCells = dict[tuple[str, float], TextCell]
LoopCells = dict[Key, LoopCell]
Alphas = dict[tuple[str, float], dict[str, ClusteredMean]]  # by kind and temperature, then draft


@dataclass(frozen=True)
class Size:
    """How much is measured: texts and prompts by temperature, tokens behind each."""

    kinds: tuple[str, ...] = KINDS
    windows: int = 32  # of held-out text
    texts: tuple[int, int] = (16, 128)
    text_tokens: int = 96
    prompts: tuple[int, int] = (8, 12)
    loop_tokens: int = 64
    repeats: int = 60  # of a timed pass
    turns: int = 3  # on the stopwatch
    clock_tokens: int = 48
    most: int = MOST  # the largest γ that is timed


FAST = Size(("python",), 8, (8, 20), 64, (4, 8), 40, 16, 2, 32, 4)


# ---- On all cores ------------------------------------------------------------------------------


def along_texts(size: Size, seed: int) -> TextCells:
    """Every draft along the target's own texts."""
    counts = dict(zip(TEMPERATURES, size.texts, strict=True))
    levels = [float(leniency) for leniency in LENIENCES]
    return text_cells(size.kinds, counts, size.text_tokens, DRAFTS, MOST, LENIENT, levels, seed)


def in_the_loop(size: Size, seed: int) -> LoopCells:
    """Every draft at γ 4, and the walked ones at every γ."""
    keys: list[Key] = [
        (kind, name, temperature, GAMMA)
        for temperature in reversed(TEMPERATURES)
        for name in DRAFTS
        for kind in size.kinds
    ]
    keys += [(kind, name, 1.0, g) for name in WALKED for g in GAMMAS for kind in size.kinds]
    counts = dict(zip(TEMPERATURES, size.prompts, strict=True))
    return loop_cells(list(dict.fromkeys(keys)), counts, size.loop_tokens, seed)


# ---- What follows ------------------------------------------------------------------------------


def alphas(texts: TextCells, loops: LoopCells) -> Alphas:
    """α along the texts; of prompt lookup, which has no law, accepted / tested in the loop."""
    found = {}
    for (kind, temperature), cell in texts.items():
        of_lookup = loops[kind, LOOKUP, temperature, GAMMA].alpha
        found[kind, temperature] = {
            name: of_lookup if name == LOOKUP else along.alpha
            for name, along in cell.drafts.items()
        }
    return found


def falls(of: Alphas) -> list[ClusteredMean]:
    """α at T 0 less α at T 1, which are of other texts, of each draft that has a law and kind."""
    warm = {kind: own for (kind, temperature), own in of.items() if temperature == 1}
    return [
        _less(of[kind, 0.0][name], own[name])
        for name in DRAFTS
        if name != LOOKUP
        for kind, own in warm.items()
    ]


def _less(one: ClusteredMean, other: ClusteredMean) -> ClusteredMean:
    """The difference of two independent means; degrees of freedom of the smaller sample."""
    stderr = math.hypot(one.stderr, other.stderr)
    return ClusteredMean(one.mean - other.mean, stderr, min(one.n_clusters, other.n_clusters))


def walks(size: Size, texts: TextCells) -> dict[Key, BetaGap]:
    """Of the walked drafts at T 1 and every γ."""
    found: dict[Key, BetaGap] = {}
    for name in WALKED:
        for kind in size.kinds:
            along = texts[kind, 1.0].drafts[name]
            for gamma in GAMMAS:
                found[kind, name, 1.0, gamma] = beta_gap(along.accept, along.betas, gamma)
    return found


# ---- In one process ----------------------------------------------------------------------------


def round_parts(size: Size, seed: int) -> dict[float, RoundParts]:
    """Seconds of a round's parts, by temperature."""
    prompts = prompts_of(size.kinds[-1], 2, seed)
    texts = continuations(target(), prompts, 2 * size.repeats + 8, seed, 5)
    most, repeats = size.most, size.repeats
    passes = measure_passes(DRAFTS, texts, most, repeats)
    return {t: measure_parts(passes, most, Sampling(temperature=t), repeats) for t in TEMPERATURES}


def on_the_clock(
    size: Size, texts: TextCells, parts: dict[float, RoundParts], seed: int
) -> list[ClockCell]:
    """Every draft on the stopwatch, T 1 first."""
    cells = []
    for temperature in reversed(TEMPERATURES):
        for kind in size.kinds:
            plans = [
                Plan(
                    name,
                    None if name == LOOKUP else min(float(found.alpha.mean), 1.0),
                    {g: rounds_along(found.accept, g) for g in range(1, size.most + 1)},
                )
                for name, found in texts[kind, temperature].drafts.items()
            ]
            prompts = prompts_of(kind, size.turns, seed)
            cells += clock_cells(
                kind, temperature, plans, parts[temperature], prompts, size.clock_tokens, seed
            )
    return cells
