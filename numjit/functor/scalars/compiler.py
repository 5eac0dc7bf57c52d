"""Compiles Python functors with strong scalars for either target: type inference and lowering to LLVM."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from numba.core import types

from numjit.codegen.machine import HOST
from numjit.dtypes import DType
from numjit.errors import CompilationError
from numjit.functor.scalars import diagnosis
from numjit.functor.scalars.parameters import parameter_type
from numjit.functor.scalars.raw import RawElements, pack_raw
from numjit.functor.scalars.session import Session, Target, compiling
from numjit.functor.signature import ArgumentType, WrittenInPython
from numjit.rules.lowering import Emitter
from numjit.rules.signs import ALL, NATURAL, NEGATIVE
from numjit.rules.types import Strong, argument_type, representation, unwrap
from numjit.semantics.promotion import result_type

__all__ = [
    "Compiled",
    "call_functor",
    "compile_functor",
    "compiling",
    "representation",
    "result_dtypes",
]


_thread = threading.local()


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A functor lowered for one target, ready to be linked into a caller.

    Attributes
    ----------
    arguments
        Numba types of the functor's parameters, and of its index where it uses it.
    results
        Numba type of each result.
    library
        Numba's code library. On the CPU it is not finished, and the caller adds its own code to it; on
        the GPU the caller links it.
    fndesc
        Numba's description of the function.
    context
        The target context that the caller's code is emitted with.
    is_tuple
        Whether the functor returns a tuple.
    """

    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    library: Any
    fndesc: Any
    context: Any
    is_tuple: bool


def compile_functor(
    functor: WrittenInPython,
    arguments: tuple[ArgumentType, ...],
    inputs: tuple[DType, ...],
    default_dtype: DType,
    target: Target,
) -> Compiled:
    """Type and lower a functor for the types of one call.

    Raises
    ------
    CompilationError
        The functor cannot be compiled for these types; the message shows the user's line.
    ToolchainError
        The target's compiler is not installed.
    """
    running = getattr(_thread, "running", None)
    if running is not None:  # Numba's global tables may be half changed
        raise CompilationError(
            f"functor {functor.name!r} has to be compiled for these types, but was called (by a finaliser, "
            f"say) in the midst of compiling {running!r}; call it once before that"
        )
    _thread.running = functor.name
    try:
        return _compile(functor, arguments, inputs, default_dtype, target)
    finally:
        _thread.running = None


def _compile(
    functor: WrittenInPython,
    arguments: tuple[ArgumentType, ...],
    inputs: tuple[DType, ...],
    default_dtype: DType,
    target: Target,
) -> Compiled:
    signature = functor.signature
    kinds = tuple(
        RawElements(argument.dtype, dtype, default_dtype)
        if parameter.raw
        else parameter_type(parameter, dtype, argument, default_dtype)
        for parameter, argument, dtype in zip(
            (*signature.operands, *signature.scalars), arguments, inputs, strict=True
        )
    )
    known = {None: ALL, True: NEGATIVE, False: NATURAL}
    signs = tuple(known[argument.negative] for argument in arguments)
    indexed = functor.uses_index
    if indexed:
        kinds = (*kinds, types.int64)
    with compiling(target) as compiler:
        session = Session(compiler, default_dtype)
        try:
            compiled = session.compile(functor.fn, kinds, indexed=indexed, signs=signs)
        finally:
            session.close()
    found = compiled.signature.return_type
    is_tuple = isinstance(found, types.BaseTuple)
    results = tuple(found.types) if is_tuple else (found,)
    for result in results:
        if argument_type(result) is None:
            raise diagnosis.bad_result(functor.fn, result)
    return Compiled(
        kinds, tuple(map(unwrap, results)), compiled.library, compiled.fndesc, session.context, is_tuple
    )


def result_dtypes(compiled: Compiled, default_dtype: DType) -> tuple[DType, ...]:
    """Return the dtype of each result as inferred; weak numbers count as torch's defaults do."""
    found = []
    for kind in compiled.results:
        argument = argument_type(kind)
        assert argument is not None
        found.append(argument.dtype if isinstance(kind, Strong) else result_type([argument], default_dtype))
    return tuple(found)


def call_functor(compiled: Compiled, builder: Any, module: Any, values: list[Any]) -> list[Any]:
    """Emit a call of the functor.

    Parameters
    ----------
    compiled
        The functor, whose library the caller links.
    builder, module
        Where to emit.
    values
        Seam values of the inputs (``i1`` for bool, a pair for complex) in their compute types; address and
        size of a raw operand; at the end the element's number, if the functor uses it.

    Returns
    -------
    list
        The results' values likewise, each in its compute type (see `Compiled.results`).
    """
    context, fndesc = compiled.context, compiled.fndesc
    emitter = Emitter(context, builder, HOST)
    packed = [
        pack_raw(builder, *value)
        if isinstance(kind, RawElements)
        else emitter.pack(representation(kind), value)
        for kind, value in zip(compiled.arguments, values, strict=True)
    ]
    if hasattr(fndesc, "call_conv"):  # numba-cuda
        convention, callee = fndesc.call_conv, fndesc.declare_function(module)
    else:
        convention, callee = context.call_conv, context.declare_function(module, fndesc)
    # The status is ignored: nothing in a checked functor raises, but Numba leaves paths that could.
    _, returned = convention.call_function(builder, callee, fndesc.restype, compiled.arguments, packed)
    if compiled.is_tuple:
        parts = [builder.extract_value(returned, place) for place in range(len(compiled.results))]
    else:
        parts = [returned]
    return [
        emitter.unpack(representation(kind), part) for kind, part in zip(compiled.results, parts, strict=True)
    ]
