"""Plain numbers in Python functors (literals, loop counters, captures, scalars): against CPython."""

from __future__ import annotations

import cmath
import itertools
import math
import random
import warnings

import numpy as np
import pytest
import torch

import numjit
from numjit.errors import CompilationError
from tests.support.everywhere import ways
from tests.support.number_cases import Raised, answers, evaluate, functor_of, random_expressions

INF, NAN = math.inf, math.nan
VALUES = {
    "bool": (False, True),
    "int": (0, 1, -1, 2, 7, -7, 65, 2**31, -(2**62), 2**63 - 1, -(2**63)),
    "float": (0.0, -0.0, 1.5, -2.5, 7.0, 1e300, INF, -INF, NAN),
    "complex": (0j, 1 + 2j, -1.5j, complex(-0.5, 0.25)),
}
ORDER = ("bool", "int", "float", "complex")
SUMS, ROUNDINGS = ("+", "-", "*", "/"), ("//", "%")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def is_same(wanted, found, tolerance=0.0):
    """Whether a result is Python's answer: of its type, and its value but for a relative tolerance."""
    if type(wanted) is not type(found):
        return False
    if isinstance(wanted, complex):
        return all(
            is_same(a, b, tolerance) or abs(a - b) <= tolerance * abs(wanted)
            for a, b in ((wanted.real, found.real), (wanted.imag, found.imag))
        )
    if isinstance(wanted, float):
        if math.isnan(wanted) or math.isnan(found):
            return math.isnan(wanted) and math.isnan(found)
        return wanted == found or math.isclose(wanted, found, rel_tol=tolerance)
    return wanted == found


def of_tensors(expression, values):
    """Return what torch answers for the same numbers as float64 or complex128 tensors."""
    kind = torch.complex128 if any(isinstance(v, complex) for v in values.values()) else torch.float64
    tensors = {name: torch.tensor(value, dtype=kind) for name, value in values.items()}
    return eval(expression, {"math": math}, tensors).item()


def operators(first, second):
    """Return the operators that Python has for numbers of two kinds."""
    highest = max(first, second, key=ORDER.index)
    found = [*SUMS, "==", "!="]
    if highest != "complex":
        found += [*ROUNDINGS, *COMPARISONS[2:]]
    if highest in ("bool", "int"):
        found += ["&", "|", "^", "<<", ">>"]
    return found


@pytest.mark.parametrize("second", ORDER)
@pytest.mark.parametrize("first", ORDER)
def test_every_operator_gives_what_python_gives(first, second, device):
    expressions = [f"a {symbol} b" for symbol in operators(first, second)]
    function = functor_of(expressions, "ab")
    for a, b in itertools.product(VALUES[first], VALUES[second]):
        values = {"a": a, "b": b}
        for expression, found in zip(expressions, answers(function, values, device), strict=True):
            symbol = expression.split()[1]
            wanted = evaluate(expression, values)
            where = expression, values, found
            if isinstance(wanted, Raised):
                check_without_an_answer(symbol, values, found)
            elif symbol in COMPARISONS and {first, second} == {"int", "float"} and abs(a) >= 2**53:
                continue  # in float64, as torch compares them
            elif "complex" in (first, second):
                assert is_same(wanted, found, 1e-15), (wanted, *where)
            else:
                assert is_same(wanted, found, 1e-15 if symbol == "/" else 0.0), (wanted, *where)


