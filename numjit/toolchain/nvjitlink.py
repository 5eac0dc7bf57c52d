"""Link LTO-IR objects into one cubin, inlining across them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from numjit.errors import ToolchainError
from numjit.ground.foreign import HANDLE, CLibrary, Result
from numjit.toolchain import libraries

__all__ = ["LIBRARY", "link", "nvjitlink_path", "prepare", "version"]

LIBRARY: Final = libraries.NVJITLINK
#: Numba-CUDA loads its own libdevice; every other symbol comes from the objects themselves.
_OPTIONS = ("-lto", "-O3")
_PTX, _LTOIR = 2, 3  # of nvJitLinkInputType
_NOTHING: Final = b".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n\0"
#: Of nvJitLinkResult, by number.
_ERRORS: Final = (
    "SUCCESS", "ERROR_UNRECOGNIZED_OPTION", "ERROR_MISSING_ARCH", "ERROR_INVALID_INPUT", "ERROR_PTX_COMPILE",
    "ERROR_NVVM_COMPILE", "ERROR_INTERNAL", "ERROR_THREADPOOL", "ERROR_UNRECOGNIZED_INPUT", "ERROR_FINALIZE",
    "ERROR_NULL_INPUT", "ERROR_INCOMPATIBLE_OPTIONS", "ERROR_INCORRECT_INPUT_TYPE", "ERROR_ARCH_MISMATCH",
    "ERROR_OUTDATED_LIBRARY", "ERROR_MISSING_FATBIN", "ERROR_UNRECOGNIZED_ARCH", "ERROR_UNSUPPORTED_ARCH",
    "ERROR_LTO_NOT_ENABLED",
)  # fmt: skip

_uint, _size, _text = ctypes.c_uint, ctypes.c_size_t, ctypes.c_char_p
#: https://docs.nvidia.com/cuda/nvjitlink
_PROTOTYPES: Final[dict[str, tuple[Any, ...]]] = {
    "nvJitLinkVersion": (Result(_uint), Result(_uint)),
    "nvJitLinkCreate": (Result(HANDLE), ctypes.c_uint32, ctypes.c_void_p),
    "nvJitLinkAddData": (HANDLE, ctypes.c_int, _text, _size, _text),
    "nvJitLinkComplete": (HANDLE,),
    "nvJitLinkDestroy": (ctypes.c_void_p,),
    **{
        f"nvJitLinkGet{what}Size": (HANDLE, Result(_size))
        for what in ("LinkedCubin", "LinkedPtx", "ErrorLog")
    },
    **{f"nvJitLinkGet{what}": (HANDLE, ctypes.c_void_p) for what in ("LinkedCubin", "LinkedPtx", "ErrorLog")},
}


class _RefusedError(Exception):
    """A function of nvJitLink's answered with an error."""


@functools.cache
def _load() -> CLibrary:
    return libraries.open_library(LIBRARY, _PROTOTYPES)


def _call(library: CLibrary, function: str, *arguments: Any) -> list[Any]:
    """Call into nvJitLink and return its results without the status."""
    status, *results = getattr(library, function)(*arguments)
    if status:
        name = _ERRORS[status] if 0 <= status < len(_ERRORS) else "error"
        raise _RefusedError(f"{name} ({status})")
    return list(results)


def version() -> tuple[int, int]:
    """Return nvJitLink's version.

    Raises
    ------
    ToolchainError
        nvJitLink is not installed.
    """
    try:
        major, minor = _call(_load(), "nvJitLinkVersion")
    except _RefusedError as error:
        raise ToolchainError(f"nvJitLink does not work ({error}); {libraries.REMEDY}") from error
    return major, minor


def nvjitlink_path() -> str:
    """Return the file that nvJitLink was loaded from, as far as that is known.

    Raises
    ------
    ToolchainError
        nvJitLink is not installed.
    """
    return libraries.file_of(_load(), "nvJitLinkVersion")


@functools.cache
def prepare(cc: tuple[int, int]) -> None:
    """Let the linker do what it does in a process once, so that the first link takes as long as any other.

    For whoever waits for something else meanwhile.

    Raises
    ------
    ToolchainError
        nvJitLink is not installed.
    """
    _load()
    with contextlib.suppress(ToolchainError), _linked([(b"nothing", _PTX, _NOTHING)], cc):
        pass  # what is wrong, a link says


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
    inputs = [(name.encode(), _LTOIR, data) for name, data in objects]
    with _linked(inputs, cc, *_OPTIONS, *(["-ptx"] if ptx else [])) as handle:
        made = _read(_load(), handle, "LinkedPtx" if ptx else "LinkedCubin")
    return made.rstrip(b"\0") if ptx else made


@contextlib.contextmanager
def _linked(inputs: Sequence[tuple[bytes, int, bytes]], cc: tuple[int, int], *options: str) -> Iterator[int]:
    """Link (name, kind, data) triples; yields the linker's handle, of which results are read inside.

    Raises
    ------
    ToolchainError
        The linker refused, also to give a result.
    """
    library = _load()
    stated = [option.encode() for option in (f"-arch=sm_{cc[0]}{cc[1]}", *options)]
    handle = 0
    try:
        (handle,) = _call(library, "nvJitLinkCreate", len(stated), (_text * len(stated))(*stated))
        for name, kind, data in inputs:
            _call(library, "nvJitLinkAddData", handle, kind, data, len(data), name)
        _call(library, "nvJitLinkComplete", handle)
        yield handle
    except _RefusedError as error:
        names = " and ".join(name.decode() for name, _, _ in inputs) or "nothing"
        raise ToolchainError(_explain(library, handle, error, f"{names} for sm_{cc[0]}{cc[1]}")) from error
    finally:
        if handle:
            library.nvJitLinkDestroy(ctypes.byref(HANDLE(handle)))


def _read(library: CLibrary, handle: int, what: str) -> bytes:
    return libraries.read(functools.partial(_call, library), f"nvJitLinkGet{what}", handle)


def _explain(library: CLibrary, handle: int, error: Exception, what: str) -> str:
    log = _read(library, handle, "ErrorLog").rstrip(b"\0").decode(errors="replace").strip() if handle else ""
    major, minor = version()
    first = log.splitlines()[0] if log else str(error)
    return (
        f"nvJitLink {major}.{minor} could not link {what}: {first}\n"
        "NVRTC, NVVM and nvJitLink must be of one CUDA version: pip install 'numjit[cu13]' "
        "(or [cu12]) keeps them together; python -m numjit info shows what is found."
    )
