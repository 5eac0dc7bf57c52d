"""``python -m bench.gradients``: forward and backward of trained functors beside eager and torch.compile."""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional

import numjit
from bench import measure
from bench.cases import GELU_CPP, M, gelu
from bench.measure import copy_rate, environment, same
from bench.report import losses, plot, save, table

__all__ = ["GRADIENT_CASES", "GradientCase", "main", "measure_gradients"]

SWIGLU_CPP = "template <typename T> T swiglu(T x, T gate) { return x / (T(1) + std::exp(-x)) * gate; }"
HUBER_CPP = """template <typename T> T huber(T x, T y) {
  T d = std::abs(x - y);
  return d < T(1) ? T(0.5) * d * d : d - T(0.5);
}"""
DENSITY_CPP = """template <typename T> T density(T x, T mean, T scale) {
  T z = (x - mean) / scale;
  return T(-0.5) * z * z - std::log(scale) - T(0.9189385332046727);
}"""
PROVIDERS = ("numjit", "numjit C++", "eager", "torch.compile")

Operands = tuple[torch.Tensor, ...]
Call = Callable[..., Any]


@numjit.elementwise
def swiglu(x, gate):
    """Gated SiLU."""
    return x / (1 + math.exp(-x)) * gate


@numjit.elementwise
def huber(x, y):
    """Huber's loss without a reduction."""
    d = abs(x - y)
    return 0.5 * d * d if d < 1 else d - 0.5


@numjit.elementwise
def density(x, mean, scale):
    """Logarithm of the normal density."""
    z = (x - mean) / scale
    return -0.5 * z * z - math.log(scale) - 0.9189385332046727


def eager_gelu(x: torch.Tensor) -> torch.Tensor:
    """Call torch's own gelu."""
    return functional.gelu(x, approximate="tanh")


