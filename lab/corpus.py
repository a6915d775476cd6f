"""The text that the lab's models learn: eight plays of Shakespeare, one token per byte.

The last tenth is held out: no model of the lab has been trained on it. See NOTICE for the source.
"""

import lzma
from importlib import resources

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["FILE_NAME", "VOCAB", "decode", "encode", "held_out_tokens", "load", "train_tokens"]

FILE_NAME = "shakespeare.txt.xz"
VOCAB = 256  # bytes

Tokens = NDArray[np.int64]


def load() -> bytes:
    """The whole corpus in plain ASCII; OSError if the file is missing or damaged."""
    path = resources.files("lab") / "data" / FILE_NAME
    try:
        return lzma.decompress(path.read_bytes())
    except lzma.LZMAError as error:
        raise OSError(f"corpus {path} is damaged: {error}") from error


def train_tokens() -> Tokens:
    """The first nine tenths, (N,) tokens."""
    tokens = _tokens(load())
    return tokens[: _train_length(tokens)]


def held_out_tokens() -> Tokens:
    """The last tenth, (N,) tokens."""
    tokens = _tokens(load())
    return tokens[_train_length(tokens) :]


def encode(text: str) -> Tokens:
    """Tokens (N,) of a text: its UTF-8 bytes."""
    return _tokens(text.encode("utf-8"))


def decode(tokens: ArrayLike) -> str:
    """Text of tokens (N,); bytes that are no UTF-8 become U+FFFD.

    Raises
    ------
    ValueError
        If a token lies outside 0..255.
    """
    array = np.asarray(tokens)
    if array.size and (array.min() < 0 or array.max() >= VOCAB):
        raise ValueError(f"tokens must be in 0..{VOCAB - 1}, got {array.min()}..{array.max()}")
    return array.astype(np.uint8).tobytes().decode("utf-8", errors="replace")


def _tokens(text: bytes) -> Tokens:
    return np.frombuffer(text, dtype=np.uint8).astype(np.int64)


def _train_length(tokens: Tokens) -> int:
    return len(tokens) * 9 // 10
