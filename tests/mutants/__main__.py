"""Put each fault back into a copy of the tree, run its tests, and say which of them found it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants import ROOT, Mutant, all_mutants


def found(mutant: Mutant, scratch: Path) -> tuple[bool, str]:
    """Return whether the mutant's tests fail, and pytest's last line."""
    tree = scratch / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in ("numjit", "tests", "bench", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "mkdocs.yml", "constraints.txt"):
        shutil.copy(ROOT / name, tree / name)
    mutant.apply(tree)
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "",
        *mutant.tests.split(),
    ]
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=1200
    )
    lines = done.stdout.strip().splitlines()
    # 1: tests failed; a signal is what some faults end in. Anything else (no tests, usage) is no answer.
    return done.returncode == 1 or done.returncode < 0, lines[-1] if lines else f"exit {done.returncode}"


def main() -> int:
    """Run the command line; the exit status is the number of mutants that no test found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("faults", nargs="*", help="prefixes of faults' names (default: all)")
    arguments = parser.parse_args()
    chosen = [m for m in all_mutants() if not arguments.faults or m.fault.startswith(tuple(arguments.faults))]
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for mutant in chosen:
            start = time.monotonic()
            caught, line = found(mutant, Path(scratch))
            missed += not caught
            verdict = "found" if caught else "MISSED"
            print(f"{mutant.fault:28s} {verdict:7s} {time.monotonic() - start:5.0f} s  {line}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults found")
    return missed


if __name__ == "__main__":
    sys.exit(main())
