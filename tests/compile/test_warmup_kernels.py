"""``numjit.warmup`` for GPUs that are not there: shells in processes, kernels of both kinds of functors."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba_cuda")

import numjit
from numjit.__main__ import main
from numjit.cache import default_store
from numjit.call import build


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def count(cache, suffix):
    return len(list(cache.rglob(f"*{suffix}")))


def test_shells_are_compiled_in_other_processes(cache, monkeypatch):
    monkeypatch.setattr(build, "shell_code", lambda *a: pytest.fail("it compiles in this process"))
    keywords = {"targets": "9.0", "dtypes": ["float32"], "inputs": [1, 2], "jobs": 2}
    done = numjit.warmup(**keywords)
    assert done.found == 0
    assert done.built == count(cache, ".shell") == 14  # three differ with the memory
    assert numjit.warmup(**keywords).built == 0


def test_kernels_of_both_kinds(cache, monkeypatch):
    x = torch.empty(64, 64, device="meta")
    python = numjit.elementwise(lambda x, y, *, a=1.0: x * a + y)
    cpp = numjit.elementwise("template <typename T> T f(T x, T y, T a) { return x * a + y; }", a=1.0)
    calls = [(x, x), (x, x.t()), (x, x[0].bfloat16()), (x, 3)]
    for functor in (python, cpp):
        assert numjit.warmup(functor, *calls, targets=["9.0", (8, 0)]).built >= 8
    assert count(cache, ".cubin") == 20  # one of four calls takes another block where the memory is fast
    for functor in (python, cpp):
        assert numjit.warmup(functor, *calls, targets=["9.0", (8, 0)]).built == 0
    # a new functor of the kind: shells are there
    other = numjit.elementwise("template <typename T> T g(T x, T y, T a) { return x / a - y; }", a=1.0)
    monkeypatch.setattr("numjit.ground.numba_cuda.compile_kernel", lambda *a, **k: pytest.fail("a shell"))
    assert numjit.warmup(other, *calls, targets="9.0").built == 5


def test_the_command_without_a_gpu(cache, capsys):
    assert main(["warmup", "--cc", "9.0", "10.0", "--dtypes", "float16", "--inputs", "1", "--layouts",
                 "contiguous", "strided", "--jobs", "1"]) == 0  # fmt: skip
    shown = capsys.readouterr()
    assert shown.out.startswith("shells: built 8, found 0")
    assert "[8/8] shell sm_" in shown.err
    assert count(cache, ".shell") == 8


def test_raw_and_indexed_functors(cache):
    look = numjit.elementwise(
        "template <typename T> T look(numjit::raw<T> table, int i) { return table[i]; }"
    )
    ramp = numjit.elementwise(lambda x: x + numjit.index())
    assert numjit.warmup(look, ("float32", "int32"), targets="9.0").built == 2
    assert numjit.warmup(ramp, ("float32",), targets="9.0").built == 2
    assert default_store().size()[0] >= 6
