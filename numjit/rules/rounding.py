"""Roundings, signs, and the neighbours and parts of floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from numjit import math as nm
from numjit.dtypes import DType
from numjit.rules import special
from numjit.rules import torch_text as text
from numjit.rules.arithmetic import first, flat
from numjit.rules.elementary import of_both, of_operand
from numjit.rules.entry import Entry, either, entry, math_rule, numjit_rule, std
from numjit.rules.lowering import Emitter
from numjit.rules.rule import (
    Rule,
    any_dtype,
    as_bool,
    as_real,
    as_stored,
    emitted,
    literal_of,
    math_call,
    number,
    ordered,
    python_number,
    python_real,
    real_floating,
    real_number,
    real_only,
    refuse,
    rounding,
    simple,
)
from numjit.rules.traced import Linear, Traced, call, where
from numjit.rules.types import Element, RefusalError, argument_type, unwrap
from numjit.semantics.category import Category

__all__ = ["ENTRIES"]

I1 = ir.IntType(1)
Operands = Sequence[text.Term | None]

# ----------------------------------------------------------------------------------------- roundings


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


def _first(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    """Compute in the first operand's dtype; the others only say how."""
    own = argument_type(kinds[0])
    assert own is not None
    return real_number(name, Element(own.dtype, element.zero_dim, element.default_dtype), kinds)


