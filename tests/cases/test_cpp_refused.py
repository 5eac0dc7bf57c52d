"""C++ text that would compile to something else than it says: refused, or warned of, at the user's line."""

# ruff: noqa: ISC004 - C++ stays on lines of its own beside what it must answer.

import copy
import importlib
import keyword
import math
import pickle
import re
import warnings

import pytest
import torch

import numjit
from numjit.errors import CompilationError, FunctorError
from numjit.jiterator import create_jit_fn, create_multi_output_jit_fn
from tests.cases import run_python, same
from tests.support.tiers import pairs

T = "template <typename T> T f(T x)"
HEAD = "template <typename T> T h(T x) {\n  T y;\n  return y + x;\n}\n"

#: The swiglu backward of older flash-attention: no return, though it says T.
SWIGLU = """template <typename T> T swiglu_bwd(T x, T y, T g, T& dx, T& dy) {
    T s = T(1) / (T(1) + ::exp(-x));
    dx = s * (1 + x * (1 - s)) * g * y;
    dy = x * s * g;
}"""


@pytest.fixture
def x(device):
    return torch.tensor([0.25, 2.0, -3.0], device=device)


@pytest.fixture
def told(monkeypatch):
    """Have warnings passed on again."""
    monkeypatch.setattr(importlib.import_module("numjit.functor.cpp.diagnostics"), "_told", set())


# --------------------------------------------------------------------------------- missing return values


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{T} {{\n  x = x * 2;\n}}", 3),
        (f"{T} {{\n  if (x > T(1)) return x * 2;\n}}", 3),
        (f"template <typename T> T h(T x) {{\n  if (x > 0) return x;\n}}\n{T} {{ return h(x); }}", 3),
        (f"{T} {{\n  switch (int(x)) {{ case 0: return x; case 1: return -x; }}\n}}", 3),
    ],
)
def test_a_functor_that_may_end_without_a_value_does_not_compile(text, line, x):
    with pytest.raises(CompilationError, match=rf"line {line}\b.*(?s:return|non-void)"):
        numjit.elementwise(text)(x)


def test_a_functor_whose_every_path_returns_compiles(x):
    text = f"{T} {{ for (;;) {{ if (x > T(1)) return x; x = x + T(4); }} }}"
    same(numjit.elementwise(text)(x), torch.tensor([4.25, 2.0, 5.0], device=x.device))


def test_the_drop_in_ignores_the_return_value_beside_all_its_references(x):
    y, g = x + 1, x - 2
    jitted = create_multi_output_jit_fn(SWIGLU, num_outputs=2)
    s = torch.sigmoid(x)
    for each in (jitted, copy.deepcopy(jitted), pickle.loads(pickle.dumps(jitted))):
        dx, dy = each(x, y, g)
        torch.testing.assert_close(dx, s * (1 + x * (1 - s)) * g * y)
        torch.testing.assert_close(dy, x * s * g)
    returns = "template <typename T> T f(T x, T& a) { a = x; if (x > T(0)) return x + T(1); }"
    same(create_multi_output_jit_fn(returns, num_outputs=1)(x), x)


def test_without_the_drop_in_a_return_value_is_a_result(x):
    with pytest.raises(CompilationError, match="line 5"):
        numjit.elementwise(SWIGLU)(x, x, x)
    with pytest.raises(FunctorError, match="outputs=1, but the text has 2"):
        create_jit_fn("template <typename T> T f(T x, T& a) { a = x; return x; }")


# ------------------------------------------------------------------------------------------ warnings


