"""Asks torch itself, on real CPU tensors, what numjit has to answer."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from numjit import dtypes
from numjit.dtypes import DType
from numjit.errors import PromotionError
from numjit.functor.signature import ArgumentType
from numjit.semantics.category import Category
from tests.support.strategies import View

#: What `outcome` answers where a common dtype is refused.
REFUSED = "refused"

_NUMBERS = {
    dtypes.bool_: True,
    dtypes.int64: 3,
    dtypes.uint64: 2**63 + 5,
    dtypes.float64: 2.5,
    dtypes.complex128: 1 + 2j,
}
_REFUSALS = ("Promotion for", "Unknown Complex ScalarType")


def torch_dtype(dtype: DType) -> torch.dtype:
    """Return torch's own object for a numjit dtype."""
    return getattr(torch, dtype.name)


@contextlib.contextmanager
def default_dtype(dtype: DType) -> Iterator[None]:
    """Set torch's default dtype for a while."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch_dtype(dtype))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def argument(kind: ArgumentType, shape: tuple[int, ...] = (2,)) -> Any:
    """Return a number, a 0-dim tensor, or a tensor of `shape`, holding ones (numbers: any value)."""
    if kind.category is Category.NUMBER:
        return _NUMBERS[kind.dtype]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "ComplexHalf")
        shape = () if kind.category is Category.ZERO_DIM else shape
        return torch.ones(shape, dtype=torch.float32).to(torch_dtype(kind.dtype))


def argument_type(value: Any) -> ArgumentType:
    """Return the type of a number or tensor."""
    if isinstance(value, torch.Tensor):
        return ArgumentType(dtypes.as_dtype(value.dtype), Category.DIM if value.ndim else Category.ZERO_DIM)
    kinds = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
    return ArgumentType(kinds[type(value)], Category.NUMBER)


def outcome(question: Callable[..., Any], *arguments: Any) -> Any:
    """Return the dtype (or that of the array) which is answered, as numjit's, or `REFUSED` for a refusal."""
    try:
        answer = question(*arguments)
    except PromotionError:
        return REFUSED
    except RuntimeError as error:
        if not str(error).startswith(_REFUSALS):
            raise
        return REFUSED
    return dtypes.as_dtype(getattr(answer, "dtype", answer))


def tensor(view: View, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a view of a buffer of zeros of its own; strides must not be negative."""
    buffer = torch.zeros(max(view.bounds[1], 1), dtype=dtype)
    return buffer.as_strided(view.shape, view.strides, view.offset)
