"""Homework 3: the cache, held to attention written out query by query.

Shapes: T tokens of a call, D width, S positions that count.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.homework.checking import ask, call, check, must_be, refuses, short
from lab.homework.tasks import reference_module

Rng = np.random.Generator
Array = npt.NDArray[Any]

WIDTH, VOCAB, CAPACITY = 4, 5, 8


# ---- What a check gives and what it expects --------------------------------------------------


def cache_of(student: Any, keys: Array, values: Array, capacity: int) -> Any:
    """A cache of the student's own kind that holds these positions; NaN behind them."""
    kind = getattr(student, "Cache", reference_module("set3_cache").Cache)
    rows = np.full((2, capacity, keys.shape[1]), np.nan)
    rows[0, : len(keys)], rows[1, : len(keys)] = keys, values
    return kind(rows[0], rows[1], len(keys))


def numbers(rng: Rng, *shape: int) -> Array:
    """Normal, with one digit behind the point."""
    return rng.normal(size=shape).round(1)


def random_cache(student: Any, rng: Rng, length: int) -> Any:
    keys, values = numbers(rng, 2, length, WIDTH)
    return cache_of(student, keys, values, CAPACITY)


def random_weights(student: Any, rng: Rng) -> Any:
    kind = getattr(student, "Weights", reference_module("set3_cache").Weights)
    square = numbers(rng, 3, WIDTH, WIDTH) / 2
    head = numbers(rng, WIDTH, VOCAB)
    return kind(numbers(rng, VOCAB, WIDTH), *square, head)


def plain_attention(queries: Array, keys: Array, values: Array) -> Array:
    """Causal attention of the last T of S positions, one query and one key at a time."""
    rows = []
    for seen, query in enumerate(queries, start=len(keys) - len(queries) + 1):
        scores = np.array([(query * key).sum() for key in keys[:seen]]) / len(query) ** 0.5
        weights = np.exp(scores - scores.max())
        mixed = sum(w * value for w, value in zip(weights, values[:seen], strict=True))
        rows.append(mixed / weights.sum())
    return np.array(rows)


def plain_logits(tokens: Array, weights: Any) -> Array:
    """Logits behind every token of a whole text, no cache. -> (T, V)"""
    x = weights.embedding[tokens]
    keys, values = x @ weights.to_key, x @ weights.to_value
    mixed = plain_attention(x @ weights.to_query, keys, values)
    return np.asarray(mixed @ weights.head)


# ---- 3.1 append ------------------------------------------------------------------------------


@check("3.1", "new positions are written behind those that count, and those stay as they are")
def behind_the_others(student: Any, rng: Rng) -> None:
    for length, count in ((0, 2), (3, 2), (5, 1), (3, 4)):
        cache = random_cache(student, rng, length)
        old = cache.keys.copy(), cache.values.copy()
        new = numbers(rng, 2, count, WIDTH)
        said = call(student.append, cache, *new)
        ask(student.append, cache, *new, may_change=(0,))
        for name, before, rows in zip(("keys", "values"), old, new, strict=True):
            wanted = np.concatenate([before[:length], rows])
            held = getattr(cache, name)[: length + count]
            must_be(f"after {said}, cache.{name}[:{length + count}]", held, wanted)


@check("3.1", "`length` says how many positions count: it grows by T")
def length_grows(student: Any, rng: Rng) -> None:
    for length, count in ((0, 1), (3, 2), (2, 4)):
        cache = random_cache(student, rng, length)
        new = numbers(rng, 2, count, WIDTH)
        said = call(student.append, cache, *new)
        ask(student.append, cache, *new, may_change=(0,))
        must_be(f"after {said}, cache.length", cache.length, length + count)


@check("3.1", "a cache is full at its capacity, not before, however the positions come")
def up_to_the_end(student: Any, rng: Rng) -> None:
    keys, values = numbers(rng, 2, CAPACITY, WIDTH)
    cache = cache_of(student, keys[:0], values[:0], CAPACITY)
    start = 0
    for end in (1, 4, 6, CAPACITY):
        ask(student.append, cache, keys[start:end], values[start:end], may_change=(0,))
        start = end
    must_be("after appends of 1, 3, 2 and 2 positions, cache.keys", cache.keys, keys)
    must_be("after appends of 1, 3, 2 and 2 positions, cache.values", cache.values, values)


