"""Link LTO-IR objects into one cubin, inlining across them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from numjit.errors import ToolchainError

__all__ = ["link", "version"]

#: Numba-CUDA loads its own libdevice; every other symbol comes from the objects themselves.
_OPTIONS = ("-lto", "-O3")


@functools.cache
def _library() -> Any:
    try:
        from cuda.bindings import nvjitlink
    except ImportError as error:
        raise ToolchainError(
            "numjit needs cuda-bindings to link kernels; pip install 'numjit[cu13]' (or [cu12])"
        ) from error
    return nvjitlink


def version() -> tuple[int, int]:
    """Return nvJitLink's version.

    Raises
    ------
    ToolchainError
        nvJitLink is not installed.
    """
    nvjitlink = _library()
    try:
        major, minor = nvjitlink.version()
    except RuntimeError as error:
        raise ToolchainError(
            f"nvJitLink was not found ({error}); pip install 'numjit[cu13]' (or [cu12])"
        ) from error
    return major, minor


def link(objects: Sequence[tuple[str, bytes]], cc: tuple[int, int], *, ptx: bool = False) -> bytes:
    """Link LTO-IR into a cubin for compute capability `cc` (or into PTX text).

    Parameters
    ----------
    objects
        ``(name, LTO-IR)`` pairs; names appear in the linker's messages.
    cc
        ``(major, minor)``.
    ptx
        Return the PTX that the link makes instead of the cubin.

    Raises
    ------
    ToolchainError
        The linker refused, for instance because it is older than the compiler of an object.
    """
    nvjitlink = _library()
    version()
    options = [f"-arch=sm_{cc[0]}{cc[1]}", *_OPTIONS, *(["-ptx"] if ptx else [])]
    handle = None
    try:
        handle = nvjitlink.create(len(options), options)
        for name, data in objects:
            nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, data, len(data), name)
        nvjitlink.complete(handle)
        if ptx:
            text = bytearray(nvjitlink.get_linked_ptx_size(handle))
            nvjitlink.get_linked_ptx(handle, text)
            return bytes(text).rstrip(b"\0")
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    except nvjitlink.nvJitLinkError as error:
        raise ToolchainError(_explain(nvjitlink, handle, error, cc)) from error
    finally:
        if handle is not None:
            nvjitlink.destroy(handle)


def _explain(nvjitlink: Any, handle: Any, error: Exception, cc: tuple[int, int]) -> str:
    log = ""
    if handle is not None:
        size = nvjitlink.get_error_log_size(handle)
        if size > 1:
            buffer = bytearray(size)
            nvjitlink.get_error_log(handle, buffer)
            log = bytes(buffer).rstrip(b"\0").decode(errors="replace").strip()
    major, minor = version()
    first = log.splitlines()[0] if log else str(error)
    return (
        f"nvJitLink {major}.{minor} could not link a kernel for sm_{cc[0]}{cc[1]}: {first}\n"
        "NVRTC, NVVM and nvJitLink must be of one CUDA version: pip install 'numjit[cu13]' "
        "(or [cu12]) keeps them together; python -m numjit info shows what is found."
    )
