"""numjit's settings: one typed function per environment variable, read when asked.

A variable that is empty counts as not set. One that numjit does not understand is a `SettingsError`, raised
by whatever asks first; `check` asks for all that are numjit's own.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys
import tempfile

from numjit.errors import SettingsError

__all__ = ["cache_dir", "cache_limit", "check", "cxx", "home_cache", "launcher", "log_topics", "num_threads"]

_DEFAULT_LIMIT = 1 << 30
_SIZE = re.compile(
    r"(\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})\s*(?:([kmgtp])(i?b)?|b|bytes)?", re.IGNORECASE | re.ASCII
)
_OFF, _ON = ("0", "off", "false", "no"), ("1", "on", "true", "yes")
_MOST_THREADS = 1 << 16


def cache_dir() -> pathlib.Path:
    """Folder of compiled kernels: ``NUMJIT_CACHE_DIR``, else ``$XDG_CACHE_HOME/numjit``, else per user.

    Where a user has no home, it is one of the temporary folder, with the user's number in its name.
    """
    chosen = os.environ.get("NUMJIT_CACHE_DIR")
    if not chosen:
        home = home_cache()
        return _temporary() if home is None else home / "numjit"
    try:
        return pathlib.Path(chosen).expanduser()
    except RuntimeError:
        raise _refused("NUMJIT_CACHE_DIR", "the path of a folder; there is no such home") from None


def home_cache() -> pathlib.Path | None:
    """Return the user's cache folder by the XDG rule, which ignores relative paths; None without a home."""
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg and pathlib.Path(xdg).is_absolute():
        return pathlib.Path(xdg)
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return pathlib.Path(os.environ["LOCALAPPDATA"])
    try:
        return pathlib.Path.home() / ".cache"
    except RuntimeError:
        return None


def _temporary() -> pathlib.Path:
    number = os.geteuid() if hasattr(os, "geteuid") else 0
    return pathlib.Path(tempfile.gettempdir()) / f"numjit-{number}"


def cache_limit() -> int:
    """Bytes that the cache folder may hold: ``NUMJIT_CACHE_LIMIT``, by default 1 GiB; 0 for no files."""
    text = _text("NUMJIT_CACHE_LIMIT")
    if not text:
        return _DEFAULT_LIMIT
    found = _SIZE.fullmatch(text)
    if found is None:
        raise _refused("NUMJIT_CACHE_LIMIT", "a number of bytes, or one with a unit such as 512M or 1.5GiB")
    number, unit, ending = found.groups()
    step = 1000 if ending and len(ending) == 1 else 1024  # GB is 1000**3, G and GiB are 1024**3
    factor = step ** ("kmgtp".index(unit.lower()) + 1) if unit else 1
    return int(number) * factor if number.isdigit() else int(float(number) * factor)


def cxx() -> str | None:
    """Return the C++ compiler asked for: ``NUMJIT_CXX``, else ``CXX``, else None (numjit looks)."""
    for name in ("NUMJIT_CXX", "CXX"):
        text = _text(name)
        if text:
            import shlex

            try:
                shlex.split(text)
            except ValueError as error:
                raise _refused(name, f"a command, as one would type it ({error})") from None
            return text
    return None


def num_threads() -> int | None:
    """Threads of the CPU path: ``NUMJIT_NUM_THREADS``; None means as many as torch uses."""
    text = _text("NUMJIT_NUM_THREADS")
    if not text:
        return None
    if not re.fullmatch(r"\+?\d{1,9}", text, re.ASCII) or not 1 <= int(text) <= _MOST_THREADS:
        raise _refused("NUMJIT_NUM_THREADS", f"a whole number from 1 to {_MOST_THREADS}")
    return int(text)


def launcher() -> bool:
    """Whether warm calls may go through the compiled launcher: ``NUMJIT_LAUNCHER``, ``0`` to do without."""
    text = _text("NUMJIT_LAUNCHER").lower()
    if text and text not in (*_OFF, *_ON):
        raise _refused("NUMJIT_LAUNCHER", "0 or 1")
    return text not in _OFF


#: What ``NUMJIT_LOG`` may name. compile: what was compiled, linked or found on disk; plan: what a new kind of
#: call does; launcher: whether compiled calls are on; torch: operators registered, functors seen through.
_TOPICS = ("compile", "plan", "launcher", "torch")


def log_topics() -> tuple[str, ...]:
    """Topics to print to stderr: ``NUMJIT_LOG``, names with commas between, or ``all``; by default none."""
    asked = [topic.strip().lower() for topic in _text("NUMJIT_LOG").split(",") if topic.strip()]
    if not set(asked) <= {*_TOPICS, "all"}:
        raise _refused("NUMJIT_LOG", f"all, or some of {', '.join(_TOPICS)} with commas between")
    return _TOPICS if "all" in asked else tuple(asked)


def check() -> None:
    """Read every variable that is numjit's own, so that a mistake is told before anything is compiled.

    Raises
    ------
    SettingsError
        One that cannot be read.
    """
    cache_dir()
    cache_limit()
    num_threads()
    launcher()
    log_topics()


def _text(name: str) -> str:
    return os.environ.get(name, "").strip()


def _refused(name: str, accepted: str) -> SettingsError:
    return SettingsError(
        f"the environment variable {name} is {os.environ.get(name)!r}; it takes {accepted}: correct it or "
        "unset it"
    )
