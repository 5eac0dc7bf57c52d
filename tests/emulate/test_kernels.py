"""The shipped shells, run thread by thread on the CPU with every access checked, against NumPy."""

import ctypes
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from numjit import dtypes
from numjit.kernels.spec import InputSlot, OutputSlot, ShellSpec
from numjit.plan.choose import ALTERNATIVES, DEFAULT, choose
from numjit.plan.coalesce import coalesce
from tests.support.emulator import emulation
from tests.support.tiers import pairs


def add(x, y):
    return x + y


def identity(x):
    return x


def scaled(x, y, alpha):
    return x + alpha * y


def add3(x, y, z):
    return x + y + z


def two(x, y):
    return x - y, x * y


def numjit_dtype(array):
    return dtypes.as_dtype(array.dtype)


def span(array):
    """First and end address that an array's elements touch."""
    low = array.ctypes.data + sum(
        min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)
    )
    high = array.ctypes.data + sum(
        max(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)
    )
    return low, high + array.itemsize


def run(function, outputs, inputs, *, values=(), views=None, raw=None, index=False, knobs=DEFAULT, **more):
    """Run `function` over NumPy arrays through the plan and the emulated shell; returns the variant."""
    shape = outputs[0].shape
    arrays = [*outputs, *(np.broadcast_to(x, shape) for x in inputs)]
    rows = [a.strides for a in arrays]
    if index:
        rows.append(tuple(math.prod(shape[d + 1 :]) for d in range(len(shape))))
    layout = coalesce(shape, rows)
    bases = [a.ctypes.data for a in arrays] + [0] * index
    addresses = [base + offset for base, offset in zip(bases, layout.offsets, strict=True)]
    sizes = [a.itemsize for a in arrays] + [1] * index
    launch = choose(layout, sizes, addresses, len(outputs), virtual=int(index), knobs=knobs, **more)
    slots = [
        InputSlot(numjit_dtype(a), numjit_dtype(a), (views or {}).get(k, ""))
        for k, a in enumerate(arrays[len(outputs) :])
    ]
    slots += [InputSlot(dtypes.from_name(np.asarray(v).dtype.name), None) for v in values]
    if raw is not None:
        slots.append(InputSlot(dtypes.int64, None, raw=True))
        values = (*values, raw.ctypes.data, raw.size)
    if index:
        slots.append(InputSlot(dtypes.int64, None, is_index=True))
    spec = ShellSpec(
        tuple(OutputSlot(numjit_dtype(o), numjit_dtype(o)) for o in outputs), tuple(slots), launch.variant
    )
    emulation(spec, function).run(launch, addresses, values, [span(a) for a in arrays] + [(0, 0)] * index)
    return launch.variant


def at_offset(count, dtype, offset):
    """A 1-d array whose data starts `offset` elements after a 256-byte boundary, guarded around."""
    dtype = np.dtype(dtype)
    raw = np.full(count * dtype.itemsize + 1024, 0xA5, np.uint8)
    start = -raw.ctypes.data % 256 + 256 + offset * dtype.itemsize
    return raw[start : start + count * dtype.itemsize].view(dtype), raw


def nothing_else_changed(before, guard, array):
    """Compare an array's whole memory with what it held before, apart from the elements."""
    start = array.ctypes.data - guard.ctypes.data
    inside = slice(start, start + array.nbytes)
    before[inside] = guard[inside]
    assert np.array_equal(before, guard), "bytes around the output changed"


def fill(array, rng):
    if array.dtype.kind == "c":
        array[...] = rng.standard_normal(array.shape) + 1j * rng.standard_normal(array.shape)
    elif array.dtype.kind == "f":
        array[...] = rng.standard_normal(array.shape)
    elif array.dtype.kind == "b":
        array[...] = rng.integers(0, 2, array.shape)
    else:
        array[...] = rng.integers(0, 100, array.shape)


