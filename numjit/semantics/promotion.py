"""Type promotion as torch does it: the common dtype of operands, and which casts ``out=`` may need.

The rules are those of ``c10/core/ScalarType.cpp`` (pairs) and ``aten/src/ATen/native/TypeProperties.cpp``
(categories). ``numpy.result_type`` answers differently and is of no use here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Protocol, TypeVar

from numjit import dtypes
from numjit.dtypes import DType
from numjit.errors import PromotionError
from numjit.semantics.category import Category

__all__ = ["can_cast", "combine", "promote_types", "result_type"]

_FLOAT8 = frozenset({dtypes.float8_e4m3fn, dtypes.float8_e5m2})
# torch keeps these three out of its integer lattice: they promote with real floats only.
_WIDE_UNSIGNED = frozenset({dtypes.uint16, dtypes.uint32, dtypes.uint64})
_COMPLEX_OF = {
    dtypes.float16: dtypes.complex32,
    # There is no complex type of two bfloat16.
    dtypes.bfloat16: dtypes.complex64,
    dtypes.float32: dtypes.complex64,
    dtypes.float64: dtypes.complex128,
}
_NUMBER_ORDER = (dtypes.bool_, dtypes.int64, dtypes.uint64, dtypes.float64, dtypes.complex128)


class _ArgumentType(Protocol):
    """A named tuple of a dtype and a category, such as `numjit.semantics.category.ArgumentType`."""

    @property
    def dtype(self) -> DType: ...

    @property
    def category(self) -> Category: ...

    def _replace(self: _A, *, dtype: DType, category: Category) -> _A: ...


_A = TypeVar("_A", bound=_ArgumentType)


@functools.cache
def promote_types(a: DType, b: DType) -> DType:
    """Return the smallest dtype that holds both, as ``torch.promote_types``.

    Raises
    ------
    PromotionError
        The pair has no common dtype: a float8 type with any other, or uint16, uint32 or uint64 with
        any other that is not a real float.
    """
    if a is b:
        return a
    if a in _FLOAT8 or b in _FLOAT8:
        raise PromotionError(
            f"{a} and {b} have no common dtype (float8 types promote with nothing else); convert one "
            "of the operands explicitly"
        )
    if a in _WIDE_UNSIGNED or b in _WIDE_UNSIGNED:
        if a.is_floating:
            return a
        if b.is_floating:
            return b
        raise PromotionError(
            f"{a} and {b} have no common dtype (uint16, uint32 and uint64 promote with real floats "
            "only); convert one of the operands explicitly"
        )
    if a.is_complex or b.is_complex:
        parts = [dtype.real for dtype in (a, b) if dtype.is_complex or dtype.is_floating]
        return _COMPLEX_OF[_wider_float(parts[0], parts[-1])]
    if a.is_floating or b.is_floating:
        floats = [dtype for dtype in (a, b) if dtype.is_floating]
        return _wider_float(floats[0], floats[-1])
    return _wider_integer(a, b)


def _wider_float(a: DType, b: DType) -> DType:
    """Return the float that holds both; float16 and bfloat16 meet in float32."""
    if a is b:
        return a
    if a.itemsize == b.itemsize:
        return dtypes.float32
    return a if a.itemsize > b.itemsize else b


def _wider_integer(a: DType, b: DType) -> DType:
    """Return the type that holds both of bool, uint8 and the signed integers."""
    if a.kind == "b":
        return b
    if b.kind == "b":
        return a
    if a.kind != b.kind and a.itemsize == b.itemsize:
        return dtypes.int16  # uint8 and int8
    return a if a.itemsize > b.itemsize else b


def result_type(arguments: Iterable[tuple[DType, Category]], default_dtype: DType) -> DType:
    """Return the common dtype of operands, as ``torch.result_type`` over any number of them.

    Within one category dtypes promote pairwise, in order. A lower category counts only if its kind
    (bool < integer < float < complex) is higher than that of the categories above.

    Parameters
    ----------
    arguments
        At least one pair of dtype and category (`numjit.semantics.category.ArgumentType` is one). The
        dtype of a `Category.NUMBER` names only its kind: a float is of the default dtype, a complex
        number of the default dtype's complex.
    default_dtype
        ``torch.get_default_dtype()``: a real float of at least 16 bits.

    Raises
    ------
    PromotionError
        Two dtypes that must meet have no common dtype.
    ValueError
        There are no arguments.
    """
    states: list[DType | None] = [None, None, None]
    for dtype, category in arguments:
        if category is Category.NUMBER:
            dtype = _number_dtype(dtype, default_dtype)  # noqa: PLW2901 - the number's stand-in
        seen = states[category]
        states[category] = dtype if seen is None else promote_types(seen, dtype)
    found = _outrank(states[Category.DIM], _outrank(states[Category.ZERO_DIM], states[Category.NUMBER]))
    if found is None:
        raise ValueError("result_type needs at least one argument; pass an operand")
    return found


def _number_dtype(dtype: DType, default_dtype: DType) -> DType:
    """Return the dtype that a number of `dtype`'s kind counts as."""
    if dtype.is_complex:
        return _COMPLEX_OF[default_dtype]
    return default_dtype if dtype.is_floating else dtype


def _outrank(higher: DType | None, lower: DType | None) -> DType | None:
    """Return the common dtype of a category and the one below it (ATen's ``combine_categories``)."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.is_complex:
        return higher
    if lower.is_complex:
        # Over a float its precision does not count, over an integer it does - even over uint16, uint32
        # and uint64, which within one category refuse complex types.
        if higher in _FLOAT8:
            raise PromotionError(
                f"{higher} and {lower} have no common dtype (there is no complex type of {higher}); "
                "convert one of the operands explicitly"
            )
        return _COMPLEX_OF[higher] if higher.is_floating else lower
    if higher.is_floating:
        return higher
    if higher.kind == "b" or lower.is_floating:
        return promote_types(higher, lower)
    return higher


def combine(a: _A, b: _A, default_dtype: DType) -> _A:
    """Return the dtype and category of an operation on two values inside a Python functor.

    The category is the higher of the two, so that a number stays weak through arithmetic on numbers and
    a 0-dim operand through arithmetic with numbers, as the same expression over torch tensors keeps
    them. The result of two numbers again names only a kind; an int that needs uint64 (an ``int64`` with
    a ``uint64``, which torch refuses between tensors) keeps it, being one Python ``int`` kind.

    Raises
    ------
    PromotionError
        The two have no common dtype.
    """
    if a.category is Category.NUMBER and b.category is Category.NUMBER:
        dtype = max(a.dtype, b.dtype, key=_NUMBER_ORDER.index)
        return a._replace(dtype=dtype, category=Category.NUMBER)
    dtype = result_type([(a.dtype, a.category), (b.dtype, b.category)], default_dtype)
    return a._replace(dtype=dtype, category=max(a.category, b.category))


def can_cast(src: DType, dst: DType) -> bool:
    """Whether a result of `src` may be stored into an ``out=`` of `dst`, as ``torch.can_cast``.

    Narrowing within a kind is allowed; dropping an imaginary part, a fraction (except into bool, which
    only bool may be stored to) is not.
    """
    if src.is_complex and not dst.is_complex:
        return False
    if src.is_floating and dst.is_integral:
        return False
    return src.kind == "b" or dst.kind != "b"
