"""A functor's side of the launcher: its record, the plans in its table, and what its function captures."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numjit.cache import Bounded
from numjit.launcher.interface import (
    MAX_PARAMETERS,
    MAX_SLOTS,
    MAX_WORDS,
    Guard,
    Packing,
    PlannedCall,
    PlanWord,
    Record,
)

if TYPE_CHECKING:
    from numjit.dtypes import DType

__all__ = ["FunctorRecord", "value_codes"]

_INT64 = 1 << 63
_Describe = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)
_Hash = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 2)


class _PlanMemory:
    """A plan's words and the objects that they refer to; the launcher holds one while it uses it."""

    __slots__ = ("objects", "words")

    def __init__(self, words: Any, objects: list[Any]) -> None:
        self.words = words
        self.objects = objects


class _RecordWords(np.ndarray[Any, Any]):
    """A record's words, which keep alive all that they refer to."""

    owner: FunctorRecord


class FunctorRecord:
    """The record of one operation.

    Parameters
    ----------
    describe, hashing
        Addresses of the launcher's functions that describe calls.
    names
        The parameters' names, operands first; None for one that cannot be given by name.
    operands
        How many of the parameters may be given by position.
    defaults
        One value a parameter, None where there is none.
    detached
        Whether calls never record gradients.
    """

    #: Plans kept; a loop over ever new shapes must not grow without bound.
    LIMIT = 16384

    def __init__(
        self,
        describe: int,
        hashing: int,
        names: Sequence[str | None],
        operands: int,
        defaults: Sequence[Any],
        *,
        detached: bool,
    ) -> None:
        self._describe, self._hash = _Describe(describe), _Hash(hashing)
        self._interned = [None if name is None else sys.intern(name) for name in names]
        self._defaults = list(defaults)
        self._parameters = len(names)
        self._name_table = np.array([0 if n is None else id(n) for n in self._interned], np.int64)
        self._default_table = np.array([0 if d is None else id(d) for d in defaults], np.int64)
        self._guards: tuple[Any, list[Any]] = (np.zeros(0, np.int64), [])
        self._plans: Bounded[tuple[int, ...], _PlanMemory] = Bounded(self.LIMIT)
        #: How often plans were forgotten.
        self.generation = 0
        self.array = np.zeros(len(Record), np.int64).view(_RecordWords)
        self.array.owner = self
        self.array[Record.PARAMETERS] = len(names)
        self.array[Record.OPERANDS] = operands
        self.array[Record.NAMES] = self._name_table.ctypes.data
        self.array[Record.DEFAULTS] = self._default_table.ctypes.data
        self.array[Record.DETACHED] = detached
        self._renew_table()

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def hits(self) -> int:
        """How many calls the launcher answered."""
        return int(self.array[Record.HITS])

    def describe(self, bound: Sequence[Any], out: Any = None) -> tuple[int, tuple[int, ...]] | None:
        """Return the hash and the words by which a call is matched; None where it goes the general way.

        Parameters
        ----------
        bound
            One value a parameter.
        out
            The output that was given, if any.
        """
        if self._parameters > MAX_PARAMETERS:
            return None
        values = np.array([id(value) for value in bound], np.int64)
        words = np.zeros(MAX_WORDS, np.int64)
        addresses = np.zeros(MAX_PARAMETERS + 1, np.int64)
        count = self._describe(
            self.array.ctypes.data, values.ctypes.data, 0 if out is None else id(out), words.ctypes.data,
            addresses.ctypes.data,
        )  # fmt: skip
        if count < 0:
            return None
        return self._hash(words.ctypes.data, count), tuple(map(int, words[:count]))

    # ---------------------------------------------------------------------------------------- guards

    def watch(self, places: Sequence[tuple[Guard, int, Any]], keep: Sequence[Any]) -> None:
        """Let plans hold only while captured names mean what they mean now; forgets every plan.

        Parameters
        ----------
        places
            (kind, place, key) of each: the address of a word and None, or a dict's address and a str.
        keep
            Objects that the places lie in.
        """
        self.forget()
        rows, held = [], list(keep)
        for kind, place, key in places:
            if kind is Guard.WORD:
                try:
                    value = ctypes.py_object.from_address(place).value
                except ValueError:  # an empty cell
                    value = None
                held.append(value)  # so that no later value can have its address
                rows.append((int(kind), place, 0, id(value)))
            else:
                names = ctypes.cast(place, ctypes.py_object).value
                value = names.get(key)
                held += [names, key, value]
                rows.append((int(kind), place, id(key), id(value)))
        table = np.array(rows, np.int64).reshape(-1)
        self.array[Record.GUARD_COUNT] = 0
        self.array[Record.GUARDS] = table.ctypes.data
        self.array[Record.GUARD_COUNT] = len(rows)
        self._guards = table, held

    # ----------------------------------------------------------------------------------------- plans

    def forget(self) -> None:
        """Forget every plan."""
        forgotten, self._plans = self._plans, Bounded(self.LIMIT)
        self.generation += 1
        self._renew_table()
        del forgotten  # not before: until now other threads found them in the table

    def _renew_table(self) -> None:
        """Make a table with room for twice the plans; the old one is not looked at any more."""
        size = 1 << max(3, (4 * len(self._plans) + 3).bit_length())
        table = np.zeros(2 * size, np.int64)
        for memory in list(self._plans.values()):
            self._insert(table, memory)
        # At once: other threads call while this one is between two statements.
        self.array[Record.TABLE : Record.RECENT + 1] = table.ctypes.data, size - 1, 0
        self._table = table

    @staticmethod
    def _insert(table: Any, memory: _PlanMemory) -> None:
        hashed, address = int(memory.objects[0]), memory.words.ctypes.data
        mask = len(table) // 2 - 1
        slot = hashed & mask
        while table[2 * slot + 1]:
            slot = slot + 1 & mask
        table[2 * slot] = hashed
        table[2 * slot + 1] = address  # last: an entry without an address is free

    def add(self, bound: Sequence[Any], out: Any, planned: PlannedCall) -> bool:
        """Keep what a call does; answers whether such calls go through the launcher from now on.

        Parameters
        ----------
        bound, out
            The call's arguments.
        planned
            What it did.
        """
        if any(type(value) is int and not -_INT64 <= value < _INT64 for value in bound):
            return False  # they are uint64 to the functor: a plan of their own, but described as any int
        described = self.describe(bound, out)
        if described is None:
            return False
        hashed, words = described
        if words in self._plans:
            return True
        memory = _plan_memory(hashed, words, bound, out, planned)
        if memory is None:
            return False
        gone = self._plans.keep(words, memory)
        if gone:
            self.generation += 1
        if gone or 4 * len(self._plans) > len(self._table):
            self._renew_table()
        else:
            self._insert(self._table, memory)
        del gone  # not before: until now other threads found them in the table
        return True


