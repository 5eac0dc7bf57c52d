"""Calls that a C++ functor cannot make: of what differs between runs, of what ends the process, of a type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from numjit.errors import FunctorError
from numjit.functor.cpp.reader import Unit
from numjit.functor.cpp.tokens import Source, Token, read_directive, tokenize

__all__ = ["check_calls", "check_is_function"]

_RANDOM: Final = (
    "draws other numbers on each device and in the backward pass; take an operand such as torch.rand_like(x)"
)
_TIME: Final = "differs from element to element; take the time as a scalar"
_END: Final = "ends the whole process; give a value such as NAN instead"
_SYSTEM: Final = "acts on the system, once for every element; do it outside the functor"
_INDEX: Final = (
    "numjit::index is the type of a parameter, and this makes a new 0; declare numjit::index i as one, "
    "and use i"
)
_CALLS: Final = {
    **dict.fromkeys(
        ("rand", "srand", "rand_r", "random", "srandom", "drand48", "erand48", "lrand48", "nrand48",
         "mrand48", "jrand48", "srand48", "arc4random", "getrandom", "getentropy", "random_device"), _RANDOM),
    **dict.fromkeys(
        ("time", "clock", "clock64", "gettimeofday", "clock_gettime", "timespec_get", "__rdtsc",
         "__builtin_ia32_rdtsc"), _TIME),
    **dict.fromkeys(
        ("abort", "exit", "_exit", "_Exit", "quick_exit", "terminate", "raise", "longjmp", "siglongjmp",
         "__builtin_trap", "__builtin_abort", "pthread_exit"), _END),
    **dict.fromkeys(("system", "fork", "vfork", "popen", "getenv", "setenv", "putenv"), _SYSTEM),
}  # fmt: skip
#: Types and namespaces, which count without a parenthesis where ``std::`` stands before them.
_NAMES: Final = {"random_device": _RANDOM, "chrono": _TIME, "thread": _SYSTEM, "filesystem": _SYSTEM}
#: Words after which a name is no declared variable.
_BEFORE_VALUE: Final = frozenset({"return", "else", "case", "do", "co_return", "co_await", "goto", "throw"})


def check_calls(units: Sequence[Unit]) -> None:
    """Refuse texts that call such functions.

    Functions, macros and variables of the text's own may be called as those are.

    Raises
    ------
    FunctorError
        With the line, and what to do instead.
    """
    own = {function.name for unit in units for function in unit.functions}
    own |= {name for unit in units for name in unit.preprocessed.defined}
    for unit in units:
        tokens = tokenize(unit.source)
        plain = [token for token in tokens if token.kind != "directive"]
        for part in [plain, *_macro_bodies(unit, tokens)]:
            _check_part(unit.source, part, own)


def _macro_bodies(unit: Unit, tokens: Sequence[Token]) -> list[list[Token]]:
    found = [read_directive(unit.source, token) for token in tokens if token.kind == "directive"]
    return [list(directive.body) for directive in found if directive.keyword == "define"]


def _check_part(source: Source, tokens: Sequence[Token], own: set[str]) -> None:
    for at, token in enumerate(tokens):
        if token.text == "index" and [t.text for t in tokens[at - 2 : at]] == ["numjit", "::"]:
            if "".join(t.text for t in tokens[at + 1 : at + 3]) in {"()", "{}"}:
                source.fail(token.offset, _INDEX)
            continue
        why = _CALLS.get(token.text) or _NAMES.get(token.text)
        if why is None or token.kind != "name" or token.text in own:
            continue
        before = tokens[at - 1] if at else None
        is_called = at + 1 < len(tokens) and tokens[at + 1].text == "("
        if before is not None and before.text == "::":
            scope = tokens[at - 2] if at > 1 else None
            if scope is not None and scope.kind == "name" and scope.text not in {"std", *_BEFORE_VALUE}:
                continue
            named = token.text in _NAMES and scope is not None and scope.text == "std"
        else:
            named = False
            if before is not None and (
                before.text in {".", "->"} or (before.kind == "name" and before.text not in _BEFORE_VALUE)
            ):
                continue
        if named or (is_called and token.text in _CALLS):
            source.fail(token.offset, f"{token.text!r} {why}")


def check_is_function(source: Source) -> None:
    """Say how a functor is written to whoever gives an expression, as CuPy's kernels have them.

    Raises
    ------
    FunctorError
        The text has no body.
    """
    text = source.text.strip()
    if "{" in text or not text or text.startswith(("//", "/*")):
        return
    tokens = tokenize(source)
    names: dict[str, None] = {}
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.kind == "name" and (after is None or after.text not in {"(", "::"}):
            names[token.text] = None
    words = [token.text for token in tokens]
    if not names or any(word in {";", "=", "using", "template"} for word in words) or "\n" in text:
        example = "template <typename T> T f(T x, T y) { return x + y; }"
    else:
        example = (
            f"template <typename T> T f({', '.join(f'T {name}' for name in names)}) {{ return {text}; }}"
        )
    raise FunctorError(
        f"{source.title}: {text[:80]!r} defines no function; write a whole function of one element, such as "
        f"'{example}'"
    )
