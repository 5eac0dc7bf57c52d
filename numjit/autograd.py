"""Calls that torch differentiates: one node of its graph, whose derivatives are derived functors' calls.

The node saves the call's inputs; its backward is one call of the functor's derivative, which computes what
it needs anew from them. That call comes through the same door, so derivatives of derivatives, forward mode
and the transforms of ``torch.func`` need nothing of their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from numjit.arrays.numbers import number_type
from numjit.errors import AutogradError, CompilationError, FunctorError, OutputError

if TYPE_CHECKING:
    from numjit.elementwise import Elementwise

__all__ = [
    "Request",
    "call",
    "derived",
    "explained",
    "fitted",
    "is_batched",
    "is_inexact",
    "is_recorded",
    "operator_gradients",
    "record",
]

Kind = Literal["vjp", "jvp"]
REMEDY = "give it a gradient by hand with @f.backward or numjit.differentiable(forward, backward)"


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """A call apart from its arguments.

    Attributes
    ----------
    operation
        What is called.
    shape, like, dtype, device
        As given to the call.
    zero_dim
        Positions of arguments that count as arrays without dimensions, though a batch gave them some.
    """

    operation: Elementwise
    shape: Any = None
    like: Any = None
    dtype: Any = None
    device: Any = None
    zero_dim: frozenset[int] = frozenset()

    @property
    def is_plain(self) -> bool:
        """Whether only the arguments say what is computed."""
        stated = (self.shape, self.like, self.dtype, self.device)
        return not self.zero_dim and all(value is None for value in stated)


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
        return any(_tangent(x) is not None or is_batched(x) for x in tensors)


def is_batched(tensor: Any) -> bool:
    """Whether a tensor is one of ``torch.autograd``'s own batches (``is_grads_batched=True``, ...)."""
    torch = sys.modules["torch"]
    return bool(torch._C._functorch.is_legacy_batchedtensor(tensor))


def _tangent(tensor: Any) -> Any:
    """Return a tensor's tangent at the current level of forward mode, None where it has none."""
    torch = sys.modules["torch"]
    forward = torch.autograd.forward_ad
    if forward._current_level < 0 or not torch._C._is_fwd_grad_enabled():
        return None
    return forward.unpack_dual(tensor).tangent


def record(request: Request, bound: Sequence[Any], out: Any = None) -> tuple[Any, ...]:
    """Run a call that torch watches.

    Raises
    ------
    OutputError
        ``out=`` was given, which torch's operators refuse here too.
    """
    operation = request.operation
    if out is not None:
        raise OutputError(
            f"{operation.__name__}(): out= does not support automatic differentiation, but an operand "
            "requires grad; call under torch.no_grad() or detach the operands"
        )
    node = _nodes()[sys.modules["torch"]._C._are_functorch_transforms_active()]
    results: tuple[Any, ...] = node.apply(request, *bound)
    return results


def call(request: Request, bound: Sequence[Any]) -> tuple[Any, ...]:
    """Run a call, recorded where torch watches it."""
    request.operation.refresh()
    if request.is_plain:
        from numjit.torch_dispatch import dispatched

        seen = dispatched(request.operation, bound)
        if seen is not NotImplemented:
            return seen if isinstance(seen, tuple) else (seen,)
    if is_recorded(bound):
        return record(request, bound)
    return request.operation.compute(request, bound, library="torch")


def derived(
    operation: Elementwise, kind: Kind, active: tuple[int, ...], outputs: tuple[bool, ...]
) -> Elementwise:
    """Return the operation of a functor's derivative, made when first asked for.

    Parameters
    ----------
    operation
        What to differentiate.
    kind
        ``"vjp"`` or ``"jvp"``; see `numjit.functor.derived_python.derive_python`.
    active
        Positions of the differentiated parameters, operands first, ascending.
    outputs
        Which results have a derivative.

    Raises
    ------
    AutogradError
        The functor has no such derivative.
    """
    from numjit.elementwise import Elementwise
    from numjit.functor.cuda_cpp import CppFunctor

    key = (kind, active, outputs)
    found = operation.derivatives.get(key)
    if found is None:
        functor = operation.functor
        made: Any
        if isinstance(functor, CppFunctor):
            from numjit.functor.derived_cpp import derive_cpp

            made = derive_cpp(functor, kind, active, outputs)
        else:
            from numjit.functor.derived_python import derive_python

            made = derive_python(functor, kind, active, outputs)
        count = len(functor.signature.operands)
        extras = len(made.signature.operands) - count
        gradients = tuple(k if k < count else k + extras for k in active) if kind == "vjp" else ()
        found = Elementwise(made, operation.options, gradients=gradients)
        operation.derivatives[key] = found
    return found


