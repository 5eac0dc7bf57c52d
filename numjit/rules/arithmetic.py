"""Python's operators on numbers, sums, powers and remainders."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from numjit import dtypes
from numjit import math as nm
from numjit.dtypes import DType
from numjit.rules import special
from numjit.rules import torch_text as text
from numjit.rules.complex_math import power
from numjit.rules.elementary import constant
from numjit.rules.entry import Entry, Name, entry, fast, math_rule, numjit_rule, std
from numjit.rules.lowering import Emitter
from numjit.rules.rule import (
    Domain,
    Emit,
    Rule,
    any_dtype,
    emitted,
    floating,
    folded,
    identity,
    integral,
    math_call,
    number,
    promote_with,
    python_integer,
    python_number,
    python_real,
    real_floating,
    real_number,
    refuse,
    simple,
)
from numjit.rules.signs import ALL, NATURAL, NEGATIVE, POSITIVE, ZERO, natural_power, negative_power
from numjit.rules.traced import Traced, call, where
from numjit.rules.types import Element, RefusalError, Strong, argument_type

__all__ = ["ENTRIES", "binary", "first", "flat"]

MANY = 255
Operands = Sequence[text.Term | None]


def binary(
    symbol: str, name: str, emit: Emit, domain: Domain, numbers: Domain | None = None
) -> dict[Any, Rule]:
    """Return the rule of one of Python's operators, and of its assignment."""
    rule = Rule(symbol, (2, 2), emit, domain, numbers=numbers)
    return {getattr(operator, name): rule, getattr(operator, "i" + name.rstrip("_")): rule}


def flat(r: Traced, *operands: Traced) -> Sequence[Any]:  # noqa: ARG001
    """Answer a derivative of 0 wherever there is one."""
    return (None,) * len(operands)


def first(r: Traced, x: Traced, *rest: Traced) -> Sequence[Any]:  # noqa: ARG001
    """Answer a derivative of 1 by the first operand alone."""
    return 1, *(None for _ in rest)


# ------------------------------------------------------------------------------ sums and products


