"""What a functor computes with while it is written over torch tensors, and where its variables are."""

from __future__ import annotations

import ast
import inspect
import math
import operator
import types as pytypes
from collections.abc import Sequence
from typing import Any

from numba.core import types

from numjit.dtypes import DType
from numjit.torch.see_through.lowered import NotLowerable

__all__ = [
    "ARITHMETIC", "BINARY", "BY_VALUE", "COMPARED", "LARGEST", "LIMIT", "NOTHING", "ORDER", "POWERS",
    "PYTHON_KINDS", "SAMPLES", "SYMBOLS", "SYMBOLS_OF_INTEGERS", "SYMBOLS_OF_MANY", "UNARY", "WHOLE",
    "WHOLE_KINDS", "Bind", "Known", "Marker", "Scope", "Value", "bind_arguments", "constant", "lift",
    "torch_name",
]  # fmt: skip

#: More lines than this, from unrolled loops or early returns, take a compiler too long to be worth it.
LIMIT = 2000
#: Operations of one value, those that it shares with others counted each time: Inductor's time to compile
#: grows with that number. Of a Mandelbrot loop on the CPU, 1300 take it under a second, 10 000 take 13.
LARGEST = 4000
_DEPTH = 40
PYTHON_KINDS = {bool: types.boolean, int: types.int64, float: types.float64, complex: types.complex128}
SAMPLES = {types.boolean: True, types.int64: 1, types.float64: 1.0, types.complex128: 1j}
ORDER = (types.boolean, types.int64, types.float64, types.complex128)
NOTHING = object()

BINARY: dict[type[ast.operator], tuple[Any, str]] = {
    ast.Add: (operator.add, "+"), ast.Sub: (operator.sub, "-"), ast.Mult: (operator.mul, "*"),
    ast.Div: (operator.truediv, "/"), ast.FloorDiv: (operator.floordiv, "//"), ast.Mod: (operator.mod, "%"),
    ast.Pow: (operator.pow, "**"), ast.BitAnd: (operator.and_, "&"), ast.BitOr: (operator.or_, "|"),
    ast.BitXor: (operator.xor, "^"), ast.LShift: (operator.lshift, "<<"), ast.RShift: (operator.rshift, ">>"),
}  # fmt: skip
UNARY: dict[type[ast.unaryop], tuple[Any, str]] = {
    ast.USub: (operator.neg, "-"), ast.UAdd: (operator.pos, "+"), ast.Invert: (operator.invert, "~"),
    ast.Not: (operator.not_, "not "),
}  # fmt: skip
COMPARED: dict[type[ast.cmpop], tuple[Any, str]] = {
    ast.Lt: (operator.lt, "<"), ast.LtE: (operator.le, "<="), ast.Gt: (operator.gt, ">"),
    ast.GtE: (operator.ge, ">="), ast.Eq: (operator.eq, "=="), ast.NotEq: (operator.ne, "!="),
}  # fmt: skip
#: How Python computes with real numbers of which only their kinds are known, whatever their values: what
#: could raise is a function of `numjit.torch.see_through.plain_numbers`.
SYMBOLS = {
    **{function: f"{{}} {symbol} {{}}" for function, symbol in COMPARED.values()},
    operator.add: "{} + {}", operator.sub: "{} - {}", operator.mul: "{} * {}",
    operator.neg: "-{}", operator.pos: "+{}", operator.not_: "not {}", operator.invert: "(-1 - {})",
    operator.truediv: "ratio({}, {})", operator.floordiv: "floordiv({}, {})", operator.mod: "modulo({}, {})",
    abs: "abs({})", float: "float({})", bool: "bool({})", operator.truth: "bool({})",
}  # fmt: skip
#: The same of integers and bools.
SYMBOLS_OF_INTEGERS = {
    operator.and_: "{} & {}", operator.or_: "{} | {}", operator.xor: "{} ^ {}",
    operator.pow: "power({}, {})", pow: "power({}, {})", operator.lshift: "shift_left({}, {})",
    operator.rshift: "shift_right({}, {})", int: "int({})", round: "int({})", math.floor: "int({})",
    math.ceil: "int({})", math.trunc: "int({})",
}  # fmt: skip
#: Those of any number of operands.
SYMBOLS_OF_MANY = {max: "max", min: "min"}
ARITHMETIC = frozenset(
    {operator.add, operator.sub, operator.mul, operator.pow, operator.neg, operator.floordiv, operator.mod}
)


