"""What can be read from a Python function's bytecode without compiling it: names, returns, bad statements."""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = [
    "bare",
    "count_returned",
    "is_about_text",
    "referenced_names",
    "references",
    "return_line",
    "unsupported_statement",
    "with_nested",
]

#: Instructions of statements that no functor may hold: what to call them, and what to do instead.
_UNSUPPORTED = {
    "BUILD_LIST": "a list; use a tuple",
    "BUILD_MAP": "a dict; use variables, or a tuple indexed by a number",
    "BUILD_CONST_KEY_MAP": "a dict; use variables, or a tuple indexed by a number",
    "BUILD_SET": "a set; use a tuple",
    "IMPORT_NAME": "an import; import outside of the functor",
    "STORE_GLOBAL": "an assignment to a global; return the value as one more result instead",
    "DELETE_GLOBAL": "del; leave it out",
    "STORE_DEREF": "nonlocal; return a value instead",
    "STORE_ATTR": "an assignment to an attribute; numbers do not change: use a variable",
    "DELETE_ATTR": "del; leave it out",
    "STORE_SUBSCR": "an assignment to an item; tuples and operands do not change: make a new tuple",
    "DELETE_SUBSCR": "del; leave it out",
    "DELETE_FAST": "del; leave it out: a variable costs nothing",
    "DELETE_DEREF": "del; leave it out: a variable costs nothing",
    "LOAD_ASSERTION_ERROR": "assert, which cannot raise from a kernel; check before the call, or return NaN",
    "LOAD_COMMON_CONSTANT": "assert, which cannot raise from a kernel; check before the call, or return NaN",
    "RAISE_VARARGS": "raise, which cannot raise from a kernel; check before the call, or return NaN",
    "PUSH_EXC_INFO": "try; nothing raises in a kernel (1 / 0 is inf): choose by a condition",
    "BEFORE_WITH": "with; a functor has no contexts: enter it around the call",
    "BEFORE_ASYNC_WITH": "with; a functor has no contexts: enter it around the call",
    "YIELD_VALUE": "yield; return a tuple of results",
    "RETURN_GENERATOR": "a generator; use a loop",
    "LOAD_BUILD_CLASS": "a class; define it outside of the functor",
}
_TEXT = frozenset({"BUILD_STRING", "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"})
_STRING = "a string; a functor has numbers and tuples of numbers only"


def bare(fn: types.FunctionType) -> types.FunctionType:
    """Return a function that has the signature of its code: ``functools.wraps`` shows that of another one."""
    if not {"__wrapped__", "__signature__"} & vars(fn).keys():
        return fn
    made = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__annotations__ = fn.__annotations__
    made.__qualname__, made.__module__ = fn.__qualname__, fn.__module__
    return made


def with_nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and those of the functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from with_nested(constant)


def unsupported_statement(code: types.CodeType) -> tuple[int, str] | None:
    """Return line and short name of the first statement that cannot be part of a functor, or None."""
    for part in with_nested(code):
        found = _unsupported(part)
        if found:
            return found
    return None


def is_about_text(what: str) -> bool:
    """Whether an answer of `unsupported_statement` is that there is a string."""
    return what is _STRING


def _unsupported(part: types.CodeType) -> tuple[int, str] | None:
    if part.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return part.co_firstlineno, "an async function; write it without async and await"
    if part.co_flags & inspect.CO_GENERATOR:
        if part.co_name == "<genexpr>":
            return part.co_firstlineno, "a generator; use a loop"
        return part.co_firstlineno, "a generator, as it yields; return a tuple of results, or use a loop"
    if part.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>"):
        kind = part.co_name[1:5].removesuffix("c")
        return part.co_firstlineno, f"a {kind} comprehension; use a loop"
    line = part.co_firstlineno
    found: tuple[int, str] | None = None
    text: tuple[int, str] | None = None
    implicit = _parts_of_calls(part)
    for instruction in dis.get_instructions(part):
        if instruction.starts_line:
            line = _line(instruction)
        name = instruction.opname
        if instruction.offset in implicit:
            continue
        if name in _UNSUPPORTED:
            what = _UNSUPPORTED[name]
            if name == "PUSH_EXC_INFO":  # with has it as well, further up
                found = found or (_first_protected_line(part), what)
                break
            if name == "STORE_DEREF" and instruction.argval in part.co_cellvars:
                continue  # a local variable that an inner function reads
            found = found or (line, what)
        elif name == "LOAD_CONST" and isinstance(instruction.argval, frozenset):  # of `x in {1, 2}`
            found = found or (line, _UNSUPPORTED["BUILD_SET"])
        elif name in _TEXT or (name in ("LOAD_CONST", "RETURN_CONST") and _is_text(part, instruction)):
            text = text or (line, _STRING)
    # A string is often part of something else that cannot be: raise ValueError("negative").
    return _inner_keyword(part) or found or text


