"""Cases F: the cache and many processes, threads, forks, streams and CUDA graphs."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time

import pytest
import torch

import numjit
from tests.cases import ADD, INCREMENT, ROOT, SQUARE, both_kinds, environment, run_python, same
from tests.support.threads import in_threads

#: Two functors of each kind; prints results, then the modules and warnings that matter.
PROGRAM = """
    import sys, warnings
    import torch, numjit
    device = sys.argv[1]
    python = numjit.elementwise(lambda x, y: x * y + 1)
    cpp = numjit.elementwise("template <typename T> T f(T x, T y) { return x - y * T(2); }")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.arange(5.0, device=device)
        results = []
        if "python" in sys.argv[2]:
            results += [python(x, x).tolist()]
            results += [python(x.int(), 2).tolist()] if "again" in sys.argv[2] else []
        if "c++" in sys.argv[2]:
            results += [cpp(x, x).tolist()]
            results += [cpp(x[::2], 1).tolist()] if "again" in sys.argv[2] else []
    print(results)
    print([str(w.message) for w in caught if "numjit" in str(w.message)])
    print(sorted({m.partition(".")[0] for m in sys.modules} & {"numba", "numba_cuda", "llvmlite"}))
    compilers = ("numjit.toolchain.nvrtc", "cuda.bindings.nvvm", "numjit.toolchain.nvjitlink")
    print([m for m in compilers if m in sys.modules])
