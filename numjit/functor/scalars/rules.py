"""What can be done with elements inside a Python functor: one table of typing and emission rules.

`RULES` maps Python's operators and functions to rules. A rule promotes its operands as torch does,
moves the common dtype into the *domain* that the operation computes in (``math.exp`` of integers:
the default dtype), emits the operation on compute-type values, and names the result's dtype. Both
Numba targets are served by the same table; a strong type other than `Element` would add its own way to
pass values through ``emit``.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Sequence
from typing import Any

from numjit import dtypes
from numjit.dtypes import DType
from numjit.functor.scalars import special
from numjit.functor.scalars.complex_math import COMPLEX_FUNCTIONS, power
from numjit.functor.scalars.lowering import Emitter
from numjit.functor.scalars.rule import (
    Domain,
    Emit,
    Rule,
    any_dtype,
    as_bool,
    as_real,
    as_stored,
    complex_floating,
    floating,
    folded,
    formula,
    identity,
    integral,
    integral_or_bool,
    literal_of,
    math_call,
    number,
    ordered,
    promote_with,
    python_integer,
    python_number,
    python_real,
    real_floating,
    real_number,
    refuse,
    rounding,
    simple,
)
from numjit.functor.scalars.signs import ALL, NATURAL, NEGATIVE, POSITIVE, ZERO, natural_power, negative_power
from numjit.functor.scalars.torch_rules import TORCH_RULES
from numjit.functor.scalars.types import Element, RefusalError, Strong, argument_type, unwrap
from numjit.semantics.category import Category

__all__ = ["ATTRIBUTES", "METHODS", "RULES", "Rule"]

# -------------------------------------------------------------------------------------------- domains


def _difference(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    arguments = [argument_type(kind) for kind in kinds]
    if any(argument is not None and argument.dtype.kind == "b" for argument in arguments):
        raise refuse(name, dtypes.bool_, "use ^ or not")
    return element.dtype


def _compared(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    if name not in ("==", "!="):
        ordered(name, element, kinds)
    return element.dtype


def _summed(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    return promote_with(element, dtypes.int64)  # Python's sum starts from the int 0


def _stored_floating(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    dtype = real_floating(name, element, kinds)
    if dtype.itemsize == 1:
        raise refuse(name, dtype)
    return dtype


def _from_polar(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    if element.dtype.is_complex:
        raise RefusalError(f"{name} of {element.dtype} is not supported; it takes a magnitude and an angle")
    return complex_floating(name, element, kinds)


def _to_float(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if element.dtype.is_complex:
        raise RefusalError(f"{name} of {element.dtype} is not supported; use abs(x) or x.real")
    return promote_with(element, dtypes.float64)


def _to_int(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if element.dtype.is_complex:
        raise RefusalError(f"{name} of {element.dtype} is not supported; use x.real")
    return dtypes.uint64 if element.dtype is dtypes.uint64 else dtypes.int64


# ------------------------------------------------------------------------------------------ emissions


def _emit_bits(name: str) -> Emit:
    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        return emitter.bitwise(name, *values)

    return emit


def _power(signs: int) -> tuple[Domain, Domain]:
    """Return the domains of a power of elements, and of plain numbers alone.

    `signs` are those that an integer exponent may have: they decide the type of an int's power.
    """
    may_be_negative, may_be_positive = bool(signs & NEGATIVE), bool(signs & POSITIVE)

    def of_elements(name: str, element: Element, kinds: Sequence[Any]) -> DType:
        dtype = number(name, element, kinds)
        if dtype.is_integral and not may_be_positive and not isinstance(kinds[1], Strong):
            raise RefusalError(_NEGATIVE_POWER)
        return dtype

    def of_numbers(name: str, element: Element, kinds: Sequence[Any]) -> DType:
        dtype = python_number(name, element, kinds)
        exponent = argument_type(kinds[1])
        if not dtype.is_integral or exponent is None or exponent.dtype.kind == "b" or not may_be_negative:
            return dtype
        if may_be_positive:
            raise RefusalError(
                "an int to the power of an int that may be negative is an int or a float, and a functor must "
                "know which; make the base a float, 2.0 ** n (for an int: int(2.0 ** n), or 1 << n)"
            )
        return dtypes.float64

    return of_elements, of_numbers


_NEGATIVE_POWER = (
    "integers to negative integer powers are not supported, as torch refuses them; make the base a float, "
    "float(x) ** n"
)


def _emit_pow(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:
    exponent = literals[1]
    if exponent is not None and exponent < 0 and dtype.is_integral:
        raise RefusalError(_NEGATIVE_POWER)
    if dtype.is_complex:
        found = None if exponent is None else emitter.literal_pow(dtype, values[0], exponent)
        return power(emitter, dtype, *values) if found is None else found
    return emitter.pow(dtype, values[0], values[1], exponent)


def _emit_invert(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return emitter.builder.not_(values[0])


def _emit_truth(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return emitter.truth(dtype, values[0])


def _emit_not(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return emitter.builder.not_(emitter.truth(dtype, values[0]))


def _emit_scaled(factor: float) -> Emit:
    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        return emitter.builder.fmul(values[0], emitter.constant(dtype, factor))

    return emit


def _emit_cmath(name: str) -> Emit:
    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        return COMPLEX_FUNCTIONS[name](emitter, dtype, values[0])

    return emit


def _emit_complex_class(name: str) -> Emit:
    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        parts = [emitter.math(name, dtype.real, part) for part in values[0]]
        return emitter.builder.and_(*parts) if name == "isfinite" else emitter.builder.or_(*parts)

    return emit


def _emit_log(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    """Logarithm, natural or to a base."""
    found = [
        COMPLEX_FUNCTIONS["log"](emitter, dtype, value)
        if dtype.is_complex
        else emitter.math("log", dtype, value)
        for value in values
    ]
    return emitter.truediv(dtype, *found) if len(found) == 2 else found[0]


def _emit_rect(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    (size, _), (angle, _) = values
    parts = [emitter.math(name, dtype.real, angle) for name in ("cos", "sin")]
    return tuple(emitter.builder.fmul(size, part) for part in parts)


def _emit_phase(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return emitter.math("atan2", dtype.real, values[0][1], values[0][0])


def _emit_complex(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    if len(values) == 1:
        return values[0]
    (real, over), (imag, extra) = values  # complex(x, y) is x + y*1j, whatever x and y are
    return emitter.builder.fsub(real, extra), emitter.builder.fadd(over, imag)


def _emit_real(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return values[0][0] if dtype.is_complex else values[0]


def _emit_imag(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return values[0][1] if dtype.is_complex else emitter.constant(dtype, 0)


def _emit_conjugate(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    if not dtype.is_complex:
        return values[0]
    return values[0][0], emitter.neg(dtype.real, values[0][1])


# ------------------------------------------------------------------------------------------ the table

_MANY = 255


def _operators() -> dict[Any, Rule]:
    table: dict[Any, Rule] = {}

    def binary(symbol: str, name: str, emit: Emit, domain: Domain, numbers: Domain | None = None) -> None:
        rule = Rule(symbol, (2, 2), emit, domain, numbers=numbers)
        table[getattr(operator, name)] = table[getattr(operator, "i" + name.rstrip("_"))] = rule

    binary("+", "add", simple(Emitter.add), any_dtype, python_number)
    binary("-", "sub", simple(Emitter.sub), _difference, python_number)
    binary("*", "mul", simple(Emitter.mul), any_dtype, python_number)
    binary("/", "truediv", simple(Emitter.truediv), floating)
    binary("//", "floordiv", simple(Emitter.floordiv), real_number, python_real)
    binary("%", "mod", simple(Emitter.mod), real_number, python_real)
    binary("**", "pow", _emit_pow, *_power(ALL))
    for operation, signs in ((natural_power, NATURAL), (negative_power, NEGATIVE | ZERO)):
        of_elements, of_numbers = _power(signs)
        table[operation] = Rule("**", (2, 2), _emit_pow, of_elements, numbers=of_numbers)
    for symbol, name in (("&", "and_"), ("|", "or_"), ("^", "xor")):
        binary(symbol, name, _emit_bits(name), integral_or_bool)
    for symbol, name in (("<<", "lshift"), (">>", "rshift")):
        binary(symbol, name, simple(Emitter.shift, name), integral, python_integer)
    for symbol, name in (("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge"), ("==", "eq"), ("!=", "ne")):
        emit = simple(Emitter.compare, symbol)
        table[getattr(operator, name)] = Rule(symbol, (2, 2), emit, _compared, as_bool)
    table[operator.neg] = Rule("unary -", (1, 1), simple(Emitter.neg), _difference, numbers=python_number)
    table[operator.pos] = Rule("unary +", (1, 1), identity, number, numbers=python_number)
    table[operator.invert] = Rule("~", (1, 1), _emit_invert, integral_or_bool, numbers=python_integer)
    table[operator.not_] = Rule("not", (1, 1), _emit_not, any_dtype, as_bool)
    table[operator.truth] = table[bool] = Rule("bool()", (1, 1), _emit_truth, any_dtype, as_bool)
    return table


def _builtins() -> dict[Any, Rule]:
    of_elements, of_numbers = _power(ALL)
    return {
        abs: Rule("abs()", (1, 1), simple(Emitter.abs), number, as_real, numbers=python_number),
        max: Rule("max()", (1, _MANY), folded(Emitter.extremum, ">"), ordered, spread=True),
        min: Rule("min()", (1, _MANY), folded(Emitter.extremum, "<"), ordered, spread=True),
        sum: Rule("sum()", (1, _MANY), folded(Emitter.add), _summed, spread=True),
        pow: Rule("pow()", (2, 2), _emit_pow, of_elements, numbers=of_numbers),
        round: _Round("round()", (1, 2), rounding("round"), _rounded, numbers=_rounded_number, whole=True),
        float: Rule("float()", (1, 1), identity, _to_float),
        int: Rule("int()", (1, 1), identity, _to_int),
        complex: Rule("complex()", (1, 2), _emit_complex, complex_floating),
    }


def _rounded(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    """Keep the dtype of the rounded operand; the number of digits has no say."""
    own = argument_type(unwrap(kinds[0]))
    if own is None or own.category is Category.NUMBER:
        raise RefusalError(f"{name} of a number to a varying number of digits is not supported")
    return real_number(name, Element(own.dtype, element.zero_dim, element.default_dtype), kinds)


class _Round(Rule):
    """``round()``, which leaves an int alone as it is for any number of decimals."""

    def lower(self, emitter: Emitter, kinds: Sequence[Any], values: Sequence[Any]) -> Any:
        own = argument_type(kinds[0])
        if len(kinds) == 1 or own is None or own.category is not Category.NUMBER or own.dtype.kind == "f":
            return super().lower(emitter, kinds, values)
        digits = literal_of(kinds[1], values[1])
        if not isinstance(digits, int) or digits < 0:
            raise RefusalError("round(n, digits) of an int needs digits that are a literal, and not negative")
        return super().lower(emitter, kinds[:1], values[:1])


def _rounded_number(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    own = argument_type(unwrap(kinds[0]))
    assert own is not None
    return python_real(name, Element(own.dtype, element.zero_dim, element.default_dtype), kinds)


def _math() -> dict[Any, Rule]:
    table: dict[Any, Rule] = {}
    one = (
        "exp exp2 expm1 log2 log10 log1p sqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh "
        "acosh atanh erf erfc gamma lgamma fabs"
    )
    for name in one.split():
        table[getattr(math, name)] = Rule(f"math.{name}", (1, 1), math_call(name), real_floating)
    for name in ("atan2", "fmod", "copysign", "remainder"):
        table[getattr(math, name)] = Rule(f"math.{name}", (2, 2), math_call(name), real_floating)
    table[math.log] = Rule("math.log", (1, 2), _emit_log, real_floating)
    hypot = folded(lambda emitter, dtype, x, y: emitter.math("hypot", dtype, x, y))
    table[math.hypot] = Rule("math.hypot", (2, _MANY), hypot, real_floating)
    table[math.ldexp] = Rule("math.ldexp", (2, 2), formula(special.ldexp), real_floating)
    for name in ("isnan", "isinf", "isfinite"):
        emit = math_call(name)
        table[getattr(math, name)] = Rule(f"math.{name}", (1, 1), emit, real_floating, as_bool)
    for name in ("floor", "ceil", "trunc"):
        function = getattr(math, name)
        table[function] = Rule(
            f"math.{name}", (1, 1), rounding(name), real_number, numbers=python_real, whole=True
        )
    table[math.degrees] = Rule("math.degrees", (1, 1), _emit_scaled(180.0 / math.pi), real_floating)
    table[math.radians] = Rule("math.radians", (1, 1), _emit_scaled(math.pi / 180.0), real_floating)
    table[math.pow] = Rule("math.pow", (2, 2), _emit_pow, real_floating)
    neighbour = formula(special.nextafter)
    table[math.nextafter] = Rule("math.nextafter", (2, 2), neighbour, _stored_floating, sees=as_stored)
    for name, emit in (("gcd", folded(Emitter.gcd)), ("lcm", folded(special.lcm))):
        function = getattr(math, name)
        table[function] = Rule(f"math.{name}", (1, _MANY), emit, integral, numbers=python_integer)
    if hasattr(math, "fma"):  # Python 3.13
        table[math.fma] = Rule("math.fma", (3, 3), math_call("fma"), real_floating)
    return table


def _cmath() -> dict[Any, Rule]:
    table: dict[Any, Rule] = {}
    for name in COMPLEX_FUNCTIONS:
        table[getattr(cmath, name)] = Rule(f"cmath.{name}", (1, 1), _emit_cmath(name), complex_floating)
    for name in ("isnan", "isinf", "isfinite"):
        emit = _emit_complex_class(name)
        table[getattr(cmath, name)] = Rule(f"cmath.{name}", (1, 1), emit, complex_floating, as_bool)
    table[cmath.log] = Rule("cmath.log", (1, 2), _emit_log, complex_floating)
    table[cmath.phase] = Rule("cmath.phase", (1, 1), _emit_phase, complex_floating, as_real)
    table[cmath.rect] = Rule("cmath.rect", (2, 2), _emit_rect, _from_polar)
    return table


#: Python's operators and functions on elements, and `numjit.math`.
RULES: dict[Any, Rule] = {**_operators(), **_builtins(), **_math(), **_cmath(), **TORCH_RULES}

#: Attributes of elements; those named in `METHODS` are called.
ATTRIBUTES: dict[str, Rule] = {
    "real": Rule(".real", (1, 1), _emit_real, any_dtype, as_real),
    "imag": Rule(".imag", (1, 1), _emit_imag, any_dtype, as_real),
}
METHODS: dict[str, Rule] = {
    "conjugate": Rule(".conjugate()", (1, 1), _emit_conjugate, any_dtype),
    "conj": Rule(".conj()", (1, 1), _emit_conjugate, any_dtype),
}