#: Operations of ints of which a value decides the type, or that Python's ints of any size answer otherwise.
POWERS = frozenset({operator.pow, pow})
BY_VALUE = POWERS | {operator.lshift, operator.rshift}
WHOLE_KINDS = (types.boolean, types.int64)

#: What Numba gives an int for where the argument is a plain float.
WHOLE = frozenset({math.floor, math.ceil, math.trunc, round})


class Value:
    """A number or an element that the functor computes with.

    Attributes
    ----------
    kind
        Its Numba type: an `Element`, or a plain number type.
    code
        The expression that holds it.
    is_tensor
        Whether that is a tensor (of the type's native dtype), not a Python number.
    constant
        The number itself where it is known already.
    fresh
        Whether a tensor is memory of its own.
    members
        Of a dual: its value, then its tangents. It has no text of its own.
    """

    __slots__ = ("code", "constant", "fresh", "is_tensor", "kind", "members")

    def __init__(
        self,
        kind: Any,
        code: str,
        *,
        is_tensor: bool,
        constant: Any = None,
        fresh: bool = True,
        members: tuple[Value, ...] = (),
    ) -> None:
        self.kind = kind
        self.code = code
        self.is_tensor = is_tensor
        self.constant = constant
        self.fresh = fresh
        self.members = members


class Known:
    """Anything else that a functor can name: functions, modules, ranges."""

    __slots__ = ("scope", "value")

    def __init__(self, value: Any, scope: Scope | None = None) -> None:
        self.value = value
        self.scope = scope


class Scope:
    """Variables at one place: of a function, or of an arm of a condition in it."""

    def __init__(self, fn: pytypes.FunctionType, parent: Scope | None = None, mask: str = "", depth: int = 0):  # noqa: ANN204
        self.fn = fn
        self.parent = parent
        self.mask = mask
        self.depth = depth
        self.names: dict[str, Any] = {}
        self.kept: dict[str, Any] = {}


class Marker:
    """Where ``continue`` or ``break`` of the loop around goes on."""

    def __init__(self, kind: type[ast.stmt]) -> None:
        self.kind = kind


class Bind:
    """The next turn of an unrolled loop: assign a value to the loop's target."""

    def __init__(self, target: ast.expr, value: Any) -> None:
        self.target = target
        self.value = value


def constant(number: Any) -> Value:
    """Return a Python number as a value."""
    for python, kind in PYTHON_KINDS.items():
        if not isinstance(number, python):
            continue
        number = python(number)  # of an enumeration, for one
        if python is int and not -(2**63) <= number < 2**63:
            raise NotLowerable(f"{number} does not fit an int64")
        code = f"complex({number.real!r}, {number.imag!r})" if python is complex else f"({number!r})"
        return Value(kind, code, is_tensor=False, constant=number)
    if hasattr(number, "dtype") and getattr(number, "shape", None) == () and hasattr(number, "item"):
        return constant(number.item())
    raise NotLowerable(f"it uses {number!r}")


def torch_name(dtype: DType) -> str:
    """Return how generated code writes a dtype."""
    return f"torch.{dtype.name}"


def bind_arguments(
    signature: inspect.Signature, name: str, arguments: Sequence[Any], keywords: dict[str, Any]
) -> inspect.BoundArguments:
    """Bind a call's arguments to a function's parameters, defaults included."""
    try:
        bound = signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise NotLowerable(f"{name}: {error}") from None
    bound.apply_defaults()
    return bound


def lift(value: Any) -> Any:
    """Return a Python object as the interpreter holds it."""
    if value is None or isinstance(value, Value | Known):
        return value
    if isinstance(value, tuple):
        return tuple(lift(member) for member in value)
    if isinstance(value, bool | int | float | complex) or (
        hasattr(value, "dtype") and getattr(value, "shape", None) == () and hasattr(value, "item")
    ):
        return constant(value)
    return Known(value)
