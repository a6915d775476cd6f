"""The texts: plays, source code, a table; one token per byte, the last tenth held out."""

import re
import runpy
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from lab import corpus

FILE_NAME = corpus.FILES["shakespeare"]


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


@pytest.mark.parametrize("text", corpus.FILES)
def test_every_text_is_plain_ascii_and_split_without_loss(text):
    content = corpus.load(text)
    content.decode("ascii")
    parts = corpus.train_tokens(text), corpus.held_out_tokens(text)
    assert np.concatenate(parts).astype(np.uint8).tobytes() == content
    assert len(parts[1]) == pytest.approx(len(content) / 10, abs=1)


def test_source_code_compiles_and_no_held_out_module_was_learned():
    content = corpus.load("python").decode("ascii")
    train = len(corpus.train_tokens("python"))
    held_out = content.index("\nclass SequenceMatcher")  # of difflib, the last one
    assert train < held_out
    assert content.count("class SequenceMatcher") == 1
    compile(content[content.index('"""\nModule difflib') :], "difflib.py", "exec")


def test_a_table_line_holds_what_unicodedata_says_and_stands_once():
    lines = corpus.load("unicode").decode("ascii").splitlines()
    assert len(lines) == len(set(lines)) == 12_000
    fields = [line.split(";") for line in lines]
    assert {len(one) for one in fields} == {8}
    codes = [int(one[0], 16) for one in fields]
    assert codes != sorted(codes), "shuffled"
    for code, (_, name, *_) in zip(codes[:200], fields, strict=False):
        assert unicodedata.name(chr(code)) == name


def test_mixed_tokens_are_all_that_may_be_learned():
    tokens = corpus.mixed_tokens()
    assert len(tokens) == sum(len(corpus.train_tokens(text)) for text in corpus.FILES)


def test_an_unknown_text_is_named():
    with pytest.raises(ValueError, match=r"text='latin' must be one of"):
        corpus.load("latin")


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
    with pytest.raises(OSError, match=FILE_NAME):
        corpus.load()
    (tmp_path / "data").mkdir()
    for content in (b"no text", b""):
        (tmp_path / "data" / FILE_NAME).write_bytes(content)
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
