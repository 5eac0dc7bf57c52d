"""``python -m bench.host``: microseconds of the host for a call on small tensors, numjit beside its peers."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import operator
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import numjit
from bench import cases
from bench.measure import environment
from bench.providers import PROVIDERS
from bench.report import plot_host, save
from numjit.elementwise import Elementwise
from numjit.launcher import attach

__all__ = ["HostCase", "batches", "host_cases", "main", "paired"]

#: Calls between two synchronisations, and how many such batches the median is taken of.
BATCH = 200
ROUNDS = 21
#: Calls of a provider before each of its batches: clocks and caches are its own then.
WARM = 30

#: A launch of the same kernel through ``cuda.bindings`` with everything prepared, and the microseconds that
#: numjit's call may take on top.
LAUNCH = "bare launch"
ABOVE_LAUNCH = 1.2
#: The peer of calls that are recorded: a bare operator of torch within a function of torch's autograd.
BY_HAND = "autograd.Function"
#: The peer of other libraries' arrays: numjit's own call on torch tensors, without the launcher.
IN_PYTHON = "numjit in Python"
#: The peer of registered operators: one around the functor's call, without autograd, ``vmap`` and the rest.
BARE = "bare operator"

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class HostCase:
    """One row: the same work by several providers.

    Attributes
    ----------
    calls
        Provider -> (call, operands, keywords).
    goals
        Peer -> how much of its time numjit may take.
    """

    calls: dict[str, Call]
    goals: dict[str, float] = dataclasses.field(default_factory=dict)


def batches(calls: dict[str, Call], device: str) -> dict[str, list[float]]:
    """Return the host microseconds of a call in each batch, by provider; they take turns, no event inside."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call, operands, keywords in calls.values():
        for _ in range(60):
            call(*operands, **keywords)
    order = list(calls.items())
    for _ in range(ROUNDS):
        order.append(order.pop(0))
        for name, (call, operands, keywords) in order:
            for _ in range(WARM):
                call(*operands, **keywords)
            _wait(device)
            start = time.perf_counter()
            for _ in range(BATCH):
                call(*operands, **keywords)
            times[name].append((time.perf_counter() - start) / BATCH * 1e6)
    _wait(device)
    return times


def paired(times: dict[str, list[float]], compare: Callable[[float, float], float]) -> dict[str, float]:
    """Compare numjit with each peer turn by turn, and return the medians by peer.

    A machine may become faster or slower by a third during a row; within a turn it hardly does.
    """
    own = times.get("numjit", [])
    return {
        peer: statistics.median(map(compare, own, found))
        for peer, found in times.items()
        if own and peer != "numjit"
    }


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _peers(case: cases.Case, operands: tuple[torch.Tensor, ...], names: Sequence[str]) -> dict[str, Call]:
    found: dict[str, Call] = {}
    for name in names:
        call = PROVIDERS[name](case, operands)
        if call is not None:
            found[name] = (call, operands, {})
    return found


