"""The token rule as somebody writes it, and with one part of it changed."""

from functools import partial

import numpy as np

from lab.sampling import residual


def coin(p, q, x):
    return min(1, p[x] / q[x])


def right(p, q, drafts, dice, coin=coin, correction=residual, bonus=lambda p, q: p[-1]):
    for i, x in enumerate(drafts):
        if not dice.accept(coin(p[i], q[i], x)):
            return i, dice.choose(correction(p[i], q[i]))
    return len(drafts), dice.choose(bonus(p, q))


def softmax_of_gap(p, q):
    weights = np.exp(np.maximum(p - q, 0))
    return weights / weights.sum()


FAULTS = {
    "d1_always_accepted": partial(right, coin=lambda p, q, x: 1),
    "d2_softmax_of_the_gap": partial(right, correction=softmax_of_gap),
    "d3_resampled_from_p": partial(right, correction=lambda p, q: p),
    "d4_ratio_swapped": partial(right, coin=lambda p, q, x: coin(q, p, x)),
    "d4_residual_reversed": partial(right, correction=lambda p, q: residual(q, p)),
    "d7_ratio_to_the_maximum": partial(right, coin=lambda p, q, x: p[x] / p.max()),
    "d8_no_coin": partial(right, coin=lambda p, q, x: int(p[x] >= q[x])),
    "half_the_ratio": partial(right, coin=lambda p, q, x: min(1, p[x] / q[x] / 2)),
    "p_for_the_ratio": partial(right, coin=lambda p, q, x: p[x]),
    "residual_both_ways": partial(right, correction=lambda p, q: abs(p - q) / abs(p - q).sum()),
    "residual_spread_evenly": partial(right, correction=lambda p, q: (p > q) / (p > q).sum()),
    "bonus_from_the_draft": partial(right, bonus=lambda p, q: q[-1]),
    "bonus_from_the_row_before": partial(right, bonus=lambda p, q: p[-2]),
}
