"""Bytes of by-value arguments, as the launch packs them: for tests of the conversion itself."""

import struct

from numjit.arrays.numbers import chunk_slot, convert, slot_format


def packed(value, dtype):
    """The seam representation of a number, without padding."""
    return chunk_slot(value, dtype)[: dtype.compute.itemsize]


def kernel_slot(value, dtype):
    """A number as kernel parameters: one slot of 8 bytes, two for complex128."""
    return struct.pack(f"={slot_format(dtype)}", *convert(value, dtype))
