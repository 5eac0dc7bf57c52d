"""Splits CUDA C++ text into tokens and follows its preprocessor lines as far as reading a signature needs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, NoReturn

from numjit.errors import FunctorError

__all__ = [
    "Directive",
    "Preprocessed",
    "Source",
    "Token",
    "check_size",
    "preprocess",
    "read_directive",
    "tokenize",
]


class Token(NamedTuple):
    """One lexical element of C++ text.

    Attributes
    ----------
    kind
        ``"name"``, ``"number"``, ``"string"``, ``"char"``, ``"punct"`` or ``"directive"`` (a whole
        preprocessor line with its continuations).
    text
        As written.
    offset
        Characters before it in the text.
    """

    kind: str
    text: str
    offset: int


class Source(NamedTuple):
    """A text and what to call it in messages."""

    text: str
    title: str = "C++ functor"

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and the column, both from 1, of a character."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def line_text(self, line: int) -> str:
        """Return the text of a line counted from 1."""
        lines = self.text.split("\n")
        return lines[line - 1].rstrip("\r") if 0 < line <= len(lines) else ""

    def fail(self, offset: int, message: str) -> NoReturn:
        """Raise a `FunctorError` that shows the line at `offset` with a caret under the column."""
        line, column = self.position(min(offset, len(self.text)))
        shown = self.line_text(line)
        lead = "".join("\t" if c == "\t" else " " for c in shown[: column - 1])
        raise FunctorError(f"{self.title}, line {line}, column {column}: {message}\n    {shown}\n    {lead}^")


# Longest first. ">" is never joined with what follows, so that closing template lists need no splitting.
_PUNCTUATION: Final = (
    "...", "->*", "<<=", "::", "->", "++", "--", "<<", "<=", "==", "!=", "&&", "||", ".*",
    "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##",
)  # fmt: skip
_NAME: Final = re.compile(r"[^\W\d]\w*")
_NUMBER: Final = re.compile(r"\.?\d(?:[eEpP][+-]|'\w|[\w.])*")
_SPACE: Final = re.compile(r"(?:\s|\\\r?\n)+")
_LITERAL: Final = re.compile(r"""\"(?:\\.|[^"\\\n])*\"|'(?:\\.|[^'\\\n])'""")
_STRING_PREFIXES: Final = frozenset({"u8", "u", "U", "L"})
_RAW_PREFIXES: Final = frozenset({"R", "u8R", "uR", "UR", "LR"})


def tokenize(source: Source, start: int = 0, stop: int | None = None) -> list[Token]:
    """Split C++ text into tokens; comments and white space are dropped.

    Parameters
    ----------
    source
        The text.
    start, stop
        Characters to look at; the whole text by default.

    Raises
    ------
    FunctorError
        A comment, a string or a character literal that never ends.
    """
    if start == 0 and stop is None:
        return list(_tokens(source))
    return _split(source, start, stop)


@functools.lru_cache(maxsize=64)
def _tokens(source: Source) -> tuple[Token, ...]:
    """Return the tokens of a whole text, which reading, checking and generating each ask for."""
    return tuple(_split(source, 0, None))


def _split(source: Source, start: int, stop: int | None) -> list[Token]:
    text = source.text if stop is None else source.text[:stop]
    tokens: list[Token] = []
    at = start
    fresh_line = start == 0
    while at < len(text):
        space = _SPACE.match(text, at)
        if space:
            fresh_line = fresh_line or "\n" in space.group().replace("\\\n", "").replace("\\\r\n", "")
            at = space.end()
            continue
        skipped = _skip_comment(source, text, at)
        if skipped != at:
            at = skipped
            continue
        if fresh_line and text[at] == "#":
            end = _directive_end(source, text, at)
            tokens.append(Token("directive", text[at:end], at))
        else:
            token = _read_token(source, text, at)
            tokens.append(token)
            end = at + len(token.text)
        fresh_line = False
        at = end
    return tokens


def _skip_comment(source: Source, text: str, at: int) -> int:
    """Return the end of the comment that starts at `at`, or `at`."""
    if text.startswith("//", at):
        end = at
        while True:
            end = text.find("\n", end)
            if end < 0:
                return len(text)
            if not text[:end].rstrip("\r").endswith("\\"):
                return end
            end += 1
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        if end < 0:
            source.fail(at, "this comment is never closed; add '*/'")
        return end + 2
    return at


