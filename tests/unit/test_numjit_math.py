"""``numjit.math`` inside functors against torch on the CPU, and its functions on Python numbers."""

from __future__ import annotations

import inspect
import itertools
import math
import subprocess
import sys

import pytest
import torch
from numba.core import config

import numjit
from numjit import dtypes
from numjit.errors import CompilationError
from numjit.functor.fingerprint import digest
from numjit.functor.python import PythonFunctor
from numjit.rules.table import RULES
from numjit.rules.types import Element, RefusalError
from tests.support.math_cases import (
    BINARY,
    GAPS,
    NAMES,
    NEAR_ZEROS,
    PAIRS,
    UNARY,
    answer,
    assert_as_torch,
    pairs_of,
    reference_of_two,
    skipped_of_one,
    skipped_of_two,
    torch_function,
    values_of,
)
from tests.support.oracle import torch_dtype
from tests.support.python_cpu import kind_of, run

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf", "ignore:where received a uint8")


@pytest.fixture(autouse=True)
def quick_compilation(monkeypatch):
    """Leave LLVM's optimiser out: these tests are about meaning."""
    monkeypatch.setattr(config, "OPT", config._OptLevel(0))


def functor_of(expressions, arguments):
    scope = {"numjit": numjit, "math": math}
    exec(f"def functor({arguments}):\n    return ({', '.join(expressions)},)", scope)
    return PythonFunctor(scope["functor"], outputs=len(expressions))


def evaluate(expressions, arguments, *values, default=dtypes.float32):
    """Return the values of many expressions, as many at once as a functor compiles quickly."""
    results = []
    for start in range(0, len(expressions), 20):  # Python builds tuples beyond 30 from lists
        results += run(functor_of(expressions[start : start + 20], arguments), *values, default=default)
    return results


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_one_operand(name):
    x = values_of(name)
    answered = [f for f in UNARY if answer(torch_function(f), x) is not None]
    results = evaluate([f"numjit.math.{f}(x)" for f in answered], "x", x)
    for function, result in zip(answered, results, strict=True):
        assert_as_torch(
            f"{function}({name})", result, (x,), torch_function(function), UNARY[function],
            skipped_of_one(function, x), NEAR_ZEROS.get(function, 0),
        )  # fmt: skip
    refused(set(UNARY) - set(answered), "x", x)


def refused(functions, arguments, *values):
    """Check that what torch refuses is refused while compiling, with a reason."""
    for function in functions:
        expression = f"numjit.math.{function}({arguments})"
        with pytest.raises(CompilationError, match=r"not supported|torch refuses"):
            functor_of([expression], ", ".join(sorted(set(arguments.split(", "))))).specialise(
                tuple(map(kind_of, values)), dtypes.float32, target="cpu"
            )


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_functions_of_two_operands(first, second):
    x, y = pairs_of(first, second)
    answered = [f for f in BINARY if (f, first) not in GAPS and answer(reference_of_two(f), x, y) is not None]
    results = evaluate([f"numjit.math.{f}(x, y)" for f in answered], "x, y", x, y)
    for function, result in zip(answered, results, strict=True):
        assert_as_torch(
            f"{function}({first}, {second})", result, (x, y), reference_of_two(function), BINARY[function],
            skipped_of_two(function, x, y, result), NEAR_ZEROS.get(function, 0),
        )  # fmt: skip
    refused(set(BINARY) - set(answered), "x, y", x, y)


