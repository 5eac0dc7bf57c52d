"""Tensors as torch's graph meets them: batches, tangents, what is saved, results and gradients fitted."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

from numjit.errors import OutputError
from numjit.ground.checks import as_tuple

__all__ = [
    "any_batched", "fitted", "is_batched", "is_inexact", "place", "rejoined", "save_values", "saved_values",
    "stored", "tangent",
]  # fmt: skip


def is_batched(tensor: Any) -> bool:
    """Whether a tensor is one of ``torch.autograd``'s own batches (``is_grads_batched=True``, ...)."""
    torch = sys.modules["torch"]
    return bool(torch._C._functorch.is_legacy_batchedtensor(tensor))


def any_batched(bound: Sequence[Any]) -> bool:
    """Whether one of a call's arguments is such a batch."""
    tensor = sys.modules["torch"].Tensor
    return any(isinstance(x, tensor) and is_batched(x) for x in bound)


def tangent(tensor: Any) -> Any:
    """Return a tensor's tangent at the current level of forward mode, None where it has none."""
    torch = sys.modules["torch"]
    forward = torch.autograd.forward_ad
    if forward._current_level < 0 or not torch._C._is_fwd_grad_enabled():
        return None
    return forward.unpack_dual(tensor).tangent


def is_inexact(tensor: Any) -> bool:
    """Whether a tensor's dtype has derivatives: it is a real or complex float."""
    dtype = tensor.dtype
    return bool(dtype.is_floating_point or dtype.is_complex)


def save_values(ctx: Any, values: Sequence[Any]) -> list[Any]:
    """Keep a call's values for its node's backward; returns the tensors among them, which torch keeps."""
    tensor = sys.modules["torch"].Tensor
    tensors = [x for x in values if isinstance(x, tensor)]
    ctx.save_for_backward(*tensors)
    #: Everything but the tensors, at its place; None where there are tensors only.
    ctx.others = None
    if len(tensors) != len(values):
        ctx.others = [None if isinstance(x, tensor) else (x,) for x in values]
    return tensors


def saved_values(ctx: Any) -> list[Any]:
    """Return what `save_values` kept."""
    # Wrappers outlive their transform: a vjp is called outside of it.
    return rejoined(ctx, _unwrap()(ctx.saved_tensors))


def rejoined(ctx: Any, tensors: Sequence[Any]) -> list[Any]:
    """Return the values that `save_values` kept, of the tensors among them."""
    if ctx.others is None:
        return list(tensors)
    rest = iter(tensors)
    return [next(rest) if other is None else other[0] for other in ctx.others]


def place(value: Any) -> tuple[Any, Any, Any] | None:
    """Return the shape, dtype and device that a value's gradient has; None where there can be none."""
    tensor = sys.modules["torch"].Tensor
    return (
        (value.shape, value.dtype, value.device) if isinstance(value, tensor) and is_inexact(value) else None
    )


@functools.cache
def _unwrap() -> Any:
    from torch._functorch.utils import unwrap_dead_wrappers

    return unwrap_dead_wrappers


def fitted(gradient: Any, shape: Any, dtype: Any, device: Any) -> Any:
    """Return a gradient as its input is: summed where that was broadcast, cast and moved where needed."""
    if gradient.is_nested:
        from numjit.torch.nested import summed

        if tuple(gradient.shape) != tuple(shape):
            gradient = summed(gradient, shape)
    elif gradient.shape != shape:
        gradient = gradient.sum_to_size(shape)
    if gradient.dtype != dtype:
        if gradient.is_complex() and not dtype.is_complex:
            gradient = gradient.real
        gradient = gradient.to(dtype)
    return gradient if gradient.device == device else gradient.to(device)


def stored(name: str, result: Any, out: Any) -> Any:
    """Copy a call's results to given tensors; `name` is the functor's, for messages."""
    results = result if isinstance(result, tuple) else (result,)
    outs = as_tuple(out)
    if len(results) != len(outs):
        raise OutputError(f"{name}() has {len(results)} outputs; pass out= as many")
    stored = []
    for made, given in zip(results, outs, strict=True):
        if given is None:
            stored.append(made)
            continue
        if given.shape != made.shape:
            raise OutputError(
                f"{name}(): out has shape {tuple(given.shape)} but the result has shape "
                f"{tuple(made.shape)}; pass a tensor of that shape"
            )
        if not _can_cast(made.dtype, given.dtype):
            raise OutputError(
                f"{name}(): out has dtype {given.dtype}, to which a {made.dtype} result cannot "
                "be cast; pass a tensor of that dtype"
            )
        given.copy_(made)
        stored.append(given)
    return stored[0] if len(stored) == 1 else tuple(stored)


def _can_cast(src: Any, dst: Any) -> bool:
    """Answer as ``torch.can_cast``, which Dynamo cannot trace."""
    import torch

    if src.is_complex and not dst.is_complex:
        return False
    if src.is_floating_point and not (dst.is_floating_point or dst.is_complex):
        return False
    return dst is not torch.bool or src is torch.bool
