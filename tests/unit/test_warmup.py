"""``numjit.warmup`` and its command: what is built for which description, errors, exit statuses."""

import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch")

import numpy as np

import numjit
from numjit import dtypes
from numjit.__main__ import main
from numjit.ahead import run as ahead_run
from numjit.ahead.layouts import LAYOUTS, operands_of
from numjit.ahead.run import read_targets
from numjit.ahead.signatures import describe, shell_for
from numjit.errors import ArgumentError, BroadcastError, CompilationError, ToolchainError
from numjit.semantics import Category, contiguous_strides

AXPY = numjit.elementwise(
    "template <typename T> T axpy(T x, T y, T alpha) { return alpha * x + y; }", alpha=1.0
)
SCALED = numjit.elementwise(
    "template <typename T> T scaled(T x, int n) { return x * T(n); }", scalars={"n": 2}
)
MATRIX = torch.empty(64, 64, device="meta")
RAW = numjit.elementwise(
    "template <typename T> T look(numjit::raw<T> table, int i) { return table[i]; }"
)  # fmt: skip


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def variants(operation, *operands, on_gpu=True, fast_memory=False, **scalars):
    """Return the shell's text for a described call of a C++ functor."""
    functor = operation.functor
    described = describe(functor, operands, scalars, on_gpu=on_gpu)
    made = functor.specialise(described.types, dtypes.float32)
    return str(shell_for(functor, described, made, fast_memory=fast_memory))


# -------------------------------------------------------------------------------------------- describing


def test_the_descriptions_of_one_operand_agree():
    x = torch.empty(1 << 20, device="meta")
    wanted = variants(AXPY, x, x)
    for same in (
        "float32",
        torch.float32,
        np.float32,
        numjit.float32,
        numjit.Operand("float32"),
        numjit.Operand(torch.float32, (512, 2048)),
        torch.empty(64, 64),
        np.empty((64, 64), np.float32),
    ):
        assert variants(AXPY, same, same) == wanted
    assert wanted == (
        "(float32>float32,float32>float32,value>float32)->(float32>float32) "
        "contiguous1d.v4x1.i64.b128.u16.u16.u16"
    )


@pytest.mark.parametrize(
    ("operands", "shown"),
    [
        pytest.param(
            (torch.empty(65, device="meta")[1:],) * 2, "contiguous1d.v4x1.i64.b128.u16.u4.u4", id="1:"
        ),
        pytest.param((numjit.Operand("float32", (64,), offset=2),) * 2, "u16.u8.u8", id="offset"),
        pytest.param((MATRIX, torch.empty(64, device="meta")), "strided2d", id="row"),
        pytest.param((MATRIX, MATRIX.t()), "tiled2d", id="transposed"),
        pytest.param(("float32", 2.0), "(float32>float32,value>float32,value>float32)", id="number"),
        pytest.param((torch.empty((), device="meta"), "float32"), "strided1d", id="0-dim of the device"),
        pytest.param((torch.zeros(()), "float32"), "(value>float32,float32>float32", id="0-dim of the CPU"),
        pytest.param((MATRIX.to(torch.complex64).conj(), 1), "complex64 conj", id="conj"),
    ],
)
def test_layouts_are_told_from_the_description(operands, shown):
    assert shown in variants(AXPY, *operands)


def test_scalars_have_the_kind_of_their_default_or_example():
    assert describe(AXPY.functor, ["float32"] * 2, {}, on_gpu=True).types[2].dtype is dtypes.float64
    found = describe(AXPY.functor, ["float32"] * 2, {"alpha": 3}, on_gpu=True).types[2]
    assert (found.dtype, found.category) == (dtypes.int64, Category.NUMBER)
    undecided = numjit.elementwise(lambda x, *, a, b: x * a + b).functor
    assert [t.dtype for t in describe(undecided, ["int32"], {"b": True}, on_gpu=False).types] == [
        dtypes.int32, dtypes.float64, dtypes.bool_,
    ]  # fmt: skip


def test_0_dim_operands_are_values_on_the_cpu():
    zero = torch.empty((), device="meta")
    assert describe(AXPY.functor, [zero, "float32"], {}, on_gpu=False).storages[0] is None
    assert describe(AXPY.functor, [zero, "float32"], {}, on_gpu=True).storages[0] is dtypes.float32


