"""Pauses Python's cyclic collector while compilers are imported and run."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator

__all__ = ["collection_paused"]

_lock = threading.Lock()
_depth = 0
_was_enabled = False


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Hold the collector off, as a context or a decorator; nests, also across threads.

    Importing Numba makes a million objects that live on, which the collector would walk again and again: the
    first Python functor of a process took 0.89 s with it and 0.45 s without.
    """
    global _depth, _was_enabled  # noqa: PLW0603 - the process has one collector
    with _lock:
        if _depth == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth = max(_depth - 1, 0)  # 0 already in a child that was forked meanwhile
            if _depth == 0 and _was_enabled:
                gc.enable()


def _after_fork() -> None:
    """In a forked child the threads that were compiling do not exist."""
    global _depth, _lock  # noqa: PLW0603
    _lock = threading.Lock()
    if _depth and _was_enabled:
        gc.enable()
    _depth = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
