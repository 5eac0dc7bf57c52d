"""Operators and functions inside Python functors against torch: result dtypes and values on the CPU."""

from __future__ import annotations

import cmath
import itertools
import math
import operator
import warnings

import numpy as np
import pytest
import torch
from numba.core import config

from numjit import dtypes
from numjit.dtypes import DType
from numjit.errors import CompilationError
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType
from numjit.rules.complex_math import COMPLEX_FUNCTIONS
from numjit.semantics.category import Category
from tests.support.oracle import default_dtype, torch_dtype
from tests.support.python_cpu import kind_of, run

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf")

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]

DTYPES = [dtypes.from_name(name) for name in NAMES + COMPLEX]
REALS = [dtype for dtype in DTYPES if not dtype.is_complex]
LITERALS = (True, 3, 2.5, 2j)

BINARY = {
    "x + y": operator.add,
    "x - y": operator.sub,
    "x * y": operator.mul,
    "x / y": operator.truediv,
    "x // y": operator.floordiv,
    "x % y": operator.mod,
    "x ** y": operator.pow,
    "x & y": operator.and_,
    "x | y": operator.or_,
    "x ^ y": operator.xor,
    "x << y": operator.lshift,
    "x >> y": operator.rshift,
    "x < y": operator.lt,
    "x <= y": operator.le,
    "x > y": operator.gt,
    "x >= y": operator.ge,
    "x == y": operator.eq,
    "x != y": operator.ne,
    "max(x, y)": torch.maximum,
    "min(x, y)": torch.minimum,
}
UNARY = {
    "-x": operator.neg,
    "+x": operator.pos,
    "~x": operator.invert,
    "abs(x)": torch.abs,
    "round(x)": torch.round,
    "not x": torch.logical_not,
    "math.floor(x)": torch.floor,
    "math.ceil(x)": torch.ceil,
    "math.trunc(x)": torch.trunc,
    "x.real": lambda x: x.real,
    "x.conjugate()": torch.conj_physical,
}
MATH = {
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2,
    "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt, "sin": torch.sin, "cos": torch.cos,
    "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh,
    "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh,
    "atanh": torch.atanh, "erf": torch.erf, "erfc": torch.erfc, "lgamma": torch.lgamma,
    "degrees": torch.rad2deg, "radians": torch.deg2rad,
    "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite,
}  # fmt: skip
MATH2 = {
    "atan2": torch.atan2,
    "fmod": torch.fmod,
    "hypot": torch.hypot,
    "copysign": torch.copysign,
    "pow": torch.pow,
}


def sample(dtype: DType, seed: int, count: int = 64) -> torch.Tensor:
    """Return small values, zeros among them, so that torch's own arithmetic stays exact."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.kind == "b":
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if dtype.is_integral:
        low = 0 if dtype.kind == "u" else -6
        return torch.randint(low, 7, (count,), generator=generator).to(torch_dtype(dtype))
    values = torch.randint(-12, 13, (count,), generator=generator) / 4
    if dtype.is_complex:
        values = torch.complex(values, torch.randint(-12, 13, (count,), generator=generator) / 4)
    return values.to(torch_dtype(dtype))


def source(expressions: list[str], arguments: str) -> PythonFunctor:
    """Return a functor of several expressions, each a result."""
    names = {"math": math, "cmath": cmath}
    exec(f"def functor({arguments}):\n    return ({', '.join(expressions)},)", names)
    return PythonFunctor(names["functor"], outputs=len(expressions))


def assert_same(expression: str, ours: torch.Tensor, theirs: torch.Tensor, exact: bool = True) -> None:
    """Compare dtype and values; 16-bit floats may be off by an intermediate rounding of torch's."""
    assert ours.dtype == theirs.dtype, f"{expression}: {ours.dtype}, torch gives {theirs.dtype}"
    if theirs.is_floating_point() or theirs.is_complex():
        eps = torch.finfo(theirs.dtype).eps
        rtol, atol = ((0, 0) if exact else (8 * eps, 4 * eps)) if eps < 1e-4 else (2 * eps, eps)
        torch.testing.assert_close(
            ours, theirs, rtol=rtol, atol=atol, equal_nan=True, msg=lambda text: f"{expression}: {text}"
        )
    else:
        assert torch.equal(ours, theirs), f"{expression}: {ours} is not {theirs}"


