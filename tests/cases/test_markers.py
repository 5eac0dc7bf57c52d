"""Functors that use their index, index operands themselves, or have no operands at all."""

import math
import typing

import numpy as np
import pytest
import torch

import numjit
from numjit.errors import (
    ArgumentError,
    CompilationError,
    DeviceError,
    FunctorError,
    OutputError,
    OverlapError,
)
from tests.cases import KINDS, both_kinds, exact, pair, same
from tests.support.tiers import pairs

NUMBERED = pair(
    lambda x: x + numjit.index(),
    "template <typename T> T numbered(T x, numjit::index i) { return x + T(i); }",
)


def _arange(*, start=0, step=1):
    return numjit.index() * step + start


ARANGE = pair(
    _arange,
    "template <typename T> T arange(T start, numjit::index number, T step) { return number * step + start; }",
    start=0,
    step=1,
)


def _gather(table: numjit.raw, k):
    return table[k]


GATHER = pair(
    _gather,
    "template <typename T, typename I> T gather(numjit::raw<T> table, I k) { return table[k]; }",
)


def numbers(shape, device, dtype=torch.int64):
    return torch.arange(math.prod(shape), device=device).reshape(shape).to(dtype)


# ------------------------------------------------------------------------------------------- the index


@both_kinds
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((), ()),
        ((1,), (0,)),
        ((1000,), (0,)),
        ((5, 33), (0, 1)),
        ((5, 33), (1, 0)),
        ((4, 6, 16), (2, 0, 1)),
        ((64, 80), (1, 0)),
        ((2, 3, 4, 5), (1, 3, 0, 2)),
        ((1, 7, 1, 9), (3, 2, 1, 0)),
    ],
)
def test_the_index_counts_in_c_order_whatever_the_strides(kind, shape, order, device):
    stored = torch.randint(0, 100, [shape[d] for d in order], device=device)
    x = stored.permute([order.index(d) for d in range(len(order))])
    result = NUMBERED[kind](x)
    assert result.stride() == (-x).stride()
    assert torch.equal(result, x + numbers(shape, device))


@both_kinds
def test_the_index_over_slices_flips_and_broadcast_operands(kind, device):
    x = torch.randint(0, 100, (40, 60), device=device)[::2, 1::3]
    same(NUMBERED[kind](x), x + numbers(x.shape, device))
    row = torch.randint(0, 100, (1, 50), device=device).expand(30, 50)
    assert torch.equal(NUMBERED[kind](row), row + numbers(row.shape, device))
    array = np.arange(60.0).reshape(6, 10)[::-1, ::-1]
    if device == "cpu":
        assert np.array_equal(NUMBERED[kind](array), array + np.arange(60).reshape(6, 10))


@both_kinds
@pytest.mark.parametrize("count", [127, 128, 129, 1023, 4096, 4097, 100_003])
def test_the_index_at_the_edges_of_blocks_and_chunks(kind, count, device):
    x = torch.zeros(count, dtype=torch.int32, device=device)
    assert torch.equal(NUMBERED[kind](x), torch.arange(count, dtype=torch.int32, device=device))


@both_kinds
def test_the_index_is_an_int_that_gives_way_to_dtypes(kind, device):
    x = torch.ones(300, device=device)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.complex64):
        expected = x.to(torch.complex128) + torch.arange(300, device=device)
        result = NUMBERED[kind](x.to(dtype))
        assert result.dtype == dtype
        if dtype is torch.uint8:
            expected = (exact(x).long() + torch.arange(300)).to(torch.uint8)
            assert torch.equal(result.cpu(), expected)
        else:
            assert torch.equal(exact(result), exact(expected.real.to(dtype)))


@both_kinds
def test_the_index_with_out_and_in_place(kind, device):
    x = torch.randint(0, 100, (6, 7), device=device)
    before = x.clone()
    out = torch.empty(7, 6, dtype=torch.int64, device=device).t()
    assert NUMBERED[kind](x, out=out) is out
    assert torch.equal(out, before + numbers(x.shape, device))
    NUMBERED[kind](x, out=x)
    assert torch.equal(x, out)


def test_the_index_reaches_inner_functions_loops_and_branches(device):
    from numjit import index

    def functor(x):
        def inner(y):
            return y + index()

        total = 0
        for _ in range(3):
            total += index()
        if index() % 2 == 0:
            return x + total
        return x + inner(index())

    x = torch.zeros(50, dtype=torch.int64, device=device)
    i = torch.arange(50, device=device)
    assert torch.equal(numjit.elementwise(functor)(x), torch.where(i % 2 == 0, 3 * i, 2 * i))


