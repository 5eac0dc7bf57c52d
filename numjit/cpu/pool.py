"""Threads that run a compiled loop over parts of its elements, without the GIL.

Numba's own threading layers abort when two Python threads use them at once (workqueue) or end a
forked child (OpenMP); a small pool of Python threads around GIL-free native code does neither.
"""

from __future__ import annotations

import concurrent.futures
import os
import sys
import threading
from collections.abc import Callable

from numjit import config

__all__ = ["GRAIN", "parallel_for", "thread_count"]

#: Elements below which another thread costs more than it saves.
GRAIN = 32768

_lock = threading.Lock()
_pool: concurrent.futures.ThreadPoolExecutor | None = None
_pool_size = 0


def thread_count() -> int:
    """Threads to use: ``NUMJIT_NUM_THREADS``, else what torch is allowed, else the usable cores."""
    chosen = config.num_threads()
    if chosen is not None:
        return chosen
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        return int(torch.get_num_threads())
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parallel_for(run: Callable[[int, int], object], total: int) -> None:
    """Call ``run(start, stop)`` over parts that make up ``range(total)``, at once in several threads.

    Parts start at multiples of 64, so that threads do not share cache lines of a contiguous result.
    """
    parts = -(-total // GRAIN)
    if parts > 1:
        parts = min(parts, thread_count())
    if parts <= 1:
        run(0, total)
        return
    step = -(-total // parts)
    step += -step % 64
    bounds = [(start, min(start + step, total)) for start in range(0, total, step)]
    pool = _get_pool(parts - 1)
    pending = [pool.submit(run, start, stop) for start, stop in bounds[1:]]
    try:
        run(*bounds[0])
    finally:
        concurrent.futures.wait(pending)
    for future in pending:
        future.result()


def _get_pool(size: int) -> concurrent.futures.ThreadPoolExecutor:
    global _pool, _pool_size  # noqa: PLW0603 - one pool a process
    with _lock:
        if _pool is None or _pool_size < size:
            old, _pool_size = _pool, size
            _pool = concurrent.futures.ThreadPoolExecutor(size, thread_name_prefix="numjit")
            if old is not None:
                old.shutdown(wait=False)
        return _pool


def _forget() -> None:
    """In a forked child the pool's threads do not exist: start anew."""
    global _pool, _pool_size, _lock
    _pool, _pool_size, _lock = None, 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