NATIVE = ["bool", "uint8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize(("count", "dtype"), pairs([2049, 1, 5, 128, 4100], NATIVE))
def test_contiguous_is_right_and_uses_full_width(dtype, count):
    rng = np.random.default_rng(count)
    x, _ = at_offset(count, dtype, 0)
    out, guard = at_offset(count, dtype, 0)
    fill(x, rng)
    before = guard.copy()
    variant = run(identity, [out], [x])
    assert np.array_equal(out, x)
    nothing_else_changed(before, guard, out)
    if count >= 128:
        assert {a.width for a in variant.accesses} == {16}


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
@pytest.mark.parametrize("shift", [(0, 1), (1, 0), (3, 2), (7, 0)])
@pytest.mark.parametrize("count", [7, 16, 1025])
def test_misaligned_bases(dtype, shift, count):
    rng = np.random.default_rng(0)
    x, _ = at_offset(count, dtype, shift[0])
    out, _ = at_offset(count, dtype, shift[1])
    fill(x, rng)
    run(identity, [out], [x])
    assert np.array_equal(out, x)


def test_mixed_dtypes_all_at_full_width():
    x, _ = at_offset(3000, "float32", 0)
    y, _ = at_offset(3000, "int16", 0)
    out, _ = at_offset(3000, "float32", 0)
    rng = np.random.default_rng(0)
    fill(x, rng)
    fill(y, rng)
    variant = run(add, [out], [x, y])
    assert np.array_equal(out, (x + y).astype(np.float32))
    assert {a.width for a in variant.accesses} == {16}


def test_two_outputs_and_a_value():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 515)).astype(np.float32)
    a, b = np.empty_like(x), np.empty_like(x)
    run(two, [a, b], [x, y])
    assert np.array_equal(a, x - y)
    assert np.array_equal(b, x * y)
    run(scaled, [a], [x, y], values=[np.float32(2.5)])
    np.testing.assert_allclose(a, x + np.float32(2.5) * y, rtol=1e-6)


@pytest.mark.parametrize(("view", "expected"), [("conj", 1), ("neg", 2), ("conj neg", 3)])
def test_conj_and_neg_are_applied_on_load(view, expected):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(300) + 1j * rng.standard_normal(300)).astype(np.complex64)
    out = np.empty_like(x)
    run(identity, [out], [x], views={0: view})
    want = {1: x.conj(), 2: -x, 3: -x.conj()}[expected]
    assert np.array_equal(out, want)


@pytest.mark.parametrize(
    ("shape", "x_shape", "y_shape"),
    [
        ((64, 256), (64, 256), (256,)),
        ((64, 256), (64, 256), (64, 1)),
        ((64, 256), (64, 1), (1, 256)),
        ((3, 37, 65), (3, 1, 65), (37, 1)),
        ((2, 3, 4, 5, 6), (2, 1, 4, 1, 6), (3, 1, 5, 1)),
    ],
)
def test_broadcasting(shape, x_shape, y_shape):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in (x_shape, y_shape))
    out = np.empty(shape, np.float32)
    run(add, [out], [x, y])
    assert np.array_equal(out, x + y)


def test_row_broadcast_reads_both_at_full_width():
    x, _ = at_offset(64 * 256, "float32", 0)
    y, _ = at_offset(256, "float32", 0)
    out, _ = at_offset(64 * 256, "float32", 0)
    variant = run(add, [out.reshape(64, 256)], [x.reshape(64, 256), y])
    assert [str(a) for a in variant.accesses] == ["u16", "u16", "u16"]
    assert variant.even
    assert variant.index_bits == 32


#: The side of a tile, by dtype.
SIDES = {"float32": 64, "uint8": 64, "int16": 64, "complex64": 64, "complex128": 32}


@pytest.mark.parametrize(
    ("dtype", "shape"), pairs(SIDES, [(64, 64), (128, 80), (65, 130), (3, 33, 50), (2, 17, 3, 70)]), ids=str
)
def test_transposed_operands_meet_in_tiles(dtype, shape):
    rng = np.random.default_rng(0)
    count = math.prod(shape)
    stored, _ = at_offset(count, dtype, 0)
    x = stored.reshape([shape[-1], *shape[:-1]])
    x = (
        np.moveaxis(x, 0, -1)
        if len(shape) == 2
        else x.reshape(*shape[1:-1], shape[-1], shape[0]).transpose(len(shape) - 1, *range(len(shape) - 1))
    )
    y, _ = at_offset(count, dtype, 0)
    out, _ = at_offset(count, dtype, 0)
    y, out = y.reshape(shape), out.reshape(shape)
    fill(x, rng)
    fill(y, rng)
    variant = run(add, [out], [x, y])
    assert np.array_equal(out, x + y)
    if variant.kind == "tiled":
        assert variant.tile == SIDES[dtype]
        assert variant.accesses[1].mode == "tiled"
    assert variant.kind == "tiled" or min(shape[0], shape[-1]) < 16