def check_without_an_answer(symbol, values, found):
    """See what stands where Python raises, or has more than 64 bits: integers wrap, floats are torch's."""
    a, b = values["a"], values["b"]
    is_whole = not isinstance(a, float | complex) and not isinstance(b, float | complex)
    if symbol in ("<<", ">>"):
        if b < 0 or b > 63:
            assert found == (-1 if symbol == ">>" and a < 0 else 0), (a, symbol, b)
            return
    elif is_whole and symbol in ROUNDINGS and b == 0:
        assert found == 0
        assert type(found) is int
        return
    if is_whole and symbol != "/":
        exact = {"+": a + b, "-": a - b, "*": a * b, "//": a // b if b else 0}
        exact["<<"] = a << b if 0 <= b < 64 else 0
        assert found == (exact[symbol] + 2**63) % 2**64 - 2**63, (a, symbol, b)
        return
    assert is_same(of_tensors(f"a {symbol} b", values), found), (a, symbol, b, found)


@pytest.mark.parametrize("kind", ORDER)
def test_every_function_of_one_number_gives_what_python_gives(kind, device):
    expressions = ["+a", "-a", "not a", "abs(a)", "bool(a)", "complex(a)", "a == a", "sum((a, a))"]
    if kind != "complex":
        expressions += ["float(a)", "max(a, a)", "min((a, a))", "complex(a, a)", "a ** 2", "a ** 0"]
    if kind in ("bool", "int"):
        expressions += ["~a", "round(a)", "int(a)", "math.floor(a)", "math.gcd(a, 12)", "math.lcm(a, 4)"]
    function = functor_of(expressions, "a")
    for a in VALUES[kind]:
        for expression, found in zip(expressions, answers(function, {"a": a}, device), strict=True):
            wanted = evaluate(expression, {"a": a})
            if not isinstance(wanted, Raised):
                assert is_same(wanted, found, 1e-15), (expression, a, wanted, found)


def test_floats_become_ints_as_pythons_do(device):
    expressions = ["int(a)", "round(a)", "math.floor(a)", "math.ceil(a)", "math.trunc(a)", "divmod(a, 2)[0]"]
    function = functor_of(expressions, "a")
    for a in (0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.7, -3.7, 2.0**62, -(2.0**63)):
        wanted = [evaluate(expression, {"a": a}) for expression in expressions]
        found = answers(function, {"a": a}, device)
        assert all(map(is_same, wanted, found)), (a, wanted, found)


# --------------------------------------------------------------------------------------------- powers


def test_an_int_to_a_known_power_is_an_int_or_a_float_by_its_sign(device):
    expressions = [f"a ** {n}" for n in range(6)] + [
        "2 ** -3",
        "0 ** 0",
        "True ** 2",
        "2 ** True",
        "pow(3, -1)",
    ]
    function = functor_of(expressions, "a")
    for a in (-3, -1, 0, 1, 2, 5, 2**12):
        wanted = [evaluate(expression, {"a": a}) for expression in expressions]
        assert all(map(is_same, wanted, answers(function, {"a": a}, device))), a


def test_the_sign_of_an_int_of_the_call_decides_the_type_of_a_power(device):
    expressions = ["2 ** n", "10 ** -n", "a ** n", "pow(2, n)", "2 ** (n * n)", "u ** n"]
    function = functor_of(expressions, "anu")
    for n in (3, -2, 5, -1, True, 2, -3):  # warm both ways
        values = {"a": 3, "n": n, "u": 1.5}
        found = answers(function, values, device)
        for expression, answer in zip(expressions, found, strict=True):
            wanted = evaluate(expression, values)
            assert is_same(wanted, answer, 1e-15), (expression, n, wanted, answer)
    assert answers(function, {"a": 0, "n": -1, "u": 0.0}, device)[2] == INF  # as torch's of floats


def test_a_power_of_a_loops_counter_follows_the_loop(device):
    def falling(x):
        total = 0.0
        for i in range(1, 4):
            total = total + x * 2**-i
        return total

    def rising(x):
        total = 0
        for i in range(5):
            total = total + 2**i
        return x * total

    def counted_down(x):
        total = 0.0
        for i in range(-1, -4, -1):
            total = total + 10**i
        for i in range(3, -1, -1):
            total = total + 10**i
        return x * total

    def of_a_tuple(x):
        total = 0
        for n in (0, 1, 3):
            total = total + 2**n
        for i, n in enumerate((-1, -2)):
            total = total + 2**i + 2**n
        return x * total

    x = torch.ones(3, dtype=torch.float64, device=device)
    for function, wanted in ((falling, 0.875), (rising, 31), (counted_down, 1111.111), (of_a_tuple, 14.75)):
        for way, found in ways(function, (x,)):
            assert torch.allclose(found, torch.full_like(x, wanted), rtol=1e-15), (function.__name__, way)
    whole = torch.ones(3, dtype=torch.int32, device=device)
    assert numjit.elementwise(rising)(whole).dtype is torch.int32


EXPONENT = -2


def test_captured_and_passed_exponents_give_the_same_in_every_way(device):
    x = torch.tensor([1.0, 3.0], device=device)
    for source, scalars, factor in (
        (lambda x: x * 10**EXPONENT, {}, 0.01),
        (lambda x, *, n: x / 10**-n, {"n": 2}, 100),
        (lambda x, *, n: x * 2**n, {"n": -1}, 0.5),
        (lambda x, *, n: x * 2**n, {"n": 4}, 16),
    ):
        for way, found in ways(source, (x,), scalars):
            assert torch.allclose(found, x * factor), (way, scalars)


def _scaled(x, n):
    return x * 2**n


def test_signs_reach_the_functions_that_a_functor_calls(device):
    x = torch.tensor([1.0, 3.0], device=device)
    f = numjit.elementwise(lambda x, *, n: _scaled(x, n) + _scaled(x, n=-1) + _scaled(x, 3))
    for n in (2, -2, 2):
        assert torch.allclose(f(x, n=n), x * (2.0**n + 0.5 + 8))


def test_gradients_flow_past_powers_of_numbers(device):
    def f(x, *, n):
        total = 0.0
        for i in range(1, 3):
            total = total + x * x * 2**-i
        return total * 2**n

    call = numjit.elementwise(f)
    for run in (call, torch.compile(lambda x, *, n: call(x, n=n), backend="aot_eager")):
        for n in (1, -1, 1):
            x = torch.tensor([1.0, 3.0], device=device, requires_grad=True)
            (gradient,) = torch.autograd.grad(run(x, n=n).sum(), x)
            assert torch.allclose(gradient, 2 * x.detach() * 0.75 * 2.0**n), n


def test_a_power_whose_sign_nobody_knows_is_refused_with_the_cure(device):
    x = torch.ones(3, device=device)
    f = numjit.elementwise(lambda x, *, n: x * 2 ** (n - 1))
    with pytest.raises(CompilationError, match=r"2\.0 \*\* n"):
        f(x, n=3)
    assert numjit.elementwise(lambda x, *, n: x * 2.0 ** (n - 1))(x, n=-1).tolist() == [0.25] * 3


def test_integer_tensors_to_negative_powers_are_refused_as_torch_refuses_them(device):
    whole, real = torch.arange(1, 4, device=device), torch.ones(3, device=device)
    f = numjit.elementwise(lambda x, *, n: x**n)
    for n in (2, -1, 3, -2):
        if n > 0:
            assert torch.equal(f(whole, n=n), whole**n)
        else:
            with pytest.raises(CompilationError, match="negative integer powers"):
                f(whole, n=n)
        assert torch.equal(f(real, n=n), real**n)
    with pytest.raises(CompilationError, match="negative integer powers"):
        numjit.elementwise(lambda x: x**EXPONENT)(whole)


# ------------------------------------------------------------------------------------------- functions

_ONE = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc gamma lgamma fabs degrees radians isnan isinf isfinite"
)
_TWO = "atan2 fmod copysign remainder pow hypot log ldexp nextafter"


