"""``numjit.math`` against torch: functions with tolerances, values of every dtype, and the comparison.

Shared by the CPU's tests and the GPU's.
"""

from __future__ import annotations

import math
import warnings

import numpy
import torch

from numjit import dtypes
from tests.support.oracle import torch_dtype

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
NAMES = ["bool", *INTEGERS, *FLOATS, *COMPLEX]

#: Functions of one operand that take the same name in torch, with units in the last place of the compute
#: type that the answer may be off from torch's, or from the exact one.
UNARY = {
    "exp": 2, "exp2": 2, "expm1": 2, "log": 2, "log2": 2, "log10": 2, "log1p": 2, "sqrt": 1, "rsqrt": 2,
    "sin": 2, "cos": 2, "tan": 3, "asin": 3, "acos": 3, "atan": 2, "sinh": 3, "cosh": 3, "tanh": 3,
    "asinh": 3, "acosh": 3, "atanh": 3, "sinc": 6, "angle": 1, "sigmoid": 3, "logit": 4, "erf": 2, "erfc": 4,
    "erfinv": 6, "lgamma": 8, "digamma": 8, "i0": 8, "log_ndtr": 8, "sign": 0, "sgn": 0, "signbit": 0,
    "floor": 0, "ceil": 0, "trunc": 0, "round": 0, "frac": 0, "square": 0, "reciprocal": 1, "isnan": 0,
    "isinf": 0, "isfinite": 0, "isposinf": 0, "isneginf": 0, "bitwise_not": 0,
}  # fmt: skip
BINARY = {
    "logaddexp": 3, "xlogy": 3, "atan2": 3, "hypot": 2, "copysign": 0, "fmod": 0, "remainder": 0, "gcd": 0,
    "lcm": 0, "nextafter": 0, "maximum": 0, "minimum": 0, "fmax": 0, "fmin": 0, "bitwise_and": 0,
    "bitwise_or": 0, "bitwise_xor": 0, "left_shift": 0, "right_shift": 0, "clamp": 0, "ldexp": 2,
}  # fmt: skip
TORCH_NAMES = {"left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift"}
#: What torch answers and numjit does not.
GAPS = {
    ("logaddexp", "complex64"),
    ("logaddexp", "complex128"),
    ("ldexp", "complex64"),
    ("ldexp", "complex128"),
}

#: What numjit answers and torch does not.
MORE = {("log_ndtr", "float16"), ("log_ndtr", "bfloat16")}

SPECIAL = [
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 10.0, 2.5, -3.5,
    0.1, 1.4616321, 1.5, 6.75, -0.3, 0.7, 0.9, -0.999, 0.99999, 0.25, -7.3, 9.99, 12.5, 20.5, 37.0, -20.5,
    88.0, -88.0, 120.0, 1e3, 1e-3, 1e-5, -1e-5, 65000.0,
]  # fmt: skip


#: Multiples of eps that a result near one of the function's zeros may be off, where terms of size 1 cancel.
NEAR_ZEROS = {"digamma": 8, "logaddexp": 1}


def torch_function(name):
    name = TORCH_NAMES.get(name, name)
    return getattr(torch, name, None) or getattr(torch.special, name)


