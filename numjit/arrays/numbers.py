"""Numbers that travel by value: their type, their Python value, and their bytes at the seam.

A by-value argument reaches the functor in the *compute type* of its parameter's dtype (float32 for a
16-bit float), rounded once; it is never rounded to 16 bits, so that float16 1.0 + 70000.0 - 69999 is 2.
"""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

import numpy as np

from numjit.arrays.view import ArrayView
from numjit.dtypes import DType, bool_, complex128, float64, int64, uint64
from numjit.errors import ArgumentError, shown

__all__ = [
    "CHUNK_SLOT",
    "KERNEL_SLOT",
    "as_python",
    "chunk_slot",
    "convert",
    "number_type",
    "read_element",
    "slot_format",
]

Number = bool | int | float | complex

#: Bytes of one slot: a kernel parameter takes one or two, a value of the CPU chunk ABI exactly one.
KERNEL_SLOT = 8
CHUNK_SLOT = 16

_INT64_MIN = -(1 << 63)
_UINT64_END = 1 << 64
_FLOAT32_MAX = 3.4028234663852886e38
#: The least double that rounds to float32 infinity (the tie goes to the even, greater side).
_FLOAT32_OVERFLOW = 3.4028235677973366e38
_KINDS = {bool: bool_, float: float64, complex: complex128}
#: `struct` codes of the compute types; the stored-only types below are decoded by hand.
_CODES = {
    "bool": "?", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "float32": "f", "float64": "d", "complex64": "ff", "complex128": "dd",
}  # fmt: skip


def number_type(value: Any) -> DType | None:
    """Return the dtype that a number counts as in promotion: bool, int64, uint64, float64 or complex128.

    NumPy scalars (ml_dtypes' included) count as Python numbers of their kind.

    Parameters
    ----------
    value
        Anything.

    Returns
    -------
    DType or None
        None where `value` is no number (None, a string, a list, an array).

    Raises
    ------
    ArgumentError
        An integer that neither int64 nor uint64 holds.
    """
    found = _KINDS.get(type(value))
    if found is not None:
        return found
    if type(value) is int and _INT64_MIN <= value < -_INT64_MIN:
        return int64
    kind = _kind(value)
    if kind != "i":
        return {"b": bool_, "f": float64, "c": complex128}.get(kind)
    integer = int(value)
    if _INT64_MIN <= integer < -_INT64_MIN:
        return int64
    if 0 < integer < _UINT64_END:
        return uint64
    raise ArgumentError(
        f"integer {shown(integer)} fits neither int64 nor uint64; pass a float, or a smaller integer"
    )


def _kind(value: Any) -> str:
    """Return the kind of a number that is none of Python's own types; "" for what is no number."""
    try:
        if isinstance(value, np.generic):
            return _numpy_kind(value)
        return next(
            (kind for kind, cls in (("f", float), ("c", complex), ("i", int)) if isinstance(value, cls)), ""
        )
    except Exception:  # noqa: BLE001 - a proxy whose object is gone cannot be asked for its class
        return ""


def _numpy_kind(value: np.generic) -> str:
    """Return ``"b"``, ``"i"``, ``"f"``, ``"c"``, or ``""`` for a NumPy scalar that is no number."""
    kind = value.dtype.kind
    if kind in "bfc":
        return kind
    if kind in "ui":
        return "i"
    # ml_dtypes registers bfloat16 and the float8 types as kind "V", the kind of records.
    return "f" if kind == "V" and value.dtype.names is None and "float" in value.dtype.name else ""


def as_python(value: Any) -> Number:
    """Return a number that `number_type` accepts as a plain bool, int, float or complex of the same value.

    Raises
    ------
    ArgumentError
        `value` is no number, or an integer out of range.
    """
    dtype = number_type(value)
    if dtype is None:
        raise ArgumentError(f"a {type(value).__name__} is no number; pass a bool, int, float or complex")
    # float() and complex(), not .item(): a longdouble's item is a longdouble.
    kind: type[Number] = {"b": bool, "f": float, "c": complex}.get(dtype.kind, int)
    return value if type(value) is kind else kind(value)


def read_element(view: ArrayView) -> Number:
    """Read the first element of an array in CPU memory as a Python number, conj and neg bits applied."""
    dtype = view.dtype
    data = ctypes.string_at(view.pointer, dtype.itemsize)
    value = _decode(data, dtype)
    if view.conj and isinstance(value, complex):
        value = value.conjugate()
    return -value if view.neg else value


