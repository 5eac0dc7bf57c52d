"""The compiled launcher where memory could be used after it was freed, or a plan after its time."""

import functools
import inspect
import subprocess
import sys
import textwrap
import threading
import types

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import numjit
from numjit import dtypes
from numjit.elementwise import Elementwise
from numjit.errors import ArgumentError
from numjit.ground import apart
from numjit.jiterator import _JittedFunction
from numjit.launcher import attach
from numjit.launcher.attach import FastCalls
from numjit.launcher.interface import MAX_WORDS
from numjit.launcher.records import FunctorRecord
from numjit.tools.prepared import Prepared
from tests.support import odd_operands
from tests.support.fake_gpu import entry, slot, word
from tests.unit.test_launcher import GENERAL, N, Operation, Subclass, axpy, gpu, tensors  # noqa: F401

# ruff: noqa: F811


def one_operand(functor=None, **options):
    """An operation of one float32 operand that the launcher answers, and what hands its calls over."""
    operation = Operation()
    captures = None if functor is None else functor.capture_places
    calls = FastCalls(operation, ["x"], 1, [None], captures, **options)
    return operation, calls


def real_operation(function):
    """An operation as users have it; its class is its own, so that the fake GPU answers for no other."""

    class Own(Elementwise):
        pass

    return Own(numjit.elementwise(function).functor, {"autotune": False, "opaque": False})


class TestRealOperations:
    def test_their_calls_are_answered(self, gpu):
        operation = real_operation(lambda x, y: x + y)
        x, y = tensors()
        plan = entry((N,), memory=(0, 1))
        plan.fingerprint = operation.__numjit_operation__.fingerprint
        calls = operation._fast
        assert calls.offer([x, y], None, plan)
        operation(x, y)
        assert calls.record.hits == len(gpu.launches) == 1

    def test_they_still_record_gradients(self, gpu):
        operation = real_operation(lambda x: x * x)
        (x,) = tensors(1)
        plan = entry((N,), memory=(0,))
        plan.fingerprint = operation.__numjit_operation__.fingerprint
        assert operation._fast.offer([x], None, plan)
        leaf = x.clone().requires_grad_()
        operation(leaf).sum().backward()
        torch.testing.assert_close(leaf.grad, 2 * x)
        assert gpu.launches == []

    @pytest.mark.parametrize("kind", [Elementwise, Prepared, _JittedFunction], ids=lambda kind: kind.__name__)
    def test_their_classes_leave_the_launcher_s_slot_alone(self, kind):
        slot = attach.FastCallable.__dict__["_launcher_record"]
        assert inspect.getattr_static(kind, "_launcher_record") is slot


class TestMemory:
    def test_plans_forgotten_during_their_launch(self, gpu):
        """What the answer is made of is not read from a plan that is gone by then."""
        operation, calls = one_operand()
        plan = entry((N,), memory=(0,), outputs=2)
        (x,) = tensors(1)
        assert calls.offer([x], None, plan)
        (memory,) = calls.record._plans.values()
        words = memory.words

        class Overwrites:
            def __del__(self):
                words[:] = 7  # as whoever gets the memory next would

        memory.objects.append(Overwrites())
        del memory
        gpu.kernel = lambda table: calls.forget()
        results = operation(x)
        assert int(words[0]) == 7
        assert isinstance(results, tuple)
        assert [result.shape for result in results] == [(N,)] * 2

    def test_descriptions_that_do_not_fit_the_scratch(self, gpu):
        """Numbers after many dimensions must not be written past the end."""
        names = [f"p{k}" for k in range(64)]
        record = FunctorRecord(
            gpu.launcher.describe, gpu.launcher.hash, names, 25, [None] * 64, detached=False
        )
        deep = [torch.zeros([1] * 8) for _ in range(24)]
        assert record.describe([*deep, torch.zeros([1] * 11), *[1.0] * 39]) is None
        fits = record.describe([*deep[:20], *[1.0] * 44])
        assert fits is not None
        assert len(fits[1]) < MAX_WORDS

    def test_more_outputs_than_fit_the_scratch(self, gpu):
        operation, calls = one_operand()
        (x,) = tensors(1)
        assert calls.offer([x], None, entry((N,), memory=(0,), outputs=65)) is False
        assert operation(x) is GENERAL
        assert calls.offer([x], None, entry((N,), memory=(0,), outputs=64))
        assert len(operation(x)) == 64

    def test_operations_are_collected(self, gpu):
        import gc
        import weakref

        scope = {"factor": 2.0}
        exec("def f(x): return x * factor", scope)
        operation, calls = one_operand(numjit.elementwise(scope["f"]).functor)
        assert calls.offer([torch.zeros(N)], None, entry((N,), memory=(0,)))
        scope["operation"] = operation  # as a module's own operation
        dead = weakref.ref(calls.record)
        del operation, calls, scope
        gc.collect()
        assert dead() is None

    def test_a_call_after_modules_are_torn_down(self):
        """At exit, objects of __main__ outlive numjit's modules; their calls must find code and table."""
        code = """
            import gc, sys
            import pytest, torch
            from tests.support.fake_gpu import FakeGpu, entry, load
            from numjit.launcher import attach

            class Operation(attach.FastCallable):
                @attach.launchable
                def __call__(self, *operands):
                    return "general"

            gpu = FakeGpu()
            table, offsets = gpu.table(pytest.MonkeyPatch())
            launcher = attach.Launcher(load(), table, offsets)
            launcher.take_over(Operation)
            gone = []
            operation = Operation()
            import weakref
            weakref.finalize(launcher, gone.append, 1).atexit = False
            weakref.finalize(table.words, gone.append, 2).atexit = False
            del table, launcher
            gc.collect()
            load.cache_clear()
            gc.collect()
            print(gone, operation(torch.zeros(3)))
        """
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
        )
        assert (ran.returncode, ran.stdout.strip()) == (0, "[] general"), ran.stderr


