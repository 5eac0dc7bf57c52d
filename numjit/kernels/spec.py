"""What a shell is compiled for: operand dtypes and the kernel variant, never the functor."""

from __future__ import annotations

from typing import NamedTuple

from numjit.dtypes import DType, uint8
from numjit.plan.variant import Variant

__all__ = ["FUNCTOR_SYMBOL", "InputSlot", "OutputSlot", "ShellSpec"]

#: The symbol that every functor defines and every shell calls; each pair is linked on its own.
FUNCTOR_SYMBOL = "numjit_functor"


class InputSlot(NamedTuple):
    """One argument of the functor.

    Attributes
    ----------
    dtype
        The dtype that the functor takes it as.
    stored
        The dtype in memory, or None for a value passed as a kernel parameter.
    view
        ``""``, ``"conj"``, ``"neg"`` or ``"conj neg"``: what is applied to the loaded element.
    is_index
        The argument is the element's own number in the result, last dimension fastest; it has strides
        like a memory operand, but nothing is loaded.
    raw
        The functor indexes the operand itself: two int64 kernel parameters, address and number of
        elements, which it is handed as they are.
    """

    dtype: DType
    stored: DType | None
    view: str = ""
    is_index: bool = False
    raw: bool = False

    @property
    def components(self) -> int:
        """How many values the functor takes for it."""
        return 2 if self.raw or self.dtype.is_complex else 1

    def __str__(self) -> str:
        if self.is_index or self.raw:
            return "index" if self.is_index else "raw"
        source = "value" if self.stored is None else f"{self.stored}{' ' + self.view if self.view else ''}"
        return f"{source}>{self.dtype}"


class OutputSlot(NamedTuple):
    """One result: the dtype that the functor gives it in, and the dtype in memory."""

    dtype: DType
    stored: DType

    def __str__(self) -> str:
        return f"{self.dtype}>{self.stored}"


class ShellSpec(NamedTuple):
    """Everything a shell depends on, and so its cache key."""

    outputs: tuple[OutputSlot, ...]
    inputs: tuple[InputSlot, ...]
    variant: Variant

    @property
    def memory_inputs(self) -> tuple[InputSlot, ...]:
        """The inputs that are read from memory, in order."""
        return tuple(slot for slot in self.inputs if slot.stored is not None)

    @property
    def value_inputs(self) -> tuple[InputSlot, ...]:
        """The inputs that are kernel parameters, in order."""
        return tuple(slot for slot in self.inputs if slot.stored is None and not slot.is_index)

    @property
    def has_index(self) -> bool:
        """Whether the functor takes the element's number."""
        return any(slot.is_index for slot in self.inputs)

    @property
    def stored(self) -> tuple[DType, ...]:
        """Stored dtype of each memory operand, outputs first, and uint8 for the index, last.

        The index counts elements, so one of its steps is one "byte".
        """
        return (
            *(slot.stored for slot in self.outputs),
            *(slot.stored for slot in self.inputs if slot.stored is not None),
            *((uint8,) if self.has_index else ()),
        )

    def __str__(self) -> str:
        return f"({','.join(map(str, self.inputs))})->({','.join(map(str, self.outputs))}) {self.variant}"
