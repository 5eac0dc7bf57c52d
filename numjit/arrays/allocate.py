"""Makes the arrays that hold results, in the library that the operands came from."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from numjit.arrays.numpy_arrays import address_of, to_numpy_dtype
from numjit.arrays.view import CPU, ArrayView, Device
from numjit.dtypes import DType
from numjit.errors import DeviceError, UnsupportedDtypeError
from numjit.ground.numba_ready import imported
from numjit.semantics import contiguous_strides

__all__ = ["allocator", "empty", "output_library"]

_torch_dtypes: dict[DType, Any] = {}
_torch_devices: dict[Device, Any] = {}


def output_library(views: Iterable[ArrayView]) -> str:
    """Return the library of a call's results: that of the first array operand.

    Operands that only speak a protocol (JAX's too) answer torch tensors where torch is loaded (and, for a
    GPU, built with CUDA); else NumPy arrays on the CPU, and on a GPU CuPy arrays, where CuPy is installed,
    or Numba device arrays. 0-dim CPU arrays count only where nothing else is there, for they are passed by
    value.

    Parameters
    ----------
    views
        The array operands in order; empty for a call without any.
    """
    first = None
    for view in views:
        if first is None or (
            not first.shape and first.device is CPU and (view.shape or view.device is not CPU)
        ):
            first = view
        if first.shape or first.device is not CPU:
            break
    if first is not None and first.library in ("torch", "numpy", "cupy", "numba"):
        return first.library
    on_cpu = first is None or first.device is CPU
    torch = sys.modules.get("torch")
    if torch is not None and (on_cpu or torch.version.cuda is not None):
        return "torch"
    if on_cpu:
        return "numpy"
    return "cupy" if importlib.util.find_spec("cupy") else "numba"


def empty(
    library: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: DType,
    device: Device,
    like: Any = None,
) -> tuple[Any, ArrayView]:
    """Allocate an uninitialised array.

    Parameters
    ----------
    library
        ``"torch"`` (through its caching allocator), ``"numpy"``, ``"cupy"`` or ``"numba"``.
    shape, strides
        Sizes, and strides in elements (none negative).
    dtype
        Type of the stored elements.
    device
        Where.
    like
        A fake tensor: the result is one of the same mode.

    Returns
    -------
    tuple
        The array and its view.

    Raises
    ------
    UnsupportedDtypeError
        The library has no such dtype.
    DeviceError
        The library has no arrays on that device.
    """
    if library == "torch":
        return _empty_torch(shape, strides, dtype, device, like)
    numpy_dtype = to_numpy_dtype(dtype)
    byte_strides = tuple([stride * dtype.itemsize for stride in strides])
    if library == "numpy":
        if device is not CPU:
            raise DeviceError(f"NumPy has no arrays on {device}; pass torch or CuPy arrays, or device='cpu'")
        array = _empty_numpy(shape, byte_strides, numpy_dtype)
        pointer = address_of(array) if array.size else 0
    elif device.kind != "cuda":
        raise DeviceError(f"{library} has no arrays on {device}; pass torch or NumPy arrays")
    elif library == "cupy":
        array, pointer = _empty_cupy(shape, byte_strides, numpy_dtype, device)
    else:
        array, pointer = _empty_numba(shape, byte_strides, numpy_dtype, device)
    return array, ArrayView(pointer, dtype, shape, strides, device, library, array, array)


def _torch_device(torch: Any, device: Device) -> Any:
    found = _torch_devices.get(device)
    if found is None:
        found = _torch_devices[device] = torch.device(str(device))
    return found


def _empty_torch(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType, device: Device, like: Any
) -> tuple[Any, ArrayView]:
    torch = sys.modules["torch"]
    torch_dtype = _torch_dtypes.get(dtype)
    if torch_dtype is None:
        torch_dtype = _torch_dtypes[dtype] = getattr(torch, dtype.name)
    torch_device = _torch_device(torch, device)
    fake = False
    if like is None:
        tensor = torch.empty_strided(shape, strides, dtype=torch_dtype, device=torch_device)
    else:
        tensor = like.new_empty_strided(shape, strides, dtype=torch_dtype, device=torch_device)
        fake = hasattr(like, "fake_mode")
    pointer = 0 if fake else tensor.data_ptr()
    view = ArrayView(
        pointer, dtype, shape, strides, device, "torch", owner=tensor, original=tensor, fake=fake
    )
    return tensor, view


def allocator(
    library: str, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType, device: Device
) -> Callable[[int], tuple[Any, int]]:
    """Return what makes array after array as `empty` does.

    It is called with the stream that will write the array, 0 on the CPU, and answers array and address.

    Parameters
    ----------
    library
        ``"numpy"``, ``"cupy"`` or ``"numba"``.
    shape, strides, dtype, device
        As those of `empty`; there are elements.
    """

    def make(_stream: int) -> tuple[Any, int]:
        array, view = empty(library, shape, strides, dtype, device)
        return array, view.pointer

    if library == "numba" or strides != contiguous_strides(shape):
        return make
    own = to_numpy_dtype(dtype)
    if library == "numpy":

        def make_numpy(_stream: int) -> tuple[Any, int]:
            array = np.ndarray(shape, own)
            return array, address_of(array)

        return make_numpy
    cupy = sys.modules["cupy"]
    new, here = cupy.ndarray, cupy.cuda.runtime.getDevice

    def make_cupy(stream: int) -> tuple[Any, int]:
        if here() != device.index:  # where CuPy allocates
            return make(stream)
        array = new(shape, own)
        return array, array.data.ptr

    return make_cupy


def _extent(shape: tuple[int, ...], byte_strides: tuple[int, ...], itemsize: int) -> int:
    """Return the bytes from the first element to the end of the last; 0 without elements."""
    if 0 in shape:
        return 0
    return itemsize + sum((size - 1) * stride for size, stride in zip(shape, byte_strides, strict=True))


def _empty_numpy(shape: tuple[int, ...], byte_strides: tuple[int, ...], numpy_dtype: Any) -> Any:
    extent = _extent(shape, byte_strides, numpy_dtype.itemsize)
    if extent == math.prod(shape) * numpy_dtype.itemsize:  # dense: NumPy itself allocates such strides
        return np.ndarray(shape, numpy_dtype, strides=byte_strides)
    return np.ndarray(shape, numpy_dtype, np.empty(extent, np.uint8).data, strides=byte_strides)


def _empty_cupy(
    shape: tuple[int, ...], byte_strides: tuple[int, ...], numpy_dtype: Any, device: Device
) -> tuple[Any, int]:
    import cupy

    with cupy.cuda.Device(device.index):
        memory = cupy.cuda.alloc(_extent(shape, byte_strides, numpy_dtype.itemsize))
        try:
            array = cupy.ndarray(shape, numpy_dtype, memory, byte_strides)
        except (TypeError, ValueError) as error:
            raise UnsupportedDtypeError(
                f"CuPy has no {numpy_dtype} arrays ({error}); pass torch tensors"
            ) from error
    return array, int(memory.ptr)


def _empty_numba(
    shape: tuple[int, ...], byte_strides: tuple[int, ...], numpy_dtype: Any, device: Device
) -> tuple[Any, int]:
    cuda = imported("numba.cuda")

    from numjit.runtime.driver import is_current

    with contextlib.nullcontext() if is_current(device.index) else cuda.gpus[device.index]:
        array = cuda.device_array(shape, numpy_dtype, strides=byte_strides)
    return array, int(array.device_ctypes_pointer.value or 0)