class TestStalePlans:
    def test_arrays_of_others_than_torch_are_not_taken(self, gpu):
        _, calls = one_operand()
        plan = entry((N,), memory=(0,))
        plan.library = "cupy"
        assert calls.offer([torch.zeros(N)], None, plan) is False
        assert calls.record is None

    def test_ints_beyond_64_bits_make_no_plan_for_ints(self, gpu):
        """They are uint64 to the functor, other ints int64."""
        operation = Operation()
        calls = FastCalls(operation, ["x", "n"], 1, [None, None])
        plan = entry((N,), memory=(0,), values=((1, dtypes.uint64),))
        (x,) = tensors(1)
        assert calls.offer([x, 1 << 63], None, plan) is False
        assert operation(x, n=-1) is GENERAL

    def test_a_captured_value_whose_address_is_used_again(self, gpu):
        """Prepared calls keep their plans while the functor goes on to other values."""
        held = [2.5e10]

        def make():
            factor = held.pop()

            def f(x):
                return x * factor

            return f, f.__closure__[0]

        f, cell = make()
        functor = numjit.elementwise(f).functor
        _, calls = one_operand(functor)
        assert calls.offer([torch.zeros(N)], None, entry((N,), memory=(0,)))
        before = sys.getrefcount(cell.cell_contents)
        value = cell.cell_contents
        functor._captured = ()  # the functor has seen other values since
        count = sys.getrefcount(value)
        calls.forget()
        calls.record.watch([], [])
        assert sys.getrefcount(value) == count - 1
        assert before > 1

    @pytest.mark.parametrize("kind", ["getattr", "property"])
    def test_a_module_that_computes_its_attributes(self, gpu, kind):
        now = [2.0]
        if kind == "getattr":
            module = types.ModuleType("settings")
            module.__getattr__ = lambda name: now[0]
        else:

            class Settings(types.ModuleType):
                scale = property(lambda self: now[0])

            module = Settings("settings")
        scope = {"settings": module}
        exec("def f(x): return x * settings.scale", scope)
        operation, calls = one_operand(numjit.elementwise(scope["f"]).functor)
        answer = calls.offer([torch.zeros(N)], None, entry((N,), memory=(0,)))
        now[0] = 3.0
        assert operation(torch.zeros(N)) is GENERAL
        assert answer is False

    def test_a_name_rebound_while_the_call_was_planned(self, gpu):
        scope = {"factor": 2.0}
        exec("def f(x): return x * factor", scope)
        functor = numjit.elementwise(scope["f"]).functor
        operation, calls = one_operand(functor, meaning=functor.fingerprint)
        plan = entry((N,), memory=(0,))
        plan.fingerprint = functor.fingerprint()
        scope["factor"] = 3.0
        assert not calls.offer([torch.zeros(N)], None, plan)
        assert operation(torch.zeros(N)) is GENERAL
        plan.fingerprint = functor.fingerprint()
        assert calls.offer([torch.zeros(N)], None, plan)
        assert operation(torch.zeros(N)) is not GENERAL

    def test_plans_that_were_forgotten_are_made_anew(self, gpu, monkeypatch):
        """A captured name that is rebound and bound back leaves the launcher as it was."""
        _, calls = one_operand()
        plan = entry((N,), memory=(0,))
        assert calls.offer([torch.zeros(N)], None, plan)
        calls.forget()
        assert len(calls.record) == 0
        assert calls.offer([torch.zeros(N)], None, plan)
        assert len(calls.record) == 1


