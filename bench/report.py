"""Shows results: the table, the cases where a peer wins, and the roof plot."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

__all__ = ["losses", "median_rows", "plot", "plot_first_calls", "plot_host", "plot_sizes", "save", "table"]

OURS = ("numjit", "numjit C++")
COLOURS = {
    "numjit": "#1b7f3b", "numjit C++": "#7bc47f", "eager": "#ee6c4d", "jiterator": "#8d99ae",
    "torch.add": "#f2b5a0", "bare launch": "#222222", "torch.compile": "#3d5a80",
    "CuPy": "#c9ada7", "numba": "#e0c068",
}  # fmt: skip


def _by_case(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["case"], {})[row["provider"]] = row
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the roof fractions as text: a line a case, a column a provider."""
    providers = list(dict.fromkeys(row["provider"] for row in rows))
    lines = ["| case | " + " | ".join(providers) + " | goal |", "| --- |" + " ---: |" * (len(providers) + 1)]
    for case, found in _by_case(rows).items():
        cells = []
        for provider in providers:
            row = found.get(provider, {})
            mark = "" if row.get("correct", True) else " (wrong)"
            cells.append(f"{row['fraction']:.3f}{mark}" if row.get("seconds") else "-")
        goal = next(iter(found.values()))["goal"]
        lines.append(f"| {case} | {' | '.join(cells)} | {goal:.2f} |")
    return "\n".join(lines)


def losses(rows: Sequence[dict[str, Any]], margin: float = 0.01) -> list[str]:
    """Return a line for every case in which a peer beats numjit's better functor by more than `margin`."""
    found = []
    for case, providers in _by_case(rows).items():
        ours = [row["fraction"] for name, row in providers.items() if name in OURS and row.get("seconds")]
        peers = {
            name: row["fraction"]
            for name, row in providers.items()
            if name not in OURS and row.get("seconds")
        }
        if not ours or not peers:
            continue
        best = max(peers, key=lambda name: peers[name])
        if peers[best] > max(ours) * (1 + margin):
            found.append(f"{case}: {best} {peers[best]:.3f}, numjit {max(ours):.3f}")
    return found


def median_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each case and provider: that of the median run, right only if all runs were."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["case"], row["provider"]), []).append(row)
    merged = []
    for runs in found.values():
        timed = sorted((row for row in runs if row.get("seconds")), key=lambda row: row["seconds"])
        row = dict(timed[(len(timed) - 1) // 2] if timed else runs[0])
        if timed:
            row["correct"] = all(run["correct"] for run in timed)
            row["runs"] = [run["seconds"] for run in runs if run.get("seconds")]
        merged.append(row)
    return merged


def plot_sizes(document: dict[str, Any], path: pathlib.Path) -> None:
    """Draw the rate against the number of elements, one line a provider."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in document["rows"]:
        if row.get("seconds"):
            elements = 1 << int(row["case"].removeprefix("2^"))
            lines.setdefault(row["provider"], []).append((elements, row["bytes"] / row["seconds"] / 1e9))
    for provider, points in lines.items():
        axes.plot(
            *zip(*points, strict=True), marker="o", markersize=3, label=provider, color=COLOURS.get(provider)
        )
    axes.axhline(document["roof"] / 1e9, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("elements (float32, x + y)")
    axes.set_ylabel("GB/s, call after call")
    machine = document["environment"]
    axes.set_title(f"{machine['device']}, torch {machine['torch']}")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def plot_first_calls(document: dict[str, Any], path: pathlib.Path) -> None:
    """Draw the times of first calls: a bar for each case and provider, goals as black marks."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = document["rows"]
    states = list(dict.fromkeys(row["state"] for row in rows))
    cases = _by_case(sorted(rows, key=lambda row: states.index(row["state"])))
    providers = list(dict.fromkeys(row["provider"] for row in rows))
    height = 0.84 / len(providers)
    figure, axes = plt.subplots(figsize=(8.5, max(4.0, 0.45 * len(cases))), layout="constrained")
    for k, provider in enumerate(providers):
        bars = [(i, found[provider]) for i, found in enumerate(cases.values()) if provider in found]
        places = [i + (k - len(providers) / 2 + 0.5) * height for i, _ in bars]
        seconds = [row["seconds"] for _, row in bars]
        axes.barh(places, seconds, height, label=provider, color=COLOURS.get(provider))
        goals = [(row["goal"], place) for place, (_, row) in zip(places, bars, strict=True) if row["goal"]]
        if goals:
            axes.plot(*zip(*goals, strict=True), linestyle="", marker="|", color="black", markersize=9)
    axes.set_xscale("log")
    axes.set_xlabel("seconds to the first result")
    axes.set_yticks(range(len(cases)), list(cases), fontsize=8)
    axes.invert_yaxis()
    machine = document["environment"]
    axes.set_title(f"{machine['device']}, torch {machine['torch']}")
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def save(document: dict[str, Any], path: pathlib.Path | None) -> None:
    """Write results as JSON, where there is a path to write them to."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n")


def plot(document: dict[str, Any], path: pathlib.Path) -> None:
    """Draw the roof plot: bars by case, one colour a provider, the roof as a line."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = document["rows"]
    cases = _by_case(rows)
    providers = list(dict.fromkeys(row["provider"] for row in rows))
    width = 0.84 / len(providers)
    figure, axes = plt.subplots(figsize=(max(8.0, 0.62 * len(cases)), 5.2), layout="constrained")
    for k, provider in enumerate(providers):
        heights = [found.get(provider, {}).get("fraction") or 0.0 for found in cases.values()]
        places = [i + (k - len(providers) / 2 + 0.5) * width for i in range(len(cases))]
        axes.bar(places, heights, width, label=provider, color=COLOURS.get(provider))
    axes.axhline(1.0, color="black", linewidth=1)
    axes.set_ylabel("fraction of the copy's memory rate")
    axes.set_xticks(range(len(cases)), list(cases), rotation=40, ha="right")
    axes.set_ylim(0, 1.15)
    machine = document["environment"]
    axes.set_title(f"{machine['device']}, torch {machine['torch']}, copy {document['roof'] / 1e9:.0f} GB/s")
    figure.legend(ncols=len(providers), loc="outside upper center", frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def plot_host(document: dict[str, Any], path: pathlib.Path) -> None:
    """Draw host microseconds: bars by case, one colour a provider; those beyond the axis say how much."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    cases = document["microseconds"]
    providers = list(dict.fromkeys(provider for found in cases.values() for provider in found))
    top = 1.25 * max(found.get("eager", 0.0) for name, found in cases.items() if name != "sum of 8")
    figure, axes = plt.subplots(figsize=(max(8.0, 1.1 * len(cases)), 5.0), layout="constrained")
    width = 0.84 / len(providers)
    for k, provider in enumerate(providers):
        places = [i + (k - len(providers) / 2 + 0.5) * width for i in range(len(cases))]
        heights = [found.get(provider, 0.0) for found in cases.values()]
        axes.bar(places, heights, width, label=provider, color=COLOURS.get(provider))
        for place, height in zip(places, heights, strict=True):
            if height > top:
                axes.text(place, top, f"{height:.0f} ", rotation=90, ha="center", va="top", fontsize=7)
    axes.set_ylim(0, top)
    axes.set_ylabel("host time of a call, microseconds")
    axes.set_xticks(range(len(cases)), list(cases), rotation=30, ha="right")
    machine = document["environment"]
    axes.set_title(f"1024 elements, {machine['device']}, torch {machine['torch']}")
    figure.legend(ncols=len(providers), loc="outside upper center", frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)
