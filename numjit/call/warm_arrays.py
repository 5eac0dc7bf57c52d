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

from numjit.arrays.adapters import protocol_reader
from numjit.arrays.allocate import allocator
from numjit.arrays.numpy_arrays import address_of
from numjit.arrays.streams import LEGACY_STREAM, launch_stream, producers
from numjit.arrays.view import CPU, FIRST_ADDRESS
from numjit.call.outputs import is_apart
from numjit.errors import NumjitError
from numjit.runtime.streams import wait_for

if TYPE_CHECKING:
    from numjit.arrays.view import ArrayView
    from numjit.call.record import Plan

__all__ = ["INT64", "NUMBERS", "Seen", "key", "ordered_stream", "run"]

#: Numbers of which the type alone is part of a key; ints too, below this.
INT64 = 1 << 63
NUMBERS = frozenset((bool, float, complex))


class Seen(tuple[Any, ...]):
    """A key, with the views of arrays that it was made of, in order, and whether one names a stream."""

    views: list[ArrayView]
    ordered: bool


def _peek_numpy(array: Any) -> tuple[Any, ...] | None:
    shape, pointer = array.shape, address_of(array)
    # Without dimensions, arrays on the CPU are numbers.
    if not shape or pointer < FIRST_ADDRESS:
        return None
    return "numpy", array.dtype, shape, array.strides, pointer & 15


def _peek_cupy(array: Any) -> tuple[Any, ...] | None:
    memory = array.data
    pointer = memory.ptr
    if pointer < FIRST_ADDRESS:
        return None
    return "cupy", array.dtype, array.shape, array.strides, pointer & 15, memory.device_id


def _peek_output(array: Any) -> tuple[Any, ...] | None:
    """Return what a plan depends on of an array that is to be written; None where it must be read in full."""
    peek, _ = _peeks.get(type(array)) or _peek_of(type(array))
    if peek is None or (peek is _peek_numpy and not array.flags.writeable):
        return None
    return peek(array)


def _address_cupy(array: Any) -> int:
    return array.data.ptr  # type: ignore[no-any-return]


#: What looks at arrays of a type, or, where that takes a protocol, what reads them.
_Looks = tuple[Callable[[Any], "tuple[Any, ...] | None"] | None, Callable[[Any], "ArrayView | None"] | None]
_numpy: _Looks = _peek_numpy, None
_peeks: dict[type, _Looks] = {np.ndarray: _numpy}
#: Types made at run time must not pile up in `_peeks`.
_MOST_PEEKS = 1024


def _not_here(_array: Any) -> None:
    """Answer for everything else."""


def _peek_of(kind: type) -> _Looks:
    reader = protocol_reader(kind)
    found: _Looks = None if reader else _not_here, reader
    if str(kind.__module__).partition(".")[0] == "cupy" and kind is getattr(
        sys.modules.get("cupy"), "ndarray", None
    ):
        found = _peek_cupy, None
    if len(_peeks) >= _MOST_PEEKS:
        _peeks.clear()
        _peeks[np.ndarray] = _numpy
    _peeks[kind] = found
    return found


def key(
    meaning: Any, default_dtype: Any, bound: Sequence[Any], outs: Sequence[Any] | None, *, protocols: bool
) -> tuple[Any, ...] | None:
    """Return the key of a call on arrays of one of the libraries and numbers, or None for any other.

    Parameters
    ----------
    meaning
        What decides the result beside types: the functor's fingerprint, to begin with.
    default_dtype
        torch's, or None where torch is not loaded.
    bound
        One value a parameter.
    outs
        The given outputs, None for one that the call makes; None where it makes them all.
    protocols
        Whether arrays that only speak a protocol are looked at.
    """
    made: list[Any] = [meaning, default_dtype]
    library = None
    views: list[ArrayView] = []
    ordered = False
    for obj in bound:
        kind = type(obj)
        if kind in NUMBERS or (kind is int and -INT64 <= obj < INT64):
            made.append(kind)
            continue
        peek, read = _peeks.get(kind) or _peek_of(kind)
        if peek is not None:
            seen = peek(obj)
        elif read is not None:
            if not views and not (protocols and _all_speak(bound)):
                return None
            try:
                array = read(obj)
            except NumjitError:  # told by the general way
                return None
            if array is None:
                return None
            pointer, dtype, shape, strides, device, name = array[:6]
            ordered = ordered or array.stream is not None
            if not shape and device is CPU:
                return None  # a number
            seen = name, dtype, shape, strides, device, pointer & 15
            views.append(array)
        if seen is None or (library is not None and library != seen[0]):
            return None
        library = seen[0]
        made += seen
    for obj in outs or ():
        if obj is None:
            made.append(None)
            continue
        seen = _peek_output(obj) if not views else None
        if seen is None or seen[0] != library:
            return None
        made += seen
    if not views:
        return tuple(made)
    found = Seen(made)
    found.views, found.ordered = views, ordered
    return found