def test_aligned_tiles_read_and_write_16_bytes():
    rng = np.random.default_rng(0)
    x, _ = at_offset(128 * 64, "float32", 0)
    out, _ = at_offset(128 * 64, "float32", 0)
    x, out = x.reshape(64, 128).T, out.reshape(128, 64)
    fill(x, rng)
    variant = run(identity, [out], [x])
    assert np.array_equal(out, x)
    assert [str(access) for access in variant.accesses] == ["u16", "t16"]


def test_misaligned_tiles_and_several_staged_operands():
    rng = np.random.default_rng(0)
    x, _ = at_offset(70 * 75, "int16", 3)
    y, _ = at_offset(70 * 75, "float32", 1)
    z, _ = at_offset(70 * 75, "float32", 0)
    out, _ = at_offset(70 * 75, "float32", 0)
    x, y, z, out = x.reshape(75, 70).T, y.reshape(75, 70).T, z.reshape(70, 75), out.reshape(70, 75)
    for array in (x, y, z):
        fill(array, rng)
    variant = run(add3, [out], [x, y, z])
    np.testing.assert_allclose(out, x + y + z, rtol=1e-6)
    assert [access.mode for access in variant.accesses] == ["unit", "tiled", "tiled", "unit"]


@pytest.mark.parametrize(
    ("shape", "made"),
    pairs([(4, 6, 16), (1000,), (5, 33), (64, 80)], [("C", False), ("F", False), ("C", True), ("F", True)]),
    ids=str,
)
def test_the_index_is_the_logical_element_number(shape, made):
    order, flip = made
    rng = np.random.default_rng(0)
    x = np.asarray(rng.integers(0, 100, shape), np.float64)
    out = np.empty(shape, np.float64, order)
    if flip:
        x, out = x[::-1], out[::-1]
    run(add, [out], [x], index=True)
    assert np.array_equal(out, x + np.arange(x.size).reshape(shape))


@pytest.mark.parametrize("knobs", ALTERNATIVES, ids=str)
def test_tuned_kernels_give_the_same(knobs):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 90, 70)).astype(np.float32)
    out = np.empty_like(x)
    run(add, [out], [x, y], knobs=knobs)
    assert np.array_equal(out, x + y)
    run(add, [out], [x, y[:, :1]], knobs=knobs)
    assert np.array_equal(out, x + y[:, :1])
    z = np.ascontiguousarray(y.T).T
    run(add, [out], [x, z], knobs=knobs)
    assert np.array_equal(out, x + y)


@pytest.mark.parametrize("count", [16, 31, 2047, 4095, 4096, 4097, 8192, 8192 + 2048 + 17])
def test_blocks_of_two_steps_end_anywhere(count):
    rng = np.random.default_rng(count)
    x, _ = at_offset(count, "uint8", 0)
    out, guard = at_offset(count, "uint8", 0)
    fill(x, rng)
    before = guard.copy()
    variant = run(identity, [out], [x], fast_memory=True)
    assert (variant.kind, variant.vector, variant.unroll, variant.block) == ("contiguous", 16, 2, 128)
    assert np.array_equal(out, x)
    nothing_else_changed(before, guard, out)


def _rows(*shape, pitch):
    return np.zeros((*shape[:-1], pitch), np.float32)[..., : shape[-1]]


