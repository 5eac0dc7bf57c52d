"""Compiled objects as files: atomic writes, checked reads, a bounded folder, never an error."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import random
import stat
import tempfile
import warnings
from collections.abc import Callable
from typing import TypeVar

from numjit import config
from numjit.ground import log
from numjit.ground.apart import lock

__all__ = ["DiskStore", "default_store"]

T = TypeVar("T")

#: Follows the payload (readers of cubins ignore what follows the ELF image), then the SHA-256 of name and
#: payload.
_MAGIC = b"numjit02"
_TRAILER = len(_MAGIC) + 32
#: One write in this many looks at the folder's size; where the limit is small every one does.
_PRUNE_EVERY = 32
_SMALL_LIMIT = 64 << 20


class DiskStore:
    """Files named by key in one folder.

    What the files hold is run, so they are read only where nobody else can have written them: the folder and
    the file belong to this user (or to root) and nobody else may write the folder. A file that is truncated,
    damaged, stored under another name or of no use to its reader counts as missing and is replaced. Whatever
    is wrong with the folder costs one warning, and what was compiled stays in memory only.

    Parameters
    ----------
    folder
        Where the files live; made when first written to, for its user alone.
    limit
        Bytes to keep; the files used longest ago go first. With 0 there are no files.
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
        if not self._is_trusted():
            return None
        path = self.path(key, suffix)
        try:
            with path.open("rb") as file:
                if not _is_own(os.fstat(file.fileno())):
                    return None
                raw = file.read()
        except OSError:
            return None
        payload, trailer = raw[:-_TRAILER], raw[-_TRAILER:]
        if trailer != _trailer(key, suffix, payload):
            self.discard(key, suffix)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def load(self, key: str, suffix: str, read: Callable[[bytes], T]) -> T | None:
        """Return what `read` makes of what was stored under `key`; None where nothing was.

        So it is too where `read` raises: what cannot be used is dropped.
        """
        payload = self.get(key, suffix)
        if payload is None:
            return None
        try:
            return read(payload)
        except OSError:  # another file's fault
            return None
        except Exception:  # noqa: BLE001 - compiling anew tells what is wrong, if it was not the file
            self.discard(key, suffix)
            return None

    def discard(self, key: str, suffix: str) -> None:
        """Drop the file of `key`, which is damaged or of no use, so that it is made anew."""
        self.warn_of_damage()
        self.forget(key, suffix)

    def forget(self, key: str, suffix: str) -> None:
        """Drop the file of `key`, if there is one."""
        with contextlib.suppress(OSError):
            self.path(key, suffix).unlink()

    def warn_of_damage(self) -> None:
        """Warn, once, that a file was of no use."""
        self._warn("damaged", f"numjit: a damaged file in the cache {self.folder} is compiled again")

    def has(self, key: str, suffix: str) -> bool:
        """Return whether there is a file of `key`, which need not be intact."""
        return self._is_trusted() and os.path.exists(self.path(key, suffix))  # noqa: PTH110 - never raises

    def put(self, key: str, suffix: str, payload: bytes) -> None:
        """Store `payload` under `key`; readers see the old file or the whole new one."""
        if not self._is_trusted():
            return
        path = self.path(key, suffix)
        try:
            _make(path.parent)
            if not self._is_trusted():  # somebody else was quicker
                return
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
            temporary = pathlib.Path(name)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(payload + _trailer(key, suffix, payload))
                temporary.replace(path)
            except BaseException:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                raise
        except OSError as error:
            self._warn(
                "write", f"numjit: cannot write the cache {self.folder} ({error}); set NUMJIT_CACHE_DIR"
            )
            return
        if self._limit < _SMALL_LIMIT or random.randrange(_PRUNE_EVERY) == 0:  # noqa: S311 - spreads the cost
            self.prune()

    def refusal(self) -> str:
        """Return why what is put here would not stay; empty where it would."""
        if not self._limit:
            return "NUMJIT_CACHE_LIMIT is 0"
        try:
            _make(self.folder)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            return f"the cache folder {self.folder} cannot be written ({error})"
        return "" if self._is_trusted() else f"others may write to the cache folder {self.folder}"

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
                    about = path.stat()
                    found.append((about.st_mtime, about.st_size, path))
        return found

    def _is_trusted(self) -> bool:
        """Whether files may be used: nobody but this user and root can have put them there.

        Asked each time: it takes 2 us, and a folder may be made, or given away, while a process runs.
        """
        if not self._limit:
            return False
        try:
            link, folder = os.lstat(self.folder), os.stat(self.folder)  # noqa: PTH116 - half the time
        except OSError:  # there is none, or what uses it will tell
            return True
        if not (_is_own(link) and _is_own(folder)):
            whose, remedy = "belongs to another user", ""
        elif os.name == "posix" and _others_write(folder):
            whose, remedy = "can be written by others", "take that right away (chmod go-w), or "
        else:
            return True
        self._warn(
            "trust",
            f"numjit: the cache {self.folder} is not used, for it {whose}, whose code would then run here; "
            f"{remedy}set NUMJIT_CACHE_DIR to a folder of your own",
        )
        return False

    def _warn(self, kind: str, message: str) -> None:
        with self._lock:
            if kind in self._warned:
                return
            self._warned.add(kind)
        warnings.warn(message, RuntimeWarning, stacklevel=2)


def _trailer(key: str, suffix: str, payload: bytes) -> bytes:
    """Return what ends a file; the name is in it, so that no file does in another's place."""
    hashed = hashlib.sha256(f"{key}{suffix}\0".encode())
    hashed.update(payload)
    return _MAGIC + hashed.digest()


def _is_own(about: os.stat_result) -> bool:
    """Whether a file belongs to this user, or to root, who can do anything; Windows has no such owners."""
    return os.name != "posix" or about.st_uid in (os.geteuid(), 0)


def _others_write(folder: os.stat_result) -> bool:
    """Whether others may put files into a folder; a group of its owner alone, as many have, is nobody."""
    group = folder.st_mode & stat.S_IWGRP and not _is_private(folder.st_uid, folder.st_gid)
    return bool(group or folder.st_mode & stat.S_IWOTH)


@functools.cache
def _is_private(user: int, group: int) -> bool:
    """Whether a group is a user's first one, of that user's name and without further members."""
    try:
        import grp
        import pwd

        found, owner = grp.getgrgid(group), pwd.getpwuid(user)
    except (ImportError, KeyError):
        return False
    own = owner.pw_gid == group and found.gr_name == owner.pw_name
    return own and not set(found.gr_mem) - {owner.pw_name}


def _make(folder: pathlib.Path) -> None:
    """Make a folder and those above it that are missing, each for its user alone whatever the umask says."""
    try:
        folder.mkdir(mode=0o700)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        _make(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    except OSError:
        if not folder.is_dir():
            raise


_stores: dict[pathlib.Path, DiskStore] = {}


def default_store() -> DiskStore:
    """Return the store of the configured cache folder.

    Raises
    ------
    SettingsError
        A variable of numjit's cannot be read.
    """
    folder = config.cache_dir()
    store = _stores.get(folder)
    if store is None:
        config.check()
        log.show(config.log_topics())
        store = _stores.setdefault(folder, DiskStore(folder))
    return store
