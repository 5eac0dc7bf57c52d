"""Emission of vector loads and stores of whole elements at a given access width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from numjit.codegen.machine import Machine
from numjit.codegen.storage import decode, encode, lane_type, lanes_of
from numjit.dtypes import DType

__all__ = ["load_elements", "load_lanes", "store_elements"]

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
#: Plain loads, streaming stores. Loads that are evicted first (.cs) are as fast on their own, but never
#: displace what other kernels left in the L2 cache: between those of CuPy and torch, axpy float32 came to
#: 1.009 of the copy on an H100, with plain loads to 1.016 (add int32 1.007 : 1.016, x[::2] + y .760 : .779).
#: Of stores, streaming ones were ahead by 0.1 %; the read-only path (.nc) is as plain, L1::no_allocate
#: loses 2.9 % (bench/results/h100-loads.txt; h100-hints.json, each on its own).
LOAD = "ld.global"
STORE = "st.global.cs"


def load_elements(
    builder: Any, machine: Machine, dtype: DType, address: Any, count: int, width: int
) -> list[Any]:
    """Load `count` neighbouring elements at `address` (an i64) in accesses of at most `width` bytes.

    Returns the decoded values. NVPTX splits vector loads of 8- and 16-bit types, so on a GPU every
    access is inline PTX on 32-bit words.
    """
    lanes = load_lanes(builder, machine, dtype, address, count, width)
    per = lanes_of(dtype)
    return [decode(builder, machine, dtype, lanes[i : i + per]) for i in range(0, len(lanes), per)]


def load_lanes(
    builder: Any, machine: Machine, dtype: DType, address: Any, count: int, width: int
) -> list[Any]:
    """Load as `load_elements` does, without decoding: one integer per stored lane."""
    words: list[Any] = []
    for offset, step in _accesses(dtype.itemsize * count, width):
        words += _load_words(builder, machine, _plus(builder, address, offset), step)
    return _words_to_lanes(builder, words, lane_type(dtype).width)


def store_elements(
    builder: Any, machine: Machine, dtype: DType, address: Any, values: Sequence[Any], width: int
) -> None:
    """Encode `values` and store them from `address` (an i64) on, in accesses of at most `width` bytes."""
    lanes = [lane for value in values for lane in encode(builder, machine, dtype, value)]
    word_bytes = min(width, dtype.itemsize * len(values), 4)
    words = _lanes_to_words(builder, lanes, lane_type(dtype).width, word_bytes * 8)
    for offset, step in _accesses(dtype.itemsize * len(values), width):
        part = words[offset // word_bytes : (offset + step) // word_bytes]
        _store_words(builder, machine, _plus(builder, address, offset), step, part)


def _accesses(total: int, width: int) -> list[tuple[int, int]]:
    step = min(total, width)
    return [(offset, step) for offset in range(0, total, step)]


def _plus(builder: Any, address: Any, offset: int) -> Any:
    return builder.add(address, I64(offset)) if offset else address


def _load_words(builder: Any, machine: Machine, address: Any, width: int) -> list[Any]:
    """One access of `width` bytes: 32-bit words, or one i16 or i8."""
    if not machine.is_ptx:
        return _host_load(builder, machine, address, width)
    if width == 1:
        wide = _asm(builder, I32, f"{LOAD}.u8 $0, [$1];", "=r,l", [address])
        return [builder.trunc(wide, I8)]
    if width == 2:
        return [_asm(builder, I16, f"{LOAD}.b16 $0, [$1];", "=h,l", [address])]
    if width == 4:
        return [_asm(builder, I32, f"{LOAD}.b32 $0, [$1];", "=r,l", [address])]
    count = width // 4
    registers = ", ".join(f"${i}" for i in range(count))
    pack = ir.LiteralStructType([I32] * count)
    text = f"{LOAD}.v{count}.b32 {{{registers}}}, [${count}];"
    loaded = _asm(builder, pack, text, ",".join(["=r"] * count + ["l"]), [address])
    return [builder.extract_value(loaded, i) for i in range(count)]


def _store_words(builder: Any, machine: Machine, address: Any, width: int, words: Sequence[Any]) -> None:
    if not machine.is_ptx:
        _host_store(builder, machine, address, width, words)
        return
    void = ir.VoidType()
    if width == 1:
        wide = builder.zext(words[0], I32)
        _asm(builder, void, f"{STORE}.b8 [$0], $1;", "l,r,~{memory}", [address, wide], effect=True)
    elif width == 2:
        _asm(builder, void, f"{STORE}.b16 [$0], $1;", "l,h,~{memory}", [address, *words], effect=True)
    elif width == 4:
        _asm(builder, void, f"{STORE}.b32 [$0], $1;", "l,r,~{memory}", [address, *words], effect=True)
    else:
        count = width // 4
        registers = ", ".join(f"${i + 1}" for i in range(count))
        constraints = ",".join(["l"] + ["r"] * count + ["~{memory}"])
        text = f"{STORE}.v{count}.b32 [$0], {{{registers}}};"
        _asm(builder, void, text, constraints, [address, *words], effect=True)


def _host_load(builder: Any, machine: Machine, address: Any, width: int) -> list[Any]:
    if machine.on_access is not None:
        machine.on_access(builder, address, width)
    kind = ir.IntType(min(width, 4) * 8)
    words = []
    for offset in range(0, width, 4):
        pointer = builder.inttoptr(_plus(builder, address, offset), kind.as_pointer())
        words.append(builder.load(pointer, align=1))
    return words


def _host_store(builder: Any, machine: Machine, address: Any, width: int, words: Sequence[Any]) -> None:
    if machine.on_access is not None:
        machine.on_access(builder, address, width)
    for offset, word in zip(range(0, width, 4), words, strict=True):
        pointer = builder.inttoptr(_plus(builder, address, offset), word.type.as_pointer())
        builder.store(word, pointer, align=1)


def _words_to_lanes(builder: Any, words: Sequence[Any], lane_bits: int) -> list[Any]:
    word_bits = words[0].type.width
    if lane_bits > word_bits:
        per = lane_bits // word_bits
        return [_join(builder, words[i : i + per], lane_bits) for i in range(0, len(words), per)]
    return [lane for word in words for lane in _split(builder, word, lane_bits)]


def _lanes_to_words(builder: Any, lanes: Sequence[Any], lane_bits: int, word_bits: int) -> list[Any]:
    if lane_bits > word_bits:
        return [word for lane in lanes for word in _split(builder, lane, word_bits)]
    per = word_bits // lane_bits
    return [_join(builder, lanes[i : i + per], word_bits) for i in range(0, len(lanes), per)]


def _split(builder: Any, value: Any, bits: int) -> list[Any]:
    """Cut an integer into parts of `bits`, lowest first."""
    if value.type.width == bits:
        return [value]
    parts = []
    for shift in range(0, value.type.width, bits):
        moved = builder.lshr(value, value.type(shift)) if shift else value
        parts.append(builder.trunc(moved, ir.IntType(bits)))
    return parts


def _join(builder: Any, parts: Sequence[Any], bits: int) -> Any:
    """Put integers together, lowest first."""
    if parts[0].type.width == bits:
        return parts[0]
    kind = ir.IntType(bits)
    joined = None
    for i, part in enumerate(parts):
        wide = builder.zext(part, kind)
        if i:
            wide = builder.shl(wide, kind(i * part.type.width))
        joined = wide if joined is None else builder.or_(joined, wide)
    return joined


def _asm(
    builder: Any, result: Any, text: str, constraints: str, args: Sequence[Any], *, effect: bool = False
) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(ir.InlineAsm(kind, text, constraints, side_effect=effect), args)