@pytest.mark.parametrize(
    ("operands", "scalars", "message"),
    [
        (("float32",), {}, "no value for its operand 'y'"),
        (("float32",) * 3, {}, "takes 2 operands"),
        (("float32", None), {}, "meta device will do"),
        (("float32", "float31"), {}, "float31"),
        (("float32", [1, 2]), {}, "numjit.Operand"),
        (("float32",) * 2, {"beta": 1.0}, "unknown keyword 'beta'"),
        (("float32",) * 2, {"alpha": "1"}, "give a number"),
    ],
)
def test_what_does_not_describe_a_call_is_refused(operands, scalars, message):
    with pytest.raises(ArgumentError, match=message):
        numjit.warmup(AXPY, operands, scalars=scalars, targets="9.0")


def test_shapes_that_do_not_broadcast_and_bad_strides():
    with pytest.raises(BroadcastError):
        numjit.warmup(AXPY, (torch.empty(3, device="meta"), torch.empty(4, device="meta")), targets="9.0")
    with pytest.raises(ArgumentError, match="one a dimension"):
        numjit.Operand("float32", (3, 4), strides=(1,))


# ------------------------------------------------------------------------------- as a real call chooses


class _Asked(Exception):
    """Carries the shell that a call asked for."""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "uint8"])
@pytest.mark.parametrize("fast_memory", [False, True])
def test_a_described_call_takes_the_kernel_that_a_real_one_takes(layout, dtype, fast_memory, monkeypatch):
    """The same operands, once described and once as arrays on a device that is not there."""
    from numjit.arrays.view import ArrayView, cuda
    from numjit.call import build
    from numjit.call.arguments import Arguments
    from numjit.call.planner import Planner
    from numjit.functor.signature import ArgumentType
    from numjit.runtime import devices

    functor = AXPY.functor
    operands = operands_of(layout, dtype, 2)
    described = variants(AXPY, *operands, fast_memory=fast_memory)
    views = [
        ArrayView(
            4096 + given.offset * given.element.itemsize, given.element, given.shape,
            given.strides or contiguous_strides(given.shape), cuda(0), "torch", None, None,
        )
        for given in operands
    ]  # fmt: skip
    types = [ArgumentType(view.dtype, Category.DIM) for view in views]
    arguments = Arguments(
        [None, None, 1.0], [*views, None], (*types, ArgumentType(dtypes.float64, Category.NUMBER)),
        cuda(0), "torch", views, {},
    )  # fmt: skip

    def ask(functor, specialisation, spec, device_index):
        raise _Asked(str(spec))

    monkeypatch.setattr(build, "build_kernel", ask)
    monkeypatch.setattr(devices, "max_parameter_bytes", lambda index: 4096)
    monkeypatch.setattr(devices, "has_fast_memory", lambda index: fast_memory)
    with pytest.raises(_Asked) as asked:
        Planner(functor, ["x", "y", "alpha"], 2).plan(arguments, None)
    assert str(asked.value) == described


# ------------------------------------------------------------------------------------------ building


def test_cpu_loops_are_built_once_and_then_found(cache, monkeypatch):
    from numjit.call import build

    ones = torch.ones(8)
    AXPY(ones, ones)  # in this process's memory already; the folder is another one
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(cache / "other"))
    told = []
    first = numjit.warmup(
        AXPY, dtypes=["float32", "float64"], layouts=["contiguous", "row"], targets="cpu",
        progress=lambda done, total, what: told.append((done, total, what)),
    )  # fmt: skip
    assert (first.built, first.found) == (2, 0)  # one loop serves every layout
    assert [(done, total) for done, total, _ in told] == [(1, 2), (2, 2)]
    assert all("axpy cpu" in what for _, _, what in told)
    again = numjit.warmup(AXPY, dtypes=["float32", "float64"], targets="cpu")
    assert (again.built, again.found) == (0, 2)
    assert str(again).startswith("built 0, found 2 on disk")
    build._chunks.clear()
    monkeypatch.setattr("numjit.cpu.cpp_loop._compile_loop", lambda *a, **k: pytest.fail("it compiles"))
    x = torch.ones(8)
    assert torch.equal(AXPY(x, x), x + x)


def test_python_loops_are_found_by_the_call(cache, monkeypatch):
    from numjit.call import build

    functor = numjit.elementwise(lambda x, *, n=3: x * n - 1)
    assert numjit.warmup(functor, ("float32",), ("int16",), targets="cpu", jobs=2).built == 2
    build._chunks.clear()
    build._specialisations.clear()
    monkeypatch.setattr("numjit.cpu.python_loop.build_chunk", lambda *a: pytest.fail("it compiles"))
    assert functor(torch.ones(3)).tolist() == [2.0] * 3
    assert functor(torch.ones(3, dtype=torch.int16)).tolist() == [2] * 3


