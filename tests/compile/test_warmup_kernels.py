"""``numjit.warmup`` for GPUs that are not there: kernels of both kinds of functors."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba_cuda")

import numjit
from numjit.__main__ import main
from numjit.cache import default_store


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def count(cache, suffix):
    return len(list(cache.rglob(f"*{suffix}")))


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


SCALED = numjit.elementwise("template <typename T> T scaled(T x) { return x * T(2); }")


def test_the_command_without_a_gpu(cache, capsys):
    assert main(["warmup", f"{__name__}:SCALED", "--cc", "9.0", "10.0", "--dtypes", "float16", "--layouts",
                 "contiguous", "strided", "--jobs", "1"]) == 0  # fmt: skip
    shown = capsys.readouterr()
    assert shown.out.startswith(f"{__name__}:SCALED: built 16, found 0")
    assert "[1/16] shell sm_" in shown.err
    assert "[16/16] scaled sm_" in shown.err
    assert count(cache, ".shell") == count(cache, ".cubin") == 8


def test_raw_and_indexed_functors(cache):
    look = numjit.elementwise(
        "template <typename T> T look(numjit::raw<T> table, int i) { return table[i]; }"
    )
    ramp = numjit.elementwise(lambda x: x + numjit.index())
    assert numjit.warmup(look, ("float32", "int32"), targets="9.0").built == 2
    assert numjit.warmup(ramp, ("float32",), targets="9.0").built == 2
    assert default_store().size()[0] >= 6
