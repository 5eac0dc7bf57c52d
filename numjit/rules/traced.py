"""What derivative formulas are written with: scalars whose operators and functions somebody else applies.

A formula takes the result and the operands (moved to the dtype that the operation computes in) and
answers, for each operand, by what a tangent is multiplied: a number, a scalar, None for a derivative of 0
that is known beforehand, or a `Linear` where it is no multiplication, as of complex numbers' parts. An
answer that costs something is a function that is called only where the operand has tangents. Because
formulas are made of functions of the table, they can be differentiated again, and written in other languages.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numjit import math as nm

__all__ = ["Derivative", "Formula", "Linear", "Traced", "Tracing", "call", "where"]


class Tracing(Protocol):
    """What applies functions to the scalars of a formula."""

    def call(self, function: Any, *operands: Any) -> Traced:
        """Apply a function of the table."""
        ...

    def attribute(self, name: str, given: Traced) -> Traced:
        """Apply an attribute or method of elements."""
        ...


class Linear:
    """How a tangent of an operand becomes one of the result, where that is no multiplication."""

    def __init__(self, function: Callable[[Traced], Traced]) -> None:
        self.function = function


class Traced:
    """A scalar in a formula.

    Attributes
    ----------
    tracer
        What applies functions.
    kind
        The Numba type.
    value
        The LLVM value in Numba's representation; None while only types are inferred.
    literal
        The number behind a constant, where it is known (not while types are inferred).
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tracer: Tracing, kind: Any, value: Any, literal: Any = None) -> None:
        self.tracer = tracer
        self.kind = kind
        self.value = value
        self.literal = literal

    @property
    def is_complex(self) -> bool:
        """Whether this is a strong complex scalar."""
        return bool(self.kind.dtype.is_complex)

    @property
    def is_none(self) -> bool:
        """Whether this is an operand that is None."""
        return bool(self.kind.name == "none")

    @property
    def real(self) -> Traced:
        """Real part."""
        return self.tracer.attribute("real", self)

    @property
    def imag(self) -> Traced:
        """Imaginary part."""
        return self.tracer.attribute("imag", self)

    def conjugate(self) -> Traced:
        """Return the complex conjugate; a real scalar itself."""
        return self.tracer.attribute("conjugate", self) if self.is_complex else self

    def __add__(self, other: Any) -> Traced:
        return self.tracer.call(operator.add, self, other)

    def __radd__(self, other: Any) -> Traced:
        return self.tracer.call(operator.add, other, self)

    def __sub__(self, other: Any) -> Traced:
        return self.tracer.call(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Traced:
        return self.tracer.call(operator.sub, other, self)

    def __mul__(self, other: Any) -> Traced:
        return self.tracer.call(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Traced:
        return self.tracer.call(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Traced:
        return self.tracer.call(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return self.tracer.call(operator.truediv, other, self)

    def __floordiv__(self, other: Any) -> Traced:
        return self.tracer.call(operator.floordiv, self, other)

    def __pow__(self, other: Any) -> Traced:
        return self.tracer.call(operator.pow, self, other)

    def __neg__(self) -> Traced:
        return self.tracer.call(operator.neg, self)

    def __and__(self, other: Any) -> Traced:
        return self.tracer.call(operator.and_, self, other)

    def __or__(self, other: Any) -> Traced:
        return self.tracer.call(operator.or_, self, other)

    def __lt__(self, other: Any) -> Traced:
        return self.tracer.call(operator.lt, self, other)

    def __le__(self, other: Any) -> Traced:
        return self.tracer.call(operator.le, self, other)

    def __gt__(self, other: Any) -> Traced:
        return self.tracer.call(operator.gt, self, other)

    def __ge__(self, other: Any) -> Traced:
        return self.tracer.call(operator.ge, self, other)

    def __eq__(self, other: object) -> Traced:  # type: ignore[override]
        return self.tracer.call(operator.eq, self, other)


Formula = Callable[..., Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Derivative:
    """How the tangents of a function's result follow from those of its operands.

    Attributes
    ----------
    formula
        See the module; None where there is no derivative.
    is_folded
        Whether the formula takes two operands of a rule that folds any number of them.
    is_choice
        Whether tangents are chosen by the rule itself, as values are (``where``).
    """

    formula: Formula | None = None
    is_folded: bool = False
    is_choice: bool = False


def call(function: Any, *operands: Any) -> Traced:
    """Apply a function of the table; one operand at least is a `Traced`."""
    tracer = next(operand.tracer for operand in operands if isinstance(operand, Traced))
    return tracer.call(function, *operands)


def where(condition: Traced, yes: Any, no: Any) -> Traced:
    """Choose between scalars without a branch."""
    return call(nm.where, condition, yes, no)
