"""The driver's own library by ctypes: the few functions that running a kernel takes.

It comes with the driver, so it is there wherever a GPU is, and loading it costs nothing once torch has. The
module ``cuda.bindings.driver`` would do the same; importing it takes 30 ms, three times what the first call
of a process may, and torch does so itself only in later versions.

Functions are those of the CUDA Driver API (https://docs.nvidia.com/cuda/cuda-driver-api) under their names
there, and answer as in ``cuda.bindings``: ``(code, *results)``. Handles and codes are integers.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from numjit.errors import ToolchainError
from numjit.ground.foreign import HANDLE, CLibrary, Result

__all__ = ["DEVICE_ATTRIBUTES", "FUNCTION_ATTRIBUTES", "DriverLibrary"]

#: ``CUfunction_attribute``, by name.
FUNCTION_ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 0,
    "SHARED_SIZE_BYTES": 1,
    "CONST_SIZE_BYTES": 2,
    "LOCAL_SIZE_BYTES": 3,
    "NUM_REGS": 4,
    "PTX_VERSION": 5,
    "BINARY_VERSION": 6,
    "MAX_DYNAMIC_SHARED_SIZE_BYTES": 8,
}
#: ``CUdevice_attribute``, by name.
DEVICE_ATTRIBUTES = {
    "MULTIPROCESSOR_COUNT": 16,
    "MEMORY_CLOCK_RATE": 36,
    "GLOBAL_MEMORY_BUS_WIDTH": 37,
    "L2_CACHE_SIZE": 38,
    "MAX_THREADS_PER_MULTIPROCESSOR": 39,
    "COMPUTE_CAPABILITY_MAJOR": 75,
    "COMPUTE_CAPABILITY_MINOR": 76,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 81,
    "RESERVED_SHARED_MEMORY_PER_BLOCK": 111,
}

_int, _uint, _float = ctypes.c_int, ctypes.c_uint, ctypes.c_float
_size, _text = ctypes.c_size_t, ctypes.c_char_p
_address = ctypes.c_void_p

#: Function -> its parameters in C.
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_uint,),
    "cuDriverGetVersion": (Result(_int),),
    "cuDeviceGetCount": (Result(_int),),
    "cuDeviceGet": (Result(_int), _int),
    "cuDeviceGetAttribute": (Result(_int), _int, _int),
    "cuDeviceTotalMem": (Result(_size), _int),
    "cuDevicePrimaryCtxRetain": (Result(HANDLE), _int),
    "cuCtxGetCurrent": (Result(HANDLE),),
    "cuCtxGetDevice": (Result(_int),),
    "cuCtxPushCurrent": (_address,),
    "cuCtxPopCurrent": (Result(HANDLE),),
    "cuPointerGetAttribute": (Result(_int), _int, HANDLE),
    "cuLibraryUnload": (_address,),
    "cuLibraryGetKernel": (Result(HANDLE), _address, _text),
    "cuLibraryGetKernelCount": (Result(_uint), _address),
    "cuKernelGetName": (Result(_text), _address),
    "cuKernelGetFunction": (Result(HANDLE), _address),
    "cuFuncGetAttribute": (Result(_int), _int, _address),
    "cuFuncSetAttribute": (_address, _int, _int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (Result(_int), _address, _int, _size),
    "cuEventCreate": (Result(HANDLE), _uint),
    "cuEventRecord": (_address, _address),
    "cuEventSynchronize": (_address,),
    "cuEventElapsedTime": (Result(_float), _address, _address),
    "cuEventDestroy": (_address,),
    "cuStreamWaitEvent": (_address, _address, _uint),
    "cuStreamIsCapturing": (_address, Result(_int)),
}

#: Functions that the library has under another name since their arguments changed.
_SYMBOLS = {
    "cuDeviceTotalMem": "cuDeviceTotalMem_v2",
    "cuCtxPushCurrent": "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent": "cuCtxPopCurrent_v2",
    "cuEventDestroy": "cuEventDestroy_v2",
}


def _too_old(symbol: str) -> ToolchainError:
    return ToolchainError(
        f"the installed NVIDIA driver has no {symbol}; update it to one for CUDA 12.4 or later"
    )


class DriverLibrary(CLibrary):
    """The loaded library; its functions are looked up when first used.

    Parameters
    ----------
    path
        Where it is; None for where the system finds it.

    Raises
    ------
    OSError
        It is not there.
    ToolchainError
        It is too old: when a function is used that it lacks.
    """

    def __init__(self, path: str | None = None) -> None:
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        super().__init__(ctypes.CDLL(path or name), _PROTOTYPES, _too_old, _SYMBOLS)
        # That of every launch, without what the general way costs.
        self.cuLaunchKernel: Callable[..., int] = self.function(
            "cuLaunchKernel", _address, *(_uint,) * 7, _address, _address, _address
        )
        """Answers the code alone."""

    def cuDeviceGetName(self, device: int) -> tuple[int, bytes]:  # noqa: N802
        """Return the code and a device's name."""
        function = self.function("cuDeviceGetName", _address, _int, _int)
        text = ctypes.create_string_buffer(256)
        return function(text, len(text), device), text.value

    def cuLibraryLoadData(self, image: bytes) -> tuple[int, int]:  # noqa: N802
        """Return the code and the handle of a loaded cubin or PTX text, without any options."""
        function = self.function(
            "cuLibraryLoadData", _address, _text, _address, _address, _uint, _address, _address, _uint
        )
        found = HANDLE()
        code = function(ctypes.byref(found), image, None, None, 0, None, None, 0)
        return code, found.value

    def cuLibraryEnumerateKernels(self, count: int, library: int) -> tuple[int, list[int]]:  # noqa: N802
        """Return the code and the handles of up to `count` kernels of a library."""
        function = self.function("cuLibraryEnumerateKernels", _address, _uint, _address)
        found = (HANDLE * count)()
        return function(found, count, library), list(found)

    def cuGetErrorName(self, code: int) -> tuple[int, bytes | None]:  # noqa: N802
        """Return a code and a code's name; None where it has none."""
        return self._said("cuGetErrorName", code)

    def cuGetErrorString(self, code: int) -> tuple[int, bytes | None]:  # noqa: N802
        """Return a code and what a code means; None where it means nothing."""
        return self._said("cuGetErrorString", code)

    def _said(self, symbol: str, code: int) -> tuple[int, bytes | None]:
        found = _text()
        status = self.function(symbol, _int, _address)(code, ctypes.byref(found))
        return status, found.value

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> tuple[int, int]:  # noqa: N802
        """Return the code and the mode of captures that the calling thread had before."""
        function = self.function("cuThreadExchangeStreamCaptureMode", _address)
        exchanged = _int(mode)
        return function(ctypes.byref(exchanged)), exchanged.value
