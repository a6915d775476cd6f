"""Rules that can be audited: a right one in several dresses, and a wrong one."""

import numpy as np


def right(p, q, drafts, dice):
    for i, x in enumerate(drafts):
        if not dice.accept(min(1, p[i][x] / q[i][x])):
            left = np.maximum(p[i] - q[i], 0)
            return i, dice.choose(left / left.sum())
    return len(drafts), dice.choose(p[len(drafts)])


def prints(p, q, drafts, dice):
    print("called")
    return right(p, q, drafts, dice)


def in_float32(p, q, drafts, dice):
    return right(p.astype(np.float32), q.astype(np.float32), drafts, dice)


def in_float64(p, q, drafts, dice):
    return right(p.astype(float), q.astype(float), drafts, dice)


def resampled(p, q, drafts, dice):
    """After a rejection from p, where it should be the residual."""
    for i, x in enumerate(drafts):
        if not dice.accept(min(1, p[i][x] / q[i][x])):
            return i, dice.choose(p[i])
    return len(drafts), dice.choose(p[len(drafts)])
