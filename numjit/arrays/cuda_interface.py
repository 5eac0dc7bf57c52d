"""Reads arrays that speak ``__cuda_array_interface__`` (versions 2 and 3): CuPy, Numba and others.

Specification: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from typing import Any

import numpy as np

from numjit.arrays.numpy_arrays import from_numpy_dtype
from numjit.arrays.stated import ADDRESSES, has_elements
from numjit.arrays.view import FIRST_ADDRESS, ArrayView, Device, cuda
from numjit.dtypes import DType
from numjit.errors import DeviceError, UnsupportedArrayError, UnsupportedDtypeError
from numjit.semantics import contiguous_strides

__all__ = ["is_numba_array", "library_of", "read", "read_jax", "read_numba"]

_VERSIONS = (2, 3)
_index = operator.index
_LIBRARIES = {"cupy": "cupy", "numba": "numba", "numba_cuda": "numba", "jax": "jax", "jaxlib": "jax"}


def library_of(cls: type) -> str:
    """Return the library of an array class by its module: ``"cupy"``, ``"numba"``, ``"jax"`` or ``""``."""
    return _library_in(str(getattr(cls, "__module__", "")))


@functools.lru_cache(1024)
def _library_in(module: str) -> str:
    return _LIBRARIES.get(module.partition(".")[0], "")


def read(array: Any, interface: dict[str, Any]) -> ArrayView:
    """View an array through its ``__cuda_array_interface__``.

    Parameters
    ----------
    array
        The object.
    interface
        Its ``__cuda_array_interface__``, got once (making it may cost a synchronisation).

    Raises
    ------
    UnsupportedArrayError
        A mask, strides that are no multiples of the element size, misaligned elements, or a pointer that
        leads to no CUDA memory.
    UnsupportedDtypeError
        A ``typestr`` that numjit has no element type for.
    """
    if interface.get("mask") is not None:
        raise UnsupportedArrayError(
            "arrays with a mask (__cuda_array_interface__) are not supported; fill the masked elements first"
        )
    if interface["version"] not in _VERSIONS:
        raise UnsupportedArrayError(
            f"__cuda_array_interface__ of version {interface['version']!r} is not known to numjit; convert "
            "the array with its own library first"
        )
    pointer, readonly = interface["data"]
    strides = interface.get("strides")
    return _view(
        array,
        library_of(type(array)) or "interface",
        _index(pointer or 0),
        interface["typestr"],
        tuple(map(_index, interface["shape"])),
        None if strides is None else tuple(map(_index, strides)),
        _stream(interface),
        readonly=bool(readonly),
    )


def read_jax(array: Any, interface: dict[str, Any]) -> ArrayView:
    """View an array of JAX's through its interface, which says nothing of streams.

    Raises
    ------
    UnsupportedArrayError, UnsupportedDtypeError
        As `read`.
    """
    pointer = interface["data"][0] or 0
    shape, strides = interface["shape"], interface.get("strides")
    return _view(array, "jax", pointer, interface["typestr"], shape, strides, None, readonly=True)


def is_numba_array(cls: type) -> bool:
    """Whether a class is Numba's own of arrays on a device, which `read_numba` reads."""
    module = sys.modules.get("numba.cuda.cudadrv.devicearray")
    return module is not None and cls is module.DeviceNDArray


def read_numba(array: Any) -> ArrayView:
    """View an array of Numba's by its attributes.

    Its interface takes longer, and calls arrays contiguous that repeat their elements by strides of 0.

    Raises
    ------
    UnsupportedArrayError, UnsupportedDtypeError
        As `read`.
    """
    stream = array.stream
    return _view(
        array,
        "numba",
        array.device_ctypes_pointer.value or 0,
        array.dtype.str,
        array.shape,
        array.strides,
        int(stream) if stream else None,
    )


