"""The choice of kernel: a pure function of layout, element sizes and alignment."""

import math
import types

import pytest

from numjit.errors import ArgumentError
from numjit.plan.choose import ALTERNATIVES, DEFAULT, STREAM_BLOCK, Knobs, choose
from numjit.plan.coalesce import coalesce


def plan(shape, rows, sizes, addresses=None, outputs=1):
    return choose(coalesce(shape, rows), sizes, addresses or [0] * len(rows), outputs)


def modes(launch):
    return [str(access) for access in launch.variant.accesses]


def test_contiguous_reads_16_bytes_whatever_the_shape():
    launch = plan((4, 5, 8), [(160, 32, 4)] * 3, [4, 4, 4])
    assert launch.variant.kind == "contiguous"
    assert modes(launch) == ["u16"] * 3
    assert launch.extents == (160,)


def test_sizes_never_reach_the_variant():
    variants = {plan((n,), [(4,), (4,)], [4, 4]).variant for n in (64, 1000, 4096, 1 << 33)}
    assert len(variants) == 1
    variants = {
        plan((r, c), [(4 * c, 4), (4 * c, 4), (0, 4)], [4] * 3).variant
        for r, c in ((8, 64), (9, 128), (77, 4096))
    }
    assert len(variants) == 1


def test_a_misaligned_input_keeps_the_others_wide():
    launch = plan((4096,), [(4,), (4,), (4,)], [4] * 3, [0, 4, 0])
    assert modes(launch) == ["u16", "u4", "u16"]


def test_mixed_sizes_fill_every_access():
    assert modes(plan((4096,), [(4,), (2,), (4,)], [4, 2, 4])) == ["u16", "u16", "u16"]
    assert modes(plan((4096,), [(8,), (1,)], [8, 1])) == ["u16", "u8"]


def test_broadcasts_are_fixed_or_outer():
    launch = plan((64, 128), [(512, 4), (4, 0), (0, 4)], [4] * 3)
    assert modes(launch) == ["u16", "f4", "u16"]
    assert launch.variant.index_bits == 32


def test_offsets_decide_the_index_width_not_the_element_count():
    near = plan((2, 8), [(32, 4), (1 << 30, 4)], [4, 4])
    far = plan((2, 8), [(32, 4), (1 << 31, 4)], [4, 4])
    assert (near.variant.index_bits, far.variant.index_bits) == (32, 64)


def test_ranks_in_between_are_padded():
    rank = 7
    rows = [tuple(4 * 3**k for k in reversed(range(rank)))] * 2
    launch = plan((2,) * rank, rows, [4, 4])
    assert launch.variant.rank == 8
    assert len(launch.extents) == launch.variant.extent_count


def test_transposed_inputs_are_tiled_unless_they_are_thin():
    tiled = plan((64, 64), [(256, 4), (4, 256)], [4, 4])
    thin = plan((64, 8), [(32, 4), (4, 256)], [4, 4])
    assert modes(tiled) == ["u16", "t16"]
    assert tiled.grid == 1
    assert thin.variant.kind == "strided"


def test_shared_memory_bounds_what_is_staged():
    count = 8
    rows = [(512 * 16, 16), *[(16, 512 * 16)] * count]
    launch = plan((512, 512), rows, [16] * (count + 1))
    staged = sum(access.mode == "tiled" for access in launch.variant.accesses)
    assert 0 < staged < count


def test_more_operands_than_the_parameter_space_holds():
    rows = [tuple(4 * 3**k for k in reversed(range(16)))] * 60
    with pytest.raises(ArgumentError, match="kernel parameters"):
        plan((2,) * 16, rows, [4] * 60)
    layout = coalesce((2,) * 16, rows)
    assert choose(layout, [4] * 60, [0] * 60, 1, parameter_bytes=32764).variant.rank == 16


@pytest.mark.parametrize("knobs", ALTERNATIVES, ids=str)
def test_every_alternative_covers_the_same_elements(knobs):
    for shape, rows in (
        ((10_007,), [(4,), (4,)]),
        ((33, 64), [(256, 4), (0, 4)]),
        ((64, 70), [(280, 4), (4, 256)]),
    ):
        launch = choose(coalesce(shape, rows), [4, 4], [0, 0], 1, knobs=knobs)
        variant = launch.variant
        if variant.kind == "tiled":
            covered = launch.grid * variant.tile**2
        else:
            covered = launch.grid * variant.block * variant.vector * variant.unroll
        assert covered >= math.prod(shape)
        assert variant.block == knobs.block


