"""What the checks of the loop give to a student: two models, a rule and a cache that note what is
done to them, small enough to take every branch.

p = target, q = draft. T tokens of a call, V = vocabulary, N = drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.homework.checking import Clumsy, Wrong
from lab.ngram import TokenCache

Array = npt.NDArray[Any]
Tokens = tuple[int, ...]
TextLaw = Callable[[Sequence[int]], Array]  # a text -> the law (V,) of its next token

LAWS = 97  # that all texts share: two of them rarely have the same
MOST_CALLS = 300  # of the models in one run: a loop that ends needs a tenth of it


class Cache(TokenCache):
    """Holds the tokens themselves, and knows which model made it; "": any can read it."""

    def __init__(self, owner: str = "") -> None:
        super().__init__()
        self.owner = owner

    def __repr__(self) -> str:
        return f"<cache of {self.tokens}>"


def holding(tokens: Sequence[int]) -> Cache:
    """A cache that has read these tokens."""
    cache = Cache()
    cache.tokens += tokens
    return cache


@dataclass(frozen=True)
class Call:
    """One thing that was asked for.

    who : "target", "draft", or "rule"
    held : what the model's cache held before
    fed : the tokens it was given; of the rule, the drafts
    emitted : of the rule, what it lets through: accepted drafts and its token
    """

    who: str
    held: Tokens
    fed: Tokens
    emitted: Tokens = ()


class Model:
    """A language model of laws that depend on the whole text, so a wrong cache always shows."""

    def __init__(self, name: str, law: TextLaw, vocab: int, log: list[Call]) -> None:
        self.name, self.law, self.vocab, self.log = name, law, vocab, log

    def __repr__(self) -> str:
        return self.name

    def new_cache(self) -> Cache:
        return Cache(self.name)

    def forward(self, tokens: Sequence[int] | Array, cache: Cache) -> Array:
        """Append the tokens, return the laws (T, V) behind each of them."""
        if cache.owner not in ("", self.name):
            raise Clumsy(
                f"the {self.name} was fed with a cache that the {cache.owner} made: each model has "
                "its own, from its own new_cache()"
            )
        fed = whole_tokens(tokens, self.vocab)
        self.log.append(Call(self.name, tuple(cache.tokens), fed))
        if len(self.log) > MOST_CALLS:
            raise Wrong(f"the models were called {MOST_CALLS} times: does the loop ever end")
        laws = np.zeros((len(fed), self.vocab))
        for i, token in enumerate(fed):
            cache.tokens.append(token)
            laws[i] = self.law(cache.tokens)
        return laws


class Rule:
    """The rule of homework 2, written out."""

    def __init__(self, log: list[Call]) -> None:
        self.log = log

    def __repr__(self) -> str:
        return "rule"

    def __call__(
        self, target_probs: Array, draft_probs: Array, drafts: Sequence[int], dice: Any
    ) -> tuple[int, int]:
        accepted, token = self._verdict(target_probs, draft_probs, drafts, dice)
        fed = tuple(int(draft) for draft in drafts)
        self.log.append(Call("rule", (), fed, (*fed[:accepted], token)))
        return accepted, token

    def _verdict(self, p: Array, q: Array, drafts: Sequence[int], dice: Any) -> tuple[int, int]:
        for i, draft in enumerate(drafts):
            if not dice.accept(float(min(1.0, p[i][draft] / q[i][draft]))):
                rest = np.maximum(np.subtract(p[i], q[i]), 0)
                return i, dice.choose(rest / rest.sum())
        return len(drafts), dice.choose(p[len(drafts)])


@dataclass
class Pair:
    """A target, its draft and a rule, with one log of all calls in their order."""

    target_law: TextLaw
    draft_law: TextLaw
    vocab: int
    log: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target = Model("target", self.target_law, self.vocab, self.log)
        self.draft = Model("draft", self.draft_law, self.vocab, self.log)
        self.rule = Rule(self.log)

    def fresh(self) -> Pair:
        """The same models, nothing called yet."""
        return Pair(self.target_law, self.draft_law, self.vocab)


def whole_tokens(tokens: Any, vocab: int) -> Tokens:
    """What a model was fed, if these are tokens: a list or an array of ints."""
    array = np.asarray(tokens)
    if array.ndim != 1:
        raise ValueError(f"tokens must be (T,), got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"tokens must be ints, got {array.dtype.name}")
    fed = tuple(array.astype(np.int64).tolist())
    if not all(0 <= token < vocab for token in fed):
        raise ValueError(f"tokens must be within 0..{vocab - 1}, got {list(fed)}")
    return fed


# ---- Laws of texts ---------------------------------------------------------------------------


def random_law(rng: np.random.Generator, vocab: int) -> TextLaw:
    """A law for every text, every token possible."""
    rows = rng.dirichlet(np.ones(vocab), size=LAWS) + 0.02
    rows /= rows.sum(axis=1, keepdims=True)
    return lambda text: rows[hash(tuple(text)) % LAWS]


def constant(vocab: int) -> TextLaw:
    """Token 0 alone is possible, whatever the text, so a wrong cache does not show."""
    probs = np.eye(vocab)[0]
    return lambda text: probs


def certain(law: TextLaw) -> TextLaw:
    """The likeliest token alone is possible: temperature 0."""

    def one_hot(text: Sequence[int]) -> Array:
        probs = law(text)
        return np.asarray(np.arange(len(probs)) == probs.argmax(), np.float64)

    return one_hot


def turned(law: TextLaw) -> TextLaw:
    """At temperature 0, a draft that is never right."""
    return lambda text: np.roll(law(text), 1)


def mostly(law: TextLaw, rng: np.random.Generator, vocab: int) -> TextLaw:
    """At temperature 0, a draft that is right at about two texts of three."""
    other, wrong = random_law(rng, vocab), turned(law)
    return lambda text: wrong(text) if other(text)[0] > 1 / 2 else law(text)


def planned(law: TextLaw, right: Sequence[bool]) -> TextLaw:
    """At temperature 0, a draft that is right about token i of a text where `right[i]`."""
    wrong = turned(law)
    return lambda text: law(text) if right[len(text) : len(text) + 1] == [True] else wrong(text)
