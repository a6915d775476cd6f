"""Files that can be replayed: JSON lines with what target and draft made of the target's own texts.

A line is a prompt, or one token of a prompt, in one of four forms, the same in all of a file:

    {"target_logprobs": [-0.1, ..], "draft_logprobs": [-0.3, ..]}
    {"agree": [true, false, ..]}
    {"prompt": "p7", "token": 42, "target_logprob": -0.1, "draft_logprob": -0.3}
    {"prompt": "p7", "token": 42, "agree": true}

Log-probabilities are natural logarithms, of laws processed as in decoding (temperature, top-p, ..).
At temperature 0 a draft is accepted if both argmaxes agree, and no log-probability tells that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.domains import LAW_SUM, Floats, is_whole
from lab.files import replacing
from lab.measure import laws_along
from lab.sampling import Sampling

Line = Mapping[str, Any]
Keys = tuple[str, ...]

LEAST = -9999.0  # log 0 in a file, as servers write it: JSON has no infinity
PROMPTS: Keys = ("target_logprobs", "draft_logprobs")
TOKENS: Keys = ("target_logprob", "draft_logprob")
AGREE: Keys = ("agree",)
FORMS = (PROMPTS, TOKENS, AGREE)
LINE = object()  # instead of a prompt: the line is a text of its own
SEEN = 40  # characters of a wrong value that are shown


@dataclass(frozen=True)
class Texts:
    """What a file says.

    accept : for each prompt (n,), the probability that a token is accepted if it is drafted
    greedy : True if that is agreement at temperature 0
    """

    accept: list[Floats]
    greedy: bool


def read(path: Path) -> Texts:
    """Read a file of any of the four forms.

    A line of lists is a text. Lines of one token each are a text if they have one "prompt", or none
    at all, in the order of the file. Other keys are ignored.

    Raises
    ------
    ValueError
        In one sentence what is wrong, with file and line.
    """
    texts: dict[Hashable, list[float]] = {}
    keys: Keys | None = None
    for number, line in _numbered(path):
        try:
            if (content := _object(line)) is not None:
                keys = _keys(content, keys)
                prompt, accept = _text(content, keys)
                texts.setdefault(number if prompt is LINE else (prompt,), []).extend(accept)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}.") from error
    if keys is None:
        raise ValueError(f"{path} is empty: it has no line to replay.")
    return Texts([np.array(text) for text in texts.values()], greedy=keys == AGREE)


def write(path: Path, lines: Iterable[Line]) -> None:
    """Write lines, such as those of `lines_along`."""
    with replacing(path) as partial:
        partial.write_text("".join(json.dumps(dict(line)) + "\n" for line in lines), "utf-8")


def lines_along(
    target: Any,
    draft: Any,
    texts: Sequence[npt.NDArray[np.int64]],
    starts: Sequence[int],
    sampling: Sampling = Sampling(),
) -> list[Line]:
    """A line for each text (T,) that the target wrote, from its token `start` >= 1 on: what
    `speclab replay` reads."""
    laws = [laws_along(model, texts, sampling) for model in (target, draft)]
    lines: list[Line] = []
    for text, start, *rows in zip(texts, starts, *laws, strict=True):
        new = text[start:]
        line: dict[str, Any] = {"tokens": new.tolist()}
        p, q = (law[np.arange(start - 1, len(text) - 1), new] for law in rows)
        if not p.all():
            raise ValueError(f"texts: token {new[p == 0][0]} has probability 0 under the target")
        if sampling.temperature == 0:
            line["agree"] = (q == 1).tolist()
        else:
            with np.errstate(divide="ignore"):
                logs = [np.maximum(np.log(probs), LEAST).tolist() for probs in (p, q)]
            line.update(zip(PROMPTS, logs, strict=True))
        lines.append(line)
    return lines


# ---- A line -----------------------------------------------------------------------------------


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers; a ValueError where there is no file to read."""
    try:
        with path.open("rb") as lines:
            yield from enumerate(lines, 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}.") from error


def _object(line: bytes) -> Line | None:
    """The JSON object of a line; None for a blank one."""
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    if not text:
        return None
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError):  # thousands of digits, or of brackets
        raise ValueError(
            "is not JSON that can be read: a number or a nesting is too long"
        ) from None
    if not isinstance(content, dict):
        raise ValueError(f"must be an object {{..}}, got {_short(content)}")
    return content


def _keys(content: Line, before: Keys | None) -> Keys:
    """The keys that a line is read by: the same as in the lines before."""
    found = [keys for keys in FORMS if any(key in content for key in keys)]
    if not found:
        wanted = ", or ".join(map(_and, FORMS))
        there = f"its keys are {', '.join(map(_short, content))}" if content else "it has no keys"
        raise ValueError(f"must have {wanted}; {there}")
    keys = found[0]
    if len(found) > 1:
        raise ValueError(f"has keys of two forms, {_and(keys)}, and {_and(found[1])}")
    for key in keys:
        if key not in content:
            raise ValueError(f"{key} is missing")
    if keys != (before or keys):
        raise ValueError(f"has {_and(keys)}, and the lines before it have {_and(before or ())}")
    return keys


def _text(content: Line, keys: Keys) -> tuple[Any, list[float]]:
    """The prompt that a line is of, and the acceptance of its tokens."""
    columns = [content[key] for key in keys]
    if keys == TOKENS or (keys == AGREE and not isinstance(columns[0], list)):
        return _prompt(content.get("prompt")), _accept(keys, [[value] for value in columns], "")
    names, lists = list(keys), list(columns)
    if isinstance(content.get("tokens"), list):
        names, lists = ["tokens", *names], [content["tokens"], *lists]
    for name, column in zip(names, lists, strict=True):
        if not (isinstance(column, list) and column):
            raise ValueError(f"{name} must be a list of at least one, got {_short(column)}")
    if len(set(map(len, lists))) > 1:
        raise ValueError(
            f"{_and(names)} must be equally long, got {_and(map(str, map(len, lists)))}"
        )
    return LINE, _accept(keys, columns, "[{}]")


def _prompt(value: Any) -> str | int | None:
    if value is None or isinstance(value, str) or is_whole(value):
        return value
    raise ValueError(f"prompt must be a string or a whole number, got {_short(value)}")


def _accept(keys: Keys, columns: Sequence[Sequence[Any]], place: str) -> list[float]:
    """The acceptance of tokens, by their values under each key."""
    names = [[key + place.format(i) for i in range(len(columns[0]))] for key in keys]
    if keys == AGREE:
        return list(map(_agreed, names[0], columns[0]))
    target = map(_logprob, names[0], columns[0])
    draft = map(_logprob, names[1], columns[1])
    accept = []
    for name, p, q in zip(names[0], target, draft, strict=True):
        if p == LEAST:
            raise ValueError(f"{name} must be above {LEAST:g}, log 0: the target wrote this token")
        accept.append(math.exp(min(0.0, q - p)))  # min(1, q / p), and no p too small for a float
    return accept


def _agreed(name: str, value: Any) -> float:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {_short(value)}")
    return float(value)


def _logprob(name: str, value: Any) -> float:
    if value is None:
        raise ValueError(
            f"{name} is null: servers have none for the first token they are given; leave it out"
        )
    if isinstance(value, int | float) and not isinstance(value, bool) and value <= LAW_SUM:
        return float(max(value, LEAST))
    raise ValueError(f"{name} must be a log-probability, at most 0, got {_short(value)}")


def _and(keys: Iterable[str]) -> str:
    return " and ".join(keys)


def _short(value: Any) -> str:
    """A value as JSON has it, its end cut off where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SEEN else f"{text[:SEEN]}…"
