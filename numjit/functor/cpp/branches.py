"""What C++ text asks about its types, so that a derivative takes the branches that the functor takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from numjit.functor.cpp.reader import Unit, skip_balanced
from numjit.functor.cpp.tokens import Token, read_directive, tokenize

__all__ = ["other_branch", "size_edits"]

_SIZES: Final = {
    "sizeof": "size_of",
    "alignof": "align_of",
    "__alignof__": "align_of",
    "_Alignof": "align_of",
}
#: Words that a type may consist of beside the names that a text gives to types.
_TYPE_WORDS: Final = frozenset({
    "const", "volatile", "unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool",
    "void", "typename", "std", "complex", "decltype", "size_t", "ptrdiff_t", "int8_t", "int16_t", "int32_t",
    "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t",
})  # fmt: skip
_REALS: Final = frozenset({"float", "double"})

#: (start, stop, replacement) in a text.
Edit = tuple[int, int, str]


def size_edits(unit: Unit) -> tuple[Edit, ...]:
    """Return the replacement of every `sizeof` and `alignof` by what dual.h answers for the plain number."""
    edits: list[Edit] = []
    for tokens in _lines(unit):
        types = _TYPE_WORDS | _type_names(tokens)
        for at, token in enumerate(tokens):
            if token.kind != "name" or token.text not in _SIZES:
                continue
            if at + 1 >= len(tokens) or tokens[at + 1].text != "(":
                continue  # of a pack: its length; of a bare expression: `other_branch` refuses it
            stop = skip_balanced(tokens, at + 1) - 1
            inside = tokens[at + 2 : stop]
            opened, closed = tokens[at + 1].offset, tokens[stop].offset
            before, after = ("", "") if _is_type(inside, types) else ("decltype(", ")")
            edits.append((token.offset, opened + 1, f"::numjit_dual::{_SIZES[token.text]}<{before}"))
            edits.append((closed, closed + 1, f"{after}>()"))
    return tuple(edits)


def _lines(unit: Unit) -> Iterator[list[Token]]:
    """Yield the text's tokens, then those of each macro's body."""
    tokens = tokenize(unit.source)
    yield [token for token in tokens if token.kind != "directive"]
    for token in tokens:
        if token.kind == "directive":
            directive = read_directive(unit.source, token)
            if directive.keyword == "define":
                yield list(directive.body)


def _type_names(tokens: Sequence[Token]) -> frozenset[str]:
    """Return the names that a text gives to types, template parameters among them."""
    found = set()
    for before, token in itertools.pairwise(tokens):
        if before.text in {"typename", "class", "struct", "union", "enum", "using"} and token.kind == "name":
            found.add(token.text)
    for at, token in enumerate(tokens):
        if token.text == "typedef":
            end = next((k for k in range(at, len(tokens)) if tokens[k].text == ";"), len(tokens))
            found.add(tokens[end - 1].text)
    return frozenset(found)


def _is_type(inside: Sequence[Token], types: frozenset[str]) -> bool:
    words = [token for token in inside if token.text not in {"::", "const", "typename"}]
    if not words or words[0].text not in types:
        return False
    if words[0].text == "decltype":
        return True
    return all(
        token.kind == "name" or token.text in {"<", ">", "::", "*", ",", "&"} for token in inside
    ) and not any(token.text == "." for token in inside)


def other_branch(units: Sequence[Unit]) -> tuple[str, int] | None:
    """Return what a derivative would answer otherwise than the functor, and its line; None without such.

    A dual number is no float: the text's own specialisations and overloads for float or double would not be
    taken, and compilers' own questions about types answer for the dual.
    """
    for unit in units:
        for tokens in _lines(unit):
            found = _asked(tokens) or _specialised(tokens)
            if found is not None:
                token, what = found
                return what, unit.source.position(token.offset)[0]
    return _overloaded(units)


def _asked(tokens: Sequence[Token]) -> tuple[Token, str] | None:
    for at, token in enumerate(tokens):
        if token.kind != "name":
            continue
        if token.text.startswith("__is_") or token.text in {"typeid", "__builtin_types_compatible_p"}:
            return token, f"{token.text!r}"
        after = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if token.text in _SIZES and after not in {"(", "..."}:
            return token, f"{token.text!r} without parentheses"
    return None


def _specialised(tokens: Sequence[Token]) -> tuple[Token, str] | None:
    for at, token in enumerate(tokens[:-2]):
        if token.text != "template" or [t.text for t in tokens[at + 1 : at + 3]] != ["<", ">"]:
            continue
        end = next((k for k in range(at, len(tokens)) if tokens[k].text in {"{", ";"}), len(tokens))
        real = next((t for t in tokens[at:end] if t.text in _REALS), None)
        if real is not None:
            return token, f"a specialisation for {real.text}"
    return None


def _overloaded(units: Sequence[Unit]) -> tuple[str, int] | None:
    functions = [(unit, function) for unit in units for function in unit.functions]
    general = {function.qualified for _, function in functions if function.template}
    for unit, function in functions:
        if function.template or function.qualified not in general:
            continue
        words = [[token.text for token in parameter.tokens] for parameter in function.parameters]
        real = next((word for part in words for word in part if word in _REALS), None)
        if real is not None:
            line = unit.source.position(function.token.offset)[0]
            return f"an overload of {function.name!r} for {real} beside its template", line
    return None
