"""Generates the C++ programs around a functor's text: the device seam, and what the host shares."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Final

from numjit.dtypes import DType, int64
from numjit.functor.cpp.functor import CppFunctor, headers, standard_headers
from numjit.functor.cpp.raw import RAW_MEMORY, cpp_type, raw_class, raw_loads
from numjit.functor.cpp.reader import Unit
from numjit.functor.cpp.tokens import Directive, Token, read_directive, tokenize
from numjit.functor.cpp.types import CppType
from numjit.functor.signature import Specialisation

__all__ = ["call_lines", "cpp_type", "device_source", "probe_source", "seam_parameters", "standard_headers"]

#: What the user's text is called in #line directives; compilers' messages repeat it.
USER_FILE: Final = "functor"
PREAMBLE_FILE: Final = "preamble"
#: What generated text is called: messages that point there show no source.
SEAM_FILE: Final = "numjit/seam"

_NAMESPACE: Final = "numjit_user"
#: Functions of the standard library whose derivative is one of numjit's own functions.
_OF_OWN_SLOPE: Final = frozenset({"lgamma", "lgammaf", "tgamma", "tgammaf"})
_COMPLEX_NAMES: Final = frozenset({"complex", "polar", "conj", "proj", "arg", "norm", "real", "imag"})


def library_headers(functor: CppFunctor, dtypes: Sequence[DType], *, host: bool) -> list[str]:
    """Return the names of numjit's headers that a program needs, in order.

    The complex one costs NVRTC 15 ms, so programs without complex numbers do without.
    """
    chosen = ["library.h" if host else "device.h", "core.h"]
    if host or uses_values(functor) or (functor.wrapper and not _OF_OWN_SLOPE.isdisjoint(_words(functor))):
        chosen.append("values.h")
    if uses_complex(functor, dtypes):
        chosen += ["complex.h", "complex_values.h"]
    if host:
        chosen.append("host.h")
    if functor.wrapper:
        chosen += ["dual.h", "dual_rules.h"]
        if "complex.h" in chosen:
            chosen.append("dual_complex.h")
    return chosen


def uses_complex(functor: CppFunctor, dtypes: Sequence[DType]) -> bool:
    """Whether the program needs the complex header: a complex dtype, or the text names one of its names."""
    if any(dtype.is_complex for dtype in dtypes):
        return True
    for unit in functor.units:
        for token in tokenize(unit.source):
            if token.kind == "name" and token.text in _COMPLEX_NAMES:
                return True
            if token.kind == "directive":
                words = {part.text for part in read_directive(unit.source, token).tokens}
                if words & _COMPLEX_NAMES:
                    return True
    return False


def uses_values(functor: CppFunctor) -> bool:
    """Whether a program for the GPU needs the header of values: its text names a function of it, or may."""
    if not _shows_what_it_names(functor):
        return True
    words = _words(functor)
    return "numjit" in words and not words.isdisjoint(_vocabulary(("values.h",)))


def header_text(names: Sequence[str]) -> str:
    """Return numjit's headers under `#line` directives of their own."""
    return "".join(f'#line 1 "numjit/{name}"\n{headers()[name].rstrip()}\n' for name in names)


_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_SPLICE: Final = re.compile(r"\\[ \t]*\r?\n")
#: The headers that have parts.
_STRIPPED: Final = frozenset({"device.h", "core.h", "values.h", "complex.h", "complex_values.h"})
#: Lines of a header for programs that use one of the words.
_PART: Final = re.compile(r"^//@ ([\w ]+)\n(.*?)^//@$", re.MULTILINE | re.DOTALL)
#: What a header has for one function: a line, or a call of a macro.
_FUNCTION: Final = re.compile(
    r"^(?:NUMJIT_(?:UNARY|BINARY|TEST)\((\w+)\)|using ::(\w+);)$|\bDO\((\w+)\)", re.MULTILINE
)


