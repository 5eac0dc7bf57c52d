"""The rules of ``numjit.math``: functions of torch that Python's ``math`` lacks or answers otherwise.

Each is typed as torch types the function of the same name: integers become the default dtype where the
function is one of real numbers, and keep their dtype where it is not.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from numjit import dtypes
from numjit import math as numjit_math
from numjit.dtypes import DType
from numjit.functor.scalars import special
from numjit.functor.scalars.complex_math import TORCH_COMPLEX_FUNCTIONS
from numjit.functor.scalars.lowering import Emitter
from numjit.functor.scalars.rule import (
    Domain,
    Emit,
    Rule,
    any_dtype,
    as_bool,
    as_real,
    as_stored,
    floating,
    folded,
    formula,
    integral,
    integral_or_bool,
    math_call,
    move_to,
    ordered,
    promote_with,
    real_floating,
    real_number,
    refuse,
    rounding,
    simple,
)
from numjit.functor.scalars.types import Element, RefusalError, Strong, argument_type, representation
from numjit.semantics.promotion import result_type

__all__ = ["TORCH_RULES"]

I1 = ir.IntType(1)

# -------------------------------------------------------------------------------------------- domains


def _float_only(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute in the promoted dtype, which is a real float: torch does not convert integers here."""
    if not element.dtype.is_floating:
        raise refuse(name, element.dtype, "convert to a float first, float(x)")
    return element.dtype


