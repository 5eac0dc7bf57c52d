"""Runs a compiled CPU loop over one layout."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from numjit.cpu.pool import parallel_for

if TYPE_CHECKING:
    from numjit.cpu.chunk import HostChunk
    from numjit.plan.coalesce import Layout

__all__ = ["ChunkRunner"]

_PROTOTYPE = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int64,
)


class ChunkRunner:
    """A loop bound to one layout: takes pointers and values, returns when every element is written."""

    def __init__(self, chunk: HostChunk, layout: Layout) -> None:
        self._chunk = chunk  # owns the code
        self._function = _PROTOTYPE(chunk.address)
        self._rank = layout.rank
        self._total = layout.numel
        self._offsets = layout.offsets
        self._shape = (ctypes.c_int64 * layout.rank)(*layout.shape)
        flat = [stride for row in layout.strides for stride in row]
        self._strides = (ctypes.c_int64 * len(flat))(*flat)

    def __call__(self, pointers: Sequence[int], values: bytes) -> None:
        """Run over all elements.

        Parameters
        ----------
        pointers
            Base addresses, outputs first.
        values
            The by-value arguments in 16-byte slots.
        """
        moved = [pointer + offset for pointer, offset in zip(pointers, self._offsets, strict=True)]
        addresses = (ctypes.c_int64 * len(moved))(*moved)
        slots = ctypes.create_string_buffer(values, len(values) or 1)
        function, shape, strides, rank = self._function, self._shape, self._strides, self._rank

        def run(start: int, stop: int) -> None:
            function(
                ctypes.addressof(addresses), ctypes.addressof(shape), ctypes.addressof(strides),
                ctypes.addressof(slots), rank, start, stop,
            )  # fmt: skip

        parallel_for(run, self._total)
