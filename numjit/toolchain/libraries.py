"""Finds and loads CUDA's compilers, which are shared libraries, without importing ``cuda``.

The order is that of ``cuda.pathfinder``: what the process has loaded already (torch loads both when it is
imported), NVIDIA's wheels, and then, through pathfinder itself, conda, the system and ``CUDA_PATH``.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjit.errors import ToolchainError
from numjit.ground.foreign import CLibrary

__all__ = [
    "NVJITLINK",
    "NVRTC",
    "NVVM",
    "REMEDY",
    "Library",
    "file_of",
    "in_wheels",
    "load",
    "open_library",
    "path_of",
    "read",
]

REMEDY = "pip install 'numjit[cu13]' (or [cu12])"


@dataclasses.dataclass(frozen=True)
class Library:
    """What a library is called.

    Attributes
    ----------
    title
        In messages.
    name
        In pathfinder, and in the file's name.
    sonames
        The file's names, in the order in which they are tried.
    folders
        Where NVIDIA's wheels put it.
    """

    title: str
    name: str
    sonames: tuple[str, ...]
    folders: tuple[str, ...]


NVRTC = Library(
    "NVRTC", "nvrtc", ("libnvrtc.so.13", "libnvrtc.so.12"), ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib")
)
NVJITLINK = Library(
    "nvJitLink",
    "nvJitLink",
    ("libnvJitLink.so.13", "libnvJitLink.so.12"),
    ("nvidia/cu13/lib", "nvidia/nvjitlink/lib"),
)
#: Numba-CUDA loads it.
NVVM = Library("libNVVM", "nvvm", ("libnvvm.so.4",), ("nvidia/cu13/lib", "nvidia/cuda_nvcc/nvvm/lib64"))


def load(library: Library) -> ctypes.CDLL:
    """Load a library, of which a process has one.

    Raises
    ------
    ToolchainError
        It is not installed, or cannot be loaded.
    """
    if sys.platform == "linux":
        for soname in library.sonames:
            with contextlib.suppress(OSError):
                return ctypes.CDLL(soname, mode=os.RTLD_NOLOAD)
        for path in in_wheels(library):
            try:
                return ctypes.CDLL(path)
            except OSError as error:
                raise ToolchainError(f"{library.title} cannot be loaded ({error}); {REMEDY}") from error
    try:
        from cuda import pathfinder
    except ImportError:
        raise ToolchainError(
            f"{library.title} is not installed as one of NVIDIA's wheels, and numjit needs cuda-pathfinder "
            f"to look for it elsewhere; {REMEDY}"
        ) from None
    try:
        found = pathfinder.load_nvidia_dynamic_lib(library.name)
    except (RuntimeError, ImportError, OSError) as error:
        raise ToolchainError(f"{library.title} cannot be loaded ({error}); {REMEDY}") from error
    return ctypes.CDLL(found.abs_path, handle=found._handle_uint)


def open_library(library: Library, prototypes: Mapping[str, tuple[Any, ...]]) -> CLibrary:
    """Load a library whose functions have these prototypes.

    Raises
    ------
    ToolchainError
        As `load` does; and later, when a function is used that the library does not have.
    """
    loaded = load(library)

    def lacking(symbol: str) -> ToolchainError:
        return ToolchainError(f"{library.title} ({loaded._name}) has no {symbol}; {REMEDY}")

    return CLibrary(loaded, prototypes, lacking)


def read(call: Callable[..., Sequence[Any]], getter: str, handle: int) -> bytes:
    """Return what a getter writes, of the size that the function of its name and "Size" answers.

    `call` calls a function by its name and answers its results.
    """
    (size,) = call(f"{getter}Size", handle)
    data = ctypes.create_string_buffer(size)
    call(getter, handle, data)
    return data.raw


def in_wheels(library: Library) -> Iterator[str]:
    """Yield the files of a library in NVIDIA's wheels, as `load` tries them."""
    for folder in library.folders:
        for root in sys.path:
            for soname in library.sonames:
                path = os.path.join(root, folder, soname)  # noqa: PTH118 - 10 times as fast as paths
                if os.path.isfile(path):  # noqa: PTH113
                    yield path


class _Symbol(ctypes.Structure):
    """``Dl_info`` of ``dladdr``: which file an address comes from."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def path_of(loaded: ctypes.CDLL, function: str) -> pathlib.Path | None:
    """Return the file of a loaded library, going by one of its functions; None where that is not known."""
    if sys.platform != "linux":
        return pathlib.Path(loaded._name) if loaded._name else None
    ask = getattr(ctypes.CDLL(None), "dladdr", None)
    if ask is None:
        return None
    ask.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    found = _Symbol()
    if not ask(ctypes.cast(loaded[function], ctypes.c_void_p), ctypes.byref(found)) or not found.file:
        return None
    return pathlib.Path(os.fsdecode(found.file))


def file_of(library: CLibrary, function: str) -> str:
    """Return the file that a library was loaded from, as far as that is known."""
    return str(path_of(library.library, function) or library.library._name)