ENDS = {
    "contiguous": lambda: (_rows(1003, pitch=1003), _rows(1003, pitch=1003)),
    "strided": lambda: (_rows(20, 37, pitch=37), _rows(20, 37, pitch=38)),
    "vectors that end early": lambda: (_rows(20, 37, pitch=40), _rows(20, 37, pitch=40)),
    "tiles": lambda: (_rows(72, 100, pitch=100), _rows(100, 72, pitch=72).T),
    "tiles of elements": lambda: (_rows(71, 101, pitch=101), _rows(101, 71, pitch=71).T),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_functor_is_called_once_for_every_element(name):
    # Not for what lies beside them either: a loop in it that ends for every element may not end there.
    out, x = ENDS[name]()
    x[...] = np.arange(x.size).reshape(x.shape)
    calls = []

    def note(value):
        calls.append(value)
        return value + 1

    noted = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(note)
    run(lambda value: noted(value), [out], [x])
    assert np.array_equal(out, x + 1)
    assert sorted(calls) == list(range(x.size))


@pytest.mark.parametrize("shape", [(1000,), (5, 33), (64, 80)])
def test_raw_operands_arrive_as_address_and_size(shape):
    table = np.arange(7.0)
    x = np.asarray(np.random.default_rng(0).integers(0, 100, shape), np.int64)
    out = np.empty(shape, np.int64)
    run(lambda x, address, size: x + address * size, [out], [x], raw=table)
    assert np.array_equal(out, x + table.ctypes.data * table.size)
    run(lambda x, address, size, i: x + address * 0 + size * i, [out], [x.T.copy().T], raw=table, index=True)
    assert np.array_equal(out, x + 7 * np.arange(x.size).reshape(shape))


@st.composite
def layouts(draw):
    """An output array and two operands: random rank, order, steps, flips and broadcast dimensions."""
    rank = draw(st.integers(1, 5))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=rank, max_size=rank)))
    if draw(st.booleans()):
        shape = (*shape[:-1], draw(st.sampled_from([16, 24, 33, 64])))
        if rank > 1 and draw(st.booleans()):
            shape = (draw(st.sampled_from([16, 31, 40])), *shape[1:])

    def array(broadcast):
        order = draw(st.permutations(range(rank)))
        steps = [draw(st.sampled_from([1, 1, 1, 2])) for _ in range(rank)]
        flips = [draw(st.sampled_from([1, 1, 1, -1])) for _ in range(rank)]
        sizes = [1 if broadcast and draw(st.booleans()) else n for n in shape]
        dtype = draw(st.sampled_from([np.float32, np.float32, np.int16, np.float64]))
        lead = draw(st.integers(0, 3))
        full = [n * s for n, s in zip(sizes, steps, strict=True)]
        flat = np.arange(lead + math.prod(full), dtype=dtype)
        stored = flat[lead:].reshape([full[d] for d in order])
        inverse = np.argsort(order)
        return stored.transpose(inverse)[
            tuple(slice(None, None, s * f) for s, f in zip(steps, flips, strict=True))
        ]

    out = array(broadcast=False)
    return out, array(broadcast=True), array(broadcast=True)


@settings(max_examples=25, deadline=None)
@given(layouts())
def test_any_layout(operands):
    out, x, y = operands
    run(add, [out], [x, y])
    assert np.array_equal(out, np.broadcast_to(x + y, out.shape).astype(out.dtype))


@pytest.mark.parametrize("bits", [32, 64])
def test_64_bit_indices_give_the_same(bits, monkeypatch):
    from numjit.plan import choose as plan

    if bits == 64:
        monkeypatch.setattr(plan, "INDEX32_LIMIT", 0)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 7, 16)).astype(np.float32)
    y = rng.standard_normal((7, 1)).astype(np.float32)
    out = np.empty((5, 7, 16), np.float32)
    assert run(add, [out], [x, y]).index_bits == bits
    assert np.array_equal(out, x + y)


def test_offsets_past_2_31_use_64_bit_indices():
    layout = coalesce((3, 5), [(5, 1), (1 << 31, 1)])
    assert choose(layout, [1, 1], [0, 0], 1).variant.index_bits == 64


@pytest.mark.parametrize("bits", [32, 64])
@given(data=st.data())
def test_magic_division(bits, data):
    from numjit.plan.variant import magic_divisor

    top = (1 << (bits - 1)) - 1
    edges = st.sampled_from([1, 2, 3, top, top - 1, (top + 1) // 2])
    divisor = data.draw(edges | st.integers(1, top))
    number = data.draw(edges | st.integers(0, top))
    magic, shift = magic_divisor(divisor, bits)
    assert 0 < magic < 1 << bits
    high = (number * magic) >> bits
    assert high + number < 1 << bits
    assert (high + number) >> shift == number // divisor
