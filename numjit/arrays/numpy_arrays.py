"""Reads NumPy arrays, and knows which NumPy dtype stands for which element type."""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from numjit.arrays.view import CPU, FIRST_ADDRESS, ArrayView
from numjit.dtypes import DType, from_name
from numjit.errors import UnsupportedArrayError, UnsupportedDtypeError

__all__ = ["address_of", "from_numpy_dtype", "read", "read_subclass", "to_numpy_dtype"]

_dtypes: dict[Any, DType] = {}
_numpy_dtypes: dict[DType, Any] = {}
_new = tuple.__new__  # a third of the time that the class takes with keywords
_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _find_address_of() -> Callable[[Any], int]:
    """Return what tells an array's address: the first field of its struct, if that is where it is.

    NumPy itself makes an object for each question, which takes several times as long.
    """
    word, place = ctypes.c_size_t.from_address, object.__basicsize__
    if sys.implementation.name == "cpython":
        probes = [np.empty(n) for n in (3, 1000)]
        if all(word(id(probe) + place).value == probe.ctypes.data for probe in probes):
            return lambda array: word(id(array) + place).value
    return lambda array: int(array.ctypes.data)


#: Returns the address of an array's element at index 0.
address_of = _find_address_of()


def from_numpy_dtype(dtype: Any) -> DType:
    """Return the element type that a NumPy dtype (ml_dtypes' included) stands for.

    Raises
    ------
    UnsupportedDtypeError
        There is none, or the bytes are not in the machine's order.
    """
    found = _dtypes.get(dtype)
    if found is None:
        if not dtype.isnative:
            raise UnsupportedDtypeError(
                f"an array of dtype {dtype} is not in the machine's byte order; "
                "use x.astype(x.dtype.newbyteorder('='))"
            )
        try:
            found = _dtypes[dtype] = from_name(dtype.name)
        except UnsupportedDtypeError as error:
            raise UnsupportedDtypeError(f"an array of {error}") from None
    return found


def to_numpy_dtype(dtype: DType) -> Any:
    """Return the NumPy dtype for an element type: ml_dtypes' for bfloat16 and float8.

    Raises
    ------
    UnsupportedDtypeError
        NumPy has none, or ml_dtypes is not installed.
    """
    found = _numpy_dtypes.get(dtype)
    if found is None:
        if dtype.name == "complex32":
            raise UnsupportedDtypeError(
                "NumPy has no complex32 for the result; convert an operand to complex64"
            )
        if dtype.name in _ML_DTYPES:
            try:
                ml_dtypes = importlib.import_module("ml_dtypes")
            except ImportError:
                raise UnsupportedDtypeError(
                    f"NumPy has no {dtype}, so no NumPy array can hold the result; pass torch tensors, "
                    "or install ml_dtypes"
                ) from None
            found = np.dtype(getattr(ml_dtypes, dtype.name))
        else:
            found = np.dtype(dtype.name)
        _numpy_dtypes[dtype] = found
    return found


def read(array: Any, library: str = "numpy", original: Any = None) -> ArrayView:
    """View a NumPy array.

    An array whose strides are no multiples of the element size, or whose elements are not aligned, is
    viewed through an aligned copy (`ArrayView.copied`).

    Parameters
    ----------
    array
        The array.
    library, original
        Another library, and its array that is seen as this one; that must not be written.

    Raises
    ------
    UnsupportedDtypeError
        A dtype that numjit has no element type for, or foreign byte order.
    """
    dtype = from_numpy_dtype(array.dtype)
    shape, byte_strides, itemsize = array.shape, array.strides, dtype.itemsize
    owner = array
    flags = array.flags
    odd = not flags.aligned or (not flags.forc and _has_odd_stride(byte_strides, shape, itemsize))
    if odd and array.size:
        owner = array.copy()
    pointer = address_of(owner) if array.size else 0
    if pointer < FIRST_ADDRESS and array.size:
        raise UnsupportedArrayError(
            f"an array of shape {shape} has its elements at {pointer:#x}; pass one whose memory was not freed"
        )
    strides = _element_strides(owner.strides, itemsize)
    readonly = library != "numpy" or not flags.writeable
    return _new(
        ArrayView,
        (
            pointer, dtype, shape, strides, CPU, library, owner, array if original is None else original,
            False, False, readonly, False, False, owner is not array, None,
        ),
    )  # fmt: skip


def read_subclass(array: Any) -> ArrayView:
    """View an array of a class of others, past its own attributes.

    Raises
    ------
    UnsupportedArrayError
        A masked array.
    UnsupportedDtypeError
        As `read`.
    """
    if _is_masked(array):
        raise UnsupportedArrayError("masked arrays are not supported; use x.filled(value)")
    return read(np.ndarray.view(array, np.ndarray), original=array)


@functools.lru_cache(1024)
def _element_strides(byte_strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple([stride // itemsize for stride in byte_strides])


def _has_odd_stride(byte_strides: tuple[int, ...], shape: tuple[int, ...], itemsize: int) -> bool:
    return any(stride % itemsize and size > 1 for stride, size in zip(byte_strides, shape, strict=True))


def _is_masked(array: Any) -> bool:
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(array, masked.MaskedArray)
