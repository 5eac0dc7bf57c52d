"""C libraries by ctypes, from tables of their prototypes: the CUDA driver's, NVRTC's, nvJitLink's.

The modules of ``cuda.bindings`` do the same; importing them, and what finds the libraries for them, takes
longer than the first call of a process should.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["HANDLE", "CLibrary", "Result"]

HANDLE = ctypes.c_uint64  # answers 0, not None, where it is null


class Result:
    """In a prototype: a pointer to one value that the function writes."""

    __slots__ = ("kind",)

    def __init__(self, kind: Any) -> None:
        self.kind = kind


class CLibrary:
    """A loaded library whose functions return a status; they are looked up when first used.

    A function of the table takes what its prototype lists without the results, and answers ``(status,
    *results)``, results in the order of the prototype. Handles and codes are integers.

    Parameters
    ----------
    library
        As ``ctypes.CDLL`` loads it.
    prototypes
        Function -> types of its C parameters, `Result` where it writes one value.
    lacking
        Makes the error to raise for a function that the library does not have.
    symbols
        Names of functions in the library that differ from those in the table.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        prototypes: Mapping[str, tuple[Any, ...]],
        lacking: Callable[[str], Exception],
        symbols: Mapping[str, str] | None = None,
    ) -> None:
        self.library = library
        self._prototypes = prototypes
        self._lacking = lacking
        self._symbols = symbols or {}

    def function(self, symbol: str, *parameters: Any) -> Any:
        """Return a function of the library as it is; calls release the GIL."""
        try:
            # An object made anew, whose types are ours to set; a prototype would be a class each.
            found = self.library[symbol]
        except AttributeError:
            raise self._lacking(symbol) from None
        found.restype, found.argtypes = ctypes.c_int, parameters
        return found

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        prototypes = self.__dict__.get("_prototypes", {})
        if name not in prototypes:
            raise AttributeError(f"numjit uses no function {name!r} of the library")
        prototype = prototypes[name]
        kinds = [entry.kind for entry in prototype if isinstance(entry, Result)]
        passed = [isinstance(entry, Result) for entry in prototype]
        function = self.function(
            self._symbols.get(name, name),
            *(ctypes.c_void_p if isinstance(entry, Result) else entry for entry in prototype),
        )
        made = _caller(function, kinds, passed)
        setattr(self, name, made)
        return made


def _caller(function: Any, kinds: list[Any], passed: list[bool]) -> Callable[..., tuple[Any, ...]]:
    """Return what calls a C function and answers its code and what it has written.

    `kinds` are the types of the results, `passed` says of every parameter whether it is a pointer to one.
    """
    reference = ctypes.byref
    if not kinds:
        return lambda *given: (function(*given),)
    if len(kinds) == 1 and passed[0]:  # most functions, among them those of every call
        (kind,) = kinds

        def call_for_one(*given: Any) -> tuple[Any, ...]:
            found = kind()
            return function(reference(found), *given), found.value

        return call_for_one

    def call(*given: Any) -> tuple[Any, ...]:
        found = [kind() for kind in kinds]
        results, arguments = map(reference, found), iter(given)
        code = function(*(next(results if is_result else arguments) for is_result in passed))
        return (code, *(one.value for one in found))

    return call
