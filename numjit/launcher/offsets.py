"""Finds where CPython and torch keep what no function of theirs tells fast enough.

Neither promises these places, so nothing is assumed: each is searched for within the object's own memory,
on several objects whose contents are known, and tried on others. Where one is not found exactly as expected
there is no launcher, and calls take the warm path in Python.
"""

from __future__ import annotations

import ctypes
import dataclasses
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from numjit.launcher.tested import UnavailableError

__all__ = ["Offsets", "find_offsets", "word"]

#: PyTypeObject.tp_call: 16 words into the object in every CPython with a GIL.
_TYPE_CALL = 128
#: Dispatch keys of tensors that are nothing but sizes, strides and memory; others mean wrappers, transforms,
#: other layouts, or no memory, for which torch's functions have no answer or a wrong one.
_PLAIN_KEYS = (
    "CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "AutocastCPU", "AutocastCUDA", "ADInplaceOrView",
    "Conjugate", "Negative",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Offsets:
    """Offsets in bytes, and what is found there.

    Attributes
    ----------
    record
        In an operation: the slot of its record.
    tensor
        In a tensor object: its ``at::Tensor``, whose only word is the address of the TensorImpl.
    keys, other_keys
        In a TensorImpl: the set of its dispatch keys; the keys that no plain tensor has.
    items
        In a tuple: its items.
    type_call
        In a class: the slot for calls.
    function
        In a Python function: code, defaults and keyword defaults.
    cell
        In a cell: its contents.
    """

    record: int
    tensor: int
    keys: int
    other_keys: int
    items: int
    type_call: int
    function: tuple[int, int, int]
    cell: int


def word(address: int) -> int:
    """Return the unsigned word at an address."""
    return int(ctypes.c_uint64.from_address(address).value)


def find_offsets(operation_class: Any, torch: Any) -> Offsets:
    """Return the offsets.

    Parameters
    ----------
    operation_class
        The class with the slot ``_launcher_record``.
    torch
        The module.

    Raises
    ------
    UnavailableError
        Anything is not as expected.
    """
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise UnavailableError("it needs addresses of 8 bytes")
    tensor, keys, other_keys = _tensor_offsets(torch)
    return Offsets(
        record=_record_offset(operation_class),
        tensor=tensor,
        keys=keys,
        other_keys=other_keys,
        items=_tuple_items(),
        type_call=_type_call_offset(),
        function=_function_offsets(),
        cell=_cell_offset(),
    )


def _places(base: int, wanted: int, size: int) -> set[int]:
    """Return where a word lies within an object of so many bytes."""
    return {place for place in range(0, size - 7, 8) if word(base + place) == wanted}


def _only(places: set[int], what: str) -> int:
    if len(places) != 1:
        raise UnavailableError(f"{what} is not found where it could be ({len(places)} places)")
    return places.pop()


def _tuple_items() -> int:
    """Find a tuple's items, and see that sizes, numbers and arrays are laid out as the program has it."""
    offset = tuple.__basicsize__  # from Python 3.14 on there is a hash before the items
    items = (object(), object())
    array, real, number = np.zeros(3, np.int64), 2.5, 1.5 - 2.5j
    parts = [ctypes.c_double.from_address(id(number) + 16 + 8 * k).value for k in range(2)]
    laid_out = {
        "a tuple": word(id(items) + 16) == 2
        and [word(id(items) + offset + 8 * k) for k in range(2)] == [id(item) for item in items],
        "an object's class": word(id(items) + 8) == id(tuple),
        "a number": ctypes.c_double.from_address(id(real) + 16).value == real and complex(*parts) == number,
        "a NumPy array": word(id(array) + 16) == array.ctypes.data,
    }
    for what, right in laid_out.items():
        if not right:
            raise UnavailableError(f"{what} is laid out otherwise")
    return offset


def _record_offset(operation_class: Any) -> int:
    probe = operation_class.__new__(operation_class)
    size = operation_class.__basicsize__
    mark = np.zeros(1, np.int64)
    empty = _places(id(probe), 0, size)
    probe._launcher_record = mark
    return _only(_places(id(probe), id(mark), size) & empty, "an operation's record")


def _tensor_offsets(torch: Any) -> tuple[int, int, int]:
    """Find TensorImpl and dispatch keys on tensors that differ in them."""
    library = ctypes.CDLL(None)  # what made them made its memory with the process's malloc
    if not hasattr(library, "malloc_usable_size"):
        raise UnavailableError("the size of a piece of memory cannot be asked for")
    size_of = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(("malloc_usable_size", library))
    with torch.inference_mode(mode=False), torch.enable_grad():
        plain = torch.empty(3, 4, device="cpu")
        conj = torch.empty(3, dtype=torch.complex64, device="cpu").conj()
        alike = [plain, plain.t(), torch.nn.Parameter(plain), conj, conj.imag, plain[1:] * 2]
        other = [
            torch.empty(3, device="meta"), plain.to_sparse(), torch._efficientzerotensor(3, device="cpu"),
            torch._to_functional_tensor(plain),
        ]  # fmt: skip
    with torch.inference_mode():
        alike.append(torch.empty(2, device="cpu"))
    probes = [*alike, *other]
    within = torch.Tensor.__basicsize__
    places = [_places(id(t), t._cdata, within) for t in probes]
    tensor = _only(set.intersection(*places), "a tensor's memory")
    expected = [_bits(torch._C._dispatch_keys(t)) for t in probes]
    places = [_places(t._cdata, e, size_of(t._cdata)) for t, e in zip(probes, expected, strict=True)]
    keys = _only(set.intersection(*places), "a tensor's dispatch keys")
    names = [getattr(torch._C.DispatchKey, name) for name in _PLAIN_KEYS]
    usual = 0
    for name in names:
        usual |= _bits(torch._C.DispatchKeySet(name))
    other_keys = ~usual & (1 << 64) - 1
    right = [bool(word(t._cdata + keys) & other_keys) == (k >= len(alike)) for k, t in enumerate(probes)]
    if not all(right) or len(set(expected)) < 7:
        raise UnavailableError("dispatch keys do not tell plain tensors from others")
    return tensor, keys, other_keys


def _bits(keys: Any) -> int:
    return int(keys.raw_repr()) & (1 << 64) - 1


def _type_call_offset() -> int:
    def run(self: Any) -> None: ...

    first, second = (type(name, (), {"__call__": run}) for name in ("First", "Second"))
    plain = type("Plain", (), {})
    called = word(id(first) + _TYPE_CALL)
    good = called and called == word(id(second) + _TYPE_CALL) and word(id(plain) + _TYPE_CALL) == 0
    del second.__call__
    if not good or word(id(second) + _TYPE_CALL) != 0:
        raise UnavailableError("a class's slot for calls is not found where it could be")
    return _TYPE_CALL


def _function_offsets() -> tuple[int, int, int]:
    def sample(x: int = 12345678901, *, y: int = 12345678902) -> int:
        return x + y

    parts: Sequence[Any] = (sample.__code__, sample.__defaults__, sample.__kwdefaults__)
    size = types.FunctionType.__basicsize__
    code, defaults, keywords = (
        _only(_places(id(sample), id(part), size), "a function's part") for part in parts
    )
    return code, defaults, keywords


def _cell_offset() -> int:
    captured = object()

    def inner() -> object:
        return captured

    (cell,) = inner.__closure__ or ()
    return _only(_places(id(cell), id(captured), types.CellType.__basicsize__), "a cell's contents")
