"""What a call's results look like, for tensors without memory or with sizes that are symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numjit.arrays.numbers import number_type
from numjit.call import build
from numjit.call.arguments import default_dtype
from numjit.call.operation import Operation
from numjit.call.planner import gradient_dtype
from numjit.dtypes import DType, as_dtype
from numjit.errors import ArgumentError, DeviceError
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType, with_signs
from numjit.semantics import Category, output_strides
from numjit.torch.genuine import genuine_functions

if TYPE_CHECKING:
    from numjit.functor.kinds import Functor

__all__ = ["argument_types", "empty_results", "result_dtypes"]


def argument_type(value: Any, where: str) -> ArgumentType:
    """Return dtype and category of a tensor, a number, or torch's symbolic number (`where`: for messages)."""
    import torch

    if isinstance(value, torch.Tensor):
        return ArgumentType(as_dtype(value.dtype), Category.DIM if value.dim() else Category.ZERO_DIM)
    for symbolic, stand_in in ((torch.SymBool, True), (torch.SymInt, 1), (torch.SymFloat, 1.0)):
        if isinstance(value, symbolic):
            value = stand_in
    dtype = number_type(value)
    if dtype is None:
        raise ArgumentError(f"{where} is a {type(value).__name__}; pass a tensor or a number")
    return ArgumentType(dtype, Category.NUMBER)


def argument_types(functor: Functor, values: Sequence[Any]) -> tuple[ArgumentType, ...]:
    """Return the type of each argument; elements of a raw operand count as ones with dimensions."""
    raws = functor.signature.raws
    kinds = [
        argument_type(value, f"{functor.name}(): argument {parameter.name!r}")
        for parameter, value in zip(functor.signature.parameters, values, strict=True)
    ]
    kinds = [ArgumentType(kind.dtype, Category.DIM) if k in raws else kind for k, kind in enumerate(kinds)]
    if not (isinstance(functor, PythonFunctor) and functor.reads_signs):
        return tuple(kinds)
    return with_signs(kinds, [_known(value) for value in values])


def _known(value: Any) -> Any:
    """Return an int of a symbolic one's sign, which the trace then holds for; anything else as it is."""
    import torch

    return (-1 if value < 0 else 1) if isinstance(value, torch.SymInt) else value


def result_dtypes(functor: Functor, kinds: tuple[ArgumentType, ...], device_type: str) -> tuple[DType, ...]:
    """Return the dtype of each result, as the functor is compiled for a device type."""
    with genuine_functions():
        return build.specialise(
            functor, kinds, default_dtype(), "cuda" if device_type == "cuda" else "cpu"
        ).outputs


def _stored_dtypes(
    operation: Operation, values: Sequence[Any], shape: tuple[Any, ...], device_type: str
) -> tuple[DType, ...]:
    """Return the dtype in which each result is stored."""
    if not operation.gradients:
        functor = operation.functor
        return result_dtypes(functor, argument_types(functor, values), device_type)
    return tuple(
        gradient_dtype(as_dtype(values[k].dtype), summed=tuple(values[k].shape) != shape)
        for k in operation.gradients
    )


def empty_results(operation: Operation, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return tensors like the results of a call, of whatever class and mode the operands' ones are.

    Sizes may be symbolic; where the order of strides decides, torch's symbolic shapes are asked and keep the
    answer as a guard, as they do for torch's own operators.

    Parameters
    ----------
    operation
        The functor's operation.
    values
        Operands, then scalars, one for each parameter.
    """
    import torch

    functor = operation.functor
    raws = functor.signature.raws
    operands = values[: len(functor.signature.operands)]
    spread = [value for k, value in enumerate(operands) if k not in raws]
    tensors = [value for value in spread if isinstance(value, torch.Tensor)]
    if not tensors:
        raise ArgumentError(f"{functor.name}() has no tensor operand to take a shape from; pass one")
    device = _device(functor, values)
    shape = torch.broadcast_shapes(*[tensor.shape for tensor in tensors])
    layouts = [
        (tuple(value.shape), tuple(value.stride())) if isinstance(value, torch.Tensor) else ((), ())
        for value in spread
    ]
    strides = output_strides(tuple(shape), layouts)
    found = _stored_dtypes(operation, values, tuple(shape), device.type)
    return tuple(
        tensors[0].new_empty_strided(shape, strides, dtype=getattr(torch, dtype.name), device=device)
        for dtype in found
    )


def _device(functor: Functor, values: Sequence[Any]) -> Any:
    """Return the device of all tensors; 0-dim CPU ones may meet any."""
    import torch

    found: tuple[str, Any] | None = None
    tensors = [
        (parameter.name, value)
        for parameter, value in zip(functor.signature.parameters, values, strict=True)
        if isinstance(value, torch.Tensor)
    ]
    for name, tensor in tensors:
        if tensor.dim() == 0 and tensor.device.type == "cpu":
            continue
        if found is not None and tensor.device != found[1]:
            raise DeviceError(
                f"{functor.name}(): operand {found[0]!r} is on {found[1]} but {name!r} is on "
                f"{tensor.device}; move them to one device (only numbers and 0-dim CPU tensors go with any)"
            )
        found = name, tensor.device
    return tensors[0][1].device if found is None else found[1]
