"""What captured constants are when a functor is compiled: read where they are named, as plain numbers."""

from __future__ import annotations

import enum
import operator
import types as pytypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types

from numjit.functor.markers import Direction
from numjit.rules.types import RefusalError

__all__ = ["TEXT", "UNKNOWN", "Constants", "is_text", "plain", "read_constants", "refuse_text"]

#: Stands for a value that depends on the call.
UNKNOWN = object()
TEXT = (
    "it uses a string; a functor has numbers and tuples of numbers only: take an IntEnum, or compare strings "
    "outside of it"
)
#: Calls whose value is computed, to know whether a loop over it has a turn.
_COMPARED = (operator.eq, operator.ne, operator.is_, operator.is_not)
_COMPUTED = (range, len, min, max, abs, bool, int, enumerate, zip, reversed, tuple)


def plain(value: Any) -> Any:
    """Return a number of a class of its own, an IntEnum's for one, as Python's; tuples of them likewise.

    Anything else is returned as it is. Numba takes such numbers for something else, or cannot write them.
    """
    if isinstance(value, tuple) and type(value) is not tuple and not hasattr(value, "_fields"):
        return value
    if isinstance(value, tuple):
        members = tuple(map(plain, value))
        if all(a is b for a, b in zip(members, value, strict=True)):
            return value
        return members if type(value) is tuple else type(value)(*members)
    if isinstance(value, np.float16 | np.longdouble):  # float32 and float64 are numbers to Numba
        return float(value)
    if isinstance(value, np.generic):
        return value
    kinds: tuple[Any, ...] = (bool, int, float, complex)
    for kind in kinds:
        if isinstance(value, kind):
            return value if type(value) is kind else kind(value)
    return value


def read_constants(ir: Any, blocks: dict[int, Any], constants: Constants) -> bool:
    """Put constants where they are named, as ``settings.ALPHA`` or ``Mode.FAST``; whether there were any.

    Members of enumerations and strings are compared here as well, as compilers compare what they hold.
    """
    found = False
    for block in blocks.values():
        for statement in block.find_insts(ir.Assign):
            made = _constant(ir, statement, constants)
            if made is not None:
                statement.value = made
                found = True
    return found


def is_text(value: Any) -> bool:
    """Whether something is a string, or an enumeration of strings: comparing such goes wrong in a kernel."""
    if isinstance(value, enum.EnumMeta):
        return any(is_text(member.value) for member in value)  # type: ignore[var-annotated]
    if isinstance(value, tuple):  # numjit's own have a name
        return not isinstance(value, Direction) and any(map(is_text, value))
    return isinstance(value.value if isinstance(value, enum.Enum) else value, str | bytes)


def refuse_text(ir: Any, blocks: dict[int, Any]) -> None:
    """Refuse captured strings that are still there when what is known has been computed."""
    for block in blocks.values():
        for statement in block.find_insts(ir.Assign):
            if isinstance(statement.value, ir.Global | ir.FreeVar) and is_text(statement.value.value):
                raise _refusal(TEXT, statement)


def _refusal(reason: str, statement: Any) -> RefusalError:
    error = RefusalError(reason)
    error.loc = statement.loc
    return error


def _constant(ir: Any, statement: Any, constants: Constants) -> Any:
    """Return what takes the place of what a statement assigns; None where it stays."""
    value = statement.value
    if isinstance(value, ir.Global | ir.FreeVar):
        known = plain(value.value)
        if known is value.value:
            return None
        if not isinstance(known, tuple):
            return ir.Const(known, value.loc)
        if isinstance(value, ir.Global):
            return ir.Global(value.name, known, value.loc)
        return ir.FreeVar(value.index, value.name, known, value.loc)
    if not isinstance(value, ir.Expr):
        return None
    if value.op == "getattr":
        read = constants.value(statement.target)
        known = plain(read)
        is_number = type(known) in (bool, int, float, complex)
        return ir.Const(known, value.loc) if is_number or known is not read else None
    if value.op == "call" and (value.kws or not (value.args or value.vararg)):
        called = constants.value(value.func)
        if called is min or called is max:  # numba-cuda asks the driver about these
            reason = "takes numbers, or one tuple of them, and nothing else; pass those"
            raise _refusal(f"{called.__name__}() {reason}", statement)
    if value.op == "binop" and value.fn in _COMPARED:
        sides = [constants.value(value.lhs), constants.value(value.rhs)]
        if all(isinstance(side, enum.Enum | str) for side in sides):
            return ir.Const(value.fn(*sides), value.loc)
        if value.fn in (operator.is_, operator.is_not) and all(side is UNKNOWN for side in sides):
            error = RefusalError(
                "`is` asks which object something is, and numbers are none; compare them with =="
            )
            error.loc = value.loc
            raise error
    return None


