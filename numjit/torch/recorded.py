"""Calls that torch differentiates: one node of its graph, whose derivatives are derived functors' calls.

The node saves the call's inputs; its backward is one call of the functor's derivative, which computes what
it needs anew from them. That call comes through the same door, so derivatives of derivatives, forward mode
and the transforms of ``torch.func`` need nothing of their own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from numjit.arrays.numbers import number_type
from numjit.arrays.torch_state import is_recorded_above, torch_if_ready, watches
from numjit.call.operation import Request
from numjit.errors import OutputError
from numjit.ground.checks import as_tuple, is_a
from numjit.launcher.attach import FastCalls
from numjit.torch.batches import in_batch, over_batch
from numjit.torch.dispatch import is_profiled, profiled, unseen
from numjit.torch.graph import (
    any_batched,
    fitted,
    is_batched,
    is_inexact,
    place,
    save_values,
    saved_values,
    stored,
    tangent,
)
from numjit.torch.rule import HandGradient
from numjit.torch.watched import EXPLAINED, Kind, WatchedOperation, check_unchanged, derived, explain

__all__ = [
    "call", "dispatched", "is_recorded", "needs_gradient", "operator_gradients", "run", "through_dispatcher",
    "use_operators",
]  # fmt: skip

_NUMBERS = frozenset((bool, int, float, complex))
Watched = Request[WatchedOperation]


class _Hook:
    """What a higher place does for this one: it makes calls that torch's dispatcher is to see."""

    call: Callable[[WatchedOperation, Sequence[Any], Sequence[Any]], Any]


def use_operators(make: Callable[[WatchedOperation, Sequence[Any], Sequence[Any]], Any]) -> None:
    """Say what makes a call through a functor's operator: of operation, values, and outputs to write."""
    _Hook.call = staticmethod(make)


def through_dispatcher(operation: WatchedOperation, bound: Sequence[Any], outs: Sequence[Any] = ()) -> Any:
    """Make a call through the functor's torch operator; the results are new ones, whatever `outs` are."""
    return _Hook.call(operation, bound, outs)


def needs_gradient(bound: Sequence[Any]) -> bool | None:
    """Whether torch records gradients of a call of which it may want nothing else; None for any other call.

    It may want more under a mode, a transform or forward mode, and where an argument is neither a number of
    Python's nor a tensor of a class of torch's own, or is a batch, which does not say what requires grad
    inside.
    """
    torch = torch_if_ready()
    if torch is None or watches(torch) or torch.autograd.forward_ad._current_level >= 0:
        return None
    tensor, parameter = torch.Tensor, torch.nn.Parameter
    batched = torch._C._functorch.is_legacy_batchedtensor
    needed = False
    for x in bound:
        kind = type(x)
        if kind is tensor or kind is parameter:
            if batched(x):
                return None
            needed = needed or x.requires_grad
        elif kind not in _NUMBERS:
            return None
    return needed and torch.is_grad_enabled()