"""
PYTHON = [[1.0, 2.0, 5.0, 10.0, 17.0], [1, 3, 5, 7, 9]]
CPP = [[-0.0, -1.0, -2.0, -3.0, -4.0], [-2.0, 0.0, 2.0]]
BOTH = PYTHON + CPP


def run(device, cache, which="python c++ again", **changes):
    """Run the program with a cache folder; returns results, warnings, Numba's and the compilers' modules."""
    lines = run_python(PROGRAM, device, which, NUMJIT_CACHE_DIR=cache, **changes).stdout.splitlines()
    return [eval(line) for line in lines[-4:]]


def files_of(folder):
    return sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def warm(device, tmp_path_factory):
    """A cache folder that a process before this one has filled."""
    cache = tmp_path_factory.mktemp("cache")
    results, warned, _, _ = run(device, cache)
    assert results == BOTH
    assert warned == []
    assert files_of(cache)
    return cache


def copied(cache, tmp_path):
    return pathlib.Path(shutil.copytree(cache, tmp_path / "copy"))


# -------------------------------------------------------------------------------------------- the cache


def test_f1_truncated_files_and_flipped_bits_are_noticed_and_files_made_again(warm, device, tmp_path):
    cache = copied(warm, tmp_path)
    for k, path in enumerate(files_of(cache)):
        data = path.read_bytes()
        flipped = bytes([*data[: len(data) // 3], data[len(data) // 3] ^ 0x10, *data[len(data) // 3 + 1 :]])
        path.write_bytes((b"", data[: len(data) // 2], data[:-1], flipped)[k % 4])
    results, warned, _, _ = run(device, cache)
    assert results == BOTH
    assert len(warned) == 1, warned
    results, warned, _, _ = run(device, cache)
    assert (results, warned) == (BOTH, [])


def test_f3_several_processes_on_a_cold_cache_one_killed(device, tmp_path):
    cache = tmp_path / "not" / "there"
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), device, "python c++ again"]
    started = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env=environment(NUMJIT_CACHE_DIR=cache),
        )
        for _ in range(4)
    ]  # fmt: skip
    victim = started.pop()
    until = time.monotonic() + 60
    while not files_of(cache) and victim.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    for process in started:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        lines = out.splitlines()
        assert eval(lines[-4]) == BOTH
        assert eval(lines[-3]) == []
    results, warned, _, _ = run(device, cache)
    assert results == BOTH
    assert warned == []


def test_f3_leftovers_are_in_nobodys_way(warm, device, tmp_path):
    cache = copied(warm, tmp_path)
    for folder in {path.parent for path in files_of(cache)}:
        for leftover in (".writing-abandoned", "stray.txt"):
            (folder / leftover).write_bytes(b"half a fi")
    results, warned, _, _ = run(device, cache)
    assert (results, warned) == (BOTH, [])


def test_f4_a_read_only_folder_costs_one_warning(device, tmp_path):
    cache = tmp_path / "locked"
    cache.mkdir()
    cache.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        (cache / "probe").write_bytes(b"")
    except OSError:
        pass
    else:
        (cache / "probe").unlink()
        cache.rmdir()
        cache.write_bytes(b"a file where the folder should be")  # root may write to any folder
    results, warned, _, _ = run(device, cache)
    assert results == BOTH
    assert len(warned) == 1, warned
    assert "NUMJIT_CACHE_DIR" in warned[0]


def test_f4_a_home_that_is_not_there(device):
    results, warned, _, _ = run(
        device, None, HOME="/nonexistent/home", XDG_CACHE_HOME=None, which="c++ again"
    )
    assert results == CPP
    assert len(warned) <= 1


def test_f4_the_xdg_folder_is_used(device, tmp_path):
    results, _, _, _ = run(device, None, XDG_CACHE_HOME=tmp_path, which="c++ again")
    assert results == CPP
    assert files_of(tmp_path / "numjit")


def test_f6_a_second_process_compiles_nothing(warm, device):
    """Nor does it import a compiler; the CPU loops of Python functors are loaded with llvmlite.

    On a GPU llvmlite loads the launcher, which a process asks for when it calls a functor again.
    """
    before = {path: path.stat().st_size for path in files_of(warm)}
    for which, wanted, changes in (
        ("python c++", [BOTH[0], BOTH[2]], {}),
        ("python c++ again", BOTH, {"NUMJIT_LAUNCHER": "0"}),
    ):
        results, warned, numba, cuda = run(device, warm, which, **changes)
        assert results == wanted
        assert warned == []
        assert numba == ([] if device == "cuda" else ["llvmlite"])
        assert cuda == []
    assert {path: path.stat().st_size for path in files_of(warm)} == before


def test_f6_no_compiler_runs_on_a_warm_cache(device, tmp_path):
    if device == "cuda":
        pytest.skip("see the test above: no compiler's module is loaded")
    log = tmp_path / "log"
    compiler = tmp_path / "c++"
    compiler.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec /usr/bin/env c++ "$@"\n')
    compiler.chmod(0o755)
    cache = tmp_path / "cache"
    for expected in (2, 0):
        log.write_text("")
        assert run(device, cache, "c++ again", NUMJIT_CXX=compiler)[0] == CPP
        assert log.read_text().count("-shared") == expected


# ---------------------------------------------------------------------------------------------- threads


@both_kinds
def test_f11_eight_threads_call_a_new_functor(kind, device, compilations):
    functor = {
        "python": numjit.elementwise(lambda x: x * 11 + 3),
        "c++": numjit.elementwise("template <typename T> T f(T x) { return x * T(11) + T(3); }"),
    }[kind]
    x = torch.arange(100_000.0, device=device)
    wanted = x * 11 + 3

    def work(_):
        for _ in range(5):
            result = functor(x)
            if device == "cuda":
                torch.cuda.synchronize()
            assert torch.equal(result, wanted)

    in_threads(work, range(8))
    assert len(compilations) == 1


def test_different_functors_in_several_threads(device):
    functors = [(numjit.elementwise(_plus(k)), k) for k in range(4)] + [
        (numjit.elementwise(f"template <typename T> T f(T x) {{ return x + T({k}); }}"), k)
        for k in range(4, 8)
    ]
    x = torch.arange(1000.0, device=device)

    def work(functor_and_number):
        functor, k = functor_and_number
        for _ in range(3):
            assert torch.equal(functor(x), x + k)

    in_threads(work, functors)


def _plus(k):
    return lambda x: x + k


# ------------------------------------------------------------------------------------------------ forks

FORKED = """
    import os, sys, torch, numjit
    torch.set_num_threads(2)
    functors = [numjit.elementwise(lambda x: x + 1),
                numjit.elementwise("template <typename T> T f(T x) { return x + T(1); }")]
    x = torch.zeros(200_000)
    for functor in functors:
        functor(x)
    child = os.fork()
    if not child:
        status = 1
        try:
            fresh = numjit.elementwise("template <typename T> T g(T x) { return x + T(2); }")
            # Summed by NumPy: torch's own OpenMP threads hang in a forked child.
            good = all(functor(x).numpy().sum() == 200_000 for functor in functors)
            good = good and fresh(x).numpy().sum() == 400_000
            status = 0 if good else 2
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), functors[0](x).sum().item())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_f12_a_forked_child_computes_on_the_cpu():
    assert run_python(FORKED, timeout=90).stdout.split() == ["0", "200000.0"]


