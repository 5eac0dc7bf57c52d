"""CUDA C++ functors: text and declared scalars in, a signature and the dtypes of a call out."""

from __future__ import annotations

import functools
import hashlib
import json
import numbers
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from numjit import dtypes
from numjit.dtypes import DType
from numjit.errors import ArgumentError, FunctorError
from numjit.functor.cpp.reader import Function, Unit, choose_entry, read_unit
from numjit.functor.cpp.tokens import Source, Token
from numjit.functor.cpp.types import CppType, complex_of, read_parameter, read_type
from numjit.functor.signature import MISSING, ArgumentType, Output, Parameter, Signature, Specialisation
from numjit.semantics.category import Category
from numjit.semantics.promotion import result_type

__all__ = ["CppFunctor", "Slot", "headers", "set_return_type_prober", "standard_headers"]

#: The texts that every generated program may hold, in the order in which they go into it.
HEADERS: Final = (
    "device.h", "library.h", "core.h", "values.h", "complex.h", "host.h", "dual.h", "dual_rules.h",
    "dual_complex.h", "storage.h",
)  # fmt: skip

#: Headers whose names every functor has; NVRTC could not open them.
standard_headers: Final = frozenset({
    "algorithm", "array", "bit", "cfloat", "climits", "cmath", "complex", "cstddef", "cstdint", "cstdlib",
    "cstring", "float.h", "initializer_list", "limits", "limits.h", "math.h", "math_constants.h", "numeric",
    "stddef.h", "stdint.h", "stdlib.h", "string.h", "type_traits", "utility",
})  # fmt: skip

#: Raised whenever generated text changes in a way that the headers do not show.
_GENERATION: Final = "3"

_prober: Callable[[CppFunctor, tuple[DType, ...], Mapping[str, DType]], int] | None = None


def set_return_type_prober(
    prober: Callable[[CppFunctor, tuple[DType, ...], Mapping[str, DType]], int] | None,
) -> None:
    """Say who compiles the question "which type does this call return?" for functors that return ``auto``.

    Parameters
    ----------
    prober
        Called with the functor, the dtype of each input and the dtype of each template parameter;
        returns the ``numjit_code`` of ``numjit/functor/cpp/include/core.h``. It belongs to a later stage
        (a compiler), hence the hook.
    """
    global _prober  # noqa: PLW0603 - one hook for the process.
    _prober = prober


@functools.cache
def headers() -> Mapping[str, str]:
    """Return the texts of numjit's own headers by file name."""
    folder = pathlib.Path(__file__).parent / "include"
    return {name: (folder / name).read_text(encoding="utf-8") for name in HEADERS}


class Slot(NamedTuple):
    """What one C++ parameter is for.

    Attributes
    ----------
    type
        As declared.
    is_output
        Whether `position` counts outputs, not arguments.
    position
        Which argument (operands, then scalars, then the element's number) or output.
    """

    type: CppType
    is_output: bool
    position: int


