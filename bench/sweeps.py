"""Case lists made by varying one thing: the dtype, the size, or the layout."""

from __future__ import annotations

import torch

from bench.cases import ADD_CPP, CASES, Case, add, random_operand

__all__ = ["SWEEPS"]

_CUPY = ("T x, T y", "T z", "z = x + y")


def _addition(name: str, count: int, dtype: torch.dtype) -> Case:
    def make(device: str, divide: int) -> tuple[torch.Tensor, ...]:
        sizes = max(1, count // divide)
        return tuple(random_operand(sizes, dtype=dtype, device=device) for _ in range(2))

    return Case(name, make, add, ADD_CPP, torch.add, None if dtype is torch.bfloat16 else _CUPY, 0.98)


def dtypes() -> tuple[Case, ...]:
    """Return contiguous additions of 256 MiB operands of every dtype that torch adds."""
    kinds = (
        torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
        torch.float32, torch.float64, torch.complex64, torch.complex128,
    )  # fmt: skip
    return tuple(
        _addition(f"add {str(kind).removeprefix('torch.')}", (1 << 28) // kind.itemsize, kind)
        for kind in kinds
    )


def sizes() -> tuple[Case, ...]:
    """Return contiguous float32 additions from 2^10 to 2^28 elements."""
    return tuple(_addition(f"2^{power}", 1 << power, torch.float32) for power in range(10, 29, 2))


#: Name -> case list; the layouts are the case list itself.
SWEEPS = {"cases": lambda: CASES, "dtypes": dtypes, "sizes": sizes}
