"""Stored elements and what is computed with: decode, encode and convert, emitted as LLVM IR.

Every dtype is stored as one or two *lanes* (two for complex), integers of the lane's width. What is
computed with is a *value*: an LLVM ``i1`` for bool, ``iN`` for integers, ``float`` or ``double`` for
floats (16- and 8-bit floats compute in ``float``), and a Python pair ``(re, im)`` of those for
complex. `decode` and `encode` go between the two, `convert` from one dtype's value to another's with
the rules of ``torch.Tensor.to``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from numjit import dtypes
from numjit.codegen.machine import Machine
from numjit.dtypes import DType

__all__ = ["convert", "decode", "encode", "lane_type", "lanes_of", "round_to", "value_type"]

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()


class _Format(NamedTuple):
    """A small IEEE-like float: exponent bits, mantissa bits, exponent bias."""

    exponent: int
    mantissa: int
    bias: int


_FORMATS = {
    dtypes.float16: _Format(5, 10, 15),
    dtypes.float8_e5m2: _Format(5, 2, 15),
    dtypes.float8_e4m3fn: _Format(4, 3, 7),
}
#: The largest finite float8_e4m3fn as float32 bits: 448.
_E4M3_MAX = struct.unpack("<I", struct.pack("<f", 448.0))[0]


def lanes_of(dtype: DType) -> int:
    """Lanes of one stored element: 2 for complex, else 1."""
    return 2 if dtype.is_complex else 1


def lane_type(dtype: DType) -> Any:
    """Return the LLVM integer type of one stored lane."""
    return ir.IntType(dtype.real.bits)


def value_type(dtype: DType) -> Any:
    """Return the LLVM type of a value of `dtype` (of its real part for complex)."""
    real = dtype.compute.real
    if real.kind == "b":
        return I1
    if real.kind == "f":
        return F64 if real.itemsize == 8 else F32
    return ir.IntType(real.bits)


# ------------------------------------------------------------------------------------------- decode


def decode(builder: Any, machine: Machine, dtype: DType, lanes: Sequence[Any]) -> Any:
    """Return the value of the stored `lanes` (one LLVM integer, two for complex)."""
    if dtype.is_complex:
        return tuple(_decode_lane(builder, machine, dtype.real, lane) for lane in lanes)
    return _decode_lane(builder, machine, dtype, lanes[0])


def _decode_lane(builder: Any, machine: Machine, dtype: DType, lane: Any) -> Any:
    if dtype is dtypes.float32:
        return builder.bitcast(lane, F32)
    if dtype is dtypes.float64:
        return builder.bitcast(lane, F64)
    if dtype is dtypes.bool_:
        return builder.icmp_unsigned("!=", lane, I8(0))
    if dtype is dtypes.bfloat16:
        return builder.bitcast(builder.shl(builder.zext(lane, I32), I32(16)), F32)
    if dtype is dtypes.float16:
        if machine.is_ptx:
            return _asm(builder, F32, "cvt.f32.f16 $0, $1;", "=f,h", lane)
        if machine.converts_half:
            return builder.fpext(builder.bitcast(lane, F16), F32)
        return _widen(builder, dtype, lane)
    if dtype is dtypes.float8_e5m2:  # the upper byte of a float16
        half = builder.shl(builder.zext(lane, I16), I16(8))
        return _decode_lane(builder, machine, dtypes.float16, half)
    if dtype is dtypes.float8_e4m3fn:
        if machine.is_ptx and machine.cc >= (8, 9):
            pair = _asm(builder, I32, "cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h", builder.zext(lane, I16))
            return _asm(builder, F32, "cvt.f32.f16 $0, $1;", "=f,h", builder.trunc(pair, I16))
        return _widen(builder, dtype, lane)
    return lane


def _widen(builder: Any, dtype: DType, lane: Any) -> Any:
    """Small float -> float32 by moving bits (exact; no branch, so that loops vectorise)."""
    form = _FORMATS[dtype]
    width = form.exponent + form.mantissa
    shift = 23 - form.mantissa
    wide = builder.zext(lane, I32)
    magnitude = builder.and_(wide, I32((1 << width) - 1))
    sign = builder.shl(builder.and_(wide, I32(1 << width)), I32(31 - width))
    moved = builder.shl(magnitude, I32(shift))
    normal = builder.add(moved, I32((127 - form.bias) << 23))
    # Subnormals: read as 1.m * 2^(1-bias), then take the implicit one away again.
    magic = I32((127 - form.bias + 1) << 23)
    lifted = builder.bitcast(builder.add(moved, magic), F32)
    subnormal = builder.bitcast(builder.fsub(lifted, builder.bitcast(magic, F32)), I32)
    is_small = builder.icmp_unsigned("<", magnitude, I32(1 << form.mantissa))
    bits = builder.select(is_small, subnormal, normal)
    if dtype is dtypes.float8_e4m3fn:  # one NaN, no infinity
        is_nan = builder.icmp_unsigned("==", magnitude, I32(0x7F))
        bits = builder.select(is_nan, I32(0x7FC00000), bits)
    else:
        top = ((1 << form.exponent) - 1) << form.mantissa
        is_special = builder.icmp_unsigned(">=", magnitude, I32(top))
        bits = builder.select(is_special, builder.or_(moved, I32(0x7F800000)), bits)
    return builder.bitcast(builder.or_(bits, sign), F32)


# ------------------------------------------------------------------------------------------- encode


def encode(builder: Any, machine: Machine, dtype: DType, value: Any) -> list[Any]:
    """Return the stored lanes of `value`, rounded to nearest even where `dtype` is narrower."""
    if dtype.is_complex:
        return [_encode_lane(builder, machine, dtype.real, part) for part in value]
    return [_encode_lane(builder, machine, dtype, value)]


def _encode_lane(builder: Any, machine: Machine, dtype: DType, value: Any) -> Any:
    if dtype is dtypes.float32:
        return builder.bitcast(value, I32)
    if dtype is dtypes.float64:
        return builder.bitcast(value, I64)
    if dtype is dtypes.bool_:
        return builder.zext(value, I8)
    if dtype is dtypes.bfloat16:
        if machine.is_ptx and machine.cc >= (8, 0):
            return _asm(builder, I16, "cvt.rn.bf16.f32 $0, $1;", "=h,f", value)
        return _narrow_bfloat16(builder, value)
    if dtype is dtypes.float16:
        if machine.is_ptx:
            return _asm(builder, I16, "cvt.rn.f16.f32 $0, $1;", "=h,f", value)
        if machine.converts_half:
            return builder.bitcast(builder.fptrunc(value, F16), I16)
        return builder.trunc(_narrow(builder, dtype, value), I16)
    if dtype is dtypes.float8_e4m3fn and machine.is_ptx and machine.cc >= (8, 9):
        pair = _asm(builder, I16, "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", "=h,f,f", F32(0.0), value)
        return builder.trunc(pair, I8)
    if dtype in _FORMATS:  # e5m2 has no instruction that overflows to infinity
        return builder.trunc(_narrow(builder, dtype, value), I8)
    return value


def _narrow_bfloat16(builder: Any, value: Any) -> Any:
    bits = builder.bitcast(value, I32)
    odd = builder.and_(builder.lshr(bits, I32(16)), I32(1))
    rounded = builder.lshr(builder.add(builder.add(bits, I32(0x7FFF)), odd), I32(16))
    is_nan = builder.fcmp_unordered("uno", value, value)
    return builder.trunc(builder.select(is_nan, I32(0x7FC0), rounded), I16)


def _narrow(builder: Any, dtype: DType, value: Any) -> Any:
    """Round float32 to a small float, to nearest even, as an i32 (no branch)."""
    form = _FORMATS[dtype]
    width = form.exponent + form.mantissa
    shift = 23 - form.mantissa
    bits = builder.bitcast(value, I32)
    magnitude = builder.and_(bits, I32(0x7FFFFFFF))
    sign = builder.and_(builder.lshr(bits, I32(31 - width)), I32(1 << width))
    is_nan = builder.icmp_unsigned(">", magnitude, I32(0x7F800000))
    finite = magnitude
    if dtype is dtypes.float8_e4m3fn:
        is_over = builder.icmp_unsigned(">", magnitude, I32(_E4M3_MAX))
        finite = builder.select(is_over, I32(_E4M3_MAX), magnitude)
    odd = builder.and_(builder.lshr(finite, I32(shift)), I32(1))
    rebias = ((form.bias - 127) << 23) + (1 << (shift - 1)) - 1
    normal = builder.lshr(builder.add(builder.add(finite, I32(rebias & 0xFFFFFFFF)), odd), I32(shift))
    # Subnormals: adding a power of two leaves the rounded mantissa in the lowest bits.
    magic = I32((127 - form.bias + shift + 1) << 23)
    lifted = builder.fadd(builder.bitcast(finite, F32), builder.bitcast(magic, F32))
    subnormal = builder.sub(builder.bitcast(lifted, I32), magic)
    is_small = builder.icmp_unsigned("<", finite, I32((128 - form.bias) << 23))
    result = builder.select(is_small, subnormal, normal)
    if dtype is dtypes.float8_e4m3fn:
        result = builder.select(is_nan, I32(0x7F), result)
    else:
        top = ((1 << form.exponent) - 1) << form.mantissa
        limit = (127 + (1 << (form.exponent - 1))) << 23
        result = builder.select(builder.icmp_unsigned(">=", magnitude, I32(limit)), I32(top), result)
        quiet = top | (1 << (form.mantissa - 1))
        result = builder.select(is_nan, I32(quiet), result)
    return builder.or_(result, sign)


def round_to(builder: Any, machine: Machine, dtype: DType, value: Any) -> Any:
    """Round a value to what `dtype` can store; unchanged where `dtype` is its own compute type."""
    if dtype.compute is dtype:
        return value
    return decode(builder, machine, dtype, encode(builder, machine, dtype, value))


# ------------------------------------------------------------------------------------------ convert


def convert(
    builder: Any, machine: Machine, value: Any, src: DType, dst: DType, *, rounded: bool = True
) -> Any:
    """Convert a value of `src` to one of `dst`, as ``torch.Tensor.to(dst)`` does.

    With ``rounded=False`` the rounding to a 16- or 8-bit `dst` is left to the `encode` that follows.
    """
    if src is dst:
        return value
    if dst.is_complex:
        parts = value if src.is_complex else (value, None)
        real = convert(builder, machine, parts[0], src.real, dst.real, rounded=rounded)
        if parts[1] is None:
            return real, value_type(dst)(0.0)
        return real, convert(builder, machine, parts[1], src.real, dst.real, rounded=rounded)
    if src.is_complex:
        if dst is dtypes.bool_:
            return builder.or_(*(convert(builder, machine, part, src.real, dst) for part in value))
        return convert(builder, machine, value[0], src.real, dst, rounded=rounded)
    moved = _convert_real(builder, value, src.compute, dst.compute)
    return round_to(builder, machine, dst, moved) if rounded else moved


def _convert_real(builder: Any, value: Any, src: DType, dst: DType) -> Any:
    if src is dst:
        return value
    target = value_type(dst)
    if dst.kind == "b":
        zero = value.type(0.0 if src.kind == "f" else 0)
        if src.kind == "f":
            return builder.fcmp_unordered("!=", value, zero)
        return builder.icmp_unsigned("!=", value, zero)
    if src.kind == "f":
        if dst.kind == "f":
            return (
                builder.fpext(value, target)
                if dst.itemsize > src.itemsize
                else builder.fptrunc(value, target)
            )
        return _float_to_int(builder, value, dst)
    if dst.kind == "f":
        return builder.sitofp(value, target) if src.kind == "i" else builder.uitofp(value, target)
    if src.kind == "b" or dst.bits > src.bits:
        return builder.sext(value, target) if src.kind == "i" else builder.zext(value, target)
    return builder.trunc(value, target) if dst.bits < src.bits else value


def _float_to_int(builder: Any, value: Any, dst: DType) -> Any:
    """Truncate towards zero; negative values wrap in unsigned types, as torch's cast through int64 does."""
    target = value_type(dst)
    if dst is dtypes.uint64:
        big = builder.fcmp_ordered(">=", value, value.type(float(1 << 63)))
        return builder.select(big, builder.fptoui(value, target), builder.fptosi(value, target))
    if dst in (dtypes.int64, dtypes.int32):
        return builder.fptosi(value, target)
    # 32 bits hold every value that is defined for 8- and 16-bit types and vectorise; uint32 needs 64.
    through = I64 if dst is dtypes.uint32 else I32
    return builder.trunc(builder.fptosi(value, through), target)


def _asm(builder: Any, result: Any, text: str, constraints: str, *args: Any) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(ir.InlineAsm(kind, text, constraints, side_effect=False), args)