def _ieee_only(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    dtype = _float_only(name, element, kinds)
    if dtype.itemsize == 1:
        raise refuse(name, dtype)
    return dtype


def _square(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    return promote_with(element, dtypes.int64)  # torch: x ** 2, so bools become integers


def _first(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    """Compute in the first operand's dtype; the others only say how."""
    own = argument_type(kinds[0])
    assert own is not None
    return real_number(name, Element(own.dtype, element.zero_dim, element.default_dtype), kinds)


def _first_floating(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    own = argument_type(kinds[0])
    assert own is not None
    return real_floating(name, Element(own.dtype, element.zero_dim, element.default_dtype), kinds)


def _softplus(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    own = argument_type(kinds[0])
    assert own is not None
    return _float_only(name, Element(own.dtype, element.zero_dim, element.default_dtype), kinds)


def _bounded(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    if all(kind == types.none for kind in kinds[1:]):
        raise RefusalError(f"{name} needs a bound: one of lo and hi must not be None")
    # torch takes bools with one bound (as maximum and minimum do), and refuses them with two.
    return (real_number if types.none not in kinds else ordered)(name, element, kinds)


# ------------------------------------------------------------------------------------------ emissions


def _either(name: str, real: Emit | None = None) -> Emit:
    """Emit a function of real or complex floats; the real one is a math function by default."""
    of_reals = real or math_call(name)

    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:
        if dtype.is_complex:
            return TORCH_COMPLEX_FUNCTIONS[name](emitter, dtype, values[0])
        return of_reals(emitter, dtype, values, literals)

    return emit


def _sign(emitter: Emitter, dtype: DType, x: Any) -> Any:
    """-1, 0 or 1; 0 for NaN, as torch's."""
    if dtype.kind == "b":
        return x
    zero, one = emitter.constant(dtype, 0), emitter.constant(dtype, 1)
    positive = emitter.builder.select(emitter.compare(">", dtype, x, zero), one, zero)
    if dtype.kind == "u":
        return positive
    return emitter.builder.select(emitter.compare("<", dtype, x, zero), emitter.constant(dtype, -1), positive)


def _signbit(emitter: Emitter, dtype: DType, x: Any) -> Any:
    if dtype.is_floating:
        bits = emitter.builder.bitcast(x, ir.IntType(dtype.bits))
        return emitter.builder.icmp_signed("<", bits, bits.type(0))
    if dtype.kind == "i":
        return emitter.compare("<", dtype, x, emitter.constant(dtype, 0))
    return I1(0)


def _class(name: str) -> Emit:
    """Emit ``isnan``, ``isinf`` or ``isfinite`` of any dtype."""

    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        if dtype.is_complex:
            parts = [emitter.math(name, dtype.real, part) for part in values[0]]
            return emitter.builder.and_(*parts) if name == "isfinite" else emitter.builder.or_(*parts)
        if dtype.is_floating:
            return emitter.math(name, dtype, values[0])
        return I1(name == "isfinite")

    return emit


def _infinite(sign: float) -> Callable[[Emitter, DType, Any], Any]:
    """Emit whether a real value is the infinity of a sign."""

    def emit(emitter: Emitter, dtype: DType, x: Any) -> Any:
        if not dtype.is_floating:
            return I1(0)
        return emitter.compare("==", dtype, x, emitter.constant(dtype, sign * float("inf")))

    return emit


def _clamp(emitter: Emitter, dtype: DType, x: Any, low: Any, high: Any) -> Any:
    """Apply the lower bound, then the upper one; NaN among x and the bounds gives NaN."""
    for symbol, bound in (("<", low), (">", high)):
        if bound is None:
            continue
        outside = emitter.compare(symbol, dtype, x, bound)
        if dtype.is_floating:
            is_nan = emitter.builder.fcmp_unordered("uno", bound, bound)
            is_bound_known = emitter.builder.fcmp_ordered("ord", x, x)
            outside = emitter.builder.or_(outside, emitter.builder.and_(is_nan, is_bound_known))
        x = emitter.builder.select(outside, bound, x)
    return x


def _ignoring_nan(symbol: str) -> Callable[[Emitter, DType, Any, Any], Any]:
    """Emit the larger or smaller of two numbers, where NaN only counts if both are."""

    def emit(emitter: Emitter, dtype: DType, x: Any, y: Any) -> Any:
        first = emitter.compare(symbol, dtype, x, y)
        if dtype.is_floating:
            first = emitter.builder.or_(first, emitter.builder.fcmp_unordered("uno", y, y))
        return emitter.builder.select(first, x, y)

    return emit


def _fmod(emitter: Emitter, dtype: DType, x: Any, y: Any) -> Any:
    """Remainder with the dividend's sign; an integer's by 0 is 0."""
    if dtype.is_floating:
        return emitter.math("fmod", dtype, x, y)
    b = emitter.builder
    zero, one = emitter.constant(dtype, 0), emitter.constant(dtype, 1)
    is_trivial = b.icmp_signed("==", y, zero)
    if dtype.kind == "i":  # the smallest integer by -1 would trap
        is_trivial = b.or_(is_trivial, b.icmp_signed("==", y, emitter.constant(dtype, -1)))
    safe = b.select(is_trivial, one, y)
    return b.select(is_trivial, zero, b.srem(x, safe) if dtype.kind == "i" else b.urem(x, safe))


def _round(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:
    """Round half to even, to a number of decimals that is known while compiling."""
    is_whole = literals[1] == 0
    return rounding("round")(emitter, dtype, values[:1] if is_whole else values, literals)


def _frac(emitter: Emitter, dtype: DType, x: Any) -> Any:
    return emitter.builder.fsub(x, emitter.math("trunc", dtype, x))


def _reciprocal(emitter: Emitter, dtype: DType, x: Any) -> Any:
    return emitter.builder.fdiv(emitter.constant(dtype, 1), x)


def _square_of(emitter: Emitter, dtype: DType, x: Any) -> Any:
    return emitter.mul(dtype, x, x)


def _angle(emitter: Emitter, dtype: DType, x: Any) -> Any:
    """Argument of a complex number; of a real one 0, pi or NaN."""
    if dtype.is_complex:
        return emitter.math("atan2", dtype.real, x[1], x[0])
    b = emitter.builder
    zero, pi = emitter.constant(dtype, 0), emitter.constant(dtype, 3.141592653589793)
    angle = b.select(b.fcmp_ordered("<", x, zero), pi, zero)
    return b.select(b.fcmp_unordered("uno", x, x), x, angle)


def _bitwise(name: str) -> Emit:
    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        return emitter.bitwise(name, *values)

    return emit


def _invert(emitter: Emitter, dtype: DType, x: Any) -> Any:  # noqa: ARG001
    return emitter.builder.not_(x)


# -------------------------------------------------------------------------------------------- where


@dataclasses.dataclass(frozen=True, eq=False)
class _Where(Rule):
    """``where(condition, yes, no)``: the condition has no say in the dtype."""

    def promote(self, kinds: Sequence[Any]) -> Element:
        condition = argument_type(kinds[0])
        if condition is None or condition.dtype not in (dtypes.bool_, dtypes.uint8):
            shown = kinds[0] if condition is None else condition.dtype
            raise RefusalError(
                f"the condition of {self.name} is {shown}, which is not supported, as torch refuses it; "
                "make it a bool, x != 0"
            )
        strong = isinstance(kinds[0], Strong)
        if strong and not any(isinstance(kind, Strong) for kind in kinds[1:]):
            numbers = [argument for kind in kinds[1:] if (argument := argument_type(kind)) is not None]
            if len(numbers) == len(kinds) - 1:
                default = kinds[0].default_dtype
                return Element(result_type(numbers, default), kinds[0].zero_dim, default)
        promoted = super().promote(kinds[1:])
        zero_dim = promoted.zero_dim and (not strong or kinds[0].zero_dim)
        return Element(promoted.dtype, zero_dim, promoted.default_dtype)

    def move(self, emitter: Emitter, kinds: Sequence[Any], values: Sequence[Any], domain: DType) -> list[Any]:
        own = representation(kinds[0])
        condition = emitter.truth(own, values[0])
        rest = zip(kinds[1:], values[1:], strict=True)
        return [condition, *(move_to(emitter, kind, value, domain) for kind, value in rest)]


def _emit_where(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return emitter.select(dtype, *values)


# ------------------------------------------------------------------------------------------ the table


def _rules() -> dict[Any, Rule]:
    table: dict[Any, Rule] = {}

    def add(name: str, emit: Emit, domain: Domain, cls: type[Rule] = Rule, **options: Any) -> None:
        function = getattr(numjit_math, name)
        signature = inspect.signature(function)
        count = len(signature.parameters)
        table[function] = cls(
            f"numjit.math.{name}", (count, count), emit, domain, signature=signature, **options
        )

    for name in sorted(TORCH_COMPLEX_FUNCTIONS.keys() - {"reciprocal", "rsqrt", "sgn", "sigmoid", "sinc"}):
        add(name, _either(name), floating)
    add("sigmoid", _either("sigmoid", formula(special.sigmoid)), floating)
    add("rsqrt", _either("rsqrt", formula(special.rsqrt)), floating)
    add("sinc", _either("sinc", formula(special.sinc)), floating)
    add("reciprocal", _either("reciprocal", formula(_reciprocal)), floating)
    add("angle", formula(_angle), floating, result=as_real)
    for name in ("erf", "erfc", "lgamma", "atan2", "copysign"):
        add(name, math_call(name), real_floating)
    for function in (special.erfinv, special.digamma, special.i0, special.xlogy, special.ldexp):
        add(function.__name__, formula(function), real_floating)
    add("logit", formula(special.logit), _first_floating)
    add("softplus", formula(special.softplus), _softplus)
    add("hypot", math_call("hypot"), _float_only)
    add("logaddexp", formula(special.logaddexp), _float_only)
    add("frac", formula(_frac), _float_only)
    add("nextafter", formula(special.nextafter), _ieee_only, sees=as_stored)
    add("fma", formula(special.fma), real_number)

    add("sign", formula(_sign), ordered)
    add("sgn", _either("sgn", formula(_sign)), any_dtype)
    add("square", formula(_square_of), _square)
    for name in ("floor", "ceil", "trunc"):
        add(name, rounding(name), real_number)
    add("round", _round, _first)
    add("fmod", formula(_fmod), real_number)
    add("remainder", simple(Emitter.mod), real_number)
    add("clamp", formula(_clamp), _bounded)
    add("maximum", folded(Emitter.extremum, ">"), ordered)
    add("minimum", folded(Emitter.extremum, "<"), ordered)
    add("fmax", formula(_ignoring_nan(">")), ordered)
    add("fmin", formula(_ignoring_nan("<")), ordered)
    add("gcd", folded(Emitter.gcd), integral)
    add("lcm", folded(special.lcm), integral)
    add("where", _emit_where, any_dtype, _Where)

    for name in ("isnan", "isinf", "isfinite"):
        add(name, _class(name), any_dtype, result=as_bool)
    add("isposinf", formula(_infinite(1.0)), ordered, result=as_bool)
    add("isneginf", formula(_infinite(-1.0)), ordered, result=as_bool)
    add("signbit", formula(_signbit), ordered, result=as_bool)

    for name in ("and", "or", "xor"):
        emit = _bitwise(name if name == "xor" else name + "_")
        add(f"bitwise_{name}", emit, integral_or_bool)
    add("bitwise_not", formula(_invert), integral_or_bool)
    add("left_shift", simple(Emitter.shift, "lshift"), integral)
    add("right_shift", simple(Emitter.shift, "rshift"), integral)
    return table


#: ``numjit.math``.
TORCH_RULES = _rules()
