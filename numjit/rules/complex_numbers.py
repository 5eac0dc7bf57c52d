"""Parts, angles and makers of complex numbers: functions of them that are not analytic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numjit import math as nm
from numjit.dtypes import DType
from numjit.rules import torch_text as text
from numjit.rules.elementary import of_operand
from numjit.rules.entry import Entry, cmath_rule, entry, numjit_rule
from numjit.rules.lowering import Emitter
from numjit.rules.rule import Rule, any_dtype, as_real, complex_floating, emitted, floating
from numjit.rules.traced import Linear, Traced, call, where
from numjit.rules.types import Element, RefusalError

__all__ = ["ENTRIES"]

Operands = Sequence[text.Term | None]


def _from_polar(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    if element.dtype.is_complex:
        raise RefusalError(f"{name} of {element.dtype} is not supported; it takes a magnitude and an angle")
    return complex_floating(name, element, kinds)


# ------------------------------------------------------------------------------------------ emissions


def _emit_complex(emitter: Emitter, dtype: DType, *values: Any) -> Any:
    if len(values) == 1:
        return values[0]
    (real, over), (imag, extra) = values  # complex(x, y) is x + y*1j, whatever x and y are
    is_real = emitter.compare("==", dtype.real, over, emitter.constant(dtype.real, 0))
    total = emitter.builder.fadd(over, imag)  # of which 0 would take the sign of another zero
    return emitter.builder.fsub(real, extra), emitter.builder.select(is_real, imag, total)


def _emit_rect(emitter: Emitter, dtype: DType, size: Any, angle: Any) -> Any:
    parts = [emitter.math(name, dtype.real, angle[0]) for name in ("cos", "sin")]
    return tuple(emitter.builder.fmul(size[0], part) for part in parts)


def _emit_real(emitter: Emitter, dtype: DType, x: Any) -> Any:  # noqa: ARG001
    return x[0] if dtype.is_complex else x


def _emit_imag(emitter: Emitter, dtype: DType, x: Any) -> Any:
    return x[1] if dtype.is_complex else emitter.constant(dtype, 0)


def _emit_conjugate(emitter: Emitter, dtype: DType, x: Any) -> Any:
    return (x[0], emitter.neg(dtype.real, x[1])) if dtype.is_complex else x


def _emit_angle(emitter: Emitter, dtype: DType, x: Any) -> Any:
    """Argument of a complex number; of a real one 0, pi or NaN."""
    if dtype.is_complex:
        return emitter.math("atan2", dtype.real, x[1], x[0])
    b = emitter.builder
    zero, pi = emitter.constant(dtype, 0), emitter.constant(dtype, 3.141592653589793)
    angle = b.select(b.fcmp_ordered("<", x, zero), pi, zero)
    return b.select(b.fcmp_unordered("uno", x, x), x, angle)


# ---------------------------------------------------------------------------------------- derivatives


def _complex(r: Traced, x: Traced, *imag: Traced) -> Sequence[Any]:  # noqa: ARG001
    return 1, *(Linear(lambda t: call(complex, 0.0, t)) for _ in imag)


def _rect(r: Traced, size: Traced, angle: Traced) -> Sequence[Any]:  # noqa: ARG001
    def turn() -> Traced:
        return call(complex, call(nm.cos, angle.real), call(nm.sin, angle.real))

    return turn, lambda: r * 1j


def _real(z: Traced) -> Any:
    return Linear(lambda t: t.real) if z.is_complex else 1


def _imag(z: Traced) -> Any:
    return Linear(lambda t: t.imag) if z.is_complex else None


def _conjugate(z: Traced) -> Any:
    return Linear(lambda t: t.conjugate()) if z.is_complex else 1


def _angle(z: Traced) -> Any:
    if not z.is_complex:
        return None
    size = call(abs, z)  # whose square may overflow, or vanish
    unit = call(nm.sgn, z)
    return Linear(lambda t: where(size == 0, 0.0, (unit.real * t.imag - unit.imag * t.real) / size))


# ---------------------------------------------------------------------------------------- over tensors


def _complex_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x = text.tensor(writer, dtype, operands[0])
    if len(operands) == 1:
        return x
    y = text.tensor(writer, dtype, operands[1])
    over, imag = (writer.let(part) for part in (f"torch.imag({x})", f"torch.real({y})"))
    return (
        f"torch.complex(torch.real({x}) - torch.imag({y}), torch.where({over} == 0, {imag}, {over} + {imag}))"
    )


def _rect_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    size, angle = (writer.let(f"torch.real({text.tensor(writer, dtype, operand)})") for operand in operands)
    return f"torch.complex({size} * torch.cos({angle}), {size} * torch.sin({angle}))"


def _part_text(name: str) -> text.TorchForm:
    def code(writer: text.Writer, dtype: DType, operands: Operands) -> str:
        x = text.tensor(writer, dtype, operands[0])
        if not dtype.is_complex:
            return x if name == "real" else f"torch.zeros_like({x})"
        return f"torch.{name}({x})"

    return code


def _conjugate_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x = text.tensor(writer, dtype, operands[0])
    return f"torch.conj_physical({x})" if dtype.is_complex else x


def _entries() -> list[Entry]:
    conjugate = emitted(_emit_conjugate)
    return [
        entry(
            {complex: Rule("complex()", (1, 2), emitted(_emit_complex), complex_floating)},
            derivative=_complex,
            torch=_complex_text,
            slope="by x: t; by y: i t",
        ),
        entry(
            cmath_rule("rect", emitted(_emit_rect), _from_polar, (2, 2)),
            derivative=_rect,
            torch=_rect_text,
            slope="of `rect(r, phi)`: exp(i phi), i times the result",
        ),
        entry(
            cmath_rule("phase", emitted(_emit_angle), complex_floating, result=as_real),
            numjit_rule("angle", emitted(_emit_angle), floating, result=as_real),
            derivative=of_operand(_angle),
            torch=text.called("angle"),
            complex_cpp="arg",
            note="of reals 0, pi or NaN",
            slope="0; of complex numbers Im(conj(z) t) / |z|²",
            kinks="0 at 0",
        ),
        entry(
            {".real": Rule(".real", (1, 1), emitted(_emit_real), any_dtype, as_real)},
            derivative=of_operand(_real),
            torch=_part_text("real"),
            slope="Re t",
        ),
        entry(
            {".imag": Rule(".imag", (1, 1), emitted(_emit_imag), any_dtype, as_real)},
            derivative=of_operand(_imag),
            torch=_part_text("imag"),
            slope="Im t",
        ),
        entry(
            {
                f".{name}()": Rule(f".{name}()", (1, 1), conjugate, any_dtype)
                for name in ("conjugate", "conj")
            },
            derivative=of_operand(_conjugate),
            torch=_conjugate_text,
            slope="conj t",
        ),
    ]


ENTRIES = _entries()
