"""A small, exact, measurable laboratory of speculative decoding.

The names below are the ones most people want; every module can be imported by its own name.
"""

import os

# OpenBLAS threads fight over small matrices. This counts only if NumPy is not loaded yet.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from numpy.random import default_rng

from lab import corpus, theory
from lab.checkpoint import load_trained
from lab.decode import autoregressive_generate, speculative_generate
from lab.engine import generate_many
from lab.exact import assert_lossless, audit, output_law, round_law
from lab.ledger import Ledger
from lab.ngram import NGramLM
from lab.quant import quantize
from lab.sampling import RandomDice, Sampling
from lab.transformer import ModelConfig, Transformer

__all__ = [
    "Ledger",
    "ModelConfig",
    "NGramLM",
    "RandomDice",
    "Sampling",
    "Transformer",
    "assert_lossless",
    "audit",
    "autoregressive_generate",
    "corpus",
    "default_rng",
    "generate_many",
    "load_trained",
    "output_law",
    "quantize",
    "round_law",
    "speculative_generate",
    "theory",
]
