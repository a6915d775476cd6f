"""Homework 5: drafts and what they cost, held to `lab.quant`, `lab.ngram` and `lab.stats`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import quant
from lab.domains import Floats
from lab.homework.checking import Clumsy, Wrong, ask, call, check, equal, must_be, shaped, short
from lab.homework.checks.inputs import share
from lab.ngram import NGramLM
from lab.stats import clustered_mean

Rng = np.random.Generator
Array = npt.NDArray[Any]


def _several(
    function: Callable[..., Any], args: tuple[Any, ...], count: int, due: str
) -> tuple[Any, str]:
    """What a function returns, if it is so many things, and the call."""
    answer, what = ask(function, *args), call(function, *args)
    is_row = isinstance(answer, tuple | list) or np.ndim(answer) == 1
    if not is_row or len(answer) != count:
        raise Clumsy(f"{what} returned {short(answer)}, expected {due}")
    return answer, what


# ---- 5.1 quantize ----------------------------------------------------------------------------


@check(
    "5.1",
    "a scale is the largest |weight| of a column over 7: the codes -7 .. 7 reach it on both sides",
)
def seven(student: Any, rng: Rng) -> None:
    """One group, whose largest weight is negative in one column."""
    for rows in (1, 4):
        weights = rng.uniform(-2, 2, (rows, 2)).round(2)
        weights[rng.integers(rows), 0] = -share(rng, 2.1, 3)
        _scales(student, weights, rows)


@check(
    "5.1",
    "every column has a scale for each `group` of its rows: one large weight spoils its own group "
    "and no other",
)
def groups(student: Any, rng: Rng) -> None:
    weights = rng.normal(0, 1, (6, 2)).round(2)
    weights[rng.integers(6), rng.integers(2)] = 20.0
    _scales(student, weights, 2)
    _scales(student, rng.normal(0, 1, (64, 3)), 32)


@check("5.1", "a short last group has its own scale, too, of the rows that there are")
def short_last(student: Any, rng: Rng) -> None:
    for rows, group in ((5, 2), (3, 4), (70, 32)):
        _scales(student, rng.normal(0, 1, (rows, 2)).round(2), group)


@check("5.1", "a code is weight / scale to the nearest whole number, halves to the even one")
def rounding(student: Any, rng: Rng) -> None:
    """Scales that float16 holds exactly."""
    unit = 2.0 ** int(rng.integers(-3, 4))
    halves = np.array([7.0, 0.5, 1.5, -0.5, -2.5, 3.5, -7.0])
    for weights in (halves, rng.permutation([7.0, 6.8, -0.7, 0.3, -3.2])):
        _codes(student, weights[:, None] * unit, len(weights))


@check(
    "5.1",
    "codes are computed with the scale as float16 keeps it, since that is what they will be "
    "multiplied with",
)
def scale_as_kept(student: Any, rng: Rng) -> None:
    """Weights between k + 1/2 scales as they were and k + 1/2 scales as they are kept."""
    while True:
        largest = float(rng.uniform(1, 2))
        exact, kept = largest / 7, float(np.float16(largest / 7))
        if abs(kept / exact - 1) > 1e-5:
            break
    between = (np.arange(6) + 0.5) * (exact + kept) / 2
    _codes(student, np.append(largest, between)[:, None], 7)
    _codes(student, rng.normal(0, 1, (70, 2)), 32)


@check(
    "5.1",
    "where a scale is 0 its codes are 0, never 0 / 0; float16 keeps 0 of scales below 3e-8, and "
    "few digits of those near it, so codes are cut at 7",
)
def nothing_to_scale(student: Any, rng: Rng) -> None:
    weights = np.zeros((6, 2))
    weights[rng.integers(2), 0], weights[2:4, 1] = share(rng, 0.5, 2), 1e-8
    weights[4:, 0] = 7 * 8.5e-8, -7 * 8.5e-8
    _scales(student, weights, 2)
    _codes(student, weights, 2)


def _scales(student: Any, weights: Floats, group: int) -> None:
    what, _, scales = _quantized(student, weights, group)
    must_be(f"the scales of {what}", scales, quant.quantize(weights, 4, group).scales)


def _codes(student: Any, weights: Floats, group: int) -> None:
    what, codes, _ = _quantized(student, weights, group)
    must_be(f"the codes of {what}", codes, quant.quantize(weights, 4, group).unpack())


def _quantized(student: Any, weights: Floats, group: int) -> tuple[str, Array, Array]:
    """The call, the codes and the scales, of the types that make them small."""
    answer, what = _several(student.quantize, (weights, group), 2, "(codes, scales)")
    codes = _typed(f"the codes of {what}", answer[0], np.int8)
    return what, codes, _typed(f"the scales of {what}", answer[1], np.float16)


def _typed(what: str, array: Any, dtype: type[np.generic]) -> Array:
    """An array of this type, and not one that holds the same numbers in more bytes."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        came = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise Clumsy(f"{what} came as {came}, expected an array of {np.dtype(dtype)}")
    return array


