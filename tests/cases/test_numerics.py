"""Cases A: values and dtypes, in both languages and on both devices, against torch where it can say."""

from __future__ import annotations

import math
import typing

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import numjit
import numjit.math as nm
from numjit.errors import CompilationError, PromotionError
from numjit.semantics import Category
from tests.cases import (
    ADD,
    CHOOSE,
    IDENTITY,
    INCREMENT,
    KINDS,
    LESS,
    MULTIPLY,
    SCALED,
    SQUARE,
    SUBTRACT,
    SUM_AND_DIFFERENCE,
    bits,
    both_kinds,
    exact,
    fill,
    holds,
    pair,
    same,
)
from tests.support import oracle
from tests.support.magnitudes import MAGNITUDES
from tests.support.strategies import argument_types
from tests.support.tiers import pairs

f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
i8, i16, i32, i64, u8 = torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8
c32, c64, c128 = torch.complex32, torch.complex64, torch.complex128
u16, u32, u64 = torch.uint16, torch.uint32, torch.uint64
e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
T = typing.TypeVar("T")
U = typing.TypeVar("U")


def tensor(values, dtype, device):
    """Return a tensor by a conversion, which torch has for more dtypes than constructors."""
    source = torch.as_tensor(np.array(values))  # floats as float64
    return source.to(dtype).to(device)


# In a Python functor the refused promotion is that of an operation on the user's own line.
REFUSED = {"python": (PromotionError, CompilationError), "c++": PromotionError}
TWICE_ONE = pair(lambda x: x + 1 + 1, "template <typename T> T twice(T x) { return x + T(1) + T(1); }")
DOUBLED = pair(lambda x: x * 2, "template <typename T> T doubled(T x) { return x * T(2); }")


def of_one(python, body):
    return pair(python, f"template <typename T> T f(T x) {{ return {body}; }}")


def _exact_difference(x: T, i: numjit.int64) -> T:
    return i - 16777216


EXACT = pair(_exact_difference, "template <typename T> T f(T x, long long i) { return T(i - 16777216); }")
SHIFTED = pair(
    lambda x, *, alpha=0.0: x + alpha - 69999,
    "template <typename T> T shifted(T x, T alpha) { return x + alpha - T(69999); }",
    alpha=0.0,
)
SCALE = pair(
    lambda x, *, alpha=1: alpha * x,
    "template <typename T> T scale(T x, T alpha) { return alpha * x; }",
    alpha=1,
)

