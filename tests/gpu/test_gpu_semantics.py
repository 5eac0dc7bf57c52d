"""Random layouts, dtypes and operations on CUDA tensors against torch; sizes, streams, graphs, threads.

Kernels are compiled for dtypes and layout classes, so dtypes come from few combinations.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import numjit
from tests.cases import (
    ADD,
    INCREMENT,
    KINDS,
    SCALED,
    SUM_AND_DIFFERENCE,
    both_kinds,
    build,
    fill,
    operands,
    pair,
    same,
)
from tests.support.strategies import layouts
from tests.support.threads import in_threads

pytestmark = pytest.mark.gpu

f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
i8, i64, u8, c64, c128 = torch.int8, torch.int64, torch.uint8, torch.complex64, torch.complex128

kinds = st.sampled_from(KINDS)
#: Every example that meets a new layout class compiles, which takes longer than Hypothesis expects.
often = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
SMALL = {"max_rank": 5, "max_size": 5}


# ------------------------------------------------------------------------------------------ random layouts


@often
@given(kind=kinds, drawn=operands(2, **SMALL), dtypes=st.sampled_from([(f16, f32), (bf16, i64)]))
def test_sum_of_mixed_dtypes_with_odd_values(kind, drawn, dtypes):
    x, y = build(drawn, dtypes, "cuda")
    same(ADD[kind](x, y), x + y)


@often
@given(
    kind=kinds,
    drawn=operands(2, **SMALL),
    alpha=st.sampled_from([2, 0.5, torch.tensor(3), torch.tensor(-1.5, dtype=f64)]),
    where=st.sampled_from(["as it is", "cuda"]),
)
def test_scalars(kind, drawn, alpha, where):
    x, y = build(drawn, (f32, f32), "cuda", special=False)
    if where == "cuda" and isinstance(alpha, torch.Tensor):
        alpha = alpha.to("cuda")
    same(SCALED[kind](x, y, alpha=alpha), alpha * x + y, strides=False)


@often
@given(kind=kinds, drawn=operands(2, **SMALL), bits_of=st.sampled_from(["conj", "neg", "both", "one"]))
def test_conj_and_neg(kind, drawn, bits_of):
    x, y = build(drawn, (c64, c64), "cuda", special=False)
    if bits_of in ("conj", "both", "one"):
        x = x.conj()
    if bits_of in ("neg", "both"):
        x = torch._neg_view(x)
    if bits_of == "both":
        y = y.conj()
    same(ADD[kind](x, y), x + y, strides=False)


# --------------------------------------------------------------------------- lengths, rows and alignment

LENGTHS = st.integers(0, 5000) | st.sampled_from([2**k + d for k in (7, 10, 12, 16, 20) for d in (-1, 0, 1)])


@often
@given(kind=kinds, length=LENGTHS, offsets=st.tuples(*[st.integers(0, 17)] * 3), data=st.data())
def test_contiguous_runs_of_any_length_and_alignment(kind, length, offsets, data):
    left, right = data.draw(st.sampled_from([(f32, f32), (u8, u8), (f16, f32)]))
    x = fill(torch.empty(length + 20, dtype=left, device="cuda"), 1)[offsets[0] : offsets[0] + length]
    y = fill(torch.empty(length + 20, dtype=right, device="cuda"), 2)[offsets[1] : offsets[1] + length]
    same(ADD[kind](x, y), x + y)
    expected = x + y
    around = torch.full((length + 40,), 7, device="cuda").to(expected.dtype)
    wanted = around.clone()
    wanted[offsets[2] : offsets[2] + length] = expected
    ADD[kind](x, y, out=around[offsets[2] : offsets[2] + length])
    same(around, wanted)


@often
@given(
    kind=kinds,
    rows=st.integers(1, 40),
    columns=st.integers(1, 300),
    padding=st.integers(0, 9),
    form=st.sampled_from(["padded", "transposed", "row", "column", "stepped", "channels"]),
    dtype=st.sampled_from([f32, u8]),
)
def test_matrices(kind, rows, columns, padding, form, dtype):
    def numbered(*shape):
        count = 1
        for n in shape:
            count *= n
        return fill(torch.empty(count, dtype=dtype, device="cuda"), count % 97, special=False).view(shape)

    plain = numbered(rows, columns)
    other = {
        "padded": lambda: numbered(rows, columns + padding)[:, padding:],
        "transposed": lambda: numbered(columns, rows).t(),
        "row": lambda: numbered(columns),
        "column": lambda: numbered(rows, 1),
        "stepped": lambda: numbered(rows, 2 * columns)[:, ::2],
        "channels": lambda: numbered(1, columns).expand(rows, columns),
    }[form]()
    same(ADD[kind](plain, other), plain + other)
    same(ADD[kind](other, plain), other + plain)


@settings(often, max_examples=40)
@given(kind=kinds, data=st.data())
def test_larger_tensors_of_any_layout(kind, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 33), min_size=2, max_size=4)))
    tensors = []
    for seed in range(2):
        strides = data.draw(layouts(shape))
        reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
        buffer = fill(torch.empty(reach + 4, device="cuda"), seed, special=False)
        tensors.append(buffer.as_strided(shape, strides, data.draw(st.integers(0, 3))))
    x, y = tensors
    same(ADD[kind](x, y), x + y)


@settings(often, max_examples=40)
@given(kind=kinds, rank=st.integers(5, 12), data=st.data())
def test_many_dimensions(kind, rank, data):
    steps = data.draw(st.permutations([2 * k + 1 for k in range(rank)]))  # odd: no two of them coalesce
    buffer = fill(torch.empty(sum(steps) + 1, device="cuda"), rank, special=False)
    x = buffer.as_strided((2,) * rank, steps)
    y = torch.ones((2,) * rank, device="cuda").permute(*data.draw(st.permutations(range(rank))))
    same(ADD[kind](x, y), x + y)


@both_kinds
@pytest.mark.parametrize(
    "dtype",
    [torch.bool, u8, i8, torch.int16, torch.int32, i64, f16, bf16, f32, f64, c64, c128],
    ids=lambda d: str(d).removeprefix("torch."),
)
def test_every_dtype_contiguous_and_strided(kind, dtype):
    x = fill(torch.empty(10_007, dtype=dtype, device="cuda"), 1, special=not dtype.is_complex)
    y = fill(torch.empty(10_007, dtype=dtype, device="cuda"), 2, special=not dtype.is_complex)
    same(ADD[kind](x, y), x + y)
    same(ADD[kind](x[::3], y[::3]), x[::3] + y[::3])
    same(ADD[kind](x[1:], y[:-1]), x[1:] + y[:-1])


# ------------------------------------------------------------------------------------------------ sizes


def needs_memory(gigabytes):
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < gigabytes << 30:
        pytest.skip(f"needs {gigabytes} GiB of free GPU memory")


@both_kinds
def test_more_than_2_31_strided_elements(kind):
    """64-bit index arithmetic in the strided kernels; nothing here is contiguous."""
    needs_memory(20)
    rows, columns = 70_000, 32_000  # 2.24e9 elements
    memory = torch.zeros(rows, columns + 16, dtype=i8, device="cuda")
    x = memory[:, :columns]
    x[-1, -1], x[0, 1], x[rows // 2, 7] = 5, 6, 7
    result = INCREMENT[kind](x)
    assert result.shape == (rows, columns)
    assert (int(result[-1, -1]), int(result[0, 1]), int(result[rows // 2, 7])) == (6, 7, 8)
    assert sum(int((part != 1).sum()) for part in result.split(8192)) == 3
    INCREMENT[kind](x, out=x)
    assert (int(x[-1, -1]), int(x[0, 1]), int(x[rows // 2, 7])) == (6, 7, 8)
    assert not memory[:, columns:].any()


@both_kinds
def test_an_expanded_operand_of_more_than_2_31_elements(kind):
    needs_memory(12)
    line = torch.arange(48_000, device="cuda").to(i8)
    tall = torch.arange(48_000, device="cuda").to(i8)[:, None]
    result = ADD[kind](line, tall)  # 2.3e9 elements from two vectors
    for row in (0, 1, 44_739, 47_999):
        assert torch.equal(result[row], line + tall[row])


@both_kinds
@pytest.mark.parametrize("dtype", [i8, f32, c128], ids=str)
def test_offsets_past_2_31_bytes_in_views_of_few_elements(kind, dtype):
    needs_memory(12)
    size = dtype.itemsize
    memory = torch.empty((10 << 30) // size, dtype=dtype, device="cuda")
    count = memory.numel()
    x = memory.as_strided((2, 3, 4), (count - 100, 20, 1), 7)
    x.copy_(torch.arange(24, device="cuda").view(2, 3, 4).to(dtype))
    wanted = torch.arange(24, device="cuda").view(2, 3, 4).to(dtype) + 1
    assert torch.equal(INCREMENT[kind](x), wanted)
    pairs = memory.as_strided((2, 5), (count // 2, 3), 0)
    pairs.zero_()
    INCREMENT[kind](pairs, out=pairs)
    assert torch.equal(pairs, torch.ones_like(pairs))


# --------------------------------------------------------------------------- streams, graphs, threads


@both_kinds
def test_each_call_runs_on_the_current_stream(kind):
    """The functor waits for slow work on its own stream and for none on another."""
    x = torch.zeros(1 << 18, device="cuda").fill_(1.0)
    INCREMENT[kind](x)  # everything below is loaded now: loading waits for running kernels
    slow, quick = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(slow):
        torch.cuda._sleep(1_000_000_000)
        x.fill_(2.0)
        result = INCREMENT[kind](x)
    y = torch.zeros(1 << 10, device="cuda")
    quick.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(quick):
        other = INCREMENT[kind](y)
    quick.synchronize()
    assert not slow.query(), "a call on another stream waited for this one"
    assert torch.all(other == 1)
    slow.synchronize()
    assert torch.all(result == 3)


@both_kinds
def test_a_graph_of_strided_and_scalar_calls(kind):
    x = torch.arange(600.0, device="cuda").view(20, 30)
    scale = torch.tensor(2.0, device="cuda")
    for _ in range(2):  # whatever is compiled or loaded is, before the capture
        SCALED[kind](x.t(), x[0, :1], alpha=scale)
        SUM_AND_DIFFERENCE[kind](x, 0.5)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scaled = SCALED[kind](x.t(), x[0, :1], alpha=scale)
        first, second = SUM_AND_DIFFERENCE[kind](scaled, 0.5)
    for value in (1.0, -4.0):  # a power of two, so that a fused multiply-add rounds alike
        x.normal_()
        scale.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        expected = scale * x.t() + x[0, :1]
        same(scaled, expected)
        same(first, expected + 0.5, strides=False)
        same(second, expected - 0.5, strides=False)


@both_kinds
def test_threads_with_a_stream_each(kind):
    functor = pair(lambda x: x * 3 + 7, "template <typename T> T f(T x) { return x * T(3) + T(7); }")[kind]

    def work(k):
        with torch.cuda.stream(torch.cuda.Stream()):
            for n in range(50):
                x = torch.full((1000 + k, 3), float(n + k), device="cuda")
                assert torch.equal(functor(x), x * 3 + 7)
                assert torch.equal(functor(x.t()), x.t() * 3 + 7)

    in_threads(work, range(6))


@both_kinds
def test_a_call_after_an_error_works(kind):
    x = torch.ones(3, device="cuda")
    for _ in range(2):
        with pytest.raises(numjit.NumjitError):
            ADD[kind](x, torch.ones(2, device="cuda"))
        with pytest.raises(numjit.NumjitError):
            ADD[kind](x, "no array")
        same(ADD[kind](x, x), x + x)


# ------------------------------------------------------------------------------------------ two devices


@pytest.fixture
def second():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    return torch.device("cuda:1")


@both_kinds
def test_calls_on_the_second_device_leave_the_current_one_alone(kind, second):
    x = torch.arange(1000.0, device=second)
    assert torch.cuda.current_device() == 0
    same(ADD[kind](x, x), x + x)
    same(ADD[kind](x[::2], 1.5), x[::2] + 1.5)
    out = torch.empty_like(x)
    assert INCREMENT[kind](x, out=out) is out
    assert torch.equal(out, x + 1)
    assert torch.cuda.current_device() == 0
    first = torch.arange(1000.0, device="cuda:0")
    same(ADD[kind](first, first), first + first)
    with torch.cuda.device(1):
        same(ADD[kind](first, first), first + first)
        assert torch.cuda.current_device() == 1


@both_kinds
def test_the_second_devices_own_stream_is_used(kind, second):
    x = torch.zeros(1 << 18, device=second)
    INCREMENT[kind](x)
    torch.cuda.synchronize(second)
    stream = torch.cuda.Stream(second)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        x.fill_(4.0)
        result = INCREMENT[kind](x)
    stream.synchronize()
    assert torch.all(result == 5)


@both_kinds
def test_scalars_on_the_other_device_are_refused(kind, second):
    x, y = torch.ones(3, device="cuda:0"), torch.tensor(2.0, device=second)
    with pytest.raises(numjit.NumjitError, match="cuda:1"):
        ADD[kind](x, y)
    with pytest.raises(numjit.NumjitError, match="cuda:1"):
        SCALED[kind](x, x, alpha=y)
    with pytest.raises(numjit.NumjitError, match="cuda:1"):
        ADD[kind](x, x, out=torch.zeros(3, device=second))