def _directive_end(source: Source, text: str, at: int) -> int:
    """Return the end of a preprocessor line, continuations included."""
    while at < len(text):
        if text[at] == "\n":
            return at
        if text[at] == "\\" and text[at + 1 : at + 3].lstrip("\r").startswith("\n"):
            at = text.index("\n", at) + 1
            continue
        literal = _LITERAL.match(text, at)
        if literal:  # What looks like a comment in it is none.
            at = literal.end()
            continue
        skipped = _skip_comment(source, text, at)
        at = skipped if skipped != at else at + 1
    return at


def _read_token(source: Source, text: str, at: int) -> Token:
    name = _NAME.match(text, at)
    if name:
        following = text[name.end() : name.end() + 1]
        if following == '"' and name.group() in _RAW_PREFIXES:
            return Token("string", text[at : _raw_end(source, text, at, name.end())], at)
        if following and following in "\"'" and name.group() in _STRING_PREFIXES:
            return _quoted(source, text, at, name.end())
        return Token("name", name.group(), at)
    number = _NUMBER.match(text, at)
    if number:
        return Token("number", number.group(), at)
    if text[at] in "\"'":
        return _quoted(source, text, at, at)
    for punctuation in _PUNCTUATION:
        if text.startswith(punctuation, at):
            return Token("punct", punctuation, at)
    return Token("punct", text[at], at)


def _quoted(source: Source, text: str, start: int, quote_at: int) -> Token:
    quote = text[quote_at]
    at = quote_at + 1
    while at < len(text) and text[at] != quote:
        if text[at] == "\\":
            at += 1
        elif text[at] == "\n":
            break
        at += 1
    if at >= len(text) or text[at] != quote:
        source.fail(
            start, f"this {'string' if quote == chr(34) else 'character'} is never closed; add {quote}"
        )
    return Token("string" if quote == '"' else "char", text[start : at + 1], start)


def _raw_end(source: Source, text: str, start: int, quote_at: int) -> int:
    opened = text.find("(", quote_at)
    closing = ")" + text[quote_at + 1 : opened] + '"'
    end = text.find(closing, opened) if opened >= 0 else -1
    if end < 0:
        source.fail(start, "this raw string is never closed")
    return end + len(closing)


class Directive(NamedTuple):
    """A preprocessor line taken apart.

    Attributes
    ----------
    keyword
        ``"define"``, ``"include"``, ``"if"``, ...; empty for a lone ``#``.
    tokens
        What follows the keyword, offsets counted in the whole text.
    """

    keyword: str
    tokens: tuple[Token, ...]

    @property
    def header(self) -> str | None:
        """The header an ``#include`` names, without its brackets or quotes, else None."""
        if self.keyword != "include" or not self.tokens:
            return None
        if self.tokens[0].kind == "string":
            return self.tokens[0].text.strip('"')
        joined = "".join(token.text for token in self.tokens)
        return joined[1:].partition(">")[0] if joined.startswith("<") else None

    @property
    def takes_arguments(self) -> bool:
        """Whether a ``#define`` is function-like: its "(" touches the name."""
        if self.keyword != "define" or len(self.tokens) < 2:
            return False
        name, after = self.tokens[:2]
        return after.text == "(" and after.offset == name.offset + len(name.text)

    @property
    def body(self) -> tuple[Token, ...]:
        """The replacement of a ``#define``."""
        if not self.takes_arguments:
            return self.tokens[1:]
        closing = next((i for i, token in enumerate(self.tokens) if token.text == ")"), len(self.tokens))
        return self.tokens[closing + 1 :]


def read_directive(source: Source, token: Token) -> Directive:
    """Take a ``directive`` token apart."""
    start, stop = token.offset + 1, token.offset + len(token.text)
    # #error and #pragma may hold anything, an apostrophe among it: no tokens are made of them.
    word = re.match(r"#(?:\s|\\\r?\n)*(\w*)", token.text)
    keyword = word.group(1) if word else ""
    if keyword not in {"define", "undef", "include", "if", "ifdef", "ifndef", "elif"}:
        return Directive(keyword, ())
    tokens = tokenize(source, start, stop)
    return Directive(keyword, tuple(tokens[1:]))


class Preprocessed(NamedTuple):
    """Text after its preprocessor lines were followed.

    Attributes
    ----------
    tokens
        What a compiler would read, object-like macros of the text replaced.
    macros
        Object-like macros in force at the end.
    calls
        Function-like macros in force at the end.
    defined
        Name of every macro that the text defines, function-like ones included.
    """

    tokens: list[Token]
    macros: dict[str, tuple[Token, ...]]
    calls: dict[str, Directive]
    defined: tuple[str, ...]