def _decode(data: bytes, dtype: DType) -> Number:
    name = dtype.name
    if name == "bool":
        return any(data)
    if name == "bfloat16":
        data, name = b"\0\0" + data, "float32"
    elif name == "float8_e5m2":
        data, name = b"\0" + data, "float16"
    elif name == "float8_e4m3fn":
        return _decode_e4m3fn(data[0])
    code = {"float16": "e", "complex32": "ee"}.get(name) or _CODES[name]
    parts = struct.unpack(f"<{code}", data)
    return complex(*parts) if dtype.is_complex else parts[0]


def _decode_e4m3fn(byte: int) -> float:
    """Decode sign, 4 bits of exponent (bias 7), 3 of mantissa; no infinities, all ones is NaN."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if byte & 127 == 127:
        value = math.nan
    elif exponent:
        value = math.ldexp(8 + mantissa, exponent - 10)
    else:
        value = math.ldexp(mantissa, -9)
    return -value if byte & 128 else value


def convert(value: Number, dtype: DType) -> tuple[float, ...]:
    """Convert a Python number to the compute type of `dtype`, as numbers that `struct` packs as they are.

    The conversions are torch's ``.to()``: floats to integers truncate through int64, integers wrap, any
    non-zero value (NaN too) is True, complex to real takes the real part, and the result is rounded once.

    Parameters
    ----------
    value
        A bool, int, float or complex.
    dtype
        The dtype of the parameter.

    Returns
    -------
    tuple
        One number, or real and imaginary part.
    """
    kind = dtype.kind
    if kind == "b":
        return (value != 0,)
    if kind == "c":
        narrow = dtype.compute_name == "complex64"
        if isinstance(value, complex):
            return _to_float(value.real, narrow), _to_float(value.imag, narrow)
        return _to_float(value, narrow), 0.0
    if isinstance(value, complex):
        value = value.real
    if kind == "f":
        return (_to_float(value, dtype.compute_name == "float32"),)
    return (_to_integer(value, dtype),)


def _to_integer(value: float, dtype: DType) -> int:
    if isinstance(value, float):
        limit = _UINT64_END if dtype is uint64 else -_INT64_MIN
        # What x86 answers where C++ leaves it open; through int64, the low bits of it are 0.
        value = int(value) if _INT64_MIN <= value < limit else _INT64_MIN
    value = int(value) & ((1 << dtype.bits) - 1)
    return value - (1 << dtype.bits) if dtype.kind == "i" and value >> (dtype.bits - 1) else value


def _to_float(value: float, narrow: bool) -> float:
    """Return a float whose rounding by `struct` is the only one and never overflows there."""
    if isinstance(value, int):
        excess = abs(value).bit_length() - 50
        if narrow and excess > 0:
            # int -> double -> float32 would round twice: keep 50 bits, the last one sticky.
            magnitude = abs(value)
            kept = magnitude >> excess
            kept |= bool(magnitude & ((1 << excess) - 1))
            return math.copysign(math.ldexp(kept, excess), value)
        return float(value)
    if narrow and abs(value) > _FLOAT32_MAX:
        return math.copysign(math.inf if abs(value) >= _FLOAT32_OVERFLOW else _FLOAT32_MAX, value)
    return value


def slot_format(dtype: DType, slot: int = KERNEL_SLOT) -> str:
    """Return the `struct` format of a by-value argument of `dtype`, padded to whole slots.

    Parameters
    ----------
    dtype
        The dtype of the parameter.
    slot
        `KERNEL_SLOT` (complex128 takes two) or `CHUNK_SLOT`.
    """
    code = _CODES[dtype.compute_name]
    padding = -struct.calcsize(f"={code}") % slot
    return f"{code}{padding}x" if padding else code


def chunk_slot(value: Number, dtype: DType) -> bytes:
    """Return the seam representation of a number at the compute type of `dtype`, in a slot of 16 bytes.

    float32 is 4 bytes, bool one byte 0 or 1, complex real then imaginary part; zeros follow. NaN, infinities
    and -0.0 keep their bits (a double's NaN its upper payload in float32).
    """
    return struct.pack(f"={slot_format(dtype, CHUNK_SLOT)}", *convert(value, dtype))