# ---- 5.2 dequantize --------------------------------------------------------------------------


@check("5.2", "a weight is its code times its scale")
def product(student: Any, rng: Rng) -> None:
    codes, scales = _coded(rng, 4, 4)
    _dequantizes(student, codes, scales, 4)


@check("5.2", "row i takes the scale of group i // group: a scale serves rows that are neighbours")
def neighbours(student: Any, rng: Rng) -> None:
    for rows, group in ((4, 2), (12, 4), (96, 32)):
        _dequantizes(student, *_coded(rng, rows, group), group)


@check("5.2", "a short last group has a scale too: as many rows come out as there are codes")
def short_last_out(student: Any, rng: Rng) -> None:
    for rows, group in ((5, 2), (70, 32)):
        _dequantizes(student, *_coded(rng, rows, group), group)


@check(
    "5.2",
    "the product is taken in float32, where it is exact: 3 bits times 11 bits do not fit float16",
)
def exact_product(student: Any, rng: Rng) -> None:
    codes, scales = _coded(rng, 8, 4)
    weights = _dequantizes(student, codes, scales, 4, tolerance=1e-9)
    _typed(call(student.dequantize, codes, scales, 4), weights, np.float32)


def _coded(rng: Rng, rows: int, group: int) -> tuple[Array, Array]:
    """Codes (rows, 2) and their scales, of which no two groups have the same."""
    codes = rng.integers(-7, 8, (rows, 2)).astype(np.int8)
    codes[0] = 7, -5  # of 3 bits, so that the product needs more than float16 has
    shape = -(-rows // group), 2
    scales = (rng.permutation(np.arange(1, 2 * shape[0] + 1)) / 10 + 1).reshape(shape)
    return codes, scales.astype(np.float16)


def _dequantizes(
    student: Any, codes: Array, scales: Array, group: int, tolerance: float = 2e-3
) -> Any:
    """The tolerance lets float16 pass."""
    weights = ask(student.dequantize, codes, scales, group)
    wanted = np.array(
        [
            [float(code) * float(scales[i // group, j]) for j, code in enumerate(row)]
            for i, row in enumerate(codes)
        ]
    )
    must_be(call(student.dequantize, codes, scales, group), weights, wanted, tolerance)
    return weights


# ---- 5.3 pack --------------------------------------------------------------------------------


@check(
    "5.3",
    "rows 2i and 2i + 1 share a byte, the lower row in its low four bits: (3, 1) is 3 + 16 · 1",
)
def low_first(student: Any, rng: Rng) -> None:
    _packs(student, np.array([[3], [1]]))
    _packs(student, rng.permutation(8).reshape(4, 2))


@check(
    "5.3",
    "a negative code is kept as its four-bit two's complement, code mod 16, with nothing left in "
    "the other half: (3, -1) is 0xF3 = 243 and (-1, 3) is 0x3F = 63",
)
def negative(student: Any, rng: Rng) -> None:
    for codes in ([[3], [-1]], [[-1], [3]], [[-8], [7]]):
        _packs(student, np.array(codes))
    _packs(student, rng.integers(-8, 8, (6, 2)))


@check("5.3", "an odd number of rows is filled up with a row of 0: no code is lost")
def odd(student: Any, rng: Rng) -> None:
    for rows in (1, 5):
        _packs(student, rng.integers(-8, 8, (rows, 2)))


@check("5.3", "a byte holds two codes, so n rows become ceil(n / 2) rows of uint8")
def bytes_of(student: Any, rng: Rng) -> None:
    codes = rng.integers(-8, 8, (4, 3)).astype(np.int8)
    what, packed = call(student.pack, codes), ask(student.pack, codes)
    _typed(what, shaped(what, packed, np.zeros((2, 3))), np.uint8)


def _packs(student: Any, codes: Array) -> None:
    nibbles = np.append(codes, np.zeros((len(codes) % 2, codes.shape[1]), np.int64), axis=0) % 16
    equal(student.pack, (codes.astype(np.int8),), nibbles[::2] + 16 * nibbles[1::2])


# ---- 5.4 bigram ------------------------------------------------------------------------------


@check(
    "5.4",
    "behind a token that nothing ever followed the law is the unigram's alone: never 0 / 0, and it "
    "sums to 1",
)
def backs_off(student: Any, rng: Rng) -> None:
    tokens, vocab = _text(rng)
    law = _rows(student, tokens, vocab)[-1]
    total = float(law.sum())
    if not abs(total - 1) < 1e-9:  # NaN fails too
        raise Wrong(
            f"row {vocab - 1} of {call(student.bigram, tokens, vocab)} is {short(law)}, sum "
            f"{short(total)}, expected a law"
        )


@check("5.4", "row a is the law behind token a: rows are what came before, columns what followed")
def orientation(student: Any, rng: Rng) -> None:
    """0 1 2 0 1 2 ...: behind each token only one other came."""
    tokens = np.tile(np.arange(3), 4)
    likeliest = _rows(student, tokens, 3).argmax(axis=1)
    what = f"the likeliest tokens behind 0, 1, 2 by {call(student.bigram, tokens, 3)}"
    must_be(what, likeliest, np.array([1, 2, 0]))


@check(
    "5.4",
    "the unigram is (count + 0.5) / (n + 0.5 V): 0.5 is added to every count, so that no token is "
    "impossible",
)
def smoothed(student: Any, rng: Rng) -> None:
    tokens, vocab = _text(rng)
    rows = _rows(student, tokens, vocab)
    what = f"row {vocab - 1} of {call(student.bigram, tokens, vocab)}"
    must_be(
        what, rows[-1], (np.bincount(tokens, minlength=vocab) + 0.5) / (len(tokens) + vocab / 2)
    )


@check("5.4", "a pair counts as often as it comes, and the last token is followed by nothing")
def every_pair(student: Any, rng: Rng) -> None:
    run = np.repeat([0, 1, 0], rng.integers(2, 5, 3))
    _fits(student, run, 2)
    _fits(student, rng.integers(0, 3, 30), 4)


@check("5.4", "the unigram counts as `weight` tokens: a seen row is mostly its own counts")
def weighs(student: Any, rng: Rng) -> None:
    for weight in (0.5, share(rng, 3, 9)):
        _fits(student, rng.integers(0, 3, 12), 4, weight)


def _text(rng: Rng) -> tuple[Array, int]:
    """A text, and a vocabulary whose last token it has not."""
    return rng.integers(0, 3, 10), 5


def _rows(student: Any, tokens: Array, vocab: int) -> Array:
    what = call(student.bigram, tokens, vocab)
    rows: Array = shaped(what, ask(student.bigram, tokens, vocab), np.zeros((vocab, vocab)))
    return rows


def _fits(student: Any, tokens: Array, vocab: int, *weight: float) -> None:
    model = NGramLM(2, vocab, *weight).fit(tokens)
    wanted = np.array([model.probs([token]) for token in range(vocab)])
    equal(student.bigram, (tokens, vocab, *weight), wanted)


# ---- 5.5 forward_cost ------------------------------------------------------------------------


@check("5.5", "a multiply-add is 2 FLOPs: every row meets every weight once")
def two_flops(student: Any, rng: Rng) -> None:
    for rows in (1, 9):
        args = _shapes(rng), rows, 0
        _costs(student, args, 0, "FLOPs", 2 * rows * _weights(args[0]))
    _costs(student, ([(64, 256)], 9, 0), 0, "FLOPs", 294_912)


@check("5.5", "a weight of `bits` bits is bits / 8 bytes, which need not be whole: INT4 has 4.5")
def width(student: Any, rng: Rng) -> None:
    for bits in (16, 8, 4.5):
        shapes = _shapes(rng)
        _costs(student, (shapes, 1, 0, bits), 1, "bytes of weights", _weights(shapes) * bits / 8)


@check(
    "5.5",
    "a weight is read once per forward, however many rows there are: that is why a target can "
    "check many drafts at the price of one token",
)
def read_once(student: Any, rng: Rng) -> None:
    for rows in (1, 9):
        args = _shapes(rng), rows, 3
        _costs(student, args, 1, "bytes of weights", 2 * _weights(args[0]))


@check(
    "5.5",
    "row i attends to all cached positions, to the rows before it and to itself, never to later "
    "ones: rows · cached + (1 + 2 + … + rows) pairs",
)
def causal(student: Any, rng: Rng) -> None:
    for rows, cached in ((1, 0), (1, 7), (4, 0), (5, int(rng.integers(1, 99)))):
        pairs = sum(cached + i + 1 for i in range(rows))
        _costs(student, (_shapes(rng), rows, cached), 2, "attention pairs", pairs)


def _shapes(rng: Rng) -> list[tuple[int, int]]:
    d, wide = (int(8 * n) for n in rng.integers(1, 9, 2))
    return [(d, 3 * d), (d, d), (d, wide), (wide, d)]


def _weights(shapes: list[tuple[int, int]]) -> int:
    return sum(d_in * d_out for d_in, d_out in shapes)


def _costs(student: Any, args: tuple[Any, ...], place: int, of: str, wanted: float) -> None:
    answer, what = _several(student.forward_cost, args, 3, "three numbers")
    must_be(f"the {of} of {what}", answer[place], float(wanted))


# ---- 5.6 alpha_report ------------------------------------------------------------------------


@check("5.6", "alpha is the mean over all positions: a long prompt weighs more than a short one")
def all_positions(student: Any, rng: Rng) -> None:
    betas = [np.array([0.2, 0.4]), np.array([0.9, 0.8, 1.0, 0.7, share(rng, 0.5, 0.9)])]
    for prompts in (betas, _betas(rng)):
        alpha, _, what = _report(student, prompts)
        must_be(f"the alpha of {what}", alpha, float(np.concatenate(prompts).mean()))


@check(
    "5.6",
    "positions of one prompt are not independent, so copies of them bring no new knowledge: the "
    "error is between prompts, and repeating every position 4 times leaves it as it is",
)
def between_prompts(student: Any, rng: Rng) -> None:
    betas = _betas(rng)
    _, once, _ = _report(student, betas)
    _, again, what = _report(student, [row.repeat(4) for row in betas])
    must_be(f"the stderr of {what}", again, once)


@check(
    "5.6",
    "stderr = sqrt(G / (G - 1) · Σ e²) / n, e being the sum over a prompt of beta - alpha; the "
    "factor makes up for alpha, which comes from the same prompts",
)
def error(student: Any, rng: Rng) -> None:
    for betas in ([np.array([0.6]), np.array([0.8])], _betas(rng), _betas(rng, 2)):
        _, stderr, what = _report(student, betas)
        prompts = np.repeat(np.arange(len(betas)), [len(row) for row in betas])
        wanted = clustered_mean(np.concatenate(betas), prompts).stderr
        must_be(f"the stderr of {what}", stderr, wanted)


def _betas(rng: Rng, prompts: int = 4) -> list[Floats]:
    """Of prompts of different lengths, each with a level of its own."""
    lengths = rng.permutation(np.arange(2, 2 + prompts))
    levels = rng.uniform(0.3, 0.9, prompts)
    return [
        (level + rng.uniform(-0.1, 0.1, n)).round(2)
        for level, n in zip(levels, lengths, strict=True)
    ]


def _report(student: Any, betas: list[Floats]) -> tuple[Any, Any, str]:
    answer, what = _several(student.alpha_report, (betas,), 2, "(alpha, stderr)")
    return answer[0], answer[1], what
