"""Homework 2: from logits to a verdict that leaves the target's law alone.

V is the vocabulary, N the number of drafts. Every draw goes through a `dice` with two questions:

    dice.choose(probs)        -> a token, drawn from the law probs (V,)
    dice.accept(probability)  -> True with this probability

so the checker can ask every question both ways and add up what your code does, exactly.
"""

import numpy as np


def temperature_law(logits, temperature):
    """Task 2.1: the law that logits stand for at a temperature.

    logits : (V,) floats, as large as they like (1000 is no reason to overflow)
    temperature : >= 0; 0 is the limit: all mass on the largest logit, the first one of equals
    returns : (V,) float64, sums to 1

    >>> temperature_law(np.array([0.0, np.log(3.0)]), 1.0)
    array([0.25, 0.75])
    """
    raise NotImplementedError("task 2.1")


def top_p_law(probs, top_p):
    """Task 2.2: the nucleus: the likeliest tokens that together hold mass top_p, and no more.

    probs : (V,), sums to 1
    top_p : in (0, 1]. A token stays while the mass of the likelier ones before it is below top_p,
        so the likeliest always stays; of equals the lower index comes first
    returns : (V,), sums to 1

    >>> top_p_law(np.array([0.1, 0.5, 0.4]), 0.6)
    array([0.        , 0.55555556, 0.44444444])
    """
    raise NotImplementedError("task 2.2")


def accept_probability(target_probs, draft_probs, token):
    """Task 2.3: with which probability a drafted token is accepted (Algorithm 1).

    target_probs, draft_probs : (V,), the laws p and q at its position
    token : the draft, drawn from q, so q[token] > 0
    returns : a float in [0, 1]

    >>> accept_probability(np.array([0.2, 0.8]), np.array([0.5, 0.5]), 0)
    0.4
    """
    raise NotImplementedError("task 2.3")


def residual(target_probs, draft_probs):
    """Task 2.4: the law that a rejected draft's place is drawn from: norm(max(0, p - q)).

    returns : (V,), sums to 1. Where nothing is left, as p and q are the same up to rounding, p: it
        is hardly ever asked for, but must not be 0 / 0

    >>> residual(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.4, 0.4]))
    array([1., 0., 0.])
    """
    raise NotImplementedError("task 2.4")


def verify(target_probs, draft_probs, drafts, dice):
    """Task 2.5: one round's verdict (Algorithm 1).

    target_probs : (N + 1, V); row i is the target's law behind the first i drafts
    draft_probs : (N, V); row i is the law that drafts[i] was drawn from
    drafts : (N,) tokens
    dice : see above
    returns : (accepted, token): how many drafts are kept, and the target's own token behind them:
        from the residual at the first rejection, from the last row where all were accepted

    One `accept` for each draft, in order, none behind the first rejection; then one `choose`. With
    no drafts at all the token comes from the one row. Use `accept_probability` and `residual`.
    """
    raise NotImplementedError("task 2.5")
