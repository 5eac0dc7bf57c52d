"""Autograd kernels of registered operators: one node of torch's graph, whose derivatives are numjit's own."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from numjit.errors import AutogradError
from numjit.torch.graph import is_inexact, save_values, saved_values
from numjit.torch.recorded import operator_gradients, through_dispatcher
from numjit.torch.watched import WatchedOperation, check_unchanged, derived, explained

__all__ = ["autograd_kernel"]


class Operator(Protocol):
    """A registered operator, as its kernels for autograd see it."""

    operation: WatchedOperation

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Run a call below autograd."""

    def values(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Return one value a parameter."""

    def require(self) -> None:
        """Raise FunctorError if the operator does not have its name any more."""


def autograd_kernel(operator: Operator, overload: Any) -> Callable[..., Any]:
    """Return an overload's kernel for torch's autograd keys.

    What ``torch.library.register_autograd`` would make knows neither forward mode, whose tangents it
    silently drops, nor ``torch.func``'s transforms, in which it raises.
    """
    import torch
    from torch.autograd import forward_ad

    below = torch._C._AutoDispatchBelowAutograd
    after = torch._C._after_autograd_keyset
    any_requires_grad = torch._C._any_requires_grad
    is_grad_enabled = torch.is_grad_enabled
    transforms = torch._C._are_functorch_transforms_active
    redispatch = overload.redispatch
    compute, operation = operator.compute, operator.operation
    count = len(overload._schema.arguments)

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if transforms():
            return _in_transform(_Call(operator, overload, keyset & after, kwargs), args)
        if (is_grad_enabled() and any_requires_grad(*args)) or forward_ad._current_level >= 0:
            return _nodes()[0].apply(_Call(operator, overload, keyset & after, kwargs), None, *args)
        if _is_last(keyset.raw_repr()):
            return operation(*args) if len(args) == count else compute(*args, **kwargs)
        with below():
            return redispatch(keyset & after, *args, **kwargs)

    return kernel


@functools.cache
def _is_last(keys: int) -> bool:
    """Whether a set of dispatch keys has nothing between autograd and the kernel that computes."""
    import torch

    core = torch._C
    rest = core.DispatchKeySet.from_raw_repr(keys) & core._after_ADInplaceOrView_keyset
    return rest.highestPriorityTypeId() in (core.DispatchKey.CPU, core.DispatchKey.CUDA)


@dataclasses.dataclass(eq=False, slots=True)
class _Call:
    """An operator's call apart from its positional arguments.

    Attributes
    ----------
    operator, overload
        What is called.
    keyset
        The dispatch keys that come after autograd.
    kwargs
        Scalars that were given by name.
    """

    operator: Operator
    overload: Any
    keyset: Any
    kwargs: Mapping[str, Any]

    def below(self, args: Sequence[Any]) -> Any:
        """Go on below autograd: to the operator's kernel, or to the next of nested transforms."""
        import torch

        with torch._C._AutoDispatchBelowAutograd():
            result = self.overload.redispatch(self.keyset, *args, **self.kwargs)
        self.operator.require()  # its derivative goes with no other's result
        return result


def _in_transform(call: _Call, args: Sequence[Any]) -> Any:
    """Run a call as a node of the graph of the innermost transform of ``torch.func``.

    A transform enters autograd's kernel with its own wrappers of tensors, and again, through `_Call.below`,
    for each transform around it. So the node is one of a single level, which torch makes for its own
    ``custom_function_call`` and otherwise takes for a mistake. It is made whatever the arguments are: what
    has a tangent does not say so where a compiled graph has entered the level of forward mode.
    """
    import torch
    from torch._functorch.utils import enable_single_level_autograd_function

    modes = torch.is_grad_enabled(), torch._C._is_fwd_grad_enabled()
    with enable_single_level_autograd_function():
        return _nodes()[1].apply(call, modes, *args)


@functools.cache
def _nodes() -> tuple[Any, Any]:
    """Return the autograd function without and with transforms, made when torch is first needed."""
    import torch
    from torch.autograd import forward_ad

    class NumjitOperator(torch.autograd.Function):  # type: ignore[misc]
        """Runs an operator below autograd; its derivatives are those of the functor."""

        @staticmethod
        def forward(ctx: Any, call: _Call, _: Any, *args: Any) -> Any:
            result = call.below(args)
            NumjitOperator.save(ctx, call, args, result)
            return result

        @staticmethod
        def save(ctx: Any, call: _Call, args: Sequence[Any], result: Any) -> None:
            many = result if isinstance(result, tuple | list) else (result,)
            ctx.set_materialize_grads(False)
            ctx.dtypes = [one.dtype if is_inexact(one) else None for one in many]
            if None in ctx.dtypes:
                whole = [one for one, dtype in zip(many, ctx.dtypes, strict=True) if dtype is None]
                ctx.mark_non_differentiable(*whole)
            operation = ctx.operation = call.operator.operation
            operation.refresh()  # nothing has, where tensors have no memory
            ctx.fingerprint = operation.fingerprint
            values = call.operator.values(tuple(args), call.kwargs)
            ctx.save_for_forward(*save_values(ctx, values))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            needed = ctx.needs_input_grad[2:]
            wanted = [k for k, is_needed in enumerate(needed) if is_needed]
            answer: list[Any] = [None] * len(needed)
            operation = ctx.operation
            if operation.rule is None or operation.rule.calls_again(grads):
                check_unchanged(operation, ctx.fingerprint)
            found = operator_gradients(operation, saved_values(ctx), grads, wanted)
            for place, gradient in zip(wanted, found, strict=True):
                answer[place] = gradient
            return None, None, *answer

        @staticmethod
        def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Any:
            check_unchanged(ctx.operation, ctx.fingerprint)
            values = saved_values(ctx)
            # Torch turns forward mode off here, for transforms around this one as well: their tangents would
            # be lost. So it is on, and what has a tangent of this level is left without.
            with forward_ad._set_fwd_grad_enabled(True):
                for k, tangent in enumerate(tangents):
                    if tangent is not None:
                        values[k] = torch._VF._unpack_dual(values[k], level=0)[0]
                found = _tangents(ctx.operation, values, tangents, ctx.dtypes)
            return found[0] if len(found) == 1 else tuple(found)

    class SingleLevel(torch.autograd.function._SingleLevelFunction):  # type: ignore[misc]
        """The same for one transform of ``torch.func``."""

        @staticmethod
        def forward(ctx: Any, call: _Call, modes: tuple[bool, bool], *args: Any) -> Any:
            # A node turns gradients off for its forward, but the transforms around have theirs to record.
            with torch.set_grad_enabled(modes[0]), forward_ad._set_fwd_grad_enabled(modes[1]):
                result = call.below(args)
            NumjitOperator.save(ctx, call, args, result)
            return result

        backward = staticmethod(NumjitOperator.backward)
        jvp = staticmethod(NumjitOperator.jvp)

    SingleLevel.__name__ = NumjitOperator.__name__
    return NumjitOperator, SingleLevel


def _tangents(
    operation: WatchedOperation, values: Sequence[Any], tangents: Sequence[Any], dtypes: Sequence[Any]
) -> list[Any]:
    """Return the results' tangents, None where a result (of dtype None) can have none.

    The derivative is called as an operator too: within autograd's kernel, where this runs, a transform
    takes no call that is not the dispatcher's.

    Raises
    ------
    AutogradError
        The functor has no derivative, or one written by hand.
    """
    if operation.rule is not None:
        raise AutogradError(
            f"{operation.name}(): a gradient written by hand has no forward mode; use reverse mode "
            "(torch.func.vjp, jacrev) in place of jvp and jacfwd"
        )
    active = tuple(k for k, tangent in enumerate(tangents) if tangent is not None)
    outputs = tuple(dtype is not None for dtype in dtypes)
    if not any(outputs):
        return [None] * len(outputs)
    with explained(operation):
        derivative = derived(operation, "jvp", active, outputs)
        count = operation.count
        given = [*values[:count], *(tangents[k] for k in active), *values[count:]]
        results = through_dispatcher(derivative, given)
    found = iter(results if isinstance(results, tuple | list) else (results,))
    return [None if dtype is None else next(found).to(dtype) for dtype in dtypes]
