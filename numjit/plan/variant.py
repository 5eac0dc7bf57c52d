"""Which kernel a layout gets: the compile-time choices, and the numbers passed at launch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from numjit.errors import ArgumentError
from numjit.plan.coalesce import Layout

__all__ = ["Access", "Launch", "Variant", "choose", "magic_divisor"]

#: Bytes of one access at most (LDG.E.128).
MAX_WIDTH = 16
#: Bytes that one thread moves per operand and step at most; keeps mixed dtypes within the registers.
MAX_THREAD_BYTES = 64
#: Threads of a block.
BLOCK = 128
#: Vectors a thread handles in one step.
UNROLL_VECTOR = 2
UNROLL_ELEMENT = 4
#: Ranks that have a kernel of their own; in between, dimensions of size 1 fill up.
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 25)
#: Offsets and item numbers below this use 32-bit arithmetic.
INDEX32_LIMIT = 1 << 31
#: Bytes of kernel parameters that every device takes.
PARAMETER_SPACE = 4096


@dataclasses.dataclass(frozen=True)
class Access:
    """How one memory operand is reached along the inner dimension.

    `mode` is ``"unit"`` (neighbours in memory), ``"fixed"`` (one element for the whole row) or
    ``"strided"``; `width` is the bytes of the widest access that base and outer strides allow.
    """

    mode: str
    width: int

    def __str__(self) -> str:
        return f"{self.mode[0]}{self.width}"


@dataclasses.dataclass(frozen=True)
class Variant:
    """Everything about the layout that a kernel is specialised on; never sizes or strides.

    Attributes
    ----------
    kind
        ``"contiguous"`` (one dimension, every operand unit) or ``"strided"``.
    rank
        Dimensions, one of `RANKS`.
    vector
        Neighbouring elements that one thread handles in a step.
    unroll
        Steps of a thread whose loads are all issued before the first use.
    accesses
        One `Access` per memory operand, outputs first.
    index_bits
        32 where every element number and byte offset fits, else 64.
    block
        Threads of a block.
    even
        Whether the inner size is a multiple of `vector`.
    """

    kind: str
    rank: int
    vector: int
    unroll: int
    accesses: tuple[Access, ...]
    index_bits: int
    block: int
    even: bool

    def __str__(self) -> str:
        shown = ".".join(map(str, self.accesses))
        edge = "" if self.even else "+edge"
        lanes = f"v{self.vector}x{self.unroll}{edge}"
        return f"{self.kind}{self.rank}d.{lanes}.i{self.index_bits}.b{self.block}.{shown}"


@dataclasses.dataclass(frozen=True)
class Launch:
    """One layout's kernel variant, grid size and the integers that follow pointers and values."""

    variant: Variant
    grid: int
    extents: tuple[int, ...]


def magic_divisor(divisor: int, bits: int = 32) -> tuple[int, int]:
    """Return ``(magic, shift)`` with ``n // divisor == (mulhi(n, magic) + n) >> shift`` for n < 2**(bits - 1).

    Granlund and Montgomery's round-up method, as ATen's ``IntDivider`` has it; `magic` is below
    2**bits. (CUDA's own 64-bit division is a function call of some 70 instructions.)
    """
    shift = (divisor - 1).bit_length()
    return ((1 << bits) * ((1 << shift) - divisor)) // divisor + 1, shift


def choose(
    layout: Layout,
    itemsizes: Sequence[int],
    addresses: Sequence[int],
    outputs: int,
    *,
    value_bytes: int = 0,
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
    value_bytes
        Bytes of kernel parameters that by-value arguments take.

    Raises
    ------
    ArgumentError
        More operands than the kernel's parameter space holds.
    """
    size = layout.shape[0]
    modes = [
        _mode(strides[0], itemsize, size) for strides, itemsize in zip(layout.strides, itemsizes, strict=True)
    ]
    widths = [
        math.gcd(MAX_WIDTH, address, *(strides[1:] if mode == "unit" else strides))
        for address, strides, mode in zip(addresses, layout.strides, modes, strict=True)
    ]
    contiguous = len(layout.shape) == 1 and all(mode == "unit" for mode in modes)
    vector = _vector(modes, widths, itemsizes, outputs, size)
    accesses = tuple(
        Access(mode, min(width, (vector if mode == "unit" else 1) * itemsize))
        for mode, width, itemsize in zip(modes, widths, itemsizes, strict=True)
    )
    even = size % vector == 0
    unroll = UNROLL_ELEMENT if vector == 1 else UNROLL_VECTOR
    if contiguous:
        grid = -(-size // (BLOCK * vector * unroll))
        variant = Variant("contiguous", 1, vector, unroll, accesses, 64, BLOCK, even=True)
        launch = Launch(variant, grid, (size,))
    else:
        launch = _strided(layout, itemsizes, accesses, vector, unroll if even else 1, even=even)
    needed = len(itemsizes) * 8 + value_bytes + len(launch.extents) * launch.variant.index_bits // 8
    if needed > PARAMETER_SPACE:
        raise ArgumentError(
            f"{len(itemsizes)} array operands of {len(layout.shape)} dimensions need {needed} bytes "
            f"of kernel parameters, above CUDA's {PARAMETER_SPACE}; pass fewer operands, or contiguous ones"
        )
    return launch


def _mode(stride: int, itemsize: int, size: int) -> str:
    if stride == itemsize or size == 1:
        return "unit"
    return "fixed" if stride == 0 else "strided"


def _vector(
    modes: Sequence[str], widths: Sequence[int], itemsizes: Sequence[int], outputs: int, size: int
) -> int:
    """Elements a thread handles at once: as many as full-width stores of every output take."""
    if any(mode != "unit" for mode in modes[:outputs]):
        return 1
    vector = max(1, min(MAX_WIDTH // min(itemsizes), MAX_THREAD_BYTES // max(itemsizes)))
    for width, itemsize in zip(widths[:outputs], itemsizes[:outputs], strict=True):
        if width < min(MAX_WIDTH, vector * itemsize):
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
    *,
    even: bool,
) -> Launch:
    rank = next(r for r in RANKS if r >= len(layout.shape))
    pad = rank - len(layout.shape)
    shape = layout.shape + (1,) * pad
    strides = [s + (0,) * pad for s in layout.strides]
    chunks = -(-shape[0] // vector)
    items = chunks * math.prod(shape[1:])
    reach = max(
        sum((n - 1) * abs(s) for n, s in zip(shape, row, strict=True)) + itemsize
        for row, itemsize in zip(strides, itemsizes, strict=True)
    )
    block = BLOCK
    grid = -(-items // (block * unroll))
    index_bits = 32 if max(reach, grid * block * unroll) < INDEX32_LIMIT else 64
    extents = [items, shape[0]]
    for extent in (chunks, *shape[1:-1])[: rank - 1]:
        magic, shift = magic_divisor(extent, index_bits)
        extents += [extent, _signed(magic, index_bits), shift]
    for row in strides:
        extents += row
    variant = Variant("strided", rank, vector, unroll, accesses, index_bits, block, even)
    return Launch(variant, grid, tuple(extents))
