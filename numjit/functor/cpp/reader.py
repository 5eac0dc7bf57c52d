"""Finds the functions that CUDA C++ text defines, and the one that is the functor's entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from numjit.errors import FunctorError, shown
from numjit.functor.cpp.tokens import Preprocessed, Source, Token, preprocess

__all__ = ["Function", "RawParameter", "TemplateParameter", "Unit", "choose_entry", "read_unit", "split_list"]

_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSING: Final = frozenset(_OPENING.values())
#: Words before a function's name that say nothing about its type.
SPECIFIERS: Final = frozenset({
    "inline", "static", "constexpr", "extern", "friend", "virtual", "explicit", "__device__",
    "__host__", "__global__", "__forceinline__", "__noinline__", "__inline__", "__inline",
    "thread_local", "mutable", "register", "__restrict__", "__restrict", "__grid_constant__",
    "__tile__", "consteval",
})  # fmt: skip
#: Words that a parenthesis belongs to without making a function of it.
_TAKES_PARENTHESIS: Final = frozenset({
    "__attribute__", "__declspec", "alignas", "__align__", "decltype", "noexcept",
    "__launch_bounds__", "explicit", "__typeof__", "typeof", "__maxnreg__", "__cluster_dims__",
    "__block_size__",
})  # fmt: skip
_TYPE_WORDS: Final = frozenset({"struct", "class", "union", "enum"})
#: Words that may stand between a parameter list and the body.
_AFTER_PARAMETERS: Final = frozenset({
    "const", "volatile", "noexcept", "override", "final", "throw", "__attribute__", "requires",
})  # fmt: skip


class TemplateParameter(NamedTuple):
    """One parameter of a ``template <...>`` list.

    Attributes
    ----------
    name
        Empty where it has none.
    is_type
        ``typename`` or ``class``, not a value, a template or a pack.
    default
        Tokens after ``=``, None without one.
    token
        Where it stands.
    """

    name: str
    is_type: bool
    default: tuple[Token, ...] | None
    token: Token


class RawParameter(NamedTuple):
    """The tokens of one function parameter, its default apart."""

    tokens: tuple[Token, ...]
    default: tuple[Token, ...] | None


class Function(NamedTuple):
    """One function definition, types still being tokens.

    Attributes
    ----------
    name
        Its unqualified name.
    qualified
        The name with the namespaces around it, joined by ``::``.
    template
        Template parameters; None for a plain function.
    returns
        Tokens of the return type: the trailing one where there is one.
    parameters
        In order.
    token
        Its name in the text.
    body
        From ``{`` to ``}``.
    """

    name: str
    qualified: str
    template: tuple[TemplateParameter, ...] | None
    returns: tuple[Token, ...]
    parameters: tuple[RawParameter, ...]
    token: Token
    body: tuple[Token, ...]


class Unit(NamedTuple):
    """What was read of one text.

    Attributes
    ----------
    source
        The text.
    functions
        Definitions in order, explicit specialisations and members left out.
    aliases
        ``using`` and ``typedef`` names at any namespace level, with the tokens they stand for.
    preprocessed
        Tokens and macros.
    """

    source: Source
    functions: tuple[Function, ...]
    aliases: Mapping[str, tuple[Token, ...]]
    preprocessed: Preprocessed


def read_unit(source: Source, before: Unit | None = None) -> Unit:
    """Read every function definition of a text.

    Parameters
    ----------
    source
        The text.
    before
        A text that precedes it and whose macros and aliases hold in it.

    Raises
    ------
    FunctorError
        Brackets that do not match, with line and column.
    """
    preprocessed = preprocess(source, before.preprocessed if before else None)
    if preprocessed.calls:  # The compilers will do it without a bound.
        from numjit.functor.cpp.macros import expand_calls

        expand_calls(source, preprocessed.tokens, preprocessed)
    reader = _Reader(source, preprocessed.tokens)
    if before:
        reader.aliases.update(before.aliases)
    reader.read_scope((), None)
    return Unit(source, tuple(reader.functions), reader.aliases, preprocessed)


def choose_entry(unit: Unit, entry: str | None) -> Function:
    """Return the functor: the last function defined, or the last one named `entry`.

    Functions inside a namespace count only where none stands outside, or where `entry` names one.

    Raises
    ------
    FunctorError
        There is no such function.
    """
    outside = [function for function in unit.functions if function.qualified == function.name]
    if entry is not None:
        for candidates in (outside, unit.functions):
            named = [f for f in candidates if entry in {f.name, f.qualified}]
            if named:
                return named[-1]
        known = ", ".join(dict.fromkeys(f.qualified for f in unit.functions)) or "none"
        raise FunctorError(
            f"{unit.source.title}: entry={shown(entry)} names no function of the text (it defines: {known}); "
            "name one of them"
        )
    candidates = outside or list(unit.functions)
    if not candidates:
        raise FunctorError(
            f"{unit.source.title}: the text defines no function; write one such as "
            "'template <typename T> T f(T x, T y) { return x + y; }'"
        )
    return candidates[-1]


def split_list(tokens: Sequence[Token]) -> list[tuple[Token, ...]]:
    """Split at commas that no bracket of any kind encloses; an empty list gives no parts."""
    parts: list[tuple[Token, ...]] = []
    start = 0
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        if text in _OPENING:
            at = skip_balanced(tokens, at)
            continue
        if text == "<":
            at = skip_angles(tokens, at) or at + 1
            continue
        if text == ",":
            parts.append(tuple(tokens[start:at]))
            start = at + 1
        at += 1
    if tokens:
        parts.append(tuple(tokens[start:]))
    return parts


def skip_balanced(tokens: Sequence[Token], at: int) -> int:
    """Return the index after the bracket that closes the one at `at`; the length where none does."""
    depth = 0
    for index in range(at, len(tokens)):
        if tokens[index].kind != "punct":
            continue
        if tokens[index].text in _OPENING:
            depth += 1
        elif tokens[index].text in _CLOSING:
            depth -= 1
            if depth == 0:
                return index + 1
    return len(tokens)


def skip_angles(tokens: Sequence[Token], at: int) -> int | None:
    """Return the index after the ``>`` that closes the ``<`` at `at`, or None where it is a comparison."""
    depth = 0
    while at < len(tokens):
        text = tokens[at].text
        if tokens[at].kind == "punct":
            if text in _OPENING:
                at = skip_balanced(tokens, at)
                continue
            if text in _CLOSING or text == ";":
                return None
            depth += (text == "<") - (text == ">")
            if depth == 0:
                return at + 1
        at += 1
    return None


def split_default(tokens: Sequence[Token]) -> tuple[tuple[Token, ...], tuple[Token, ...] | None]:
    """Part ``declaration = default`` at the first ``=`` outside brackets."""
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        if text in _OPENING:
            at = skip_balanced(tokens, at)
        elif text == "<":
            at = skip_angles(tokens, at) or at + 1
        elif text == "=":
            return tuple(tokens[:at]), tuple(tokens[at + 1 :])
        else:
            at += 1
    return tuple(tokens), None


class _Reader:
    """Reads declarations at namespace scope; bodies are skipped by their brackets."""

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.at = 0
        self.functions: list[Function] = []
        self.aliases: dict[str, tuple[Token, ...]] = {}
        self._check_brackets()

    def _check_brackets(self) -> None:
        stack: list[Token] = []
        for token in self.tokens:
            if token.kind != "punct":
                continue
            if token.text in _OPENING:
                stack.append(token)
            elif token.text in _CLOSING:
                if not stack:
                    self.source.fail(token.offset, f"'{token.text}' closes nothing")
                opened = stack.pop()
                if _OPENING[opened.text] != token.text:
                    line, column = self.source.position(opened.offset)
                    self.source.fail(
                        token.offset,
                        f"'{token.text}' meets the '{opened.text}' of line {line}, column {column}",
                    )
        if stack:
            opened = stack[-1]
            self.source.fail(
                opened.offset, f"this '{opened.text}' is never closed; add '{_OPENING[opened.text]}'"
            )

    def _text(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.tokens[index].text if index < len(self.tokens) else ""

    def read_scope(self, path: tuple[str, ...], stop: str | None) -> None:
        """Read declarations up to the closing brace `stop` or the end of the text."""
        while self.at < len(self.tokens) and self._text() != stop:
            self._read_declaration(path)
        self.at += 1

    def _read_declaration(self, path: tuple[str, ...]) -> None:
        word = self._text()
        if word == ";":
            self.at += 1
        elif word == "namespace" or (word == "inline" and self._text(1) == "namespace"):
            self._read_namespace(path)
        elif word == "extern" and self._text(1).startswith('"') and self._text(2) == "{":
            self.at += 3
            self.read_scope(path, "}")
        elif word == "template":
            self._read_template(path)
        elif word in {"using", "typedef"}:
            self._read_alias()
        elif word in {"static_assert", "asm"} or (word in _TYPE_WORDS and self._is_type_definition()):
            self._skip_statement()
        else:
            self._read_function(path, None)

    def _read_namespace(self, path: tuple[str, ...]) -> None:
        hidden = self._text() == "inline"
        self.at += 2 if hidden else 1
        names: list[str] = []
        while self.at < len(self.tokens) and self._text() not in {"{", ";"}:
            if self._text() == "=":  # An alias of a namespace.
                self._skip_statement()
                return
            if self._text() == "[":
                self.at = skip_balanced(self.tokens, self.at)
                continue
            if self.tokens[self.at].kind == "name" and self._text() != "inline":
                names.append(self._text())
            self.at += 1
        self.at += 1
        self.read_scope(path + (() if hidden else tuple(names)), "}")

    def _read_template(self, path: tuple[str, ...]) -> None:
        if self._text(1) != "<":  # An explicit instantiation.
            self._skip_statement()
            return
        start = self.at + 1
        end = skip_angles(self.tokens, start)
        if end is None:
            self.source.fail(self.tokens[start].offset, "this template list is never closed; add '>'")
        parameters = tuple(
            self._template_parameter(part) for part in split_list(self.tokens[start + 1 : end - 1])
        )
        self.at = end
        word = self._text()
        if word == "template":  # A member of a class template.
            self._read_template(path)
        elif word == "using" or (word in {"struct", "class", "union"} and self._is_type_definition()):
            self._skip_statement()
        else:
            self._read_function(path, parameters)

    def _template_parameter(self, tokens: tuple[Token, ...]) -> TemplateParameter:
        if not tokens:
            self.source.fail(
                self.tokens[self.at].offset, "a template parameter is missing between two commas"
            )
        declared, default = split_default(tokens)
        if not declared:
            self.source.fail(tokens[0].offset, "a template parameter is missing before this '='")
        words = [token.text for token in declared]
        is_type = words[0] in {"typename", "class"} and "..." not in words and len(words) <= 2
        name = declared[-1] if declared[-1].kind == "name" and len(declared) > 1 else None
        return TemplateParameter(name.text if name else "", is_type, default, name or declared[0])

    def _read_alias(self) -> None:
        start = self.at
        self._skip_statement()
        tokens = self.tokens[start + 1 : self.at - 1]
        if self.tokens[start].text == "using":
            if len(tokens) > 2 and tokens[1].text == "=":
                self.aliases[tokens[0].text] = tuple(tokens[2:])
        elif len(tokens) > 1 and tokens[-1].kind == "name" and tokens[-2].text != "}":
            self.aliases[tokens[-1].text] = tuple(tokens[:-1])

    def _is_type_definition(self) -> bool:
        """Whether ``struct X`` here opens a definition or declares one, and is no function's type."""
        at = self.at
        while at < len(self.tokens):
            text = self.tokens[at].text
            if text in {"{", ";"}:
                return True
            if text == "(":
                if self.tokens[at - 1].text not in _TAKES_PARENTHESIS:
                    return False
                at = skip_balanced(self.tokens, at)
            elif text == "[":
                at = skip_balanced(self.tokens, at)
            else:
                at += 1
        return True

    def _skip_statement(self) -> None:
        """Go past the next ``;`` that no bracket encloses."""
        while self.at < len(self.tokens) and self._text() != ";":
            if self._text() == "}":
                return
            inside = self._text() in _OPENING
            self.at = skip_balanced(self.tokens, self.at) if inside else self.at + 1
        self.at += 1

    def _read_function(self, path: tuple[str, ...], template: tuple[TemplateParameter, ...] | None) -> None:
        """Read a function, or go past a variable."""
        start = self.at
        named = self._find_parameter_list()
        if named is None:
            return
        opening = self.at
        self.at = skip_balanced(self.tokens, self.at)
        parameters = self.tokens[opening + 1 : self.at - 1]
        after = self._read_after_parameters()
        if after is None:
            return
        trailing, body = after
        name, first = self.tokens[named], start
        is_member = named > start and self.tokens[named - 1].text == "::"
        is_operator = any(token.text == "operator" for token in self.tokens[start:opening])
        specialises = template == () or self.tokens[opening - 1] is not name
        if is_member or is_operator or specialises:
            return
        read = [RawParameter(*split_default(part)) for part in split_list(parameters)]
        if len(read) == 1 and [token.text for token in read[0].tokens] == ["void"]:
            read = []
        self.functions.append(
            Function(
                name.text,
                "::".join((*path, name.text)),
                template,
                trailing or tuple(self.tokens[first:named]),
                tuple(read),
                name,
                body,
            )
        )

    def _find_parameter_list(self) -> int | None:
        """Move to the "(" of a parameter list and return the index of the name before it.

        A declaration that turns out to have none (a variable) is skipped, and the answer is None.
        """
        name: int | None = None
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.text in {"=", ";", "{"}:
                self._skip_statement()
                return None
            if token.text == "}":
                self.source.fail(token.offset, "'}' ends a declaration that has no body")
            if token.text == "operator":
                name = self.at
                self.at += 3 if self._text(1) == "(" else 1
                while self.at < len(self.tokens) and self._text() != "(":
                    self.at += 1
                continue
            if token.text == "(":
                before = self.tokens[self.at - 1].text if self.at else ""
                if before not in _TAKES_PARENTHESIS:
                    if name is None:
                        self.source.fail(token.offset, "a function's name is missing before '('")
                    return name
                self.at = skip_balanced(self.tokens, self.at)
            elif token.text == "[":
                self.at = skip_balanced(self.tokens, self.at)
            elif token.text == "<":
                after = skip_angles(self.tokens, self.at)
                self.at = after if after is not None else self.at + 1
            else:
                if token.kind == "name":
                    name = self.at
                self.at += 1
        self.source.fail(self.tokens[-1].offset, "this declaration never ends; add ';' or a body")
        return None

    def _read_after_parameters(self) -> tuple[tuple[Token, ...], tuple[Token, ...]] | None:
        """Go past what follows a parameter list, body included.

        Returns the trailing return type, empty where there is none, and the body; None where it is none.
        """
        trailing: tuple[Token, ...] = ()
        while self.at < len(self.tokens):
            text = self._text()
            if text == "{":
                opened = self.at
                self.at = skip_balanced(self.tokens, self.at)
                return trailing, tuple(self.tokens[opened : self.at])
            if text in {";", "="}:
                self._skip_statement()
                return None
            if text == "->":
                start = self.at = self.at + 1
                while self.at < len(self.tokens) and self._text() not in {"{", ";"}:
                    inside = self._text() in {"(", "["}
                    self.at = skip_balanced(self.tokens, self.at) if inside else self.at + 1
                trailing = tuple(self.tokens[start : self.at])
            elif text in {"(", "["}:
                self.at = skip_balanced(self.tokens, self.at)
            elif text in {"}", ","}:
                self._skip_statement()
                return None
            elif (
                self.tokens[self.at].kind == "name" and text not in _AFTER_PARAMETERS and self._text(1) != "{"
            ):
                return None  # What was read is the use of a macro; a declaration starts here.
            else:
                self.at += 1
        return None
