"""Calls that torch differentiates: one node of its graph, whose derivatives are derived functors' calls.

The node saves the call's inputs; its backward is one call of the functor's derivative, which computes what
it needs anew from them. That call comes through the same door, so derivatives of derivatives, forward mode
and the transforms of ``torch.func`` need nothing of their own.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from numjit.arrays.numbers import number_type
from numjit.errors import AutogradError, CompilationError, FunctorError, OutputError
from numjit.torch.dispatch import dispatched, is_profiled, is_recorded_above, profiled, unseen

if TYPE_CHECKING:
    from numjit.elementwise import Elementwise

__all__ = [
    "Request",
    "any_batched",
    "call",
    "check_unchanged",
    "derived",
    "explained",
    "fitted",
    "is_batched",
    "is_inexact",
    "is_recorded",
    "needs_gradient",
    "operator_gradients",
    "record",
    "record_plain",
    "save_values",
    "saved_values",
    "tangent",
]

Kind = Literal["vjp", "jvp"]
_NUMBERS = frozenset((bool, int, float, complex))
_EXPLAINED = (AutogradError, CompilationError, FunctorError)
REMEDY = "give it a gradient by hand with @f.backward or numjit.differentiable(forward, backward)"


class Request:
    """A call apart from its arguments.

    Parameters
    ----------
    operation
        What is called.
    shape, like, dtype, device
        As given to the call.
    zero_dim
        Positions of arguments that count as arrays without dimensions, though a batch gave them some.
    """

    def __init__(
        self,
        operation: Elementwise,
        shape: Any = None,
        like: Any = None,
        dtype: Any = None,
        device: Any = None,
        zero_dim: frozenset[int] = frozenset(),
    ) -> None:
        self.operation = operation
        self.shape, self.like, self.dtype, self.device = shape, like, dtype, device
        self.zero_dim = zero_dim

    def with_zero_dim(self, positions: frozenset[int]) -> Request:
        """Return the same of other arguments that count as arrays without dimensions."""
        return Request(self.operation, self.shape, self.like, self.dtype, self.device, positions)

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether only the arguments say what is computed."""
        stated = (self.shape, self.like, self.dtype, self.device)
        return not self.zero_dim and all(value is None for value in stated)


