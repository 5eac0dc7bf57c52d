"""Complex functions in both languages on all pairs of edges: zeros of both signs, subnormal to infinite, NaN.

NumPy's answers (annex G of the C standard) are wanted. Where NumPy has no such function, or computes it such
that it overflows or cancels, the exact answer is (mpmath).
"""

import cmath
import math

import mpmath
import numpy
import pytest
import torch

import numjit
from tests.support.scalar_tables import blocks, written

#: NumPy's names of what is in cmath, numjit.math and C++.
NUMPY = {
    "exp": "exp", "log": "log", "log10": "log10", "sqrt": "sqrt", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos",
    "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "log2": "log",
}  # fmt: skip
#: What torch has beyond those, for mpmath.
BEYOND = {
    "expm1": lambda z: mpmath.exp(z) - 1,
    "log1p": lambda z: mpmath.log(1 + z),
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
    "sgn": lambda z: z / abs(z) if z else mpmath.mpc(0),
    "sinc": lambda z: mpmath.sin(mpmath.pi * z) / (mpmath.pi * z) if z else mpmath.mpc(1),
}
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.complex64, torch.complex128], ids=["complex64", "complex128"]
)


def grid(dtype, *, finite=False, also=()):
    info = torch.finfo(dtype)
    largest = 3e38 if dtype == torch.complex64 else 1.7e308
    edges = [0.0, info.tiny / 4, 1e-30, 1e-6, 1e-3, 0.5, 0.99, 1.0, 1 + info.eps, 1 - info.eps / 2, 1.01, 2.0]
    edges += [3.0, 10.0, 30.0, 89.0, 100.0, largest, *also]
    edges = [sign * edge for edge in edges for sign in (1, -1)]
    if not finite:
        edges += [math.inf, -math.inf, math.nan]
    real = torch.float32 if dtype == torch.complex64 else torch.float64
    parts = torch.cartesian_prod(*[torch.tensor(edges, dtype=real)] * 2)
    return torch.complex(parts[:, 0].contiguous(), parts[:, 1].contiguous())


def unequal(found, wanted, tolerance):
    """Return where a part is neither equal, nor NaN in both, nor near."""
    bad = numpy.zeros(found.shape, bool)
    info = numpy.finfo(found.real.dtype)
    signless = numpy.isnan(wanted.real) | numpy.isnan(
        wanted.imag
    )  # the C standard leaves the other's sign open
    with numpy.errstate(all="ignore"):
        for one, other in ((found.real, wanted.real), (found.imag, wanted.imag)):
            same = (one == other) | (numpy.isnan(one) & numpy.isnan(other))
            same |= signless & (numpy.abs(one) == numpy.abs(other))
            near = numpy.abs(one - other) <= tolerance * info.eps * numpy.abs(other) + 4 * info.tiny
            bad |= ~(same | (numpy.isfinite(one) & numpy.isfinite(other) & near))
    return bad


def shown(name, z, found, wanted, bad):
    return [(name, complex(z[k]), complex(found[k]), complex(wanted[k])) for k in numpy.nonzero(bad)[0]]


def of_numpy(name, z):
    """Return NumPy's values in the longest type, rounded."""
    with numpy.errstate(all="ignore"):
        found = getattr(numpy, NUMPY[name])(z.astype(numpy.clongdouble))
        if name == "log2":
            found.real /= numpy.log(numpy.longdouble(2))
            found.imag /= numpy.log(numpy.longdouble(2))
        return found.astype(z.dtype)


def signs_differ(found, wanted):
    """Return where a part that is no NaN has another sign, zeros too."""
    known = ~(numpy.isnan(wanted.real) | numpy.isnan(wanted.imag))
    return known & (
        (numpy.signbit(found.real) != numpy.signbit(wanted.real))
        | (numpy.signbit(found.imag) != numpy.signbit(wanted.imag))
    )


