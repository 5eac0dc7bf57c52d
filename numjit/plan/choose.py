"""Chooses the kernel for a layout: pure decisions from coalesced strides, element sizes and alignment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from numjit.errors import ArgumentError
from numjit.plan.coalesce import Layout
from numjit.plan.variant import Access, Launch, Variant, magic_divisor, tile_pitch

__all__ = ["ALTERNATIVES", "DEFAULT", "Knobs", "choose"]


class Knobs(NamedTuple):
    """What may differ from card to card without changing any result.

    The defaults are measured. On an H100 (torch 2.11, 32-256M elements; roof fractions by threads of a
    block, providers in turn): axpy float32 256 1.020, 512 1.020, 1024 1.023 (torch.compile 1.028); gelu
    bfloat16 1.007, 1.001, .983 (eager 1.002); x.t() + y float32 .995, 1.002, .984 (torch.compile 1.001);
    channels_last + NCHW 1.009, 1.018, 1.000 (torch.compile 1.018); float32 + bfloat16 1.000, 1.003, 1.004.
    Two vectors a thread lose up to 5 % where dtypes are mixed. Accesses of 8 bytes gain 1 % for additions
    and lose 12 % for gelu.

    Attributes
    ----------
    block
        Threads of a block.
    vectors, elements
        Steps of a thread, where a step is a vector or a single element.
    width
        Bytes of one access at most (16 is LDG.E.128).
    thread_bytes
        Bytes that a thread moves per operand and step at most; keeps mixed dtypes within the registers.
    adapts
        Whether the measured shape for a kind of kernel and card takes the place of `block` and `vectors`.
    """

    block: int = 512
    vectors: int = 1
    elements: int = 2
    width: int = 16
    thread_bytes: int = 64
    adapts: bool = True


#: Threads of a block, and part of a multiprocessor's threads, where a kernel only streams. With fewer
#: accesses in flight the memory is faster: on an H100 (bench/results/h100-loads.txt, h100-occupancy.txt) axpy
#: float32 1.027 of the copy against 1.016 with full occupancy (torch.compile 1.022), add int32 1.027 : 1.016
#: (1.024), an inner slice 1.022 : 1.014 (1.025); but x[::2] + y .771 : .779, a row's broadcast .946 : 1.000,
#: gelu in bfloat16 .966 : .993, which is why they are left alone; gelu in float32 .997 : .998.
STREAM_BLOCK = 128
STREAM_OCCUPANCY = 0.75
#: Where the memory is fast for the multiprocessors there are, all of the threads have to read, and small
#: blocks, which come and go one by one, keep it busier. On an H200 (bench/results/h200-shapes.txt) add
#: float32 had 1.016 with three quarters of the threads and 1.030 with all (eager torch 1.025), a sum of 8
#: 1.002 : 1.049; in bfloat16 swiglu's gradient .848 with blocks of 512 and .989 with blocks of 128, gelu's
#: .891 : .955 (eager .938). Two vectors a thread give gelu in bfloat16 .940 in place of .857 (eager .840),
#: and are even or lose where there are more inputs or wider elements.
FAST_BLOCK = 128
FAST_VECTORS = 2
DEFAULT = Knobs()
#: What autotuning tries besides the defaults.
ALTERNATIVES = (
    Knobs(adapts=False),
    Knobs(block=128, adapts=False),
    Knobs(block=256, adapts=False),
    Knobs(block=1024, adapts=False),
    Knobs(block=128, vectors=2, elements=4, adapts=False),
    Knobs(block=256, vectors=2, elements=4, adapts=False),
    Knobs(block=512, width=8, adapts=False),
    Knobs(block=256, width=8, adapts=False),
)
#: Ranks that have a kernel of their own; in between, dimensions of size 1 fill up.
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 25)
#: Offsets and item numbers below this use 32-bit arithmetic.
INDEX32_LIMIT = 1 << 31
#: The least size of both dimensions that pays for a tile, and bytes of shared memory that a kernel may
#: declare.
TILE_LEAST = 16
SHARED_BYTES = 48 << 10
#: Bytes of kernel parameters that every device takes.
PARAMETER_BYTES = 4096


def choose(
    layout: Layout,
    itemsizes: Sequence[int],
    addresses: Sequence[int],
    outputs: int,
    *,
    virtual: int = 0,
    value_bytes: int = 0,
    parameter_bytes: int = PARAMETER_BYTES,
    knobs: Knobs = DEFAULT,
    fast_memory: bool = False,
) -> Launch:
    """Choose the kernel for a layout.

    Parameters
    ----------
    layout
        Coalesced shape and byte strides, fastest dimension first, outputs first.
    itemsizes, addresses
        Bytes of an element and base address of each memory operand, outputs first.
    outputs
        How many of the operands are outputs.
    virtual
        How many of the last operands are not in memory (the index): they need no alignment.
    value_bytes
        Bytes of kernel parameters that by-value arguments take.
    parameter_bytes
        Bytes of kernel parameters that the device takes.
    knobs
        What may be tuned.
    fast_memory
        Whether the device moves more bytes a second for each multiprocessor than an H100.

    Raises
    ------
    ArgumentError
        More operands than the kernel's parameter space holds.
    """
    layout, tiled = _find_tile(layout, itemsizes, outputs, len(itemsizes) - virtual)
    size = layout.shape[0]
    modes = [
        "tiled" if k in tiled else _mode(strides[0], itemsize, size)
        for k, (strides, itemsize) in enumerate(zip(layout.strides, itemsizes, strict=True))
    ]
    widths = [
        math.gcd(knobs.width, address, *_stepping(mode, strides))
        for address, strides, mode in zip(addresses, layout.strides, modes, strict=True)
    ]
    contiguous = len(layout.shape) == 1 and all(mode == "unit" for mode in modes)
    real = len(itemsizes) - virtual
    vector = _vector(modes[:real], widths[:real], itemsizes[:real], outputs, size, knobs)
    accesses = tuple(
        Access(mode, min(width, {"unit": vector * itemsize, "tiled": knobs.width}.get(mode, itemsize)))
        for mode, width, itemsize in zip(modes, widths, itemsizes, strict=True)
    )
    even = size % vector == 0
    block, vectors, occupancy = knobs.block, knobs.vectors, 1.0
    if knobs.adapts and not tiled:
        if fast_memory:
            block = FAST_BLOCK
            if contiguous and real - outputs == 1 and max(itemsizes[:real]) < 4:
                vectors = FAST_VECTORS
        elif _streams(layout, itemsizes[:real], modes):
            block, occupancy = STREAM_BLOCK, STREAM_OCCUPANCY
    unroll = knobs.elements if vector == 1 else vectors
    if tiled:
        launch = _tiled(layout, itemsizes, accesses, vector, block)
    elif contiguous:
        grid = -(-size // (block * vector * unroll))
        variant = Variant("contiguous", 1, vector, unroll, accesses, 64, block, even=True)
        launch = Launch(variant, grid, (size,))
    else:
        launch = _strided(layout, itemsizes, accesses, vector, unroll if even else 1, block, even=even)
    launch = launch._replace(occupancy=occupancy)
    needed = len(itemsizes) * 8 + value_bytes + len(launch.extents) * launch.variant.index_bits // 8
    if needed > parameter_bytes:
        raise ArgumentError(
            f"{len(itemsizes)} array operands of {len(layout.shape)} dimensions need {needed} bytes "
            f"of kernel parameters, above the device's {parameter_bytes}; pass fewer, or contiguous ones"
        )
    return launch


def _streams(layout: Layout, itemsizes: Sequence[int], modes: Sequence[str]) -> bool:
    """Whether a kernel reads and writes every byte once, at full width, with few elements a thread.

    Operands that are broadcast or strided are served by the caches, and elements of one or two bytes are
    eight or sixteen to an access, whose arithmetic takes many threads to hide.
    """
    if min(itemsizes) < 4 or any(mode != "unit" for mode in modes):
        return False
    return all(
        stride != 0 or size == 1
        for strides in layout.strides
        for size, stride in zip(layout.shape, strides, strict=True)
    )


def _stepping(mode: str, strides: Sequence[int]) -> Sequence[int]:
    """Return the strides that must keep the alignment of an operand's accesses."""
    if mode == "unit":
        return strides[1:]
    return (strides[0], *strides[2:]) if mode == "tiled" else strides


