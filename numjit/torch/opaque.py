"""Calls that torch's dispatcher is to see, made through the operator that a functor gets by itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from numjit.torch.operator import opaque_op
from numjit.torch.sharding import known_to_dtensor
from numjit.torch.watched import WatchedOperation

__all__ = ["call_operator"]


def call_operator(operation: WatchedOperation, bound: Sequence[Any], outs: Sequence[Any]) -> Any:
    """Make a call through the functor's torch operator.

    Parameters
    ----------
    operation
        What is called.
    bound
        One value a parameter.
    outs
        Tensors that the results, which are new ones, will be copied to.
    """
    operator = opaque_op(operation)
    module = sys.modules.get("torch.distributed.tensor")
    if module is not None and any(isinstance(x, module.DTensor) for x in (*bound, *outs)):
        known_to_dtensor(operator)
    return operator.call(list(bound[: operation.count]), bound[operation.count :])
