"""Options that several scripts or subcommands of `speclab` have, and what their values may be."""

from __future__ import annotations

import argparse
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import console, domains

MOST_DRAFTS = 99


def figure_folder(text: str) -> Path:
    """An option that is a folder for figures, made if it is not there; what they need is asked for
    before anything runs."""
    try:
        import lab.plots  # noqa: F401
    except ImportError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a folder to draw in: {error.strerror}"
        ) from None
    if not os.access(folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} must be a folder to draw in: it is read-only")
    return folder


# of a script: arguments(__doc__, plots=PLOTS)
PLOTS: dict[str, Any] = {"type": figure_folder, "metavar": "DIR", "help": "draw figures there"}


def gammas(text: str) -> list[int]:
    """An option that is draft lengths: 2, or 1..3, or 1,3."""
    found: set[int] = set()
    for part in text.split(","):
        first, dots, last = part.partition("..")
        if not (first.isdecimal() and (last.isdecimal() or not dots)):
            raise argparse.ArgumentTypeError(f"{text!r} must be like 2, 1..3 or 1,3")
        least, most = int(first), int(last or first)
        if least > most:
            raise argparse.ArgumentTypeError(f"{text!r} has nothing from {least} to {most}")
        if least < 1 or most > MOST_DRAFTS:
            raise argparse.ArgumentTypeError(
                f"{text!r} must name draft lengths within 1..{MOST_DRAFTS}"
            )
        found.update(range(least, most + 1))
    return sorted(found)


def costs(text: str) -> list[float]:
    """An option that is costs of a draft pass: 0.05, or 0.02,0.1."""
    try:
        return sorted({domains.cost("c", float(part)) for part in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be finite numbers of at least 0, such as 0.05 or 0.02,0.1"
        ) from None


def add_command(commands: Any, name: str, function: Callable[..., Any]) -> argparse.ArgumentParser:
    """A subcommand of what `add_subparsers` gave, with the docstring of its function as help."""
    text = inspect.getdoc(function) or ""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text.partition("\n")[0],
        description=text,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    return parser


def add_gamma(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--gamma",
        type=gammas,
        default=default,
        help=f"drafts of a round, such as 2, 1..3 or 1,3 ({default})",
    )


def add_seed(parser: argparse.ArgumentParser, of: str) -> None:
    parser.add_argument("--seed", type=console.whole_number, default=0, help=f"{of} (0)")


def add_seed_and_json(parser: argparse.ArgumentParser, of: str) -> None:
    add_seed(parser, of)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
