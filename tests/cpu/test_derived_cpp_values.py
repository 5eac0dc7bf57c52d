"""Derivatives of C++ functors on the CPU: every rule, branches, helpers and second order against torch."""

# ruff: noqa: E501 - functors stay on one line beside what they must answer.

import functools
import itertools
import math

import pytest

from numjit.elementwise import Elementwise
from numjit.errors import AutogradError, CompilationError
from numjit.functor.cpp.derived import derive_cpp
from numjit.functor.cpp.functor import CppFunctor
from tests.support.derived_rules import CASES, DOMAINS, KINKS, PI, grouped

torch = pytest.importorskip("torch")

OPTIONS = {"autotune": False}
special = torch.special


def operation(functor):
    return Elementwise(functor, OPTIONS)


def derive(text, kind, active, outputs=(True,), **given):
    return operation(derive_cpp(CppFunctor(text, **given), kind, active, outputs))


def as_tuple(found):
    return found if isinstance(found, tuple) else (found,)


def close(got, expected, **tolerance):
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, equal_nan=True, **tolerance)


def vjp(text, inputs, grads, reference, active=None, *, tolerance=None, **scalars):
    """Compare every gradient with torch's; the reference takes the operands, then the scalars by name."""
    active = tuple(range(len(inputs))) if active is None else active
    functor = CppFunctor(text, scalars=dict.fromkeys(scalars, 0.0))
    outputs = tuple(True for _ in functor.signature.outputs)
    got = as_tuple(operation(derive_cpp(functor, "vjp", active, outputs))(*inputs, *grads, **scalars))
    leaves = [x.detach().requires_grad_(k in active) for k, x in enumerate(inputs)]
    results = as_tuple(reference(*leaves, **scalars))
    expected = torch.autograd.grad(results, [leaves[k] for k in active], grads, allow_unused=True)
    for mine, theirs in zip(got, expected, strict=True):
        close(mine, torch.zeros_like(mine) if theirs is None else theirs, **(tolerance or {}))


def numbers(count, seed=0, dtype=torch.float64):
    made = torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return made.to(dtype)


# ------------------------------------------------------------------------------------------------ rules

GROUP = 12


@functools.cache
def group_results(number, dtype):
    """Run a dozen rules as outputs of one functor: tangents for moving x, y and p alike."""
    chosen, text = list(grouped(GROUP))[number]
    run = derive(text, "jvp", (0, 1, 2), (True,) * len(chosen))
    return dict(zip(chosen, run(*points(dtype), *tangents(dtype)), strict=True))


def points(dtype):
    return numbers(40, 1, dtype), numbers(40, 2, dtype), numbers(40, 3).exp().to(dtype)


