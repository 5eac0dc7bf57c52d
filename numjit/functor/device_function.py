"""Functors as device functions of the user's own ``numba.cuda`` kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numjit import dtypes
from numjit.dtypes import DType, as_dtype
from numjit.errors import ArgumentError, UnsupportedDtypeError
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import MISSING, ArgumentType, Specialisation
from numjit.ground.apart import lock
from numjit.ground.numba_ready import numba_ready
from numjit.semantics.category import Category

if TYPE_CHECKING:
    from numjit.functor.kinds import Functor

__all__ = ["argument_types", "declare"]

_KINDS = {
    "b": dtypes.bool_,
    "i": dtypes.int64,
    "u": dtypes.int64,
    "f": dtypes.float64,
    "c": dtypes.complex128,
}
_lock = lock()
_declared: dict[str, Any] = {}


def argument_types(functor: Functor, given: Sequence[Any]) -> tuple[ArgumentType, ...]:
    """Return the types of a functor's arguments from the dtypes that a user names.

    Parameters
    ----------
    functor
        The functor.
    given
        A dtype for each operand, and for each scalar or for none of them; a scalar's dtype gives its
        kind. Without one a scalar has the kind of its default, and is a float where it has none.

    Raises
    ------
    ArgumentError
        Another number of dtypes.
    """
    signature = functor.signature
    operands, scalars = signature.operands, signature.scalars
    if len(given) not in (len(operands), len(operands) + len(scalars)):
        raise ArgumentError(
            f"{functor.name}.device_function() got {len(given)} dtypes for {len(operands)} operands and "
            f"{len(scalars)} scalars; give one for each operand (and, if you like, each scalar)"
        )
    named = [as_dtype(dtype) for dtype in given]
    found = [ArgumentType(dtype, Category.DIM) for dtype in named[: len(operands)]]
    for k, parameter in enumerate(scalars):
        if len(named) > len(operands):
            kind = _KINDS[named[len(operands) + k].kind]
        else:
            kind = _default_kind(functor, parameter.name, parameter.default)
        found.append(ArgumentType(kind, Category.NUMBER))
    return tuple(found)


def _default_kind(functor: Functor, name: str, default: Any) -> DType:
    from numjit.arrays.numbers import number_type

    if isinstance(functor, PythonFunctor) and name in functor.number_kinds:
        return functor.number_kinds[name]
    kind = None if default is MISSING else number_type(default)
    return dtypes.float64 if kind is None else _KINDS[kind.kind]


def declare(functor: Functor, specialisation: Specialisation, code: bytes, symbol: str) -> Any:
    """Return the function to call from kernels, linked to `code`, which defines `symbol`.

    Raises
    ------
    UnsupportedDtypeError
        A raw operand whose stored dtype numba-cuda has no array of.
    """
    with _lock:
        found = _declared.get(symbol)
        if found is None:
            found = _declared[symbol] = _declare(functor, specialisation, code, symbol)
        return found


def _declare(functor: Functor, specialisation: Specialisation, code: bytes, symbol: str) -> Any:
    from numjit.ground.numba_cuda import numba_cuda_ready

    with numba_cuda_ready() as cuda:
        from numba.cuda.cudadrv.linkable_code import LTOIR

        from numjit.rules.types import native_type

        arguments = [
            _array_type(functor.name, specialisation.arguments[k].dtype)
            if k in functor.signature.raws
            else native_type(dtype)
            for k, dtype in enumerate(specialisation.inputs)
        ]
        if functor.uses_index:
            arguments.append(native_type(dtypes.int64))
        results = tuple(native_type(dtype) for dtype in specialisation.outputs)
        returned = results[0] if len(results) == 1 else cuda.types.Tuple(results)
        link = LTOIR(code, name=symbol)
        return cuda.declare_device(symbol, returned(*arguments), link=link)


def _array_type(name: str, stored: DType) -> Any:
    with numba_ready():
        from numba.cuda import types

    if stored.is_complex and stored.real.itemsize < 4:
        element = None
    else:
        names = {"bool": "boolean", "bfloat16": "", "float8_e4m3fn": "", "float8_e5m2": ""}
        element = getattr(types, names.get(stored.name, stored.name), None)
    if element is None:
        raise UnsupportedDtypeError(
            f"{name}.device_function(): numba-cuda has no arrays of {stored} to pass as a raw operand; "
            "name another dtype"
        )
    return types.Array(element, 1, "C")
