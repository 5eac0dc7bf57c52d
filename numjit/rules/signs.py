"""Which signs an integer may have, as sets: what each of Python's operations makes of them.

Sums and products are taken for Python's; one that wraps beyond 64 bits is no number that anybody means.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "ALL", "BINARY", "FUNCTIONS", "NATURAL", "NEGATIVE", "NO_SIGN", "POSITIVE", "UNARY", "ZERO",
    "natural_power", "negative_power", "of_number", "of_range",
]  # fmt: skip

NO_SIGN, NEGATIVE, ZERO, POSITIVE = 0, 1, 2, 4
NATURAL = ZERO | POSITIVE
ALL = NEGATIVE | NATURAL
_EACH = (NEGATIVE, ZERO, POSITIVE)
_SIGN = {NEGATIVE: -1, ZERO: 0, POSITIVE: 1}
_SET = {-1: NEGATIVE, 0: ZERO, 1: POSITIVE}


def of_number(value: Any) -> int:
    """Return the sign of a Python number; `ALL` of anything else."""
    if not isinstance(value, int | float) or math.isnan(value):
        return ALL
    return POSITIVE if value > 0 else NEGATIVE if value < 0 else ZERO


def of_range(bounds: Sequence[tuple[int, Any]]) -> int:
    """Return the signs of what a ``range`` gives, from signs and (where known) values of its arguments."""
    if len(bounds) == 1:
        return NATURAL
    (start, _), (stop, last), *rest = bounds
    step = rest[0][0] if rest else POSITIVE
    if step & ~NATURAL == NO_SIGN:
        if start & NEGATIVE == NO_SIGN:
            return POSITIVE if start == POSITIVE else NATURAL
        return NEGATIVE if stop & POSITIVE == NO_SIGN else ALL
    if step & ~(NEGATIVE | ZERO) == NO_SIGN:
        if stop & NEGATIVE == NO_SIGN:
            return POSITIVE
        if last == -1:
            return NATURAL
        return start if start & POSITIVE == NO_SIGN else ALL
    return ALL


def _each(rule: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Return a function of sets from one of two signs (-1, 0 or 1), which answers a set."""
    table = {(x, y): rule(_SIGN[x], _SIGN[y]) for x in _EACH for y in _EACH}

    def signs(first: int, second: int) -> int:
        found = NO_SIGN
        for x in _EACH:
            for y in _EACH:
                if first & x and second & y:
                    found |= table[x, y]
        return found

    return signs


def _one(rule: Callable[[int], int]) -> Callable[[int], int]:
    paired = _each(lambda x, _: rule(x))
    return lambda signs: paired(signs, ZERO)


def _sum(x: int, y: int) -> int:
    return _SET[x or y] if x * y >= 0 else ALL


def _quotient(x: int, y: int) -> int:
    return ZERO if x * y == 0 else NATURAL if x * y > 0 else NEGATIVE


def _power(x: int, y: int) -> int:
    if y == 0:
        return POSITIVE
    return POSITIVE if x > 0 else ZERO if x == 0 else NEGATIVE | POSITIVE


def _shifted_left(x: int, y: int) -> int:  # noqa: ARG001
    return _SET[x] | ZERO


def _shifted_right(x: int, y: int) -> int:  # noqa: ARG001
    return NATURAL if x > 0 else _SET[x]


def _and(x: int, y: int) -> int:
    return NEGATIVE if x < 0 and y < 0 else ZERO if x * y == 0 else NATURAL


def _or(x: int, y: int) -> int:
    return NEGATIVE if x < 0 or y < 0 else POSITIVE if x or y else ZERO


def _xor(x: int, y: int) -> int:
    return _SET[x or y] if x * y == 0 else NEGATIVE if x * y < 0 else NATURAL


def _largest(*signs: int) -> int:
    return _folded(_each(lambda x, y: _SET[max(x, y)]), signs)


def _smallest(*signs: int) -> int:
    return _folded(_each(lambda x, y: _SET[min(x, y)]), signs)


def _folded(pair: Callable[[int, int], int], signs: Sequence[int]) -> int:
    found = signs[0]
    for other in signs[1:]:
        found = pair(found, other)
    return found


def _natural(*signs: int) -> int:  # noqa: ARG001
    return NATURAL


def _into_int(signs: int, *digits: int) -> int:  # noqa: ARG001
    return signs | ZERO


_ADD = _each(_sum)
_PAIRS: dict[str, Callable[[int, int], int]] = {
    "add": _ADD,
    "sub": _each(lambda x, y: _sum(x, -y)),
    "mul": _each(lambda x, y: _SET[x * y]),
    "floordiv": _each(_quotient),
    "mod": _each(lambda _, y: _SET[y] | ZERO),
    "pow": _each(_power),
    "lshift": _each(_shifted_left),
    "rshift": _each(_shifted_right),
    "and_": _each(_and),
    "or_": _each(_or),
    "xor": _each(_xor),
}
#: Of Python's operators, the signs of the result from those of the operands.
BINARY: dict[Any, Callable[[int, int], int]] = {
    getattr(operator, name): rule for name, rule in _PAIRS.items()
}
UNARY: dict[Any, Callable[[int], int]] = {
    operator.neg: _one(lambda x: _SET[-x]),
    operator.pos: _one(lambda x: _SET[x]),
    operator.invert: _one(lambda x: NATURAL if x < 0 else NEGATIVE),
    operator.not_: _one(lambda _: NATURAL),
}
#: Of functions, from those of any number of operands.
FUNCTIONS: dict[Any, Callable[..., int]] = {
    abs: _one(lambda x: _SET[abs(x)]),
    bool: _natural,
    int: _into_int,
    len: _natural,
    math.gcd: _natural,
    math.lcm: _natural,
    max: _largest,
    min: _smallest,
    pow: _PAIRS["pow"],
    round: _into_int,
    sum: lambda *signs: _folded(_ADD, (ZERO, *signs)),
}


def natural_power(x: Any, n: Any) -> Any:
    """Return ``x ** n``, where n is known not to be negative if it is an int: of ints it is an int."""
    return x**n


def negative_power(x: Any, n: Any) -> Any:
    """Return ``x ** n``, where n is known not to be positive if it is an int: of ints it is a float."""
    return x**n
