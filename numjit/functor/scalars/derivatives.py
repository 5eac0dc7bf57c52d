"""The derivative of every rule, as a formula on traced scalars: conventions at kinks are torch's.

A formula takes the result and the operands (moved to the dtype that the operation computes in) and
answers, for each operand, by what a tangent is multiplied: a number, a scalar, None for a derivative of 0
that is known beforehand, or a `Linear` where it is no multiplication, as of complex numbers' parts. An
answer that costs something is a function that is called only where the operand has tangents. Because
formulas are made of rules themselves, they can be differentiated again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from numjit import math as nm
from numjit.functor.scalars import special
from numjit.functor.scalars.dual import REMEDY
from numjit.functor.scalars.rule import Rule, formula, real_floating
from numjit.functor.scalars.rules import RULES
from numjit.functor.scalars.tracing import Linear, Traced, call
from numjit.functor.scalars.types import RefusalError

__all__ = ["BESSEL_I1", "DERIVATIVES", "Derivative", "derivative_of"]

Formula = Callable[..., Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Derivative:
    """How the tangents of a rule's result follow from those of its operands.

    Attributes
    ----------
    formula
        See the module; None where there is no derivative.
    is_folded
        Whether the formula takes two operands of a rule that folds any number of them.
    is_choice
        Whether tangents are chosen by the rule itself, as values are (``where``).
    """

    formula: Formula | None
    is_folded: bool = False
    is_choice: bool = False


def where(condition: Traced, yes: Any, no: Any) -> Traced:
    """Choose between scalars without a branch."""
    return call(nm.where, condition, yes, no)


# ------------------------------------------------------------------------------- arithmetic, powers


def _add(r: Traced, *operands: Traced) -> Sequence[Any]:  # noqa: ARG001
    return (1,) * len(operands)


def _sub(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return 1, -1


def _mul(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return y, x


def _truediv(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return lambda: 1.0 / y, lambda: -(r / y)


def _mod(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return 1, lambda: -(x // y)


def _fmod(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return 1, lambda: -call(nm.trunc, x / y)


def _ieee_remainder(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return 1, lambda: -call(round, x / y)


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


def _fma(r: Traced, x: Traced, y: Traced, z: Traced) -> Sequence[Any]:  # noqa: ARG001
    return y, x, 1


def _ldexp(r: Traced, x: Traced, n: Traced) -> Sequence[Any]:  # noqa: ARG001
    return lambda: call(nm.exp2, n), lambda: r * math.log(2.0)


def _hypot(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:
    return lambda: x / r, lambda: y / r


def _atan2(r: Traced, y: Traced, x: Traced) -> Sequence[Any]:  # noqa: ARG001
    def over(part: Traced) -> Traced:
        size = call(nm.hypot, x, y)  # whose square may overflow, or vanish
        return where(size == 0, 0.0, part / size / size)

    return lambda: over(x), lambda: over(-y)


def _log(r: Traced, x: Traced, base: Traced | None = None) -> Sequence[Any]:
    if base is None:
        return (lambda: 1.0 / x,)
    logarithm = call(nm.log, base)
    return lambda: 1.0 / (x * logarithm), lambda: -(r / (base * logarithm))


# ------------------------------------------------------------------- choosing, signs and rounding


def _extremum(symbol: str) -> Formula:
    """Maximum and minimum: ties share the derivative, and NaN passes it to both, as torch.maximum's."""

    def rule(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
        def share(loses: Callable[[], Traced]) -> Linear:
            return Linear(lambda t: where(x == y, t * 0.5, where(loses(), 0.0, t)))

        if symbol == ">":
            return lambda: share(lambda: x < y), lambda: share(lambda: x > y)
        return lambda: share(lambda: x > y), lambda: share(lambda: x < y)

    return rule


def _ignoring_nan(symbol: str) -> Formula:
    """``fmax`` and ``fmin``: ties go to the first."""

    def rule(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
        def is_first() -> Traced:
            return (x >= y if symbol == ">" else x <= y) | call(nm.isnan, y)

        return (
            lambda: Linear(lambda t: where(is_first(), t, 0.0)),
            lambda: Linear(lambda t: where(is_first(), 0.0, t)),
        )

    return rule


def _clamp(r: Traced, x: Traced, low: Traced | None, high: Traced | None) -> Sequence[Any]:  # noqa: ARG001
    has_low, has_high = (bound is not None and bound.kind.name != "none" for bound in (low, high))

    def inside() -> Traced:
        above = x >= low if has_low else None
        below = x <= high if has_high else None
        return below if above is None else above if below is None else above & below  # type: ignore[return-value]

    def at_low() -> Traced:
        return (x < low) & (low < high) if has_high else x < low  # type: ignore[operator]

    def at_high() -> Traced:
        return (x > high) | (high < low) if has_low else x > high  # type: ignore[operator]

    return tuple(
        lambda holds=holds: Linear(lambda t: where(holds(), t, 0.0)) for holds in (inside, at_low, at_high)
    )


def _copysign(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return lambda: call(nm.sign, x) * call(nm.copysign, 1.0, y), None


def _nextafter(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return Linear(lambda t: where(x == y, 0.0, t)), None


def _flat(r: Traced, *operands: Traced) -> Sequence[Any]:  # noqa: ARG001
    """Answer a derivative of 0 wherever there is one."""
    return (None,) * len(operands)


def _first(r: Traced, x: Traced, *rest: Traced) -> Sequence[Any]:  # noqa: ARG001
    return 1, *(None for _ in rest)


# --------------------------------------------------------------------------------- one operand


def _one(derivative: Callable[[Traced, Traced], Any]) -> Formula:
    """Return the formula of a function of one operand: ``(result, operand) -> factor``."""
    return lambda r, x: (lambda: derivative(r, x),)


def _of_x(derivative: Callable[[Traced], Any]) -> Formula:
    return lambda r, x: (lambda: derivative(x),)  # noqa: ARG005


def _of_r(derivative: Callable[[Traced], Any]) -> Formula:
    return lambda r, x: (lambda: derivative(r),)  # noqa: ARG005


def _constant(factor: float) -> Formula:
    return lambda r, x: (factor,)  # noqa: ARG005


# Squares cancel beside 1; those of complex numbers overflow, and have the cuts of their roots elsewhere.


def _asin(x: Traced) -> Traced:
    if not x.is_complex:
        return call(nm.rsqrt, (1.0 - x) * (1.0 + x))
    return call(nm.rsqrt, 1.0 - x) * call(nm.rsqrt, 1.0 + x)


def _asinh(x: Traced) -> Traced:
    if x.is_complex:
        return _asin(x * 1j)
    return 1.0 / call(nm.hypot, x, 1.0)


def _acosh(x: Traced) -> Traced:
    if x.is_complex:
        return call(nm.rsqrt, x - 1.0) * call(nm.rsqrt, x + 1.0)
    size = call(abs, x)  # beside -1 as beside 1, as torch has it
    return call(nm.rsqrt, (size - 1.0) * (size + 1.0))


def _atan(x: Traced) -> Traced:
    return _atanh(x * 1j) if x.is_complex else 1.0 / (x * x + 1.0)


def _atanh(x: Traced) -> Traced:
    if not x.is_complex:
        return 1.0 / ((1.0 - x) * (1.0 + x))
    return (1.0 / (1.0 - x)) * (1.0 / (1.0 + x))


def _gaussian(factor: float) -> Formula:
    return _of_x(lambda x: call(nm.exp, -(x * x)) * (factor * 2.0 / math.sqrt(math.pi)))


def _logit(r: Traced, x: Traced, eps: Traced) -> Sequence[Any]:  # noqa: ARG001
    def slope() -> Traced:
        inner = 1.0 / (x * (1.0 - x))
        if eps.kind.name == "none":
            return where((x < 0) | (x > 1), math.nan, inner)
        return where((x < eps) | (x > 1.0 - eps), 0.0, inner)

    return slope, lambda: _refuse("numjit.math.logit", "eps")


def _softplus(r: Traced, x: Traced, beta: Traced, threshold: Traced) -> Sequence[Any]:
    def slope() -> Traced:
        return where(x * beta > threshold, 1.0, call(nm.sigmoid, x * beta))

    def by_beta() -> Traced:
        return where(x * beta > threshold, 0.0, (x * call(nm.sigmoid, x * beta) - r) / beta)

    return slope, by_beta, None


def _sinc(x: Traced) -> Any:
    """``(cos t - sin t / t) / x`` of ``t = pi x``, which cancels near 0: there it is the power series."""
    turned = x * math.pi
    far = (call(nm.cos, turned) - call(nm.sin, turned) / turned) / x
    square = turned * turned
    series = square * 0.0
    for n in range(10, 0, -1):
        series = series * square + (-1) ** n * 2 * n / math.factorial(2 * n + 1)
    return where(call(abs, turned) < 1.0, series * turned * math.pi, far)


def _xlogy(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return lambda: where((x == 0) & (y <= 0), 0.0, call(nm.log, y)), lambda: x / y


def _logaddexp(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return lambda: 1.0 / (1.0 + call(nm.exp, y - x)), lambda: 1.0 / (1.0 + call(nm.exp, x - y))


def _refuse(name: str, parameter: str) -> Any:
    raise RefusalError(f"{name} has no derivative by {parameter}; make it a number, {REMEDY}")


def trigamma(x: Traced) -> Traced:
    """Return the derivative of digamma: reflection, recurrence up to 6.5 and beyond, asymptotic series."""
    is_left = x < 0.5
    near = where(is_left, 1.0 - x, x)
    total = 1.0 / (near * near)
    for _ in range(5):
        near = near + 1.0
        total = total + 1.0 / (near * near)
    near = near + 1.0
    inverse = 1.0 / (near * near)
    series = inverse * (7 / 6) - 691 / 2730
    for bernoulli in (5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6):
        series = series * inverse + bernoulli
    total = total + (1.0 + 0.5 / near + inverse * series) / near
    sine = call(nm.sin, (x - call(round, x)) * math.pi)  # its sign has no say
    return where(is_left, (math.pi * math.pi) / (sine * sine) - total, total)


#: Bessel function I1, of which only derivatives are made.
BESSEL_I1 = Rule("the Bessel function I1", (1, 1), formula(special.i1), real_floating)


def _i1(r: Traced, x: Traced) -> Any:
    return where(call(abs, x) < 1e-30, 0.5, call(nm.i0, x) - r / x)


# --------------------------------------------------------------------------------- complex numbers


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


def _complex(r: Traced, x: Traced, *imag: Traced) -> Sequence[Any]:  # noqa: ARG001
    return 1, *(Linear(lambda t: call(complex, 0.0, t)) for _ in imag)


def _rect(r: Traced, size: Traced, angle: Traced) -> Sequence[Any]:  # noqa: ARG001
    def turn() -> Traced:
        return call(complex, call(nm.cos, angle.real), call(nm.sin, angle.real))

    return turn, lambda: r * 1j


# ------------------------------------------------------------------------------------- the table


def _table() -> dict[str, Derivative]:
    formulas: dict[str, Formula] = {
        "+": _add, "-": _sub, "*": _mul, "/": _truediv, "//": _flat, "%": _mod, "**": _pow, "pow()": _pow,
        "unary -": _constant(-1), "unary +": _first, "float()": _first, "abs()": _of_x(_abs),
        "round()": _flat, "complex()": _complex,
        "pow": _pow, "fma": _fma, "ldexp": _ldexp, "atan2": _atan2, "log": _log, "fmod": _fmod,
        "numjit.math.remainder": _mod, "math.remainder": _ieee_remainder, "copysign": _copysign,
        "nextafter": _nextafter, "frac": _first, "clamp": _clamp, "fmax": _ignoring_nan(">"),
        "fmin": _ignoring_nan("<"), "logit": _logit, "softplus": _softplus, "xlogy": _xlogy,
        "logaddexp": _logaddexp,
        **dict.fromkeys(("floor", "ceil", "trunc", "round", "sign"), _flat),
        "exp": _of_r(lambda r: r), "exp2": _of_r(lambda r: r * math.log(2.0)),
        "expm1": _of_r(lambda r: r + 1.0), "log2": _of_x(lambda x: (1.0 / x) * (1.0 / math.log(2.0))),
        "log10": _of_x(lambda x: (1.0 / x) * (1.0 / math.log(10.0))),
        "log1p": _of_x(lambda x: 1.0 / (x + 1.0)),
        "sqrt": _of_r(lambda r: 0.5 / r), "rsqrt": _of_r(lambda r: r * r * r * -0.5),
        "cbrt": _of_r(lambda r: 1.0 / (r * r * 3.0)), "square": _of_x(lambda x: x * 2.0),
        "reciprocal": _of_r(lambda r: -(r * r)), "fabs": _of_x(_abs),
        "sin": _of_x(lambda x: call(nm.cos, x)), "cos": _of_x(lambda x: -call(nm.sin, x)),
        "tan": _of_r(lambda r: r * r + 1.0), "asin": _of_x(_asin),
        "acos": _of_x(lambda x: -_asin(x)), "atan": _of_x(_atan),
        "sinh": _of_x(lambda x: call(nm.cosh, x)), "cosh": _of_x(lambda x: call(nm.sinh, x)),
        "tanh": _of_r(lambda r: 1.0 - r * r), "asinh": _of_x(_asinh),
        "acosh": _of_x(_acosh), "atanh": _of_x(_atanh),
        "degrees": _constant(180.0 / math.pi), "radians": _constant(math.pi / 180.0),
        "erf": _gaussian(1.0), "erfc": _gaussian(-1.0),
        "erfinv": _of_r(lambda r: call(nm.exp, r * r) * (0.5 * math.sqrt(math.pi))),
        "gamma": _one(lambda r, x: r * call(nm.digamma, x)),
        "lgamma": _of_x(lambda x: call(nm.digamma, x)), "digamma": _of_x(trigamma),
        "i0": _of_x(lambda x: x.tracer.apply(BESSEL_I1, x)), "the Bessel function I1": _one(_i1),
        "sigmoid": _of_r(lambda r: (1.0 - r) * r), "sinc": _of_x(_sinc), "sgn": _one(_sgn),
        "angle": _of_x(_angle), "phase": _of_x(_angle), "rect": _rect,
        ".real": _of_x(_real), ".imag": _of_x(_imag), ".conjugate()": _of_x(_conjugate),
        ".conj()": _of_x(_conjugate),
    }  # fmt: skip
    table = {name: Derivative(made) for name, made in formulas.items()}
    for name, symbol in (("max()", ">"), ("min()", "<"), ("maximum", ">"), ("minimum", "<")):
        table[name] = Derivative(_extremum(symbol), is_folded=True)
    table["hypot"] = Derivative(_hypot, is_folded=True)
    table["sum()"] = Derivative(_add)
    table["where"] = Derivative(_flat, is_choice=True)
    return table


#: Formulas by rules' names; one for ``math``, ``cmath`` and ``numjit.math`` where these agree.
DERIVATIVES = _table()
_NONE = Derivative(None)


def derivative_of(rule: Rule) -> Derivative:
    """Return the derivative of a rule, whose formula is None where there is none."""
    name = rule.name
    return DERIVATIVES.get(name) or DERIVATIVES.get(name.rpartition("math.")[2], _NONE)


#: Rules whose results are bools or integers, so that there is nothing to differentiate.
WITHOUT = frozenset(rule.name for rule in RULES.values() if derivative_of(rule).formula is None)
