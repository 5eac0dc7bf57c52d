"""Outputs that a call was given: read, and checked before anything is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from numjit.arrays.adapters import writable_view
from numjit.arrays.stated import ADDRESSES
from numjit.arrays.view import ArrayView, Device
from numjit.errors import BroadcastError, DeviceError, OutputError, OverlapError
from numjit.ground.checks import as_tuple
from numjit.semantics import (
    Extent,
    Overlap,
    bounds,
    broadcast_strides,
    can_cast,
    classify,
    has_internal_overlap,
    walk,
)

if TYPE_CHECKING:
    from numjit.call.arguments import Arguments
    from numjit.dtypes import DType

__all__ = ["GivenOutputs", "Reach", "is_apart", "reach_of"]


class GivenOutputs:
    """Reads and checks ``out=`` of one functor's calls.

    Parameters
    ----------
    name, names
        The functor's and its parameters' names, for messages.
    count
        How many outputs it has.
    """

    def __init__(self, name: str, names: Sequence[str], count: int) -> None:
        self._name = name
        self._names = list(names)
        self._count = count
        self._labels = ["out"] if count == 1 else [f"out[{k}]" for k in range(count)]

    def read(self, out: Any) -> list[ArrayView | None]:
        """Return a view of each output that was given, None for those to allocate.

        Raises
        ------
        OutputError, UnsupportedArrayError
            Another number of outputs, or arrays that cannot be written.
        """
        count = self._count
        if out is None:
            return [None] * count
        many = as_tuple(out)
        if len(many) != count:
            wanted = "an array" if count == 1 else f"a tuple of {count} arrays or None"
            raise OutputError(
                f"{self._name}() has {count} output{'s' if count > 1 else ''}; pass out={wanted}"
            )
        return [
            None if given is None else writable_view(given, f"{self._name}(): {label}")
            for given, label in zip(many, self._labels, strict=True)
        ]

    def check_size(self, shape: tuple[int, ...], outputs: Sequence[DType]) -> None:
        """Refuse results that no memory holds, which libraries tell each in words of their own."""
        size = math.prod(shape) * max(dtype.itemsize for dtype in outputs)
        if size >= ADDRESSES >> 1:
            raise BroadcastError(
                f"{self._name}(): a result of shape {shape} has {size} bytes, more than memory holds; pass "
                "smaller operands"
            )

    def check(
        self,
        outs: Sequence[ArrayView | None],
        shape: tuple[int, ...],
        outputs: Sequence[DType],
        device: Device,
    ) -> None:
        """Check what a plan is made for: shape, device, dtype and self-overlap of each given output."""
        for label, given, dtype in zip(self._labels, outs, outputs, strict=True):
            if given is None:
                continue
            where = f"{self._name}(): {label}"
            if tuple(given.shape) != shape:
                raise OutputError(
                    f"{where} has shape {tuple(given.shape)} but the result has shape {shape}; "
                    f"pass an array of shape {shape}"
                )
            if given.device != device:
                raise DeviceError(
                    f"{where} is on {given.device} but the operands are on {device}; move it there"
                )
            if not can_cast(dtype, given.dtype):
                raise OutputError(
                    f"{where} has dtype {given.dtype}, to which a {dtype} result cannot be cast; "
                    f"pass an array of dtype {dtype}"
                )
            extent = _extent(given)
            if has_internal_overlap(extent.shape, extent.strides, extent.itemsize):
                raise OverlapError(
                    f"{where} (shape {shape}, strides {tuple(given.strides)}) holds elements that "
                    "share memory; pass a copy (.clone())"
                )

    def check_overlap(
        self, outs: Sequence[ArrayView | None], shape: tuple[int, ...], arguments: Arguments
    ) -> None:
        """Check what depends on addresses: given outputs against each other and against the inputs."""
        extents: list[tuple[str, Extent]] = []
        for label, given in zip(self._labels, outs, strict=True):
            if given is None or not given.has_memory:
                continue
            extent = _extent(given)
            for other, earlier in extents:
                if classify(earlier, extent) is not Overlap.NONE:
                    raise OverlapError(
                        f"{self._name}(): {label} shares memory with {other}; pass arrays of their own"
                    )
            extents.append((label, extent))
        for name, seen in zip(self._names, arguments.views, strict=True):
            if seen is None or not seen.has_memory:
                continue
            expanded = _extent(seen, shape)
            for label, extent in extents:
                if classify(extent, expanded) is Overlap.PARTIAL:
                    raise OverlapError(
                        f"{self._name}(): {label} shares part of its memory with operand {name!r}; "
                        "pass an array of its own, or exactly that operand"
                    )
        for k, seen in arguments.raws.items():
            for label, extent in extents:
                if seen.has_memory and classify(extent, _extent(seen)) is not Overlap.NONE:
                    raise OverlapError(
                        f"{self._name}(): {label} shares memory with raw operand {self._names[k]!r}, any "
                        "element of which may be read at any time; pass an array of its own"
                    )


class Reach(NamedTuple):
    """The bytes that an array of a call covers, counted from its address.

    Attributes
    ----------
    place
        Of the array's address among those of the call, outputs first.
    low, high
        The first byte, and the one after the last.
    same
        Places of given outputs with the same elements at the same places, so that both may be one array.
    """

    place: int
    low: int
    high: int
    same: frozenset[int] = frozenset()


def reach_of(
    shape: tuple[int, ...], outs: Sequence[ArrayView | None], operands: Sequence[ArrayView | None]
) -> tuple[tuple[Reach, ...], tuple[Reach, ...]]:
    """Return what given outputs and operands reach, for `is_apart`.

    Parameters
    ----------
    shape
        Of the results.
    outs
        Each output, None where the call makes it.
    operands
        Those that the call reads from memory.
    """
    walks: dict[int, tuple[int, list[tuple[int, int]]]] = {}
    given, read = [], []
    for place, seen in enumerate(outs):
        if seen is not None:
            extent = _extent(seen)
            walks[place] = extent.itemsize, walk(extent)
            low, high = bounds(extent)
            given.append(Reach(place, low - seen.pointer, high - seen.pointer))
    for place, seen in enumerate(operands, len(outs)):
        assert seen is not None
        extent = _extent(seen, shape)
        own = extent.itemsize, walk(extent)
        low, high = bounds(extent)
        same = frozenset(k for k, other in walks.items() if other == own)
        read.append(Reach(place, low - seen.pointer, high - seen.pointer, same))
    return tuple(given), tuple(read)


def is_apart(reach: tuple[tuple[Reach, ...], tuple[Reach, ...]], pointers: Sequence[int]) -> bool:
    """Whether a call made before may write its given outputs at these addresses.

    False also stands for arrays between whose bytes others' lie: `GivenOutputs.check_overlap` tells.
    """
    given, read = reach
    for k, out in enumerate(given):
        start = pointers[out.place]
        low, high = start + out.low, start + out.high
        for other in given[:k]:
            address = pointers[other.place]
            if low < address + other.high and address + other.low < high:
                return False
        for other in read:
            address = pointers[other.place]
            meets = low < address + other.high and address + other.low < high
            if meets and (address != start or out.place not in other.same):
                return False
    return True


def _extent(seen: ArrayView, shape: tuple[int, ...] | None = None) -> Extent:
    """Return the memory of an array, expanded to `shape` where one is given."""
    strides = tuple(seen.strides)
    if shape is not None:
        strides = broadcast_strides(shape, tuple(seen.shape), strides)
    itemsize = seen.dtype.itemsize
    return Extent(seen.pointer, shape or tuple(seen.shape), tuple(s * itemsize for s in strides), itemsize)
