"""Finds the syntax tree of a Python function, lambdas too, and makes sure that it is the one that runs."""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Sequence

from numjit.errors import CompilationError
from numjit.functor.bytecode import with_nested

__all__ = ["definition", "place", "source_error"]

Definition = ast.FunctionDef | ast.Lambda


@functools.lru_cache(maxsize=64)
def _read(text: str) -> tuple[list[Definition], list[types.CodeType]]:
    """Return all functions of a file, as trees and as code."""
    try:
        tree = ast.parse(text)
        module = compile(text, "<numjit>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return [], []
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    return nodes, list(with_nested(module))


def place(file: str, line: int) -> str:
    """Return how the end of a message shows a line: its file and number, then its text if there is one."""
    text = linecache.getline(file, line).strip()
    return f" ({file}:{line})" + (f"\n    {text}" if text else "")


def source_error(fn: types.FunctionType, location: tuple[str, int] | None, reason: str) -> CompilationError:
    """Return a `CompilationError` that shows a line of `fn`'s file."""
    file, line = location or (fn.__code__.co_filename, fn.__code__.co_firstlineno)
    return CompilationError(f"functor {fn.__name__!r} cannot be compiled: {reason}{place(file, line)}")


def definition(fn: types.FunctionType) -> Definition | None:
    """Return the definition of a function, or None where its source is not there or is no longer its own.

    The file is compiled and compared with the function, so that an edited file never answers for the code
    that was loaded before.
    """
    code = fn.__code__
    nodes, codes = _read("".join(linecache.getlines(code.co_filename, fn.__globals__)))
    if not any(_same(code, known) for known in codes):
        return None
    places = [place for place in code.co_positions() if None not in place and place[2:] != (0, 0)]
    found = [node for node in nodes if _holds(node, code, places)]
    return min(found, key=_size, default=None)


def _holds(node: Definition, code: types.CodeType, places: Sequence[tuple[int | None, ...]]) -> bool:
    """Whether a definition has a function's name and parameters, and all of its instructions are in it."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    count = code.co_argcount + code.co_kwonlyargcount
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if name != code.co_name or tuple(names) != code.co_varnames[:count]:
        return False
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    if code.co_firstlineno != first:
        return False
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return all(start <= (p[0], p[2]) and (p[1], p[3]) <= end for p in places)


def _size(node: Definition) -> tuple[int, int]:
    lines = (node.end_lineno or 0) - node.lineno
    return lines, (node.end_col_offset or 0) - (0 if lines else node.col_offset)


def _same(first: types.CodeType, second: types.CodeType) -> bool:
    """Whether two code objects are the same function: place, instructions, names and constants."""
    names = ("co_name", "co_firstlineno", "co_code", "co_names", "co_varnames", "co_freevars", "co_argcount",
             "co_kwonlyargcount")  # fmt: skip
    if any(getattr(first, name) != getattr(second, name) for name in names):
        return False
    if len(first.co_consts) != len(second.co_consts):
        return False
    for one, other in zip(first.co_consts, second.co_consts, strict=True):
        if isinstance(one, types.CodeType) and isinstance(other, types.CodeType):
            if not _same(one, other):
                return False
        elif repr(one) != repr(other):
            return False
    return True
