"""Runs imports and compilations in threads of their own, which no signal reaches and no fork cuts in two.

Python runs signal handlers in the main thread, between any two of its bytecodes. What one raises (Ctrl-C) in
the midst of an import or of Numba leaves modules half initialised and registries half filled, for good. So
the main thread only waits for such work, which an interrupt of the waiting leaves to come to its end. And a
child process has none of its parent's other threads: one forked in the midst of their work would find their
locks held for good. So a fork waits until there is none.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import functools
import importlib
import os
import sys
import threading
import time
import weakref
from _thread import interrupt_main as _interrupt_main
from _thread import start_new_thread as _start_thread
from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar

__all__ = ["Task", "adopted", "apart", "called_from", "lock", "runs_apart"]

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds that a fork waits for other threads' compilations; then the child starts with new locks anyway.
FORK_PATIENCE = 60.0
_IMPORTLIB = "<frozen importlib._bootstrap>"
#: Numba's own locks, which user code may hold that Numba calls.
_FOREIGN = ("numba.core.compiler_lock", "numba.cuda.core.compiler_lock")

_thread = threading.local()
#: For work that runs apart: the line that called numjit, as `warnings.warn_explicit` takes it.
_called_from: contextvars.ContextVar[tuple[str, int, str, dict[Any, Any]] | None]
_called_from = contextvars.ContextVar("numjit_called_from", default=None)
_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> Any:
    """Return a lock that is free in a forked child, unless the thread that forked holds it itself.

    Reentrant: a signal handler or finaliser may call what the interrupted thread is in the midst of.
    """
    made = threading.RLock()
    _locks.add(made)
    return made


class _Gate:
    """Counts the work that is under way; a fork closes it and waits for that."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.active = 0
        #: Forks that wait; meanwhile no work begins, or they might wait for ever.
        self.closing = 0
        self.held: list[Any] = []
        self.is_interrupted = False

    def enter(self) -> None:
        """Begin work."""
        with self.lock:
            while self.closing:
                self.changed.wait()
            self.active += 1

    def leave(self) -> None:
        """End it."""
        with self.lock:
            self.active -= 1
            self.changed.notify_all()

    def close(self) -> None:
        """Wait for work under way, and let none begin, nor Numba compile for others.

        What a handler raises is kept: Python would print and drop it.
        """
        until = time.monotonic() + FORK_PATIENCE
        self.closing += 1
        while not self._is_closed(until):
            pass
        for other in _foreign_locks():
            with self._kept():
                if other.acquire(timeout=max(until - time.monotonic(), 0.0)):
                    self.held.append(other)

    def _is_closed(self, until: float) -> bool:
        with self._kept():
            if not self.lock._is_owned():  # type: ignore[attr-defined]
                self.lock.acquire()
            if not getattr(_thread, "inside", False):
                while self.active and (left := until - time.monotonic()) > 0:
                    self.changed.wait(left)
            return True
        return False

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            self.is_interrupted = True

    def open(self) -> None:
        """Undo `close`."""
        while self.held:
            self.held.pop().release()
        self.closing -= 1
        self.changed.notify_all()
        self.lock.release()
        if self.is_interrupted:
            self.is_interrupted = False
            _start_thread(_interrupt_soon, ())

    def open_in_child(self) -> None:
        """Undo `close` where other threads no longer are."""
        self.is_interrupted = False  # the parent's
        self.open()
        self.changed = threading.Condition(self.lock)
        self.closing = 0
        self.active = int(getattr(_thread, "inside", False))
        for own in [*_locks, *_foreign_locks()]:
            if not own._is_owned():
                own._at_fork_reinit()


def _interrupt_soon() -> None:
    time.sleep(0.01)  # by then the main thread has left ``os.fork``
    _interrupt_main()


_gate = _Gate()

# Before a fork the last one registered acts first. These two then take locks, which work under way may need:
# we must have waited for it by then.
for _name in ("logging", "concurrent.futures.thread"):
    with contextlib.suppress(RuntimeError):  # at the interpreter's end
        importlib.import_module(_name)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_gate.close, after_in_parent=_gate.open, after_in_child=_gate.open_in_child)


