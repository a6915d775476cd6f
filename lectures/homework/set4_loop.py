"""Homework 4: the loop.

A model has `vocab`, `new_cache()` and `forward(tokens, cache)`, which appends T tokens to the cache
and returns the laws (T, V) that follow each of them. A cache has `length` and `truncate(length)`.
Draws go through a `dice`: `dice.choose(law)`. A rule is homework 2's `verify`:
`rule(target_probs, draft_probs, drafts, dice) -> (accepted, token)`.

Between rounds a cache holds the text without its last token: that one, the pending token, is fed
together with the drafts of the next round.
"""

import numpy as np


def drafts_allowed(gamma, wanted):
    """Task 4.1: how many drafts a round makes, so that nothing is computed which cannot be kept.

    gamma : drafts per round, >= 0
    wanted : new tokens that are still wanted, >= 1
    returns : an int; a round emits its accepted drafts and one more token

    >>> drafts_allowed(4, 10), drafts_allowed(4, 3), drafts_allowed(4, 1)
    (4, 2, 0)
    """
    raise NotImplementedError("task 4.1")


def propose(draft, cache, tokens, count, dice):
    """Task 4.2: draw `count` tokens to follow the text, each from the draft's own law.

    draft, cache : a model and its cache, which holds the first `cache.length` tokens of the text
    tokens : the text so far, a list; what the cache lacks of it is fed first, in the same call as
        the last token. After a full acceptance these are two tokens, not one
    count : >= 1
    returns : (drafts, draft_probs): a list of tokens, and (count, V) the laws they were drawn from

    The last drafted token is not fed: nothing is asked behind it.
    """
    raise NotImplementedError("task 4.2")


def score(target, cache, tokens, drafts):
    """Task 4.3: the target's laws behind the pending token and behind each draft, in one call.

    cache : holds the text without its last token
    returns : (len(drafts) + 1, V)
    """
    raise NotImplementedError("task 4.3")


def commit(tokens, drafts, accepted, token, stop):
    """Task 4.4: append what a round emits to the text, up to the first stop token.

    tokens : the text, a list that grows
    accepted, token : the rule's verdict
    stop : a set of tokens that end the text; the first one is kept, nothing behind it
    returns : True where the text has ended
    """
    raise NotImplementedError("task 4.4")


def roll_back(cache, tokens):
    """Task 4.5: after a round, forget what is not part of the text.

    cache : of the target or of the draft
    tokens : the text, the round's own tokens included

    Neither cache may hold more than the text without its last token; a cache that holds less (the
    draft's, after a full acceptance) stays as it is.
    """
    raise NotImplementedError("task 4.5")


def generate(target, draft, prompt, n_new, gamma, rule, dice, stop=frozenset()):
    """Task 4.6: speculative decoding.

    prompt : a list of at least one token
    n_new : new tokens at most; fewer after a stop token
    returns : the new tokens, a list

    Before the first round both models read the prompt without its last token. A round: draft
    (where drafts are allowed), score, ask the rule (where there are drafts; else draw from the one
    row), commit, roll back both caches. Use the functions above.
    """
    raise NotImplementedError("task 4.6")
