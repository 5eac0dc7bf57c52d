"""The Numba types of a functor's parameters."""

from __future__ import annotations

from typing import Any

from numjit import dtypes
from numjit.dtypes import DType
from numjit.functor.signature import Parameter
from numjit.rules.types import Element, native_type
from numjit.semantics.category import ArgumentType, Category

__all__ = ["is_declared", "parameter_type"]


def is_declared(parameter: Parameter) -> bool:
    """Whether a parameter is annotated with a dtype or type variable."""
    return parameter.dtype is not None or parameter.variable is not None


def parameter_type(parameter: Parameter, dtype: DType, argument: ArgumentType, default_dtype: DType) -> Any:
    """Return the Numba type of a parameter: a weak number, or a strong element."""
    if is_declared(parameter):  # a declared type counts in full, whatever was passed
        return Element(dtype, zero_dim=False, default_dtype=default_dtype)
    if argument.category is Category.NUMBER and dtype is not dtypes.uint64:
        return native_type(dtype)
    if argument.category is Category.NUMBER:  # Numba's uint64 + int64 is a float64
        return Element(dtype, zero_dim=True, default_dtype=default_dtype)
    return Element(dtype, argument.category is Category.ZERO_DIM, default_dtype)
