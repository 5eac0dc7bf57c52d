"""``python -m bench.host``: microseconds of the host for a call on small tensors, numjit beside its peers."""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

import numjit
from bench import cases
from bench.measure import environment

__all__ = ["host_cases", "main", "microseconds"]

#: Calls between two synchronisations, and how many such batches the median is taken of.
BATCH = 200
ROUNDS = 15

Provider = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def microseconds(calls: dict[str, Provider], device: str) -> dict[str, float]:
    """Return the median host time of a call by provider; batches take turns, no event inside."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call, operands, scalars in calls.values():
        for _ in range(60):
            call(*operands, **scalars)
    order = list(calls.items())
    for _ in range(ROUNDS):
        order.append(order.pop(0))
        for name, (call, operands, scalars) in order:
            _wait(device)
            start = time.perf_counter()
            for _ in range(BATCH):
                call(*operands, **scalars)
            times[name].append((time.perf_counter() - start) / BATCH * 1e6)
    _wait(device)
    return {name: statistics.median(found) for name, found in times.items()}


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def host_cases(device: str) -> dict[str, dict[str, Provider]]:
    """Return case -> provider -> (call, operands, scalars) over 1024 elements."""
    x, y = (torch.randn(1024, device=device) for _ in range(2))
    matrix, row = torch.randn(32, 32, device=device), torch.randn(32, device=device)
    half = y.to(torch.bfloat16)
    out = torch.empty_like(x)
    scaled = {"alpha": 2.5}

    def eager_row(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b

    found: dict[str, dict[str, Provider]] = {
        "gelu": {"numjit": (cases.gelu, (x,), {}), "eager": (cases.eager_gelu, (x,), {})},
        "add": {"numjit": (cases.add, (x, y), {}), "eager": (torch.add, (x, y), {})},
        "add out=": {
            "numjit": (cases.add, (x, y), {"out": out}),
            "eager": (torch.add, (x, y), {"out": out}),
        },
        "axpy": {"numjit": (cases.axpy, (x, y), scaled), "eager": (cases.eager_axpy, (x, y), {})},
        "sin, cos": {"numjit": (cases.sincos, (x,), {}), "eager": (cases.eager_sincos, (x,), {})},
        "sum of 8": {"numjit": (cases.sum8, (x,) * 8, {}), "eager": (cases.eager_sum8, (x,) * 8, {})},
        "(32,32) + (32)": {
            "numjit": (cases.add, (matrix, row), {}),
            "eager": (eager_row, (matrix, row), {}),
        },
        "f32 + bf16": {"numjit": (cases.add, (x, half), {}), "eager": (torch.add, (x, half), {})},
        "x.t() + y": {
            "numjit": (cases.add, (matrix.t(), matrix), {}),
            "eager": (torch.add, (matrix.t(), matrix), {}),
        },
    }
    texts = {
        "gelu": (cases.GELU_CPP, {}), "add": (cases.ADD_CPP, {}), "axpy": (cases.AXPY_CPP, scaled),
        "sum of 8": (cases.SUM8_CPP, {}), "(32,32) + (32)": (cases.ADD_CPP, {}),
        "f32 + bf16": (cases.ADD_CPP, {}), "x.t() + y": (cases.ADD_CPP, {}),
    }  # fmt: skip
    for name, (text, scalars) in texts.items():
        operands = found[name]["numjit"][1]
        found[name]["numjit C++"] = (numjit.elementwise(text, scalars=scalars), operands, scalars)
        if device == "cuda":
            jitted = torch.cuda.jiterator._create_jit_fn(text, **scalars)
            found[name]["jiterator"] = (jitted, operands, scalars)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print ratios, and write JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.host", description=__doc__)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    given = parser.parse_args(arguments)
    device = given.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    rows: dict[str, dict[str, float]] = {}
    for name, calls in host_cases(device).items():
        print(name, file=sys.stderr, flush=True)
        rows[name] = microseconds(calls, device)
        if given.json:
            given.json.parent.mkdir(parents=True, exist_ok=True)
            document = {"environment": environment(device), "microseconds": rows}
            given.json.write_text(json.dumps(document, indent=1) + "\n")
    providers = list(dict.fromkeys(provider for found in rows.values() for provider in found))
    print("| case | " + " | ".join(f"{p}, us" for p in providers) + " | numjit / eager |")
    print("| --- |" + " ---: |" * (len(providers) + 1))
    for name, found in rows.items():
        cells = [f"{found[p]:.2f}" if p in found else "-" for p in providers]
        print(f"| {name} | {' | '.join(cells)} | {found['numjit'] / found['eager']:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
