"""Entries of the table: one scalar function with its names, rules, derivative and documentation."""

from __future__ import annotations

import cmath
import dataclasses
import inspect
import math
from collections.abc import Mapping
from typing import Any

from numjit import math as numjit_math
from numjit.rules.complex_math import COMPLEX_FUNCTIONS, TORCH_COMPLEX_FUNCTIONS
from numjit.rules.rule import Domain, Emit, Rule, emitted, math_call
from numjit.rules.torch_text import TorchForm
from numjit.rules.traced import Derivative, Formula

__all__ = [
    "Entry",
    "Name",
    "cmath_rule",
    "complex_call",
    "cuda",
    "either",
    "entry",
    "fast",
    "math_rule",
    "numjit_rule",
    "std",
]

Rules = Mapping[Any, Rule]


@dataclasses.dataclass(frozen=True)
class Name:
    """One C++ name of a function.

    Attributes
    ----------
    name
        Without an ``f`` at the end.
    home
        ``"std"``: of the standard library, and global; ``"cuda"``: global alone; ``"fast"``: one of CUDA's
        intrinsics; ``"any"``: a template of the standard library for any type; ``"own"``: of namespace
        ``numjit``.
    operands
        How many there are.
    has_single
        Whether there is one with an ``f`` at the end, which computes in float.
    is_by_hand
        Whether its derivative is no formula: it takes integers or pointers, or chooses an operand.
    """

    name: str
    home: str
    operands: int = 1
    has_single: bool = False
    is_by_hand: bool = False


def std(
    *names: str, operands: int = 1, has_single: bool = True, is_by_hand: bool = False
) -> tuple[Name, ...]:
    """Return names of the standard library."""
    return tuple(Name(name, "std", operands, has_single, is_by_hand) for name in names)


def cuda(
    *names: str, operands: int = 1, has_single: bool = True, is_by_hand: bool = False
) -> tuple[Name, ...]:
    """Return names that only CUDA has, and numjit on the CPU."""
    return tuple(Name(name, "cuda", operands, has_single, is_by_hand) for name in names)


def fast(*names: str, operands: int = 1, is_by_hand: bool = False) -> tuple[Name, ...]:
    """Return names of CUDA's intrinsics."""
    return tuple(Name(name, "fast", operands, is_by_hand=is_by_hand) for name in names)


def any_type(*names: str) -> tuple[Name, ...]:
    """Return names of templates of the standard library, which serve any type."""
    return tuple(Name(name, "any", is_by_hand=True) for name in names)


def own(*names: str, operands: int = 1) -> tuple[Name, ...]:
    """Return names of namespace ``numjit``."""
    return tuple(Name(name, "own", operands) for name in names)


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """One scalar function in every language.

    Attributes
    ----------
    rules
        By Python's function or operator, and by ``"."`` and the name of an attribute or method.
    derivative
        How tangents follow, in every language.
    cpp
        Names in C++.
    complex_cpp
        The name of the overload for complex numbers in C++, of ``std::complex``.
    note
        What docs/math.md says.
    slope
        The derivative, as the documentation shows it: ``r`` is the result, ``t`` a tangent.
    kinks
        What the documentation says of the derivative's kinks and edges.
    slope_python, kinks_python, kinks_cpp
        What it says of them in one language alone.
    """

    rules: Rules
    derivative: Derivative
    cpp: tuple[Name, ...]
    complex_cpp: str
    note: str
    slope: str
    kinks: str
    slope_python: str
    kinks_python: str
    kinks_cpp: str


def entry(
    *rules: Rules,
    derivative: Formula | None = None,
    is_folded: bool = False,
    is_choice: bool = False,
    torch: TorchForm | None = None,
    cpp: tuple[Name, ...] = (),
    complex_cpp: str = "",
    note: str = "",
    slope: str = "",
    kinks: str = "",
    slope_python: str = "",
    kinks_python: str = "",
    kinks_cpp: str = "",
) -> Entry:
    """Make an entry, whose rules all have the same derivative and the same form over torch tensors."""
    how = Derivative(derivative, is_folded, is_choice)
    made: dict[Rule, Rule] = {}
    for table in rules:
        for rule in table.values():
            made.setdefault(rule, dataclasses.replace(rule, derivative=how, code=torch))
    found = {key: made[rule] for table in rules for key, rule in table.items()}
    return Entry(found, how, cpp, complex_cpp, note, slope, kinks, slope_python, kinks_python, kinks_cpp)


# ---------------------------------------------------------------------------------- rules by module


def math_rule(
    name: str, emit: Emit, domain: Domain, arity: tuple[int, int] = (1, 1), **options: Any
) -> dict[Any, Rule]:
    """Return the rule of a function of Python's ``math``, or none where this Python lacks it."""
    if not hasattr(math, name):
        return {}
    return {getattr(math, name): Rule(f"math.{name}", arity, emit, domain, **options)}


def cmath_rule(
    name: str, emit: Emit, domain: Domain, arity: tuple[int, int] = (1, 1), **options: Any
) -> dict[Any, Rule]:
    """Return the rule of a function of Python's ``cmath``."""
    return {getattr(cmath, name): Rule(f"cmath.{name}", arity, emit, domain, **options)}


def numjit_rule(
    name: str, emit: Emit, domain: Domain, cls: type[Rule] = Rule, **options: Any
) -> dict[Any, Rule]:
    """Return the rule of a function of ``numjit.math``, which takes its arguments by name too."""
    function = getattr(numjit_math, name)
    signature = inspect.signature(function)
    count = len(signature.parameters)
    shown = f"numjit.math.{name}"
    return {function: cls(shown, (count, count), emit, domain, signature=signature, **options)}


def either(name: str, real: Emit | None = None) -> Emit:
    """Emit a function of real or complex floats; the real one is a math function by default."""
    of_reals = real or math_call(name)
    of_complex = emitted(TORCH_COMPLEX_FUNCTIONS[name])

    def emit(emitter: Any, dtype: Any, values: Any, literals: Any) -> Any:
        return (of_complex if dtype.is_complex else of_reals)(emitter, dtype, values, literals)

    return emit


def complex_call(name: str) -> Emit:
    """Emit a function of ``cmath``."""
    return emitted(COMPLEX_FUNCTIONS[name])
