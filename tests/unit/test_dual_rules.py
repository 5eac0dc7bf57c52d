"""The derivative of every rule of real scalars against torch's autograd, at kinks and edges too."""

from __future__ import annotations

import math

import pytest
import torch
from numba.core import config

from numjit import dtypes
from numjit import math as nm
from numjit.errors import CompilationError
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType
from numjit.rules.table import ATTRIBUTES, METHODS, RULES
from numjit.semantics.category import Category
from tests.support.dual_gradients import (
    functor_of,
    gradients,
    second_gradients,
    tangents,
    torch_gradients,
    torch_second,
    weights,
)
from tests.support.python_cpu import run

F64, F32 = torch.float64, torch.float32
INF, NAN = math.inf, math.nan
#: Away from poles, so that float32 can be compared too.
PLAIN = [0.3, -0.7, 0.9, -0.15, 0.55, -0.42]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 2.5, 0.3, -0.7, -3.3, 9.5, INF, -INF, NAN]

ONE = {
    "math.exp(x)": torch.exp, "math.exp2(x)": torch.exp2, "math.expm1(x)": torch.expm1,
    "math.log(x)": torch.log, "math.log2(x)": torch.log2, "math.log10(x)": torch.log10,
    "math.log1p(x)": torch.log1p, "math.sqrt(x)": torch.sqrt, "math.sin(x)": torch.sin,
    "math.cos(x)": torch.cos, "math.tan(x)": torch.tan, "math.asin(x)": torch.asin,
    "math.acos(x)": torch.acos, "math.atan(x)": torch.atan, "math.sinh(x)": torch.sinh,
    "math.cosh(x)": torch.cosh, "math.tanh(x)": torch.tanh, "math.asinh(x)": torch.asinh,
    "math.acosh(x)": torch.acosh, "math.atanh(x)": torch.atanh, "math.erf(x)": torch.erf,
    "math.erfc(x)": torch.erfc, "math.fabs(x)": torch.abs, "abs(x)": torch.abs, "round(x)": torch.round,
    "math.floor(x)": torch.floor, "math.ceil(x)": torch.ceil, "math.trunc(x)": torch.trunc,
    "math.degrees(x)": torch.rad2deg, "math.radians(x)": torch.deg2rad, "-x": torch.neg,
    "+x": torch.positive, "float(x)": torch.positive, "x.real": torch.positive,
    "x.conjugate()": torch.positive, "nm.rsqrt(x)": torch.rsqrt, "nm.sigmoid(x)": torch.sigmoid,
    "nm.reciprocal(x)": torch.reciprocal, "nm.erfinv(x)": torch.erfinv, "nm.frac(x)": torch.frac,
    "nm.sign(x)": torch.sign, "nm.sgn(x)": torch.sgn, "nm.square(x)": torch.square,
    "nm.angle(x)": torch.angle,
    "nm.sinc(x)": torch.sinc, "nm.logit(x)": torch.logit, "nm.softplus(x)": torch.nn.functional.softplus,
    "nm.softplus(x, 2.0, 1.0)": lambda x: torch.nn.functional.softplus(x, 2.0, 1.0),
    "nm.logit(x, 0.1)": lambda x: torch.logit(x, 0.1), "nm.clamp(x, -0.5, 1.0)": lambda x: x.clamp(-0.5, 1.0),
    "nm.clamp(x, None, 0.5)": lambda x: x.clamp(max=0.5), "nm.clamp(x, 0.5)": lambda x: x.clamp(min=0.5),
    "max(x, 0.5)": lambda x: torch.maximum(x, torch.full_like(x, 0.5)),
    "min(x, 0)": lambda x: torch.minimum(x, torch.zeros_like(x)),
    "x if x > 0 else 0": lambda x: torch.where(x > 0, x, 0.0),
    "x * (x > 0)": lambda x: x * (x > 0), "nm.round(x, 1)": lambda x: torch.round(x, decimals=1),
    "x ** 0": lambda x: x**0, "x ** 1": lambda x: x**1, "x ** 2": lambda x: x**2, "x ** 3": lambda x: x**3,
    "x ** 5": lambda x: x**5, "x ** -1": lambda x: x**-1, "x ** -2": lambda x: x**-2,
    "x ** 0.5": lambda x: x**0.5, "x ** 2.5": lambda x: x**2.5, "2.0 ** x": lambda x: 2.0**x,
    "math.log(x, 3.0)": lambda x: torch.log(x) / math.log(3.0), "x // 0.5": lambda x: torch.floor(x / 0.5),
    "x % 0.75": lambda x: x % 0.75, "1 / x": lambda x: 1 / x,
    "5.0 % x": lambda x: torch.remainder(torch.full_like(x, 5.0), x),
    "sum((x, x, 2.0))": lambda x: x + x + 2.0,
}  # fmt: skip
TWO = {
    "x + y": torch.add, "x - y": torch.sub, "x * y": torch.mul, "x / y": torch.div,
    "x % y": torch.remainder, "x ** y": torch.pow, "math.pow(x, y)": torch.pow,
    "math.atan2(x, y)": torch.atan2, "math.fmod(x, y)": torch.fmod, "math.copysign(x, y)": torch.copysign,
    "math.hypot(x, y)": torch.hypot, "max(x, y)": torch.maximum, "min(x, y)": torch.minimum,
    "nm.maximum(x, y)": torch.maximum, "nm.fmax(x, y)": torch.fmax, "nm.fmin(x, y)": torch.fmin,
    "nm.xlogy(x, y)": torch.xlogy, "nm.logaddexp(x, y)": torch.logaddexp,
    "nm.remainder(x, y)": torch.remainder, "nm.nextafter(x, y)": torch.nextafter,
    "nm.where(x > y, x, y * 2)": lambda x, y: torch.where(x > y, x, y * 2),
    "max(x, y, 0.25)": lambda x, y: torch.maximum(torch.maximum(x, y), torch.full_like(x, 0.25)),
    "divmod(x, y)[1]": torch.remainder, "nm.clamp(x, None, y)": lambda x, y: torch.clamp(x, max=y),
    "nm.clamp(x, y)": lambda x, y: torch.clamp(x, min=y),
}  # fmt: skip

