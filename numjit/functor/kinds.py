"""The two kinds of functors, as one type, and what users have that is made of one."""

from __future__ import annotations

from typing import Protocol

from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.python import PythonFunctor

__all__ = ["Functor", "OfFunctor"]

Functor = CppFunctor | PythonFunctor


class OfFunctor(Protocol):
    """What users call: made by `numjit.elementwise` or `numjit.jiterator`."""

    @property
    def __numjit_functor__(self) -> Functor:
        """The functor behind it."""
