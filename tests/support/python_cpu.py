"""Runs a Python functor over torch CPU tensors through its compiled chunk, with nothing in between."""

from __future__ import annotations

import ctypes
import itertools
import struct
from typing import Any

import torch

from numjit import dtypes
from numjit.cpu.python_loop import build_chunk
from numjit.dtypes import DType
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType
from numjit.semantics.category import Category
from tests.support.oracle import torch_dtype

_PROTOTYPE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3)
_FORMATS = {
    "bool": "?", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "int8": "b", "int16": "h",
    "int32": "i", "int64": "q", "float32": "f", "float64": "d",
}  # fmt: skip


def kind_of(value: Any) -> ArgumentType:
    """Return the argument type of a tensor or number."""
    if isinstance(value, torch.Tensor):
        return ArgumentType(dtypes.as_dtype(value.dtype), Category.DIM if value.dim() else Category.ZERO_DIM)
    for python, dtype in ((bool, dtypes.bool_), (int, dtypes.int64), (float, dtypes.float64)):
        if isinstance(value, python):
            return ArgumentType(dtype, Category.NUMBER)
    return ArgumentType(dtypes.complex128, Category.NUMBER)


def _slot(value: Any, dtype: DType) -> bytes:
    """Return a number as the seam passes it."""
    compute = dtype.compute
    if compute.is_complex:
        value = complex(value)
        packed = struct.pack("<2" + _FORMATS[compute.real.name], value.real, value.imag)
    else:
        python = bool if compute.kind == "b" else float if compute.is_floating else int
        packed = struct.pack("<" + _FORMATS[compute.name], python(value))
    return packed.ljust(16, b"\0")


def run(
    functor: PythonFunctor,
    *arguments: Any,
    default: DType = dtypes.float32,
    stored: tuple[DType, ...] | None = None,
    views: tuple[str, ...] | None = None,
    out: torch.Tensor | None = None,
    parts: int = 1,
) -> tuple[torch.Tensor, ...]:
    """Return what the functor gives for tensors and numbers (operands, then scalars).

    Parameters
    ----------
    functor
        The functor.
    arguments
        Tensors, broadcast together, and numbers.
    default
        The default dtype.
    stored
        Dtypes of the outputs in memory; by default as specialised.
    views
        Flags of the arguments.
    out
        Takes the first output instead of a new tensor.
    parts
        Pieces that the range of elements is cut into.
    """
    kinds = tuple(map(kind_of, arguments))
    specialised = functor.specialise(kinds, default, target="cpu")
    by_value = [kind.category is Category.NUMBER for kind in kinds]
    storages = [None if number else kind.dtype for number, kind in zip(by_value, kinds, strict=True)]
    stored = stored or specialised.outputs
    chunk = build_chunk(functor, specialised, storages, stored, views or ("",) * len(kinds))
    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
    shape = torch.broadcast_shapes(*[tensor.shape for tensor in tensors])
    outputs = [torch.empty(shape, dtype=torch_dtype(dtype)) for dtype in stored]
    if out is not None:
        outputs[0] = out
    operands = [*outputs, *(tensor.expand(shape) for tensor in tensors)]
    sizes = list(reversed(shape)) or [1]
    rank = len(sizes)
    strides = [
        step * operand.element_size()
        for operand in operands
        for step in (reversed(operand.stride()) if shape else [0])
    ]
    values = b"".join(
        _slot(value, dtype)
        for value, dtype, number in zip(arguments, specialised.inputs, by_value, strict=True)
        if number
    )
    addresses = (ctypes.c_int64 * len(operands))(*[operand.data_ptr() for operand in operands])
    table = (ctypes.c_int64 * len(strides))(*strides)
    total = outputs[0].numel()
    function = _PROTOTYPE(chunk.address)
    bounds = [total * part // parts for part in range(parts + 1)]
    for start, stop in itertools.pairwise(bounds):
        function(addresses, (ctypes.c_int64 * rank)(*sizes), table, values, rank, start, stop)
    return tuple(outputs)
