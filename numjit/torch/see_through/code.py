"""How each rule's operation is written over torch tensors: the text of an expression for one domain.

Operands come moved into the domain's compute dtype. What torch and numjit answer differently (integer
division by zero, shifts beyond the width, infinite arguments) is written out.
"""

from __future__ import annotations

import cmath
import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numjit import math as numjit_math
from numjit.dtypes import DType
from numjit.functor.scalars.derivatives import BESSEL_I1
from numjit.functor.scalars.rules import ATTRIBUTES, METHODS
from numjit.torch.see_through.lowered import NotLowerable

__all__ = ["CODES", "Operand", "Writer"]


class Writer(Protocol):
    """What emissions need of the program that is being written."""

    def let(self, code: str) -> str:
        """Give an expression a name."""
        ...

    def filled(self, code: str, dtype: DType) -> str:
        """Return a 0-dim tensor of a number."""
        ...


@dataclasses.dataclass(frozen=True)
class Operand:
    """One operand: its text, whether that is a tensor, and its value where it is a constant number."""

    code: str
    is_tensor: bool
    constant: Any = None


Code = Callable[[Writer, DType, Sequence[Operand | None]], str]


def _tensor(writer: Writer, dtype: DType, operand: Operand | None) -> str:
    assert operand is not None
    return operand.code if operand.is_tensor else writer.filled(operand.code, dtype)


