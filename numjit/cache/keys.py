"""Cache keys: one digest over everything a compiled object depends on."""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import sys

__all__ = ["digest", "sources_digest", "version_of", "wheel_version"]

_SUFFIXES = (".py", ".h", ".cuh")


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
    found = wheel_version(distribution)
    if found != "absent":
        return found
    import importlib.metadata

    try:  # installed in some other way than as a folder of metadata on the path
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def wheel_version(distribution: str) -> str:
    """Return the version of a distribution that is only ever installed as a wheel, or ``"absent"``.

    Looking further for one that is absent, as half of NVIDIA's are, would cost 0.2 ms.
    """
    return _installed().get(_normalised(distribution), "absent")


@functools.cache
def _installed() -> dict[str, str]:
    """Return versions by distribution, from the names of metadata folders: reading them costs 4 ms more."""
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - 4 times as fast as paths
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info"):
                distribution, _, version = name.removesuffix(".dist-info").partition("-")
                found.setdefault(_normalised(distribution), version)  # the first on the path is imported
    return found


def _normalised(distribution: str) -> str:
    """Return a name by which spellings compare equal; in names of folders no separator is doubled."""
    return distribution.lower().replace("_", "-").replace(".", "-")


@functools.cache
def sources_digest() -> str:
    """Return a digest of numjit's own files, so that a changed numjit compiles anew.

    Of what they hold: reading them takes 3 ms, once a process, but sizes and dates agree between different
    files where an image or an archive rounds the dates. Where they cannot be read, nothing on disk is taken
    for this numjit's.
    """
    root = pathlib.Path(__file__).parent.parent
    names: list[str] = []
    try:
        _collect(str(root), "", names)
        return digest(*(part for name in sorted(names) for part in (name, _contents(f"{root}/{name}"))))
    except OSError:
        return digest(os.urandom(32))


def _contents(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - two thirds of the time
        return file.read()


def _collect(folder: str, prefix: str, names: list[str]) -> None:
    """Add each source file in a folder, by its path from where the search began."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith(_SUFFIXES):
                names.append(prefix + name)
            elif name != "__pycache__" and entry.is_dir():
                _collect(entry.path, f"{prefix}{name}/", names)
