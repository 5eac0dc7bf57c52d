"""Autograd kernels of registered operators: numjit's own gradients, the torch form where it must be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numjit import autograd
from numjit.arguments import default_dtype
from numjit.errors import AutogradError
from numjit.functor.lowered import NotLowerable
from numjit.torch_meta import argument_types

if TYPE_CHECKING:
    from numjit.elementwise import Elementwise
    from numjit.torch_operator import TorchOp

__all__ = ["autograd_kernel", "torch_form"]


def autograd_kernel(operator: TorchOp, overload: Any) -> Callable[..., Any]:
    """Return an overload's kernel for torch's autograd keys.

    What ``torch.library.register_autograd`` would make knows neither forward mode, whose tangents it
    silently drops, nor ``torch.func``'s transforms: here forward mode goes through the functor's own node,
    and transforms run its torch form.
    """
    import torch
    from torch.autograd import forward_ad

    below = torch._C._AutoDispatchBelowAutograd
    after = torch._C._after_autograd_keyset
    any_requires_grad = torch._C._any_requires_grad
    transforms = torch._C._are_functorch_transforms_active

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        recorded = torch.is_grad_enabled() and any_requires_grad(*args)
        is_forward = forward_ad._current_level >= 0
        if is_forward or (recorded and transforms()):
            values = operator.values(args, kwargs)
            if not is_forward or transforms() or _has_tangent(values):
                if transforms():
                    return torch_form(operator.functor, values)(*values)
                results = autograd.record(autograd.Request(operator.functor), values)
                return results[0] if len(results) == 1 else results
        if recorded:
            return _node().apply(operator, overload, keyset, kwargs, *args)
        with below():
            return overload.redispatch(keyset & after, *args, **kwargs)

    return kernel


def _has_tangent(values: Sequence[Any]) -> bool:
    import torch
    from torch.autograd import forward_ad

    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)


@functools.cache
def _node() -> Any:
    """Return the autograd function of all operators, made when torch is first needed."""
    import torch

    class Node(torch.autograd.Function):  # type: ignore[misc]
        """Runs an operator below autograd; its backward asks for the functor's gradients."""

        @staticmethod
        def forward(
            ctx: Any, operator: TorchOp, overload: Any, keyset: Any, kwargs: Mapping[str, Any], *args: Any
        ) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                result = overload.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)
            values = operator.values(args, kwargs)
            ctx.set_materialize_grads(False)
            many = result if isinstance(result, tuple | list) else (result,)
            whole = [one for one in many if not autograd.is_inexact(one)]
            if whole:
                ctx.mark_non_differentiable(*whole)
            ctx.operator = operator
            ctx.save_for_backward(*(value for value in values if isinstance(value, torch.Tensor)))
            ctx.numbers = [None if isinstance(value, torch.Tensor) else (value,) for value in values]
            return result

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            tensors = iter(ctx.saved_tensors)
            values = [next(tensors) if number is None else number[0] for number in ctx.numbers]
            needed = ctx.needs_input_grad[4:]
            wanted = [k for k, is_needed in enumerate(needed) if is_needed]
            answer: list[Any] = [None] * len(needed)
            found = autograd.operator_gradients(ctx.operator.functor, values, grads, wanted)
            for place, gradient in zip(wanted, found, strict=True):
                answer[place] = gradient
            return None, None, None, None, *answer

    return Node


def torch_form(operation: Elementwise, values: Sequence[Any]) -> Any:
    """Return the functor's torch form for a call's types.

    Raises
    ------
    AutogradError
        It has none.
    """
    from numjit.functor.torch_lowering import lower

    functor = operation.functor
    if operation.rule is not None:
        raise AutogradError(
            f"{functor.name}(): its gradient is written by hand, which its torch operator (also under "
            "torch.compile) has in reverse mode outside torch.func's transforms only; call the functor "
            "itself, eagerly, under torch.func.grad or vjp"
        )
    try:
        if operation._python is None:
            raise NotLowerable("it is written in C++")
        kinds = argument_types(functor, values)
        return lower(operation._python, kinds, default_dtype()).build()
    except NotLowerable as reason:
        raise AutogradError(
            f"{functor.name}() has no gradient ({reason}); give it one with "
            "numjit.differentiable(forward, backward), or call it under torch.no_grad()"
        ) from None