def torch_answer(function, *values):
    """Return what torch gives, or None where it refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*values)
        except (RuntimeError, TypeError):
            return None


@pytest.fixture(autouse=True)
def quick_compilation(monkeypatch):
    """Leave LLVM's optimiser out: these tests are about meaning, and run ten times faster without it."""
    monkeypatch.setattr(config, "OPT", config._OptLevel(0))


def batches(items: list) -> list[list]:
    """Split into as many as one functor compiles quickly."""
    return [items[start : start + 20] for start in range(0, len(items), 20)]


def check(expressions: dict, arguments: str, *values, inexact: tuple[str, ...] = ()) -> None:
    """Compare all expressions that torch answers in one functor; the others must each be refused."""
    answers = {text: torch_answer(function, *values) for text, function in expressions.items()}
    answered = {text: answer for text, answer in answers.items() if answer is not None}
    for batch in batches(list(answered.items())):
        results = run(source([text for text, _ in batch], arguments), *values)
        for (text, answer), result in zip(batch, results, strict=True):
            assert_same(text, result, answer, exact=not any(part in text for part in inexact))
    for text in answers.keys() - answered.keys():
        with pytest.raises(CompilationError):
            source([text], arguments).specialise(tuple(map(kind_of, values)), dtypes.float32, target="cpu")


def nonzero(x: torch.Tensor) -> torch.Tensor:
    """Return integers without zeros, by which torch can divide."""
    return torch.where(x == 0, torch.ones_like(x), x) if not x.is_floating_point() else x


