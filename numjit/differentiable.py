"""Gradients written by hand: pair a forward operation with a backward one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from numjit.errors import ArgumentError, AutogradError

__all__ = ["Differentiable", "differentiable"]

_SAVED = ("inputs", "outputs", "both")


class Differentiable:
    """A forward operation with its backward; made by `differentiable`, called like the forward one."""

    def __init__(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        save_for_backward: str,
        num_grad_inputs: int | None,
    ) -> None:
        if save_for_backward not in _SAVED:
            raise ArgumentError(
                f"save_for_backward={save_for_backward!r}; say one of {', '.join(map(repr, _SAVED))}"
            )
        if num_grad_inputs is not None and num_grad_inputs < 1:
            raise ArgumentError(f"num_grad_inputs={num_grad_inputs}; it is at least 1, or None for all")
        self._forward = forward
        self._backward = backward
        self._save = save_for_backward
        self._count = num_grad_inputs
        self.__name__ = getattr(forward, "__name__", "differentiable")
        self.__doc__ = forward.__doc__

    def __call__(self, *operands: Any, **scalars: Any) -> Any:
        """Call the forward operation; torch records the backward one where an operand requires grad."""
        import torch

        if torch.is_grad_enabled() and any(
            isinstance(operand, torch.Tensor) and operand.requires_grad for operand in operands
        ):
            return _applied()(self, scalars, *operands)
        return self._forward(*operands, **scalars)

    def __repr__(self) -> str:
        return f"<numjit differentiable {self.__name__}>"

    def gradients(
        self, grads: Sequence[Any], saved: Sequence[Any], shapes: Sequence[Any], scalars: dict[str, Any]
    ) -> list[Any]:
        """Run the backward operation and fit its results to the inputs' shapes and dtypes.

        Parameters
        ----------
        grads
            Gradient of each output.
        saved
            What was kept, in the order in which the backward operation takes it.
        shapes
            ``(shape, dtype)`` of each input that may get a gradient; None for one that cannot.
        scalars
            The call's scalars.
        """
        found = self._backward(*grads, *saved, **scalars)
        many = list(found) if isinstance(found, tuple | list) else [found]
        count = self._count if self._count is not None else len(shapes)
        if len(many) != count:
            raise AutogradError(
                f"{self.__name__}(): its backward gave {len(many)} gradients for {count} inputs; "
                "return one for each, None where there is none, or say num_grad_inputs="
            )
        fitted: list[Any] = []
        for gradient, place in zip(many, shapes, strict=False):
            if gradient is None or place is None:
                fitted.append(None)
                continue
            shape, dtype = place
            fitted.append(gradient.sum_to_size(shape).to(dtype))
        return fitted + [None] * (len(shapes) - len(fitted))


def _applied() -> Any:
    """Return the autograd function's ``apply``, in a way that ``torch.compile`` can trace."""
    from numjit.torch_compile import generated

    return getattr(generated, _ready()).apply


def _ready() -> str:
    """Put the autograd function where traced code finds it; its name there."""
    from numjit.torch_compile import generated

    generated.Node = _node()  # type: ignore[attr-defined]
    return "Node"


_ready._dynamo_marked_constant = True  # type: ignore[attr-defined] # as torch.compiler.assume_constant_result


@functools.cache
def _node() -> Any:
    """Return the autograd function, made when torch is first needed."""
    import torch

    class Node(torch.autograd.Function):  # type: ignore[misc]
        """Calls the pair's two operations."""

        @staticmethod
        def forward(ctx: Any, pair: Differentiable, scalars: dict[str, Any], *operands: Any) -> Any:
            with torch.no_grad():
                results = pair._forward(*operands, **scalars)
            many = results if isinstance(results, tuple) else (results,)
            kept = [*(operands if pair._save != "outputs" else ()), *(many if pair._save != "inputs" else ())]
            ctx.numbers = [None if isinstance(x, torch.Tensor) else x for x in kept]
            ctx.save_for_backward(*(x for x in kept if isinstance(x, torch.Tensor)))
            ctx.pair, ctx.scalars = pair, scalars
            ctx.places = [
                (x.shape, x.dtype)
                if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())
                else None
                for x in operands
            ]
            whole = [r for r in many if not (r.is_floating_point() or r.is_complex())]
            if whole:  # Dynamo wants a tuple of results where any is marked
                ctx.mark_non_differentiable(*whole)
            return results

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            tensors = iter(ctx.saved_tensors)
            saved = [next(tensors) if number is None else number for number in ctx.numbers]
            return None, None, *ctx.pair.gradients(grads, saved, ctx.places, ctx.scalars)

    return Node


def differentiable(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    *,
    save_for_backward: str = "inputs",
    num_grad_inputs: int | None = None,
) -> Differentiable:
    """Give an operation a gradient written by hand.

    Parameters
    ----------
    forward
        An operation made by `numjit.elementwise` (or any torch code) of operands and keyword scalars.
    backward
        Called as ``backward(*grad_outputs, *saved, **scalars)``: a numjit operation or any torch code.
        Returns one gradient for each input, a tuple where there are several, None where there is none.
        Gradients of broadcast inputs are summed to the input's shape and cast to its dtype.
    save_for_backward
        What `saved` is: ``"inputs"`` (the operands, numbers among them), ``"outputs"``, or ``"both"``.
    num_grad_inputs
        How many of the first inputs the backward gives gradients of; None for all.

    Returns
    -------
    Differentiable
        Called like `forward`. Derivatives of the gradient need a backward that torch can differentiate.

    Raises
    ------
    ArgumentError
        `save_for_backward` or `num_grad_inputs` is none of these.

    Examples
    --------
    >>> import torch, numjit
    >>> cube = numjit.elementwise(lambda x: x * x * x)
    >>> slope = numjit.elementwise(lambda grad, x: grad * 3 * x * x)
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> numjit.differentiable(cube, slope)(x).backward()
    >>> x.grad
    tensor([12.])
    """
    return Differentiable(forward, backward, save_for_backward, num_grad_inputs)
