"""Identity of a Python function's meaning: a digest that is stable across processes, and a cheap check.

The digest covers everything that decides what a functor computes: bytecode, constants, defaults,
captured variables and globals, and recursively the functions it calls, in whatever module they are. It
does not cover file names and line numbers, so that moving a functor does not recompile it.
"""

from __future__ import annotations

import enum
import hashlib
import struct
import sys
import types
from collections.abc import Iterable
from typing import Any

from numjit import math as numjit_math
from numjit.dtypes import DType
from numjit.errors import FunctorError
from numjit.functor.bytecode import referenced_names

__all__ = ["MISSING_NAME", "Captures", "digest", "refers_to"]

#: Stands for a global or captured variable that has no value (yet).
MISSING_NAME = "<numjit: no such name>"


def digest(*values: Any) -> str:
    """Return a hexadecimal digest of functions and plain values.

    Raises
    ------
    FunctorError
        Something captured has no stable identity: an array (its contents could change unseen), a list.
    """
    encoder = _Encoder()
    encoder.add(f"python {sys.version_info[0]}.{sys.version_info[1]}")
    for value in values:
        encoder.add(value)
    return encoder.hash.hexdigest()


class _Encoder:
    """Feeds values to a hash, each with its type, so that 1, 1.0 and True differ."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._seen: dict[int, int] = {}

    def _write(self, tag: str, data: bytes = b"") -> None:
        self.hash.update(f"{tag}:{len(data)};".encode())
        self.hash.update(data)

    def add(self, value: Any) -> None:
        """Feed one value."""
        if isinstance(value, enum.Enum):
            self._write("enum", f"{type(value).__module__}.{type(value).__qualname__}".encode())
            self.add(value.value)
        elif value is None or value is Ellipsis or isinstance(value, bool | int):
            self._write(type(value).__name__, repr(value).encode())
        elif isinstance(value, float):
            self._write("float", struct.pack("<d", value))
        elif isinstance(value, complex):
            self._write("complex", struct.pack("<dd", value.real, value.imag))
        elif isinstance(value, str):
            self._write("str", value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, bytes):
            self._write("bytes", value)
        elif isinstance(value, tuple):
            self._write(f"tuple{len(value)}")
            for member in value:
                self.add(member)
        elif isinstance(value, frozenset):
            self._write(f"frozenset{len(value)}")
            for member in sorted(digest(member) for member in value):
                self.add(member)
        elif isinstance(value, DType):
            self._write("dtype", value.name.encode())
        elif isinstance(value, types.CodeType):
            self._add_code(value)
        else:
            self._add_object(value)

    def _add_code(self, code: types.CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self.add(("code", *counts, code.co_code, getattr(code, "co_exceptiontable", b"")))
        self.add((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        self.add(code.co_consts)

    def _add_object(self, value: Any) -> None:
        known = self._seen.get(id(value))
        if known is not None:  # recursion, or the same helper twice
            self._write("seen", str(known).encode())
            return
        self._seen[id(value)] = len(self._seen)
        functor = getattr(value, "__numjit_functor__", None)
        if functor is not None:
            self._write("functor", functor.kind.encode())
            # Not its fingerprint: decorated functions may refer to each other in a circle.
            self.add(functor.identity() if hasattr(functor, "identity") else functor.fingerprint())
        elif _is_intrinsic(value):  # compiled by a rule, not from its Python body
            self._write("named", f"{value.__module__}.{value.__qualname__}".encode())
        elif isinstance(value, types.FunctionType):
            self._add_function(value)
        elif isinstance(getattr(value, "py_func", None), types.FunctionType):  # a Numba dispatcher
            self._write("dispatcher")
            self.add(value.py_func)
        elif isinstance(value, types.ModuleType):
            self._write("module", value.__name__.encode())
        elif isinstance(value, type | types.BuiltinFunctionType):
            self._write("named", f"{value.__module__}.{value.__qualname__}".encode())
        elif hasattr(value, "dtype") and getattr(value, "shape", None) == () and hasattr(value, "tobytes"):
            self._write("scalar", str(value.dtype).encode() + b"=" + value.tobytes())  # of NumPy
        elif type(value).__module__.partition(".")[0] in (
            "numpy",
            "torch",
            "cupy",
            "jax",
            "scipy",
        ) and callable(value):  # compiling refuses it with a better message
            self._write("foreign", repr(value).encode())
        else:
            raise FunctorError(
                f"a functor cannot capture a {type(value).__qualname__}: later changes of its contents "
                "would go unseen; pass it as an operand, or capture a number or a tuple of numbers"
            )

    def _add_function(self, fn: types.FunctionType) -> None:
        self.add(fn.__code__)
        self.add(fn.__defaults__)
        self.add(tuple(sorted((fn.__kwdefaults__ or {}).items())))
        for path, value in _references(fn):
            self.add(path)
            self.add(value)


def _is_intrinsic(value: Any) -> bool:
    """Whether a value is one of ``numjit.math``'s functions itself (a copy or wrapper is none)."""
    if getattr(value, "__module__", None) != numjit_math.__name__:
        return False
    return vars(numjit_math).get(getattr(value, "__name__", "")) is value


