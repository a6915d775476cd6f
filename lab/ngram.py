"""N-gram language models: the cheapest drafts there are.

An order-n model looks at n - 1 tokens. Counts are smoothed towards the next lower order, which is
the predictive law under a Dirichlet prior (MacKay and Peto 1995, "A hierarchical Dirichlet
language model"). With c counts, a context h = (older token, rest of h), and s the strength:

    p(x)     = (c(x) + 1/2) / (tokens + V/2)                    order 1
    p(x | h) = (c(h x) + s p(x | rest of h)) / (c(h) + s)       orders 2 to n

so no token has probability 0, and a context that was never seen gives the law of the longest
part of it that was. Nothing is counted across the boundary of two documents.

Contexts form a trie that is read backwards in time: node 0 is the empty context, and the child of
`node` by `token` has seen one token more into the past. Nodes are numbered by depth, then by key
= parent * V + token, so all keys of all depths are one sorted array and a node's number is the
place of its key. The counts of a node are one row of a sparse matrix (CSR), so memory grows with
the contexts seen, never with V * V.

Shapes: T positions, V vocabulary, M nodes, C pairs of a context and a token that followed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.domains import Floats, Ints
from lab.ledger import Ledger
from lab.verify import Proposal

MAX_ORDER = 5
LEAST_WEIGHT = 1e-9  # smaller prior weights could underflow to a probability of 0
ROW_STORE_BYTES = 2**25  # rows already computed, kept for single steps
FEW_ROWS = 8  # up to here rows are made one by one

Tokens = Sequence[int] | npt.NDArray[np.integer[Any]]


class TokenCache:
    """What an n-gram model has read: token ids."""

    def __init__(self) -> None:
        self.tokens: list[int] = []

    @property
    def length(self) -> int:
        return len(self.tokens)

    def truncate(self, length: int) -> None:
        """Keep the first `length` positions; ValueError outside 0..length."""
        del self.tokens[domains.whole("length", length, 0, len(self.tokens)) :]


class NGramLM:
    """An n-gram language model with Dirichlet back-off.

    Parameters
    ----------
    order : 1 to 5; the law of a token depends on the order - 1 tokens before it, or on as many as
        there are.
    vocab : V.
    strength : s, the weight of the lower order in tokens.
    pseudo_count : added to every count of order 1.

    Attributes
    ----------
    unigram_ : (V,) float64, the law of order 1.
    keys_ : (M + 1,) int64, sorted: -1 for the root, every other node's key, one above them all.
    offsets_ : (M + 1,) int64; node i owns entries offsets_[i] to offsets_[i + 1] of the next two.
    tokens_, counts_ : (C,) int64 and float64, what followed a context and how often. The root has
        none here: its counts are in `unigram_`.
    totals_ : (M,) float64, the sum of a node's counts.

    Notes
    -----
    In the ledger an n-gram is 0 FLOPs, operation "embedding". A position reads the V numbers of
    `unigram_`, and of each longer context of it that was seen the counts that are not 0, two
    numbers each (token, count); every number at the declared 16 bits. Positions share nothing.

    Examples
    --------
    >>> bigram = NGramLM(order=2, vocab=2).fit([0, 1, 0, 1, 0])
    >>> bigram.probs([0]).round(4)               # (0 + 2 * 7/12) / 4, (2 + 2 * 5/12) / 4
    array([0.2917, 0.7083])
    """

    max_len = None  # no limit

    unigram_: Floats
    keys_: Ints
    offsets_: Ints
    tokens_: Ints
    counts_: Floats
    totals_: Floats

    def __init__(
        self, order: int, vocab: int, strength: float = 2.0, pseudo_count: float = 0.5
    ) -> None:
        self.order = domains.whole("order", order, 1, MAX_ORDER)
        self.vocab = domains.whole("vocab", vocab, 1)
        self.strength = _weight("strength", strength)
        self.pseudo_count = _weight("pseudo_count", pseudo_count)

    def fit(self, tokens: Tokens | Iterable[Tokens]) -> NGramLM:
        """Count `tokens`: a document (N,), documents (D, N), or a list of documents.

        Returns self. Fitting again starts afresh.

        Raises
        ------
        ValueError
            If there is no token at all, or one is not an integer from 0 to V - 1.
        """
        documents = [self._checked(document) for document in _documents(tokens)]
        if not sum(map(len, documents)):
            raise ValueError("tokens must hold at least one token, got none")
        flat = np.concatenate(documents)  # (N,)
        before = np.concatenate([np.arange(len(document)) for document in documents])

        unigram = np.bincount(flat, minlength=self.vocab).astype(np.float64) + self.pseudo_count
        here = np.arange(len(flat))  # the positions that have `depth` tokens before them
        nodes = np.zeros(len(flat), np.int64)  # their contexts of that length
        none = np.zeros(0, np.int64)
        keys, pairs, counts = [np.array([-1])], [none], [none]
        first = 1  # number of the first node of this depth
        for depth in range(1, self.order):
            deeper = before[here] >= depth
            here, nodes = here[deeper], nodes[deeper]
            new, which = np.unique(nodes * self.vocab + flat[here - depth], return_inverse=True)
            nodes = first + which
            first += len(new)
            followed, count = np.unique(nodes * self.vocab + flat[here], return_counts=True)
            keys.append(new)
            pairs.append(followed)
            counts.append(count)

        self.unigram_ = unigram / unigram.sum()
        self.keys_ = np.concatenate([*keys, [np.iinfo(np.int64).max]])
        pair = np.concatenate(pairs)  # (C,), sorted: node * V + the token that followed it
        owners, self.tokens_ = pair // self.vocab, pair % self.vocab
        self.counts_ = np.concatenate(counts, dtype=np.float64)
        self.offsets_ = np.searchsorted(owners, np.arange(first + 1))
        totals = np.bincount(owners, weights=self.counts_, minlength=first)
        self.totals_ = totals.astype(np.float64)  # they are: the stubs of NumPy say integers
        self._row_store: dict[int, Floats] = {}
        return self

    @property
    def context(self) -> int:
        """How many of the last tokens a law depends on."""
        return self.order - 1

    def new_cache(self) -> TokenCache:
        self._check_fitted()
        return TokenCache()

    def prefill(self, tokens: Tokens, cache: TokenCache, ledger: Ledger | None = None) -> None:
        """Append `tokens` to the cache. Nothing is read, so nothing is counted."""
        cache.tokens.extend(self._checked(tokens).tolist())

    def forward(self, tokens: Tokens, cache: TokenCache, ledger: Ledger | None = None) -> Floats:
        """Append T tokens; row t is the log law of the token after the t-th of them.

        Returns
        -------
        (T, V) float64, finite; the same bits however the tokens are grouped.
        """
        new = self._checked(tokens).tolist()
        known = max(0, cache.length + 2 - self.order)  # older tokens do not matter
        nodes = self._nodes(cache.tokens[known:] + new, len(new))
        logits = self._log_probs(nodes)
        if ledger is not None:
            ledger.add("embedding", weight_bytes=2 * self._numbers_read(nodes))
        cache.tokens.extend(new)
        return logits

    def probs(self, context: Tokens) -> Floats:
        """Law (V,) of the token after `context`, which may be empty."""
        self._check_fitted()
        return self._probs(self._node(self._checked(context).tolist()))

    def rows(self, tokens: Tokens) -> Floats:
        """Laws (T, V): row t that of the token after tokens[: t + 1] (teacher forcing)."""
        self._check_fitted()
        ids = self._checked(tokens).tolist()
        nodes, which = np.unique(self._nodes(ids, len(ids)), return_inverse=True)
        return self._many_probs(nodes)[which]

    # Contexts to nodes.

    def _node(self, context: list[int]) -> int:
        """The longest part of a context that was seen."""
        node = 0
        for token in context[: -self.order : -1]:  # backwards, order - 1 tokens at most
            key = node * self.vocab + token
            child = int(self.keys_.searchsorted(key))
            if self.keys_.item(child) != key:
                break
            node = child
        return node

    def _nodes(self, tokens: list[int], n: int) -> Ints:
        """`_node` of the last n prefixes, (n,)."""
        if n <= FEW_ROWS:
            ends = range(len(tokens) - n + 1, len(tokens) + 1)
            return np.array([self._node(tokens[max(0, i + 1 - self.order) : i]) for i in ends], int)
        ids = np.array(tokens)
        nodes = np.zeros(n, np.int64)
        going = np.arange(n)  # rows whose context was seen so far
        for back in range(1, self.order):
            places = len(ids) - n + going + 1 - back  # of the token `back` before the predicted one
            going, places = going[places >= 0], places[places >= 0]
            keys = nodes[going] * self.vocab + ids[places]
            children = self.keys_.searchsorted(keys)
            found = self.keys_[children] == keys
            going = going[found]
            nodes[going] = children[found]
        return nodes

    # Nodes to laws: the recursion of the module's docstring, for one node and for many.

    def _log_probs(self, nodes: Ints) -> Floats:
        """(T,) nodes -> (T, V), fresh."""
        if len(nodes) <= FEW_ROWS:
            logits = np.empty((len(nodes), self.vocab))
            for row, node in zip(logits, nodes.tolist(), strict=True):
                row[:] = self._stored_row(node)
            return logits
        distinct, which = np.unique(nodes, return_inverse=True)
        return np.log(self._many_probs(distinct))[which]

    def _stored_row(self, node: int) -> Floats:
        """Log law (V,) of a node; the oldest row makes room for a new one."""
        row = self._row_store.get(node)
        if row is None:
            if len(self._row_store) >= max(1, ROW_STORE_BYTES // (8 * self.vocab)):
                del self._row_store[next(iter(self._row_store))]
            row = self._row_store[node] = np.log(self._probs(node))
        return row

    def _probs(self, node: int) -> Floats:
        """(V,), fresh."""
        if node == 0:
            return self.unigram_.copy()
        probs = self._probs(self.keys_.item(node) // self.vocab)
        own = slice(self.offsets_.item(node), self.offsets_.item(node + 1))
        probs *= self.strength
        probs[self.tokens_[own]] += self.counts_[own]
        probs /= self.totals_.item(node) + self.strength
        return probs

    def _many_probs(self, nodes: Ints) -> Floats:
        """Sorted, distinct nodes (K,) -> (K, V), fresh."""
        if not nodes.any():
            return np.tile(self.unigram_, (len(nodes), 1))
        parents, which = np.unique(self._parents(nodes), return_inverse=True)
        probs = self._many_probs(parents)[which]
        inner = nodes[nodes > 0]
        rows = probs[len(nodes) - len(inner) :]  # a view: only the root's own row is done
        sizes = self._sizes(inner)
        owner = np.repeat(np.arange(len(inner)), sizes)  # of every entry, node after node
        entry = np.arange(len(owner)) + (self.offsets_[inner] - (np.cumsum(sizes) - sizes))[owner]
        rows *= self.strength
        rows[owner, self.tokens_[entry]] += self.counts_[entry]
        rows /= self.totals_[inner, None] + self.strength
        return probs

    def _parents(self, nodes: Ints) -> Ints:
        return np.maximum(self.keys_[nodes] // self.vocab, 0)  # the root's is the root

    def _sizes(self, nodes: Ints) -> Ints:
        return self.offsets_[nodes + 1] - self.offsets_[nodes]

    def _numbers_read(self, nodes: Ints) -> int:
        numbers = len(nodes) * self.vocab
        while nodes.any():
            numbers += 2 * int(self._sizes(nodes).sum())
            nodes = self._parents(nodes)
        return numbers

    # Input.

    def _checked(self, tokens: Tokens) -> Ints:
        return domains.tokens("tokens", tokens, self.vocab)

    def _check_fitted(self) -> None:
        if not hasattr(self, "keys_"):
            raise ValueError("the n-gram model has counted nothing yet: call fit(tokens) first")


def _documents(tokens: Any) -> list[Any]:
    if isinstance(tokens, np.ndarray):
        if tokens.ndim not in (1, 2):
            raise ValueError(f"tokens must be (N,) or (documents, N), got shape {tokens.shape}")
        return [tokens] if tokens.ndim == 1 else list(tokens)
    items = list(tokens)
    return items if items and np.ndim(items[0]) else [items]


def _weight(name: str, value: float) -> float:
    allowed = f"finite and at least {LEAST_WEIGHT:g}"
    return domains.number(name, value, allowed, lambda x: np.isfinite(x) & (x >= LEAST_WEIGHT))


class PromptLookup:
    """Prompt lookup: proposes what followed an earlier occurrence of the last tokens (Saxena 2023).

    A `lab.drafting.Drafter` that keeps nothing: the last n_max tokens are looked up in all text so
    far, then one token fewer, down to n_min. The continuation that is found was certain to be
    proposed, so its tokens have probability one; one that reaches the end of the text is cut
    there, not dropped. Nothing found: nothing is proposed, and the round is a plain step.

    Parameters
    ----------
    vocab : V
    n_min, n_max : tokens that must agree, at least and at most. A short match is often wrong where
        text repeats its structure, and each wrong draft costs a target row.
    match : "latest" or "earliest" of several occurrences of one length
    """

    max_len = None  # no limit

    def __init__(self, vocab: int, n_min: int = 1, n_max: int = 3, match: str = "latest") -> None:
        self.vocab = domains.whole("vocab", vocab, 1)
        self.n_max = domains.whole("n_max", n_max, 1)
        self.n_min = domains.whole("n_min", n_min, 1, self.n_max)
        if match not in ("latest", "earliest"):
            raise ValueError(f"match={match!r} must be 'latest' or 'earliest'")
        self.match = match

    def start(self, prompt: Ints) -> PromptLookup:
        """The state of one sequence: nothing is kept between rounds."""
        return self

    def propose(self, view: Any, gamma: int, dice: Any) -> Proposal:
        """At most `gamma` tokens to follow `view.tokens`, certain."""
        return Proposal(self.lookup(view.tokens, gamma))

    def lookup(self, tokens: Tokens, gamma: int) -> Ints:
        """What followed the occurrence that is found: at most `gamma` tokens, maybe none.

        >>> PromptLookup(9, n_min=2, n_max=2).lookup([5, 6, 7, 5, 6, 8, 5, 6], gamma=3)
        array([8, 5, 6])
        """
        ids, gamma = domains.tokens("tokens", tokens, self.vocab), domains.whole("gamma", gamma)
        for n in range(min(self.n_max, len(ids) - 1), self.n_min - 1, -1):
            windows = np.lib.stride_tricks.sliding_window_view(ids[:-1], n)  # (S - n, n)
            found = np.flatnonzero((windows == ids[-n:]).all(axis=1))
            if len(found):
                after = found[0 if self.match == "earliest" else -1] + n
                return ids[after : after + gamma]
        return ids[:0]
