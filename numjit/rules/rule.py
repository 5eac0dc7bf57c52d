"""Rules: how one operation on scalars is typed, in what dtype it is computed, and how it is emitted.

A rule promotes its operands as torch does, moves the common dtype into the *domain* that the operation
computes in (``math.exp`` of integers: the default dtype), emits the operation on compute-type values, and
names the result's dtype. Both Numba targets are served by the same rules. With the class these are the
domains, and the emissions that only call an `Emitter` method.
"""

from __future__ import annotations

import cmath
import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from numjit import dtypes
from numjit.dtypes import DType
from numjit.rules.lowering import Emitter
from numjit.rules.torch_text import TorchForm
from numjit.rules.traced import Derivative
from numjit.rules.types import (
    Element,
    RefusalError,
    Strong,
    argument_type,
    combine,
    native_type,
    representation,
    result_element,
)
from numjit.semantics.category import ArgumentType, Category

__all__ = [
    "Domain",
    "Emit",
    "Rule",
    "any_dtype",
    "as_bool",
    "as_compute",
    "as_real",
    "as_stored",
    "complex_floating",
    "emitted",
    "floating",
    "folded",
    "identity",
    "integral",
    "integral_or_bool",
    "literal_of",
    "math_call",
    "move_to",
    "number",
    "ordered",
    "promote_with",
    "python_integer",
    "python_number",
    "python_real",
    "real_floating",
    "real_number",
    "real_only",
    "refuse",
    "rounding",
    "simple",
]

#: The domain of an operation: ``(name, promoted operands, operand types) -> dtype computed in``.
Domain = Callable[[str, Element, Sequence[Any]], DType]
#: Emits an operation: ``(emitter, compute dtype, values, literals)``; a literal is None where unknown.
Emit = Callable[[Emitter, DType, Sequence[Any], Sequence[Any]], Any]


def as_bool(dtype: DType) -> DType:  # noqa: ARG001
    """Return bool: what a question about an element answers."""
    return dtypes.bool_


def as_real(dtype: DType) -> DType:
    """Return the dtype of a complex number's parts."""
    return dtype.real


def as_compute(dtype: DType) -> DType:
    """Return the dtype that values of `dtype` are represented in."""
    return dtype.compute


def as_stored(dtype: DType) -> DType:
    """Return `dtype` itself."""
    return dtype


