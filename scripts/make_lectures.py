"""Puts into the lectures what the scripts print, and the values of their expressions.

Run without options it runs every script that a lecture takes something from, whole, and writes the
lectures anew: some minutes. With --check nothing is written: each script runs with --fast; exact
tables and values must be equal, sampled ones within five standard errors of a difference.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import runpy
import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from lab.console import run
from lab.files import replacing
from lab.lectures import Run, blocks, disagreements, filled, with_values

SCRIPTS = Path(__file__).parent
LECTURES = SCRIPTS.parent / "lectures"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lectures", nargs="*", type=Path, help="some files only (all)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if one differs")
    args = parser.parse_args(argv)
    report = cache(partial(report_of, fast=args.check))
    wrong = []
    for path in args.lectures or sorted(LECTURES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if args.check:
            wrong += [f"{path.name}: {line}" for line in faults(text, report)]
        else:
            new = filled(text, report)
            with replacing(path) as partial_path:
                partial_path.write_text(new, encoding="utf-8")
            print(f"{path.name}: {len(blocks(text))} blocks")
    for line in wrong:
        print(line)
    if args.check:
        print("all lectures are as the scripts say" if not wrong else f"{len(wrong)} differ")
        sys.exit(bool(wrong))


def faults(text: str, report: Run) -> list[str]:
    """What of a lecture is not as the scripts say."""
    found = [line for one in blocks(text) for line in disagreements(one, report(one.script))]
    return found + ([] if with_values(text) == text else ["a value is not what it was"])


def report_of(script: str, fast: bool) -> list[dict[str, Any]]:
    """The parts of a script's report."""
    out = io.StringIO()
    print(f"running {script}", file=sys.stderr)
    with contextlib.redirect_stdout(out):
        main_of = runpy.run_path(str(SCRIPTS / f"{script}.py"))["main"]
        main_of(["--json", *(["--fast"] if fast else [])])
    parts: list[dict[str, Any]] = json.loads(out.getvalue())["parts"]
    return parts


if __name__ == "__main__":
    run(main)
