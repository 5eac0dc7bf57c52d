"""Cases E: what the text of a C++ functor may look like, and what is said of text that is wrong."""

from __future__ import annotations

import importlib
import math
import re

import pytest
import torch

import numjit
from numjit.cpu import cpp_loop
from numjit.errors import CompilationError, FunctorError
from tests.cases import holds, same
from tests.support.tiers import mostly_slow


def both_layouts(functor, x, expected):
    """Assert a functor's values over contiguous, strided, broadcast and (twice) mixed operands."""
    same(functor(x), expected(x))
    wide = torch.stack([x, x], dim=-1)[..., 0]
    same(functor(wide), expected(wide))


@pytest.fixture
def x(device):
    return torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -8.0]], device=device)


TEXTS = {
    "e1-comment": "// adds <one> { to x\n/* T f(T y) */ template <typename T> T f(T x) { return x + T(1); }",
    "e1-define": "#define ONE 1\n#define ADD(a, b) ((a) + (b))\n"
    "template <typename T> T f(T x) { return ADD(x, T(ONE)); }",
    "e1-comments-inside": "template <typename T> // {\nT f(/* the < operand */ T x) { "
    'const char* s = "}{<>"; return x + T(1); /* } */ }',
    "e2-helper": "float one(float x) { return x + 1; }\ntemplate <typename T> T f(T x) { return one(x); }",
    "e2-template-helper": (
        "template <typename U> U one() { return U(1); }\n"
        "template <typename T> T f(T x) { return x + one<T>(); }"
    ),
    "e2-struct": "struct One { float value = 1; float get() const { return value; } };\n"
    "template <typename T> T f(T x) { One o; return x + T(o.get()); }",
    "e3-qualifiers": "template <typename T>\n"
    "__device__ __forceinline__ T f(const T x) noexcept { return x + T(1); }",
    "e3-static-inline": "template <class T> static inline T f(T x) { return x + T(1); }",
    "e3-constexpr": "template <typename T> constexpr T f(T x) { return x + T(1); }",
    "e3-host-device": "template <typename T> __host__ __device__ T f(const T& x) { return x + T(1); }",
    "e3-attribute": "template <typename T> [[nodiscard]] T f([[maybe_unused]] T x) { return x + T(1); }",
    "e3-trailing": "template <typename T> auto f(T x) -> T { return x + T(1); }",
    "e3-auto": "template <typename T> auto f(T x) { return x + T(1); }",
    "e3-using": "using real = float;\nreal f(real x) { return x + real(1); }",
    "e3-plain": "float f(float x) { return x + 1; }",
    "e9-overloads": "float f(int x) { return x; }\ntemplate <typename T> T f(T x) { return x + T(1); }",
    "windows-line-ends": "template <typename T>\r\nT f(T x) {\r\n  return x + T(1);\r\n}\r\n",
    "shift-and-less": "template <typename T> T f(T x) { int k = 1 << 2 >> 2; return k < 2 ? x + T(k) : x; }",
    "output-parameter": "template <typename T> void f(T x, T& y) { y = x + T(1); }",
    "namespace": "namespace mine { template <typename T> T one(T x) { return x + T(1); } }\n"
    "template <typename T> T f(T x) { return mine::one(x); }",
    "lambda": "template <typename T> T f(T x) { auto g = [](T y) { return y + T(1); }; return g(x); }",
    "raw-string": 'template <typename T> T f(T x) { const char* s = R"(} { ")"; return x + T(1); }',
    "continued-macro": "#define ONE \\\n  1\ntemplate <typename T> T f(T x) { return x + T(ONE); }",
}


@pytest.mark.parametrize("name", TEXTS)
def test_e1_e2_e3_e9_texts_that_add_one(name, x):
    functor = numjit.elementwise(TEXTS[name])
    assert functor.__name__ == "f"
    both_layouts(functor, x, lambda x: x + 1)


def test_e2_a_helper_after_the_entry(x):
    text = """
        template <typename T> T helper(T x);
        template <typename T> T start(T x) { return helper(x) + T(1); }
        template <typename T> T helper(T x) { return x * T(2); }
    """
    both_layouts(numjit.elementwise(text, entry="start"), x, lambda x: x * 2 + 1)
    both_layouts(numjit.elementwise(text), x, lambda x: x * 2)
    with pytest.raises(FunctorError, match=r"missing"):
        numjit.elementwise(text, entry="missing")


