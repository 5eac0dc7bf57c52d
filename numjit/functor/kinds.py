"""The two kinds of functors, as one type."""

from __future__ import annotations

from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.python import PythonFunctor

__all__ = ["Functor"]

Functor = CppFunctor | PythonFunctor