class Constants:
    """What variables are known to be before types are inferred.

    Parameters
    ----------
    ir
        Numba's module of that name.
    definitions
        What each variable is assigned.
    arguments
        Types of the function's arguments.
    """

    def __init__(self, ir: Any, definitions: dict[str, list[Any]], arguments: tuple[Any, ...]) -> None:
        self._ir = ir
        self._definitions = definitions
        self._arguments = arguments

    def end_of_loop(self, block: Any) -> int | None:
        """Return where a block that asks for a loop's next turn goes after the last, if there is one."""
        branch = block.terminator
        if not isinstance(branch, self._ir.Branch):
            return None
        asked = self.definition(branch.cond)
        if getattr(asked, "op", "") != "pair_second":
            return None
        following = self.definition(asked.value)
        if getattr(following, "op", "") != "iternext":
            return None
        iterator = self.definition(following.value)
        if getattr(iterator, "op", "") != "getiter":
            return None
        turns = self.value(iterator.value)
        return int(branch.falsebr) if isinstance(turns, tuple | range) and len(turns) > 0 else None

    def avoided(self, block: Any) -> int | None:
        """Return where a block never goes, as its condition is known."""
        branch = block.terminator
        if not isinstance(branch, self._ir.Branch):
            return None
        condition = self.value(branch.cond)
        if not isinstance(condition, bool | int | float | None) or branch.truebr == branch.falsebr:
            return None
        return int(branch.falsebr if condition else branch.truebr)

    def functions(self) -> frozenset[str]:
        """Return the variables that inner functions are assigned to."""
        return frozenset(
            name
            for name, found in self._definitions.items()
            if not name.startswith("$") and any(self._is_function(one) for one in found)
        )

    def _is_function(self, variable: Any) -> bool:
        return getattr(self.definition(variable), "op", "") == "make_function"

    def definition(self, variable: Any) -> Any:
        """Return what a variable is assigned, through others; None where that depends."""
        while isinstance(variable, self._ir.Var):
            found = self._definitions.get(variable.name, ())
            if len(found) != 1:
                return None
            variable = found[0]
        return variable

    def value(self, variable: Any, depth: int = 20) -> Any:
        """Return the value of a variable, a tuple perhaps of unknown members; `UNKNOWN` where it depends."""
        found = self.definition(variable)
        if depth == 0 or found is None:
            return UNKNOWN
        if isinstance(found, self._ir.Const | self._ir.Global | self._ir.FreeVar):
            return found.value
        if isinstance(found, self._ir.Arg):
            kind = self._arguments[found.index] if found.index < len(self._arguments) else None
            return _argument(kind)
        if not isinstance(found, self._ir.Expr):
            return UNKNOWN
        if found.op == "build_tuple":
            return tuple(self.value(item, depth - 1) for item in found.items)
        if found.op == "getattr":
            owner = self.value(found.value, depth - 1)
            return getattr(owner, found.attr, UNKNOWN) if _has_constants(owner) else UNKNOWN
        return self._computed(found, depth - 1)

    def _computed(self, found: Any, depth: int) -> Any:
        """Return the value of an operation or call whose operands are known."""
        parts: tuple[Any, ...]
        if found.op in ("binop", "inplace_binop"):
            function, parts = found.fn, (found.lhs, found.rhs)
        elif found.op == "unary":
            function, parts = found.fn, (found.value,)
        elif found.op == "static_getitem":
            owner = self.value(found.value, depth)
            known = isinstance(owner, tuple) and isinstance(found.index, int | slice)
            return _guarded(lambda: owner[found.index]) if known else UNKNOWN
        elif found.op == "call" and not found.kws and not found.vararg:
            function, parts = self.value(found.func, depth), tuple(found.args)
            if not any(function is known for known in _COMPUTED):
                return UNKNOWN
        else:
            return UNKNOWN
        values = [self.value(part, depth) for part in parts]
        if any(value is UNKNOWN for value in values):
            return UNKNOWN
        if function in (enumerate, zip, reversed, tuple):
            return _guarded(lambda: tuple(function(*values)))
        plain = (bool, int, float, tuple, range, type(None))
        if any(not isinstance(value, plain) or _is_long(value) for value in values):
            return UNKNOWN
        return _guarded(lambda: function(*values))


def _argument(kind: Any) -> Any:
    """Return what the type of an argument says of its value."""
    if isinstance(kind, types.BaseTuple):
        return (UNKNOWN,) * len(kind)
    if isinstance(kind, types.Omitted):
        return kind.value
    return None if kind == types.none else UNKNOWN


def _has_constants(owner: Any) -> bool:
    return isinstance(owner, pytypes.ModuleType | enum.Enum | enum.EnumMeta) or hasattr(owner, "_fields")


def _is_long(value: Any) -> bool:
    """Whether computing with a number could take long."""
    return isinstance(value, int) and value.bit_length() > 64


def _guarded(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return UNKNOWN
