"""Order between streams: let one wait for what another has been given so far."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from numjit.runtime.driver import Current, check, driver

__all__ = ["LEGACY_STREAM", "PER_THREAD_STREAM", "canonical", "is_capturing", "loading", "wait_for"]

#: Handles with a meaning of their own, in CUDA, ``__cuda_array_interface__`` and DLPack alike.
LEGACY_STREAM = 1
PER_THREAD_STREAM = 2
_DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


def canonical(stream: int) -> int:
    """Return the handle by which streams can be compared: the null stream is the legacy one."""
    return stream or LEGACY_STREAM


def is_capturing(stream: int) -> bool:
    """Whether a CUDA graph is being captured from a stream (or nothing can be said of it for that reason)."""
    code, status = driver().cuStreamIsCapturing(canonical(stream))
    return bool(code or status)


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Let the calling thread load code also while a CUDA graph is captured, by itself or by another thread.

    The driver counts loading among the calls that a capture could miss, refuses it and invalidates the
    capture. Code that is loaded stays, so a replay finds it.
    """
    cu = driver()
    doing = "load code beside the capture of a CUDA graph"
    before = check(cu.cuThreadExchangeStreamCaptureMode(_RELAXED), doing)
    try:
        yield
    finally:
        cu.cuThreadExchangeStreamCaptureMode(before)  # the mode that the driver itself has just named


def wait_for(stream: int, producer: int, device_index: int) -> None:
    """Let `stream` run nothing more until what `producer` holds now is done; the host does not wait.

    Parameters
    ----------
    stream, producer
        Raw handles; 0 and 1 are the legacy default stream, 2 the per-thread one.
    device_index
        The device of both.

    Raises
    ------
    LaunchError
        The driver refused, for instance because a CUDA graph is captured.
    """
    if canonical(stream) == canonical(producer):
        return
    cu = driver()
    doing = "wait for the stream of the array's producer"
    with Current(device_index):
        event = check(cu.cuEventCreate(_DISABLE_TIMING), doing)
        try:
            check(cu.cuEventRecord(event, canonical(producer)), doing)
            check(cu.cuStreamWaitEvent(canonical(stream), event, 0), doing)
        finally:
            cu.cuEventDestroy(event)  # allowed at once: the driver frees it when the wait is over
