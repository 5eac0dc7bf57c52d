"""Derivatives of C++ functors through NVRTC: every rule compiles, and no zero partial leaves an instruction."""

# ruff: noqa: E501 - functors stay on one line beside what they must answer.

import re
import time

import pytest

from numjit import dtypes
from numjit.errors import CompilationError
from numjit.functor.cpp.derived import derive_cpp
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.cpp.source import device_source
from numjit.functor.signature import ArgumentType
from numjit.semantics.category import Category
from numjit.toolchain import nvrtc
from tests.compile.test_nvrtc_and_nvjitlink import COMPLEX
from tests.support.derived_rules import KINKS, grouped
from tests.support.rule_rows import ALIKE, cpp_functor, groups

pytest.importorskip("cuda.bindings.nvrtc")
nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink")

T = "template <typename T> "


def source(functor, dtype, symbol="seam"):
    types = (ArgumentType(dtypes.from_name(dtype), Category.DIM),) * len(functor.argument_types)
    return device_source(functor, functor.specialise(types, dtypes.float32), symbol)


def compile_one(functor, dtype):
    return nvrtc.compile_ltoir(source(functor, dtype), cc=(9, 0), name=functor.name)


def linked_ptx(functor):
    """Return the PTX of a kernel that only calls the functor on floats, after link-time optimisation."""
    outputs = [f"float* o{j}" for j in range(len(functor.signature.outputs))]
    inputs = [f"float i{k}" for k in range(len(functor.argument_types))]
    names = ", ".join(declared.split()[1] for declared in (*outputs, *inputs))
    kernel = f'extern "C" __global__ void kernel({", ".join([*outputs, *inputs])}) {{ seam({names}); }}\n'
    code = nvrtc.compile_ltoir(source(functor, "float32") + kernel, cc=(9, 0), name=functor.name)
    options = ["-arch=sm_90", "-lto", "-ptx", "-O3"]
    handle = nvjitlink.create(len(options), options)
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), "functor")
        nvjitlink.complete(handle)
        text = bytearray(nvjitlink.get_linked_ptx_size(handle))
        nvjitlink.get_linked_ptx(handle, text)
        return text.decode().rstrip("\0").partition(".visible .entry")[2]
    finally:
        nvjitlink.destroy(handle)


def instructions(ptx):
    """Return the opcodes of a PTX text, memory accesses, moves and the return left out."""
    found = re.findall(r"^\s+(?:@!?%p\d+ )?([a-z][\w.]*)\s+[^;]*;", ptx, re.MULTILINE)
    return [op for op in found if op.split(".")[0] not in {"ld", "st", "mov", "ret", "cvta", "call"}]


def derived(text, kind="vjp", active=(0,), outputs=(True,), **given):
    return derive_cpp(CppFunctor(text, **given), kind, active, outputs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("number", range(len(list(grouped(12)))))
def test_every_rule_compiles(number, dtype):
    chosen, text = list(grouped(12))[number]
    assert compile_one(derived(text, "jvp", (0, 1, 2), (True,) * len(chosen)), dtype)


ALIKE_GROUPS = groups(ALIKE)


@pytest.mark.parametrize("number", range(len(ALIKE_GROUPS)))
def test_every_rule_of_both_languages_compiles(number):
    rows = ALIKE_GROUPS[number]
    texts, active = [text for row in rows for text in row.cpp], tuple(range(rows[0].count))
    outputs = (True,) * len(texts)
    for dtype in ("float32", "float64"):
        assert compile_one(derive_cpp(cpp_functor(texts, len(active)), "jvp", active, outputs), dtype)
    first = derive_cpp(cpp_functor(texts, len(active)), "vjp", active, outputs)
    assert compile_one(derive_cpp(first, "jvp", active, (True,) * len(active)), "float32")


def test_kinks_compile():
    body = " ".join(f"r{j} = {text};" for j, text in enumerate(KINKS))
    head = f"void f(T x, T y, {', '.join(f'T& r{j}' for j in range(len(KINKS)))}) {{ "
    assert compile_one(derived(f"{T}{head}{body} }}", "vjp", (0, 1), (True,) * len(KINKS)), "float32")


def test_one_multiplication():
    """The gradient of x * y for x is grad * y: the partials of y are no instruction."""
    ptx = linked_ptx(derived(T + "T f(T x, T y) { return x * y; }"))
    assert instructions(ptx) == ["mul.f32"]


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("x + y", 0),
        ("x - 3", 0),
        ("T(2) * x", 1),
        ("x * 0.5f", 1),
        ("x * 0.5", 1),
        ("x * y + y * y", 1),
        ("-x", 1),
    ],
)
def test_few_instructions(expression, count):
    ptx = linked_ptx(derived(f"{T}T f(T x, T y) {{ return {expression}; }}"))
    assert len(instructions(ptx)) == count, ptx
    assert ".f64" not in ptx


