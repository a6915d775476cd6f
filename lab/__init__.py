"""A small, exact, measurable laboratory of speculative decoding."""

import os

# OpenBLAS threads fight over small matrices. This counts only if NumPy is not loaded yet.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