def _mode(stride: int, itemsize: int, size: int) -> str:
    if stride == itemsize or size == 1:
        return "unit"
    return "fixed" if stride == 0 else "strided"


def _vector(
    modes: Sequence[str],
    widths: Sequence[int],
    itemsizes: Sequence[int],
    outputs: int,
    size: int,
    knobs: Knobs,
) -> int:
    """Elements a thread handles at once: as many as full-width stores of every output take."""
    if any(mode != "unit" for mode in modes[:outputs]):
        return 1
    vector = max(1, min(knobs.width // min(itemsizes), knobs.thread_bytes // max(itemsizes)))
    for width, itemsize in zip(widths[:outputs], itemsizes[:outputs], strict=True):
        if width < min(knobs.width, vector * itemsize):
            vector = max(1, width // itemsize)
    return min(vector, 1 << (size.bit_length() - 1))


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def _strided(
    layout: Layout,
    itemsizes: Sequence[int],
    accesses: tuple[Access, ...],
    vector: int,
    unroll: int,
    block: int,
    *,
    even: bool,
) -> Launch:
    shape, strides = _padded(layout, 1)
    chunks = -(-shape[0] // vector)
    items = chunks * math.prod(shape[1:])
    grid = -(-items // (block * unroll))
    index_bits = _index_bits(shape, strides, itemsizes, grid * block * unroll)
    variant = Variant("strided", len(shape), vector, unroll, accesses, index_bits, block, even)
    return Launch(variant, grid, _extents((items, shape[0]), (chunks, *shape[1:]), strides, index_bits))


def _padded(layout: Layout, least: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return shape and strides with dimensions of size 1 added up to a rank that has a kernel."""
    rank = next(r for r in RANKS if r >= max(len(layout.shape), least))
    pad = rank - len(layout.shape)
    return layout.shape + (1,) * pad, [row + (0,) * pad for row in layout.strides]


def _index_bits(
    shape: Sequence[int], strides: Sequence[Sequence[int]], itemsizes: Sequence[int], items: int
) -> int:
    reach = max(
        sum((n - 1) * abs(s) for n, s in zip(shape, row, strict=True)) + itemsize
        for row, itemsize in zip(strides, itemsizes, strict=True)
    )
    return 32 if max(reach, items) < INDEX32_LIMIT else 64


def _extents(
    header: Sequence[int], steps: Sequence[int], strides: Sequence[Sequence[int]], index_bits: int
) -> tuple[int, ...]:
    """Pack header, a divisor for every dimension but the last, and strides operand by operand."""
    extents = list(header)
    for step in steps[:-1]:
        magic, shift = magic_divisor(step, index_bits)
        extents += [step, _signed(magic, index_bits), shift]
    for row in strides:
        extents += row
    return tuple(extents)


# -------------------------------------------------------------------------------------------- tiles


def _find_tile(
    layout: Layout, itemsizes: Sequence[int], outputs: int, real: int
) -> tuple[Layout, frozenset[int]]:
    """Find inputs whose neighbours lie along another dimension than the outputs'.

    Returns the layout with that dimension second, and which operands to exchange through shared
    memory (none where a tile would not pay).
    """
    nothing: frozenset[int] = frozenset()
    rank, shape = len(layout.shape), layout.shape
    if rank < 2 or shape[0] < TILE_LEAST:
        return layout, nothing
    if any(layout.strides[k][0] != itemsizes[k] for k in range(outputs)):
        return layout, nothing
    along: dict[int, list[int]] = {}
    for k in range(outputs, real):
        row, itemsize = layout.strides[k], itemsizes[k]
        if abs(row[0]) <= itemsize:
            continue
        for d in range(1, rank):
            if row[d] == itemsize and shape[d] >= TILE_LEAST:
                along.setdefault(d, []).append(k)
    if not along:
        return layout, nothing
    second = max(along, key=lambda d: sum(itemsizes[k] for k in along[d]))
    chosen: list[int] = []
    for k in along[second]:
        if _tile_bytes([itemsizes[j] for j in (*chosen, k)]) <= SHARED_BYTES:
            chosen.append(k)
    order = (0, second, *(d for d in range(1, rank) if d != second))
    moved = Layout(
        tuple(shape[d] for d in order),
        tuple(tuple(row[d] for d in order) for row in layout.strides),
        layout.offsets,
    )
    return moved, frozenset(chosen)


def _tile_side(itemsizes: Sequence[int]) -> int:
    return 64 if sum(itemsizes) <= 8 else 32


def _tile_bytes(itemsizes: Sequence[int]) -> int:
    side = _tile_side(itemsizes)
    return sum(side * tile_pitch(side, itemsize) * itemsize for itemsize in itemsizes)


def _tiled(
    layout: Layout, itemsizes: Sequence[int], accesses: tuple[Access, ...], vector: int, block: int
) -> Launch:
    side = _tile_side([n for n, access in zip(itemsizes, accesses, strict=True) if access.mode == "tiled"])
    shape, strides = _padded(layout, 2)
    tiles = tuple(-(-n // side) for n in shape[:2])
    grid = math.prod(tiles) * math.prod(shape[2:])
    index_bits = _index_bits(shape, strides, itemsizes, max(grid, *(side * n for n in tiles)))
    variant = Variant(
        "tiled", len(shape), min(vector, side), 1, accesses, index_bits, block, even=False, tile=side
    )
    return Launch(variant, grid, _extents((grid, *shape[:2]), (*tiles, *shape[2:]), strides, index_bits))