def test_zeros_keep_their_signs():
    x = torch.tensor([0.0, -0.0, -0.25, 0.25])
    y = torch.tensor([-0.0, 0.0, 1.0, -1.0])
    names = ["sqrt", "floor", "ceil", "trunc", "round", "sin", "atan", "asinh", "expm1", "log1p", "erf",
             "erfinv", "frac", "sign", "tanh", "square"]  # fmt: skip
    results = evaluate([f"numjit.math.{n}(x)" for n in names], "x", x)
    for name, result in zip(names, results, strict=True):
        expected = torch_function(name)(x)
        assert (result.isnan() | (result.signbit() == expected.signbit())).all(), name
    for name in ("nextafter", "copysign", "clamp", "fmod", "atan2"):
        (result,) = evaluate([f"numjit.math.{name}(x, y)"], "x, y", x, y)
        assert torch.equal(torch.signbit(result), torch.signbit(torch_function(name)(x, y))), name


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int32", "uint8"])
def test_clamp(name):
    """Any of the bounds None, numbers or elements; NaN; bounds that cross; promotion by the bounds."""
    x = values_of(name)
    bounds = [(0, 1), (None, 1), (0.5, None), (2, -1), (-1.5, 2.5), (math.nan, 1.0), (0, math.nan)]
    if name == "uint8":
        bounds = [(lo, hi) for lo, hi in bounds if (lo or 0) >= 0 and (hi or 0) >= 0]  # torch wraps -1
    texts = [f"numjit.math.clamp(x, {lo}, {hi})".replace("nan", "math.nan") for lo, hi in bounds]
    results = evaluate(texts, "x", x)
    for (lo, hi), result in zip(bounds, results, strict=True):
        expected = torch.clamp(x, lo, hi)
        assert result.dtype == expected.dtype
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
    low, high = torch.full_like(x, 1), torch.full((len(x),), 2.5)
    results = evaluate(
        ["numjit.math.clamp(x, a, b)", "numjit.math.clamp(x, hi=b)", "numjit.math.clamp(hi=b, x=x, lo=a)"],
        "x, a, b", x, low, high,
    )  # fmt: skip
    expected = [torch.clamp(x, low, high), torch.clamp(x, max=high), torch.clamp(x, low, high)]
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(result, wanted, rtol=0, atol=0, equal_nan=True)
    with pytest.raises(CompilationError, match="needs a bound"):
        evaluate(["numjit.math.clamp(x)"], "x", x)
    with pytest.raises(CompilationError, match="unexpected keyword argument 'low'"):
        evaluate(["numjit.math.clamp(x, low=1)"], "x", x)


@pytest.mark.parametrize(
    ("first", "second"), [*PAIRS, ("complex64", "int32"), ("bfloat16", "complex64"), ("float16", "bfloat16")]
)
def test_where(first, second):
    a, b = values_of(first)[:2].repeat(2), values_of(second)[:2].repeat(2)
    condition = torch.tensor([True, False, False, True])
    texts = ["(c, a, b)", "(c, b, a)", "(c, a, 2)", "(c, 2.5, a)", "(c, 1, 2)", "(c, 1, 2.5)", "(True, a, b)"]
    references = [
        lambda c, a, b: torch.where(c, a, b),
        lambda c, a, b: torch.where(c, b, a),
        lambda c, a, b: torch.where(c, a, 2),
        lambda c, a, b: torch.where(c, 2.5, a),
        lambda c, a, b: torch.where(c, 1, 2),
        lambda c, a, b: torch.where(c, 1, 2.5),
        lambda c, a, b: torch.where(torch.tensor(True), a, b),
    ]
    results = evaluate([f"numjit.math.where{text}" for text in texts], "c, a, b", condition, a, b)
    for text, result, reference in zip(texts, results, references, strict=True):
        expected = reference(condition, a, b)
        assert result.dtype == expected.dtype, text
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


def test_the_condition_of_where_is_a_bool():
    with pytest.raises(CompilationError, match="make it a bool, x != 0"):
        evaluate(["numjit.math.where(x, 1, 2)"], "x", torch.tensor([1]))
    x = torch.tensor([2, 0], dtype=torch.uint8)  # deprecated in torch
    assert evaluate(["numjit.math.where(x, 1, 2)"], "x", x)[0].tolist() == [1, 2]


def test_fma_rounds_once():
    generator = torch.Generator().manual_seed(0)
    x, y, z = torch.randn(3, 200, generator=generator)
    z = -(x * y) + 1e-9 * z
    exact = (x.double() * y.double() + z.double()).float()
    assert torch.equal(evaluate(["numjit.math.fma(x, y, z)"], "x, y, z", x, y, z)[0], exact)
    i = torch.tensor([1 << 30, -5], dtype=torch.int32)
    assert torch.equal(evaluate(["numjit.math.fma(x, 3, x)"], "x", i)[0], i * 3 + i)
    refused(["fma"], "x, x, x", torch.tensor([True]))
    assert numjit.math.fma(1e16 + 2, 1.0 + 2**-52, -1e16) == 4.220446049250313  # in two roundings 4.0
    assert [numjit.math.fma(-1.0, 0.0, 0.0), numjit.math.fma(2, 3, True)] == [0.0, 7]