def value_codes(value: Any, dtype: DType) -> list[Packing] | None:
    """Return how a number is packed: one code a kernel parameter (an imaginary part that is 0 needs none).

    Parameters
    ----------
    value
        A bool, int, float or complex.
    dtype
        The parameter's.

    Returns
    -------
    list or None
        None for conversions that are left to Python (floats to integers).
    """
    source = {bool: "BOOL", int: "INT", float: "FLOAT", complex: "REAL"}.get(type(value))
    if source is None:
        return None
    if dtype.kind in "fc":
        target = "FLOAT32" if dtype.compute.real.name == "float32" else "FLOAT64"
        codes = [Packing[f"{target}_OF_{source}"]]
        if dtype.is_complex and source == "REAL":
            codes.append(Packing[f"{target}_OF_IMAG"])
        return codes
    if source not in {"BOOL", "INT"}:
        return None
    return [Packing[f"{'BOOL' if dtype.kind == 'b' and source == 'INT' else 'INT'}_OF_{source}"]]


def _plan_memory(
    hashed: int, words: tuple[int, ...], bound: Sequence[Any], out: Any, planned: PlannedCall
) -> _PlanMemory | None:
    """Lay a plan out in memory; None where the launcher cannot run it."""
    outputs = len(planned.outputs)
    slots = outputs + len(planned.memory)
    values: list[tuple[int, int, Packing]] = []
    for k, dtype in planned.numbers:
        codes = value_codes(bound[k], dtype)
        if codes is None:
            return None
        values += [(k, slots + j, code) for j, code in enumerate(codes)]
        slots += 2 if dtype.is_complex else 1
    template = [0] * slots + list(planned.extents)
    if outputs > MAX_PARAMETERS or len(template) > MAX_SLOTS:
        return None
    if planned.kernel.slot_count != len(template):
        return None
    offsets = list(planned.offsets)
    spans = []
    for j, k in enumerate(planned.memory):
        low, high = (0, 0) if out is None else _span(bound[k])
        same = out is not None and _layout(bound[k]) == _layout(out)
        spans.append((k, outputs + j, offsets[outputs + j], low, high, int(same)))
    torch: Any = sys.modules["torch"]
    allocations = [(planned.shape, planned.strides, getattr(torch, dtype.name)) for dtype in planned.outputs]
    objects: list[Any] = [hashed, planned.kernel, *allocations]
    out_low, out_high = (0, 0) if out is None else _span(out)
    tables = {
        PlanWord.WORDS: words,
        PlanWord.ALLOCATIONS: list(map(id, allocations)),
        PlanWord.TEMPLATE: template,
        PlanWord.OUTPUT_OFFSETS: offsets[:outputs],
        PlanWord.INPUT_TABLE: [number for span in spans for number in span],
        PlanWord.VALUE_TABLE: [int(number) for value in values for number in value],
    }
    memory = np.zeros(len(PlanWord) + sum(map(len, tables.values())), np.int64)
    owner = _PlanMemory(memory, objects)
    numbers = {
        PlanWord.OWNER: id(owner), PlanWord.WORD_COUNT: len(words), PlanWord.CONTEXT: planned.kernel.context,
        PlanWord.DEVICE: planned.device.index, PlanWord.OUTPUTS: outputs,
        PlanWord.GIVEN: int(out is not None),
        PlanWord.FUNCTION: planned.kernel.function, PlanWord.GRID: planned.grid[0],
        PlanWord.BLOCK: planned.kernel.block[0], PlanWord.SHARED: planned.kernel.shared_bytes,
        PlanWord.SLOTS: len(template), PlanWord.INPUTS: len(spans), PlanWord.VALUES: len(values),
        PlanWord.OUT_LOW: out_low, PlanWord.OUT_HIGH: out_high,
    }  # fmt: skip
    for place, number in numbers.items():
        memory[place] = number
    start = len(PlanWord)
    for place, table in tables.items():
        memory[place] = memory.ctypes.data + 8 * start
        memory[start : start + len(table)] = table
        start += len(table)
    return owner


def _span(tensor: Any) -> tuple[int, int]:
    """Return the bytes that a tensor covers, from its address: first, and one past the last."""
    itemsize = tensor.element_size()
    if math.prod(tensor.shape) == 0:
        return 0, 0
    steps = [(n - 1) * s * itemsize for n, s in zip(tensor.shape, tensor.stride(), strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps) + itemsize


def _layout(tensor: Any) -> tuple[Any, ...]:
    """Return what must agree for two tensors at one address to have the same elements in the same places."""
    sizes = tuple(zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.element_size(), tuple(tensor.shape), tuple(s for n, s in sizes if n > 1)