@pytest.mark.parametrize("first", DTYPES, ids=str)
def test_sums_promote_as_torch(first):
    """Every dtype with every other: arrays, 0-dim arrays, both ways round."""
    x = sample(first, 1)
    others = [sample(second, 2) for second in DTYPES]
    others += [other[:1].reshape(()) for other in others]
    names = [f"y{place}" for place in range(len(others))]
    results = run(source([f"x + {name}" for name in names], ", ".join(["x", *names])), x, *others)
    for other, result in zip(others, results, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(f"{first} + {kind_of(other)}", result, x + other)
    scalar = x[:1].reshape(())
    zero_dim = others[len(DTYPES) :]
    functor = source(
        [f"x + {name}" for name in names[: len(DTYPES)]], ", ".join(["x", *names[: len(DTYPES)]])
    )
    kinds = tuple(map(kind_of, (scalar, *zero_dim)))
    inferred = functor.specialise(kinds, dtypes.float32, target="cpu").outputs
    assert [torch_dtype(dtype) for dtype in inferred] == [
        torch.result_type(scalar, other) for other in zero_dim
    ]


PAIRS = [(name, name) for name in NAMES + COMPLEX]
PAIRS += [
    ("int32", "float16"),
    ("uint8", "int8"),
    ("bool", "int64"),
    ("float32", "float64"),
    ("complex64", "float64"),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_binary_operators(first, second):
    x, y = sample(dtypes.from_name(first), 1), nonzero(sample(dtypes.from_name(second), 2))
    expressions = dict(BINARY)
    if x.is_complex():
        del expressions["x ** y"]  # see tests/cases/test_complex_edges.py
    check(expressions, "x, y", x, y, inexact=("**", "/") if x.is_complex() else ("**",))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_operators_with_literals(dtype):
    x = nonzero(sample(dtype, 5))
    expressions = {}
    for literal, (text, function) in itertools.product(LITERALS, BINARY.items()):
        if "(" in text:
            continue  # torch.maximum takes no numbers
        if isinstance(literal, complex) and text not in ("x + y", "x * y", "x == y"):
            continue
        if text == "x ** y" and (dtype.is_complex or literal is True):
            continue
        shown = text.replace("y", repr(literal))
        expressions[shown] = lambda v, f=function, n=literal: f(v, n)
        if not (text == "x ** y" and dtype.kind == "i"):  # torch: 2.5 ** negative int is fine, 3 ** -1 is 0
            shown = text.replace("x", "_").replace("y", "x").replace("_", repr(literal))
            expressions[shown] = lambda v, f=function, n=literal: f(n, v)
    check(expressions, "x", x, inexact=("**", "/", "j"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unary_operators(dtype):
    check(UNARY, "x", sample(dtype, 6), inexact=("abs",))


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_math_functions(dtype):
    expressions = {f"math.{name}(x)": function for name, function in MATH.items()}
    check(expressions, "x", sample(dtype, 7), inexact=("math",))

    def floats(function):
        return lambda *values: function(*(v if v.is_floating_point() else v.float() for v in values))

    expressions = {f"math.{name}(x, y)": floats(function) for name, function in MATH2.items()}
    check(expressions, "x, y", sample(dtype, 8), sample(dtype, 9), inexact=("math",))


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float32"])
def test_complex_functions(dtype):
    x = sample(dtypes.from_name(dtype), 10)
    wide = x.to(torch.promote_types(x.dtype, torch.complex64))
    expressions = {
        f"cmath.{name}(x)": lambda _, n=name: getattr(torch, n)(wide) for name in COMPLEX_FUNCTIONS
    }
    expressions |= {
        "x.imag": lambda x: x.imag if x.is_complex() else torch.zeros_like(x),
        "x ** 2": lambda x: x**2,
        "x ** 3": lambda x: x**3,
        "cmath.phase(x)": lambda _: torch.angle(wide),
        "cmath.isnan(x / 0.0)": lambda x: torch.isnan(x / 0.0),
        "complex(x)": lambda _: wide,
        "abs(x)": torch.abs,
    }
    results = run(source(list(expressions), "x"), x)
    for (text, function), result in zip(expressions.items(), results, strict=True):
        expected = function(x)
        assert result.dtype == expected.dtype, text
        if expected.dtype == torch.bool:
            assert torch.equal(result, expected)
            continue
        # libm's complex functions and torch's vectorised ones choose other sides of branch cuts on -0.0
        close = torch.isclose(result.abs(), expected.abs(), rtol=2e-5, atol=1e-5, equal_nan=True)
        assert close.all(), (text, x[~close], result[~close], expected[~close])


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.is_integral], ids=str)
def test_integer_division_never_fails(dtype):
    """x // 0 and x % 0 are 0, the smallest integer by -1 wraps; elsewhere Python's own answers."""
    info = torch.iinfo(torch_dtype(dtype))
    edges = [info.min, info.min + 1, -7, -1, 0, 1, 7, info.max]
    edges = [value for value in edges if info.min <= value <= info.max]
    pairs = list(itertools.product(edges, edges))
    x, y = (torch.tensor(column, dtype=torch_dtype(dtype)) for column in zip(*pairs, strict=True))
    quotient, rest = run(source(["x // y", "x % y"], "x, y"), x, y)
    both = run(PythonFunctor(lambda x, y: divmod(x, y), outputs=2), x, y)
    for place, (a, b) in enumerate(pairs):
        expected = (a // b, a % b) if b else (0, 0)
        if expected[0] > info.max:
            expected = (info.min, 0)
        assert (quotient[place], rest[place]) == expected, (a, b)
    assert torch.equal(both[0], quotient)
    assert torch.equal(both[1], rest)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.is_integral], ids=str)
def test_shifts_and_powers_at_the_edges(dtype):
    x = sample(dtype, 11)
    distance = torch.arange(-4, 60).to(torch_dtype(dtype)) % (dtype.bits + 3)
    check({"x << y": operator.lshift, "x >> y": operator.rshift}, "x, y", x, distance)
    powers = {f"x ** {n}": lambda x, n=n: x**n for n in (0, 1, 2, 5, 13, 64, 70)}
    check(powers, "x", x)


def test_negative_integer_powers():
    functor = source(["x ** -1"], "x")
    with pytest.raises(CompilationError, match="negative integer powers"):
        functor.specialise((ArgumentType(dtypes.int32, Category.DIM),), dtypes.float32, target="cpu")


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.float32, dtypes.float64], ids=str)
def test_special_float_values(dtype):
    edges = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 6e4]
    pairs = list(itertools.product(edges, edges))
    x, y = (torch.tensor(column).to(torch_dtype(dtype)) for column in zip(*pairs, strict=True))
    expressions = {
        text: BINARY[text] for text in ("max(x, y)", "min(x, y)", "x // y", "x % y", "x == y", "x != y")
    }
    check(expressions, "x, y", x, y)
    # float16 takes another way in torch's 0.5 than the other floats, which numjit does not follow.
    exponents = (0, 2, 3, -1, -2) if dtype is dtypes.float16 else (0, 2, 3, 0.5, -1, -2, -0.5)
    powers = {f"x ** {n}": lambda x, y, n=n: x**n for n in exponents}
    if 0.5 in exponents:  # MKL's root of a float64, which torch takes, is not the nearest on every processor
        with np.errstate(invalid="ignore"):
            root = torch.from_numpy(np.sqrt(x.numpy()))
        powers["x ** 0.5"] = lambda x, y: root
    rounding = {
        "round(x)": lambda x, y: torch.round(x),
        "round(x, 1)": lambda x, y: torch.round(x, decimals=1),
        "bool(x)": lambda x, y: x.bool(),
        "not x": lambda x, y: torch.logical_not(x),
        "math.isfinite(x)": lambda x, y: torch.isfinite(x),
        "-x": lambda x, y: -x,
        "abs(x)": lambda x, y: x.abs(),
        "math.copysign(x, y)": torch.copysign,
        "math.remainder(x, 2.0)": lambda x, y: torch.tensor(
            [math.remainder(v, 2) if math.isfinite(v) else math.nan for v in x.tolist()], dtype=x.dtype
        ),
    }
    check({**powers, **rounding}, "x, y", x, y, inexact=("** -", "round"))


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_integers(name):
    dtype = dtypes.from_name(name)
    x = torch.tensor([0, 1, 5, torch.iinfo(torch_dtype(dtype)).max], dtype=torch_dtype(dtype))
    results = run(
        source(["x + 1", "x * x", "x // 2", "x % 4", "x > 3", "x / 2", "x >> 1", "max(x, 2)"], "x"), x
    )
    top, values = 1 << dtype.bits, [0, 1, 5, (1 << dtype.bits) - 1]
    assert [r.dtype for r in results] == [x.dtype] * 4 + [torch.bool, torch.float32, x.dtype, x.dtype]
    exact = [
        lambda v: (v + 1) % top,
        lambda v: v * v % top,
        lambda v: v // 2,
        lambda v: v % 4,
        lambda v: v > 3,
        None,
        lambda v: v >> 1,
        lambda v: max(v, 2),
    ]
    for result, function in zip(results, exact, strict=True):
        if function is not None:
            assert result.tolist() == [function(value) for value in values]
    with pytest.raises(CompilationError, match="no common dtype"):
        run(source(["x + y"], "x, y"), x, torch.ones(4, dtype=torch.int32))
    assert run(source(["x + y"], "x, y"), x, torch.ones(4))[0].dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_float8(dtype):
    x = torch.tensor([1.5, -2.0, 0.0, 3.0]).to(dtype)
    doubled, summed, positive, root = run(source(["x * 2", "x + x", "x > 0", "math.fabs(x)"], "x"), x)
    assert doubled.dtype == summed.dtype == root.dtype == dtype
    assert doubled.float().tolist() == summed.float().tolist() == [3.0, -4.0, 0.0, 6.0]
    assert positive.tolist() == [True, False, False, True]
    with pytest.raises(CompilationError, match="no common dtype"):
        run(source(["x + y"], "x, y"), x, torch.ones(4))