@check(
    "3.1", "where not all of them fit it is a ValueError, and no room is no reason to write half"
)
def no_room(student: Any, rng: Rng) -> None:
    for length, count in ((CAPACITY, 1), (CAPACITY - 1, 2), (CAPACITY - 2, 5), (0, CAPACITY + 1)):
        cache = random_cache(student, rng, length)
        refuses(student.append, cache, *numbers(rng, 2, count, WIDTH))


# ---- 3.2 attend ------------------------------------------------------------------------------


@check("3.2", "the weights of a query sum to 1: where all values are the same, that value comes")
def weights_sum_to_one(student: Any, rng: Rng) -> None:
    keys = numbers(rng, 5, WIDTH)
    values = np.repeat(numbers(rng, 1, WIDTH), 5, axis=0)
    query, cache = numbers(rng, 1, WIDTH), cache_of(student, keys, values, 5)
    said = f"{call(student.attend, query, cache)}, all values {short(values[0])},"
    must_be(said, ask(student.attend, query, cache), values[:1])


@check("3.2", "the query of position i sees the positions 0 .. i: itself, and nothing later")
def causal(student: Any, rng: Rng) -> None:
    for count in (1, 2, 4):
        means_of_counting(student, rng, count, count)


@check(
    "3.2",
    "the queries are those of the newest positions: what was cached before them is seen by all",
)
def behind_a_cache(student: Any, rng: Rng) -> None:
    for length, count in ((5, 2), (6, 3), (2, 1)):
        means_of_counting(student, rng, length, count)


@check("3.2", "a score is q · k / sqrt(D), D the width of a query")
def scaled(student: Any, rng: Rng) -> None:
    for width in (4, 9, 1):
        keys, values = numbers(rng, 2, 6, width)
        attended(student, numbers(rng, 1, width), cache_of(student, keys, values, 6))


@check(
    "3.2",
    "softmax is the same when the largest score of the row is subtracted first, and exp(1000) "
    "overflows",
)
def large_scores(student: Any, rng: Rng) -> None:
    for scale in (1000.0, -1000.0):
        keys, values = numbers(rng, 2, 4, WIDTH)
        keys[:, 0] = scale + np.arange(4) / 2
        query = np.zeros((1, WIDTH))
        query[0, 0] = WIDTH**0.5  # scores of 1000, 1000.5, ...
        attended(student, query, cache_of(student, keys, values, 4))
    both = np.concatenate([query, -query])  # of one row the scores are far above the other's
    attended(student, both, cache_of(student, keys, values, 4))


@check("3.2", "rows behind cache.length are left over from what was forgotten: never read them")
def nothing_behind_length(student: Any, rng: Rng) -> None:
    for length, count in ((3, 1), (5, 3), (1, 1)):
        for leftover in (np.nan, 1e9):
            cache = random_cache(student, rng, length)
            cache.keys[length:] = cache.values[length:] = leftover
            attended(student, numbers(rng, count, WIDTH), cache)


def means_of_counting(student: Any, rng: Rng, length: int, count: int) -> None:
    """Keys of 0 weigh all the same; with 1, 2, 3, ... as values a query gives their mean."""
    values = np.arange(1.0, length + 1)[:, None] * np.ones(WIDTH)
    cache = cache_of(student, np.zeros((length, WIDTH)), values, length)
    queries = numbers(rng, count, WIDTH)
    wanted = plain_attention(queries, cache.keys, values)
    said = f"{call(student.attend, queries, cache)}, keys of 0 and values of 1 .. {length},"
    must_be(said, ask(student.attend, queries, cache), wanted)


def attended(student: Any, queries: Array, cache: Any) -> None:
    """`attend` must give what plain attention gives."""
    keys, values = cache.keys[: cache.length], cache.values[: cache.length]
    got = ask(student.attend, queries, cache)
    must_be(call(student.attend, queries, cache), got, plain_attention(queries, keys, values))


# ---- 3.3 truncate ----------------------------------------------------------------------------


@check(
    "3.3",
    "`length` is how many positions stay, counted from the start: not how many go, and no reset",
)
def absolute(student: Any, rng: Rng) -> None:
    for before, length in ((6, 4), (5, 1), (7, 6), (3, 3), (4, 0), (0, 0)):
        cache = random_cache(student, rng, before)
        said = call(student.truncate, cache, length)
        ask(student.truncate, cache, length, may_change=(0,))
        must_be(f"after {said}, cache.length", cache.length, length)


