"""A request for a forward pass, and the plain driver that answers one loop's requests.

The loops of the lab are generators: they yield `Forward` and are sent the laws of its rows. Who
computes them is none of their business: `drive` answers one loop, `lab.engine` many in lockstep.
Shapes: T tokens, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lab.ledger import Ledger
from lab.sampling import Sampling

Array = npt.NDArray[Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """A request: append tokens (T,) to the cache; send back the laws (T, V) that follow them.

    With `sampling` None the logits are sent, with `prefill` nothing is. `history` holds the tokens
    before the first of these.
    """

    model: Any
    tokens: Array
    cache: Any
    sampling: Sampling | None
    history: Array
    ledger: Ledger | None = None
    prefill: bool = False


Loop = Generator[Forward, Any, T]


def drive(loop: Loop[T]) -> T:
    """Run one loop: answer every request as it comes."""
    try:
        request = next(loop)
        while True:
            try:
                answer = respond(request)
            except BaseException as error:
                request = loop.throw(error)  # the loop puts its caches back, and lets it through
            else:
                request = loop.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


def respond(request: Forward) -> Array | None:
    """Compute one request by itself."""
    model = request.model
    logits = compute(request, model, request.tokens, request.cache)
    if request.prefill:
        return None
    if np.shape(logits) != (len(request.tokens), model.vocab):
        raise ValueError(
            f"logits must be (T={len(request.tokens)}, V={model.vocab}), got {np.shape(logits)}"
        )
    if request.sampling is None:
        return np.asarray(logits)
    return request.sampling.probs_after(logits, request.history, request.tokens)


def compute(request: Forward, model: Any, tokens: Array, cache: Any, **counts: Any) -> Any:
    """The model's logits for tokens of a request's kind, None for a prefill; counted where the
    request brings a ledger."""
    ledger = request.ledger
    extra = counts if ledger is None else counts | {"ledger": ledger}
    if not request.prefill:
        return model.forward(tokens, cache, **extra)
    append = getattr(model, "prefill", model.forward)
    with nullcontext() if ledger is None else ledger.phase("prefill"):
        append(tokens, cache, **extra)
    return None
