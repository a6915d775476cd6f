"""Lectures whose numbers are computed: tables of scripts, and values of expressions.

In a lecture's Markdown a block between two comments is what a script finds,

    <!-- exact 04_spec_decode_speedup: table_1; columns: α | γ; where: α = 0.8 -->
    <!-- end -->

and a value in a sentence is what an expression gives, with `theory`, `np` and the lab's other
modules in it: `<!--= theory.expected_tokens(0.8, 4) | .4f -->3.3616<!--/-->`. The page shows only
what stands between the comments. `filled` puts both in.

A block is "exact" (formulas and proofs: the same on every machine), "sampled" (cells agree within
their errors) or "timed" (of one machine). Its source is a table's key, or `says: words` for the
observation in which these words occur.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import takewhile
from typing import Any

import numpy as np

KINDS = ("exact", "sampled", "timed")
BLOCK = re.compile(
    r"(?P<open><!-- (?P<kind>exact|sampled|timed) (?P<script>\w+): (?P<source>.*?) -->\n)"
    r"(?P<body>.*?)(?P<close><!-- end -->)",
    re.DOTALL,
)
VALUE = re.compile(
    r"(?P<open><!--= (?P<expression>.+?) \| (?P<form>\S+) -->)(?P<shown>.*?)(?P<close><!--/-->)"
)
COMMENT = re.compile(r"<!--.*")
ERRORS = 5  # standard errors of a difference that two samples may be apart
MODULES = ("theory", "successors", "rule_laws", "chains", "costs", "hardware", "paper", "exact")

Parts = Sequence[Mapping[str, Any]]
Run = Callable[[str], Parts]  # a script's name -> the parts of its report


@dataclass(frozen=True)
class Block:
    """What a script found, as a lecture shows it."""

    kind: str
    script: str
    source: str
    body: str

    def fresh(self, parts: Parts) -> str:
        """The body that a run of the script gives."""
        if self.source.startswith("says: "):
            words = self.source.removeprefix("says: ")
            found = [part["says"] for part in parts if words in part.get("says", "")]
            return f"{self._only(found)}\n"
        key, *options = self.source.split("; ")
        table = self._only([part for part in parts if part.get("table") == key])
        return markdown(*_chosen(table, options))

    def _only(self, found: Sequence[Any]) -> Any:
        if len(found) != 1:
            raise ValueError(
                f"{self.script}: {self.source!r} must name one part of its report, {len(found)} do"
            )
        return found[0]


def blocks(text: str) -> list[Block]:
    """The blocks of a lecture, in their order; a ValueError for comments that are none of its
    blocks and values, as what they hold would be neither filled nor compared."""
    found = list(BLOCK.finditer(text))
    rest = [VALUE.sub("", BLOCK.sub("", text)), *(one["body"] for one in found)]
    if stray := COMMENT.search("\n".join(rest)):
        raise ValueError(f"{stray.group()!r} must open or close a block or a value")
    return [_block(one) for one in found]


def filled(text: str, run: Run) -> str:
    """The lecture with all its blocks and values as they are now."""

    def block(found: re.Match[str]) -> str:
        one = _block(found)
        return f"{found['open']}{one.fresh(run(one.script))}{found['close']}"

    blocks(text)  # no comment is anything else
    return with_values(BLOCK.sub(block, text))


def with_values(text: str) -> str:
    """The lecture with the values of its expressions as they are now."""
    names: dict[str, Any] = {name: import_module(f"lab.{name}") for name in MODULES}

    def value(found: re.Match[str]) -> str:
        computed = eval(found["expression"], {"np": np, **names})
        return f"{found['open']}{format(computed, found['form'])}{found['close']}"

    return VALUE.sub(value, text)


def disagreements(block: Block, parts: Parts) -> Iterator[str]:
    """Where a block is not what a run, perhaps a smaller one, says: a sentence each.

    Exact blocks must be equal; a sampled table's cells with errors must be within `ERRORS` of them
    in rows of the same labels; of the rest the columns must be the same.
    """
    fresh = block.fresh(parts)
    where = f"{block.script}: {block.source}"
    if block.kind == "exact":
        if fresh != block.body:
            yield f"{where} is now\n{fresh}"
        return
    if block.source.startswith("says: "):
        return
    (headers, *old), (now, *new) = _cells(block.body), _cells(fresh)
    if headers != now:
        yield f"{where} has columns {headers}, the script {now}"
        return
    if block.kind == "sampled":
        rows = {_labels(row): row for row in new}
        shared = [(row, rows[_labels(row)]) for row in old if _labels(row) in rows]
        if not shared:
            yield f"{where}: no row of the lecture is one of a run"
        for row, other in shared:
            for name, a, b in zip(headers, row, other, strict=True):
                if not _near(a, b):
                    yield f"{where}: {name} is {a} in the lecture, {b} in a run"


def _block(found: re.Match[str]) -> Block:
    return Block(*found.group("kind", "script", "source", "body"))


def markdown(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table, the first column left, the others right."""
    lines = [list(headers), ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(value: Any) -> str:
    return "" if value is None else str(value).replace("|", "\\|")


def _chosen(table: Mapping[str, Any], options: Sequence[str]) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows that are wanted of a table, options taken in their order."""
    headers, rows = list(table["headers"]), [list(row) for row in table["rows"]]
    for option in options:
        name, _, value = option.partition(": ")
        if name == "where":
            column, _, wanted = value.partition(" = ")
            allowed = wanted.split(" or ")
            rows = [row for row in rows if _cell(row[_place(headers, column)]) in allowed]
        elif name == "columns":
            places = [_place(headers, column) for column in value.split(" | ")]
            rows = [[row[i] for i in places] for row in rows]
            headers = [headers[i] for i in places]
        else:
            raise ValueError(f"{option!r} must begin with 'columns: ' or 'where: '")
    if not rows:
        raise ValueError(f"no row of table {table['table']!r} is left by {list(options)}")
    return headers, rows


def _place(headers: Sequence[str], column: str) -> int:
    if column not in headers:
        raise ValueError(f"column {column!r} must be one of {list(headers)}")
    return headers.index(column)


def _cells(body: str) -> list[list[str]]:
    """Header and rows of a Markdown table."""
    rows = [line for line in body.splitlines() if line.startswith("|")]
    lines = [row.removeprefix("| ").removesuffix(" |").split(" | ") for row in rows]
    return [[cell.strip() for cell in line] for line in lines[:1] + lines[2:]]


def _labels(row: Sequence[str]) -> tuple[str, ...]:
    """What names a row: its first cell, and those behind it that are words or whole numbers."""
    named = (cell.isdecimal() or not any(map(str.isdecimal, cell)) for cell in row[1:])
    return (row[0], *(cell for cell, _ in zip(row[1:], takewhile(bool, named), strict=False)))


def _near(a: str, b: str) -> bool:
    """Two cells "value ± error" within their errors. What has no error in both is near; a cell that
    has one in one place only is not what it was, unless a side is 0 or n/a, which have none."""
    if "±" not in a or "±" not in b:
        return ("±" in a) == ("±" in b) or not {a, b}.isdisjoint(("0", "n/a", ""))
    (x, dx), (y, dy) = (map(_number, cell.split("±")) for cell in (a, b))
    rounding = 10.0 ** -len(a.split("±")[0].strip().partition(".")[2].rstrip("%"))
    return abs(x - y) <= ERRORS * float(np.hypot(dx, dy)) + rounding


def _number(text: str) -> float:
    return float(text.strip().rstrip("%"))