def used_text(functor: CppFunctor, names: Sequence[str]) -> str:
    """Return numjit's headers for NVRTC without the parts that a functor has no use for.

    A functor that may name what its text does not show, by pasting tokens, by headers or by options of the
    compiler, gets everything, and so does one that takes more headers than those that have parts.
    """
    if not _STRIPPED.issuperset(names) or functor.signature.raws or not _shows_what_it_names(functor):
        return header_text(names)
    return _used_text(tuple(names), frozenset(_words(functor) & _vocabulary(tuple(names))))


def _texts(functor: CppFunctor) -> list[str]:
    return [_SPLICE.sub("", unit.source.text) for unit in functor.units]


def _words(functor: CppFunctor) -> set[str]:
    return {word for text in _texts(functor) for word in _WORD.findall(text)}


def _shows_what_it_names(functor: CppFunctor) -> bool:
    return not (
        functor.options
        or include_names(functor)
        or any("##" in text or "%:" in text or "numjit_" in text for text in _texts(functor))
    )


@functools.cache
def _vocabulary(names: tuple[str, ...]) -> frozenset[str]:
    """Return the words that parts of the headers depend on."""
    text = header_text(names)
    parts = (word for match in _PART.finditer(text) for word in match[1].split())
    return _functions(text) | frozenset(parts)


def _functions(text: str) -> frozenset[str]:
    return frozenset(match[match.lastindex or 0] for match in _FUNCTION.finditer(text))


@functools.lru_cache(maxsize=256)
def _used_text(names: tuple[str, ...], words: frozenset[str]) -> str:
    text = header_text(names)
    used = words & _functions(text)
    kept = words | {"math"} if used or len(names) > 2 else words

    def part(match: re.Match[str]) -> str:
        if kept.isdisjoint(match[1].split()):
            return "\n" * match[0].count("\n")  # what follows stays on its lines
        return match[0]

    def function(match: re.Match[str]) -> str:
        name = match[match.lastindex or 0]
        return match[0] if name in used or name.endswith("_t") else ""

    return _FUNCTION.sub(function, _PART.sub(part, text))


def user_text(functor: CppFunctor, edits: Mapping[str, Sequence[tuple[int, int, str]]] | None = None) -> str:
    """Return the user's text in its namespace, standing on its own lines.

    An ``#include`` closes the namespaces around it, so that a header's names land where they belong;
    headers of the standard library are dropped, since their names are there. At the end the text's
    macros are undone, so that none can meet generated text.

    Parameters
    ----------
    functor
        Whose text and preamble.
    edits
        By file name (`USER_FILE`, `PREAMBLE_FILE`): (start, stop, replacement) to make in the text; they
        must not overlap and keep the number of lines.
    """
    parts: list[str] = []
    for unit, own in zip(functor.units, functor.edits, strict=True):
        file = PREAMBLE_FILE if unit is not functor.units[-1] else USER_FILE
        changes = [*_hoists(unit, file), *(edits or {}).get(file, ()), *own]
        parts.append(
            f'{_open(file, 1)}{_replace(unit.source.text, changes)}\n#line 1 "{SEAM_FILE}"\n{_CLOSE}\n'
        )
    parts.extend(f"#undef {name}\n" for unit in functor.units for name in unit.preprocessed.defined)
    if functor.wrapper:
        parts.append(f'#line 1 "{SEAM_FILE}"\n{functor.wrapper}')
    return "".join(parts)


_CLOSE: Final = "}}"


def _open(file: str, line: int) -> str:
    return (
        f'#line 1 "{SEAM_FILE}"\nnamespace numjit_scope {{ namespace {_NAMESPACE} {{\n#line {line} "{file}"\n'
    )