@check("3.3", "what stays, stays as it was, in its place")
def rows_stay(student: Any, rng: Rng) -> None:
    for before, length in ((6, 4), (8, 1)):
        cache = random_cache(student, rng, before)
        wanted = cache.keys[:length].copy(), cache.values[:length].copy()
        said = call(student.truncate, cache, length)
        ask(student.truncate, cache, length, may_change=(0,))
        must_be(f"after {said}, cache.keys[:{length}]", cache.keys[:length], wanted[0])
        must_be(f"after {said}, cache.values[:{length}]", cache.values[:length], wanted[1])


@check("3.3", "a rollback makes room again: the capacity is what it was")
def room_again(student: Any, rng: Rng) -> None:
    cache = random_cache(student, rng, CAPACITY)
    said = call(student.truncate, cache, 3)
    ask(student.truncate, cache, 3, may_change=(0,))
    must_be(f"after {said}, len(cache.keys)", len(cache.keys), CAPACITY)
    must_be(f"after {said}, len(cache.values)", len(cache.values), CAPACITY)


@check("3.3", "outside 0 .. cache.length it is a ValueError: a cache cannot grow by being cut")
def outside(student: Any, rng: Rng) -> None:
    for before, length in ((3, 4), (3, CAPACITY), (0, 1), (3, -1), (CAPACITY, CAPACITY + 1)):
        refuses(student.truncate, random_cache(student, rng, before), length)


# ---- 3.4 forward -----------------------------------------------------------------------------


@check(
    "3.4",
    "a token sees itself: its key and value join the cache before it attends, and alone it gets "
    "its own value, times the head",
)
def itself(student: Any, rng: Rng) -> None:
    weights, text = random_weights(student, rng), rng.integers(VOCAB, size=1)
    forwarded(student, text, random_cache(student, rng, 0), weights, plain_logits(text, weights))


@check("3.4", "embed, project to queries, keys and values, append, attend, and the head at the end")
def one_call(student: Any, rng: Rng) -> None:
    for count in (2, 4):
        weights, text = random_weights(student, rng), rng.integers(VOCAB, size=count)
        cache = random_cache(student, rng, 0)
        forwarded(student, text, cache, weights, plain_logits(text, weights))


@check(
    "3.4", "every token leaves one key and one value in the cache, behind those of earlier calls"
)
def joins_the_cache(student: Any, rng: Rng) -> None:
    weights, cache = random_weights(student, rng), random_cache(student, rng, 0)
    text = rng.integers(VOCAB, size=5)
    x = weights.embedding[text]
    for start, end in ((0, 3), (3, 5)):
        said = call(student.forward, text[start:end], cache, weights)
        ask(student.forward, text[start:end], cache, weights, may_change=(1,))
        must_be(f"after {said}, cache.length", cache.length, end)
        must_be(f"after {said}, cache.keys", cache.keys[:end], (x @ weights.to_key)[:end])
        must_be(f"after {said}, cache.values", cache.values[:end], (x @ weights.to_value)[:end])


@check("3.4", "cached equals fresh: a text cut into calls anywhere has the logits of one call")
def every_split(student: Any, rng: Rng) -> None:
    text, weights = rng.integers(VOCAB, size=6), random_weights(student, rng)
    fresh = plain_logits(text, weights)
    for count in range(len(text)):
        for cuts in combinations(range(1, len(text)), count):
            cache = random_cache(student, rng, 0)
            rows = []
            for start, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
                rows.append(ask(student.forward, text[start:end], cache, weights, may_change=(1,)))
            cut = f" cut before {', '.join(map(str, cuts))}" if cuts else ""
            must_be(f"forward of {short(text)}{cut}", np.concatenate(rows), fresh)


@check("3.4", "after a rollback the cache is as if what was forgotten had never been fed")
def after_truncate(student: Any, rng: Rng) -> None:
    text, weights = rng.integers(VOCAB, size=6), random_weights(student, rng)
    other = (text + 1) % VOCAB
    for kept, again in ((3, text[3:]), (5, text[5:]), (0, other), (2, other[2:5])):
        cache = random_cache(student, rng, 0)
        ask(student.forward, text, cache, weights, may_change=(1,))
        student.truncate(cache, kept)
        fresh = plain_logits(np.concatenate([text[:kept], again]), weights)
        forwarded(student, again, cache, weights, fresh[kept:])


def forwarded(student: Any, tokens: Array, cache: Any, weights: Any, wanted: Array) -> None:
    """`forward` must give these logits, those of a fresh pass over the whole text."""
    said = call(student.forward, tokens, cache, weights)
    must_be(said, ask(student.forward, tokens, cache, weights, may_change=(1,)), wanted)
