"""Compiled objects as files: atomic writes, checked reads, a bounded folder, never an error."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import random
import tempfile
import warnings

from numjit import config
from numjit.apart import lock

__all__ = ["DiskStore", "default_store"]

#: Follows the payload (readers of cubins ignore what follows the ELF image), then its SHA-256.
_MAGIC = b"numjit01"
_TRAILER = len(_MAGIC) + 32
#: One write in this many looks at the folder's size.
_PRUNE_EVERY = 32


class DiskStore:
    """Files named by key in one folder.

    A file that is truncated or damaged counts as missing and is replaced. A folder that cannot be
    created or written costs one warning, and what was compiled stays in memory only.

    Parameters
    ----------
    folder
        Where the files live; created when first written to.
    limit
        Bytes to keep; the files used longest ago go first.
    """

    def __init__(self, folder: pathlib.Path, limit: int | None = None) -> None:
        self.folder = folder
        self._limit = config.cache_limit() if limit is None else limit
        self._warned: set[str] = set()
        self._lock = lock()

    def path(self, key: str, suffix: str) -> pathlib.Path:
        """Return the file of `key`."""
        return self.folder / key[:2] / f"{key}{suffix}"

    def get(self, key: str, suffix: str) -> bytes | None:
        """Return what was stored under `key`, or None."""
        path = self.path(key, suffix)
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        payload, trailer = raw[:-_TRAILER], raw[-_TRAILER:]
        if trailer != _MAGIC + hashlib.sha256(payload).digest():
            self._warn("damaged", f"numjit: a damaged file in the cache {self.folder} is compiled again")
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def has(self, key: str, suffix: str) -> bool:
        """Return whether there is a file of `key`, which need not be intact."""
        return self.path(key, suffix).exists()

    def put(self, key: str, suffix: str, payload: bytes, *, optional: bool = False) -> None:
        """Store `payload` under `key`; readers see the old file or the whole new one.

        Where it cannot be written, an `optional` one costs no warning.
        """
        path = self.path(key, suffix)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
            temporary = pathlib.Path(name)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(payload + _MAGIC + hashlib.sha256(payload).digest())
                temporary.replace(path)
            except BaseException:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                raise
        except OSError as error:
            if not optional:
                self._warn(
                    "write", f"numjit: cannot write the cache {self.folder} ({error}); set NUMJIT_CACHE_DIR"
                )
            return
        if random.randrange(_PRUNE_EVERY) == 0:  # noqa: S311 - spreads the cost, no secret
            self.prune()

    def size(self) -> tuple[int, int]:
        """Return how many files there are and their bytes."""
        sizes = [size for _, size, _ in self._files()]
        return len(sizes), sum(sizes)

    def prune(self) -> None:
        """Remove the files used longest ago until the folder is below its limit."""
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self._limit:
                return
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size

    def _files(self) -> list[tuple[float, int, pathlib.Path]]:
        found = []
        with contextlib.suppress(OSError):
            for path in self.folder.glob("??/*"):
                with contextlib.suppress(OSError):
                    stat = path.stat()
                    found.append((stat.st_mtime, stat.st_size, path))
        return found

    def _warn(self, kind: str, message: str) -> None:
        with self._lock:
            if kind in self._warned:
                return
            self._warned.add(kind)
        warnings.warn(message, RuntimeWarning, stacklevel=2)


_stores: dict[pathlib.Path, DiskStore] = {}


def default_store() -> DiskStore:
    """Return the store of the configured cache folder."""
    folder = config.cache_dir()
    store = _stores.get(folder)
    if store is None:
        store = _stores.setdefault(folder, DiskStore(folder))
    return store