def _foreign_locks() -> list[Any]:
    found = []
    for name in _FOREIGN:
        compiler_lock = getattr(sys.modules.get(name), "global_compiler_lock", None)
        own = getattr(compiler_lock, "_lock", None)
        if hasattr(own, "_is_owned"):
            found.append(own)
    return found


class Task(Generic[T]):
    """Work for a thread of its own.

    It is not one of `threading`'s: what a signal handler raises while ``Thread.start`` waits can leave a lock
    held that the new thread needs. Forks wait for it unless it `is_long`: then it is to do what they should
    not cut in two `apart`.
    """

    def __init__(self, work: Callable[[], T], *, is_long: bool = False) -> None:
        self._work = work
        self._is_long = is_long
        self._done = threading.Lock()
        self._done.acquire()
        self._is_done = False
        self._result: list[T] = []
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begin.

        Raises
        ------
        RuntimeError
            There can be no more threads, or the interpreter is about to end.
        """
        _start_thread(contextvars.copy_context().run, (self._run,))

    def _run(self) -> None:
        # As `threading` does, for debuggers and coverage.
        sys.settrace(threading.gettrace())
        sys.setprofile(threading.getprofile())
        if not self._is_long:
            _thread.inside = True
            _gate.enter()
        try:
            self._result.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is waited for
            self._error = error
        finally:
            if not self._is_long:
                _gate.leave()
            self._is_done = True
            self._done.release()
            # What `threading` keeps, for good, of a thread that it did not start and was asked for.
            stand_ins = getattr(threading, "_active", {})
            stand_ins.pop(threading.get_ident(), None)

    def wait(self, seconds: float = -1) -> bool:
        """Wait until the work has come to its end; answers whether it has."""
        if not self._is_done:  # or the lock may be held for good, by a wait that was interrupted at its end
            if not self._done.acquire(timeout=seconds):
                return False
            self._done.release()
        return True

    def result(self) -> T:
        """Wait, and return or raise what came of it; once."""
        self.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # which refers to this frame
        return self._result.pop()


def adopted(work: Callable[[], T]) -> Callable[[], T]:
    """Return `work` for a thread that this one starts and waits for.

    There it counts to what this thread does `apart`, and knows which line called numjit.
    """
    context = contextvars.copy_context()
    context.run(_called_from.set, called_from())

    def run() -> T:
        _thread.inside = True
        return context.run(work)

    return run


def apart(work: Callable[[], T]) -> T:
    """Return ``work()``, run in a thread of its own; an interrupt of the waiting is raised at once.

    The work then still comes to its end, and the process does not end before. It runs in the calling thread
    where that is such a thread already, or has begun what another one would wait for.
    """
    if getattr(_thread, "inside", False) or _must_stay():
        return work()
    task = Task(work)
    told = _called_from.set(_caller())
    try:
        task.start()
    except RuntimeError:
        return work()
    finally:
        _called_from.reset(told)
    return task.result()


def called_from() -> tuple[str, int, str, dict[Any, Any]]:
    """Return the line that called numjit: file, number, module, and the warnings that were shown for it.

    In work that runs `apart` it is that of the thread that waits.
    """
    return _called_from.get() or _caller()


def _caller() -> tuple[str, int, str, dict[Any, Any]]:
    frame = sys._getframe(1)
    inside = ("numjit", "contextlib")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        frame = frame.f_back
    shown = frame.f_globals.setdefault("__warningregistry__", {})
    return frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__", ""), shown


def _end() -> None:
    """Let work that nobody waits for any more come to its end before the interpreter does."""
    with _gate.lock:
        while _gate.active:
            _gate.changed.wait()


# Before other threads are waited for, and before what ``atexit`` runs takes away what they need.
with contextlib.suppress(RuntimeError):  # it has begun to end
    getattr(threading, "_register_atexit", atexit.register)(_end)


def runs_apart(function: Callable[P, T]) -> Callable[P, T]:
    """Let each call of a function run `apart`."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return apart(lambda: function(*args, **kwargs))

    return run


def _must_stay() -> bool:
    """Whether another thread could not start, or would wait for what this one holds."""
    if sys.is_finalizing() or any(own._is_owned() for own in _foreign_locks()):
        return True
    # Whoever is importing a module holds its lock, and Numba imports the module of what it compiles.
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and frame.f_code.co_filename == _IMPORTLIB:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