#: By name: functor, operands (values and dtype of a tensor, or a number), result, its dtype, scalars.
VALUES = {
    "a1 float16 is computed in float32": (TWICE_ONE, [([2048.0], f16)], [2050.0], f16),
    "a2 bfloat16 too": (TWICE_ONE, [([256.0], bf16)], [258.0], bf16),
    "a3 a scalar stays in the compute type": (SHIFTED, [([1.0], f16)], [2.0], f16, {"alpha": 70000.0}),
    "a4 overflow at the store": (SQUARE, [([300.0], f16)], [math.inf], f16),
    "a4 none before": (of_one(lambda x: x * x / x, "x * x / x"), [([300.0], f16)], [300.0], f16),
    "a5 a square wraps": (SQUARE, [([100], i8)], [16], i8),
    "a5 a sum wraps": (ADD, [([100], i8), ([100], i8)], [-56], i8),
    "a6 uint8 wraps": (SUBTRACT, [([1], u8), ([2], u8)], [255], u8),
    "a7 uint8 and int8": (ADD, [([200], u8), ([-1], i8)], [199], i16),
    "a8 bool addition is or": (
        ADD, [([True, True, False], torch.bool), ([True, False, False], torch.bool)], [1, 1, 0], torch.bool,
    ),
    "a10 float16 and bfloat16": (ADD, [([1.0], f16), ([2.0], bf16)], [3.0], f32),
    "a12": (of_one(lambda x: 2 * x, "2 * x"), [([1 + 2j], c64)], [2 + 4j], c64),
    "a13": (of_one(lambda x: 2.0 * x, "2.0 * x"), [([3 + 4j], c128)], [6 + 8j], c128),
    "a14 plus": (of_one(lambda x: x + 1, "x + 1"), [([1 + 2j], c64)], [2 + 2j], c64),
    "a14 divide": (of_one(lambda x: x / 2, "x / 2"), [([1 + 2j], c128)], [0.5 + 1j], c128),
    "a14 minus": (of_one(lambda x: x - 1.0, "x - 1.0"), [([1 + 2j], c64)], [2j], c64),
    "a14 minus left": (of_one(lambda x: 1 - x, "1 - x"), [([1 + 2j], c128)], [-2j], c128),
    "a14 float literal": (of_one(lambda x: x * 2, "x * 2.0f"), [([1 + 2j], c128)], [2 + 4j], c128),
    "a14 double literal": (of_one(lambda x: x * 2.0, "x * 2.0"), [([1 + 2j], c64)], [2 + 4j], c64),
    "a16 a complex scalar": (SCALED, [([1 + 2j], c64), 0], [-2 + 1j], c64, {"alpha": 1j}),
    "a17 floats become complex": (ADD, [([1.0, 2.0], f32), 1j], [1 + 1j, 2 + 1j], c64),
    "a17 beside a scalar": (SCALED, [([1.0, 2.0], f32), 1j], [1 + 1j, 2 + 1j], c64),
    "a17 by a scalar": (SCALED, [([1.0], f64), 0], [1j], c128, {"alpha": 1j}),
    "a19 an integer and a float scalar": (SCALE, [([4], i32)], [2.0], f32, {"alpha": 0.5}),
    "a19 an integer scalar": (SCALE, [([4], i32)], [12], i32, {"alpha": 3}),
    "a20 a concrete parameter": (EXACT, [([0.0], f32), ([16777217], i64)], [1.0], f32),
    "a20 beyond float64": (SUBTRACT, [([2**53 + 1, 2**62 + 1], i64), ([2**53, 2**62], i64)], [1, 1], i64),
    "a24 uint16": (INCREMENT, [([65535], u16)], [0], u16),
    "a24 uint32": (INCREMENT, [([65535], u32)], [65536], u32),
    "a24 uint64": (INCREMENT, [([65535], u64)], [65536], u64),
    "a25 e5m2": (DOUBLED, [([1.5], e5m2)], [3.0], e5m2),
    "a25 e4m3fn is computed in float32": (TWICE_ONE, [([14.0], e4m3)], [16.0], e4m3),
    "a25 e4m3fn saturates": (DOUBLED, [([400.0, -448.0, math.nan], e4m3)], [448.0, -448.0, math.nan], e4m3),
    "a25 e5m2 does not": (DOUBLED, [([57344.0], e5m2)], [math.inf], e5m2),
    "a30": (MULTIPLY, [([1e308], f64), ([1.0], f32)], [1e308], f64),
    "a31": (ADD, [([1.0, 2.0, 3.0], f32), (1e-10, f64)], [1.0, 2.0, 3.0], f32),
    "a33 int": (ADD, [(4, i32), (1.0, f16)], 5.0, f16),
    "a33 float": (ADD, [(4.0, f64), (1.0, f32)], 5.0, f64),
    "a lower category": (ADD, [([1, 2], u8), (300, i64)], [45, 46], u8),
    "int and 0-dim float16": (ADD, [([1, 2], i32), (1.5, f16)], [2.5, 3.5], f16),
    "bfloat16 and 0-dim complex64": (ADD, [([1.0], bf16), (1j, c64)], [1 + 1j], c64),
    "int64 and float16": (ADD, [([1, 2], i64), ([1.5, 0.5], f16)], [2.5, 2.5], f16),
    "bool and int8": (ADD, [([True, False], torch.bool), ([3, 4], i8)], [4, 4], i8),
}  # fmt: skip