#: Where torch's formula answers otherwise: it divides infinities or zeros, or sees NaN and ties as beyond.
FIRST = {
    "math.copysign(x, y)": lambda x, y: x.isinf() | x.isnan(),
    "nm.logit(x, 0.1)": torch.isnan,
}
BETTER = {
    "math.copysign(x, y)": lambda x, y: x.isinf() | x.isnan(),
    "nm.softplus(x, 2.0, 1.0)": lambda x: x == 0.5,
    "nm.sinc(x)": lambda x: x == 0,
    "nm.logit(x)": lambda x: (x <= 0) | (x >= 1),
    "nm.logit(x, 0.1)": lambda x: (x <= 0) | (x >= 1) | x.isnan(),
}


@pytest.fixture(autouse=True)
def quick_compilation(monkeypatch):
    monkeypatch.setattr(config, "OPT", config._OptLevel(0))


def check(found, wanted, except_for=None, **tolerance):
    for own, torchs in zip(found, wanted, strict=True):
        assert own.dtype == torchs.dtype
        if except_for is not None:
            own, torchs = own[~except_for], torchs[~except_for]
        torch.testing.assert_close(own, torchs, equal_nan=True, **tolerance)


def pairs(values):
    first, second = torch.meshgrid(values, values, indexing="ij")
    return [first.flatten(), second.flatten()]


@pytest.mark.parametrize("expression", ONE)
def test_functions_of_one(expression):
    """First and second derivatives, everywhere."""
    x = torch.tensor(EDGES, dtype=F64)
    functor, function = functor_of(expression, 1), ONE[expression]
    (gradient, second) = weights(2, x)
    check(
        gradients(functor, [x], gradient),
        torch_gradients(function, [x], gradient),
        FIRST[expression](x) if expression in FIRST else None,
        rtol=1e-12,
        atol=1e-14,
    )
    differs = BETTER[expression](x) if expression in BETTER else None
    check(
        second_gradients(functor, [x], gradient, [second]),
        torch_second(function, [x], gradient, [second]),
        differs,
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.parametrize("expression", TWO)
def test_functions_of_two(expression):
    arguments = pairs(torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 0.3, INF, NAN], dtype=F64))
    functor, function = functor_of(expression, 2), TWO[expression]
    (gradient,) = weights(1, arguments[0])
    differs = FIRST[expression](*arguments) if expression in FIRST else None
    check(
        gradients(functor, arguments, gradient),
        torch_gradients(function, arguments, gradient),
        differs,
        rtol=1e-12,
        atol=1e-14,
    )