def test_options():
    x = torch.tensor([-1.25, 0.0, 0.35, 0.5, 1.0, 26.5, 133.7])
    texts = {
        "round(x, 1)": lambda x: torch.round(x, decimals=1),
        "round(x, decimals=-1)": lambda x: torch.round(x, decimals=-1),
        "round(x, decimals=0)": torch.round,
        "logit(x, 0.01)": lambda x: torch.logit(x, 0.01),
        "logit(x, eps=1e-3)": lambda x: torch.logit(x, 1e-3),
        "softplus(x)": torch.nn.functional.softplus,
        "softplus(x, 2)": lambda x: torch.nn.functional.softplus(x, 2),
        "softplus(x, threshold=0.4)": lambda x: torch.nn.functional.softplus(x, threshold=0.4),
    }
    for (text, function), result in zip(
        texts.items(), evaluate([f"numjit.math.{text}" for text in texts], "x", x), strict=True
    ):
        torch.testing.assert_close(result, function(x), equal_nan=True, msg=lambda m, t=text: f"{t}: {m}")
    refused(["softplus"], "x", torch.tensor([1]))
    with pytest.raises(CompilationError, match="literal"):
        evaluate(["numjit.math.round(x, n)"], "x, n", x, 2)


def test_numbers_alone():
    """Python numbers and literals inside a functor give Python numbers, which give way to elements."""
    x = torch.tensor([1.0], dtype=torch.float16)

    def functor(x, *, a, n):
        return (
            x * numjit.math.sigmoid(a),
            x + numjit.math.clamp(n, 0, 2),
            numjit.math.where(a > 0, n, 1),
            numjit.math.sign(n),
            numjit.math.isnan(a),
            numjit.math.erfinv(0.5),
            numjit.math.where(n > 0, x, 3),
        )

    results = run(PythonFunctor(functor), x, 0.25, 7)
    assert [r.dtype for r in results] == [
        torch.float16, torch.float16, torch.int64, torch.int64, torch.bool, torch.float32, torch.float16,
    ]  # fmt: skip
    values = [float(r) for r in results]
    assert values[1:5] == [3.0, 7.0, 1.0, 0.0]
    assert values[5] == pytest.approx(numjit.math.erfinv(0.5), rel=1e-6)


def test_zero_dim_elements_stay_weaker():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor(0.5, dtype=torch.float64)
    for result in evaluate(
        ["numjit.math.maximum(x, y)", "x * numjit.math.sigmoid(y)", "numjit.math.where(x > 1, x, y)"],
        "x, y",
        x,
        y,
    ):
        assert result.dtype == torch.float32


def test_default_dtype():
    x = torch.tensor([1, 2])
    for default in (dtypes.float64, dtypes.bfloat16):
        (result,) = run(functor_of(["numjit.math.sigmoid(x)"], "x"), x, default=default)
        assert result.dtype == torch_dtype(default)


def test_wide_unsigned_and_small_floats():
    x = torch.tensor([0, 5, 65535], dtype=torch.uint16)
    results = evaluate(
        ["numjit.math.sign(x)", "numjit.math.sigmoid(x)", "numjit.math.clamp(x, 1, 9)"], "x", x
    )
    assert [r.dtype for r in results] == [torch.uint16, torch.float32, torch.uint16]
    assert results[0].tolist() == [0, 1, 1]
    assert results[2].tolist() == [1, 5, 9]
    e = torch.tensor([0.5, -2.0]).to(torch.float8_e4m3fn)
    (result,) = evaluate(["numjit.math.sigmoid(x)"], "x", e)
    assert result.dtype == torch.float8_e4m3fn
    refused(["nextafter"], "x, x", e)


# ------------------------------------------------------------------------------- outside of functors

PLAIN_REALS = [0.0, -0.0, 0.25, -0.25, 0.9, -0.9, 1.0, -1.0, 1.5, -2.0, 2.5, -3.5, 20.0, -20.0, 750.0,
               math.inf, -math.inf, math.nan]  # fmt: skip


def same(ours, theirs):
    if isinstance(theirs, float | complex):
        return (
            ours == theirs
            or (ours != ours and theirs != theirs)
            or abs(ours - theirs) <= 4e-15 * abs(theirs) + 4e-15
        )
    return ours == theirs


