"""How operations are written over torch tensors: the text of an expression for one domain.

Operands come moved into the domain's compute dtype. What torch and numjit answer differently (integer
division by zero, shifts beyond the width, infinite arguments) is written out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numjit.dtypes import DType

__all__ = ["NotLowerable", "Term", "TorchForm", "Writer", "called", "fold", "identity", "infix", "tensor"]


class NotLowerable(Exception):  # noqa: N818 - no error: the caller falls back to an opaque operation
    """A functor that cannot be written as torch operations; the message says why."""


class Writer(Protocol):
    """What emissions need of the program that is being written."""

    def let(self, code: str) -> str:
        """Give an expression a name."""
        ...

    def filled(self, code: str, dtype: DType) -> str:
        """Return a 0-dim tensor of a number."""
        ...


@dataclasses.dataclass(frozen=True)
class Term:
    """One operand: its text, whether that is a tensor, and its value where it is a constant number."""

    code: str
    is_tensor: bool
    constant: Any = None


TorchForm = Callable[[Writer, DType, Sequence[Term | None]], str]


def tensor(writer: Writer, dtype: DType, operand: Term | None) -> str:
    """Return an operand as a tensor: a number is filled into one of no dimensions."""
    assert operand is not None
    return operand.code if operand.is_tensor else writer.filled(operand.code, dtype)


def called(name: str) -> TorchForm:
    """Write a function of torch that takes tensors only."""

    def code(writer: Writer, dtype: DType, operands: Sequence[Term | None]) -> str:
        return f"torch.{name}({', '.join(tensor(writer, dtype, operand) for operand in operands)})"

    return code


def fold(one: TorchForm) -> TorchForm:
    """Write an operation of two operands over any number of them, from the left."""

    def code(writer: Writer, dtype: DType, operands: Sequence[Term | None]) -> str:
        found = operands[0]
        for operand in operands[1:]:
            found = Term(writer.let(one(writer, dtype, (found, operand))), is_tensor=True)
        return tensor(writer, dtype, found)

    return code


def infix(symbol: str, of_bools: str = "") -> TorchForm:
    """Write one of Python's operators, which torch's tensors take numbers on either side of."""

    def code(writer: Writer, dtype: DType, operands: Sequence[Term | None]) -> str:
        if dtype.kind == "b" and of_bools:
            return called(of_bools)(writer, dtype, operands)
        x, y = operands
        assert x is not None
        assert y is not None
        left = x.code if x.is_tensor or y.is_tensor else tensor(writer, dtype, x)
        return f"({left} {symbol} {y.code})"

    return code


def identity(writer: Writer, dtype: DType, operands: Sequence[Term | None]) -> str:
    """Write the first operand as it is."""
    return tensor(writer, dtype, operands[0])
