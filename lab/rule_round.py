"""A round whose drafts are drawn when they are first looked at.

The rule is given arrays as always, but draft i is drawn from its law only when it is asked for, and
row i of the target exists only once the drafts before it do. Deferring a draw changes no joint law.
It shows which laws a branch has read: a rule that looks no further than the draft it is testing is
recognised by that, whoever wrote it; and what nobody looks at makes no branches.
Shapes: N drafts, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.certificate import Tokens
from lab.decode import verify
from lab.domains import is_whole
from lab.rule_cells import CellLaws
from lab.rule_laws import PrefixLaw
from lab.sampling import Dice
from lab.verify import Proposal, Verify

Array = npt.NDArray[Any]


class Deferred:
    """One round of gamma drafts.

    drafts : those that were drawn so far
    depth : laws at the prefixes drafts[:0] .. drafts[:depth] were read, no others; -1 for none
    """

    def __init__(self, laws: CellLaws, gamma: int, dice: Dice) -> None:
        self.laws, self.gamma, self.dice = laws, gamma, dice
        self.drafts: list[int] = []
        self.depth = -1

    def play(self, decide: Verify) -> Tokens:
        """The tokens that are emitted; through `lab.decode.verify`, as in the loop."""
        laws, vocab = self.laws, self.laws.vocab
        target_probs: Any = Rows((self.gamma + 1, vocab), object, partial(self._row, laws.target))
        draft_probs: Any = Rows((self.gamma, vocab), object, partial(self._row, laws.draft))
        tokens: Any = Rows((self.gamma,), np.int64, self._draft)
        verdict = verify(decide, target_probs, Proposal(tokens, draft_probs), self.dice)
        self._draw(len(verdict.path))
        return (*self.drafts[: len(verdict.path)], int(verdict.token))

    def _draw(self, count: int) -> None:
        while len(self.drafts) < count:
            law = self._row(self.laws.draft, len(self.drafts))
            self.drafts.append(self.dice.choose(law))

    def _draft(self, i: int) -> int:
        self._draw(i + 1)
        return self.drafts[i]

    def _row(self, law: PrefixLaw, i: int) -> Array:
        self._draw(i)
        self.depth = max(self.depth, i)
        return law(tuple(self.drafts[:i]))


class Rows(np.lib.mixins.NDArrayOperatorsMixin):
    """An array whose rows are made in order, up to the last one that is looked at.

    Reading, slicing and iterating make what they need; anything else makes all of it, and is then
    what NumPy does. A row that a caller writes to stays written to.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, make: Callable[[int], Any]) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._array: Array = np.empty(shape, dtype)
        self._make, self._made = make, 0

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def _up_to(self, count: int) -> Array:
        while self._made < count:
            self._array[self._made] = self._make(self._made)
            self._made += 1
        return self._array

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        if index.__class__ is int and 0 <= index < self.shape[0]:  # the usual case
            return self._up_to(index + 1)[index]
        first = index[0] if isinstance(index, tuple) and index else index
        rows: range | tuple[int, ...] = range(len(self))
        if is_whole(first):
            rows = range(len(self))[int(first) : int(first) + 1 or None]  # none if out of range
        elif isinstance(first, slice):
            rows = range(len(self))[first]
        return self._up_to(max(rows, default=-1) + 1)[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._up_to(len(self))[index] = value

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return value in self._up_to(len(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._up_to(len(self)), dtype=dtype, copy=copy)

    def __copy__(self) -> Array:
        return self._up_to(len(self)).copy()

    def __deepcopy__(self, _: Any) -> Array:
        return self.__copy__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        def plain(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(x._up_to(len(x)) if isinstance(x, Rows) else x for x in arrays)

        if "out" in options:
            options["out"] = plain(options["out"])
        return getattr(ufunc, method)(*plain(inputs), **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # NumPy asks for protocols that would read everything
            raise AttributeError(name)
        return getattr(self._up_to(len(self)), name)

    def __repr__(self) -> str:
        return f"Rows(shape={self.shape}, {self._made} made)"
