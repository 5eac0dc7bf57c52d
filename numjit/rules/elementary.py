"""Exponentials, logarithms, roots, trigonometry; most are analytic functions of complex numbers too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from numjit import dtypes
from numjit import math as nm
from numjit.dtypes import DType
from numjit.rules import special
from numjit.rules import torch_text as text
from numjit.rules.complex_math import COMPLEX_FUNCTIONS
from numjit.rules.entry import (
    Entry,
    Name,
    cmath_rule,
    complex_call,
    cuda,
    either,
    entry,
    fast,
    math_rule,
    numjit_rule,
    own,
    std,
)
from numjit.rules.lowering import Emitter
from numjit.rules.rule import (
    Emit,
    Rule,
    complex_floating,
    emitted,
    floating,
    folded,
    math_call,
    promote_with,
    real_floating,
    real_only,
)
from numjit.rules.traced import Formula, Traced, call, where
from numjit.rules.types import Element

__all__ = ["ENTRIES"]

LOG_2, LOG_10 = math.log(2.0), math.log(10.0)


def of_operand(derivative: Callable[[Traced], Any]) -> Formula:
    """Return the formula of a function of one operand: ``operand -> factor``."""
    return lambda r, x: (lambda: derivative(x),)  # noqa: ARG005


def of_result(derivative: Callable[[Traced], Any]) -> Formula:
    """Return the formula of a function of one operand: ``result -> factor``."""
    return lambda r, x: (lambda: derivative(r),)  # noqa: ARG005


def of_both(derivative: Callable[[Traced, Traced], Any]) -> Formula:
    """Return the formula of a function of one operand: ``(result, operand) -> factor``."""
    return lambda r, x: (lambda: derivative(r, x),)


def constant(factor: float) -> Formula:
    """Return the formula of a function that multiplies by a number."""
    return lambda r, x: (factor,)  # noqa: ARG005


def analytic(
    name: str,
    derivative: Formula,
    slope: str,
    modules: str = "math cmath numjit",
    real: Emit | None = None,
    cpp: tuple[Name, ...] = (),
    **rest: Any,
) -> Entry:
    """Return the entry of a function of one operand, real or complex.

    ``math``'s takes reals, ``cmath``'s answers complex numbers, and ``numjit.math``'s is that of its operand.
    What ``math`` has C++ has by the same name, as what ``cmath`` has of complex numbers.
    """
    rules: dict[Any, Rule] = numjit_rule(name, either(name, real), floating)
    if "cmath" in modules.split():
        rules = {**cmath_rule(name, complex_call(name), complex_floating), **rules}
        rest.setdefault("complex_cpp", name)
    if "math" in modules.split():
        rules = {**math_rule(name, real or math_call(name), real_floating), **rules}
        cpp = std(name) + cpp
    return entry(rules, derivative=derivative, torch=text.called(name), cpp=cpp, slope=slope, **rest)


# --------------------------------------------------------------------------- exponentials, logarithms


def _emit_log(emitter: Emitter, dtype: DType, *values: Any) -> Any:
    """Logarithm, natural or to a base."""
    found = [
        COMPLEX_FUNCTIONS["log"](emitter, dtype, value)
        if dtype.is_complex
        else emitter.math("log", dtype, value)
        for value in values
    ]
    return emitter.truediv(dtype, *found) if len(found) == 2 else found[0]


def _log(r: Traced, x: Traced, base: Traced | None = None) -> Sequence[Any]:
    if base is None:
        return (lambda: 1.0 / x,)
    logarithm = call(nm.log, base)
    return lambda: 1.0 / (x * logarithm), lambda: -(r / (base * logarithm))


def _log_text(writer: text.Writer, dtype: DType, operands: Sequence[text.Term | None]) -> str:
    logs = [f"torch.log({text.tensor(writer, dtype, operand)})" for operand in operands]
    return f"torch.div({logs[0]}, {logs[1]})" if len(logs) == 2 else logs[0]


def _exponentials() -> list[Entry]:
    of_log2 = of_operand(lambda x: (1.0 / x) * (1.0 / LOG_2))
    of_log10 = of_operand(lambda x: (1.0 / x) * (1.0 / LOG_10))
    of_log1p = of_operand(lambda x: 1.0 / (x + 1.0))
    here, pole = "math numjit", "infinite at the pole"
    of_exp10 = of_result(lambda r: r * LOG_10)
    return [
        analytic("exp", of_result(lambda r: r), "r", cpp=fast("__expf")),
        analytic("exp2", of_result(lambda r: r * LOG_2), "r log 2", here),
        entry(derivative=of_exp10, cpp=cuda("exp10") + fast("__exp10f"), slope="r log 10"),
        analytic("expm1", of_result(lambda r: r + 1.0), "r + 1", here),
        entry(
            math_rule("log", emitted(_emit_log), real_floating, (1, 2)),
            cmath_rule("log", emitted(_emit_log), complex_floating, (1, 2)),
            numjit_rule("log", either("log"), floating),
            derivative=_log,
            torch=_log_text,
            cpp=std("log") + fast("__logf"),
            complex_cpp="log",
            slope="1 / x",
            slope_python="of `log(x, base)` by x 1 / (x log base), by base -r / (base log base)",
            kinks=pole,
        ),
        analytic("log2", of_log2, "1 / (x log 2)", here, cpp=fast("__log2f"), complex_cpp="log2", kinks=pole),
        analytic("log10", of_log10, "1 / (x log 10)", cpp=fast("__log10f"), kinks=pole),
        analytic("log1p", of_log1p, "1 / (1 + x)", here, kinks=pole),
    ]


# ---------------------------------------------------------------------------------------------- roots


def _reciprocal(emitter: Emitter, dtype: DType, x: Any) -> Any:
    return emitter.builder.fdiv(emitter.constant(dtype, 1), x)


def _emit_square(emitter: Emitter, dtype: DType, x: Any) -> Any:
    return emitter.mul(dtype, x, x)


def _squared(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    return promote_with(element, dtypes.int64)  # torch: x ** 2, so bools become integers


def _hypot(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:
    return lambda: x / r, lambda: y / r


def _roots() -> list[Entry]:
    of_sqrt, of_rsqrt = of_result(lambda r: 0.5 / r), of_result(lambda r: r * r * r * -0.5)
    of_cbrt, of_rcbrt = of_result(lambda r: 1.0 / (r * r * 3.0)), of_result(lambda r: r * r * r * r / -3.0)
    of_reciprocal, inverse = of_result(lambda r: -(r * r)), emitted(_reciprocal)
    inverse_root, root = emitted(special.rsqrt), cuda("rsqrt") + fast("__frsqrt_rn")
    cube = math_rule("cbrt", math_call("cbrt"), real_floating)
    kinks = "infinite at 0; NaN at complex 0"
    return [
        analytic("sqrt", of_sqrt, "0.5 / r", cpp=fast("__fsqrt_rn"), kinks=kinks),
        analytic("rsqrt", of_rsqrt, "-0.5 r³", "numjit", inverse_root, root),
        entry(cube, derivative=of_cbrt, cpp=std("cbrt"), slope="1 / (3 r²)", kinks="infinite at 0"),
        entry(derivative=of_rcbrt, cpp=cuda("rcbrt"), slope="-r⁴ / 3"),
        entry(
            numjit_rule("square", emitted(_emit_square), _squared),
            derivative=of_operand(lambda x: x * 2.0),
            torch=text.called("square"),
            note="of bools an integer",
            slope="2 x",
        ),
        analytic("reciprocal", of_reciprocal, "-r²", "numjit", inverse, fast("__frcp_rn")),
        entry(
            math_rule("hypot", folded(_hypotenuse), real_floating, (2, 255)),
            numjit_rule("hypot", math_call("hypot"), real_only),
            derivative=_hypot,
            is_folded=True,
            torch=text.fold(text.called("hypot")),
            cpp=std("hypot", operands=2),
            slope="x / r, y / r",
            kinks="NaN at the origin",
        ),
        entry(
            derivative=lambda r, x, y: (lambda: -(x * r * r * r), lambda: -(y * r * r * r)),
            cpp=cuda("rhypot", operands=2),
            slope="-x r³, -y r³",
        ),
        entry(
            derivative=lambda r, x, y, z: (lambda: x / r, lambda: y / r, lambda: z / r),
            cpp=cuda("norm3d", operands=3),
            slope="x / r, y / r, z / r",
        ),
    ]


def _hypotenuse(emitter: Emitter, dtype: DType, x: Any, y: Any) -> Any:
    return emitter.math("hypot", dtype, x, y)


# -------------------------------------------------------------------------- trigonometry and hyperbolas

# Squares cancel beside 1; those of complex numbers overflow, and have the cuts of their roots elsewhere. A
# difference keeps the sign of an imaginary 0, which says on which side of a cut a number is; a sum may not.


def _asin(x: Traced) -> Traced:
    if not x.is_complex:
        return call(nm.rsqrt, (1.0 - x) * (1.0 + x))
    return call(nm.rsqrt, -(x - 1.0)) * call(nm.rsqrt, x - -1.0)


def _turned(x: Traced) -> Traced:
    """Return ``x * 1j``, with its zeros' signs."""
    return call(complex, -x.imag, x.real)


