"""The CPU loop around a Python functor: layouts, stored dtypes, views, by-value arguments, speed."""

from __future__ import annotations

import ctypes
import math
import time
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from numjit import dtypes
from numjit.cpu.python_loop import build_chunk, llvm_code
from numjit.functor.python import PythonFunctor
from tests.support.oracle import torch_dtype
from tests.support.python_cpu import kind_of, run

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf")


def add(x, y):
    return x + y


def several(x, y):
    return x + y, x > y, x * 2 - y


ADD = PythonFunctor(add)
SEVERAL = PythonFunctor(several)


def strided(draw, shape):
    """Draw a tensor that broadcasts to `shape`, with any strides."""
    sizes = [1 if draw(st.booleans()) and draw(st.booleans()) else size for size in shape]
    steps = [draw(st.integers(1, 3)) for _ in sizes]
    order = draw(st.permutations(range(len(sizes))))
    grown = [size * step for size, step in zip(sizes, steps, strict=True)]
    base = torch.randn([grown[place] for place in order])
    tensor = base.permute([order.index(place) for place in range(len(sizes))])
    return tensor[tuple(slice(None, None, step) for step in steps)]


@st.composite
def operands(draw):
    shape = draw(st.lists(st.integers(1, 7), max_size=4))
    if draw(st.booleans()):
        shape.append(draw(st.sampled_from([1, 255, 256, 257, 600])))
    return strided(draw, shape), strided(draw, shape), draw(st.integers(1, 5))


@given(operands())
@settings(max_examples=40)
def test_any_layout_and_any_split(case):
    x, y, parts = case
    found = run(SEVERAL, x, y, parts=parts)
    expected = several(x, y)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.fixture(autouse=True, scope="module")
def one_chunk():
    """Reuse compiled loops between examples: only layouts differ."""
    import tests.support.python_cpu as support

    kept = {}

    def cached(functor, specialised, storages, stored, views):
        key = (functor, specialised, tuple(storages), tuple(stored), tuple(views))
        if key not in kept:
            kept[key] = build_chunk(functor, specialised, storages, stored, views)
        return kept[key]

    support.build_chunk, before = cached, support.build_chunk
    yield
    support.build_chunk = before


def test_zero_dim_and_long_rows():
    assert run(ADD, torch.tensor(1.5), torch.tensor(2.0))[0].item() == 3.5
    x = torch.randn(100_003)
    assert torch.equal(run(ADD, x, x, parts=7)[0], x + x)
    assert torch.equal(run(ADD, x, torch.tensor([2.0]))[0], x + 2.0)
    assert torch.equal(run(ADD, x.flip(0)[::2], x[::2])[0], x.flip(0)[::2] + x[::2])


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_in_place_and_strided_outputs(offset):
    base = torch.randn(5000)
    x = base[offset : offset + 1001]
    y = torch.randn(1001)
    expected = x + y
    run(ADD, x, y, out=x)
    assert torch.equal(x, expected)
    target = torch.zeros(1001, 3)
    run(ADD, x, y, out=target[:, 1])
    assert torch.equal(target[:, 1], x + y)
    assert target[:, 0].count_nonzero() == target[:, 2].count_nonzero() == 0
    matrix, other = torch.randn(40, 30), torch.randn(30, 40)
    out = torch.empty(30, 40).t()
    run(ADD, matrix, other.t(), out=out)
    assert torch.equal(out, matrix + other.t())


def test_unaligned_memory():
    raw = torch.zeros(4 * 100 + 1, dtype=torch.uint8)
    address = raw.data_ptr() + 1
    values = torch.randn(100)
    ctypes.memmove(address, values.data_ptr(), 400)
    functor = PythonFunctor(add)
    specialised = functor.specialise((kind_of(values),) * 2, dtypes.float32, target="cpu")
    chunk = build_chunk(functor, specialised, [dtypes.float32] * 2, specialised.outputs, ["", ""])
    out = torch.empty(100)
    table = (ctypes.c_int64 * 3)(out.data_ptr(), address, address)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3)(chunk.address)
    call(table, (ctypes.c_int64 * 1)(100), (ctypes.c_int64 * 3)(4, 4, 4), None, 1, 0, 100)
    assert torch.equal(out, values + values)


STORED = [dtype for dtype in dtypes.ALL if dtype.name != "float8_e4m3fn"]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_identity_of_every_stored_dtype(dtype):
    generator = torch.Generator().manual_seed(0)
    raw = torch.randint(0, 256, (64 * dtype.itemsize,), dtype=torch.uint8, generator=generator)
    x = raw.view(torch_dtype(dtype))
    (found,) = run(PythonFunctor(lambda x: x), x)
    assert found.dtype == x.dtype
    if dtype.kind == "b":
        assert found.view(torch.uint8).tolist() == [int(byte != 0) for byte in raw.tolist()]
    elif dtype.compute is dtype:
        assert torch.equal(found.view(torch.uint8), raw)
    else:
        ours, theirs = (comparable(tensor) for tensor in (found, x))
        assert torch.equal(ours, theirs)