def test_comparisons_with_numbers_outside_the_range():
    x = torch.tensor([0, 44, 200], dtype=torch.uint8)
    expressions = {
        "x > 300": lambda x: x > 300,
        "x < 300": lambda x: x < 300,
        "x == 300": lambda x: x == 300,
        "x > -1": lambda x: x > -1,
    }
    check(expressions, "x", x)  # torch converts the number to the element's dtype, wrapping it


def test_comparisons_answer_strong_bools():
    x, y = torch.tensor([1.0, 1.0, -1.0]), torch.tensor([1.0, -1.0, -1.0])
    check(
        {"(x > 0) + (y > 0)": lambda x, y: (x > 0) + (y > 0), "(x > 0) * 2": lambda x, y: (x > 0) * 2},
        "x, y",
        x,
        y,
    )
    check({"(x > 0) - (y > 0)": lambda x, y: (x > 0) - (y > 0)}, "x, y", x, y)


@pytest.mark.parametrize(
    "default", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64], ids=str
)
def test_default_dtype(default):
    x = torch.tensor([1, 2, 3])
    expressions = {
        "x / 2": lambda x: x / 2,
        "x * 2.5": lambda x: x * 2.5,
        "math.sqrt(x)": torch.sqrt,
        "float(x)": torch.sqrt,
        "x * 2j": lambda x: x * 2j,
    }
    with default_dtype(default):
        expected = [torch_answer(function, x) for function in expressions.values()]
    kinds = (kind_of(x),)
    found = (
        source([*expressions, "1", "2.5", "1j", "True"], "x").specialise(kinds, default, target="cpu").outputs
    )
    for answer, dtype in zip(expected, found, strict=False):
        assert answer is None or answer.dtype == torch_dtype(dtype)
    with default_dtype(default):
        numbers = [torch.result_type(torch.tensor(0), torch.tensor(0)), torch.get_default_dtype()]
    complex_default = {"float16": "complex32", "float64": "complex128"}.get(default.name, "complex64")
    assert [torch_dtype(dtype) for dtype in found[-4:-2]] == numbers
    assert found[-2:] == (dtypes.from_name(complex_default), dtypes.bool_)


