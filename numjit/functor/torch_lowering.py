"""From a Python functor to an equivalent function of torch tensors, which torch's compiler can look into."""

from __future__ import annotations

import cmath
import dataclasses
import math
from typing import TYPE_CHECKING, Any

from numjit import dtypes
from numjit.dtypes import DType
from numjit.functor.lowered import NotLowerable, finish, keep, ratio
from numjit.functor.signature import ArgumentType
from numjit.numba_ready import imported
from numjit.semantics.category import Category
from numjit.semantics.promotion import result_type

if TYPE_CHECKING:
    from numjit.functor.python import PythonFunctor
    from numjit.functor.scalars.see_through import Program
    from numjit.functor.scalars.see_through_values import Value

_PARTS = (
    "numjit.functor.scalars.types",
    "numjit.functor.scalars.see_through_values",
    "numjit.functor.scalars.see_through",
    "numjit.functor.scalars.calls",
)

__all__ = ["Lowered", "NotLowerable", "lower"]

#: dtypes that torch itself computes little or nothing with.
_STORED_ONLY = frozenset(
    {dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.complex32, dtypes.uint16, dtypes.uint32, dtypes.uint64}
)


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A functor as text over torch tensors, for one combination of argument types.

    Attributes
    ----------
    name
        The function's name.
    source
        Its definition; it takes operands, then scalars, by position.
    """

    name: str
    source: str

    def build(self, namespace: dict[str, Any] | None = None, name: str | None = None) -> Any:
        """Return the function, defined in a namespace of its own or in the given one, under `name`."""
        import torch

        name = name or self.name
        space = {} if namespace is None else namespace
        space.update(torch=torch, math=math, cmath=cmath, inf=math.inf, nan=math.nan, finish=finish,
                     keep=keep, ratio=ratio)  # fmt: skip
        text = self.source.replace(f"def {self.name}(", f"def {name}(", 1)
        exec(compile(text, f"<numjit {self.name}>", "exec"), space)  # noqa: S102 - own text
        return space[name]


def lower(
    functor: PythonFunctor,
    arguments: tuple[ArgumentType, ...],
    default_dtype: DType,
    *,
    gradients: bool = True,
) -> Lowered:
    """Write a functor over torch tensors.

    Parameters
    ----------
    functor
        The functor.
    arguments
        Types of operands, then scalars, in signature order; at least one is an array.
    default_dtype
        ``torch.get_default_dtype()``.
    gradients
        Whether torch is to differentiate the function: elements for which an arm of a condition is not taken
        then have no part in its gradient. Without, the text is shorter.

    Raises
    ------
    NotLowerable
        The functor has no such form: the message says why.
    ArgumentError, PromotionError
        The arguments do not fit the parameters.
    """
    _check(functor, arguments)
    for part in _PARTS:
        imported(part)
    from numjit.functor.scalars.see_through import Program
    from numjit.functor.scalars.types import RefusalError

    signature = functor.signature
    names = [f"p_{p.name}" for p in (*signature.operands, *signature.scalars)]
    order = sorted(range(len(names)), key=lambda k: -int(arguments[k].category))
    program = Program(default_dtype, f"{names[order[0]]}.device", gradients=gradients)
    try:
        results = _run(program, functor, arguments, names)
        ending = _ending(program, functor, arguments, results, names[: len(signature.operands)])
    except RefusalError as error:
        raise NotLowerable(f"it does not compile: {error}") from None
    except RecursionError:
        raise NotLowerable("it is nested too deeply") from None
    name = functor.name if functor.name.isidentifier() else "functor"
    lines = [f"def {name}({', '.join(names)}):", *program.lines, f"    {ending}", ""]
    return Lowered(name, "\n".join(lines))


def _check(functor: PythonFunctor, arguments: tuple[ArgumentType, ...]) -> None:
    if functor.signature.raws:
        raise NotLowerable("it has raw operands")
    if functor.uses_index:
        raise NotLowerable("it uses numjit.index()")
    if all(argument.category is Category.NUMBER for argument in arguments[: len(functor.signature.operands)]):
        raise NotLowerable("no operand is an array")
    for argument in arguments:
        if argument.dtype in _STORED_ONLY:
            raise NotLowerable(f"an argument is {argument.dtype}, which torch hardly computes with")


def _run(
    program: Program, functor: PythonFunctor, arguments: tuple[ArgumentType, ...], names: list[str]
) -> tuple[Value, ...]:
    """Execute the functor on its parameters; returns its results."""
    from numjit.functor.scalars.calls import body
    from numjit.functor.scalars.see_through_values import Scope, Value
    from numjit.functor.scalars.types import parameter_type, representation
    from numjit.functor.source import definition

    node = definition(functor.fn)
    if node is None:
        raise NotLowerable("its source is not there")
    scope = Scope(functor.fn)
    parameters = (*functor.signature.operands, *functor.signature.scalars)
    inputs = functor.input_dtypes(arguments, program.default_dtype)
    for parameter, argument, dtype, name in zip(parameters, arguments, inputs, names, strict=True):
        kind = parameter_type(parameter, dtype, argument, program.default_dtype)
        if argument.category is Category.NUMBER:
            own = parameter_type(parameter._replace(dtype=None, variable=None), argument.dtype,
                                 argument, program.default_dtype)  # fmt: skip
            scope.names[parameter.name] = program.cast(Value(own, name, is_tensor=False), kind)
            continue
        target = representation(kind)
        is_own = argument.dtype is target
        code = name
        if dtype is not argument.dtype and dtype is not target:  # a narrow dtype rounds as it is loaded
            code = program.let(f"{code}.to(torch.{dtype.name})")
        if not is_own:
            code = program.let(f"{code}.to(torch.{target.name})")
        scope.names[parameter.name] = Value(kind, code, is_tensor=True, fresh=not is_own)
    found = body(program, node, scope)
    results = found if isinstance(found, tuple) else (found,)
    if not all(isinstance(result, Value) for result in results):
        raise NotLowerable("it returns something other than numbers, or not on every path")
    return results


def _ending(
    program: Program,
    functor: PythonFunctor,
    arguments: tuple[ArgumentType, ...],
    results: tuple[Value, ...],
    operands: list[str],
) -> str:
    from numjit.functor.scalars.types import Strong, argument_type

    declared = functor.signature.outputs
    if len(declared) != len(results):
        raise NotLowerable(f"it returns {len(results)} results where {len(declared)} were expected")
    shared: dict[str, list[ArgumentType]] = {}
    for parameter, argument in zip(
        (*functor.signature.operands, *functor.signature.scalars), arguments, strict=True
    ):
        if parameter.variable is not None:
            shared.setdefault(parameter.variable, []).append(argument)
    codes, fresh, stored = [], [], []
    for output, result in zip(declared, results, strict=True):
        own = argument_type(result.kind)
        assert own is not None
        dtype = own.dtype if isinstance(result.kind, Strong) else result_type([own], program.default_dtype)
        if output.dtype is not None:
            dtype = output.dtype
        elif output.variable is not None:
            dtype = result_type(shared[output.variable], program.default_dtype)
        if dtype in _STORED_ONLY:
            raise NotLowerable(f"a result is {dtype}, which torch hardly computes with")
        # A tensor that is two results must become two.
        fresh.append(result.fresh and result.code not in codes)
        codes.append(result.code)
        stored.append(f"torch.{dtype.name}")
    parts = [f"({', '.join(map(str, part))},)" for part in (codes, fresh, stored, operands)]
    return f"return finish({', '.join(parts)})"
