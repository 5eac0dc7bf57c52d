"""``numjit.torch_op``: functors as operators of torch's dispatcher."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from numjit.elementwise import Elementwise, elementwise
from numjit.errors import ArgumentError
from numjit.torch.dispatch import need_torch
from numjit.torch.schema import check_name

if TYPE_CHECKING:
    from numjit.torch.operator import TorchOp

__all__ = ["torch_op"]

_AUTOCAST = ("cuda", "cpu")


def torch_op(
    name: str,
    functor: Elementwise | Callable[..., Any] | str,
    /,
    *,
    autocast: Any = None,
    flops: int | None = None,
) -> TorchOp:
    """Register a functor as an operator of torch.

    Parameters
    ----------
    name
        ``"namespace::name"``; then it is also ``torch.ops.namespace.name``. A name that numjit registered
        before is replaced, so that a module can be reloaded.
    functor
        Made by `numjit.elementwise`, or what that is made of. Operands are the operator's tensors, scalars
        its keyword-only numbers.
    autocast
        The dtype that floating tensors are cast to under ``torch.autocast``: one for all devices, or a
        dictionary from device types to dtypes. By default autocast leaves the operator alone.
    flops
        Floating-point operations of one element, for ``torch.utils.flop_counter``; by default estimated for
        Python functors, and 1 for C++.

    Returns
    -------
    TorchOp
        Called like the functor.

    Raises
    ------
    FunctorError
        `name` is none, is taken by another library, or the functor has no operands to broadcast.
    ArgumentError
        `functor`, `autocast` or `flops` is none of these.
    ToolchainError
        torch is not installed.

    Examples
    --------
    >>> import torch, numjit
    >>> axpy = numjit.torch_op("mylib::axpy", lambda x, y, *, alpha=1.0: alpha * x + y)
    >>> torch.ops.mylib.axpy(torch.ones(2), torch.ones(2), alpha=2.0)
    tensor([3., 3.])
    """
    need_torch("numjit.torch_op")
    from numjit.torch.operator import flops_of, register

    namespace, base = check_name(name)
    made = _operation(name, functor)
    policies = _policies(name, autocast)
    if flops is not None and (not isinstance(flops, int) or isinstance(flops, bool) or flops < 0):
        raise ArgumentError(
            f"{name}: flops is {flops!r}; say what an element counts, an int of 0 or more, or register a "
            f"formula with torch.utils.flop_counter.register_flop_formula(torch.ops.{namespace}.{base})"
        )
    operation = made.__numjit_operation__
    return register(name, operation, made, policies, flops_of(operation) if flops is None else flops)


def _operation(name: str, functor: Any) -> Elementwise:
    """Return the operation that is to be an operator, or is to be made one."""
    if isinstance(functor, Elementwise):
        return functor
    if isinstance(functor, str | types.FunctionType):
        return elementwise(functor)
    raise ArgumentError(
        f"{name}: the functor is a {type(functor).__name__}; pass an operation made by numjit.elementwise, a "
        "function of one element, or C++ text"
    )


def _policies(name: str, autocast: Any) -> dict[str, Any]:
    """Return the dtype to cast to under autocast by device type."""
    import torch

    if autocast is None:
        return {}
    found = dict(autocast) if isinstance(autocast, Mapping) else dict.fromkeys(_AUTOCAST, autocast)
    for device, dtype in found.items():
        if device not in _AUTOCAST:
            raise ArgumentError(f"{name}: autocast names the device type {device!r}; say 'cuda' or 'cpu'")
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise ArgumentError(
                f"{name}: autocast is {dtype!r} for {device!r}; pass a floating dtype of torch's, as "
                "torch.float32, or a dictionary from device types to such"
            )
    return found