class TestNames:
    @pytest.mark.parametrize("name", ["out", "shape", "like", "dtype", "device"])
    def test_operands_called_as_a_keyword_of_every_call(self, gpu, name):
        """They can only be given by position: by name, Python's way takes them for its keyword."""

        scope = {}
        exec(f"def f(x, {name}): return x + {name}", scope)
        operation = real_operation(scope["f"])
        x, y = tensors()
        for out in (None, torch.empty(N)):
            plan = entry((N,), memory=(0, 1))
            plan.fingerprint = operation.__numjit_operation__.fingerprint
            assert operation._fast.offer([x, y], out, plan)
        launches = len(gpu.launches)
        operation(x, y)
        out = torch.empty(N)
        assert operation(x, y, out=out) is out
        assert len(gpu.launches) == launches + 2
        with pytest.raises(ArgumentError):
            operation(x, **{name: y})

    def test_operands_without_a_name(self, gpu):
        operation = Operation()
        calls = FastCalls(operation, [None, "n"], 1, [None, 1.0])
        (x,) = tensors(1)
        assert calls.offer([x, 1.0], None, entry((N,), memory=(0,), values=((1, dtypes.float32),)))
        assert operation(x, n=2.0) is not GENERAL
        assert operation(x=x) is GENERAL
        assert operation(**{"": x}) is GENERAL

    def test_keywords_that_are_equal_but_other_objects(self, axpy):
        operation, _ = axpy
        x, y = tensors()
        assert operation(x, y, **{"".join(["al", "pha"]): 2.0}) is GENERAL
        torch.testing.assert_close(functools.partial(operation, x, alpha=2.0)(y), 2 * x + y)
        (result,) = map(operation, [x], [y])
        torch.testing.assert_close(result, x + y)


