"""What the driver knows about its devices, and about where a pointer leads."""

from __future__ import annotations

import functools

from numjit.errors import DeviceError, UnsupportedArrayError
from numjit.runtime.driver import check, driver
from numjit.runtime.libcuda import DEVICE_ATTRIBUTES

__all__ = [
    "DeviceProperties",
    "available",
    "compute_capability",
    "current_device",
    "device_count",
    "device_name",
    "driver_version",
    "has_fast_memory",
    "has_one_device",
    "limiting_shared_bytes",
    "max_parameter_bytes",
    "pointer_device",
    "properties",
]

#: Parameter space of a kernel: 4 KiB; since CUDA 12.1 and compute capability 7.0 nearly 32 KiB.
_SMALL_PARAMETERS = 4096
_LARGE_PARAMETERS = 32764
#: Bytes a second for each multiprocessor: 25e9 on an H100, 36e9 on an H200.
_FAST_MEMORY = 30e9
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_INVALID_VALUE = 1  # CUDA_ERROR_INVALID_VALUE


class DeviceProperties:
    """What the driver knows about one device, each asked for when first wanted. Needs no context.

    Raises
    ------
    DeviceError
        There is no such device.
    """

    def __init__(self, device_index: int) -> None:
        count = device_count()
        if not 0 <= device_index < count:
            raise DeviceError(
                f"there is no device cuda:{device_index}: the driver sees {count}; name one of them"
            )
        self._index = device_index
        self._device = check(driver().cuDeviceGet(device_index), f"open cuda:{device_index}")

    def _ask(self, attribute: str) -> int:
        answer = driver().cuDeviceGetAttribute(DEVICE_ATTRIBUTES[attribute], self._device)
        return int(check(answer, f"ask cuda:{self._index} for {attribute}"))

    @functools.cached_property
    def name(self) -> str:
        """As nvidia-smi prints it."""
        found: bytes = check(driver().cuDeviceGetName(self._device), f"ask cuda:{self._index} for its name")
        return found.decode()

    @functools.cached_property
    def compute_capability(self) -> tuple[int, int]:
        """``(major, minor)``."""
        return self._ask("COMPUTE_CAPABILITY_MAJOR"), self._ask("COMPUTE_CAPABILITY_MINOR")

    @functools.cached_property
    def multiprocessors(self) -> int:
        """Number of SMs."""
        return self._ask("MULTIPROCESSOR_COUNT")

    @functools.cached_property
    def threads_per_multiprocessor(self) -> int:
        """Resident threads that one SM holds at most."""
        return self._ask("MAX_THREADS_PER_MULTIPROCESSOR")

    @functools.cached_property
    def shared_bytes_per_multiprocessor(self) -> int:
        """Bytes of shared memory of one SM."""
        return self._ask("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR")

    @functools.cached_property
    def reserved_shared_bytes(self) -> int:
        """Bytes of an SM's shared memory that the driver takes for each block."""
        return self._ask("RESERVED_SHARED_MEMORY_PER_BLOCK")

    @functools.cached_property
    def l2_bytes(self) -> int:
        """Bytes of the L2 cache."""
        return self._ask("L2_CACHE_SIZE")

    @functools.cached_property
    def memory_bytes(self) -> int:
        """Bytes of the device memory."""
        return int(check(driver().cuDeviceTotalMem(self._device), f"ask cuda:{self._index} for its memory"))

    @functools.cached_property
    def memory_bandwidth(self) -> float | None:
        """Bytes a second, from memory clock and bus width; None where the driver does not say."""
        clock = self._ask("MEMORY_CLOCK_RATE") * 1000.0  # reported in kHz
        return 2 * clock * self._ask("GLOBAL_MEMORY_BUS_WIDTH") / 8 or None  # double data rate


def available() -> bool:
    """Whether there is a driver with at least one device."""
    try:
        return device_count() > 0
    except DeviceError:
        return False


def device_count() -> int:
    """Return the number of devices that the driver sees.

    Raises
    ------
    DeviceError
        There is no driver or no GPU.
    """
    return int(check(driver().cuDeviceGetCount(), "count the devices"))


@functools.cache
def has_one_device() -> bool:
    """Whether the driver sees exactly one device, so that all memory of a GPU is that one's."""
    return device_count() == 1


def driver_version() -> tuple[int, int]:
    """Return the newest CUDA version that the installed driver supports, as ``(13, 0)``."""
    version = int(check(driver().cuDriverGetVersion(), "ask for the driver's version"))
    return version // 1000, version % 1000 // 10


def compute_capability(device_index: int) -> tuple[int, int]:
    """Return the device's compute capability, as ``(9, 0)``."""
    return properties(device_index).compute_capability


def device_name(device_index: int) -> str:
    """Return the device's name, as ``NVIDIA H200``."""
    return properties(device_index).name


def max_parameter_bytes(device_index: int) -> int:
    """Return the bytes of kernel parameters that device and driver take."""
    large = compute_capability(device_index) >= (7, 0) and driver_version() >= (12, 1)
    return _LARGE_PARAMETERS if large else _SMALL_PARAMETERS


@functools.cache
def properties(device_index: int) -> DeviceProperties:
    """Return what the driver knows about a device.

    Raises
    ------
    DeviceError
        There is no such device.
    """
    return DeviceProperties(device_index)


def has_fast_memory(device_index: int) -> bool:
    """Return whether the device moves more bytes a second for each multiprocessor than an H100 does."""
    known = properties(device_index)
    return (
        known.memory_bandwidth is not None and known.memory_bandwidth > known.multiprocessors * _FAST_MEMORY
    )


def limiting_shared_bytes(device_index: int, block: int, occupancy: float) -> int:
    """Return the dynamic shared memory by which an SM holds only a part of the blocks that it could.

    Parameters
    ----------
    device_index
        Which device.
    block
        Threads of a block.
    occupancy
        Which part of the SM's threads may be resident; 1 for no limit.
    """
    if occupancy >= 1:
        return 0
    known = properties(device_index)
    blocks = max(1, int(known.threads_per_multiprocessor * occupancy) // block)
    share = known.shared_bytes_per_multiprocessor // blocks - known.reserved_shared_bytes
    # Without more than 48 KiB a kernel needs no permission; what fits twice as often would be no limit.
    return max(0, min(share, 48 << 10)) & ~127


def current_device() -> int:
    """Return the index of the calling thread's current device; 0 where no context is current."""
    cu = driver()
    if int(check(cu.cuCtxGetCurrent(), "ask for the current context")) == 0:
        return 0
    return int(check(cu.cuCtxGetDevice(), "ask for the current device"))


def pointer_device(pointer: int) -> int:
    """Return the index of the device whose memory `pointer` leads to.

    Raises
    ------
    UnsupportedArrayError
        The pointer leads to no memory that CUDA knows.
    DeviceError
        There is no driver or no GPU.
    """
    code, index = driver().cuPointerGetAttribute(_DEVICE_ORDINAL, pointer)
    if code == _INVALID_VALUE:
        raise UnsupportedArrayError(
            f"the array's __cuda_array_interface__ names address {pointer:#x}, which is no CUDA memory; "
            "pass an array that lies on the device"
        )
    if code:
        check((code,), "find the device of a pointer")
    return int(index)
