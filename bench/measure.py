"""How it is measured: correct first, then medians of interleaved batches over rotating operands."""

from __future__ import annotations

import datetime
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

import numjit
from bench.cases import Case
from bench.providers import prepare
from numjit.cache.keys import version_of

__all__ = ["copy_rate", "environment", "measure_case", "same"]

#: Sets of operands to rotate among, so that none is found in the L2 cache.
SETS = 3
#: Calls of one batch, and batches of which the median is taken.
BATCH = 18
ROUNDS = 7
#: Seconds that a provider runs on a GPU before each batch of its own is timed: neither an idle gap nor
#: another provider's kernels shall count.
WARM_SECONDS = 0.025


def environment(device: str) -> dict[str, Any]:
    """Return card, versions and date."""
    found: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "numjit": numjit.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": platform.processor() or platform.machine(),
    }
    if device == "cuda":
        found["device"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
    for name in ("numba", "numba-cuda", "cupy-cuda13x", "triton", "numpy", "jax"):
        found[name] = version_of(name)
    return found


def _batch(
    call: Callable[..., Any], sets: Sequence[Sequence[torch.Tensor]], device: str, count: int, warm: int = 0
) -> float:
    """Seconds of one call, over `count` calls that follow `warm` untimed ones."""
    if device == "cpu":
        start = time.perf_counter()
        for i in range(count):
            call(*sets[i % len(sets)])
        return (time.perf_counter() - start) / count
    for i in range(warm):
        call(*sets[i % len(sets)])
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for i in range(count):
        call(*sets[i % len(sets)])
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / 1000 / count


def copy_rate(device: str, count: int = 1 << 29) -> float:
    """Bytes a second, read plus written, of a large copy within the device's memory: the roof."""
    source = torch.randint(0, 255, (count,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = [_batch(lambda: target.copy_(source), [()], device, BATCH, warm=BATCH) for _ in range(ROUNDS)]
    return 2 * count / statistics.median(times)


def same(got: Any, expected: Any, rtol: float) -> bool:
    """Whether results agree in dtype, shape and values, within `rtol` epsilons."""
    many = got if isinstance(got, tuple) else (got,)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for a, b in zip(many, wanted, strict=True):
        a = (
            torch.as_tensor(a)
            if not hasattr(a, "__cuda_array_interface__")
            else torch.as_tensor(a, device="cuda")
        )
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if not (b.dtype.is_floating_point or b.dtype.is_complex):
            if not torch.equal(a, b):
                return False
            continue
        bound = rtol * torch.finfo(b.dtype).eps
        scale = b.abs().float().clamp_min(1.0)
        if not bool(((a - b).abs().float() <= bound * scale).all()):
            return False
    return True


def measure_case(
    case: Case, chosen: Sequence[str], device: str, divide: int, roof: float
) -> list[dict[str, Any]]:
    """Check and time every chosen provider on one case; returns a row for each."""
    sets = [case.make(device, divide) for _ in range(SETS)]
    expected = case.eager(*sets[0])
    results = expected if isinstance(expected, tuple) else (expected,)
    moved = case.moved_bytes(sets[0], results)
    rows, calls = [], {}
    for name, call, remark in prepare(case, sets[0], chosen):
        row: dict[str, Any] = {"case": case.name, "provider": name, "bytes": moved, "goal": case.goal}
        if call is None:
            row |= {"seconds": None, "remark": remark or "not supported"}
        else:
            row["correct"] = same(call(*sets[0]), expected, case.rtol)
            calls[name] = call
        rows.append(row)
    del expected, results
    times: dict[str, list[float]] = {name: [] for name in calls}
    warm = {
        name: max(1, round(WARM_SECONDS / _batch(call, sets, device, SETS, warm=1)))
        for name, call in calls.items()
    }
    order = [(name, call) for name, call in calls.items() if name != "numba"]
    for _ in range(ROUNDS):
        order.append(order.pop(0))  # who comes after whom must not count
        for name, call in order:
            times[name].append(_batch(call, sets, device, BATCH, warm[name]))
    if "numba" in calls:  # on its own: it frees device memory later, in others' batches (up to 15 % of them)
        times["numba"] = [_batch(calls["numba"], sets, device, BATCH, warm["numba"]) for _ in range(ROUNDS)]
    for row in rows:
        measured = times.get(row["provider"])
        if measured:
            seconds = statistics.median(measured)
            row |= {
                "seconds": seconds,
                "spread": (max(measured) - min(measured)) / seconds,
                "fraction": moved / seconds / roof,
            }
    return rows