def _view(
    array: Any,
    library: str,
    pointer: int,
    typestr: str,
    shape: tuple[int, ...],
    byte_strides: tuple[int, ...] | None,
    stream: int | None,
    *,
    readonly: bool = False,
) -> ArrayView:
    dtype, strides, filled = _layout(typestr, shape, byte_strides)
    if not filled:
        pointer = 0
    elif pointer < FIRST_ADDRESS:
        raise UnsupportedArrayError(
            f"a {dtype} array of shape {tuple(shape)} says that its elements are at {pointer:#x} "
            "(__cuda_array_interface__); pass one whose memory was not freed"
        )
    elif pointer >= ADDRESSES:
        raise UnsupportedArrayError(
            f"__cuda_array_interface__ states elements of shape {shape} at address {pointer:#x}; pass an "
            "array that has memory"
        )
    elif pointer % dtype.itemsize:
        raise UnsupportedArrayError(
            f"the elements of a {dtype} array at {pointer:#x} (__cuda_array_interface__) are not aligned to "
            f"{dtype.itemsize} bytes; pass a copy"
        )
    return ArrayView(
        pointer, dtype, shape, strides, _device(array, library, pointer), library, array, array,
        False, False, readonly, False, False, False, stream,
    )  # fmt: skip


@functools.lru_cache(1024)
def _layout(
    typestr: str, shape: tuple[int, ...], byte_strides: tuple[int, ...] | None
) -> tuple[DType, tuple[int, ...], bool]:
    """Return dtype, strides in elements, and whether there are elements."""
    dtype = _dtype(typestr)
    if byte_strides is not None:  # their number, and negative sizes
        has_elements(shape, byte_strides, 1)
    strides = _element_strides(byte_strides, shape, dtype)
    return dtype, strides, has_elements(shape, strides, dtype.itemsize)


def _dtype(typestr: str) -> DType:
    if "V" in typestr:
        raise UnsupportedDtypeError(
            f"__cuda_array_interface__ with typestr {typestr!r} does not say what it holds (bfloat16?); "
            "pass the array through DLPack: torch.from_dlpack(x)"
        )
    return from_numpy_dtype(np.dtype(typestr))


def _element_strides(
    byte_strides: tuple[int, ...] | None, shape: tuple[int, ...], dtype: DType
) -> tuple[int, ...]:
    if byte_strides is None:
        return contiguous_strides(shape)
    moving = math.prod(shape) > 0
    strides = []
    for size, stride in zip(shape, byte_strides, strict=True):
        if stride % dtype.itemsize and size > 1 and moving:
            raise UnsupportedArrayError(
                f"byte strides {tuple(byte_strides)} of a {dtype} array (__cuda_array_interface__) are no "
                f"multiples of its {dtype.itemsize}-byte elements; pass a contiguous copy"
            )
        strides.append(stride // dtype.itemsize)
    return tuple(strides)


def _stream(interface: dict[str, Any]) -> int | None:
    stream = interface.get("stream")
    if stream == 0:
        raise UnsupportedArrayError(
            "__cuda_array_interface__ says stream 0, which its specification forbids as ambiguous; "
            "the producer must say 1 (legacy default) or 2 (per-thread default)"
        )
    if stream is None:
        return None
    found = _index(stream)
    if not 0 < found < ADDRESSES:
        raise UnsupportedArrayError(
            f"__cuda_array_interface__ says stream {found}, which is none; the producer must say 1, 2 or the "
            "handle of a stream"
        )
    return found


@functools.cache
def _devices() -> Any:
    from numjit.runtime import devices

    return devices


def _device(array: Any, library: str, pointer: int) -> Device:
    """Find the device: the interface does not say it."""
    if library == "cupy":
        return cuda(int(array.device.id))
    if not pointer:
        return cuda(0)
    devices = _devices()
    try:
        if library == "jax" and devices.has_one_device():
            return cuda(0)
        return cuda(devices.pointer_device(pointer))
    except DeviceError:  # no GPU here: the call says so when it comes to launching
        return cuda(0)
