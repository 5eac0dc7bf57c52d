"""Signals, forks, threads and the interpreter's end: a process that uses numjit stays whole.

Each test is a process of its own that interrupts itself at random moments. ``NUMJIT_STRESS_SECONDS=60`` makes
each take about a minute.
"""

import _thread
import importlib.util
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

import numjit
from numjit.ground import apart
from tests.cases import KINDS, ROOT, both_kinds, environment, run_python
from tests.support.tiers import mostly_slow, pairs

SECONDS = float(os.environ.get("NUMJIT_STRESS_SECONDS", "0.5"))
fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
needs_numba_cuda = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)

START = """
    import faulthandler, os, random, signal, sys, threading, time
    import numpy as np, numjit
    faulthandler.enable()
    faulthandler.dump_traceback_later(200, exit=True)
    kind, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)

    def make(k):
        if kind == "c++":
            return numjit.elementwise(f"template <typename T> T f(T x) {{ return x * T({k}) + T(1); }}")
        return numjit.elementwise(lambda x: x * k + 1)

    class Boom(Exception):
        pass

    def boom(*_):
        raise Boom

    def quiet():
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
"""


def process(code, *arguments, timeout=240, **changes):
    """Run code after `START`; returns its last line."""
    done = run_python(START + code, *arguments, timeout=timeout, NUMJIT_NUM_THREADS="4", **changes)
    return done.stdout.splitlines()[-1]


TERMINAL = """
    os.setsid()  # a process group, as a terminal's job is one
    seen, done = [], []
    signal.signal(signal.SIGINT, lambda *_: seen.append(1))

    def compile_all():
        for k in range(3):
            done.append(make(seed + k)(np.ones(1, np.float32))[0])

    thread = threading.Thread(target=compile_all)
    thread.start()
    while thread.is_alive():
        os.killpg(0, signal.SIGINT)
        thread.join(rng.uniform(0.02, 0.1))
    print("right", len(seen) > 3 and done == ([seed + k + 1 for k in range(3)]))
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups")
@both_kinds
def test_a_terminals_interrupt_is_not_for_a_compiler_that_another_thread_waits_for(kind):
    assert process(TERMINAL, kind, SECONDS, random.randrange(1000, 10**6)) == "right True"


# -------------------------------------------------------------------------------------- in the midst of calls

LARGE = """
    import torch
    # Uneven work, so that the main thread is done long before the others.
    if kind == "c++":
        f = numjit.elementwise(
            "template <typename T> T f(T x) { T s = x; for (T i = 0; i < x; i += 1) s += 1 / s; return s; }"
        )
    else:
        def uneven(x):
            s = x
            n = int(x)
            for i in range(n):
                s = s + 1 / s
            return s
        f = numjit.elementwise(uneven)
    n = 400_000
    x = torch.zeros(n)
    x[-n // 4 :] = 40.0
    wanted, out = f(x), np.empty(n, np.float32)

    def again(*_):
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 2e-3))
        raise Boom

    calls = (lambda: f(x), lambda: f(x.numpy()), lambda: f(x.numpy(), out=out))
    end, interrupts, foreign = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end or not interrupts:
        signal.signal(signal.SIGALRM, again)
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 1e-2))
            while True:
                for call in calls:
                    call()
        except Boom:
            interrupts += 1
        while True:
            try:
                quiet()
                break
            except Boom:
                pass
        # Memory of the size of the results: it is where they were.
        others = [torch.full((n,), 7.0) for _ in range(3)]
        time.sleep(2e-3)
        foreign += sum(int((other != 7).sum()) for other in others)
    assert torch.equal(f(x), wanted)
    print(foreign, interrupts > 0)
"""


@both_kinds
def test_interrupted_large_calls_write_to_no_memory_but_their_own(kind, tmp_path):
    assert process(LARGE, kind, SECONDS, 1, NUMJIT_CACHE_DIR=tmp_path) == "0 True"


FIRST = """
    def warmed(f):
        numjit.warmup(f, ("float32",), targets="9.0", jobs=1)
    def compiled(f):
        import torch
        torch._dynamo.reset()
        torch.compile(f, backend="eager", fullgraph=True)(torch.arange(10.0))
    x = np.arange(10.0)
    way = {"cpu": lambda f: f(x), "9.0": warmed, "compiled": compiled}[sys.argv[4]]
    if sys.argv[4] == "compiled":  # torch's own first import of its compiler does not survive an interrupt
        import torch
        torch.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(2))
    end, k, got = time.monotonic() + seconds, 0, []
    # torch wraps what is no KeyboardInterrupt in an error of its own.
    signal.signal(signal.SIGALRM, boom if sys.argv[4] != "compiled" else signal.default_int_handler)
    while time.monotonic() < end or k < 5:
        k += 1
        f = make(k)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-3, 0.5 if k < 5 else 0.1))
                way(f)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except (Boom, KeyboardInterrupt):
            got.append(k)
    quiet()
    for k in [*got, 1000]:
        assert np.array_equal(make(k)(x), x * k + 1)
    f = make(2000)
    way(f)
    print("whole")
