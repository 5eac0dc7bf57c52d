"""``python -m bench.first_call``: from nothing to the first result in fresh processes, beside peers.

Every program runs in processes of its own, after torch and its tensors are there:

- *cold*: nothing is cached; the time counts ``import`` too.
- in the same process, *new functor* (another of the same layout) and *new layout* (another functor on
  float64, for which numjit has no shell);
- numjit only, in a second process: *new functor, new process*, with the shell on disk;
- *on disk*: the same program again, with all that it left behind.

Of what is repeated, times are medians: of new functors in one process (as long as they take no longer than a
second together), and of numjit's processes that find something on disk.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import torch

from bench.measure import environment
from bench.report import plot_first_calls, save

__all__ = ["GOALS", "LAYOUTS", "PROVIDERS", "main", "measure", "programs", "rows_of"]

#: Layout -> expressions of the operands; `k` is the dtype, `h` the narrower one that is mixed in.
LAYOUTS = {
    "contiguous": "x.to(k), y.to(k)",
    "strided": "x.to(k)[:, 1:], y.to(k)[:, :-1]",
    "mixed": "x.to(k), y.to(h)",
    "8 inputs": "*(x.to(k)[:, 1:], y.to(h)[:, :-1]) * 4,",
}
PROVIDERS = ("numjit C++", "numjit", "jiterator", "torch.compile", "CuPy")
#: State, provider and layout (or all of them) -> seconds that are aimed at on a GPU.
GOALS: dict[tuple[str, str, str], float] = {
    ("cold", "numjit C++", ""): 2.0,
    ("cold", "numjit", ""): 2.0,
    ("on disk", "numjit C++", ""): 0.010,
    ("on disk", "numjit", ""): 0.010,
    ("new functor", "numjit C++", "contiguous"): 0.075,
    ("new functor", "numjit C++", ""): 0.1,
    ("new functor, new process", "numjit C++", "contiguous"): 0.075,
    ("new functor, new process", "numjit C++", ""): 0.1,
    ("new layout", "numjit C++", ""): 0.4,
    ("new functor", "numjit", ""): 0.15,
    ("import", "numjit", ""): 0.05,
    ("import", "numjit C++", ""): 0.05,
}
STATES = ("import", "cold", "new layout", "new functor", "new functor, new process", "on disk")
#: Processes of a kind that are repeated, for numjit.
PROCESSES = 3
#: Seconds that one process may take, and that the last program may go on after the others' time is over.
TIMEOUT = 90.0
GRACE = 35.0

_PROGRAM = """
import json, statistics, sys, time
import torch
device, provider, layout, tag = {device!r}, {provider!r}, {layout!r}, {tag}
x = torch.rand(64, 64, device=device); y = torch.rand(64, 64, device=device)
if device == "cuda":
    torch.cuda.synchronize()
count = 8 if layout == "8 inputs" else 2
names = [f"x{{i}}" for i in range(count)]
total = " + ".join(names)

def operands(wide):
    k, h = (torch.float64, torch.float32) if wide else (torch.float32, torch.{half})
    return ({operands})

def text(tag):
    head = ", ".join("T " + name for name in names)
    return f"template <typename T> T f{{tag}}({{head}}) {{{{ return {{total}} + T({{tag}}); }}}}"

def function(tag):
    space = {{}}
    lines = f"def f({{', '.join(names)}}):\\n    return {{total}} + {{tag}}"
    exec(compile(lines, f"<f{{tag}}>", "exec"), space)
    return space["f"]

start = time.perf_counter()
if provider in ("numjit", "numjit C++"):
    import numjit
elif provider == "CuPy":
    import cupy
imported = time.perf_counter() - start

