"""Finds where CPython and torch keep what the launcher reads, by looking at objects whose contents are known.

Neither promises its structs' layout, so nothing is assumed: each offset is searched for, checked on
several objects, and where one is not found exactly as expected there is no launcher (calls then take
the warm path in Python).
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from numjit.dtypes import ALL
from numjit.launcher.interface import INLINE_RANK

__all__ = ["Offsets", "find_offsets", "word"]

#: Words of a TensorImpl that are looked at; it has some 26 (torch 2.11 to 2.13).
_IMPL_WORDS = 24
#: Words of a StorageImpl that are looked at.
_STORAGE_WORDS = 6
#: Three bytes of a TensorImpl: the device's type, its number (-1: none), whether there is a device.
_DEVICES = {"cpu": 0x01FF00, "meta": 0x01FF0E}
#: PyTypeObject.tp_call: 16 words into the object in every CPython with a GIL.
_TYPE_CALL = 128


@dataclasses.dataclass(frozen=True)
class Offsets:
    """Offsets in bytes.

    Attributes
    ----------
    record
        In an operation: the slot of its record.
    impl, keys, meta, storage
        In a tensor object: the TensorImpl; in that: the dispatch keys, the autograd state, the storage.
    data
        In a storage: the address of its memory.
    start, type, sizes
        In a TensorImpl: the elements between its storage's address and its own; the number of its dtype, with
        the device after it; its rank, with sizes and strides after it.
    item_sizes
        Bytes of an element by the number of its dtype, 0 where there is no such dtype.
    type_call
        In a class: the slot for calls.
    function
        In a Python function: code, defaults and keyword defaults.
    cell
        In a cell: its contents.
    """

    record: int
    impl: int
    keys: int
    meta: int
    storage: int
    data: int
    start: int
    type: int
    sizes: int
    item_sizes: tuple[int, ...]
    type_call: int
    function: tuple[int, int, int]
    cell: int


def word(address: int) -> int:
    """Return the unsigned word at an address."""
    return int(ctypes.c_uint64.from_address(address).value)


def find_offsets(operation_class: Any, torch: Any) -> Offsets | None:
    """Return the offsets, or None where anything is not as expected.

    Parameters
    ----------
    operation_class
        The class with the slot ``_launcher_record``.
    torch
        The module.
    """
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or not _known_structs():
        return None
    impl, keys, meta = _tensor_offsets(torch)
    storage, data = _storage_offsets(torch, impl) if impl is not None else (None, None)
    kind, item_sizes = _type_offset(torch)
    found: dict[str, Any] = {
        "record": _record_offset(operation_class),
        "impl": impl,
        "keys": keys,
        "meta": meta,
        "storage": storage,
        "data": data,
        "start": _start_offset(torch),
        "type": kind,
        "sizes": _sizes_offset(torch),
        "item_sizes": item_sizes,
        "type_call": _type_call_offset(),
        "function": _function_offsets(),
        "cell": _cell_offset(),
    }
    return None if None in found.values() else Offsets(**found)


def _places(base: int, wanted: int, words: int) -> set[int]:
    return {8 * k for k in range(words) if word(base + 8 * k) == wanted}


def _only(places: set[int]) -> int | None:
    return places.pop() if len(places) == 1 else None


def _known_structs() -> bool:
    """Whether tuples, numbers and arrays are laid out as the program has it."""
    items = (object(), object())
    array, real, number = np.zeros(3, np.int64), 2.5, 1.5 - 2.5j
    return (
        word(id(items) + 16) == 2
        and [word(id(items) + 24 + 8 * k) for k in range(2)] == [id(item) for item in items]
        and word(id(items) + 8) == id(tuple)
        and ctypes.c_double.from_address(id(real) + 16).value == real
        and complex(*(ctypes.c_double.from_address(id(number) + 16 + 8 * k).value for k in range(2)))
        == number
        and word(id(array) + 16) == array.ctypes.data
    )


def _record_offset(operation_class: Any) -> int | None:
    probe = operation_class.__new__(operation_class)
    size = operation_class.__basicsize__ // 8
    before = [word(id(probe) + 8 * k) for k in range(size)]
    probe._launcher_record = mark = np.zeros(1, np.int64)
    places = _places(id(probe), id(mark), size)
    found = _only(places)
    return found if found is not None and before[found // 8] == 0 else None


def _tensor_offsets(torch: Any) -> tuple[int | None, int | None, int | None]:
    """Find TensorImpl, dispatch keys and autograd state on tensors that differ in each of them."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        plain = torch.empty(3, 4)
        conj = torch.empty(3, dtype=torch.complex64).conj()
        leaf = torch.empty(3, requires_grad=True)
        former = torch.empty(3, requires_grad=True).requires_grad_(False)
        without = [plain, torch.empty(2, device="meta"), leaf.detach()]
        having = [leaf, torch.nn.Parameter(torch.empty(2)), former, leaf * 2, leaf[1:]]
        others = [plain.t(), conj, conj.imag]  # views may have some
    with torch.inference_mode():
        without.append(torch.empty(2))
    tensors = [*without, *having, *others]
    impl = _only(set.intersection(*(_places(id(t), t._cdata, 8) for t in tensors)))
    if impl is None:
        return None, None, None
    keys = [torch._C._dispatch_keys(t).raw_repr() for t in tensors]
    keys_offset = _only(
        set.intersection(*(_places(t._cdata, key, _IMPL_WORDS) for t, key in zip(tensors, keys, strict=True)))
    )
    empty = set.intersection(*(_places(t._cdata, 0, _IMPL_WORDS) for t in without))
    meta = _only({place for place in empty if all(word(t._cdata + place) for t in having)})
    return impl, keys_offset if len(set(keys)) > 2 else None, meta