@pytest.mark.parametrize("expression", TWO)
def test_second_derivatives_of_two(expression):
    arguments = pairs(torch.tensor([0.3, 1.25, -0.7, 2.0, -1.5], dtype=F64))
    functor, function = functor_of(expression, 2), TWO[expression]
    gradient, *seconds = weights(3, arguments[0])
    check(
        second_gradients(functor, arguments, gradient, seconds),
        torch_second(function, arguments, gradient, seconds),
        rtol=1e-10,
        atol=1e-12,
    )


@pytest.mark.parametrize("expression", [*ONE, *TWO])
def test_float32_and_tangents(expression):
    """float32 is computed in float32, and tangents are what gradients are."""
    table, count = (ONE, 1) if expression in ONE else (TWO, 2)
    functor, function = functor_of(expression, count), table[expression]
    x = torch.tensor(PLAIN, dtype=F32)
    arguments = [x, x.flip(0) + 1.5][:count]
    if expression == "math.acosh(x)":
        arguments = [x + 2]
    (gradient,) = weights(1, x)
    found = gradients(functor, arguments, gradient)
    check(found, torch_gradients(function, arguments, gradient), rtol=4e-6, atol=1e-6)
    directions = weights(count, x)
    (pushed,) = tangents(functor, arguments, directions)
    total = sum(own * direction for own, direction in zip(found, directions, strict=True))
    torch.testing.assert_close(pushed * gradient, total, rtol=4e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("expression", ["x * y + math.exp(x)", "math.tanh(x) / y", "max(x, y) ** 2"])
def test_small_floats_are_computed_in_float32(expression, dtype):
    x, y = (torch.tensor(PLAIN).to(dtype), torch.tensor(PLAIN).flip(0).to(dtype) + 2)
    functor = functor_of(expression, 2)
    (gradient,) = weights(1, x)
    found = gradients(functor, [x, y], gradient)
    exact = gradients(functor, [x.float(), y.float()], gradient.float())
    for own, wanted in zip(found, exact, strict=True):
        assert own.dtype == dtype
        assert own.equal(wanted.to(dtype))


def test_clamp_by_bounds():
    values = torch.tensor([0.0, 1.0, 1.5, 2.0, -1.0], dtype=F64)
    arguments = [part.flatten() for part in torch.meshgrid(values, values, values, indexing="ij")]
    (gradient,) = weights(1, arguments[0])
    found = gradients(functor_of("nm.clamp(x, y, z)", 3), arguments, gradient)
    check(found, torch_gradients(torch.clamp, arguments, gradient))


def test_gamma_functions():
    x = torch.tensor([0.3, 1.0, 2.5, 7.75, 30.0, -0.3, -2.6, INF], dtype=F64)
    gradient, second = weights(2, x)
    functor = functor_of("math.lgamma(x)", 1)
    check(gradients(functor, [x], gradient), torch_gradients(torch.lgamma, [x], gradient), rtol=1e-12, atol=0)
    check(
        second_gradients(functor, [x], gradient, [second]),
        torch_second(torch.lgamma, [x], gradient, [second]),
        rtol=1e-7,
        atol=1e-12,
    )
    functor = functor_of("nm.digamma(x)", 1)
    check(gradients(functor, [x], gradient), torch_gradients(torch.digamma, [x], gradient), rtol=1e-8, atol=0)
    finite = x[:5]
    (found,) = gradients(functor_of("math.gamma(x)", 1), [finite], gradient[:5])
    wanted = torch_gradients(lambda x: torch.lgamma(x).exp(), [finite], gradient[:5])
    check([found], wanted, rtol=1e-12, atol=0)


def test_trigamma_is_more_exact_than_torchs():
    """Known values: trigamma(1) = pi**2 / 6, trigamma(1/2) = pi**2 / 2."""
    x = torch.tensor([1.0, 0.5], dtype=F64)
    (found,) = gradients(functor_of("nm.digamma(x)", 1), [x], torch.ones(2, dtype=F64))
    torch.testing.assert_close(
        found, torch.tensor([math.pi**2 / 6, math.pi**2 / 2], dtype=F64), rtol=1e-13, atol=0
    )


def test_bessel_functions():
    x = torch.tensor([0.0, 0.3, -2.5, 7.9, 8.1, -30.0], dtype=F64)
    gradient, second = weights(2, x)
    functor = functor_of("nm.i0(x)", 1)
    check(gradients(functor, [x], gradient), torch_gradients(torch.i0, [x], gradient), rtol=1e-13, atol=0)
    check(
        second_gradients(functor, [x], gradient, [second]),
        torch_second(torch.i0, [x], gradient, [second]),
        rtol=1e-12,
        atol=1e-13,
    )


def test_functions_that_torch_lacks():
    x, y = torch.tensor(PLAIN, dtype=F64) + 2, torch.tensor(PLAIN, dtype=F64).flip(0) + 3
    z = x * 0.5
    (gradient,) = weights(1, x)
    cases = [
        ("math.cbrt(x)", lambda x, y, z: x ** (1 / 3)),
        ("nm.fma(x, y, z)", lambda x, y, z: x * y + z),
        ("nm.ldexp(x, y)", lambda x, y, z: x * 2.0**y),
        ("math.ldexp(x, 3)", lambda x, y, z: x * 8),
        ("math.hypot(x, y, z)", lambda x, y, z: (x * x + y * y + z * z).sqrt()),
        ("math.remainder(x, y)", lambda x, y, z: x - y * torch.round(x / y)),
        ("math.log(x, y)", lambda x, y, z: torch.log(x) / torch.log(y)),
        ("nm.softplus(x, y)", lambda x, y, z: torch.log1p(torch.exp(x * y)) / y),
        ("math.modf(x)[0] * y", lambda x, y, z: torch.frac(x) * y),
        ("sum((x, y, z))", lambda x, y, z: x + y + z),
    ]
    for expression, function in cases:
        found = gradients(functor_of(expression, 3), [x, y, z], gradient)
        wanted = torch_gradients(function, [x, y, z], gradient)
        check(found, wanted, rtol=1e-11, atol=1e-13)


def test_modf_at_whole_numbers():
    """The fraction's derivative is 1 everywhere, and the fraction itself keeps its sign."""
    x = torch.tensor([2.0, -2.0, 0.0, -0.0, 2.5, -2.5], dtype=F64)
    functor = functor_of("math.modf(x)[0]", 1)
    (found,) = gradients(functor, [x], torch.ones_like(x))
    assert found.equal(torch.ones_like(x))
    (values,) = run(functor, x)
    wanted = torch.tensor([math.modf(value)[0] for value in x.tolist()], dtype=F64)
    assert values.equal(wanted)
    assert values.signbit().equal(wanted.signbit())


def test_sinc_has_a_second_derivative_at_zero():
    x, one = torch.zeros(1, dtype=F64), torch.ones(1, dtype=F64)
    found, _ = second_gradients(functor_of("nm.sinc(x)", 1), [x], one, [one])
    assert float(found) == pytest.approx(-(math.pi**2) / 3)


def test_nothing_leaks_from_the_side_not_taken():
    x = torch.tensor([0.0, -1.0, 4.0], dtype=F64)
    (found,) = gradients(functor_of("nm.where(x > 0, math.sqrt(x), 0.0)", 1), [x], torch.ones_like(x))
    assert found.tolist() == [0.0, 0.0, 0.25]


def test_every_rule_has_a_derivative_or_none_to_have():
    """A rule without a formula answers bools or integers only, whatever it is given."""
    without = set()
    for function, rule in {**RULES, **ATTRIBUTES, **METHODS}.items():
        if rule.derivative.formula is not None:
            continue
        without.add(rule.name)
        if isinstance(function, str):
            continue
        for dtype in (dtypes.float32, dtypes.complex64):
            scope = {"function": function}
            operands = ", ".join(["x"] * (2 if rule.spread else rule.arity[0]))
            exec(f"def f(x): return function({operands})", scope)
            try:
                made = PythonFunctor(scope["f"]).specialise(
                    (ArgumentType(dtype, Category.DIM),), dtypes.float32, target="cpu"
                )
            except CompilationError:
                continue
            assert made.outputs[0].kind in "bi", rule.name
    assert "int()" in without
    assert "math.exp" not in without
    assert len(without) < 45


@pytest.mark.parametrize("name", ["sigmoid", "erfinv", "logaddexp", "i0"])
def test_numjit_math_is_tested_by_its_public_name(name):
    assert RULES[getattr(nm, name)].derivative.formula is not None
