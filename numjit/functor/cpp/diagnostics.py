"""Turns what a C++ compiler says of a generated program into a short message about the user's own lines."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from numjit.ground.apart import called_from

__all__ = ["Diagnostic", "describe", "line_of", "parse_edg", "parse_gnu", "pass_on"]

_SHOWN: Final = 3
_WIDTH: Final = 300
_OWN: Final = "numjit/"


def _foreign(file: str) -> bool:
    """Whether a file is one of numjit's or of a library, not the user's text."""
    return "/" in file or file.startswith("<")


Severity = Literal["error", "warning"]


class Diagnostic(NamedTuple):
    """One error or warning of a compiler.

    Attributes
    ----------
    file
        As the program's ``#line`` directives call it.
    line
        From 1, 0 where the compiler names none.
    column
        From 1, 0 where the compiler names none.
    message
        The compiler's, on one line.
    """

    file: str
    line: int
    column: int
    message: str


_EDG: Final = re.compile(
    r"^(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?:catastrophic )?(?P<kind>error|warning)(?: #[\w-]+)?: "
    r"(?P<message>.*)$"
)
_EDG_CONTEXT: Final = re.compile(r"at line (?P<line>\d+)(?: of (?P<file>\S+))?\s*$")
_EDG_NO_MATCH: Final = re.compile(
    r"(?:no instance of (?:overloaded function|function template)|more than one instance of overloaded "
    r"function)"
    r' "(?P<name>[^"]+)"'
)
_EDG_ANY: Final = re.compile(r"^[^\s(][^(]*\(\d+\): (?:catastrophic )?(?:error|warning|remark)")


def parse_edg(log: str, kind: Severity = "error") -> list[Diagnostic]:
    """Read the errors, or the warnings, of NVRTC's log.

    An error inside one of numjit's headers is reported where the user's text asked for it.
    """
    lines = log.splitlines()
    starts = [i for i, line in enumerate(lines) if _EDG_ANY.match(line)]
    found: list[Diagnostic] = []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        matched = _EDG.match(lines[start])
        if matched is None or matched["kind"] != kind:
            continue
        file, line = matched["file"], int(matched["line"])
        block = lines[start + 1 : stop]
        column = next((text.index("^") - 1 for text in block[:3] if text.strip() == "^"), 0)
        if _foreign(file) and kind == "error":
            contexts = [m for text in block if (m := _EDG_CONTEXT.search(text))]
            asked = next((m for m in contexts if m["file"] and not _foreign(m["file"])), None)
            if asked is not None:
                file, line, column = asked["file"], int(asked["line"]), 0
        message = matched["message"]
        named = _EDG_NO_MATCH.match(message)
        if named and any("numjit_dual::" in text for text in block):
            message = _no_derivative(named["name"])
        found.append(Diagnostic(file.strip('"'), line, max(column, 0), message))
    return found


_GNU: Final = re.compile(
    r"^(?P<file>[^:]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?(?P<kind>error|warning): "
    r"(?P<message>.*)$"
)
_GNU_DECLARED: Final = re.compile(
    r"^(?P<file>[^:]+):(?P<line>\d+):(?:(?P<column>\d+):)? note: .* declared here$"
)
_GNU_CONTEXT: Final = re.compile(
    r"^(?P<file>[^:]+):(?P<line>\d+):(?:(?P<column>\d+):)?\s+(?:required from|note: in inst)"
)


def parse_gnu(log: str, kind: Severity = "error") -> list[Diagnostic]:
    """Read the errors, or the warnings, of GCC's or Clang's log, headers' errors moved as in `parse_edg`.

    What GCC finds after inlining it reports where numjit stores the value, and then where the user
    declared it.
    """
    found: list[Diagnostic] = []
    context: re.Match[str] | None = None
    for text in log.splitlines():
        asked = _GNU_CONTEXT.match(text)
        if asked is not None and not _foreign(asked["file"]):
            if found and "note:" in asked[0] and _foreign(found[-1].file):  # Clang tells afterwards.
                found[-1] = found[-1]._replace(file=asked["file"], line=int(asked["line"]), column=0)
            elif "note:" not in asked[0]:
                context = context or asked
            continue
        matched = _GNU.match(text)
        declared = _GNU_DECLARED.match(text)
        if declared and found and _foreign(found[-1].file) and not _foreign(declared["file"]):
            at = int(declared["line"]), int(declared["column"] or 0)
            found[-1] = Diagnostic(declared["file"], *at, found[-1].message)
        if matched is None or matched["kind"] != kind:
            continue
        place = matched
        if _foreign(matched["file"]) and context is not None and kind == "error":
            place = context
        found.append(
            Diagnostic(place["file"], int(place["line"]), int(place["column"] or 0), matched["message"])
        )
        context = None
    return found


def line_of(program: str, file: str, line: int) -> str:
    """Return a line of the user's text from a program in which ``#line`` directives mark it, else ``""``."""
    at_file, at_line = "", 0
    for text in program.split("\n"):
        mark = re.match(r'#line (\d+) "(.*)"$', text)
        if mark:
            at_line, at_file = int(mark[1]), mark[2]
            continue
        if at_file == file and at_line == line:
            return text.rstrip("\r")
        at_line += 1
    return ""


