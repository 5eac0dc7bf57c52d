"""``python -m tests.fuzz``: random functors against torch, for a number of seconds or trees."""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import pathlib
import sys
import time

from tests.fuzz.generate import PROFILES, pairs
from tests.fuzz.rules import RULES
from tests.fuzz.session import run_worker


def main() -> int:
    """Run the command line; the exit status says whether anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--trees", type=int, help="stop after so many trials")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--profile", choices=[p.name for p in PROFILES])
    parser.add_argument("--pair", nargs=2, metavar=("RULE", "DTYPE"), help="one rule of one dtype alone")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--shrink", type=float, default=30.0, help="seconds to make one failure smaller")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the counts")
    parser.add_argument("--failures", type=pathlib.Path, help="a folder for the failures' scripts")
    arguments = parser.parse_args()
    start = time.monotonic()
    if arguments.workers == 1:
        reports = [run_worker(arguments, 0)]
    else:
        with multiprocessing.get_context("spawn").Pool(arguments.workers) as pool:
            reports = pool.starmap(run_worker, [(arguments, worker) for worker in range(arguments.workers)])
    outcomes: collections.Counter[tuple[str, str]] = collections.Counter()
    met: collections.Counter[tuple[str, str]] = collections.Counter()
    trees: set[str] = set()
    failures: list[str] = []
    for report in reports:
        outcomes += report.outcomes
        met += report.met
        trees |= report.trees
        failures += report.failures
    for text in failures:
        print("-" * 80, text, sep="\n")
    if arguments.failures:
        arguments.failures.mkdir(parents=True, exist_ok=True)
        for k, text in enumerate(failures):
            (arguments.failures / f"failure_{k:03d}.py").write_text(text)
    found = collections.Counter()
    for (_, outcome), count in outcomes.items():
        found[outcome] += count
    rules_met = {rule for rule, _ in met}
    every = pairs()
    counts = {
        "device": arguments.device, "seed": arguments.seed, "seconds": round(time.monotonic() - start),
        "trials": sum(outcomes.values()), "distinct trees": len(trees), **found,
        "rules met": f"{len(rules_met)} of {len(RULES)}",
        "pairs of rule and dtype": f"{len(set(every) & set(met))} of {len(every)}",
    }  # fmt: skip
    if arguments.json:
        never = {
            "rules never met": sorted(set(RULES) - rules_met),
            "pairs never met": [" ".join(pair) for pair in every if pair not in met],
        }
        arguments.json.write_text(json.dumps({**counts, **never}, indent=1) + "\n")
    print(", ".join(f"{name}: {value}" for name, value in counts.items()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