NO_DERIVATIVE = Derivative()


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """How one operation on scalars is typed and emitted.

    Attributes
    ----------
    name
        As users write it, for messages.
    arity
        Least and greatest number of operands.
    emit
        The operation on values of the domain's compute dtype. An operand that is None arrives as None.
    domain
        Where the operation computes, from the promoted operands.
    result
        The result's dtype from the domain's.
    spread
        Whether a tuple as first operand stands for its members (``max(t)``).
    signature
        Names and defaults of the operands, where they may be given by name or be None.
    numbers
        Where plain numbers alone compute, if that is not where elements do.
    whole
        Whether one plain number gives an int, as Python's ``floor`` does, where an element keeps its dtype.
    sees
        What `emit` is told of the domain: its compute dtype, unless the stored dtype matters.
    derivative
        How tangents follow.
    code
        The operation over torch tensors, or None where torch has nothing for it.
    """

    name: str
    arity: tuple[int, int]
    emit: Emit
    domain: Domain
    result: Callable[[DType], DType] = as_stored
    spread: bool = False
    signature: inspect.Signature | None = None
    numbers: Domain | None = None
    whole: bool = False
    sees: Callable[[DType], DType] = as_compute
    derivative: Derivative = NO_DERIVATIVE
    code: TorchForm | None = None

    def resolve(self, kinds: Sequence[Any]) -> tuple[DType, Any]:
        """Return the domain and the result's type for operands of Numba types `kinds`.

        The result is an `Element`, or a plain Numba number where no operand is strong.

        Raises
        ------
        RefusalError
            torch refuses the operation, or it does not exist for these types.
        """
        if not self.arity[0] <= len(kinds) <= self.arity[1]:
            raise RefusalError(f"{self.name} does not take {len(kinds)} arguments")
        promoted = self.promote(kinds)
        if any(isinstance(kind, Strong) for kind in kinds):
            domain = self.domain(self.name, promoted, kinds)
            return domain, self.result_type(self.result(domain), promoted, kinds)
        domain = (self.numbers or self.domain)(self.name, promoted, kinds)
        return domain, native_type(dtypes.int64 if self._is_whole(kinds) else self.result(domain))

    def _is_whole(self, kinds: Sequence[Any]) -> bool:
        return self.whole and len(kinds) == 1 and not isinstance(kinds[0], Strong)

    def promote(self, kinds: Sequence[Any]) -> Element:
        """Return what the operands promote to; plain numbers alone count as zero-dim elements."""
        given = [kind for kind in kinds if self.signature is None or kind != types.none]
        if any(isinstance(kind, Strong) for kind in given):
            return result_element(given)
        dtype = dtypes.bool_
        for kind in given:
            argument = argument_type(kind)
            if argument is None:
                raise RefusalError(f"{self.name} does not take a value of type {kind}")
            before = ArgumentType(dtype, Category.NUMBER)
            dtype = combine(before, argument, dtypes.float64).dtype
        return Element(dtype, zero_dim=True, default_dtype=dtypes.float64)

    @staticmethod
    def result_type(dtype: DType, promoted: Element, kinds: Sequence[Any]) -> Any:
        """Return the type of a result of `dtype`: a plain number where all operands are."""
        if any(isinstance(kind, Strong) for kind in kinds):
            return Element(dtype, promoted.zero_dim, promoted.default_dtype)
        return native_type(dtype)

    def lower(self, emitter: Emitter, kinds: Sequence[Any], values: Sequence[Any]) -> Any:
        """Emit the operation on values in Numba's representation of `kinds`; return it likewise."""
        literals = [literal_of(kind, value) for kind, value in zip(kinds, values, strict=True)]
        domain, result = self.resolve(kinds)
        moved = self.move(emitter, kinds, values, domain)
        found = self.emit(emitter, self.sees(domain), moved, literals)
        if self._is_whole(kinds):
            found = emitter.convert(found, domain, representation(result))
        return emitter.pack(representation(result), found)

    def move(self, emitter: Emitter, kinds: Sequence[Any], values: Sequence[Any], domain: DType) -> list[Any]:
        """Convert the operands to the domain."""
        return [
            None if kind == types.none else move_to(emitter, kind, value, domain)
            for kind, value in zip(kinds, values, strict=True)
        ]

    def fold(self, args: Sequence[Any], kws: dict[str, Any]) -> tuple[Any, ...] | None:
        """Return the types of all operands in order, or None for names that the rule does not know.

        Raises
        ------
        RefusalError
            The arguments do not fit the rule's signature.
        """
        if self.signature is None:
            return None if kws else tuple(args)
        try:
            bound = self.signature.bind(*args, **kws)
        except TypeError as error:
            raise RefusalError(f"{self.name}: {error}") from None
        return tuple(
            bound.arguments[name] if name in bound.arguments else _type_of_default(parameter.default)
            for name, parameter in self.signature.parameters.items()
        )


def move_to(emitter: Emitter, kind: Any, value: Any, domain: DType) -> Any:
    """Return a value in numjit's form and in `domain`, from Numba's representation of `kind`."""
    own = representation(kind)
    return emitter.convert(emitter.unpack(own, value), own, domain)


def _type_of_default(default: Any) -> Any:
    return types.none if default is None else types.int64 if isinstance(default, int) else types.float64


def literal_of(kind: Any, value: Any) -> Any:
    """Return the Python number behind a weak operand that is constant while compiling, else None."""
    if isinstance(kind, Strong) or not isinstance(value, ir.Constant):
        return None
    number = value.constant
    return number if isinstance(number, int | float) else None


# -------------------------------------------------------------------------------------------- domains


def promote_with(element: Element, kind: DType) -> DType:
    """Promote an element's dtype with a Python number of the kind that `kind` names."""
    own = ArgumentType(element.dtype, element.category)
    return combine(own, ArgumentType(kind, Category.NUMBER), element.default_dtype).dtype


def refuse(name: str, dtype: DType, remedy: str = "") -> RefusalError:
    """Return the error for an operation that torch refuses too."""
    return RefusalError(
        f"{name} of {dtype} is not supported, as torch refuses it{'; ' if remedy else ''}{remedy}"
    )