def tangents(dtype):
    return numbers(40, 4, dtype), numbers(40, 5, dtype), numbers(40, 6, dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_every_rule(name, dtype):
    kind, _, names, reference = CASES[name]
    got = group_results(list(CASES).index(name) // GROUP, dtype)[name]
    leaves = {k: v.double().requires_grad_() for k, v in zip("xyp", points(dtype), strict=True)}
    x = leaves["x"]
    taken = {**leaves, **{k: make(x) for k, make in DOMAINS.items() if k not in leaves}}
    result = reference(*(taken[k] for k in names))
    expected = torch.zeros(40, dtype=torch.float64)
    if result.requires_grad:
        slopes = torch.autograd.grad(
            result, list(leaves.values()), torch.ones_like(result), allow_unused=True
        )
        for slope, tangent in zip(slopes, tangents(dtype), strict=True):
            expected = expected + (0 if slope is None else slope * tangent.double())
    loose = dtype == torch.float32 or kind == "float"
    close(got, expected.to(dtype), rtol=3e-4 if loose else 1e-9, atol=1e-5 if loose else 1e-10)


# ----------------------------------------------------------------------------------------------- kinks

INF, NAN = math.inf, math.nan
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.5]


@functools.cache
def kink_results(position):
    """Tangents of every kink with one argument moving by 1."""
    head = f"template <typename T> void f(T x, T y, {', '.join(f'T& r{j}' for j in range(len(KINKS)))}) {{ "
    body = " ".join(f"r{j} = {text};" for j, text in enumerate(KINKS))
    run = derive(head + body + " }", "jvp", (position,), (True,) * len(KINKS))
    x, y = (torch.tensor(c, dtype=torch.float64) for c in zip(*itertools.product(EDGES, EDGES), strict=True))
    return x, y, dict(zip(KINKS, run(x, y, torch.ones_like(x)), strict=True))


@pytest.mark.parametrize("position", [0, 1], ids="xy")
@pytest.mark.parametrize("text", KINKS)
def test_kinks(text, position):
    x, y, results = kink_results(position)
    leaves = [v.clone().requires_grad_(k == position) for k, v in enumerate((x, y))]
    taken = leaves if "y" in text.replace("copysign", "") else leaves[:1]
    result = KINKS[text](*taken)
    expected = torch.zeros_like(x)
    if result.requires_grad:
        (slope,) = torch.autograd.grad(result, [leaves[position]], torch.ones_like(result), allow_unused=True)
        expected = expected if slope is None else slope
    close(results[text], expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------ whole functors

T = "template <typename T> "


def test_several_outputs_and_a_scalar():
    text = (
        T
        + "void f(T x, T y, T alpha, T& s, bool& big, T& c) { s = sin(x * y); big = x > y; c = alpha * cos(x) / (y * y + 1); }"
    )
    x, y, g, h = (numbers(30, k, torch.float32) for k in range(4))
    run = derive(text, "vjp", (0, 1, 2), (True, False, True), scalars={"alpha": 1.0})
    got = run(x, y, g, h, alpha=1.5)
    leaves = [
        x.clone().requires_grad_(),
        y.clone().requires_grad_(),
        torch.full((30,), 1.5, requires_grad=True),
    ]
    results = torch.sin(leaves[0] * leaves[1]), leaves[2] * leaves[0].cos() / (leaves[1] ** 2 + 1)
    for mine, theirs in zip(got, torch.autograd.grad(results, leaves, (g, h)), strict=True):
        close(mine, theirs, rtol=1e-5, atol=1e-5)


WHOLE = {
    "branches": (
        T + "T f(T x, T y) { if (x > y) { return x * x; } else if (y > 1) { x += y; return x / y; } return sin(x) * y; }",
        lambda x, y: torch.where(x > y, x * x, torch.where(y > 1, (x + y) / y, x.sin() * y)),
    ),
    "a loop": (
        T + "T f(T x, T y) { T sum = 0, term = 1; for (int k = 1; k < 9; ++k) { term *= x / k; sum += term; } return sum * y; }",
        lambda x, y: sum(x**k / math.factorial(k) for k in range(1, 9)) * y,
    ),
    "a loop until": (
        T + "T f(T x, T y) { T r = fabs(x) + 1; while (r * r > fabs(x) + 1.000001) r = r / 2 + (fabs(x) + 1) / (2 * r); return r * y; }",
        None,
    ),
    "helpers": (
        T + "T square(T x) { return x * x; } template <class A, class B> auto mix(A a, const B& b) { return a * square(b); } " + T + "T f(T x, T y) { return mix(x, y) + square(x + 1); }",
        lambda x, y: x * y * y + (x + 1) ** 2,
    ),
    "overloads": (
        T + "T f(T x) { return x; } " + T + "T f(const T& x, T y) { return x * y; }",
        lambda x, y: x * y,
    ),
    "several types": (
        "template <typename T, typename U> U f(T x, U y) { U wide = x * y; T narrow = wide + y; return narrow * x; }",
        lambda x, y: (x * y + y) * x,
    ),
    "auto": (T + "auto f(T x, T y) { auto z = x * 0.5; z = y; z += x * y; return z * z; }", lambda x, y: (y + x * y) ** 2),
    "macros and a namespace": (
        "#define TWICE(a) ((a) + (a))\nnamespace k { " + T + "T g(T x) { return TWICE(x); } } " + T + "T f(T x, T y) { return k::g(x) * y; }",
        lambda x, y: 2 * x * y,
    ),
    "arrays and pointers": (
        T + "void swap_in(T* a, T& b) { T kept = *a; *a = b; b = kept; } " + T + "T f(T x, T y) { T a[2] = {x, x * x}; swap_in(a, y); std::swap(a[0], a[1]); return a[0] * 3 + a[1] * y; }",
        lambda x, y: 3 * x * x + y * x,
    ),
    "a structure": (
        "template <class T> struct P { T a, b; P operator*(const P& o) const { return {a * o.a - b * o.b, a * o.b + b * o.a}; } }; " + T + "T f(T x, T y) { P<T> p{x, y}; p = p * p * p; return p.a + 2 * p.b; }",
        lambda x, y: ((torch.complex(x, y) ** 3) * (1 - 2j)).real,
    ),
    "constants": (
        "template <class T> constexpr T half = T(0.5); " + T + "T f(T x, T y) { constexpr T third = T(1) / T(3); static const int two = 2; return half<T> * x * third + two * y - std::numeric_limits<T>::epsilon(); }",
        lambda x, y: x / 6 + 2 * y,
    ),
    "names of std unqualified": (
        "using namespace std;\n" + T + "T f(T x, T y) { return max(x, y) * min(x, T(2)) + clamp(y, x, T(3)) + max(0.5f, y) + max(1.0f, 2.0f) * exp(x) + min(x, 1.0); }",
        lambda x, y: torch.maximum(x, y) * x.clamp(max=2) + torch.where(y < x, x, y.clamp(max=3)) + y.clamp(min=0.5) + 2 * x.exp() + x.clamp(max=1),
    ),
    "questions about T": (
        T + "T f(T x, T y) { if constexpr (std::is_same<T, double>::value && std::is_floating_point_v<T> && std::is_arithmetic_v<T>) return x * y; return x; }",
        lambda x, y: x * y,
    ),
    "a lambda": (T + "T f(T x, T y) { auto g = [&](auto t) { return t * x; }; return g(y) + g(2); }", lambda x, y: x * y + 2 * x),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole_functors(name):
    text, reference = WHOLE[name]
    reference = reference or (lambda x, y: (x.abs() + 1).sqrt() * y)
    loose = {"rtol": 1e-4, "atol": 1e-5} if name == "a loop until" else {"rtol": 1e-9, "atol": 1e-10}
    vjp(text, [numbers(50, 1), numbers(50, 2)], [numbers(50, 3)], reference, tolerance=loose)


def test_only_one_is_active():
    vjp(
        T + "T f(T x, T y) { return pow(x, y) * y; }",
        [numbers(20).exp(), numbers(20, 1)],
        [numbers(20, 2)],
        lambda x, y: x**y * y,
        (0,),
    )
    vjp(
        T + "T f(T x, T y) { return pow(x, y) * y; }",
        [numbers(20).exp(), numbers(20, 1)],
        [numbers(20, 2)],
        lambda x, y: x**y * y,
        (1,),
    )


def test_no_partial_of_what_is_not_active():
    """An infinite slope of an argument without a derivative makes no NaN, nor does a branch not taken."""
    run = derive(
        T + "T f(T x, T y) { T r = x * sqrt(y); if (y > 1) r = log(y - 1) * x; return r; }", "vjp", (0,)
    )
    got = run(torch.tensor([1.0, 2.0]), torch.zeros(2), torch.tensor([1.0, INF]))
    close(got, torch.tensor([0.0, NAN]))
    run = derive(T + "T f(T x) { return x > 0 ? sqrt(x) : T(0); }", "vjp", (0,))
    close(run(torch.tensor([-1.0, 0.0, 4.0]), torch.full((3,), INF)), torch.tensor([0.0, 0.0, INF]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_half_computes_in_float(dtype):
    x, y, g = (numbers(64, k).to(dtype) for k in range(3))
    got = derive(T + "T f(T x, T y) { return x * x * exp(y); }", "vjp", (0, 1))(x, y, g)
    wide = [x.float().requires_grad_(), y.float().requires_grad_()]
    expected = torch.autograd.grad(wide[0] ** 2 * wide[1].exp(), wide, g.float())
    for mine, theirs in zip(got, expected, strict=True):
        close(mine, theirs.to(dtype), rtol=torch.finfo(dtype).eps, atol=0)


def test_double_literals_decide_branches_as_they_do_without_derivatives():
    """0.1f * 3 is not 0.3 in double, so this branch tells float arithmetic from double."""
    text = T + "T f(T x) { return x * 3.0 > 0.3 ? x * 2 : x * 5; }"
    x = torch.tensor([0.1, 0.09999999403953552])
    forward = operation(CppFunctor(text))(x) / x
    close(derive(text, "vjp", (0,))(x, torch.ones(2)), forward.round())


def test_broadcasts_and_other_dtypes_of_the_gradient():
    run = derive(T + "T f(T x, T y) { return x * y; }", "vjp", (0, 1))
    x, y, g = torch.randn(3, 1), torch.randn(4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    gx, gy = run(x, y, g)
    close(gx, (g * y))
    close(gy, (g * x))


def test_raw_operands_and_the_index():
    text = (
        T
        + "T f(T x, numjit::raw<T> table, numjit::index i) { return x * x * table[i % table.size()] * (i + 1); }"
    )
    x, table, g = numbers(10), numbers(3, 1), numbers(10, 2)
    got = derive(text, "vjp", (0,))(x, table, g)
    place = torch.arange(10)
    close(got, 2 * x * table[place % 3] * (place + 1) * g)
    with pytest.raises(AutogradError, match="raw operand 'table'"):
        derive(text, "vjp", (1,))


def test_cudas_names_with_f_exist_without_derivatives_too():
    x = numbers(10).exp().float()
    got = operation(CppFunctor(T + "T f(T x) { return rsqrtf(x) + exp10f(-x) + sinpif(x) + normcdff(x); }"))(
        x
    )
    close(got, x.rsqrt() + 10**-x + torch.sin(PI * x) + special.ndtr(x), rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------------------------------ second order

SECOND = {
    "polynomial": ("x * x * x * y + x / y", lambda x, y: x**3 * y + x / y),
    "transcendental": ("exp(x * y) + tanh(x) * log1p(y * y)", lambda x, y: torch.exp(x * y) + torch.tanh(x) * torch.log1p(y * y)),
    "powers": ("pow(x * x + 1, y) + pow(x, 3)", lambda x, y: (x * x + 1) ** y + x**3),
    "gamma": ("lgamma(x * x + 1) + y * tgamma(T(1.5) + y * y)", lambda x, y: torch.lgamma(x * x + 1) + y * torch.exp(torch.lgamma(1.5 + y * y))),
    "errors": ("erf(x) * erfc(y) + normcdf(x) + rsqrt(x * x + 1)", lambda x, y: torch.erf(x) * torch.erfc(y) + special.ndtr(x) + torch.rsqrt(x * x + 1)),
    "double": ("0.1 * x * x * sin(y)", lambda x, y: 0.1 * x * x * torch.sin(y)),
    "angles": ("atan2(x, y) + hypot(x, y) * cos(x)", lambda x, y: torch.atan2(x, y) + torch.hypot(x, y) * torch.cos(x)),
    "choice": ("x > y ? x * x * y : std::max(x, T(0)) * y", lambda x, y: torch.where(x > y, x * x * y, x.clamp(min=0) * y)),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
@pytest.mark.parametrize("name", SECOND)
def test_second_order(name, kind):
    expression, reference = SECOND[name]
    first = derive_cpp(CppFunctor(f"{T}T f(T x, T y) {{ return {expression}; }}"), "vjp", (0, 1), (True,))
    x, y, g, a, b, c = (numbers(30, k) for k in range(6))
    leaves = [v.clone().requires_grad_() for v in (x, y, g)]
    slopes = torch.autograd.grad(reference(*leaves[:2]), leaves[:2], leaves[2], create_graph=True)
    if kind == "vjp":
        got = operation(derive_cpp(first, "vjp", (0, 1, 2), (True, True)))(x, y, g, a, b)
        expected = torch.autograd.grad(slopes, leaves, (a, b))
    else:
        got = operation(derive_cpp(first, "jvp", (0, 1, 2), (True, True)))(x, y, g, a, b, c)
        rows = [
            torch.autograd.grad(s.sum(), leaves, retain_graph=True, materialize_grads=True) for s in slopes
        ]
        expected = [r[0] * a + r[1] * b + r[2] * c for r in rows]
    for mine, theirs in zip(got, expected, strict=True):
        close(mine, theirs, rtol=1e-8, atol=1e-9)


@functools.cache
def second_results(number):
    """Run a dozen rules' derivatives along x, y and p, derived once more along the same."""
    chosen, text = list(grouped(GROUP))[number]
    first = derive_cpp(CppFunctor(text), "jvp", (0, 1, 2), (True,) * len(chosen))
    run = operation(derive_cpp(first, "jvp", (0, 1, 2), (True,) * len(chosen)))
    moves = tangents(torch.float64)
    return dict(zip(chosen, run(*points(torch.float64), *moves, *moves), strict=True))


@pytest.mark.parametrize("name", [name for name, (kind, *_) in CASES.items() if kind == "double"])
def test_every_rule_twice(name):
    _, _, names, reference = CASES[name]
    leaves = {k: v.requires_grad_() for k, v in zip("xyp", points(torch.float64), strict=True)}
    taken = {**leaves, **{k: make(leaves["x"]) for k, make in DOMAINS.items() if k not in leaves}}
    slope = reference(*(taken[k] for k in names))
    for _ in range(2):
        if slope.requires_grad:
            found = torch.autograd.grad(
                slope,
                list(leaves.values()),
                torch.ones_like(slope),
                create_graph=True,
                materialize_grads=True,
            )
            slope = sum(s * t for s, t in zip(found, tangents(torch.float64), strict=True))
        else:
            slope = torch.zeros(40, dtype=torch.float64)
    got = second_results(list(CASES).index(name) // GROUP)[name]
    close(got, slope.detach(), rtol=1e-7, atol=1e-8)


def test_third_order():
    derived = CppFunctor(T + "T f(T x) { return x * x * x * x; }")
    for _ in range(3):
        derived = derive_cpp(derived, "jvp", (0,), (True,))
    x, ones = numbers(10), torch.ones(10, dtype=torch.float64)
    close(operation(derived)(x, ones, ones, ones), 24 * x)


def test_an_output_nobody_differentiates_again():
    first = derive_cpp(CppFunctor(T + "T f(T x, T y) { return x * x * y; }"), "vjp", (0, 1), (True,))
    x, y, g, a = (numbers(10, k) for k in range(4))
    close(operation(derive_cpp(first, "vjp", (0,), (False, True)))(x, y, g, a), 2 * x * g * a)


# ------------------------------------------------------------------------------------------------ errors

REFUSED = [
    ("float h(float x) { return x * x; }\n" + T + "T f(T x) {\n  return x + h(x);\n}", "line 3, column 16", "a cast that drops the derivative"),
    (T + "T f(T x) {\n  float y = x;\n  return y * x;\n}", "line 2", "a cast that drops the derivative"),
    (T + "T f(T x) {\n  return x * static_cast<double>(x);\n}", "line 2", "a cast that drops the derivative"),
    (T + "T f(T x) {\n  return x / (float)x;\n}", "line 2", "a cast that drops the derivative"),
    (T + "T f(T x) {\n  return x * j0(x);\n}", "line 2", "no derivative for j0"),
    (T + "T f(T x) {\n  return x * std::nextafter(x, T(1));\n}", "line 2", "no derivative for nextafter"),
    (T + "T f(T x) {\n  return x +\n yy / x;\n}", "line 3, column 2", "yy"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "where", "words"), REFUSED)
def test_errors_show_the_users_line(text, where, words):
    with pytest.raises(CompilationError) as caught:
        derive(text, "vjp", (0,))(torch.ones(2), torch.ones(2))
    message = str(caught.value)
    assert where in message
    assert words in message
    assert "yy" in words or "numjit.differentiable" in message
    assert "numjit_dual" not in message
    assert len(message.splitlines()) < 9