def _asinh(x: Traced) -> Traced:
    if x.is_complex:
        return _asin(_turned(x))
    return 1.0 / call(nm.hypot, x, 1.0)


def _acosh(x: Traced) -> Traced:
    if x.is_complex:
        return call(nm.rsqrt, x - 1.0) * call(nm.rsqrt, x - -1.0)
    size = call(abs, x)  # beside -1 as beside 1, as torch has it
    return call(nm.rsqrt, (size - 1.0) * (size + 1.0))


def _atan(x: Traced) -> Traced:
    return _atanh(_turned(x)) if x.is_complex else 1.0 / (x * x + 1.0)


def _atanh(x: Traced) -> Traced:
    if not x.is_complex:
        return 1.0 / ((1.0 - x) * (1.0 + x))
    return (1.0 / (1.0 - x)) * (1.0 / (1.0 + x))


def _atan2(r: Traced, y: Traced, x: Traced) -> Sequence[Any]:  # noqa: ARG001
    def over(part: Traced) -> Traced:
        size = call(nm.hypot, x, y)  # whose square may overflow, or vanish
        return where(size == 0, 0.0, part / size / size)

    return lambda: over(x), lambda: over(-y)


def _sinc(x: Traced) -> Any:
    """``(cos t - sin t / t) / x`` of ``t = pi x``, which cancels near 0: there it is the power series."""
    turned = x * math.pi
    far = (call(nm.cos, turned) - call(nm.sin, turned) / turned) / x
    square = turned * turned
    series = square * 0.0
    for n in range(10, 0, -1):
        series = series * square + (-1) ** n * 2 * n / math.factorial(2 * n + 1)
    return where(call(abs, turned) < 1.0, series * turned * math.pi, far)