"""


@pytest.mark.parametrize(("way", "kind"), pairs(["cpu", "9.0", "compiled"], KINDS))
def test_interrupted_first_calls_leave_the_process_whole(kind, way, tmp_path):
    if way == "9.0":
        pytest.importorskip("numba_cuda")
    seed = random.Random(f"{kind} {way}").randrange(1000)
    assert process(FIRST, kind, SECONDS, seed, way, NUMJIT_CACHE_DIR=tmp_path) == "whole"


HANDLER = """
    x = np.arange(10.0)
    f, asked = make(3), []
    def call(*_):
        asked.append(np.array_equal(f(x), x * 3 + 1))
    signal.signal(signal.SIGALRM, call)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.2)
    assert np.array_equal(f(x), x * 3 + 1)
    quiet()
    print(len(asked) > 0, all(asked))
"""


@both_kinds
def test_a_signal_handler_calls_the_functor_that_is_being_compiled(kind, tmp_path):
    assert process(HANDLER, kind, 0, 0, NUMJIT_CACHE_DIR=tmp_path) == "True True"


MIDST = """
    from numba.core import event
    x = np.arange(10.0)
    f, said = make(3), []
    class Listener(event.Listener):
        def on_start(self, _):
            try:
                f(x)
            except numjit.NumjitError as error:
                said.append(str(error))
        def on_end(self, _):
            pass
    event.register("numba:compile", Listener())
    event.register("numba:run_pass", Listener())
    assert np.array_equal(f(x), x * 3 + 1)
    assert all("in the midst of compiling" in text and "call it" in text for text in said)
    print(len(said) > 0)
"""


def test_a_functor_called_in_the_midst_of_its_own_compilation_says_so(tmp_path):
    assert process(MIDST, "python", 0, 0, NUMJIT_CACHE_DIR=tmp_path) == "True"


WARMUP = """
    signal.signal(signal.SIGALRM, boom)
    f, told = make(2), []
    def progress(done, total, what):
        told.append(done)
        if len(told) == 2:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
            time.sleep(0.5)
    calls = dict(targets="9.0", dtypes=["float32", "int32", "float64"], layouts=["contiguous", "strided"])
    try:
        numjit.warmup(f, **calls, jobs=2, progress=progress)
        print("too late")
    except Boom:
        print(threading.active_count(), len(told) <= 4, end=" ")
    told = ["the rest"] * 3
    whole = numjit.warmup(f, **calls, progress=progress)
    print(whole.found >= 2, whole.built > 0, numjit.warmup(f, **calls).built)
"""


@needs_numba_cuda
@both_kinds
def test_an_interrupted_warmup_leaves_no_thread_behind_and_the_next_does_the_rest(kind, tmp_path):
    assert process(WARMUP, kind, 0, 0, NUMJIT_CACHE_DIR=tmp_path) == "1 True True True 0"


def test_a_wait_that_is_interrupted_as_the_work_ends_can_be_repeated(interruptible):
    def work():
        _thread.interrupt_main()  # wakes nobody: the handler runs when the wait has its lock
        time.sleep(0.1)
        return 3

    task = apart.Task(work)
    task.start()
    with pytest.raises(KeyboardInterrupt):
        task.wait()
    assert task.wait(5)
    assert task.result() == 3


# ---------------------------------------------------------------------------------------------------- forks

FORKS = """
    x = np.arange(100_000.0)
    stop, wrong = [], []
    def work(k):
        while not stop:
            k += 1
            if not np.array_equal(make(k)(x), x * k + 1):
                wrong.append(k)
    threads = [threading.Thread(target=work, args=(1000 * (k + 1),)) for k in range(2)]
    for thread in threads:
        thread.start()
    shared, end, codes = make(7), time.monotonic() + seconds, []
    while time.monotonic() < end or len(codes) < 4:
        time.sleep(rng.uniform(0, 1.0 if not codes else 0.1))
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(100)
            k, code = len(codes) + 10, 1
            try:
                code = 0 if np.array_equal(make(k)(x), x * k + 1) else 2
                code += 0 if np.array_equal(shared(x), x * 7 + 1) else 4
            finally:
                os._exit(code)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    stop.append(True)
    for thread in threads:
        thread.join()
    print(sorted(set(codes)), wrong)
