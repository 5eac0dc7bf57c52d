"""The programs generated around a C++ functor's text."""

# ruff: noqa: E501 - functors stay on one line beside what they must answer.

import pytest

from numjit import dtypes
from numjit.cpu.cpp_source import host_user_text, user_column
from numjit.functor.cpp.diagnostics import line_of
from numjit.functor.cpp.functor import CppFunctor, headers
from numjit.functor.cpp.source import device_source, include_names, seam_parameters, user_text
from numjit.functor.signature import ArgumentType
from numjit.semantics.category import Category


def made(text, *shown, **given):
    functor = CppFunctor(text, **given)
    types = tuple(ArgumentType(dtypes.from_name(s), Category.DIM) for s in shown)
    return functor, functor.specialise(types, dtypes.float32)


def test_seam_follows_the_contract():
    text = "template <class T, class U> void f(T x, bool m, U y, std::complex<U> z, T& a, bool& b, std::complex<U>& c) {}"
    functor, spec = made(text, "float16", "bool", "float64", "complex128")
    assert seam_parameters(functor, spec) == [
        "float* numjit_o0", "unsigned char* numjit_o1", "double* numjit_o2",
        "float numjit_i0", "unsigned char numjit_i1", "double numjit_i2", "double numjit_i3", "double numjit_j3",
    ]  # fmt: skip


def test_complex_header_only_where_needed():
    marker = '"numjit/complex.h"'
    plain = "template <class T> T f(T x) { return x; }"
    assert marker not in device_source(*made(plain, "float32"), "sym")
    assert marker in device_source(*made(plain, "complex64"), "sym")
    assert marker in device_source(
        *made("float f(float x) { return std::polar(x).real(); }", "float32"), "sym"
    )
    assert marker in device_source(
        *made("#define Z std::complex<float>\nfloat f(float x) { return Z(x).real(); }", "float32"), "sym"
    )


def test_values_header_only_where_needed_and_only_the_part_needed():
    marker = '"numjit/values.h"'
    plain = (
        "template <class T> T digamma(T x) { return x; }\ntemplate <class T> T f(T x) { return digamma(x); }"
    )
    assert marker not in device_source(*made(plain, "float32"), "sym")
    used = device_source(
        *made("template <class T> T f(T x) { return numjit::digamma(x); }", "float32"), "sym"
    )
    assert marker in used
    assert "R digamma(R " in used
    assert "R trigamma(R " not in used
    pasted = "#define OF(x) numjit::dig##amma(x)\ntemplate <class T> T f(T x) { return OF(x); }"
    assert "R trigamma(R " in device_source(*made(pasted, "float32"), "sym")


def test_device_program_holds_nothing_of_the_host():
    source = device_source(*made("float f(float x) { return x; }", "float32"), "sym")
    assert "#include" not in source
    assert source.count('extern "C" __device__ int sym(') == 1


def test_user_lines_keep_their_numbers():
    text = '#include <cmath>\n// two\n#include <cuda_fp16.h>\nint g() {\n  return 1; }\n#include "x.h"\nfloat f(float x) { return x; }'
    functor = CppFunctor(text)
    program = user_text(functor)
    lines = text.split("\n")
    assert line_of(program, "functor", 1) == ""
    for number in range(2, 8):
        assert line_of(program, "functor", number) == lines[number - 1]
    assert include_names(functor) == ["cuda_fp16.h", "x.h"]
    # A header's names land outside the user's namespace.
    before = program[: program.index("#include <cuda_fp16.h>")]
    assert before.count("{ namespace") == before.count("}}") == 1


def test_macros_of_the_text_end_with_it():
    program = user_text(
        CppFunctor("#define N 4\n#define sq(x) ((x) * (x))\nint f(int x) { return sq(x) * N; }")
    )
    assert program.endswith("#undef N\n#undef sq\n")


def test_overloads_are_told_apart():
    text = "template <class T> T f(T x) { return x; }\nfloat f(const float& x) { return x; }"
    assert "static_cast<float (*)(const float&)>" in device_source(*made(text, "float32"), "sym")


def test_host_division_is_guarded_without_moving_lines():
    text = "#define HALF(x) ((x) / 2)\n#if 8 / 2\n#endif\nint f(int x, int y) { // a / b\n  x /= y % 3; return x / y; }"
    functor = CppFunctor(text)
    program = host_user_text(functor)
    assert "((x) * ::numjit_over * 2)" in program
    assert "#if 8 / 2" in program
    assert "// a / b" in program
    assert "x /= ::numjit_divisor = y * ::numjit_modulo * 3; return x * ::numjit_over * y;" in program
    theirs = line_of(program, "functor", 5)
    assert user_column(functor, "functor", 5, theirs.rindex("y") + 1) == text.split("\n")[4].rindex("y") + 1
    assert user_column(functor, "functor", 5, 3) == 3


def test_host_operators_of_the_user_stay():
    text = (
        "struct V { int a; };\nV operator/(V x, V y) { return x; }\nint f(int x) { return (V{x} / V{x}).a; }"
    )
    assert "operator/(V x" in host_user_text(CppFunctor(text))


def test_headers_ship_with_the_package():
    assert all(text.strip() for text in headers().values())
    assert "#include" not in headers()["core.h"] + headers()["complex.h"] + headers()["device.h"]


@pytest.mark.parametrize("name", ["device.h", "library.h", "core.h", "complex.h", "host.h", "storage.h"])
def test_headers_balance(name):
    text = headers()[name]
    assert text.count("(") == text.count(")")
