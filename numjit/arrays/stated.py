"""Checks of what a protocol states of an array's layout: what cannot be would be read all the same."""

from __future__ import annotations

import functools

from numjit.errors import UnsupportedArrayError

__all__ = ["ADDRESSES", "MOST_DIMENSIONS", "MOST_ELEMENTS", "has_elements"]

#: torch's and NumPy's limit.
MOST_DIMENSIONS = 64
#: What a 64-bit signed integer counts.
MOST_ELEMENTS = (1 << 63) - 1
#: How many addresses there are.
ADDRESSES = 1 << 64
_MOST_BYTES = 1 << 63


@functools.lru_cache(1024)
def has_elements(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Return whether an array has elements.

    Parameters
    ----------
    shape, strides
        As the protocol states them, strides in elements.
    itemsize
        Bytes of an element.

    Raises
    ------
    UnsupportedArrayError
        Too many dimensions, another number of strides, a negative size, or more bytes than memory has.
    """
    if len(shape) > MOST_DIMENSIONS:
        raise UnsupportedArrayError(
            f"an array of {len(shape)} dimensions is not supported; pass one of at most {MOST_DIMENSIONS}"
        )
    if len(strides) != len(shape):
        raise UnsupportedArrayError(
            f"an array states {len(shape)} sizes but {len(strides)} strides; pass one that states one a size"
        )
    if any(size < 0 for size in shape):
        raise UnsupportedArrayError(f"an array states the sizes {shape}; pass one without negative sizes")
    if 0 in shape:
        return False
    reach = itemsize * (1 + sum((size - 1) * abs(step) for size, step in zip(shape, strides, strict=True)))
    if reach > _MOST_BYTES:
        raise UnsupportedArrayError(
            f"an array states sizes {shape} and strides {strides}, {reach} bytes; pass one that is in memory"
        )
    return True
