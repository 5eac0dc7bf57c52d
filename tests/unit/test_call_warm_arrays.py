"""The warm path of CuPy's arrays, on a CuPy that is a few classes: what tells calls apart, what one does."""

import sys
import types

import numpy as np
import pytest

from numjit import dtypes
from numjit.arrays.view import cuda
from numjit.call import warm_arrays
from numjit.call.warm import Entry

N, STREAM = 64, 0x5550


class Memory:
    def __init__(self, ptr, device_id=0):
        self.ptr, self.device_id = ptr, device_id


class Array:
    def __init__(self, shape, dtype=np.float32, host=None):
        self.host = np.empty(shape, dtype) if host is None else host
        self.data = Memory(self.host.ctypes.data)
        self.dtype, self.shape, self.strides = self.host.dtype, self.host.shape, self.host.strides


Array.__module__ = "cupy"


@pytest.fixture
def cupy(monkeypatch):
    """The module in CuPy's place."""
    made = types.ModuleType("cupy")
    made.ndarray = Array
    runtime = types.SimpleNamespace(getDevice=lambda: 0)
    made.cuda = types.SimpleNamespace(get_current_stream=lambda index: Memory(STREAM), runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", made)
    monkeypatch.setattr(warm_arrays, "_peeks", {np.ndarray: warm_arrays._numpy})


def array(host):
    return Array(None, host=host)


def key(*bound):
    return warm_arrays.key("functor", None, bound, protocols=False)


def test_calls_are_told_apart_by_what_a_plan_depends_on(cupy):
    memory = np.zeros(N + 4, np.float32)
    elsewhere = array(memory[:N])
    elsewhere.data.device_id = 1
    plain = memory[:N]
    changed = (
        plain,
        plain.astype(np.float64),
        plain[:8],
        plain.reshape(8, 8),
        plain[::-1],
        memory[1 : N + 1],
    )
    others = [*map(array, changed), elsewhere]
    keys = [key(other, 1.0) for other in others]
    assert len(set(keys)) == len(others)
    assert keys[0] == key(array(np.zeros(N, np.float32)), 2.5) != key(others[0], 2)
    gone = array(memory)
    gone.data.ptr = 0
    for odd in (gone, memory):
        assert key(others[0], odd) is None


def test_a_call_is_repeated_on_cupy_s_stream(cupy):
    launched = []
    kernel = lambda *arguments: launched.append(arguments)  # noqa: E731
    outputs, values = (dtypes.float32,), ((1, dtypes.float32),)
    entry = Entry(
        (N,), (1,), outputs, cuda(0), (0,), values, (8, 16), kernel, (7, 1, 1), (N,), 0, None, "cupy", "cupy"
    )
    x = array(np.zeros(N, np.float32))
    result = warm_arrays.run(entry, (x, 2.5), key(x, 2.5))
    assert type(result) is Array
    (stream, grid, numbers) = launched[0]
    assert (stream, grid) == (STREAM, (7, 1, 1))
    assert numbers == (result.data.ptr + 8, x.data.ptr + 16, 2.5, N)
