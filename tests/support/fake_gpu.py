"""Lets the launcher run without a GPU: a driver of ctypes callbacks, whose "kernel" is a Python function."""

import ctypes

import numpy as np
import pytest
import torch

from numjit.arrays.view import cuda
from numjit.call.record import Plan
from numjit.dtypes import as_dtype
from numjit.launcher import attach, process, torch_functions
from numjit.launcher.interface import Api
from numjit.launcher.machine import load
from numjit.launcher.offsets import find_offsets, word
from numjit.launcher.process import process_table
from numjit.launcher.tested import UnavailableError, require_tested

try:
    require_tested(torch.__version__)
except UnavailableError as error:
    pytest.skip(f"no launcher: {error}", allow_module_level=True)

CONTEXT = 0x1000
STREAM = 0x7777


class _Called:
    def __call__(self): ...


class FakeLauncher:
    """What a plan launches: a kernel of float32 operands that are one after the other in memory."""

    context = CONTEXT
    function = 0x2000
    block = (128, 1, 1)
    shared_bytes = 0

    def __init__(self, slot_count):
        self.slot_count = slot_count


class FakeGpu:
    """A launcher over CPU tensors; `launches` keeps what the "driver" was given."""

    def __init__(self):
        self.context = CONTEXT
        self.status = 0
        self.launches = []
        self.kernel = None
        launch = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_uint64, *[ctypes.c_uint32] * 7, *[ctypes.c_uint64] * 3
        )
        pointer = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64)
        stream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_uint64)
        self._callbacks = [
            launch(self._launch), pointer(self._current), pointer(self._use), stream(self._stream),
        ]  # fmt: skip

    def _launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, table, extra):
        if self.status == 0:
            self.launches.append((function, (gx, gy, gz), (bx, by, bz), shared, stream, extra))
            if self.kernel is not None:
                self.kernel(table)
        return self.status

    def _current(self, where):
        ctypes.c_uint64.from_address(where).value = self.context
        return 0

    def _use(self, context):
        self.context = context
        return self.status

    def _stream(self, index, where):
        assert index == 0
        ctypes.c_uint64.from_address(where).value = STREAM
        return 0

    def table(self, monkeypatch):
        """The process's table with this GPU in the driver's place."""
        monkeypatch.setattr(process, "_driver_library", lambda: ctypes.pythonapi)
        for module in (process, torch_functions):
            monkeypatch.setattr(module, "address_of", _address)
        offsets = find_offsets(attach.FastCallable, torch)
        slot_call = word(id(_Called) + offsets.type_call)
        table = process_table(torch, offsets, slot_call)
        addresses = [ctypes.cast(c, ctypes.c_void_p).value for c in self._callbacks]
        places = (Api.LAUNCH, Api.GET_CONTEXT, Api.SET_CONTEXT, Api.CURRENT_STREAM)
        for place, address in zip(places, addresses, strict=True):
            table.words[place] = address
        empty = torch._C._dynamo.guards._empty_strided_cpu
        table.words[Api.EMPTY] = id(empty)
        return table, offsets


def _address(library, name):
    found = getattr(library, name, None)
    return 0 if found is None else int(ctypes.cast(found, ctypes.c_void_p).value)


def slot(table, index):
    """Address of a kernel parameter."""
    return word(table + 8 * index)


def floats(address, count):
    """A float32 array at an address."""
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def operand(table, index, count):
    """The float32 array that a kernel parameter is the address of."""
    return floats(word(slot(table, index)), count)


def entry(shape, *, memory, values=(), outputs=1, extents=(), offsets=(), strides=None, dtype=torch.float32):
    """A plan over contiguous tensors."""
    strides = torch.empty(shape, device="meta").stride() if strides is None else strides
    slots = outputs + len(memory) + sum(2 if d.is_complex else 1 for _, d in values) + len(extents)
    made = (as_dtype(dtype),) * outputs
    plan = Plan(None, tuple(shape), tuple(strides), made, tuple(values), tuple(memory), cuda(0))
    plan.kernel, plan.grid, plan.extents = FakeLauncher(slots), (7, 1, 1), tuple(extents)
    plan.offsets = tuple(offsets) or (0,) * (outputs + len(memory))
    plan.library = plan.results = "torch"
    return plan


__all__ = ["FakeGpu", "entry", "floats", "load", "operand", "slot"]
