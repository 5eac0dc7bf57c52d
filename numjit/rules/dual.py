"""Dual scalar types: an element together with its derivatives, the ones that exist being part of the type.

A dual has a *value* and one *tangent* for each *direction* that it depends on. Values and tangents are
elements, or duals of a lower level where a derivative is itself differentiated, so that perturbations of
different derivatives never mix. A direction that is not in the type is never computed.

An integer made of a dual (``int(x)``) is a dual without directions: it may count, index and be compared,
but what is computed in floating point from it would silently lose the derivative, and is refused.
"""

from __future__ import annotations

import hashlib
from typing import Any

from numjit.dtypes import DType
from numjit.rules.types import (
    Element,
    RefusalError,
    Strong,
    argument_type,
    result_element,
)

__all__ = [
    "REMEDY",
    "Dual",
    "element_of",
    "is_inexact",
    "level_of",
    "like",
    "severed",
    "unified",
    "with_element",
]

#: How messages about what has no derivative end.
REMEDY = "or give the gradient yourself with numjit.differentiable"


class Dual(Strong):
    """An element with its derivatives.

    Attributes
    ----------
    level
        Which derivative this belongs to. Duals of a higher level wrap those of lower ones.
    value
        Type of the value: an `Element`, or a dual of a lower level.
    tangents
        Direction and type of each tangent, in order of directions; the dtype is the value's.
    """

    def __init__(self, level: int, value: Strong, tangents: tuple[tuple[int, Strong], ...]) -> None:
        self.level = level
        self.value = value
        self.tangents = tangents
        shown = f"{level} {value} {' '.join(f'{direction} {kind}' for direction, kind in tangents)}"
        # Short, as names become part of symbols.
        digest = hashlib.sha256(shown.encode()).hexdigest()[:12]
        name = f"numjit.dual.{value.dtype}.{digest}"
        super().__init__(value.dtype, value.category, value.default_dtype, name)

    @property
    def key(self) -> Any:
        """What tells types apart: the name is for symbols."""
        return self.level, self.value, self.tangents

    @property
    def is_severed(self) -> bool:
        """Whether this is an integer that was made of a dual."""
        return not is_inexact(self.dtype)

    def unify(self, typingctx: Any, other: Any) -> Any:  # noqa: ARG002
        """Return the type that a variable assigned both `self` and `other` has, or None.

        Raises
        ------
        RefusalError
            One is an integer that lost its derivative, the other a float.
        """
        if argument_type(other) is None:
            return None
        kinds = [kind for kind in (self, other) if isinstance(kind, Dual)]
        if any(kind.is_severed for kind in kinds) and is_inexact(result_element((self, other)).dtype):
            raise severed("floating-point")
        try:
            return unified(self, other)
        except RefusalError:
            return None


def is_inexact(dtype: DType) -> bool:
    """Whether a dtype has derivatives: it is a real or complex float."""
    return dtype.kind in "fc"


def like(element: Element, dtype: DType) -> Element:
    """Return an element type of another dtype that counts as much in promotion."""
    return Element(dtype, element.zero_dim, element.default_dtype)


def level_of(kind: Any) -> int:
    """Return the level of a dual type, 0 for every other type."""
    return kind.level if isinstance(kind, Strong) else 0


def element_of(kind: Strong) -> Element:
    """Return the type of the element inside of a strong type."""
    while isinstance(kind, Dual):
        kind = kind.value
    assert isinstance(kind, Element)
    return kind


def with_element(kind: Any, element: Element) -> Any:
    """Return a type with every element in it replaced; of a plain number it is `element`."""
    if not isinstance(kind, Dual):
        return element
    tangents = tuple((direction, with_element(tangent, element)) for direction, tangent in kind.tangents)
    return Dual(kind.level, with_element(kind.value, element), tangents)


def unified(first: Any, second: Any) -> Any:
    """Return the type that holds values of two scalar types, at least one of them strong, unchanged.

    Directions that only one of them has are filled with zeros in the other.

    Raises
    ------
    RefusalError
        torch refuses the pair of dtypes, or an integer that lost its derivative would become a float.
    """
    level = max(level_of(first), level_of(second))
    if level == 0:
        return result_element((first, second))
    (value, tangents), (other_value, other_tangents) = (_at(kind, level) for kind in (first, second))
    merged = unified(value, other_value)
    element = element_of(merged)
    if any(isinstance(kind, Dual) and kind.is_severed for kind in (first, second)):
        if is_inexact(element.dtype):
            raise severed(str(element.dtype))
        return Dual(level, merged, ())
    found = []
    for direction in sorted({*tangents, *other_tangents}):
        kinds = [side[direction] for side in (tangents, other_tangents) if direction in side]
        kind = with_element(kinds[0], element)
        if len(kinds) == 2:
            kind = unified(kind, with_element(kinds[1], element))
        found.append((direction, kind))
    return Dual(level, merged, tuple(found))


def _at(kind: Any, level: int) -> tuple[Any, dict[int, Strong]]:
    """Return value and tangents of a type at a level, which a lower one has no tangents at."""
    if isinstance(kind, Dual) and kind.level == level:
        return kind.value, dict(kind.tangents)
    return kind, {}


def severed(where: str) -> RefusalError:
    """Return the error for an integer made of a differentiated value that is used as a number."""
    return RefusalError(
        "int() of a differentiated value has no derivative, so the integer may count, index and be compared "
        f"but not enter a {where} computation; keep the value a float (math.floor, math.trunc and round do, "
        f"with derivative 0), {REMEDY}"
    )
