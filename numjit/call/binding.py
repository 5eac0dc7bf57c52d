"""From a call's positional and keyword arguments to one value per parameter of the functor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numjit.arrays.numbers import number_type
from numjit.errors import ArgumentError, FunctorError, OptionError, kind_of, shown
from numjit.functor.signature import MISSING, Signature

__all__ = ["RESERVED", "Binder", "check_defaults"]

#: Keywords of a call that are numjit's own: no scalar can have such a name, and no operand be given by it.
RESERVED = ("out", "shape", "like", "dtype", "device")


class Binder:
    """Binds calls to a signature.

    `bind` answers one value per parameter, operands first; operands may be given by name, scalars
    must be.
    """

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._operands = [p.name for p in signature.operands]
        self._scalars = [p.name for p in signature.scalars]
        self._scalar_defaults = [p.default for p in signature.scalars]
        self._complete = MISSING not in self._scalar_defaults

    def bind(self, positional: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
        """Return the values in parameter order.

        Raises
        ------
        ArgumentError
            Too many operands, an unknown or repeated name, or a parameter without a value.
        """
        if not keywords and self._complete and len(positional) == len(self._operands):
            return [*positional, *self._scalar_defaults]
        name = self._signature.name
        if len(positional) > len(self._operands):
            raise ArgumentError(
                f"{name}() takes {len(self._operands)} operands ({', '.join(self._operands) or 'none'}) "
                f"but {len(positional)} were given; pass scalars by keyword"
            )
        rest = dict(keywords)
        values = list(positional)
        for parameter in self._signature.operands[: len(positional)]:
            if parameter.name in rest:
                raise ArgumentError(
                    f"{name}() got the operand {parameter.name!r} both by position and by name; pass it once"
                )
        for parameter in (*self._signature.operands[len(positional) :], *self._signature.scalars):
            # Only defaults are compared with MISSING: torch's tracer cannot compare numbers that it follows.
            if parameter.name in rest:
                values.append(rest.pop(parameter.name))
            elif parameter.default is not MISSING:
                values.append(parameter.default)
            else:
                kind = "operand" if parameter in self._signature.operands else "scalar"
                raise ArgumentError(f"{name}() has no value for its {kind} {parameter.name!r}; pass it")
        if rest:
            known = ", ".join([*self._operands, *self._scalars]) or "none"
            raise ArgumentError(
                f"{name}() got an unknown keyword {shown(next(iter(rest)))}; pass those that it has: {known}"
            )
        return values


def check_defaults(where: str, scalars: Mapping[str, Any]) -> None:
    """Check the defaults given for a functor's scalars; `where` is for messages.

    Raises
    ------
    OptionError
        One that is no number.
    FunctorError
        An integer that no dtype holds.
    """
    for name, value in scalars.items():
        try:
            kind = number_type(value)
        except ArgumentError as error:
            raise FunctorError(f"{where}: the default of scalar {name!r}: {error}") from None
        if kind is None:
            raise OptionError(
                f"{where}: the default of scalar {name!r} is {kind_of(value)}; "
                "give a bool, int, float or complex"
            )