def any_dtype(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute in the promoted dtype, whatever it is."""
    return element.dtype


def number(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute in the promoted dtype, which is not bool."""
    if element.dtype.kind == "b":
        raise refuse(name, element.dtype)
    return element.dtype


def real_number(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    """Compute in the promoted dtype, which is neither bool nor complex."""
    if element.dtype.is_complex:
        raise refuse(name, element.dtype)
    return number(name, element, kinds)


def python_number(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute as Python does with numbers: bools are ints."""
    return dtypes.int64 if element.dtype.kind == "b" else element.dtype


def python_real(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    """Compute as Python does with numbers that are not complex: bools are ints."""
    if element.dtype.is_complex:
        raise RefusalError(f"{name} of a complex number is not supported, as Python has none; use z.real")
    return python_number(name, element, kinds)


def python_integer(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    """Compute as Python does with ints and bools, which are ints."""
    if element.dtype.kind in "fc":
        raise RefusalError(
            f"{name} of a {'float' if element.dtype.kind == 'f' else 'complex'} number is not "
            "supported, as Python has none; it needs ints, int(...)"
        )
    return python_number(name, element, kinds)


def ordered(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute in the promoted dtype, which is not complex."""
    if element.dtype.is_complex:
        raise refuse(name, element.dtype, "complex numbers have no order")
    return element.dtype


def integral_or_bool(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute in the promoted dtype, which has bits to work on."""
    if element.dtype.kind in "fc":
        raise refuse(name, element.dtype, "it needs integers or bools")
    return element.dtype


def integral(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute in the promoted dtype, which is an integer."""
    if not element.dtype.is_integral:
        raise refuse(name, element.dtype, "it needs integers")
    return element.dtype


def floating(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute in floating point, real or complex: integers become the default dtype."""
    return promote_with(element, dtypes.float64)


def real_floating(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute in real floating point: integers become the default dtype."""
    if element.dtype.is_complex:
        own = name.rpartition(".")[2]
        remedy = f"; use cmath.{own}" if name == f"math.{own}" and hasattr(cmath, own) else ""
        raise RefusalError(f"{name} of {element.dtype} is not supported{remedy}")
    return promote_with(element, dtypes.float64)


def real_only(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute in the promoted dtype, which is a real float: torch does not convert integers here."""
    if not element.dtype.is_floating:
        raise refuse(name, element.dtype, "convert to a float first, float(x)")
    return element.dtype


def complex_floating(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    """Compute in complex numbers."""
    return promote_with(element, dtypes.complex128)


# ------------------------------------------------------------------------------------------ emissions


def simple(method: Callable[..., Any], *before: Any) -> Emit:
    """Emit an `Emitter` method that takes the dtype and every operand."""

    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        return method(emitter, *before, dtype, *values)

    return emit


def folded(method: Callable[..., Any], *before: Any) -> Emit:
    """Emit a method of two operands over any number of them, from the left."""

    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        result = values[0]
        for value in values[1:]:
            result = method(emitter, *before, dtype, result, value)
        return result

    return emit


def emitted(function: Callable[..., Any]) -> Emit:
    """Emit a function ``(emitter, dtype, *operands)``."""

    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        return function(emitter, dtype, *values)

    return emit


def identity(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
    """Emit nothing: moving the operand into the domain was all."""
    return values[0]


def math_call(name: str) -> Emit:
    """Emit a math function of real floats, named as in Python's ``math``."""

    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:  # noqa: ARG001
        return emitter.math(name, dtype, *values)

    return emit


def rounding(name: str) -> Emit:
    """Round to integral values; integers stay as they are."""

    def emit(emitter: Emitter, dtype: DType, values: Sequence[Any], literals: Sequence[Any]) -> Any:
        if len(values) == 2:
            return _round_decimals(emitter, dtype, values[0], literals[1])
        return emitter.math(name, dtype, values[0]) if dtype.is_floating else values[0]

    return emit


def _round_decimals(emitter: Emitter, dtype: DType, value: Any, decimals: Any) -> Any:
    """``torch.round(x, decimals=n)``, which scales, rounds and scales back."""
    if not isinstance(decimals, int):
        raise RefusalError("round(x, n) of a varying n is not supported; write n as a literal")
    if not dtype.is_floating:
        raise RefusalError(f"round(x, n) of {dtype} is not supported, as torch refuses it; write round(x)")
    scale = emitter.constant(dtype, 10.0 ** abs(decimals))
    b = emitter.builder
    if decimals >= 0:
        return b.fdiv(emitter.math("round", dtype, b.fmul(value, scale)), scale)
    return b.fmul(emitter.math("round", dtype, b.fdiv(value, scale)), scale)