FORKED_AFTER_CUDA = """
    import os, sys, torch, numjit
    functor = numjit.elementwise(lambda x: x + 1)
    x = torch.zeros(3, device="cuda")
    functor(x)
    child = os.fork()
    if not child:
        status = 1
        try:
            functor(x)
        except RuntimeError as error:
            status = 0 if "fork" in str(error) else 3
            print(type(error).__name__, error, flush=True)
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("child", code, functor(x).tolist())
"""


@pytest.mark.gpu
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_f12_a_fork_after_cuda_is_torchs_own_error():
    lines = run_python(FORKED_AFTER_CUDA, timeout=180).stdout.splitlines()
    assert lines[-1] == "child 0 [1.0, 1.0, 1.0]", lines


# ------------------------------------------------------------------------------------- streams and graphs


@pytest.mark.gpu
@both_kinds
def test_f7_a_producer_a_functor_and_a_consumer_on_a_side_stream(kind):
    x = torch.zeros(1 << 16, device="cuda")
    INCREMENT[kind](x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    least, most = torch.zeros(1000, device="cuda"), torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for round_ in range(1000):
            x.fill_(round_)
            result = INCREMENT[kind](x)
            least[round_] = result.amin()
            most[round_] = result.amax()
    side.synchronize()
    wanted = torch.arange(1000.0, device="cuda") + 1
    assert torch.equal(least, wanted)
    assert torch.equal(most, wanted)


@pytest.mark.gpu
@both_kinds
def test_f8_a_cuda_graph_replays_with_new_contents(kind):
    x, y = torch.arange(1000.0, device="cuda"), torch.ones(1000, device="cuda")
    out = torch.empty(1000, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            ADD[kind](x, y)
            SQUARE[kind](x, out=out)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = ADD[kind](x, y)
        SQUARE[kind](result, out=out)
    for value in (2.0, 5.0, -1.0):
        x.fill_(value)
        y.copy_(torch.arange(1000.0, device="cuda"))
        graph.replay()
        torch.cuda.synchronize()
        same(result, x + y)
        same(out, (x + y) ** 2)


@pytest.mark.gpu
@both_kinds
def test_f10_an_output_used_on_another_stream(kind):
    """The output is torch's own allocation on the current stream, so record_stream protects it."""
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.ones(1 << 20, device="cuda")
    INCREMENT[kind](x)
    torch.cuda.synchronize()
    copies = []
    for round_ in range(20):
        with torch.cuda.stream(first):
            result = INCREMENT[kind](x)
        second.wait_stream(first)
        with torch.cuda.stream(second):
            torch.cuda._sleep(1_000_000)
            copies.append(result.clone())
        result.record_stream(second)
        del result
        with torch.cuda.stream(first):
            torch.full((1 << 20,), float(round_), device="cuda")  # must not take the memory before the clone
    torch.cuda.synchronize()
    assert all(torch.all(found == 2) for found in copies)
    with torch.cuda.stream(first):
        before = torch.cuda.memory_allocated()
        result = INCREMENT[kind](x)
        assert torch.cuda.memory_allocated() - before == x.numel() * result.itemsize