def host_cases(device: str, *, peers: bool = True) -> dict[str, HostCase]:
    """Return the cases over 1024 elements; without `peers`, numjit, eager and jiterator only."""
    x, y = (torch.randn(1024, device=device) for _ in range(2))
    matrix, row = torch.randn(32, 32, device=device), torch.randn(32, device=device)
    half, eight = y.to(torch.bfloat16), tuple(torch.randn(1024, device=device) for _ in range(8))
    by_name = {case.name: case for case in cases.CASES}
    rows: dict[str, tuple[str, tuple[torch.Tensor, ...], dict[str, float]]] = {
        "gelu": ("gelu f32", (x,), {"eager": 0.75}),
        "add": ("add int32", (x, y), {"eager": 0.75, "jiterator": 0.65}),
        "axpy": ("axpy f32", (x, y), {"torch.add": 0.75, "jiterator": 0.65}),
        "sin, cos": ("sin, cos", (x,), {}),
        "sum of 8": ("sum of 8", eight, {"jiterator": 0.8}),
        "(32,32) + (32)": ("row broadcast", (matrix, row), {"eager": 0.75}),
        "f32 + bf16": ("add f32+bf16", (x, half), {"eager": 0.75}),
        "x.t() + y": ("x.t() + y f32", (matrix.t(), matrix), {"eager": 0.75}),
    }
    found: dict[str, HostCase] = {}
    for name, (case_name, operands, goals) in rows.items():
        case = by_name[case_name]
        scalars = dict(case.scalars)
        calls: dict[str, Call] = {
            "numjit": (case.functor, operands, scalars),
            "numjit C++": (numjit.elementwise(case.cpp, scalars=scalars), operands, scalars),
            "eager": (case.eager, operands, {}),
        }
        if device == "cuda":
            module = torch.cuda.jiterator
            make = module._create_jit_fn
            if case.outputs > 1:
                jitted = module._create_multi_output_jit_fn(case.cpp, case.outputs)
            else:
                jitted = make(case.cpp, **scalars)
            calls["jiterator"] = (jitted, operands, scalars)
        if name == "axpy":
            calls["torch.add"] = (torch.add, operands, {"alpha": 2.5})
        if peers:
            calls |= _peers(case, operands, ["torch.compile", "CuPy"])
        found[name] = HostCase(calls, goals)
    return found | _more_cases(device, x, y) | _recorded_cases(x, y)


def _more_cases(device: str, x: torch.Tensor, y: torch.Tensor) -> dict[str, HostCase]:
    """Return what is particular to numjit's calls: out=, prepared, a leaf without recording, other arrays."""
    out, leaf = torch.empty_like(x), x.clone().requires_grad_()
    found = {
        "add out=": HostCase(
            {
                "numjit": (cases.add, (x, y), {"out": out}),
                "eager": (torch.add, (x, y), {"out": out}),
            },
            {"eager": 0.75},
        ),
        "add, prepared": HostCase(
            {"numjit": (cases.add.prepare(x, y), (x, y), {}), "eager": (torch.add, (x, y), {})},
            {"eager": 0.75},
        ),
        "add, leaf under no_grad": HostCase(
            {"numjit": (cases.add, (leaf, y), {}), "eager": (torch.add, (leaf, y), {})},
            {"eager": 0.75},
        ),
    }
    registered, bare = _operators()
    found["registered add"] = HostCase(
        {"numjit": (registered, (x, y), {}), BARE: (bare, (x, y), {})}, {BARE: 1.3}
    )
    return found | (_foreign_cases(x, y) if device == "cuda" else _host_array_cases(x, y))


class _Interface:
    """An array that speaks ``__cuda_array_interface__`` and nothing else, as many libraries' do."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


def _foreign_cases(x: torch.Tensor, y: torch.Tensor) -> dict[str, HostCase]:
    """Return calls on arrays of other libraries; results are CuPy's, Numba's, and of the last torch's."""
    python: Call = (functools.partial(Elementwise.__call__, cases.add), (x, y), {})
    found = {}
    with contextlib.suppress(ImportError):
        import cupy

        a, b = cupy.from_dlpack(x), cupy.from_dlpack(y)
        found["add of CuPy arrays"] = HostCase(
            {"numjit": (cases.add, (a, b), {}), "CuPy": (cupy.add, (a, b), {}), IN_PYTHON: python},
            {IN_PYTHON: 2.0},
        )
    with contextlib.suppress(ImportError):
        from numba import cuda

        operands = cuda.as_cuda_array(x), cuda.as_cuda_array(y)
        found["add of Numba arrays"] = HostCase({"numjit": (cases.add, operands, {}), IN_PYTHON: python})
        found["an empty Numba array"] = HostCase({"numba": (cuda.device_array, (1024, "f4"), {})})
    found["add of interface arrays"] = HostCase(
        {"numjit": (cases.add, (_Interface(x), _Interface(y)), {}), IN_PYTHON: python}, {IN_PYTHON: 2.0}
    )
    return found | _jax_cases(x, y, python)


