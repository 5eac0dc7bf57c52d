"""Identity of a Python function's meaning: a digest that is stable across processes, and a cheap check.

The digest covers everything that decides what a functor computes: bytecode, constants, defaults,
captured variables and globals, members of enumerations, fields of named tuples, and recursively the functions
it calls, in whatever module they are. What it cannot cover is refused by name: a list, an object, a module
that is not asked for a name at once. It does not cover file names and line numbers, so that moving a functor
does not recompile it.
"""

from __future__ import annotations

import builtins
import enum
import hashlib
import struct
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from numjit import math as numjit_math
from numjit.dtypes import DType
from numjit.errors import FunctorError
from numjit.functor.bytecode import references
from numjit.functor.captured import is_named_tuple, is_own_function, own_operators, refused, unstable

__all__ = [
    "MISSING_NAME",
    "Captures",
    "digest",
    "followed",
    "is_intrinsic",
    "refers_to",
    "refused_at",
    "resolve",
]

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
    try:
        for value in (f"python {sys.version_info[0]}.{sys.version_info[1]}", *values):
            encoder.add(value)
    except _UnstableError as error:
        raise FunctorError(str(error)) from None
    return encoder.hash.hexdigest()


class _UnstableError(Exception):
    """Something without a stable identity was met; whoever knows its name says so."""

    def __init__(self, value: Any, reason: str = "") -> None:
        self.kind = "class" if isinstance(value, type) else type(value).__qualname__
        self.reason = reason or unstable(value)
        super().__init__(self.message())

    def message(self, subject: str = "a functor", name: str = "") -> str:
        article = "an" if self.kind[0].lower() in "aeio" else "a"
        named = f", {name!r}" if name else ""
        return f"{subject} cannot capture {article} {self.kind}{named}: {self.reason}"


class _Encoder:
    """Feeds values to a hash, each with its type, so that 1, 1.0 and True differ."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        #: By address; the values are kept, so that no other takes the address of one that was computed.
        self._seen: dict[int, tuple[int, Any]] = {}

    def _write(self, tag: str, data: bytes = b"") -> None:
        self.hash.update(f"{tag}:{len(data)};".encode())
        self.hash.update(data)

    def add(self, value: Any) -> None:
        """Feed one value."""
        if isinstance(value, enum.Enum):
            self.add(type(value))
            self._write("member", str(value._name_).encode())  # that of flags together is None
            self.add(value._value_)
        elif value is None or value is Ellipsis or isinstance(value, bool):
            self._write(type(value).__name__, repr(value).encode())
        elif isinstance(value, int):
            self._write(self._number_class(value, int), int.__repr__(value).encode())
        elif isinstance(value, float):
            self._write(self._number_class(value, float), struct.pack("<d", value))
        elif isinstance(value, complex):
            self._write(self._number_class(value, complex), struct.pack("<dd", value.real, value.imag))
        elif isinstance(value, str):
            self._write("str", value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, bytes):
            self._write("bytes", value)
        elif isinstance(value, tuple):
            self._write(f"tuple{len(value)}")
            if type(value) is not tuple:
                self.add(type(value))
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

    @staticmethod
    def _number_class(value: Any, plain: type) -> str:
        """Return the tag of a number, of a class that means by its operators what the plain one does."""
        own = None if type(value) is plain else own_operators(type(value))
        if own is not None:
            raise _UnstableError(value, f"its {own} would not be called; use a {plain.__name__}")
        return plain.__name__

    def _add_code(self, code: types.CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self.add(("code", *counts, code.co_code, getattr(code, "co_exceptiontable", b"")))
        self.add((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        self.add(code.co_consts)

    def _add_object(self, value: Any) -> None:
        known = self._seen.get(id(value))
        if known is not None:  # recursion, or the same helper twice
            self._write("seen", str(known[0]).encode())
            return
        self._seen[id(value)] = len(self._seen), value
        functor = getattr(value, "__numjit_functor__", None)
        if functor is not None:
            self._write("functor", functor.kind.encode())
            # Not its fingerprint: decorated functions may refer to each other in a circle.
            self.add(functor.identity() if hasattr(functor, "identity") else functor.fingerprint())
        elif is_intrinsic(value):  # compiled by a rule, not from its Python body
            self._write("named", f"{value.__module__}.{value.__qualname__}".encode())
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, types.ModuleType):
            if value.__name__ not in _CONSTANT_MODULES:
                raise _UnstableError(value)
            self._write("module", value.__name__.encode())
        elif refused(value) is not None:  # compiling says so where it is called
            self._write("refused", type(value).__qualname__.encode())
        elif isinstance(value, types.FunctionType):
            self._add_function(value)
        elif isinstance(getattr(value, "py_func", None), types.FunctionType):  # a Numba dispatcher
            self._write("dispatcher")
            self.add(value.py_func)
        elif isinstance(value, types.BuiltinFunctionType):
            self._write("named", f"{value.__module__}.{value.__qualname__}".encode())
        elif isinstance(value, np.bool_ | np.number):
            self._write("scalar", str(value.dtype).encode() + b"=" + value.tobytes())
        else:
            raise _UnstableError(value)

    def _add_class(self, cls: type) -> None:
        self._write("named", f"{cls.__module__}.{cls.__qualname__}".encode())
        is_enum = issubclass(cls, enum.Enum)
        if not is_enum and not is_named_tuple(cls):
            return  # a builtin, or compiling refuses it
        own = own_operators(cls)
        if own is not None:
            raise _UnstableError(cls, f"its {own} would not be called; use a plain function instead of it")
        if is_enum:
            for name, member in cls.__members__.items():  # type: ignore[attr-defined]
                self.add(name)
                self.add(member._value_)
        else:
            self.add(cls._fields)  # type: ignore[attr-defined]
            self.add(tuple(sorted(getattr(cls, "_field_defaults", {}).items())))

    def _add_function(self, fn: types.FunctionType) -> None:
        self.add(fn.__code__)
        self.add(fn.__defaults__)
        self.add(tuple(sorted((fn.__kwdefaults__ or {}).items())))
        for path, line, value, leftover in _references(fn):
            self.add(path)
            try:
                self.add(value)
                _check_leftover(value, leftover)
            except _UnstableError as error:
                from numjit.functor.source import place

                subject = f"functor {fn.__name__!r}"
                name = ".".join(path[: len(path) - len(leftover)])
                where = place(fn.__code__.co_filename, line)
                raise FunctorError(f"{error.message(subject, name)}{where}") from None


def _check_leftover(value: Any, attributes: tuple[str, ...]) -> None:
    """Refuse attributes of things that are told apart by something other than their attributes."""
    if attributes and isinstance(value, type) and issubclass(value, enum.Enum):
        if attributes[0] not in value.__members__:
            raise _UnstableError(value, f"only its members can be read, not {attributes[0]!r}; name a member")
        value, attributes = value.__members__[attributes[0]], attributes[1:]
    if isinstance(value, enum.IntFlag) and attributes[:1] != ("value",):
        raise _UnstableError(value, "flags are no plain numbers (~ gives the others); write .value")
    if not attributes:
        return
    if isinstance(value, enum.Enum):
        readable = ("value", "name", "real", "imag") if isinstance(value, int) else ("value", "name")
        if attributes and attributes[0] not in readable:
            reason = f"only a member's value can be read, not {attributes[0]!r}; write .value"
            raise _UnstableError(value, reason)
        return
    if isinstance(value, type | types.FunctionType) or hasattr(value, "__numjit_functor__"):
        name = attributes[0]
        reason = (
            f"later changes of its {name!r} would go unseen; give that a variable of its own outside of the "
            f"functor ({name.lower()} = {getattr(value, '__name__', 'it')}.{name})"
        )
        raise _UnstableError(value, reason)


def is_intrinsic(value: Any) -> bool:
    """Whether a value is one of ``numjit.math``'s functions itself (a copy or wrapper is none)."""
    if getattr(value, "__module__", None) != numjit_math.__name__:
        return False
    return vars(numjit_math).get(getattr(value, "__name__", "")) is value


