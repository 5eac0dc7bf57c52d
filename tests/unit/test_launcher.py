"""The compiled launcher on a machine without a GPU: a fake driver, and kernels that are Python functions."""

import contextlib
import gc
import math
import sys
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.overrides import BaseTorchFunctionMode

import numjit
from numjit import dtypes
from numjit.arrays.numbers import convert
from numjit.call.arguments import read_arguments
from numjit.launcher import attach
from numjit.launcher.attach import FastCallable, FastCalls, Launcher, launchable
from numjit.launcher.interface import Api, Packing, PlanWord, Record
from numjit.launcher.offsets import word
from numjit.launcher.records import FunctorRecord, value_codes
from tests.support.fake_gpu import CONTEXT, FakeGpu, entry, floats, load, operand, slot

GENERAL = object()
N = 100


class Subclass(torch.Tensor):
    """One of a user's own."""


class Operation(FastCallable):
    """An operation whose general way only says so."""

    def __init__(self):
        self.error = None

    @launchable
    def __call__(self, *operands, **keywords):
        if self.error:
            raise self.error
        return GENERAL


@pytest.fixture
def gpu(monkeypatch):
    """A launcher on a fake GPU, in the place of the process's own."""
    made = FakeGpu()
    table, offsets = made.table(monkeypatch)
    own = load().table  # of a launcher that this process has already
    launcher = Launcher(load(), table, offsets)
    monkeypatch.setattr(attach._process, "launcher", launcher)
    launcher.take_over(Operation)
    made.launcher, made.words = launcher, table.words
    yield made
    load().use(own or table.address)


def offered_axpy(gpu, plan, example):
    """``alpha * x + y`` of 100 float32, and what has handed over calls like one on two `example`."""
    operation = Operation()
    calls = FastCalls(operation, ["x", "y", "alpha"], 2, [None, None, 1.0])

    def kernel(table):
        out, x, y = (operand(table, k, N) for k in range(3))
        out[:] = x * floats(slot(table, 3), 1)[0] + y

    gpu.kernel = kernel
    assert calls.offer([example, example, 1.0], None, plan) is True
    return operation, calls


def axpy_plan(entry):
    """What such a call does."""
    return entry((N,), memory=(0, 1), values=((2, dtypes.float32),), extents=(N,))


@pytest.fixture
def axpy(gpu):
    """The same on tensors."""
    return offered_axpy(gpu, axpy_plan(entry), torch.zeros(N))


def tensors(count=2):
    return [torch.randn(N) for _ in range(count)]


