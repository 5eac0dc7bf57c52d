"""Timing of whole calls: warm medians, the providers taking turns, and the copy rate that sets the roof."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["copy_rate", "medians"]

#: Rounds of which the median is taken; the providers take turns within each.
ROUNDS = 9
#: Calls timed together in one round on a GPU, so that the events' own cost does not count.
BATCH = 10
#: Bytes of each side of the copy that measures a GPU's memory rate, far more than any L2 cache holds.
COPY_BYTES = 1 << 30


def medians(providers: Mapping[str, Callable[[], Any]], device: str) -> dict[str, float]:
    """Time warm calls.

    Parameters
    ----------
    providers
        Calls without arguments, by name. Each has been called before, so that nothing compiles here.
    device
        ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    dict
        The median time of one call, in seconds, by name.
    """
    once: Callable[[Callable[[], Any]], float] = _once_on_gpu if device == "cuda" else _once_on_cpu
    for call in providers.values():
        once(call)
    times: dict[str, list[float]] = {name: [] for name in providers}
    for _ in range(ROUNDS):
        for name, call in providers.items():
            times[name].append(once(call))
    return {name: statistics.median(measured) for name, measured in times.items()}


def copy_rate() -> float:
    """Return the rate of a large device-to-device copy in bytes a second, read and written both counted."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    size = min(COPY_BYTES, free // 4)
    source = torch.zeros(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copied = medians({"copy": functools.partial(target.copy_, source)}, "cuda")
    return 2 * float(size) / copied["copy"]


def _once_on_cpu(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _once_on_gpu(call: Callable[[], Any]) -> float:
    import torch

    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(BATCH):
        call()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop)) / 1000 / BATCH
