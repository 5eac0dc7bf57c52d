"""Calls under ``vmap``: a batch becomes one more dimension, in front, of the operands that have it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from numjit.call.operation import Operation, Request
from numjit.errors import AutogradError
from numjit.torch.graph import is_batched

__all__ = ["in_batch", "one_by_one", "operator_over_batch", "over_batch"]

#: Makes a call, recorded where torch watches it.
Call = Callable[[Request[Any], Sequence[Any]], tuple[Any, ...]]

#: How many batches torch nests at most.
_LEVELS = 64


def over_batch(
    call: Call, size: int, dims: Sequence[Any], request: Request[Any], bound: Sequence[Any]
) -> tuple[Any, ...]:
    """Make a call over a batch, by `call`: arguments with a batch have it at `dims`, results at the front."""
    operation = request.operation
    raws = operation.raws
    if operation.is_nullary or operation.functor.uses_index or any(dims[k] is not None for k in raws):
        return _stacked(operation.name, size, dims, functools.partial(call, request), bound, raws)
    lifted, zero_dim = _lifted(dims, request, bound)
    return call(request.with_zero_dim(zero_dim), lifted)


def operator_over_batch(
    operation: Operation,
    run: Callable[[Sequence[Any]], tuple[Any, ...]],
    size: int,
    dims: Sequence[Any],
    values: Sequence[Any],
) -> tuple[Any, ...]:
    """Call a registered operator by `run` over a batch: as `over_batch`, but the dispatcher sees it."""
    import torch

    count = operation.count

    # To an operator a scalar is one number.
    whole = {*operation.raws, *range(count, len(values))}
    if not operation.functor.uses_index and all(dims[k] is None for k in whole):
        lifted, zero_dim = _lifted(dims, operation.plain_request, values)
        # What is 0-dim in a row counts less in promotion than with a batch's dimension, and meets any device.
        if not zero_dim or len({(x.dtype, x.device) for x in values if isinstance(x, torch.Tensor)}) == 1:
            return run(lifted)
    return _stacked(operation.name, size, dims, run, values, operation.raws)


def in_batch(call: Call, request: Request[Any], bound: Sequence[Any]) -> tuple[Any, ...]:
    """Call within one of ``torch.autograd``'s own batches; what is inside them is recorded."""
    plain, dims, level = _opened(bound)
    return _closed(over_batch(call, _size(plain, dims), dims, request, plain), level)


def one_by_one(name: str, function: Callable[..., tuple[Any, ...]], bound: Sequence[Any]) -> tuple[Any, ...]:
    """Call a function, named for messages, for each element of one of ``torch.autograd``'s own batches."""
    plain, dims, level = _opened(bound)
    return _closed(_stacked(name, _size(plain, dims), dims, function, plain), level)


def _opened(bound: Sequence[Any]) -> tuple[list[Any], list[int | None], int]:
    """Return arguments without their innermost batch, its dimension in each, and its level."""
    import torch

    plain = list(bound)
    dims: list[int | None] = [None] * len(bound)
    # The innermost first. How deep the batches are is known to the thread that made them only; on a GPU
    # derivatives run in a thread of torch's own.
    for level in range(_LEVELS, 0, -1):
        for k, x in enumerate(bound):
            if isinstance(x, torch.Tensor) and is_batched(x):
                # What has no batch at this level is expanded to one of the size said, 0.
                whole = torch._remove_batch_dim(x, level, 0, 0)
                if whole.shape[0]:
                    plain[k], dims[k] = whole, 0
        if any(dim == 0 for dim in dims):
            break
    return plain, dims, level


def _size(plain: Sequence[Any], dims: Sequence[int | None]) -> int:
    return next(int(x.shape[0]) for x, dim in zip(plain, dims, strict=True) if dim == 0)


def _closed(results: Sequence[Any], level: int) -> tuple[Any, ...]:
    import torch

    return tuple(torch._add_batch_dim(result, 0, level) for result in results)


def _lifted(
    dims: Sequence[Any], request: Request[Any], bound: Sequence[Any]
) -> tuple[list[Any], frozenset[int]]:
    """Put batch dimensions in front, with as many of size 1 behind them as broadcasting needs."""
    raws = request.operation.raws
    ranks = [
        len(x.shape) - (dim is not None) if hasattr(x, "shape") else 0
        for x, dim in zip(bound, dims, strict=True)
    ]
    rank = max((n for k, n in enumerate(ranks) if k not in raws), default=0)
    lifted, zero_dim = [], set(request.zero_dim)
    for k, (x, dim) in enumerate(zip(bound, dims, strict=True)):
        if dim is None:
            lifted.append(x)
            continue
        moved = x.movedim(dim, 0)
        if not ranks[k]:
            zero_dim.add(k)
        lifted.append(moved.reshape(moved.shape[0], *(1,) * (rank - ranks[k]), *moved.shape[1:]))
    return lifted, frozenset(zero_dim)


def _stacked(
    name: str,
    size: int,
    dims: Sequence[Any],
    run: Callable[[Sequence[Any]], tuple[Any, ...]],
    bound: Sequence[Any],
    raws: Collection[int] = (),
) -> tuple[Any, ...]:
    """Call for each element of a batch, where a batch is no dimension like others to the function.

    Operands at `raws` become contiguous: how a batch lies in memory is not the caller's to know.
    """
    import torch

    batched = [(k, dim) for k, dim in enumerate(dims) if dim is not None]
    rows = []
    for n in range(size):
        row = list(bound)
        for k, dim in batched:
            one = bound[k].select(dim, n)
            row[k] = one.contiguous() if k in raws else one
        rows.append(run(row))
    if not rows:
        raise AutogradError(f"{name}(): vmap over a batch without elements; pass one at least")
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))
