"""The way to the CUDA driver: initialises it, checks return codes, makes contexts current."""

from __future__ import annotations

import functools
from types import TracebackType
from typing import Any

from numjit.errors import DeviceError, LaunchError
from numjit.ground.apart import lock
from numjit.runtime.libcuda import DriverLibrary

__all__ = ["Current", "check", "driver", "is_current", "primary_context"]

#: What to do about an error of the driver, by its name.
_REMEDIES = {
    "CUDA_ERROR_OUT_OF_MEMORY": "free memory on the device (torch.cuda.empty_cache()) or use smaller tensors",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the kernel was built for another GPU; clear numjit's cache folder",
    "CUDA_ERROR_INVALID_IMAGE": "the kernel does not fit the driver; update the driver, clear numjit's cache",
    "CUDA_ERROR_NOT_FOUND": "the cubin holds no such kernel; clear numjit's cache folder",
    "CUDA_ERROR_NOT_INITIALIZED": "CUDA does not work in a forked child; start processes with 'spawn'",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the driver is older than the CUDA wheels; update the driver",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "the functor needs too many registers; make it smaller",
    "CUDA_ERROR_ILLEGAL_ADDRESS": (
        "a kernel (not necessarily this one) accessed memory that is not its own; restart the process and "
        "run it under compute-sanitizer"
    ),
    "CUDA_ERROR_MISALIGNED_ADDRESS": "restart the process and run it under compute-sanitizer",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": "the device was reset behind numjit's back; restart the process",
    "CUDA_ERROR_INVALID_CONTEXT": "the device was reset behind numjit's back; restart the process",
}
_CAPTURE = "the call is not allowed while a CUDA graph is captured; run it once before the capture"
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_LOCK = lock()
_contexts: dict[int, Any] = {}


@functools.cache
def driver() -> Any:
    """Return the driver, initialised.

    Raises
    ------
    DeviceError
        There is no NVIDIA driver, or it sees no GPU.
    LaunchError
        It does not work.
    """
    try:
        library = DriverLibrary()
    except OSError as error:
        raise DeviceError(
            "no NVIDIA driver on this machine: install one, or call with CPU tensors or NumPy arrays"
        ) from error
    (code,) = library.cuInit(0)
    if code == _NO_DEVICE:
        raise DeviceError(
            "the NVIDIA driver sees no GPU: check CUDA_VISIBLE_DEVICES, or call with CPU tensors"
        )
    check((code,), "initialise the driver", library)
    return library


def check(result: tuple[Any, ...], doing: str, library: Any = None) -> Any:
    """Return what a driver function returned besides its code.

    Parameters
    ----------
    result
        ``(code, *values)`` as functions of the driver answer.
    doing
        The verb phrase for the message: "numjit could not <doing>".
    library
        The driver where `driver` is not ready yet.

    Returns
    -------
    Any
        None, the one value, or the tuple of values.

    Raises
    ------
    LaunchError
        The code is not ``CUDA_SUCCESS``.
    """
    code = result[0]
    if code:
        raise _error(code, doing, library or driver())
    if len(result) == 2:
        return result[1]
    return result[1:] or None


def _error(code: int, doing: str, library: Any) -> LaunchError:
    name, text = (
        said[1].decode() if said[1] else ""
        for said in (library.cuGetErrorName(code), library.cuGetErrorString(code))
    )
    name = name or f"error {code}"
    shown = f" ({text})" if text else ""
    remedy = (
        _CAPTURE
        if "CAPTURE" in name
        else _REMEDIES.get(name, "run with CUDA_LAUNCH_BLOCKING=1 to find the call")
    )
    return LaunchError(f"numjit could not {doing}: {name}{shown}; {remedy}")


def primary_context(device_index: int) -> Any:
    """Return the primary context of a device (torch's, CuPy's and Numba's too), retained for good.

    Raises
    ------
    DeviceError
        There is no such device.
    """
    context = _contexts.get(device_index)
    if context is not None:
        return context
    with _LOCK:
        cu = driver()
        count = check(cu.cuDeviceGetCount(), "count the devices")
        if not 0 <= device_index < count:
            raise DeviceError(
                f"there is no device cuda:{device_index}: the driver sees {count}; name one of them"
            )
        if device_index not in _contexts:
            device = check(cu.cuDeviceGet(device_index), f"open cuda:{device_index}")
            _contexts[device_index] = check(cu.cuDevicePrimaryCtxRetain(device), f"use cuda:{device_index}")
    return _contexts[device_index]


def is_current(device_index: int) -> bool:
    """Whether a device's primary context is the calling thread's current one."""
    code, current = driver().cuCtxGetCurrent()
    return not code and current == primary_context(device_index)


class Current:
    """Context manager: a device's primary context is current inside, and what was current is afterwards.

    Nothing is pushed where the context is current already.
    """

    __slots__ = ("_context", "_cu", "_pushed")

    def __init__(self, device_index: int) -> None:
        self._cu = driver()
        self._context = primary_context(device_index)
        self._pushed = False

    def __enter__(self) -> None:
        cu = self._cu
        code, current = cu.cuCtxGetCurrent()
        if code or current != self._context:
            check(cu.cuCtxPushCurrent(self._context), "make the device's context current")
            self._pushed = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pushed:
            self._pushed = False
            # A sticky error of the body would come back here; the body's own exception says it better.
            self._cu.cuCtxPopCurrent()
