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
from lab.exact import TableLM, assert_lossless, audit, audit_loop, output_law, round_law
from lab.ledger import Ledger
from lab.ngram import NGramLM, PromptLookup
from lab.quant import quantize
from lab.sampling import RandomDice, Sampling
from lab.transformer import ModelConfig, Transformer
from lab.verify import chain_rule

__all__ = [
    "Ledger",
    "ModelConfig",
    "NGramLM",
    "PromptLookup",
    "RandomDice",
    "Sampling",
    "TableLM",
    "Transformer",
    "assert_lossless",
    "audit",
    "audit_loop",
    "autoregressive_generate",
    "chain_rule",
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
