"""What can be read from a Python function's bytecode without compiling it: names, returns, bad statements."""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Iterator
from typing import Any

__all__ = ["count_returned", "referenced_names", "unsupported_statement", "with_nested"]

#: Instructions of statements that no functor may hold, and what to call them.
_UNSUPPORTED = {
    "BUILD_LIST": "a list; use a tuple",
    "LIST_APPEND": "a list comprehension; use a loop",
    "BUILD_MAP": "a dict",
    "BUILD_CONST_KEY_MAP": "a dict",
    "BUILD_SET": "a set; use a tuple",
    "BUILD_STRING": "a string",
    "FORMAT_VALUE": "a string",
    "FORMAT_SIMPLE": "a string",
    "FORMAT_WITH_SPEC": "a string",
    "IMPORT_NAME": "an import; import outside of the functor",
    "STORE_GLOBAL": "an assignment to a global; return a value instead",
    "STORE_DEREF": "nonlocal; return a value instead",
    "STORE_ATTR": "an assignment to an attribute",
    "STORE_SUBSCR": "an assignment to an item",
    "DELETE_FAST": "del",
    "LOAD_ASSERTION_ERROR": "assert, which cannot raise from a kernel",
    "LOAD_COMMON_CONSTANT": "assert, which cannot raise from a kernel",
    "RAISE_VARARGS": "raise, which cannot raise from a kernel",
    "PUSH_EXC_INFO": "try",
    "BEFORE_WITH": "with",
    "YIELD_VALUE": "yield",
    "RETURN_GENERATOR": "a generator",
    "LOAD_BUILD_CLASS": "a class",
}


def with_nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and those of the functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from with_nested(constant)


def unsupported_statement(code: types.CodeType) -> tuple[int, str] | None:
    """Return line and short name of the first statement that cannot be part of a functor, or None."""
    for part in with_nested(code):
        if part.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            return part.co_firstlineno, "a generator; use a loop"
        line = part.co_firstlineno
        found: tuple[int, str] | None = None
        for instruction in dis.get_instructions(part):
            if instruction.starts_line:
                line = _line(instruction)
            if instruction.opname in _UNSUPPORTED:
                what = _UNSUPPORTED[instruction.opname]
                if instruction.opname == "PUSH_EXC_INFO":  # with has it as well, further up
                    return found or (_first_protected_line(part), what)
                if instruction.opname == "STORE_DEREF" and instruction.argval in part.co_cellvars:
                    continue  # a local variable that an inner function reads

                found = found or (line, what)
            elif instruction.opname in ("LOAD_CONST", "RETURN_CONST") and _is_text(part, instruction):
                found = found or (line, "a string")
        found = _inner_keyword(part) or found
        if found:
            return found
    return None


def _inner_keyword(code: types.CodeType) -> tuple[int, str] | None:
    """Find keyword arguments of inner functions, which Numba silently drops, using the default instead.

    Whose keyword it is cannot always be told from bytecode: a statement that mentions an inner function
    and passes a keyword to anything is refused too.
    """
    inner: set[str] = set()
    is_inner_mentioned = False
    line, previous = code.co_firstlineno, ""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant.co_kwonlyargcount:
            return constant.co_firstlineno, "an inner function with keyword-only parameters"
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if instruction.starts_line:
            line = _line(instruction)
        if name in ("STORE_FAST", "STORE_DEREF") and previous in ("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE"):
            inner.add(instruction.argval)
        if name in ("STORE_FAST", "STORE_DEREF", "POP_TOP", "RETURN_VALUE"):
            is_inner_mentioned = False
        elif name == "MAKE_FUNCTION" or (name.startswith("LOAD_") and instruction.argval in inner):
            is_inner_mentioned = True
        elif name in ("KW_NAMES", "CALL_KW") and is_inner_mentioned:
            return line, "a keyword argument of an inner function; pass it by position"
        previous = name
    return None


def _line(instruction: dis.Instruction) -> int:
    # Python 3.13 made starts_line a bool and added line_number.
    number = getattr(instruction, "line_number", None)
    return int(number if number is not None else instruction.starts_line or 0)


def _first_protected_line(code: types.CodeType) -> int:
    """Return the line where the first try block of a code object starts."""
    entries = getattr(dis.Bytecode(code), "exception_entries", ())
    start = min((entry.start for entry in entries), default=0)
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        if instruction.offset >= start:  # the try itself left a NOP just before what it protects
            break
        if instruction.starts_line:
            line = _line(instruction)
    return line


def _is_text(code: types.CodeType, instruction: dis.Instruction) -> bool:
    """Whether a constant is a string that is really used (a docstring is not loaded)."""
    if not isinstance(instruction.argval, str | bytes):
        return False
    # Python 3.11 pushes the qualified name of every inner function before MAKE_FUNCTION.
    following = [i for i in dis.get_instructions(code) if i.offset > instruction.offset]
    return not following or following[0].opname not in ("MAKE_FUNCTION", "KW_NAMES")


def referenced_names(code: types.CodeType) -> list[tuple[str, ...]]:
    """Return what a function refers to outside of itself: ``("math", "exp")`` for ``math.exp``.

    The first name is a global's or a captured variable's, those after it are attributes taken at once.
    Inner functions are searched as well.
    """
    found: dict[tuple[str, ...], None] = {}
    for part in with_nested(code):
        path: list[str] = []
        for instruction in dis.get_instructions(part):
            name = instruction.opname
            if name in ("LOAD_GLOBAL", "LOAD_NAME") or (
                name in ("LOAD_DEREF", "LOAD_CLASSDEREF") and instruction.argval in code.co_freevars
            ):
                if path:
                    found[tuple(path)] = None
                path = [instruction.argval]
            elif name in ("LOAD_ATTR", "LOAD_METHOD") and path:
                path.append(instruction.argval)
            elif path and name not in ("CACHE", "PRECALL", "PUSH_NULL"):
                found[tuple(path)] = None
                path = []
        if path:
            found[tuple(path)] = None
    return list(found)


def count_returned(code: types.CodeType) -> int | None:
    """Return how many values a function's return statements give, or None where they do not tell."""
    stored: dict[str, int | None] = {}
    counts: set[int | None] = set()
    previous: Any = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("CACHE", "NOP", "RESUME", "PUSH_NULL"):
            continue
        if instruction.opname == "STORE_FAST":
            stored[instruction.argval] = _size(previous, stored)
        elif instruction.opname == "RETURN_VALUE":
            counts.add(_size(previous, stored))
        elif instruction.opname == "RETURN_CONST":
            counts.add(len(instruction.argval) if isinstance(instruction.argval, tuple) else 1)
        previous = instruction
    counts.discard(None)
    return counts.pop() if len(counts) == 1 else None


def _size(instruction: Any, stored: dict[str, int | None]) -> int | None:
    """Return the number of values that an instruction leaves on the stack as one result."""
    if instruction is None:
        return None
    name = instruction.opname
    if name == "BUILD_TUPLE":
        return int(instruction.arg)
    if name == "LOAD_CONST":
        return len(instruction.argval) if isinstance(instruction.argval, tuple) else 1
    if name.startswith(("BINARY_", "UNARY_", "COMPARE_", "CONTAINS_")) and name != "BINARY_SUBSCR":
        return 1
    if name.startswith("LOAD_FAST"):
        return stored.get(instruction.argval) if instruction.argval in stored else 1
    return None
