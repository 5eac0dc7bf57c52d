"""Derivatives of C++ functors of complex numbers on the CPU, in torch's convention."""

# ruff: noqa: E501 - functors stay on one line beside what they must answer.

import functools
import math

import pytest

from numjit.elementwise import Elementwise
from numjit.functor.cpp.derived import derive_cpp
from numjit.functor.cpp.functor import CppFunctor

torch = pytest.importorskip("torch")

T = "template <typename T> "
# Of z, and of w where the text names it; functions by themselves are in test_rule_table.py.
FUNCTIONS = {
    "z + w": lambda z, w: z + w, "z - w": lambda z, w: z - w,
    "z * w": lambda z, w: z * w, "z / w": lambda z, w: z / w, "-z": lambda z: -z, "2.0 * z + 1": lambda z: 2 * z + 1, "1 / z": lambda z: 1 / z,
    "pow(z, w)": torch.pow, "pow(z, 2)": lambda z: z**2, "pow(z, 3)": lambda z: z**3, "pow(z, 0.5)": lambda z: z**0.5, "std::pow(2.0, z)": lambda z: 2**z,
    "std::conj(z) * z": lambda z: z.conj() * z, "T(std::abs(z))": lambda z: z.abs() + 0j, "T(std::arg(z), 1)": lambda z: torch.complex(z.angle(), torch.ones_like(z.real)),
    "T(std::norm(z))": lambda z: z.real**2 + z.imag**2 + 0j, "T(z.real(), w.imag())": lambda z, w: torch.complex(z.real, w.imag),
    "std::polar(std::abs(z), std::arg(w))": lambda z, w: torch.polar(z.abs(), w.angle()), "z * std::abs(w)": lambda z, w: z * w.abs(),
    "std::real(z) * w": lambda z, w: z.real * w, "w / std::imag(z)": lambda z, w: w / z.imag, "std::proj(z)": lambda z: z,
    "T(0, 1) * z": lambda z: 1j * z, "z == w ? z : w": lambda z, w: w + 0 * z, "(z *= w, z)": lambda z, w: z * w, "(z += 2, z / 2)": lambda z: (z + 2) / 2,
    "std::abs(z) > 1 ? z * z : w": lambda z, w: torch.where(z.abs() > 1, z * z, w), "T(sin(z.real()), cos(z.imag()))": lambda z: torch.complex(z.real.sin(), z.imag.cos()),
    "std::complex<float>(0, 1) * z": lambda z: 1j * z,
}  # fmt: skip


def numbers(count, seed, dtype=torch.complex128):
    return torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def operation(functor):
    return Elementwise(functor, {"autotune": False})


def close(got, expected, **tolerance):
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, equal_nan=True, **tolerance)


@functools.cache
def tangents_of_all():
    """Run every function as an output of one functor, z and w moving."""
    outputs = ", ".join(f"T& r{j}" for j in range(len(FUNCTIONS)))
    body = " ".join(f"r{j} = [=]() mutable -> T {{ return {text}; }}();" for j, text in enumerate(FUNCTIONS))
    text = f"{T}void f(T z, T w, {outputs}) {{ {body} }}"
    run = operation(derive_cpp(CppFunctor(text), "jvp", (0, 1), (True,) * len(FUNCTIONS)))
    return dict(zip(FUNCTIONS, run(*(numbers(30, k) for k in range(4))), strict=True))


@pytest.mark.parametrize("text", FUNCTIONS)
def test_tangents(text):
    z, w, dz, dw = (numbers(30, k) for k in range(4))
    takes_both = "w" in text.replace("pow(z, 2)", "").replace("pow(z, 3)", "").replace(
        "pow(z, 0.5)", ""
    ).replace("pow(2.0", "")
    taken = (z, w) if takes_both else (z,)
    # A central difference in the direction of the tangent, of the same function in torch.
    h = 1e-6
    ahead = FUNCTIONS[text](*(v + h * d for v, d in zip(taken, (dz, dw), strict=False)))
    behind = FUNCTIONS[text](*(v - h * d for v, d in zip(taken, (dz, dw), strict=False)))
    close(tangents_of_all()[text], (ahead - behind) / (2 * h), rtol=2e-6, atol=2e-6)


