"""The tone-mapping functor in both languages, and the same expression in torch to check them with."""

from __future__ import annotations

import math
from typing import Any

import numjit

__all__ = ["EXPOSURE", "GAINS", "WHITE", "in_cuda_cpp", "in_python", "in_torch"]

#: Warmth: how much of each channel (red, green, blue) is kept.
GAINS = (1.15, 1.0, 0.7)
#: Factor by which the light is raised before it is compressed.
EXPOSURE = 3.0
#: The light that becomes white (Reinhard et al. 2002, equation 4).
WHITE = 3.0


@numjit.elementwise
def in_python(
    pixel: numjit.float32, gain: numjit.float32, *, exposure: float = EXPOSURE, white: float = WHITE
) -> numjit.uint8:
    """Tone-map one channel of one pixel: uint8 pixels and float32 gains make uint8."""
    level = pixel / 255
    light = level * level * gain * exposure
    mapped = light * (1 + light / (white * white)) / (1 + light)
    return 255 * math.sqrt(min(mapped, 1)) + 0.5


in_cuda_cpp = numjit.elementwise(
    """
    template <typename T>
    uint8_t tone(T pixel, T gain, T exposure, T white) {
        T level = pixel / T(255);
        T light = level * level * gain * exposure;
        T mapped = light * (T(1) + light / (white * white)) / (T(1) + light);
        return static_cast<uint8_t>(T(255) * std::sqrt(std::min(mapped, T(1))) + T(0.5));
    }
    """,
    exposure=EXPOSURE,
    white=WHITE,
)


def in_torch(pixels: Any, gains: Any) -> Any:
    """Answer the same with torch, one operation after another.

    Parameters
    ----------
    pixels
        uint8 tensor of shape (..., 3).
    gains
        float32 tensor of shape (3,).
    """
    import torch

    level = pixels / 255
    light = level * level * gains * EXPOSURE
    mapped = light * (1 + light / (WHITE * WHITE)) / (1 + light)
    return (255 * torch.sqrt(torch.clamp(mapped, max=1)) + 0.5).to(torch.uint8)