def comparable(tensor):
    """Return a tensor of a small float type as float32, NaN payloads dropped."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.to(torch.complex64)).nan_to_num()
    return tensor.to(torch.float32).nan_to_num()


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_conversions_at_loads_and_stores(dtype):
    """An annotated parameter converts its operand, a result is stored as any dtype."""
    source = torch.tensor([0.0, 1.0, 2.5, 100.0, 3.0])

    def declared(x: dtypes.float64):
        return x

    declared.__annotations__["x"] = dtype
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = source.to(torch_dtype(dtype))
        (converted,) = run(PythonFunctor(declared), source)
        (stored,) = run(PythonFunctor(lambda x: x), source, stored=(dtype,))
    for found in (converted, stored):
        assert found.dtype == expected.dtype
        assert found.view(torch.uint8).tolist() == expected.view(torch.uint8).tolist()


def test_conj_and_neg_views():
    x = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    same = PythonFunctor(lambda x: x)
    assert torch.equal(run(same, x, views=("conj",))[0], x.conj().resolve_conj())
    assert torch.equal(run(same, x, views=("neg",))[0], -x)
    assert torch.equal(run(same, x, views=("conj neg",))[0], -x.conj().resolve_conj())
    y = torch.tensor([1.0, -2.0, 0.0])
    assert run(same, y, views=("neg",))[0].view(torch.int32).tolist() == (-y).view(torch.int32).tolist()


def test_arguments_by_value():
    def f(x, a, *, b, c, flag):
        return x * a + b if flag else x * c

    functor = PythonFunctor(f)
    x = torch.tensor([1.0, 2.0])
    assert run(functor, x, 2, 0.5, 1j, True)[0].tolist() == [2.5 + 0j, 4.5 + 0j]
    assert run(functor, x, 2, 0.5, 1j, False)[0].tolist() == [1j, 2j]
    (exact,) = run(
        PythonFunctor(lambda x, *, a: a + 0 * x), torch.tensor([0.0], dtype=torch.float64), math.nan
    )
    assert math.isnan(exact.item())
    (minus_zero,) = run(PythonFunctor(lambda x, *, a: a * x), torch.tensor([1.0]), -0.0)
    assert math.copysign(1, minus_zero.item()) == -1


def test_many_operands_and_outputs():
    count = 32
    names = [f"x{place}" for place in range(count)]
    scope: dict = {}
    exec(f"def f({', '.join(names)}):\n    return {', '.join(names[:16])}, {' + '.join(names)}", scope)
    tensors = [torch.full((300,), float(place)) for place in range(count)]
    tensors[3] = torch.tensor([3.0])
    found = run(PythonFunctor(scope["f"]), *tensors)
    assert [int(tensor[299]) for tensor in found] == [*range(16), sum(range(count))]


def test_integer_division_by_zero_does_not_kill_the_process():
    x = torch.tensor([5, -5, torch.iinfo(torch.int64).min])
    assert run(PythonFunctor(lambda x, y: x // y), x, torch.tensor([0, 0, -1]))[0].tolist() == [
        0,
        0,
        x[2].item(),
    ]


# ----------------------------------------------------------------------------------------------- speed


def assembly(functor, *tensors):
    """Return the machine code of a functor's loop as text."""
    kinds = tuple(map(kind_of, tensors))
    specialised = functor.specialise(kinds, dtypes.float32, target="cpu")
    return llvm_code(functor, specialised, [k.dtype for k in kinds], specialised.outputs, [""] * len(kinds))


@pytest.mark.parametrize("count", [2, 12])
def test_float32_arithmetic_is_vectorised_without_overlap_checks(count):
    """In-place calls take the vector loop too."""
    names = ", ".join(f"x{place}" for place in range(count))
    scope: dict = {}
    exec(f"def f({names}): return {names.replace(', ', ' * ')} + 1", scope)
    text = assembly(PythonFunctor(scope["f"]), *[torch.ones(4)] * count)
    assert "x float> " in text
    assert "fmul <" in text
    assert "memcheck" not in text


def test_branches_are_vectorised():
    text = assembly(PythonFunctor(lambda x: x if x > 0 else 0.5 * x), torch.ones(4))
    assert "select <" in text


@pytest.mark.parametrize(("fn", "reference"), [(add, torch.add), (lambda x, y: x * y, torch.mul)])
def test_as_fast_as_torch(fn, reference):
    """Within 1.2 of torch on one thread; 2 here, since other tests share the machine."""
    x, y = torch.randn(1_000_000), torch.randn(1_000_000)
    out = torch.empty_like(x)
    functor = PythonFunctor(fn)
    specialised = functor.specialise((kind_of(x),) * 2, dtypes.float32, target="cpu")
    chunk = build_chunk(functor, specialised, [dtypes.float32] * 2, specialised.outputs, ["", ""])
    table = (ctypes.c_int64 * 3)(out.data_ptr(), x.data_ptr(), y.data_ptr())
    shape, strides = (ctypes.c_int64 * 1)(x.numel()), (ctypes.c_int64 * 3)(4, 4, 4)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3)(chunk.address)

    def best(run_once):
        times = []
        for _ in range(60):
            start = time.perf_counter()
            run_once()
            times.append(time.perf_counter() - start)
        return min(times)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        theirs = best(lambda: reference(x, y, out=out))
        ours = best(lambda: call(table, shape, strides, None, 1, 0, x.numel()))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(out, reference(x, y))
    assert ours < 2 * theirs
