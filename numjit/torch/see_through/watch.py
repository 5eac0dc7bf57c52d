"""Small functions that read what a functor captures, so that a tracer guards on it."""

from __future__ import annotations

import enum
import types
from typing import Any

from numjit.functor.bytecode import references
from numjit.functor.fingerprint import Captures, followed, is_intrinsic

__all__ = ["watchers"]


def watchers(captures: Captures) -> tuple[types.FunctionType, ...]:
    """Return functions without parameters that each return a tuple of constants, which change with captures.

    There is one for the functor and one for each of its helpers that captures any: they share those
    functions' globals and captured variables, and so read what those read.
    """
    found = [watcher for fn in captures.functions if (watcher := _watcher(fn)) is not None]
    return tuple(found)


def _watcher(fn: types.FunctionType) -> types.FunctionType | None:
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    watched: dict[str, None] = {}
    roots: dict[str, None] = {}
    for path in references(fn.__code__):
        value, leftover = followed(fn.__globals__, cells, path)
        is_own = path[0] in cells or path[0] in fn.__globals__  # and no builtin
        if is_own and all(name.isidentifier() for name in path):
            for expression in _expressions(".".join(path[: len(path) - len(leftover)]), value):
                watched[expression] = roots[path[0]] = None
    if not watched:
        return None
    captured = [name for name in roots if name in cells]
    text = f"def outer({', '.join(captured)}):\n    def watch():\n        return ({', '.join(watched)},)\n"
    space: dict[str, Any] = {}
    exec(text, space)  # noqa: S102 - names of the user's own variables
    code = next(c for c in space["outer"].__code__.co_consts if isinstance(c, types.CodeType))
    closure = tuple(cells[name] for name in code.co_freevars)
    return types.FunctionType(code, fn.__globals__, "watch", None, closure)


def _expressions(name: str, value: Any) -> list[str]:
    """Return expressions whose values are constants to a tracer, and change with what is captured."""
    if _is_constant(value):
        return [name]
    if isinstance(value, tuple):
        return [e for k, member in enumerate(value) for e in _expressions(f"{name}[{k}]", member)]
    if getattr(value, "__numjit_functor__", None) is not None and hasattr(value, "_token"):
        return [f"{name}._token"]
    is_object = isinstance(value, types.FunctionType | enum.EnumMeta | enum.Enum)
    # Tracers guard on the identity, or code, of an object that they compare.
    return [f"{name} is None"] if is_object and not is_intrinsic(value) else []


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(_is_constant(member) for member in value)
    return value is None or type(value) in (bool, int, float, complex)
