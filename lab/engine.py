"""Many sequences in lockstep: the same loop, one forward for all that ask the same model.

Every sequence runs its own `speculate`, with its own dice. The engine joins what they ask of a
model into one ragged batch, and a sequence that is finished leaves it. Nothing of the loop is
written again, so what holds for one sequence holds here.

Shapes: B sequences still running, T tokens of the longest request, N rows, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.decode import speculate
from lab.drafting import Gamma
from lab.forward import Forward, Loop, compute, respond
from lab.ledger import Ledger
from lab.sampling import Sampling
from lab.text import Generation

Array = npt.NDArray[Any]


class Pool:
    """One model for many sequences: a batched cache with a row for each of them."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.seats: list[Seat] = []
        self.cache: Any = None

    def seat(self) -> Seat:
        seat = Seat(self)
        self.seats.append(seat)
        return seat

    def answer(self, requests: Sequence[Forward]) -> list[Array | None]:
        """One forward for all requests, which are of one kind (prefill or not, one ledger)."""
        self._settle()
        place = {id(seat): b for b, seat in enumerate(self.seats)}
        rows = np.array([place[id(request.cache)] for request in requests])
        sizes = np.array([len(request.tokens) for request in requests])
        counts = np.zeros(len(self.seats), np.int64)
        counts[rows] = sizes
        tokens = np.zeros((len(self.seats), sizes.max()), np.int64)  # (B, T)
        for b, request in zip(rows, requests, strict=True):
            tokens[b, : len(request.tokens)] = request.tokens
        logits = compute(requests[0], self.model, tokens, self.cache, counts=counts)
        for request in requests:
            request.cache.length += len(request.tokens)
        if logits is None:
            return [None] * len(requests)
        ends = sizes.cumsum()
        slots = np.repeat(rows * tokens.shape[1] - (ends - sizes), sizes) + np.arange(ends[-1])
        asked = logits.reshape(-1, logits.shape[-1])[slots]  # (N, V)
        return _processed(asked, requests, ends.tolist())

    def _settle(self) -> None:
        """Truncate the batched cache to what the rows hold. Finished rows leave when they are half
        of it: moving the others costs a copy, and a row that asks for nothing costs little."""
        staying = [b for b, seat in enumerate(self.seats) if not seat.left]
        if self.cache is None:
            self.seats = [self.seats[b] for b in staying]
            self.cache = self.model.new_cache(len(self.seats))
        elif len(staying) <= len(self.seats) // 2:
            self.seats = [self.seats[b] for b in staying]
            self.cache.select(staying)
        self.cache.truncate(np.array([seat.length for seat in self.seats]))


