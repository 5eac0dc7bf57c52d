"""``python -m bench``: run the case list against the peers, print the table, write JSON and the plot."""

from __future__ import annotations

import argparse
import pathlib
import sys

import torch

from bench.measure import copy_rate, environment, measure_case
from bench.providers import PROVIDERS
from bench.report import losses, median_rows, plot, plot_sizes, save, table
from bench.sweeps import SWEEPS


def main() -> int:
    """Run; the exit code is 1 where a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--cases", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("--providers", nargs="*", choices=list(PROVIDERS), help="by default all")
    parser.add_argument("--divide", type=int, help="divide the sizes (default 1 on a GPU, 16 on a CPU)")
    parser.add_argument("--sweep", choices=list(SWEEPS), default="cases", help="which list of cases")
    parser.add_argument("--runs", type=int, default=1, help="go through the list so often; medians are shown")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    parser.add_argument("--plot", type=pathlib.Path, help="where to write the roof plot (PNG or SVG)")
    given = parser.parse_args()
    device = given.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    divide = given.divide or (1 if device == "cuda" else 16)
    chosen = given.providers or [
        name for name in PROVIDERS if device == "cuda" or name in ("numjit", "numjit C++", "eager", "numba")
    ]
    cases = [
        c for c in SWEEPS[given.sweep]() if not given.cases or any(part in c.name for part in given.cases)
    ]
    roof = copy_rate(device, (1 << 29) // divide)
    document = {
        "environment": environment(device), "roof": roof, "divide": divide, "runs": given.runs, "rows": [],
    }  # fmt: skip
    print(f"{document['environment']['device']}: a copy moves {roof / 1e9:.0f} GB/s", file=sys.stderr)
    measured = []
    for run in range(given.runs):
        for k, case in enumerate(cases, 1):
            print(f"run {run + 1} [{k}/{len(cases)}] {case.name}", file=sys.stderr, flush=True)
            measured += measure_case(case, chosen, device, divide, roof)
            document["rows"] = median_rows(measured)
            if device == "cuda":
                torch.cuda.empty_cache()
            save(document, given.json)  # after each case: a run that is cut short keeps what it has
    rows = document["rows"]
    print(table(rows))
    for line in losses(rows):
        print("a peer wins:", line)
    wrong = [f"{row['case']} by {row['provider']}" for row in rows if not row.get("correct", True)]
    for line in wrong:
        print("wrong:", line)
    if given.plot:
        (plot_sizes if given.sweep == "sizes" else plot)(document, given.plot)
    return 1 if any("numjit" in line for line in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