def values_of(name):
    """Return extremal and ordinary values of a dtype."""
    dtype = torch_dtype(dtypes.from_name(name))
    if name == "bool":
        return torch.tensor([False, True])
    if name in INTEGERS:
        info = torch.iinfo(dtype)
        wanted = [info.min, info.min + 1, -20, -3, -2, -1, 0, 1, 2, 3, 5, 10, 20, 100, info.max - 1, info.max]
        return torch.tensor([v for v in wanted if info.min <= v <= info.max], dtype=dtype)
    if name in COMPLEX:
        parts = [0.25, -0.25, 0.75, -1.5, 2.0, 3.0, -4.5]
        return torch.tensor([complex(a, b) for a in parts for b in parts], dtype=dtype)
    info = torch.finfo(dtype)
    edges = [
        info.max,
        info.min,
        info.tiny,
        -info.tiny,
        info.tiny * 2,
        info.eps,
        1 - info.eps / 2,
        1 + info.eps,
    ]
    random = torch.randn(60, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 3
    return torch.cat([torch.tensor(SPECIAL + edges, dtype=torch.float64), random]).to(dtype)


def answer(function, *values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*values)
        except (RuntimeError, TypeError, NotImplementedError):
            return None


def is_close(ours, theirs, ulps, near_zero=0):
    """Return where values agree to some units in the last place, infinities and NaN exactly."""
    info = torch.finfo(theirs.dtype)
    ours, theirs = ours.to(torch.float64), theirs.to(torch.float64)
    distance = (ours - theirs).abs() <= info.eps * (ulps * (theirs.abs() + info.tiny) + near_zero)
    return distance | (ours == theirs) | (ours.isnan() & theirs.isnan())


def assert_as_torch(text, ours, values, function, ulps, skip=None, near_zero=0):
    """Compare with torch's answer, or with that of float64 where torch's own is further off."""
    theirs = answer(function, *values)
    assert ours.dtype == theirs.dtype, f"{text}: {ours.dtype}, torch gives {theirs.dtype}"
    if theirs.is_complex():
        eps = torch.finfo(theirs.dtype).eps
        assert torch.isclose(ours, theirs, rtol=60 * eps, atol=20 * eps, equal_nan=True).all(), (
            text, ours - theirs,
        )  # fmt: skip
        return
    if not theirs.is_floating_point():
        same = (ours == theirs) if skip is None else (ours == theirs) | skip
        assert same.all(), difference(text, values, ours, theirs, ~same)
        return
    # A 16-bit result is rounded from float32, by torch after an operation of float32 too.
    ulps = min(ulps, 1) if theirs.dtype.itemsize == 2 else ulps
    good = is_close(ours, theirs, ulps, near_zero)
    wide = [v.double() if v.is_floating_point() else v for v in values]
    if theirs.dtype != torch.float64 and (exact := answer(function, *wide)) is not None:
        good |= is_close(ours, exact.to(theirs.dtype), ulps, near_zero)
    if skip is not None:
        good |= skip
    assert good.all(), difference(text, values, ours, theirs, ~good)


def difference(text, values, ours, theirs, where):
    given = [value[where].tolist() for value in values]
    return f"{text}: of {given} {ours[where].tolist()} is not {theirs[where].tolist()}"


def skipped_of_one(function, x):
    """Return where a function of one operand is not compared with torch, or None."""
    if function == "log_ndtr" and x.dtype == torch.float64:  # torch rounds the argument of its erfc
        return x > 2
    if function == "i0":  # NaN of infinity in torch
        return x.isinf()
    if function == "erfinv":  # torch's Newton steps cancel there: see test_values
        return x.double().abs() > 0.999
    if function == "digamma" and x.dtype == torch.float64:  # nor is torch exact beside its poles
        return (x < 0) & ((x - x.round()).abs() < 0.01)
    return None


def skipped_of_two(function, x, y, result):
    """Return where a function of two operands is not compared with torch, or None."""
    if function == "ldexp":  # torch overflows and underflows in the power alone
        power = torch.exp2(y.double())
        wide = result.dtype if result.is_floating_point() else torch.float32
        tiny = torch.finfo(wide).tiny
        overflows = power.to(torch.promote_types(wide, torch.float32)).isinf()
        return overflows | (power < tiny) | ((x.double() * power).abs() < tiny)
    if function in ("gcd", "lcm") and result.dtype.is_signed:
        low = torch.iinfo(result.dtype).min
        return (x == low) | (y == low)
    return None


def reference_of_two(function):
    """Return the torch function to compare with, kept from what traps."""
    if function in ("fmod", "remainder"):
        return guarded(exact(torch_function(function)), least=1)
    if function in ("gcd", "lcm"):
        return guarded(torch_function(function), least=0)
    return torch_function(function)


def pairs_of(first, second):
    """Return every value of a dtype with every one of another."""
    x, y = values_of(first), values_of(second)
    if (first, second) == ("int32", "float16"):  # beyond, the conversion alone rounds in torch
        x = x[x.abs() < 2048]
    places = torch.cartesian_prod(torch.arange(len(x)), torch.arange(len(y)))
    return x[places[:, 0]], y[places[:, 1]]


PAIRS = [(name, name) for name in NAMES]
PAIRS += [
    ("int32", "float16"),
    ("uint8", "int8"),
    ("bool", "int64"),
    ("float32", "float64"),
    ("int64", "float32"),
]


def exact(function):
    """Return ``torch.fmod`` or ``remainder`` made exact: on the CPU float64 is off for large quotients."""

    def exactly(x, y):
        answer = function(x, y)
        if answer.dtype != torch.float64 or answer.is_cuda:
            return answer
        with numpy.errstate(all="ignore"):
            x, y = x.double().numpy(), y.double().numpy()
            rest = numpy.fmod(x, y)
            if function is torch.remainder:
                rest = numpy.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
        return torch.from_numpy(rest)

    return exactly


def guarded(function, least):
    """Return a torch function kept from operands of which the processor traps: 0 by 0, the smallest by -1.

    There numjit gives 0, or for `least` of 0 is not compared.
    """

    def safe(x, y):
        dtype = torch.result_type(x, y)
        if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
            return function(x, y)
        x, y = x.to(dtype), y.to(dtype)
        if least:
            trivial = (y == 0) | ((y == -1) if dtype.is_signed else False)
            return torch.where(
                trivial, torch.zeros_like(x), function(x, torch.where(trivial, 1, y).to(dtype))
            )
        low = torch.iinfo(dtype).min
        return function(*(torch.where(v == low, 0, v).to(dtype) for v in (x, y)))

    return safe