def test_python_numbers_answer_as_elements():
    """Every function on Python numbers, against the functor on float64, int64, bool and complex128."""
    kinds = {torch.float64: PLAIN_REALS, torch.int64: [-7, -2, 0, 1, 2, 5], torch.bool: [False, True]}
    kinds[torch.complex128] = [0.5 + 0.25j, -1.5 + 2j, 2 - 0.75j]
    for dtype, numbers in kinds.items():
        expressions: dict[int, list[str]] = {}
        for name in numjit.math.__all__:
            count = sum(
                p.default is p.empty
                for p in inspect.signature(getattr(numjit.math, name)).parameters.values()
            )
            if name in ("where", "clamp"):
                continue
            expressions.setdefault(count, []).append(name)
        for count, names in expressions.items():
            columns = list(zip(*itertools.product(numbers, repeat=min(count, 2)), strict=True))
            columns = [*columns, columns[0]][:count]
            tensors = [torch.tensor(column, dtype=dtype) for column in columns]
            arguments = ", ".join("xyz"[:count])
            if dtype == torch.int64:  # Python's integers do not wrap
                tensors = [t.clamp(0, 5) if k else t for k, t in enumerate(tensors)]
                columns = [t.tolist() for t in tensors]
            taken = []
            for name in names:
                try:
                    rule = RULES[getattr(numjit.math, name)]
                    rule.resolve(element_types(dtype, len(rule.signature.parameters)))
                except RefusalError:  # for this dtype
                    continue
                taken.append(name)
            results = evaluate(
                [f"numjit.math.{name}({arguments})" for name in taken],
                arguments,
                *tensors,
                default=dtypes.float64,
            )
            for name, result in zip(taken, results, strict=True):
                for place, values in enumerate(zip(*columns, strict=True)):
                    if name == "lgamma" and values[0] == -math.inf:
                        continue
                    ours, theirs = getattr(numjit.math, name)(*values), result[place].item()
                    assert type(ours) is type(theirs) or dtype == torch.int64, (name, values, ours, theirs)
                    assert same(ours, theirs), (name, values, ours, theirs)


def element_types(dtype, count):
    return [Element(dtypes.as_dtype(dtype), zero_dim=False, default_dtype=dtypes.float64)] * count


def test_plain_numbers_at_the_edges():
    m = numjit.math
    assert [m.log(0), m.lgamma(-1), m.reciprocal(0), m.exp(1000)] == [-math.inf, math.inf, math.inf, math.inf]
    assert math.isnan(m.sqrt(-1))
    assert m.clamp(5, 0, 2) == 2
    assert isinstance(m.clamp(5, 0, 2.5), float)
    assert math.isnan(m.clamp(math.nan, 0, 1))
    assert [m.where(True, 1, 2.5), m.sign(-3), m.sign(True), m.round(2.675, 2)] == [1.0, -1, True, 2.68]
    assert isinstance(m.where(True, 1, 2.5), float)
    with pytest.raises(TypeError, match="bound"):
        m.clamp(1)
    with pytest.raises(TypeError, match="no order"):
        m.maximum(1j, 2)


# ------------------------------------------------------------------------------------ identity, import


def test_every_function_has_a_rule():
    assert {getattr(numjit.math, name) for name in numjit.math.__all__} <= RULES.keys()
    exact = {"erfcx", "gammainc", "log_ndtr"}  # tests/cases/test_values.py: torch has them of fewer dtypes
    tested = {*UNARY, *BINARY, *exact, "where", "fma", "softplus"}
    assert tested == set(numjit.math.__all__)


def test_fingerprints_name_the_functions():
    from numjit.math import erf, sigmoid

    def one(x):
        return sigmoid(x)

    def other(x):
        return erf(x)

    def full(x):
        return numjit.math.sigmoid(x)

    assert digest(one) != digest(other)
    functor = PythonFunctor(full)
    assert functor.fingerprint() == functor.fingerprint()
    # The rule decides, not the Python body: nothing inside numjit.math is captured.
    assert sigmoid.__code__ not in functor.current_captures()
    assert sigmoid.__code__ not in PythonFunctor(one).current_captures()
    x = torch.tensor([0.5])
    assert torch.equal(run(PythonFunctor(one), x)[0], torch.sigmoid(x))


def test_a_wrapper_is_an_ordinary_helper():
    import functools

    from numjit.math import sigmoid

    @functools.wraps(sigmoid)
    def doubled(x):
        return 2 * sigmoid(x)

    x = torch.tensor([0.5])
    functor = PythonFunctor(lambda x: doubled(x))
    assert torch.equal(run(functor, x)[0], 2 * torch.sigmoid(x))
    assert functor.fingerprint() != PythonFunctor(lambda x: sigmoid(x)).fingerprint()


def test_an_unknown_function_is_named():
    with pytest.raises(CompilationError, match="no attribute 'sigmoidd'"):
        evaluate(["numjit.math.sigmoidd(x)"], "x", torch.tensor([1.0]))


def test_import_loads_neither_numba_nor_torch():
    code = (
        "import sys, numjit.math as m; assert not {'numba', 'torch'} & set(sys.modules); print(m.sigmoid(0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "0.5\n", done.stderr
