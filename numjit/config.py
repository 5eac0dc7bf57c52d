"""numjit's settings: one typed function per environment variable, read when asked."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

__all__ = ["cache_dir", "cache_limit", "cxx", "home_cache", "launcher", "num_threads"]


def cache_dir() -> pathlib.Path:
    """Folder of compiled kernels: ``NUMJIT_CACHE_DIR``, else ``$XDG_CACHE_HOME/numjit``, else per user."""
    chosen = os.environ.get("NUMJIT_CACHE_DIR")
    return pathlib.Path(chosen) if chosen else home_cache() / "numjit"


def home_cache() -> pathlib.Path:
    """Return the user's cache folder by the XDG rule; the temporary folder where there is no home."""
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg:
        return pathlib.Path(xdg)
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return pathlib.Path(os.environ["LOCALAPPDATA"])
    try:
        return pathlib.Path.home() / ".cache"
    except RuntimeError:
        return pathlib.Path(tempfile.gettempdir())


def cache_limit() -> int:
    """Bytes that the cache folder may hold: ``NUMJIT_CACHE_LIMIT``, by default 1 GiB."""
    return int(os.environ.get("NUMJIT_CACHE_LIMIT", str(1 << 30)))


def cxx() -> str | None:
    """Return the C++ compiler asked for: ``NUMJIT_CXX``, else ``CXX``, else None (numjit looks)."""
    return os.environ.get("NUMJIT_CXX") or os.environ.get("CXX") or None


def num_threads() -> int | None:
    """Threads of the CPU path: ``NUMJIT_NUM_THREADS``; None means as many as torch uses."""
    text = os.environ.get("NUMJIT_NUM_THREADS")
    return max(1, int(text)) if text else None


def launcher() -> bool:
    """Whether warm calls may go through the compiled launcher: ``NUMJIT_LAUNCHER``, ``0`` to do without."""
    return os.environ.get("NUMJIT_LAUNCHER", "1") != "0"
