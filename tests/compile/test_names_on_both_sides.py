"""Names of CUDA and of the standard library that a functor may use, compiled for the CPU and for a GPU."""

# ruff: noqa: E501 - statements stay on one line beside their name.

import pytest

from numjit import dtypes
from numjit.call import build
from numjit.cpu import cpp_loop
from numjit.errors import CompilationError
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.signature import ArgumentType
from numjit.semantics.category import Category

pytest.importorskip("cuda.bindings.nvrtc")

#: Statements by a name; each leaves `r`.
NAMES = {
    "std::memcpy": "int i; std::memcpy(&i, &x, sizeof i); r = i;",
    "memcpy": "int i; memcpy(&i, &x, sizeof i); r = i;",
    "std::memset": "int i; std::memset(&i, 0, sizeof i); r = i;",
    "std::array": "std::array<float, 3> a{x, x, x}; for (float& v : a) v += 1; r = a[0] + a.size() + a.back();",
    "std::bit_cast": "r = std::bit_cast<int>(x);",
    "std::lerp": "r = std::lerp(x, 2.0f, 0.25f);",
    "std::clamp": "r = std::clamp(x, 0.0f, 1.0f);",
    "std::swap": "float a = x, b = 1; std::swap(a, b); r = a;",
    "CUDART_INF_F": "r = x < CUDART_INF_F ? CUDART_PI_F : CUDART_NAN_F;",
    "CUDART_INF": "r = x < CUDART_INF ? CUDART_PI : CUDART_NAN;",
    "__byte_perm": "r = __byte_perm(1u, 2u, 0x3210u);",
    "__funnelshift": "r = __funnelshift_l(1u, 2u, 3u) + __funnelshift_r(1u, 2u, 3u) + __funnelshift_lc(1u, 2u, 33u)"
    " + __funnelshift_rc(1u, 2u, 33u);",
    "float2": "float2 a = make_float2(x, 1.0f); r = a.x + a.y;",
    "float4": "float4 a = make_float4(x, 1.0f, 2.0f, 3.0f); r = a.x + a.w + sizeof(a);",
    "double3": "double3 a{1, 2, 3}; r = a.z;",
    "int4": "int4 a = make_int4(1, 2, 3, 4); uchar4 b = make_uchar4(1, 2, 3, 4); r = a.w + b.w;",
    "__popc": "r = __popc(7u) + __clz(1) + __ffs(8) + __brev(1u);",
    "__float_as_int": "r = __float_as_int(x) + __int_as_float(1);",
    "__saturatef": "r = __saturatef(x) + __fdividef(x, 2.0f) + __expf(x);",
    "std::pair": "std::conditional_t<true, float, int> a = x; r = a;",
    "printf": 'printf("%f", double(x)); r = x;',
}
HEADERS = ["array", "bit", "cstring", "cmath", "cstdint", "math_constants.h", "string.h", "algorithm"]


def compile_both(text):
    functor = CppFunctor(text)
    found = functor.specialise((ArgumentType(dtypes.float32, Category.DIM),), dtypes.float32)
    cpp_loop.build_chunk(functor, found, list(found.inputs), list(found.outputs), [""])
    assert build._compile_cpp(functor, found, "seam", (9, 0))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_known_on_both_sides(name):
    compile_both(f"float f(float x) {{ float r = x; {NAMES[name]} return r; }}")


def test_headers_of_these_names_may_be_included():
    includes = "".join(f"#include <{name}>\n" for name in HEADERS)
    compile_both(f"{includes}float f(float x) {{ return x; }}")


def test_a_header_of_one_side_is_told():
    functor = CppFunctor("#include <cuda_fp16.h>\nfloat f(float x) { return __half2float(__float2half(x)); }")
    found = functor.specialise((ArgumentType(dtypes.float32, Category.DIM),), dtypes.float32)
    with pytest.raises(CompilationError, match=r"line 1.*cuda_fp16\.h is CUDA's and only there on a GPU"):
        cpp_loop.build_chunk(functor, found, list(found.inputs), list(found.outputs), [""])
    missing = CppFunctor("#include <vector>\nfloat f(float x) { return x; }")
    with pytest.raises(CompilationError, match=r"vector is not found.*NVRTC has no standard library"):
        build._compile_cpp(missing, found, "seam", (9, 0))
