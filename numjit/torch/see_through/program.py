"""Writes a Python functor as a function of torch tensors, for one combination of argument types.

The functor's syntax tree is executed on *values*: constants are computed at once, Python numbers that
are known only at the call become Python expressions, and elements become torch calls, typed by the same
rules that the compiled functor is typed by. A condition on elements computes both arms and selects; loops
of a known number of turns are unrolled; functions are inlined.
"""

from __future__ import annotations

import cmath
import functools
import math
import operator
import re
import types as pytypes
from collections.abc import Callable, Sequence
from typing import Any

from numba.core import types

from numjit import dtypes
from numjit import math as numjit_math
from numjit.dtypes import DType
from numjit.functor.fingerprint import MISSING_NAME, resolve
from numjit.rules.dual import Dual, unified
from numjit.rules.table import ATTRIBUTES, CODES, METHODS, RULES
from numjit.rules.torch_text import Term
from numjit.rules.types import Element, Strong, representation, unwrap
from numjit.torch.see_through.lowered import NotLowerable
from numjit.torch.see_through.plain_numbers import ratio
from numjit.torch.see_through.values import (
    ARITHMETIC,
    BY_VALUE,
    LARGEST,
    LIMIT,
    NOTHING,
    ORDER,
    POWERS,
    PYTHON_KINDS,
    SAMPLES,
    SYMBOLS,
    SYMBOLS_OF_INTEGERS,
    SYMBOLS_OF_MANY,
    WHOLE,
    WHOLE_KINDS,
    Known,
    Scope,
    Value,
    bind_arguments,
    constant,
    lift,
    torch_name,
)

__all__ = ["Program"]


def _of_constants(key: Any, rule: Any, numbers: Sequence[Any]) -> Any:
    """Compute with numbers that are known."""
    if key is operator.truediv and not any(isinstance(number, complex) for number in numbers):
        return ratio(*numbers)
    for name, own in (*ATTRIBUTES.items(), *METHODS.items()):
        if rule is own:
            found = getattr(numbers[0], "conjugate" if name == "conj" else name)
            return found() if name in METHODS else found
    return key(*numbers)


#: Functions of complex numbers that torch computes as exactly as numjit.
_EXACT_OF_COMPLEX = frozenset(
    {numjit_math.where, numjit_math.square, numjit_math.angle, numjit_math.isnan, numjit_math.isinf,
     numjit_math.isfinite, cmath.phase, cmath.isnan, cmath.isinf, cmath.isfinite}
)  # fmt: skip


def _is_left_to_numjit(key: Any, values: Sequence[Value | None]) -> bool:
    """Whether torch's function of complex numbers is no replacement for numjit's.

    Some lose all digits near 0 on a GPU, or answer otherwise at infinities and zeros; and since torch's
    compiler has no code of its own for complex numbers, each would be a pass over memory.
    """
    if key in POWERS:
        exponent = values[1]
        return exponent is None or exponent.constant not in range(-2, 5)
    module = getattr(key, "__module__", None)
    return module in ("cmath", "math", "numjit.math") and key not in _EXACT_OF_COMPLEX


_NAMES = re.compile(r"\bv\d+\b")


