"""Homework 5: drafts, and what they cost.

A quantised copy of the target, a bigram, the operations and bytes of a forward, and an acceptance
rate with its error.
"""

import numpy as np


def quantize(weights, group=32):
    """Task 5.1: INT4 in groups, symmetric.

    weights : (d_in, d_out) floats. Groups run down axis 0; a short last group has its own scale
    returns : (codes, scales): int8 (d_in, d_out) within -7 .. 7 and float16 (groups, d_out)

    A scale is the largest |weight| of its group over 7, kept as float16; codes are weight / scale
    with the scale as it was kept, rounded half to even, and 0 where the scale is 0.
    """
    d_in, d_out = weights.shape
    codes = np.zeros((d_in, d_out), np.int8)
    scales = np.zeros((-(-d_in // group), d_out), np.float16)
    for row, start in enumerate(range(0, d_in, group)):
        part = weights[start : start + group]
        scales[row] = np.abs(part).max(axis=0) / 7
        scale = scales[row].astype(np.float64)
        whole = np.rint(part / np.where(scale > 0, scale, 1.0))
        codes[start : start + group] = np.where(scale > 0, np.clip(whole, -7, 7), 0)
    return codes, scales


def dequantize(codes, scales, group=32):
    """Task 5.2: the weights that codes and scales stand for, float32 (d_in, d_out)."""
    each = np.repeat(scales.astype(np.float32), group, axis=0)[: len(codes)]
    return codes.astype(np.float32) * each


def pack(codes):
    """Task 5.3: two INT4 codes to a byte.

    codes : (n, d_out) int8 within -8 .. 7; an odd n is filled up with a row of 0
    returns : (ceil(n / 2), d_out) uint8; the code of the lower row is in the low four bits, each as
        two's complement
    """
    if len(codes) % 2:
        codes = np.concatenate([codes, np.zeros((1, codes.shape[1]), codes.dtype)])
    nibbles = codes.astype(np.uint8) & 15
    return nibbles[0::2] | (nibbles[1::2] << 4)


def bigram(tokens, vocab, weight=2.0):
    """Task 5.4: a bigram that backs off to the unigram: its law behind every token.

    tokens : (n,) ints, the text it is fitted on
    returns : (vocab, vocab); row a is the law behind token a,
        (count(a, b) + weight * unigram(b)) / (count(a, .) + weight), where the unigram is
        (count(b) + 0.5) / (n + 0.5 * vocab): no token is impossible
    """
    tokens = np.asarray(tokens)
    unigram = (np.bincount(tokens, minlength=vocab) + 0.5) / (len(tokens) + 0.5 * vocab)
    counts = np.zeros((vocab, vocab))
    np.add.at(counts, (tokens[:-1], tokens[1:]), 1)
    return (counts + weight * unigram) / (counts.sum(axis=1, keepdims=True) + weight)


def forward_cost(shapes, rows, cached, bits=16):
    """Task 5.5: FLOPs of one forward and the bytes of weights it reads.

    shapes : a list of (d_in, d_out), the matrices that every row is multiplied with
    rows : tokens of this call; they attend to `cached` earlier positions and to themselves
    cached : positions in the cache before the call
    returns : (flops, weight_bytes, attention_pairs)

    A multiply-add is 2 FLOPs. A weight is read once per forward, however many rows there are.
    attention_pairs are the (query, key) pairs that the causal mask lets through; they are counted,
    not turned into FLOPs.
    """
    weights = sum(d_in * d_out for d_in, d_out in shapes)
    pairs = rows * cached + rows * (rows + 1) // 2
    return 2 * rows * weights, weights * bits / 8, pairs


def alpha_report(betas):
    """Task 5.6: the acceptance rate with its standard error.

    betas : a list of arrays, one for each prompt: sum(min(p, q)) at each of its positions.
        Positions of one prompt are not independent, prompts are
    returns : (alpha, stderr): the mean over all positions, and its error between prompts: with
        e_g = the sum over prompt g of (beta - alpha), G prompts and n positions,
        stderr = sqrt(G / (G - 1) * sum(e_g ** 2)) / n
    """
    n = sum(len(row) for row in betas)
    alpha = sum(row.sum() for row in betas) / n
    moves = np.array([(row - alpha).sum() for row in betas])
    groups = len(betas)
    return float(alpha), float(np.sqrt(groups / (groups - 1) * (moves**2).sum()) / n)
