"""From a Python functor to an equivalent function of torch tensors, which torch's compiler can look into."""

from __future__ import annotations

import cmath
import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numjit import dtypes
from numjit.dtypes import DType
from numjit.functor.signature import ArgumentType
from numjit.ground.numba_ready import imported
from numjit.semantics.category import Category
from numjit.semantics.promotion import result_type
from numjit.torch.see_through import plain_numbers
from numjit.torch.see_through.lowered import NotLowerable, finish, fitted, keep

if TYPE_CHECKING:
    from numjit.functor.python import PythonFunctor
    from numjit.torch.see_through.program import Program
    from numjit.torch.see_through.values import Value

_PARTS = (
    "numjit.rules.types",
    "numjit.functor.scalars.parameters",
    "numjit.torch.see_through.values",
    "numjit.torch.see_through.program",
    "numjit.torch.see_through.statements",
    "numjit.torch.see_through.tracing",
)

__all__ = ["Lowered", "NotLowerable", "lower", "lower_with_gradients"]

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
        The function's name, with which all names begin that are defined beside it.
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
                     fitted=fitted, keep=keep)  # fmt: skip
        space.update((name, getattr(plain_numbers, name)) for name in plain_numbers.__all__)
        text = self.source.replace(self.name, name)
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
    signature = functor.signature
    names = [f"p_{p.name}" for p in (*signature.operands, *signature.scalars)]
    program = _program(default_dtype, arguments, names, gradients=gradients)
    with _refused():
        results = _run(program, functor, _parameters(program, functor, arguments, names))
        ending = _ending(program, functor, arguments, results, names[: len(signature.operands)])
    return Lowered(_NAME, _function(_NAME, names, [*program.lines, f"    {ending}"]))


def lower_with_gradients(
    functor: PythonFunctor,
    arguments: tuple[ArgumentType, ...],
    default_dtype: DType,
    active: tuple[int, ...],
) -> Lowered:
    """Write a functor over torch tensors together with its gradient, which is the one of the functor itself.

    Differentiated by torch, the text of `lower` has torch's gradient of each operation, and multiplies by
    the slopes of what a condition, ``where`` or ``max`` has left out: 0 times infinity is NaN. Here each
    result is an autograd function of its own, so that one that is not used has no part in a gradient.

    Parameters
    ----------
    functor, arguments, default_dtype
        As of `lower`.
    active
        Positions of the parameters that need a gradient, ascending.

    Raises
    ------
    NotLowerable
        The functor has no such form, or no derivative.
    ArgumentError, PromotionError
        The arguments do not fit the parameters.
    """
    form = lower(functor, arguments, default_dtype, gradients=False)
    signature = functor.signature
    names = [f"p_{p.name}" for p in (*signature.operands, *signature.scalars)]
    parts, results = [form.source.replace(_NAME, f"{_NAME}_value")], []
    everything = ", ".join(names)
    count = len(signature.outputs)
    for place in range(count):
        own = f"{_NAME}_{place}"
        value = f"{_NAME}_value({everything})" + (f"[{place}]" if count > 1 else "")
        gradient = _gradient(functor, arguments, default_dtype, active, place, names)
        if gradient is None:
            results.append(value)
            continue
        tensors = [
            name for name, a in zip(names, arguments, strict=True) if a.category is not Category.NUMBER
        ]
        numbers = [name for name in names if name not in tensors]
        found = [f"found[{active.index(k)}]" if k in active else "None" for k in range(len(names))]
        parts.append(_function(f"{own}_gradient", [*names, "p_grad"], gradient))
        parts.append(
            _CLASS.format(
                name=own,
                everything=everything,
                tensors=", ".join(tensors),
                numbers="".join(f"{name}, " for name in numbers),
                value=value,
                found=", ".join(found),
            )
        )
        results.append(f"{own}.apply({everything})")
    if len(parts) == 1:
        raise NotLowerable("no result has a derivative")
    shown = results[0] if count == 1 else f"({', '.join(results)})"
    parts.append(_function(_NAME, names, [f"    return {shown}"]))
    return Lowered(_NAME, "\n".join(parts))


#: Stands for the functor's name in generated text, where nothing else is called so.
_NAME = "numjit_form"

_CLASS = """class {name}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, {everything}):
        ctx.save_for_backward({tensors})
        ctx.numbers = ({numbers})
        return {value}

    @staticmethod
    def backward(ctx, p_grad):
        {tensors}, = ctx.saved_tensors
        {numbers}*_, = ctx.numbers
        found = {name}_gradient({everything}, p_grad)
        return {found},
"""


def _function(name: str, parameters: Sequence[str], lines: Sequence[str]) -> str:
    return "\n".join([f"def {name}({', '.join(parameters)}):", *lines, ""])


