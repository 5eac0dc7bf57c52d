"""Every function of ``numjit.math`` on CUDA tensors against torch's own CUDA kernels.

Values and tolerances are those of the CPU's tests; where torch's own answer is further from the exact one,
its float64 answer counts.
"""

from __future__ import annotations

import math

import pytest
import torch

import numjit
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

pytestmark = pytest.mark.gpu

#: libdevice's own errors, in units in the last place (CUDA programming guide, mathematical functions), where
#: they exceed the C library's.
GPU_ULPS = {
    "rsqrt": 3, "tan": 5, "asin": 5, "acos": 4, "sinh": 5, "acosh": 6, "asinh": 5, "atanh": 5, "erfc": 8,
    "erfinv": 6, "sinc": 12, "lgamma": 12, "digamma": 12, "i0": 10, "logit": 6, "atan2": 5, "hypot": 4,
    "xlogy": 5, "logaddexp": 5, "log1p": 3, "log10": 4,
}  # fmt: skip


def evaluate(expressions, arguments, *values):
    """Return the values of many expressions of CUDA tensors, sixteen in one functor."""
    results = []
    for start in range(0, len(expressions), 16):
        scope = {"numjit": numjit, "math": math}
        part = expressions[start : start + 16]
        exec(f"def functor({arguments}):\n    return ({', '.join(part)},)", scope)
        made = numjit.elementwise(scope["functor"], outputs=len(part))(*values)
        results += made if isinstance(made, tuple) else (made,)
    return results


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_one_operand(name):
    x = values_of(name).cuda()
    answered = [f for f in UNARY if answer(torch_function(f), x) is not None]
    results = evaluate([f"numjit.math.{f}(x)" for f in answered], "x", x)
    for function, result in zip(answered, results, strict=True):
        assert_as_torch(
            f"{function}({name})", result, (x,), torch_function(function),
            GPU_ULPS.get(function, UNARY[function]), skipped_of_one(function, x), NEAR_ZEROS.get(function, 0),
        )  # fmt: skip


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_functions_of_two_operands(first, second):
    x, y = (v.cuda() for v in pairs_of(first, second))
    answered = [f for f in BINARY if (f, first) not in GAPS and answer(reference_of_two(f), x, y) is not None]
    results = evaluate([f"numjit.math.{f}(x, y)" for f in answered], "x, y", x, y)
    for function, result in zip(answered, results, strict=True):
        assert_as_torch(
            f"{function}({first}, {second})", result, (x, y), reference_of_two(function),
            GPU_ULPS.get(function, BINARY[function]), skipped_of_two(function, x, y, result),
            NEAR_ZEROS.get(function, 0),
        )  # fmt: skip


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int32", "uint8"])
def test_options(name):
    x = values_of(name).cuda()
    expressions = {
        "numjit.math.clamp(x, 0, 1)": lambda x: torch.clamp(x, 0, 1),
        "numjit.math.clamp(x, hi=2.5)": lambda x: torch.clamp(x, max=2.5),
        "numjit.math.clamp(x, 2, 1)": lambda x: torch.clamp(x, 2, 1),
        # A NaN bound gives NaN; torch's CUDA kernel for a single scalar bound ignores it.
        "numjit.math.clamp(x, lo=math.nan)": lambda x: torch.clamp(x, min=math.nan) * math.nan,
        "numjit.math.where(x > 1, x, 2.5)": lambda x: torch.where(x > 1, x, 2.5),
        "numjit.math.where(x > 1, 1, 2)": lambda x: torch.where(x > 1, 1, 2),
        "numjit.math.where(x > 1, x, x * 1j)": lambda x: torch.where(x > 1, x, x * 1j),
    }
    for (text, function), result in zip(
        expressions.items(), evaluate(list(expressions), "x", x), strict=True
    ):
        expected = function(x)
        assert result.dtype == expected.dtype, text
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True, msg=text)


def test_options_of_floats():
    x = torch.tensor([-1.25, 0.0, 0.35, 0.5, 1.0, 26.5, 133.7], device="cuda")
    expressions = {
        "numjit.math.round(x, 1)": lambda x: torch.round(x, decimals=1),
        "numjit.math.logit(x, 0.01)": lambda x: torch.logit(x, 0.01),
        "numjit.math.softplus(x)": torch.nn.functional.softplus,
        "numjit.math.softplus(x, beta=2, threshold=0.4)": lambda x: torch.nn.functional.softplus(x, 2, 0.4),
    }
    for (text, function), result in zip(
        expressions.items(), evaluate(list(expressions), "x", x), strict=True
    ):
        torch.testing.assert_close(result, function(x), equal_nan=True, msg=text)


def test_fma_rounds_once():
    x, y, z = torch.randn(3, 1000, generator=torch.Generator().manual_seed(0)).cuda()
    z = -(x * y) + 1e-9 * z
    exact = (x.double() * y.double() + z.double()).float()
    assert torch.equal(evaluate(["numjit.math.fma(x, y, z)"], "x, y, z", x, y, z)[0], exact)


def test_numbers_alone():
    x = torch.tensor([1.0], dtype=torch.float16, device="cuda")
    functor = numjit.elementwise(
        lambda x, *, a, n: (x * numjit.math.sigmoid(a), numjit.math.erfinv(0.5), numjit.math.clamp(n, 0, 2)),
        outputs=3,
    )
    first, second, third = functor(x, a=0.25, n=7)
    assert [v.dtype for v in (first, second, third)] == [torch.float16, torch.float32, torch.int64]
    assert first.item() == pytest.approx(numjit.math.sigmoid(0.25), abs=1e-3)
    assert second.item() == pytest.approx(numjit.math.erfinv(0.5), rel=1e-6)
    assert third.item() == 2