def _references(
    fn: types.FunctionType,
) -> Iterable[tuple[tuple[str, ...], int, Any, tuple[str, ...]]]:
    """Yield what a function refers to: name path, line, present value, and the attributes not taken yet."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    for path, line in references(fn.__code__).items():
        yield path, line, *followed(fn.__globals__, cells, path)


def refers_to(fn: types.FunctionType, value: Any) -> bool:
    """Whether a function's own body mentions a global or captured object, or one of a module's."""
    return any(found is value for _, _, found, _ in _references(fn))


def refused_at(fn: types.FunctionType, line: int) -> str | None:
    """Return why something that a function names on a line cannot be used in a functor; None if all can."""
    found = (refused(value) for _, place, value, _ in _references(fn) if place == line)
    return next((reason for reason in found if reason), None)


def resolve(names: dict[str, Any], cells: dict[str, types.CellType], path: tuple[str, ...]) -> Any:
    """Return the value of a name path; attributes are only taken of modules, whose names can be rebound."""
    return followed(names, cells, path)[0]


def followed(
    names: dict[str, Any], cells: dict[str, types.CellType], path: tuple[str, ...]
) -> tuple[Any, tuple[str, ...]]:
    """Return the value of a name path as far as it goes through modules, and the attributes after that."""
    first = path[0]
    if first in cells:
        try:
            value = cells[first].cell_contents
        except ValueError:
            return MISSING_NAME, ()
    else:
        value = names.get(first, _builtin(names, first))
    for depth, name in enumerate(path[1:], 1):
        if not isinstance(value, types.ModuleType):
            return value, path[depth:]
        value = getattr(value, name, MISSING_NAME)
    return value, ()


def _builtin(names: dict[str, Any], name: str) -> Any:
    found = names.get("__builtins__", builtins)
    table = vars(found) if isinstance(found, types.ModuleType) else found
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
        for path in references(fn.__code__):
            value = resolve(fn.__globals__, cells, path)
            roots[path[0]] = None
            root = resolve(fn.__globals__, cells, path[:1])
            if (
                len(path) > 1
                and isinstance(root, types.ModuleType)
                and root.__name__ not in _CONSTANT_MODULES
            ):
                self._attributes.append((fn.__globals__, cells, path))
            functor = getattr(value, "__numjit_functor__", None)
            inner = getattr(functor, "fn", None) or getattr(value, "py_func", None) or value
            if is_own_function(inner) and not is_intrinsic(inner):
                self._collect(inner)
        for name in roots:
            if name in cells:
                self._cells.append(cells[name])
            else:  # absent where it is a builtin, until something shadows that
                self._globals.append((fn.__globals__, name))
        for name in fn.__kwdefaults__ or ():
            self._globals.append((fn.__kwdefaults__, name))  # type: ignore[arg-type]

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
            values.append(resolve(names, cells, path))
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
            value = resolve(names, cells, path[:1])
            for depth, name in enumerate(path[1:], 2):
                if not isinstance(value, types.ModuleType):
                    break
                if name not in vars(value) or hasattr(type(value), name):
                    return None
                found.append(("name", vars(value), name))
                value = resolve(names, cells, path[:depth])
        return found


#: Modules whose names nobody rebinds.
_CONSTANT_MODULES = frozenset({"cmath", "math", "numjit", "numjit.math", "operator"})