@both_kinds
@pytest.mark.parametrize("name", VALUES)
def test_values_and_dtypes(kind, name, device):
    functor, operands, expected, dtype, *scalars = VALUES[name]
    given = [tensor(*x, device) if isinstance(x, tuple) else x for x in operands]
    holds(functor[kind](*given, **dict(*scalars)), expected, dtype)


# ------------------------------------------------------------------------------------- 16-bit and 8-bit


def test_a24_unsigned_with_numbers_and_zero_dim_operands(device):
    add = ADD["python"]
    x = tensor([65535], u16, device)
    holds(add(x, 2), [1], u16)
    holds(add(x, tensor(2, i64, device)), [1], u16)
    holds(add(x, tensor([0.5], f32, device)), [65535.5], f32)
    most = torch.tensor([2**63 + 1], dtype=u64, device=device)
    assert exact(add(most, 1)).tolist() == [2 - 2**63]  # by its bits


@both_kinds
def test_a24_unsigned_with_other_integers_is_refused_as_torch_refuses_it(kind, device):
    x = tensor([1], u16, device)
    for dtype in (i32, u8, torch.bool, c64):
        with pytest.raises(REFUSED[kind], match="uint16"):
            ADD[kind](x, tensor([1], dtype, device))


@both_kinds
def test_a25_float8_with_other_tensors_is_refused(kind, device):
    x = tensor([1.5], e5m2, device)
    for other in (tensor([1.5], e4m3, device), tensor([1.0], f32, device)):
        with pytest.raises(REFUSED[kind], match="float8_e5m2"):
            ADD[kind](x, other)
    holds(ADD[kind](x, tensor(1.0, f32, device)), [2.5], e5m2)
    holds(ADD[kind](x, 1.0), [2.5], e5m2)


@pytest.mark.parametrize(("dtype", "kind"), pairs([f16, bf16, e4m3, e5m2], KINDS), ids=str)
def test_every_small_float_passes_bit_by_bit_or_as_a_nan(kind, dtype, device):
    count = 1 << (8 * dtype.itemsize)
    raw = torch.arange(count).to(u8 if dtype.itemsize == 1 else u16)
    x = raw.view(dtype).to(device)
    result = IDENTITY[kind](x)
    nan = torch.isnan(x.to(f32)).cpu()
    assert torch.equal(torch.isnan(result.to(f32)).cpu(), nan)
    before, after = (bits(t).view(-1, dtype.itemsize)[~nan] for t in (x, result))
    assert torch.equal(before, after)


@pytest.mark.parametrize(("dtype", "kind"), pairs([f16, bf16, e4m3, e5m2], KINDS), ids=str)
def test_stores_of_small_floats_round_as_torch_does(kind, dtype, device):
    generator = torch.Generator().manual_seed(1)
    raw = torch.randint(-(2**31), 2**31, (20000,), generator=generator).to(i32).view(f32)
    near = torch.arange(1 << (8 * dtype.itemsize)).to(u8 if dtype.itemsize == 1 else u16).view(dtype).to(f32)
    ties = (near + near.roll(1)) / 2
    x = torch.cat([raw, near, ties, torch.nextafter(ties, torch.tensor(0.0))])
    if dtype is e4m3:  # torch saturates or not by release; numjit does
        x = x[~(x.abs() > 448)]
    x = x.to(device)
    out = torch.empty(x.shape, dtype=dtype, device=device)
    IDENTITY[kind](x, out=out)
    torch.testing.assert_close(exact(out), exact(x.to(dtype)), rtol=0, atol=0, equal_nan=True)


# -------------------------------------------------------------------------------------------- integers