GRADIENTS = {
    "holomorphic": ("exp(z * w) + sqrt(z) / w", lambda z, w: torch.exp(z * w) + torch.sqrt(z) / w),
    "parts": ("z * std::abs(w) + std::conj(z) * w.real()", lambda z, w: z * w.abs() + z.conj() * w.real),
    "powers": ("pow(z, w) + tanh(z)", lambda z, w: z**w + torch.tanh(z)),
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=["complex64", "complex128"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, dtype):
    text, reference = GRADIENTS[name]
    z, w, g = (numbers(30, k, dtype) for k in range(3))
    leaves = [z.clone().requires_grad_(), w.clone().requires_grad_()]
    expected = torch.autograd.grad(reference(*leaves), leaves, g)
    functor = CppFunctor(f"{T}T f(T z, T w) {{ return {text}; }}")
    got = operation(derive_cpp(functor, "vjp", (0, 1), (True,)))(z, w, g)
    for mine, theirs in zip(got, expected, strict=True):
        close(
            mine,
            theirs,
            rtol=1e-3 if dtype == torch.complex64 else 1e-10,
            atol=1e-4 if dtype == torch.complex64 else 1e-10,
        )
    (only,) = (operation(derive_cpp(functor, "vjp", (1,), (True,)))(z, w, g),)
    close(only, got[1])


def test_at_zero():
    functor = CppFunctor(T + "void f(std::complex<T> z, T& a, T& b) { a = std::abs(z); b = std::arg(z); }")
    z = torch.zeros(2, dtype=torch.complex64)
    got = operation(derive_cpp(functor, "vjp", (0,), (True, True)))(z, torch.ones(2), torch.ones(2))
    close(got, torch.zeros(2, dtype=torch.complex64))


def test_complex_of_a_real_template_parameter():
    text = (
        T
        + "std::complex<T> f(std::complex<T> z, T x) { return z * x + std::polar(x, T(0.5)) * std::norm(z); }"
    )
    z, x, g = numbers(20, 1), numbers(20, 2, torch.float64), numbers(20, 3)
    leaves = [z.clone().requires_grad_(), x.clone().requires_grad_()]
    turn = complex(math.cos(0.5), math.sin(0.5))
    result = leaves[0] * leaves[1] + leaves[1] * turn * (leaves[0].real ** 2 + leaves[0].imag ** 2)
    got = operation(derive_cpp(CppFunctor(text), "vjp", (0, 1), (True,)))(z, x, g)
    for mine, theirs in zip(got, torch.autograd.grad(result, leaves, g), strict=True):
        close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_helpers_deduce_complex_arguments():
    text = (
        "template <class R> R mag(std::complex<R> z) { return z.real() * z.imag(); } "
        + T
        + "T f(T z) { return z * mag(z); }"
    )
    z, g = numbers(20, 1), numbers(20, 3)
    leaf = z.clone().requires_grad_()
    (expected,) = torch.autograd.grad(leaf * (leaf.real * leaf.imag), leaf, g)
    close(
        operation(derive_cpp(CppFunctor(text), "vjp", (0,), (True,)))(z, g), expected, rtol=1e-10, atol=1e-12
    )


def test_raw_operands():
    text = T + "T f(T z, numjit::raw<T> table, numjit::index i) { return z * z * table[i % table.size()]; }"
    z, table, g = numbers(10, 1), numbers(3, 2), numbers(10, 3)
    got = operation(derive_cpp(CppFunctor(text), "vjp", (0,), (True,)))(z, table, g)
    close(got, g * (2 * z * table[torch.arange(10) % 3]).conj(), rtol=1e-10, atol=1e-12)


def test_second_order():
    first = derive_cpp(
        CppFunctor(T + "T f(T z) { return exp(z) * std::abs(z) + z / (z + 2); }"), "vjp", (0,), (True,)
    )
    z, g, a = (numbers(20, k) for k in range(3))
    leaves = [z.clone().requires_grad_(), g.clone().requires_grad_()]
    result = torch.exp(leaves[0]) * leaves[0].abs() + leaves[0] / (leaves[0] + 2)
    slope = torch.autograd.grad(result, leaves[0], leaves[1], create_graph=True)
    expected = torch.autograd.grad(slope, leaves, a)
    got = operation(derive_cpp(first, "vjp", (0, 1), (True,)))(z, g, a)
    for mine, theirs in zip(got, expected, strict=True):
        close(mine, theirs, rtol=1e-9, atol=1e-9)


def test_real_and_complex_types_together():
    text = "template <typename C, typename R> C f(C z, R x) { return x * z / (x * x + 1) + exp(z) * x; }"
    z, x, g = numbers(20, 1), numbers(20, 2, torch.float64), numbers(20, 3)
    leaves = [z.clone().requires_grad_(), x.clone().requires_grad_()]
    result = leaves[1] * leaves[0] / (leaves[1] ** 2 + 1) + leaves[0].exp() * leaves[1]
    got = operation(derive_cpp(CppFunctor(text), "vjp", (0, 1), (True,)))(z, x, g)
    for mine, theirs in zip(got, torch.autograd.grad(result, leaves, g), strict=True):
        close(mine, theirs, rtol=1e-10, atol=1e-12)
