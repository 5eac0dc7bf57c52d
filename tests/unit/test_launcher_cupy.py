"""The compiled launcher on arrays of a CuPy that is a few classes: memory of NumPy's on a fake GPU."""

import dataclasses
import gc
import sys
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("torch has no DLPack exchange table", allow_module_level=True)

from numjit import dtypes
from numjit.launcher.attach import FastCalls
from numjit.launcher.interface import Api
from numjit.launcher.process import ProcessTable
from numjit.launcher.records import FunctorRecord
from numjit.semantics import contiguous_strides
from tests.support.fake_gpu import entry, operand
from tests.unit.test_launcher import GENERAL, N, Operation, axpy_plan, gpu, offered_axpy  # noqa: F401

# ruff: noqa: F811
OWN_STREAM = 0x5550
FLOAT32 = np.dtype(np.float32)


class Memory:
    def __init__(self, ptr, device_id):
        self.ptr, self.device_id = ptr, device_id


class Array:
    """Has what of CuPy's arrays the launcher reads."""

    def __init__(self, shape, dtype=FLOAT32, host=None):
        self.host = np.empty(shape, dtype) if host is None else host
        self.data = Memory(self.host.ctypes.data, 0)
        self.dtype, self.shape, self.strides = self.host.dtype, self.host.shape, self.host.strides


def array(host):
    return Array(None, host=host)


@pytest.fixture
def cupy(monkeypatch):
    """The module in CuPy's place; how its current stream is asked for can be set."""
    made = types.ModuleType("cupy")
    made.ndarray = Array
    made.cuda = types.SimpleNamespace(get_current_stream=lambda: Memory(OWN_STREAM, 0))
    monkeypatch.setitem(sys.modules, "cupy", made)
    return made


def cupy_entry(shape, *, outputs=1, **more):
    """A plan whose results are CuPy's."""
    plan = entry(shape, outputs=outputs, **more)
    maker = (Array, [(tuple(shape), FLOAT32)] * outputs)
    return dataclasses.replace(plan, library="cupy", results="cupy", maker=maker)


@pytest.fixture
def axpy(gpu, cupy):
    """``alpha * x + y`` of 100 float32."""
    return offered_axpy(gpu, axpy_plan(cupy_entry), array(np.zeros(N, np.float32)))


def arrays(count=2, dtype=np.float32, size=N):
    return [array(np.random.default_rng(k).random(size).astype(dtype)) for k in range(count)]


def test_calls_are_answered_with_arrays_on_their_own_stream(axpy, gpu):
    operation, calls = axpy
    x, y = arrays()
    for alpha in (1.0, 2.5):
        result = operation(x, y, alpha=alpha)
        assert type(result) is Array
        np.testing.assert_allclose(result.host, alpha * x.host + y.host, rtol=1e-6)
    assert calls.record.hits == 2
    assert gpu.launches[-1] == (0x2000, (7, 1, 1), (128, 1, 1), 0, OWN_STREAM, 0)


def test_several_results_are_a_tuple_at_their_offsets(gpu, cupy):
    operation = Operation()
    calls = FastCalls(operation, ["x"], 1, [None])

    def kernel(table):
        plus, minus, x = (operand(table, k, N - 1) for k in range(3))
        plus[:], minus[:] = x + 1, x - 1

    gpu.kernel = kernel
    (x,) = arrays(1)
    plan = cupy_entry((N,), memory=(0,), outputs=2, offsets=(4, 0, 4))
    assert calls.offer([x], None, plan)
    plus, minus = operation(x)
    np.testing.assert_array_equal(plus.host[1:], x.host[1:] + 1)
    np.testing.assert_array_equal(minus.host[:-1], x.host[1:] - 1)


def _elsewhere(x):
    x.data = Memory(x.data.ptr, 1)
    return x


OTHERS = {
    "another dtype": lambda x, y: ((array(x.host.astype(np.float64)), y), {}),
    "another shape": lambda x, y: ((array(x.host[:50]), y), {}),
    "another rank": lambda x, y: ((array(x.host.reshape(10, 10)), y), {}),
    "other strides": lambda x, y: ((array(x.host[::-1]), y), {}),
    "another alignment": lambda x, y: ((array(np.zeros(N + 1, np.float32)[1:]), y), {}),
    "another device": lambda x, y: ((_elsewhere(x), y), {}),
    "without memory": lambda x, y: ((types.SimpleNamespace(), y), {}),
    "freed memory": lambda x, y: ((_freed(x), y), {}),
    "a tensor": lambda x, y: ((x, torch.from_numpy(y.host)), {}),
    "a subclass": lambda x, y: ((type("Mine", (Array,), {})(None, host=x.host), y), {}),
    "out=": lambda x, y: ((x, y), {"out": array(np.empty(N, np.float32))}),
    "another number": lambda x, y: ((x, y), {"alpha": 1j}),
    "a missing attribute": lambda x, y: ((_without(x, "dtype"), y), {}),
    "missing memory": lambda x, y: ((_without(x, "data"), y), {}),
    "no strides": lambda x, y: ((_without(x, "strides"), y), {}),
    "32 dimensions": lambda x, y: ((_deep(x), _deep(y)), {}),
}  # fmt: skip


