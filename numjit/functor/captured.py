"""What a functor may name besides its own variables, and why it may not name the rest.

Two questions are answered apart. Whether a value can be told from another one, now and in the next process:
`numjit.functor.fingerprint` asks that of everything that a functor names, and `unstable` has the words where
the answer is no. And whether a function can be called for one element: compilers ask `refused` where the
call is reached, so that ``if DEBUG: print(x)`` costs nothing while ``DEBUG`` is false.
"""

from __future__ import annotations

import builtins
import enum
import functools
import types
from typing import Any

__all__ = ["is_named_tuple", "is_own_function", "own_operators", "refused", "unstable"]

_ARRAYS = ("numpy", "torch", "cupy", "jax", "scipy")
_RANDOM = frozenset({"random", "_random", "secrets", "uuid"})
_CLOCKS = frozenset({"time", "datetime", "_datetime", "timeit"})
_OUTSIDE = frozenset(
    {
        "_io", "_socket", "_thread", "asyncio", "ctypes", "gc", "getpass", "io", "locale", "logging",
        "multiprocessing", "nt", "ntpath", "os", "pathlib", "platform", "posix", "posixpath", "select",
        "shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "urllib", "warnings",
        "_warnings",
    }
)  # fmt: skip
#: Functions of array libraries that draw random numbers, beside those of modules called "random".
_DRAWN = ("rand", "normal", "bernoulli", "multinomial", "poisson", "dropout", "shuffle", "permutation")
_IN_A_FUNCTOR = "a functor has numbers and tuples of numbers only"
#: Builtin functions and classes that are not for elements, and what to do instead.
_BUILTINS: dict[str, str] = {
    "all": "write `a and b`",
    "any": "write `a or b`",
    "ascii": _IN_A_FUNCTOR,
    "bin": _IN_A_FUNCTOR,
    "breakpoint": "call the undecorated function on numbers to step through it",
    "bytearray": _IN_A_FUNCTOR,
    "bytes": _IN_A_FUNCTOR,
    "callable": "decide before the call",
    "chr": _IN_A_FUNCTOR,
    "compile": "write the expression itself",
    "delattr": _IN_A_FUNCTOR,
    "dict": "use variables, or a tuple indexed by a number",
    "dir": _IN_A_FUNCTOR,
    "eval": "write the expression itself",
    "exec": "write the statements themselves",
    "exit": "a kernel cannot end the program",
    "filter": "use a loop with a condition",
    "format": _IN_A_FUNCTOR,
    "frozenset": "use a tuple",
    "getattr": "write `name.attribute`",
    "globals": "name the variable itself",
    "hasattr": "decide before the call",
    "hash": _IN_A_FUNCTOR,
    "help": _IN_A_FUNCTOR,
    "hex": _IN_A_FUNCTOR,
    "id": _IN_A_FUNCTOR,
    "input": "ask before the call, and pass the number as a scalar",
    "isinstance": "decide before the call by the operand's dtype, or annotate the parameter",
    "issubclass": "decide before the call by the operand's dtype, or annotate the parameter",
    "list": "use a tuple",
    "locals": "name the variable itself",
    "map": "use a loop, or call the function on each number",
    "memoryview": _IN_A_FUNCTOR,
    "object": _IN_A_FUNCTOR,
    "oct": _IN_A_FUNCTOR,
    "open": "read the file before the call, and pass what it holds as an operand",
    "ord": _IN_A_FUNCTOR,
    "print": "return the value as one more result, or call the undecorated function on numbers",
    "quit": "a kernel cannot end the program",
    "reversed": "count backwards: range(n - 1, -1, -1)",
    "repr": _IN_A_FUNCTOR,
    "set": "use a tuple",
    "setattr": _IN_A_FUNCTOR,
    "sorted": "order two numbers with min() and max()",
    "str": _IN_A_FUNCTOR,
    "super": "write a plain function",
    "type": "decide before the call by the operand's dtype, or annotate the parameter",
    "vars": "name the variable itself",
    "__import__": "import outside of the functor",
}
_REFUSED_BUILTINS = {
    id(value): f"{name}() is not available in a functor; {cure}"
    for name, cure in _BUILTINS.items()
    if (value := getattr(builtins, name, None)) is not None
}
_PLAIN_CLASSES = (bool, int, float, complex, tuple, range, enumerate, zip, slice)
_OPERATORS = frozenset(
    {
        f"__{prefix}{name}__"
        for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift",
                     "rshift", "and", "or", "xor")
        for prefix in ("", "r")
    }
    | {
        "__abs__", "__bool__", "__call__", "__ceil__", "__complex__", "__contains__", "__eq__", "__float__",
        "__floor__", "__ge__", "__getattr__", "__getattribute__", "__getitem__", "__gt__", "__index__",
        "__int__", "__invert__", "__iter__", "__le__", "__len__", "__lt__", "__ne__", "__neg__", "__new__",
        "__pos__", "__round__", "__trunc__",
    }
)  # fmt: skip


def is_named_tuple(cls: Any) -> bool:
    """Whether something is a class of named tuples."""
    return (
        isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
    )


