"""Whether a Python functor computes powers whose type hangs on the sign of a number of the call."""

from __future__ import annotations

import dis
import types

from numjit.functor.bytecode import with_nested
from numjit.functor.fingerprint import Captures

__all__ = ["has_powers"]

_SILENT = frozenset({"CACHE", "EXTENDED_ARG", "NOP"})


def has_powers(fn: types.FunctionType) -> bool:
    """Whether a function, or one that it calls, has a power whose exponent is no literal."""
    return any(_has_power(code) for own in Captures(fn).functions for code in with_nested(own.__code__))


def _has_power(code: types.CodeType) -> bool:
    before = ""
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_GLOBAL", "LOAD_NAME") and instruction.argval == "pow":
            return True
        is_literal = before.startswith(("LOAD_CONST", "LOAD_SMALL_INT"))
        if name == "BINARY_OP" and instruction.argrepr in ("**", "**=") and not is_literal:
            return True
        if name not in _SILENT:
            before = name
    return False
