"""Strong scalar types: Numba types of elements that know their dtype and obey torch's promotion.

Plain Numba numbers (literals, loop counters, captured constants, Python number arguments) are the
*weak* ones beside them: in promotion they have the category `Category.NUMBER`, where only their kind
counts.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable
from typing import Any

from numba.core import types
from numba.core.errors import TypingError

from numjit import dtypes
from numjit.dtypes import DType
from numjit.errors import PromotionError
from numjit.semantics import promotion
from numjit.semantics.category import ArgumentType, Category

__all__ = [
    "Element",
    "RefusalError",
    "Strong",
    "argument_type",
    "combine",
    "native_type",
    "number_kind",
    "refusals",
    "representation",
    "result_element",
    "unwrap",
]

#: The plain Numba type whose representation values of a compute dtype have.
_NATIVE = {
    dtypes.bool_: types.boolean,
    dtypes.uint8: types.uint8,
    dtypes.uint16: types.uint16,
    dtypes.uint32: types.uint32,
    dtypes.uint64: types.uint64,
    dtypes.int8: types.int8,
    dtypes.int16: types.int16,
    dtypes.int32: types.int32,
    dtypes.int64: types.int64,
    dtypes.float32: types.float32,
    dtypes.float64: types.float64,
    dtypes.complex64: types.complex64,
    dtypes.complex128: types.complex128,
}
_BY_NATIVE = {native: dtype for dtype, native in _NATIVE.items()}


class RefusalError(TypingError):  # type: ignore[misc]
    """An operation that torch refuses or numjit cannot compile; the message is shown to the user."""

    def __init__(self, message: str) -> None:
        refusals().append(message)
        super().__init__(message)


_recent = threading.local()


def refusals() -> list[str]:
    """Return why rules refused in this thread: Numba buries it among the reports of its own candidates."""
    if not hasattr(_recent, "refusals"):
        _recent.refusals = []
    found: list[str] = _recent.refusals
    return found


def native_type(dtype: DType) -> Any:
    """Return the plain Numba type with the representation of `dtype`'s compute type."""
    return _NATIVE[dtype.compute]


class Strong(types.Type):  # type: ignore[misc]
    """Base of the strong types: values that carry a dtype.

    Attributes
    ----------
    dtype
        The element type that torch would show.
    category
        `Category.DIM` or `Category.ZERO_DIM`: how much the type counts in promotion.
    default_dtype
        ``torch.get_default_dtype()`` of the compilation. It travels in the type because Numba compiles
        its own overloads (``max`` of a tuple, say) in contexts that are not numjit's.
    """

    #: 0 for elements; higher for duals (`numjit.rules.dual`), which carry derivatives.
    level: int = 0

    def __init__(self, dtype: DType, category: Category, default_dtype: DType, name: str) -> None:
        self.dtype = dtype
        self.category = category
        self.default_dtype = default_dtype
        super().__init__(name)

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Return the type that a variable assigned both `self` and `other` has, or None."""
        if argument_type(other) is None:
            return None
        if isinstance(other, Strong) and other.level > self.level:
            return other.unify(typingctx, self)
        try:
            return result_element((self, other))
        except RefusalError:
            return None


class Element(Strong):
    """An element of an array, represented as its compute type (float32 for 16- and 8-bit floats)."""

    def __init__(self, dtype: DType, zero_dim: bool, default_dtype: DType) -> None:
        category = Category.ZERO_DIM if zero_dim else Category.DIM
        suffix = ".zero_dim" if zero_dim else ""
        super().__init__(dtype, category, default_dtype, f"numjit.{dtype}{suffix}@{default_dtype}")

    @property
    def zero_dim(self) -> bool:
        """Whether the element comes from arrays without dimensions only."""
        return self.category is Category.ZERO_DIM


def number_kind(kind: Any) -> DType | None:
    """Return the dtype that names the kind of a plain Numba number type; None for any other type."""
    if isinstance(kind, types.Boolean | types.BooleanLiteral):
        return dtypes.bool_
    if isinstance(kind, types.IntegerLiteral):
        return dtypes.int64
    if isinstance(kind, types.Integer):
        return dtypes.uint64 if kind == types.uint64 else dtypes.int64
    if isinstance(kind, types.Float):
        return dtypes.float64
    if isinstance(kind, types.Complex):
        return dtypes.complex128
    return None


def argument_type(kind: Any) -> ArgumentType | None:
    """Return dtype and category of a Numba type, strong or plain number; None for any other type."""
    if isinstance(kind, Strong):
        return ArgumentType(kind.dtype, kind.category)
    number = number_kind(unwrap(kind))
    return None if number is None else ArgumentType(number, Category.NUMBER)


def unwrap(kind: Any) -> Any:
    """Strip literal and omitted-default wrappers from a Numba type."""
    if isinstance(kind, types.Omitted):
        value = kind.value
        for python, native in ((bool, types.boolean), (int, types.int64), (float, types.float64)):
            if isinstance(value, python):
                return native
        return types.complex128 if isinstance(value, complex) else kind
    return types.unliteral(kind)


@functools.cache
def _combine(first: ArgumentType, second: ArgumentType, default_dtype: DType) -> ArgumentType:
    return promotion.combine(first, second, default_dtype)


def combine(first: ArgumentType, second: ArgumentType, default_dtype: DType) -> ArgumentType:
    """Promote two arguments as torch does, raising `RefusalError` where torch refuses the pair."""
    try:
        return _combine(first, second, default_dtype)
    except PromotionError as error:
        raise RefusalError(str(error)) from None


def result_element(kinds: Iterable[Any]) -> Element:
    """Return the strong type that values of `kinds` (at least one of them strong) promote to.

    Raises
    ------
    RefusalError
        One of the types is no scalar, or torch refuses the pair.
    """
    combined: ArgumentType | None = None
    kinds = tuple(kinds)
    default_dtype = next(kind.default_dtype for kind in kinds if isinstance(kind, Strong))
    for kind in kinds:
        argument = argument_type(kind)
        if argument is None:
            raise RefusalError(f"a value of type {kind} cannot be combined with an element")
        combined = argument if combined is None else combine(combined, argument, default_dtype)
    assert combined is not None
    return Element(combined.dtype, combined.category is not Category.DIM, default_dtype)


def representation(kind: Any) -> DType:
    """Return the compute dtype in which values of a Numba scalar type are represented."""
    if isinstance(kind, Strong):
        return kind.dtype.compute
    return _BY_NATIVE[unwrap(kind)]
