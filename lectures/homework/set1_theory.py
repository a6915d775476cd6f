"""Homework 1: what speculative decoding buys.

p is the target's law and q the draft's; alpha is the mean of sum(min(p, q)) over positions, gamma
the number of tokens drafted a round. A round costs one run of the target and gamma runs of the
draft. The paper is Leviathan, Kalman and Matias 2023, arXiv 2211.17192.

Plain Python floats in and out; NumPy where a law (an array that sums to 1) is given.
"""

import numpy as np


def acceptance(target_probs, draft_probs):
    """Task 1.1: the probability that a drafted token is accepted (Theorem 3.5).

    target_probs, draft_probs : (V,), the laws p and q at one position
    returns : a float in [0, 1]

    >>> acceptance(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5]))
    0.7
    """
    raise NotImplementedError("task 1.1")


def expected_tokens(alpha, gamma):
    """Task 1.2: tokens that a round emits on average, equation (1).

    alpha : in [0, 1], each draft is accepted with this probability, independently
    gamma : drafts of a round, >= 0
    returns : a float; the target's own token counts too, so it is 1 where nothing is drafted

    >>> round(expected_tokens(0.8, 4), 4)
    3.3616
    """
    raise NotImplementedError("task 1.2")


def ops_factor(alpha, gamma, c_hat):
    """Task 1.3: operations per token over those of plain decoding, Theorem 3.11.

    c_hat : operations of a draft run for one token, over those of a target run for one token
    returns : a float; above 1 means more work

    The target computes a row for each draft and one for the token before them.

    >>> round(ops_factor(0.8, 4, 0.0), 4)
    1.4874
    """
    raise NotImplementedError("task 1.3")


def walltime_speedup(alpha, gamma, c):
    """Task 1.4: how many times faster than plain decoding, Theorem 3.8.

    c : time of a draft run over time of a target run; a target run takes the same time for one
        token as for gamma + 1
    returns : a float; below 1 means slower

    >>> round(walltime_speedup(0.8, 8, 0.05), 4)
    3.0921
    """
    raise NotImplementedError("task 1.4")


def best_gamma(alpha, c):
    """Task 1.5: the gamma with the largest speed-up, and that speed-up.

    alpha : in [0, 1); c > 0
    returns : (gamma, speedup), an int and a float. Of equal speed-ups (within 1e-12) the smaller
        gamma; (0, 1.0) where no gamma >= 1 is faster than plain decoding

    The speed-up rises with gamma up to its maximum, then falls: do not stop at a fixed gamma.

    >>> best_gamma(0.5, 0.5)
    (0, 1.0)
    """
    raise NotImplementedError("task 1.5")
