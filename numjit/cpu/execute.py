"""Runs a compiled CPU loop over one layout."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from numjit.cpu.pool import GRAIN, parallel_for

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
        self._layout = (ctypes.addressof(self._shape), ctypes.addressof(self._strides))
        self._moved = any(layout.offsets)

    def __call__(self, pointers: Sequence[int], values: bytes) -> None:
        """Run over all elements.

        Parameters
        ----------
        pointers
            Base addresses, outputs first.
        values
            The by-value arguments in 16-byte slots.
        """
        if self._moved:
            pointers = [p + offset for p, offset in zip(pointers, self._offsets, strict=True)]
        addresses = (ctypes.c_int64 * len(pointers))(*pointers)
        slots = ctypes.create_string_buffer(values, len(values)) if values else None
        function, rank, total = self._function, self._rank, self._total
        places = (ctypes.addressof(addresses), *self._layout, 0 if slots is None else ctypes.addressof(slots))
        if total <= GRAIN:
            function(*places, rank, 0, total)
        else:
            parallel_for(lambda start, stop: function(*places, rank, start, stop), total)
