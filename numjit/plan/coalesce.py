"""Reduces a broadcast problem to the fewest dimensions that walk the same elements.

Every kernel, on every device, loops over the `Layout` made here: fewer dimensions mean less index math,
and a problem that is contiguous in every operand becomes one dimension whatever its shape.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

from numjit.errors import ArgumentError

__all__ = ["MAX_COALESCED_RANK", "Layout", "coalesce"]

#: The most dimensions that kernels loop over (that of torch's CUDA kernels too: ``MAX_DIMS``).
MAX_COALESCED_RANK = 25


class Layout(NamedTuple):
    """How to walk the operands of one call.

    Attributes
    ----------
    shape
        Sizes, the fastest dimension first. At least one dimension; ``(0,)`` where there are no elements.
    strides
        Per operand (outputs first), bytes between neighbours in each dimension of `shape`; 0 where the
        operand is broadcast.
    offsets
        Per operand, bytes to add to its pointer: not 0 where a dimension is walked backwards.
    """

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def coalesce(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Layout:
    """Return the smallest layout that visits the same tuples of addresses.

    Dimensions of size 1 are dropped; the others are ordered by the magnitude of the first operand's
    stride, ties by the following operands', so that the first output is written in memory order; where no
    operand steps forwards a dimension is walked backwards; and neighbours that every operand steps
    through evenly are merged.

    Parameters
    ----------
    shape
        The broadcast shape, slowest dimension first, as users write it.
    strides
        Per operand (outputs first), byte strides over `shape`, 0 in expanded dimensions.

    Raises
    ------
    ArgumentError
        More than 25 dimensions are left.
    """
    operands = len(strides)
    if 0 in shape:
        return Layout((0,), ((0,),) * operands, (0,) * operands)
    # One row per dimension: its size, then its stride in each operand.
    rows = [row for row in zip(shape, *strides, strict=True) if row[0] != 1]
    if not rows:
        return Layout((1,), ((0,),) * operands, (0,) * operands)
    offsets = [0] * operands
    if min(map(min, rows)) < 0:
        rows = [_forwards(row, offsets) for row in rows]
    # Reversed first: a contiguous output is in order then, and full ties stay last dimension first.
    rows.reverse()
    rows.sort(key=lambda row: tuple(map(abs, row[1:])))
    merged = [rows[0]]
    for row in rows[1:]:
        size, *steps = merged[-1]
        if all(map(operator.eq, row[1:], [step * size for step in steps])):
            merged[-1] = (size * row[0], *steps)
        else:
            merged.append(row)
    if len(merged) > MAX_COALESCED_RANK:
        raise ArgumentError(
            f"the operands of shape {tuple(shape)} need {len(merged)} nested loops, and at most "
            f"{MAX_COALESCED_RANK} are supported; make operands contiguous so that their dimensions merge"
        )
    sizes, *columns = zip(*merged, strict=True)
    return Layout(sizes, tuple(columns), tuple(offsets))


def _forwards(row: tuple[int, ...], offsets: list[int]) -> tuple[int, ...]:
    """Return a dimension that no operand steps forwards in, reversed; add the way to its end to `offsets`."""
    size, *steps = row
    if max(steps) > 0 or min(steps) == 0:
        return row
    for index, step in enumerate(steps):
        offsets[index] += step * (size - 1)
    return (size, *(-step for step in steps))
