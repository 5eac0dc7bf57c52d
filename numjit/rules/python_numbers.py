"""Formulas of `numjit.rules.real` computed of Python's own numbers, in float64."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from numjit import dtypes
from numjit.codegen.machine import HOST
from numjit.dtypes import DType

__all__ = ["NumberEmitter", "of_numbers"]

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne, "ord": lambda x, y: not (np.isnan(x) or np.isnan(y)),
    "uno": lambda x, y: np.isnan(x) or np.isnan(y),
}  # fmt: skip


def _fma(x: float, y: float, z: float) -> float:
    if not all(map(math.isfinite, (x, y, z))):
        return x * y + z
    return float(Fraction(x) * Fraction(y) + Fraction(z))


def _gamma(x: float) -> float:
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf


#: Functions of the mathematical library that NumPy lacks, or calls otherwise.
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "erf": math.erf, "erfc": math.erfc, "fma": _fma, "pow": np.power, "tgamma": _gamma,
}  # fmt: skip


class NumberEmitter:
    """Computes what a formula says, of floats that do not raise."""

    machine = HOST

    def constant(self, dtype: DType, value: float) -> Any:  # noqa: ARG002
        """Return a number."""
        return np.float64(value)

    def arithmetic(self, symbol: str, dtype: DType, x: Any, y: Any) -> Any:  # noqa: ARG002
        """Add, subtract, multiply or divide."""
        return _OPERATORS[symbol](x, y)

    def neg(self, dtype: DType, x: Any) -> Any:  # noqa: ARG002
        """Negate."""
        return -x

    def math(self, name: str, dtype: DType, *args: Any) -> Any:  # noqa: ARG002
        """Call a function of the mathematical library."""
        function = _FUNCTIONS.get(name) or getattr(np, name)
        return np.float64(function(*args))

    def compare(self, symbol: str, dtype: DType, x: Any, y: Any) -> Any:  # noqa: ARG002
        """Compare."""
        return bool(_OPERATORS[symbol](x, y))

    def bitwise(self, name: str, x: Any, y: Any) -> Any:
        """Join two conditions."""
        return x and y if name == "and_" else x or y

    def invert(self, condition: Any) -> Any:
        """Return whether a condition does not hold."""
        return not condition

    def select(self, dtype: DType, condition: Any, yes: Any, no: Any) -> Any:  # noqa: ARG002
        """Choose between two values."""
        return yes if condition else no

    def branch(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """Compute one of two values."""
        return yes() if condition else no()

    def loop(self, start: Sequence[Any], step: Callable[[Sequence[Any]], tuple[Any, Sequence[Any]]]) -> Any:
        """Step values until a condition does not hold any more."""
        goes_on, values = step(start)
        while goes_on:
            goes_on, values = step(values)
        return values

    def shared(self, name: str, function: Callable[..., Any], *args: Any) -> Any:  # noqa: ARG002
        """Compute another formula."""
        return function(*args)


def of_numbers(function: Callable[..., Any], *values: float) -> float:
    """Return an emission's value of Python numbers."""
    with np.errstate(all="ignore"):
        return float(function(NumberEmitter(), dtypes.float64, *map(np.float64, values)))
