"""Functions of reals beyond the elementary ones: errors, gammas, Bessel, and those of machine learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numjit import math as nm
from numjit.dtypes import DType
from numjit.rules import special
from numjit.rules import torch_text as text
from numjit.rules.dual import REMEDY
from numjit.rules.elementary import LOG_2, analytic, of_both, of_operand, of_result
from numjit.rules.entry import Entry, cuda, entry, math_rule, numjit_rule, own, std
from numjit.rules.rule import Rule, emitted, math_call, real_floating, real_only
from numjit.rules.traced import Derivative, Formula, Traced, call, where
from numjit.rules.types import Element, RefusalError, argument_type

__all__ = ["BESSEL_I1", "ENTRIES"]

Operands = Sequence[text.Term | None]

# ------------------------------------------------------------------------------------------- domains


def first_floating(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    """Compute in the first operand's dtype, a real float: the others only say how."""
    return real_floating(name, _first(element, kinds), kinds)


def _first_float_only(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    return real_only(name, _first(element, kinds), kinds)


def _first(element: Element, kinds: Sequence[Any]) -> Element:
    own = argument_type(kinds[0])
    assert own is not None
    return Element(own.dtype, element.zero_dim, element.default_dtype)


# -------------------------------------------------------------------------------------------- errors


def _gaussian(factor: float) -> Formula:
    return of_operand(lambda x: call(nm.exp, -(x * x)) * (factor * 2.0 / math.sqrt(math.pi)))


def _log_ndtr(r: Traced, x: Traced) -> Traced:
    below = math.sqrt(2.0 / math.pi) / call(nm.erfcx, x * -math.sqrt(0.5))
    return where(x < 0, below, call(nm.exp, x * x * -0.5 - r) * (1.0 / math.sqrt(2.0 * math.pi)))


def _errors() -> list[Entry]:
    half_root, root = 0.5 * math.sqrt(math.pi), math.sqrt(2.0 * math.pi)
    of_erfcinv = of_result(lambda r: call(nm.exp, r * r) * -half_root)
    of_erfcx = of_both(lambda r, x: x * r * 2.0 - 2.0 / math.sqrt(math.pi))
    of_normcdf = of_operand(lambda x: call(nm.exp, x * x * -0.5) * (1.0 / root))
    of_normcdfinv = of_result(lambda r: call(nm.exp, r * r * 0.5) * root)
    found = [
        entry(
            math_rule(name, math_call(name), real_floating),
            numjit_rule(name, math_call(name), real_floating),
            derivative=_gaussian(sign),
            torch=text.called(name),
            cpp=std(name),
            slope=f"{shown}2/√π · exp(-x²)",
        )
        for name, sign, shown in (("erf", 1.0, ""), ("erfc", -1.0, "-"))
    ]
    return [
        *found,
        entry(
            numjit_rule("erfinv", emitted(special.erfinv), real_floating),
            derivative=of_result(lambda r: call(nm.exp, r * r) * half_root),
            torch=text.called("erfinv"),
            cpp=cuda("erfinv"),
            slope="√π/2 · exp(r²)",
        ),
        entry(derivative=of_erfcinv, cpp=cuda("erfcinv"), slope="-√π/2 · exp(r²)"),
        entry(
            numjit_rule("erfcx", emitted(special.erfcx), real_floating),
            derivative=of_erfcx,
            torch=text.called("special.erfcx"),
            cpp=cuda("erfcx"),
            slope="2 x r - 2/√π",
        ),
        entry(derivative=of_normcdf, cpp=cuda("normcdf"), slope="1/√(2π) · exp(-x²/2)"),
        entry(derivative=of_normcdfinv, cpp=cuda("normcdfinv"), slope="√(2π) · exp(r²/2)"),
        entry(
            numjit_rule("log_ndtr", emitted(special.log_ndtr), real_floating),
            derivative=of_both(_log_ndtr),
            torch=text.called("special.log_ndtr"),
            cpp=own("log_ndtr"),
            slope="exp(-x²/2 - r)/√(2π), below 0 by `erfcx`",
        ),
    ]


# --------------------------------------------------------------------------------- gammas and Bessel's


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


def _i1(r: Traced, x: Traced) -> Any:
    return where(call(abs, x) < 1e-30, 0.5, call(nm.i0, x) - r / x)


def _i0_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x = text.tensor(writer, dtype, operands[0])
    return f"torch.where(torch.isinf({x}), torch.abs({x}), torch.i0({x}))"


def _i1_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x = text.tensor(writer, dtype, operands[0])
    return f"torch.where(torch.isinf({x}), {x}, torch.special.i1({x}))"


#: Bessel function I1, of which only derivatives are made.
BESSEL_I1 = Rule(
    "the Bessel function I1",
    (1, 1),
    emitted(special.i1),
    real_floating,
    derivative=Derivative(of_both(_i1)),
    code=_i1_text,
)


def _gammainc(r: Traced, a: Traced, x: Traced) -> Sequence[Any]:  # noqa: ARG001
    def refuse() -> Any:
        raise RefusalError(f"numjit.math.gammainc has no derivative by a; make it a number, {REMEDY}")

    return refuse, lambda: call(nm.exp, call(nm.xlogy, a - 1.0, x) - x - call(nm.lgamma, a))


def _gammas() -> list[Entry]:
    return [
        entry(
            math_rule("gamma", math_call("gamma"), real_floating),
            derivative=of_both(lambda r, x: r * call(nm.digamma, x)),
            cpp=std("tgamma"),
            slope="r ψ(x), where ψ is `digamma`",
        ),
        entry(
            math_rule("lgamma", math_call("lgamma"), real_floating),
            numjit_rule("lgamma", math_call("lgamma"), real_floating),
            derivative=of_operand(lambda x: call(nm.digamma, x)),
            torch=text.called("lgamma"),
            cpp=std("lgamma"),
            slope="ψ(x)",
            note="infinite at its poles, as torch's",
        ),
        entry(
            numjit_rule("digamma", emitted(special.digamma), real_floating),
            derivative=of_operand(trigamma),
            torch=text.called("digamma"),
            cpp=own("digamma"),
            slope="trigamma",
            kinks="exact to 1e-13 (torch's to 1e-8); its own derivatives are those of its formula",
            note="infinite at 0, NaN at its other poles, as torch's",
        ),
        entry(
            numjit_rule("gammainc", emitted(special.gammainc), real_floating),
            derivative=_gammainc,
            torch=text.called("special.gammainc"),
            cpp=own("gammainc", operands=2),
            slope="by x: exp((a - 1) log x - x - log Γ(a))",
            kinks_python="refused by a, as torch does",
            kinks_cpp="NaN by a",
            note="to some units of 1e-14 where torch's is off by up to 1e-9",
        ),
        entry(
            numjit_rule("i0", emitted(special.i0), real_floating),
            derivative=of_operand(lambda x: call(BESSEL_I1, x)),
            torch=_i0_text,
            slope="the Bessel function I1",
            kinks="I1 has 0.5 at 0",
        ),
    ]


# ------------------------------------------------------------------------------- sigmoid and the like


def _logit(r: Traced, x: Traced, eps: Traced) -> Sequence[Any]:  # noqa: ARG001
    def slope() -> Traced:
        inner = 1.0 / (x * (1.0 - x))
        if eps.is_none:
            return where((x < 0) | (x > 1), math.nan, inner)
        return where((x < eps) | (x > 1.0 - eps), 0.0, inner)

    def refuse() -> Any:
        raise RefusalError(f"numjit.math.logit has no derivative by eps; make it a number, {REMEDY}")

    return slope, refuse


def _logit_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x = text.tensor(writer, dtype, operands[0])
    if operands[1] is not None:
        low = text.tensor(writer, dtype, operands[1])
        x = writer.let(f"torch.minimum(torch.maximum({x}, {low}), 1.0 - {low})")
    return f"torch.log({x} / (1.0 - {x}))"


def _softplus(r: Traced, x: Traced, beta: Traced, threshold: Traced) -> Sequence[Any]:
    def slope() -> Traced:
        return where(x * beta > threshold, 1.0, call(nm.sigmoid, x * beta))

    def by_beta() -> Traced:
        return where(x * beta > threshold, 0.0, (x * call(nm.sigmoid, x * beta) - r) / beta)

    return slope, by_beta, None


def _softplus_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x, beta, threshold = (text.tensor(writer, dtype, operand) for operand in operands)
    scaled = writer.let(f"({x} * {beta})")
    # The large ones are kept out of exp, which would overflow in its gradient.
    is_large = writer.let(f"({scaled} > {threshold})")
    smooth = f"torch.log1p(torch.exp(torch.where({is_large}, 0.0, {scaled}))) / {beta}"
    return f"torch.where({is_large}, {x}, {smooth})"


def _xlogy(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return lambda: where((x == 0) & (y <= 0), 0.0, call(nm.log, y)), lambda: x / y


def _logaddexp(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
    return lambda: 1.0 / (1.0 + call(nm.exp, y - x)), lambda: 1.0 / (1.0 + call(nm.exp, x - y))


def _ldexp(r: Traced, x: Traced, n: Traced) -> Sequence[Any]:  # noqa: ARG001
    return lambda: call(nm.exp2, n), lambda: r * LOG_2


def _ldexp_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x, n = (text.tensor(writer, dtype, operand) for operand in operands)
    half = writer.let(f"torch.trunc({n} * 0.5)")
    return f"({x} * torch.exp2({half}) * torch.exp2({n} - {half}))"


def _learning() -> list[Entry]:
    scaling, of_sigmoid = emitted(special.ldexp), of_result(lambda r: (1.0 - r) * r)
    return [
        analytic("sigmoid", of_sigmoid, "(1 - r) r", "numjit", emitted(special.sigmoid)),
        entry(
            numjit_rule("logit", emitted(special.logit), first_floating),
            derivative=_logit,
            torch=_logit_text,
            note="`eps` has no say in the dtype",
            slope="1 / (x (1 - x)); none by `eps`",
            kinks="without `eps` NaN outside of [0, 1]; with it 0 outside of [eps, 1 - eps]",
        ),
        entry(
            numjit_rule("softplus", emitted(special.softplus), _first_float_only),
            derivative=_softplus,
            torch=_softplus_text,
            slope="by x: sigmoid(beta x); by beta: (x sigmoid(beta x) - r) / beta; by threshold: 0",
            kinks="beyond the threshold 1 and 0",
        ),
        entry(
            numjit_rule("logaddexp", emitted(special.logaddexp), real_only),
            derivative=_logaddexp,
            torch=text.called("logaddexp"),
            cpp=own("logaddexp", operands=2),
            slope="1 / (1 + exp(y - x)), 1 / (1 + exp(x - y))",
        ),
        entry(
            numjit_rule("xlogy", emitted(special.xlogy), real_floating),
            derivative=_xlogy,
            torch=text.called("xlogy"),
            cpp=own("xlogy", operands=2),
            slope="by x: log y; by y: x / y",
            kinks="by x: 0 where x is 0 and y ≤ 0",
        ),
        entry(
            math_rule("ldexp", scaling, real_floating, (2, 2)),
            numjit_rule("ldexp", scaling, real_floating),
            derivative=_ldexp,
            torch=_ldexp_text,
            cpp=std("ldexp", "scalbn", is_by_hand=True) + std("scalbln", has_single=False, is_by_hand=True),
            note="overflows only where the result does (in torch, where the power alone does)",
            slope="by x: 2ⁿ; by n: r log 2",
        ),
    ]


ENTRIES = [*_errors(), *_gammas(), *_learning()]
