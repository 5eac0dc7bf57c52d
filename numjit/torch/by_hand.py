"""Gradients written by hand: pair a forward operation with a backward one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numjit.errors import ArgumentError
from numjit.torch.compile import generated
from numjit.torch.dispatch import hand_over, is_overridden, is_traced
from numjit.torch.recorded import is_recorded
from numjit.torch.rule import HandGradient, nodes

__all__ = ["Differentiable", "differentiable"]


class Differentiable:
    """A forward operation with its backward; made by `differentiable`, called like the forward one."""

    def __init__(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        save_for_backward: str,
        num_grad_inputs: int | None,
        residuals: int = 0,
    ) -> None:
        if not callable(forward):
            raise ArgumentError(
                f"differentiable: the forward operation is a {type(forward).__name__}; pass one made by "
                "numjit.elementwise, or a function of tensors"
            )
        self.__name__ = getattr(forward, "__name__", "differentiable")
        self.__doc__ = forward.__doc__
        self._forward = forward
        self._rule = HandGradient(self.__name__, backward, save_for_backward, num_grad_inputs, residuals)

    def __call__(self, *operands: Any, **scalars: Any) -> Any:
        """Call the forward operation; torch records the backward one where an operand requires grad."""
        if is_traced():
            results = self._traced(operands, scalars)
        elif is_overridden(operands, scalars):
            return hand_over(self, operands, scalars)
        elif is_recorded((*operands, *scalars.values())):
            results = self._rule.record(self._forward, operands, scalars)
        else:
            results = self._rule.checked(self._forward(*operands, **scalars))
        shown = results[: len(results) - self._rule.residuals]
        return shown[0] if len(shown) == 1 else shown

    def _traced(self, operands: Sequence[Any], scalars: dict[str, Any]) -> tuple[Any, ...]:
        """Do the same in a way that ``torch.compile`` can trace."""
        import torch

        values = (*operands, *scalars.values())
        if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in values):
            made: tuple[Any, ...] = _applied()(self._rule, self._forward, tuple(scalars), *values)
            return made
        return self._rule.checked(self._forward(*operands, **scalars))

    def __repr__(self) -> str:
        return f"<numjit differentiable {self.__name__}>"


def _applied() -> Any:
    """Return the autograd function's ``apply``, in a way that ``torch.compile`` can trace."""
    return getattr(generated, _ready()).apply


def _ready() -> str:
    """Put the autograd function where traced code finds it; its name there."""
    generated.NumjitRule = nodes()[1]  # type: ignore[attr-defined]
    return "NumjitRule"


_ready._dynamo_marked_constant = True  # type: ignore[attr-defined] # as torch.compiler.assume_constant_result


def differentiable(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    *,
    save_for_backward: str = "inputs",
    num_grad_inputs: int | None = None,
    residuals: int = 0,
) -> Differentiable:
    """Give an operation a gradient written by hand.

    Parameters
    ----------
    forward
        An operation made by `numjit.elementwise` (or any torch code) of operands and keyword scalars.
    backward
        Called as ``backward(*grad_outputs, *saved, **scalars)``: a numjit operation or any torch code.
        Returns one gradient for each input, a tuple where there are several, None where there is none.
        Gradients of broadcast inputs are summed to the input's shape and cast to its dtype. The gradient
        of a result that was not used is zeros.
    save_for_backward
        What `saved` is: ``"inputs"`` (the operands, numbers among them), ``"outputs"``, or ``"both"``;
        behind them come the residuals.
    num_grad_inputs
        How many of the first inputs the backward gives gradients of; None for all.
    residuals
        How many of the forward operation's last results are kept for the backward and not returned.

    Returns
    -------
    Differentiable
        Called like `forward`. Derivatives of the gradient need a backward that torch can differentiate,
        as numjit's operations are, and no residuals.

    Raises
    ------
    ArgumentError
        One of these is of another kind.

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
    return Differentiable(forward, backward, save_for_backward, num_grad_inputs, residuals)