def names_of(module, names):
    return [name for name in names.split() if hasattr(module, name)]


@pytest.mark.parametrize("kind", ["bool", "int", "float"])
def test_every_function_of_math_gives_what_python_gives(kind, device):
    values = [v for v in VALUES[kind] if abs(v) <= 1e6 or not math.isfinite(v)]
    twos = [f"math.{name}(a, b)" for name in names_of(math, _TWO)]
    if kind == "float":
        twos.remove("math.ldexp(a, b)")  # an int there
    ones = [f"math.{name}(a)" for name in names_of(math, _ONE)]
    for expressions, seconds in ((ones[:20], [0]), (ones[20:], [0]), (twos, values[:6])):
        function = functor_of(expressions, "ab")
        for a, b in itertools.product(values, seconds):
            given = {"a": a, "b": b}
            for expression, found in zip(expressions, answers(function, given, device), strict=True):
                wanted = evaluate(expression, given)
                if isinstance(wanted, Raised) and expression == "math.log(a, b)":
                    assert is_same(of_tensors("a.log() / b.log()", given), found, 1e-12)
                elif isinstance(wanted, Raised):  # a domain error, or an overflow: an answer all the same
                    assert not math.isfinite(found), (expression, given, found)
                else:
                    assert is_same(wanted, found, 1e-12), (expression, given, wanted, found)


_COMPLEX = "exp log log10 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
_QUESTIONS = "isnan isinf isfinite"


