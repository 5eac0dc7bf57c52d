"""The driver's functions by ctypes, against a stand-in whose functions CUDA's own header declares."""

import ctypes
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

from numjit.errors import ToolchainError
from numjit.runtime import libcuda
from numjit.runtime.libcuda import DEVICE_ATTRIBUTES, FUNCTION_ATTRIBUTES, DriverLibrary
from tests.support import COMPILER

STAND_IN = pathlib.Path(__file__).parents[1] / "support" / "libcuda.cpp"

A, B = 0x123456789ABC, 0x123456789DEF


def header():
    """Return the folder of ``cuda.h``, of the wheels or of a toolkit."""
    spec = importlib.util.find_spec("nvidia")
    roots = [pathlib.Path(root) for root in (spec.submodule_search_locations if spec else ())]
    found = [path for root in roots for path in (*root.glob("cu1*/include"), *root.glob("*/include"))]
    found += [
        pathlib.Path(root) / "include" for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if root
    ]
    return next((path for path in found if (path / "cuda.h").exists()), None)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if COMPILER is None or sys.platform != "linux" or header() is None:
        pytest.skip("needs g++ or clang++ on Linux, and cuda.h")
    folder = tmp_path_factory.mktemp("driver")
    made = folder / "libcuda.so.1"
    command = [COMPILER, "-std=c++17", "-w", "-O0", "-shared", "-fPIC", f"-I{header()}", STAND_IN]
    done = subprocess.run([*command, "-o", made], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return made


def test_every_function_takes_and_answers_what_the_header_says(library):
    cu = DriverLibrary(str(library))
    last = ctypes.CDLL(str(library)).last
    last.restype = ctypes.c_char_p
    at = 0x123456789000
    a, b = hex(A), hex(B)
    cases = {
        "cuInit": ((4,), (0,), "4"),
        "cuDriverGetVersion": ((), (0, 13000), None),
        "cuDeviceGetCount": ((), (0, 3), None),
        "cuDeviceGet": ((2,), (0, 12), "2"),
        "cuDeviceGetAttribute": ((75, 1), (0, -5), "75 1"),
        "cuDeviceGetName": ((1,), (0, b"A card"), "1"),
        "cuDeviceTotalMem": ((1,), (0, 1 << 37), "1"),
        "cuDevicePrimaryCtxRetain": ((1,), (0, at + 1), "1"),
        "cuCtxGetCurrent": ((), (0, at + 2), None),
        "cuCtxGetDevice": ((), (0, 2), None),
        "cuCtxPushCurrent": ((A,), (0,), a),
        "cuCtxPopCurrent": ((), (0, 0), None),
        "cuPointerGetAttribute": ((9, 0xF23456789ABCDEF0), (1, 1), "9 f23456789abcdef0"),
        "cuLibraryLoadData": ((b"\x7f\x00\xff",), (0, at + 3), "127 255 1 0 0"),
        "cuLibraryUnload": ((A,), (0,), a),
        "cuLibraryGetKernel": ((A, b"name"), (0, at + 4), f"{a} name"),
        "cuLibraryGetKernelCount": ((A,), (0, 2), a),
        "cuLibraryEnumerateKernels": ((2, A), (0, [at + 5, at + 6]), f"2 {a}"),
        "cuKernelGetName": ((A,), (0, b"entry"), a),
        "cuKernelGetFunction": ((A,), (0, at + 7), a),
        "cuFuncGetAttribute": ((4, A), (0, 32), f"4 {a}"),
        "cuFuncSetAttribute": ((A, 8, 60000), (0,), f"{a} 8 60000"),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": ((A, 128, 5000), (0, 12), f"{a} 128 5000"),
        "cuEventCreate": ((2,), (0, at + 8), "2"),
        "cuEventRecord": ((A, 1), (0,), f"{a} 0x1"),
        "cuEventSynchronize": ((A,), (0,), a),
        "cuEventElapsedTime": ((A, B), (0, 0.25), f"{a} {b}"),
        "cuEventDestroy": ((A,), (0,), a),
        "cuStreamWaitEvent": ((B, A, 0), (0,), f"{b} {a} 0"),
        "cuStreamIsCapturing": ((A,), (0, 1), a),
        "cuThreadExchangeStreamCaptureMode": ((2,), (0, 1), "2"),
        "cuGetErrorName": ((700,), (0, b"CUDA_ERROR_X"), None),
        "cuGetErrorString": ((700,), (0, b"words"), None),
    }
    own = {name for name in vars(DriverLibrary) if name.startswith("cu")}
    assert set(cases) == set(libcuda._PROTOTYPES) | own | {"cuCtxGetCurrent"}
    for name, (arguments, answer, said) in cases.items():
        for _ in range(2):  # looked up, then remembered
            assert getattr(cu, name)(*arguments) == answer, name
        if said is not None:
            assert last().decode() == said, name
    assert cu.cuGetErrorName(0) == (0, None)


def test_a_launch_passes_everything_on(library):
    cu = DriverLibrary(str(library))
    last = ctypes.CDLL(str(library)).last
    last.restype = ctypes.c_char_p
    value = ctypes.c_uint64(42)
    table = (ctypes.c_void_p * 1)(ctypes.addressof(value))
    answer = cu.cuLaunchKernel(A, 2**31 - 1, 2, 3, 128, 5, 6, 49152, 0, ctypes.addressof(table), None)
    assert answer == 719
    assert last().decode() == f"{hex(A)} 2147483647 2 3 128 5 6 49152 (nil) 42 1"
    cu.cuLaunchKernel(A, 1, 1, 1, 32, 1, 1, 0, B, ctypes.addressof(table), None)
    assert last().decode() == f"{hex(A)} 1 1 1 32 1 1 0 {hex(B)} 42 1"


def test_an_old_driver_says_so(tmp_path):
    if COMPILER is None or sys.platform != "linux":
        pytest.skip("needs g++ or clang++ on Linux")
    (tmp_path / "old.cpp").write_text(
        'extern "C" int cuCtxGetCurrent(void**) { return 0; } extern "C" int cuLaunchKernel() { return 0; }'
    )
    made = tmp_path / "libcuda.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", tmp_path / "old.cpp", "-o", made], check=True)
    with pytest.raises(ToolchainError, match=r"no cuLibraryGetKernelCount; update it"):
        DriverLibrary(str(made)).cuLibraryGetKernelCount(1)
    with pytest.raises(AttributeError, match="uses no function 'cuMemAlloc'"):
        _ = DriverLibrary(str(made)).cuMemAlloc
    with pytest.raises(OSError, match="nowhere"):
        DriverLibrary(str(tmp_path / "nowhere.so"))


def test_attributes_are_those_of_cuda_bindings():
    driver = pytest.importorskip("cuda.bindings.driver")
    for name, number in FUNCTION_ATTRIBUTES.items():
        assert int(getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")) == number
    for name, number in DEVICE_ATTRIBUTES.items():
        assert int(getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")) == number
