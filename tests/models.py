"""Models and dice for the tests: they count, they record, they misbehave; and a plain loop on lists
that shares nothing with the lab's, whose known faults can be switched on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lab.exact import HashLM, TableLM
from lab.linear import row_product
from lab.ngram import TokenCache
from lab.sampling import Sampling
from lab.verify import Proposal

GREEDY = Sampling(temperature=0)
PROMPT = [4, 1, 5]  # FIX-C
LAST = 1 - 2**-53  # the largest number that rng.random() gives
FIX_C = [7, 8, 6, 4, 2, 7, 9, 8, 10, 10, 5, 9, 7, 9]
P = np.array([0.50, 0.25, 0.15, 0.10])  # FIX-A
Q = np.array([0.25, 0.45, 0.05, 0.25])
RESIDUAL = np.array([5 / 7, 0, 2 / 7, 0])
CHAIN_P = np.array([[0.7, 0.3], [0.2, 0.8]])  # FIX-B, start state 0
CHAIN_Q = np.array([[0.5, 0.5], [0.5, 0.5]])


def hash_pair():
    """Target and draft of FIX-C."""
    return HashLM(), HashLM(rotate=4)


def context_free(probs):
    """A model that gives one law (V,) whatever it has read."""
    return TableLM.of_probs(np.tile(probs, (len(probs), 1)))


def plain_greedy(model, prompt, n_new):
    """Argmax of a fresh forward pass over the whole prefix, token by token."""
    text = list(prompt)
    for _ in range(n_new):
        text.append(int(model.forward(text, model.new_cache())[-1].argmax()))
    return text[len(prompt) :]


class Recorder:
    """A model that notes every call, and keeps the caches it gave out.

    fed : (tokens, cache length before) of each `forward`; prefilled the same of `prefill`
    """

    def __init__(self, model, max_len=None):
        self.model, self.vocab = model, model.vocab
        self.max_len = model.max_len if max_len is None else max_len
        self.fed, self.prefilled, self.caches = [], [], []

    def new_cache(self):
        self.caches.append(self.model.new_cache())
        return self.caches[-1]

    def forward(self, tokens, cache):
        self.fed.append((np.asarray(tokens).tolist(), cache.length))
        return self.model.forward(tokens, cache)

    def prefill(self, tokens, cache):
        self.prefilled.append((np.asarray(tokens).tolist(), cache.length))
        self.model.forward(tokens, cache)

    @property
    def cache(self):
        (cache,) = self.caches  # one per run
        return cache

    @property
    def rows(self):
        return sum(len(tokens) for tokens, _ in self.fed)

    @property
    def prefill_rows(self):
        return sum(len(tokens) for tokens, _ in self.prefilled)


class Raiser(Recorder):
    """Raises once, in the call numbered `at` (from 0), after the cache has been appended to."""

    def __init__(self, model, at, error=RuntimeError):
        super().__init__(model)
        self.at, self.error = at, error

    def forward(self, tokens, cache):
        logits = super().forward(tokens, cache)
        if len(self.fed) == self.at + 1:
            raise self.error(f"call {self.at} fails")
        return logits


class RaisingPrefill(Recorder):
    """Its first prefill appends, then raises."""

    def prefill(self, tokens, cache):
        super().prefill(tokens, cache)
        if len(self.prefilled) == 1:
            raise RuntimeError("prefill fails")


class StuckCache(TokenCache):
    """A cache that cannot be rolled back, and does not say so (K6)."""

    def truncate(self, length):
        pass


class Stuck(HashLM):
    """FIX-C's target with such a cache."""

    def new_cache(self):
        return StuckCache()


class Altered:
    """A model whose logits (T, V) are put through `change` first; for bad ones."""

    max_len = None

    def __init__(self, model, change):
        self.model, self.vocab, self.change = model, model.vocab, change

    def new_cache(self):
        return self.model.new_cache()

    def forward(self, tokens, cache):
        return self.change(self.model.forward(tokens, cache))


class FunctionDrafter:
    """A drafter out of `propose(view, gamma, dice) -> Proposal`; counts how it is used."""

    def __init__(self, vocab, propose):
        self.vocab, self.function = vocab, propose
        self.starts, self.asked = 0, []

    def start(self, prompt):
        self.starts += 1
        return self

    def propose(self, view, gamma, dice):
        self.asked.append(gamma)
        return self.function(view, gamma, dice)


def fixed_drafts(tokens, probs=None):
    """A proposal whatever is asked, cut to gamma unless `probs` is given."""
    if probs is not None:
        return lambda view, gamma, dice: Proposal(np.array(tokens), probs)
    return lambda view, gamma, dice: Proposal(np.array(tokens[:gamma]))


