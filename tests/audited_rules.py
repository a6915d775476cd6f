"""Rules that can be audited: a right one in several dresses, and a wrong one."""

import numpy as np
from rules import FAULTS, right

resampled = FAULTS["d3_resampled_from_p"]


def prints(p, q, drafts, dice):
    print("called")
    return right(p, q, drafts, dice)


def in_float32(p, q, drafts, dice):
    return right(p.astype(np.float32), q.astype(np.float32), drafts, dice)


def in_float64(p, q, drafts, dice):
    return right(p.astype(float), q.astype(float), drafts, dice)
