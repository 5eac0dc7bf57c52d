"""Who is measured: each provider turns a case into a call, or says why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

import numjit
from bench.cases import Case

__all__ = ["PROVIDERS", "prepare"]

Call = Callable[..., Any]


def _numjit_python(case: Case, _operands: Sequence[torch.Tensor]) -> Call:
    return lambda *xs: case.functor(*xs, **case.scalars)


def _numjit_cpp(case: Case, _operands: Sequence[torch.Tensor]) -> Call:
    operation = numjit.elementwise(case.cpp, scalars=case.scalars)
    return lambda *xs: operation(*xs, **case.scalars)


def _eager(case: Case, _operands: Sequence[torch.Tensor]) -> Call:
    return case.eager


def _jiterator(case: Case, operands: Sequence[torch.Tensor]) -> Call | None:
    if not operands[0].is_cuda:
        return None
    module = torch.cuda.jiterator
    if case.outputs > 1:
        return module._create_multi_output_jit_fn(case.cpp, case.outputs, **case.scalars)
    return module._create_jit_fn(case.cpp, **case.scalars)


def _compile(case: Case, _operands: Sequence[torch.Tensor]) -> Call:
    torch._dynamo.reset()
    return torch.compile(case.eager, dynamic=False)


def _cupy(case: Case, operands: Sequence[torch.Tensor]) -> Call | None:
    if case.cupy is None or not operands[0].is_cuda:
        return None
    try:
        import cupy
    except ImportError:
        return None
    kernel = cupy.ElementwiseKernel(*case.cupy, "bench")
    arrays = {x.data_ptr(): cupy.from_dlpack(x) for x in operands}

    def call(*xs: torch.Tensor) -> Any:
        taken = [arrays.get(x.data_ptr()) for x in xs]
        if any(a is None for a in taken):
            taken = [arrays.setdefault(x.data_ptr(), cupy.from_dlpack(x)) for x in xs]
        return kernel(*taken)

    return call


def _numba(case: Case, operands: Sequence[torch.Tensor]) -> Call | None:
    names = {
        "torch.int32": "int32",
        "torch.float32": "float32",
        "torch.float64": "float64",
        "torch.uint8": "uint8",
    }
    kinds = {str(x.dtype) for x in operands}
    if case.outputs > 1 or case.scalars or len(kinds) > 1 or next(iter(kinds)) not in names:
        return None
    if any(x.stride() != operands[0].stride() or not x.is_contiguous() for x in operands):
        return None
    import numba

    kind = names[next(iter(kinds))]
    signature = f"{kind}({', '.join([kind] * len(operands))})"
    function = case.functor.__numjit_functor__.fn
    if not operands[0].is_cuda:
        ufunc = numba.vectorize([signature], target="parallel")(function)
        return lambda *xs: ufunc(*(x.numpy() for x in xs))
    import numpy as np

    if not hasattr(np, "row_stack"):  # Numba-CUDA 0.30 looks for it (NumPy 2.5 took it away)
        np.row_stack = np.vstack
    from numba import cuda

    ufunc = numba.vectorize([signature], target="cuda")(function)
    arrays: dict[int, Any] = {}

    def call(*xs: torch.Tensor) -> Any:
        for x in xs:
            if x.data_ptr() not in arrays:
                arrays[x.data_ptr()] = cuda.as_cuda_array(x)
        return ufunc(*(arrays[x.data_ptr()] for x in xs))

    return call


#: Name -> maker of a call; a maker that answers None cannot do the case.
PROVIDERS: dict[str, Callable[[Case, Sequence[torch.Tensor]], Call | None]] = {
    "numjit": _numjit_python,
    "numjit C++": _numjit_cpp,
    "eager": _eager,
    "jiterator": _jiterator,
    "torch.compile": _compile,
    "CuPy": _cupy,
    "numba": _numba,
}


def prepare(
    case: Case, operands: Sequence[torch.Tensor], chosen: Sequence[str]
) -> Iterator[tuple[str, Call | None, str]]:
    """Yield (name, call, remark) of each chosen provider; the call is None where it cannot do the case."""
    for name in chosen:
        remark = ""
        call = None
        try:
            call = PROVIDERS[name](case, operands)
            if call is not None:
                call(*operands)
        except Exception as error:  # noqa: BLE001 - a peer that fails is a row that says so
            call, remark = None, f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        yield name, call, remark