class SpyRng:
    """A generator that notes every uniform it gives."""

    def __init__(self, seed=0):
        self.rng, self.drawn = np.random.default_rng(seed), []

    def random(self):
        self.drawn.append(self.rng.random())
        return self.drawn[-1]


class FixedRng:
    """Gives the uniforms it was given, in order."""

    def __init__(self, *values):
        self.values = list(values)

    def random(self):
        return self.values.pop(0)


class ScriptedDice:
    """Answers as told: tokens to choose, coins to accept; notes the laws it was asked about."""

    def __init__(self, chosen=(), accepted=()):
        self.chosen, self.accepted = list(chosen), list(accepted)
        self.laws, self.coins = [], []

    def choose(self, probs):
        self.laws.append(np.array(probs))
        return self.chosen.pop(0)

    def accept(self, probability):
        self.coins.append(probability)
        return self.accepted.pop(0)


# ---- The outside oracle: greedy speculation on lists, and what known faults do to it -----------

FAULTS = (
    "rejected drafts stay", "cache zeroed", "no trim", "trim one too few", "trim one too many",
    "draft trim min(rejected + 1, k)", "no draft trim", "gamma 0 forgets the draft",
    "limit not looked at",
)  # fmt: skip


@dataclass
class Trace:
    """What `list_loop` did; the lists have an entry per round."""

    tokens: list[int]
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    lag: list[int] = field(default_factory=list)  # positions the draft cache is short of
    excess: int = 0  # target cache length - text length, at the end

    @property
    def share(self):
        return sum(self.accepted), sum(self.drafted)


def list_loop(target, draft, prompt, n_new, gamma, fault=None, accepts=None):
    """Greedy speculation, FIX-C's reference. `gamma` is an int or a list that is cycled; `accepts`
    dictates how many drafts a round accepts; `fault` names a known mistake.

    The draft is fed the pending token, and before it what it missed: the last draft after a full
    acceptance, everything that rounds without drafts emitted.
    """
    assert fault in {None, *FAULTS}
    text, seen, asked = list(prompt), target.new_cache(), draft.new_cache()
    trace = Trace(text)
    schedule = [gamma] if isinstance(gamma, int) else gamma
    _greedy(target, text[:-1], seen)
    _greedy(draft, text[:-1], asked)
    missed = []
    end = len(prompt) + n_new
    while len(text) < end:
        k = schedule[len(trace.drafted) % len(schedule)]
        k = k if fault == "limit not looked at" else min(k, end - len(text) - 1)
        before, pending, feed, drafts = len(text), text[-1], [*missed, text[-1]], []
        for _ in range(k):
            drafts.append(_greedy(draft, feed, asked)[-1])
            feed = drafts[-1:]
        rows = _greedy(target, [pending, *drafts], seen)
        if accepts is None:
            a = next((i for i in range(k) if drafts[i] != rows[i]), k)
        else:
            a = accepts[len(trace.drafted)]
        text += [*drafts[: k if fault == "rejected drafts stay" else a], rows[a]]
        seen.truncate(_target_length(fault, seen.length, before, k, a))
        if k == 0:
            missed = [] if fault == "gamma 0 forgets the draft" else [*missed, pending]
        elif fault in ("no draft trim", "draft trim min(rejected + 1, k)"):
            missed = []
            if fault != "no draft trim" and a < k:
                asked.truncate(max(0, asked.length - min(k - a + 1, k)))
        else:
            missed = drafts[-1:] if a == k else []
            asked.truncate(min(asked.length, before + a))
        trace.drafted.append(k)
        trace.accepted.append(a)
        trace.lag.append(len(text) - 1 - len(missed) - asked.length)
    trace.tokens, trace.excess = text[len(prompt) :], seen.length - len(text)
    return trace


def _target_length(fault, length, before, k, a):
    """Right: the text before the round, and the accepted drafts."""
    if k == a:
        return 0 if fault == "cache zeroed" else length
    if fault in ("no trim", "cache zeroed"):
        return length if fault == "no trim" else 0
    wrong = {"trim one too few": -1, "trim one too many": 1}.get(fault, 0)
    return length - (k - a) - wrong


def _greedy(model, tokens, cache):
    """Argmax after each token."""
    return model.forward(tokens, cache).argmax(axis=-1).tolist() if tokens else []


def assert_same(actual, expected):
    """The same bits; within rounding where this machine's BLAS cannot give them."""
    assert actual.dtype == expected.dtype
    if row_product().row_invariant:
        np.testing.assert_array_equal(actual, expected)
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