FLOOR_DIVIDE = numjit.elementwise(lambda x, y: x // y)
REMAINDER = numjit.elementwise(lambda x, y: x % y)


@pytest.mark.parametrize("dtype", [i32, i64], ids=str)
def test_a23_integer_division_by_zero_is_zero(dtype, device):
    x, zero = tensor([5], dtype, device), tensor([0], dtype, device)
    holds(FLOOR_DIVIDE(x, zero), [0], dtype)
    holds(REMAINDER(x, zero), [0], dtype)


@pytest.mark.parametrize("dtype", [i8, i32, i64, u8, f32], ids=str)
def test_floor_division_and_remainder_floor_as_in_torch(dtype, device):
    values = torch.tensor([-7, -6, -1, 0, 1, 5, 7, 100])
    x, y = torch.meshgrid(values.to(dtype).to(device), values.to(dtype).to(device), indexing="ij")
    usable = y != 0
    x, y = x[usable], y[usable]
    same(FLOOR_DIVIDE(x, y), x // y)
    same(REMAINDER(x, y), x % y)


@pytest.mark.parametrize("dtype", [i32, i64], ids=str)
def test_smallest_integer_divided_by_minus_one_wraps(dtype, device):
    least = torch.iinfo(dtype).min
    x, y = tensor([least], dtype, device), tensor([-1], dtype, device)
    assert FLOOR_DIVIDE(x, y).tolist() == [least]
    assert REMAINDER(x, y).tolist() == [0]


@pytest.mark.parametrize(("name", "dtype"), pairs(MAGNITUDES, [i16, i8, i32, i64]), ids=str)
def test_a_magnitude_wraps_wherever_it_is_used(name, dtype, device):
    # CUDA's assembler leaves -(-32768) at 32768 in what compares or widens it.
    magnitude = MAGNITUDES[name]
    info = torch.iinfo(dtype)
    around = torch.arange(-(2**15), 2**15).clamp(max(info.min, -(2**15)), min(info.max, 2**15))
    ends = torch.tensor([info.min, info.min + 1, info.max])
    x = torch.cat([around, ends]).to(dtype).to(device)

    def used(x):
        return magnitude(x), x < magnitude(x), magnitude(x) < 0, magnitude(x) * 0.5, int(magnitude(x)) // 2

    for found, expected in zip(numjit.elementwise(used)(x), _of_torch(x), strict=True):
        same(found, expected)


def test_the_smallest_integer_arrives_from_a_negated_view(device):
    x = torch._neg_view(torch.tensor([-(2**15), 5], dtype=i16, device=device))
    below = numjit.elementwise(lambda x: x < 0)
    assert below(x).tolist() == [True, True]
    assert below(x).tolist() == [True, True]


@pytest.mark.parametrize(("dtype", "is_compiled"), pairs([i64, i8, i16, i32], [False, True]), ids=str)
def test_common_divisors_of_the_smallest_integer_are_positive(dtype, is_compiled, device):
    least = torch.iinfo(dtype).min
    operation = numjit.elementwise(lambda x, y: (nm.gcd(x, y), math.gcd(x, y)))
    if is_compiled:
        torch._dynamo.reset()
        operation = torch.compile(operation, fullgraph=True, backend="aot_eager")
    x, y = tensor([least, least, 6, least], dtype, device), tensor([-5, 3, least, least], dtype, device)
    for _ in range(2):
        for found in operation(x, y):
            assert found.tolist() == [1, 1, 2, least]


def _of_torch(x):
    size = torch.where(x < 0, -x, x)
    return size, x < size, size < 0, size * 0.5, size.long() // 2


def _smaller(x, y):
    return min(y, x)


@both_kinds
def test_a27_every_pair_of_int8(kind, device):
    smaller = pair(_smaller, "template <typename T> T smaller(T x, T y) { return x < y ? x : y; }")[kind]
    values = torch.arange(-128, 128)
    x, y = torch.meshgrid(values.to(i8).to(device), values.to(i8).to(device), indexing="ij")
    same(ADD[kind](x, y), x + y)
    same(MULTIPLY[kind](x, y), x * y)
    same(smaller(x, y), torch.minimum(x, y))


# --------------------------------------------------------------------------------------------- complex


@both_kinds
def test_ordering_complex_values_is_an_error(kind, device):
    x = tensor([1 + 2j], c64, device)
    with pytest.raises(CompilationError):
        LESS[kind](x, x)
    holds(LESS[kind](x.real, x.imag), [1], torch.bool)


@both_kinds
def test_complex32_computes_in_complex64(kind, device):
    x = torch.tensor([[2048.0, 300.0]], dtype=f16, device=device)
    x = torch.view_as_complex(x)
    result = TWICE_ONE[kind](x)
    assert result.dtype == c32
    assert torch.view_as_real(result).tolist() == [[2050.0, 300.0]]


# ------------------------------------------------------------------------------------ stores, promotion


def _truth(x) -> numjit.bool_:
    return x


# torch's can_cast refuses a float result into a bool ``out=``, so the functor's result is declared bool.
TRUTH = pair(_truth, "template <typename T> bool truth(T x) { return x; }")


@both_kinds
def test_a29_floats_to_bool(kind, device):
    out = torch.zeros(3, dtype=torch.bool, device=device)
    assert TRUTH[kind](tensor([math.nan, 0.0, 0.1], f32, device), out=out) is out
    assert out.tolist() == [True, False, True]
    holds(TRUTH[kind](tensor([math.nan, 0.0, -0.0, 1e-45], f32, device)), [1, 0, 0, 1], torch.bool)


@both_kinds
def test_conversions_to_a_concrete_parameter_are_those_of_torch(kind, device):
    def whole(x: numjit.uint8) -> numjit.uint8:
        return x

    functor = pair(whole, "unsigned char whole(unsigned char x) { return x; }")[kind]
    x = tensor([-3.7, 3.7, 255.0, 0.0], f32, device)
    assert functor(x).tolist() == [253, 3, 255, 0]
    same(functor(x), x.to(u8))


@both_kinds
@pytest.mark.parametrize(
    ("source", "target"),
    [(i64, u8), (i64, i8), (f64, f32), (f64, f16), (f32, bf16), (c128, c64), (i64, f16), (i64, f32),
     (torch.bool, f32), (i32, c64)],
    ids=lambda d: str(d).removeprefix("torch."),
)  # fmt: skip
def test_stores_into_out_convert_as_torch(kind, source, target, device):
    values = torch.tensor([0, 1, -1, 3, 127, 128, 255, 256, -300, 2049, 16777217, 2**40 + 1])
    x = values.to(source).to(device)
    out = torch.zeros(x.shape, dtype=target, device=device)
    IDENTITY[kind](x, out=out)
    assert torch.equal(bits(out), bits(x.to(target)))


@both_kinds
def test_float16_with_zero_dim_complex128_is_complex32(kind, device):
    x, y = tensor([1.0], f16, device), tensor(2 + 1j, c128, device)
    result = ADD[kind](x, y)
    assert result.dtype == c32
    assert torch.view_as_real(result).tolist() == [[3.0, 1.0]]


@both_kinds
@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        pytest.param(f32, 2.5, f32, id="a34-float"),
        pytest.param(f32, 2, f32, id="a34-int"),
        pytest.param(f32, True, f32, id="a34-bool"),
        pytest.param(f32, 1j, c64, id="a34-complex"),
        pytest.param(i64, 2.5, f32, id="a35"),
        pytest.param(torch.bool, 2, i64, id="bool-int"),
        pytest.param(f64, 1j, c128, id="double-complex"),
        pytest.param(f16, 70000.0, f16, id="half-float"),
        pytest.param(u8, -1, u8, id="uint8-int"),
    ],
)
def test_a34_a35_numbers_as_operands(kind, dtype, number, expected, device):
    x = tensor([1, 0, 1], dtype, device)
    result = ADD[kind](x, number)
    assert result.dtype == expected
    same(result, x + number)
    same(ADD[kind](number, x), number + x)