def _emit_round(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:
    """Round half to even, to a number of decimals that is known while compiling."""
    is_whole = literals[1] == 0
    return rounding("round")(emitter, dtype, values[:1] if is_whole else values, literals)


def _emit_frac(emitter: Emitter, dtype: DType, x: Any) -> Any:
    return emitter.builder.fsub(x, emitter.math("trunc", dtype, x))


def _whole_text(name: str) -> text.TorchForm:
    """Write a rounding, which leaves integers as they are."""
    return lambda writer, dtype, operands: (text.called(name) if dtype.is_floating else text.identity)(
        writer, dtype, operands[:1]
    )


def _round_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x = text.tensor(writer, dtype, operands[0])
    decimals = operands[1].constant if len(operands) > 1 and operands[1] is not None else 0
    if not isinstance(decimals, int):
        raise text.NotLowerable("it rounds to a varying number of decimals")
    if not dtype.is_floating:
        return x
    if not decimals:
        return f"torch.round({x})"
    scale = repr(10.0 ** abs(decimals))
    up, down = ("*", "/") if decimals > 0 else ("/", "*")
    return f"(torch.round({x} {up} {scale}) {down} {scale})"


def _roundings() -> list[Entry]:
    found = [
        entry(
            math_rule(name, rounding(name), real_number, numbers=python_real, whole=True),
            numjit_rule(name, rounding(name), real_number),
            derivative=flat,
            torch=_whole_text(name),
            cpp=std(name),
            note="integers stay as they are",
            slope="0",
            kinks="everywhere",
        )
        for name in ("floor", "ceil", "trunc")
    ]
    wholes = std("ilogb", "llrint", "llround", "lrint", "lround")
    return [
        *found,
        entry(
            {
                round: _Round(
                    "round()", (1, 2), rounding("round"), _rounded, numbers=_rounded_number, whole=True
                )
            },
            numjit_rule("round", _emit_round, _first),
            derivative=flat,
            torch=_round_text,
            cpp=std("rint", "nearbyint"),
            note="half to even; `decimals` must be a literal, and 0 for integers",
            slope="0",
            kinks="everywhere",
        ),
        entry(derivative=flat, cpp=std("round", "logb"), slope="0", kinks="everywhere"),
        entry(cpp=std("frexp", is_by_hand=True), slope="the power of two"),
        entry(cpp=wholes, slope="none: whole numbers"),
        entry(
            numjit_rule("frac", emitted(_emit_frac), real_only),
            derivative=first,
            torch=text.called("frac"),
            cpp=std("modf", is_by_hand=True),
            slope="1, as of the fraction of `modf`, whose whole part has 0",
            kinks="also at whole numbers",
        ),
    ]


# --------------------------------------------------------------------------------------------- signs


def _emit_sign(emitter: Emitter, dtype: DType, x: Any) -> Any:
    """-1, 0 or 1; 0 for NaN, as torch's."""
    if dtype.kind == "b":
        return x
    zero, one = emitter.constant(dtype, 0), emitter.constant(dtype, 1)
    positive = emitter.builder.select(emitter.compare(">", dtype, x, zero), one, zero)
    if dtype.kind == "u":
        return positive
    return emitter.builder.select(emitter.compare("<", dtype, x, zero), emitter.constant(dtype, -1), positive)


def _emit_signbit(emitter: Emitter, dtype: DType, x: Any) -> Any:
    if dtype.is_floating:
        bits = emitter.builder.bitcast(x, ir.IntType(dtype.bits))
        return emitter.builder.icmp_signed("<", bits, bits.type(0))
    if dtype.kind == "i":
        return emitter.compare("<", dtype, x, emitter.constant(dtype, 0))
    return I1(0)


def _abs(z: Traced) -> Any:
    if not z.is_complex:
        return call(nm.sign, z)
    unit = call(nm.sgn, z)
    return Linear(lambda t: (unit.conjugate() * t).real)


def _sgn(r: Traced, z: Traced) -> Any:
    if not z.is_complex:
        return None
    size = call(abs, z)
    return Linear(lambda t: where(size == 0, 0.0, (t - r * (r.conjugate() * t).real) / size))


def _copysign(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return lambda: call(nm.sign, x) * call(nm.copysign, 1.0, y), None


def _absolute_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    return (text.identity if dtype.kind in "bu" else text.called("abs"))(writer, dtype, operands)


def _sign_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x = text.tensor(writer, dtype, operands[0])
    return x if dtype.kind == "b" else f"torch.{'sgn' if dtype.is_complex else 'sign'}({x})"


def _signs() -> list[Entry]:
    copysign = math_call("copysign")
    magnitude = Rule("abs()", (1, 1), simple(Emitter.abs), number, as_real, numbers=python_number)
    return [
        entry(
            {abs: magnitude},
            math_rule("fabs", math_call("fabs"), real_floating),
            derivative=of_operand(_abs),
            torch=_absolute_text,
            cpp=std("fabs") + std("abs", has_single=False),
            complex_cpp="abs",
            slope="sign x; of complex numbers Re(conj(z) t) / |z|",
            kinks="0 at 0",
        ),
        entry(
            numjit_rule("sign", emitted(_emit_sign), ordered),
            derivative=flat,
            torch=_sign_text,
            note="0 for NaN",
            slope="0",
        ),
        entry(
            numjit_rule("sgn", either("sgn", emitted(_emit_sign)), any_dtype),
            derivative=of_both(_sgn),
            torch=_sign_text,
            note="of complex numbers `x / abs(x)`",
            slope="0; of complex numbers (t - r Re(conj(r) t)) / |z|",
            kinks="0 at 0",
        ),
        entry(
            math_rule("copysign", copysign, real_floating, (2, 2)),
            numjit_rule("copysign", copysign, real_floating),
            derivative=_copysign,
            torch=text.called("copysign"),
            cpp=std("copysign", operands=2),
            slope="by x: ±1, as the sign changes; by y: 0",
            kinks="0 at 0 and of NaN; of an infinite x ±1 (torch's is NaN)",
        ),
        entry(
            numjit_rule("signbit", emitted(_emit_signbit), ordered, result=as_bool),
            torch=text.called("signbit"),
            cpp=std("signbit", has_single=False),
            slope="none: a plain bool",
        ),
    ]


# ---------------------------------------------------------------------------------------- neighbours


def _ieee_floating(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    dtype = real_floating(name, element, kinds)
    if dtype.itemsize == 1:
        raise refuse(name, dtype)
    return dtype


def _ieee_only(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    dtype = real_only(name, element, kinds)
    if dtype.itemsize == 1:
        raise refuse(name, dtype)
    return dtype


def _nextafter(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return Linear(lambda t: where(x == y, 0.0, t)), None


def _nextafter_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    if dtype.itemsize < 4:
        raise text.NotLowerable(f"it takes the neighbour of a {dtype} value")
    return text.called("nextafter")(writer, dtype, operands)


def _neighbours() -> list[Entry]:
    neighbour = emitted(special.nextafter)
    return [
        entry(
            math_rule("nextafter", neighbour, _ieee_floating, (2, 2), sees=as_stored),
            numjit_rule("nextafter", neighbour, _ieee_only, sees=as_stored),
            derivative=_nextafter,
            torch=_nextafter_text,
            note="in steps of the dtype itself, float16 and bfloat16 too",
            slope="by x: 1; by y: 0",
            kinks="0 where x equals y",
        )
    ]


ENTRIES = [*_roundings(), *_signs(), *_neighbours()]