class Seat:
    """What one sequence sees of a pool: a model and its cache in one."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.vocab: int = pool.model.vocab
        self.max_len: int | None = getattr(pool.model, "max_len", None)
        self.length = 0
        self.left = False

    def new_cache(self) -> Seat:
        return self

    def truncate(self, length: int) -> None:
        self.length = domains.whole("length", length, 0, self.length)

    def forward(self, tokens: Array, cache: Seat, **counted: Any) -> Array:
        """A forward of this sequence alone."""
        request = Forward(self, tokens, cache, None, tokens[:0], counted.get("ledger"))
        logits = self.pool.answer([request])[0]
        assert logits is not None
        return logits


def generate_many(
    target: Any,
    draft: Any,
    prompts: Sequence[Sequence[int] | Array],
    n_new: int,
    gamma: Gamma | Sequence[Gamma],
    *,
    sampling: Sampling = Sampling(),
    draft_sampling: Sampling | None = None,
    rngs: Sequence[Any],
    stop: Iterable[int] = (),
    rule: Any = "token",
    target_ledger: Ledger | None = None,
    draft_ledger: Ledger | None = None,
) -> list[Generation]:
    """`speculative_generate` for many prompts at once, each with its own of `rngs`; `gamma` is one
    for all, or one for each.

    The result is that of one prompt at a time, bit for bit where a model's logits do not depend
    on how rows are grouped. With gamma 0 or draft None it is plain decoding. Models without
    batches (`new_cache(batch)`, `forward(..., counts=)`) are run row by row. The ledgers count a
    weight once per batch.

    Raises
    ------
    ValueError
        As `speculative_generate`, before any forward; also where `rngs` or a list of `gamma` has
        another length than `prompts`, or one generator is given twice.
    """
    prompts, rngs, stop = _lists(prompts=prompts, rngs=rngs, stop=stop)
    gammas = list(gamma) if isinstance(gamma, Sequence | np.ndarray) else [gamma] * len(prompts)
    for name, given in (("rngs", rngs), ("gamma", gammas)):
        if len(given) != len(prompts):
            raise ValueError(f"{name} has {len(given)} entries, prompts has {len(prompts)}")
    generators = [id(rng) for rng in rngs if not hasattr(rng, "choose")]
    if len(set(generators)) < len(generators):
        raise ValueError("rngs holds one generator twice: each sequence needs a stream of its own")
    of_target, of_draft = (Pool(model) if has_batches(model) else None for model in (target, draft))
    lockstep = Lockstep(of_draft)
    for prompt, rng, own_gamma in zip(prompts, rngs, gammas, strict=True):
        pair = (
            of_target.seat() if of_target else target,
            of_draft.seat() if of_draft else draft,
        )
        lockstep.add(
            speculate(
                *pair, prompt, n_new, own_gamma, sampling=sampling,
                draft_sampling=draft_sampling, rng=rng, stop=stop, rule=rule,
                target_ledger=target_ledger, draft_ledger=draft_ledger,
            ),
            [seat for seat in pair if isinstance(seat, Seat)],
        )  # fmt: skip
    return lockstep.run()


class Lockstep:
    """Loops that wait for answers, and who of them is served next."""

    def __init__(self, of_draft: Pool | None) -> None:
        self.of_draft = of_draft
        self.loops: list[Loop[Generation]] = []
        self.seats: list[list[Seat]] = []
        self.waiting: dict[int, Forward] = {}
        self.finished: dict[int, Generation] = {}

    def add(self, loop: Loop[Generation], seats: list[Seat]) -> None:
        self.loops.append(loop)
        self.seats.append(seats)

    def run(self) -> list[Generation]:
        """Serve group after group until every loop is done."""
        everyone = range(len(self.loops))
        try:
            for i in everyone:
                self._resume(i, None)
            while self.waiting:
                chosen = self._next_group()
                requests = [self.waiting.pop(i) for i in chosen]
                for i, answer in zip(chosen, _answers(requests), strict=True):
                    self._resume(i, answer)
        finally:
            for loop in self.loops:  # after an error they put their caches back
                loop.close()
        return [self.finished[i] for i in everyone]

    def _resume(self, i: int, answer: Array | None) -> None:
        try:
            self.waiting[i] = self.loops[i].send(answer)
        except StopIteration as done:
            self.finished[i] = done.value
            for seat in self.seats[i]:
                seat.left = True

    def _next_group(self) -> list[int]:
        """Prefills first, then drafts, so that the target's pass joins all rows."""

        def kind(request: Forward) -> tuple[bool, bool, int]:
            pool = request.model.pool if isinstance(request.model, Seat) else None
            return not request.prefill, pool is not None and pool is not self.of_draft, id(pool)

        kinds = {i: kind(request) for i, request in self.waiting.items()}
        first = min(kinds.values())
        return [i for i, found in kinds.items() if found == first]


def has_batches(model: Any) -> bool:
    """True for a model with `new_cache(batch)` and `forward(..., counts=)`."""
    if model is None or not (hasattr(model, "new_cache") and hasattr(model, "forward")):
        return False
    return (
        "batch" in signature(model.new_cache).parameters
        and "counts" in signature(model.forward).parameters
    )


def _lists(**collections: Any) -> list[list[Any]]:
    """Each as a list, or an error with its name."""
    for name, value in collections.items():
        if not isinstance(value, Iterable) or isinstance(value, str):
            raise ValueError(f"{name}={value!r} must be a collection")
    return [list(value) for value in collections.values()]


def _answers(requests: Sequence[Forward]) -> list[Array | None]:
    model = requests[0].model
    if isinstance(model, Seat):
        return model.pool.answer(requests)
    return [respond(request) for request in requests]


def _processed(logits: Array, requests: Sequence[Forward], ends: list[int]) -> list[Array | None]:
    """logits (N, V) of all requests -> the laws of each."""
    sampling = requests[0].sampling
    starts = [0, *ends[:-1]]
    if sampling is not None and sampling.repetition_penalty == 1:
        logits = sampling.probs(logits)
        sampling = None
    if sampling is None:
        return [logits[start:end] for start, end in zip(starts, ends, strict=True)]
    return [
        sampling.probs_after(logits[start:end], request.history, request.tokens)
        for request, start, end in zip(requests, starts, ends, strict=True)
    ]
