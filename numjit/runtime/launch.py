"""Kernels in the driver's hands: load a cubin, launch it with packed parameters."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from numjit.cache.elf import CUDA, elf_fault
from numjit.errors import LaunchError
from numjit.ground.apart import lock
from numjit.runtime.driver import Current, check, driver, primary_context
from numjit.runtime.libcuda import FUNCTION_ATTRIBUTES
from numjit.runtime.streams import loading

__all__ = ["BoundKernel", "Kernel", "launch", "load"]

#: Dynamic shared memory that a kernel may use without asking the driver first, on every device.
_DEFAULT_SHARED_BYTES = 48 << 10

_Triple = tuple[int, int, int]


class Kernel:
    """One kernel of a loaded cubin, usable on every device that the cubin fits.

    Made by `load`. Safe to use from several threads.
    """

    def __init__(self, library: Any, handle: Any, name: str) -> None:
        self.name = name
        self._library = library
        self._handle = handle
        self._functions: dict[tuple[int, int], Any] = {}
        self._lock = lock()

    def __repr__(self) -> str:
        return f"<numjit kernel {self.name}>"

    def function(self, device_index: int, shared_bytes: int = 0) -> Any:
        """Return the ``CUfunction`` in the primary context of a device.

        Parameters
        ----------
        device_index
            Which device.
        shared_bytes
            Dynamic shared memory of the launch; above 48 KiB the function is allowed to use so much.

        Raises
        ------
        LaunchError
            The cubin does not fit the device, or the device has not so much shared memory.
        """
        key = device_index, max(shared_bytes, _DEFAULT_SHARED_BYTES)
        found = self._functions.get(key)
        if found is not None:
            return found
        cu = driver()
        with Current(device_index), self._lock, loading():
            if self._library is None:
                raise LaunchError(f"kernel {self.name} was unloaded; load its cubin again")
            doing = f"use kernel {self.name} on cuda:{device_index}"
            function = check(cu.cuKernelGetFunction(self._handle), doing)
            if shared_bytes > _DEFAULT_SHARED_BYTES:
                limit = FUNCTION_ATTRIBUTES["MAX_DYNAMIC_SHARED_SIZE_BYTES"]
                check(
                    cu.cuFuncSetAttribute(function, limit, shared_bytes),
                    f"{doing} with {shared_bytes} shared bytes",
                )
            self._functions[key] = function
        return function

    def attribute(self, device_index: int, name: str) -> int:
        """Return a function attribute by its name: ``"NUM_REGS"``, ``"LOCAL_SIZE_BYTES"``, ..."""
        cu = driver()
        key = FUNCTION_ATTRIBUTES[name]
        function = self.function(device_index)
        with Current(device_index):
            return int(check(cu.cuFuncGetAttribute(key, function), f"ask kernel {self.name} for {name}"))

    def unload(self) -> None:
        """Give the code's memory back to the driver.

        Never done by itself: launches in flight are waited for, but a captured CUDA graph that holds the
        kernel would break, and only the caller knows of those.
        """
        with self._lock:
            library, self._library = self._library, None
            self._functions.clear()
        if library is not None:
            check(driver().cuLibraryUnload(library), f"unload kernel {self.name}")


def load(cubin: bytes, entry: str | None = None, *, is_ptx: bool = False) -> Kernel:
    """Load a cubin and return one kernel of it.

    Parameters
    ----------
    cubin
        The ELF image.
    entry
        The (mangled) name of the kernel; None where the cubin holds exactly one.
    is_ptx
        Whether it is PTX instead, which the driver compiles.

    Raises
    ------
    LaunchError
        The image is damaged, the driver refuses it, or it has no such kernel, or several and none is named.
    """
    fault = "" if is_ptx else elf_fault(cubin, CUDA)
    if fault:
        raise LaunchError(
            f"a cubin of {len(cubin)} bytes is damaged ({fault}); clear numjit's cache folder and run again"
        )
    if is_ptx and not cubin.endswith(b"\0"):
        cubin += b"\0"
    cu = driver()
    with loading():
        doing = f"load a cubin of {len(cubin)} bytes"
        library = check(cu.cuLibraryLoadData(cubin), doing)
        try:
            return _find_kernel(library, entry, len(cubin))
        except LaunchError:
            cu.cuLibraryUnload(library)
            raise


def _find_kernel(library: Any, entry: str | None, size: int) -> Kernel:
    cu = driver()
    if entry is not None:
        handle = check(cu.cuLibraryGetKernel(library, entry.encode()), f"find kernel {entry} in its cubin")
        return Kernel(library, handle, entry)
    count = int(check(cu.cuLibraryGetKernelCount(library), "count the kernels of a cubin"))
    if count == 0:  # the driver loads lazily and takes any bytes at first
        raise LaunchError(
            f"a cubin of {size} bytes holds no kernel: it is damaged; clear numjit's cache folder"
        )
    if count != 1:
        raise LaunchError(f"the cubin holds {count} kernels; name one by entry=")
    (handle,) = check(cu.cuLibraryEnumerateKernels(1, library), "list the kernels of a cubin")
    name = check(cu.cuKernelGetName(handle), "ask a kernel for its name")
    return Kernel(library, handle, name.decode())


def launch(
    kernel: Kernel,
    device_index: int,
    grid: _Triple,
    block: _Triple,
    *,
    stream: int,
    slots: bytes | bytearray,
    slot_offsets: Sequence[int],
    shared_bytes: int = 0,
) -> None:
    """Launch a kernel once; `BoundKernel` is the faster way for many launches.

    Parameters
    ----------
    kernel, device_index
        What and where. The caller's current device stays what it is.
    grid, block
        Blocks of the grid (x below 2^31, y and z below 2^16) and threads of a block.
    stream
        Raw handle; 0 and 1 are the legacy default stream, 2 the per-thread one.
    slots
        The parameters, packed in 8-byte slots; of a narrower parameter the low bytes count.
    slot_offsets
        Byte offset in `slots` at which each parameter starts.
    shared_bytes
        Dynamic shared memory of a block, in bytes.

    Raises
    ------
    LaunchError
        The driver refused the launch.
    """
    buffer = ctypes.create_string_buffer(bytes(slots), len(slots))
    address = ctypes.addressof(buffer)
    table = (ctypes.c_void_p * len(slot_offsets))(*[address + offset for offset in slot_offsets])
    function = kernel.function(device_index, shared_bytes)
    with Current(device_index):
        code = driver().cuLaunchKernel(
            function, *grid, *block, shared_bytes, stream, ctypes.addressof(table), None
        )
    if code:
        check((code,), _doing(kernel, device_index, grid, block))


def _doing(kernel: Kernel, device_index: int, grid: _Triple, block: _Triple) -> str:
    return f"launch kernel {kernel.name} on cuda:{device_index} (grid {grid}, block {block})"


class BoundKernel:
    """A kernel prepared for many launches on one device with parameters of fixed types.

    Parameters
    ----------
    kernel, device_index
        What and where.
    layout
        One `struct` format a parameter, each filling whole 8-byte slots: ``"Q"`` (an address), ``"q"``,
        ``"f4x"``, ``"dd"`` (a complex128), ...
    block
        Threads of a block.
    shared_bytes
        Dynamic shared memory of a block, in bytes.

    Raises
    ------
    LaunchError
        The cubin does not fit the device.
    """

    # The scratch of a launch (slots, then the table of pointers to them) is taken from a free list and put
    # back: `list.pop` and `list.append` are atomic, so threads, signal handlers and finalisers never share
    # one. Allocating it anew costs 1 us a launch.
    __slots__ = (
        "_block",
        "_context",
        "_cu",
        "_device",
        "_free",
        "_function",
        "_kernel",
        "_offsets",
        "_pack",
        "_shared",
    )

    def __init__(
        self, kernel: Kernel, device_index: int, layout: Sequence[str], block: _Triple, shared_bytes: int = 0
    ) -> None:
        offsets = [0]
        for item in layout:
            offsets.append(offsets[-1] + struct.calcsize(f"={item}"))
            if offsets[-1] % 8:
                raise ValueError(
                    f"parameter format {item!r} does not fill whole 8-byte slots; pad it with 'x'"
                )
        self._offsets = offsets
        self._pack = struct.Struct("=" + "".join(layout)).pack_into
        self._kernel = kernel
        self._device = device_index
        self._block = block
        self._shared = shared_bytes
        self._cu = driver()
        self._context: int = primary_context(device_index)
        self._function: int = kernel.function(device_index, shared_bytes)
        self._free: list[tuple[Any, int]] = []

    @property
    def context(self) -> int:
        """The context that the kernel is launched in."""
        return self._context

    @property
    def function(self) -> int:
        """The ``CUfunction``."""
        return self._function

    @property
    def block(self) -> _Triple:
        """Threads of a block."""
        return self._block

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block, in bytes."""
        return self._shared

    @property
    def slot_count(self) -> int:
        """How many parameters there are; -1 where one fills more than one slot of 8 bytes."""
        count = len(self._offsets) - 1
        return count if self._offsets[-1] == 8 * count else -1

    def _scratch(self) -> tuple[Any, int]:
        *starts, size = self._offsets
        buffer = (ctypes.c_uint64 * (size // 8 + len(starts) + 1))()
        address = ctypes.addressof(buffer)
        for number, start in enumerate(starts):
            buffer[size // 8 + number] = address + start
        return buffer, address + size

    def __call__(self, stream: int, grid: _Triple, values: Sequence[float]) -> None:
        """Launch.

        Parameters
        ----------
        stream
            Raw handle of the stream.
        grid
            Blocks of the grid (x below 2^31, y and z below 2^16).
        values
            One number for each item of the layout's formats, in order.

        Raises
        ------
        LaunchError
            The driver refused the launch.
        """
        cu = self._cu
        free = self._free
        try:
            scratch = free.pop()
        except IndexError:
            scratch = self._scratch()
        self._pack(scratch[0], 0, *values)
        code, current = cu.cuCtxGetCurrent()
        if code or current != self._context:
            with Current(self._device):
                code = cu.cuLaunchKernel(
                    self._function, *grid, *self._block, self._shared, stream, scratch[1], None
                )
        else:
            code = cu.cuLaunchKernel(
                self._function, *grid, *self._block, self._shared, stream, scratch[1], None
            )
        free.append(scratch)
        if code:
            check((code,), _doing(self._kernel, self._device, grid, self._block))