"""


@fork
def test_a_fork_waits_for_what_runs_apart():
    program = """
        import os, threading, time
        from numjit.ground.apart import apart

        started, done = threading.Event(), []

        def work():
            started.set()
            time.sleep(0.5)
            done.append(1)

        thread = threading.Thread(target=apart, args=(work,))
        thread.start()
        started.wait()
        child = os.fork()
        if child == 0:
            os._exit(len(done))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run_python(program).stdout.split() == ["1"]


@fork
@pytest.mark.parametrize("kind", mostly_slow(KINDS, lambda kind: kind == "python"))
def test_children_forked_while_other_threads_compile_compute(kind, tmp_path):
    assert process(FORKS, kind, SECONDS, 3, NUMJIT_CACHE_DIR=tmp_path) == "[0] []"


LATE = """
    from numjit.cpu import pool
    f, x = make(3), np.arange(300_000.0)
    wanted = f(x)
    (idle,) = pool._unused
    assert pool._acquire(idle, 0)  # as a thread of the pool does that comes late to an ended call
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(30)
        os._exit(0 if np.array_equal(f(x), wanted) else 1)
    pool._release(idle)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), np.array_equal(f(x), wanted))
"""


@fork
def test_a_child_forked_while_a_thread_is_late_to_an_ended_call_computes():
    assert process(LATE, "python", 0, 0) == "0 True"


FORK_IN_HANDLER = """
    f = numjit.elementwise(
        "template <typename T> T f(T x) { T s = x; for (int i = 0; i < 300; ++i) s += T(1) / s; return s; }"
    )
    x = np.arange(1.0, 300_001.0)
    wanted, codes = f(x), []
    def split(*_):
        child = os.fork()
        if child:
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        else:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(100)
            inner.append(True)
    inner = []
    for _ in range(5):
        signal.signal(signal.SIGALRM, split)
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-3, 2e-2))
        code = 1
        try:
            code = 0 if np.array_equal(f(x), wanted) else 2
        except numjit.NumjitError as error:
            code = 0 if "forked" in str(error) else 3
        finally:
            if inner:
                os._exit(code if code else 0 if np.array_equal(f(x), wanted) else 4)
        quiet()
    print(set(codes) <= {0})
"""


@fork
def test_a_child_forked_by_a_signal_handler_amid_a_large_call_does_not_hang(tmp_path):
    assert process(FORK_IN_HANDLER, "c++", 0, 4, NUMJIT_CACHE_DIR=tmp_path) == "True"


LOADER = """
import sys, torch, numjit

def triple(x):
    return x * 3

tripled = numjit.elementwise(triple)
cold = numjit.elementwise("template <typename T> T g(T x) { return x + T(2); }")

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, k):
        return cold(tripled(torch.full((50_000,), float(k)))).numpy()

if __name__ == "__main__":
    tripled(torch.ones(100_000))
    for context in sys.argv[1:]:
        loader = torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context=context)
        assert [float(batch[0, -1]) for batch in loader] == [2, 5, 8, 11]
    print("all")
"""


@fork
def test_data_loaders_workers_of_every_kind_compute(tmp_path):
    file = tmp_path / "loader.py"
    file.write_text(LOADER)
    done = subprocess.run(
        [sys.executable, str(file), "fork", "spawn", *(["forkserver"] if SECONDS > 1 else [])],
        capture_output=True, text=True, timeout=240, check=False, cwd=ROOT,
        env=environment(NUMJIT_CACHE_DIR=tmp_path / "cache", NUMJIT_NUM_THREADS="2"),
    )  # fmt: skip
    assert done.stdout.split() == ["all"], done.stderr


# -------------------------------------------------------------------------------------------------- threads

SIZES = """
    f = numjit.elementwise(lambda x: x + 1)
    f(np.ones(3))
    gate, wrong = threading.Barrier(16), []
    def work(k):
        x = np.full(40_000 * (k + 1), float(k))
        gate.wait()
        for _ in range(3):
            if not (f(x) == k + 1).all():
                wrong.append(k)
    os.environ["NUMJIT_NUM_THREADS"] = "16"
    threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(wrong)
"""


def test_sixteen_threads_make_their_first_large_calls_of_different_sizes():
    for seed in range(2):
        assert process(SIZES, "python", 0, seed) == "[]"


TWO_WAYS = """
    x = np.arange(10.0, dtype=np.float32)
    f = make(3)
    f(x)  # from disk: llvmlite alone
    if len(sys.argv) > 4:
        gate = threading.Barrier(2)
        def first():
            gate.wait()
            assert np.array_equal(make(4)(x), x * 4 + 1)
            done.append(True)
        done = []
        thread = threading.Thread(target=first)
        thread.start()
        gate.wait()
        numjit.warmup(f, ("float32",), targets="9.0")
        thread.join()
        print(done)
    else:
        print()
"""


