"""Cache keys: one digest over everything a compiled object depends on."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import pathlib

__all__ = ["digest", "sources_digest", "version_of"]


def digest(*parts: str | bytes) -> str:
    """Return a hex digest of `parts`; their boundaries count (``"ab", "c"`` differs from ``"a", "bc"``)."""
    hashed = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        hashed.update(len(raw).to_bytes(8, "little"))
        hashed.update(raw)
    return hashed.hexdigest()


@functools.cache
def version_of(distribution: str) -> str:
    """Return the installed version of a distribution, or ``"absent"``."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


@functools.cache
def sources_digest() -> str:
    """Return a digest of numjit's own files, so that an edited or upgraded numjit compiles anew.

    Names, sizes and times of change: reading every file would cost each process 5 ms.
    """
    root = pathlib.Path(__file__).parent.parent
    found = []
    for path in sorted(root.rglob("*")):
        if path.suffix in {".py", ".h", ".cuh"}:
            stat = path.stat()
            found.append(f"{path.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}")
    return digest(*found)
