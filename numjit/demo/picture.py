"""The photograph that the demo works on, and the before/after picture that it leaves."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["load", "save_side_by_side", "tile"]

Pixels = npt.NDArray[np.uint8]


def load() -> Pixels:
    """Return matplotlib's sample photograph (Grace Hopper, 1984, public domain): uint8, (600, 512, 3)."""
    from matplotlib import cbook
    from PIL import Image

    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as image:
        return np.asarray(image.convert("RGB"))


def tile(pixels: Any, times: int) -> Any:
    """Repeat a torch picture ``times`` by ``times``: (H, W, 3) becomes (H * times, W * times, 3)."""
    return pixels.repeat(times, times, 1)


def save_side_by_side(before: Pixels, after: Pixels, path: pathlib.Path, caption: str) -> None:
    """Save the two pictures beside each other as a PNG at one pixel a pixel, and make its folder."""
    from matplotlib.figure import Figure

    height, width, _ = before.shape
    dpi, margin, title = 100, 20, 60
    total_width, total_height = 2 * width + 3 * margin, height + title + margin
    figure = Figure(figsize=(total_width / dpi, total_height / dpi), dpi=dpi)
    for index, (pixels, name) in enumerate([(before, "before"), (after, f"after: {caption}")]):
        axes = figure.add_axes(
            (
                (margin + index * (width + margin)) / total_width,
                margin / total_height,
                width / total_width,
                height / total_height,
            )
        )
        axes.imshow(pixels, interpolation="none")
        axes.set_title(name, fontsize=11)
        axes.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
