"""The element types that operands can have, interned and independent of torch and NumPy."""

from __future__ import annotations

import dataclasses
from typing import Any

from numjit.errors import UnsupportedDtypeError, shown

__all__ = [
    "ALL",
    "DType",
    "as_dtype",
    "bfloat16",
    "bool_",
    "complex32",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "from_name",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]


@dataclasses.dataclass(frozen=True, eq=False)
class DType:
    """One element type.

    Attributes
    ----------
    name
        torch's name for it without the ``torch.`` prefix (``"float32"``, ``"bool"``).
    itemsize
        Bytes of one stored element.
    kind
        ``"b"`` bool, ``"u"`` unsigned, ``"i"`` signed, ``"f"`` floating, ``"c"`` complex.
    compute_name
        Name of the type that arithmetic uses (torch's *opmath*): float32 for 16- and 8-bit floats,
        complex64 for complex32, the type itself otherwise.
    """

    name: str
    itemsize: int
    kind: str
    compute_name: str

    @property
    def compute(self) -> DType:
        """The type that arithmetic on this type uses (torch's opmath type)."""
        return _BY_NAME[self.compute_name]

    @property
    def is_complex(self) -> bool:
        """Whether elements have an imaginary part."""
        return self.kind == "c"

    @property
    def is_floating(self) -> bool:
        """Whether this is a real floating type."""
        return self.kind == "f"

    @property
    def is_integral(self) -> bool:
        """Whether this is an integer type (bool is not)."""
        return self.kind in "ui"

    @property
    def real(self) -> DType:
        """The type of the real part: itself unless complex."""
        return _BY_NAME[_REAL[self.name]] if self.kind == "c" else self

    @property
    def bits(self) -> int:
        """Bits of one stored element."""
        return self.itemsize * 8

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return from_name, (self.name,)

    def __repr__(self) -> str:
        return f"numjit.{'bool_' if self.name == 'bool' else self.name}"

    def __str__(self) -> str:
        return self.name


_REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_BY_NAME: dict[str, DType] = {}


def _make(name: str, itemsize: int, kind: str, compute: str | None = None) -> DType:
    made = _BY_NAME[name] = DType(name, itemsize, kind, compute or name)
    return made


bool_ = _make("bool", 1, "b")
uint8 = _make("uint8", 1, "u")
uint16 = _make("uint16", 2, "u")
uint32 = _make("uint32", 4, "u")
uint64 = _make("uint64", 8, "u")
int8 = _make("int8", 1, "i")
int16 = _make("int16", 2, "i")
int32 = _make("int32", 4, "i")
int64 = _make("int64", 8, "i")
float8_e4m3fn = _make("float8_e4m3fn", 1, "f", "float32")
float8_e5m2 = _make("float8_e5m2", 1, "f", "float32")
float16 = _make("float16", 2, "f", "float32")
bfloat16 = _make("bfloat16", 2, "f", "float32")
float32 = _make("float32", 4, "f")
float64 = _make("float64", 8, "f")
complex32 = _make("complex32", 4, "c", "complex64")
complex64 = _make("complex64", 8, "c")
complex128 = _make("complex128", 16, "c")

#: Every supported dtype, in a fixed order.
ALL: tuple[DType, ...] = tuple(_BY_NAME.values())

_ALIASES = {
    "bool_": "bool",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "complexhalf": "complex32",
    "chalf": "complex32",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}


def from_name(name: str) -> DType:
    """Return the dtype that torch calls ``torch.<name>``.

    Raises
    ------
    UnsupportedDtypeError
        No such dtype is supported.
    """
    found = _BY_NAME.get(name) or _BY_NAME.get(_ALIASES.get(name, ""))
    if found is None:
        raise UnsupportedDtypeError(f"dtype {shown(name)} is not supported; use one of {', '.join(_BY_NAME)}")
    return found


_cached: dict[Any, DType] = {}
_GIVE_ONE = "give one of numjit's, torch's or NumPy's, such as numjit.float32"


def as_dtype(obj: Any) -> DType:
    """Return the numjit dtype of a numjit, torch or NumPy dtype (or NumPy scalar class or name).

    Python's ``int``, ``float``, ``bool`` and ``complex`` are refused: what they mean differs between
    torch and NumPy.

    Raises
    ------
    UnsupportedDtypeError
        `obj` is not a dtype, or one that numjit does not support.
    """
    if type(obj) is DType:
        return obj
    try:
        known = _cached.get(obj)
    except Exception:  # noqa: BLE001 - what cannot be hashed is none
        raise UnsupportedDtypeError(f"{shown(obj)} is not a dtype; {_GIVE_ONE}") from None
    if known is not None:
        return known
    if any(obj is builtin for builtin in (int, float, bool, complex)):  # np.dtype(bool) == bool
        raise UnsupportedDtypeError(
            f"{obj.__name__!r} names no dtype here; say numjit.int64, numjit.float32, ..."
        )
    kind = type(obj)
    if issubclass(kind, str):
        found = from_name(str(obj))
    elif kind.__module__ == "torch" and kind.__name__ == "dtype":
        found = from_name(str(obj).removeprefix("torch."))
    else:
        found = _from_numpy(obj)
    _cached[obj] = found
    return found


def _from_numpy(obj: Any) -> DType:
    import numpy as np

    # NumPy takes None for float64, and a scalar or array for its dtype.
    try:
        is_value = obj is None or (hasattr(obj, "shape") and not isinstance(obj, type | np.dtype))
        dtype = None if is_value else np.dtype(obj)
    except Exception:  # noqa: BLE001 - NumPy raises what the object's class does
        dtype = None
    if dtype is None:
        raise UnsupportedDtypeError(f"{shown(obj)} is not a dtype; {_GIVE_ONE}")
    if not dtype.isnative:
        raise UnsupportedDtypeError(
            f"dtype {dtype} is not in the machine's byte order; convert with .astype()"
        )
    return from_name(dtype.name)