def test_all_else_is_built_before_an_error_is_raised(cache):
    picky = numjit.elementwise(
        "template <typename T> T picky(T x) { static_assert(sizeof(T) == 4); return x; }"
    )
    with pytest.raises(CompilationError, match="picky"):
        numjit.warmup(picky, ("float64",), ("float32",), ("int32",), targets="cpu")
    assert numjit.warmup(picky, ("float32",), ("int32",), targets="cpu").found == 2


def test_a_cache_that_cannot_be_written_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(ToolchainError, match="NUMJIT_CACHE_DIR"):
        numjit.warmup(AXPY, targets="cpu")


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((lambda x: x,), {}, "numjit.elementwise"),
        ((None, ("float32",)), {"targets": "9.0"}, "pass one first"),
        ((), {"targets": "9.0"}, "pass one first"),
        ((AXPY,), {"layouts": ["diagonal"], "targets": "cpu"}, "contiguous, row"),
        ((AXPY,), {"jobs": 0, "targets": "cpu"}, "1 or more"),
        ((AXPY,), {"targets": "tpu"}, "'9.0' or"),
    ],
)
def test_requests_that_make_no_sense_are_refused(arguments, keywords, message, cache):
    with pytest.raises(ArgumentError, match=message):
        numjit.warmup(*arguments, **keywords)


def test_targets():
    assert (
        read_targets("9.0")
        == read_targets((9, 0))
        == read_targets(["sm_90"])
        == read_targets("90")
        == [(9, 0)]
    )
    assert read_targets(["cpu", (10, 0), "12.1", "cpu", "sm_103"]) == [None, (10, 0), (12, 1), (10, 3)]
    assert read_targets([(8, 0), (9, 0)]) == read_targets(((8, 0), (9, 0))) == [(8, 0), (9, 0)]
    for bad in ("9", "gpu", 9.0j, (9,), [(9, 0, 0)]):
        with pytest.raises(ArgumentError):
            read_targets(bad)


def test_a_target_that_is_not_here_gets_the_shapes_of_every_kind_of_memory(monkeypatch):
    from numjit.ahead.run import _cards
    from numjit.runtime import devices

    assert _cards(["cpu", "9.0"]) == [(None, False), ((9, 0), False), ((9, 0), True)]
    monkeypatch.setattr(devices, "device_count", lambda: 3)
    monkeypatch.setattr(devices, "compute_capability", lambda index: (9, 0))
    monkeypatch.setattr(devices, "has_fast_memory", lambda index: index == 2)
    assert _cards(None) == [((9, 0), False), ((9, 0), True)]
    assert read_targets(None) == [(9, 0)]


def test_the_layouts_by_name_have_every_kind_of_variant():
    shown = [variants(AXPY, *operands_of(layout, "float16", 2)) for layout in LAYOUTS]
    assert len(set(shown)) == len(LAYOUTS) - 1  # rows and slices of longer rows share a kernel
    assert any("tiled2d" in text for text in shown)
    assert operands_of("transposed", "float32", 1) is None


def test_operands_are_pickled():
    assert pickle.loads(pickle.dumps(numjit.Operand("int8", (2,)))) == numjit.Operand("int8", (2,))


# ---------------------------------------------------------------------------------------- in threads


def test_what_two_kernels_share_is_compiled_once(cache, monkeypatch):
    from numjit.call import build

    made = []
    for name in ("device_code", "shell_code"):
        monkeypatch.setattr(build, name, lambda *a, name=name: made.append(name))
    monkeypatch.setattr(build, "kernel_image", lambda *a: made.append("kernel_image"))
    done = numjit.warmup(SCALED, layouts=["contiguous", "strided"], dtypes=["float32"], targets="9.0")
    assert sorted(made) == ["device_code"] + ["kernel_image"] * 3 + ["shell_code"] * 3
    assert (done.built, done.found) == (6, 0)


def test_no_more_threads_than_jobs_work_at_once(cache, monkeypatch):
    from numjit.call import build

    gate, working, most = threading.Lock(), set(), []

    def work(*arguments):
        with gate:
            working.add(threading.get_ident())
            most.append(len(working))
        time.sleep(0.02)
        with gate:
            working.remove(threading.get_ident())

    for name in ("device_code", "shell_code", "kernel_image"):
        monkeypatch.setattr(build, name, work)
    for jobs in (1, 3):
        most.clear()
        numjit.warmup(SCALED, layouts=list(LAYOUTS), targets="9.0", jobs=jobs)
        assert max(most) == jobs


