"""Gradients written by hand: how they are computed, and the nodes of torch's graph that compute them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from numjit.call.operation import Operation, operation_of
from numjit.errors import ArgumentError, AutogradError
from numjit.torch.batches import one_by_one
from numjit.torch.dispatch import unseen
from numjit.torch.graph import any_batched, fitted, is_inexact, place, rejoined, save_values, saved_values

__all__ = ["HandGradient", "nodes", "rule_of"]

_SAVED = ("inputs", "outputs", "both")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class HandGradient:
    """How the gradient of an operation is computed.

    Parameters
    ----------
    name
        The operation's, for messages.
    backward
        Called as ``backward(*grad_outputs, *saved, **scalars)``.
    save_for_backward
        ``"inputs"``, ``"outputs"`` or ``"both"``.
    num_grad_inputs
        Of how many of the first inputs it gives gradients; None for all.
    residuals
        How many of the forward operation's last results are saved and not returned.

    Raises
    ------
    ArgumentError
        One of these has a value that it cannot have.
    """

    def __init__(
        self,
        name: str,
        backward: Callable[..., Any],
        save_for_backward: str = "inputs",
        num_grad_inputs: int | None = None,
        residuals: int = 0,
    ) -> None:
        self.name, self.backward = name, backward
        self.save_for_backward = save_for_backward
        self.num_grad_inputs, self.residuals = num_grad_inputs, residuals
        if self.save_for_backward not in _SAVED:
            raise ArgumentError(
                f"save_for_backward={self.save_for_backward!r}; say one of {', '.join(map(repr, _SAVED))}"
            )
        if not callable(backward):
            raise ArgumentError(
                f"{name}(): its backward is a {type(backward).__name__}; pass an operation made by "
                "numjit.elementwise, or a function of tensors"
            )
        if num_grad_inputs is not None and not (_is_count(num_grad_inputs) and num_grad_inputs >= 1):
            raise ArgumentError(
                f"num_grad_inputs={num_grad_inputs!r}; it is an int of at least 1, or None for all"
            )
        if not _is_count(residuals):
            raise ArgumentError(f"residuals={residuals!r}; it is an int of 0 or more")

    def record(
        self, forward: Callable[..., Any], operands: Sequence[Any], scalars: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Run the forward operation as one node of torch's graph; returns its results and residuals."""
        return self._record(forward, tuple(scalars), (*operands, *scalars.values()))

    def _record(
        self, forward: Callable[..., Any], names: tuple[str, ...], values: Sequence[Any]
    ) -> tuple[Any, ...]:
        torch = sys.modules["torch"]
        if torch.is_grad_enabled() and any_batched(values):
            # A node of the batches would be lost with them.
            return one_by_one(self.name, functools.partial(self._record, forward, names), values)
        transforms, _, plain = nodes()
        node = transforms if torch._C._are_functorch_transforms_active() else plain
        results: tuple[Any, ...] = node.apply(self, forward, names, *values)
        return results

    def refuse_scalar(self, name: str) -> NoReturn:
        """Refuse a gradient of a scalar."""
        raise AutogradError(
            f"{self.name}(): scalar {name!r} requires grad, but a backward written by hand gives "
            f"gradients of operands; make {name!r} an operand, or pass {name}.detach()"
        )

    def calls_again(self, grads: Sequence[Any]) -> bool:
        """Whether the gradient takes the forward call's results, which a registered operator has not kept."""
        return self.save_for_backward != "inputs" or any(grad is None for grad in grads)

    def checked(self, results: Any) -> tuple[Any, ...]:
        """Return what the forward operation gave as a tuple.

        Raises
        ------
        AutogradError
            All of it are residuals.
        """
        many = results if isinstance(results, tuple) else (results,)
        if len(many) <= self.residuals:
            raise AutogradError(
                f"{self.name}() gives {len(many)} results, but residuals={self.residuals}; "
                "leave some to return"
            )
        return many

    def kept(self, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """Return what the backward operation is given behind the gradients, in its order."""
        shown = len(results) - self.residuals
        inputs = operands if self.save_for_backward != "outputs" else ()
        outputs = results[:shown] if self.save_for_backward != "inputs" else ()
        return [*inputs, *outputs, *results[shown:]]

    def gradients(
        self, grads: Sequence[Any], saved: Sequence[Any], places: Sequence[Any], scalars: dict[str, Any]
    ) -> list[Any]:
        """Run the backward operation and fit its results to the inputs' shapes and dtypes.

        Parameters
        ----------
        grads
            Gradient of each output.
        saved
            What was kept, in the order in which the backward operation takes it.
        places
            ``(shape, dtype, device)`` of each input that may get a gradient; None for one that cannot.
        scalars
            The call's scalars.

        Raises
        ------
        AutogradError
            The backward operation gives another number of gradients.
        """
        try:
            found = self.backward(*grads, *saved, **scalars)
        except TypeError as error:
            self._check_taken((*grads, *saved), scalars, error)
            raise
        many = list(found) if isinstance(found, tuple | list) else [found]
        count = self.num_grad_inputs if self.num_grad_inputs is not None else len(places)
        if len(many) != count:
            raise AutogradError(
                f"{self.name}(): its backward gave {len(many)} gradients for {count} inputs; "
                "return one for each, None where there is none, or say num_grad_inputs="
            )
        if all(gradient is None for gradient in many):
            raise AutogradError(
                f"{self.name}(): its backward gave None for every input; return the gradient of one at "
                "least, or call the operation on detached operands where there is none"
            )
        with unseen():
            answers = [
                None if gradient is None or place is None else self._fit(k, gradient, place)
                for k, (gradient, place) in enumerate(zip(many, places, strict=False))
            ]
        return answers + [None] * (len(places) - len(answers))

    def _check_taken(self, given: Sequence[Any], scalars: dict[str, Any], error: TypeError) -> None:
        """Raise AutogradError where a backward cannot be called as it was."""
        try:
            inspect.signature(self.backward).bind(*given, **scalars)
        except ValueError:  # it has no signature
            return
        except TypeError:
            raise AutogradError(
                f"{self.name}(): its backward does not take what it is given, {len(given)} tensors "
                f"(gradients of the results, then what save_for_backward={self.save_for_backward!r} says)"
                f"{''.join(f', {name}=' for name in scalars)}: {error}; make it take these"
            ) from error

    def _fit(self, k: int, gradient: Any, place: Any) -> Any:
        """Return the gradient of input `k` in that input's shape and dtype."""
        torch = sys.modules["torch"]
        if not isinstance(gradient, torch.Tensor):
            raise AutogradError(
                f"{self.name}(): its backward gave a {type(gradient).__name__} as the gradient of input {k}; "
                "return a tensor, or None"
            )
        try:
            return fitted(gradient, *place)
        except RuntimeError as error:
            raise AutogradError(
                f"{self.name}(): its backward gave a gradient of shape {tuple(gradient.shape)} for input "
                f"{k}, of shape {tuple(place[0])} ({error}); return one to which the input broadcasts"
            ) from error


def rule_of(
    operation: Operation,
    function: Any,
    tensors: bool,
    save_for_backward: str,
    num_grad_inputs: int | None,
) -> HandGradient:
    """Return the rule that a function is for an operation; see `WatchedOperation.backward`.

    Raises
    ------
    ArgumentError
        The function does not take what it would be given.
    """
    name = operation.name
    rule = HandGradient(name, function, save_for_backward, num_grad_inputs)
    own_operation = operation_of(function)
    if own_operation is None:
        if not tensors or not callable(function):
            raise ArgumentError(
                f"{name}.backward takes a function or C++ text of one element, or an operation, not a "
                f"{type(function).__name__}; say tensors=True for code of whole tensors"
            )
        return rule
    signature, own = operation.functor.signature, own_operation.functor.signature
    names = [p.name for p in signature.operands]
    grads = [f"the gradient of result {k}" for k in range(len(signature.outputs))]
    wanted = len(grads) + len(rule.kept(names, grads))
    if len(own.operands) != wanted:
        saved = "inputs and outputs" if save_for_backward == "both" else save_for_backward
        raise ArgumentError(
            f"{name}.backward is given {wanted} operands (gradients of the results, then the {saved}), but "
            f"{own_operation.name} takes {len(own.operands)}; make them agree"
        )
    known = {p.name for p in own.scalars}
    for scalar in signature.scalars:
        if scalar.name not in known:
            raise ArgumentError(
                f"{name}.backward is given the scalar {scalar.name!r}, which {own_operation.name} lacks; "
                "add it"
            )
    return rule


def _run(rule: HandGradient, forward: Any, names: tuple[str, ...], values: Sequence[Any]) -> tuple[Any, ...]:
    """Run the forward operation of a recorded call."""
    import torch

    count = len(values) - len(names)
    results = rule.checked(forward(*values[:count], **dict(zip(names, values[count:], strict=True))))
    for result in results:
        if not isinstance(result, torch.Tensor):
            raise AutogradError(
                f"{rule.name}(): the forward operation gave a {type(result).__name__}; return tensors"
            )
    return results


def _differentiate(ctx: Any, saved: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
    """Return the gradients of a recorded call, of what it saved."""
    import torch

    rule, names = ctx.rule, ctx.names
    nothing = (None,) * (3 + len(ctx.places) + len(names))
    for name, needed in zip(names, ctx.needs_input_grad[3 + len(ctx.places) :], strict=True):
        if needed:
            rule.refuse_scalar(name)
    shown = len(grads) - rule.residuals
    if any(grad is not None for grad in grads[shown:]):
        raise AutogradError(
            f"{rule.name}(): the gradient depends on residuals, through which there is no second "
            "derivative; save inputs or outputs in their place"
        )
    if all(grad is None for grad in grads):
        return nothing
    kept, values = saved[: len(saved) - len(names)], saved[len(saved) - len(names) :]
    given = [
        torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad
        for grad, (shape, dtype, device) in zip(grads[:shown], ctx.results[:shown], strict=True)
    ]
    scalars = dict(zip(names, values, strict=True))
    return (
        None,
        None,
        None,
        *rule.gradients(given, kept, ctx.places, scalars),
        *nothing[: len(names)],
    )


@functools.cache
def nodes() -> tuple[Any, Any, Any]:
    """Return the autograd function's forms, made when torch is first needed.

    They are for transforms of ``torch.func``, for ``torch.compile``, and for calls without either.
    """
    import torch

    class NumjitRule(torch.autograd.Function):  # type: ignore[misc]
        """Calls the pair's two operations."""

        # torch batches both operations itself for torch.func.vmap.
        generate_vmap_rule = True

        @staticmethod
        def forward(rule: HandGradient, forward: Any, names: tuple[str, ...], *values: Any) -> Any:
            with torch.no_grad():
                return _run(rule, forward, names, values)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
            rule, _, names, *values = inputs
            count = len(values) - len(names)
            kept = [*rule.kept(values[:count], output), *values[count:]]
            ctx.set_materialize_grads(False)
            save_values(ctx, kept)
            ctx.rule, ctx.names = rule, names
            ctx.places = [place(x) for x in values[:count]]
            ctx.results = [(r.shape, r.dtype, r.device) for r in output]
            whole = [r for r in output if not is_inexact(r)]
            if whole:
                ctx.mark_non_differentiable(*whole)

        @staticmethod
        def jvp(ctx: Any, *_: Any) -> Any:
            raise AutogradError(
                f"{ctx.rule.name}(): a gradient written by hand has no forward mode; use reverse mode "
                "(torch.func.vjp, jacrev) in place of jvp and jacfwd"
            )

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return _differentiate(ctx, saved_values(ctx), grads)

    class Traced(torch.autograd.Function):  # type: ignore[misc]
        """The same in the only form that Dynamo traces: one `forward` that also saves."""

        @staticmethod
        def forward(ctx: Any, rule: HandGradient, forward: Any, names: tuple[str, ...], *values: Any) -> Any:
            output = NumjitRule.forward(rule, forward, names, *values)
            NumjitRule.setup_context(ctx, (rule, forward, names, *values), output)
            return output

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return _differentiate(ctx, rejoined(ctx, ctx.saved_tensors), grads)

    class Plain(Traced):
        """The same, with what Dynamo does not trace.

        torch does not look at the signature of this form, which takes 20 us a call.
        """

        @staticmethod
        def forward(ctx: Any, rule: HandGradient, forward: Any, names: tuple[str, ...], *values: Any) -> Any:
            output = _run(rule, forward, names, values)  # torch has disabled gradients here
            NumjitRule.setup_context(ctx, (rule, forward, names, *values), output)
            return output

        jvp = staticmethod(NumjitRule.jvp)

    Traced.__name__ = Plain.__name__ = NumjitRule.__name__
    Plain._backward_cls.__name__ = NumjitRule._backward_cls.__name__  # which grad_fn shows
    return NumjitRule, Traced, Plain