class Program:
    """The text of one function that is being written."""

    def __init__(self, default_dtype: DType, device: str, *, gradients: bool) -> None:
        self.default_dtype = default_dtype
        self.device = device
        self.gradients = gradients
        #: Applies rules to duals, where a gradient is written; set by whoever makes duals.
        self.tracer: Any = None
        self.lines: list[str] = []
        self.indent = 0
        self._names = 0
        self.depth = 0
        self._total = 0
        self._sizes: dict[str, int] = {}

    # -------------------------------------------------------------------------------- text

    def line(self, text: str) -> None:
        """Write a statement."""
        self._total += 1
        if self._total > LIMIT:
            raise NotLowerable(f"it unrolls to more than {LIMIT} operations")
        self.lines.append("    " * (self.indent + 1) + text)

    def name(self) -> str:
        """Return a new name."""
        self._names += 1
        return f"v{self._names}"

    def let(self, code: str, counted: str | None = None) -> str:
        """Give an expression a name; only what `counted` names counts towards its size."""
        name = self.name()
        self.line(f"{name} = {code}")
        # Counted with what it is computed from, as often as that is named.
        self._sizes[name] = size = 1 + sum(
            self._sizes.get(used, 0) for used in _NAMES.findall(counted or code)
        )
        if size > LARGEST:
            raise NotLowerable(
                f"a value takes more than {LARGEST} operations where nothing is shared, as compilers see it"
            )
        return name

    def filled(self, code: str, dtype: DType) -> str:
        """Return a 0-dim tensor of a number."""
        return self.let(f"torch.full((), {code}, dtype={torch_name(dtype)}, device={self.device})")

    # -------------------------------------------------------------------------- conversions

    def moved(self, value: Value, dtype: DType) -> Term:
        """Return a value as an operand in a compute dtype."""
        if value.is_tensor:
            if representation(value.kind) is dtype:
                return Term(value.code, is_tensor=True)
            return Term(self.let(f"{value.code}.to({torch_name(dtype)})"), is_tensor=True)
        python = {"b": bool, "u": int, "i": int, "f": float, "c": complex}[dtype.kind]
        if value.constant is not None:
            number = python(value.constant)
            if dtype.kind in "ui":
                number &= (1 << dtype.bits) - 1
                number -= (1 << dtype.bits) if dtype.kind == "i" and number >> (dtype.bits - 1) else 0
            return Term(constant(number).code, is_tensor=False, constant=number)
        if PYTHON_KINDS[python] == value.kind or python is complex:
            return Term(value.code, is_tensor=False)
        return Term(f"{python.__name__}({value.code})", is_tensor=False)

    def cast(self, value: Value, kind: Any) -> Value:
        """Convert a value to another scalar type."""
        if value.kind == kind:
            return value
        if isinstance(kind, Dual) or isinstance(value.kind, Dual):
            found: Value = self.tracer.cast(self.tracer.traced(value), kind).value
            return found
        dtype = representation(kind)
        operand = self.moved(value, dtype)
        if isinstance(kind, Strong) and not operand.is_tensor:
            return Value(kind, self.filled(operand.code, dtype), is_tensor=True)
        fresh = value.fresh or operand.code != value.code
        return Value(kind, operand.code, is_tensor=operand.is_tensor, constant=operand.constant, fresh=fresh)

    def unified(self, values: Sequence[Value]) -> Any:
        """Return the type of a variable that is one of these values."""
        kinds = [value.kind for value in values]
        if all(kind == kinds[0] for kind in kinds):
            return kinds[0]
        if any(isinstance(kind, Strong) for kind in kinds):
            return functools.reduce(unified, kinds)
        return max(kinds, key=ORDER.index)

    # -------------------------------------------------------------------------- operations

    def apply(self, key: Any, values: Sequence[Any], keywords: dict[str, Any] | None = None) -> Any:
        """Apply the operation of a rule to values."""
        rule = RULES.get(key, key)
        if rule.spread and len(values) == 1 and isinstance(values[0], tuple):
            values = values[0]
        if rule.signature is not None:
            bound = bind_arguments(rule.signature, rule.name, values, keywords or {})
            values = [lift(value) for value in bound.args]
        elif keywords:
            raise NotLowerable(f"{rule.name} is given an argument by name")
        given = [value for value in values if value is not None]
        if not all(isinstance(value, Value) for value in given):
            raise NotLowerable(f"{rule.name} is given something other than numbers")
        if any(isinstance(value.kind, Dual) for value in given):
            return self.tracer.apply(rule, *(self.tracer.traced(value) for value in values)).value
        if not any(value.is_tensor for value in given):
            number = self._of_numbers(key, rule, values)
            if number is not None:
                return number
            if key is round:  # of a number the rule of elements says nothing
                rounded = self.apply(numjit_math.round, values)
                return rounded if len(values) == 2 else self.cast(rounded, types.int64)
        is_plain = not any(isinstance(value.kind, Strong) for value in given)
        if is_plain and key in ARITHMETIC:
            values = given = [self.cast(v, types.int64) if v.kind == types.boolean else v for v in given]
        kinds = [types.none if value is None else unwrap(value.kind) for value in values]
        is_open = key in POWERS and values[1].constant is None and not values[1].is_tensor
        if is_open and rule.promote(kinds).dtype.is_integral:
            raise NotLowerable("a power of integers hangs on the sign of a number that only the call knows")
        domain, result = rule.resolve(kinds)
        if key not in CODES:
            raise NotLowerable(f"{rule.name} has no counterpart in torch")
        if domain.is_complex and not is_plain and _is_left_to_numjit(key, values):
            raise NotLowerable(f"{rule.name} of complex numbers is computed better by numjit")
        if rule.name in ("math.nextafter", "numjit.math.nextafter"):
            compute = domain if domain.itemsize < 4 else domain.compute
        else:
            compute = domain.compute
        operands = self._operands(rule, values, compute)
        code = CODES[key](self, compute, operands)
        fresh = key not in (ATTRIBUTES["real"], ATTRIBUTES["imag"]) and all(
            operand is None or operand.code != code for operand in operands
        )
        if is_plain and key in WHOLE and result == types.int64:
            code, fresh = f"{code}.to(torch.int64)", True
        return Value(result, code if not fresh else self.let(code), is_tensor=True, fresh=fresh)

    def _operands(self, rule: Any, values: Sequence[Value | None], domain: DType) -> list[Term | None]:
        operands = [None if value is None else self.moved(value, domain) for value in values]
        if rule.name == "numjit.math.where":
            condition = self.moved(self.truth(values[0]), dtypes.bool_)
            if not condition.is_tensor:
                condition = Term(self.filled(condition.code, dtypes.bool_), is_tensor=True)
            operands[0] = condition
        elif rule.name in ("round()", "numjit.math.round") and len(values) == 2 and values[1] is not None:
            operands[1] = Term(values[1].code, is_tensor=False, constant=values[1].constant)
        return operands

    def _of_numbers(self, key: Any, rule: Any, values: Sequence[Value | None]) -> Value | None:
        """Compute with numbers alone: now where all are known, else in Python at the call.

        None where Python would raise, or might: torch then computes with tensors of the numbers.
        """
        given = [value for value in values if value is not None]
        is_open = any(value.constant is None for value in given[key in POWERS :])
        if key in BY_VALUE and is_open and all(value.kind in WHOLE_KINDS for value in given):
            raise NotLowerable(f"{rule.name} of ints hangs on a number that only the call knows")
        is_complex = any(value.kind == types.complex128 for value in given)
        if all(value.constant is not None for value in given):
            try:
                found = _of_constants(key, rule, [v if v is None else v.constant for v in values])
            except (ArithmeticError, TypeError, ValueError):
                return None
            if isinstance(found, complex) and not is_complex and key in (operator.pow, pow, math.pow):
                return None  # a root of a negative number, which is NaN among floats
            return constant(found)
        if is_complex or not callable(key):
            return None
        are_whole = all(value.kind in (types.boolean, types.int64) for value in given)
        symbol = SYMBOLS.get(key) or (SYMBOLS_OF_INTEGERS.get(key) if are_whole else None)
        codes = [value.code for value in given]
        if key in SYMBOLS_OF_MANY:
            code = f"{SYMBOLS_OF_MANY[key]}({', '.join(codes)})"
        elif symbol is not None and symbol.count("{}") == len(codes):
            code = symbol.format(*codes)
        else:
            return None
        sample = key(*[SAMPLES[value.kind] for value in given])
        return Value(constant(sample).kind, self.let(code), is_tensor=False)

    def truth(self, value: Any) -> Value:
        """Return whether a value is non-zero."""
        if not isinstance(value, Value):
            raise NotLowerable("it asks whether something other than a number is true")
        if value.kind == types.boolean or (isinstance(value.kind, Element) and value.kind.dtype.kind == "b"):
            return value
        found: Value = self.apply(bool, [value])
        return found

    # ------------------------------------------------------------------------------ choosing

    def choose(
        self, condition: Value, scope: Scope, yes: Callable[[Scope], Any], no: Callable[[Scope], Any]
    ) -> Any:
        """Compute one of two arms, or both where the condition is an element's.

        Each arm is given a scope of its own and answers a value, a tuple, or a dictionary of variables.
        """
        if condition.constant is not None:
            return (yes if condition.constant else no)(scope)
        if condition.is_tensor:
            taken, left = self.arms(condition, scope)
            first, second = yes(taken), no(left)
            return self._merged(first, second, lambda a, b: self._selected(condition.code, a, b))
        return self._branched(condition, scope, yes, no)

    def arms(self, condition: Value, scope: Scope) -> list[Scope]:
        """Return a scope for each arm of a condition on elements."""
        masks = ["", ""]
        if self.gradients and condition.is_tensor:
            masks = [condition.code, self.let(f"torch.logical_not({condition.code})")]
        return [Scope(scope.fn, scope, mask, self.indent) for mask in masks]

    def _selected(self, mask: str, yes: Value, no: Value) -> Value:
        kind = self.unified([yes, no])
        if isinstance(kind, Dual):
            pairs = zip(self.cast(yes, kind).members, self.cast(no, kind).members, strict=True)
            members = tuple(self._selected(mask, first, second) for first, second in pairs)
            return Value(kind, "", is_tensor=True, members=members)
        dtype = representation(kind)
        first, second = self.moved(yes, dtype), self.moved(no, dtype)
        if first.code == second.code:
            return self.cast(yes, kind)
        codes = [first.code, second.code]
        if not (first.is_tensor or second.is_tensor):
            codes[0] = self.filled(first.code, dtype)
        code = f"torch.where({mask}, {codes[0]}, {codes[1]})"
        return Value(kind, self.let(code), is_tensor=True)

    def _branched(
        self, condition: Value, scope: Scope, yes: Callable[[Scope], Any], no: Callable[[Scope], Any]
    ) -> Any:
        """Write Python's own ``if``, on a number that the call knows."""
        lines, arms, found = self.lines, [], []
        self.indent += 1
        for arm in (yes, no):
            self.lines = []
            found.append(arm(Scope(scope.fn, scope, "", self.indent)))
            arms.append(self.lines)
        endings: list[tuple[tuple[Value, Value], str, Any, bool]] = []

        def joined(first: Value, second: Value) -> Value:
            if first.code == second.code and first.kind == second.kind and not first.members:
                return first
            kind = self.unified([first, second])
            if isinstance(kind, Dual):
                sides = []
                for place, side in enumerate((first, second)):
                    self.lines = arms[place]
                    sides.append(self.cast(side, kind).members)
                members = tuple(joined(a, b) for a, b in zip(*sides, strict=True))
                return Value(kind, "", is_tensor=True, members=members)
            name = self.name()
            is_tensor = isinstance(kind, Strong) or first.is_tensor or second.is_tensor
            endings.append(((first, second), name, representation(kind), is_tensor))
            return Value(kind, name, is_tensor=is_tensor, fresh=first.fresh and second.fresh)

        merged = self._merged(found[0], found[1], joined)
        for place in (0, 1):
            self.lines = arms[place]
            for values, name, dtype, is_tensor in endings:
                operand = self.moved(values[place], dtype)
                code = operand.code
                if is_tensor and not operand.is_tensor:
                    code = self.filled(code, dtype)
                self.line(f"{name} = {code}")
            if not self.lines:
                self.line("pass")
        self.indent -= 1
        self.lines = lines
        self.line(f"if {condition.code}:")
        self.lines += arms[0]
        self.line("else:")
        self.lines += arms[1]
        return merged

    def _merged(self, first: Any, second: Any, join: Callable[[Value, Value], Value]) -> Any:
        if isinstance(first, Value) and isinstance(second, Value):
            return join(first, second)
        if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
            return tuple(self._merged(a, b, join) for a, b in zip(first, second, strict=True))
        if isinstance(first, dict) and isinstance(second, dict):
            return {name: self._merged(value, second[name], join) for name, value in first.items()}
        if isinstance(first, Known) and isinstance(second, Known) and first.value is second.value:
            return first
        if first is NOTHING or second is NOTHING:  # assigned in one arm only: an error where it is read
            return NOTHING
        raise NotLowerable("two arms of a condition give different kinds of things")

    # ------------------------------------------------------------------------------- variables

    def find(self, name: str, scope: Scope) -> Any:
        """Return the value of a name, or None where it is no local variable."""
        if name in scope.names:
            found = scope.names[name]
            if found is NOTHING:
                raise NotLowerable(f"the variable {name!r} may have no value")
            return found
        if name in scope.kept:
            return scope.kept[name]
        if scope.parent is None:
            return None
        found = self.find(name, scope.parent)
        if scope.mask and found is not None:
            found = self._kept(found, scope.mask)
            if scope.depth == self.indent:
                scope.kept[name] = found
        return found

    def _kept(self, value: Any, mask: str) -> Any:
        """Return a value of which only the elements in a mask have a gradient."""
        if isinstance(value, tuple):
            return tuple(self._kept(member, mask) for member in value)
        if not isinstance(value, Value) or not value.is_tensor or representation(value.kind).kind not in "fc":
            return value
        return Value(
            value.kind, self.let(f"keep({value.code}, {mask})", value.code), is_tensor=True, fresh=False
        )

    def captured(self, name: str, fn: pytypes.FunctionType) -> Any:
        """Return what a function finds under a name outside of itself."""
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        found = resolve(fn.__globals__, cells, (name,))
        if found is MISSING_NAME and name != MISSING_NAME:
            raise NotLowerable(f"the name {name!r} has no value")
        return lift(found)
