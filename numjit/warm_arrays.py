"""The warm path for NumPy and CuPy arrays: what of them a plan depends on, and how a call is repeated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numjit.arrays.allocate import empty

if TYPE_CHECKING:
    from numjit.warm import Entry

__all__ = ["INT64", "LIBRARIES", "NUMBERS", "key", "run"]

#: Libraries whose arrays have a warm path here.
LIBRARIES = frozenset(("numpy", "cupy"))
#: Numbers of which the type alone is part of a key; ints too, below this.
INT64 = 1 << 63
NUMBERS = frozenset((bool, float, complex))


def _peek_numpy(array: Any) -> tuple[Any, ...] | None:
    # Without dimensions, arrays on the CPU are numbers.
    return ("numpy", array.dtype, array.shape, array.strides, array.ctypes.data & 15) if array.shape else None


def _peek_cupy(array: Any) -> tuple[Any, ...] | None:
    memory = array.data
    return "cupy", array.dtype, array.shape, array.strides, memory.ptr & 15, memory.device_id


def _address_numpy(array: Any) -> int:
    return int(array.ctypes.data)


def _address_cupy(array: Any) -> int:
    return int(array.data.ptr)


_peeks: dict[type, Callable[[Any], tuple[Any, ...] | None]] = {np.ndarray: _peek_numpy}


def _peek(kind: type) -> Callable[[Any], tuple[Any, ...] | None] | None:
    found = _peeks.get(kind)
    if found is None and kind.__module__.partition(".")[0] == "cupy":
        cupy = sys.modules.get("cupy")
        if cupy is not None and kind is cupy.ndarray:
            found = _peeks[kind] = _peek_cupy
    return found


def key(fingerprint: str, default_dtype: Any, bound: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the key of a call on arrays of one of the libraries and numbers, or None for any other.

    Parameters
    ----------
    fingerprint
        The functor's.
    default_dtype
        torch's, or None where torch is not loaded.
    bound
        One value a parameter.
    """
    made: list[Any] = [fingerprint, default_dtype]
    library = None
    for obj in bound:
        kind = type(obj)
        if kind in NUMBERS or (kind is int and -INT64 <= obj < INT64):
            made.append(kind)
            continue
        peek = _peek(kind)
        seen = None if peek is None else peek(obj)
        if seen is None or (library is not None and library != seen[0]):
            return None
        library = seen[0]
        made += seen
    return tuple(made)


def run(entry: Entry, bound: Sequence[Any]) -> Any:
    """Repeat a call: its result, or a tuple of several."""
    library = entry.library
    made = [empty(library, entry.shape, entry.strides, dtype, entry.device) for dtype in entry.outputs]
    address = _address_numpy if library == "numpy" else _address_cupy
    pointers = [view.pointer for _, view in made]
    pointers += [address(bound[k]) for k in entry.memory]
    if entry.runner is not None:
        entry.compute(pointers, bound)
    else:
        entry.launch(pointers, bound, _cupy_stream(entry.device_index))
    return made[0][0] if len(made) == 1 else tuple(array for array, _ in made)


def _cupy_stream(device_index: int) -> int:
    cuda = sys.modules["cupy"].cuda
    if cuda.runtime.getDevice() == device_index:
        return int(cuda.get_current_stream().ptr)
    with cuda.Device(device_index):  # CuPy keeps one current stream a device
        return int(cuda.get_current_stream().ptr)
