"""Reads arrays that speak ``__dlpack__`` (JAX's on a GPU and others), versions 0 and 1, by ctypes.

Layouts and codes: https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h (1.3).
"""

from __future__ import annotations

import ctypes
import operator
from typing import Any

from numjit import dtypes
from numjit.arrays.cuda_interface import library_of
from numjit.arrays.foreign_errors import passes_through, refused
from numjit.arrays.stated import ADDRESSES, MOST_DIMENSIONS, has_elements
from numjit.arrays.view import CPU, FIRST_ADDRESS, ArrayView, Device, cuda
from numjit.dtypes import DType
from numjit.errors import UnsupportedArrayError, UnsupportedDtypeError
from numjit.semantics import contiguous_strides

__all__ = ["device_of", "read"]


class _Tensor(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``; the unversioned ``DLManagedTensor`` begins with its tensor instead."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


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
        return _device(operator.index(device_type), operator.index(device_id))
    except Exception as error:
        if passes_through(error):
            raise
        raise refused(array, "__dlpack_device__", error) from error


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
    ndim, kind = tensor.ndim, tensor.device_type
    if not 0 <= ndim <= MOST_DIMENSIONS:
        raise UnsupportedArrayError(
            f"a DLPack array of {ndim} dimensions is not supported; pass one of at most {MOST_DIMENSIONS}"
        )
    if kind not in (_CPU_DEVICES if device is CPU else _CUDA_DEVICES) or (
        device is not CPU and tensor.device_id != device.index
    ):
        raise UnsupportedArrayError(
            f"__dlpack_device__ says {device} but __dlpack__ gave an array on device type {kind}, number "
            f"{tensor.device_id}; pass an array that says where it is"
        )
    sizes = tensor.shape
    if ndim and not sizes:
        raise UnsupportedArrayError(f"a DLPack array of {ndim} dimensions has no sizes; pass one that has")
    shape = tuple(sizes[:ndim]) if ndim else ()
    strides = tuple(tensor.strides[:ndim]) if ndim and tensor.strides else contiguous_strides(shape)
    dtype = _dtype(tensor)
    pointer = 0
    if has_elements(shape, strides, dtype.itemsize):
        base = tensor.data
        pointer = (base or 0) + tensor.byte_offset
        if pointer < FIRST_ADDRESS:
            raise UnsupportedArrayError(
                f"a {dtype} array of shape {shape} says that its elements are at {pointer:#x} (DLPack); pass "
                "one whose memory was not freed"
            )
        if base is None or pointer >= ADDRESSES:
            raise UnsupportedArrayError("a DLPack array of elements has no address; pass one that has memory")
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
        if passes_through(error):
            raise
        raise refused(array, "__dlpack__", error) from error


def _open(capsule: Any) -> tuple[Any, bool]:
    """Return the tensor inside a capsule and whether it is read-only (unknown counts as no)."""
    if _capsule_is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise UnsupportedArrayError(
                f"DLPack version {managed.major}.{managed.minor} is not known to numjit; "
                "convert the array with its own library first"
            )
        return managed.tensor, bool(managed.flags & _READ_ONLY)
    if _capsule_is_valid(capsule, b"dltensor"):
        return _Tensor.from_address(_capsule_pointer(capsule, b"dltensor")), False
    raise UnsupportedArrayError(
        "__dlpack__ returned no fresh DLPack capsule; pass the array itself, not a used export"
    )


def _dtype(tensor: Any) -> DType:
    found = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if found is None:
        raise UnsupportedDtypeError(
            f"a DLPack array of type code {tensor.code}, {tensor.bits} bits and {tensor.lanes} lanes is not "
            f"supported; use one of {', '.join(d.name for d in dtypes.ALL)}"
        )
    return found