def _host_array_cases(x: torch.Tensor, y: torch.Tensor) -> dict[str, HostCase]:
    """Return calls on the CPU's arrays of other libraries; results are NumPy's, and of JAX's torch's."""
    python: Call = (cases.add, (x, y), {})
    a, b = x.numpy(), y.numpy()
    calls: dict[str, Call] = {
        "numjit": (cases.add, (a, b), {}), "NumPy": (np.add, (a, b), {}), IN_PYTHON: python,
    }  # fmt: skip
    return {"add of NumPy arrays": HostCase(calls, {IN_PYTHON: 2.0}), **_jax_cases(x, y, python)}


def _jax_cases(x: torch.Tensor, y: torch.Tensor, python: Call) -> dict[str, HostCase]:
    """Return a call on JAX's arrays, where JAX has the device; the result is a tensor."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the memory is torch's
    try:
        import jax

        a, b = (jax.dlpack.from_dlpack(tensor) for tensor in (x, y))
    except (ImportError, RuntimeError):
        return {}
    calls: dict[str, Call] = {
        "numjit": (cases.add, (a, b), {}), "JAX": (jax.numpy.add, (a, b), {}), IN_PYTHON: python,
    }  # fmt: skip
    return {"add of JAX arrays": HostCase(calls, {IN_PYTHON: 2.0})}


@functools.cache
def _operators() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the addition as an operator of torch that numjit registers, and as a bare one."""

    def call(x: torch.Tensor, y: torch.Tensor) -> Any:
        return cases.add(x, y)

    numjit.torch_op("numjit_bench::add", cases.add)
    library = torch.library.Library("numjit_bench", "FRAGMENT")
    library.define("bare_add(Tensor x, Tensor y) -> Tensor")
    for device in ("CPU", "CUDA"):
        library.impl("bare_add", call, device)
    _libraries.append(library)
    return torch.ops.numjit_bench.add, torch.ops.numjit_bench.bare_add


#: What torch forgets the operators of when nothing refers to it.
_libraries: list[Any] = []


class _AddByHand(torch.autograd.Function):  # type: ignore[misc]
    """What one writes by hand around a bare operator of torch."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        return torch.add(x, y)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        _, _ = ctx.saved_tensors
        return grad, grad


class _GeluByHand(torch.autograd.Function):  # type: ignore[misc]
    """The same around two operators of torch, one a direction."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return cases.eager_gelu(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        gradient: torch.Tensor = torch.ops.aten.gelu_backward(grad, x, approximate="tanh")
        return gradient


def _recorded_cases(x: torch.Tensor, y: torch.Tensor) -> dict[str, HostCase]:
    """Return calls that torch's autograd records, alone and with the backward that follows.

    numjit computes the sum's gradients; torch and the function written by hand pass the given one on.
    """
    grad = torch.ones_like(x)
    by_name = {case.name: case for case in cases.CASES}
    rows: dict[str, tuple[str, tuple[torch.Tensor, ...], Callable[..., Any]]] = {
        "add": ("add int32", (x, y), _AddByHand.apply),
        "gelu": ("gelu f32", (x,), _GeluByHand.apply),
    }
    found: dict[str, HostCase] = {}
    for name, (case_name, operands, by_hand) in rows.items():
        case = by_name[case_name]
        leaves = tuple(operand.clone().requires_grad_() for operand in operands)
        providers: dict[str, Callable[..., Any]] = {
            "numjit": case.functor,
            "numjit C++": numjit.elementwise(case.cpp, scalars=dict(case.scalars)),
            "eager": case.eager,
            BY_HAND: by_hand,
        }
        found[f"{name}, requires_grad"] = HostCase({p: (call, leaves, {}) for p, call in providers.items()})
        found[f"{name}, forward + backward"] = HostCase(
            {p: (_forward_backward, (call, leaves, grad), {}) for p, call in providers.items()}
        )
    return found


def _forward_backward(call: Callable[..., Any], leaves: tuple[torch.Tensor, ...], grad: torch.Tensor) -> Any:
    return torch.autograd.grad(call(*leaves), leaves, grad)


