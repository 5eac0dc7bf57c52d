"""From any array to its `ArrayView`: finds the adapter of a type once and remembers it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from numjit.arrays import cuda_interface, dlpack, numpy_arrays, torch_arrays
from numjit.arrays.foreign_errors import passes_through, refused
from numjit.arrays.streams import dlpack_stream
from numjit.arrays.view import ArrayView
from numjit.errors import NumjitError, OutputError, UnsupportedArrayError, kind_of

__all__ = ["protocol_reader", "view", "writable_view"]

_Reader = Callable[[Any], ArrayView | None]

_readers: dict[type, _Reader] = {}
#: Types made at run time must not pile up in `_readers`.
_MOST_READERS = 1024


def view(obj: Any) -> ArrayView | None:
    """View an array of any library, or return None where `obj` is no array.

    torch tensors are read through their own attributes, then come NumPy arrays, then objects with
    ``__cuda_array_interface__``, then objects with ``__dlpack__``.

    Parameters
    ----------
    obj
        Anything.

    Returns
    -------
    ArrayView or None
        None for numbers, NumPy scalars, strings, lists and everything else that is no array.

    Raises
    ------
    UnsupportedArrayError
        An array that numjit cannot read: sparse, quantised, nested, on a foreign device, ...
    UnsupportedDtypeError
        An array of a dtype that numjit has no element type for.
    """
    reader = _readers.get(type(obj))
    if reader is None:
        reader = _find_reader(type(obj))
    return reader(obj)


def protocol_reader(kind: type) -> _Reader | None:
    """Return what reads arrays of a class by a protocol; None for torch's, NumPy's and what is no array."""
    reader = _readers.get(kind) or _find_reader(kind)
    return reader if reader in _BY_PROTOCOL else None


def writable_view(obj: Any, name: str = "out") -> ArrayView:
    """View an array that a call will write.

    Parameters
    ----------
    obj
        What the user gave for ``out=``.
    name
        How to call it in messages.

    Raises
    ------
    UnsupportedArrayError
        No array, or one that numjit cannot read.
    OutputError
        Read-only memory, elements that are not aligned, a conj or neg bit, or a tensor that requires grad
        while gradients are recorded.
    """
    try:
        seen = view(obj)
    except NumjitError as error:
        raise type(error)(f"{name}: {error}") from error.__cause__
    if seen is None:
        raise UnsupportedArrayError(f"{name} is {kind_of(obj)}, not an array; pass an array or leave it out")
    if seen.readonly:
        raise OutputError(f"{name} is read-only ({seen.library}); pass an array that may be written")
    if seen.copied:
        raise OutputError(
            f"the elements of {name} are not aligned, or its strides are no multiples of "
            f"{seen.dtype.itemsize} bytes; pass an aligned array"
        )
    if seen.conj or seen.neg:
        bit = "conj" if seen.conj else "neg"
        raise OutputError(
            f"{name} has its {bit} bit set: what is stored is not its value; pass a plain tensor and copy"
        )
    if seen.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise OutputError(
            f"{name} requires grad and cannot be written while gradients are recorded; "
            "call under torch.no_grad() or pass out.detach()"
        )
    return seen


def _find_reader(cls: type) -> _Reader:
    reader: _Reader
    torch_reader = torch_arrays.reader(cls)
    if torch_reader is not None:
        reader = torch_reader
    elif issubclass(cls, np.ndarray):
        reader = numpy_arrays.read if cls is np.ndarray else numpy_arrays.read_subclass
    elif issubclass(cls, (np.generic, int, float, complex, str, bytes, list, tuple, dict, type(None))):
        reader = _no_array
    elif cuda_interface.library_of(cls) == "jax":
        reader = _read_jax
    elif cuda_interface.is_numba_array(cls):
        reader = cuda_interface.read_numba
    else:
        reader = _read_by_protocol
    if len(_readers) >= _MOST_READERS:
        _readers.clear()
    _readers[cls] = reader
    return reader


def _no_array(obj: Any) -> None:  # noqa: ARG001 - a reader like the others
    return None


def _read_by_protocol(obj: Any) -> ArrayView | None:
    """View an object that may speak a protocol: asked each time, for some carry it on the instance."""
    protocol = "__cuda_array_interface__"
    try:
        if isinstance(obj, type):
            return None
        # CPU arrays of CuPy-like libraries have the property and raise AttributeError.
        interface = getattr(obj, protocol, None)
        if interface is not None:
            return cuda_interface.read(obj, interface)
        protocol = "__dlpack__"
        return _read_by_dlpack(obj)
    except Exception as error:
        if passes_through(error):
            raise
        raise refused(obj, protocol, error) from error


def _read_by_dlpack(obj: Any) -> ArrayView | None:
    if not hasattr(obj, "__dlpack__") or not hasattr(obj, "__dlpack_device__"):
        return None
    device = dlpack.device_of(obj)
    return dlpack.read(obj, device, dlpack_stream(device))


def _read_jax(obj: Any) -> ArrayView | None:
    """View an array of JAX's, by what is quickest.

    On the CPU that is the NumPy array that JAX makes of its memory. On a GPU it is the interface, as far as
    JAX has one (in C order, none for bfloat16); that says nothing of streams, so elements must be ready. All
    else goes by DLPack, which orders JAX's work before the call's.
    """
    protocol = "__dlpack__"
    try:
        platform = getattr(obj, "platform", None)
        if platform is None:  # a tracer, a key
            return _read_by_dlpack(obj)
        # Of a deleted array platform() crashes; NumPy is told.
        if obj.is_deleted() or platform() == "cpu":
            return numpy_arrays.read(_as_numpy(obj), "jax", obj)
        try:
            interface = obj.__cuda_array_interface__ if obj.is_ready() else None
        except Exception:  # noqa: BLE001 - what JAX raises is its own, and DLPack says what is wrong
            interface = None
        if interface is None:
            return _read_by_dlpack(obj)
        protocol = "__cuda_array_interface__"
        return cuda_interface.read_jax(obj, interface)
    except Exception as error:
        if passes_through(error):
            raise
        raise refused(obj, protocol, error) from error


def _as_numpy(obj: Any) -> Any:
    """Return the NumPy array of JAX's memory."""
    try:
        return np.asarray(obj)
    except Exception as error:
        if passes_through(error):
            raise
        raise UnsupportedArrayError(f"JAX refused: {error}; pass an array that NumPy can view") from error


_BY_PROTOCOL = (_read_by_protocol, _read_by_dlpack, _read_jax, cuda_interface.read_numba)