def describe(
    name: str, target: str, errors: Sequence[Diagnostic], text_of: Callable[[str, int], str], log: str
) -> str:
    """Return the message of a `CompilationError`: at most a dozen lines, the user's lines with a caret.

    Parameters
    ----------
    name
        The functor's.
    target
        What it was compiled for.
    errors
        In the compiler's order; those in the user's text are preferred.
    text_of
        Returns the user's line for a file and a line number.
    log
        The compiler's whole log, for the case that no error could be read from it.
    """
    own = [error for error in errors if not _foreign(error.file)] or [
        error for error in errors if not error.file.startswith(_OWN)
    ]
    chosen = list(dict.fromkeys(own or errors))
    # What follows an error at its very place only tells more of the same.
    places = [(error.file, error.line, error.column) for error in chosen]
    chosen = [e for n, e in enumerate(chosen) if not e.column or places[n] not in places[:n]]
    parts = [f"functor {name!r} does not compile for {target}; correct its text:"]
    for error in chosen[:_SHOWN]:
        message = _clean(error.message)
        if error.file.startswith(_OWN):
            parts.append(f"  where numjit calls it: {message}")
            continue
        parts.append(f"  {_where(error)}: {message}")
        parts.extend(_shown(error, text_of))
    if len(chosen) > _SHOWN:
        parts.append(f"  and {len(chosen) - _SHOWN} more")
    if not chosen:
        parts.extend(f"  {line[:_WIDTH]}" for line in log.strip().splitlines()[:8])
    return "\n".join(parts)


def _where(found: Diagnostic) -> str:
    where = f"line {found.line}" + (f", column {found.column}" if found.column else "")
    return f"{found.file}, {where}" if found.file != "functor" else where


def _shown(found: Diagnostic, text_of: Callable[[str, int], str]) -> list[str]:
    """Return the user's line and a caret under the column, as far as they are known."""
    text = text_of(found.file, found.line)
    if not text.strip() or len(text) >= _WIDTH:
        return []
    lead = "".join("\t" if c == "\t" else " " for c in text[: found.column - 1])
    return [f"    {text}", f"    {lead}^"] if found.column else [f"    {text}"]


#: Warnings that were passed on in this process.
_told: set[str] = set()


def pass_on(name: str, warned: Sequence[Diagnostic], text_of: Callable[[str, int], str]) -> None:
    """Pass a compiler's warnings about the user's own text on as Python warnings, each once in a process.

    The same text is compiled for several dtypes and devices, and compilers repeat themselves after inlining.
    """
    for found in warned:
        if _foreign(found.file):
            continue
        said = f"functor {name!r}, {_where(found)}: {_clean(found.message)}"
        said = "\n".join([said, *_shown(found, text_of)])
        if said in _told:
            continue
        _told.add(said)
        file, line, module, shown = called_from()
        warnings.warn_explicit(said, UserWarning, file, line, module, shown)