def operator_gradients(
    operation: Elementwise, values: Sequence[Any], grads: Sequence[Any], wanted: Sequence[int]
) -> list[Any]:
    """Return gradients for a registered operator of the functor.

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
    request = Request(operation)
    count = len(operation.functor.signature.operands)
    if operation.rule is not None:
        return operation.rule.of_operator(operation, values, grads, wanted, count)
    outputs = tuple(grad is not None for grad in grads)
    given = [grad for grad in grads if grad is not None]
    if not given:
        return [None] * len(wanted)
    found = _differentiate("vjp", request, values, tuple(wanted), outputs, given)
    return [
        fitted(gradient, values[k].shape, values[k].dtype, values[k].device)
        for k, gradient in zip(wanted, found, strict=True)
    ]


def _differentiate(
    kind: Kind,
    request: Request,
    bound: Sequence[Any],
    active: tuple[int, ...],
    outputs: tuple[bool, ...],
    extras: Sequence[Any],
) -> tuple[Any, ...]:
    """Run a derivative at a call's arguments; `extras` are the gradients or tangents."""
    operation = request.operation
    with explained(operation):
        derivative = derived(operation, kind, active, outputs)
        count = len(operation.functor.signature.operands)
        zero_dim = {k if k < count else k + len(extras) for k in request.zero_dim}
        if kind == "jvp":
            zero_dim |= {count + n for n, k in enumerate(active) if k in request.zero_dim}
        arguments = [*bound[:count], *extras, *bound[count:]]
        return call(Request(derivative, zero_dim=frozenset(zero_dim)), arguments)


@contextlib.contextmanager
def explained(operation: Elementwise) -> Iterator[None]:
    """Let errors of a derivative name the functor and what to do."""
    try:
        yield
    except (AutogradError, CompilationError, FunctorError) as error:
        text = str(error)
        if isinstance(error, AutogradError) and operation.__name__ in text and "differentiable" in text:
            raise
        raise AutogradError(f"{operation.__name__}() has no derivative: {text}\n{REMEDY}") from error


@functools.cache
def _nodes() -> tuple[Any, Any]:
    """Return the autograd function without and with transforms, made when torch is first needed."""
    import torch

    from numjit.batches import in_batch, over_batch

    def compute(request: Request, bound: Sequence[Any]) -> tuple[Any, ...]:
        if any(isinstance(x, torch.Tensor) and is_batched(x) for x in bound):
            return in_batch(request, bound)
        return request.operation.compute(request, bound, library="torch")

    class NumjitFunction(torch.autograd.Function):  # type: ignore[misc]
        """Calls the operation, and its derivatives."""

        @staticmethod
        def forward(ctx: Any, request: Request, *bound: Any) -> Any:
            output = compute(request, bound)
            NumjitFunction.save(ctx, request, bound, output)
            return output

        @staticmethod
        def save(ctx: Any, request: Request, bound: Sequence[Any], output: tuple[Any, ...]) -> None:
            ctx.set_materialize_grads(False)
            ctx.mark_non_differentiable(*(r for r in output if not is_inexact(r)))
            tensors = [x for x in bound if isinstance(x, torch.Tensor)]
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.request = request
            ctx.places = [(True, None) if isinstance(x, torch.Tensor) else (False, x) for x in bound]
            ctx.inexact = [is_inexact(r) for r in output]
            ctx.shape = output[0].shape
            ctx.dtypes = [r.dtype for r in output]
            ctx.fingerprint = request.operation.fingerprint

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            request, bound = _saved(ctx)
            outputs = tuple(
                inexact and grad is not None for inexact, grad in zip(ctx.inexact, grads, strict=True)
            )
            active = tuple(k for k, needed in enumerate(ctx.needs_input_grad[1:]) if needed)
            found: list[Any] = [None] * (1 + len(bound))
            if not any(outputs) or not active:
                return tuple(found)
            given = [grad for grad, has in zip(grads, outputs, strict=True) if has]
            gradients = _differentiate("vjp", request, bound, active, outputs, given)
            for k, gradient in zip(active, gradients, strict=True):
                found[1 + k] = fitted(gradient, bound[k].shape, bound[k].dtype, bound[k].device)
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
        def forward(request: Request, *bound: Any) -> Any:
            return compute(request, bound)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
            NumjitFunction.save(ctx, inputs[0], inputs[1:], output)

        backward = staticmethod(NumjitFunction.backward)
        jvp = staticmethod(NumjitFunction.jvp)

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], request: Request, *bound: Any) -> Any:
            results = over_batch(info.batch_size, in_dims[1:], request, bound)
            return results, (0,) * len(results)

    Transformed.__name__ = NumjitFunction.__name__
    return NumjitFunction, Transformed


def is_inexact(tensor: Any) -> bool:
    """Whether a tensor's dtype has derivatives: it is a real or complex float."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _saved(ctx: Any) -> tuple[Request, list[Any]]:
    """Return a recorded call.

    Raises
    ------
    AutogradError
        The functor means something else now.
    """
    from torch._functorch.utils import unwrap_dead_wrappers

    request: Request = ctx.request
    operation = request.operation
    tensors = iter(unwrap_dead_wrappers(ctx.saved_tensors))  # of a transform that has ended
    bound = [next(tensors) if is_tensor else x for is_tensor, x in ctx.places]
    operation.refresh()
    if operation.fingerprint != ctx.fingerprint:
        raise AutogradError(
            f"{operation.__name__}(): a variable that the functor captures was rebound between the call and "
            "its derivative; pass it as a scalar, or differentiate before rebinding it"
        )
    return request, bound


def fitted(gradient: Any, shape: Any, dtype: Any, device: Any) -> Any:
    """Return a gradient as its input is: summed where that was broadcast, cast and moved where needed."""
    if gradient.shape != shape:
        gradient = gradient.sum_to_size(shape)
    if gradient.dtype != dtype:
        if gradient.is_complex() and not dtype.is_complex:
            gradient = gradient.real
        gradient = gradient.to(dtype)
    return gradient if gradient.device == device else gradient.to(device)