@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [
        (f"{HEAD}{T} {{ return h(x); }}", 3, "return y + x;"),
        (f"{T} {{\n  unsigned char c = 300;\n  return c * x;\n}}", 2, "unsigned char c = 300;"),
        (f"{T} {{\n  x == T(2);\n  return x;\n}}", 2, "x == T(2);"),
    ],
)
def test_what_a_compiler_warns_of_is_passed_on_once(text, line, shown, x, told):
    with pytest.warns(UserWarning, match=rf"functor 'f', line {line}\b") as seen:
        numjit.elementwise(text)(x)
    mine = [w for w in seen if "functor 'f'" in str(w.message)]
    assert all(shown in str(w.message) and w.filename == __file__ for w in mine)
    assert len({str(w.message) for w in mine}) == len(mine)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numjit.elementwise(text)(x + 1)
        numjit.elementwise(text)(x.double())


@pytest.mark.parametrize(
    "text",
    [
        f"{T} {{ int unused = 3; return x < T(0) ? -x : x; }}",
        f"{T} {{ T y = -1; return y * x; }}",
        "template <typename T> __device__ __forceinline__ T f(T x) { return x; }",
        f"{T} {{ int e; T m = frexp(float(x), &e); return m * e; }}",
        f"{T} {{ return x; x = x + 1; }}",
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool])
def test_ordinary_text_is_compiled_in_silence(text, dtype, device):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numjit.elementwise(text)(torch.ones(3, dtype=dtype, device=device))


def test_a_derivative_says_nothing_again(device, told):
    text = f"{T} {{\n  T y;\n  if (x > 0) y = x * x;\n  return x > 0 ? y : x;\n}}"
    x = torch.tensor([2.0, 3.0], device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        functor = numjit.elementwise(text)
        functor(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        functor(x.clone().requires_grad_()).sum().backward()


# ----------------------------------------------------------------- exceptions, endings, random numbers


@pytest.mark.parametrize("body", ["throw 1;", "try { x = x + T(1); } catch (...) { } return x;"])
def test_an_exception_is_refused(body, x):
    with pytest.raises(CompilationError, match=r"line 2\b.*neither throw nor catch"):
        numjit.elementwise(f"{T} {{\n  {body}\n}}")(x)


def test_endless_recursion_is_refused_on_the_cpu():
    with pytest.raises(CompilationError, match="infinite recursion"):
        numjit.elementwise(f"{T} {{ return f(x) + T(1); }}")(torch.ones(3))


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        ("std::rand()", "operand"), ("rand()", "operand"), ("::drand48()", "operand"), ("time(0)", "scalar"),
        ("clock()", "scalar"), ("std::chrono::steady_clock::now().count()", "scalar"), ("ROLL()", "operand"),
        ("(std::abort(), 1)", "NAN"), ("(exit(1), 1)", "NAN"), ("(std::random_device(), 1)", "operand"),
    ],
)  # fmt: skip
def test_what_differs_from_run_to_run_is_refused_by_name(call, cure):
    # Of a macro the place is its body's.
    line = 1 if "ROLL" in call else 2
    with pytest.raises(FunctorError, match=rf"line {line}, column \d+: .*{cure}"):
        numjit.elementwise(f"{'#define ROLL() rand()' if line == 1 else ''}\n{T} {{ return x + T({call}); }}")


@pytest.mark.parametrize(
    "text",
    [
        "template <typename T> T rand(T x) { return x; }\ntemplate <typename T> T f(T x) { return rand(x); }",
        "template <typename T> T f(T time) { T clock(time); return clock; }",
        "namespace mine { inline int rand() { return 1; } }\n"
        "template <typename T> T f(T x) { return x * T(mine::rand()); }",
        "struct S { int exit() const { return 1; } };\n"
        "template <typename T> T f(T x) { S s; return x * T(s.exit()); }",
    ],
)
def test_the_texts_own_names_may_be_the_same(text, x):
    same(numjit.elementwise(text)(x), x)


@pytest.mark.parametrize(
    "made", ["numjit::index()", "::numjit::index()", "numjit::index{}", "numjit :: index ( )"]
)
def test_the_type_of_the_index_called_as_the_function_that_python_has_is_refused(made):
    with pytest.raises(FunctorError, match=r"line 2, column \d+: numjit::index is the type of a parameter"):
        numjit.elementwise(f"{T} {{\n return x + T({made}); }}")