def _shifted(x, number):
    return x + 2 * number


def test_a_helper_is_handed_the_index(device):
    f = numjit.elementwise(lambda x: _shifted(x, numjit.index()))
    x = torch.zeros(9, dtype=torch.int64, device=device)
    assert torch.equal(f(x), 2 * torch.arange(9, device=device))


def _calls_index():
    return numjit.index()


def test_the_index_in_a_helper_is_an_error():
    with pytest.raises(CompilationError, match="body only; call it there, pass the number on"):
        numjit.elementwise(lambda x: x + _calls_index())(torch.ones(3))


def test_the_index_outside_of_a_functor_is_an_error():
    with pytest.raises(FunctorError, match="the element that a functor is computing"):
        numjit.index()


def test_rebinding_a_name_to_the_index_is_seen(device):
    scope = {"source": lambda: 7}
    exec("def functor(x): return x + source()", scope)
    f = numjit.elementwise(scope["functor"])
    x = torch.zeros(3, dtype=torch.int64, device=device)
    assert f(x).tolist() == [7, 7, 7]
    scope["source"] = numjit.index
    assert f(x).tolist() == [0, 1, 2]


def test_cpp_index_by_const_reference_and_as_auto(device):
    f = numjit.elementwise("auto f(const numjit::index& i, float x) { return x * i; }")
    assert f(torch.full((4,), 2.0, device=device)).tolist() == [0.0, 2.0, 4.0, 6.0]


def test_cpp_index_can_be_no_scalar_or_result():
    with pytest.raises(FunctorError, match="can be no scalar"):
        numjit.elementwise("float f(float x, numjit::index i) { return x; }", i=1)
    with pytest.raises(FunctorError, match="cannot be a result"):
        numjit.elementwise("float f(float x, numjit::index& i) { return x; }")
    with pytest.raises(FunctorError, match="no type of numjit's"):
        numjit.elementwise("float f(float x, numjit::number i) { return x; }")


# ------------------------------------------------------------------------------------------- raw operands

STORED = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind"), pairs(STORED, KINDS), ids=str)
def test_gather_keeps_the_tables_dtype(kind, dtype, device):
    table = (torch.randn(5, 8, device=device) * 10).to(dtype)
    k = torch.randint(0, 40, (7, 11), device=device)
    result = GATHER[kind](table, k.t())
    assert result.dtype == dtype
    assert result.stride() == k.t().stride()
    assert torch.equal(exact(result), exact(table).flatten()[k.t().cpu()])


@both_kinds
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64], ids=str)
def test_any_integer_indexes(kind, dtype, device):
    table = torch.randn(100, device=device)
    k = torch.randint(0, 100, (257,), device=device)
    assert torch.equal(GATHER[kind](table, k.to(dtype)), table[k])


@both_kinds
def test_a_raw_operand_has_no_part_in_broadcasting(kind, device):
    table = torch.randn(3, 5, 7, device=device)
    result = GATHER[kind](table, torch.tensor([[104, 0]], device=device))
    assert torch.equal(result, table.flatten()[torch.tensor([[104, 0]], device=device)])
    assert GATHER[kind](table, torch.tensor(4, device=device)).shape == ()