def is_recorded(bound: Sequence[Any]) -> bool:
    """Whether torch watches a call: an argument requires grad or has a tangent, or there is a transform."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)  # missing while torch is being imported
    if torch is None or tensor is None:
        return False
    tensors = [x for x in bound if isinstance(x, tensor)]
    if torch._C._are_functorch_transforms_active():
        # New tensors belong to the transform too, and have no memory to write.
        return bool(tensors) or all(number_type(x) is not None for x in bound)
    if not tensors:
        return False
    with torch._C.DisableTorchFunctionSubclass():
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            return True
        return any(tangent(x) is not None or is_batched(x) for x in tensors)


def run(request: Watched, bound: Sequence[Any], out: Any, fast: FastCalls) -> Any:
    """Make a user's call of a refreshed operation: again, recorded, through the dispatcher, or by itself.

    Parameters
    ----------
    request, bound, out
        The call.
    fast
        What hands calls like it over to the launcher.

    Returns
    -------
    array or tuple of arrays
        One result, or a tuple of several.
    """
    operation = request.operation
    key = None
    if request.is_plain:
        key = operation.key(bound, out)
        if key is not None:
            result = operation.repeat(key, bound, out, fast)
            if result is not None:
                return result
        elif out is None:
            needed = needs_gradient(bound)
            if needed:
                by_hand = operation.rule is not None
                return _one_or_many((_record_by_hand if by_hand else _record_plain)(request, bound))
            if needed is None:
                seen = dispatched(operation, bound)
                if seen is not NotImplemented:
                    return seen
    if key is None and is_recorded(bound):
        if out is not None:
            raise OutputError(
                f"{operation.name}(): out= does not support automatic differentiation, but an operand "
                "requires grad; call under torch.no_grad() or detach the operands"
            )
        by_hand = operation.rule is not None
        return _one_or_many((_record_by_hand if by_hand else _record)(request, bound))
    if key is None and out is not None and request.is_plain:
        seen = dispatched(operation, bound, out)
        if seen is not NotImplemented:
            return stored(operation.name, seen, out)
    return _one_or_many(operation.compute(request, bound, out, key=key, fast=fast))


def _one_or_many(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else results


def _many(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def dispatched(operation: WatchedOperation, bound: Sequence[Any], out: Any = None) -> Any:
    """Make a call through the functor's torch operator, or answer NotImplemented where there is no need.

    The results are new ones: whoever has `out` for them has to copy them there.

    There is under modes (fake tensors, tracing, counters), under ``torch.jit.trace``, and for tensor classes
    with a ``__torch_dispatch__`` of their own. Transforms and forward mode see the node of `_nodes`.
    """
    torch = torch_if_ready()
    if torch is None:
        return NotImplemented
    tensors = [value for value in bound if is_a(value, torch.Tensor)]
    if not tensors or operation.is_nullary:
        return NotImplemented
    outs = [one for one in as_tuple(out) if one is not None]
    if not all(is_a(one, torch.Tensor) for one in outs):
        return NotImplemented
    core = torch._C
    watched = core._len_torch_dispatch_stack() or core._is_tracing() or is_recorded_above()()
    if watched or any(_is_wrapper(torch, type(tensor)) for tensor in (*tensors, *outs)):
        return through_dispatcher(operation, bound, outs)
    return NotImplemented


def _is_wrapper(torch: Any, cls: type) -> bool:
    own = getattr(cls, "__torch_dispatch__", None)
    return cls is not torch.Tensor and own is not torch.Tensor.__torch_dispatch__


def _record(request: Watched, bound: Sequence[Any]) -> tuple[Any, ...]:
    """Make a call that torch watches."""
    if any_batched(bound):
        return in_batch(call, request, bound)  # a node of the batches would be lost with them
    node = _nodes()[sys.modules["torch"]._C._are_functorch_transforms_active()]
    return _many(node.apply(request, *bound))


def _record_by_hand(request: Watched, bound: Sequence[Any]) -> tuple[Any, ...]:
    """Make a call whose gradient is written by hand."""
    operation = request.operation
    assert operation.rule is not None

    def forward(*operands: Any, **scalars: Any) -> tuple[Any, ...]:
        return call(request, [*operands, *scalars.values()])

    count = operation.count
    scalars = dict(zip(operation.names[count:], bound[count:], strict=True))
    return operation.rule.record(forward, bound[:count], scalars)


def _record_plain(request: Watched, bound: Sequence[Any]) -> tuple[Any, ...]:
    """Make a call of which `needs_gradient` said that torch records it, and wants nothing else."""
    return _many(_nodes()[0].apply(request, *bound))


def call(request: Watched, bound: Sequence[Any]) -> tuple[Any, ...]:
    """Make a call that is part of another, recorded where torch watches it; its gradient is derived."""
    request.operation.refresh()
    return _call(request, bound)


def _call(request: Watched, bound: Sequence[Any]) -> tuple[Any, ...]:
    """Make such a call of an operation that is refreshed."""
    operation = request.operation
    if request.is_plain:
        needed = needs_gradient(bound)
        if needed:
            return _record_plain(request, bound)
        if needed is not None:
            return _many(operation(*bound))
        seen = dispatched(operation, bound)
        if seen is not NotImplemented:
            return _many(seen)
    if is_recorded(bound):
        return _record(request, bound)
    return _many(_compute(request, bound))


def _compute(request: Watched, bound: Sequence[Any]) -> Any:
    """Make a call that records nothing; results are torch's."""
    if request.is_plain:
        return request.operation(*bound)
    return request.operation.compute(request, bound, library="torch")


