"""Derivatives of C++ template functors: the same text, instantiated with dual numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from numjit.dtypes import DType
from numjit.errors import ArgumentError, AutogradError
from numjit.functor.cpp.branches import other_branch, size_edits
from numjit.functor.cpp.functor import CppFunctor, Slot
from numjit.functor.cpp.source import bound_type, callee
from numjit.functor.cpp.types import CppType
from numjit.functor.signature import MISSING, ArgumentType, Output, Parameter, Signature, Specialisation

__all__ = ["DerivedCppFunctor", "derive_cpp"]

Kind = Literal["vjp", "jvp"]

#: The namespace, inside the user's own, of generated functions.
_NAMESPACE: Final = "numjit_derived"
_DUAL: Final = "::numjit_dual::"
_REMEDY: Final = "or write the gradient with numjit.differentiable"


def derive_cpp(
    functor: CppFunctor, kind: Kind, active: tuple[int, ...], outputs: tuple[bool, ...]
) -> CppFunctor:
    """Return the functor of a C++ functor's derivative, itself a functor that can be derived again.

    The user's text stays as it is: its entry is instantiated with ``numjit_dual::Dual<T, N>``
    (numjit/functor/cpp/include/dual.h) in the place of every floating or complex template parameter T.

    Parameters
    ----------
    functor
        A template whose active parameters are declared with template parameters.
    kind
        ``"vjp"``: operands are the functor's, then ``grad_k`` of each output k that has a gradient; one
        output per active parameter, the sum over k of ``grad_k * d out_k / d in_i``. For complex numbers
        torch's convention, ``dL = Re(conj(g) * dz)``. ``"jvp"``: operands are the functor's, then
        ``tangent_<name>`` of each active parameter; one output per output with a gradient.
    active
        Positions of the differentiated parameters, operands in signature order, then scalars; ascending.
    outputs
        For each output whether it has a gradient.

    Returns
    -------
    CppFunctor
        Scalars and their defaults are the functor's. Operands have no defaults, as others follow them.

    Raises
    ------
    AutogradError
        A parameter or an output that no dual number can stand for: a functor that is no template, a
        concrete type, a raw operand.
    ArgumentError
        `active` or `outputs` does not fit the functor.
    """
    return DerivedCppFunctor(functor, kind, active, outputs)


class DerivedCppFunctor(CppFunctor):
    """The derivative of a C++ functor; made by `derive_cpp`.

    Attributes
    ----------
    base
        What it is the derivative of.
    derivative
        ``"vjp"`` or ``"jvp"``.
    active, gradients
        The arguments `active` and `outputs` of `derive_cpp`.
    order
        How often the text is derived: 1, 2 for the derivative of a derivative.
    """

    order: int

    def __init__(
        self, base: CppFunctor, derivative: Kind, active: tuple[int, ...], gradients: tuple[bool, ...]
    ) -> None:
        self.base = base
        self.derivative = derivative
        self.active = tuple(active)
        self.gradients = tuple(gradients)
        self._check_request()
        super().__init__(
            base.text,
            entry=base.entry,
            outputs=base.stated_outputs,
            scalars=base.scalars,
            preamble=base.preamble,
            options=base.options,
        )

    def _read(self) -> None:
        base = self.base
        self.units = base.units
        self.name = f"{base.name}_{self.derivative}"
        self.order = base.order + 1 if isinstance(base, DerivedCppFunctor) else 1
        self.qualified = f"{_NAMESPACE}::numjit_{self.derivative}{self.order}"
        self.overloads = 1
        self.is_template = True
        self.variables = base.variables
        self.variable_defaults = base.variable_defaults
        self.returns = CppType(is_void=True, spelling="void")
        self.ignores_return = True
        self.edits = base.edits
        if self.order == 1:
            self._check_branches()
            self.edits = tuple(
                (*edits, *size_edits(unit)) for edits, unit in zip(base.edits, self.units, strict=True)
            )
        self.uses_index = base.uses_index
        self._return_codes: dict[Any, int] = {}
        self._fingerprint = ""
        self._place_all()
        self.wrapper = base.wrapper + _wrapper(self)

    # ------------------------------------------------------------------------------------ what it takes

    def _fail(self, message: str) -> AutogradError:  # type: ignore[override]
        return AutogradError(f"functor {self.base.name!r}: {message}")

    def _check_request(self) -> None:
        base, count = self.base, len(self.base.argument_types)
        if self.derivative not in {"vjp", "jvp"}:
            raise ArgumentError(f"functor {base.name!r}: kind={self.derivative!r}; say 'vjp' or 'jvp'")
        if list(self.active) != sorted(set(self.active)) or not self.active:
            raise ArgumentError(
                f"functor {base.name!r}: active={self.active}; give positions, each once, ascending"
            )
        if self.active[0] < 0 or self.active[-1] >= count:
            raise ArgumentError(
                f"functor {base.name!r}: active={self.active}, but it has {count} inputs; count from 0"
            )
        if len(self.gradients) != len(base.signature.outputs) or not any(self.gradients):
            raise ArgumentError(
                f"functor {base.name!r}: outputs={self.gradients} for {len(base.signature.outputs)} outputs; "
                "give a flag for each, one of them true"
            )
        parameters = (*base.signature.operands, *base.signature.scalars)
        for k in self.active:
            declared, name = base.argument_types[k], parameters[k].name
            if declared.is_raw:
                raise self._fail(f"raw operand {name!r} has no derivative; detach it {_REMEDY}")
            if declared.variable is None and not declared.deduced:
                raise self._fail(
                    f"parameter {name!r} has the type {declared.spelling!r}, which carries no derivative; "
                    f"declare it with a template parameter (template <typename T> ... T {name}) {_REMEDY}"
                )
        for k, wanted in enumerate(self.gradients):
            declared = base.result_types[k]
            if wanted and declared.variable is None and not declared.deduced:
                raise self._fail(
                    f"result {k} has the type {declared.spelling!r}, which carries no derivative; "
                    f"declare it with a template parameter or auto {_REMEDY}"
                )

    def _check_branches(self) -> None:
        found = other_branch(self.units)
        if found is not None:
            what, line = found
            raise self._fail(
                f"line {line}: {what} has no meaning for the dual numbers that stand for T in a derivative; "
                "write the gradient with numjit.differentiable"
            )

    def _place_all(self) -> None:
        """Lay out signature, slots and types: inputs, index, outputs, in the wrapper's order."""
        base = self.base
        operands = [p._replace(default=MISSING) for p in base.signature.operands]
        taken = {p.name for p in (*operands, *base.signature.scalars)}
        parameters = (*base.signature.operands, *base.signature.scalars)
        extras: list[Parameter] = []
        if self.derivative == "vjp":
            for k, wanted in enumerate(self.gradients):
                if wanted:
                    extras.append(Parameter(_free(f"grad_{k}", taken)))
            results = [base.argument_types[k] for k in self.active]
            made = [_output(parameters[k], base.argument_types[k]) for k in self.active]
        else:
            extras.extend(
                parameters[k]._replace(name=_free(f"tangent_{parameters[k].name}", taken), default=MISSING)
                for k in self.active
            )
            results = [kind for kind, wanted in zip(base.result_types, self.gradients, strict=True) if wanted]
            made = [out for out, wanted in zip(base.signature.outputs, self.gradients, strict=True) if wanted]
        count = len(operands)
        lifted = CppType(deduced=True, spelling="auto")
        self.argument_types = (
            *(kind.by_value() for kind in base.argument_types[:count]),
            *(lifted for _ in extras),
            *(kind.by_value() for kind in base.argument_types[count:]),
        )
        self.result_types = tuple(kind._replace(reference=True) for kind in results)
        self.signature = Signature(self.name, (*operands, *extras), base.signature.scalars, tuple(made))
        slots = [Slot(kind, False, k) for k, kind in enumerate(self.argument_types)]
        if self.uses_index:
            index = next(slot.type for slot in base.slots if slot.type.is_index)
            slots.append(Slot(index, False, len(self.argument_types)))
        slots.extend(Slot(lifted._replace(reference=True), True, j) for j in range(len(results)))
        self.slots = tuple(slots)

    @property
    def stated_variables(self) -> tuple[str, ...]:
        """As of the functor it is the derivative of."""
        return self.base.stated_variables

    def __repr__(self) -> str:
        return f"<C++ functor {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return derive_cpp, (self.base, self.derivative, self.active, self.gradients)

    def fingerprint(self) -> str:
        """Return 64 hexadecimal digits over everything that the generated code depends on."""
        if not self._fingerprint:
            parts = [
                "numjit c++ derivative",
                self.base.fingerprint(),
                self.derivative,
                list(self.active),
                list(self.gradients),
                self.wrapper,
            ]
            self._fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return self._fingerprint

    def is_current(self) -> bool:
        """Return whether the files that the text includes are still those of the fingerprint."""
        return self.base.is_current()

    # ---------------------------------------------------------------------------------- at a call's types

    def _split(
        self, arguments: tuple[ArgumentType, ...]
    ) -> tuple[tuple[ArgumentType, ...], tuple[ArgumentType, ...]]:
        """Part the arguments into those of the base functor and the gradients or tangents."""
        count = len(self.base.signature.operands)
        extras = len(self.argument_types) - len(self.base.argument_types)
        return (
            arguments[:count] + arguments[count + extras :],
            arguments[count : count + extras],
        )

    def specialise(self, arguments: tuple[ArgumentType, ...], default_dtype: DType) -> Specialisation:
        """Decide the dtype of every input and output of one call.

        The functor's own arguments decide as they do without a derivative; gradients are converted to the
        dtype of their output, tangents to that of their parameter.

        Raises
        ------
        ArgumentError, PromotionError, FunctorError
            As `CppFunctor.specialise`.
        AutogradError
            An active parameter or an output with a gradient is neither floating nor complex.
        """
        if len(arguments) != len(self.argument_types):
            raise ArgumentError(
                f"functor {self.name!r} takes {len(self.argument_types)} inputs, but {len(arguments)} "
                "were given; pass one argument for each"
            )
        own, _ = self._split(tuple(arguments))
        base = self.base.specialise(own, default_dtype)
        moved = [base.inputs[k] for k in self.active]
        ends = [dtype for dtype, wanted in zip(base.outputs, self.gradients, strict=True) if wanted]
        for dtype in (*moved, *ends):
            if not dtype.is_floating and not dtype.is_complex:
                raise self._fail(f"{dtype} has no derivative; use a floating or complex dtype, {_REMEDY}")
        extras, outputs = (ends, moved) if self.derivative == "vjp" else (moved, ends)
        count = len(self.base.signature.operands)
        inputs = (*base.inputs[:count], *extras, *base.inputs[count:])
        return Specialisation(tuple(arguments), inputs, tuple(outputs), default_dtype)

    def bindings(self, specialisation: Specialisation) -> dict[str, DType]:
        """Return the dtype of each template parameter in a specialisation."""
        own, _ = self._split(specialisation.arguments)
        return self.base.bindings(specialisation._replace(arguments=own))


