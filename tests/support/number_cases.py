"""Expressions of plain numbers, and what CPython makes of them: for tests of functors against it."""

from __future__ import annotations

import cmath
import linecache
import math
import random

import torch

import numjit

__all__ = ["Raised", "answers", "evaluate", "functor_of", "random_expressions"]

_NAMES = {"math": math, "cmath": cmath, "numjit": numjit}
INT64 = 1 << 63


class Raised:
    """What CPython raised, or an integer on the way that 64 bits do not hold."""

    def __init__(self, error):
        self.error = error

    def __repr__(self):
        return f"<{self.error!r}>"


def functor_of(expressions, names=(), setup=""):
    """Return a functor of scalars `names` with a result for each expression; its operand has no part."""
    body = f"    {setup}\n" if setup else ""
    scalars = f", *, {', '.join(names)}" if names else ""
    text = f"def f(x{scalars}):\n{body}    return ({', '.join(expressions)},)\n"
    file = f"<numbers {hash(text)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope = dict(_NAMES)
    exec(compile(text, file, "exec"), scope)
    return numjit.elementwise(scope["f"])


def answers(function, values, device="cpu"):
    """Call a functor of `functor_of` and return its results as Python numbers, ints as int64 has them.

    torch's default dtype is float64 meanwhile, so that a float result is stored as it is.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        results = function(torch.zeros(1, dtype=torch.int8, device=device), **values)
    finally:
        torch.set_default_dtype(before)
    return [result.item() for result in results]


def evaluate(expression, values):
    """Return CPython's answer, or `Raised`."""
    if "<<" in expression and values.get("b", 0) > 64:  # Python would take the memory for it
        return Raised(OverflowError(expression))
    try:
        found = eval(expression, dict(_NAMES), dict(values))
    except (ArithmeticError, TypeError, ValueError) as error:
        return Raised(error)
    if type(found) is int and not -INT64 <= found < INT64:
        return Raised(OverflowError(found))
    return found


# ------------------------------------------------------------------------------------------- random ones

_INT_PAIRS = ("+", "-", "*", "//", "%", "&", "|", "^")
_FLOAT_PAIRS = ("+", "-", "*", "/", "//", "%")
_ORDER = ("<", "<=", ">", ">=", "==", "!=")


def random_expressions(seed, count, ints=("i", "j"), floats=("u", "v"), bools=("p", "q")):
    """Return expressions over scalars of each kind and literals, from a seed."""
    generator = random.Random(seed)
    pick = generator.choice

    def whole(depth):
        if depth == 0:
            return pick([*ints, *bools, str(generator.randint(-9, 9)), "True"])
        form = generator.randrange(9)
        if form < 4:
            return f"({whole(depth - 1)} {pick(_INT_PAIRS)} {whole(depth - 1)})"
        if form == 4:
            return f"({pick(('-', '+', '~'))}{whole(depth - 1)})"
        if form == 5:
            return f"{pick(('abs', 'int', 'round'))}({whole(depth - 1)})"
        if form == 6:
            return f"({whole(depth - 1)} ** {generator.randint(0, 3)})"
        if form == 7:
            return f"({whole(depth - 1)} {pick(('<<', '>>'))} (abs({whole(depth - 1)}) % 9))"
        return f"{pick(('max', 'min', 'math.gcd'))}({whole(depth - 1)} + 0, {whole(depth - 1)} + 0)"

    def real(depth):
        if depth == 0:
            return pick([*floats, repr(round(generator.uniform(-3, 3), 2))])
        form = generator.randrange(6)
        if form < 3:
            other = pick((whole, real))
            return f"({real(depth - 1)} {pick(_FLOAT_PAIRS)} {other(depth - 1)})"
        if form == 3:
            return f"({whole(depth - 1)} / {whole(depth - 1)})"
        if form == 4:
            return f"{pick(('abs', 'math.fabs', 'math.sin', 'math.atan', 'float'))}({real(depth - 1)})"
        return f"({pick((2, 3, 10))} ** -(abs({whole(depth - 1)}) % 5 + 1))"

    def truth(depth):
        operand = pick((whole, real))
        same = pick((whole, real))
        return pick(
            (
                f"({operand(depth)} {pick(_ORDER)} {operand(depth)})",
                f"(not {operand(depth)})",
                f"bool({operand(depth)})",
                f"({same(depth)} + 0 if {operand(depth)} > 0 else {same(depth)} + 0)",
            )
        )

    return [pick((whole, whole, real, truth))(generator.randint(1, 3)) for _ in range(count)]
