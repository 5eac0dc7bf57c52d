"""What can be done with elements inside a Python functor: one table of typing and emission rules.

`RULES` maps Python's operators and functions to rules. A rule promotes its operands as torch does,
moves the common dtype into the *domain* that the operation computes in (``math.exp`` of integers:
the default dtype), emits the operation on compute-type values, and names the result's dtype. Both
Numba targets are served by the same table; a strong type other than `Element` would add its own way to
pass values through ``emit``.
"""

from __future__ import annotations

import cmath
import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from numjit import dtypes
from numjit.dtypes import DType
from numjit.functor.scalars.complex_math import COMPLEX_FUNCTIONS
from numjit.functor.scalars.lowering import Emitter
from numjit.functor.scalars.types import (
    Element,
    RefusalError,
    Strong,
    argument_type,
    combine,
    representation,
    result_element,
    unwrap,
)
from numjit.functor.signature import ArgumentType
from numjit.semantics.category import Category

__all__ = ["ATTRIBUTES", "METHODS", "RULES", "Rule"]

#: The domain of an operation: ``(name, promoted operands, operand types) -> dtype computed in``.
Domain = Callable[[str, Element, Sequence[Any]], DType]
#: Emits an operation: ``(emitter, compute dtype, values, literals)``; a literal is None where unknown.
Emit = Callable[[Emitter, DType, Sequence[Any], Sequence[Any]], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """How one operation on scalars is typed and emitted.

    Attributes
    ----------
    name
        As users write it, for messages.
    arity
        Least and greatest number of operands.
    emit
        The operation on values of the domain's compute dtype.
    domain
        Where the operation computes, from the promoted operands.
    result
        The result's dtype from the domain's.
    spread
        Whether a tuple as first operand stands for its members (``max(t)``).
    """

    name: str
    arity: tuple[int, int]
    emit: Emit
    domain: Domain
    result: Callable[[DType], DType] = lambda dtype: dtype
    spread: bool = False

    def resolve(self, kinds: Sequence[Any]) -> tuple[DType, Element]:
        """Return the domain and the result's type for operands of Numba types `kinds`.

        Raises
        ------
        RefusalError
            torch refuses the operation, or it does not exist for these types.
        """
        if not self.arity[0] <= len(kinds) <= self.arity[1]:
            raise RefusalError(f"{self.name} does not take {len(kinds)} arguments")
        promoted = result_element(kinds)
        domain = self.domain(self.name, promoted, kinds)
        return domain, Element(self.result(domain), promoted.zero_dim, promoted.default_dtype)

    def lower(self, emitter: Emitter, kinds: Sequence[Any], values: Sequence[Any]) -> Any:
        """Emit the operation on values in Numba's representation of `kinds`; return it likewise."""
        literals = [_literal(kind, value) for kind, value in zip(kinds, values, strict=True)]
        domain, result = self.resolve(kinds)
        moved = []
        for kind, value in zip(kinds, values, strict=True):
            own = representation(kind)
            moved.append(emitter.convert(emitter.unpack(own, value), own, domain))
        return emitter.pack(result.dtype, self.emit(emitter, domain.compute, moved, literals))


def _literal(kind: Any, value: Any) -> Any:
    """Return the Python number behind a weak operand that is constant while compiling, else None."""
    if isinstance(kind, Strong) or not isinstance(value, ir.Constant):
        return None
    number = value.constant
    return number if isinstance(number, int | float) else None


# -------------------------------------------------------------------------------------------- domains


def _promote_with(element: Element, number: DType) -> DType:
    """Promote an element's dtype with a Python number of `number`'s kind."""
    own = ArgumentType(element.dtype, element.category)
    return combine(own, ArgumentType(number, Category.NUMBER), element.default_dtype).dtype


def _refuse(name: str, dtype: DType, remedy: str = "") -> RefusalError:
    return RefusalError(
        f"{name} of {dtype} is not supported, as torch refuses it{'; ' if remedy else ''}{remedy}"
    )


def _any(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    return element.dtype


def _number(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if element.dtype.kind == "b":
        raise _refuse(name, element.dtype)
    return element.dtype


def _difference(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    arguments = [argument_type(kind) for kind in kinds]
    if any(argument is not None and argument.dtype.kind == "b" for argument in arguments):
        raise _refuse(name, dtypes.bool_, "use ^ or not")
    return element.dtype


def _real_number(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    if element.dtype.is_complex:
        raise _refuse(name, element.dtype)
    return _number(name, element, kinds)


def _ordered(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if element.dtype.is_complex:
        raise _refuse(name, element.dtype, "complex numbers have no order")
    return element.dtype


def _compared(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    if name not in ("==", "!="):
        _ordered(name, element, kinds)
    return element.dtype


def _bits(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if element.dtype.kind in "fc":
        raise _refuse(name, element.dtype, "it needs integers or bools")
    return element.dtype


def _summed(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    return _promote_with(element, dtypes.int64)  # Python's sum starts from the int 0


def _integral(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if not element.dtype.is_integral:
        raise _refuse(name, element.dtype, "it needs integers")
    return element.dtype


def _floating(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    return _promote_with(element, dtypes.float64)


def _real_floating(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if element.dtype.is_complex:
        remedy = "; use cmath." + name.removeprefix("math.") if hasattr(cmath, name[5:]) else ""
        raise RefusalError(f"{name} of {element.dtype} is not supported{remedy}")
    return _promote_with(element, dtypes.float64)


def _wide_floating(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    dtype = _real_floating(name, element, kinds)
    if dtype.compute is not dtype:
        raise RefusalError(f"{name} of {dtype} is not supported; convert to float32 first")
    return dtype


def _complex(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    return _promote_with(element, dtypes.complex128)


def _to_float(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if element.dtype.is_complex:
        raise RefusalError(f"{name} of {element.dtype} is not supported; use abs(x) or x.real")
    return _promote_with(element, dtypes.float64)


def _to_int(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if element.dtype.is_complex:
        raise RefusalError(f"{name} of {element.dtype} is not supported; use x.real")
    return element.dtype if element.dtype.is_integral else dtypes.int64


def _as_bool(dtype: DType) -> DType:  # noqa: ARG001
    return dtypes.bool_


def _as_real(dtype: DType) -> DType:
    return dtype.real


# ------------------------------------------------------------------------------------------ emissions


def _simple(method: Callable[..., Any], *before: Any) -> Emit:
    """Emit an `Emitter` method that takes the dtype and every operand."""

    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        return method(emitter, *before, dtype, *values)

    return emit


def _folded(method: Callable[..., Any], *before: Any) -> Emit:
    """Emit a method of two operands over any number of them, from the left."""

    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        result = values[0]
        for value in values[1:]:
            result = method(emitter, *before, dtype, result, value)
        return result

    return emit


def _identity(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return values[0]


def _emit_bits(name: str) -> Emit:
    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        return emitter.bitwise(name, *values)

    return emit


def _emit_pow(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:
    exponent = literals[1]
    if exponent is not None and exponent < 0 and dtype.is_integral:
        raise RefusalError("integers to negative integer powers are not supported, as torch refuses them")
    return emitter.pow(dtype, values[0], values[1], exponent)


def _emit_invert(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return emitter.builder.not_(values[0])


def _emit_truth(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return emitter.truth(dtype, values[0])


def _emit_not(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    return emitter.builder.not_(emitter.truth(dtype, values[0]))


def _emit_rounding(name: str) -> Emit:
    """Round to integral values; integers stay as they are."""

    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:
        if len(values) == 2:
            return _round_decimals(emitter, dtype, values[0], literals[1])
        return emitter.math(name, dtype, values[0]) if dtype.is_floating else values[0]

    return emit


def _round_decimals(emitter: Emitter, dtype: DType, value: Any, decimals: Any) -> Any:
    """``torch.round(x, decimals=n)``, which scales, rounds and scales back."""
    if not isinstance(decimals, int):
        raise RefusalError("round(x, n) needs n to be known while compiling; write a literal")
    if not dtype.is_floating:
        raise RefusalError(f"round(x, n) of {dtype} is not supported, as torch refuses it; write round(x)")
    scale = emitter.constant(dtype, 10.0 ** abs(decimals))
    b = emitter.builder
    if decimals >= 0:
        return b.fdiv(emitter.math("round", dtype, b.fmul(value, scale)), scale)
    return b.fmul(emitter.math("round", dtype, b.fdiv(value, scale)), scale)


def _emit_math(name: str) -> Emit:
    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        return emitter.math(name, dtype, *values)

    return emit


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

    def binary(symbol: str, name: str, emit: Emit, domain: Domain, *, inplace: bool = True) -> None:
        rule = Rule(symbol, (2, 2), emit, domain)
        table[getattr(operator, name)] = rule
        if inplace:
            table[getattr(operator, "i" + name.rstrip("_"))] = rule

    binary("+", "add", _simple(Emitter.add), _any)
    binary("-", "sub", _simple(Emitter.sub), _difference)
    binary("*", "mul", _simple(Emitter.mul), _any)
    binary("/", "truediv", _simple(Emitter.truediv), _floating)
    binary("//", "floordiv", _simple(Emitter.floordiv), _real_number)
    binary("%", "mod", _simple(Emitter.mod), _real_number)
    binary("**", "pow", _emit_pow, _number)
    for symbol, name in (("&", "and_"), ("|", "or_"), ("^", "xor")):
        binary(symbol, name, _emit_bits(name), _bits)
    for symbol, name in (("<<", "lshift"), (">>", "rshift")):
        binary(symbol, name, _simple(Emitter.shift, name), _integral)
    for symbol, name in (("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge"), ("==", "eq"), ("!=", "ne")):
        emit = _simple(Emitter.compare, symbol)
        table[getattr(operator, name)] = Rule(symbol, (2, 2), emit, _compared, _as_bool)
    table[operator.neg] = Rule("unary -", (1, 1), _simple(Emitter.neg), _difference)
    table[operator.pos] = Rule("unary +", (1, 1), _identity, _number)
    table[operator.invert] = Rule("~", (1, 1), _emit_invert, _bits)
    table[operator.not_] = Rule("not", (1, 1), _emit_not, _any, _as_bool)
    table[operator.truth] = table[bool] = Rule("bool()", (1, 1), _emit_truth, _any, _as_bool)
    return table


def _builtins() -> dict[Any, Rule]:
    return {
        abs: Rule("abs()", (1, 1), _simple(Emitter.abs), _number, _as_real),
        max: Rule("max()", (1, _MANY), _folded(Emitter.extremum, ">"), _ordered, spread=True),
        min: Rule("min()", (1, _MANY), _folded(Emitter.extremum, "<"), _ordered, spread=True),
        sum: Rule("sum()", (1, _MANY), _folded(Emitter.add), _summed, spread=True),
        pow: Rule("pow()", (2, 2), _emit_pow, _number),
        round: Rule("round()", (1, 2), _emit_rounding("round"), _rounded),
        float: Rule("float()", (1, 1), _identity, _to_float),
        int: Rule("int()", (1, 1), _identity, _to_int),
        complex: Rule("complex()", (1, 2), _emit_complex, _complex),
    }


def _rounded(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    """Keep the dtype of the rounded operand; the number of digits has no say."""
    own = argument_type(unwrap(kinds[0]))
    if own is None or own.category is Category.NUMBER:
        raise RefusalError(f"{name} of a number to a varying number of digits is not supported")
    return _real_number(name, Element(own.dtype, element.zero_dim, element.default_dtype), kinds)


def _math() -> dict[Any, Rule]:
    table: dict[Any, Rule] = {}
    one = (
        "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh "
        "acosh atanh erf erfc gamma lgamma fabs"
    )
    for name in one.split():
        table[getattr(math, name)] = Rule(f"math.{name}", (1, 1), _emit_math(name), _real_floating)
    for name in ("atan2", "fmod", "hypot", "copysign", "remainder"):
        table[getattr(math, name)] = Rule(f"math.{name}", (2, 2), _emit_math(name), _real_floating)
    for name in ("isnan", "isinf", "isfinite"):
        emit = _emit_math(name)
        table[getattr(math, name)] = Rule(f"math.{name}", (1, 1), emit, _real_floating, _as_bool)
    for name in ("floor", "ceil", "trunc"):
        table[getattr(math, name)] = Rule(f"math.{name}", (1, 1), _emit_rounding(name), _real_number)
    table[math.degrees] = Rule("math.degrees", (1, 1), _emit_scaled(180.0 / math.pi), _real_floating)
    table[math.radians] = Rule("math.radians", (1, 1), _emit_scaled(math.pi / 180.0), _real_floating)
    table[math.pow] = Rule("math.pow", (2, 2), _emit_pow, _real_floating)
    table[math.nextafter] = Rule("math.nextafter", (2, 2), _emit_math("nextafter"), _wide_floating)
    table[math.gcd] = Rule("math.gcd", (1, _MANY), _folded(Emitter.gcd), _integral)
    if hasattr(math, "fma"):  # Python 3.13
        table[math.fma] = Rule("math.fma", (3, 3), _emit_math("fma"), _real_floating)
    return table


def _cmath() -> dict[Any, Rule]:
    table: dict[Any, Rule] = {}
    for name in COMPLEX_FUNCTIONS:
        table[getattr(cmath, name)] = Rule(f"cmath.{name}", (1, 1), _emit_cmath(name), _complex)
    for name in ("isnan", "isinf", "isfinite"):
        emit = _emit_complex_class(name)
        table[getattr(cmath, name)] = Rule(f"cmath.{name}", (1, 1), emit, _complex, _as_bool)
    table[cmath.phase] = Rule("cmath.phase", (1, 1), _emit_phase, _complex, _as_real)
    return table


#: Python's operators and functions on elements.
RULES: dict[Any, Rule] = {**_operators(), **_builtins(), **_math(), **_cmath()}

#: Attributes of elements; those named in `METHODS` are called.
ATTRIBUTES: dict[str, Rule] = {
    "real": Rule(".real", (1, 1), _emit_real, _any, _as_real),
    "imag": Rule(".imag", (1, 1), _emit_imag, _any, _as_real),
}
METHODS: dict[str, Rule] = {
    "conjugate": Rule(".conjugate()", (1, 1), _emit_conjugate, _any),
    "conj": Rule(".conj()", (1, 1), _emit_conjugate, _any),
}