def _call(name: str) -> Code:
    """Write a function of torch that takes tensors only."""

    def code(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
        return f"torch.{name}({', '.join(_tensor(writer, dtype, operand) for operand in operands)})"

    return code


def _fold(one: Code) -> Code:
    """Write an operation of two operands over any number of them, from the left."""

    def code(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
        found = operands[0]
        for operand in operands[1:]:
            found = Operand(writer.let(one(writer, dtype, (found, operand))), is_tensor=True)
        return _tensor(writer, dtype, found)

    return code


def _gcd(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    """Write ``torch.gcd``, which of the smallest integer may be negative."""
    return f"{_call('gcd')(writer, dtype, operands)}.abs()"


def _lcm(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    """Write ``torch.lcm``, which on a CPU ends the process where it divides the smallest number by -1."""
    if dtype.bits < 32:  # it computes those in 32 bits
        return _call("lcm")(writer, dtype, operands)
    x, y = (writer.let(_tensor(writer, dtype, operand)) for operand in operands)
    divisor = writer.let(f"torch.gcd({x}, {y}).abs()")
    divisor = writer.let(f"torch.where({divisor} == 0, 1, {divisor})")
    return f"(torch.div({x}, {divisor}, rounding_mode='trunc') * {y}).abs()"


def _infix(symbol: str, of_bools: str = "") -> Code:
    """Write one of Python's operators, which torch's tensors take numbers on either side of."""

    def code(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
        if dtype.kind == "b" and of_bools:
            return _call(of_bools)(writer, dtype, operands)
        x, y = operands
        assert x is not None
        assert y is not None
        left = x.code if x.is_tensor or y.is_tensor else _tensor(writer, dtype, x)
        return f"({left} {symbol} {y.code})"

    return code


def _comparison(symbol: str) -> Code:
    def code(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
        x, y = operands
        # A number beyond the element's range has a defined place in its order only as an element.
        if dtype.is_complex or (dtype.kind == "b"):
            return f"({_tensor(writer, dtype, x)} {symbol} {_tensor(writer, dtype, y)})"
        return _infix(symbol)(writer, dtype, operands)

    return code


def _identity(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    return _tensor(writer, dtype, operands[0])


def _whole(name: str) -> Code:
    """Write a rounding, which leaves integers as they are."""

    def code(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
        return (_call(name) if dtype.is_floating else _identity)(writer, dtype, operands[:1])

    return code


# ------------------------------------------------------------------------------------- arithmetic


def _divide(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x, y = operands
    if x is not None and x.constant == 1 and y is not None and y.is_tensor and not dtype.is_complex:
        return f"torch.reciprocal({y.code})"
    # A tensor as dividend, since Python's / of a number is a multiplication by the reciprocal.
    divisor = y.code if y is not None and y.constant is not None else _tensor(writer, dtype, y)
    return f"torch.div({_tensor(writer, dtype, x)}, {divisor})"


def _is_plain_divisor(operand: Operand | None) -> bool:
    return operand is not None and operand.constant is not None and operand.constant not in (0, -1)


def _floor_divide(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    """Integers: by 0 gives 0, by -1 negates with wrapping; torch raises, or even traps."""
    x, y = (_tensor(writer, dtype, operand) for operand in operands)
    if dtype.is_floating or _is_plain_divisor(operands[1]):
        divisor = y if dtype.is_floating else operands[1].code  # type: ignore[union-attr]
        return f"torch.div({x}, {divisor}, rounding_mode='floor')"
    zero = writer.let(f"({y} == 0)")
    if dtype.kind == "u":
        quotient = f"torch.div({x}, torch.where({zero}, 1, {y}), rounding_mode='floor')"
        return f"torch.where({zero}, 0, {quotient})"
    minus = writer.let(f"({y} == -1)")
    safe = writer.let(f"torch.where({zero} | {minus}, 1, {y})")
    quotient = writer.let(f"torch.div({x}, {safe}, rounding_mode='floor')")
    return f"torch.where({zero}, 0, torch.where({minus}, -{x}, {quotient}))"


def _remainder(name: str) -> Code:
    """``torch.remainder`` or ``torch.fmod``; an integer's by 0 is 0."""

    def code(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
        x, y = (_tensor(writer, dtype, operand) for operand in operands)
        if dtype.is_floating:
            return f"torch.{name}({x}, {y})"
        if _is_plain_divisor(operands[1]):
            return f"torch.{name}({x}, {operands[1].code})"  # type: ignore[union-attr]
        trivial = writer.let(f"({y} == 0)" if dtype.kind == "u" else f"(({y} == 0) | ({y} == -1))")
        return f"torch.where({trivial}, 0, torch.{name}({x}, torch.where({trivial}, 1, {y})))"

    return code


def _power(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x, exponent = operands
    base = _tensor(writer, dtype, x)
    n = None if exponent is None else exponent.constant
    if n is not None and not isinstance(n, complex):
        if n < 0 and dtype.is_integral:
            raise NotLowerable("it raises an integer to a negative integer power")
        if n > 0 and n == int(n) and n <= 4:
            return _product(writer, base, int(n))
        if n == 0:
            return f"torch.ones_like({base})"
        if not dtype.is_integral and n in (-2, -1):
            divisor = base if n == -1 else writer.let(f"({base} * {base})")
            return f"torch.reciprocal({divisor})"
        if dtype.is_floating and n in (0.5, -0.5):
            root = f"torch.sqrt({base})"
            return root if n > 0 else f"torch.reciprocal({root})"
    return f"torch.pow({base}, {_tensor(writer, dtype, exponent)})"


def _product(writer: Writer, base: str, times: int) -> str:
    """Square and multiply in numjit's order."""
    result, square = "", base
    while times:
        if times & 1:
            result = writer.let(f"({result} * {square})") if result else square
        times >>= 1
        if times:
            square = writer.let(f"({square} * {square})")
    return result


def _shift(name: str) -> Code:
    """Shift; distances outside the width shift everything out."""

    def code(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
        x = _tensor(writer, dtype, operands[0])
        distance = operands[1]
        assert distance is not None
        function = f"torch.bitwise_{name}"
        n = distance.constant
        if n is not None and 0 <= n < dtype.bits:
            return f"{function}({x}, {n})"
        y = _tensor(writer, dtype, distance)
        inside = writer.let(f"(({y} >= 0) & ({y} < {dtype.bits}))")
        if name == "right_shift" and dtype.kind == "i":
            return f"{function}({x}, torch.where({inside}, {y}, {dtype.bits - 1}))"
        return f"torch.where({inside}, {function}({x}, torch.where({inside}, {y}, 0)), 0)"

    return code


def _round(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x = _tensor(writer, dtype, operands[0])
    decimals = operands[1].constant if len(operands) > 1 and operands[1] is not None else 0
    if not isinstance(decimals, int):
        raise NotLowerable("it rounds to a varying number of decimals")
    if not dtype.is_floating:
        return x
    if not decimals:
        return f"torch.round({x})"
    scale = repr(10.0 ** abs(decimals))
    up, down = ("*", "/") if decimals > 0 else ("/", "*")
    return f"(torch.round({x} {up} {scale}) {down} {scale})"


def _ldexp(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x, n = (_tensor(writer, dtype, operand) for operand in operands)
    half = writer.let(f"torch.trunc({n} * 0.5)")
    return f"({x} * torch.exp2({half}) * torch.exp2({n} - {half}))"


def _log(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    logs = [f"torch.log({_tensor(writer, dtype, operand)})" for operand in operands]
    return f"torch.div({logs[0]}, {logs[1]})" if len(logs) == 2 else logs[0]


def _scaled(factor: float) -> Code:
    return lambda writer, dtype, operands: f"({_tensor(writer, dtype, operands[0])} * {factor!r})"


# ------------------------------------------------------------------------------------ numjit.math


def _clamp(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x = _tensor(writer, dtype, operands[0])
    low, high = operands[1:]
    bounds = [bound for bound in (low, high) if bound is not None]
    if all(bound.constant is not None and bound.constant == bound.constant for bound in bounds):
        named = [f"{name}={b.code}" for name, b in (("min", low), ("max", high)) if b is not None]
        return f"torch.clamp({x}, {', '.join(named)})"
    if low is not None:
        x = f"torch.maximum({x}, {_tensor(writer, dtype, low)})"
    return x if high is None else f"torch.minimum({x}, {_tensor(writer, dtype, high)})"


def _where(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    condition, yes, no = operands
    assert condition is not None
    return f"torch.where({condition.code}, {_tensor(writer, dtype, yes)}, {_tensor(writer, dtype, no)})"


def _logit(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x = _tensor(writer, dtype, operands[0])
    if operands[1] is not None:
        low = _tensor(writer, dtype, operands[1])
        x = writer.let(f"torch.minimum(torch.maximum({x}, {low}), 1.0 - {low})")
    return f"torch.log({x} / (1.0 - {x}))"


def _softplus(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x, beta, threshold = (_tensor(writer, dtype, operand) for operand in operands)
    scaled = writer.let(f"({x} * {beta})")
    # The large ones are kept out of exp, which would overflow in its gradient.
    is_large = writer.let(f"({scaled} > {threshold})")
    smooth = f"torch.log1p(torch.exp(torch.where({is_large}, 0.0, {scaled}))) / {beta}"
    return f"torch.where({is_large}, {x}, {smooth})"


def _i0(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x = _tensor(writer, dtype, operands[0])
    return f"torch.where(torch.isinf({x}), torch.abs({x}), torch.i0({x}))"


def _i1(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x = _tensor(writer, dtype, operands[0])
    return f"torch.where(torch.isinf({x}), {x}, torch.special.i1({x}))"


def _question(name: str, of_integers: str) -> Code:
    def code(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
        if dtype.kind in "fc":
            return _call(name)(writer, dtype, operands)
        return f"torch.full_like({_tensor(writer, dtype, operands[0])}, {of_integers}, dtype=torch.bool)"

    return code


def _sign(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x = _tensor(writer, dtype, operands[0])
    return x if dtype.kind == "b" else f"torch.{'sgn' if dtype.is_complex else 'sign'}({x})"


def _nextafter(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    if dtype.itemsize < 4:
        raise NotLowerable(f"it takes the neighbour of a {dtype} value")
    return _call("nextafter")(writer, dtype, operands)


def _absolute(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    return (_identity if dtype.kind in "bu" else _call("abs"))(writer, dtype, operands)


# ---------------------------------------------------------------------------------------- complex


def _complex(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x = _tensor(writer, dtype, operands[0])
    if len(operands) == 1:
        return x
    y = _tensor(writer, dtype, operands[1])
    return f"torch.complex(torch.real({x}) - torch.imag({y}), torch.imag({x}) + torch.real({y}))"


def _rect(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    size, angle = (writer.let(f"torch.real({_tensor(writer, dtype, operand)})") for operand in operands)
    return f"torch.complex({size} * torch.cos({angle}), {size} * torch.sin({angle}))"


def _part(name: str) -> Code:
    def code(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
        x = _tensor(writer, dtype, operands[0])
        if not dtype.is_complex:
            return x if name == "real" else f"torch.zeros_like({x})"
        return f"torch.{name}({x})"

    return code


def _conjugate(writer: Writer, dtype: DType, operands: Sequence[Operand | None]) -> str:
    x = _tensor(writer, dtype, operands[0])
    return f"torch.conj_physical({x})" if dtype.is_complex else x


# -------------------------------------------------------------------------------------- the table


def _table() -> dict[Any, Code]:
    table: dict[Any, Code] = {
        operator.pos: _identity,
        operator.neg: _call("neg"),
        operator.invert: _call("bitwise_not"),
        operator.not_: _call("logical_not"),
        abs: _absolute,
        max: _fold(_call("maximum")),
        min: _fold(_call("minimum")),
        sum: _fold(_infix("+", "logical_or")),
        pow: _power,
        round: _round,
        float: _identity,
        int: _identity,
        complex: _complex,
    }
    truth: Code = lambda writer, dtype, operands: (  # noqa: E731
        _identity(writer, dtype, operands)
        if dtype.kind == "b"
        else f"({_tensor(writer, dtype, operands[0])} != 0)"
    )
    table[bool] = table[operator.truth] = truth
    for name, code in {
        "add": _infix("+", "logical_or"), "sub": _infix("-"), "mul": _infix("*", "logical_and"),
        "truediv": _divide, "floordiv": _floor_divide, "mod": _remainder("remainder"), "pow": _power,
        "and_": _infix("&"), "or_": _infix("|"), "xor": _infix("^"), "lshift": _shift("left_shift"),
        "rshift": _shift("right_shift"),
    }.items():  # fmt: skip
        table[getattr(operator, name)] = code
    for name, symbol in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")):
        table[getattr(operator, name)] = _comparison(symbol)

    one = "exp exp2 expm1 log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
    for name in f"{one} erf erfc lgamma".split():
        table[getattr(math, name)] = table[getattr(numjit_math, name)] = _call(name)
    for name in [
        "exp",
        "log10",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
    ]:
        table[getattr(cmath, name)] = _call(name)
    for name in ("sigmoid", "rsqrt", "sinc", "reciprocal", "angle", "erfinv", "digamma", "frac", "square"):
        table[getattr(numjit_math, name)] = _call(name)
    for name in ("logaddexp", "xlogy", "maximum", "minimum", "fmax", "fmin"):
        table[getattr(numjit_math, name)] = _call(name)
    for name, symbol in (("bitwise_and", "&"), ("bitwise_or", "|"), ("bitwise_xor", "^")):
        table[getattr(numjit_math, name)] = _infix(symbol)
    for name in ("atan2", "copysign"):
        table[getattr(math, name)] = table[getattr(numjit_math, name)] = _call(name)
    for name in ("floor", "ceil", "trunc"):
        table[getattr(math, name)] = table[getattr(numjit_math, name)] = _whole(name)
    for name, of_integers in (("isnan", "False"), ("isinf", "False"), ("isfinite", "True")):
        for module in (math, cmath, numjit_math):
            table[getattr(module, name)] = _question(name, of_integers)
    for name in ("isposinf", "isneginf"):
        table[getattr(numjit_math, name)] = _question(name, "False")
    for module in (math, numjit_math):
        table[module.hypot] = _fold(_call("hypot"))
        table[module.gcd] = _fold(_gcd)
        table[module.lcm] = _fold(_lcm)
        table[module.nextafter] = _nextafter
        table[module.ldexp] = _ldexp
    table[math.fmod] = table[numjit_math.fmod] = _remainder("fmod")
    table[math.fabs] = _call("abs")
    table[math.pow] = _power
    table[math.degrees], table[math.radians] = _scaled(180.0 / math.pi), _scaled(math.pi / 180.0)
    table[math.log] = table[cmath.log] = _log
    table[cmath.phase] = _call("angle")
    table[cmath.rect] = _rect
    table[numjit_math.log] = _call("log")
    table[numjit_math.round] = _round
    table[numjit_math.remainder] = _remainder("remainder")
    table[numjit_math.clamp] = _clamp
    table[numjit_math.where] = _where
    table[numjit_math.logit] = _logit
    table[numjit_math.softplus] = _softplus
    table[numjit_math.i0] = _i0
    table[BESSEL_I1] = _i1
    table[numjit_math.sign] = table[numjit_math.sgn] = _sign
    table[numjit_math.signbit] = _call("signbit")
    table[numjit_math.bitwise_not] = _call("bitwise_not")
    table[numjit_math.left_shift] = _shift("left_shift")
    table[numjit_math.right_shift] = _shift("right_shift")
    table[ATTRIBUTES["real"]], table[ATTRIBUTES["imag"]] = _part("real"), _part("imag")
    table[METHODS["conj"]] = table[METHODS["conjugate"]] = _conjugate
    return table


#: From an operation (the key of its rule, or the rule of an attribute) to its text.
CODES: dict[Any, Code] = _table()
