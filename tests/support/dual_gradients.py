"""Compares derivatives of Python functors with torch's autograd on the same expression."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from numjit import math as numjit_math
from numjit.functor.derived_python import derive_python
from numjit.functor.python import PythonFunctor
from tests.support.python_cpu import run

NAMES = {"math": math, "cmath": cmath, "nm": numjit_math}


def functor_of(expression: str, count: int) -> PythonFunctor:
    """Return the functor of an expression in x, y and z."""
    scope: dict[str, Any] = dict(NAMES)
    exec(f"def f({', '.join('xyz'[:count])}): return {expression}", scope)
    return PythonFunctor(scope["f"])


def weights(count: int, like: torch.Tensor, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
    """Return gradients that differ in every element."""
    dtype = dtype or like.dtype
    made = []
    for number in range(count):
        values = torch.linspace(0.5 + number, 1.5 + number, like.numel(), dtype=torch.float64)
        if dtype.is_complex:
            made.append(torch.complex(values, 2.0 - values).to(dtype).reshape(like.shape))
        else:
            made.append(values.to(dtype).reshape(like.shape))
    return made


def torch_gradients(
    function: Callable[..., torch.Tensor], arguments: Sequence[torch.Tensor], gradient: torch.Tensor
) -> list[torch.Tensor]:
    """Return torch's gradients, zeros where it has none."""
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    found = torch.autograd.grad(function(*leaves), leaves, gradient, allow_unused=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(found, leaves, strict=True)
    ]


def torch_second(
    function: Callable[..., torch.Tensor],
    arguments: Sequence[torch.Tensor],
    gradient: torch.Tensor,
    seconds: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """Return torch's gradients of the gradients, by the arguments and by the gradient."""
    leaves = [argument.clone().requires_grad_() for argument in (*arguments, gradient)]
    first = torch.autograd.grad(
        function(*leaves[:-1]), leaves[:-1], leaves[-1], create_graph=True, allow_unused=True
    )
    kept = [
        (grad, second)
        for grad, second in zip(first, seconds, strict=True)
        if grad is not None and grad.requires_grad
    ]
    if not kept:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad([k[0] for k in kept], leaves, [k[1] for k in kept], allow_unused=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(found, leaves, strict=True)
    ]


def gradients(functor: PythonFunctor, arguments: Sequence[Any], *grads: torch.Tensor) -> Sequence[Any]:
    """Return numjit's gradients by every operand."""
    return run(derive_python(functor, "vjp", tuple(range(len(arguments)))), *arguments, *grads)


def second_gradients(
    functor: PythonFunctor, arguments: Sequence[Any], gradient: torch.Tensor, seconds: Sequence[torch.Tensor]
) -> Sequence[Any]:
    """Return numjit's gradients of the gradients, by the operands and by the gradient."""
    first = derive_python(functor, "vjp", tuple(range(len(arguments))))
    second = derive_python(first, "vjp", tuple(range(len(arguments) + 1)))
    return run(second, *arguments, gradient, *seconds)


def tangents(functor: PythonFunctor, arguments: Sequence[Any], directions: Sequence[Any]) -> Sequence[Any]:
    """Return numjit's tangents of the results."""
    return run(derive_python(functor, "jvp", tuple(range(len(arguments)))), *arguments, *directions)
