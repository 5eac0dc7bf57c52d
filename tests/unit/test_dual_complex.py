"""Derivatives of complex functors in torch's convention: gradients are conjugate, tangents real-linear."""

from __future__ import annotations

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from numba.core import config

from numjit.functor.derived_python import derive_python
from numjit.functor.python import PythonFunctor
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

C128 = torch.complex128
Z = torch.tensor(
    [0.3 + 0.4j, -1.2 + 0.7j, 2 - 1.5j, -0.5 - 0.5j, 1.5j, -0.9, 1.7 + 1e-3j, 1e-3 + 2j], dtype=C128
)
W = torch.tensor([1.3 - 0.4j, 0.2 + 0.7j, -2 - 1.5j, 0.5 + 0.5j, -1.5j, 0.9, -1.7, 3 + 2j], dtype=C128)
X = torch.tensor([0.5, -1.2, 2.0, 0.1, -0.3, 0.9, 1.1, 0.7], dtype=torch.float64)

#: Of cmath.
FUNCTIONS = [
    "exp", "log", "log10", "sqrt", "sinh", "cosh", "tanh", "sin", "cos", "tan", "asin", "acos", "atan",
    "asinh", "acosh", "atanh",
]  # fmt: skip
TORCHS = [
    "exp2", "expm1", "log1p", "log2", "reciprocal", "rsqrt", "sgn", "sigmoid", "sinc", "square", "angle",
]  # fmt: skip
ONE = {
    **{f"cmath.{name}(x)": getattr(torch, name) for name in FUNCTIONS},
    **{f"nm.{name}(x)": getattr(torch, name) for name in TORCHS},
    "abs(x)": torch.abs, "abs(x) ** 2": lambda x: x.abs() ** 2, "x.real": lambda x: x.real,
    "x.imag": lambda x: x.imag, "x.conjugate()": torch.conj, "cmath.phase(x)": torch.angle, "-x": torch.neg,
    "complex(x)": lambda x: x * 1, "x ** 2": lambda x: x**2, "x ** 2.5": lambda x: x**2.5,
    "x ** (1 + 2j)": lambda x: x ** (1 + 2j), "2.0 ** x": lambda x: 2.0**x,
    "x * x.conjugate() + x.real * 1j": lambda x: x * x.conj() + x.real * 1j,
    "cmath.polar(x)[1] * x": lambda x: x.angle() * x,
    "cmath.log(x, 3.0)": lambda x: torch.log(x) / torch.tensor(3.0, dtype=torch.float64).log(),
    "x if abs(x) > 1 else x.conjugate()": lambda x: torch.where(x.abs() > 1, x, x.conj()),
}  # fmt: skip
TWO = {
    "x + y": torch.add, "x - y": torch.sub, "x * y": torch.mul, "x / y": torch.div, "x ** y": torch.pow,
    "x * y.conjugate()": lambda x, y: x * y.conj(),
}  # fmt: skip


@pytest.fixture(autouse=True)
def quick_compilation(monkeypatch):
    monkeypatch.setattr(config, "OPT", config._OptLevel(0))


def check(found, wanted, **tolerance):
    for own, torchs in zip(found, wanted, strict=True):
        assert own.dtype == torchs.dtype
        torch.testing.assert_close(own, torchs, equal_nan=True, **tolerance)


def gradient_of(function, *arguments):
    result = function(*arguments)
    return weights(1, arguments[0], result.dtype)[0]


def torch_tangent(function, arguments, directions):
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(arguments, directions, strict=True)]
        return forward_ad.unpack_dual(function(*duals)).tangent


