"""``python -m bench.first_call``: from nothing to the first result in fresh processes, cold and warm."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import torch

from bench.measure import environment

__all__ = ["PROGRAMS", "main", "measure"]

_SETUP = """
import json, sys, time
import torch
if {device!r} == "cuda":
    torch.cuda.init()
x = torch.ones(64, 64, device={device!r}); y = torch.ones(64, 64, device={device!r})
start = time.perf_counter()
import numjit
imported = time.perf_counter() - start
start = time.perf_counter()
{body}
if {device!r} == "cuda":
    torch.cuda.synchronize()
first = time.perf_counter() - start
print(json.dumps({{"import": imported, "first": first, "numba": "numba" in sys.modules}}))
"""
_ADD = '"template <typename T> T add(T x, T y) { return x + y; }"'
#: Name -> what is timed after ``import numjit``.
PROGRAMS = {
    "C++ functor": f"numjit.elementwise({_ADD})(x, y)",
    "C++ functor, strided": f"numjit.elementwise({_ADD})(x[:, 1:], y[:, :-1])",
    "C++ functor, mixed dtypes": f"numjit.elementwise({_ADD})(x, y.to(torch.bfloat16))",
    "Python functor": "numjit.elementwise(lambda x, y: x + y)(x, y)",
    "torch.compile": "torch.compile(lambda x, y: x + y)(x, y)",
    "jiterator": f"torch.cuda.jiterator._create_jit_fn({_ADD})(x, y)",
}


def measure(name: str, device: str, cache: str) -> dict[str, float]:
    """Run one program in a fresh process with the given cache folder; returns seconds by step."""
    program = _SETUP.format(device=device, body=PROGRAMS[name])
    env = {**os.environ, "NUMJIT_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every program with an empty cache, then again with what that left behind."""
    parser = argparse.ArgumentParser(prog="python -m bench.first_call", description=__doc__)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--programs", nargs="*", choices=list(PROGRAMS), help="by default all")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    given = parser.parse_args(arguments)
    device = given.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = given.programs or [name for name in PROGRAMS if device == "cuda" or name != "jiterator"]
    rows: dict[str, dict[str, dict[str, float]]] = {}
    print("| program | import, ms | first call, cold, ms | second process, ms | Numba loaded there |")
    print("| --- | ---: | ---: | ---: | --- |")
    for name in chosen:
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (measure(name, device, cache) for _ in range(2))
        rows[name] = {"cold": cold, "warm": warm}
        print(
            f"| {name} | {warm['import'] * 1e3:.0f} | {cold['first'] * 1e3:.0f} "
            f"| {warm['first'] * 1e3:.1f} | {'yes' if warm['numba'] else 'no'} |",
            flush=True,
        )
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        document = {"environment": environment(device), "seconds": rows}
        given.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
