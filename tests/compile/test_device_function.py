"""Device functions for the user's own kernels: they compile for sm_90 with nothing left to call."""

import importlib.util
import math

import pytest

import numjit
from numjit.errors import ArgumentError, UnsupportedDtypeError
from tests.support.device_kernels import compiled
from tests.support.tiers import pairs

if importlib.util.find_spec("numba_cuda") is None:
    pytest.skip("numba-cuda is not installed", allow_module_level=True)

from numba import cuda
from numba.cuda import types

CC = (9, 0)
F32, F64, I64 = types.float32[::1], types.float64[::1], types.int64[::1]


def gelu(x, *, k=0.5):
    return k * x * (1 + math.erf(x * 0.7071067811865476))


GELU_TEXT = """
template <typename T>
T gelu(T x, T k) { return k * x * (1 + std::erf(x * T(0.7071067811865476))); }
"""
GELU = {"python": numjit.elementwise(gelu), "c++": numjit.elementwise(GELU_TEXT, k=0.5)}
BOTH = {
    "python": numjit.elementwise(lambda x, y: (x + y, x < y, x * 1j)),
    "c++": numjit.elementwise(
        "template <class T> void both(T x, T y, T& s, bool& l, std::complex<T>& c)"
        "{ s = x + y; l = x < y; c = std::complex<T>(0, x); }"
    ),
}


def gather(table: numjit.raw, k):
    return table[k] + numjit.index()


GATHER = {
    "python": numjit.elementwise(gather),
    "c++": numjit.elementwise(
        "template <class T, class I> T gather(numjit::raw<T> t, I k, numjit::index i) { return t[k] + T(i); }"
    ),
}
kinds = pytest.mark.parametrize("kind", ["python", "c++"])


@kinds
def test_a_kernel_inlines_it(kind):
    f = GELU[kind].device_function(numjit.float32, cc=CC)
    assert str(f.sig) in ("(float32, float64) -> float32", "(float32, float32) -> float32")

    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = f(x[i], 0.5) + 1

    cubin = compiled(kernel, F32, F32)
    cubin.assert_lean()
    assert cubin.count(r"FFMA|FMUL")


@kinds
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_results_are_a_tuple(kind, dtype):
    f = BOTH[kind].device_function(getattr(numjit, dtype), getattr(numjit, dtype), cc=CC)
    real = getattr(types, dtype)
    complex_type = types.complex64 if dtype == "float32" else types.complex128
    assert f.sig.return_type == types.Tuple((real, types.boolean, complex_type))

    def kernel(x, s, less, z):
        i = cuda.grid(1)
        if i < s.size:
            s[i], less[i], z[i] = f(x[i], 3)

    compiled(kernel, real[::1], real[::1], types.boolean[::1], complex_type[::1]).assert_lean()


PASSED = {
    "bool_": "boolean", "uint8": "uint8", "int16": "int16", "int64": "int64", "uint64": "uint64",
    "float16": "float32", "bfloat16": "float32", "float8_e4m3fn": "float32", "float64": "float64",
    "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind"), pairs(PASSED, ["python", "c++"]))
def test_every_dtype(kind, dtype):
    identity = {
        "python": numjit.elementwise(lambda x: x),
        "c++": numjit.elementwise("template <class T> T f(T x) { return x; }"),
    }[kind]
    f = identity.device_function(getattr(numjit, dtype), cc=CC)
    kind_of = getattr(types, PASSED[dtype])
    assert f.sig == kind_of(kind_of)

    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = f(x[i])

    compiled(kernel, kind_of[::1], kind_of[::1]).assert_lean()


@kinds
def test_raw_operands_are_arrays_and_the_index_comes_last(kind):
    f = GATHER[kind].device_function(numjit.float32, numjit.int64, cc=CC)
    assert f.sig.args == (types.Array(types.float32, 1, "C"), types.int64, types.int64)

    def kernel(table, k, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = f(table, k[i], i)

    compiled(kernel, F32, I64, F32).assert_lean()
    with pytest.raises(UnsupportedDtypeError, match="no arrays of bfloat16"):
        GATHER[kind].device_function(numjit.bfloat16, numjit.int64, cc=CC)


def test_functions_of_one_name_in_one_kernel_stay_apart():
    texts = ["template <class T> T f(T x) { return x + 1; }", "template <class T> T f(T x) { return x * 3; }"]
    one, two = (numjit.elementwise(text).device_function(numjit.float32, cc=CC) for text in texts)
    three, four = (
        numjit.elementwise(fn).device_function(numjit.float32, cc=CC)
        for fn in (lambda x: x * 5, lambda x: x * 7)
    )

    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = four(three(two(one(x[i]))))

    cubin = compiled(kernel, F32, F32)
    cubin.assert_lean()
    for constant in (3, 5, 7):
        assert f"{constant}" in " ".join(
            line for line in cubin.text.splitlines() if "FMUL" in line or "FFMA" in line
        )


def test_the_same_request_is_the_same_function():
    f = GELU["python"]
    assert f.device_function("float32", cc=CC) is f.device_function(numjit.float32, cc=CC)
    assert f.device_function("float64", cc=CC) is not f.device_function(numjit.float32, cc=CC)


def test_scalars_have_the_kind_of_their_default_or_what_is_said():
    f = numjit.elementwise(lambda x, *, n, k=3: x * n + k)
    assert f.device_function(numjit.float32, cc=CC).sig.args == (types.float32, types.float64, types.int64)
    named = f.device_function(numjit.float32, numjit.int64, numjit.complex64, cc=CC)
    assert named.sig.args == (types.float32, types.int64, types.complex128)
    assert named.sig.return_type == types.complex64
    with pytest.raises(ArgumentError, match="1 operands and 2 scalars"):
        f.device_function(numjit.float32, numjit.float32, cc=CC)
