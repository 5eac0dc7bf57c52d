"""What `numjit.warmup` answers."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Warmed"]


class Warmed(NamedTuple):
    """What `warmup` did.

    Attributes
    ----------
    built, found
        How many shells, kernels and CPU loops were compiled, and how many were on disk already.
    seconds
        How long it took.
    """

    built: int
    found: int
    seconds: float

    def __str__(self) -> str:
        return f"built {self.built}, found {self.found} on disk, in {self.seconds:.1f} s"
