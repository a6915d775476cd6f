"""What a script prints: headers, tables, numbers with their errors; `--json` for programs."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tabulate import tabulate

from lab import domains

T = TypeVar("T")


class Report:
    """Collects what a script finds; prints it as text, or as one JSON object with `--json`.

    Tables hold formatted cells in print and the raw values in JSON.
    """

    def __init__(self, title: str, as_json: bool = False) -> None:
        self.as_json = as_json
        self.content: dict[str, Any] = {"title": title, "parts": []}
        self._waiting = False  # is a line of progress on the terminal?
        self._print(f"{title}\n{'=' * len(title)}")

    def section(self, heading: str, text: str = "") -> None:
        """A heading and how to read what follows."""
        self.content["parts"].append({"section": heading, "text": text})
        self._print(f"\n{heading}\n{'-' * len(heading)}")
        if text:
            self._print(folded(text))

    def table(
        self,
        title: str,
        headers: Sequence[str],
        rows: Sequence[Sequence[Any]],
        key: str = "",
        values: Sequence[Mapping[str, Any]] | None = None,
        text: Sequence[int] = (0,),
    ) -> None:
        """A table; cells are strings already formatted, or values formatted here.

        `values` has the numbers of each row by name, unrounded, for JSON. Headers may be two lines.
        The columns of words are those in `text`: they begin at the left.
        """
        names = [" ".join(header.split()) for header in headers]
        part: dict[str, Any] = {
            "table": key or title,
            "headers": names,
            "rows": [list(row) for row in rows],
        }
        if values is not None:
            part["values"] = [dict(row) for row in values]
        self.content["parts"].append(part)
        cells = [[cell(value) for value in row] for row in rows]
        align = ["left" if i in text else "right" for i in range(len(headers))]
        self._print(f"\n{title}" if title else "")
        self._print(tabulate(cells, headers=headers, disable_numparse=True, colalign=align))

    def records(
        self,
        title: str,
        columns: Sequence[tuple[str, str, str]],
        records: Sequence[Mapping[str, Any]],
        key: str = "",
    ) -> None:
        """A table of records, values by name. A column is (header, name, format) and prints what
        `shown` makes of that value; JSON has all of a record, unrounded, errors as name_stderr."""
        rows = [[shown(record[name], form) for _, name, form in columns] for record in records]
        values = [
            {of: part for name, value in record.items() for of, part in _parts(name, value)}
            for record in records
        ]
        self.table(title, [header for header, _, _ in columns], rows, key, values)

    def say(self, text: str, **values: Any) -> None:
        """An observation; `values` are the numbers it speaks of, for JSON."""
        self.content["parts"].append({"says": text, **({"values": values} if values else {})})
        self._print(folded(text))

    def progress(self, line: str) -> None:
        """What is going on, on a terminal that waits; the next output takes its place."""
        if sys.stderr.isatty():
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
            self._waiting = bool(line)

    def _print(self, text: str) -> None:
        """Print text, unless it is JSON that is wanted."""
        if self.as_json:
            return
        if self._waiting:
            self.progress("")
        print(text)

    def close(self) -> None:
        """Print the JSON, if that is what was asked for."""
        if self._waiting:
            self.progress("")
        if self.as_json:
            ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
            json.dump(self.content, sys.stdout, default=_plain, ensure_ascii=ascii_only, indent=1)
            print()


def folded(text: str) -> str:
    """Lines of at most 100 columns: longer ones go on in the next; words, and so paths, stay
    whole."""
    fold = textwrap.TextWrapper(100, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(fold.fill, text.splitlines()))


def cell(value: Any) -> str:
    """A value as a table shows it: None as n/a, floats with four significant digits."""
    if value is None:
        return "n/a"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def shown(value: Any, form: str) -> str:
    """A value by its format, or as `cell` has it if that is empty; (value, error, ..) with both:
    shown((0.87, 0.004, 32), '+.3f') -> '+0.870 ± 0.004'. What is exactly 0 shows as 0."""
    centre, *error = value[:2] if isinstance(value, tuple) else (value,)
    if not form or centre is None:
        return cell(centre if centre is None else value)
    if not any((centre, *error)):
        return "0"
    return " ± ".join([format(centre, form), *(format(e, form.lstrip("+")) for e in error)])


def with_error(value: float, stderr: float, decimals: int = 3) -> str:
    """'0.870 ± 0.004'."""
    return f"{value:.{decimals}f} ± {stderr:.{decimals}f}"


def quantity(value: float, unit: str = "") -> str:
    """A large number with k, M or G: quantity(1_234_000, 'B') -> '1.23 MB'."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def run(main: Callable[[], T]) -> T:
    """Run a script's main -> what it returns: any terminal can show it, and a reader may stop early
    (`| head`)."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # Greek letters on an ASCII terminal
    try:
        result = main()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to say
        sys.exit(1)
    return result


def arguments(description: str, **extra: dict[str, Any]) -> argparse.ArgumentParser:
    """The options that every script has: --seed, --fast, --json."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seed", type=whole_number, default=0, help="seed of all random streams (0)"
    )
    parser.add_argument("--fast", action="store_true", help="smaller samples, the same tables")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    for name, options in extra.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **options)
    return parser


def whole_number(text: str) -> int:
    """An option that is a whole number >= 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number >= 0")
    return int(text)


def positive_number(text: str) -> float:
    """An option that is a finite number above 0."""
    try:
        return domains.positive("it", float(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a finite number above 0") from None


def positive_whole_number(text: str) -> int:
    """An option that is a whole number >= 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number >= 1")
    return int(text)


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """A value and its error, if it has one, each by its name."""
    if not isinstance(value, tuple):
        return [(name, value)]
    return [(name, value[0]), (f"{name}_stderr", value[1])]


def _plain(value: Any) -> Any:
    """NumPy values and paths as JSON."""
    if isinstance(value, Path):
        return str(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)
