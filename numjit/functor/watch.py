"""Small functions that read the numbers a functor captures, so that a tracer guards on them."""

from __future__ import annotations

import types
from typing import Any

from numjit.functor.bytecode import referenced_names
from numjit.functor.fingerprint import Captures

__all__ = ["watchers"]


def watchers(captures: Captures) -> tuple[types.FunctionType, ...]:
    """Return functions without parameters that each return a tuple of captured numbers.

    There is one for the functor and one for each of its helpers that captures any: they share those
    functions' globals and captured variables, and so read what those read.
    """
    found = [watcher for fn in captures.functions if (watcher := _watcher(fn)) is not None]
    return tuple(found)


def _watcher(fn: types.FunctionType) -> types.FunctionType | None:
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    names: dict[str, None] = {}
    for path in referenced_names(fn.__code__):
        name = path[0]
        try:
            value = cells[name].cell_contents if name in cells else fn.__globals__.get(name)
        except ValueError:
            continue
        if _is_constant(value):
            names[name] = None
    if not names:
        return None
    captured = [name for name in names if name in cells]
    text = f"def outer({', '.join(captured)}):\n    def watch():\n        return ({', '.join(names)},)\n"
    space: dict[str, Any] = {}
    exec(text, space)  # noqa: S102 - names of the user's own variables
    code = next(c for c in space["outer"].__code__.co_consts if isinstance(c, types.CodeType))
    closure = tuple(cells[name] for name in code.co_freevars)
    return types.FunctionType(code, fn.__globals__, "watch", None, closure)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(_is_constant(member) for member in value)
    return type(value) in (bool, int, float, complex)