class TestAttaching:
    def test_a_wrapped_call_keeps_its_wrapper(self, gpu):
        class Logged(Operation):
            @functools.wraps(Operation.__call__)
            def __call__(self, *operands, **keywords):
                return "logged"

        logged = Logged()
        calls = FastCalls(logged, ["x"], 1, [None])
        assert calls.offer([torch.zeros(N)], None, entry((N,), memory=(0,)))
        assert logged(torch.zeros(N)) == "logged"

    def test_a_thread_that_cannot_be_started(self, monkeypatch):
        def refuse(function, arguments):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(attach, "_process", attach._Process())
        monkeypatch.setattr(apart, "_start_thread", refuse)
        assert attach.request() is None
        assert attach.wait(1) is False

    def test_nothing_is_offered_at_the_interpreters_end(self, gpu, monkeypatch):
        """Whatever is imported then is an error, which a finaliser would print."""
        monkeypatch.setattr(sys, "is_finalizing", lambda: True)
        operation = Operation()
        calls = FastCalls(operation, ["x"], 1, [None])
        assert calls.offer([torch.zeros(N)], None, entry((N,), memory=(0,))) is None
        assert calls.record is None

    def test_threads_that_offer_at_once_make_one_record(self, gpu, monkeypatch):
        import numjit.launcher.records as records

        made = []
        both = threading.Barrier(2)

        class Slow(FunctorRecord):
            def __init__(self, *arguments, **options):
                made.append(self)
                with_other = threading.Event()
                with_other.wait(0.2)
                super().__init__(*arguments, **options)

        monkeypatch.setattr(records, "FunctorRecord", Slow)
        _, calls = one_operand()

        def offer(n):
            both.wait()
            calls.offer([torch.zeros(n)], None, entry((n,), memory=(0,)))

        threads = [threading.Thread(target=offer, args=(n,)) for n in (3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1
        assert len(calls.record) == 2

    def test_a_fork_waits_for_the_building_thread(self):
        """The child has no such thread, but would have the locks that it held."""
        code = """
            import os, threading, time
            from numjit.launcher import attach

            lock = threading.Lock()

            def build():
                with lock:
                    time.sleep(0.5)

            attach.build = build
            attach.request()
            time.sleep(0.1)
            child = os.fork()
            if child == 0:
                os._exit(0 if lock.acquire(timeout=2) else 1)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
        )
        assert ran.stdout.strip() == "0", ran.stderr


class TestOddOperands:
    #: What is a plain tensor of the same layout to a kernel.
    PLAIN = frozenset({"parameter without grad", "lazy clone"})

    @pytest.mark.parametrize("name", [*odd_operands.TENSORS, *odd_operands.NUMBERS])
    @pytest.mark.parametrize("detached", [False, True])
    def test_they_go_the_general_way_after_plain_ones(self, gpu, name, detached):
        """Of numbers, those of the same type are plain; detached calls do not ask for gradients."""
        operation, calls = one_operand(detached=detached)
        if name in odd_operands.TENSORS:
            plain, odd = odd_operands.ramp("cpu"), odd_operands.TENSORS[name]("cpu")
            plan = entry((odd_operands.N,), memory=(0,))
        else:
            plain, odd = 1.5, odd_operands.NUMBERS[name]
            plan = entry((odd_operands.N,), memory=(), values=((0, dtypes.float32),))
        assert calls.offer([plain], None, plan)
        assert operation(plain) is not GENERAL
        taken = self.PLAIN | ({"requires grad", "parameter"} if detached else set()) | {"nan"}
        assert (operation(odd) is not GENERAL) == (name in taken)

    @pytest.mark.parametrize("name", list(odd_operands.TENSORS))
    def test_given_as_out_they_go_the_general_way(self, gpu, name):
        operation, calls = one_operand()
        plain, odd = odd_operands.ramp("cpu"), odd_operands.TENSORS[name]("cpu")
        assert calls.offer([plain], torch.zeros(odd_operands.N), entry((odd_operands.N,), memory=(0,)))
        assert (operation(plain, out=odd) is not GENERAL) == (name == "lazy clone")


def _free_and_refill(x):
    size = x.untyped_storage().nbytes()
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(size)


def _free_of_grad(change):
    return lambda x: None if x.requires_grad else change(x)


#: What can be done to a tensor in place, so that its object stays while what it is changes.
CHANGES = {
    "its data is another's": lambda x: setattr(x, "data", torch.ones(2, 3)),
    "its data is of another dtype": lambda x: setattr(x, "data", torch.ones(6, dtype=torch.float64)),
    "its data is a view": lambda x: setattr(x, "data", torch.ones(9)[1:7]),
    "set_ to another's": _free_of_grad(lambda x: x.set_(torch.ones(2, 3, dtype=x.dtype))),
    "set_ to a part": _free_of_grad(
        lambda x: x.set_(torch.ones(9, dtype=x.dtype).untyped_storage(), 2, (3, 2), (2, 1))
    ),
    "resize_": _free_of_grad(lambda x: x.resize_(5)),
    "transpose_": _free_of_grad(lambda x: x.unsqueeze_(0).transpose_(0, -1)),
    "swapped": lambda x: torch.utils.swap_tensors(x, torch.ones(4)),
    "requires grad": lambda x: x.requires_grad_() if x.dtype.is_floating_point and x.is_leaf else None,
    "no grad": lambda x: x.requires_grad_(False) if x.is_leaf else None,
    "a class of its own": lambda x: setattr(x, "__class__", Subclass),
    "torch's class": lambda x: setattr(x, "__class__", torch.Tensor),
    "a parameter": lambda x: setattr(x, "__class__", torch.nn.Parameter),
    "memory given up": lambda x: x.untyped_storage().resize_(0),
    "memory given up and taken": _free_and_refill,
    "shared with other processes": lambda x: x.untyped_storage().share_memory_(),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=8))
def test_tensors_that_become_others_between_calls(gpu, changes):
    """Of whatever a tensor has become, the launcher answers as its plan says, or not at all."""
    operation, calls = one_operand()
    addresses = []
    gpu.kernel = lambda table: addresses.append(word(slot(table, 1)))
    x = torch.ones(6)
    for change in ("no grad", *changes):
        CHANGES[change](x)
        plain = type(x) in (torch.Tensor, torch.nn.Parameter) and not x.requires_grad
        plain = plain and x.untyped_storage().data_ptr() != 0
        # None of torch's tensors in the asserts: printing one without memory is a segmentation fault.
        address, layout = x.data_ptr(), (x.shape, x.stride(), x.dtype)
        result = operation(x)
        if result is not GENERAL:
            assert (plain, addresses[-1]) == (True, address)
            assert (result.shape, result.stride(), result.dtype) == layout
        taken = calls.offer([x], None, entry(layout[0], memory=(0,), strides=layout[1], dtype=layout[2]))
        assert taken == plain
        answered = operation(x) is not GENERAL
        assert answered == plain