def operator_gradients(
    operation: WatchedOperation, values: Sequence[Any], grads: Sequence[Any], wanted: Sequence[int]
) -> list[Any]:
    """Return gradients for a registered operator of the functor, which is refreshed.

    Parameters
    ----------
    operation
        The functor's operation.
    values
        Operands, then scalars, of the call.
    grads
        Gradient of each output, None where there is none.
    wanted
        Positions of the arguments that need a gradient, ascending.

    Raises
    ------
    AutogradError
        The functor has no derivative, or a gradient written by hand has none for a scalar.
    """
    request = operation.plain_request
    if operation.rule is not None:
        return _gradients_by_hand(operation, operation.rule, values, grads, wanted)
    outputs = tuple(grad is not None for grad in grads)
    given = [grad for grad in grads if grad is not None]
    if not given:
        return [None] * len(wanted)
    with unseen():
        found = _differentiate("vjp", request, values, tuple(wanted), outputs, given)
        return [
            fitted(gradient, values[k].shape, values[k].dtype, values[k].device)
            for k, gradient in zip(wanted, found, strict=True)
        ]


def _gradients_by_hand(
    operation: WatchedOperation,
    rule: HandGradient,
    values: Sequence[Any],
    grads: Sequence[Any],
    wanted: Sequence[int],
) -> list[Any]:
    """Return the gradients in `wanted` by the rule written by hand; see `operator_gradients`."""
    import torch

    count, names = operation.count, operation.names
    for k in wanted:
        if k >= count:
            rule.refuse_scalar(names[k])
    results: Sequence[Any] = ()
    if rule.calls_again(grads):
        # As any call: recorded where this gradient is differentiated.
        results = _many(run(operation.plain_request, list(values), None, operation.fast))
    given = [torch.zeros_like(results[k]) if grad is None else grad for k, grad in enumerate(grads)]
    places = [place(x) for x in values[:count]]
    scalars = dict(zip(names[count:], values[count:], strict=True))
    found = rule.gradients(given, rule.kept(values[:count], results), places, scalars)
    return [found[k] for k in wanted]


def _differentiate(
    kind: Kind,
    request: Watched,
    bound: Sequence[Any],
    active: tuple[int, ...],
    outputs: tuple[bool, ...],
    extras: Sequence[Any],
) -> tuple[Any, ...]:
    """Run a derivative of a refreshed operation at a call's arguments; `extras`: gradients or tangents."""
    operation = request.operation
    try:
        derivative = derived(operation, kind, active, outputs)
        derivative.refresh_with(operation)
        count = len(operation.functor.signature.operands)
        asked = derivative.plain_request
        if request.zero_dim:
            zero_dim = {k if k < count else k + len(extras) for k in request.zero_dim}
            if kind == "jvp":
                zero_dim |= {count + n for n, k in enumerate(active) if k in request.zero_dim}
            asked = Request(derivative, zero_dim=frozenset(zero_dim))
        given = [*bound[:count], *extras, *bound[count:]]
        if is_profiled():
            with profiled(derivative.name, given, {}):
                return _call(asked, given)
        return _call(asked, given)
    except EXPLAINED as error:
        explain(operation, error)


