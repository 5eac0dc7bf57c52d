"""CUDA C++ functors to LTO-IR and on to a cubin, without a GPU."""

# ruff: noqa: E501 - functors stay on one line beside what they must answer.

import sys
import time
import warnings

import pytest

from numjit import dtypes
from numjit.errors import CompilationError, ToolchainError
from numjit.functor.cpp import source as cpp_source
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.cpp.source import device_source
from numjit.functor.signature import ArgumentType
from numjit.semantics.category import Category
from numjit.toolchain import libraries, nvrtc
from numjit.toolchain.nvjitlink import link as toolchain_link

nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink")
pytest.importorskip("cuda.bindings.nvrtc")

CAPABILITIES = [(8, 0), (9, 0), (10, 0)]

# Every function that a functor may call on complex numbers.
COMPLEX = """template <typename T> T f(T z) {
  T w = std::exp(z) + std::log(z) + std::log2(z) + std::log10(z) + std::pow(z, z) + std::pow(z, 2) + pow(2.0, z);
  w += std::sqrt(z) + sin(z) + cos(z) + std::tan(z) + std::asin(z) + std::acos(z) + std::atan(z) + std::sinh(z);
  w *= std::cosh(z) - std::tanh(z) - std::asinh(z) - std::acosh(z) - std::atanh(z) - std::conj(z) - std::proj(z);
  w /= std::polar(std::abs(z), std::arg(z)) + std::norm(z) + std::real(z) + std::imag(z) + T(2) + T(1, 2.0);
  w -= 2 * z + 2.0 * z + z * 2.0f + z / 2 + 1 / z + (z - 1.0) + (1 - z) + (-z) + (+z);
  if (z == w || z != 1 || T(0) == z) w = 0;
  return w == T(0) ? z : w;
}"""

LIBRARY = """#include <cmath>
#include <limits>
template <typename T> T f(T x, int32_t i, std::uint8_t u) {
  using L = std::numeric_limits<T>;
  static_assert(std::is_same<T, float>::value || L::digits > 0, "limits");
  T y = std::min(x, T(1)) + std::max(x, T(2)) + std::clamp(x, T(0), T(1)) + L::max() + L::lowest() + L::min();
  y += L::epsilon() + L::infinity() + L::quiet_NaN() + T(M_PI) + T(INFINITY) + T(NAN) + T(FLT_MAX) + INT_MAX;
  y += std::exp(1) + std::pow(x, 2) + std::pow(2, 3) + std::fmod(x, 2) + std::hypot(x, 1) + std::sqrt(i) + min(i, 3);
  y += rsqrt(x) + erfinv(x) + __expf(1.0f) + std::abs(u) + std::abs(i) + std::fabs(x) + max(x, T(2)) + min(i, 2.5);
  y += std::min({1, 2, 3}) + std::isnan(x) + std::isfinite(i) + std::signbit(x) + std::round(x) + cbrt(i) + INT8_MIN;
  std::swap(x, y);
  return std::move(y) + std::conditional_t<true, int, float>(1);
}"""


def source(text, *shown, symbol="seam", **given):
    functor = CppFunctor(text, **given)
    types = tuple(ArgumentType(dtypes.from_name(s), Category.DIM) for s in shown)
    return device_source(functor, functor.specialise(types, dtypes.float32), symbol)


def compile_one(text, *shown, cc=(9, 0), **given):
    return nvrtc.compile_ltoir(source(text, *shown, **given), cc=cc, name="f")


def link(code, cc, symbol="seam"):
    """Link LTO-IR alone; the symbol is kept by naming it."""
    options = [f"-arch=sm_{cc[0]}{cc[1]}", "-lto", "-O3", f"-kernels-used={symbol}"]
    handle = nvjitlink.create(len(options) - 1, options[:-1])
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), "functor")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    finally:
        nvjitlink.destroy(handle)


