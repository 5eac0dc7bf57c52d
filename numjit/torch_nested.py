"""Operators on torch's jagged nested tensors: one call on the elements that they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["over_jagged"]


def over_jagged(
    cls: Any, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Any:
    return NotImplemented
