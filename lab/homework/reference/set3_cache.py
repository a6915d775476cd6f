"""Homework 3: a key/value cache that can be rolled back.

A model of one attention head is small enough to read. T is the number of tokens of a call, D the
width, S the positions in the cache.
"""

from dataclasses import dataclass

import numpy as np


@dataclass
class Cache:
    """Keys and values of the positions so far.

    keys, values : (capacity, D); the first `length` rows count, what is behind them may be anything
    """

    keys: np.ndarray
    values: np.ndarray
    length: int = 0

    def __repr__(self):
        return f"Cache(length={self.length}, capacity={len(self.keys)})"


@dataclass(frozen=True)
class Weights:
    """One head: embedding (V, D), three projections (D, D), the head (D, V)."""

    embedding: np.ndarray
    to_query: np.ndarray
    to_key: np.ndarray
    to_value: np.ndarray
    head: np.ndarray


def new_cache(capacity, width):
    """An empty cache. Given."""
    return Cache(np.zeros((capacity, width)), np.zeros((capacity, width)))


def append(cache, keys, values):
    """Task 3.1: write T new positions behind those that count.

    keys, values : (T, D)
    raises : ValueError, and changes nothing, where there is no room for all of them

    Earlier positions stay as they are; `cache.length` grows by T.
    """
    start, end = cache.length, cache.length + len(keys)
    if end > len(cache.keys):
        raise ValueError(f"{end} positions do not fit into a cache of {len(cache.keys)}")
    cache.keys[start:end] = keys
    cache.values[start:end] = values
    cache.length = end


def attend(queries, cache):
    """Task 3.2: causal attention of the newest T positions over the cache.

    queries : (T, D), of the last T positions of the cache, whose keys and values are in it already
    returns : (T, D). The query of position i sees positions 0 .. i and nothing else; scores are
        divided by sqrt(D). Rows behind `cache.length` may hold anything, NaN too: do not read them
    """
    keys, values = cache.keys[: cache.length], cache.values[: cache.length]
    count, width = queries.shape
    scores = queries @ keys.T / np.sqrt(width)  # (T, S)
    position = np.arange(cache.length - count, cache.length)
    hidden = np.arange(cache.length) > position[:, None]
    scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)) @ values


def truncate(cache, length):
    """Task 3.3: keep the first `length` positions and forget the rest: the rollback.

    length : 0 .. cache.length, counted from the start, not how many to drop
    raises : ValueError outside; the cache cannot grow by being cut
    """
    if not 0 <= length <= cache.length:
        raise ValueError(f"length={length} must be within 0..{cache.length}")
    cache.length = length


def forward(tokens, cache, weights):
    """Task 3.4: logits behind each of T new tokens, which join the cache.

    tokens : (T,) ints
    returns : (T, V). Whether a text comes in one call or in several, cut anywhere, the logits are
        the same; so they are after a truncate and the same tokens again

    embed -> project to queries, keys, values -> append -> attend -> head
    """
    x = weights.embedding[np.asarray(tokens)]
    append(cache, x @ weights.to_key, x @ weights.to_value)
    return attend(x @ weights.to_query, cache) @ weights.head
