"""Python's own functions while a functor is read: ``torch.export`` replaces some of them while it traces."""

from __future__ import annotations

import builtins
import contextlib
import math
from collections.abc import Iterator

__all__ = ["genuine_functions"]

_GENUINE = ((builtins, "max", max), (builtins, "min", min), (math, "pow", math.pow))


@contextlib.contextmanager
def genuine_functions() -> Iterator[None]:
    """Give ``max``, ``min`` and ``math.pow`` their meaning of when numjit was imported."""
    found = [(module, name, getattr(module, name)) for module, name, _ in _GENUINE]
    if all(now is own for (_, _, now), (_, _, own) in zip(found, _GENUINE, strict=True)):
        yield
        return
    try:
        for module, name, own in _GENUINE:
            setattr(module, name, own)
        yield
    finally:
        for module, name, now in found:
            setattr(module, name, now)
