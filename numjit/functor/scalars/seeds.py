"""What derived functions are made of: parameters become duals, and derivatives are taken out of results.

The level of a derivative is one more than that of every argument that its function is given, so that a
derivative taken inside of another one has duals of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import types
from numba.core.typing import signature

from numjit.codegen.machine import Machine
from numjit.functor.markers import Direction, pull, push, seed
from numjit.rules.dual import Dual, element_of, is_inexact, level_of, severed
from numjit.rules.lowering import Emitter
from numjit.rules.traced import Traced, call
from numjit.rules.tracing import Tracer
from numjit.rules.types import RefusalError, Strong, argument_type, unwrap

__all__ = ["DirectionType", "pulled", "register_seeds", "seeded"]


class DirectionType(types.Opaque):  # type: ignore[misc]
    """The Numba type of a constant `Direction`, which it holds."""

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        super().__init__(f"numjit.{direction}")


def seeded(tracer: Tracer, direction: Direction, parameters: Sequence[Traced]) -> Traced:
    """Return a parameter with its derivatives by itself, or with a given tangent."""
    given = parameters[direction.position]
    level = 1 + max(level_of(parameter.kind) for parameter in parameters)
    if not isinstance(given.kind, Strong) or not is_inexact(given.kind.dtype):
        argument = argument_type(given.kind)
        shown = given.kind if argument is None else argument.dtype
        what = f"a Python number ({shown})" if not isinstance(given.kind, Strong) else str(shown)
        raise RefusalError(
            f"{direction.name!r} is {what}, by which there is no derivative; pass a tensor of floats"
        )
    element = element_of(given.kind)
    if direction.tangent is not None:
        tangent = parameters[direction.tangent]
        argument = argument_type(tangent.kind)
        if argument is None or (argument.dtype.is_complex and not element.dtype.is_complex):
            raise RefusalError(
                f"the tangent of {direction.name!r} is {argument and argument.dtype} but the parameter is "
                f"{element.dtype}; make it {element.dtype} too"
            )
        return tracer.join(level, given, {0: tracer.moved(tangent, element)})
    first = 2 * direction.position
    tangents = {first: tracer.cast(tracer.scalar(1.0), element)}
    if element.dtype.is_complex:
        tangents[first + 1] = tracer.cast(tracer.scalar(1j), element)
    return tracer.join(level, given, tangents)


def _results(tracer: Tracer, results: Traced) -> list[Traced]:
    """Return the scalars that a functor returned."""
    if not isinstance(results.kind, types.BaseTuple):
        return [results]
    return [
        Traced(
            tracer,
            unwrap(kind),
            None if tracer.emitter is None else tracer.emitter.builder.extract_value(results.value, place),
        )
        for place, kind in enumerate(results.kind.types)
    ]


def pulled(
    tracer: Tracer, direction: Direction, results: Sequence[Traced], parameters: Sequence[Traced]
) -> Traced:
    """Return the sum over all results of ``real(conj(gradient) * tangent)``, for each part of a parameter."""
    level = 1 + max(level_of(parameter.kind) for parameter in parameters)
    element = element_of(parameters[direction.position].kind)
    total: Traced | None = None
    for result, place in zip(results, direction.gradients, strict=True):
        if place is None:
            continue
        _check_result(result)
        _, tangents = tracer.parts(result, level)
        first = 2 * direction.position
        if first not in tangents:  # of both parts, or none
            continue
        term = _inner(parameters[place], tangents[first])
        if element.dtype.is_complex:
            term = call(complex, term, _inner(parameters[place], tangents[first + 1]))
        total = term if total is None else total + term
    return tracer.zero(element) if total is None else total


def _check_result(result: Traced) -> None:
    """Refuse an integer made of a differentiated value as a result that has a derivative."""
    if isinstance(result.kind, Dual) and result.kind.is_severed:
        raise severed("differentiated")


def _inner(gradient: Traced, tangent: Traced) -> Traced:
    """Return ``real(conj(gradient) * tangent)``."""
    if not tangent.is_complex:
        return tangent * (gradient.real if _is_complex(gradient) else gradient)
    if not _is_complex(gradient):
        return gradient * tangent.real
    return gradient.real * tangent.real + gradient.imag * tangent.imag


def _is_complex(given: Traced) -> bool:
    argument = argument_type(given.kind)
    return argument is not None and argument.dtype.is_complex


def _push(
    tracer: Tracer, output: Direction, results: Sequence[Traced], parameters: Sequence[Traced]
) -> Traced:
    level = 1 + max(level_of(parameter.kind) for parameter in parameters)
    result = results[output.position]
    _check_result(result)
    value, tangents = tracer.parts(result, level)
    if 0 in tangents:
        return tangents[0]
    return tracer.zero(element_of(value.kind)) if isinstance(value.kind, Strong) else tracer.scalar(0.0)


def _apply(function: Any, tracer: Tracer, kinds: Sequence[Any], values: Sequence[Any]) -> Traced:
    operands = [
        Traced(tracer, unwrap(kind), value) for kind, value in zip(kinds[1:], values[1:], strict=True)
    ]
    if function is seed:
        return seeded(tracer, kinds[0].direction, operands)
    results, parameters = _results(tracer, operands[0]), operands[1:]
    take = pulled if function is pull else _push
    return take(tracer, kinds[0].direction, results, parameters)


def register_seeds(target: Any, machine: Machine) -> None:
    """Make `seed`, `pull` and `push` known to a target (see `numjit.functor.scalars.registry`)."""
    # Python hands more than 30 arguments over as a tuple, of which the direction is a member then.
    target.register_model(DirectionType, target.models.OpaqueModel)
    for function in (seed, pull, push):
        key = (target.name, "numjit", function.__name__)

        def generic(self: Any, args: Any, kws: Any, function: Any = function) -> Any:  # noqa: ARG001
            if not args or not isinstance(args[0], DirectionType):
                return None
            kinds = [kind if isinstance(kind, types.BaseTuple) else unwrap(kind) for kind in args]
            return signature(_apply(function, Tracer(), kinds, [None] * len(kinds)).kind, *kinds)

        def get_impl_key(self: Any, sig: Any, key: Any = key) -> Any:  # noqa: ARG001
            return key

        def lower(context: Any, builder: Any, sig: Any, args: Any, function: Any = function) -> Any:
            tracer = Tracer(Emitter(context, builder, machine))
            return tracer.cast(_apply(function, tracer, sig.args, args), sig.return_type).value

        members = {
            "__module__": __name__,
            "key": function,
            "metadata": {"target": target.name},
            "generic": generic,
            "get_impl_key": get_impl_key,
        }
        target.infer_global(function)(type("NumjitSeed", (target.template,), members))
        target.lower(key, types.VarArg(types.Any))(lower)