class CppFunctor:
    """A function of one element written in CUDA C++.

    Parameters
    ----------
    text
        C++ source: the functor and whatever it needs.
    entry
        Name of the functor in the text; the last function defined by default.
    outputs
        How many results it has, checked against the text.
    scalars
        Parameters that are bound by name, each with its default (`MISSING` for none).
    preamble
        More C++ in front of the text.
    options
        Extra options for the device compiler.

    Attributes
    ----------
    kind
        ``"c++"``.
    name
        The entry's name.
    signature
        Operands, scalars and outputs. Operands without a name are called ``operand0``, ...
    uses_index
        Whether a parameter is declared ``numjit::index``.
    ignores_return
        Whether no result is what it returns.
    edits
        For each of `units` (start, stop, replacement) to make in its text before it is compiled.

    Raises
    ------
    FunctorError
        Text that cannot be read (with line and column), a scalar or an entry that it lacks, a number of
        outputs that is not `outputs`.
    ArgumentError
        A scalar default that is no number.
    """

    kind: Final = "c++"
    edits: tuple[tuple[tuple[int, int, str], ...], ...]
    #: Whether a text with `stated_outputs` parameters declared T& has its results there alone, whatever it
    #: returns (numjit/jiterator.py).
    by_reference = False
    #: Generated C++ that follows the text; a derived functor's own function (numjit/functor/cpp/derived.py).
    wrapper = ""

    def __init__(
        self,
        text: str,
        *,
        entry: str | None = None,
        outputs: int | None = None,
        scalars: Mapping[str, Any] | None = None,
        preamble: str = "",
        options: Sequence[str] = (),
    ) -> None:
        for given in (text, preamble):
            if not isinstance(given, str):
                raise FunctorError(
                    f"a C++ functor is a string, not {type(given).__name__}; pass its source text"
                )
        # What editors of other systems put in front of a file.
        self.text = text.removeprefix("\ufeff")
        self.entry = entry
        self.stated_outputs = outputs
        self.scalars: dict[str, Any] = dict(scalars or {})
        self.preamble = preamble.removeprefix("\ufeff")
        self.options = tuple(options)
        self._read()

    def _read(self) -> None:
        try:
            self._read_texts()
        except RecursionError:
            raise FunctorError(
                "C++ functor: its text nests templates, namespaces, types or macros deeper than can be read; "
                "write it flatter"
            ) from None

    def _read_texts(self) -> None:
        _check_characters(self.preamble)
        _check_characters(self.text)
        # Who writes functors in Python alone does without these modules.
        from numjit.functor.cpp.refused import check_calls, check_is_function

        check_is_function(Source(self.text))
        before = read_unit(Source(self.preamble, "preamble of a C++ functor")) if self.preamble else None
        unit = read_unit(Source(self.text), before)
        function = choose_entry(unit, self.entry)
        self.name = function.name
        self.qualified = function.qualified
        self.overloads = sum(f.qualified == function.qualified for f in unit.functions)
        self.units: tuple[Unit, ...] = (before, unit) if before else (unit,)
        check_calls(self.units)
        self._read_template(unit.source, function)
        self._read_signature(unit, function)
        self._check_outputs(unit, function)
        self._return_codes: dict[Any, int] = {}
        self._fingerprint = self._included = ""

    def _check_outputs(self, unit: Unit, function: Function) -> None:
        """Refuse to read an output that the functor has not set: no array's contents are in it."""
        if not any(slot.is_output for slot in self.slots):
            return
        from numjit.functor.cpp.flow import first_unset_read
        from numjit.functor.cpp.macros import expand_calls

        read = self._read_parameters(unit.source, unit.aliases, function)
        names = [name for declared, name in read if declared.is_output]
        body = expand_calls(unit.source, function.body, unit.preprocessed)
        known = [f for part in self.units for f in part.functions]
        unset = first_unset_read(body, names, known)
        if unset is not None:
            unit.source.fail(
                unset.token.offset,
                f"output {unset.name!r} is read before it is set, and holds nothing then, with out= neither; "
                f"set it first, or take the old value as an operand ('T old_{unset.name}') and pass that "
                "array as out= too",
            )

    def _drop_return(self, function: Function) -> None:
        """Have the return value ignored; a body that may end without one gets one."""
        self.ignores_return = True
        if not self.returns.deduced:
            end = function.body[-1].offset
            self.edits = (*((),) * (len(self.units) - 1), ((end, end, " return {}; "),))

    def _fail(self, message: str) -> FunctorError:
        return FunctorError(f"functor {self.name!r}: {message}")

    def _read_template(self, source: Source, function: Function) -> None:
        """Keep the type parameters, those with a default apart."""
        self.is_template = function.template is not None
        self.variables: tuple[str, ...] = ()
        self.variable_defaults: dict[str, tuple[Token, ...]] = {}
        skipped = None
        for parameter in function.template or ():
            if not parameter.is_type or (not parameter.name and parameter.default is not None):
                if parameter.default is None:
                    source.fail(
                        parameter.token.offset,
                        "numjit chooses types only; give this template parameter a default or use a constant",
                    )
                skipped = parameter
                continue
            if skipped is not None:
                source.fail(skipped.token.offset, "put this template parameter after the types")
            if not parameter.name:
                source.fail(parameter.token.offset, "give this template parameter a name")
            self.variables += (parameter.name,)
            if parameter.default is not None:
                self.variable_defaults[parameter.name] = parameter.default

    def _read_signature(self, unit: Unit, function: Function) -> None:
        source, aliases = unit.source, unit.aliases
        if not function.returns:
            source.fail(function.token.offset, "a function needs a return type; write it before the name")
        returns = read_type(source, function.returns, self.variables, aliases)
        results: list[CppType] = [] if returns.is_void else [returns]
        self.returns = returns
        self.ignores_return = returns.is_void
        self.edits = ((),) * len(self.units)
        operands: list[Parameter] = []
        scalars: list[Parameter] = []
        read = self._read_parameters(source, aliases, function)
        taken = {name for _, name in read}
        for raw, (declared, name) in zip(function.parameters, read, strict=True):
            if declared.is_output:
                if declared.is_raw or declared.is_index:
                    source.fail(
                        raw.tokens[0].offset, f"'{declared.spelling}&' cannot be a result; pass it by value"
                    )
                results.append(declared)
                continue
            if declared.is_index:
                if name in self.scalars:
                    raise self._fail(
                        f"{name!r} is the element's index, so it can be no scalar; rename one of them"
                    )
                continue
            if declared.is_raw and name in self.scalars:
                raise self._fail(f"{name!r} is a raw operand, so it can be no scalar; rename one of them")
            made = Parameter(
                name or _free(f"operand{len(operands)}", taken),
                declared.dtype,
                declared.variable,
                MISSING if declared.is_raw else _literal(raw.default),
                declared.is_raw,
            )
            if name in self.scalars:
                scalars.append(made._replace(default=self._scalar_default(name)))
            else:
                operands.append(made)
        if self.by_reference and not returns.is_void and len(results) - 1 == self.stated_outputs:
            del results[0]
            self._drop_return(function)
        inputs = [name for declared, name in read if not declared.is_output and not declared.is_index]
        self._check(results, inputs, returns)
        self.signature = Signature(
            self.name,
            tuple(operands),
            tuple(scalars),
            tuple(
                Output(None if r.is_complex else r.dtype, None if r.is_complex else r.variable)
                for r in results
            ),
        )
        self.result_types = tuple(results)
        self._place(read)

    def _read_parameters(
        self, source: Source, aliases: Mapping[str, tuple[Token, ...]], function: Function
    ) -> list[tuple[CppType, str]]:
        read: list[tuple[CppType, str]] = []
        for raw in function.parameters:
            declared, name = read_parameter(source, raw.tokens, self.variables, aliases, function.token)
            if name and any(name == other for _, other in read):
                source.fail(raw.tokens[-1].offset, f"two parameters are called {name!r}; rename one")
            read.append((declared, name))
        return read

    def _check(self, results: Sequence[CppType], names: Sequence[str], returns: CppType) -> None:
        unknown = [name for name in self.scalars if name not in names]
        if unknown:
            known = ", ".join(filter(None, names)) or "none"
            raise self._fail(
                f"scalar {unknown[0]!r} is no parameter of it (its inputs: {known}); "
                "rename it or add the parameter"
            )
        if self.stated_outputs is not None and self.stated_outputs < 1:
            raise self._fail(
                f"outputs={self.stated_outputs}, but a functor has at least one; leave it out or correct it"
            )
        if self.stated_outputs is not None and self.stated_outputs != len(results):
            raise self._fail(
                f"outputs={self.stated_outputs}, but the text has {len(results)} (its return value and every "
                "parameter declared T&); correct one of them"
            )
        if not results:
            raise self._fail(
                "it returns void and has no parameter declared T&; return a value or add T& outputs"
            )
        if returns.is_output and not returns.is_void:
            raise self._fail("it returns a reference; return the value itself")
        if returns.is_raw:
            raise self._fail(f"it returns {returns.spelling!r}; return an element of it")

    def _scalar_default(self, name: str) -> Any:
        value = self.scalars[name]
        if value is MISSING or isinstance(value, numbers.Number) or type(value).__module__ == "numpy":
            return value
        raise ArgumentError(
            f"functor {self.name!r}: the default of scalar {name!r} is {value!r}, which is no number; give a "
            "bool, an int, a float or a complex"
        )

    def _place(self, read: Sequence[tuple[CppType, str]]) -> None:
        """Say for every C++ parameter which argument or output it is."""
        slots: list[Slot] = []
        operand, scalar, output = 0, len(self.signature.operands), int(not self.ignores_return)
        for declared, name in read:
            if declared.is_output:
                slots.append(Slot(declared, True, output))
                output += 1
            elif declared.is_index:
                slots.append(
                    Slot(declared, False, len(self.signature.operands) + len(self.signature.scalars))
                )
            elif name in self.scalars:
                slots.append(Slot(declared, False, scalar))
                scalar += 1
            else:
                slots.append(Slot(declared, False, operand))
                operand += 1
        self.slots = tuple(slots)
        self.uses_index = any(slot.type.is_index for slot in slots)
        inputs = [slot for slot in slots if not slot.is_output and not slot.type.is_index]
        self.argument_types = tuple(slot.type for slot in sorted(inputs, key=lambda slot: slot.position))

    @property
    def stated_variables(self) -> tuple[str, ...]:
        """The template parameters that a call names; the others keep their defaults."""
        used = {kind.variable for kind in (*self.argument_types, *self.result_types)}
        return tuple(v for v in self.variables if v not in self.variable_defaults or v in used)

    def __repr__(self) -> str:
        return f"<C++ functor {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        given = {
            "entry": self.entry,
            "outputs": self.stated_outputs,
            "scalars": self.scalars,
            "preamble": self.preamble,
            "options": self.options,
        }
        return _rebuild, (self.text, given)

    def fingerprint(self) -> str:
        """Return 64 hexadecimal digits over everything of the functor that the generated code depends on.

        The contents of files that it includes are read when this is first asked. numjit's own headers are
        among its files, which every key on disk goes by.
        """
        if self._fingerprint:
            return self._fingerprint
        self._included = self._included_now()
        parts = [
            "numjit c++ functor",
            _GENERATION,
            self.text,
            self.preamble,
            self.entry,
            self.stated_outputs,
            list(self.scalars),
            list(self.options),
            self._included,
        ]
        self._fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return self._fingerprint

    def _included_now(self) -> str:
        from numjit.functor.cpp.includes import included_digest

        return included_digest((self.preamble, self.text), self.options, standard_headers)

    def is_current(self) -> bool:
        """Return whether the files that the text includes are still those of the fingerprint.

        What was compiled of others must not be kept under it.
        """
        return not self._fingerprint or self._included == self._included_now()

    def require_current(self) -> None:
        """Refuse to compile beside what was compiled of other contents of the included files.

        Raises
        ------
        FunctorError
            A file that the text includes was changed since the functor was made.
        """
        if not self.is_current():
            raise self._fail("a file that it includes was changed since it was made; make the functor anew")

    def specialise(self, arguments: tuple[ArgumentType, ...], default_dtype: DType) -> Specialisation:
        """Decide the dtype of every input and output of one call.

        Each template parameter takes torch's common dtype of all arguments declared with it, numbers and
        scalars included; one that only results are declared with takes that of all operands. Concrete
        types stay out of it. A number keeps the precision of the compute type (float32 beside float16).
        A functor that returns ``auto`` has the type that a compiler deduces (C++'s own rules: int8 + int8
        is int32); where that is the compute type of a narrower template parameter, the parameter's dtype.

        Parameters
        ----------
        arguments
            Operands in signature order, then scalars in signature order.
        default_dtype
            ``torch.get_default_dtype()``.

        Raises
        ------
        ArgumentError
            Not as many arguments as parameters.
        PromotionError
            Arguments of one template parameter that torch has no common dtype for.
        FunctorError
            ``std::complex<T>`` where T is not real.
        """
        if len(arguments) != len(self.argument_types):
            raise ArgumentError(
                f"functor {self.name!r} takes {len(self.argument_types)} inputs, but {len(arguments)} "
                "were given; pass one argument for each"
            )
        bound = self._bind(arguments, default_dtype)
        inputs = tuple(
            self._input(declared, argument, bound)
            for declared, argument in zip(self.argument_types, arguments, strict=True)
        )
        outputs = tuple(
            self._deduced(inputs, bound) if result.deduced else self._resolve(result, bound)
            for result in self.result_types
        )
        return Specialisation(tuple(arguments), inputs, outputs, default_dtype)

    def bindings(self, specialisation: Specialisation) -> dict[str, DType]:
        """Return the dtype of each template parameter in a specialisation."""
        return self._bind(specialisation.arguments, specialisation.default_dtype)

    def _bind(self, arguments: Sequence[ArgumentType], default_dtype: DType) -> dict[str, DType]:
        bound: dict[str, DType] = {}
        for variable in self.variables:
            declared = [
                _part(argument) if kind.is_complex else argument
                for kind, argument in zip(self.argument_types, arguments, strict=True)
                if kind.variable == variable
            ]
            needs_real = any(
                kind.is_complex
                for kind in (*self.argument_types, *self.result_types)
                if kind.variable == variable
            )
            if not declared:
                if variable in self.variable_defaults:
                    bound[variable] = self._variable_default(variable, bound)
                    continue
                raws = self.signature.raws
                operands = [
                    a for k, a in enumerate(arguments[: len(self.signature.operands)]) if k not in raws
                ]
                operands = operands or list(arguments)
                declared = [_part(a) for a in operands] if needs_real else operands
            found = result_type(declared, default_dtype) if declared else default_dtype
            if needs_real and not found.is_complex and not found.is_floating:
                found = default_dtype
            bound[variable] = found
        return bound

    def _variable_default(self, variable: str, bound: Mapping[str, DType]) -> DType:
        unit = self.units[-1]
        kind = read_type(unit.source, self.variable_defaults[variable], self.variables, unit.aliases)
        if kind.deduced or kind.is_void or (kind.variable is not None and kind.variable not in bound):
            raise self._fail(
                f"the default of template parameter {variable!r} is no type that numjit can read; "
                "use a number type"
            )
        return self._resolve(kind, bound)

    def _resolve(self, kind: CppType, bound: Mapping[str, DType]) -> DType:
        if kind.variable is None:
            assert kind.dtype is not None
            return kind.dtype
        dtype = bound[kind.variable]
        if not kind.is_complex:
            return dtype
        made = complex_of(dtype)
        if made is None:
            raise self._fail(
                f"{kind.spelling!r} with {kind.variable} = {dtype} is no type; "
                f"declare it {kind.variable} where the operands are complex"
            )
        return made

    def _input(self, kind: CppType, argument: ArgumentType, bound: Mapping[str, DType]) -> DType:
        dtype = self._resolve(kind, bound)
        return dtype.compute if argument.category == Category.NUMBER else dtype

    def _deduced(self, inputs: tuple[DType, ...], bound: Mapping[str, DType]) -> DType:
        key = (inputs, tuple(bound.items()))
        code = self._return_codes.get(key)
        if code is None:
            if _prober is None:
                raise self._fail(
                    f"its return type {self.returns.spelling!r} takes a compiler to know; "
                    "write the type, such as T"
                )
            code = self._return_codes[key] = _prober(self, inputs, bound)
        kind = {1: "bool", 2: "int", 3: "uint", 4: "float", 5: "complex"}.get(code // 100)
        if kind is None:
            raise self._fail(
                f"it returns a type that numjit has no dtype for ({self.returns.spelling!r}); "
                "convert it to a number"
            )
        dtype = dtypes.bool_ if kind == "bool" else dtypes.from_name(f"{kind}{code % 100 * 8}")
        for variable in bound.values():
            if variable is not dtype and variable.compute is dtype:
                return variable
        return dtype


def _rebuild(text: str, given: dict[str, Any]) -> CppFunctor:
    return CppFunctor(text, **given)


def _free(name: str, taken: set[str]) -> str:
    """Return a name that no parameter has yet."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _check_characters(text: str) -> None:
    """Refuse what compilers take for the end of a text, or cannot be handed."""
    if text.isascii() and "\0" not in text:
        return
    for k, character in enumerate(text):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            Source(text.replace("\0", " ")).fail(k, f"the character {character!r} is no text; take it out")


def _part(argument: ArgumentType) -> ArgumentType:
    """Return the type of one part of a complex argument; a real one is its own."""
    return argument._replace(dtype=argument.dtype.real)


def _literal(tokens: tuple[Token, ...] | None) -> Any:
    """Return the value of a C++ default argument that is a plain number, else `MISSING`."""
    if tokens is None:
        return MISSING
    words = [token.text for token in tokens]
    if len(words) > 3 and words[1] in {"(", "{"} and words[-1] in {")", "}"} and tokens[0].kind == "name":
        words = words[2:-1]
    sign = 1
    while words and words[0] in {"-", "+"}:
        sign = -sign if words[0] == "-" else sign
        words = words[1:]
    if words in (["true"], ["false"]):
        return words == ["true"]
    if len(words) != 1:
        return MISSING
    text = words[0].replace("'", "").lower()
    try:
        if text.startswith("0x"):
            return sign * (float.fromhex(text.rstrip("fl")) if "p" in text else int(text.rstrip("ul"), 16))
        digits = text.rstrip("ul")
        if digits.isdigit():
            return sign * int(digits, 8 if digits.startswith("0") and digits != "0" else 10)
        return sign * float(text.rstrip("fl"))
    except ValueError:
        return MISSING
