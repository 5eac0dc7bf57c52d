"""Compiles Python functors to device code behind the seam symbol, without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from llvmlite import ir

from numjit import dtypes
from numjit.codegen.machine import HOST
from numjit.codegen.storage import convert, value_type
from numjit.dtypes import DType
from numjit.functor.signature import Specialisation
from numjit.ground.numba_ready import numba_ready

if TYPE_CHECKING:
    from numjit.functor.python import PythonFunctor
    from numjit.functor.scalars.compiler import Compiled

__all__ = ["compile_device"]

I8, I32, I64 = (ir.IntType(bits) for bits in (8, 32, 64))
#: How numba-cuda passes a one-dimensional array: two owners, elements, bytes of one, data, shape, strides.
_ARRAY = [I8.as_pointer(), I8.as_pointer(), I64, I64, I8.as_pointer(), I64, I64]


def compile_device(
    functor: PythonFunctor,
    specialisation: Specialisation,
    symbol: str,
    cc: tuple[int, int],
    output: Literal["ltoir", "ptx"] = "ltoir",
    *,
    for_kernels: bool = False,
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
        compute types, bools as unsigned char, complex numbers as two reals, raw operands as address and
        size; the element's number comes last where the functor uses it.
    cc
        Compute capability.
    output
        ``"ltoir"``, or ``"ptx"`` as UTF-8 text to look at.
    for_kernels
        Follow numba-cuda's calling convention instead: one pointer to all outputs, raw operands as arrays.
        No name but `symbol` can then meet one of another functor that is linked to the same kernel.

    Raises
    ------
    CompilationError
        The functor cannot be compiled.
    ToolchainError
        numba-cuda is not installed.
    """
    with numba_ready():
        from numjit.functor.scalars.compiler import compiling

    compiled = functor.take_compiled(specialisation, "cuda")
    with compiling("cuda"):
        raws = functor.signature.raws
        library = _seam_library(compiled, specialisation, symbol, raws, for_kernels=for_kernels)
        if for_kernels:
            _rename(library, symbol)
        if output == "ptx":
            text: str = library.get_asm_str(cc=cc)
            return text.encode()
        code: bytes = library.get_ltoir(cc=cc)
        return code


def _seam_library(
    compiled: Compiled,
    specialisation: Specialisation,
    symbol: str,
    raws: frozenset[int],
    *,
    for_kernels: bool,
) -> Any:
    """Emit the seam function around the functor; return numba-cuda's library of both."""
    with numba_ready():
        from numjit.functor.scalars.compiler import call_functor, representation

    context = compiled.context
    library = context.codegen().create_library(symbol, nvvm_options={"fastmath": False, "opt": 3}, lto=True)
    module = context.create_module(symbol)
    results = [_seam_type(dtype) for dtype in specialisation.outputs]
    if for_kernels:
        fields = [
            ir.ArrayType(kind, 2) if dtype.is_complex else kind
            for kind, dtype in zip(results, specialisation.outputs, strict=True)
        ]
        parameters = [ir.LiteralStructType(fields).as_pointer()]
    else:
        parameters = [kind.as_pointer() for kind in results]
    for k, dtype in enumerate(specialisation.inputs):
        if k in raws:
            parameters.extend(_ARRAY if for_kernels else [I64, I64])
        else:
            parameters.extend([_seam_type(dtype)] * (2 if dtype.is_complex else 1))
    indexed = len(compiled.arguments) > len(specialisation.inputs)
    parameters.extend([I64] * indexed)
    kind = ir.FunctionType(I32, parameters)
    function = ir.Function(module, kind, symbol)
    function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    if for_kernels:
        outputs = [
            builder.bitcast(builder.gep(function.args[0], [I32(0), I32(place)]), kind.as_pointer())
            for place, kind in enumerate(results)
        ]
        rest = iter(function.args[1:])
    else:
        outputs = list(function.args[: len(results)])
        rest = iter(function.args[len(results) :])
    values: list[Any] = []
    for k, dtype in enumerate(specialisation.inputs):
        if k in raws and for_kernels:
            fields = [next(rest) for _ in _ARRAY]
            values.append((builder.ptrtoint(fields[4], I64), fields[2]))
        elif k in raws or dtype.is_complex:
            values.append((next(rest), next(rest)))
        elif dtype is dtypes.bool_:
            values.append(builder.icmp_unsigned("!=", next(rest), I8(0)))
        else:
            values.append(next(rest))
    values.extend(rest)  # the element's number
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


def _rename(library: Any, symbol: str) -> None:
    """Give every other function that the library defines a name of its own.

    Numba's names count compilations in one process, and code of several processes may be linked together.
    """
    functions = [function for module in library.modules for function in module.functions]
    defined = {f.name for f in functions if not f.is_declaration and f.name != symbol}
    # In the text: llvmlite's objects remember how they were first shown.
    texts = list(library.llvm_strs)
    for name in defined:
        texts = [text.replace(f'@"{name}"', f'@"{symbol}_{name}"') for text in texts]
    library._llvm_strs = texts


def _seam_type(dtype: DType) -> Any:
    return I8 if dtype is dtypes.bool_ else value_type(dtype)


def _store(builder: Any, pointer: Any, value: Any, dtype: DType) -> None:
    """Store one result as the compute type of its dtype."""
    if dtype.is_complex:
        for place, part in enumerate(value):
            builder.store(part, builder.gep(pointer, [I32(place)]))
    else:
        builder.store(builder.zext(value, I8) if dtype is dtypes.bool_ else value, pointer)
