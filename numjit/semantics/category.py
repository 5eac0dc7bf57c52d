"""What torch's type promotion knows of an operand: its dtype, and one of three ranks."""

from __future__ import annotations

import enum
from typing import NamedTuple

from numjit.dtypes import DType

__all__ = ["ArgumentType", "Category"]


class Category(enum.IntEnum):
    """How much an operand counts in type promotion (torch's ``ResultTypeState``), lowest first."""

    #: A Python or NumPy scalar: only its kind (bool < int < float < complex) counts.
    NUMBER = 0
    #: An array without dimensions.
    ZERO_DIM = 1
    #: An array with dimensions.
    DIM = 2


class ArgumentType(NamedTuple):
    """The type of one argument of a call.

    For `Category.NUMBER` the dtype only names the kind: bool, int64 (uint64 where the value needs
    it), float64 or complex128.
    """

    dtype: DType
    category: Category

    @property
    def negative(self) -> bool | None:
        """Whether it is a negative int; None where that is no part of the type."""
        return None

    @property
    def shown(self) -> str:
        """Stable text of it."""
        sign = "" if self.negative is None else "-" if self.negative else "+"
        return f"{self.dtype}:{int(self.category)}{sign}"