@both_kinds
def test_numpy_scalars_count_as_numbers_of_their_kind(kind, device):
    x = tensor([1, 2], f32, device)
    for number in (np.float64(2.5), np.float32(2.5), np.int64(3), np.int8(3), np.bool_(True)):
        result = ADD[kind](x, number)
        assert result.dtype == f32
        same(result, x + number.item())
    assert ADD[kind](x, np.complex128(1j)).dtype == c64
    assert ADD[kind](tensor([1], i8, device), np.int64(1)).dtype == i8


@both_kinds
@pytest.mark.parametrize("default", [numjit.float64, numjit.float16, numjit.bfloat16], ids=str)
def test_the_default_dtype_is_part_of_every_key(kind, default, device):
    x = tensor([1, 2], i32, device)
    before = ADD[kind](x, 0.5)
    with oracle.default_dtype(default):
        same(ADD[kind](x, 0.5), x + 0.5)
    same(ADD[kind](x, 0.5), before)


# One operand has dimensions and lies on the meta device, so that nothing but the dtype is computed.
ARRAYS = argument_types().filter(lambda kind: kind.category is Category.DIM)


def _outcome(functor, kinds):
    values = [oracle.argument(kind) for kind in kinds]
    values = [v.to("meta") if isinstance(v, torch.Tensor) and v.ndim else v for v in values]
    try:
        return oracle.outcome(functor, *values)
    except CompilationError as error:
        if "no common dtype" not in str(error):
            raise
        return oracle.REFUSED


