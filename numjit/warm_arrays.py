"""The warm path for arrays of others than torch: what of them a plan depends on, and how a call is repeated.

NumPy's and CuPy's arrays are looked at for that only. Arrays that speak a protocol are read as in any call,
once: what they say of their elements may order the producer's work before them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numjit.arrays.adapters import speaks_protocol, view
from numjit.arrays.allocate import empty
from numjit.arrays.numpy_arrays import to_numpy_dtype
from numjit.arrays.streams import launch_stream, producers
from numjit.errors import NumjitError
from numjit.semantics.strides import contiguous_strides

if TYPE_CHECKING:
    from numjit.arrays.view import ArrayView
    from numjit.launcher.attach import FastCalls
    from numjit.warm import Entry

__all__ = ["INT64", "NUMBERS", "Seen", "key", "maker", "run"]

#: Numbers of which the type alone is part of a key; ints too, below this.
INT64 = 1 << 63
NUMBERS = frozenset((bool, float, complex))


class Seen(tuple[Any, ...]):
    """A key, and the views of arrays that it was made of, in order."""

    views: list[ArrayView]


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


_Peek = Callable[[Any], "tuple[Any, ...] | None"]
_peeks: dict[type, _Peek] = {np.ndarray: _peek_numpy}
#: Types made at run time must not pile up in `_peeks`.
_MOST_PEEKS = 1024


def _by_protocol(_array: Any) -> None:
    """Mark types that are read by a protocol."""


def _not_here(_array: Any) -> None:
    """Answer for everything else."""


def _peek_of(kind: type) -> _Peek:
    if kind.__module__.partition(".")[0] == "cupy" and kind is getattr(
        sys.modules.get("cupy"), "ndarray", None
    ):
        found: _Peek = _peek_cupy
    else:
        found = _by_protocol if speaks_protocol(kind) else _not_here
    if len(_peeks) >= _MOST_PEEKS:
        _peeks.clear()
        _peeks[np.ndarray] = _peek_numpy
    _peeks[kind] = found
    return found


def key(
    fingerprint: str, default_dtype: Any, bound: Sequence[Any], *, protocols: bool
) -> tuple[Any, ...] | None:
    """Return the key of a call on arrays of one of the libraries and numbers, or None for any other.

    Parameters
    ----------
    fingerprint
        The functor's.
    default_dtype
        torch's, or None where torch is not loaded.
    bound
        One value a parameter.
    protocols
        Whether arrays that only speak a protocol are looked at.
    """
    made: list[Any] = [fingerprint, default_dtype]
    library = None
    views: list[ArrayView] = []
    for obj in bound:
        kind = type(obj)
        if kind in NUMBERS or (kind is int and -INT64 <= obj < INT64):
            made.append(kind)
            continue
        peek = _peeks.get(kind) or _peek_of(kind)
        if peek is not _by_protocol:
            seen = peek(obj)
        else:
            if not views and not (protocols and _all_speak(bound)):
                return None
            try:
                array = view(obj)
            except NumjitError:  # told by the general way
                return None
            if array is None:
                return None
            seen = _of_view(array)
            views.append(array)
        if seen is None or (library is not None and library != seen[0]):
            return None
        library = seen[0]
        made += seen
    if not views:
        return tuple(made)
    found = Seen(made)
    found.views = views
    return found


def _all_speak(bound: Sequence[Any]) -> bool:
    """Whether every array speaks a protocol: none is read that is then read once more."""
    kinds = [kind for kind in map(type, bound) if kind not in NUMBERS and kind is not int]
    return all((_peeks.get(kind) or _peek_of(kind)) is _by_protocol for kind in kinds)


def _of_view(seen: ArrayView) -> tuple[Any, ...] | None:
    if seen.device.kind == "cpu" and not seen.shape:
        return None  # a number
    return seen.library, seen.dtype, seen.shape, seen.strides, seen.device, seen.pointer & 15


def run(entry: Entry, bound: Sequence[Any], key: tuple[Any, ...], fast: FastCalls | None) -> Any:
    """Repeat a call of this key: its result, or a tuple of several; `fast` is offered such calls."""
    if entry.allocation is None:
        entry.allocation = _allocation(entry)
    made = [allocate() for allocate in entry.allocation]
    pointers = [pointer for _, pointer in made]
    views = None
    if isinstance(key, Seen):
        views = key.views
        pointers += [seen.pointer for seen in views]
    else:
        address = _address_numpy if entry.library == "numpy" else _address_cupy
        pointers += [address(bound[k]) for k in entry.memory]
    if entry.runner is not None:
        entry.compute(pointers, bound)
    elif views is None:
        current = sys.modules["cupy"].cuda.get_current_stream
        entry.launch(pointers, bound, current(entry.device_index).ptr)
        if entry.maker is not None and entry.fast is not False and fast is not None and fast.wants(entry):
            entry.fast = fast.offer(bound, None, entry)
    else:
        stream = launch_stream(views, entry.device_index, entry.results)
        for producer in producers(views, stream):
            from numjit.runtime.streams import wait_for

            wait_for(stream, producer, entry.device_index)
        entry.launch(pointers, bound, stream)
    return made[0][0] if len(made) == 1 else tuple([array for array, _ in made])


def _allocation(entry: Entry) -> list[Callable[[], tuple[Any, int]]]:
    """Return what makes each result, with its address."""
    library, shape, index = entry.results, entry.shape, entry.device_index
    if library == "torch":
        torch = sys.modules["torch"]

        def make_tensor(dtype: Any) -> tuple[Any, int]:
            made = torch.empty_strided(shape, entry.strides, dtype=dtype, device=entry.device)
            return made, made.data_ptr()

        return [functools.partial(make_tensor, dtype) for dtype in entry.outputs]
    is_plain = library in ("numpy", "cupy") and entry.strides == contiguous_strides(shape)
    new: Callable[..., Any] = sys.modules[library].ndarray if is_plain else empty
    address = _address_numpy if library == "numpy" else _address_cupy
    here = sys.modules["cupy"].cuda.runtime.getDevice if library == "cupy" else None

    def make(dtype: Any, own: Any) -> tuple[Any, int]:
        if is_plain and (here is None or here() == index):  # CuPy allocates on its current device
            array = new(shape, own)
            return array, address(array)
        array, view = empty(library, shape, entry.strides, dtype, entry.device)
        return array, view.pointer

    return [functools.partial(make, dtype, to_numpy_dtype(dtype)) for dtype in entry.outputs]


def maker(plan: Any) -> tuple[Any, list[tuple[Any, ...]]] | None:
    """Return what makes a plan's results where they are CuPy's, and with which arguments.

    None where these are no arrays in C order.
    """
    if plan.strides != contiguous_strides(plan.shape):
        return None
    return sys.modules["cupy"].ndarray, [(plan.shape, to_numpy_dtype(dtype)) for dtype in plan.outputs]