#: What a device compiler defines; the reader looks at the text as NVRTC would.
_PREDEFINED: Final = frozenset({"__CUDACC__", "__CUDACC_RTC__", "__CUDA_ARCH__", "__cplusplus", "__NVCC__"})


#: More tokens than any text has; macros that double one another reach it in no time.
_MOST: Final = 1 << 17


def preprocess(source: Source, before: Preprocessed | None = None) -> Preprocessed:
    """Drop the preprocessor lines of a text, choosing branches and replacing object-like macros.

    ``#if`` is understood for literals, ``defined`` and their negation; of a condition beyond that the
    first branch is read, which is enough to find the functions of either branch's shape.

    Raises
    ------
    FunctorError
        An ``#if`` without ``#endif`` or the reverse; macros that grow beyond what compilers can take.
    """
    known: dict[str, tuple[Token, ...]] = dict(before.macros if before else {})
    calls: dict[str, Directive] = dict(before.calls if before else {})
    flags: set[str] = set(_PREDEFINED)
    defined: dict[str, None] = {}
    live: list[Token] = []
    # One entry per open #if: [the directive, was a branch taken, is the present branch read].
    stack: list[tuple[Token, bool, bool]] = []
    for token in tokenize(source):
        reading = all(entry[2] for entry in stack)
        if token.kind != "directive":
            if reading:
                for part in _expand(token, known, frozenset()):
                    live.append(part)
                    check_size(source, len(live), token)
            continue
        directive = read_directive(source, token)
        keyword = directive.keyword
        if keyword in {"if", "ifdef", "ifndef"}:
            taken = _condition(directive, known, flags)
            stack.append((token, taken, taken))
        elif keyword in {"elif", "else"}:
            if not stack:
                source.fail(token.offset, f"#{keyword} without #if")
            opened, done, _ = stack.pop()
            taken = not done and (keyword == "else" or _condition(directive, known, flags))
            stack.append((opened, done or taken, taken))
        elif keyword == "endif":
            if not stack:
                source.fail(token.offset, "#endif without #if")
            stack.pop()
        elif reading and keyword == "define" and directive.tokens:
            name = directive.tokens[0].text
            defined[name] = None
            flags.add(name)
            known.pop(name, None)
            calls.pop(name, None)
            if directive.takes_arguments:
                calls[name] = directive
            else:
                known[name] = directive.body
        elif reading and keyword == "undef" and directive.tokens:
            known.pop(directive.tokens[0].text, None)
            calls.pop(directive.tokens[0].text, None)
            flags.discard(directive.tokens[0].text)
    if stack:
        source.fail(stack[-1][0].offset, "this condition is never closed; add #endif")
    return Preprocessed(live, known, calls, tuple(defined))


def check_size(source: Source, count: int, token: Token) -> None:
    """Refuse what macros have made of a text where no compiler would come to its end."""
    if count > _MOST:
        source.fail(token.offset, f"macros make more than {_MOST} tokens of this; write them smaller")


def _expand(token: Token, known: Mapping[str, tuple[Token, ...]], busy: frozenset[str]) -> Iterable[Token]:
    if token.kind != "name" or token.text in busy or token.text not in known:
        yield token
        return
    for part in known[token.text]:
        yield from _expand(part._replace(offset=token.offset), known, busy | {token.text})


def _condition(directive: Directive, known: Mapping[str, tuple[Token, ...]], flags: set[str]) -> bool:
    """Answer a condition; True for what is not understood."""
    words = [token.text for token in directive.tokens]
    if directive.keyword in {"ifdef", "ifndef"}:
        found = bool(words) and (words[0] in known or words[0] in flags)
        return found == (directive.keyword == "ifdef")
    negated = False
    while words and words[0] == "!":
        negated = not negated
        words.pop(0)
    words = [word for word in words if word not in {"(", ")"}]
    answer: bool | None = None
    if len(words) == 2 and words[0] == "defined":
        answer = words[1] in known or words[1] in flags
    elif len(words) == 1:
        replacement = known.get(words[0])
        literal = replacement[0].text if replacement and len(replacement) == 1 else words[0]
        answer = literal != "0" if literal.isdigit() else (False if literal == "false" else None)
    return True if answer is None else answer != negated
