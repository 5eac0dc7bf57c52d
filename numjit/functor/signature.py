"""What a functor takes and returns, whatever language it is written in, and what one call makes of it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from numjit.dtypes import DType
from numjit.semantics.category import ArgumentType, Category

__all__ = [
    "MISSING",
    "ArgumentType",
    "Output",
    "Parameter",
    "Signature",
    "SignedNumber",
    "Specialisation",
    "WrittenInPython",
    "signs_of",
    "with_signs",
]


class _Missing:
    """The absence of a default (None is a value a user may give by mistake)."""

    def __repr__(self) -> str:
        return "<no default>"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class Parameter(NamedTuple):
    """One parameter of a functor: an operand or a scalar.

    Attributes
    ----------
    name
        As the user wrote it.
    dtype
        The concrete element type it is declared with, else None.
    variable
        The template parameter or ``typing.TypeVar`` it is declared with, else None. With both None
        (an unannotated Python parameter) the argument keeps its own type.
    default
        A number where the parameter may be left out, else `MISSING`.
    raw
        An operand that the functor indexes itself; it has no part in broadcasting.
    """

    name: str
    dtype: DType | None = None
    variable: str | None = None
    default: Any = MISSING
    raw: bool = False


class Output(NamedTuple):
    """One result: a concrete type, a type variable, or (both None) what type inference finds."""

    dtype: DType | None = None
    variable: str | None = None


class Signature(NamedTuple):
    """Operands (bound by position or name), scalars (bound by name only), and results."""

    name: str
    operands: tuple[Parameter, ...]
    scalars: tuple[Parameter, ...]
    outputs: tuple[Output, ...]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Operands, then scalars: the order of arguments everywhere."""
        return (*self.operands, *self.scalars)

    @property
    def defaults(self) -> list[Any]:
        """One value a parameter, None for those without a default."""
        return [None if p.default is MISSING else p.default for p in self.parameters]

    @property
    def raws(self) -> frozenset[int]:
        """Positions of the raw operands."""
        return frozenset(k for k, parameter in enumerate(self.operands) if parameter.raw)


class SignedNumber(ArgumentType):
    """The type of an int of a call for functors in which its sign decides a type.

    See `PythonFunctor.reads_signs`. In promotion it is what it is without the sign.
    """

    _negative: bool

    @classmethod
    def of(cls, kind: ArgumentType, negative: bool) -> SignedNumber:
        """Return a number's type with its sign."""
        made = cls(*kind)
        made._negative = negative
        return made

    @property
    def negative(self) -> bool | None:
        """Whether it is a negative int."""
        return self.__dict__.get("_negative")

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, other) is True and self.negative == getattr(other, "negative", None)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((tuple(self), self.negative))


def with_signs(types: Sequence[ArgumentType], values: Sequence[Any]) -> tuple[ArgumentType, ...]:
    """Return the types of a call's arguments with the signs of its ints (`values`: by position)."""
    return tuple(
        kind if sign is None or kind.category is not Category.NUMBER else SignedNumber.of(kind, sign)
        for kind, sign in zip(types, signs_of(values), strict=True)
    )


def signs_of(values: Sequence[Any]) -> tuple[bool | None, ...]:
    """Return of each of a call's arguments whether it is negative; None for all that are no ints or bools."""
    return tuple(
        bool(value < 0) if isinstance(value, int | np.integer | np.bool_) else None for value in values
    )


class Specialisation(NamedTuple):
    """A functor at the types of one call.

    Attributes
    ----------
    arguments
        Types as called: operands in signature order, then scalars in signature order.
    inputs
        The dtype that each argument (of a raw operand: each of its elements), in the same order, is
        converted to before the functor sees it. The element's index, where the functor takes it, is not
        counted: on every seam it comes last, as an int64.
    outputs
        The dtype of each result.
    default_dtype
        ``torch.get_default_dtype()`` of the call.
    key
        Text that, with the functor's fingerprint, tells this specialisation from every other.
    """

    arguments: tuple[ArgumentType, ...]
    inputs: tuple[DType, ...]
    outputs: tuple[DType, ...]
    default_dtype: DType

    @property
    def key(self) -> str:
        """Stable text over everything that the generated code depends on."""
        pairs = zip(self.arguments, self.inputs, strict=True)
        shown = ",".join(f"{a.shown}>{taken}" for a, taken in pairs)
        return f"({shown})->({','.join(map(str, self.outputs))})@{self.default_dtype}"


class WrittenInPython(Protocol):
    """What the compiler of Python functors needs of one.

    Attributes
    ----------
    fn
        The function of one element.
    name, signature
        As of every functor.
    python_signature
        The function's own signature, with the defaults that were given for its scalars.
    """

    fn: types.FunctionType
    name: str
    signature: Signature
    python_signature: inspect.Signature

    @property
    def uses_index(self) -> bool:
        """Whether the functor takes the number of the element."""

    def input_dtypes(self, arguments: tuple[ArgumentType, ...], default_dtype: DType) -> tuple[DType, ...]:
        """Return the dtype that each argument is converted to before the functor sees it."""