def test_a_shell_that_does_not_compile_is_an_error_after_all_else_was_built(cache, monkeypatch):
    from numjit.call import build

    def fail(*arguments):
        raise ToolchainError("no shells today; come back")

    linked = []
    monkeypatch.setattr(build, "device_code", lambda *a: None)
    monkeypatch.setattr(build, "shell_code", fail)
    monkeypatch.setattr(build, "kernel_image", lambda *a: linked.append(a))
    with pytest.raises(ToolchainError, match="no shells today"):
        numjit.warmup(SCALED, ("float32",), targets="9.0")
    assert len(linked) == 1


def test_an_interrupt_stops_the_rest(cache, interruptible, monkeypatch):
    from numjit.call import build

    started, linked = [], []

    def shell(*arguments):
        started.append(arguments)
        if len(started) == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.2)

    monkeypatch.setattr(build, "device_code", lambda *a: None)
    monkeypatch.setattr(build, "shell_code", shell)
    monkeypatch.setattr(build, "kernel_image", lambda *a: linked.append(a))
    with pytest.raises(KeyboardInterrupt):
        numjit.warmup(SCALED, layouts=list(LAYOUTS), targets="9.0", jobs=1)
    assert 1 <= len(started) < 5  # of some twenty
    assert not linked


# ------------------------------------------------------------------------------------------- the command

HERE = "tests.unit.test_warmup:AXPY"


@pytest.mark.parametrize(
    ("arguments", "status", "shown"),
    [
        ([HERE, "--dtypes", "float31", "--cc", "9.0"], 2, "float31"),
        ([HERE, "--cc", "ninety"], 2, "'9.0' or"),
        ([HERE, "--cc", "7.0"], 2, "7.5"),
        (["no_such_module:f"], 2, "MODULE:NAME"),
        (["tests.cases:nothing"], 2, "MODULE:NAME"),
        (["numjit.math:sin"], 2, "MODULE:NAME"),
        ([HERE, "--cpu", "--layouts", "diagonal"], 2, "contiguous, row"),
        (["tests.unit.test_warmup:RAW", "--cpu", "--jobs", "0"], 2, "1 or more"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_the_command_says_what_it_does_not_understand(arguments, status, shown, cache, capsys):
    assert main(["warmup", *arguments]) == status
    assert shown in capsys.readouterr().err


def test_the_command_needs_a_functor(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["warmup", "--cpu"])
    assert stopped.value.code == 2
    assert "required: MODULE:NAME" in capsys.readouterr().err


def test_the_command_builds_what_modules_name(cache, capsys):
    arguments = ["warmup", "tests.cases:ADD", HERE, "--cpu", "--dtypes", "float32"]
    assert main(arguments) == 2  # ADD is a pair of operations
    assert "dict" in capsys.readouterr().err
    assert main([arguments[0], *arguments[2:]]) == 0
    shown = capsys.readouterr()
    assert f"{HERE}: built 1, found 0" in shown.out
    assert "[1/1] axpy cpu" in shown.err


def test_what_does_not_compile_has_status_1(cache, monkeypatch, capsys):
    def fail(*arguments, **keywords):
        raise ToolchainError("no compiler here; install one")

    monkeypatch.setattr(ahead_run, "_build", fail)
    assert main(["warmup", HERE, "--cpu"]) == 1
    assert "no compiler here; install one" in capsys.readouterr().err


def test_progress_is_one_line_on_a_terminal(monkeypatch, capsys):
    from numjit.ahead.command import _Line

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    line = _Line()
    line.show(1, 2, "a long description of what was just built, too long for a line")
    line.show(2, 2, "short")
    line.clear()
    shown = capsys.readouterr().err
    assert "\n" not in shown
    assert [len(part) for part in shown.split("\r")[1:]] == [39, 39, 39, 0]


def test_a_module_beside_the_command_is_found(cache, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numjit\n\n@numjit.elementwise\ndef twice(x):\n    return 2 * x\n"
    )
    root = str(pathlib.Path(numjit.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "numjit", "warmup", "mine:twice", "--cpu", "--dtypes", "float32", "float64"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": root}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mine:twice: built 2, found 0")