@pytest.mark.parametrize("cc", CAPABILITIES)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("template <typename T> T f(T x, T y) { return x + y; }", ("float16", "int8")),
        ("template <typename T> void f(T x, bool& a, T& b) { a = x == T(0); b = 2 * x; }", ("complex64",)),
    ],
)
def test_links_alone(text, shown, cc):
    cubin = link(compile_one(text, *shown, cc=cc), cc)
    assert cubin[:4] == b"\x7fELF"


@pytest.mark.parametrize("dtype", ["complex32", "complex64", "complex128"])
def test_every_complex_function(dtype):
    assert compile_one(COMPLEX, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_library_without_includes(dtype):
    assert compile_one(LIBRARY, dtype, "int32", "uint8")


@pytest.mark.parametrize("dtype", [d.name for d in dtypes.ALL])
def test_every_dtype(dtype):
    assert compile_one("template <typename T> T f(T x, T y) { return x * y + T(1); }", dtype, dtype)


@pytest.mark.parametrize(
    "name", ["s", "l", "N", "idx", "data", "main_", "numjit_functor", "exp", "min", "numjit", "std_"]
)
def test_any_name(name):
    text = f"#define i 3\ntemplate <typename T> T {name}(T l, T idx) {{ return l + idx * i; }}"
    assert compile_one(text, "float32", "float32")


def test_overloads_templates_and_namespaces():
    text = """namespace k { float g(float x) { return x; } }
template <typename T, int N = 2> T twice(T x) { return N * x; }
template <typename T> T f(T x) { return x; }
template <typename T> T f(T x, T y) { return x; }
float f(float a, const float& b) { return twice(a) * k::g(b); }"""
    assert compile_one(text, "float32", "float32")


def test_cuda_headers_are_found():
    pytest.importorskip("cuda.pathfinder")
    text = "#include <cuda_fp16.h>\nfloat f(float x) { return __half2float(__float2half(x)); }"
    assert compile_one(text, "float32")


def test_compiles_quickly():
    text = "template <typename T> T f(T x, T y) { return x + y; }"
    compile_one(text, "float32", "float32")
    best = 1.0
    for _ in range(5):
        start = time.perf_counter()
        compile_one(text, "float32", "float32")
        best = min(best, time.perf_counter() - start)
    assert best < 0.15  # 25 ms where nothing else runs.


@pytest.mark.parametrize(
    ("text", "shown", "line", "words"),
    [
        ("template <typename T>\nT f(T x) {\n\treturn x + yy;\n}", "float32", "line 3, column 13", "yy"),
        ("template <typename T>\nT f(T x) {\n  return x + 1\n}", "float32", "line 4, column 1", "expected"),
        ("template <typename T>\nT f(T x) {\n  return x < x;\n}", "complex64", "line 3, column 12", "<"),
        (
            "template <typename T>\nT f(T x) {\n  return x ? x : -x;\n}",
            "complex64",
            "line 3, column 10",
            "bool",
        ),
        ("template <typename T>\nT f(T x) {\n  return std::max(x, x);\n}", "complex64", "line 3", "<"),
        (
            "#include <cuda_fp16.h>\n#include <nope.h>\nfloat f(float x) { return x; }",
            "float32",
            "line 2",
            "nope.h",
        ),
        ("#define ADD(a) a + zz\n\nfloat f(float x) { return ADD(x); }", "float32", "line 3", "zz"),
    ],
)
def test_errors_show_the_users_line(text, shown, line, words):
    with pytest.raises(CompilationError) as caught:
        compile_one(text, shown)
    message = str(caught.value)
    assert line in message
    assert words in message
    assert len(message.splitlines()) < 15
    assert "numjit_" not in message
    assert "after_an_error" not in message
    assert compile_one("float after_an_error(float x) { return x; }", "float32")


def test_what_functors_rarely_use_is_there_too(monkeypatch):
    """NVRTC is first asked without it, which is quicker; the code is the same."""
    runs, run = [], nvrtc._run

    def counted(module, text, arguments, what):
        status, *answer = run(module, text, arguments, what)
        runs.append(("-minimal" in arguments, not status))
        return status, *answer

    monkeypatch.setattr(nvrtc, "_run", counted)
    plain = source("template <typename T> T f(T x) { return std::exp(x) / T(3) + __expf(x); }", "float32")
    quick = nvrtc.compile_ltoir(plain, cc=(9, 0), name="f")
    assert runs == [(True, True)]
    assert quick == nvrtc.compile_ltoir(plain, cc=(9, 0), name="f", options=["-default-device"])
    assert runs[1:] == [(False, True)]
    runs.clear()
    texture = """__device__ float look(cudaTextureObject_t t) { return tex1Dfetch<float>(t, 0); }
        template <typename T> T f(T x) { return x ? x : look(0); }"""
    assert compile_one(texture, "float32")
    assert runs == [(True, False), (False, True)]
    runs.clear()
    with pytest.raises(CompilationError, match="nonsense"):
        compile_one("template <typename T> T f(T x) { return nonsense; }", "float32")
    assert runs == [(True, False), (False, False)]


def test_options():
    text = "float f(float x) { return x + VALUE; }"
    program = source(text, "float32")
    assert nvrtc.compile_ltoir(program, cc=(9, 0), name="f", options=["-DVALUE=3"])
    with pytest.raises(CompilationError, match="refuses an option"):
        nvrtc.compile_ltoir(program, cc=(9, 0), name="f", options=["--no-such-option"])


def test_architectures():
    assert (9, 0) in nvrtc.supported_architectures()
    assert nvrtc.compile_ltoir(source("float f(float x) { return x; }", "float32"), cc=(99, 0), name="f")
    with pytest.raises(ToolchainError, match=r"3\.0"):
        nvrtc.compile_ltoir("", cc=(3, 0), name="f")


@pytest.mark.parametrize(
    ("text", "dtype", "code"),
    [
        ("template <class T> auto f(T x, T y) { return x + y; }", "int8", 204),
        ("template <class T> auto f(T x, T y) { return x < y; }", "int8", 101),
        ("template <class T> auto f(T x, T y) { return x * 2.0; }", "float32", 408),
        ("template <class T> auto f(T x, T y) { return x * 2.0; }", "complex64", 508),
        ("template <class T> decltype(auto) f(T x, T y) { return (unsigned long long)x; }", "float32", 308),
        ("struct S {};\ntemplate <class T> auto f(T x, T y) { return S(); }", "float32", 0),
    ],
)
def test_return_types_are_deduced(text, dtype, code):
    found = dtypes.from_name(dtype)
    assert nvrtc.probe_return_type(CppFunctor(text), (found, found), {"T": found}) == code


PARTS = {
    "nothing": "template <typename T> T f(T x, T y) { return x * y - T(2); }",
    "a function": "template <typename T> T f(T x, T y) { return exp(x) * y; }",
    "std": "template <typename T> T f(T x, T y) { return std::is_same_v<T, float> ? std::exp(x) : std::abs(y); }",
    "limits": "template <typename T> T f(T x, T y) { return std::max(x, y) * std::numeric_limits<T>::epsilon(); }",
    "mixed": "template <typename T> T f(T x, T y) { return max(x, 2.0) + pow(y, 3) + fma(x, y, 1); }",
    "constants": "template <typename T> T f(T x, T y) { return M_PI * x + (isnan(y) ? INFINITY : INT_MAX); }",
    "its own": "template <typename T> T sin(T x) { return x; }\ntemplate <typename T> T f(T x, T y) { return sin(x) + y; }",
    "a macro": "#define F lo\\\ng1p\ntemplate <typename T> T f(T x, T y) { return F(x) + int32_t(y); }",
    "pasted": "#define P(a, b) a##b\ntemplate <typename T> T f(T x, T y) { return P(ex, p)(x) + std::P(mi, n)(x, y); }",
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_headers_without_what_is_not_used_make_the_same_instructions(name, dtype, monkeypatch):
    text = PARTS[name].replace("f(T x, T y)", "seam_functor(T x, T y)")
    t = {"float32": "float", "int32": "int"}[dtype]
    kernel = f"""
    extern "C" __device__ int seam({t}*, {t}, {t});
    extern "C" __global__ void kernel({t}* p) {{ {t} r; seam(&r, p[0], p[1]); p[2] = r; }}
    """
    caller = nvrtc.compile_ltoir(kernel, cc=(9, 0), name="kernel", options=["-default-device"])

    def instructions(program):
        code = nvrtc.compile_ltoir(program, cc=(9, 0), name="f")
        return toolchain_link([("kernel", caller), ("f", code)], (9, 0), ptx=True)

    def body(ptx):
        found = ptx.decode()
        return found[found.index("kernel(") :]

    short = source(text, dtype, dtype)
    with monkeypatch.context() as patch:
        patch.setattr(cpp_source, "used_text", lambda functor, names: cpp_source.header_text(names))
        whole = source(text, dtype, dtype)
    assert (len(short) < len(whole)) == (name != "pasted")
    assert body(instructions(short)) == body(instructions(whole))


def test_a_short_functor_leaves_no_variables_in_the_program():
    ptx = nvrtc._compile(source(PARTS["nothing"], "float32", "float32"), (9, 0), "f", [], "PTX")[0].decode()
    assert ".global" not in ptx


def test_a_missing_library(monkeypatch):
    missing = libraries.Library("NVRTC", "nvrtc", ("libnvrtc.so.0",), ("nvidia/none",))
    monkeypatch.setattr(nvrtc, "LIBRARY", missing)
    for function in (nvrtc._load, nvrtc.supported_architectures, nvrtc.nvrtc_version):
        function.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda", None)
    try:
        with pytest.raises(ToolchainError, match=r"NVRTC is not installed .* pip install 'numjit\[cu13\]'"):
            nvrtc.compile_ltoir("", cc=(9, 0), name="f")
    finally:
        nvrtc._load.cache_clear()


def test_a_functor_that_needs_more_of_the_headers_gets_all(monkeypatch, tmp_path):
    from numjit.call import build

    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cpp_source, "used_text", lambda functor, names: "")
    functor = CppFunctor("template <typename T> T f(T x) { return std::exp(x); }")
    types = (ArgumentType(dtypes.float32, Category.DIM),)
    specialisation = functor.specialise(types, dtypes.float32)
    with pytest.raises(CompilationError):
        nvrtc.compile_ltoir(device_source(functor, specialisation, "seam"), cc=(9, 0), name="f")
    assert toolchain_link([("f", build.device_code(functor, specialisation, (9, 0)))], (9, 0), ptx=True)


@pytest.mark.parametrize(
    "body",
    [
        "x = x * 2;",
        "if (x > 1) return x;",
        "switch (int(x)) { case 0: return x; }",
        "while (x > 1) return x;",
    ],
)
def test_a_missing_value_is_an_error_at_its_line(body):
    with pytest.raises(CompilationError, match=r"line 3.*missing return statement"):
        compile_one(f"template <typename T> T f(T x) {{\n{body}\n}}", "float32")


def test_warnings_are_of_the_users_text_and_told_once(monkeypatch):
    from numjit.functor.cpp import diagnostics as cpp_diagnostics

    monkeypatch.setattr(cpp_diagnostics, "_told", set())
    text = "template <typename T> T h(T x) {\n  T y;\n  return y;\n}\ntemplate <typename T> T f(T x) { return h(x); }"
    with pytest.warns(
        UserWarning, match="functor 'f', line 3, column 10.*\"y\" is used before its value is set"
    ):
        compile_one(text, "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_one(text, "float64")