def _free(name: str, taken: set[str]) -> str:
    """Return a name that no parameter has yet."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _output(parameter: Parameter, kind: CppType) -> Output:
    return Output() if kind.is_complex else Output(parameter.dtype, parameter.variable)


def _is_lifted(kind: CppType) -> bool:
    """Whether a dual stands for this parameter: all but concrete types, raw operands and the index."""
    return not kind.is_raw and not kind.is_index and (kind.variable is not None or kind.deduced)


# ------------------------------------------------------------------------------------------ generation


def _wrapper(functor: DerivedCppFunctor) -> str:
    """Return the C++ function that seeds duals, calls the base functor and collects derivatives.

    It is a template in the user's template parameters first, so that it can be derived in its turn, then in
    the types of its own parameters, which a call deduces.
    """
    base = functor.base
    count = len(base.signature.operands)
    extras = len(functor.argument_types) - len(base.argument_types)
    # Position among the wrapper's inputs of each of the base functor's.
    place = [k if k < count else k + extras for k in range(len(base.argument_types))]
    place.append(len(functor.argument_types))
    is_vjp = functor.derivative == "vjp"
    inputs = range(len(functor.argument_types) + functor.uses_index)
    ends = [k for k, wanted in enumerate(functor.gradients) if wanted]
    results = range(len(functor.active) if is_vjp else len(ends))
    types = [*(f"typename {v}" for v in base.stated_variables)]
    types += [*(f"class A{k}" for k in inputs), *(f"class O{j}" for j in results)]
    parameters = [*(f"const A{k}& a{k}" for k in inputs), *(f"O{j}& o{j}" for j in results)]

    lines: list[str] = []
    if is_vjp:
        widths = [f"{_DUAL}directions_of<A{place[k]}>" for k in functor.active]
        starts = [" + ".join(["0", *widths[:n]]) for n in range(len(widths))]
        lines.append(f"constexpr int n = {' + '.join(widths)};")
    else:
        starts = []
        lines.append("constexpr int n = 1;")
    texts = {v: f"{_DUAL}lifted<{v}, n>" for v in base.stated_variables}
    arguments: list[str] = []
    received: dict[int, str] = {}
    for slot in base.slots:
        if slot.is_output:
            received[slot.position] = f"r{slot.position}"
            lines.append(f"{_result_type(functor, slot, texts, count)} r{slot.position}{{}};")
            arguments.append(f"r{slot.position}")
            continue
        here = place[slot.position]
        if not _is_lifted(slot.type):
            arguments.append(f"a{here}")
            continue
        kind = f"{_DUAL}lifted<A{here}, n>"
        if slot.position not in functor.active:
            lines.append(f"const {kind} x{here}(a{here});")
        else:
            which = functor.active.index(slot.position)
            start = (
                f"{_DUAL}seed<n, ({starts[which]})>(a{here})"
                if is_vjp
                else f"{_DUAL}moving(a{here}, a{count + which})"
            )
            lines.append(f"const {kind} x{here} = {start};")
        arguments.append(f"x{here}")
    call = f"{callee(base, texts)}({', '.join(arguments)})"
    lines.append(f"{call};" if base.ignores_return else f"const auto r0 = {call};")
    if is_vjp:
        for j, k in enumerate(functor.active):
            lines.append(f"{_DUAL}Gradient<A{place[k]}, ({starts[j]})> g{j};")
            lines.extend(f"g{j}.take(a{count + n}, r{end});" for n, end in enumerate(ends))
            lines.append(f"o{j} = g{j}.get();")
    else:
        lines.extend(f"o{n} = {_DUAL}tangent(r{end});" for n, end in enumerate(ends))
    body = "".join(f"  {line}\n" for line in lines)
    name = functor.qualified.rpartition("::")[2]
    return (
        f"namespace numjit_scope {{ namespace numjit_user {{ namespace {_NAMESPACE} {{\n"
        f"template <{', '.join(types)}>\n"
        f"NUMJIT_FLAT void {name}({', '.join(parameters)}) {{\n{body}}}\n}}}}}}\n"
    )


def _result_type(functor: DerivedCppFunctor, slot: Slot, texts: Mapping[str, str], count: int) -> str:
    """Return C++ for the variable that receives one of the base functor's outputs."""
    if not slot.type.deduced:
        return bound_type(slot.type, texts)
    # An output of a derivative: its type is that of its own gradient or tangent.
    if not functor.gradients[slot.position]:
        return f"{_DUAL}Sink"
    nth = sum(functor.gradients[: slot.position])
    return f"{_DUAL}lifted<{f'A{count + nth}' if functor.derivative == 'vjp' else f'O{nth}'}, n>"
