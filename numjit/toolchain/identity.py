"""Tells versions of CUDA's compilers apart by the files that would be loaded, without loading them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import sys
from collections.abc import Iterator

from numjit.cache.elf import build_id
from numjit.errors import ToolchainError
from numjit.toolchain import libraries

__all__ = ["file_identity", "identities"]

#: Where others than NVIDIA's wheels have libNVVM, which Numba loads.
_NVVM_FOLDERS = ("nvvm/lib64", "nvvm/lib", "lib64", "lib", "Library/nvvm/bin")


def identities() -> list[str]:
    """Return what identifies NVRTC, nvJitLink and libNVVM, each ``"absent"`` where there is none.

    For versions of wheels say nothing of a library that comes from conda or the system.
    """
    used = ((libraries.NVRTC, "nvrtcVersion"), (libraries.NVJITLINK, "nvJitLinkVersion"))
    return [*(_identity(library, function) for library, function in used), _nvvm_identity()]


def _identity(library: libraries.Library, function: str) -> str:
    path = _loaded_from(library, function)
    if path is None:
        path = next(map(pathlib.Path, libraries.in_wheels(library)), None)
    if path is None:  # conda's or the system's
        try:
            path = libraries.path_of(libraries.load(library), function)
        except ToolchainError:
            return "absent"
    return "unknown" if path is None else file_identity(path)


def _loaded_from(library: libraries.Library, function: str) -> pathlib.Path | None:
    """Return the file of a library that the process has already, which is the one that will be used."""
    if sys.platform == "linux":
        for soname in library.sonames:
            with contextlib.suppress(OSError):
                return libraries.path_of(ctypes.CDLL(soname, mode=os.RTLD_NOLOAD), function)
    return None


def _nvvm_identity() -> str:
    wheels = libraries.in_wheels(libraries.NVVM)
    path = next((pathlib.Path(found) for found in (*wheels, *_other_nvvms())), None)
    return "absent" if path is None else file_identity(path)


def _other_nvvms() -> Iterator[str]:
    roots = [os.environ.get(name) for name in ("CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH")]
    for root in (*roots, "/usr/local/cuda"):
        for folder in _NVVM_FOLDERS if root else ():
            yield from map(str, sorted(pathlib.Path(root or "", folder).glob("*nvvm*.[sd][ol]*")))


def file_identity(path: pathlib.Path) -> str:
    """Return what identifies a library: the number that its linker gave it, else name, size and date."""
    found = build_id(path)
    if found:
        return found
    try:
        about = path.stat()
        return f"{path.resolve().name} {about.st_size} {about.st_mtime_ns}"
    except OSError:
        return "unknown"