def bare_launch(x: torch.Tensor, y: torch.Tensor) -> Call:
    """Return a launch of the addition's kernel through ``cuda.bindings`` alone: parameters packed already."""
    from cuda.bindings import driver

    operation = cases.add.__numjit_operation__
    _, _, plan = operation.plan(operation.plain_request, [x, y])
    launcher, out = plan.kernel, torch.empty_like(x)
    scratch, table = launcher._scratch()
    launcher._pack(scratch, 0, out.data_ptr(), x.data_ptr(), y.data_ptr(), *plan.extents)
    stream = torch.cuda.current_stream().cuda_stream
    function, grid, block = driver.CUfunction(launcher.function), plan.grid, launcher.block

    def launch(_keep: Any = (scratch, out)) -> None:
        driver.cuLaunchKernel(function, *grid, *block, 0, stream, table, 0)

    return launch, (), {}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print times and ratios, write JSON, draw."""
    parser = argparse.ArgumentParser(prog="python -m bench.host", description=__doc__)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    parser.add_argument("--plot", type=pathlib.Path, help="where to draw them (PNG or SVG)")
    parser.add_argument("--no-peers", action="store_true", help="leave torch.compile and CuPy out")
    given = parser.parse_args(arguments)
    device = given.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = (torch.randn(1024, device=device) for _ in range(2))
    launcher = False
    if device == "cuda":
        cases.add(x, y)
        launcher = attach.wait()
    rows: dict[str, dict[str, float]] = {}
    goals: dict[str, dict[str, float]] = {}
    ratios: dict[str, dict[str, float]] = {}
    above: dict[str, float] = {}
    for name, case in host_cases(device, peers=not given.no_peers).items():
        print(name, file=sys.stderr, flush=True)
        calls = dict(case.calls)
        if name == "add" and device == "cuda":
            calls[LAUNCH] = bare_launch(x, y)
        with torch.no_grad() if "no_grad" in name else contextlib.nullcontext():
            times = batches(calls, device)
        rows[name] = {provider: statistics.median(found) for provider, found in times.items()}
        ratios[name] = paired(times, operator.truediv)
        if LAUNCH in times:
            above[name] = paired(times, operator.sub)[LAUNCH]
        # On the CPU calls go through Python: torch's operators are no goal.
        own = {BARE, IN_PYTHON} if device == "cpu" else set(case.goals)
        goals[name] = {peer: goal for peer, goal in case.goals.items() if peer in own}
    document = {
        "environment": environment(device),
        "launcher": launcher,
        "microseconds": rows,
        "numjit's time over the peer's": ratios,
        "microseconds above a bare launch": above,
        "goals": goals,
    }
    save(document, given.json)
    if given.plot:
        plot_host({**document, "microseconds": _drawn(rows)}, given.plot)
    print(table(rows, goals, ratios))
    for name, found in above.items():
        print(f"{name}: {found:.2f} us above a bare launch ({ABOVE_LAUNCH:.1f})")
    return 0


def _drawn(rows: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the plot's part of the rows: calls that nothing records, beside others than numjit itself."""
    own = {"numjit", "numba", "JAX", IN_PYTHON}
    return {
        name: {provider: time for provider, time in found.items() if provider != IN_PYTHON}
        for name, found in rows.items()
        if BY_HAND not in found and set(found) - own
    }


def table(
    rows: dict[str, dict[str, float]],
    goals: dict[str, dict[str, float]],
    ratios: dict[str, dict[str, float]],
) -> str:
    """Return the times as text, and numjit's ratio to each peer that there is a goal for."""
    providers = list(dict.fromkeys(provider for found in rows.values() for provider in found))
    lines = ["| case | " + " | ".join(f"{p}, us" for p in providers) + " | ratios (goal) |"]
    lines.append("| --- |" + " ---: |" * len(providers) + " --- |")
    for name, found in rows.items():
        cells = [f"{found[p]:.2f}" if p in found else "-" for p in providers]
        compared = [
            f"{ratios[name][peer]:.2f} x {peer} ({goal:.2f})"
            for peer, goal in goals.get(name, {}).items()
            if peer in found
        ]
        lines.append(f"| {name} | {' | '.join(cells)} | {', '.join(compared)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