@DTYPES
@pytest.mark.parametrize("language", ["cmath", "nm", "C++"])
def test_both_languages_answer_as_numpy(dtype, language, device, tmp_path):
    names = [name for name in NUMPY if (language, name) != ("cmath", "log2")]
    if language == "C++":
        outputs = ", ".join(f"T& r{k}" for k in range(len(names)))
        body = " ".join(f"r{k} = std::{name}(z);" for k, name in enumerate(names))
        functor = f"template <typename T> void all(T z, {outputs}) {{ {body} }}"
    else:
        functor = written("def block(z)", [f"{language}.{name}(z)" for name in names], tmp_path)
    z = grid(dtype, also=[1e10])
    off = []
    for name, result in zip(names, numjit.elementwise(functor)(z.to(device)), strict=True):
        found, wanted = result.cpu().numpy(), of_numpy(name, z.numpy())
        bad = unequal(found, wanted, 4 if device == "cpu" else 64) | signs_differ(found, wanted)
        if name == "exp":  # of which the C standard leaves the signs open
            bad &= ~(z.real.eq(-math.inf) & z.imag.isinf()).numpy()
        if device != "cpu":  # libdevice reduces the largest angles, and counts subnormals, less exactly
            bad &= ~_is_far(z).numpy()
        off += shown(name, z, found, wanted, bad)
    assert off == []


def test_powers_are_one_function(device):
    """In both languages, and at infinite bases no NaN of real exponents."""
    exponents = [0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.5, 1j, -1j, 2 + 1j, -2 - 0.5j, complex(math.inf, 0)]
    for dtype in (torch.complex64, torch.complex128):
        z, w = torch.cartesian_prod(torch.arange(len(grid(dtype))), torch.arange(len(exponents))).T
        z, w = grid(dtype)[z], torch.tensor(exponents, dtype=dtype)[w]
        found = numjit.elementwise(lambda z, w: z**w)(z.to(device), w.to(device)).cpu()
        text = "template <typename T> T f(T z, T w) { return std::pow(z, w); }"
        other = numjit.elementwise(text)(z.to(device), w.to(device)).cpu()
        bad = unequal(found.numpy(), other.numpy(), 4) | signs_differ(found.numpy(), other.numpy())
        assert shown("pow", z, found, other, bad) == []
        is_infinite = (z.real.isinf() | z.imag.isinf()) & ~z.isnan() & (w.imag == 0) & w.real.isfinite()
        assert not found[is_infinite].isnan().any()
        assert (found[is_infinite & (w.real < 0)] == 0).all()


def _is_far(z):
    return (z.real.abs() > 1e5) | (z.imag.abs() > 1e5) | ((z.abs() < 1e-37) & (z != 0))


def exact(function, z):
    """Return a function's values, computed with 500 bits and rounded once."""
    found = []
    with mpmath.workprec(500):
        for number in z.tolist():
            try:
                found.append(complex(mpmath.mpc(function(mpmath.mpc(number.real, number.imag)))))
            except (ZeroDivisionError, ValueError, OverflowError):
                found.append(complex(math.nan, math.nan))
    with numpy.errstate(all="ignore"):
        return numpy.array(found).astype(z.numpy().dtype)


@DTYPES
def test_functions_of_torch_alone_are_exact(dtype, device, tmp_path):
    operation = numjit.elementwise(written("def block(z)", [f"nm.{name}(z)" for name in BEYOND], tmp_path))
    z = grid(dtype, finite=True)
    # mpmath has no zeros with a sign, on which the sides of a cut depend, and no largest number.
    z = z[(z.real != 0) & (z.imag != 0) & (z.real.abs() < 1e38) & (z.imag.abs() < 1e38)]
    found = [result.cpu().numpy() for result in operation(z.to(device))]
    off = []
    for name, one in zip(BEYOND, found, strict=True):
        wanted = exact(BEYOND[name], z)
        bad = unequal(one, wanted, 64) & numpy.isfinite(wanted)
        # Relative to the number, not to the smaller part; sinc rounds pi * z before it takes the sine.
        scale = numpy.abs(wanted) * 64 if name != "sinc" else numpy.maximum(numpy.abs(wanted) * 1024, 1)
        bad &= ~(numpy.abs(one - wanted) <= scale * numpy.finfo(one.real.dtype).eps)
        if device != "cpu":
            bad &= ~_is_far(z).numpy()
        off += shown(name, z, one, wanted, bad)
    assert off == []