@both_kinds
def test_its_address_and_size_are_no_part_of_what_is_compiled(kind, device):
    f = GATHER[kind]
    k = torch.zeros(3, dtype=torch.int64, device=device)
    f(torch.ones(10, device=device), k)
    plans = len(f.__numjit_operation__.planner.plans)
    for size in (1, 2, 1000):
        assert f(torch.full((size, 2), float(size), device=device)[size // 2 :], k).tolist() == [size] * 3
    assert len(f.__numjit_operation__.planner.plans) == plans


def _sized(table: numjit.raw):
    return len(table) + numjit.index()


def test_size_and_a_result_that_only_raw_operands_make(device):
    cpp = numjit.elementwise(
        "template <class T> long long f(numjit::raw<T> table, numjit::index i) { return table.size() + i; }"
    )
    for f in (numjit.elementwise(_sized), cpp):
        table = torch.ones(3, 4, device=device)
        result = f(table, shape=5)
        assert result.device == table.device
        assert result.tolist() == [12, 13, 14, 15, 16]
        assert f(torch.ones(0, 4, device=device), shape=(1, 2)).tolist() == [[0, 1]]
        with pytest.raises(ArgumentError, match="say shape="):
            f(table)
        with pytest.raises(DeviceError, match="move them to one device"):
            f(table, shape=2, device="meta")


T = typing.TypeVar("T")


def _scaled(x: T, table: numjit.raw(T), plain: numjit.raw, single: numjit.raw(numjit.float32)) -> T:
    return x * table[0] + 0 * int(plain[0]) + 0 * int(single[0])


SCALED = pair(
    _scaled,
    """template <typename T, typename U>
    T scaled(T x, numjit::raw<T> table, numjit::raw<U> plain, const numjit::raw<float>& single) {
        return x * table[0] + T(0 * int(plain[0])) + T(0 * int(single[0]));
    }""",
)


@both_kinds
def test_only_a_shared_type_takes_part_in_promotion(kind, device):
    x = torch.tensor([1.5, 2.0], dtype=torch.float16, device=device)
    wide = torch.tensor([3.0], dtype=torch.float64, device=device)
    narrow = torch.tensor([3.0], dtype=torch.float16, device=device)
    assert SCALED[kind](x, narrow, wide, wide).dtype == torch.float16
    result = SCALED[kind](x, wide, wide, wide)
    assert result.dtype == torch.float64
    assert result.tolist() == [4.5, 6.0]


def _halved(x: numjit.float16, table: numjit.raw(numjit.float16)) -> numjit.float32:
    return table[int(x)]


def test_elements_are_converted_as_torch_does(device):
    table = torch.tensor([1e-9, 70000.0, 1.0001, float("nan")], dtype=torch.float64, device=device)
    k = torch.arange(4.0, device=device)
    expected = table.half().float()
    assert torch.equal(numjit.elementwise(_halved)(k, table).isnan(), expected.isnan())
    assert torch.equal(numjit.elementwise(_halved)(k, table)[:3], expected[:3])
    whole = numjit.elementwise(
        "template <class I> unsigned char f(numjit::raw<unsigned char> t, I i) { return t[i]; }"
    )
    values = torch.tensor([-3.7, 5.9, 255.0], device=device)
    assert whole(values, torch.arange(3, device=device)).tolist() == [253, 5, 255]
    shared = numjit.elementwise("template <class T> T f(T x, numjit::raw<T> t) { return t[0] + x * 0; }")
    big = torch.tensor([2049], dtype=torch.int64, device=device)  # rounds to 2048 as float16
    assert shared(torch.zeros(1, dtype=torch.float16, device=device), big).tolist() == [2048.0]


def test_negative_indices_count_from_the_end_in_python(device):
    table = torch.arange(10.0, device=device)
    k = torch.tensor([-1, -10, 3, -4], device=device)
    assert GATHER["python"](table, k).tolist() == table[k].tolist()


def _interpolate(table, x):
    i = min(int(x), len(table) - 2)
    low, high = table[i], table[i + 1]
    return low + (x - i) * (high - low)


def _looked_up(x, table: numjit.raw):
    return _interpolate(table, x)


@numjit.elementwise
def _half_table(table: numjit.raw, i):
    return table[i] / 2


def _through_a_functor(x, table: numjit.raw):
    return _half_table(table, int(x))


def test_helpers_and_decorated_functors_take_raw_operands(device):
    table = torch.tensor([0.0, 1.0, 4.0, 9.0], device=device)
    x = torch.rand(500, device=device) * 3
    expected = np.interp(x.cpu().numpy(), [0, 1, 2, 3], table.cpu().numpy())
    result = numjit.elementwise(_looked_up)(x, table)
    torch.testing.assert_close(result.cpu(), torch.from_numpy(expected).float())
    whole = torch.tensor([0.0, 3.0], device=device)
    assert numjit.elementwise(_through_a_functor)(whole, table).tolist() == [0.0, 4.5]


def test_index_and_raw_together_make_a_stencil(device):
    cpp = numjit.elementwise("""
        template <typename T>
        T blur(T x, numjit::raw<T> all, numjit::index i) {
            return i == 0 || i + 1 == all.size() ? x : (all[i - 1] + x + all[i + 1]) / T(3);
        }
    """)
    x = torch.randn(10_001, dtype=torch.float64, device=device)
    expected = x.clone()
    expected[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    torch.testing.assert_close(cpp(x, x), expected)


@both_kinds
def test_what_cannot_be_raw(kind, device):
    f = GATHER[kind]
    k = torch.tensor([0, 1], device=device)
    table = torch.randn(3, 4, dtype=torch.complex64, device=device)
    with pytest.raises(ArgumentError, match=r"not contiguous.*pass \.contiguous\(\)"):
        f(table.t(), k)
    with pytest.raises(ArgumentError, match=r"conj bit set.*resolve_conj\(\)"):
        f(table.conj(), k)
    with pytest.raises(ArgumentError, match=r"neg bit set.*resolve_neg\(\)"):
        f(torch._neg_view(table.real.contiguous()), k)
    for value in (3, None, [1, 2]):
        with pytest.raises(ArgumentError, match=r"raw operand 'table' is .*; pass (an array|np\.asarray)"):
            f(value, k)
    assert torch.equal(f(table[:, :1].contiguous().expand(3, 1), k), table[:2, 0])


@both_kinds
def test_out_may_not_share_memory_with_a_raw_operand(kind, device):
    table = torch.arange(10, device=device)
    k = torch.arange(10, device=device).flip(0)
    with pytest.raises(OverlapError, match="shares memory with raw operand 'table'"):
        GATHER[kind](table, k, out=table)
    buffer = torch.arange(20, device=device)
    with pytest.raises(OverlapError, match="raw operand"):
        GATHER[kind](buffer[:11], k, out=buffer[10:])
    assert GATHER[kind](buffer[:10], k, out=buffer[10:]).tolist() == list(range(9, -1, -1))


def test_python_raw_operands_are_indexed_by_one_integer_only(device):
    table = torch.ones(3, device=device)
    cases = [
        (lambda t, x: t[x], "not by float32"),
        (lambda t, x: t[x > 0], "not by bool"),
        (lambda t, x: t + x, "raw operand of float32"),
        (lambda t, x: t, "returns a value of type raw operand of float32"),
    ]
    for function, message in cases:
        function.__annotations__["t"] = numjit.raw
        with pytest.raises(CompilationError, match=message):
            numjit.elementwise(function)(table, table)


def test_python_raw_operands_are_positional_without_default():
    def keyword(x, *, t: numjit.raw):
        return t[0] + x

    def default(x, t: numjit.raw = 3):
        return t[0] + x

    for function, reason in ((keyword, "keyword-only"), (default, "has a default")):
        with pytest.raises(FunctorError, match=reason):
            numjit.elementwise(function)


def test_cpp_raw_types_that_do_not_exist():
    for text, message in (
        ("float f(numjit::raw<char*> t) { return 0; }", "is no type of one element"),
        ("float f(numjit::raw<numjit::index> t) { return 0; }", "numjit::raw takes"),
        ("template <class T> numjit::raw<T> f(numjit::raw<T> t) { return t; }", "return an element"),
        ("template <class T> T f(T x, numjit::raw<T>& t) { return x; }", "cannot be a result"),
    ):
        with pytest.raises(FunctorError, match=message):
            numjit.elementwise(text)
    with pytest.raises(FunctorError, match="can be no scalar"):
        numjit.elementwise("template <class T> T f(T x, numjit::raw<T> t) { return x; }", t=1)


def test_a_raw_operand_that_requires_grad_is_not_silently_detached(device):
    table = torch.ones(3, device=device, requires_grad=True)
    result = GATHER["python"](table, torch.tensor([1], device=device))
    assert result.requires_grad


# ------------------------------------------------------------------------------------------- nullary


@both_kinds
def test_arange(kind, device):
    f = ARANGE[kind]
    same(f(shape=5, device=device), torch.arange(5, device=device))
    same(f(shape=(2, 3), device=device), torch.arange(6, device=device).reshape(2, 3))
    same(f(shape=4, start=1.5, device=device), torch.arange(1.5, 5, device=device))
    same(f(shape=4, step=-2, start=7, device=device), torch.arange(7, 0, -2, device=device))
    same(f(shape=(), device=device, start=3), torch.tensor(3, device=device))
    assert f(shape=2).device.type == "cpu"


@both_kinds
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int16, torch.complex128, torch.bool]
)
def test_dtype_overrides_what_is_stored(kind, dtype, device):
    result = ARANGE[kind](shape=6, dtype=dtype, device=device)
    same(result, torch.arange(6, device=device).to(dtype))


@both_kinds
def test_a_wide_dtype_is_also_computed_in(kind, device):
    expected = torch.arange(1000, dtype=torch.float64, device=device) * 0.1 + 1e9
    for keywords in ({"dtype": torch.float64, "shape": 1000, "device": device}, {"like": expected}):
        same(ARANGE[kind](step=0.1, start=1e9, **keywords), expected)
    out = torch.empty(1000, dtype=torch.float64, device=device)
    same(ARANGE[kind](step=0.1, start=1e9, out=out), expected)


@both_kinds
def test_nullary_with_like_and_out(kind, device):
    f = ARANGE[kind]
    like = torch.empty(3, 4, dtype=torch.float16, device=device).t()
    same(f(like=like), torch.arange(12, device=device).reshape(4, 3).half(), strides=False)
    same(f(like=like, dtype=torch.int32, shape=2), torch.arange(2, dtype=torch.int32, device=device))
    out = torch.full((4, 3), -1, device=device)
    assert f(out=out.t()[:, 1:3]).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert out[0].tolist() == [-1, -1, -1]
    assert f(out=out) is out
    assert torch.equal(out, torch.arange(12, device=device).reshape(4, 3))
    with pytest.raises(OutputError, match="cannot be cast"):
        f(out=out, step=0.5)
    with pytest.raises(OutputError, match="shape"):
        f(out=out, shape=3)


@both_kinds
@pytest.mark.parametrize("shape", [0, (0,), (3, 0), (0, 5, 2)])
def test_nullary_without_elements(kind, shape, device):
    result = ARANGE[kind](shape=shape, device=device, step=0.5)
    assert result.shape == (torch.Size((shape,)) if shape == 0 else torch.Size(shape))
    assert result.dtype == torch.float32
    broken = {"python": lambda: numjit.index().wrong, "c++": "float f(numjit::index i) { return wrong; }"}
    with pytest.raises(CompilationError):
        numjit.elementwise(broken[kind])(shape=shape, device=device)


@both_kinds
def test_nullary_without_an_index_and_with_several_results(kind, device):
    full = pair(
        lambda *, value: value,
        "template <typename T> T full(T value) { return value; }",
        scalars={"value": 2},
    )[kind]
    same(full(shape=3, device=device), torch.full((3,), 2, device=device))
    same(full(shape=3, value=1j, device=device), torch.full((3,), 1j, device=device))
    rows = pair(
        lambda *, n=4: (numjit.index() // n, numjit.index() % n),
        """template <class T> void rows(T n, numjit::index i, long long& r, long long& c) {
            r = i / n;
            c = i % n;
        }""",
        n=4,
    )[kind]
    r, c = rows(shape=(3, 4), device=device)
    assert torch.equal(r * 4 + c, numbers((3, 4), device))
    out = torch.zeros(3, 4, dtype=torch.int64, device=device)
    first, second = rows(out=(None, out))
    assert second is out
    assert torch.equal(first * 4 + out, numbers((3, 4), device))


@both_kinds
def test_nullary_keywords_that_make_no_sense(kind):
    f = ARANGE[kind]
    with pytest.raises(ArgumentError, match="say shape="):
        f()
    with pytest.raises(ArgumentError, match="negative size"):
        f(shape=(2, -1))
    with pytest.raises(ArgumentError, match="pass an int or a tuple of ints"):
        f(shape=(2, 1.5))
    with pytest.raises(ArgumentError, match="like is a str"):
        f(like="x")
    with pytest.raises(ArgumentError, match="without operands to broadcast"):
        NUMBERED[kind](torch.ones(3), shape=3)


def test_numpy_answers_numpy():
    ramp = ARANGE["python"](like=np.empty(3, np.float32))
    assert isinstance(ramp, np.ndarray)
    assert ramp.tolist() == [0, 1, 2]
    table = np.array([5.0, 6.0])
    result = GATHER["c++"](table, np.array([1, 0, 1]))
    assert isinstance(result, np.ndarray)
    assert result.tolist() == [6.0, 5.0, 6.0]


# --------------------------------------------------------------------------- preamble and compiler options


def test_preamble_is_there_on_every_device(device):
    f = numjit.elementwise(
        "template <typename T> T f(T x) { return twice(x) + OFFSET; }",
        preamble="#define OFFSET 3\ntemplate <typename T> T twice(T x) { return 2 * x; }",
    )
    assert f(torch.tensor([1.0, 2.0], device=device)).tolist() == [5.0, 7.0]


def test_a_mistake_in_the_preamble_names_its_line(device):
    f = numjit.elementwise(
        "float f(float x) { return g(x); }", preamble="// first\nfloat g(float x) { return y; }"
    )
    with pytest.raises(CompilationError, match=r"preamble[^\n]*2"):
        f(torch.ones(2, device=device))


def test_options_are_nvrtcs_and_make_another_functor(device):
    text = "template <typename T> T f(T x) { return x * FACTOR; }"
    with pytest.raises(CompilationError):
        numjit.elementwise(text)(torch.ones(2, device=device))
    if device == "cuda":
        for factor in (2, 3):
            f = numjit.elementwise(text, options=[f"-DFACTOR={factor}"])
            assert f(torch.ones(2, device=device)).tolist() == [factor, factor]
    # The host's compiler is not given them: a text that lives by them is one for GPUs.
    plain = numjit.elementwise("float f(float x) { return x; }", options=["--use_fast_math"])
    assert plain(torch.ones(2, device=device)).tolist() == [1.0, 1.0]
