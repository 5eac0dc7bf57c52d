"""Says in the user's words what Numba says about types, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["shown", "unset", "worded"]

#: Numba type names of elements, as `Element` builds them.
_ELEMENT = re.compile(r"numjit\.(\w+)(?:\.zero_dim)?@\w+")
#: Those of duals, as `Dual` builds them.
_DUAL = re.compile(r"numjit\.dual\.(\w+)\.[0-9a-f]{12}")
_LITERAL = re.compile(r"Literal\[\w+\]\(([^()]*)\)")
_CALL = re.compile(r"^(\w+)\((.*)\)$")
_FUNCTION = re.compile(
    r"(?:type\()?(?:Function|CPUDispatcher)\(<[\w ]*?(\w+)(?: at 0x\w+)?>\)+|numjit\.helper\((\w+)#\d+\)"
)
_OTHERWISE = "write it with numbers, tuples of numbers, Python's operators and math"


def unset(name: str) -> str:
    """Return what to say of a variable that a path through the functor does not set."""
    return (
        f"the variable {name!r} may have no value here, as a path leads here that does not set it; set it "
        f"before the condition or loop, say {name} = 0.0"
    )


_SAID: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (
        r"Type of variable '\$.*' cannot be determined",
        "a value that := assigns is used at once; assign the variable in a statement of its own before",
    ),
    (r"NRT required", "it needs memory of its own, as lists, sets and strings do; use tuples of numbers"),
    (
        r"Untyped (?:global|freevar) name '?([^':]+)'?:.*type of <class '([^']+)'>",
        lambda m: f"{m[1]!r}, a {m[2].rpartition('.')[2]}, is not for a functor; {_OTHERWISE}",
    ),
    (
        r"NameError: name '(\w+)' is not defined",
        lambda m: f"the name {m[1]!r} is not defined; define it before the call, or correct it",
    ),
    (
        r"Variable '(\w+)' is not defined",
        lambda m: unset(m[1]),
    ),
    (
        r"Unsupported op-code encountered: null",
        "a variable of an inner function may have no value there; set it before the condition or loop",
    ),
    (
        r"Cannot unify (.+) and (.+) for '",
        lambda m: (
            f"a value is {shown(m[1])} on one path and {shown(m[2])} on another; make it one kind on all"
        ),
    ),
    (
        r"Can't unify return type from the following types: (.+)",
        lambda m: f"it returns {_listed(m[1])}, depending on the path; return as many numbers on every path",
    ),
    (
        r"Can't return function object",
        "it returns a function; call it, and return numbers",
    ),
    (
        r"non-constant value associated with variable '(\w+)' in a function that may escape",
        lambda m: f"an inner function that uses {m[1]!r} is handed on; give it {m[1]!r} as a parameter",
    ),
    (
        r"Invalid use of getiter with parameters \((.*)\)",
        lambda m: f"it takes {shown(m[1])} apart; loop over range(n) or a tuple",
    ),
    (r"failed to unpack (.*)", lambda m: f"it unpacks {shown(m[1])}; unpack a tuple of numbers"),
    (
        r"expected (\d+), got (\d+)",
        lambda m: f"it unpacks a tuple of {m[2]} to {m[1]} names; make them as many",
    ),
    (
        r"Calling a closure with \*args|CALL_FUNCTION_EX",
        "it passes arguments with a star to an inner function; pass them one by one",
    ),
    (r"Keyword arguments are not supported", "it passes an argument by name; pass it by position"),
    (
        r"Invalid use of Enum class<.*>\((\w+)\)",
        lambda m: f"it calls the enumeration {m[1]}; name a member of it, as {m[1]}.NAME",
    ),
    (
        r"Unknown attribute '?(\w+)'? of type (.*)",
        lambda m: f"{shown(m[2])} has no {m[1]!r} in a functor; {_OTHERWISE}",
    ),
    (r"Can't index at \[\d+\] in", "a named tuple is made with fields left out; give every field"),
    (r"'(\w+)' calls itself", lambda m: f"{m[1]!r} calls itself; recursion is not supported: use a loop"),
    (
        r"a value of type (.*) cannot be combined with an element",
        lambda m: f"{shown(m[1])} cannot be combined with an element; {_cure(m[1])}",
    ),
    (r"elements have no attribute '__call__'", "it calls a number; call a function, or write * to multiply"),
    (
        r"elements have no attribute '(shape|dtype|ndim|device|size|strides|T)'",
        lambda m: f"elements have no attribute {m[1]!r}; a functor sees one number: decide before the call",
    ),
    (
        r"numjit\.(\w+) is not supported in a functor",
        lambda m: (
            f"numjit.{m[1]} is not for a functor; declare dtypes by annotating the parameter or result, and "
            "convert with float(x), int(x) or bool(x)"
        ),
    ),
    (r"(.* does not take \d+ arguments?)$", lambda m: f"{m[1]}; pass as many as it has in Python"),
    (
        r"(\w+\.\w+) is not supported in a functor$",
        lambda m: f"{m[1]} is not supported in a functor; {_OTHERWISE}",
    ),
]
_RULES = [(re.compile(pattern), said) for pattern, said in _SAID]
#: Calls that nothing implements, by the function's name.
_CALLS = {
    "matmul": "@ multiplies matrices, and a functor has numbers; write *, or multiply outside of it",
    "imatmul": "@ multiplies matrices, and a functor has numbers; write *, or multiply outside of it",
    "reduce": "functools.reduce() is not for a functor; use a loop",
    "sum": "sum() takes a tuple of numbers; pass one",
    "len": "len() is for tuples and raw operands, and this is a number; leave it out",
}


def worded(text: str) -> str:
    """Return a reason that ends with what to do, for one that Numba or a rule gave."""
    for pattern, said in _RULES:
        found = pattern.search(text)
        if found:
            return said if isinstance(said, str) else said(found)
    text = _plain(text)
    called = _CALL.match(text.removesuffix(" is not supported"))
    if called and text.endswith(" is not supported"):
        if called[1] in ("getitem", "static_getitem"):
            if called[2].startswith(("UniTuple", "Tuple")):
                return "a tuple is indexed by one whole number; write t[i][j] for a tuple inside a tuple"
            return (
                "it indexes a number, as a functor sees one element; annotate the operand numjit.raw to "
                "index it, or use a tuple"
            )
        if called[1] in _CALLS:
            return _CALLS[called[1]]
    return text if ";" in text else f"{text or 'Numba does not take it'}; {_OTHERWISE}"


def _plain(text: str) -> str:
    text = _DUAL.sub(r"differentiated \1", _ELEMENT.sub(r"\1", text))
    return _LITERAL.sub(r"\1", _FUNCTION.sub(lambda m: m[1] or m[2], text)).strip()


def shown(kind: str) -> str:
    """Return what a user calls a Numba type."""
    kind = _plain(kind).strip("'\" ")
    for start, name in (
        ("UniTuple", "a tuple"), ("Tuple", "a tuple"), ("none", "None"), ("Module", "a module"),
        ("range", "a range"), ("zip", "zip()"), ("enumerate", "enumerate()"), ("Function", "a function"),
        ("Enum<", "a member of an enumeration"), ("Enum class", "an enumeration"), ("unicode", "a string"),
        ("ellipsis", "..."), ("class(", "a class"), ("numba.", "a class"), ("numjit.rule(", "a function"),
    ):  # fmt: skip
        if kind.startswith(start):
            return name
    if "generator" in kind:
        return "a generator"
    return f"a {kind}" if kind.isidentifier() else kind


def _listed(kinds: str) -> str:
    """Return types that stand with commas between, those inside brackets apart."""
    parts, depth = [""], 0
    for character in kinds:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return " or ".join(dict.fromkeys(shown(part) for part in parts))


def _cure(kind: str) -> str:
    if kind.startswith("Enum"):
        return "write .value, or take an IntEnum"
    if kind.startswith(("UniTuple", "Tuple")):
        return "combine with its members, as t[0]"
    return "use a number"