def test_gcd_and_nextafter_and_sum():
    x, y = torch.tensor([12, -18, 0, 7]), torch.tensor([8, 12, 5, 0])
    check({"math.gcd(x, y)": torch.gcd}, "x, y", x, y)
    f, g = torch.tensor([1.0, -2.0, 0.0]), torch.tensor([2.0, -3.0, 1.0])
    check({"math.nextafter(x, y)": torch.nextafter}, "x, y", f, g)
    reductions = {
        "sum((x, y, 1))": lambda x, y: x + y + 1,
        "max((x, y))": torch.maximum,
        "min(x, y, 0)": lambda x, y: torch.minimum(x, y).clamp(max=0),
    }
    check(reductions, "x, y", f, g)
    positive = torch.tensor([0.5, 1.0, 3.5])
    check({"math.gamma(x)": lambda x: torch.lgamma(x).exp()}, "x", positive, inexact=("math",))
    check({"sum((x > 0, y > 0))": lambda x, y: 0 + (x > 0) + (y > 0)}, "x, y", f, g)


@pytest.mark.parametrize("dtype", [dtype for dtype in REALS if dtype.kind != "b"], ids=str)
def test_more_of_pythons_math(dtype):
    x = sample(dtype, 21).abs() + 1
    y = sample(dtype, 22).abs() + 2
    wide = [v if v.is_floating_point() else v.float() for v in (x, y)]
    expressions = {
        "math.log(x, 2)": lambda x, y: torch.log(wide[0]) / math.log(2),
        "math.log(x, y)": lambda x, y: torch.log(wide[0]) / torch.log(wide[1]),
        "math.hypot(x, y, x)": lambda x, y: torch.hypot(torch.hypot(*wide), wide[0]),
        "math.ldexp(x, 3)": lambda x, y: torch.ldexp(wide[0], torch.tensor(3)),
        "math.modf(x + 0.25)[0]": lambda x, y: torch.frac(x + 0.25),
        "math.modf(x)[1]": lambda x, y: torch.trunc(wide[0]),
        "cmath.polar(x)[0]": lambda x, y: wide[0].abs() if wide[0].dtype != torch.bfloat16 else x.float(),
        "cmath.polar(x)[1]": lambda x, y: (
            torch.zeros_like(torch.complex(wide[0], wide[0]).real)
            if wide[0].dtype != torch.bfloat16
            else torch.zeros(64)
        ),
        "math.nextafter(x, y)": lambda x, y: torch.nextafter(*wide),
    }
    check(expressions, "x, y", x, y, inexact=("math",))
    if dtype.is_integral:
        check(
            {"math.lcm(x, y)": torch.lcm, "math.lcm(x, 6)": lambda x, y: torch.lcm(x, 0 * x + 6)},
            "x, y",
            x,
            y,
        )