def difference(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    """Compute in the promoted dtype; bools have no difference."""
    arguments = [argument_type(kind) for kind in kinds]
    if any(argument is not None and argument.dtype.kind == "b" for argument in arguments):
        raise refuse(name, dtypes.bool_, "use ^ or not")
    return element.dtype


def _summed(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    return promote_with(element, dtypes.int64)  # Python's sum starts from the int 0


def _add(r: Traced, *operands: Traced) -> Sequence[Any]:  # noqa: ARG001
    return (1,) * len(operands)


def _sub(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return 1, -1


def _mul(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return y, x


def _truediv(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return lambda: 1.0 / y, lambda: -(r / y)


def _fma(r: Traced, x: Traced, y: Traced, z: Traced) -> Sequence[Any]:  # noqa: ARG001
    return y, x, 1


def _divide_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x, y = operands
    if x is not None and x.constant == 1 and y is not None and y.is_tensor and not dtype.is_complex:
        return f"torch.reciprocal({y.code})"
    # A tensor as dividend, since Python's / of a number is a multiplication by the reciprocal.
    divisor = y.code if y is not None and y.constant is not None else text.tensor(writer, dtype, y)
    return f"torch.div({text.tensor(writer, dtype, x)}, {divisor})"


def _intrinsics(name: str) -> tuple[Name, ...]:
    return fast(f"__f{name}_rn", f"__d{name}_rn", operands=2)


def _sums() -> list[Entry]:
    multiplied = emitted(special.fma)
    return [
        entry(
            binary("+", "add", simple(Emitter.add), any_dtype, python_number),
            derivative=_add,
            torch=text.infix("+", "logical_or"),
            cpp=_intrinsics("add"),
            slope="1, 1",
        ),
        entry(
            {sum: Rule("sum()", (1, MANY), folded(Emitter.add), _summed, spread=True)},
            derivative=_add,
            torch=text.fold(text.infix("+", "logical_or")),
            slope="1",
        ),
        entry(
            binary("-", "sub", simple(Emitter.sub), difference, python_number),
            derivative=_sub,
            torch=text.infix("-"),
            cpp=_intrinsics("sub"),
            slope="1, -1",
        ),
        entry(
            {operator.neg: Rule("unary -", (1, 1), simple(Emitter.neg), difference, numbers=python_number)},
            derivative=constant(-1),
            torch=text.called("neg"),
            slope="-1",
        ),
        entry(
            {operator.pos: Rule("unary +", (1, 1), identity, number, numbers=python_number)},
            derivative=first,
            torch=text.identity,
            slope="1",
        ),
        entry(
            binary("*", "mul", simple(Emitter.mul), any_dtype, python_number),
            derivative=_mul,
            torch=text.infix("*", "logical_and"),
            cpp=_intrinsics("mul"),
            slope="y, x",
        ),
        entry(
            binary("/", "truediv", simple(Emitter.truediv), floating),
            derivative=_truediv,
            torch=_divide_text,
            cpp=_intrinsics("div") + fast("fdividef", "__fdividef", operands=2),
            complex_cpp="operator/",
            slope="1 / y, -r / y",
        ),
        entry(
            math_rule("fma", math_call("fma"), real_floating, (3, 3)),  # Python 3.13
            numjit_rule("fma", multiplied, real_number),
            derivative=_fma,
            cpp=std("fma", operands=3) + fast("__fmaf_rn", "__fma_rn", operands=3),
            note="floats are rounded once; torch has no such function",
            slope="y, x, 1",
        ),
    ]


# ---------------------------------------------------------------------------- quotients and remainders


def _mod(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return 1, lambda: -(x // y)


def _fmod(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return 1, lambda: -call(nm.trunc, x / y)


def _ieee_remainder(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:
    return 1, lambda: -call(round, (x - r) / y)  # x / y may round to another half


def _emit_fmod(emitter: Emitter, dtype: DType, x: Any, y: Any) -> Any:
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


def _is_plain_divisor(operand: text.Term | None) -> bool:
    return operand is not None and operand.constant is not None and operand.constant not in (0, -1)


def _floor_divide_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    """Integers: by 0 gives 0, by -1 negates with wrapping; torch raises, or even traps."""
    x, y = (text.tensor(writer, dtype, operand) for operand in operands)
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


def _remainder_text(name: str) -> text.TorchForm:
    """Write ``torch.remainder`` or ``torch.fmod``; an integer's by 0 is 0."""

    def code(writer: text.Writer, dtype: DType, operands: Operands) -> str:
        x, y = (text.tensor(writer, dtype, operand) for operand in operands)
        if dtype.is_floating:
            return f"torch.{name}({x}, {y})"
        if _is_plain_divisor(operands[1]):
            return f"torch.{name}({x}, {operands[1].code})"  # type: ignore[union-attr]
        trivial = writer.let(f"({y} == 0)" if dtype.kind == "u" else f"(({y} == 0) | ({y} == -1))")
        return f"torch.where({trivial}, 0, torch.{name}({x}, torch.where({trivial}, 1, {y})))"

    return code


def _gcd_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    """Write ``torch.gcd``, which of the smallest integer may be negative."""
    return f"{text.called('gcd')(writer, dtype, operands)}.abs()"


def _lcm_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    """Write ``torch.lcm``, which on a CPU ends the process where it divides the smallest number by -1."""
    if dtype.bits < 32:  # it computes those in 32 bits
        return text.called("lcm")(writer, dtype, operands)
    x, y = (writer.let(text.tensor(writer, dtype, operand)) for operand in operands)
    divisor = writer.let(f"torch.gcd({x}, {y}).abs()")
    divisor = writer.let(f"torch.where({divisor} == 0, 1, {divisor})")
    return f"(torch.div({x}, {divisor}, rounding_mode='trunc') * {y}).abs()"


def _quotients() -> list[Entry]:
    gcd, lcm = folded(Emitter.gcd), folded(special.lcm)
    return [
        entry(
            binary("//", "floordiv", simple(Emitter.floordiv), real_number, python_real),
            derivative=flat,
            torch=_floor_divide_text,
            slope="0",
            kinks='as `torch.div(..., rounding_mode="floor")`; torch\'s own `//` refuses',
        ),
        entry(
            binary("%", "mod", simple(Emitter.mod), real_number, python_real),
            numjit_rule("remainder", simple(Emitter.mod), real_number),
            derivative=_mod,
            torch=_remainder_text("remainder"),
            note="with the sign of y; an integer by 0 gives 0",
            slope="1, -(x // y)",
            kinks="also where the remainder jumps",
        ),
        entry(
            math_rule("fmod", math_call("fmod"), real_floating, (2, 2)),
            numjit_rule("fmod", emitted(_emit_fmod), real_number),
            derivative=_fmod,
            torch=_remainder_text("fmod"),
            cpp=std("fmod", operands=2),
            note="with the sign of x; an integer by 0 gives 0",
            slope="1, -trunc(x / y)",
            kinks="also where it jumps",
        ),
        entry(
            math_rule("remainder", math_call("remainder"), real_floating, (2, 2)),
            derivative=_ieee_remainder,
            cpp=std("remainder", operands=2),
            slope="1, -round((x - r) / y)",
            kinks="also where it jumps",
        ),
        entry(
            math_rule("gcd", gcd, integral, (1, MANY), numbers=python_integer),
            numjit_rule("gcd", gcd, integral),
            torch=text.fold(_gcd_text),
        ),
        entry(
            math_rule("lcm", lcm, integral, (1, MANY), numbers=python_integer),
            numjit_rule("lcm", lcm, integral),
            torch=text.fold(_lcm_text),
        ),
    ]


# --------------------------------------------------------------------------------------------- powers

_NEGATIVE_POWER = (
    "integers to negative integer powers are not supported, as torch refuses them; make the base a float, "
    "float(x) ** n"
)


def _domains(signs: int) -> tuple[Domain, Domain]:
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


def _emit_pow(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:
    exponent = literals[1]
    if exponent is not None and exponent < 0 and dtype.is_integral:
        raise RefusalError(_NEGATIVE_POWER)
    if dtype.is_complex:
        found = None if exponent is None else emitter.literal_pow(dtype, values[0], exponent)
        return power(emitter, dtype, *values) if found is None else found
    return emitter.pow(dtype, values[0], values[1], exponent)


def _pow(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:
    def by_base() -> Any:
        n = y.literal
        if n is None:
            return where(y == 0, 0.0, y * x ** (y - 1))
        if n in (0, 1):
            return int(n) or None
        return n * x ** (n - 1)

    def by_exponent() -> Any:
        is_safe = (y.real >= 0) & (y.imag == 0) if y.is_complex else y >= 0
        return where((x == 0) & is_safe, 0.0, r * call(nm.log, x))

    return by_base, by_exponent


def _power_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x, exponent = operands
    base = text.tensor(writer, dtype, x)
    n = None if exponent is None else exponent.constant
    if n is not None and not isinstance(n, complex):
        if n < 0 and dtype.is_integral:
            raise text.NotLowerable("it raises an integer to a negative integer power")
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
    return f"torch.pow({base}, {text.tensor(writer, dtype, exponent)})"


def _product(writer: text.Writer, base: str, times: int) -> str:
    """Square and multiply in numjit's order."""
    result, square = "", base
    while times:
        if times & 1:
            result = writer.let(f"({result} * {square})") if result else square
        times >>= 1
        if times:
            square = writer.let(f"({square} * {square})")
    return result


def _powers() -> list[Entry]:
    of_elements, of_numbers = _domains(ALL)
    signed = {}
    for operation, signs in ((natural_power, NATURAL), (negative_power, NEGATIVE | ZERO)):
        elements, numbers = _domains(signs)
        signed[operation] = Rule("**", (2, 2), _emit_pow, elements, numbers=numbers)
    return [
        entry(
            binary("**", "pow", _emit_pow, of_elements, of_numbers),
            signed,
            {pow: Rule("pow()", (2, 2), _emit_pow, of_elements, numbers=of_numbers)},
            math_rule("pow", _emit_pow, real_floating, (2, 2)),
            derivative=_pow,
            torch=_power_text,
            cpp=std("pow", operands=2) + fast("__powf", operands=2),
            complex_cpp="pow",
            slope="by x: y · x^(y-1); by y: r · log x",
            kinks="by x: 0 where y is 0; by y: 0 where x is 0 and y ≥ 0",
        )
    ]


ENTRIES = [*_sums(), *_quotients(), *_powers()]
