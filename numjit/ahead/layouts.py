"""The layouts that calls commonly have, by name, as operands to build kernels for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numjit.ahead.operand import Operand
from numjit.errors import ArgumentError

__all__ = ["LAYOUTS", "operands_of"]

#: Rows and columns; nothing depends on how many there are.
_SIDE = 1024
_SHAPE = (_SIDE, _SIDE)


def _all_contiguous(dtype: Any, count: int) -> list[Operand]:
    return [Operand(dtype, _SHAPE)] * count


def _last(**changes: Any) -> Callable[[Any, int], list[Operand]]:
    return lambda dtype, count: (
        [Operand(dtype, _SHAPE)] * (count - 1) + [Operand(dtype, **{"shape": _SHAPE, **changes})]
    )


#: What the last operand is, beside contiguous ones.
LAYOUTS: dict[str, Callable[[Any, int], list[Operand]]] = {
    "contiguous": _all_contiguous,
    "row": _last(shape=(_SIDE,)),
    "column": _last(shape=(_SIDE, 1)),
    "transposed": _last(strides=(1, _SIDE)),
    "sliced": _last(strides=(_SIDE + 64, 1)),
    "strided": _last(strides=(2 * _SIDE, 2)),
    "unaligned": _last(offset=1),
}
#: Layouts that need another operand to differ from.
_NEEDS_TWO = frozenset({"row", "column", "transposed"})


def operands_of(layout: str, dtype: Any, count: int) -> list[Operand] | None:
    """Return `count` operands of one dtype in a layout, or None where so few cannot have it.

    Raises
    ------
    ArgumentError
        There is no such layout.
    """
    if layout not in LAYOUTS:
        raise ArgumentError(f"there is no layout {layout!r}; name some of {', '.join(LAYOUTS)}")
    if count < (2 if layout in _NEEDS_TWO else 1):
        return None
    return LAYOUTS[layout](dtype, count)
