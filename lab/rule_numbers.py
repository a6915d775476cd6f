"""Exact numbers that note what they are compared with: what a rule is given to be certified.

Two points of a cell are computed at once, so that one enumeration serves both.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np

from lab.domains import is_whole

BITS = 48  # free numbers are drawn from 2^BITS values: a product is no slower than at 20 bits, and
# degrees of some thousands stay harmless even where a single point decides
UNDEFINED = 2  # what 0 / 0 compares as
NEED = "a certificate needs exact numbers (+, -, ×, /, comparisons)"


class Unfit(ValueError):
    """A rule does what no certificate can follow."""


class Inexact(Unfit):
    """A number was to become a float."""


class Split(Exception):
    """The two points of a cell compare differently, so it is not one cell."""


class Notes(bytearray):
    """Signs of the comparisons in a round, in order; and what else numbers tell besides.

    trouble : the first that was raised because of what a rule computes with. Floats would not have
        raised it, so a rule that catches it takes a way that it takes nowhere else
    bits : of the longest constant that numbers met: about 2^-bits is the least it can tell apart
    rounded : a constant was a float with a fraction, as .1 is
    """

    def __init__(self) -> None:
        super().__init__()
        self.trouble: Exception | None = None
        self.bits = 0
        self.rounded = False

    def noted(self, error: Exception) -> Exception:
        self.trouble = self.trouble or error
        return error

    def restart(self) -> None:
        """For another round; what constants there are stays."""
        self.clear()
        self.trouble = None


class Traced:
    """A rational number at two points of a cell at once, `a / b` and `c / d`.

    Every comparison must come out alike at both, else `Split`; it is noted in `notes`. Ints,
    fractions and floats join in at their exact value. A division by 0 gives a number that may be
    carried along, as in NumPy: infinite, or undefined, which compares as NaN does.

    degree : bound of the degrees of numerator and denominator in the free numbers. Sums, products
        and quotients add the bounds of their parts, whatever cancels
    """

    __slots__ = ("a", "b", "c", "d", "degree", "notes")

    def __init__(self, a: int, b: int, c: int, d: int, degree: int, notes: Notes) -> None:
        self.a, self.b, self.c, self.d, self.degree, self.notes = a, b, c, d, degree, notes

    def at(self, point: int) -> Fraction:
        """Its value at point 0 or 1."""
        return Fraction(self.c, self.d) if point else Fraction(self.a, self.b)

    @property
    def defined(self) -> bool:
        return self.b != 0 and self.d != 0

    # ---- Arithmetic. Equal denominators stay, all else grows: no gcd, which would take longer.

    def __add__(self, other: Any) -> Any:
        other = other if other.__class__ is Traced else lift(other, self.notes)
        if other is NotImplemented:
            return other
        degree = self.degree + other.degree
        if self.b == other.b and self.d == other.d:
            return Traced(self.a + other.a, self.b, self.c + other.c, self.d, degree, self.notes)
        a, c = self.a * other.b + other.a * self.b, self.c * other.d + other.c * self.d
        return Traced(a, self.b * other.b, c, self.d * other.d, degree, self.notes)

    def __mul__(self, other: Any) -> Any:
        other = other if other.__class__ is Traced else lift(other, self.notes)
        if other is NotImplemented:
            return other
        return Traced(
            self.a * other.a, self.b * other.b, self.c * other.c, self.d * other.d,
            self.degree + other.degree, self.notes,
        )  # fmt: skip

    def __truediv__(self, other: Any) -> Any:
        other = other if other.__class__ is Traced else lift(other, self.notes)
        if other is NotImplemented:
            return other
        degree = self.degree + other.degree
        if self.b == other.b and self.d == other.d and self.defined:
            a, b, c, d = self.a, other.a, self.c, other.c
        else:
            a, b, c, d = self.a * other.b, self.b * other.a, self.c * other.d, self.d * other.c
        if b < 0:
            a, b = -a, -b
        if d < 0:
            c, d = -c, -d
        return Traced(a, b, c, d, degree, self.notes)

    def __neg__(self) -> Traced:
        return Traced(-self.a, self.b, -self.c, self.d, self.degree, self.notes)

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __rtruediv__(self, other: Any) -> Any:
        lifted = lift(other, self.notes)
        return lifted if lifted is NotImplemented else lifted / self

    def __pow__(self, exponent: Any) -> Any:
        if not is_whole(exponent):
            raise self._inexact(f"a power of {exponent!r} may not be rational")
        power = lift(1, self.notes)
        for _ in range(abs(exponent)):
            power = power * self
        return power if exponent >= 0 else 1 / power

    def __abs__(self) -> Traced:
        return -self if self < 0 else self

    def __pos__(self) -> Traced:
        return self

    __radd__ = __add__
    __rmul__ = __mul__

    # ---- Comparisons

    def _compare(self, other: Any, wanted: tuple[int, ...]) -> Any:
        """Whether the sign of self - other (or UNDEFINED) is a wanted one; the sign is noted,
        unless both are constants."""
        a = c = other
        b, d, degree = 1, 1, 0
        if other.__class__ is not int or not -1 <= other <= 1:  # `> 0` is what is asked most
            other = lift(other, self.notes)
            if other is NotImplemented:  # an array, say, which then asks for each of its numbers
                return other
            a, b, c, d, degree = other.a, other.b, other.c, other.d, other.degree
        left, right, one, two = self.a * b, a * self.b, self.c * d, c * self.d
        sign = (left > right) - (left < right)
        if sign != (one > two) - (one < two):
            raise self.notes.noted(Split())
        if sign == 0 and not (self.b and self.d and b and d):
            sign = UNDEFINED
        if self.degree or degree:
            self.notes.append(sign + 1)
        return sign in wanted

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, (-1,))

    def __le__(self, other: Any) -> Any:
        return self._compare(other, (-1, 0))

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, (1,))

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, (0, 1))

    def __eq__(self, other: object) -> Any:
        return self._compare(other, (0,))

    def __ne__(self, other: object) -> Any:
        return self._compare(other, (-1, 1, UNDEFINED))

    def __bool__(self) -> bool:
        return bool(self != 0)

    # ---- Not rational, or not to be compared with unseen

    def _inexact(self, what: str) -> Exception:
        return self.notes.noted(Inexact(f"{what}: {NEED}"))

    def __float__(self) -> float:
        raise self._inexact("a probability was cast to float")

    def _cast(self, *_: Any, **__: Any) -> Any:
        raise self._inexact("a probability was cast to another type")

    __int__ = __trunc__ = __complex__ = astype = as_integer_ratio = is_integer = hex = _cast

    def _function(self, *_: Any, **__: Any) -> Any:
        raise self._inexact("a function of a probability is not rational")

    __round__ = __floor__ = __ceil__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _function
    __divmod__ = __rdivmod__ = __rpow__ = _function
    exp = log = log2 = log10 = log1p = expm1 = exp2 = sqrt = cbrt = rint = floor = ceil = trunc = (
        _function
    )
    sin = cos = tan = arcsin = arccos = arctan = sinh = cosh = tanh = _function

    def __hash__(self) -> int:
        raise self._inexact("a probability was looked up in a dict or set")

    def __format__(self, form: str) -> str:
        if form:
            raise self._inexact(f"a probability was rounded to {form!r}")
        return str(self)

    def item(self) -> Traced:
        return self  # what a NumPy number has, and loses nothing

    def __deepcopy__(self, _: Any) -> Traced:
        return self  # with the same notes

    def __repr__(self) -> str:
        return str(self.at(0)) if self.defined else f"{self.a}/0"


def lift(value: Any, notes: Notes) -> Any:
    """A constant, exactly; NotImplemented if it is no real number."""
    if isinstance(value, Traced):
        return value
    if value.__class__ is int:
        a, b = value, 1
    elif isinstance(value, Rational):
        a, b = int(value.numerator), int(value.denominator)
    elif isinstance(value, float | np.floating) and math.isfinite(value):
        a, b = value.as_integer_ratio()
        notes.rounded |= b > 1
    elif isinstance(value, float | np.floating):
        a, b = (0 if value != value else 1 if value > 0 else -1), 0
    else:
        return NotImplemented
    notes.bits = max(notes.bits, a.bit_length(), b.bit_length())
    return Traced(a, b, a, b, 0, notes)
