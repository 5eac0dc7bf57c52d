"""Whether arrays share memory: what decides if ``out=`` may be written while the inputs are read.

All answers come from addresses alone and are exact: views that interleave without sharing a byte are
told apart from views that overlap. No memory is touched, so device pointers are as good as host ones.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Extent", "Overlap", "bounds", "classify", "has_internal_overlap", "walk"]

# The exact answer is a bounded Diophantine problem, NP-hard in general. NumPy's solver needs a few steps
# for any view that slicing and transposing make; this many take about 10 ms, after which we assume the worst.
_MAX_WORK = 100_000

# Stands in for the address of an array whose own overlap is asked for: any value that keeps sums positive.
_SOME_ADDRESS = 1 << 32


class Overlap(enum.Enum):
    """How the memory of two arrays relates."""

    #: No byte is shared.
    NONE = "none"
    #: Element by element the same memory.
    SAME = "same"
    #: Anything else, and anything too hard to tell.
    PARTIAL = "partial"


class Extent(NamedTuple):
    """The memory of one array.

    Attributes
    ----------
    pointer
        Address of the element at index 0.
    shape
        Sizes.
    strides
        Bytes between neighbours, per dimension; any sign.
    itemsize
        Bytes of one element.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int


def has_internal_overlap(shape: Sequence[int], strides: Sequence[int], itemsize: int = 1) -> bool:
    """Whether two different indices of one array share memory.

    Parameters
    ----------
    shape
        Sizes.
    strides
        Per dimension, in elements if `itemsize` is left at 1, in bytes if it is given in bytes.
    itemsize
        The size of one element in the unit of `strides`.

    Returns
    -------
    bool
        Exact, except that True also stands for a layout too hard to tell (none that torch's or NumPy's
        slicing, transposing or reshaping make).
    """
    if 0 in shape:
        return False
    dims = sorted((abs(stride), size) for size, stride in zip(shape, strides, strict=True) if size > 1)
    extent = itemsize
    for index, (stride, size) in enumerate(dims):
        # A step that clears everything below it cannot bring two elements together.
        if stride < extent and (stride == 0 or _steps_into(dims[:index], stride, size, itemsize)):
            return True
        extent += stride * (size - 1)
    return False


def _steps_into(inner: Sequence[tuple[int, int]], stride: int, size: int, itemsize: int) -> bool:
    """Whether an array over the `inner` dimensions meets a copy of itself 1 to size - 1 strides away."""
    shape = tuple(n for _, n in inner)
    steps = tuple(s for s, _ in inner)
    here = Extent(_SOME_ADDRESS, shape, steps, itemsize)
    there = Extent(_SOME_ADDRESS + stride, (size - 1, *shape), (stride, *steps), itemsize)
    return _share_bytes(here, there)


def classify(a: Extent, b: Extent) -> Overlap:
    """Return how the memory of `a` relates to that of `b`.

    Shapes count as the same if they broadcast to each other without expanding anything, that is, up to
    leading dimensions of size 1. `Overlap.NONE` is never answered for arrays that share a byte.
    """
    if 0 in a.shape or 0 in b.shape:
        return Overlap.NONE
    low_a, high_a = bounds(a)
    low_b, high_b = bounds(b)
    if high_a <= low_b or high_b <= low_a:
        return Overlap.NONE
    if a.pointer == b.pointer and a.itemsize == b.itemsize and walk(a) == walk(b):
        return Overlap.SAME
    return Overlap.PARTIAL if _share_bytes(a, b) else Overlap.NONE


def bounds(extent: Extent) -> tuple[int, int]:
    """Return the lowest address and the one after the highest."""
    low = high = extent.pointer
    for size, stride in zip(extent.shape, extent.strides, strict=True):
        if stride < 0:
            low += stride * (size - 1)
        else:
            high += stride * (size - 1)
    return low, high + extent.itemsize


def walk(extent: Extent) -> list[tuple[int, int]]:
    """Return size and stride of each dimension from the last, up to what has no bearing on addresses."""
    steps = [
        (size, stride if size > 1 else 0)
        for size, stride in zip(reversed(extent.shape), reversed(extent.strides), strict=True)
    ]
    while steps and steps[-1][0] == 1:
        steps.pop()
    return steps


class _Interface:
    """Lets NumPy make an array of a mere address range; NumPy must only do arithmetic on it."""

    def __init__(self, extent: Extent) -> None:
        # Dimensions that add no address are left out: an expanded shape can exceed the address space.
        dims = [
            (size, stride)
            for size, stride in zip(extent.shape, extent.strides, strict=True)
            if size > 1 and stride
        ]
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (extent.pointer, True),
            "shape": tuple(size for size, _ in dims),
            "strides": tuple(stride for _, stride in dims),
            "typestr": f"|V{extent.itemsize}",
        }


def _share_bytes(a: Extent, b: Extent) -> bool:
    """Whether two non-empty extents share a byte, or cannot be told not to within the work allowed."""
    import numpy as np

    try:
        views = [np.asarray(_Interface(extent)) for extent in (a, b)]
    except ValueError:  # more elements than an address space has bytes: surely a self-overlapping array
        return True
    # Unlike shares_memory it answers True, and does not raise, at the bound and where a sum overflows.
    solve: Any = np.may_share_memory  # NumPy's stubs know no max_work but 0 and -1
    return bool(solve(*views, max_work=_MAX_WORK))