def _replace(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    for start, stop, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[stop:]
    return text


def _hoists(unit: Unit, file: str) -> list[tuple[int, int, str]]:
    """Return the replacement of every ``#include`` that no brace encloses."""
    changes: list[tuple[int, int, str]] = []
    depth = 0
    for token in tokenize(unit.source):
        if token.kind == "punct":
            depth += (token.text == "{") - (token.text == "}")
        if token.kind != "directive":
            continue
        directive = read_directive(unit.source, token)
        header = directive.header
        if header is None:
            continue
        stop = token.offset + len(token.text)
        if header in standard_headers:
            changes.append((token.offset, stop, "\n" * token.text.count("\n")))
        elif depth == 0:
            line = unit.source.position(token.offset)[0]
            after = line + 1 + token.text.count("\n")
            outside = (
                f'#line 1 "{SEAM_FILE}"\n{_CLOSE}\n#line {line} "{file}"\n{token.text}\n{_open(file, after)}'
            )
            # The directive's own line end is kept; the #line before it names the line after.
            changes.append((token.offset, stop + 1, outside))
    return changes


def include_names(functor: CppFunctor) -> list[str]:
    """Return the headers that the text includes, numjit's own stand-ins for the standard ones left out."""
    found: list[str] = []
    for unit in functor.units:
        for token in tokenize(unit.source):
            if token.kind == "directive":
                header = read_directive(unit.source, token).header
                if header is not None and header not in standard_headers:
                    found.append(header)
    return found


def directives(unit: Unit) -> list[tuple[Token, Directive]]:
    """Return the preprocessor lines of a text, each taken apart."""
    return [(t, read_directive(unit.source, t)) for t in tokenize(unit.source) if t.kind == "directive"]


def bound_texts(bound: Mapping[str, DType]) -> dict[str, str]:
    """Return C++ for what each template parameter stands for."""
    return {variable: cpp_type(dtype) for variable, dtype in bound.items()}


def bound_type(kind: CppType, bound: Mapping[str, str]) -> str:
    """Return C++ for a declared type, template parameters replaced."""
    if kind.is_index:
        return "long long"
    if kind.is_raw:
        element = kind._replace(is_raw=False, spelling=kind.spelling.partition("<")[2][:-1].strip())
        return f"::numjit_scope::numjit::raw<{bound_type(element, bound)}>"
    if kind.variable is None:
        return f"::numjit_scope::{_NAMESPACE}::{kind.spelling}" if kind.dtype is None else kind.spelling
    inner = bound[kind.variable]
    return f"::numjit_complex::complex<{inner}>" if kind.is_complex else inner


def callee(functor: CppFunctor, bound: Mapping[str, str]) -> str:
    """Return C++ that names the entry at its template arguments, the last of several overloads."""
    name = f"::numjit_scope::{_NAMESPACE}::{functor.qualified}"
    if functor.is_template:
        name += f"<{', '.join(bound[v] for v in functor.stated_variables)}>"
    if functor.overloads < 2 or functor.returns.deduced:
        return name
    # Types by the user's own spelling are looked up where the user wrote them.
    parameters = ", ".join(
        ("const " if slot.type.is_const and slot.type.reference else "")
        + bound_type(slot.type, bound)
        + ("&" if slot.type.reference else "")
        for slot in functor.slots
    )
    returned = "void" if functor.returns.is_void else bound_type(functor.returns, bound)
    return f"static_cast<{returned} (*)({parameters})>(&{name})"


def call_lines(
    functor: CppFunctor, specialisation: Specialisation, inputs: Sequence[str], outputs: Sequence[str]
) -> list[str]:
    """Return C++ statements that declare every output variable and fill it by one call of the functor.

    Parameters
    ----------
    functor, specialisation
        What to call, at which types.
    inputs
        C++ expressions, one per argument, of type ``cpp_type(specialisation.inputs[i])``; of a raw operand
        its address and size with a comma between; at the end the element's number, if the functor takes it.
    outputs
        Names to declare, of type ``cpp_type(specialisation.outputs[j])``.
    """
    bound = bound_texts(functor.bindings(specialisation))
    loads = {k: number for number, k in enumerate(raw_loads(functor, specialisation))}
    lines: list[str] = []
    received: dict[int, str] = {}
    arguments: list[str] = []
    for slot in functor.slots:
        if slot.is_output:
            received[slot.position] = f"numjit_received{slot.position}"
            kind = (
                cpp_type(specialisation.outputs[slot.position])
                if slot.type.deduced
                else bound_type(slot.type, bound)
            )
            lines.append(f"{kind} {received[slot.position]}{{}};")
            arguments.append(received[slot.position])
        elif slot.type.is_raw:
            arguments.append(f"{RAW_MEMORY}{{{inputs[slot.position]}, {loads[slot.position]}}}")
        elif slot.type.reference:
            # A reference to const binds to a variable of the declared type.
            kept = f"numjit_kept{slot.position}"
            lines.append(f"const {bound_type(slot.type, bound)} {kept} = {inputs[slot.position]};")
            arguments.append(kept)
        else:
            arguments.append(inputs[slot.position])
    call = f"{callee(functor, bound)}({', '.join(arguments)})"
    for index, (name, dtype) in enumerate(zip(outputs, specialisation.outputs, strict=True)):
        if index == 0 and not functor.ignores_return:
            lines.append(f"const {cpp_type(dtype)} {name} = {call};")
    if functor.ignores_return:
        lines.append(f"{call};")
    for index, (name, dtype) in enumerate(zip(outputs, specialisation.outputs, strict=True)):
        if index in received:
            lines.append(f"const {cpp_type(dtype)} {name} = {received[index]};")
    return lines


def _seam_type(dtype: DType) -> str:
    compute = dtype.compute
    if compute.kind == "b":
        return "unsigned char"
    return cpp_type(compute.real)


def seam_inputs(functor: CppFunctor, specialisation: Specialisation, *, arrays: bool = False) -> list[str]:
    """Return the seam's parameters by value: complex ones as two reals, raw ones as address and size.

    With `arrays` a raw operand is a one-dimensional array of Numba's, field by field.
    """
    declared = []
    for i, dtype in enumerate(specialisation.inputs):
        is_raw = i in functor.signature.raws
        if is_raw and arrays:
            declared += ["void*", "void*", f"long long numjit_j{i}", "long long", f"long long numjit_i{i}"]
            declared += ["long long", "long long"]
            continue
        kind = "long long" if is_raw else _seam_type(dtype)
        names = (f"numjit_i{i}", f"numjit_j{i}") if is_raw or dtype.is_complex else (f"numjit_i{i}",)
        declared.extend(f"{kind} {name}" for name in names)
    return [*declared, "long long numjit_index"] if functor.uses_index else declared


def seam_parameters(functor: CppFunctor, specialisation: Specialisation) -> list[str]:
    """Return the parameters of the seam: output pointers, then the inputs by value."""
    declared = [f"{_seam_type(dtype)}* numjit_o{j}" for j, dtype in enumerate(specialisation.outputs)]
    return [*declared, *seam_inputs(functor, specialisation)]


def storage_text(functor: CppFunctor, specialisation: Specialisation, chosen: Sequence[str]) -> str:
    """Return the headers that read stored elements, with ``numjit::raw`` where the functor needs it."""
    define = "#define NUMJIT_WITH_COMPLEX\n" if "complex.h" in chosen else ""
    loads = list(raw_loads(functor, specialisation).values())
    own = f'#line 1 "numjit/raw"{raw_class(loads)}' if loads else ""
    return f"{define}{header_text(['storage.h'])}{own}"


def seam_dtypes(functor: CppFunctor, specialisation: Specialisation) -> list[DType]:
    """Return every dtype that the generated program names."""
    stored = [load.stored for load in raw_loads(functor, specialisation).values()]
    bound = functor.bindings(specialisation).values()
    return [*specialisation.inputs, *specialisation.outputs, *bound, *stored]


def device_source(
    functor: CppFunctor,
    specialisation: Specialisation,
    symbol: str,
    *,
    for_kernels: bool = False,
    whole: bool = False,
) -> str:
    """Return the CUDA C++ program whose one symbol is the functor's seam.

    Parameters
    ----------
    functor, specialisation
        What to compile, at which types.
    symbol
        Name of the ``extern "C" __device__ int`` function; it takes pointers to the outputs, then the
        inputs by value, each in its compute type (complex as two reals, bool as unsigned char).
    for_kernels
        Follow numba-cuda's calling convention instead: one pointer to all outputs, raw operands as arrays.
        No name but `symbol` can then meet one of another functor that is linked to the same kernel.
    whole
        Leave nothing out of numjit's headers.
    """
    inputs: list[str] = []
    for i, dtype in enumerate(specialisation.inputs):
        if i in functor.signature.raws:
            inputs.append(f"numjit_i{i}, numjit_j{i}")
        elif dtype.is_complex:
            inputs.append(f"{cpp_type(dtype)}(numjit_i{i}, numjit_j{i})")
        elif dtype.kind == "b":
            inputs.append(f"(numjit_i{i} != 0)")
        else:
            inputs.append(f"numjit_i{i}")
    inputs.append("numjit_index")
    outputs = [f"numjit_r{j}" for j in range(len(specialisation.outputs))]
    parameters = seam_parameters(functor, specialisation)
    results = own = ""
    lines: list[str] = []
    if for_kernels:
        fields = "".join(
            f"  {_seam_type(dtype)} m{j}[{2 if dtype.is_complex else 1}];\n"
            for j, dtype in enumerate(specialisation.outputs)
        )
        own = f"#define numjit_scope numjit_scope_{symbol}\n"
        results = f"namespace {{ struct numjit_results {{\n{fields}}}; }}\n"
        parameters = ["numjit_results* numjit_out", *seam_inputs(functor, specialisation, arrays=True)]
        lines = [
            f"{_seam_type(dtype)}* numjit_o{j} = numjit_out->m{j};"
            for j, dtype in enumerate(specialisation.outputs)
        ]
    lines += call_lines(functor, specialisation, inputs, outputs)
    for j, dtype in enumerate(specialisation.outputs):
        if dtype.is_complex:
            lines.append(f"numjit_o{j}[0] = numjit_r{j}.real();")
            lines.append(f"numjit_o{j}[1] = numjit_r{j}.imag();")
        else:
            lines.append(f"*numjit_o{j} = numjit_r{j};")
    body = "".join(f"  {line}\n" for line in lines)
    chosen = library_headers(functor, seam_dtypes(functor, specialisation), host=False)
    storage = storage_text(functor, specialisation, chosen) if functor.signature.raws else ""
    library = header_text(chosen) if whole else used_text(functor, chosen)
    return (
        f"{own}{library}{storage}{user_text(functor)}{results}"
        f'extern "C" __device__ int {symbol}({", ".join(parameters)}) {{\n{body}  return 0;\n}}\n'
    )


def probe_source(
    functor: CppFunctor,
    inputs: Sequence[DType],
    bound: Mapping[str, DType],
    *,
    host: bool = False,
    text: str | None = None,
) -> str:
    """Return a program whose constant ``numjit_code`` tells which type the functor returns.

    Parameters
    ----------
    functor
        One whose return type only a compiler can deduce.
    inputs
        The dtype of each argument.
    bound
        The dtype of each template parameter.
    host
        Whether for the host's compiler, else for NVRTC.
    text
        The functor's text as that compiler reads it; `user_text` by default.
    """
    chosen = library_headers(functor, (*inputs, *bound.values()), host=host)
    texts = bound_texts(bound)
    arguments = []
    # Which element a raw operand holds does not matter to types.
    raws = raw_class([]) if functor.signature.raws else ""
    for slot in functor.slots:
        if slot.type.is_raw:
            arguments.append(f"::numjit_standard::declval<{RAW_MEMORY}>()")
            continue
        kind = bound_type(slot.type, texts) if slot.is_output else cpp_type((*inputs, int64)[slot.position])
        arguments.append(f"::numjit_standard::declval<{kind}{'&' if slot.is_output else ''}>()")
    asked = f"decltype({callee(functor, texts)}({', '.join(arguments)}))"
    code = f"::numjit_standard::numjit_code<::numjit_standard::remove_cv_t<{asked}>>::value"
    device = "" if host else "__device__ "
    return (
        f"{header_text(chosen)}{raws}{user_text(functor) if text is None else text}"
        f'extern "C" {{ extern {device}int numjit_code; {device}int numjit_code = 1000 + {code}; }}\n'
    )
