"""The texts that the lab's models learn, one token per byte: prose, source code, a table.

The last tenth of each is held out: no model of the lab has been trained on it. NOTICE has their
sources, scripts/make_corpus.py makes them.
"""

import lzma
from importlib import resources

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FILES", "VOCAB", "decode", "encode", "held_out_tokens", "load", "mixed_tokens", "train_tokens",
]  # fmt: skip

FILES = {
    "shakespeare": "shakespeare.txt.xz",  # eight plays
    "python": "python.txt.xz",  # modules of Python's standard library
    "unicode": "unicode.txt.xz",  # a line for each of many characters, shuffled
}
VOCAB = 256  # bytes

Tokens = NDArray[np.int64]


def load(text: str = "shakespeare") -> bytes:
    """A whole text in plain ASCII; OSError if the file is missing or damaged."""
    if text not in FILES:
        raise ValueError(f"text={text!r} must be one of {sorted(FILES)}")
    path = resources.files("lab") / "data" / FILES[text]
    try:
        return lzma.decompress(path.read_bytes())
    except lzma.LZMAError as error:
        raise OSError(f"corpus {path} is damaged: {error}") from error


def train_tokens(text: str = "shakespeare") -> Tokens:
    """The first nine tenths, (N,) tokens."""
    tokens = _tokens(load(text))
    return tokens[: _train_length(tokens)]


def held_out_tokens(text: str = "shakespeare") -> Tokens:
    """The last tenth, (N,) tokens."""
    tokens = _tokens(load(text))
    return tokens[_train_length(tokens) :]


def mixed_tokens() -> Tokens:
    """What the mixed models learn: the first nine tenths of all texts, one after the other."""
    return np.concatenate([train_tokens(text) for text in FILES])


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
