"""Derivatives of Python functors, as Python functors: functions that run the functor on dual scalars."""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from typing import Any, Literal

from numjit.errors import AutogradError
from numjit.functor.markers import Direction, Primal, index, pull, push, seed
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import MISSING, Output, Parameter, Signature

__all__ = ["DerivedFunctor", "derive_python"]

Kind = Literal["vjp", "jvp"]


def derive_python(
    functor: PythonFunctor, kind: Kind, active: tuple[int, ...], outputs: tuple[bool, ...] | None = None
) -> DerivedFunctor:
    """Return the derivative of a functor as a functor, which can be derived again.

    Parameters
    ----------
    functor
        What to differentiate. Its own operands and scalars stay those of the derivative, with names, order
        and types; defaults of operands are dropped, as others follow.
    kind
        ``"vjp"``: operands ``grad_0``, ``grad_1``, ... follow the functor's, one for each differentiable
        result in order (named by the result's number), and there is one result for each active parameter:
        the gradient, summed over the results, complex where the parameter is. ``"jvp"``: operands
        ``tangent_<name>`` follow, one for each active parameter, and there is one result for each
        differentiable result: its tangent. Underscores are added where the functor has such a name.
    active
        Positions of the differentiated parameters, operands first, then scalars; ascending.
    outputs
        Which results have a derivative, because their dtype is a float; by default all.

    Returns
    -------
    DerivedFunctor
        The derivative; its fingerprint covers the functor's, also after a captured variable was rebound.

    Raises
    ------
    AutogradError
        `active` or `outputs` do not fit the functor, or name a raw operand.
    """
    return DerivedFunctor(functor, kind, active, outputs)


