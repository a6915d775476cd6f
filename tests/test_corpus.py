"""The corpus: plays only, one token per byte, the last tenth held out."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from lab import corpus


def test_corpus_is_about_a_megabyte_of_plain_lines():
    text = corpus.load()
    assert 0.9e6 < len(text) < 1.2e6
    assert set(text) <= {*range(32, 127), ord("\n")}
    assert b"\n\n\n\n" not in text
    assert not re.search(rb"[ \t]\n", text)


def test_corpus_holds_plays_and_no_words_of_a_publisher():
    text = corpus.load().decode("ascii")
    for line in ("To be thus is nothing;", "We are such stuff", "All the world's a stage,"):
        assert line in text
    assert not re.search("gutenberg|etext|copyright|licen[cs]e fee|shakespeare", text, re.I)


def test_last_tenth_is_held_out_and_nothing_is_lost():
    train, held_out = corpus.train_tokens(), corpus.held_out_tokens()
    assert len(train) == len(corpus.load()) * 9 // 10
    assert np.concatenate((train, held_out)).astype(np.uint8).tobytes() == corpus.load()
    play = corpus.load().rindex(b"TWELFTH NIGHT;")  # held out: the last play, but for its opening
    assert 0 < len(train) - play < 0.1 * len(held_out)


def test_encode_and_decode_are_inverse():
    for text in ("", "Enter Ariel.\n", "γ ≥ 1"):
        tokens = corpus.encode(text)
        assert tokens.dtype == np.int64
        assert corpus.decode(tokens) == text
    np.testing.assert_array_equal(corpus.encode("Ab\n"), [65, 98, 10])


def test_decode_shows_bytes_that_are_no_text():
    assert corpus.decode([65, 255, 66]) == "A\ufffdB"


@pytest.mark.parametrize("tokens", [[65, 256], [-1]])
def test_decode_names_a_token_that_is_no_byte(tokens):
    with pytest.raises(ValueError, match=r"tokens must be in 0\.\.255"):
        corpus.decode(tokens)


def test_damaged_or_missing_file_is_an_oserror_that_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus.resources, "files", lambda package: tmp_path)
    with pytest.raises(OSError, match=corpus.FILE_NAME):
        corpus.load()
    (tmp_path / "data").mkdir()
    for content in (b"no text", b""):
        (tmp_path / "data" / corpus.FILE_NAME).write_bytes(content)
        with pytest.raises(OSError, match="is damaged"):
            corpus.load()


def test_cleaning_a_play_keeps_the_play_and_nothing_else():
    script = Path(__file__).parents[1] / "scripts" / "make_corpus.py"
    clean = runpy.run_path(str(script))["clean"]
    play = "A PLAY\r\n\r\nby William Shakespeare\r\n\r\n\r\nACT I.  \r\n{Exit.]\r\n\r\nTHE END"
    assert clean(play) == "A PLAY\n\nACT I.\n[Exit.]\n"
    with pytest.raises(ValueError, match="words of its publisher"):
        clean("A PLAY\n\nThis Etext is ...")
    with pytest.raises(ValueError, match="ascii"):
        clean("A PLAY\n\nEntr\xe9e")