@settings(max_examples=300)
@given(st.tuples(argument_types(), ARRAYS).flatmap(st.permutations))
def test_cpp_results_have_torchs_common_dtype(kinds):
    expected = oracle.outcome(torch.result_type, *(oracle.argument(kind) for kind in kinds))
    assert _outcome(ADD["c++"], kinds) == expected


@settings(max_examples=40)
@given(st.tuples(argument_types(), ARRAYS).flatmap(st.permutations))
def test_python_results_have_torchs_dtype(kinds):
    expected = oracle.outcome(torch.result_type, *(oracle.argument(kind) for kind in kinds))
    assert _outcome(ADD["python"], kinds) == expected


# ---------------------------------------------------------------------------------- per-argument dtypes


@both_kinds
@pytest.mark.parametrize(("left", "right"), [(f32, f32), (f16, f32), (c64, f32), (i64, i64)], ids=str)
def test_a36_a_bool_condition_stays_out_of_the_promotion(kind, left, right, device):
    mask = tensor([True, False, True], torch.bool, device)
    a, b = tensor([1, 2, 3], left, device), tensor([4, 5, 6], right, device)
    same(CHOOSE[kind](mask, a, b), torch.where(mask, a, b))


@both_kinds
def test_a36_any_non_zero_byte_is_true(kind, device):
    mask = torch.tensor([0, 1, 2, 128, 255], dtype=u8, device=device).view(torch.bool)
    ones, zeros = torch.ones(5, device=device), torch.zeros(5, device=device)
    assert CHOOSE[kind](mask, ones, zeros).tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]
    assert bits(IDENTITY[kind](mask)).clamp(max=1).tolist() == [0, 1, 1, 1, 1]
    wide = torch.zeros(5, dtype=f32, device=device)
    assert ADD[kind](mask, wide).tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]


def _to_pair(x: numjit.int32, y: numjit.float32) -> (numjit.int64, numjit.float64):
    return x, y


@both_kinds
def test_a37_results_of_other_dtypes(kind, device):
    x, y = tensor([1.0, 2.0, math.nan], f32, device), tensor([2.0, 1.0, 1.0], f32, device)
    same(LESS[kind](x, y), x < y)
    widen = pair(_to_pair, "void widen(int x, float y, long long& a, double& b) { a = x; b = y; }")[kind]
    whole, real = widen(tensor([-5], i32, device), tensor([0.1], f32, device))
    holds(whole, [-5], i64)
    assert real.dtype == f64
    assert real.item() == torch.tensor(0.1, dtype=f32).to(f64).item()


def _apart(x: T, y: U) -> (T, U):
    return x, y


@both_kinds
def test_two_template_parameters_promote_apart(kind, device):
    functor = pair(
        _apart, "template <typename T, typename U> void apart(T x, U y, T& a, U& b) { a = x; b = y; }"
    )[kind]
    a, b = functor(tensor([7], i8, device), tensor([0.5], f64, device))
    holds(a, [7], i8)
    holds(b, [0.5], f64)