def make(tag):
    if provider == "numjit C++":
        return numjit.elementwise(text(tag))
    if provider == "numjit":
        return numjit.elementwise(function(tag))
    if provider == "jiterator":
        return torch.cuda.jiterator._create_jit_fn(text(tag))
    if provider == "torch.compile":
        return torch.compile(function(tag))
    letters = "ABCDEFGH"[:count]
    kernel = cupy.ElementwiseKernel(
        ", ".join(f"{{kind}} {{name}}" for kind, name in zip(letters, names)), "A z",
        f"z = {{total}} + {{tag}}", f"f{{tag}}")
    return lambda *given: kernel(*map(cupy.asarray, given))

def timed(tag, wide):
    given = operands(wide)
    expected = sum(given) + tag
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = make(tag)(*given)
    if device == "cuda":
        torch.cuda.synchronize()
    taken = time.perf_counter() - start
    torch.testing.assert_close(torch.as_tensor(result, device=device), expected, rtol=1e-2, atol=1e-2)
    return taken

found = {{"import": imported, "first": timed(tag, False), "numba": "numba" in sys.modules}}
if {more}:
    taken = []
    while len(taken) < 5 and sum(taken) < 1:
        taken.append(timed(tag + 100 + len(taken), False))
    found["new functor"] = statistics.median(taken)
    found["new layout"] = timed(tag + 200, True)
print(json.dumps(found))
"""


def programs(device: str) -> list[tuple[str, str]]:
    """Return provider and layout of every program that a device has, the most telling first.

    CuPy has no bfloat16; float16 stands in for it there. torch.compile's first call does not depend on the
    layout but for the number of inputs.
    """
    found = [("numjit C++", layout) for layout in LAYOUTS]
    found += [("numjit", layout) for layout in LAYOUTS]
    if device == "cuda":
        found += [("jiterator", layout) for layout in LAYOUTS]
    found += [("torch.compile", "contiguous")]
    if device == "cuda":
        found += [("CuPy", "contiguous"), ("CuPy", "8 inputs")]
    return [*found, ("torch.compile", "8 inputs")]


def _process(
    provider: str, layout: str, device: str, cache: str, tag: int, *, more: bool, timeout: float = TIMEOUT
) -> dict[str, float]:
    program = _PROGRAM.format(
        device=device, provider=provider, layout=layout, tag=tag, more=more, operands=LAYOUTS[layout],
        half="float16" if provider == "CuPy" else "bfloat16",
    )  # fmt: skip
    env = {
        **os.environ,
        "NUMJIT_CACHE_DIR": f"{cache}/numjit",
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "PYTORCH_KERNEL_CACHE_PATH": f"{cache}/jiterator",
        "CUPY_CACHE_DIR": f"{cache}/cupy",
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode, importing is compiling
    pathlib.Path(env["PYTORCH_KERNEL_CACHE_PATH"]).mkdir(exist_ok=True)  # torch makes only the last folder
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=env, timeout=timeout
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise RuntimeError(lines[-1])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(provider: str, layout: str, device: str, until: float = math.inf) -> dict[str, Any]:
    """Run one program in its processes, none of them longer than the monotonic clock's time `until`.

    Returns
    -------
    dict
        Seconds by state, ``"numba on disk"`` (whether the last process imported Numba), and ``"error"`` where
        a process failed: what came before it is kept.
    """
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="numjit-first-", ignore_cleanup_errors=True) as cache:

        def run(tag: int, *, more: bool) -> dict[str, float]:
            timeout = max(5.0, min(TIMEOUT, until - time.monotonic()))
            return _process(provider, layout, device, cache, tag, more=more, timeout=timeout)

        try:
            cold = run(1, more=True)
            found["cold"] = cold["import"] + cold["first"]
            found["new functor"], found["new layout"] = cold["new functor"], cold["new layout"]
            count = 1
            if provider.startswith("numjit"):
                count = PROCESSES
                again = [run(2 + k, more=False)["first"] for k in range(count)]
                found["new functor, new process"] = statistics.median(again)
            disk = [run(1, more=False) for _ in range(count)]
            found["on disk"] = statistics.median(one["first"] for one in disk)
            found["import"] = statistics.median(one["import"] for one in disk)
            found["numba on disk"] = any(one["numba"] for one in disk)
        except (RuntimeError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
            found["error"] = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
    return found


def rows_of(provider: str, layout: str, device: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for every state that was measured, with its goal where there is one."""
    goals = GOALS if device == "cuda" else {}
    rows = []
    for state in STATES:
        if state not in found or (state == "import" and provider in ("jiterator", "torch.compile")):
            continue
        goal = goals.get((state, provider, layout), goals.get((state, provider, "")))
        row = {"case": f"{state}: {layout}", "state": state, "layout": layout, "provider": provider}
        rows.append({**row, "seconds": found[state], "goal": goal})
    return rows


