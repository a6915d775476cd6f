"""Rules that can be audited: a right one in several dresses, and a wrong one."""

import math
import os

import numpy as np
from rules import FAULTS, right

resampled = FAULTS["d3_resampled_from_p"]


def prints(p, q, drafts, dice):
    print("called")
    os.write(1, b"past print\n")
    return right(p, q, drafts, dice)


def in_float32(p, q, drafts, dice):
    return right(p.astype(np.float32), q.astype(np.float32), drafts, dice)


def in_float64(p, q, drafts, dice):
    return right(p.astype(float), q.astype(float), drafts, dice)


def another_way_in_floats(p, q, drafts, dice):
    def coin(p, q, x):
        try:
            return min(1, 1.1 * math.exp(math.log(p[x]) - math.log(q[x])))
        except ValueError:
            return min(1, p[x] / q[x])

    return right(p, q, drafts, dice, coin=coin)
