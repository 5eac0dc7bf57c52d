"""What all tests share: a cache of their own, the ``gpu`` marker, ``device``, Hypothesis profiles."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# The first example of a property compiles, the others do not, so neither a deadline nor "too slow" means
# anything here.
settings.register_profile(
    "default", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci", settings.get_profile("default"), derandomize=True, database=None, print_blob=True
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))

_CACHE = "NUMJIT_CACHE_DIR"
_PROBE = """
import ctypes, sys
try:
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
except OSError:
    sys.exit("no CUDA driver on this machine")
count = ctypes.c_int()
if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
    sys.exit("the CUDA driver finds no device")
"""


@functools.cache
def no_gpu() -> str | None:
    """Return why tests cannot use a GPU; None where they can.

    Another process asks the driver: a process that has initialised CUDA can no longer fork workers, which
    some tests do.
    """
    probe = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, check=False)
    if probe.returncode:
        return probe.stderr.strip().splitlines()[-1] if probe.stderr.strip() else "the CUDA driver crashed"
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    import torch

    return None if torch.version.cuda else f"torch {torch.__version__} is built without CUDA"


def pytest_configure(config):
    # Workers of pytest-xdist inherit the variable and so share one cache: nothing is compiled twice.
    if not hasattr(config, "workerinput"):
        config.numjit_outer_cache = os.environ.get(_CACHE)
        os.environ[_CACHE] = config.numjit_cache = tempfile.mkdtemp(prefix="numjit-tests-")


def pytest_unconfigure(config):
    if hasattr(config, "numjit_cache"):
        shutil.rmtree(config.numjit_cache, ignore_errors=True)
        if config.numjit_outer_cache is None:
            os.environ.pop(_CACHE, None)
        else:
            os.environ[_CACHE] = config.numjit_outer_cache


def pytest_collection_modifyitems(items):
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    reason = no_gpu() if wanting else None
    if reason:
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Each kind of device in turn; the scope is the session's so that Hypothesis tests can use it."""
    return request.param


@pytest.fixture
def interruptible():
    """Python's own answer to Ctrl-C, which a shell's background jobs do not have: they ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def quick_compilation(monkeypatch):
    """Numba's compilers without optimisation, for tests of many functors whose speed does not matter."""
    from numba.core import config

    monkeypatch.setattr(config, "OPT", config._OptLevel(0))
