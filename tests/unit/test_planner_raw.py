"""Launches of functors with raw operands and an index: kernel parameters in the shell's order."""

import pytest
import torch

import numjit
from numjit.arrays.adapters import view
from numjit.arrays.view import cuda
from numjit.call import build, planner, warm_arrays


class Recorder:
    """Stands in for a launcher: keeps what it is made of and called with."""

    def __init__(self, _kernel, _device, parameters, _block, _shared):
        self.parameters = list(parameters)

    def __call__(self, _stream, _grid, values):
        self.values = list(values)


@pytest.fixture
def gpu_call(monkeypatch):
    """Plan and execute calls of CPU tensors as if on a GPU; gives shell, parameters and values."""
    from numjit.runtime import devices

    monkeypatch.setattr(planner, "BoundKernel", Recorder)
    monkeypatch.setattr(devices, "max_parameter_bytes", lambda _: 4096)
    monkeypatch.setattr(devices, "has_fast_memory", lambda _: False)
    monkeypatch.setattr(devices, "limiting_shared_bytes", lambda *_: 0)
    monkeypatch.setattr(build, "build_kernel", lambda *_: None)
    monkeypatch.setattr(warm_arrays, "ordered_stream", lambda *_: 0)

    def run(functor, arguments, out):
        operation = functor.__numjit_operation__
        read, _ = operation.read(operation.plain_request, arguments)
        own = operation.planner
        plan = own.make_plan(read, [None], None, numjit.float32)
        own.plan_gpu(plan, read, [None], cuda(0))
        plan.device = cuda(0)
        memory = [view(out), *(seen for seen in read.views if seen is not None)]
        own.execute(plan, read, memory, [None])
        return plan.shell, plan.kernel.parameters, plan.kernel.values

    return run


def test_pointers_then_index_then_values_then_extents(gpu_call):
    f = numjit.elementwise(
        """template <class T, class U>
        T f(T x, numjit::raw<U> t, T a, ::numjit::index i, const numjit::raw<float>& w) { return x + a; }""",
        a=1j,
    )
    x, t, w = torch.ones(3, 4), torch.ones(12, dtype=torch.int8), torch.ones(1)
    out = torch.empty(3, 4, dtype=torch.complex64)
    shell, parameters, values = gpu_call(f, [x, t, w, 2j], out)
    assert [str(slot) for slot in shell.inputs] == [
        "float32>complex64",
        "raw",
        "raw",
        "value>complex64",
        "index",
    ]
    assert values == [
        out.data_ptr(), x.data_ptr(), 0, t.data_ptr(), 12, w.data_ptr(), 1, 0.0, 2.0, 12,
    ]  # fmt: skip
    assert len(parameters) == len(values)
    assert parameters[:7] == ["Q", "Q", "Q", "q", "q", "q", "q"]


def test_python_functors_too_and_strides_of_the_index_last(gpu_call):
    def functor(x, t: numjit.raw):
        return x + t[numjit.index()]

    x, t, out = torch.ones(4, 3).t(), torch.ones(3, 4), torch.empty(3, 4)
    shell, parameters, values = gpu_call(numjit.elementwise(functor), [x, t], out)
    assert [str(slot) for slot in shell.inputs] == ["float32>float32", "raw", "index"]
    assert values[:5] == [out.data_ptr(), x.data_ptr(), 0, t.data_ptr(), 12]
    assert len(parameters) == len(values)
    # The result follows x: its first dimension is the fastest, in which the index steps by 4.
    assert values[-2:] == [4, 1]
