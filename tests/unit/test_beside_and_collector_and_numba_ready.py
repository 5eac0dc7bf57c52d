"""What the first call pays for: importing numjit, the parts of cache keys, and the helpers of compiling."""

import gc
import importlib.metadata
import inspect
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest

from numjit.cache import keys
from numjit.ground.apart import called_from
from numjit.toolchain.beside import beside
from numjit.toolchain.collector import collection_paused

ROOT = pathlib.Path(__file__).parents[2]


def in_process(code, cwd=ROOT, **changes):
    env = {**os.environ, "PYTHONPATH": str(ROOT), **changes}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env, cwd=cwd
    )
    return done.stdout.strip()


# ------------------------------------------------------------------------------------------ import numjit

#: What ``import numjit`` may load. A new module here costs every process some 0.3 ms: load it when needed.
LOADED = [
    "numjit",
    "numjit.ahead",
    "numjit.ahead.warmed",
    "numjit.ahead.warmup",
    "numjit.arrays",
    "numjit.arrays.adapters",
    "numjit.arrays.allocate",
    "numjit.arrays.cuda_interface",
    "numjit.arrays.dlpack",
    "numjit.arrays.foreign_errors",
    "numjit.arrays.numbers",
    "numjit.arrays.numpy_arrays",
    "numjit.arrays.stated",
    "numjit.arrays.streams",
    "numjit.arrays.torch_arrays",
    "numjit.arrays.torch_state",
    "numjit.arrays.view",
    "numjit.cache",
    "numjit.cache.disk",
    "numjit.cache.elf",
    "numjit.cache.keys",
    "numjit.cache.memory",
    "numjit.call",
    "numjit.call.arguments",
    "numjit.call.binding",
    "numjit.call.build",
    "numjit.call.nullary",
    "numjit.call.operation",
    "numjit.call.outputs",
    "numjit.call.planner",
    "numjit.call.record",
    "numjit.call.warm",
    "numjit.call.warm_arrays",
    "numjit.config",
    "numjit.dtypes",
    "numjit.elementwise",
    "numjit.errors",
    "numjit.functor",
    "numjit.functor.bytecode",
    "numjit.functor.captured",
    "numjit.functor.cpp",
    "numjit.functor.cpp.functor",
    "numjit.functor.cpp.reader",
    "numjit.functor.cpp.tokens",
    "numjit.functor.cpp.types",
    "numjit.functor.fingerprint",
    "numjit.functor.kinds",
    "numjit.functor.markers",
    "numjit.functor.powers",
    "numjit.functor.python",
    "numjit.functor.signature",
    "numjit.generated",
    "numjit.ground",
    "numjit.ground.apart",
    "numjit.ground.checks",
    "numjit.ground.foreign",
    "numjit.ground.log",
    "numjit.ground.numba_ready",
    "numjit.kernels",
    "numjit.kernels.spec",
    "numjit.launcher",
    "numjit.launcher.attach",
    "numjit.math",
    "numjit.plan",
    "numjit.plan.choose",
    "numjit.plan.coalesce",
    "numjit.plan.variant",
    "numjit.rules",
    "numjit.rules.torch_text",
    "numjit.runtime",
    "numjit.runtime.devices",
    "numjit.runtime.driver",
    "numjit.runtime.launch",
    "numjit.runtime.libcuda",
    "numjit.runtime.streams",
    "numjit.semantics",
    "numjit.semantics.broadcasting",
    "numjit.semantics.category",
    "numjit.semantics.overlap",
    "numjit.semantics.promotion",
    "numjit.semantics.strides",
    "numjit.toolchain",
    "numjit.toolchain.beside",
    "numjit.toolchain.collector",
    "numjit.torch",
    "numjit.torch.batches",
    "numjit.torch.by_hand",
    "numjit.torch.compile",
    "numjit.torch.dispatch",
    "numjit.torch.genuine",
    "numjit.torch.graph",
    "numjit.torch.override",
    "numjit.torch.recorded",
    "numjit.torch.rule",
    "numjit.torch.see_through",
    "numjit.torch.see_through.lowered",
    "numjit.torch.see_through.watch",
    "numjit.torch.watched",
    "numjit.value_and_grad",
]


def test_importing_loads_what_a_call_needs_and_no_more():
    pytest.importorskip("torch")
    code = "import sys, torch; s = set(sys.modules); import numjit; print(*(set(sys.modules) - s))"
    loaded = set(in_process(code).split())
    own = {name for name in loaded if name.partition(".")[0] == "numjit"}
    assert not own - set(LOADED)
    # torch loads most of the standard library; the rest has to earn its milliseconds.
    assert loaded - own <= {"concurrent", "concurrent.futures", "concurrent.futures._base", "_struct"}


def test_importing_takes_no_time_to_speak_of(tmp_path):
    """50 ms on an idle machine; the better of two, with room for a busy one. Bytecode is written first."""
    pytest.importorskip("torch")
    code = (
        "import time, torch; begun = time.process_time(); import numjit; print(time.process_time() - begun)"
    )
    taken = [
        float(in_process(code, PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(tmp_path)))
        for _ in range(3)
    ]
    assert min(taken[1:]) < 0.150


