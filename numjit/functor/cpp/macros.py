"""Replaces function-like macros in C++ tokens, as far as following a body and bounding its size need."""

from __future__ import annotations

from collections.abc import Sequence

from numjit.functor.cpp.tokens import Directive, Preprocessed, Source, Token, check_size

__all__ = ["expand_calls"]


def expand_calls(source: Source, tokens: Sequence[Token], macros: Preprocessed) -> list[Token]:
    """Replace the function-like macros in a text's tokens too.

    Raises
    ------
    FunctorError
        Macros that grow beyond what compilers can take.
    """
    made = 0

    def expanded(tokens: Sequence[Token], busy: frozenset[str]) -> list[Token]:
        nonlocal made
        out: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            made += 1
            check_size(source, made, token)
            at += 1
            if token.kind != "name" or token.text in busy:
                out.append(token)
            elif token.text in macros.macros:
                body = [part._replace(offset=token.offset) for part in macros.macros[token.text]]
                out += expanded(body, busy | {token.text})
            elif token.text in macros.calls and at < len(tokens) and tokens[at].text == "(":
                arguments, at = _macro_arguments(tokens, at)
                given = [expanded(argument, busy) for argument in arguments]
                body = _substituted(macros.calls[token.text], given, token.offset)
                out += expanded(body, busy | {token.text})
            else:
                out.append(token)
        return out

    return expanded(tokens, frozenset())


def _macro_arguments(tokens: Sequence[Token], at: int) -> tuple[list[list[Token]], int]:
    """Return the arguments of the macro whose ``(`` is at `at`, and the index after its ``)``."""
    arguments: list[list[Token]] = [[]]
    opened, depth = at, 0
    while at < len(tokens):
        text = tokens[at].text
        depth += (text == "(") - (text == ")")
        if depth == 0:
            return arguments, at + 1
        if text == "," and depth == 1:
            arguments.append([])
        elif at > opened:
            arguments[-1].append(tokens[at])
        at += 1
    return arguments, at


def _substituted(macro: Directive, arguments: Sequence[Sequence[Token]], offset: int) -> list[Token]:
    """Return the body of a function-like macro with its arguments, names joined where it says ``##``."""
    closing = next((i for i, token in enumerate(macro.tokens) if token.text == ")"), 0)
    names = [token.text for token in macro.tokens[2:closing] if token.text != ","]
    given: dict[str, list[Token]] = {}
    for k, name in enumerate(names):
        if name == "...":
            rest = [[*argument] for argument in arguments[k:]]
            comma = Token("punct", ",", offset)
            given["__VA_ARGS__"] = [part for n, a in enumerate(rest) for part in ([comma] * (n > 0) + a)]
        else:
            given[name] = list(arguments[k]) if k < len(arguments) else []
    out: list[Token] = []
    joins = False
    for token in macro.body:
        if token.text == "##":
            joins = True
            continue
        parts = given.get(token.text, [token]) if token.kind == "name" else [token]
        parts = [part._replace(offset=offset) for part in parts]
        if joins and out and parts:
            parts[0] = parts[0]._replace(kind=out[-1].kind, text=out.pop().text + parts[0].text)
        joins = False
        out += parts
    return out
