"""Runs what does not hold the GIL (NVRTC, loading a library) in a thread beside what does (Numba)."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from numjit.ground.apart import adopted

__all__ = ["beside"]

T = TypeVar("T")


@contextlib.contextmanager
def beside(work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Run `work` in a thread while the body runs; yields a function that waits for its result.

    The function raises what `work` raised. The thread has ended when the context does.
    """
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    own = adopted(work)

    def run() -> None:
        try:
            future.set_result(own())
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)

    thread = threading.Thread(target=run, name="numjit-compile")
    thread.start()
    try:
        yield future.result
    finally:
        thread.join()