def _parts_of_calls(code: types.CodeType) -> set[int]:
    """Return the offsets of instructions of lists, dicts and strings that the program itself does not have.

    Python builds tuples of more than 30 members, and arguments of a call with as many, from lists and dicts;
    so it does where a star stands before a member.
    """
    lists: list[int] = []
    maps: list[list[int]] = []
    found: set[int] = set()
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name == "BUILD_LIST":
            lists.append(instruction.offset)
        elif lists and _makes_tuple(instruction):
            found.add(lists.pop())
        elif name == "BUILD_MAP":
            maps.append([instruction.offset])
        elif maps and name == "LOAD_CONST" and isinstance(instruction.argval, str):
            maps[-1].append(instruction.offset)  # an argument's name
        elif maps and name == "CALL_FUNCTION_EX" and instruction.arg and instruction.arg & 1:
            found.update(maps.pop())
    return found


def _makes_tuple(instruction: dis.Instruction) -> bool:
    """Whether a list becomes a tuple; Python 3.12 has it among its intrinsics."""
    name = instruction.opname
    return name == "LIST_TO_TUPLE" or (name == "CALL_INTRINSIC_1" and "LIST_TO_TUPLE" in instruction.argrepr)


def return_line(code: types.CodeType) -> int:
    """Return the line of a function's first return statement."""
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        if instruction.starts_line:
            line = _line(instruction)
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
            break
    return line


class _Built(NamedTuple):
    """Stands for the instructions that built a long tuple."""

    arg: int | None
    opname: str = "LIST_TO_TUPLE"
    argval: Any = None


def _inner_keyword(code: types.CodeType) -> tuple[int, str] | None:
    """Find keyword arguments of inner functions, which Numba silently drops, using the default instead.

    Whose keyword it is cannot always be told from bytecode: a statement that mentions an inner function
    and passes a keyword to anything is refused too.
    """
    inner: set[str] = set()
    is_inner_mentioned = False
    line, previous = code.co_firstlineno, ""
    for constant in code.co_consts:
        if not isinstance(constant, types.CodeType):
            continue
        if constant.co_flags & (
            inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
        ):  # bound as if there were no star
            what = "an inner function with a star parameter; name each parameter, or move it out"
            return constant.co_firstlineno, what
        if constant.co_kwonlyargcount:
            what = "an inner function with keyword-only parameters; leave out the `*`, or move it out"
            return constant.co_firstlineno, what
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


def references(code: types.CodeType) -> dict[tuple[str, ...], int]:
    """Return what a function refers to outside of itself, each with a line where it does.

    That is ``("math", "exp")`` for ``math.exp``: the first name is a global's or a captured variable's, those
    after it are attributes taken at once. Inner functions are searched as well.
    """
    found: dict[tuple[str, ...], int] = {}
    for part in with_nested(code):
        path: list[str] = []
        line = place = part.co_firstlineno
        for instruction in dis.get_instructions(part):
            name = instruction.opname
            if instruction.starts_line:
                line = _line(instruction)
            if name in ("LOAD_GLOBAL", "LOAD_NAME") or (
                name in ("LOAD_DEREF", "LOAD_CLASSDEREF") and instruction.argval in code.co_freevars
            ):
                if path:
                    found.setdefault(tuple(path), place)
                path, place = [instruction.argval], line
            elif name in ("LOAD_ATTR", "LOAD_METHOD") and path:
                path.append(instruction.argval)
            elif path and name not in _BETWEEN:
                found.setdefault(tuple(path), place)
                path = []
        if path:
            found.setdefault(tuple(path), place)
    return found


#: Instructions that may stand between a name and its attribute.
_BETWEEN = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL"})


def referenced_names(code: types.CodeType) -> list[tuple[str, ...]]:
    """Return the name paths of `references`."""
    return list(references(code))


def count_returned(code: types.CodeType) -> int | None:
    """Return how many values a function's return statements give, or None where they do not tell."""
    stored: dict[str, int | None] = {}
    counts: set[int | None] = set()
    previous: Any = None
    members: list[int | None] = []  # of the lists that are being built, the innermost last
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("CACHE", "EXTENDED_ARG", "NOP", "RESUME", "PUSH_NULL"):
            continue
        if name == "BUILD_LIST":
            members.append(int(instruction.arg or 0))
        elif members and name == "LIST_APPEND":
            so_far = members[-1]
            members[-1] = None if so_far is None else so_far + 1
        elif members and name == "LIST_EXTEND":  # by what stands just before it
            so_far, more = members[-1], _size(previous, stored)
            is_tuple = previous.opname in ("BUILD_TUPLE", "LOAD_CONST")
            members[-1] = None if so_far is None or more is None or not is_tuple else so_far + more
        elif members and _makes_tuple(instruction):
            previous = _Built(members.pop())
            continue
        if name == "STORE_FAST":
            stored[instruction.argval] = _size(previous, stored)
        elif name == "RETURN_VALUE":
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
    if name == "LIST_TO_TUPLE":
        return instruction.arg if instruction.arg is None else int(instruction.arg)
    if name == "BUILD_TUPLE":
        return int(instruction.arg)
    if name == "LOAD_CONST":
        return len(instruction.argval) if isinstance(instruction.argval, tuple) else 1
    if name.startswith(("BINARY_", "UNARY_", "COMPARE_", "CONTAINS_")) and name != "BINARY_SUBSCR":
        return 1
    if name.startswith("LOAD_FAST"):
        return stored.get(instruction.argval) if instruction.argval in stored else 1
    return None
