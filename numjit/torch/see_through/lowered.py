"""What generated torch functions call at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numjit.rules.torch_text import NotLowerable
from numjit.semantics.strides import output_strides, slowest_first

__all__ = ["NotLowerable", "finish", "fitted", "keep"]


def keep(value: Any, mask: Any) -> Any:
    """Return a value whose gradient is dropped outside of a mask.

    An arm of a condition is computed for all elements; where it is not taken its gradient is 0, and 0
    times the infinite slope of, say, a square root would be NaN.
    """
    import torch

    if not (value.requires_grad or torch._C._are_functorch_transforms_active()):
        return value
    return torch.where(mask, value, value.detach())


def finish(
    results: Sequence[Any], fresh: Sequence[bool], dtypes: Sequence[Any], operands: Sequence[Any]
) -> Any:
    """Give results the dtype, shape and strides that one operation over the operands has.

    Parameters
    ----------
    results
        Tensors or numbers.
    fresh
        Whether each is memory of its own, neither an operand nor a view.
    dtypes
        torch dtype of each.
    operands
        Tensors and numbers, in the functor's order, without scalars.
    """
    import torch

    tensors = [operand for operand in operands if isinstance(operand, torch.Tensor)]
    shape = torch.broadcast_shapes(*[tensor.shape for tensor in tensors])
    device = tensors[0].device
    for tensor in tensors:
        if tensor.dim():
            device = tensor.device
            break
    made = []
    for result, own, dtype in zip(results, fresh, dtypes, strict=True):
        if not isinstance(result, torch.Tensor):
            result, own = torch.full(shape, result, dtype=dtype, device=device), True  # noqa: PLW2901
        if result.device != device:
            result = result.to(device)  # noqa: PLW2901 - from 0-dim CPU tensors alone
        if result.dtype != dtype:
            result, own = result.to(dtype), True  # noqa: PLW2901
        if result.dim() != len(shape) or result.shape != shape:
            result, own = result.expand(shape), False  # noqa: PLW2901
        made.append(_laid_out(result, own, shape, operands))
    return made[0] if len(made) == 1 else tuple(made)


def _laid_out(result: Any, fresh: bool, shape: Any, operands: Sequence[Any]) -> Any:
    """Return a result in memory of its own, with numjit's strides."""
    import torch

    plain = all(
        operand.dim() == len(shape) and operand.shape == shape and operand.is_contiguous()
        for operand in operands
        if isinstance(operand, torch.Tensor) and operand.dim()
    )
    if plain or len(shape) < 2:
        if fresh and result.is_contiguous():
            return result
        return result.clone(memory_format=torch.contiguous_format)
    layouts = [
        (tuple(operand.shape), tuple(operand.stride())) if isinstance(operand, torch.Tensor) else ((), ())
        for operand in operands
    ]
    wanted = output_strides(tuple(shape), layouts)
    if fresh and tuple(result.stride()) == wanted:
        return result
    order = slowest_first(wanted)
    back = sorted(range(len(order)), key=lambda place: order[place])
    return result.permute(order).clone(memory_format=torch.contiguous_format).permute(back)


def fitted(gradient: Any, like: Any) -> Any:
    """Return a gradient as its input is: summed where that was broadcast, cast and moved where needed."""
    if gradient.shape != like.shape:
        # Of no dimensions is the 0 of a parameter that no result depends on.
        gradient = gradient.sum_to_size(like.shape) if gradient.dim() else gradient.expand(like.shape)
    if gradient.dtype != like.dtype:
        if gradient.is_complex() and not like.is_complex():
            gradient = gradient.real
        gradient = gradient.to(like.dtype)
    return gradient if gradient.device == like.device else gradient.to(like.device)