STREAMS = {
    "contiguous": ((1 << 20,), [(4,), (4,)], [4, 4], True),
    "eight bytes": ((1 << 20,), [(8,), (8,)], [8, 8], True),
    "inner slice": ((512, 1000), [(4000, 4), (4032, 4)], [4, 4], True),
    "two bytes": ((1 << 20,), [(2,), (2,)], [2, 2], False),
    "mixed with two bytes": ((1 << 20,), [(4,), (2,)], [4, 2], False),
    "row": ((512, 1024), [(4096, 4), (0, 4)], [4, 4], False),
    "column": ((512, 1024), [(4096, 4), (4, 0)], [4, 4], False),
    "every second": ((1 << 20,), [(4,), (8,)], [4, 4], False),
    "transposed": ((512, 512), [(2048, 4), (4, 2048)], [4, 4], False),
}


@pytest.mark.parametrize("name", STREAMS)
def test_only_kernels_that_stream_leave_a_part_of_the_card_empty(name):
    shape, rows, itemsizes, streams = STREAMS[name]
    layout = coalesce(shape, rows)
    launch = choose(layout, itemsizes, [0] * len(rows), 1)
    assert (launch.occupancy < 1) is streams
    assert launch.variant.block == (STREAM_BLOCK if streams else DEFAULT.block)
    full = choose(layout, itemsizes, [0] * len(rows), 1, knobs=Knobs(adapts=False))
    assert full.occupancy == 1
    assert full.variant.accesses == launch.variant.accesses


@pytest.mark.parametrize(
    ("threads", "shared", "blocks"), [(2048, 233472, 12), (1536, 102400, 9), (2048, 167936, 12)]
)
def test_shared_memory_limits_the_blocks_of_a_multiprocessor(threads, shared, blocks, monkeypatch):
    from numjit.runtime import devices

    known = types.SimpleNamespace(
        threads_per_multiprocessor=threads, shared_bytes_per_multiprocessor=shared, reserved_shared_bytes=1024
    )
    monkeypatch.setattr(devices, "properties", lambda index: known)
    bytes_each = devices.limiting_shared_bytes(0, 128, 0.75)
    assert shared // (bytes_each + 1024) == blocks
    assert bytes_each % 128 == 0
    assert devices.limiting_shared_bytes(0, 512, 1.0) == 0


FAST = {
    "one input of two bytes": ((1 << 20,), [(2,), (2,)], [2, 2], 128, 2),
    "two inputs of two bytes": ((1 << 20,), [(2,)] * 3, [2] * 3, 128, 1),
    "one input of four bytes": ((1 << 20,), [(4,), (4,)], [4, 4], 128, 1),
    "inner slice of two bytes": ((512, 1000), [(2000, 2), (2016, 2)], [2, 2], 128, 1),
    "column": ((512, 1024), [(4096, 4), (4, 0)], [4, 4], 128, 1),
    "transposed": ((512, 512), [(2048, 4), (4, 2048)], [4, 4], 512, 1),
}


@pytest.mark.parametrize("name", FAST)
def test_a_fast_memory_is_read_by_all_threads_in_small_blocks(name):
    shape, rows, itemsizes, block, unroll = FAST[name]
    layout = coalesce(shape, rows)
    launch = choose(layout, itemsizes, [0] * len(rows), 1, fast_memory=True)
    assert (launch.variant.block, launch.variant.unroll, launch.occupancy) == (block, unroll, 1)
    covered = launch.grid * block * launch.variant.vector * unroll
    if launch.variant.kind == "contiguous":
        assert layout.shape[0] <= covered < layout.shape[0] + block * launch.variant.vector * unroll
    given = choose(layout, itemsizes, [0] * len(rows), 1, knobs=Knobs(adapts=False), fast_memory=True)
    assert given == choose(layout, itemsizes, [0] * len(rows), 1, knobs=Knobs(adapts=False))


@pytest.mark.parametrize(
    ("card", "bandwidth", "fast"),
    [
        ("NVIDIA H100 80GB HBM3", 3.352e12, False),
        ("NVIDIA H200", 4.814e12, True),
        ("one that does not say", None, False),
    ],
)
def test_which_memory_is_fast(card, bandwidth, fast, monkeypatch):
    from numjit.runtime import devices

    known = types.SimpleNamespace(name=card, multiprocessors=132, memory_bandwidth=bandwidth)
    monkeypatch.setattr(devices, "properties", lambda index: known)
    assert devices.has_fast_memory(0) is fast