def test_e4_complex_results(device):
    text = "template <typename T> std::complex<T> f(T x, T y) { return std::complex<T>(x, y); }"
    x, y = torch.tensor([1.0, 2.0], device=device), torch.tensor([0.5, -1.0], device=device)
    both = numjit.elementwise(text)
    same(both(x, y), torch.complex(x, y))
    same(both(x.double(), y.double()), torch.complex(x.double(), y.double()))
    same(both(x.repeat(2)[::2], y.repeat(2)[1::2]), torch.complex(x.repeat(2)[::2], y.repeat(2)[1::2]))


def test_e4_complex_arguments_and_mathematics(device):
    z = torch.tensor([1 + 2j, 3 - 4j], device=device)
    absolute = numjit.elementwise("template <typename T> T f(std::complex<T> z) { return std::abs(z); }")
    torch.testing.assert_close(absolute(z), z.abs())
    root = numjit.elementwise("template <typename T> T f(T z) { return std::exp(z) * std::conj(z); }")
    torch.testing.assert_close(root(z), torch.exp(z) * z.conj().resolve_conj())


@pytest.mark.parametrize(
    "name",
    mostly_slow(
        ["s", "l", "N", "idx", "data", "main_", "numjit_functor", "out", "x0", "abi", "value", "i", "rank",
         "T0", "run", "start", "stride", "std_", "load"],
        lambda name: name in ("numjit_functor", "out", "value", "T0", "run", "stride", "load"),
    ),
)  # fmt: skip
def test_e6_any_name_of_a_functor(name, device):
    text = f"template <typename T> T {name}(T a, T b) {{ return a + T(2) * b; }}"
    functor = numjit.elementwise(text)
    a, b = torch.arange(6.0, device=device).view(2, 3), torch.arange(6.0, device=device).view(3, 2).t()
    same(functor(a, a), a + 2 * a)
    same(functor(b, b), b + 2 * b)
    same(functor(a, b), a + 2 * b)


def test_e6_any_name_of_a_parameter_or_macro(device):
    text = """
        #define out 3
        #define N 4
        #define index 5
        template <typename value_t> value_t f(value_t pointers, value_t strides, value_t values) {
            return pointers + strides * values + value_t(out) * value_t(N) * value_t(index) / 60;
        }
    """
    a = torch.arange(4.0, device=device)
    same(numjit.elementwise(text)(a, a[1:2], 2), a + a[1:2] * 2 + 1)


def test_e8_the_standard_library_without_includes(device):
    text = """
        template <typename T> T f(T x) {
            int32_t i = 3; uint8_t u = 2; int64_t w = 1;
            T most = std::numeric_limits<T>::max();
            T small = std::min(x, most) + std::max(T(i), T(u)) + T(w);
            return small + T(M_PI) - T(M_PI) + std::sqrt(T(4)) + std::abs(T(-1));
        }
    """
    x = torch.tensor([1.0, 2.0], device=device)
    torch.testing.assert_close(numjit.elementwise(text)(x), x + 7)
    torch.testing.assert_close(numjit.elementwise(text)(x.double()), x.double() + 7)


def test_e8_mathematics_of_cuda_without_std(device):
    text = """template <typename T> T f(T x) {
        T one = sin(x) * sin(x) + cos(x) * cos(x);
        return one + exp(T(0)) + fmax(x, x) + pow(x, T(2)) + tanh(T(0)) + floor(x);
    }"""
    x = torch.tensor([0.25, 1.5, 3.0], device=device)
    torch.testing.assert_close(numjit.elementwise(text)(x), 2 + x + x**2 + x.floor())


def test_preamble_and_includes(device):
    text = "template <typename T> T f(T x) { return SHIFT(x); }"
    x = torch.tensor([1.0], device=device)
    holds(numjit.elementwise(text, preamble="#define SHIFT(x) ((x) + 4)")(x), [5.0], torch.float32)
    holds(numjit.elementwise(text, preamble="#define SHIFT(x) ((x) + 6)")(x), [7.0], torch.float32)
    with pytest.raises((FunctorError, CompilationError)):
        numjit.elementwise(text)(x)


def test_a_return_value_and_output_parameters_together(device):
    text = """template <typename T> T f(T x, T& half, bool& positive) {
        half = x / 2; positive = x > 0; return -x;
    }"""
    x = torch.tensor([1.0, -2.0], device=device)
    minus, half, positive = numjit.elementwise(text)(x)
    same(minus, -x)
    same(half, x / 2)
    same(positive, x > 0)


def test_integer_division_truncates_as_in_cpp(device):
    text = "template <typename T> T f(T x, T y) { return x / y; }"
    x, y = torch.tensor([-7, 7, -7], device=device), torch.tensor([2, -2, -2], device=device)
    same(numjit.elementwise(text)(x, y), torch.div(x, y, rounding_mode="trunc"))


