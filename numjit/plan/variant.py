"""Which kernel a layout gets: the compile-time choices, and the numbers passed at launch."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Access", "Launch", "Variant", "magic_divisor", "tile_pitch"]


class Access(NamedTuple):
    """How one memory operand is reached along the inner dimension.

    `mode` is ``"unit"`` (neighbours in memory), ``"fixed"`` (one element for the whole row),
    ``"strided"``, or ``"tiled"`` (neighbours along the other dimension of a tile, exchanged through
    shared memory); `width` is the bytes of the widest access that base and outer strides allow.
    """

    mode: str
    width: int

    def __str__(self) -> str:
        return f"{self.mode[0]}{self.width}"


class Variant(NamedTuple):
    """Everything about the layout that a kernel is specialised on; never sizes or strides.

    Attributes
    ----------
    kind
        ``"contiguous"`` (one dimension, every operand unit), ``"strided"``, or ``"tiled"`` (blocks of
        the first two dimensions).
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
    tile
        Side of a tile; 0 where there are none.
    """

    kind: str
    rank: int
    vector: int
    unroll: int
    accesses: tuple[Access, ...]
    index_bits: int
    block: int
    even: bool
    tile: int = 0

    @property
    def header(self) -> int:
        """How many extents come before the divisors: count and inner sizes."""
        return {"contiguous": 1, "strided": 2, "tiled": 3}[self.kind]

    @property
    def extent_count(self) -> int:
        """How many integers follow pointers and values."""
        if self.kind == "contiguous":
            return 1
        return self.header + 3 * (self.rank - 1) + len(self.accesses) * self.rank

    def __str__(self) -> str:
        shown = ".".join(map(str, self.accesses))
        edge = "" if self.even else "+edge"
        lanes = f"v{self.vector}x{self.unroll}{edge}"
        tile = f".t{self.tile}" if self.tile else ""
        return f"{self.kind}{self.rank}d.{lanes}{tile}.i{self.index_bits}.b{self.block}.{shown}"


class Launch(NamedTuple):
    """One layout's kernel variant, grid size and the integers that follow pointers and values.

    `occupancy` is the part of a multiprocessor's threads that should be resident at most.
    """

    variant: Variant
    grid: int
    extents: tuple[int, ...]
    occupancy: float = 1.0


def magic_divisor(divisor: int, bits: int = 32) -> tuple[int, int]:
    """Return ``(magic, shift)`` with ``n // divisor == (mulhi(n, magic) + n) >> shift``, n < 2**(bits - 1).

    Granlund and Montgomery's round-up method, as ATen's ``IntDivider`` has it; `magic` is below
    2**bits. (CUDA's own 64-bit division is a function call of some 70 instructions.)
    """
    shift = (divisor - 1).bit_length()
    return ((1 << bits) * ((1 << shift) - divisor)) // divisor + 1, shift


def tile_pitch(side: int, itemsize: int) -> int:
    """Elements from one row of a tile in shared memory to the next: padded to an odd number of words."""
    return side + max(1, 4 // itemsize)
