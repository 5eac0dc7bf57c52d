"""Every function of ``numjit.math`` as device code, without a GPU: resolved calls, and no hidden float64."""

from __future__ import annotations

import inspect
import re

import pytest

import numjit
from numjit import dtypes
from numjit.errors import CompilationError
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.cpp.source import device_source
from numjit.functor.device import compile_device
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType
from numjit.rules import cpp_values
from numjit.semantics.category import Category
from numjit.toolchain import nvrtc

CC = (9, 0)
#: libdevice reduces large arguments of float32 sine, cosine and tangent with one float64 product.
REDUCED = {"sin", "cos", "tan", "sinc"}
#: The functions of complex64 that take sines and cosines of a part.
REDUCED_COMPLEX = REDUCED | {"exp", "exp2", "expm1", "sinh", "cosh", "tanh", "sigmoid"}
COMPLEX = REDUCED_COMPLEX | {
    "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "isfinite", "isinf", "isnan", "log", "log10",
    "log1p", "log2", "reciprocal", "rsqrt", "sgn", "sqrt", "square", "where",
}  # fmt: skip
#: What that reduction consists of.
REDUCTION = re.compile(
    r"\.reg|cvt\.rn\.f64\.s64|mul\.f64|cvt\.rn\.f32\.f64|mov\.f64|neg\.f64|selp\.f64|mov\.b64|ld\.param"
)
INTEGERS_ONLY = {
    "gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift",
}  # fmt: skip
FLOATS_ONLY = {"softplus", "hypot", "logaddexp", "frac", "nextafter"}
CALLS = {"where": "numjit.math.where(x != 0, x, y)", "clamp": "numjit.math.clamp(x, lo=y, hi=2)"}


def ptx_of(name, dtype):
    parameters = inspect.signature(getattr(numjit.math, name)).parameters.values()
    arguments = ", ".join("xyz"[: sum(p.default is p.empty for p in parameters)])
    arguments = "x, y" if name in CALLS else arguments
    scope = {"numjit": numjit}
    exec(f"def f({arguments}): return {CALLS.get(name, f'numjit.math.{name}({arguments})')}", scope)
    functor = PythonFunctor(scope["f"])
    kinds = (ArgumentType(dtype, Category.DIM),) * (arguments.count(",") + 1)
    specialised = functor.specialise(kinds, dtypes.float32, target="cuda")
    return compile_device(functor, specialised, "numjit_functor", CC, "ptx").decode()


def float64_lines(ptx):
    return [line.strip() for line in ptx.splitlines() if ".f64" in line]


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.int32], ids=str)
def test_real_functions(dtype):
    refused = FLOATS_ONLY if dtype.is_integral else INTEGERS_ONLY
    for name in numjit.math.__all__:
        if name in refused:
            with pytest.raises(CompilationError, match=r"not supported|torch refuses"):
                ptx_of(name, dtype)
            continue
        ptx = ptx_of(name, dtype)
        assert ".extern" not in ptx, name
        assert "call" not in ptx or "call.uni" not in ptx, name
        lines = float64_lines(ptx)
        if name in REDUCED:
            assert all(REDUCTION.search(line) for line in lines), (name, lines)
            assert sum("mul" in line for line in lines) == 1, (name, lines)
        else:
            assert not lines, (name, lines)


def test_complex_functions():
    for name in numjit.math.__all__:
        if name not in COMPLEX:
            with pytest.raises(CompilationError, match=r"not supported|torch refuses|no order"):
                ptx_of(name, dtypes.complex64)
            continue
        ptx = ptx_of(name, dtypes.complex64)
        assert ".extern" not in ptx, name
        lines = float64_lines(ptx)
        if name in REDUCED_COMPLEX:
            assert all(REDUCTION.search(line) for line in lines), (name, lines)
        else:
            assert not lines, (name, lines)


@pytest.mark.parametrize("name", cpp_values.OWN)
def test_functions_of_cpp(name):
    """They compile for the GPU, call nothing, and compute float32 in float32."""
    count = len(inspect.signature(cpp_values.OWN[name].formula).parameters)
    declared, given = ", ".join(f"T {x}" for x in "xyz"[:count]), ", ".join("xyz"[:count])
    functor = CppFunctor(f"template <class T> T f({declared}) {{ return numjit::{name}({given}); }}")
    for dtype in (dtypes.float32, dtypes.float64):
        specialised = functor.specialise((ArgumentType(dtype, Category.DIM),) * count, dtypes.float32)
        program = device_source(functor, specialised, "sym")
        ptx = nvrtc._compile(program, CC, "f", [], "PTX")[0].decode()
        assert ".extern" not in ptx
        lines = float64_lines(ptx)
        if dtype is dtypes.float64:
            assert lines
        elif name in REDUCED:
            assert all(REDUCTION.search(line) for line in lines), lines
        else:
            assert not lines


@pytest.mark.parametrize(
    "name", ["erfinv", "digamma", "i0", "lgamma", "rsqrt", "fma", "nextafter", "sigmoid"]
)
def test_float64(name):
    ptx = ptx_of(name, dtypes.float64)
    assert ".extern" not in ptx
    assert float64_lines(ptx)


def test_the_gpu_uses_its_own_instructions():
    assert "fma.rn.f32" in ptx_of("fma", dtypes.float32)
    assert "rsqrt.approx.ftz.f32" in ptx_of("rsqrt", dtypes.float32) or "rsqrt.approx.f32" in ptx_of(
        "rsqrt", dtypes.float32
    )
    assert "ex2.approx" in ptx_of("exp2", dtypes.float32)
    assert len(ptx_of("nextafter", dtypes.bfloat16).splitlines()) < 150