def eager_swiglu(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """As models write it."""
    return functional.silu(x) * gate


def eager_huber(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Call torch's own loss."""
    return functional.huber_loss(x, y, reduction="none")


def eager_density(x: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """As torch.distributions.Normal computes it."""
    return -((x - mean) ** 2) / (2 * scale**2) - scale.log() - math.log(math.sqrt(2 * math.pi))


@dataclasses.dataclass(frozen=True)
class GradientCase:
    """A functor that is trained.

    Attributes
    ----------
    name
        Shown and used to choose cases.
    functor, cpp, eager
        The same in Python, in C++ and in torch; torch.compile compiles the last.
    millions, dtype
        Elements of each operand, in units of 2^20, and their dtype.
    trained
        For each operand whether it gets a gradient.
    positive
        Positions of operands that are above 0.
    rtol
        Relative tolerance against torch in float64, in units of the dtype's epsilon.
    """

    name: str
    functor: Call
    cpp: str
    eager: Call
    millions: int
    dtype: torch.dtype
    trained: tuple[bool, ...]
    positive: tuple[int, ...] = ()
    rtol: float = 16.0

    def make(self, device: str, divide: int) -> Operands:
        """Return fresh operands; those that are trained require grad."""
        made = []
        for k, trained in enumerate(self.trained):
            x = torch.randn(self.millions * M // divide, device=device)
            x = x.abs() + 0.5 if k in self.positive else x
            made.append(x.to(self.dtype).requires_grad_(trained))
        return tuple(made)

    def moved_bytes(self, operands: Operands, part: str) -> int:
        """Bytes that must move: forward inputs and result; backward inputs, its gradient, their gradients."""
        size = operands[0].numel() * operands[0].element_size()
        forward = size * (len(operands) + 1)
        backward = size * (len(operands) + 1 + sum(self.trained))
        return {"forward": forward, "backward": backward, "both": forward + backward}[part]


GRADIENT_CASES = (
    GradientCase("gelu f32", gelu, GELU_CPP, eager_gelu, 64, torch.float32, (True,)),
    GradientCase("gelu bf16", gelu, GELU_CPP, eager_gelu, 128, torch.bfloat16, (True,)),
    GradientCase("swiglu bf16", swiglu, SWIGLU_CPP, eager_swiglu, 96, torch.bfloat16, (True, True)),
    GradientCase("huber f32", huber, HUBER_CPP, eager_huber, 48, torch.float32, (True, False)),
    GradientCase(  # its gradient by scale is a difference: eager's own is up to 20 epsilons from float64's
        "log density f32", density, DENSITY_CPP, eager_density, 32, torch.float32, (True,) * 3, (2,), 64.0
    ),
)


def _providers(case: GradientCase, chosen: Sequence[str]) -> Iterator[tuple[str, Call]]:
    for name in chosen:
        if name == "numjit":
            yield name, case.functor
        elif name == "numjit C++":
            yield name, numjit.elementwise(case.cpp)
        elif name == "eager":
            yield name, case.eager
        else:
            torch._dynamo.reset()
            # The backward is timed again and again on one graph, which must keep what it saved.
            torch._functorch.config.donated_buffer = False
            yield name, torch.compile(case.eager, dynamic=False)


def _both(call: Call, operands: Operands, grad: torch.Tensor) -> Operands:
    leaves = [x for x in operands if x.requires_grad]
    found: Operands = torch.autograd.grad(call(*operands), leaves, grad)
    return found


def _is_right(case: GradientCase, call: Call, operands: Operands, grad: torch.Tensor) -> bool:
    """Whether result and gradients are those of torch in float64, rounded."""
    exact = tuple(x.detach().double().requires_grad_(x.requires_grad) for x in operands)
    value = case.eager(*exact).detach().to(case.dtype)
    wanted = tuple(x.to(case.dtype) for x in _both(case.eager, exact, grad.double()))
    return same((call(*operands).detach(), *_both(call, operands, grad)), (value, *wanted), case.rtol)


def _interleaved(calls: dict[str, Call], sets: Sequence[Any], device: str) -> dict[str, list[float]]:
    """Return the seconds of every batch, the providers taking turns, each warm by its own calls."""
    warm = {
        name: max(1, round(measure.WARM_SECONDS / measure._batch(call, sets, device, measure.SETS, warm=1)))
        for name, call in calls.items()
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls.items())
    for _ in range(measure.ROUNDS):
        order.append(order.pop(0))  # who comes after whom must not count
        for name, call in order:
            times[name].append(measure._batch(call, sets, device, measure.BATCH, warm[name]))
    return times


def measure_gradients(
    case: GradientCase, chosen: Sequence[str], device: str, divide: int, roof: float
) -> list[dict[str, Any]]:
    """Check and time every chosen provider; returns a row for each of forward, backward and both."""
    sets = [case.make(device, divide) for _ in range(measure.SETS)]
    grads = [torch.randn_like(operands[0]).detach() for operands in sets]
    forward: dict[str, Call] = {}
    backward: dict[str, Call] = {}
    both: dict[str, Call] = {}
    verdicts: dict[str, bool | str] = {}
    for name, call in _providers(case, chosen):
        try:
            verdicts[name] = _is_right(case, call, sets[0], grads[0])
        except Exception as error:  # noqa: BLE001 - a peer that fails is a row that says so
            verdicts[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
            continue
        forward[name] = call
        graphs = {id(operands): call(*operands) for operands in sets}

        def pull(operands: Operands, grad: torch.Tensor, graphs: dict[int, torch.Tensor] = graphs) -> Any:
            leaves = [x for x in operands if x.requires_grad]
            return torch.autograd.grad(graphs[id(operands)], leaves, grad, retain_graph=True)

        backward[name] = pull
        both[name] = lambda operands, grad, call=call: _both(call, operands, grad)
    pairs = list(zip(sets, grads, strict=True))
    rows = []
    for part, calls, given in (
        ("forward", forward, sets),
        ("backward", backward, pairs),
        ("both", both, pairs),
    ):
        times = _interleaved(calls, given, device)
        moved = case.moved_bytes(sets[0], part)
        for name, verdict in verdicts.items():
            row: dict[str, Any] = {
                "case": f"{case.name} {part}", "provider": name, "bytes": moved, "goal": 0.95,
            }  # fmt: skip
            if isinstance(verdict, str):
                rows.append(row | {"seconds": None, "remark": verdict})
                continue
            seconds = statistics.median(times[name])
            spread = (max(times[name]) - min(times[name])) / seconds
            fraction = moved / seconds / roof
            rows.append(
                row | {"correct": verdict, "seconds": seconds, "spread": spread, "fraction": fraction}
            )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code is 1 where a result or gradient of numjit's is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.gradients", description=__doc__)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--cases", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument(
        "--providers", nargs="*", choices=PROVIDERS, help="by default all, on a CPU not the last"
    )
    parser.add_argument("--divide", type=int, help="divide the sizes (default 1 on a GPU, 64 on a CPU)")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    parser.add_argument("--plot", type=pathlib.Path, help="where to write the roof plot (PNG or SVG)")
    given = parser.parse_args(arguments)
    device = given.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    divide = given.divide or (1 if device == "cuda" else 64)
    chosen = given.providers or (PROVIDERS if device == "cuda" else PROVIDERS[:-1])
    cases = [c for c in GRADIENT_CASES if not given.cases or any(part in c.name for part in given.cases)]
    roof = copy_rate(device, (1 << 29) // divide)
    document: dict[str, Any] = {
        "environment": environment(device),
        "roof": roof,
        "divide": divide,
        "rows": [],
    }
    print(f"{document['environment']['device']}: a copy moves {roof / 1e9:.0f} GB/s", file=sys.stderr)
    rows: list[dict[str, Any]] = document["rows"]
    for k, case in enumerate(cases, 1):
        print(f"[{k}/{len(cases)}] {case.name}", file=sys.stderr, flush=True)
        rows += measure_gradients(case, chosen, device, divide, roof)
        if device == "cuda":
            torch.cuda.empty_cache()
        save(document, given.json)  # after each case: a run that is cut short keeps what it has
    print(table(rows))
    for line in losses(rows):
        print("a peer wins:", line)
    wrong = [f"{row['case']} by {row['provider']}" for row in rows if not row.get("correct", True)]
    for line in wrong:
        print("wrong:", line)
    if given.plot:
        plot(document, given.plot)
    return 1 if any("numjit" in line for line in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
