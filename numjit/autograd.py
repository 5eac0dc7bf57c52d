"""What a call does when a torch operand requires grad: the result is right, and backward explains itself."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from numjit.errors import AutogradError, OutputError

if TYPE_CHECKING:
    from numjit.call import Arguments, Call, Nullary

__all__ = ["run_recorded"]


@functools.cache
def _node() -> Any:
    """Return the autograd function, made when torch is first needed."""
    import torch

    class NoGradient(torch.autograd.Function):  # type: ignore[misc]
        """Records one node whose backward raises."""

        @staticmethod
        def forward(ctx: Any, run: Any, name: str, *tensors: Any) -> Any:  # noqa: ARG004 - recorded by torch
            ctx.name = name
            results = run()
            whole = [r for r in results if not (r.is_floating_point() or r.is_complex())]
            ctx.mark_non_differentiable(*whole)
            return results

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ARG004
            raise AutogradError(
                f"{ctx.name}() has no gradient; give it one with numjit.differentiable(forward, backward), "
                "or call it under torch.no_grad() or on .detach()ed tensors"
            )

    return NoGradient


def run_recorded(
    call: Call, name: str, arguments: Arguments, out: Any, nullary: Nullary | None = None
) -> tuple[Any, ...]:
    """Run a call and record it in torch's graph.

    Raises
    ------
    OutputError
        ``out=`` was given, which torch's operators refuse here too.
    """
    if out is not None:
        raise OutputError(
            f"{name}(): out= does not support automatic differentiation, but an operand requires grad; "
            "call under torch.no_grad() or detach the operands"
        )
    tensors = [seen.original for seen in arguments.arrays if seen.requires_grad]
    results: tuple[Any, ...] = _node().apply(lambda: call.run(arguments, None, nullary), name, *tensors)
    return results
