"""Calls prepared ahead: planned and compiled for operands like given ones, for loops over the same shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numjit.arrays.adapters import view
from numjit.arrays.numbers import number_type
from numjit.call.arguments import named, require_classes
from numjit.call.binding import Binder
from numjit.call.operation import Operation
from numjit.errors import ArgumentError, NumjitError, kind_of
from numjit.launcher import attach
from numjit.torch.dispatch import hand_over, is_overridden

__all__ = ["Prepared"]


class Prepared(attach.FastCallable):
    """An operation bound to one kind of call; made by `Elementwise.prepare`.

    Attributes
    ----------
    operation
        What it calls.
    """

    def __init__(
        self, called: Callable[..., Any], operation: Operation, bound: Sequence[Any], out: Any
    ) -> None:
        arguments, _ = operation.read(operation.plain_request, bound)
        require_classes(operation.name, {"out": out})
        operation.planner.outputs.read(out)
        signature, count = operation.functor.signature, operation.count
        scalars = tuple(
            parameter._replace(default=value)
            for parameter, value in zip(signature.scalars, bound[count:], strict=True)
        )
        self.operation = called
        self.__name__ = operation.name
        self._binder = Binder(signature._replace(scalars=scalars))
        self._names = operation.names
        self._count = count
        self._expected = [_describe(value) for value in bound]
        self._out = None if out is None else _describe(out)
        fast = operation.hand_over(self, [*[None] * count, *bound[count:]])
        if arguments.device.kind == "cuda":
            attach.wait()
        operation.prepare(bound, arguments, out, fast)

    @attach.launchable
    def __call__(self, *operands: Any, out: Any = None, **scalars: Any) -> Any:
        """Call the operation on operands of the prepared dtypes, shapes, strides and devices.

        Scalars may have any value of the prepared kind; those left out have the prepared value.

        Raises
        ------
        ArgumentError
            An argument of another kind than was prepared.
        """
        if is_overridden(operands, scalars, () if out is None else (out,)):
            given = scalars if out is None else {**scalars, "out": out}
            return hand_over(self, operands, scalars, () if out is None else (out,), given)
        bound = self._binder.bind(operands, scalars)
        require_classes(self.__name__, dict(zip([*self._names, "out"], [*bound, out], strict=True)))
        for name, value, expected in zip(self._names, bound, self._expected, strict=True):
            self._check(name, value, expected)
        if out is not None and self._out is not None:
            self._check("out", out, self._out)
        named = dict(zip(self._names[self._count :], bound[self._count :], strict=True))
        return self.operation(*bound[: self._count], out=out, **named)

    def _check(self, name: str, value: Any, expected: str) -> None:
        try:
            found = _describe(value)
        except NumjitError as error:
            raise named(error, f"{self.__name__}(): argument {name!r}") from error.__cause__
        if found != expected:
            raise ArgumentError(
                f"{self.__name__}() was prepared with {name!r} as {expected} but got {found}; prepare it for "
                "that as well, or call the operation itself"
            )

    def __copy__(self) -> Prepared:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Prepared:
        return self

    def __repr__(self) -> str:
        return f"<numjit prepared {self.__name__}({', '.join(self._expected)})>"


def _describe(value: Any) -> str:
    """Return what of an argument a prepared call is made for, as text."""
    number = number_type(value)
    if number is not None:
        return f"{type(value).__name__} number"
    seen = view(value)
    if seen is None:
        return kind_of(value)
    bits = "".join(f" {bit}" for bit, on in (("conj", seen.conj), ("neg", seen.neg)) if on)
    return (
        f"{seen.library} {seen.dtype}{bits} of shape {tuple(seen.shape)}, strides {tuple(seen.strides)} on "
        f"{seen.device}"
    )
