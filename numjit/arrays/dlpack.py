"""Reads arrays that speak ``__dlpack__`` (JAX's on a GPU and others), versions 0 and 1, by ctypes.

Layouts and codes: https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h (1.3).
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from numjit import dtypes
from numjit.arrays.cuda_interface import library_of
from numjit.arrays.view import CPU, ArrayView, Device, cuda
from numjit.dtypes import DType
from numjit.errors import UnsupportedArrayError, UnsupportedDtypeError
from numjit.semantics import contiguous_strides

__all__ = ["device_of", "read"]


# ``DLTensor``: data, device type and number, rank; code, bits and lanes of the dtype; shape, strides, offset.
# Structures of ctypes take three times as long to read.
_TENSOR = struct.Struct("=QiiiBBHQQQ")
#: What comes before it in a ``DLManagedTensorVersioned``: version, manager and deleter, flags.
_VERSIONED = struct.Struct("=II16xQ")
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
_CPU_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost (pinned)
_CUDA_DEVICES = (2, 13)  # kDLCUDA, kDLCUDAManaged
#: (DLDataTypeCode, bits) -> element type
_DTYPES: dict[tuple[int, int], DType] = {
    **{(0, d.bits): d for d in (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)},
    **{(1, d.bits): d for d in (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)},
    **{(2, d.bits): d for d in (dtypes.float16, dtypes.float32, dtypes.float64)},
    (4, 16): dtypes.bfloat16,
    **{(5, d.bits): d for d in (dtypes.complex32, dtypes.complex64, dtypes.complex128)},
    (6, 8): dtypes.bool_,
    (10, 8): dtypes.float8_e4m3fn,
    (12, 8): dtypes.float8_e5m2,
}
# Prototypes of our own: setting argtypes on ctypes.pythonapi's functions would change them for everybody.
_capsule_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def device_of(array: Any) -> Device:
    """Return where an object with ``__dlpack_device__`` has its elements.

    Raises
    ------
    UnsupportedArrayError
        A device that is neither CPU nor CUDA, or a refusal of the producer.
    """
    try:
        device_type, device_id = array.__dlpack_device__()
    except Exception as error:
        raise _refused(array, "__dlpack_device__", error) from error
    return _device(int(device_type), int(device_id))


def read(array: Any, device: Device, stream: int) -> ArrayView:
    """View an array through DLPack.

    Parameters
    ----------
    array
        An object with ``__dlpack__``.
    device
        Where its elements are.
    stream
        Raw handle of the stream on which the elements of a CUDA array are wanted (1 legacy default,
        2 per-thread default, never 0); the producer orders its work before it.

    Returns
    -------
    ArrayView
        Its `owner` is the capsule, which is never renamed: the producer's deleter runs when it dies.

    Raises
    ------
    UnsupportedArrayError
        A refusal of the producer, an unknown DLPack version, misaligned elements.
    UnsupportedDtypeError
        A dtype that numjit has no element type for.
    """
    capsule = _export(array, None if device is CPU else stream)
    tensor, readonly = _open(capsule)
    data, _, _, rank, code, bits, lanes, sizes, steps, offset = tensor
    shape = _numbers(sizes, rank)
    strides = _numbers(steps, rank) if steps else contiguous_strides(shape)
    dtype = _dtype(code, bits, lanes)
    pointer = 0 if 0 in shape else data + offset
    if pointer % (dtype.real.itemsize if device is CPU else dtype.itemsize):
        raise UnsupportedArrayError(f"the elements of a {dtype} array (DLPack) are not aligned; pass a copy")
    library = library_of(type(array)) or "dlpack"
    return ArrayView(
        pointer,
        dtype,
        shape,
        strides,
        device,
        library,
        owner=capsule,
        original=array,
        # Writing a JAX array would change values that JAX takes for constant, whatever its flag says.
        readonly=readonly or library == "jax",
        stream=None if device is CPU else stream,
    )


def _device(device_type: int, device_id: int) -> Device:
    if device_type in _CPU_DEVICES:
        return CPU
    if device_type in _CUDA_DEVICES:
        return cuda(device_id)
    raise UnsupportedArrayError(
        f"an array on DLPack device type {device_type} is not supported; move it to the CPU or to CUDA"
    )


def _export(array: Any, stream: int | None) -> Any:
    """Call ``__dlpack__``, asking for version 1 where the producer knows how to be asked."""
    keywords: dict[str, Any] = {} if stream is None else {"stream": stream}
    try:
        try:
            return array.__dlpack__(max_version=(1, 0), **keywords)
        except TypeError:  # older than DLPack 1.0
            return array.__dlpack__(**keywords)
    except Exception as error:
        raise _refused(array, "__dlpack__", error) from error


def _refused(array: Any, method: str, error: Exception) -> UnsupportedArrayError:
    """Return what to raise: producers raise BufferError, RuntimeError, ValueError and their own."""
    return UnsupportedArrayError(
        f"{type(array).__module__}.{type(array).__qualname__}.{method} refused: {error}; "
        "pass an array that it can export"
    )


def _open(capsule: Any) -> tuple[tuple[int, ...], bool]:
    """Return the fields of the tensor in a capsule, and whether it is read-only (unknown counts as no)."""
    if _capsule_is_valid(capsule, b"dltensor_versioned"):
        address = _capsule_pointer(capsule, b"dltensor_versioned")
        raw = ctypes.string_at(address, _VERSIONED.size + _TENSOR.size)
        major, minor, flags = _VERSIONED.unpack_from(raw)
        if major != 1:
            raise UnsupportedArrayError(
                f"DLPack version {major}.{minor} is not known to numjit; "
                "convert the array with its own library first"
            )
        return _TENSOR.unpack_from(raw, _VERSIONED.size), bool(flags & _READ_ONLY)
    if _capsule_is_valid(capsule, b"dltensor"):
        address = _capsule_pointer(capsule, b"dltensor")
        return _TENSOR.unpack(ctypes.string_at(address, _TENSOR.size)), False
    raise UnsupportedArrayError(
        "__dlpack__ returned no fresh DLPack capsule; pass the array itself, not a used export"
    )


def _numbers(address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"={count}q", ctypes.string_at(address, 8 * count)) if count else ()


def _dtype(code: int, bits: int, lanes: int) -> DType:
    found = _DTYPES.get((code, bits)) if lanes == 1 else None
    if found is None:
        raise UnsupportedDtypeError(
            f"a DLPack array of type code {code}, {bits} bits and {lanes} lanes is not "
            f"supported; use one of {', '.join(d.name for d in dtypes.ALL)}"
        )
    return found