def test_modf_of_infinity():
    x = torch.tensor([math.inf, -math.inf, -0.0, -2.5])
    rest, whole = run(PythonFunctor(lambda x: math.modf(x), outputs=2), x)
    assert whole.tolist() == [math.inf, -math.inf, 0.0, -2.0]
    assert rest.tolist() == [0.0, 0.0, 0.0, -0.5]
    assert rest.signbit().tolist() == [False, True, True, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_polar_and_rect(dtype):
    size, angle = torch.tensor([0.5, 2.0, 3.0], dtype=dtype), torch.tensor([0.1, -2.0, 3.0], dtype=dtype)
    made, found, turned = run(
        source(
            ["cmath.rect(x, y)", "cmath.polar(cmath.rect(x, y))[0]", "cmath.phase(cmath.rect(x, y))"], "x, y"
        ),
        size,
        angle,
    )
    torch.testing.assert_close(made, torch.polar(size, angle))
    torch.testing.assert_close(found, size)
    torch.testing.assert_close(turned, angle)
    with pytest.raises(CompilationError, match="magnitude and an angle"):
        run(source(["cmath.rect(x, 1)"], "x"), torch.tensor([1j]))


def test_complex_of_two_reals_keeps_the_signs_of_zeros():
    parts = [0.0, -0.0, 1.5, -2.0]
    pairs = list(itertools.product(parts, parts))
    x, y = (torch.tensor(column) for column in zip(*pairs, strict=True))
    (made,) = run(source(["complex(x, y)"], "x, y"), x, y)
    wanted = torch.view_as_complex(torch.tensor([list(pair) for pair in pairs]))
    assert torch.equal(torch.view_as_real(made).signbit(), torch.view_as_real(wanted).signbit())
    assert torch.equal(made, wanted)


def test_numbers_alone_in_functions_that_numba_lacks():
    x = torch.tensor([2.0])

    def functor(x, *, a, n):
        return math.cbrt(a) * x, math.remainder(a, 3.0) * x, math.lcm(n, 4) * x

    results = run(PythonFunctor(functor), x, 8.0, 6)
    assert [r.item() for r in results] == [4.0, -2.0, 24.0]


def test_loops_over_tuples():
    x, y = torch.tensor([2.0]), torch.tensor([3.0])

    def functor(x, y):
        total = x * 0
        for place, value in enumerate((x, y)):
            total += place * value
        for value, weight in zip((x, y), (1.0, 2.0)):  # noqa: B905
            total += weight * value
        for n in range(1, 5, 2):
            total += n * x
        return total

    assert run(PythonFunctor(functor), x, y)[0].item() == 3 + 2 + 6 + 8