def _all_speak(bound: Sequence[Any]) -> bool:
    """Whether every array speaks a protocol: none is read that is then read once more."""
    for kind in map(type, bound):
        is_number = kind in NUMBERS or kind is int
        if not is_number and (_peeks.get(kind) or _peek_of(kind))[1] is None:
            return False
    return True


def run(plan: Plan, bound: Sequence[Any], outs: Sequence[Any] | None, key: tuple[Any, ...]) -> Any:
    """Repeat a call of this key: its result, or a tuple of several; None where its outputs may overlap."""
    if plan.allocation is None:
        plan.allocation = _allocation(plan)
    views = key.views if isinstance(key, Seen) else None
    address = address_of if plan.library == "numpy" else _address_cupy
    stream = 0 if plan.runner is not None else _stream(plan, key)
    made = [
        allocate(stream) if outs is None or outs[k] is None else (outs[k], address(outs[k]))
        for k, allocate in enumerate(plan.allocation)
    ]
    pointers = [pointer for _, pointer in made]
    if views is not None:
        pointers += [seen.pointer for seen in views]
    else:
        pointers += [address(bound[k]) for k in plan.memory]
    if plan.reach is not None and not is_apart(plan.reach, pointers):
        return None
    if plan.runner is not None:
        plan.compute(pointers, bound)
    else:
        plan.launch(pointers, bound, stream)
    return made[0][0] if len(made) == 1 else tuple([array for array, _ in made])


def _stream(plan: Plan, key: tuple[Any, ...]) -> int:
    """Return the stream of a call on a GPU, as `ordered_stream` does where arrays name streams."""
    if not isinstance(key, Seen):
        return sys.modules["cupy"].cuda.get_current_stream(plan.device.index).ptr  # type: ignore[no-any-return]
    if not key.ordered and plan.results == "torch":
        return sys.modules["torch"]._C._cuda_getCurrentRawStream(plan.device.index)  # type: ignore[no-any-return]
    if not key.ordered and plan.library == plan.results == "numba":
        return LEGACY_STREAM
    return ordered_stream(key.views, plan.device.index, plan.results)


def ordered_stream(views: Sequence[ArrayView], device_index: int, output_library: str) -> int:
    """Return the stream of a call on a GPU, which runs after what makes the arrays.

    The parameters are those of `numjit.arrays.streams.launch_stream`.
    """
    stream = launch_stream(views, device_index, output_library)
    for producer in producers(views, stream):
        wait_for(stream, producer, device_index)
    return stream


def _allocation(plan: Plan) -> list[Callable[[int], tuple[Any, int]]]:
    """Return what makes each result, with its address."""
    shape, strides, device = plan.shape, plan.strides, plan.device
    if plan.results != "torch":
        return [allocator(plan.results, shape, strides, dtype, device) for dtype in plan.outputs]
    torch = sys.modules["torch"]
    new, where = torch.empty_strided, torch.device(str(device))

    def make(dtype: Any, _stream: int) -> tuple[Any, int]:
        made = new(shape, strides, dtype=dtype, device=where)
        return made, made.data_ptr()

    return [functools.partial(make, getattr(torch, dtype.name)) for dtype in plan.outputs]