def _table(rows: Sequence[dict[str, Any]]) -> str:
    providers = list(dict.fromkeys(row["provider"] for row in rows))
    cases: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["provider"]] = row
    order = sorted(cases, key=lambda case: STATES.index(case.partition(": ")[0]))
    lines = ["| case, ms | " + " | ".join(providers) + " |", "| --- |" + " ---: |" * len(providers)]
    for case in order:
        cells = []
        for provider in providers:
            row = cases[case].get(provider)
            if row is None:
                cells.append("-")
                continue
            goal = f" (goal {row['goal'] * 1e3:.0f})" if row["goal"] else ""
            cells.append(f"{row['seconds'] * 1e3:.1f}{goal}")
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every program, print the table, and write JSON and plot; both are complete at every step."""
    parser = argparse.ArgumentParser(prog="python -m bench.first_call", description=__doc__)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--providers", nargs="*", choices=PROVIDERS, help="by default all")
    parser.add_argument("--layouts", nargs="*", choices=list(LAYOUTS), help="by default all")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    parser.add_argument("--plot", type=pathlib.Path, help="where to draw them")
    parser.add_argument(
        "--seconds", type=float, default=200.0, help="begin no further program after so long (%(default)s)"
    )
    given = parser.parse_args(arguments)
    device = given.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = [
        (provider, layout)
        for provider, layout in programs(device)
        if provider in (given.providers or PROVIDERS) and layout in (given.layouts or LAYOUTS)
    ]
    begun = time.monotonic()
    document: dict[str, Any] = {"environment": environment(device), "rows": [], "failed": {}, "skipped": []}
    with tempfile.TemporaryDirectory(prefix="numjit-first-", ignore_cleanup_errors=True) as cache:
        try:  # so that the first program does not pay for bytecode and cold files
            _process("numjit", "contiguous", device, cache, 0, more=True)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"a trial run failed: {error}", file=sys.stderr, flush=True)
    for provider, layout in chosen:
        name = f"{provider}, {layout}"
        if time.monotonic() - begun > given.seconds:
            document["skipped"].append(name)
            save(document, given.json)
            continue
        print(f"[{time.monotonic() - begun:5.0f} s] {name}", file=sys.stderr, flush=True)
        found = measure(provider, layout, device, begun + given.seconds + GRACE)
        if "error" in found:
            document["failed"][name] = found["error"]
            print(f"  failed: {found['error']}", file=sys.stderr, flush=True)
        if provider.startswith("numjit") and "numba on disk" in found:
            document.setdefault("numba imported with everything on disk", {})[name] = found["numba on disk"]
        document["rows"] += rows_of(provider, layout, device, found)
        save(document, given.json)
    print(_table(document["rows"]))
    for name, error in document["failed"].items():
        print(f"failed: {name}: {error}")
    if document["skipped"]:
        print(f"skipped after {given.seconds:.0f} s: {'; '.join(document['skipped'])}")
    if given.plot and document["rows"]:
        given.plot.parent.mkdir(parents=True, exist_ok=True)
        plot_first_calls(document, given.plot)
    return 1 if any(name.startswith("numjit") for name in document["failed"]) else 0


if __name__ == "__main__":
    sys.exit(main())