def _storage_offsets(torch: Any, impl: int) -> tuple[int | None, int | None]:
    """Find the storage of a tensor and its address, on tensors of which none is alive twice."""
    tensors = [torch.empty(n) for n in (3, 1000, 100_000)]
    found = [
        {
            (8 * j, 8 * k)
            for j in range(_IMPL_WORDS // 2)
            if word(word(id(t) + impl) + 8 * j) == t.untyped_storage()._cdata
            for k in range(_STORAGE_WORDS)
            if word(t.untyped_storage()._cdata + 8 * k) == t.data_ptr()
        }
        for t in tensors
    ]
    # the address is kept twice: itself, then as what its deleter is called with
    return min(set.intersection(*found), default=(None, None))


def _start_offset(torch: Any) -> int | None:
    """Find how far into its storage a tensor begins."""
    memory = torch.empty(2000)
    views = [memory[start:] for start in (0, 101, 1999)]
    return _only(set.intersection(*(_places(t._cdata, t.storage_offset(), _IMPL_WORDS) for t in views)))


def _sizes_offset(torch: Any) -> int | None:
    """Find a tensor's rank, then sizes and strides: within itself first, for larger ranks elsewhere."""
    small = [
        torch.empty_strided(sizes, tuple(range(20, 20 + len(sizes))), device="meta")
        for sizes in [(3, 5, 7), (9,), (), (3, 5, 7, 11, 13)]
    ]
    places = range(0, 8 * (_IMPL_WORDS - 2 * INLINE_RANK), 8)  # all of it lies within the TensorImpl
    found = _only(
        set.intersection(*({p for p in places if _lies_at(t, t._cdata + p + 8, t._cdata + p)} for t in small))
    )
    large = [torch.empty_strided((3,) * rank, tuple(range(20, 20 + rank)), device="meta") for rank in (6, 9)]
    for tensor in large if found is not None else ():
        begin = word(tensor._cdata + found + 8)
        if begin < 1 << 16 or begin % 8 or not _lies_at(tensor, begin, tensor._cdata + found):
            return None
    return found


def _lies_at(tensor: Any, begin: int, rank: int) -> bool:
    """Whether a tensor's rank is at one address and its sizes and strides at another."""
    if word(rank) != tensor.dim():
        return False
    gap = max(INLINE_RANK, tensor.dim())
    return all(
        (word(begin + 8 * k), word(begin + 8 * (gap + k))) == pair
        for k, pair in enumerate(zip(tensor.shape, tensor.stride(), strict=True))
    )


def _type_offset(torch: Any) -> tuple[int | None, tuple[int, ...] | None]:
    """Find the number of a tensor's dtype, with the device after it, and each dtype's bytes by its number."""
    kinds = [getattr(torch, dtype.name) for dtype in ALL if hasattr(torch, dtype.name)]
    places = []
    for kind in kinds:
        tensors = [
            (torch.empty(n, dtype=torch.uint8, device=d).view(kind), device)  # complex32 made anew warns
            for n in (16, 48)
            for d, device in _DEVICES.items()
        ]
        places.append(
            {
                (p, word(tensors[0][0]._cdata + p) & 0xFFFF)
                for p in range(0, 8 * _IMPL_WORDS, 8)
                if len({word(t._cdata + p) & 0xFFFF for t, _ in tensors}) == 1
                and all(word(t._cdata + p) >> 16 & 0xFFFFFF == device for t, device in tensors)
            }
        )
    offset = _only(set.intersection(*({p for p, _ in found} for found in places)))
    numbers = [number for found in places for p, number in found if p == offset]
    if offset is None or len(set(numbers)) < len(kinds) or max(numbers) > 0xFF:
        return None, None
    sizes = [0] * 256
    for number, kind in zip(numbers, kinds, strict=True):
        sizes[number] = kind.itemsize
    return offset, tuple(sizes)


def _type_call_offset() -> int | None:
    def run(self: Any) -> None: ...

    first, second = (type(name, (), {"__call__": run}) for name in ("First", "Second"))
    plain = type("Plain", (), {})
    called = word(id(first) + _TYPE_CALL)
    good = called and called == word(id(second) + _TYPE_CALL) and word(id(plain) + _TYPE_CALL) == 0
    del second.__call__
    return _TYPE_CALL if good and word(id(second) + _TYPE_CALL) == 0 else None


def _function_offsets() -> tuple[int, int, int] | None:
    def sample(x: int = 12345678901, *, y: int = 12345678902) -> int:
        return x + y

    parts: Sequence[Any] = (sample.__code__, sample.__defaults__, sample.__kwdefaults__)
    places = [_only(_places(id(sample), id(part), 16)) for part in parts]
    code, defaults, keywords = places
    if code is None or defaults is None or keywords is None:
        return None
    return code, defaults, keywords


def _cell_offset() -> int | None:
    captured = object()

    def inner() -> object:
        return captured

    (cell,) = inner.__closure__ or ()
    return _only(_places(id(cell), id(captured), 3))
