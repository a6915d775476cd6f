"""Does the order of acceptances along texts matter? The same acceptances in true and random order.

Random order within each text takes away what neighbours share; over all texts, also that some texts
are easier than others, and leaves what equation (1) supposes. In a stream of easy and hard texts
calls of the target add up, so tokens per call are a harmonic mean.

Shapes: G texts, n positions, rounds (G, gamma + 1) as in `lab.acceptance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lab.acceptance import Along, jackknife, tokens_of
from lab.chainfit import fit_lags
from lab.chains import Limits, clustered_limits, long_run
from lab.domains import Bools, Floats
from lab.replay import rounds_along
from lab.stats import ClusteredMean, clustered_mean
from lab.theory import expected_tokens


def shuffled_within(rows: Sequence[Floats], rng: np.random.Generator) -> list[Floats]:
    """Each text in random order: it keeps its mean, and nothing else that neighbours share."""
    return [rng.permutation(row) for row in rows]


def shuffled_over(rows: Sequence[Floats], rng: np.random.Generator) -> list[Floats]:
    """All texts in one random order, cut at the same lengths: they share one mean too."""
    mixed = rng.permutation(np.concatenate(rows))
    return np.split(mixed, np.cumsum([len(row) for row in rows])[:-1])


def split_costs(
    rows: Sequence[Floats], rounds: Floats, kept: Bools | None = None
) -> tuple[float, float]:
    """What correlation leaves of equation (1): by the hidden-state formula fitted on odd texts, and
    by replay of the even ones, which the fit has not seen.

    Each is tokens per call over equation (1) at the mean of its own half, so that the halves need
    not be equally easy. No mean over both directions: what is fitted on one half and replayed on
    the other would cancel in it.

    Parameters
    ----------
    rows : for each text (n,), min(1, q / p)
    rounds : (G, gamma + 1), of `rounds_along` of at least two such texts
    kept : (G,), only these texts
    """
    use = np.ones(len(rows), np.bool_) if kept is None else kept
    even = np.arange(len(rows)) % 2 == 0
    gamma = rounds.shape[1] - 1
    odd_rows, even_rows = (
        [rows[i] for i in np.flatnonzero(use & half).tolist()] for half in (~even, even)
    )
    return (
        left_by_states(odd_rows, gamma),
        tokens_of(rounds[use & even]) / _eq1(even_rows, gamma),
    )


def left_by_states(rows: Sequence[Floats], gamma: int) -> float:
    """What correlation leaves of equation (1), by the hidden-state formula fitted on these."""
    return long_run(fit_lags(rows), gamma) / _eq1(rows, gamma)


def _eq1(rows: Sequence[Floats], gamma: int) -> float:
    """Equation (1) at the mean of all."""
    return float(expected_tokens(min(np.concatenate(rows).mean(), 1.0), gamma))


@dataclass(frozen=True, slots=True)
class OrderCell:
    """Tokens per call of one kind of text at one gamma, and what each differs by, relatively.

    Attributes
    ----------
    eq1 : equation (1) at the mean of a
    replay, within, over : replay in true order, in random order within each text, over all texts;
        the errors of the first two are between texts, of the last between shuffles
    formula : `eq1` less what the hidden-state formula, fitted on odd texts, says correlation costs
    loop : the real loop
    replay_gap, within_gap, over_gap : over `eq1`, less 1
    order_gap : replay / within - 1, what the order within texts costs
    formula_gap : the formula's cost over that of replay of the even texts (`split_costs`), less 1
    loop_gap, loop_eq1_gap : over replay, and over `eq1`, less 1
    """

    kind: str
    gamma: int
    alpha: float
    eq1: float
    replay: ClusteredMean
    within: ClusteredMean
    over: ClusteredMean
    formula: float
    loop: ClusteredMean
    replay_gap: ClusteredMean
    within_gap: ClusteredMean
    over_gap: ClusteredMean
    order_gap: ClusteredMean
    formula_gap: ClusteredMean
    loop_gap: ClusteredMean
    loop_eq1_gap: ClusteredMean


def order_cell(along: Along, gamma: int, shuffles: int, rng: np.random.Generator) -> OrderCell:
    """One cell of "does the order of the acceptances matter"; `gamma` of `along.loops`."""
    rows, loop = along.accept, along.loops[gamma]
    groups = len(rows)
    sums = np.array([[row.sum(), len(row)] for row in rows])
    true = rounds_along(rows, gamma)
    inside = np.mean(
        [rounds_along(shuffled_within(rows, rng), gamma) for _ in range(shuffles)], axis=0
    )
    orders = [rounds_along(shuffled_over(rows, rng), gamma) for _ in range(shuffles)]
    everywhere = np.array(list(map(tokens_of, orders)))

    def eq1(kept: Bools) -> float:
        total, count = sums[kept].sum(axis=0)
        return float(expected_tokens(min(total / count, 1.0), gamma))

    def formula_over(kept: Bools) -> float:
        formula, replayed = split_costs(rows, true, kept)
        return formula / replayed - 1

    whole_text = np.ones(groups, np.bool_)
    by_text = partial(jackknife, groups=groups)
    return OrderCell(
        along.kind,
        gamma,
        float(sums[:, 0].sum() / sums[:, 1].sum()),
        eq1(whole_text),
        replay=by_text(lambda kept: tokens_of(true[kept])),
        within=by_text(lambda kept: tokens_of(inside[kept])),
        over=clustered_mean(everywhere, np.arange(shuffles)),
        formula=eq1(whole_text) * split_costs(rows, true)[0],
        loop=by_text(lambda kept: tokens_of(loop[kept])),
        replay_gap=by_text(lambda kept: tokens_of(true[kept]) / eq1(kept) - 1),
        within_gap=by_text(lambda kept: tokens_of(inside[kept]) / eq1(kept) - 1),
        over_gap=clustered_mean(everywhere / eq1(whole_text) - 1, np.arange(shuffles)),
        order_gap=by_text(lambda kept: tokens_of(true[kept]) / tokens_of(inside[kept]) - 1),
        formula_gap=by_text(formula_over),
        loop_gap=by_text(lambda kept: tokens_of(loop[kept]) / tokens_of(true[kept]) - 1),
        loop_eq1_gap=by_text(lambda kept: tokens_of(loop[kept]) / eq1(kept) - 1),
    )


@dataclass(frozen=True, slots=True)
class MixedCell:
    """Tokens per call where kinds of text share a stream, at one gamma.

    Attributes
    ----------
    alphas : mean of a of each kind
    harmonic, arithmetic : means of equation (1) over the kinds, weighted by the tokens of whole
        rounds (a little more than half for the easier kind: its rounds reach further beyond the
        last position where one may start); `pooled` : equation (1) at the mean of alphas
    shuffled, replay, loop : replay in random order within each kind, in true order; the real loop
    arithmetic_gap : replay / arithmetic - 1
    shuffled_gap : shuffled / harmonic - 1, with the error between shuffles
    loop_gap : loop / replay - 1
    """

    gamma: int
    alphas: list[float]
    harmonic: float
    arithmetic: float
    pooled: float
    shuffled: ClusteredMean
    replay: ClusteredMean
    loop: ClusteredMean
    arithmetic_gap: ClusteredMean
    shuffled_gap: ClusteredMean
    loop_gap: ClusteredMean


def mixed_cell(
    kinds: Sequence[Along], gamma: int, shuffles: int, rng: np.random.Generator
) -> MixedCell:
    """Kinds with as many texts of as many tokens each, one stream of rounds for all."""
    rows = [row for along in kinds for row in along.accept]
    true = rounds_along(rows, gamma)
    loop = np.concatenate([along.loops[gamma] for along in kinds])
    means = np.array([row.mean() for row in rows])
    of_kind = np.repeat(np.arange(len(kinds)), [len(along.accept) for along in kinds])
    orders = [
        rounds_along([row for along in kinds for row in shuffled_over(along.accept, rng)], gamma)
        for _ in range(shuffles)
    ]
    mixed, inside = np.array(list(map(tokens_of, orders))), np.mean(orders, axis=0)
    everything = np.ones(len(rows), np.bool_)

    def alphas(kept: Bools) -> list[float]:
        found = [means[kept & (of_kind == i)].mean() for i in range(len(kinds))]
        return [min(float(alpha), 1.0) for alpha in found]

    def limits_of(kept: Bools) -> Limits:
        tokens = np.bincount(of_kind[kept], inside[kept].sum(axis=1))
        return clustered_limits(alphas(kept), gamma, tokens / tokens.sum())

    limits = limits_of(everything)
    by_text = partial(jackknife, groups=len(rows))
    return MixedCell(
        gamma,
        alphas(everything),
        limits.long_run,
        limits.stationary_start,
        float(expected_tokens(min(means.mean(), 1.0), gamma)),
        shuffled=clustered_mean(mixed, np.arange(shuffles)),
        replay=by_text(lambda kept: tokens_of(true[kept])),
        loop=by_text(lambda kept: tokens_of(loop[kept])),
        arithmetic_gap=by_text(
            lambda kept: tokens_of(true[kept]) / limits_of(kept).stationary_start - 1
        ),
        shuffled_gap=clustered_mean(mixed / limits.long_run - 1, np.arange(shuffles)),
        loop_gap=by_text(lambda kept: tokens_of(loop[kept]) / tokens_of(true[kept]) - 1),
    )
