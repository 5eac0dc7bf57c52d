"""One call made in every way that a user can make it: cold, warm, after other operands, compiled."""

from __future__ import annotations

import itertools

import torch

import numjit

__all__ = ["ways"]


def ways(source, operands, scalars=None, *, before=None, compiled=True, backend="aot_eager", **options):
    """Yield (name, result) of ``numjit.elementwise(source, **options)(*operands, **scalars)`` in each way.

    Parameters
    ----------
    source
        A Python function or C++ text.
    operands, scalars
        Of the call.
    before
        Operands of a plain call of the same layout, which is made first: "warm after plain". By default the
        operands themselves.
    compiled
        Whether torch.compile is one of the ways; ``fullgraph=True``.
    """
    scalars = scalars or {}
    yield "cold", numjit.elementwise(source, **options)(*operands, **scalars)
    warm = numjit.elementwise(source, **options)
    for _ in range(2):
        warm(*(operands if before is None else before), **scalars)
    yield "warm", warm(*operands, **scalars)
    yield "warm again", warm(*operands, **scalars)
    if compiled and any(isinstance(x, torch.Tensor) for x in itertools.chain(operands, scalars.values())):
        torch._dynamo.reset()
        call = torch.compile(lambda *xs: warm(*xs, **scalars), fullgraph=True, backend=backend)
        yield "compiled", call(*operands)