def _program(
    default_dtype: DType, arguments: tuple[ArgumentType, ...], names: Sequence[str], *, gradients: bool
) -> Program:
    from numjit.torch.see_through.program import Program

    order = sorted(range(len(names)), key=lambda k: -int(arguments[k].category))
    return Program(default_dtype, f"{names[order[0]]}.device", gradients=gradients)


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Let what does not compile have no torch form."""
    from numjit.rules.types import RefusalError

    try:
        yield
    except RefusalError as error:
        raise NotLowerable(f"it does not compile: {error}") from None
    except RecursionError:
        raise NotLowerable("it is nested too deeply") from None


def _gradient(
    functor: PythonFunctor,
    arguments: tuple[ArgumentType, ...],
    default_dtype: DType,
    active: tuple[int, ...],
    place: int,
    names: Sequence[str],
) -> list[str] | None:
    """Write the gradients of one result by the active parameters; None where it has no derivative."""
    from numjit.functor.markers import Direction
    from numjit.rules.types import Element, representation
    from numjit.torch.see_through.tracing import TextTracer
    from numjit.torch.see_through.values import Value

    program = _program(default_dtype, arguments, names, gradients=False)
    program.tracer = tracer = TextTracer(program)
    with _refused():
        values = _parameters(program, functor, arguments, names)
        parameters = list(values.values())
        directions = [Direction(names[k][2:], k, gradients=(len(parameters),)) for k in active]
        seeds = {d.position: tracer.seeded(d, parameters) for d in directions}
        given = [seeds.get(k, value) for k, value in enumerate(parameters)]
        found = _run(program, functor, dict(zip(values, given, strict=True)))
        dtype = _result_dtypes(functor, arguments, found, default_dtype)[place]
        if dtype.kind not in "fc":
            return None
        zero_dim = all(argument.category is not Category.DIM for argument in arguments)
        kind = Element(dtype, zero_dim, default_dtype)
        code = "p_grad"
        if representation(kind) is not dtype:
            code = program.let(f"{code}.to(torch.{representation(kind).name})")
        parameters.append(Value(kind, code, is_tensor=True))
        gradients = [tracer.pulled(d, [found[place]], parameters) for d in directions]
    codes = [gradient.code for gradient in gradients]
    if len(found) > 1:  # a result that is not used is given a gradient of zeros by torch's compiler
        codes = [program.let(f"torch.where(p_grad == 0, 0, {code})") for code in codes]
    fits = [f"fitted({code}, {names[k]})" for code, k in zip(codes, active, strict=True)]
    return [*program.lines, f"    return ({', '.join(fits)},)"]


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


def _parameters(
    program: Program, functor: PythonFunctor, arguments: tuple[ArgumentType, ...], names: Sequence[str]
) -> dict[str, Value]:
    """Return the functor's parameters as it computes with them."""
    from numjit.functor.scalars.parameters import parameter_type
    from numjit.rules.types import representation
    from numjit.torch.see_through.values import Value

    found: dict[str, Value] = {}
    parameters = (*functor.signature.operands, *functor.signature.scalars)
    inputs = functor.input_dtypes(arguments, program.default_dtype)
    for parameter, argument, dtype, name in zip(parameters, arguments, inputs, names, strict=True):
        kind = parameter_type(parameter, dtype, argument, program.default_dtype)
        if argument.category is Category.NUMBER:
            own = parameter_type(parameter._replace(dtype=None, variable=None), argument.dtype,
                                 argument, program.default_dtype)  # fmt: skip
            found[parameter.name] = program.cast(Value(own, name, is_tensor=False), kind)
            continue
        target = representation(kind)
        is_own = argument.dtype is target
        code = name
        if dtype is not argument.dtype and dtype is not target:  # a narrow dtype rounds as it is loaded
            code = program.let(f"{code}.to(torch.{dtype.name})")
        if not is_own:
            code = program.let(f"{code}.to(torch.{target.name})")
        found[parameter.name] = Value(kind, code, is_tensor=True, fresh=not is_own)
    return found


def _run(program: Program, functor: PythonFunctor, parameters: dict[str, Value]) -> tuple[Value, ...]:
    """Execute the functor on its parameters; returns its results."""
    from numjit.functor.source import definition
    from numjit.torch.see_through.statements import body
    from numjit.torch.see_through.values import Scope, Value

    node = definition(functor.fn)
    if node is None:
        raise NotLowerable("its source is not there")
    scope = Scope(functor.fn)
    scope.names.update(parameters)
    found = body(program, node, scope)
    results = found if isinstance(found, tuple) else (found,)
    if not all(isinstance(result, Value) for result in results):
        raise NotLowerable("it returns something other than numbers, or not on every path")
    count = len(functor.signature.outputs)
    if count != len(results):
        raise NotLowerable(f"it returns {len(results)} results where {count} were expected")
    return results


def _result_dtypes(
    functor: PythonFunctor,
    arguments: tuple[ArgumentType, ...],
    results: Sequence[Value],
    default_dtype: DType,
) -> list[DType]:
    """Return the dtype that each result is stored in."""
    from numjit.rules.types import Strong, argument_type

    shared: dict[str, list[ArgumentType]] = {}
    for parameter, argument in zip(
        (*functor.signature.operands, *functor.signature.scalars), arguments, strict=True
    ):
        if parameter.variable is not None:
            shared.setdefault(parameter.variable, []).append(argument)
    found = []
    for output, result in zip(functor.signature.outputs, results, strict=True):
        own = argument_type(result.kind)
        assert own is not None
        dtype = own.dtype if isinstance(result.kind, Strong) else result_type([own], default_dtype)
        if output.dtype is not None:
            dtype = output.dtype
        elif output.variable is not None:
            dtype = result_type(shared[output.variable], default_dtype)
        found.append(dtype)
    return found


def _ending(
    program: Program,
    functor: PythonFunctor,
    arguments: tuple[ArgumentType, ...],
    results: tuple[Value, ...],
    operands: list[str],
) -> str:
    codes, fresh, stored = [], [], []
    found = _result_dtypes(functor, arguments, results, program.default_dtype)
    for dtype, result in zip(found, results, strict=True):
        if dtype in _STORED_ONLY:
            raise NotLowerable(f"a result is {dtype}, which torch hardly computes with")
        # A tensor that is two results must become two.
        fresh.append(result.fresh and result.code not in codes)
        codes.append(result.code)
        stored.append(f"torch.{dtype.name}")
    parts = [f"({', '.join(map(str, part))},)" for part in (codes, fresh, stored, operands)]
    return f"return finish({', '.join(parts)})"
