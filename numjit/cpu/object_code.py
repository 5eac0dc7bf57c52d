"""Keeps the machine code of CPU loops that Numba made, and loads it with llvmlite alone."""

from __future__ import annotations

import functools
import itertools
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from numjit.cache.elf import elf_fault
from numjit.cache.keys import digest, sources_digest, version_of
from numjit.cpu.chunk import HostChunk
from numjit.dtypes import DType
from numjit.ground.apart import lock

__all__ = ["key_of", "load", "pack"]

_serial = itertools.count()
_lock = lock()


def key_of(
    fingerprint: str,
    specialisation: str,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
) -> str:
    """Return the cache key of a loop: the functor, its types, the compilers and this very processor."""
    shown = ",".join(f"{stored}/{view}" for stored, view in zip(storages, views, strict=True))
    return digest(
        "python loop",
        sources_digest(),
        *(f"{name}={version_of(name)}" for name in ("numba", "llvmlite", "numpy")),
        fingerprint,
        specialisation,
        shown,
        ",".join(map(str, stored_outputs)),
        _processor(),
        *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("NUMBA_")),
    )


@functools.cache
def _processor() -> str:
    """Return what Numba generates code for."""
    import llvmlite.binding as llvm

    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # unknown to LLVM on this platform; the model still tells machines apart
        features = ""
    where = f"{llvm.get_process_triple()} {platform.machine()}"
    return f"{where} {llvm.get_host_cpu_name()} {features}"


def pack(name: str, code: bytes) -> bytes:
    """Return the file of an object that defines the loop under a name."""
    return name.encode() + b"\0" + code


def load(packed: bytes) -> HostChunk | None:
    """Return the loop of a file that `pack` made, or None where it does not link in this process.

    It does not where the code calls one of Numba's own helpers, as complex powers do, or is no object of
    this platform.
    """
    name, _, code = packed.partition(b"\0")
    if not name or (sys.platform == "linux" and elf_fault(code)):
        return None
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder()
    try:
        builder.add_object_img(code).add_current_process().export_symbol(name.decode())
        with _lock:
            jit = _jit()
            library = builder.link(jit, f"numjit_loop_{next(_serial)}")
        address = library[name.decode()]
    except (RuntimeError, ValueError):
        return None
    return HostChunk(address, (library, jit)) if address else None


@functools.cache
def _jit() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_lljit_compiler(machine, suppress_errors=True)
