"""An operand described without an array: dtype and layout, for kernels that are built ahead."""

from __future__ import annotations

import dataclasses
from typing import Any

from numjit.dtypes import DType, as_dtype
from numjit.errors import ArgumentError
from numjit.ground.checks import Checks

__all__ = ["Operand"]


@dataclasses.dataclass(frozen=True)
class Operand:
    """An operand of a call to come.

    Only the *class* of the layout decides which kernel a call takes (which operands are contiguous,
    broadcast, strided or transposed, and how they are aligned), so sizes need not be those of the call.

    Parameters
    ----------
    dtype
        A numjit, torch or NumPy dtype, or its name.
    shape
        Sizes.
    strides
        In elements; contiguous by default.
    offset
        Elements between an address aligned to 16 bytes and the first element: 1 for ``x[1:]``.

    Raises
    ------
    ArgumentError
        Sizes, strides or an offset that are none, or another number of strides than of sizes.
    UnsupportedDtypeError
        `dtype` is none of numjit's.
    """

    dtype: Any
    shape: tuple[int, ...] = (1 << 20,)
    strides: tuple[int, ...] | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        check = Checks("Operand()", ArgumentError)
        object.__setattr__(self, "shape", check.sizes("shape", self.shape, "a tuple of sizes"))
        object.__setattr__(self, "offset", check.count("offset", self.offset, 0))
        if self.strides is not None:
            strides = check.sizes("strides", self.strides, "a tuple of ints, or leave them out", None)
            object.__setattr__(self, "strides", strides)
            if len(strides) != len(self.shape):
                raise ArgumentError(
                    f"an operand of shape {self.shape} has strides {strides}; give one a dimension"
                )
        object.__setattr__(self, "dtype", as_dtype(self.dtype))

    @property
    def element(self) -> DType:
        """The dtype, as numjit's own."""
        return as_dtype(self.dtype)