def test_large_and_cancelling_arguments_by_name(device):
    """The answers that were wrong, as pairs of a functor's expression and the number."""
    (circle,) = exact(mpmath.log, torch.tensor([0.6 + 0.8j], dtype=torch.complex128))
    cases = [
        (lambda z: cmath.cosh(z), 100 + 0j, torch.complex64, complex(math.inf, 0)),
        (lambda z: cmath.sqrt(z), 3e38 + 3e38j, torch.complex64, 1.903015e19 + 7.882545e18j),
        (lambda z: cmath.exp(z), 89 + 1j, torch.complex64, complex(2.425748e38, math.inf)),
        (lambda z: numjit.math.sigmoid(z), -89 + 0.5j, torch.complex64, 1.9547e-39 + 1.06786e-39j),
        (lambda z: numjit.math.rsqrt(z), 3e38 + 0j, torch.complex64, 5.773503e-20 + 0j),
        (lambda z: cmath.log(z), 0.6 + 0.8j, torch.complex128, circle),
    ]
    for functor, number, dtype, wanted in cases:
        found = numjit.elementwise(functor)(torch.tensor([number], dtype=dtype, device=device)).cpu()
        expected = torch.tensor([wanted], dtype=dtype)
        for one, other in ((found.real, expected.real), (found.imag, expected.imag)):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=3e-41)


# -------------------------------------------------------------------------------------- gradients

SLOPES = {
    "exp": mpmath.exp,
    "log": lambda z: 1 / z,
    "log10": lambda z: 1 / (z * mpmath.log(10)),
    "sqrt": lambda z: 0.5 / mpmath.sqrt(z),
    "sinh": mpmath.cosh,
    "cosh": mpmath.sinh,
    "tanh": lambda z: 1 / mpmath.cosh(z) ** 2,
    "sin": mpmath.cos,
    "cos": lambda z: -mpmath.sin(z),
    "tan": lambda z: 1 / mpmath.cos(z) ** 2,
    "asin": lambda z: 1 / mpmath.sqrt(1 - z) / mpmath.sqrt(1 + z),
    "acos": lambda z: -1 / mpmath.sqrt(1 - z) / mpmath.sqrt(1 + z),
    "atan": lambda z: 1 / (1 + z * z),
    "asinh": lambda z: 1 / mpmath.sqrt(1 + 1j * z) / mpmath.sqrt(1 - 1j * z),
    "acosh": lambda z: 1 / mpmath.sqrt(z - 1) / mpmath.sqrt(z + 1),
    "atanh": lambda z: 1 / (1 - z * z),
    "log1p": lambda z: 1 / (1 + z),
    "reciprocal": lambda z: -1 / (z * z),
    "rsqrt": lambda z: -0.5 / mpmath.sqrt(z) ** 3,
    "sigmoid": lambda z: mpmath.exp(-z) / (1 + mpmath.exp(-z)) ** 2,
    "sinc": lambda z: (mpmath.cos(mpmath.pi * z) - mpmath.sin(mpmath.pi * z) / (mpmath.pi * z)) / z,
}


@DTYPES
def test_gradients_at_finite_edges_are_finite_where_the_true_ones_are(dtype, tmp_path):
    z = grid(dtype, finite=True)
    z = z[(z.imag != 0) & (z.real != 0)]
    info = torch.finfo(dtype)
    off = []
    for names, function in blocks({name: f"nm.{name}({{z}})" for name in SLOPES}, tmp_path):
        values = [z.clone().requires_grad_() for _ in names]
        results = numjit.elementwise(function)(*values)
        gradients = torch.autograd.grad(results, values, [torch.ones_like(r) for r in results])
        for name, gradient in zip(names, gradients, strict=True):
            found = gradient.conj().resolve_conj().numpy()
            wanted = exact(SLOPES[name], z)
            finite = numpy.isfinite(wanted) & (numpy.abs(wanted) < info.max / 8)
            # Of exp, tanh, tan and sigmoid they are told by the value: exact beside 1.
            scale = numpy.maximum(numpy.abs(wanted), 1.0 if name in {"tanh", "tan", "sigmoid"} else 0.0)
            with numpy.errstate(all="ignore"):
                bad = finite & ~(numpy.abs(found - wanted) <= 256 * info.eps * scale + 4 * info.tiny)
            if name == "sinc":  # pi * z itself overflows
                bad &= ((z.real.abs() < 1e37) & (z.imag.abs() < 1e37)).numpy()
            off += shown(name, z, found, wanted, bad)
    assert off == []
