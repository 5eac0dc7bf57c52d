"""Compiles Python functors to device code behind the seam symbol, without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from llvmlite import ir

from numjit import dtypes
from numjit.codegen.machine import HOST
from numjit.codegen.storage import convert, value_type
from numjit.dtypes import DType
from numjit.functor.signature import Specialisation

if TYPE_CHECKING:
    from numjit.functor.python import PythonFunctor
    from numjit.functor.scalars.compiler import Compiled

__all__ = ["compile_device"]

I8, I32 = ir.IntType(8), ir.IntType(32)


def compile_device(
    functor: PythonFunctor,
    specialisation: Specialisation,
    symbol: str,
    cc: tuple[int, int],
    output: Literal["ltoir", "ptx"] = "ltoir",
) -> bytes:
    """Compile a functor to device code that defines the seam function `symbol`.

    Parameters
    ----------
    functor
        The functor.
    specialisation
        From `PythonFunctor.specialise`.
    symbol
        Name of the ``extern "C" int symbol(Out0* o0, ..., in0, ...)`` to define. Values travel in their
        compute types, bools as unsigned char, complex numbers as two reals.
    cc
        Compute capability.
    output
        ``"ltoir"``, or ``"ptx"`` as UTF-8 text to look at.

    Raises
    ------
    CompilationError
        The functor cannot be compiled.
    ToolchainError
        numba-cuda is not installed.
    """
    from numjit.functor.scalars.compiler import compiling

    compiled = functor.take_compiled(specialisation, "cuda")
    with compiling("cuda"):
        library = _seam_library(compiled, specialisation, symbol)
        if output == "ptx":
            text: str = library.get_asm_str(cc=cc)
            return text.encode()
        code: bytes = library.get_ltoir(cc=cc)
        return code


def _seam_library(compiled: Compiled, specialisation: Specialisation, symbol: str) -> Any:
    """Emit the seam function around the functor; return numba-cuda's library of both."""
    from numjit.functor.scalars.compiler import call_functor, representation

    context = compiled.context
    library = context.codegen().create_library(symbol, nvvm_options={"fastmath": False, "opt": 3}, lto=True)
    module = context.create_module(symbol)
    parameters = [_seam_type(dtype).as_pointer() for dtype in specialisation.outputs]
    for dtype in specialisation.inputs:
        parameters.extend([_seam_type(dtype)] * (2 if dtype.is_complex else 1))
    kind = ir.FunctionType(I32, parameters)
    function = ir.Function(module, kind, symbol)
    function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    outputs = list(function.args[: len(specialisation.outputs)])
    rest = iter(function.args[len(outputs) :])
    values: list[Any] = []
    for dtype in specialisation.inputs:
        if dtype.is_complex:
            values.append((next(rest), next(rest)))
        elif dtype is dtypes.bool_:
            values.append(builder.icmp_unsigned("!=", next(rest), I8(0)))
        else:
            values.append(next(rest))
    results = call_functor(compiled, builder, module, values)
    for pointer, value, kind_found, dtype in zip(
        outputs, results, compiled.results, specialisation.outputs, strict=True
    ):
        own = representation(kind_found)
        _store(builder, pointer, convert(builder, HOST, value, own, dtype.compute, rounded=False), dtype)
    builder.ret(I32(0))
    library.add_ir_module(module)
    library.add_linking_library(compiled.library)
    library.finalize()
    return library


def _seam_type(dtype: DType) -> Any:
    return I8 if dtype is dtypes.bool_ else value_type(dtype)


def _store(builder: Any, pointer: Any, value: Any, dtype: DType) -> None:
    """Store one result as the compute type of its dtype."""
    if dtype.is_complex:
        for place, part in enumerate(value):
            builder.store(part, builder.gep(pointer, [I32(place)]))
    else:
        builder.store(builder.zext(value, I8) if dtype is dtypes.bool_ else value, pointer)
