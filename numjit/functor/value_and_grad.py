"""Functors that answer a functor's value and its partial derivatives at once, for one kernel."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from numjit.dtypes import DType
from numjit.errors import AutogradError
from numjit.functor.cpp.derived import DerivedCppFunctor, derive_cpp
from numjit.functor.cpp.functor import CppFunctor, Slot
from numjit.functor.cpp.source import bound_type, callee
from numjit.functor.cpp.types import CppType
from numjit.functor.derived_python import DerivedFunctor, derive_python, unused
from numjit.functor.markers import Primal, index
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType, Parameter, Signature, Specialisation

__all__ = ["with_partials"]


def with_partials(functor: CppFunctor | PythonFunctor, active: tuple[int, ...]) -> CppFunctor | PythonFunctor:
    """Return a functor whose results are a functor's value, then its partial by each active parameter.

    Parameters
    ----------
    functor
        A functor of one result. Its operands (without their defaults) and scalars are those of the new one.
    active
        Positions of the differentiated parameters, operands first, then scalars; ascending.

    Returns
    -------
    CppFunctor or PythonFunctor
        Of the functor's own kind. The value and the gradients are written as two calls of the same code,
        which compilers merge.

    Raises
    ------
    AutogradError
        The functor has several results, or no such derivative.
    """
    count = len(functor.signature.outputs)
    if count != 1:
        raise AutogradError(
            f"functor {functor.name!r} has {count} results, and a parameter has a partial of each; make a "
            "functor of the one result that you differentiate"
        )
    if isinstance(functor, CppFunctor):
        return _CppPartials(functor, active)
    return _PythonPartials(functor, active)


class _PythonPartials(DerivedFunctor):
    """The value and partials of a Python functor."""

    def __init__(self, primal: PythonFunctor, active: Sequence[int]) -> None:
        self._gradient = derive_python(primal, "vjp", tuple(active))
        super().__init__(primal, "vjp", active)

    def __reduce__(self) -> tuple[Any, ...]:
        return _PythonPartials, (self.primal, self.active)

    def identity(self) -> tuple[Any, ...]:
        """Return what a digest of the functor covers."""
        return ("numjit value and partials", *super().identity())

    def _extra_parameters(self) -> tuple[Parameter, ...]:
        return ()

    def _read_signature(self) -> Signature:
        found = super()._read_signature()
        return found._replace(outputs=(self.primal.signature.outputs[0], *found.outputs))

    def _write(self) -> types.FunctionType:
        """Write the function: all parameters by position, operands before scalars."""
        signature = self.primal.signature
        operands = [p.name for p in signature.operands]
        scalars = [p.name for p in signature.scalars]
        taken = {*operands, *scalars}
        own = self.primal.name if self.primal.name.isidentifier() else "functor"
        name, value, primal, gradient, number = (
            unused(text, taken)
            for text in (f"{own}_value_and_grad", "value", own, f"{own}_gradient", "index")
        )
        partials = [unused(f"partial_{k}", taken) for k in range(len(self.active))]
        indexed = [f"{number}()"] if self._indexed else []
        scope: dict[str, Any] = {
            "__builtins__": {},
            primal: Primal(self.primal, self._indexed),
            gradient: Primal(self._gradient, self._indexed),
            number: index,
        }
        text = (
            f"def {name}({', '.join((*operands, *scalars))}): "
            f"{value} = {primal}({', '.join((*operands, *scalars, *indexed))}); "
            f"{', '.join(partials)} = {gradient}({', '.join((*operands, '1.0', *scalars, *indexed))}); "
            f"return ({value}, {', '.join(partials)})"
        )
        origin = self.primal.fn
        exec(compile(text, origin.__code__.co_filename, "exec"), scope)  # noqa: S102 - numjit's own text
        function: types.FunctionType = scope.pop(name)
        function.__code__ = function.__code__.replace(co_firstlineno=origin.__code__.co_firstlineno)
        function.__module__ = origin.__module__
        function.__qualname__ = f"{origin.__qualname__}.value_and_grad"
        function.__doc__ = f"Value and partial derivatives of {self.primal.name}."
        return function


class _CppPartials(DerivedCppFunctor):
    """The value and partials of a C++ functor."""

    def __init__(self, base: CppFunctor, active: tuple[int, ...]) -> None:
        super().__init__(base, "vjp", active, (True,))

    def __reduce__(self) -> tuple[Any, ...]:
        return _CppPartials, (self.base, self.active)

    def _read(self) -> None:
        super()._read()
        gradient, self.wrapper = self.qualified, ""
        base = self.base
        self.name = f"{base.name}_value_and_grad"
        self.qualified = gradient.replace("numjit_vjp", "numjit_value_and_grad")
        self.argument_types = tuple(kind.by_value() for kind in base.argument_types)
        results = [base.result_types[0], *(base.argument_types[k] for k in self.active)]
        self.result_types = tuple(kind._replace(reference=True) for kind in results)
        found = self.signature
        self.signature = Signature(
            self.name,
            found.operands[: len(base.signature.operands)],
            found.scalars,
            (base.signature.outputs[0], *found.outputs),
        )
        slots = [Slot(kind, False, k) for k, kind in enumerate(self.argument_types)]
        slots += [Slot(slot.type, False, len(slots)) for slot in base.slots if slot.type.is_index]
        lifted = CppType(deduced=True, spelling="auto", reference=True)
        slots += [Slot(lifted, True, j) for j in range(len(results))]
        self.slots = tuple(slots)
        derived = derive_cpp(base, "vjp", self.active, (True,))
        self.wrapper = derived.wrapper + _partials_text(self, gradient)

    def specialise(self, arguments: tuple[ArgumentType, ...], default_dtype: DType) -> Specialisation:
        """Decide the dtype of every input and output of one call, as the functor itself does.

        Raises
        ------
        ArgumentError, PromotionError, FunctorError
            As `CppFunctor.specialise`.
        AutogradError
            An active parameter or the result is neither floating nor complex.
        """
        base = self.base.specialise(tuple(arguments), default_dtype)
        outputs = (base.outputs[0], *(base.inputs[k] for k in self.active))
        for dtype in outputs:
            if not dtype.is_floating and not dtype.is_complex:
                raise self._fail(
                    f"{dtype} has no derivative; use a floating or complex dtype, or write the gradient with "
                    "numjit.differentiable"
                )
        return Specialisation(tuple(arguments), base.inputs, outputs, default_dtype)


def _partials_text(functor: _CppPartials, gradient: str) -> str:
    """Return the C++ function that calls the functor, then its gradient with a seed of 1."""
    base = functor.base
    inputs = range(len(base.argument_types) + base.uses_index)
    results = range(len(functor.result_types))
    types = [f"typename {v}" for v in base.stated_variables]
    types += [*(f"class A{k}" for k in inputs), *(f"class O{j}" for j in results)]
    parameters = [*(f"const A{k}& a{k}" for k in inputs), *(f"O{j}& o{j}" for j in results)]
    texts = {v: v for v in base.stated_variables}
    lines, arguments = [], []
    for slot in base.slots:
        if slot.is_output:
            kind = "O0" if slot.type.deduced else bound_type(slot.type, texts)
            lines.append(f"{kind} value{{}};")
            arguments.append("value")
        else:
            arguments.append(f"a{slot.position}")
    call = f"{callee(base, texts)}({', '.join(arguments)})"
    lines.append(f"{call};" if base.ignores_return else f"auto value = {call};")
    lines.append("o0 = value;")
    count = len(base.signature.operands)
    given = [f"a{k}" for k in inputs]
    given[count:count] = ["decltype(value)(1)"]
    stated = f"<{', '.join(base.stated_variables)}>" if base.stated_variables else ""
    called = gradient.rpartition("::")[2]
    lines.append(f"{called}{stated}({', '.join([*given, *(f'o{j}' for j in results[1:])])});")
    body = "".join(f"  {line}\n" for line in lines)
    name = functor.qualified.rpartition("::")[2]
    space = functor.qualified.rpartition("::")[0]
    return (
        f"namespace numjit_scope {{ namespace numjit_user {{ namespace {space} {{\n"
        f"template <{', '.join(types)}>\n"
        f"NUMJIT_FLAT void {name}({', '.join(parameters)}) {{\n{body}}}\n}}}}}}\n"
    )
