"""Finds outputs that a C++ functor reads before it has set them: they hold no value of the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from numjit.functor.cpp.reader import Function, split_list
from numjit.functor.cpp.tokens import Token
from numjit.functor.cpp.types import spell

__all__ = ["first_unset_read"]

#: Words whose parenthesis is not evaluated.
_UNEVALUATED: Final = frozenset({"sizeof", "decltype", "alignof", "noexcept", "typeof", "__typeof__"})
#: Words that begin a statement without an expression to look at.
_DECLARING: Final = frozenset({"using", "typedef", "static_assert", "struct", "class", "union", "enum"})
#: Words that stand before an expression, so that a name after them is no declaration.
_BEFORE_VALUE: Final = frozenset({"return", "else", "case", "do", "throw", "co_return", "goto"})
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
#: How deep calls of the text's own functions are followed.
_DEPTH: Final = 8

#: Names that are set on every path so far; None where no path leads.
_State = frozenset[str] | None


class UnsetRead(NamedTuple):
    """Where an output is read that may not have been set."""

    name: str
    token: Token


class _Found(Exception):  # noqa: N818 - leaves the walk with its answer
    def __init__(self, read: UnsetRead) -> None:
        super().__init__(read.name)
        self.read = read


def first_unset_read(
    body: Sequence[Token], outputs: Sequence[str], functions: Sequence[Function]
) -> UnsetRead | None:
    """Return the first place where a body reads one of its outputs on a path that has not set it.

    The body of a loop counts as run: a loop that runs no time leaves an output as it was, 0. A function that
    the text does not define reads what it is handed.

    Parameters
    ----------
    body
        Tokens from ``{`` to ``}``, macros replaced.
    outputs
        Names of the parameters declared ``T&``.
    functions
        Those that the body may call; their own parameters ``T&`` are followed.
    """
    names = frozenset(name for name in outputs if name)
    if not names or names.isdisjoint(token.text for token in body):
        return None
    try:
        _Walk(body, names, functions, 0).block(0, frozenset())
    except _Found as found:
        return found.read
    return None


def _join(a: _State, b: _State) -> _State:
    if a is None or b is None:
        return b if a is None else a
    return a & b


class _Walk:
    """Follows the paths through one body."""

    def __init__(
        self, tokens: Sequence[Token], names: frozenset[str], functions: Sequence[Function], depth: int
    ) -> None:
        self.tokens = tokens
        self.names = names
        self.functions = functions
        self.depth = depth
        self.closing = _closing(tokens)
        #: States at the `break`s and `continue`s of the statement around.
        self.leaving: list[_State] = []
        #: States at every `return`.
        self.returned: list[_State] = []

    def _text(self, at: int) -> str:
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def _end(self, at: int) -> int:
        """Return the index of the ``;`` that ends the statement at `at`."""
        while at < len(self.tokens) and self._text(at) not in {";", "}"}:
            at = self.closing.get(at, at) + 1
        return at

    # ------------------------------------------------------------------------------------ statements

    def block(self, at: int, state: _State) -> tuple[int, _State]:
        """Walk from ``{`` at `at`; returns what follows its ``}`` and the state there."""
        stop = self.closing.get(at, len(self.tokens))
        at += 1
        while at < stop:
            at, state = self.statement(at, state)
        return stop + 1, state

    def statement(self, at: int, state: _State) -> tuple[int, _State]:
        word = self._text(at)
        if word == "{":
            return self.block(at, state)
        if word == "if":
            return self._if(at, state)
        if word in {"for", "while"}:
            return self._loop(at, state)
        if word == "do":
            return self._do(at, state)
        if word == "switch":
            return self._switch(at, state)
        end = self._end(at)
        if word in {"break", "continue"}:
            self.leaving.append(state)
            return end + 1, None
        if word in _DECLARING:
            return end + 1, state
        if word in {"case", "default"}:
            while at < end and self._text(at) != ":":
                at += 1
            return at + 1, state
        state = self.expression(at, end, state)
        if word == "return":
            self.returned.append(state)
            state = None
        return end + 1, state

    def _condition(self, at: int, state: _State) -> tuple[int, _State]:
        """Walk the parenthesis of a statement's head; returns what follows it."""
        while at < len(self.tokens) and self._text(at) != "(":
            at += 1
        stop = self.closing.get(at, len(self.tokens))
        return stop + 1, self.expression(at + 1, stop, state)

    def _if(self, at: int, state: _State) -> tuple[int, _State]:
        at, state = self._condition(at, state)
        at, taken = self.statement(at, state)
        if self._text(at) != "else":
            return at, _join(taken, state)
        at, other = self.statement(at + 1, state)
        return at, _join(taken, other)

    def _around(self, at: int, state: _State) -> tuple[int, _State]:
        """Walk the body of a loop, which counts as run."""
        outer, self.leaving = self.leaving, []
        at, state = self.statement(at, state)
        for left in self.leaving:
            state = _join(state, left)
        self.leaving = outer
        return at, state

    def _loop(self, at: int, state: _State) -> tuple[int, _State]:
        if self._text(at) == "while":
            at, before = self._condition(at, state)
            at, after = self._around(at, before)
            return at, before if after is None else after
        stop = self.closing.get(at + 1, len(self.tokens))
        first = self._end(at + 2)
        second = self._end(first + 1)
        state = self.expression(at + 2, min(first, stop), state)
        if first < stop:
            state = self.expression(first + 1, min(second, stop), state)
        at, after = self._around(stop + 1, state)
        if second < stop:
            after = self.expression(second + 1, stop, after)
        return at, state if after is None else after

    def _do(self, at: int, state: _State) -> tuple[int, _State]:
        at, state = self._around(at + 1, state)
        at, state = self._condition(at, state)
        return at + (self._text(at) == ";"), state

    def _switch(self, at: int, state: _State) -> tuple[int, _State]:
        at, before = self._condition(at, state)
        if self._text(at) != "{":
            return self.statement(at, before)
        stop = self.closing.get(at, len(self.tokens))
        outer, self.leaving = self.leaving, []
        at, state, complete = at + 1, None, False
        while at < stop:
            if self._text(at) in {"case", "default"}:
                complete = complete or self._text(at) == "default"
                state = _join(state, before)
            at, state = self.statement(at, state)
        for left in self.leaving:
            state = _join(state, left)
        self.leaving = outer
        return stop + 1, state if complete else _join(state, before)

    # ----------------------------------------------------------------------------------- expressions

    def expression(self, at: int, stop: int, state: _State) -> _State:
        """Walk the tokens from `at` to `stop` in the order of the text, right sides of ``=`` first."""
        while at < stop and state is not None:
            word = self._text(at)
            if word in _UNEVALUATED and self._text(at + 1) == "(":
                at = self.closing.get(at + 1, stop) + 1
            elif word == "{" and self._text(at - 1) not in {"=", ",", "(", "{", "return"}:
                at, state = self._inner_block(at, state)
            elif word in self.names and self.tokens[at].kind == "name":
                at, state = self._occurrence(at, stop, state)
            else:
                at += 1
        return state

    def _inner_block(self, at: int, state: frozenset[str]) -> tuple[int, _State]:
        """Walk the body of a lambda as if it were called where it stands, or the list after a type."""
        if self._text(at - 1) not in {")", "]", "mutable", "noexcept", "constexpr"}:
            stop = self.closing.get(at, len(self.tokens))
            return stop + 1, self.expression(at + 1, stop, state)
        returned, leaving, self.returned, self.leaving = self.returned, self.leaving, [], []
        at, after = self.block(at, state)
        for left in self.returned:
            after = _join(after, left)
        self.returned, self.leaving = returned, leaving
        return at, state if after is None else after

    def _occurrence(self, at: int, stop: int, state: frozenset[str]) -> tuple[int, _State]:
        name = self._text(at)
        before, after = self._text(at - 1), self._text(at + 1)
        if before in {".", "->", "::"} or name in state:
            return at + 1, state
        if after == "=":
            end = self._assignment_end(at + 2, stop)
            state_after = self.expression(at + 2, end, state)
            return end, None if state_after is None else state_after | {name}
        if [self._text(at - k) for k in (3, 2, 1)] == ["(", "void", ")"]:
            return at + 1, state
        if self._declares(at) or self._lends(at):
            return at + 1, state | {name}
        if after == "." and self._text(at + 2) in {"real", "imag"} and self._text(at + 3) == "(":
            closed = self.closing.get(at + 3, stop)
            if closed > at + 4:  # sets a part of a complex number
                self.expression(at + 4, closed, state)
                return closed + 1, state | {name}
        called = self._handed_to(at)
        if called is not None:
            return at + 1, self._after_call(at, *called, state)
        raise _Found(UnsetRead(name, self.tokens[at]))

    def _assignment_end(self, at: int, stop: int) -> int:
        while at < stop and self._text(at) not in {",", ")", "]", "}"}:
            at = self.closing.get(at, at) + 1
        return min(at, stop)

    def _declares(self, at: int) -> bool:
        """Whether another variable of the same name begins here."""
        before = self.tokens[at - 1] if at else None
        if before is None or self._text(at + 1) not in {"=", ";", "(", "{", ","}:
            return False
        return before.kind == "name" and before.text not in _BEFORE_VALUE

    def _lends(self, at: int) -> bool:
        """Whether its address is taken or a reference is bound to it: both are meant to set it."""
        before, further = self._text(at - 1), self._text(at - 2)
        if before == "&":
            return further in {"", "(", ",", "=", "{", "return", ";"}
        is_bound = before in {"=", "(", "{"} and self._text(at - 3) == "&"
        return is_bound and self._text(at + 1) in {";", ",", ")", "}"}

    def _handed_to(self, at: int) -> tuple[str, int, int] | None:
        """Return whose argument the name at `at` is, at which place and of how many; None if it is none."""
        if self._text(at - 1) not in {"(", ","} or self._text(at + 1) not in {")", ","}:
            return None
        opened = max((k for k, end in self.closing.items() if k < at < end), default=-1)
        if self._text(opened) != "(":
            return None
        named = opened - 1
        if self._text(named) == ">":  # template arguments
            while named > 0 and self._text(named) != "<":
                named -= 1
            named -= 1
        if named < 0 or self.tokens[named].kind != "name":
            return None
        arguments = split_list(self.tokens[opened + 1 : self.closing[opened]])
        place = next(
            k for k, argument in enumerate(arguments) if any(part is self.tokens[at] for part in argument)
        )
        return self._text(named), place, len(arguments)

    def _after_call(
        self, at: int, called: str, place: int, count: int, state: frozenset[str]
    ) -> frozenset[str]:
        """Return the state after a function of the text got the name by reference."""
        name = self._text(at)
        found = [f for f in self.functions if f.name == called and len(f.parameters) >= count]
        if not found or self.depth >= _DEPTH:
            raise _Found(UnsetRead(name, self.tokens[at]))
        always = True
        for function in found:
            declared = function.parameters[place].tokens
            words = [token.text for token in declared]
            if "&" not in words or "const" in words or declared[-1].kind != "name":
                raise _Found(UnsetRead(name, self.tokens[at]))
            inner = _Walk(function.body, frozenset({words[-1]}), self.functions, self.depth + 1)
            try:
                _, ended = inner.block(0, frozenset())
            except _Found:
                raise _Found(UnsetRead(name, self.tokens[at])) from None
            for returned in inner.returned:
                ended = _join(ended, returned)
            always = always and (ended is None or words[-1] in ended)
        return state | {name} if always else state

    def __repr__(self) -> str:
        return f"<walk through {spell(self.tokens[:8])!r} ...>"


def _closing(tokens: Sequence[Token]) -> dict[int, int]:
    """Return, for the index of each opening bracket, that of the one that closes it."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.kind != "punct":
            continue
        if token.text in _OPENING:
            opened.append(at)
        elif opened and token.text == _OPENING[tokens[opened[-1]].text]:
            found[opened.pop()] = at
    return found