def _deep(x):
    return array(x.host.reshape([N] + [1] * 31))


def _freed(x):
    x.data = Memory(0, 0)
    return x


def _without(x, name):
    delattr(x, name)
    return x


@pytest.mark.parametrize("name", OTHERS)
def test_other_arguments_are_left_to_python(axpy, gpu, name):
    operation, calls = axpy
    operands, keywords = OTHERS[name](*arrays())
    before = len(gpu.launches)
    assert operation(*operands, **keywords) is GENERAL
    assert len(gpu.launches) == before
    np.testing.assert_allclose(operation(*arrays()).host, sum(x.host for x in arrays()), rtol=1e-6)
    assert calls.record.hits == 1


def test_another_current_device(axpy, gpu):
    operation, _ = axpy
    gpu.context = 0x9999
    assert operation(*arrays()) is GENERAL


@pytest.mark.parametrize("what", ["allocation", "stream", "stream's handle", "launch", "result's address"])
def test_what_fails_is_left_to_python(axpy, gpu, cupy, monkeypatch, what):
    operation, calls = axpy

    def refuse(*_):
        raise MemoryError

    if what == "allocation":
        monkeypatch.setattr(Array, "__init__", refuse)
    elif what == "result's address":
        monkeypatch.setattr(Array, "__init__", lambda self, *_: None)
    elif what == "launch":
        gpu.status = 1
    else:
        gpu.words[Api.CUPY_STREAM] = id(refuse if what == "stream" else object)
    x, y = (object.__new__(Array) for _ in range(2))
    for made, seed in ((x, 0), (y, 1)):
        host = np.random.default_rng(seed).random(N).astype(np.float32)
        made.host, made.data, made.dtype = host, Memory(host.ctypes.data, 0), host.dtype
        made.shape, made.strides = host.shape, host.strides
    assert operation(x, y) is GENERAL
    assert calls.record.hits == 0


def test_out_and_results_in_other_orders_are_not_taken(gpu, cupy):
    operation = Operation()
    calls = FastCalls(operation, ["x"], 1, [None])
    (x,) = arrays(1)
    plan = cupy_entry((N,), memory=(0,))
    assert calls.offer([x], array(np.empty(N, np.float32)), plan) is False
    assert calls.offer([x], None, dataclasses.replace(plan, maker=None)) is False
    assert calls.record is None


def test_no_array_is_met_before_there_is_a_plan_of_one(gpu):
    assert gpu.words[Api.CUPY_ARRAY] == 0
    assert ProcessTable({}, {}, np.zeros(1, np.int64)).words[Api.CUPY_ARRAY] == 0


def test_calls_leave_no_reference(axpy, gpu):
    operation, calls = axpy
    (x, y), deep = arrays(), _deep(*arrays(1))
    (owner,) = calls.record._plans.values()
    held = (x, y, x.data, x.dtype, x.shape, x.strides, owner, Array, FLOAT32)

    def counts():
        gc.collect()
        return [sys.getrefcount(o) for o in held]

    before = counts()
    for status in (0, 1):
        gpu.status = status
        for _ in range(300):
            operation(x, y, alpha=2.5)
    for _ in range(300):
        operation(deep, deep)
    # NumPy's dtypes are everyone's in the process: whatever a call left would be there 300 times.
    assert all(abs(now - then) < 100 for now, then in zip(counts(), before, strict=True))


def test_more_words_than_there_is_room_for(axpy, gpu):
    names = [f"x{k}" for k in range(8)]
    record = FunctorRecord(gpu.launcher.describe, gpu.launcher.hash, names, 8, [None] * 8, detached=False)
    deep = _deep(*arrays(1))
    held = sys.getrefcount(deep.shape)
    assert record.describe([deep] * 4 + [1.0] * 4) is not None
    assert record.describe([deep] * 8) is None
    after = sys.getrefcount(deep.shape)
    assert after == held


def test_a_plan_keeps_the_dtypes_that_it_is_known_by(gpu, cupy):
    operation = Operation()
    calls = FastCalls(operation, ["x"], 1, [None])
    own = np.dtype(np.float32, metadata={"own": 1})
    assert own is not FLOAT32
    held = sys.getrefcount(own)
    assert calls.offer([array(np.zeros(N, own))], None, cupy_entry((N,), memory=(0,)))
    gc.collect()
    assert sys.getrefcount(own) > held


def test_the_warm_path_hands_contiguous_results_over(cupy):
    from numjit.call import warm_arrays

    def plan(shape, strides):
        return types.SimpleNamespace(shape=shape, strides=strides, outputs=(dtypes.float32,))

    assert warm_arrays.maker(plan((3, 4), contiguous_strides((3, 4)))) == (Array, [((3, 4), FLOAT32)])
    assert warm_arrays.maker(plan((3, 4), (1, 3))) is None
