"""The demo from start to end: compile, check, time, save, print."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

from numjit.errors import NumjitError, ToolchainError

__all__ = ["Difference", "compare", "run", "table"]

#: The photograph is repeated this often in each direction for timing: 4.9 million pixels on a CPU, 79
#: million on a GPU, whose L2 cache would hold the smaller picture and fake the memory rate.
TILES = {"cpu": 4, "cuda": 16}

PYTHON, CUDA_CPP, TORCH = "numjit, Python functor", "numjit, CUDA C++ functor", "torch, eager"


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far a result is from torch's.

    Attributes
    ----------
    largest
        The largest difference, in levels of 255.
    count, total
        How many values differ, and of how many.
    """

    largest: int
    count: int
    total: int

    def __str__(self) -> str:
        if not self.count:
            return f"equal to torch's in all {self.total:,} values"
        levels = "level" if self.largest == 1 else "levels"
        differing = f"{self.count:,} of {self.total:,} values"
        return f"differs from torch's by at most {self.largest} {levels}, in {differing}"


def run(output: pathlib.Path, device: str) -> int:
    """Run the demo and print what it does.

    Parameters
    ----------
    output
        Folder that receives ``tone-mapped.png``; made if missing.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    int
        0 if every functor ran and its result is within one level of torch's, else 1; 2 where `output` cannot
        be made.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # the latter for a NUL in the name
        print(f"numjit demo: --output: {error}; name a folder that can be written", file=sys.stderr)
        return 2
    try:
        chosen = _choose_device(device)
        return _run(output, chosen)
    except (NumjitError, _DemoError) as error:
        print(f"numjit demo: {error}", file=sys.stderr)
        return 1


def compare(result: Any, expected: Any) -> Difference:
    """Compare two uint8 tensors of one shape."""
    distance = (result.int() - expected.int()).abs()
    return Difference(int(distance.max()), int(distance.count_nonzero()), distance.numel())


def table(times: dict[str, float], moved: int | None, rate: float | None) -> str:
    """Lay out the times.

    Parameters
    ----------
    times
        Seconds a call, by provider; `TORCH` is among them.
    moved, rate
        Bytes that a call has to read and write, and the bytes a second of a large copy; both None
        where there is no roof to compare with.
    """
    header = ["", "time", "torch / this"] + (["of the roof"] if moved and rate else [])
    rows = [header]
    for name, seconds in times.items():
        row = [name, f"{seconds * 1e3:.3f} ms", f"{times[TORCH] / seconds:.2f}"]
        if moved and rate:
            row.append(f"{moved / seconds / rate:.3f}")
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = []
    for name, *cells in rows:
        right = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *right]))
    lines = []
    for name, *cells in rows:
        right = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *right]))
    return "\n".join(lines)


class _DemoError(Exception):
    """Something that the demo needs is missing, or a result that is wrong."""


def _choose_device(asked: str) -> str:
    missing = [name for name in ("torch", "matplotlib", "PIL") if importlib.util.find_spec(name) is None]
    if missing:
        raise _DemoError(
            f"needs {', '.join(missing)} (torch checks the results, matplotlib and Pillow make the picture); "
            "install with: pip install 'numjit[torch,demo]'"
        )
    import torch

    available = torch.cuda.is_available()
    if asked == "cuda" and not available:
        raise _DemoError(
            "--device cuda, but torch finds no CUDA device; `python -m numjit info` shows what is there, "
            "--device cpu runs without one"
        )
    return ("cuda" if available else "cpu") if asked == "auto" else asked


def _run(output: pathlib.Path, device: str) -> int:
    import torch

    from numjit.demo import picture, timing, tone

    photograph = picture.load()
    small = torch.from_numpy(photograph.copy()).to(device)
    gains = torch.tensor(tone.GAINS, dtype=torch.float32, device=device)
    pixels = picture.tile(small, TILES[device])
    height, width, channels = pixels.shape
    print(f"device    {_describe(device)}")
    print(f"picture   {width} x {height} pixels, {channels} channels of uint8, gains of shape ({channels},)")

    expected = tone.in_torch(pixels, gains)
    providers: dict[str, Callable[[], Any]] = {}
    wrong: list[str] = []
    after = None
    for name, functor in ((PYTHON, tone.in_python), (CUDA_CPP, tone.in_cuda_cpp)):
        try:
            _compile(name, functor, pixels, gains)
        except ToolchainError as error:
            print(f"{name} left out: {error}")
            continue
        difference = compare(functor(pixels, gains), expected)
        print(f"check     {name}: {difference}")
        if difference.largest > 1:
            wrong.append(name)
        providers[name] = functools.partial(functor, pixels, gains)
        after = functor(small, gains) if after is None else after
    if after is None:
        raise _DemoError("neither functor could be compiled; `python -m numjit info` shows what is missing")

    providers[TORCH] = functools.partial(tone.in_torch, pixels, gains)
    times = timing.medians(providers, device)
    moved, rate = None, None
    if device == "cuda":
        moved, rate = 2 * pixels.numel() + gains.numel() * gains.element_size(), timing.copy_rate()
    print()
    print(table(times, moved, rate))
    if rate:
        print(f"the roof is a device-to-device copy, here {rate / 1e9:.0f} GB/s read and written")

    path = output / "tone-mapped.png"
    picture.save_side_by_side(photograph, after.cpu().numpy(), path, f"exposure x {tone.EXPOSURE:g}, warmer")
    print(f"\nbefore and after are in {path}")
    if wrong:
        raise _DemoError(f"wrong result from {', '.join(wrong)}: more than one level from torch's")
    return 0


def _compile(name: str, functor: Callable[..., Any], pixels: Any, gains: Any) -> None:
    """Call a functor once, which compiles it, and say so: this is where a user waits."""
    print(f"compiling {name} ...", end=" ", flush=True)
    start = time.perf_counter()
    try:
        functor(pixels, gains)
    except NumjitError:
        print("failed")
        raise
    print(f"{time.perf_counter() - start:.2f} s")


def _describe(device: str) -> str:
    import torch

    if device == "cuda":
        return f"{torch.cuda.get_device_name()} (torch {torch.__version__})"
    return f"CPU, {torch.get_num_threads()} threads (torch {torch.__version__})"
