"""Names that Python functors use beside numbers: the element's own index, and operands taken raw."""

from __future__ import annotations

from typing import Any

from numjit.errors import FunctorError

__all__ = ["Raw", "index", "raw"]


def index() -> int:
    """Return the number of the element that the functor is computing.

    Elements of the result count from 0, the last dimension fastest (C order), whatever the strides are:
    on an array of shape ``(2, 3)`` the numbers are ``[[0, 1, 2], [3, 4, 5]]``. Inside a functor it is a
    plain int of 64 bits, which gives way to arrays' dtypes in promotion as a literal does.

    It can be called in the functor's own body; a helper is handed the number as an argument. Only
    functors that call it pay for it.

    Raises
    ------
    FunctorError
        It was called outside of a functor.

    Examples
    --------
    >>> import numjit
    >>> ramp = numjit.elementwise(lambda *, start=0.0, step=1.0: start + step * numjit.index())
    >>> ramp(shape=4, step=0.5)
    array([0. , 0.5, 1. , 1.5], dtype=float32)
    """
    raise FunctorError(
        "numjit.index() is the number of the element that a functor is computing; call it in the body of a "
        "function that numjit.elementwise compiles"
    )


class Raw:
    """Annotation of an operand that the functor indexes itself: ``numjit.raw``, ``numjit.raw(dtype)``.

    Attributes
    ----------
    element
        What to convert elements to: a dtype or a ``typing.TypeVar``; None keeps the operand's own dtype.
    """

    def __init__(self, element: Any = None) -> None:
        self.element = element

    def __call__(self, element: Any) -> Raw:
        """Return the annotation of a raw operand whose elements are converted to a dtype."""
        return Raw(element)

    def __repr__(self) -> str:
        return "numjit.raw" if self.element is None else f"numjit.raw({self.element!r})"


#: Annotates an operand that takes no part in broadcasting: the functor reads ``table[i]`` and
#: ``len(table)``. Any C-contiguous array, indexed by element number.
raw = Raw()