@pytest.mark.parametrize("expression", ONE)
def test_functions_of_one(expression):
    functor, function = functor_of(expression, 1), ONE[expression]
    gradient = gradient_of(function, Z)
    wanted = torch_gradients(function, [Z], gradient)
    check(gradients(functor, [Z], gradient), wanted, rtol=1e-11, atol=1e-13)
    directions = weights(1, Z)
    pushed = torch_tangent(function, [Z], directions)
    check(tangents(functor, [Z], directions), [pushed], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("expression", ONE)
def test_second_derivatives(expression):
    functor, function = functor_of(expression, 1), ONE[expression]
    gradient = gradient_of(function, Z)
    seconds = weights(1, Z)
    wanted = torch_second(function, [Z], gradient, seconds)
    check(second_gradients(functor, [Z], gradient, seconds), wanted, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("kinds", [(Z, W), (X, W), (Z, X)], ids=["complex", "real-complex", "complex-real"])
@pytest.mark.parametrize("expression", TWO)
def test_functions_of_two(expression, kinds):
    """A real operand has a real gradient."""
    functor, function = functor_of(expression, 2), TWO[expression]
    arguments = list(kinds)
    gradient = gradient_of(function, *arguments)
    found = gradients(functor, arguments, gradient)
    check(found, torch_gradients(function, arguments, gradient), rtol=1e-11, atol=1e-13)
    # What is pushed forward is what is pulled back: both products are the same.
    directions = [weights(1, argument)[0] for argument in arguments]
    (pushed,) = tangents(functor, arguments, directions)
    forward = (gradient.conj() * pushed).real
    backward = sum((own.conj() * direction).real for own, direction in zip(found, directions, strict=True))
    torch.testing.assert_close(forward, backward, rtol=1e-11, atol=1e-12)


def test_where_of_complex_numbers():
    functor = functor_of("nm.where(abs(x) > 1, x, y)", 2)
    gradient = weights(1, Z)[0]
    found = gradients(functor, [Z, W], gradient)
    check(found, torch_gradients(lambda x, y: torch.where(x.abs() > 1, x, y), [Z, W], gradient))
    by_z, by_x = gradients(functor, [Z, X], gradient)
    assert by_z.equal(torch.where(Z.abs() > 1, gradient, 0))
    assert by_x.equal(torch.where(Z.abs() > 1, 0, gradient).real)


def test_complex_numbers_of_real_operands():
    for expression, function in (
        ("complex(x, y)", torch.complex),
        ("cmath.rect(abs(x), y)", lambda x, y: torch.polar(x.abs(), y)),
        ("cmath.exp(x * 1j) * y", lambda x, y: torch.exp(x * 1j) * y),
    ):
        gradient = gradient_of(function, X, X + 1)
        found = gradients(functor_of(expression, 2), [X, X + 1], gradient)
        check(found, torch_gradients(function, [X, X + 1], gradient), rtol=1e-12, atol=1e-14)


def test_at_zero():
    zero, gradient = torch.zeros(1, dtype=C128), torch.tensor([0.5 + 1.5j], dtype=C128)
    for expression, function in (
        ("abs(x)", torch.abs),
        ("nm.sgn(x)", torch.sgn),
        ("nm.angle(x)", torch.angle),
        ("cmath.phase(x)", torch.angle),
        ("x ** 2", lambda x: x**2),
        ("x ** 0", lambda x: x**0),
        ("nm.sinc(x)", torch.sinc),
    ):
        own = gradient if function(zero).is_complex() else gradient.real
        found = gradients(functor_of(expression, 1), [zero], own)
        check(found, torch_gradients(function, [zero], own))


def test_complex64_is_computed_in_complex64():
    z = Z.to(torch.complex64)
    gradient = weights(1, z)[0]
    found = gradients(functor_of("cmath.exp(x) * x", 1), [z], gradient)
    check(found, torch_gradients(lambda x: x.exp() * x, [z], gradient), rtol=1e-5, atol=1e-5)


def test_only_some_parts_are_differentiated():
    """The imaginary part of a real operand's tangent never arises in a real result's gradient."""
    functor = PythonFunctor(lambda z, x: (z * x, abs(z) * x))
    by_z, by_x = run(derive_python(functor, "vjp", (0, 1)), Z, X, weights(1, Z)[0], weights(1, X)[0])
    first, second = weights(1, Z)[0], weights(1, X)[0]
    torch.testing.assert_close(by_z, first * X + second * X * Z.sgn())
    torch.testing.assert_close(by_x, (first.conj() * Z).real + second * Z.abs())


def test_newton_in_the_complex_plane():
    def root(z):
        guess = z
        for _ in range(40):
            guess = 0.5 * (guess + z / guess)
        return guess

    right = W[W.real > 0]
    found = gradients(PythonFunctor(root), [right], torch.ones_like(right))
    check(found, [(0.5 / right.sqrt()).conj().resolve_conj()])
