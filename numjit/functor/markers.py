"""Names that functors use beside numbers: the element's own index, operands taken raw, derivatives.

Those of derivatives are only found in functions that numjit writes (`numjit.functor.derived_python`).
"""

from __future__ import annotations

import typing
from typing import Any, NamedTuple, NoReturn

from numjit.dtypes import as_dtype
from numjit.errors import FunctorError, UnsupportedDtypeError, shown
from numjit.functor.signature import WrittenInPython

__all__ = ["Direction", "Primal", "Raw", "index", "pull", "push", "raw", "seed"]


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
        """Return the annotation of a raw operand whose elements are converted to a dtype.

        Raises
        ------
        FunctorError
            `element` is neither a dtype nor a ``typing.TypeVar``.
        """
        if type(element) is not typing.TypeVar:
            try:
                as_dtype(element)
            except UnsupportedDtypeError as error:
                raise FunctorError(f"numjit.raw({shown(element)}): {error}") from None
        return Raw(element)

    def __repr__(self) -> str:
        return "numjit.raw" if self.element is None else f"numjit.raw({self.element!r})"


#: Annotates an operand that takes no part in broadcasting: the functor reads ``table[i]`` and
#: ``len(table)``. Any C-contiguous array, indexed by element number.
raw = Raw()


class Direction(NamedTuple):
    """What a derivative is taken by: a constant of `seed`, `pull` and `push`.

    Attributes
    ----------
    name
        The parameter's name, for messages.
    position
        Of the differentiated parameter among those of the derived function.
    tangent
        Position of the parameter that holds its tangent, where one is pushed forward.
    gradients
        Position of the parameter that holds a gradient, for each result; None for a result without.
    """

    name: str
    position: int
    tangent: int | None = None
    gradients: tuple[int | None, ...] = ()


class Primal:
    """The functor that a derived function calls.

    Parameters
    ----------
    functor
        The functor, called by position with all of its parameters.
    indexed
        Whether the number of the element follows them.
    """

    def __init__(self, functor: WrittenInPython, indexed: bool) -> None:
        self.functor, self.indexed = functor, indexed

    @property
    def __numjit_functor__(self) -> WrittenInPython:
        return self.functor

    @property
    def __name__(self) -> str:
        return self.functor.name


def _compiled_only() -> NoReturn:
    raise FunctorError("this function is part of a derivative that numjit compiles; it cannot be called")


def seed(direction: Direction, *parameters: Any) -> Any:  # noqa: ARG001
    """Return the parameter of a direction as a dual: its tangent is 1, or the one that was given."""
    _compiled_only()


def pull(direction: Direction, results: Any, *parameters: Any) -> Any:  # noqa: ARG001
    """Return the gradient by a direction's parameter, of a functor's results given their gradients."""
    _compiled_only()


def push(output: Direction, results: Any, *parameters: Any) -> Any:  # noqa: ARG001
    """Return the tangent of the result whose number is the direction's position."""
    _compiled_only()