def test_type_variables_share_one_dtype_and_results_may_be_bool(device):
    @numjit.elementwise
    def less(x: T, y: T) -> (numjit.bool_, T):
        return x < y, y

    flag, value = less(tensor([1], u8, device), tensor([2.5], f16, device))
    holds(flag, [1], torch.bool)
    holds(value, [2.5], f16)


def test_torch_and_numpy_dtypes_annotate_too(device):
    @numjit.elementwise
    def widen(x: torch.float32, y: np.int64) -> torch.float64:
        return x + y

    holds(widen(tensor([1.5], f16, device), tensor([2], i8, device)), [3.5], f64)


@pytest.mark.parametrize("builtin", [int, float, bool, complex])
def test_a_builtin_on_an_operand_is_an_error(builtin):
    def functor(x):
        return x

    functor.__annotations__["x"] = builtin
    with pytest.raises(numjit.NumjitError, match=builtin.__name__):
        numjit.elementwise(functor)


# ------------------------------------------------------------------ Python functors: torch's own operators

BODIES = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / y,
    "lt": lambda x, y: x < y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(("left", "right"), [(i32, u8), (f32, i64), (f16, f16)], ids=str)
def test_a_python_functor_answers_what_torch_answers(name, left, right, device):
    if name in ("and", "or", "xor") and (left.is_floating_point or right.is_floating_point):
        pytest.skip("torch has no bitwise operations of floats")
    values = torch.tensor([0, 1, 2, 3, 5, 7, 100, 127])
    x, y = torch.meshgrid(values.to(device), values.to(device), indexing="ij")
    x, y = x.to(left), y.to(right)
    same(numjit.elementwise(BODIES[name])(x, y), BODIES[name](x, y))


CHAINS = {
    "weak-numbers": lambda x, y: x * 2 + 1 - y,
    "compare-then-add": lambda x, y: (x < y) + x,
    "int-division": lambda x, y: x / 2 + y,
    "zero-dim-inside": lambda x, y: (x + 1) * (y + 2),
    "negate": lambda x, y: -x + y,
    "number-left": lambda x, y: 1 - x * y,
}


@pytest.mark.parametrize(("name", "case"), pairs(CHAINS, [(i32, f16), (u8, i64), (f32, f64)]), ids=str)
def test_promotion_goes_operation_by_operation(name, case, device):
    x = torch.tensor([1, 2, 3]).to(case[0]).to(device)
    y = torch.tensor(2).to(case[1]).to(device)  # 0-dim: its category stays weaker inside
    body = CHAINS[name]
    same(numjit.elementwise(body)(x, y), body(x, y))


def test_functions_of_math_on_integers_give_the_default_float(device):
    x = tensor([0, 1, 2], i64, device)
    result = numjit.elementwise(lambda x: math.exp(x))(x)
    assert result.dtype == f32
    torch.testing.assert_close(result, torch.exp(x))
    half = numjit.elementwise(lambda x: math.sqrt(x))(tensor([2.0], f16, device))
    same(half, torch.sqrt(tensor([2.0], f16, device)))


@pytest.mark.parametrize("dtype", [f32, f64, f16], ids=str)
def test_min_and_max_propagate_nan_as_torchs(dtype, device):
    values = torch.tensor([-1.0, 0.0, 2.0, math.inf, -math.inf, math.nan])
    x, y = torch.meshgrid(values.to(dtype).to(device), values.to(dtype).to(device), indexing="ij")
    same(numjit.elementwise(lambda x, y: min(x, y))(x, y), torch.minimum(x, y))
    same(numjit.elementwise(lambda x, y: max(x, y))(x, y), torch.maximum(x, y))


def _helper(x, k):
    return x * k + 1


@numjit.elementwise
def _inner(x, y):
    return x - y


def test_helpers_are_compiled_in_and_functors_call_functors(device):
    @numjit.elementwise
    def outer(x, y):
        return _inner(_helper(x, 3), y)

    x, y = tensor([1, 2], i32, device), tensor([0.5, 0.25], f32, device)
    same(outer(x, y), _helper(x, 3) - y)