def test_the_type_of_the_index_in_other_places(x):
    text = "T f(T x, numjit::index i) { numjit::index j = numjit::index(i) * 2; return x + T(j - 2 * i); }"
    same(numjit.elementwise(f"template <typename T> {text}")(x), x)


# ------------------------------------------------------------------------------- outputs that are read


@pytest.mark.parametrize("body", ["y += x;", "y = y + x;", "if (x > T(0)) y = x;\n  y *= 2;", "add(x, y);"])
def test_an_output_that_is_read_before_it_is_set_is_refused(body):
    text = (
        f"template <typename T> void add(T x, T& r) {{ r += x; }}\nvoid f(float x, float& y) {{\n  {body}\n}}"
    )
    with pytest.raises(FunctorError, match=r"(?s)line [34],.*'y' is read before it is set.*operand"):
        numjit.elementwise(text.replace("T(0)", "0"))


def test_the_cure_adds_to_what_the_array_holds(x):
    functor = numjit.elementwise("template <typename T> void f(T x, T old_y, T& y) { y = old_y; y += x; }")
    y = torch.full_like(x, 10)
    assert functor(x, y, out=y) is y
    same(y, x + 10)


def test_an_output_that_no_path_sets_is_zero(x):
    functor = numjit.elementwise("template <typename T> void f(T x, T& y) { if (x > T(0)) y = x; }")
    out = torch.full_like(x, 7)
    for result in (functor(x), functor(x, out=out), functor(x, out=out)):
        same(result, torch.where(x > 0, x, 0))


# -------------------------------------------------------------------------------------- names and text


#: Python's keywords that C++ can name a parameter.
NAMES = sorted(set(keyword.kwlist) - {"and", "break", "class", "continue", "else", "for", "if", "not", "or",
                                      "return", "try", "while"})  # fmt: skip


def test_parameters_may_be_called_as_pythons_keywords_are(x):
    parameters = ", ".join(f"T {name}" for name in NAMES)
    total = " + ".join(f"T({2**k}) * {name}" for k, name in enumerate(NAMES))
    functor = numjit.elementwise(f"template <typename T> T f({parameters}) {{ return {total}; }}")
    digits = torch.arange(2 ** len(NAMES) - 1, 0, -(2**18) - 7, dtype=torch.float64, device=x.device)
    operands = [(digits.long() >> k & 1).double() for k in range(len(NAMES))]
    same(functor(*operands), digits)
    for name in NAMES:
        create_jit_fn(f"template <typename T> T f(T {name}, T y) {{ return {name} - y; }}")
    text = "template <typename T> T f(T in, T lambda) { return in * lambda; }"
    functor = numjit.elementwise(text, scalars={"lambda": 2.0})
    assert str(functor.__signature__) == "(in_, *, lambda_=2.0, out=None)"
    same(functor(**{"in": x, "lambda": 3.0}), x * 3)
    same(create_jit_fn(text, **{"lambda": 2.0})(x), x * 2)
    torch._dynamo.reset()
    same(torch.compile(functor, fullgraph=True, backend="aot_eager")(x, **{"lambda": 3.0}), x * 3)


