"""Maps compiled C++ loops into the process."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator

from numjit.cache.elf import elf_fault
from numjit.cpu.chunk import HostChunk
from numjit.cpu.cpp_source import SYMBOL
from numjit.errors import CompilationError, ToolchainError

__all__ = ["load_chunk", "temporary_folder", "undefined"]


def load_chunk(name: str, made: bytes) -> HostChunk:
    """Map code and return its loop.

    From a copy that nobody else knows: a cache file that another process truncates would take this one
    down with SIGBUS, and the cache may forbid execution. In memory where the temporary folder has no room or
    forbids it, too.

    Raises
    ------
    CompilationError
        The text calls a function that it does not define.
    ToolchainError
        The code cannot be loaded from anywhere.
    """
    if sys.platform == "linux" and elf_fault(made):
        raise ToolchainError(
            f"functor {name!r}: its compiled loop is damaged ({elf_fault(made)}); clear numjit's cache folder"
        )
    try:
        library = _load_file(made)
    except OSError as error:
        if "undefined symbol" in str(error):
            raise undefined(name, str(error).rpartition(":")[2].strip()) from None
        try:
            library = _load_memory(made)
        except (OSError, AttributeError):
            raise ToolchainError(
                f"functor {name!r}: its compiled loop cannot be loaded from the temporary folder "
                f"{tempfile.gettempdir()} ({error}); set TMPDIR to a folder with room that allows it"
            ) from error
    try:
        address = ctypes.cast(library[SYMBOL], ctypes.c_void_p).value
    except AttributeError as error:
        raise ToolchainError(
            f"functor {name!r}: its compiled loop has no {SYMBOL}; clear numjit's cache folder"
        ) from error
    assert address is not None
    return HostChunk(address, library)


def _load_file(made: bytes) -> ctypes.CDLL:
    with temporary_folder() as folder:
        path = folder / "loop.so"
        path.write_bytes(made)
        return ctypes.CDLL(str(path))


#: How many libraries were loaded from memory: each needs a name of its own, as the loader knows them by name.
_in_memory = itertools.count()


def _load_memory(made: bytes) -> ctypes.CDLL:
    handle = os.memfd_create("numjit-loop")
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(made)
        # The same file under another spelling: "/./" for a 1, "/" for a 0.
        number = "".join("./" if bit == "1" else "/" for bit in f"{next(_in_memory):b}")
        return ctypes.CDLL(f"/proc/self/fd/{number}{handle}")
    finally:
        os.close(handle)


@contextlib.contextmanager
def temporary_folder() -> Iterator[pathlib.Path]:
    """Make a folder for a while; one that cannot be removed stays, what was done in it holds."""
    folder = tempfile.mkdtemp(prefix="numjit-")
    try:
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def undefined(name: str, symbol: str) -> CompilationError:
    """Return the error for a function that a text calls, declares and does not define."""
    if symbol.startswith("_ZN"):  # namespaces and the name, each after its length
        parts, rest = [], symbol[3:]
        while found := re.match(r"\d+", rest):
            end = found.end() + int(found[0])
            parts.append(rest[found.end() : end])
            rest = rest[end:]
        symbol = parts[-1] if parts else symbol
    symbol = symbol.removeprefix("numjit_scope::numjit_user::")
    return CompilationError(
        f"functor {name!r}: its text declares {symbol!r} and does not define it; write its body"
    )