def own_operators(cls: type) -> str | None:
    """Return the name of an operator that a class of numbers or tuples gives a meaning of its own; else None.

    Compilers take its instances for what the class is derived from.
    """
    for base in cls.__mro__:
        if base.__module__ in ("builtins", "enum", "numpy"):
            continue
        # A named tuple's class is generated with its __new__, one of flags with copies of the module's own.
        is_generated = "_fields" in vars(base) or issubclass(base, enum.Enum)
        for name, value in vars(base).items():
            if name not in _OPERATORS or getattr(value, "__module__", "") == "enum":
                continue
            if not (is_generated and name == "__new__"):
                return name
    return None


def is_own_function(value: Any) -> bool:
    """Whether something is a Python function that would be compiled in: none that `refused` has a word on."""
    return isinstance(value, types.FunctionType) and refused(value) is None


def refused(value: Any, spelled: str = "") -> str | None:
    """Return why something cannot be called or used in a functor, and what to do; None where it may be.

    `spelled` is how it was written, where that is known: ``os.getpid`` is posix's.
    """
    known = _REFUSED_BUILTINS.get(id(value))
    if known is not None:
        return known
    if isinstance(value, type):
        return _refused_class(value)
    if isinstance(value, types.ModuleType) or not callable(value):
        return None
    module = _module_of(value)
    name = getattr(value, "__name__", type(value).__name__)
    root = module.partition(".")[0]
    shown = spelled or f"{root.lstrip('_')}.{name}"
    if root in _RANDOM or (root in _ARRAYS and _draws(module, name)):
        return (
            f"{shown}() draws other numbers in each call, and numjit has no random numbers of its own yet: a "
            "derivative would see others; draw them before the call (torch.rand_like(x)) and pass them as an "
            "operand"
        )
    if root in _CLOCKS:
        return f"{shown}() reads a clock; read it before the call, and pass the number as a scalar"
    if root in _OUTSIDE:
        return f"{shown}() depends on what is outside of the functor; call it before, and pass a number"
    if root in _ARRAYS:
        return (
            f"{shown} works on whole arrays; a functor sees one element: use Python's math or cmath, or "
            "numjit.math"
        )
    return None


def _draws(module: str, name: str) -> bool:
    return bool({"random", "_random", "mtrand"} & set(module.split("."))) or name.startswith(_DRAWN)


def _refused_class(cls: type) -> str | None:
    if cls in _PLAIN_CLASSES or issubclass(cls, BaseException):  # what raises is refused as a statement
        return None
    if issubclass(cls, enum.Enum) or is_named_tuple(cls):
        return None
    if cls.__module__ in _ARRAYS and hasattr(cls, "dtype"):
        return (
            f"{cls.__module__}.{cls.__name__}() makes an array's number; write the number itself, float(x) "
            "or int(x), or annotate the parameter or result with the dtype"
        )
    return (
        f"the class {cls.__qualname__} cannot be used in a functor; write a plain function, and give numbers "
        "that the class holds variables of their own outside of it"
    )


def _module_of(value: Any) -> str:
    """Return the module that a function is from, by its globals where it has some: wrappers copy names."""
    if isinstance(value, types.FunctionType):
        return str(value.__globals__.get("__name__") or "")
    kind = type(value).__module__
    if kind.partition(".")[0] in _ARRAYS:
        return kind
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        cls = owner if isinstance(owner, type) else type(owner)
        return str(cls.__module__)
    module = getattr(value, "__module__", None)
    return module if isinstance(module, str) else ""


def unstable(value: Any) -> str:
    """Return why later changes of a captured value would go unseen, and what to do instead."""
    if isinstance(value, types.ModuleType):
        return (
            "what is read from it could not be followed; name what is needed each time, as "
            f"{value.__name__.rpartition('.')[2]}.NAME"
        )
    if isinstance(value, functools.partial):
        return "write a function that calls it with those arguments"
    if isinstance(value, types.MethodType):
        return (
            "what it reads from its object could not be followed; write a plain function, and pass the "
            "object's numbers to it as scalars"
        )
    if isinstance(value, dict):
        return (
            "later changes of its contents would go unseen; give the number a variable of its own outside of "
            "the functor, or pass it as a scalar"
        )
    if hasattr(value, "__next__"):
        return "it would be used up; capture a tuple of numbers"
    if type(value).__name__ == "dtype":
        return "a functor's dtypes are declared: annotate the parameter or the result"
    if _draws(type(value).__module__, "") and not isinstance(value, type):
        return "it draws other numbers in each call; draw them before it, and pass them as an operand"
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return "later changes of its contents would go unseen; pass it as an operand, or capture a number"
    if isinstance(value, list | set | bytearray) or hasattr(value, "__len__"):
        return (
            "later changes of its contents would go unseen; capture a number or a tuple of numbers, or pass "
            "it as an operand"
        )
    return (
        "later changes of what it holds would go unseen; give the number that is needed a variable of its "
        "own outside of the functor, or pass it as a scalar"
    )
