"""The warm path for NumPy and CuPy arrays: what of them a plan depends on, and how a call is repeated."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numjit.arrays.allocate import empty
from numjit.arrays.numpy_arrays import to_numpy_dtype
from numjit.semantics.strides import contiguous_strides

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
    return array.data.ptr  # type: ignore[no-any-return]


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
    if entry.allocation is None:
        entry.allocation = _allocation(entry)
    made = [allocate() for allocate in entry.allocation]
    pointers = [pointer for _, pointer in made]
    address = _address_numpy if entry.library == "numpy" else _address_cupy
    pointers += [address(bound[k]) for k in entry.memory]
    if entry.runner is not None:
        entry.compute(pointers, bound)
    else:
        current = sys.modules["cupy"].cuda.get_current_stream
        entry.launch(pointers, bound, current(entry.device_index).ptr)
    return made[0][0] if len(made) == 1 else tuple([array for array, _ in made])


def _allocation(entry: Entry) -> list[Callable[[], tuple[Any, int]]]:
    """Return what makes each result, with its address."""
    is_numpy = entry.library == "numpy"
    module = sys.modules[entry.library]
    new: Callable[..., Any] = module.ndarray
    address = _address_numpy if is_numpy else _address_cupy
    here = None if is_numpy else module.cuda.runtime.getDevice
    shape, index = entry.shape, entry.device_index
    is_plain = entry.strides == contiguous_strides(shape)

    def make(dtype: Any, own: Any) -> tuple[Any, int]:
        if is_plain and (here is None or here() == index):  # CuPy allocates on its current device
            array = new(shape, own)
            return array, address(array)
        array, view = empty(entry.library, shape, entry.strides, dtype, entry.device)
        return array, view.pointer

    return [functools.partial(make, dtype, to_numpy_dtype(dtype)) for dtype in entry.outputs]
