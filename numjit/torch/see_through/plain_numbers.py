"""Operations on Python numbers that generated torch functions call: they raise nothing, whatever the numbers.

torch's compiler traces them, so that they are made of what it traces, and decide by comparisons: an exception
would end the graph, where a compiled functor goes on with NaN, an infinity, or 0.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["floordiv", "modulo", "power", "ratio", "shift_left", "shift_right"]

#: Shifts by more move every bit of an int64 out.
_WIDTH = 64


def ratio(x: Any, y: Any) -> Any:
    """Divide two real numbers as floats are divided: by 0 to infinity or NaN."""
    if y != 0:
        return x / y
    if not (x > 0 or x < 0):  # NaN as well
        return math.nan
    infinity = math.inf if x > 0 else -math.inf
    return -infinity if isinstance(y, float) and math.copysign(1.0, y) < 0 else infinity


def floordiv(x: Any, y: Any) -> Any:
    """Divide and round down: integers by 0 give 0, floats as `ratio`."""
    if y != 0:
        return x // y
    return ratio(x, y) if isinstance(x, float) or isinstance(y, float) else 0


def modulo(x: Any, y: Any) -> Any:
    """Remainder with the divisor's sign: integers by 0 give 0, floats NaN; of an infinity NaN."""
    if y == 0:
        return math.nan if isinstance(x, float) or isinstance(y, float) else 0
    return x % y if x - x == 0 else math.nan


def power(x: Any, n: Any) -> Any:
    """Raise an integer to an integer power; a negative one gives a float, infinite of 0."""
    return x**n if n >= 0 else ratio(1.0, x**-n)


def shift_left(x: Any, n: Any) -> Any:
    """Shift an integer; by distances outside of the width all bits are gone."""
    return x << n if 0 <= n < _WIDTH else 0


def shift_right(x: Any, n: Any) -> Any:
    """Shift an integer; distances outside of the width leave the sign."""
    return x >> n if 0 <= n < _WIDTH else -1 if x < 0 else 0
