"""Shows how many of torch's samples were checked, per operation and dtype, at the end of the run."""

from __future__ import annotations

from collections import Counter

#: The property under which a test reports ``[operation, device, dtype, samples, calls]``.
PROPERTY = "torch_samples"


def pytest_terminal_summary(terminalreporter):
    samples, calls = Counter(), Counter()
    for report in terminalreporter.stats.get("passed", ()):
        for name, value in report.user_properties:
            if name == PROPERTY:
                operation, device, dtype, checked, called = value
                samples[operation, device, dtype] += checked
                calls[operation, device] += called
    if not samples:
        return
    dtypes = sorted({key[2] for key in samples})
    terminalreporter.section("torch's jiterator samples that passed")
    titles = ["operation", "device", *dtypes, "samples", "calls"]
    rows = [
        [operation, device, *(samples[operation, device, dtype] for dtype in dtypes)]
        for operation, device in sorted(calls)
    ]
    rows = [[*row, sum(row[2:]), calls[row[0], row[1]]] for row in rows]
    rows.append(["total", "", *(sum(row[k] for row in rows) for k in range(2, len(titles)))])
    widths = [max(len(str(row[k])) for row in (titles, *rows)) for k in range(len(titles))]
    for row in (titles, *rows):
        cells = [
            str(cell).ljust(width) if k < 2 else str(cell).rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        terminalreporter.write_line("  ".join(cells))
