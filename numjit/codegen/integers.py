"""Integer arithmetic that wraps, on both machines."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from numjit.codegen.machine import Machine

__all__ = ["negated", "wrapping"]

_PTX = {"add": "add.u16", "sub": "sub.u16", "mul": "mul.lo.u16"}


def wrapping(builder: Any, machine: Machine, name: str, x: Any, y: Any) -> Any:
    """Return the ``add``, ``sub`` or ``mul`` of two integers.

    Of 16 bits a GPU's are PTX of their own: NVVM would make ``neg.s16`` and ``abs.s16`` of them, and CUDA's
    assembler (seen in 13.0) does not wrap what these make of -32768: of that x ``x < -x`` and ``x < abs(x)``
    would hold, and -x as a float would be 32768.
    """
    if not machine.is_ptx or x.type.width != 16:
        return getattr(builder, name)(x, y)
    kind = ir.FunctionType(x.type, [x.type, y.type])
    return builder.asm(kind, f"{_PTX[name]} $0, $1, $2;", "=h,h,h", [x, y], side_effect=False)


def negated(builder: Any, machine: Machine, x: Any) -> Any:
    """Return ``-x`` of an integer."""
    return wrapping(builder, machine, "sub", x.type(0), x)