@functools.cache
def _nodes() -> tuple[Any, Any]:
    """Return the autograd function without and with transforms, made when torch is first needed."""
    import torch

    forward_ad = torch.autograd.forward_ad

    class NumjitFunction(torch.autograd.Function):  # type: ignore[misc]
        """Calls the operation, and its derivatives."""

        @staticmethod
        def forward(ctx: Any, request: Watched, *bound: Any) -> Any:
            output = _compute(request, bound)
            many = output if isinstance(output, tuple) else (output,)
            NumjitFunction.save(ctx, request, bound, many)
            if forward_ad._current_level >= 0:
                NumjitFunction.save_forward(ctx, bound, many)
            return output

        @staticmethod
        def save(ctx: Any, request: Watched, bound: Sequence[Any], output: tuple[Any, ...]) -> None:
            """Keep what `backward` needs."""
            ctx.set_materialize_grads(False)
            inexact = [is_inexact(r) for r in output]
            if not all(inexact):
                ctx.mark_non_differentiable(*(r for r, has in zip(output, inexact, strict=True) if not has))
            save_values(ctx, bound)
            ctx.request = request
            ctx.inexact = inexact
            ctx.fingerprint = request.operation.fingerprint

        @staticmethod
        def save_forward(ctx: Any, bound: Sequence[Any], output: tuple[Any, ...]) -> None:
            """Keep what `jvp` needs as well."""
            ctx.save_for_forward(*(x for x in bound if isinstance(x, torch.Tensor)))
            ctx.shape = output[0].shape
            ctx.dtypes = [r.dtype for r in output]

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            request, bound = _saved(ctx)
            found: list[Any] = [None] * (1 + len(bound))
            active = tuple([k for k, needed in enumerate(ctx.needs_input_grad, -1) if needed])
            outputs = tuple([has and grad is not None for has, grad in zip(ctx.inexact, grads, strict=True)])
            given = [grad for grad, has in zip(grads, outputs, strict=True) if has]
            if given and active:
                with unseen():
                    gradients = _differentiate("vjp", request, bound, active, outputs, given)
                    for k, gradient in zip(active, gradients, strict=True):
                        x = bound[k]
                        found[1 + k] = fitted(gradient, x.shape, x.dtype, x.device)
            return tuple(found)

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
            request, bound = _saved(ctx)
            active = tuple(k for k, tangent in enumerate(tangents) if tangent is not None)
            outputs = tuple(ctx.inexact)
            if not active or not any(outputs):
                return (None,) * len(outputs)
            given = [tangents[k] for k in active]
            if request.operation.is_nullary:  # the tangents are all that the derivative takes a shape from
                given[0] = given[0].expand(ctx.shape)
            found = iter(_differentiate("jvp", request, bound, active, outputs, given))
            return tuple(
                next(found).to(dtype) if has else None for has, dtype in zip(outputs, ctx.dtypes, strict=True)
            )

    class Transformed(torch.autograd.Function):  # type: ignore[misc]
        """The same under a transform of ``torch.func``, which asks for another form of it.

        For every call of this form torch 2.13 looks at the signature of `forward`, 40 us.
        """

        @staticmethod
        def forward(request: Watched, *bound: Any) -> Any:
            output = _compute(request, bound)
            return output if isinstance(output, tuple) else (output,)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
            NumjitFunction.save(ctx, inputs[0], inputs[1:], output)
            NumjitFunction.save_forward(ctx, inputs[1:], output)

        backward = staticmethod(NumjitFunction.backward)
        jvp = staticmethod(NumjitFunction.jvp)

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], request: Watched, *bound: Any) -> Any:
            results = over_batch(call, info.batch_size, in_dims[1:], request, bound)
            return results, (0,) * len(results)

    Transformed.__name__ = NumjitFunction.__name__
    return NumjitFunction, Transformed


def _saved(ctx: Any) -> tuple[Watched, list[Any]]:
    """Return a recorded call.

    Raises
    ------
    AutogradError
        The functor means something else now.
    """
    request: Watched = ctx.request
    operation = request.operation
    bound = saved_values(ctx)
    check_unchanged(operation, ctx.fingerprint)
    return request, bound