def _emit_scaled(factor: float) -> Emit:
    return emitted(lambda emitter, dtype, x: emitter.builder.fmul(x, emitter.constant(dtype, factor)))


def _scaled(factor: float) -> text.TorchForm:
    return lambda writer, dtype, operands: f"({text.tensor(writer, dtype, operands[0])} * {factor!r})"


def _trigonometry() -> list[Entry]:
    cuts = "on a complex cut that of the side which a zero's sign says (torch's may be the other's)"
    sinc = "(πx cos πx - sin πx) / (πx²)"
    middle = "0 at 0, with the second derivative -π²/3 there (torch's is NaN)"
    found = [
        analytic(name, formula, slope, cpp=fast(*names.split()), kinks=kinks)
        for name, formula, slope, kinks, names in (
            ("sin", of_operand(lambda x: call(nm.cos, x)), "cos x", "", "__sinf"),
            ("cos", of_operand(lambda x: -call(nm.sin, x)), "-sin x", "", "__cosf"),
            ("tan", of_result(lambda r: r * r + 1.0), "1 + r²", "", "__tanf"),
            ("asin", of_operand(_asin), "1 / √(1 - x²)", f"infinite at ±1; {cuts}", ""),
            ("acos", of_operand(lambda x: -_asin(x)), "-1 / √(1 - x²)", f"infinite at ±1; {cuts}", ""),
            ("atan", of_operand(_atan), "1 / (1 + x²)", "", ""),
            ("sinh", of_operand(lambda x: call(nm.cosh, x)), "cosh x", "", ""),
            ("cosh", of_operand(lambda x: call(nm.sinh, x)), "sinh x", "", ""),
            ("tanh", of_result(lambda r: 1.0 - r * r), "1 - r²", "", ""),
            ("asinh", of_operand(_asinh), "1 / √(x² + 1)", cuts, ""),
            ("acosh", of_operand(_acosh), "1 / √(x² - 1); complex 1 / (√(x - 1) √(x + 1))", cuts, ""),
            ("atanh", of_operand(_atanh), "1 / (1 - x²)", "infinite at ±1", ""),
        )
    ]
    for name, other, factor in (("sinpi", "cospi", math.pi), ("cospi", "sinpi", -math.pi)):
        slope = f"{'-' if factor < 0 else ''}π {other} x"
        found.append(entry(derivative=of_operand(_other(other, factor)), cpp=cuda(name), slope=slope))
    both = cuda("sincos", "sincospi", is_by_hand=True) + fast("__sincosf", is_by_hand=True)
    found.append(entry(cpp=both, slope="as of the sine and the cosine"))
    angle = numjit_rule("atan2", math_call("atan2"), real_floating)
    return [
        *found,
        entry(
            math_rule("atan2", math_call("atan2"), real_floating, (2, 2)),
            angle,
            derivative=_atan2,
            torch=text.called("atan2"),
            cpp=std("atan2", operands=2),
            slope="of `atan2(y, x)`: x / (x² + y²), -y / (x² + y²)",
            kinks="0 at the origin",
        ),
        analytic(
            "sinc", of_operand(_sinc), sinc, "numjit", emitted(special.sinc), kinks=middle, cpp=own("sinc")
        ),
        *(
            entry(
                math_rule(name, _emit_scaled(factor), real_floating),
                derivative=constant(factor),
                torch=_scaled(factor),
                slope=shown,
            )
            for name, factor, shown in (
                ("degrees", 180.0 / math.pi, "180 / π"),
                ("radians", math.pi / 180.0, "π / 180"),
            )
        ),
    ]


def _other(name: str, factor: float) -> Callable[[Traced], Any]:
    return lambda x: call(name, x) * factor


ENTRIES = [*_exponentials(), *_roots(), *_trigonometry()]