def needs_gradient(bound: Sequence[Any]) -> bool | None:
    """Whether torch records gradients of a call of which it may want nothing else; None for any other call.

    It may want more under a mode, a transform or forward mode, and where an argument is neither a number of
    Python's nor a tensor of a class of torch's own, or is a batch, which does not say what requires grad
    inside.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "func"):  # the latter while it is being imported
        return None
    core = torch._C
    if (
        core._len_torch_dispatch_stack()
        or core._is_tracing()
        or core._are_functorch_transforms_active()
        or is_recorded_above()()
        or torch.autograd.forward_ad._current_level >= 0
    ):
        return None
    tensor, parameter, batched = torch.Tensor, torch.nn.Parameter, core._functorch.is_legacy_batchedtensor
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
    if any_batched(bound):
        from numjit.torch.batches import in_batch

        return in_batch(request, bound)  # a node of the batches would be lost with them
    node = _nodes()[sys.modules["torch"]._C._are_functorch_transforms_active()]
    results = node.apply(request, *bound)
    return results if isinstance(results, tuple) else (results,)


def record_plain(request: Request, bound: Sequence[Any]) -> tuple[Any, ...]:
    """Run a call of which `needs_gradient` said that torch records it, and wants nothing else."""
    results = _nodes()[0].apply(request, *bound)
    return results if isinstance(results, tuple) else (results,)


def call(request: Request, bound: Sequence[Any]) -> tuple[Any, ...]:
    """Run a call, recorded where torch watches it."""
    request.operation.refresh()
    return _call(request, bound)


def _call(request: Request, bound: Sequence[Any]) -> tuple[Any, ...]:
    """Run a call of an operation that is refreshed."""
    operation = request.operation
    if request.is_plain:
        needed = needs_gradient(bound)
        if needed:
            return record_plain(request, bound)
        if needed is not None:
            results = operation.detached(*bound)
            return results if isinstance(results, tuple) else (results,)
        seen = dispatched(operation, bound)
        if seen is not NotImplemented:
            return seen if isinstance(seen, tuple) else (seen,)
    if is_recorded(bound):
        return record(request, bound)
    return operation.compute(request, bound)


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
    key = (kind, active, outputs)
    found = operation.derivatives.get(key)
    if found is None:
        from numjit.elementwise import Elementwise
        from numjit.functor.cpp.functor import CppFunctor

        functor = operation.functor
        made: Any
        if isinstance(functor, CppFunctor):
            from numjit.functor.cpp.derived import derive_cpp

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
    count = len(operation.functor.signature.operands)
    if operation.rule is not None:
        return operation.rule.of_operator(operation, values, grads, wanted, count)
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


def _differentiate(
    kind: Kind,
    request: Request,
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
            with profiled(derivative.__name__, given, {}):
                return _call(asked, given)
        return _call(asked, given)
    except _EXPLAINED as error:
        _explain(operation, error)


@contextlib.contextmanager
def explained(operation: Elementwise) -> Iterator[None]:
    """Let errors of a derivative name the functor and what to do."""
    try:
        yield
    except _EXPLAINED as error:
        _explain(operation, error)


def _explain(operation: Elementwise, error: Exception) -> NoReturn:
    """Raise the error of a derivative again such that it names the functor and what to do."""
    text = str(error)
    if isinstance(error, AutogradError) and operation.__name__ in text and "differentiable" in text:
        raise error
    raise AutogradError(f"{operation.__name__}() has no derivative: {text}\n{REMEDY}") from error


@functools.cache
def _nodes() -> tuple[Any, Any]:
    """Return the autograd function without and with transforms, made when torch is first needed."""
    import torch

    from numjit.torch.batches import over_batch

    forward_ad = torch.autograd.forward_ad

    def compute(request: Request, bound: Sequence[Any]) -> Any:
        if request.is_plain:
            return request.operation.detached(*bound)
        return request.operation.compute(request, bound)

    class NumjitFunction(torch.autograd.Function):  # type: ignore[misc]
        """Calls the operation, and its derivatives."""

        @staticmethod
        def forward(ctx: Any, request: Request, *bound: Any) -> Any:
            output = compute(request, bound)
            many = output if isinstance(output, tuple) else (output,)
            NumjitFunction.save(ctx, request, bound, many)
            if forward_ad._current_level >= 0:
                NumjitFunction.save_forward(ctx, bound, many)
            return output

        @staticmethod
        def save(ctx: Any, request: Request, bound: Sequence[Any], output: tuple[Any, ...]) -> None:
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
        def forward(request: Request, *bound: Any) -> Any:
            output = compute(request, bound)
            return output if isinstance(output, tuple) else (output,)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
            NumjitFunction.save(ctx, inputs[0], inputs[1:], output)
            NumjitFunction.save_forward(ctx, inputs[1:], output)

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
    tensors = _unwrap()(ctx.saved_tensors)  # wrappers outlive their transform: a vjp is called outside of it
    if ctx.others is None:
        return list(tensors)
    rest = iter(tensors)
    return [next(rest) if other is None else other[0] for other in ctx.others]


@functools.cache
def _unwrap() -> Any:
    from torch._functorch.utils import unwrap_dead_wrappers

    return unwrap_dead_wrappers


def _saved(ctx: Any) -> tuple[Request, list[Any]]:
    """Return a recorded call.

    Raises
    ------
    AutogradError
        The functor means something else now.
    """
    request: Request = ctx.request
    operation = request.operation
    bound = saved_values(ctx)
    check_unchanged(operation, ctx.fingerprint)
    return request, bound


def check_unchanged(operation: Elementwise, fingerprint: str) -> None:
    """Refresh an operation whose call, of a fingerprint, is to be differentiated.

    Raises
    ------
    AutogradError
        The functor means something else now.
    """
    operation.refresh()
    if operation.fingerprint != fingerprint:
        raise AutogradError(
            f"{operation.__name__}(): a variable that the functor captures was rebound between the call and "
            "its derivative; pass it as a scalar, or differentiate before rebinding it"
        )


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