def _references(fn: types.FunctionType) -> Iterable[tuple[tuple[str, ...], Any]]:
    """Yield what a function refers to: name path and present value, modules resolved to the attribute."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    for path in referenced_names(fn.__code__):
        yield path, _resolve(fn.__globals__, cells, path)


def refers_to(fn: types.FunctionType, value: Any) -> bool:
    """Whether a function's own body mentions a global or captured object, or one of a module's."""
    return any(found is value for _, found in _references(fn))


def _resolve(names: dict[str, Any], cells: dict[str, types.CellType], path: tuple[str, ...]) -> Any:
    """Return the value of a name path; attributes are only taken of modules, whose names can be rebound."""
    first = path[0]
    if first in cells:
        try:
            value = cells[first].cell_contents
        except ValueError:
            return MISSING_NAME
    else:
        value = names.get(first, _builtin(names, first))
    for name in path[1:]:
        if not isinstance(value, types.ModuleType):
            break
        value = getattr(value, name, MISSING_NAME)
    return value


def _builtin(names: dict[str, Any], name: str) -> Any:
    builtins = names.get("__builtins__", {})
    table = vars(builtins) if isinstance(builtins, types.ModuleType) else builtins
    return table.get(name, MISSING_NAME)


class Captures:
    """What a function captures, and its helpers in turn, as identities that are quick to compare.

    Parameters
    ----------
    fn
        The function.
    """

    def __init__(self, fn: types.FunctionType) -> None:
        self._functions: list[types.FunctionType] = []
        self._globals: list[tuple[dict[str, Any], str]] = []
        self._cells: list[types.CellType] = []
        self._attributes: list[tuple[dict[str, Any], dict[str, types.CellType], tuple[str, ...]]] = []
        self._collect(fn)

    def _collect(self, fn: types.FunctionType) -> None:
        if any(fn is known for known in self._functions):
            return
        self._functions.append(fn)
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        roots: dict[str, None] = {}
        for path in referenced_names(fn.__code__):
            value = _resolve(fn.__globals__, cells, path)
            roots[path[0]] = None
            root = _resolve(fn.__globals__, cells, path[:1])
            if (
                len(path) > 1
                and isinstance(root, types.ModuleType)
                and root.__name__ not in _CONSTANT_MODULES
            ):
                self._attributes.append((fn.__globals__, cells, path))
            functor = getattr(value, "__numjit_functor__", None)
            inner = getattr(functor, "fn", None) or getattr(value, "py_func", None) or value
            if isinstance(inner, types.FunctionType) and not _is_intrinsic(inner):
                self._collect(inner)
        for name in roots:
            if name in cells:
                self._cells.append(cells[name])
            else:  # absent where it is a builtin, until something shadows that
                self._globals.append((fn.__globals__, name))

    @property
    def functions(self) -> tuple[types.FunctionType, ...]:
        """The function, and every function that it calls."""
        return tuple(self._functions)

    def current(self) -> tuple[Any, ...]:
        """Return the present values; compare element by element with ``is``."""
        values: list[Any] = [names.get(name) for names, name in self._globals]
        for fn in self._functions:
            values += (fn.__code__, fn.__defaults__, fn.__kwdefaults__)
        for cell in self._cells:
            try:
                values.append(cell.cell_contents)
            except ValueError:
                values.append(MISSING_NAME)
        for names, cells, path in self._attributes:
            values.append(_resolve(names, cells, path))
        return tuple(values)

    def places(self) -> list[tuple[str, Any, Any]] | None:
        """Return where the values of `current` are kept: what decides each of them.

        Entries are ``("name", dict, key)``, ``("cell", cell, None)`` and ``("function", function, None)``
        (its code, defaults and keyword defaults). None where a module computes an attribute when asked.
        """
        found: list[tuple[str, Any, Any]] = [("name", names, name) for names, name in self._globals]
        found += [("function", fn, None) for fn in self._functions]
        found += [("cell", cell, None) for cell in self._cells]
        for names, cells, path in self._attributes:
            value = _resolve(names, cells, path[:1])
            for depth, name in enumerate(path[1:], 2):
                if not isinstance(value, types.ModuleType):
                    break
                if name not in vars(value) or hasattr(type(value), name):
                    return None
                found.append(("name", vars(value), name))
                value = _resolve(names, cells, path[:depth])
        return found


#: Modules whose names nobody rebinds.
_CONSTANT_MODULES = frozenset({"cmath", "math", "numjit", "numjit.math", "operator"})