class TestAnswers:
    def test_values_of_operands_and_scalars_are_new_each_call(self, axpy, gpu):
        operation, calls = axpy
        for alpha in (1.0, 2.5, -3.0):
            x, y = tensors()
            torch.testing.assert_close(operation(x, y, alpha=alpha), alpha * x + y)
        x, y = tensors()
        torch.testing.assert_close(operation(x, y), x + y)  # the default
        assert calls.record.hits == 4
        assert gpu.launches[-1] == (0x2000, (7, 1, 1), (128, 1, 1), 0, 0x7777, 0)

    def test_operands_by_name(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        torch.testing.assert_close(operation(y=y, x=x, alpha=2.0), 2 * x + y)
        torch.testing.assert_close(operation(x, y=y), x + y)

    def test_a_parameter_is_a_tensor(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        held = torch.nn.Parameter(x, requires_grad=False)
        torch.testing.assert_close(operation(held, y), x + y)

    def test_every_call_has_memory_of_its_own(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        results = [operation(x, y, alpha=float(k)) for k in range(20)]
        for k, result in enumerate(results):
            torch.testing.assert_close(result, k * x + y)

    def test_several_outputs_are_a_tuple(self, gpu):
        operation = Operation()
        calls = FastCalls(operation, ["x"], 1, [None])

        def kernel(table):
            plus, minus, x = (operand(table, k, N) for k in range(3))
            plus[:], minus[:] = x + 1, x - 1

        gpu.kernel = kernel
        (x,) = tensors(1)
        assert calls.offer([x], None, entry((N,), memory=(0,), outputs=2))
        plus, minus = operation(x)
        torch.testing.assert_close(plus, x + 1)
        torch.testing.assert_close(minus, x - 1)

    def test_shapes_strides_and_dtypes_of_results_are_the_plan_s(self, gpu):
        operation = Operation()
        calls = FastCalls(operation, ["x"], 1, [None])
        x = torch.zeros(4, 5).t()
        plan = entry((5, 4), memory=(0,), strides=(1, 5), dtype=torch.complex128)
        assert calls.offer([x], None, plan)
        result = operation(x)
        assert (result.shape, result.stride(), result.dtype) == ((5, 4), (1, 5), torch.complex128)

    @pytest.mark.parametrize("rank", range(9))
    def test_operands_of_every_rank(self, gpu, rank):
        """Sizes and strides lie elsewhere for large ranks; addresses are those of views."""
        operation = Operation()
        calls = FastCalls(operation, ["x"], 1, [None])
        whole = torch.randn((5,) + (3,) * rank).flip(0)
        views = [whole[2], whole[2].as_strided((3,) * rank, tuple(range(1, 1 + rank)), 2), whole[4]]
        for view in views[:2]:
            assert calls.offer([view], None, entry((3,) * rank, memory=(0,)))
        seen = []
        gpu.kernel = lambda table: seen.append(word(slot(table, 1)))
        for view in views:
            assert operation(view) is not GENERAL or view is views[2]
        assert seen[:2] == [view.data_ptr() for view in views[:2]]
        wider = torch.randn((3,) * rank, dtype=torch.float64)
        longer = torch.randn((4,) * (rank + 1))
        assert operation(wider) is operation(longer) is GENERAL

    def test_operands_of_every_dtype(self, gpu):
        """A view's address takes the size of its elements."""
        operation = Operation()
        calls = FastCalls(operation, ["x"], 1, [None])
        seen = []
        gpu.kernel = lambda table: seen.append(word(slot(table, 1)))
        views = [torch.zeros(1024, dtype=torch.uint8).view(getattr(torch, d.name))[3:5] for d in dtypes.ALL]
        for view in views:
            assert calls.offer([view], None, entry((2,), memory=(0,), dtype=view.dtype))
        for view in views:
            assert operation(view).dtype == view.dtype
        assert seen == [view.data_ptr() for view in views]

    def test_memory_shared_until_one_is_written_to(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        lazy = torch._lazy_clone(x)
        torch.testing.assert_close(operation(lazy, y), x + y)
        assert torch._C._is_cow_tensor(lazy)  # reading copies nothing

    def test_offsets_are_added_to_addresses(self, gpu):
        operation = Operation()
        calls = FastCalls(operation, ["x"], 1, [None])
        (x,) = tensors(1)
        seen = []
        gpu.kernel = lambda table: seen.append([operand(table, k, 1).ctypes.data for k in range(2)])
        assert calls.offer([x], None, entry((N,), memory=(0,), offsets=(8, 16)))
        result = operation(x)
        assert seen == [[result.data_ptr() + 8, x.data_ptr() + 16]]


class TestGoesTheGeneralWay:
    """Whatever differs from every plan is left to Python, which has seen nothing of it yet."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda x, y: ((x.double(), y), {}),
            lambda x, y: ((x[:50], y[:50]), {}),
            lambda x, y: ((x.reshape(10, 10), y), {}),
            lambda x, y: ((torch.zeros(2 * N)[::2], y), {}),
            lambda x, y: ((torch.zeros(N + 1)[1:], y), {}),
            lambda x, y: ((x.to("meta"), y), {}),
            lambda x, y: ((x._neg_view(), y), {}),
            lambda x, y: ((x, 1.0), {}),
            lambda x, y: ((x, y), {"alpha": 2}),
            lambda x, y: ((x, y), {"alpha": True}),
            lambda x, y: ((x, y), {"alpha": 1j}),
            lambda x, y: ((x, y), {"alpha": np.float64(2)}),
            lambda x, y: ((x, y), {"alpha": torch.tensor(2.0)}),
            lambda x, y: ((x, y), {"alpha": None}),
            lambda x, y: ((x, y), {"beta": 1.0}),
            lambda x, y: ((x, y), {"x": x}),
            lambda x, y: ((x, y, 2.0), {}),
            lambda x, y: ((x,), {}),
            lambda x, y: ((), {}),
            lambda x, y: ((x.numpy(), y), {}),
            lambda x, y: ((x.to_sparse(), y), {}),
            lambda x, y: ((x.as_subclass(_Subclass), y), {}),
            lambda x, y: ((x, y), {"out": torch.empty(N)}),
            lambda x, y: ((x, y), {"shape": (N,)}),
            lambda x, y: ((x.clone().requires_grad_(), y), {}),
            lambda x, y: ((x, torch.nn.Parameter(y)), {}),
        ],
        ids=[
            "dtype", "shape", "rank", "strides", "alignment", "meta", "neg", "number", "int scalar",
            "bool scalar", "complex scalar", "numpy scalar", "0-dim scalar", "None", "unknown name",
            "twice", "too many", "too few", "none", "array", "sparse", "subclass", "out", "other keyword",
            "leaf", "parameter",
        ],
    )  # fmt: skip
    def test_other_arguments(self, axpy, change):
        operation, calls = axpy
        operands, keywords = change(*tensors())
        assert operation(*operands, **keywords) is GENERAL
        assert calls.record.hits == 0

    def test_another_default_dtype(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        torch.set_default_dtype(torch.float64)
        try:
            assert operation(x, y) is GENERAL
        finally:
            torch.set_default_dtype(torch.float32)
        assert operation(x, y) is not GENERAL

    def test_gradients_are_recorded_only_where_they_are_enabled(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        leaf = x.clone().requires_grad_()
        assert operation(leaf, y) is GENERAL
        with torch.no_grad():
            torch.testing.assert_close(operation(leaf, y), x + y)
        assert operation(leaf * 2, y) is GENERAL
        torch.testing.assert_close(operation(leaf.detach(), y), x + y)
        view = x.reshape(10, 10).reshape(N)  # has autograd state, but needs no gradient
        torch.testing.assert_close(operation(view, y), x + y)

    def test_tangents(self, axpy):
        import torch.autograd.forward_ad as forward_ad

        operation, _ = axpy
        x, y = tensors()
        with forward_ad.dual_level():
            assert operation(forward_ad.make_dual(x, y), y) is GENERAL
            with torch.no_grad():
                assert operation(x, forward_ad.make_dual(x, y)) is GENERAL
            assert operation(x, y) is GENERAL  # as Python's warm path: it does not look for tangents
        torch.testing.assert_close(operation(x, y), x + y)

    def test_inference_tensors_are_another_kind(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        with torch.inference_mode():
            assert operation(x, torch.ones(N)) is GENERAL
            torch.testing.assert_close(operation(x, y), x + y)

    def test_a_dispatch_mode(self, axpy):
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils._python_dispatch import TorchDispatchMode

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        operation, _ = axpy
        x, y = tensors()
        with Mode():
            assert operation(x, y) is GENERAL
        with FakeTensorMode() as mode:
            assert operation(mode.from_tensor(x), mode.from_tensor(y)) is GENERAL
        assert operation(x, y) is not GENERAL

    def test_a_function_mode(self, axpy):
        operation, calls = axpy
        x, y = tensors()
        before = calls.record.hits
        with BaseTorchFunctionMode():
            assert operation(x, y) is GENERAL
            with torch._C.DisableTorchFunction():
                assert operation(x, y) is not GENERAL
        assert calls.record.hits == before + 1
        assert operation(x, y) is not GENERAL

    def test_a_tensor_of_another_class(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        assert operation(x.as_subclass(Subclass), y) is GENERAL
        assert operation(x, y, out=torch.empty(N).as_subclass(Subclass)) is GENERAL

    def test_what_is_recorded_before_autograd(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        with torch._C._IncludeDispatchKeyGuard(torch._C.DispatchKey.PreDispatch):
            assert operation(x, y) is GENERAL
        assert operation(x, y) is not GENERAL

    def test_a_profiler_is_to_see_the_call(self, axpy):
        operation, calls = axpy
        x, y = tensors()
        with warnings.catch_warnings(), torch.profiler.profile():
            warnings.simplefilter("ignore")
            assert operation(x, y) is GENERAL
        with torch.autograd.profiler.profile():
            assert operation(x, y) is GENERAL
        torch.testing.assert_close(operation(x, y), x + y)
        assert calls.record.hits == 1

    def test_memory_that_was_given_up(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        kept = x.clone()
        x.untyped_storage().resize_(0)
        assert operation(x, y) is GENERAL
        x.untyped_storage().resize_(4 * N)
        x.copy_(kept)
        torch.testing.assert_close(operation(x, y), kept + y)

    def test_tensors_of_function_transforms(self, axpy):
        operation, _ = axpy
        seen = []

        def inner(x, y):
            seen.append(operation(x, y))
            return x

        x, y = tensors()
        torch.func.vmap(inner)(x.expand(3, N), y.expand(3, N))
        torch.func.grad(lambda x: inner(x, y).sum())(x)
        torch.func.jvp(lambda x: inner(x, y), (x,), (y,))
        assert seen == [GENERAL] * 3

    def test_another_current_device(self, axpy, gpu):
        operation, _ = axpy
        x, y = tensors()
        gpu.context += 1
        assert operation(x, y) is GENERAL

    def test_a_thread_without_a_context(self, axpy, gpu):
        operation, calls = axpy
        x, y = tensors()
        gpu.context = 0
        torch.testing.assert_close(operation(x, y), x + y)
        assert gpu.context == CONTEXT
        (memory,) = calls.record._plans.values()
        memory.words[PlanWord.DEVICE], gpu.context = 1, 0  # the runtime would make device 0's current
        assert operation(x, y) is GENERAL
        assert gpu.context == 0

    def test_a_launch_that_the_driver_refuses(self, axpy, gpu):
        operation, calls = axpy
        x, y = tensors()
        gpu.status = 719
        assert operation(x, y) is GENERAL
        assert calls.record.hits == 0

    def test_an_allocation_that_fails(self, axpy, gpu):
        operation, _ = axpy
        x, y = tensors()

        def fail(*arguments):
            raise MemoryError

        gpu.words[Api.EMPTY] = id(fail)
        assert operation(x, y) is GENERAL

    def test_its_errors_are_the_caller_s(self, axpy):
        operation, _ = axpy
        operation.error = ValueError("explained")
        with pytest.raises(ValueError, match="explained"):
            operation(*tensors(), beta=1)


class _Subclass(torch.Tensor):
    pass


class TestOut:
    @pytest.fixture
    def with_out(self, axpy):
        operation, calls = axpy
        x, y = tensors()
        plan = axpy_plan(entry)
        assert calls.offer([x, y, 1.0], torch.empty(N), plan)
        return operation

    def test_it_is_written_and_returned(self, with_out):
        x, y = tensors()
        out = torch.empty(N)
        assert with_out(x, y, out=out, alpha=2.0) is out
        torch.testing.assert_close(out, 2 * x + y)
        torch.testing.assert_close(with_out(x, y, out=None), x + y)

    def test_an_operand_as_out(self, with_out):
        x, y = tensors()
        want = x + y
        assert with_out(x, y, out=x) is x
        torch.testing.assert_close(x, want)

    def test_memory_shared_with_another_is_copied_first(self, with_out):
        x, y, other = tensors(3)
        kept, out = other.clone(), torch._lazy_clone(other)
        assert torch._C._is_cow_tensor(out)
        assert with_out(x, y, out=out) is out
        torch.testing.assert_close(out, x + y)
        torch.testing.assert_close(other, kept)

    def test_the_write_is_counted(self, with_out):
        x, y = tensors()
        out = torch.empty(N)
        version = out._version
        with_out(x, y, out=out)
        assert out._version == version + 1

    def test_partial_overlap_is_left_to_python(self, with_out):
        memory = torch.zeros(N + 4)
        assert with_out(memory[:N], torch.zeros(N), out=memory[4:]) is GENERAL
        apart = torch.zeros(2 * N)
        assert with_out(apart[:N], torch.zeros(N), out=apart[N:]) is not GENERAL

    def test_what_cannot_be_written_is_left_to_python(self, with_out):
        x, y = tensors()
        for out in (
            torch.empty(N, requires_grad=True),
            np.empty(N, np.float32),
            torch.empty(N).double(),
            (x,),
        ):
            assert with_out(x, y, out=out) is GENERAL


NUMBERS = {
    bool: st.booleans(),
    int: st.integers(-(1 << 63), (1 << 63) - 1),
    float: st.floats(allow_nan=True, allow_infinity=True),
    complex: st.complex_numbers(allow_nan=False, allow_infinity=True),
}
KINDS = [dtypes.bool_, dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.uint64, dtypes.float16,
         dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128]  # fmt: skip


class TestNumbers:
    @pytest.mark.parametrize("dtype", KINDS, ids=str)
    @pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.__name__)
    def test_numbers_arrive_as_the_general_way_converts_them(self, gpu, kind, dtype):
        operation = Operation()
        calls = FastCalls(operation, ["x", "n"], 1, [None, None])
        x = torch.zeros(N)
        plan = entry((N,), memory=(0,), values=((1, dtype),))
        code = {"f": np.float32 if dtype.compute.real.name == "float32" else np.float64, "b": np.uint8}
        code["c"] = code["f"]
        numpy_kind = code.get(dtype.kind) or np.dtype(dtype.name).type
        seen = []

        def kernel(table):
            count = 2 if dtype.is_complex else 1
            seen.extend(
                np.frombuffer(bytes(floats(slot(table, 2 + k), 2).tobytes()), numpy_kind)[0]
                for k in range(count)
            )

        gpu.kernel = kernel
        if value_codes(kind(1), dtype) is None:
            assert kind in (float, complex)
            assert dtype.kind in "uib"
            assert calls.offer([x, kind(1)], None, plan) is False
            return
        assert calls.offer([x, kind(1)], None, plan)

        @given(NUMBERS[kind])
        def check(number):
            seen.clear()
            assert operation(x, n=number) is not GENERAL
            with np.errstate(over="ignore"):
                want = [numpy_kind(part) for part in convert(number, dtype)]
            np.testing.assert_array_equal(seen, want)

        check()

    def test_an_int_beyond_64_bits_is_left_to_python(self, gpu):
        operation = Operation()
        calls = FastCalls(operation, ["x", "n"], 1, [None, None])
        x = torch.zeros(N)
        assert calls.offer([x, 1], None, entry((N,), memory=(0,), values=((1, dtypes.int64),)))
        assert operation(x, n=(1 << 63) - 1) is not GENERAL
        assert operation(x, n=1 << 63) is GENERAL
        assert operation(x, n=-(1 << 63) - 1) is GENERAL

    def test_codes_cover_what_they_name(self):
        used = set()
        for kind in NUMBERS:
            for dtype in KINDS:
                used.update(value_codes(kind(1), dtype) or ())
        assert used == set(Packing)


class TestCaptures:
    def calls(self, functor):
        """An operation of a Python functor, with the plan of one operand."""
        operation = Operation()
        calls = FastCalls(operation, ["x"], 1, [None], functor.capture_places)
        assert calls.offer([torch.zeros(N)], None, entry((N,), memory=(0,)))
        assert operation(torch.zeros(N)) is not GENERAL
        return operation

    def test_a_rebound_global(self, gpu):
        scope = {"math": math, "factor": 2.0}
        exec("def f(x): return x * factor + math.pi", scope)
        operation = self.calls(numjit.elementwise(scope["f"]).functor)
        scope["other"] = 1
        assert operation(torch.zeros(N)) is not GENERAL
        scope["factor"] = 3.0
        assert operation(torch.zeros(N)) is GENERAL

    def test_a_rebound_closure(self, gpu):
        factor = 2.0

        def f(x):
            return x * factor

        operation = self.calls(numjit.elementwise(f).functor)
        factor = 3.0
        assert operation(torch.zeros(N)) is GENERAL

    def test_a_module_s_name(self, gpu):
        import types

        module = types.ModuleType("settings")
        module.scale = 2.0
        scope = {"settings": module}
        exec("def f(x): return x * settings.scale", scope)
        operation = self.calls(numjit.elementwise(scope["f"]).functor)
        module.scale = 4.0
        assert operation(torch.zeros(N)) is GENERAL

    def test_a_helper_s_defaults_and_code(self, gpu):
        def helper(x, by=2.0):
            return x * by

        def other(x, by=2.0):
            return x + by

        functor = numjit.elementwise(lambda x: helper(x)).functor
        operation = self.calls(functor)
        helper.__defaults__ = (3.0,)
        assert operation(torch.zeros(N)) is GENERAL
        operation = self.calls(functor)
        helper.__code__ = other.__code__
        assert operation(torch.zeros(N)) is GENERAL

    def test_forgotten_plans(self, axpy):
        operation, calls = axpy
        calls.forget()
        assert operation(*tensors()) is GENERAL


class TestTable:
    def test_many_shapes_are_all_found(self, gpu):
        operation = Operation()
        calls = FastCalls(operation, ["x"], 1, [None])
        for n in range(1, 301):
            assert calls.offer([torch.zeros(n)], None, entry((n,), memory=(0,)))
        assert len(calls.record) == 300
        for n in range(1, 301):
            assert operation(torch.zeros(n)).shape == (n,)
        assert operation(torch.zeros(301)) is GENERAL

    def test_it_is_bounded(self, gpu, monkeypatch):
        monkeypatch.setattr(FunctorRecord, "LIMIT", 50)
        operation = Operation()
        calls = FastCalls(operation, ["x"], 1, [None])
        for n in range(1, 200):
            assert calls.offer([torch.zeros(n)], None, entry((n,), memory=(0,)))
            assert len(calls.record) <= 50
            assert operation(torch.zeros(n)).shape == (n,)

    def test_the_plan_found_last_is_looked_at_first(self, gpu):
        operation = Operation()
        calls = FastCalls(operation, ["x"], 1, [None])
        for shape in ((3,), (5,), (5, 1)):
            assert calls.offer([torch.zeros(shape)], None, entry(shape, memory=(0,)))
        record = calls.record
        recent = []
        for shape in ((3,), (3,), (5,), (5, 1), (3,)):
            assert operation(torch.zeros(shape)).shape == shape
            recent.append(int(record.array[Record.RECENT]))
        assert recent[0] == recent[1] == recent[4] != 0
        assert len(set(recent)) == 3
        empty = np.zeros(2 * (int(record.array[Record.MASK]) + 1), np.int64)
        record.array[Record.TABLE] = empty.ctypes.data
        assert operation(torch.zeros(3)).shape == (3,)
        assert operation(torch.zeros(5)) is GENERAL
        calls.forget()
        assert record.array[Record.RECENT] == 0
        assert operation(torch.zeros(3)) is GENERAL

    def test_forgotten_plans_are_kept_until_no_call_can_find_them(self, axpy, monkeypatch):
        _, calls = axpy
        (plan,) = calls.record._plans.values()
        held, renew, seen = sys.getrefcount(plan), calls.record._renew_table, []
        monkeypatch.setattr(
            calls.record, "_renew_table", lambda: (seen.append(sys.getrefcount(plan)), renew())
        )
        calls.forget()
        assert seen == [held]
        assert sys.getrefcount(plan) == held - 1

    def test_the_same_call_is_kept_once(self, axpy):
        _, calls = axpy
        plan = axpy_plan(entry)
        for _ in range(5):
            assert calls.offer([*tensors(), 1.0], None, plan)
        assert len(calls.record) == 1


class TestReferences:
    def test_calls_leave_no_reference(self, axpy, gpu):
        operation, calls = axpy
        x, y = tensors()
        out = torch.empty(N)
        plan = axpy_plan(entry)
        assert calls.offer([x, y, 1.0], out, plan)
        owner = next(iter(calls.record._plans.values()))
        alpha = 2.5

        def counts():
            gc.collect()
            return [sys.getrefcount(o) for o in (x, y, out, alpha, owner, calls.record.array)]

        before = counts()
        for _ in range(300):
            operation(x, y, alpha=alpha)
            operation(x, y, alpha=alpha, out=out)
            operation(x, y, alpha=2)
        gpu.status = 1
        for _ in range(300):
            operation(x, y, alpha=alpha)
            operation(x, y, alpha=alpha, out=out)
        assert counts() == before

    def test_a_result_belongs_to_the_caller(self, axpy):
        operation, _ = axpy
        assert sys.getrefcount(operation(*tensors())) == sys.getrefcount(torch.add(*tensors()))


def test_threads_share_an_operation(axpy):
    operation, _ = axpy
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(300):
            x, y = (torch.randn(N, generator=generator) for _ in range(2))
            alpha = float(torch.rand((), generator=generator))
            result = operation(x, y, alpha=alpha)
            if result is GENERAL or not torch.allclose(result, alpha * x + y):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_subclass_with_a_call_of_its_own_keeps_it(gpu):
    class Logged(Operation):
        def __call__(self, *operands, **keywords):
            return ("logged", super().__call__(*operands, **keywords))

    class Plain(Operation):
        pass

    logged, plain = Logged(), Plain()
    for operation in (logged, plain):
        calls = FastCalls(operation, ["x"], 1, [None])
        assert calls.offer([torch.zeros(N)], None, entry((N,), memory=(0,)))
    assert logged(torch.zeros(N)) == ("logged", GENERAL)
    assert isinstance(plain(torch.zeros(N)), torch.Tensor)


# ------------------------------------------------------------------- the key against the full plan's


@st.composite
def operands(draw):
    """A tensor: dtype, shape, strides, alignment, conj and neg bits vary."""
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.int32, torch.complex64, torch.bool]))
    shape = draw(st.sampled_from([(6,), (2, 3), (3, 2), (1, 6), (6, 1), (1,)]))
    memory = torch.zeros(64, dtype=dtype)
    tensor = memory[draw(st.integers(0, 3)) :].as_strided(
        shape, draw(st.sampled_from([(1,) * len(shape), (3, 1)[-len(shape) :], (8, 2)[-len(shape) :]]))
    )
    if dtype is torch.complex64 and draw(st.booleans()):
        tensor = tensor.conj()
        if draw(st.booleans()):
            tensor = tensor.imag
    elif dtype is not torch.bool and draw(st.booleans()):
        tensor = tensor._neg_view()
    return tensor


arguments = st.tuples(operands(), st.one_of(operands(), st.integers(-3, 3), st.floats(-1, 1), st.booleans()))


@pytest.fixture(scope="module")
def describing():
    """A record that describes calls of two operands, and the full plan's key of the same call."""
    functor = numjit.elementwise(lambda x, y: x + y)
    planner = functor.__numjit_operation__.planner
    patch = pytest.MonkeyPatch()
    gpu = FakeGpu()
    table, offsets = gpu.table(patch)
    own = load().table
    launcher = Launcher(load(), table, offsets)
    record = FunctorRecord(launcher.describe, launcher.hash, ["x", "y"], 2, [None, None], detached=False)
    keys = {}

    class Stop(Exception):
        pass

    class Spy(dict):
        def get(self, key, default=None):
            keys["full"] = key
            raise Stop

    planner.plans = Spy()

    def both(bound):
        with contextlib.suppress(Stop):
            planner.plan(read_arguments("f", ["x", "y"], 2, bound), None)
        return record.describe(bound), keys["full"]

    yield both
    patch.undo()
    load().use(own or table.address)
    assert gpu.launches == []


def test_the_launcher_s_key_is_strictly_finer_than_the_plan_s(describing):
    """Two calls that the launcher takes for one have one plan; not the other way round."""
    seen = {}

    @given(arguments, arguments)
    def check(first, second):
        for bound in (first, second):
            fast, full = describing(list(bound))
            assert fast is not None
            _, words = fast
            assert seen.setdefault(words, full) == full
        (hash_a, words_a), full_a = describing(list(first))
        (hash_b, words_b), full_b = describing(list(second))
        if words_a == words_b:
            assert hash_a == hash_b
            assert full_a == full_b

    check()
    # one plan, several keys: a tensor made in inference mode has other dispatch keys
    plain = torch.zeros(6)
    with torch.inference_mode():
        inference = torch.zeros(6)
    (fast_a, full_a), (fast_b, full_b) = describing([plain, 1]), describing([inference, 1])
    assert full_a == full_b
    assert fast_a != fast_b
