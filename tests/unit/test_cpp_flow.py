"""Which texts read an output before they have set it, and what mutated texts of any kind may lead to."""

# ruff: noqa: E501, ISC004 - C++ stays on lines of its own beside what it must answer.

import random
import re
import time

import pytest

from numjit.errors import NumjitError
from numjit.functor.cpp.functor import CppFunctor

HEAD = """#define ADD(a, b) a += b
template <typename T> void set(T x, T& r) { r = x; }
template <typename T> void add(T x, T& r) { r += x; }
template <typename T> void some(T x, T& r) { if (x > 0) r = x; }
template <typename T> void f(T x, T& y) """

SET = [
    "{ y = x; y += 1; }",
    "{ if (x > 0) y = 1; else y = 2; y *= 2; }",
    "{ if (x > 0) y = x; }",
    "{ if (x > 0) { y = 1; return; } y = 2; y++; }",
    "{ switch (int(x)) { case 0: y = 1; break; default: y = 2; } y += 1; }",
    "{ for (int i = 0; i < 3; ++i) y = x; y += 1; }",
    "{ while (true) { y = x; break; } y += 1; }",
    "{ do { y = x; } while (x > y); y += 1; }",
    "{ set(x, y); y += 1; }",
    "{ set<T>(x, y); y += 1; }",
    "{ some(x, y); }",
    "{ T s; sincos(x, &s, &y); y += s; }",
    "{ T& r = y; r = x; }",
    "{ (void)y; y = x; }",
    "{ int n = sizeof(y); y = n; }",
    "{ auto g = [&](T a) { y = a; }; g(x); y += 1; }",
    "{ y = x, y += 1; }",
    "{ y.real(x); y.imag(x); }",
    "{ struct S { T y; }; S s; s.y = x; y = s.y; }",
    "{ { T y = x; y += 1; } y = x; }",
    "{ T a[2] = {x, x}; y = a[0]; }",
]
READ = [
    "{ y += x; }",
    "{ y = y + x; }",
    "{ if (x > 0) y = x; y += 1; }",
    "{ T z = y; y = z; }",
    "{ y++; }",
    "{ ++y; }",
    "{ add(x, y); }",
    "{ some(x, y); y += 1; }",
    "{ y = std::sin(y); }",
    "{ switch (int(x)) { case 0: y = 1; break; case 1: y = 2; } y += 1; }",
    "{ auto g = [&](T a) { y += a; }; g(x); }",
    "{ if (y > 0) y = x; }",
    "{ T q = x ? y : x; y = q; }",
    "{ for (int i = 0; i < 3; ++i) y += x; }",
    "{ x += y; y = x; }",
    "{ ADD(y, x); }",
    "{ unknown(y); y = x; }",
    "{ y.real(y.imag()); }",
]


@pytest.mark.parametrize("body", SET)
def test_an_output_that_is_set_first_may_be_read(body):
    assert len(CppFunctor(HEAD + body).signature.outputs) == 1


@pytest.mark.parametrize("body", READ)
def test_an_output_that_may_be_read_unset_is_refused(body):
    with pytest.raises(NumjitError, match=r"line 5, .*output 'y' is read before it is set"):
        CppFunctor(HEAD + body)


# --------------------------------------------------------------------------------------- mutated texts

TEXTS = [
    "template <typename T, typename U = float> T f(T x, const U& y, T alpha = 2) { return alpha * x + T(y); }",
    '#define TWICE(v) ((v) + (v))\n#if defined(A) && B\n#include "a.h"\n#elif 0\n#else\n#define ONE 1\n#endif\n'
    "namespace n { inline namespace m { template <class T> T g(T x) { return TWICE(x); } } }\n"
    "template <typename T> [[nodiscard]] auto f(T x) noexcept -> T { return n::g<T>(x) >> 1 << ONE; }",
    "using real = float;\ntypedef std::complex<double> wide;\nextern \"C\" { static int k = 3; }\n"
    "struct S { real a[2]; real operator()(real x) const { return a[0] * x; } };\n"
    "template <> int h<int>(int x) { return x; }\n"
    "void f(real x, std::complex<real> z, wide w, real& y, bool& b) { S s{{x, x}}; y = s(x); b = x < 2 && y > 1; }",
    "template <typename T, int N = 3> T f(numjit::raw<T> x, numjit::index i, int8_t k, unsigned long long n) {\n"
    "  auto g = [&](T a) mutable { return a; };\n  const char* s = R\"x(})x\"; char c = '\\'';\n"
    "  for (int j = 0; j < N; ++j) { if (j % 2) continue; else break; }\n  return g(x[i]) + T(k) /* } */; // {\n}",
    "template <typename T> void f(T x, T& y, T& z) { switch (int(x)) { case 0: y = x; break; default: y = 1; }\n"
    "  do { z = y; } while (z < 0); y += z; z *= [] { return 2; }(); }",
]  # fmt: skip
_TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)


def mutate(text, rng):
    """Return a text with up to four of its tokens taken out, doubled, swapped or replaced."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.randrange(1, 5)):
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        kind = rng.randrange(5)
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens.insert(at, tokens[other])
        elif kind == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 3:
            tokens[at] = rng.choice(["(", ")", "{", "}", "<", ">", ",", ";", "=", "&", "::", "#", '"', "'", "\\",
                                     "\n", "template", "operator", "in", "0", "...", "\t", "[", "]", "\0"])  # fmt: skip
        else:
            del tokens[min(at, other) : max(at, other)]
        if not tokens:
            return ""
    return "".join(tokens)


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_a_mutated_text_is_read_or_refused(number):
    CppFunctor(TEXTS[number])
    rng = random.Random(number)
    slowest = 0.0
    for _ in range(600):
        text = mutate(TEXTS[number], rng)
        start = time.perf_counter()
        try:
            functor = CppFunctor(text, scalars={"alpha": 1.0} if number == 0 and rng.random() < 0.3 else None)
            functor.fingerprint()
        except NumjitError as error:
            assert str(error)  # noqa: PT017 - any other is the failure
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error
        slowest = max(slowest, time.perf_counter() - start)
    assert slowest < 5


@pytest.mark.parametrize("levels", [18, 40])
@pytest.mark.parametrize(("parameter", "argument", "given"), [("", "", ""), ("(v)", "(v v)", "(+ 1)")])
def test_what_macros_make_is_bounded(levels, parameter, argument, given):
    """Eighteen doublings are more than a quarter of a million tokens, which the reader could still take."""
    if parameter:
        lines = [f"#define A{k}{parameter} A{k + 1}{argument}\n" for k in range(levels)]
    else:
        lines = [f"#define A{k} A{k + 1} A{k + 1}\n" for k in range(levels)]
    lines.append(f"#define A{levels}{parameter} + 1\n")
    start = time.perf_counter()
    with pytest.raises(NumjitError, match="macros make more than"):
        CppFunctor("".join(lines) + f"template <typename T> T f(T x) {{ return x A0{given}; }}")
    assert time.perf_counter() - start < 20