# -------------------------------------------------------------------------------------- parts of cache keys


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        *((keys.version_of.__wrapped__, name) for name in ("numba", "llvmlite", "numba-cuda")),
        *((keys.version_of.__wrapped__, name) for name in ("nvidia-cuda-nvrtc", "no-such-thing")),
        *((keys.wheel_version, name) for name in ("numba", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")),
    ],
)
def test_versions_are_those_of_the_metadata(asked, name):
    try:
        expected = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        expected = "absent"
    assert asked(name) == expected


def test_the_first_distribution_on_the_path_counts(monkeypatch, tmp_path):
    for folder, version in (("first", "1.0"), ("second", "2.0")):
        (tmp_path / folder / f"Some_Package-{version}.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second"), *sys.path])
    keys._installed.cache_clear()
    try:
        assert keys.version_of.__wrapped__("some.package") == "1.0"
    finally:
        keys._installed.cache_clear()


@pytest.fixture
def installed(tmp_path):
    """Return a function that tells the digest of a copy of numjit."""
    copy = tmp_path / "site" / "numjit"
    shutil.copytree(ROOT / "numjit", copy, ignore=shutil.ignore_patterns("__pycache__"))

    def digest(cache="cache"):
        return in_process(
            "from numjit.cache.keys import sources_digest; print(sources_digest())",
            cwd=copy.parent,
            PYTHONPATH=str(copy.parent),
            NUMJIT_CACHE_DIR=str(tmp_path / cache),
        )

    digest.folder = copy
    return digest


def test_the_digest_of_the_sources_goes_by_contents(installed):
    edited = installed.folder / "config.py"
    before = installed()
    assert installed() == before  # from the cache
    os.utime(edited, (1, 1))
    assert installed() == before  # installed at another time
    assert installed("another") == before
    text = edited.read_text()
    edited.write_text(text.replace("1 << 30", "1 << 31"))  # of the same size
    assert installed() != before
    edited.write_text(text)
    assert installed() == before
    (installed.folder / "functor" / "cpp" / "include" / "new.cuh").write_text("")
    assert installed() != before


def test_a_cache_that_cannot_keep_the_digest_costs_no_warning(installed, tmp_path):
    (tmp_path / "cache").write_text("in the way")
    code = (
        "import warnings; warnings.simplefilter('error'); "
        "from numjit.cache.keys import sources_digest; print(sources_digest())"
    )
    where = installed.folder.parent
    found = in_process(code, cwd=where, PYTHONPATH=str(where), NUMJIT_CACHE_DIR=str(tmp_path / "cache"))
    assert found == installed("another")


# ------------------------------------------------------------------------------------ helpers of compiling


def test_the_collector_rests_while_anyone_compiles():
    assert gc.isenabled()
    inside, leave = threading.Event(), threading.Event()

    def work():
        with collection_paused():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)
    seen = []

    @collection_paused()
    def failing():
        seen.append(gc.isenabled())
        raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert seen == [False]
    assert not gc.isenabled()  # the other thread goes on
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_forked_meanwhile_has_its_collector():
    code = """
import gc, os
from numjit.toolchain.collector import collection_paused
with collection_paused():
    child = os.fork()
    enabled = gc.isenabled()
if not child:
    with collection_paused():
        paused = not gc.isenabled()
    os._exit(0 if enabled and paused and gc.isenabled() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), enabled, gc.isenabled())
"""
    assert in_process(code) == "0 False True"


def test_work_runs_beside_and_its_error_is_raised_where_its_result_is_asked_for():
    gate = threading.Event()

    def work():
        gate.wait(10)
        return threading.get_ident()

    with beside(work) as result:
        gate.set()
        assert result() != threading.get_ident()
    with beside(lambda: 1 // 0) as result, pytest.raises(ZeroDivisionError):
        result()


def test_work_beside_knows_the_line_that_called():
    with beside(called_from) as result:
        file, line, module, _ = result()
    assert (file, module) == (__file__, __name__)
    assert 0 < inspect.currentframe().f_lineno - line < 5


def test_an_error_of_the_body_waits_for_the_thread():
    ended = []
    with pytest.raises(KeyError), beside(lambda: ended.append(1)):
        raise KeyError
    assert ended == [1]


def test_a_module_of_numbas_that_warns_is_imported_where_warnings_are_errors(tmp_path):
    # As numba-cuda 0.30.4 does with NumPy 2.5.
    (tmp_path / "warns_when_imported.py").write_text(
        "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=1)\n"
    )
    code = f"""
import warnings
import numba
from numjit.ground.numba_ready import load, numba_ready
numba.__path__.append({str(tmp_path)!r})
before = list(warnings.filters)
with numba_ready():
    load(["numba.warns_when_imported"])
print(warnings.filters == before)
"""
    assert in_process(code, PYTHONWARNINGS="error") == "True"