def test_default_arguments_make_operands_omittable(device):
    text = "template <typename T> T f(T x, T y = 2) { return x * y; }"
    functor = numjit.elementwise(text)
    x = torch.tensor([1.0, 2.0], device=device)
    same(functor(x), x * 2)
    same(functor(x, x), x * x)
    same(functor(x, y=3), x * 3)


# ------------------------------------------------------------------------------------------------ errors


def test_e10_a_syntax_error_shows_the_users_line(device):
    text = "template <typename T> T f(T x) {\n    T y = x + ;\n    return y;\n}\n"
    with pytest.raises(CompilationError) as caught:
        numjit.elementwise(text)(torch.ones(2, device=device))
    message = str(caught.value)
    assert "line 2" in message
    assert "T y = x + ;" in message
    assert "'f'" in message
    assert len(message.splitlines()) <= 15
    assert len(message) < 1500
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(
    "body",
    [
        "return undeclared(x);",
        "return x.nothing;",
        "return missing + x;",
        'static_assert(sizeof(T) == 99, "size"); return x;',
    ],
)
def test_e10_errors_of_meaning_show_the_users_line(body, device):
    text = f"// a comment\ntemplate <typename T> T f(T x) {{\n\n    {body}\n}}\n"
    with pytest.raises(CompilationError) as caught:
        numjit.elementwise(text)(torch.ones(2, device=device))
    assert "line 4" in str(caught.value)
    assert body in str(caught.value)


def test_e10_an_error_in_a_template_helper(device):
    text = (
        "template <typename T> T helper(T x) {\n  return x.nothing;\n}\n"
        "template <typename T> T f(T x) { return helper(x); }"
    )
    with pytest.raises(CompilationError, match=r"line 2") as caught:
        numjit.elementwise(text)(torch.ones(2, device=device))
    assert "numjit_" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "   \n", "int x = 3;", "// nothing", "template <typename T> T f(T x) { return x;",
     "struct A { int f(int x); };",
     "template <typename T> T f(T* x) { return *x; }", 'template <typename T> T f(T x) { return "; }',
     "template <typename T> T f(T x) } {"],
)  # fmt: skip
def test_text_that_is_no_functor_is_refused_at_construction(text):
    with pytest.raises(FunctorError) as caught:
        numjit.elementwise(text)
    assert isinstance(caught.value, ValueError)


def test_what_the_reader_refuses_has_line_and_column():
    with pytest.raises(FunctorError, match=r"line 2.*column \d+|2:\d+"):
        numjit.elementwise("template <typename T>\nT f(T* x) { return *x; }")


def test_after_an_error_the_next_call_works(device):
    x = torch.ones(2, device=device)
    broken = numjit.elementwise("template <typename T> T f(T x) { return nothing; }")
    for _ in range(2):
        with pytest.raises(CompilationError, match="nothing"):
            broken(x)
    same(numjit.elementwise("template <typename T> T f(T x) { return x; }")(x), x)


def test_a_python_functor_that_does_not_compile_shows_its_line(device):
    def broken(x):
        y = x + 1
        return y.nothing

    with pytest.raises(CompilationError) as caught:
        numjit.elementwise(broken)(torch.ones(2, device=device))
    message = str(caught.value)
    assert "broken" in message
    assert "return y.nothing" in message
    assert re.search(r"test_cpp_functor\.py:\d+", message)


def test_e11_the_same_text_compiles_once(device, monkeypatch):
    found = []
    nvrtc = importlib.import_module("numjit.toolchain.nvrtc")
    compile_ltoir, ask = nvrtc.compile_ltoir, cpp_loop._ask

    def on_the_gpu(*arguments, **keywords):
        found.append("nvrtc")
        return compile_ltoir(*arguments, **keywords)

    def on_the_cpu(command, *arguments, **keywords):
        found.extend(["c++"] * ("-shared" in command))
        return ask(command, *arguments, **keywords)

    monkeypatch.setattr(nvrtc, "compile_ltoir", on_the_gpu)
    monkeypatch.setattr(cpp_loop, "_ask", on_the_cpu)
    text = f"template <typename T> T f(T x) {{ return x * T({math.pi}); }}"
    x = torch.ones(3, device=device)
    first = numjit.elementwise(text)(x)
    once = len(found)
    assert once >= 1
    same(numjit.elementwise(text)(x), first)
    same(numjit.elementwise(text)(x + 0), first)
    assert len(found) == once