class DerivedFunctor(PythonFunctor):
    """The derivative of a functor; made by `derive_python`.

    Attributes
    ----------
    primal
        The functor that this is the derivative of.
    derivative
        ``"vjp"`` or ``"jvp"``.
    active
        Positions of the differentiated parameters.
    differentiable
        Which results of the functor have a derivative.
    """

    def __init__(
        self,
        primal: PythonFunctor,
        derivative: Kind,
        active: Sequence[int],
        outputs: Sequence[bool] | None = None,
    ) -> None:
        self.primal = primal
        self.derivative = derivative
        self.active = tuple(active)
        count = len(primal.signature.outputs)
        self.differentiable = (True,) * count if outputs is None else tuple(map(bool, outputs))
        self._check()
        self._extra = self._extra_parameters()
        self._indexed = primal.uses_index
        super().__init__(self._write())
        self.number_kinds = dict(primal.number_kinds)

    def _check(self) -> None:
        name, signature = self.primal.name, self.primal.signature
        parameters = (*signature.operands, *signature.scalars)
        if len(self.differentiable) != len(signature.outputs) or not any(self.differentiable):
            raise AutogradError(
                f"functor {name!r} has {len(signature.outputs)} results, but outputs={self.differentiable}; "
                "say for each whether it has a derivative, one of them at least"
            )
        fits = all(0 <= place < len(parameters) for place in self.active)
        if not self.active or not fits or list(self.active) != sorted(set(self.active)):
            raise AutogradError(
                f"functor {name!r} has {len(parameters)} parameters, but active={self.active}; give "
                "ascending positions of those to differentiate by"
            )
        for place in self.active:
            if parameters[place].raw:
                raise AutogradError(
                    f"functor {name!r} has no derivative by its raw operand {parameters[place].name!r}; give "
                    "the gradient yourself with numjit.differentiable"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        return DerivedFunctor, (self.primal, self.derivative, self.active, self.differentiable)

    def __repr__(self) -> str:
        return f"<numjit Python functor {self.name}>"

    # ---------------------------------------------------------------------------------- signature

    def _extra_parameters(self) -> tuple[Parameter, ...]:
        signature = self.primal.signature
        parameters = (*signature.operands, *signature.scalars)
        if self.derivative == "vjp":
            wanted = [f"grad_{number}" for number, has in enumerate(self.differentiable) if has]
        else:
            wanted = [f"tangent_{parameters[place].name}" for place in self.active]
        taken = {parameter.name for parameter in parameters}
        return tuple(Parameter(unused(name, taken)) for name in wanted)

    def _python_signature(self) -> inspect.Signature:
        """Return a signature of operands without defaults and of scalars."""
        signature = self._read_signature()
        operand, scalar = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY

        def default(parameter: Parameter) -> Any:
            return inspect.Parameter.empty if parameter.default is MISSING else parameter.default

        return inspect.Signature(
            [inspect.Parameter(p.name, operand) for p in signature.operands]
            + [inspect.Parameter(p.name, scalar, default=default(p)) for p in signature.scalars]
        )

    def _read_signature(self) -> Signature:
        signature = self.primal.signature
        operands = tuple(Parameter(p.name, p.dtype, p.variable, raw=p.raw) for p in signature.operands)
        count = len(self.active) if self.derivative == "vjp" else sum(self.differentiable)
        return Signature(self.name, (*operands, *self._extra), signature.scalars, (Output(),) * count)

    # ----------------------------------------------------------------------------------- function

    def _write(self) -> types.FunctionType:
        """Write the function: all parameters by position, operands before scalars."""
        signature = self.primal.signature
        operands = [p.name for p in signature.operands]
        scalars = [p.name for p in signature.scalars]
        names = [*operands, *(p.name for p in self._extra), *scalars]
        taken = set(names)
        scope: dict[str, Any] = {"__builtins__": {}}

        def constant(name: str, value: Any) -> str:
            name = unused(name, taken)
            scope[name] = value
            return name

        everything = ", ".join(names)
        directions = self._directions(names)
        seed_name = constant("seed", seed)
        handles = [constant(f"by_{d.name}", d) for d in directions]
        arguments = {names[d.position]: handle for d, handle in zip(directions, handles, strict=True)}
        passed = [
            f"{seed_name}({arguments[name]}, {everything})" if name in arguments else name
            for name in (*operands, *scalars)
        ]
        if self._indexed:
            passed.append(f"{constant('index', index)}()")
        primal = constant(
            self.primal.name if self.primal.name.isidentifier() else "primal",
            Primal(self.primal, self._indexed),
        )
        result = unused("result", taken)
        if self.derivative == "vjp":
            pull_name = constant("pull", pull)
            taken_out = [f"{pull_name}({handle}, {result}, {everything})" for handle in handles]
        else:
            push_name = constant("push", push)
            numbers = [number for number, has in enumerate(self.differentiable) if has]
            outputs = [constant(f"result_{k}", Direction(f"result {k}", k)) for k in numbers]
            taken_out = [f"{push_name}({output}, {result}, {everything})" for output in outputs]
        shown = taken_out[0] if len(taken_out) == 1 else f"({', '.join(taken_out)})"
        own = self.primal.name if self.primal.name.isidentifier() else "functor"
        name = unused(f"{own}_{self.derivative}", taken)
        # One line, which errors show as the one that the functor starts on.
        text = f"def {name}({everything}): {result} = {primal}({', '.join(passed)}); return {shown}"
        origin = self.primal.fn
        exec(compile(text, origin.__code__.co_filename, "exec"), scope)  # noqa: S102
        function: types.FunctionType = scope.pop(name)
        function.__code__ = function.__code__.replace(co_firstlineno=origin.__code__.co_firstlineno)
        function.__module__ = origin.__module__
        function.__qualname__ = f"{origin.__qualname__}.{self.derivative}"
        function.__doc__ = f"Derivative ({self.derivative}) of {self.primal.name}."
        return function

    def _directions(self, names: Sequence[str]) -> list[Direction]:
        """Return what each active parameter needs to know of the derivative's parameters."""
        signature = self.primal.signature
        parameters = (*signature.operands, *signature.scalars)
        places = iter(names.index(p.name) for p in self._extra)
        if self.derivative == "jvp":
            return [
                Direction(parameters[place].name, names.index(parameters[place].name), next(places))
                for place in self.active
            ]
        gradients = tuple(next(places) if has else None for has in self.differentiable)
        return [
            Direction(parameters[place].name, names.index(parameters[place].name), gradients=gradients)
            for place in self.active
        ]

    # ----------------------------------------------------------------------------------- identity

    def identity(self) -> tuple[Any, ...]:
        """Return what a digest of the functor covers: the primal functor and what is derived of it."""
        return (
            "numjit derivative",
            self.derivative,
            self.active,
            self.differentiable,
            *self.primal.identity(),
        )

    def _forget_if_rebound(self) -> None:
        if self.primal.uses_index is not self._indexed:
            # A rebound name has become numjit.index, or is no longer.
            self._indexed = not self._indexed
            self.fn = self._write()
            self._captures = None
        super()._forget_if_rebound()


def unused(name: str, taken: set[str]) -> str:
    """Return a name with as many underscores behind as make it new, and add it to those taken."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name