@both_kinds
def test_several_outputs_are_a_tuple(kind, device):
    x, y = tensor([1, 2], i8, device), tensor([3, 0.5], f32, device)
    result = SUM_AND_DIFFERENCE[kind](x, y)
    assert isinstance(result, tuple)
    same(result[0], x + y)
    same(result[1], x - y)


# ------------------------------------------------------------------------------------------- bit-exactness


@pytest.mark.parametrize(("dtype", "kind"), pairs([f32, f64, c64, c128, i64, u32], KINDS), ids=str)
def test_identity_is_exact_to_the_bit(kind, dtype, device):
    generator = torch.Generator().manual_seed(5)
    raw = torch.randint(-(2**63), 2**63 - 1, (64,), generator=generator)
    wide = raw.view(dtype).to(device)
    assert torch.equal(bits(IDENTITY[kind](wide)), bits(wide))


@both_kinds
def test_identity_keeps_nan_payloads_and_negative_zero(kind, device):
    single = torch.tensor([0x7FC12345, -0x003EDCBB, 0x7F800001, -(2**31)], dtype=i32).view(f32).to(device)
    double = torch.tensor([0x7FF8000000012345, 0x7FF0000000000001, -(2**63)], dtype=i64).view(f64).to(device)
    for x in (single, double):
        assert torch.equal(bits(IDENTITY[kind](x)), bits(x))


@settings(max_examples=60)
@given(x=st.integers(-(2**31), 2**31 - 1), y=st.integers(-(2**31), 2**31 - 1))
@example(x=-(2**31), y=-1)
@example(x=7, y=0)
def test_floor_division_is_pythons(x, y):
    a, b = torch.tensor([x], dtype=i32), torch.tensor([y], dtype=i32)
    if y == 0:
        expected = 0, 0
    elif (x, y) == (-(2**31), -1):
        expected = x, 0
    else:
        expected = x // y, x % y
    assert (FLOOR_DIVIDE(a, b).item(), REMAINDER(a, b).item()) == expected


@pytest.mark.parametrize(
    ("dtypes", "kind"), pairs([(f32, f32), (i32, i64), (f16, bf16), (c64, f64), (u8, i8)], KINDS), ids=str
)
def test_sums_and_products_match_torch_over_odd_values(kind, dtypes, device):
    # On inf and nan torch's own complex sums depend on the length: it multiplies by a complex alpha.
    special = not any(dtype.is_complex for dtype in dtypes)
    x, y = (
        fill(torch.empty(1500, dtype=dtype), 11 + k, special=special).to(device)
        for k, dtype in enumerate(dtypes)
    )
    same(ADD[kind](x, y), x + y)
    same(MULTIPLY[kind](x, y), x * y)


@pytest.mark.parametrize(
    "dtype", [torch.float8_e5m2, torch.float8_e4m3fn, f16, torch.bfloat16, f32, torch.float64], ids=str
)
def test_a_number_s_own_sign_stays(dtype, device):
    """Of PTX's copysign of a number and itself CUDA's assembler lost the sign of every fourth 8-bit float."""
    own = numjit.elementwise(lambda x, y: math.copysign(y, y))
    other = numjit.elementwise(lambda x, y: math.copysign(x, y))
    x = torch.tensor([-2.0, 4.0, 1.75, -3.0, 3.5, -2.0, 1.0, -0.5, 2.0]).to(dtype).to(device)[::2]
    for number in (-0.1875, 0.1875, -0.0, math.inf, -math.inf):
        y = torch.tensor(number).to(dtype).to(device)
        if y.double().isnan():
            continue  # float8_e4m3fn has no infinity.
        for _ in range(2):
            assert own(x, y).double().tolist() == [y.double().item()] * 5
            wanted = torch.copysign(x.double(), y.double())
            assert torch.equal(other(x, y).double(), wanted)
            assert torch.equal(
                own(x, y).double().signbit(), torch.full((5,), y.double().signbit().item()).to(device)
            )