@needs_numba_cuda
def test_numba_is_imported_by_two_threads_in_two_orders(tmp_path):
    process(TWO_WAYS, "python", 0, 0, NUMJIT_CACHE_DIR=tmp_path)
    assert process(TWO_WAYS, "python", 0, 0, "now", NUMJIT_CACHE_DIR=tmp_path) == "[True]"


ASYNC = """
    import asyncio
    x = np.arange(100_000.0)
    async def one(k):
        f = make(k)
        return np.array_equal(await asyncio.to_thread(f, x), x * k + 1) and np.array_equal(f(x), x * k + 1)
    async def main():
        return await asyncio.gather(*[one(k) for k in range(5)])
    print(all(asyncio.run(main())))
"""


@both_kinds
def test_coroutines_make_first_calls_in_threads(kind, tmp_path):
    assert process(ASYNC, kind, 0, 0, NUMJIT_CACHE_DIR=tmp_path) == "True"


# ------------------------------------------------------------------------------------------ the end

END = """
    import atexit, concurrent.futures
    x = np.arange(1_000_000.0)
    warm, cold = make(3), make(4)
    if len(sys.argv) > 4:
        warm(x)
    def go(where, *functors):
        for k, f in functors:
            try:
                print(where, k, np.array_equal(f(x), x * k + 1), flush=True)
            except numjit.NumjitError as error:
                print(where, k, "interpreter ends" in str(error), flush=True)
    class Late:
        go, functors = staticmethod(go), [(3, warm), (4, cold)]
        def __del__(self):
            self.go("__del__", *self.functors)
    atexit.register(go, "atexit", (3, warm))
    late = Late()
    def outlive():
        time.sleep(0.5)
        go("thread", (3, warm))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
    threading.Thread(target=outlive).start()
"""


@both_kinds
@pytest.mark.parametrize("before", [[], ["warm"]])
def test_calls_at_the_interpreters_end_answer(kind, before, tmp_path):
    done = run_python(START + END, kind, 0, 0, *before, NUMJIT_CACHE_DIR=tmp_path, NUMJIT_NUM_THREADS="4")
    lines = done.stdout.splitlines()
    assert lines == ["thread 3 True", "atexit 3 True", "__del__ 3 True", "__del__ 4 True"]
    assert "Error" not in done.stderr


def test_without_threads_a_call_computes_all_by_itself(monkeypatch):
    from numjit.cpu import pool

    def refuse(function, arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool, "_start_thread", refuse)
    monkeypatch.setattr(pool, "_threads", [])
    monkeypatch.setattr(apart, "_start_thread", refuse)
    monkeypatch.setenv("NUMJIT_NUM_THREADS", "4")
    x = torch.arange(300_000.0)
    assert torch.equal(numjit.elementwise(lambda x: x * 5 - 2)(x), x * 5 - 2)


def test_an_error_of_a_part_is_the_calls(monkeypatch):
    from numjit.cpu import pool

    monkeypatch.setenv("NUMJIT_NUM_THREADS", "4")
    seen, lock = [], threading.Lock()

    def run(start, stop):
        with lock:
            seen.append((start, stop))
        if start:
            raise MemoryError

    with pytest.raises(MemoryError):
        pool.parallel_for(run, 1_000_000)
    seen.clear()
    pool.parallel_for(lambda start, stop: seen.append((start, stop)), 1_000_000)
    covered = np.zeros(1_000_000, int)
    for start, stop in seen:
        covered[start:stop] += 1
    assert (covered == 1).all()


@pytest.mark.parametrize("way", ["import", "thread"])
def test_a_module_calls_its_functor_while_it_is_imported(way, tmp_path):
    """Its import lock is held then, and Numba asks for it."""
    (tmp_path / "calls_at_import.py").write_text(
        "import numpy, numjit\n"
        "def f(x): return x * 3.25 + 1\n"
        "F = numjit.elementwise(f)\n"
        "VALUE = F(numpy.ones(3)).tolist()\n"
        "G = numjit.elementwise('template <typename T> T g(T x) { return x + T(1); }')\n"
        "TEXT = G(numpy.ones(3)).tolist()\n"
    )
    program = f"""
        import sys, threading
        sys.path.insert(0, {str(tmp_path)!r})
        def load():
            import calls_at_import
            print(calls_at_import.VALUE, calls_at_import.TEXT)
        if {way == "import"}:
            load()
        else:
            thread = threading.Thread(target=load)
            thread.start()
            thread.join()
    """
    shown = run_python(program, timeout=120, NUMJIT_CACHE_DIR=tmp_path / "cache").stdout
    assert shown.split("\n")[0] == "[4.25, 4.25, 4.25] [2.0, 2.0, 2.0]"