@pytest.mark.parametrize("kind", ORDER)
def test_every_function_of_cmath_gives_what_python_gives(kind, device):
    expressions = [f"cmath.{name}(a)" for name in (_COMPLEX + " " + _QUESTIONS).split()]
    expressions += ["cmath.phase(a)", "cmath.log(a, 2)", "cmath.polar(a)[0]"]
    if kind != "complex":
        expressions.append("cmath.rect(a, 0.5)")
    function = functor_of(expressions, "a")
    for a in (v for v in VALUES[kind] if abs(v) <= 100):
        for expression, found in zip(expressions, answers(function, {"a": a}, device), strict=True):
            wanted = evaluate(expression, {"a": a})
            if isinstance(wanted, Raised):
                assert not cmath.isfinite(found), (expression, a, found)
            else:
                assert type(found) is type(wanted), (expression, a)
                near = cmath.isclose(wanted, found, rel_tol=1e-9, abs_tol=1e-9)
                assert near or str(wanted) == str(found), (expression, a, wanted, found)


# ----------------------------------------------------------------------------------- nothing ever raises


def test_where_python_raises_only_that_result_has_torchs_value(device):
    x = torch.tensor([1.0, 2.0], device=device)
    one = torch.ones((), dtype=torch.float64)
    for source, scalars, wanted in (
        (lambda x, *, z: (x * 2, x + 0.0**z), {"z": -1}, INF),
        (lambda x, *, z: (x * 2, x + 1 / z), {"z": 0}, INF),
        (lambda x, *, z: (x * 2, x + 1 // z), {"z": 0}, 0.0),
        (lambda x, *, z: (x * 2, x + 7 % z), {"z": 0}, 0.0),
        (lambda x, *, z: (x * 2, x + 1.0 // z), {"z": 0.0}, (one // 0.0).item()),
        (lambda x, *, z: (x * 2, x + math.pow(0.0, z)), {"z": -1}, INF),
        (lambda x, *, z: (x * 2, x + math.sqrt(z)), {"z": -1}, NAN),
        (lambda x, *, z: (x * 2, x + math.log(z)), {"z": 0}, -INF),
        (lambda x, *, z: (x * 2, x + abs(1j / z)), {"z": 0}, (torch.tensor(1j) / 0).abs().item()),
        (lambda x, *, z: (x * 2, x + math.fmod(7, z)), {"z": 4}, 3.0),
        (lambda x, *, z: (x * 2, x + (5.0, 6.0)[z]), {"z": 2}, 0.0),
        (lambda x: (x * 2, x + 1 // 0), {}, 0.0),
        (lambda x: (x * 2, x + math.sqrt(-1.0)), {}, NAN),
    ):
        for way, (twice, found) in ways(source, (x,), scalars, compiled=False):
            assert torch.equal(twice, x * 2), (way, scalars)
            assert torch.allclose(found, x + wanted, equal_nan=True), (way, scalars, wanted, found)


def test_a_range_with_a_step_of_0_is_empty(device):
    def f(x, *, step):
        total = x * 0
        for i in range(3, 0, step):
            total = total + i
        return x * 2, total

    x = torch.ones(2, device=device)
    call = numjit.elementwise(f)
    for step, wanted in ((-1, 6.0), (0, 0.0), (1, 0.0), (-2, 4.0)):
        twice, total = call(x, step=step)
        assert twice.tolist() == [2.0, 2.0]
        assert total.tolist() == [wanted] * 2


def test_a_complex_power_of_0_takes_no_other_result_with_it(device):
    z = torch.tensor([0j, 1 + 1j, 0j], device=device)
    w = torch.tensor([-1, 2, 0.5 + 1j], device=device)
    power, double = numjit.elementwise(lambda z, w: (z**w, z + z))(z, w)
    assert torch.equal(double, z + z)
    found = power.cpu()
    assert cmath.isinf(found[0].item())
    assert cmath.isclose(found[1].item(), 2j, abs_tol=1e-6)
    assert found[2].item() == 0


# ------------------------------------------------------------------------------------ integers that widen


def test_int_of_an_element_is_an_int64(device):
    x = torch.tensor([3, 200], dtype=torch.uint8, device=device)
    for source, wanted in (
        (lambda x: int(x) - 8, [-5, 192]),
        (lambda x: int(x) * 300, [900, 60000]),
        (lambda x: int(x) << 8, [768, 51200]),
        (lambda x: -int(x), [-3, -200]),
    ):
        for way, found in ways(source, (x,)):
            assert found.dtype is torch.int64, way
            assert found.tolist() == wanted, way
    truth = torch.tensor([True, False], device=device)
    assert numjit.elementwise(lambda b: int(b) + int(b))(truth).tolist() == [2, 0]
    # Between bools themselves it stays torch's.
    found = numjit.elementwise(lambda x: (x > 2) + (x > 100))(x)
    assert found.dtype is torch.bool
    assert numjit.elementwise(lambda x: x + (True + True))(x).tolist() == [5, 202]


BIG, SMALL = 2**40, -(2**63)


def test_integers_beyond_64_bits_are_exact_until_used_and_then_refused(device):
    x = torch.ones(2, dtype=torch.float64, device=device)
    for source, wanted in (
        (lambda x: x * (BIG * BIG // 2**60), 2.0**20),
        (lambda x: x * (10**400 // 10**398), 100.0),
        (lambda x: x * float(BIG * BIG), 2.0**80),
        (lambda x: x * (BIG * BIG / 2**70), 1024.0),
        (lambda x: x * -(2**63), -(2.0**63)),
        (lambda x: x * SMALL, -(2.0**63)),
        (lambda x: x * (2**64 - 1), 2.0**64 - 1),
        (lambda x: x * (BIG * BIG > 2**79), 1.0),
    ):
        for way, found in ways(source, (x,)):
            assert torch.equal(found, x * wanted), (way, wanted)
    for source in (
        lambda x: x * 2**70,
        lambda x: x + 10**400,
        lambda x: x < 2**70,
        lambda x: x * 2**64,
        lambda x: x * (BIG * BIG),
        lambda x: x * -(2**63 + 1),
        lambda x: x + (2**70, 1)[0],
    ):
        with pytest.raises(CompilationError, match="does not fit 64 bits; write it as a float"):
            numjit.elementwise(source)(x)


def test_large_literals_meet_uint64_tensors_exactly(device):
    values = np.array([2**64 - 1, 1], dtype=np.uint64)
    x = torch.from_numpy(values).to(device)
    found = numjit.elementwise(lambda x: (x & 0xFFFFFFFFFFFFFFFE, x == 2**64 - 1, x < 2**63))(x)
    assert found[0].cpu().numpy().tolist() == [2**64 - 2, 0]
    assert found[1].tolist() == [True, False]
    assert found[2].tolist() == [False, True]


# ------------------------------------------------------------------------------------------------ attack


@pytest.mark.parametrize("seed", range(2))
def test_random_expressions_give_what_python_gives(seed, device):
    expressions = random_expressions(seed, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        function = functor_of(expressions, "ijuvpq")
    generator = random.Random(seed)
    for _ in range(8):
        values = {
            "i": generator.randint(-20, 20),
            "j": generator.randint(-3, 3),
            "u": round(generator.uniform(-5, 5), 2),
            "v": generator.choice([0.5, -1.25, 3.0]),
            "p": generator.random() < 0.5,
            "q": generator.random() < 0.5,
        }
        for expression, found in zip(expressions, answers(function, values, device), strict=True):
            wanted = evaluate(expression, values)
            if not isinstance(wanted, Raised):
                assert is_same(wanted, found, 1e-12) or abs(wanted - found) < 1e-12, (expression, values)


def test_compiled_code_has_the_types_and_bits_of_ints_that_only_the_call_knows(device):
    whole = torch.arange(1, 4, device=device)
    real = torch.ones(3, device=device)
    for source, x, scalars, wanted in (
        (lambda x, *, n: x * 2**n, whole, {"n": -1}, [0.5, 1.0, 1.5]),
        (lambda x, *, n: x * 2**n, whole, {"n": 2}, [4, 8, 12]),
        (lambda x, *, n: x**n, whole, {"n": 3}, [1, 8, 27]),
        (lambda x, *, n: x * (n << 65), real, {"n": 7}, [0.0] * 3),
        (lambda x, *, n: x * (n >> 65), real, {"n": -7}, [-1.0] * 3),
        (lambda x: x * (round(2.5 if x > 0 else 1.5) // 4), real, {}, [0.0] * 3),
        (lambda x: x * 2 ** (1 if x > 0 else 2), real, {}, [2.0] * 3),
    ):
        for way, found in ways(source, (x,), scalars):
            assert found.tolist() == wanted, (way, scalars)
            assert found.dtype is torch.tensor(wanted).dtype, (way, scalars)


def test_a_traced_call_follows_the_sign_of_an_int_that_changes(device):
    f = numjit.elementwise(lambda x, *, n: x * 2**n)
    run = torch.compile(lambda x, n: f(x, n=n), fullgraph=True, dynamic=True, backend="aot_eager")
    whole = torch.arange(1, 4, device=device)
    for n in (3, -1, 5, -4, 0):
        found = run(whole, n)
        assert torch.equal(found, whole * 2**n)
        assert found.dtype is (torch.float32 if n < 0 else torch.int64)
