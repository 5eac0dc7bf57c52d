"""Operators on torch's jagged nested tensors: one call on the elements that they hold, all rows at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from numjit.errors import BroadcastError, UnsupportedArrayError

__all__ = ["is_jagged", "over_jagged", "summed"]


def is_jagged(value: Any) -> bool:
    """Whether a value is a nested tensor of layout ``torch.jagged``."""
    import torch

    return isinstance(value, torch.Tensor) and value.is_nested and value.layout is torch.jagged


def over_jagged(
    name: str, raws: Collection[int], func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call an operator's overload on jagged tensors and what broadcasts with them.

    Parameters
    ----------
    name
        The functor's, for messages.
    raws
        Positions of operands that it indexes itself.
    func, args, kwargs
        The call, below autograd.

    Raises
    ------
    BroadcastError
        Jagged tensors of other rows or another rank, or a plain tensor that has a size where rows differ.
    UnsupportedArrayError
        A raw operand is jagged, or a plain tensor with a batch meets one whose rows have gaps.
    """
    import torch
    from torch.nested._internal.nested_tensor import NestedTensor
    from torch.nested._internal.ops import extract_kwargs

    for k in raws:
        if isinstance(args[k], NestedTensor):
            raise UnsupportedArrayError(
                f"{name}(): a raw operand is a nested tensor, whose elements have no number of their own; "
                "pass .values()"
            )
    first = next(x for x in args if isinstance(x, NestedTensor))
    inner = []
    for k, x in enumerate(args):
        if isinstance(x, NestedTensor):
            inner.append(_elements(name, first, x))
        elif isinstance(x, torch.Tensor) and x.dim() and k not in raws:
            inner.append(_spread(name, first, x))
        else:
            inner.append(x)
    made = func(*inner, **kwargs)
    rows = extract_kwargs(first)
    if isinstance(made, tuple | list):
        return tuple(NestedTensor(one, **rows) for one in made)
    return NestedTensor(made, **rows)


def _elements(name: str, first: Any, x: Any) -> Any:
    """Return the elements of a jagged tensor with the rows of another."""
    ragged = first._ragged_idx
    if x.dim() != first.dim() or x._ragged_idx != ragged or x._size[ragged] != first._size[ragged]:
        raise BroadcastError(
            f"{name}(): nested tensors of shapes {tuple(first.shape)} and {tuple(x.shape)} do not have the "
            "same rows; make one with the other's offsets, torch.nested.nested_tensor_from_jagged(values, "
            "other.offsets())"
        )
    return x._values


def _spread(name: str, first: Any, x: Any) -> Any:
    """Return a plain tensor as it broadcasts with a jagged one's elements."""
    rank, ragged = first.dim(), first._ragged_idx
    while x.dim() > rank and x.shape[0] == 1:
        x = x.squeeze(0)
    shape = (1,) * (rank - x.dim()) + tuple(x.shape)
    if x.dim() > rank or shape[ragged] != 1 or (shape[0] != 1 and shape[0] != first.shape[0]):
        raise BroadcastError(
            f"{name}(): shape {tuple(x.shape)} does not broadcast with the nested tensor's "
            f"{tuple(first.shape)}; a plain tensor has size 1 in dimension {ragged}, where rows differ"
        )
    x = x.reshape(shape)
    if shape[0] == 1:
        return x.squeeze(0)
    rows = x.squeeze(ragged).index_select(0, _row_of_each(name, first))
    return rows.movedim(0, ragged - 1)


def _row_of_each(name: str, jagged: Any) -> Any:
    """Return the row of each place along the dimension where rows differ."""
    import torch

    if jagged.lengths() is not None:
        raise UnsupportedArrayError(
            f"{name}(): a plain tensor with a batch meets a nested tensor whose rows have gaps between them; "
            "pass .contiguous()"
        )
    offsets = jagged.offsets()
    numbers = torch.arange(offsets.shape[0] - 1, device=offsets.device)
    size = jagged.values().shape[jagged._ragged_idx - 1]
    return torch.repeat_interleave(numbers, offsets.diff(), output_size=size)


def summed(gradient: Any, shape: Sequence[Any]) -> Any:
    """Return a jagged gradient summed to the shape of an input that was broadcast, jagged or not."""
    import torch

    rank, ragged = gradient.dim(), gradient._ragged_idx
    elements = gradient.values()
    padded = (1,) * (rank - len(shape)) + tuple(shape[max(len(shape) - rank, 0) :])
    if isinstance(padded[ragged], torch.SymInt) and padded[ragged].node.is_nested_int():
        sizes = list(padded[1:])
        sizes[ragged - 1] = elements.shape[ragged - 1]
        return torch.nested.nested_tensor_from_jagged(
            elements.sum_to_size(sizes), gradient.offsets(), gradient.lengths(), jagged_dim=ragged
        )
    if padded[0] == 1:
        return elements.sum_to_size(padded[1:]).reshape(shape)
    rows = elements.movedim(ragged - 1, 0)
    start = rows.new_zeros((padded[0], *rows.shape[1:]))
    total = start.index_add(0, _row_of_each("the gradient", gradient), rows).unsqueeze(ragged)
    return total.sum_to_size(padded).reshape(shape)
