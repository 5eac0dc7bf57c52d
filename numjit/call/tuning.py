"""Autotuning: which launch alternative is fastest for a functor, a card and a class of layouts.

Alternatives differ in block size, steps a thread and access width only, so results never change.
A class of layouts is the default kernel variant and the power of two that the element count falls
in; the winner is remembered in memory and on disk.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from numjit.cache import Memo, default_store, digest
from numjit.cache.keys import sources_digest
from numjit.plan.choose import ALTERNATIVES, DEFAULT, Knobs

__all__ = ["Trial", "best", "layout_class"]

#: Batches timed of each alternative, and launches of a batch.
ROUNDS = 5
BATCH = 8
#: An alternative replaces the defaults only where it is faster by more than noise.
MARGIN = 0.01

_winners: Memo[Knobs] = Memo(4096)


@dataclasses.dataclass(frozen=True)
class Trial:
    """What one alternative took.

    Attributes
    ----------
    knobs
        The alternative.
    seconds
        Median time of one launch.
    """

    knobs: Knobs
    seconds: float


#: Called with the trials of every search where not None (the command line shows them).
report: Callable[[list[Trial]], None] | None = None


def layout_class(variant: str, elements: int) -> str:
    """Return the class that a layout is tuned for: its default variant and size to a power of two."""
    return f"{variant} 2^{max(0, elements - 1).bit_length()}"


def best(key: str, device: str, stream: int, launcher: Callable[[Knobs], Callable[[], None]]) -> Knobs:
    """Return the fastest alternative, from memory, from disk, or by trying them all.

    Parameters
    ----------
    key
        Functor, types and class of layout.
    device
        Name of the card.
    stream
        Raw handle of the stream that the launches go to.
    launcher
        Prepares an alternative and returns what launches it once.
    """

    def build() -> Knobs:
        disk_key = digest("tuning", sources_digest(), device, key)
        found = default_store().load(disk_key, ".json", _read_knobs)
        if found is not None:
            return found
        trials = [_try(knobs, launcher(knobs), stream) for knobs in (DEFAULT, *ALTERNATIVES)]
        if report is not None:
            report(trials)
        winner = fastest(trials)
        default_store().put(disk_key, ".json", json.dumps(winner._asdict()).encode())
        return winner

    return _winners.get_or_build((device, key), build)


def _read_knobs(stored: bytes) -> Knobs:
    """Return the alternative of a file."""
    knobs = Knobs(**json.loads(stored))
    if knobs not in (DEFAULT, *ALTERNATIVES):
        raise ValueError("no such alternative is tried")
    return knobs


def fastest(trials: list[Trial]) -> Knobs:
    """Return the alternative to use: the defaults unless another is clearly faster."""
    default = next(trial for trial in trials if trial.knobs == DEFAULT)
    winner = min(trials, key=lambda trial: trial.seconds)
    return winner.knobs if winner.seconds < default.seconds * (1 - MARGIN) else DEFAULT


def _try(knobs: Knobs, launch: Callable[[], None], stream: int) -> Trial:
    """Time an alternative with CUDA events."""
    import statistics

    from numjit.runtime.driver import check, driver

    cu: Any = driver()
    events = [check(cu.cuEventCreate(0), "create an event") for _ in range(2)]
    try:
        times = []
        for _ in range(ROUNDS):
            launch()
            check(cu.cuEventRecord(events[0], stream), "record an event")
            for _ in range(BATCH):
                launch()
            check(cu.cuEventRecord(events[1], stream), "record an event")
            check(cu.cuEventSynchronize(events[1]), "wait for an event")
            elapsed = check(cu.cuEventElapsedTime(*events), "time a kernel")
            times.append(float(elapsed) / 1000 / BATCH)
        return Trial(knobs, statistics.median(times))
    finally:
        for event in events:
            check(cu.cuEventDestroy(event), "destroy an event")
