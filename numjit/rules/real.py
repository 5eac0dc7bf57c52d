"""What formulas of real floats are written in: values with operators, emitted as LLVM or written as C++.

A formula is a function of `Real` values. It computes by operators, by calls of the mathematical library,
by choosing between values, which compute both on a GPU and a CPU's vectors, and by branches and loops,
which do not. What an operator becomes is its emission's business: `numjit.rules.lowering.Emitter`
makes LLVM of it, `numjit.rules.values_text.TextEmitter` C++.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numjit.codegen.machine import Machine
from numjit.dtypes import DType

__all__ = ["Condition", "Emission", "Real", "branch", "chebyshev", "loop", "polynomial", "split"]


class Emission(Protocol):
    """What formulas are emitted through; values are the emission's own."""

    machine: Machine

    def constant(self, dtype: DType, value: float) -> Any:
        """Return a number."""

    def arithmetic(self, symbol: str, dtype: DType, x: Any, y: Any) -> Any:
        """Add, subtract, multiply or divide."""

    def neg(self, dtype: DType, x: Any) -> Any:
        """Negate."""

    def math(self, name: str, dtype: DType, *args: Any) -> Any:
        """Call a function of the mathematical library, by its name in C."""

    def compare(self, symbol: str, dtype: DType, x: Any, y: Any) -> Any:
        """Compare: ``"ord"`` holds where neither is NaN, ``"uno"`` where one is."""

    def bitwise(self, name: str, x: Any, y: Any) -> Any:
        """Join two conditions by ``"and_"`` or ``"or_"``."""

    def invert(self, condition: Any) -> Any:
        """Return whether a condition does not hold."""

    def select(self, dtype: DType, condition: Any, yes: Any, no: Any) -> Any:
        """Choose between two values, or pairs of a complex dtype; both may be computed."""

    def branch(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """Compute one of two values."""

    def loop(self, start: Sequence[Any], step: Callable[[Sequence[Any]], tuple[Any, Sequence[Any]]]) -> Any:
        """Step values until a condition, returned first, does not hold any more."""

    def shared(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return a function of `Real` values: called by its name, or written out."""


class Condition:
    """Whether something holds, as it is emitted."""

    def __init__(self, emitter: Emission, value: Any) -> None:
        self.emitter = emitter
        self.value = value

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.emitter, self.emitter.bitwise("and_", self.value, other.value))

    def __or__(self, other: Condition) -> Condition:
        return Condition(self.emitter, self.emitter.bitwise("or_", self.value, other.value))

    def __invert__(self) -> Condition:
        return Condition(self.emitter, self.emitter.invert(self.value))


class Real:
    """An emitted value of a real float dtype, or the formula that it is part of."""

    def __init__(self, emitter: Emission, dtype: DType, value: Any) -> None:
        self.emitter = emitter
        self.dtype = dtype
        self.value = value

    def of(self, other: Any) -> Real:
        """Return a Python number or an emitted value beside this one."""
        if isinstance(other, Real):
            return other
        value = self.emitter.constant(self.dtype, other) if isinstance(other, int | float) else other
        return Real(self.emitter, self.dtype, value)

    @property
    def is_single(self) -> bool:
        """Whether this is float32."""
        return self.dtype.itemsize == 4

    @property
    def largest(self) -> float:
        """The largest finite number of the dtype."""
        return (2.0 - 2.0**-23) * 2.0**127 if self.is_single else (2.0 - 2.0**-52) * 2.0**1023

    @property
    def smallest(self) -> float:
        """The smallest normal number of the dtype."""
        return 2.0**-126 if self.is_single else 2.0**-1022

    def call(self, name: str, *others: Any) -> Real:
        """Call a math function."""
        return self.of(self.emitter.math(name, self.dtype, self.value, *(self.of(o).value for o in others)))

    def where(self, condition: Condition, otherwise: Any) -> Real:
        """Choose between this value, where a condition holds, and another."""
        return self.of(self.emitter.select(self.dtype, condition.value, self.value, self.of(otherwise).value))

    def abs(self) -> Real:
        """Return the magnitude."""
        return self.call("fabs")

    def signed(self, other: Any) -> Real:
        """Return this magnitude with the sign of another value."""
        return self.call("copysign", other)

    def is_finite(self) -> Condition:
        """Return whether this is neither infinite nor NaN."""
        return self.abs().is_("<", math.inf)

    def is_infinite(self) -> Condition:
        """Return whether this is one of the infinities."""
        return self.abs().is_("==", math.inf)

    def is_nan(self) -> Condition:
        """Return whether this is not a number."""
        return self.is_("uno", self)

    def is_number(self) -> Condition:
        """Return whether this is not NaN."""
        return self.is_("ord", self)

    def is_(self, symbol: str, other: Any) -> Condition:
        """Compare; no comparison holds for NaN but ``"!="`` and ``"uno"``."""
        found = self.emitter.compare(symbol, self.dtype, self.value, self.of(other).value)
        return Condition(self.emitter, found)

    def _with(self, symbol: str, other: Any) -> Real:
        return self.of(self.emitter.arithmetic(symbol, self.dtype, self.value, self.of(other).value))

    def __add__(self, other: Any) -> Real:
        return self._with("+", other)

    def __sub__(self, other: Any) -> Real:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> Real:
        return self.of(other) - self

    def __mul__(self, other: Any) -> Real:
        return self._with("*", other)

    def __truediv__(self, other: Any) -> Real:
        return self._with("/", other)

    def __rtruediv__(self, other: Any) -> Real:
        return self.of(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Real:
        return self.of(self.emitter.neg(self.dtype, self.value))


def loop(
    start: Sequence[Real], step: Callable[..., tuple[Real, ...]], condition: Callable[..., Condition]
) -> tuple[Real, ...]:
    """Step values, once at least, as long as a condition holds of what a step gave."""
    first = start[0]

    def emit(values: Sequence[Any]) -> tuple[Any, list[Any]]:
        found = step(*map(first.of, values))
        return condition(*found).value, [one.value for one in found]

    found = first.emitter.loop([one.value for one in start], emit)
    return tuple(map(first.of, found))


def branch(condition: Condition, yes: Callable[[], Real], no: Callable[[], Real]) -> Real:
    """Compute one of two values."""
    made: list[Real] = []

    def kept(function: Callable[[], Real]) -> Callable[[], Any]:
        def emit() -> Any:
            made.append(function())
            return made[-1].value

        return emit

    found = condition.emitter.branch(condition.value, kept(yes), kept(no))
    return made[0].of(found)


def split(x: Real, number: float, rest: float = 0.0) -> tuple[float, float]:
    """Return a number, and what its float64 lacks, as a sum whose first part is exact in the dtype of x."""
    if not x.is_single:
        return number, rest
    high: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return high, (number - high) + rest


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """Evaluate a polynomial, its highest coefficient first."""
    result = x.of(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


def chebyshev(x: Real, coefficients: Sequence[float]) -> Real:
    """Evaluate a Chebyshev series at x / 2, its highest coefficient first (Clenshaw, as in Cephes)."""
    # What is left out is below a quarter of the last bit of the result.
    least = 1e-9 if x.is_single else 0.0
    kept = [c for c in coefficients if abs(c) > least]
    first, second, third = x.of(kept[0]), x.of(0.0), x.of(0.0)
    for coefficient in kept[1:]:
        third, second = second, first
        first = x * second - third + coefficient
    return (first - third) * 0.5