@pytest.mark.parametrize(
    "text",
    [
        T
        + "T f(T x, T y) { return T(0.5) * x * (T(1) + tanh(T(0.79788456) * (x + T(0.044715) * x * x * x))); }",
        T + "T f(T x, T y) { return x > 0 ? x : 0.01f * x; }",
        T + "T f(T x, T y) { return exp(-x * x) * sqrt(y) + rsqrt(y) * erf(x); }",
        T + "T f(T x, T y) { T s = 0; for (int k = 0; k < 4; ++k) s = s * x + y; return s; }",
    ],
    ids=["gelu", "leaky relu", "functions", "loop"],
)
def test_no_double_for_float(text):
    ptx = linked_ptx(derived(text, "vjp", (0, 1)))
    assert ".f64" not in ptx
    assert ".local" not in ptx
    assert "call" not in ptx


def test_second_order_has_no_superfluous_instruction():
    first = derived(T + "T f(T x) { return x * x; }")
    # d (2 x g) / dx times its gradient, and d (2 x g) / dg times it.
    ptx = linked_ptx(derive_cpp(first, "vjp", (0, 1), (True,)))
    assert len(instructions(ptx)) <= 4, ptx


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_every_complex_function(dtype):
    assert compile_one(derived(COMPLEX), dtype)
    assert compile_one(derived(COMPLEX, "jvp"), dtype)


def test_raw_operands_and_the_index():
    text = T + "T f(T x, numjit::raw<T> table, numjit::index i) { return x * table[i]; }"
    assert compile_one(derived(text), "float16")


@pytest.mark.parametrize("number", range(len(list(grouped(12)))))
def test_second_order_of_every_rule(number):
    chosen, text = list(grouped(12))[number]
    first = derived(text, "jvp", (0, 1, 2), (True,) * len(chosen))
    assert compile_one(derive_cpp(first, "vjp", (0, 1, 2), (True,) * len(chosen)), "float32")


def test_as_a_device_function_of_kernels():
    first = derived(T + "T f(T x) { return x * x; }")
    types = (ArgumentType(dtypes.float32, Category.DIM),) * 2
    program = device_source(first, first.specialise(types, dtypes.float32), "seam", for_kernels=True)
    assert nvrtc.compile_ltoir(program, cc=(9, 0), name=first.name)


def test_header_is_read_quickly():
    """Some 30 ms of the processor."""
    plain = CppFunctor(T + "T f(T x, T y) { return x * y; }")
    gradient = derive_cpp(plain, "vjp", (0, 1), (True,))

    def best(functor):
        times = []
        for _ in range(6):
            start = time.process_time()
            compile_one(functor, "float32")
            times.append(time.process_time() - start)
        return min(times)

    assert best(gradient) - best(plain) < 0.1


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        (
            "float h(float x) { return x; }\n" + T + "T f(T x) {\n  return x * h(x);\n}",
            "a cast that drops the derivative",
            "line 3, column 16",
        ),
        (T + "T f(T x) {\n  return x * (float)x;\n}", "a cast that drops the derivative", "line 2"),
        (T + "T f(T x) {\n  return x * j0(x);\n}", "no derivative for j0", "line 2"),
        (
            T + "T f(T x) {\n  return __fadd_rz(x, x);\n}",
            "a cast that drops the derivative",
            "line 2, column 20",
        ),
        ("#define ADD(a) a + zz\n" + T + "\nT f(T x) { return ADD(x); }", "zz", "line 3"),
    ],
)
def test_errors_show_the_users_line(text, words, line):
    with pytest.raises(CompilationError) as caught:
        compile_one(derived(text), "float32")
    message = str(caught.value)
    assert words in message
    assert line in message
    assert "numjit.differentiable" in message or words == "zz"
    assert "numjit_dual" not in message
