"""Threads that run a compiled loop over parts of its elements, without the GIL.

Numba's own threading layers abort when two Python threads use them at once (workqueue) or end a
forked child (OpenMP); a small pool of Python threads around GIL-free native code does neither.

The threads are daemons that are never stopped, and no call depends on them: a call runs every part that
no thread has begun itself. So calls answer in ``atexit`` and finalisers, too, where threads no longer run.
"""

from __future__ import annotations

import ctypes
import os
import queue
import sys
import threading
from _thread import start_new_thread as _start_thread
from collections.abc import Callable

from numjit import config
from numjit.errors import LaunchError

__all__ = ["GRAIN", "parallel_for", "thread_count"]

#: Elements below which another thread costs more than it saves.
GRAIN = 32768


def _native(name: str, result: type | None, *arguments: type) -> Callable[..., int]:
    """Return a function of Python's C interface that is called without the GIL."""
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return ctypes.CFUNCTYPE(result, *arguments)(address)


# Unlike all that `threading` has, these do not run signal handlers while they wait: see `_Job.finish`.
_new_lock = _native("PyThread_allocate_lock", ctypes.c_void_p)
_acquire = _native("PyThread_acquire_lock", ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_release = _native("PyThread_release_lock", None, ctypes.c_void_p)


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


class _Job:
    """The parts of one call that are yet to be begun, and how many threads are at work on others.

    ``idle`` is a native lock, held while any thread of the pool is at work.
    """

    def __init__(self, run: Callable[[int, int], object], parts: list[tuple[int, int]], idle: int) -> None:
        self.run = run
        self.parts = parts
        self.is_closed = False
        self.is_torn = False
        self.error: BaseException | None = None
        self.busy = 0
        self.lock = threading.Lock()  # taken by threads of the pool alone, which no signal interrupts
        self.idle = idle

    def work(self) -> None:
        """Run parts in a thread of the pool until all are begun."""
        with self.lock:
            if self.is_closed or not self.parts:
                return
            if not self.busy and not _acquire(self.idle, 0):  # the call has ended meanwhile
                return
            self.busy += 1
        try:
            # Looked at now that the call would wait for us.
            while not self.is_closed:
                try:
                    start, stop = self.parts.pop()
                except IndexError:
                    break
                self.run(start, stop)
        except BaseException as error:  # noqa: BLE001 - raised by the call
            self.error = error
        finally:
            with self.lock:
                self.busy -= 1
                if not self.busy:
                    _release(self.idle)


#: What the pool's threads wait for; may be used in finalisers and signal handlers.
_queue: queue.SimpleQueue[_Job] = queue.SimpleQueue()
_threads: list[int] = []
#: The calls under way, by their locks; and the locks of those that have ended. A thread that comes late to an
#: ended call may take the lock of the next one: it sees that there is nothing to do and gives it back.
_running: dict[int, _Job] = {}
_unused: list[int] = []


def parallel_for(run: Callable[[int, int], object], total: int) -> None:
    """Call ``run(start, stop)`` over parts that make up ``range(total)``, at once in several threads.

    Parts start at multiples of 64, so that threads do not share cache lines of a contiguous result. Whatever
    a signal handler raises meanwhile, and however often: when this function is left no thread is at work.
    """
    count = -(-total // GRAIN)
    if count > 1:
        count = min(count, thread_count())
    if count <= 1 or sys.is_finalizing():
        run(0, total)
        return
    step = -(-total // count)
    step += -step % 64
    parts = [(start, min(start + step, total)) for start in range(0, total, step)]
    helpers = _grow(len(parts) - 1)
    parts.reverse()  # taken from the end
    idle = _unused.pop() if _unused else _new_lock()
    if not idle:
        raise MemoryError
    job = _Job(run, parts, idle)
    _running[job.idle] = job
    try:
        try:
            for _ in range(helpers):
                _queue.put(job)
            while True:
                try:
                    start, stop = parts.pop()
                except IndexError:
                    break
                run(start, stop)
        finally:
            # Handlers run when a call returns, not here. The wait is one call, which runs none: what they
            # raise comes when buffers may be freed.
            job.is_closed = True
            _acquire(job.idle, 1)
    finally:
        # An interrupt here leaks a lock. A finaliser would free it, but what is raised in one is lost.
        _running.pop(job.idle, None)
        _release(job.idle)
        _unused.append(job.idle)
    if job.is_torn:
        raise LaunchError(
            "the process was forked by a signal handler in the midst of a call, whose threads the child does "
            "not have; end the child in the handler"
        )
    if job.error is not None:
        raise job.error


def _grow(size: int) -> int:
    """See that the pool has so many threads; answers how many of them can be asked for."""
    while len(_threads) < size:
        try:
            # Not one of `threading`'s, whose start a signal handler can cut in two.
            _threads.append(_start_thread(_serve, (_queue,)))
        except RuntimeError:  # no more threads, or none in this interpreter, which may be about to end
            break
    return min(size, len(_threads))


def _serve(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        job = jobs.get()
        job.work()
        del job


def _forget() -> None:
    """In a forked child the pool's threads do not exist: start anew, and wait for none of them."""
    global _queue  # noqa: PLW0603 - one pool a process
    _queue = queue.SimpleQueue()
    _threads.clear()
    for job in list(_running.values()):
        job.lock = threading.Lock()
        job.is_torn = job.busy > 0
        job.busy = 0
    # One of an ended call may be held too, by a thread that came late to it.
    for idle in (*_running, *_unused):
        _acquire(idle, 0)
        _release(idle)
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
