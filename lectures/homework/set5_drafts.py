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
    raise NotImplementedError("task 5.1")


def dequantize(codes, scales, group=32):
    """Task 5.2: the weights that codes and scales stand for, float32 (d_in, d_out)."""
    raise NotImplementedError("task 5.2")


def pack(codes):
    """Task 5.3: two INT4 codes to a byte.

    codes : (n, d_out) int8 within -8 .. 7; an odd n is filled up with a row of 0
    returns : (ceil(n / 2), d_out) uint8; the code of the lower row is in the low four bits, each as
        two's complement
    """
    raise NotImplementedError("task 5.3")


def bigram(tokens, vocab, weight=2.0):
    """Task 5.4: a bigram that backs off to the unigram: its law behind every token.

    tokens : (n,) ints, the text it is fitted on
    returns : (vocab, vocab); row a is the law behind token a,
        (count(a, b) + weight * unigram(b)) / (count(a, .) + weight), where the unigram is
        (count(b) + 0.5) / (n + 0.5 * vocab): no token is impossible
    """
    raise NotImplementedError("task 5.4")


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
    raise NotImplementedError("task 5.5")


def alpha_report(betas):
    """Task 5.6: the acceptance rate with its standard error.

    betas : a list of arrays, one for each prompt: sum(min(p, q)) at each of its positions.
        Positions of one prompt are not independent, prompts are
    returns : (alpha, stderr): the mean over all positions, and its error between prompts: with
        e_g = the sum over prompt g of (beta - alpha), G prompts and n positions,
        stderr = sqrt(G / (G - 1) * sum(e_g ** 2)) / n
    """
    raise NotImplementedError("task 5.6")
