"""Values of every kind that a user may give by mistake, each made anew."""

from __future__ import annotations

import array
import collections
import decimal
import fractions
import itertools
import math
import pathlib
import warnings
import weakref

import numpy as np
import torch

__all__ = ["ARRAYS", "CONTAINERS", "NUMBERS", "TEXTS", "VALUES"]


class _Raising:
    """An object of which one question is answered by an error of its own."""

    def __init_subclass__(cls, question, **more):
        super().__init_subclass__(**more)

        def answer(self, *_given, **_keywords):
            raise RuntimeError(f"no {question} today")

        setattr(cls, question, answer)


class NoRepr(_Raising, question="__repr__"):
    """Cannot be shown."""


class NoIter(_Raising, question="__iter__"):
    """Looks like a sequence."""


class NoIndex(_Raising, question="__index__"):
    """Looks like an int."""


class NoHash(_Raising, question="__hash__"):
    """Cannot be a key."""


class NoEquality(_Raising, question="__eq__"):
    """Cannot be compared."""

    __hash__ = object.__hash__


class NoTruth(_Raising, question="__bool__"):
    """Is neither true nor false."""


class NoString(_Raising, question="__str__"):
    """Has no text."""


class NoClass:
    """A proxy that stands for nothing."""

    @property
    def __class__(self):
        raise RuntimeError("no class today")


class NoAttributes(_Raising, question="__getattr__"):
    """Raises for whatever attribute is asked for that it lacks."""


class Series:
    """A pandas or polars column, as far as numjit may know."""

    __module__ = "pandas.core.series"

    def __init__(self):
        self.values = np.ones(3)

    def to_numpy(self):
        return self.values

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __len__(self):
        return 3

    def __iter__(self):
        return iter(self.values)


class Frame(Series):
    __module__ = "polars.dataframe.frame"


class DataArray(Series):
    __module__ = "xarray.core.dataarray"


class ArrayLike:
    """Something that NumPy can convert."""

    def __array__(self, dtype=None, copy=None):
        return np.ones(3)


class BrokenInterface:
    """``__array_interface__`` without its keys."""

    __array_interface__ = {"shape": "?"}


class Nobody:
    """Not a type of anybody's."""


def _dead_proxy():
    return weakref.proxy(Nobody())


def _quietly(make, *given):
    """Make a tensor of a kind that torch warns is new or old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*given)


def _function(x):
    return x


#: Numbers that no parameter but a scalar or an operand takes.
NUMBERS = {
    "true": lambda: True,
    "zero": lambda: 0,
    "one": lambda: 1,
    "negative": lambda: -7,
    "huge": lambda: 10**30,
    "minus huge": lambda: -(10**400),
    "fraction": lambda: 1.5,
    "nan": lambda: math.nan,
    "infinity": lambda: math.inf,
    "complex": lambda: 1j,
    "numpy int": lambda: np.int64(3),
    "numpy float": lambda: np.float32(2.5),
    "numpy bool": lambda: np.True_,
    "decimal": lambda: decimal.Decimal("1.5"),
    "rational": lambda: fractions.Fraction(1, 2),
}
TEXTS = {
    "text": lambda: "nonsense",
    "empty text": lambda: "",
    "text with a NUL": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "long text": lambda: "x" * 5000,
    "bytes": lambda: b"x",
    "bytearray": lambda: bytearray(b"xy"),
    "path": lambda: pathlib.PurePosixPath("nowhere"),
}
CONTAINERS = {
    "list": lambda: [1.0],
    "empty list": list,
    "nested list": lambda: [[1.0], [2.0]],
    "list of text": lambda: ["a"],
    "list of None": lambda: [None],
    "tuple": lambda: (1.0, 2.0),
    "nested tuple": lambda: ((1,), (2,)),
    "set": lambda: {1.0},
    "dict": lambda: {"nonsense": 1.0},
    "dict of numbers": lambda: {1: 2},
    "dict of None": lambda: {"nonsense": None},
    "range": lambda: range(3),
    "generator": lambda: (k for k in (1.0, 2.0)),
    "deque": lambda: collections.deque([1.0]),
    "stdlib array": lambda: array.array("d", [1.0]),
    "memoryview": lambda: memoryview(b"abcd"),
    "pandas": Series,
    "polars": Frame,
    "xarray": DataArray,
    "array-like": ArrayLike,
    "broken array interface": BrokenInterface,
    "without end": itertools.count,
    "odd module": type("Odd", (), {"__module__": 5}),
}
ARRAYS = {
    "numpy array": lambda: np.ones(3, np.float32),
    "numpy matrix": lambda: np.ones((2, 3), np.float32),
    "numpy objects": lambda: np.array([None, 1], object),
    "numpy text": lambda: np.array(["a"]),
    "numpy dates": lambda: np.array(["2020"], "M8[Y]"),
    "numpy records": lambda: np.zeros(3, [("a", "f4")]),
    "numpy masked": lambda: np.ma.array([1.0], mask=[True]),
    "big endian": lambda: np.ones(3, ">f4"),
    "long double": lambda: np.ones(3, np.longdouble),
    "long complex": lambda: np.ones(3, np.clongdouble),
    "tensor": lambda: torch.ones(3),
    "matrix": lambda: torch.ones(2, 3),
    "sparse": lambda: torch.ones(3).to_sparse(),
    "quantised": lambda: _quietly(torch.quantize_per_tensor, torch.ones(3), 0.1, 0, torch.qint8),
    "nested": lambda: _quietly(torch.nested.as_nested_tensor, [torch.ones(2), torch.ones(3)]),
}
_OTHERS = {
    "none": lambda: None,
    "ellipsis": lambda: ...,
    "not implemented": lambda: NotImplemented,
    "object": object,
    "class": lambda: Nobody,
    "type": lambda: int,
    "function": lambda: _function,
    "builtin": lambda: len,
    "module": lambda: math,
    "exception": lambda: ValueError("x"),
    "numpy dtype": lambda: np.dtype("float32"),
    "torch dtype": lambda: torch.float32,
    "torch device": lambda: torch.device("cpu"),
    "dead proxy": _dead_proxy,
    "no repr": NoRepr,
    "no iter": NoIter,
    "no index": NoIndex,
    "no hash": NoHash,
    "no equality": NoEquality,
    "no truth": NoTruth,
    "no string": NoString,
    "no class": NoClass,
    "no attributes": NoAttributes,
}
#: All of them by name.
VALUES = {**NUMBERS, **TEXTS, **CONTAINERS, **ARRAYS, **_OTHERS}