ODD = {
    "nul": f"{T} {{ return x; \0 }}",
    "nul at the end": f"{T} {{ return x; }}\0",
    "half a character": f"{T} {{ return x; }} // \ud800",
    "two of one name": "template <typename T> T f(T x, T x) { return x; }",
    "two outputs of one name": "template <typename T> void f(T x, T& y, T& y) { y = x; }",
    "no template parameter": "template <typename T, = int> T f(T x) { return x; }",
    "an alias of itself": "using A = B; using B = A; A f(A x) { return x; }",
    "deep": "namespace a {" * 3000 + "}" * 3000 + T + "{ return x; }",
    "doubling": "".join(f"#define A{i} A{i + 1} A{i + 1}\n" for i in range(40)) + f"{T} {{ return x A0; }}",
    "doubling calls": "".join(f"#define A{i}(v) A{i + 1}(v v)\n" for i in range(40))
    + f"{T} {{ return x A0(+ 1); }}",
    "long chain": "".join(f"#define A{i} A{i + 1}\n" for i in range(3000)) + f"{T} {{ return x + A0; }}",
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("make", [numjit.elementwise, create_jit_fn])
def test_odd_texts_are_refused_at_construction(name, make):
    with pytest.raises(FunctorError):
        make(ODD[name])


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"\ufeff{T} {{ return x; }}", 1),
        ("template <typename T, typename = float> T f(T x) { return x; }", 1),
        ("template <typename T> T f(T x, T = 3) { return x; }", 1),
        ("float f(float operand1, float, float) { return operand1; }", 3),
    ],
)
def test_odd_texts_that_mean_something_work(text, count, x):
    same(numjit.elementwise(text)(*[x] * count), x)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x * 2", "template <typename T> T f(T x) { return x * 2; }"),
        ("std::sin(x) + y", "template <typename T> T f(T x, T y) { return std::sin(x) + y; }"),
        ("z = x + y", "template <typename T> T f(T x, T y) { return x + y; }"),
    ],
)
def test_an_expression_is_told_how_a_functor_is_written(text, words):
    with pytest.raises(FunctorError, match=f"{re.escape(repr(text))}.*{re.escape(words)}"):
        numjit.elementwise(text)
    assert numjit.elementwise(words)


def test_a_function_that_is_nowhere_defined_is_named_on_the_cpu():
    with pytest.raises(CompilationError, match="'g'"):
        numjit.elementwise("float g(float x);\nfloat f(float x) { return g(x); }")(torch.ones(2))


def test_a_process_that_turns_warnings_into_errors_has_none():
    code = """
        import torch, numjit
        for text in ("template <typename T> T f(T x) { return x / T(3) + std::exp(x); }",
                     "template <typename T> std::complex<T> f(T x) { return std::complex<T>(x, -x); }"):
            numjit.elementwise(text)(torch.ones(3))
    """
    run_python(code, PYTHONWARNINGS="error::UserWarning")


# ------------------------------------------------------------------------ what a compiler may make of a text

INNER = ("asin", "acos", "atan", "sinh", "asinh", "acosh", "atanh", "log", "exp", "sqrt")


@pytest.mark.parametrize(
    ("outer", "dtype"),
    pairs(["sin", "cos", "tan", "tanh", "sinh", "exp", "log"], [torch.float32, torch.float64]),
    ids=str,
)
def test_a_function_of_a_function_is_what_both_are_one_after_the_other(outer, dtype, device):
    # GCC makes x / sqrt(x * x + 1) of sin(atan(x)), and 1 of it where x is NaN.
    results = ", ".join(f"T& r{k}" for k in range(len(INNER)))
    lines = "".join(f"  r{k} = std::{outer}(std::{inner}(x));\n" for k, inner in enumerate(INNER))
    nested = numjit.elementwise(f"template <typename T> void f(T x, {results}) {{\n{lines}}}")
    values = [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.3, -0.7, 1.0, 2.5, -4.0, 1e20, -1e30]
    within = 1e-4 if dtype == torch.float32 else 1e-9
    x = torch.tensor(values, dtype=dtype, device=device)
    last = numjit.elementwise(f"template <typename T> T f(T x) {{ return std::{outer}(x); }}")
    for inner, found in zip(INNER, nested(x), strict=True):
        first = numjit.elementwise(f"template <typename T> T f(T x) {{ return std::{inner}(x); }}")
        torch.testing.assert_close(found, last(first(x)), rtol=within, atol=within, equal_nan=True, msg=inner)