#: What a dual number meets where a plain one was expected (numjit/functor/cpp/include/dual.h).
_CONVERSION: Final = re.compile(
    r"(?:cannot convert|no suitable conversion function from|no viable conversion from|cannot be converted)"
    r".*\bnumjit_dual::.*? to (?:function return type |parameter of type )?"
    r"[\u2018'\"](?P<type>[\w ]+)[\u2019'\"]"
)
_NO_MATCH: Final = re.compile(
    r"(?:no matching function for call to|call of overloaded) [\u2018'](?P<name>[\w:]+)\(.*\bnumjit_dual::"
)
_ASSERTION: Final = re.compile(
    r"static assertion failed(?: due to requirement '[^']*')?(?::| with) \"?(?P<message>.*derivative.*?)\"?$"
)


def _no_derivative(name: str) -> str:
    return f"no derivative for {name.rpartition('::')[2]}; write it with numjit.differentiable"


def _of_derivative(message: str) -> str:
    """Say in the user's terms what a message about dual numbers means."""
    assertion = _ASSERTION.search(message)
    if assertion:
        return assertion["message"]
    converted = _CONVERSION.search(message)
    if converted:
        return (
            f"T becomes {converted['type']} here, a cast that drops the derivative: keep T (make a helper a "
            "template), or write the gradient with numjit.differentiable"
        )
    named = _NO_MATCH.search(message)
    if named:
        return _no_derivative(named["name"])
    return re.sub(r"\b(?:::)?numjit_dual::(?:Dual|lifted)<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>", "T", message)


#: What stands in the place of a division on the CPU (numjit/functor/cpp/include/host.h).
_DIVISIONS: Final = {"Over": "/", "Dividend": "/", "Modulo": "%", "ModuloDividend": "%"}
_DIVISION: Final = re.compile(r"(?:const )?(?:::)?numjit_host::(?P<name>\w+)(?:<[^<>]*>)?")


def _of_division(message: str) -> str:
    """Say '/' where the compiler says what that is compiled as."""
    found = _DIVISION.search(message)
    if found is None:
        return message
    message = message.replace("operator*", f"operator{_DIVISIONS.get(found['name'], '/')}")
    return _DIVISION.sub("...", message)


#: What compilers say of `throw`, `try` and `catch`; the cure that GCC names is none here.
_EXCEPTIONS: Final = re.compile(
    r"exception handling disabled|does not support exception handling|"
    r"cannot use '(?:throw|try)' with exceptions"
)


#: What compilers say of a header that they do not find.
_NO_HEADER: Final = re.compile(
    r"^(?P<gnu>[\w./+-]+): No such file or directory$|^'(?P<clang>[\w./+-]+)' file not found$|"
    r'^cannot open source file "(?P<edg>[\w./+-]+)"'
)
#: CUDA's headers of types that numjit converts itself.
_CUDA_TYPES: Final = frozenset({"cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_fp16.hpp", "cuda_bf16.hpp"})


def _of_header(message: str) -> str:
    """Say what to do about a header that one of the compilers does not have."""
    found = _NO_HEADER.search(message)
    if found is None:
        return message
    name = found["gnu"] or found["clang"] or found["edg"]
    if name in _CUDA_TYPES:
        return (
            f"{name} is CUDA's and only there on a GPU; numjit converts 16- and 8-bit floats itself, so take "
            "T or float and leave it out"
        )
    where = "give its folder in options=, as -I" if found["edg"] else "set CPATH to its folder"
    extra = "; NVRTC has no standard library, numjit's names of std:: need no header" if found["edg"] else ""
    return f"{name} is not found; {where}{extra}"


def _clean(message: str) -> str:
    """Take the names of generated namespaces out of a message."""
    message = _of_header(message)
    if _EXCEPTIONS.search(message):
        return "a functor can neither throw nor catch an exception; give a value such as NAN instead"
    message = _of_division(_of_derivative(message))
    message = message.replace("numjit_scope::std::", "std::").replace('"numjit_scope::std"', '"std"')
    for prefix in ("::numjit_scope::numjit_user::", "numjit_scope::numjit_user::"):
        message = message.replace(prefix, "")
    for prefix in ("numjit_standard::", "numjit_complex::"):
        message = message.replace(f"::{prefix}", "std::").replace(prefix, "std::")
    return message[:_WIDTH]
