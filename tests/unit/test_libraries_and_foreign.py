"""CUDA's compilers by ctypes: found where they are, one copy a process, with words for what goes wrong."""

import ctypes
import os
import pathlib
import subprocess
import sys
import types

import pytest

from numjit.errors import ToolchainError
from numjit.ground.foreign import HANDLE, CLibrary, Result
from numjit.toolchain import libraries, nvjitlink, nvrtc
from numjit.toolchain.libraries import Library
from tests.cases import run_python
from tests.support import COMPILER

linux = pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="g++ or clang++ on Linux")

SOURCE = """
extern "C" int first(int* a, unsigned long long* h, int n) { *a = n + 1; *h = 0xfedcba9876543210; return 0; }
extern "C" int last(unsigned long long h, unsigned long* size) { *size = h; return 3; }
extern "C" int between(int a, int* sum, int b) { *sum = a - b; return 0; }
extern "C" int plain(int a) { return -a; }
extern "C" int answer() { return %d; }
"""


def built(path, answer=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".cpp")
    source.write_text(SOURCE % answer)
    command = [COMPILER, "-shared", "-fPIC", f"-Wl,-soname,{path.name}", source, "-o", path]
    subprocess.run(command, check=True)
    return path


@linux
def test_prototypes_say_where_results_are(tmp_path):
    size = ctypes.c_size_t
    prototypes = {
        "first": (Result(ctypes.c_int), Result(HANDLE), ctypes.c_int),
        "final": (HANDLE, Result(size)),
        "between": (ctypes.c_int, Result(ctypes.c_int), ctypes.c_int),
        "plain": (ctypes.c_int,),
        "absent": (ctypes.c_int,),
    }
    loaded = ctypes.CDLL(str(built(tmp_path / "libtable.so")))
    library = CLibrary(loaded, prototypes, lambda symbol: LookupError(symbol), {"final": "last"})
    for _ in range(2):  # looked up, then remembered
        assert library.first(41) == (0, 42, 0xFEDCBA9876543210)
        assert library.final(2**63) == (3, 2**63)
        assert library.between(5, 7) == (0, -2)
        assert library.plain(9) == (-9,)
    with pytest.raises(LookupError, match="absent"):
        library.absent(1)
    with pytest.raises(AttributeError, match="no function 'other'"):
        _ = library.other


@linux
def test_the_first_of_the_wheels_is_loaded_and_then_is_the_process_one(tmp_path, monkeypatch):
    name = f"libnumjit-find-{os.getpid()}.so.7"
    wanted = Library("A tool", "tool", (name, "libnumjit-none.so.6"), ("nvidia/cu13/lib", "nvidia/tool/lib"))
    built(tmp_path / "one" / "nvidia" / "tool" / "lib" / name, 1)
    built(tmp_path / "two" / "nvidia" / "cu13" / "lib" / name, 2)
    monkeypatch.setitem(sys.modules, "cuda", None)
    with pytest.raises(ToolchainError, match=r"A tool is not installed .* pip install 'numjit\[cu13\]'"):
        libraries.load(wanted)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one"), str(tmp_path / "two")])
    loaded = libraries.load(wanted)
    assert loaded.answer() == 2
    assert libraries.path_of(loaded, "answer") == tmp_path / "two" / "nvidia" / "cu13" / "lib" / name
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one")])
    assert libraries.load(wanted).answer() == 2


@linux
def test_what_the_wheels_do_not_have_is_left_to_pathfinder(tmp_path, monkeypatch):
    path = built(tmp_path / f"libnumjit-else-{os.getpid()}.so.7", 5)
    asked = []

    def load(name):
        asked.append(name)
        return types.SimpleNamespace(abs_path=str(path), _handle_uint=ctypes.CDLL(str(path))._handle)

    finder = types.ModuleType("cuda.pathfinder")
    finder.load_nvidia_dynamic_lib = load
    package = types.ModuleType("cuda")
    package.pathfinder = finder
    monkeypatch.setitem(sys.modules, "cuda", package)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", finder)
    wanted = Library("A tool", "tool", ("libnumjit-nowhere.so.7",), ("nvidia/tool/lib",))
    assert libraries.load(wanted).answer() == 5
    assert asked == ["tool"]

    def fail(name):
        raise RuntimeError(f"no {name} in any folder")

    finder.load_nvidia_dynamic_lib = fail
    with pytest.raises(
        ToolchainError, match=r"A tool cannot be loaded \(no tool in any folder\); pip install"
    ):
        libraries.load(wanted)


@linux
def test_a_broken_file_is_told(tmp_path, monkeypatch):
    folder = tmp_path / "nvidia" / "tool" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnumjit-broken.so.7").write_bytes(b"no library")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    wanted = Library("A tool", "tool", ("libnumjit-broken.so.7",), ("nvidia/tool/lib",))
    with pytest.raises(
        ToolchainError, match=r"A tool cannot be loaded \(.*libnumjit-broken.*\); pip install"
    ):
        libraries.load(wanted)


@linux
@pytest.mark.parametrize("module", [nvrtc, nvjitlink])
def test_a_library_without_the_functions_is_told(module, tmp_path, monkeypatch):
    loaded = ctypes.CDLL(str(built(tmp_path / "libempty.so")))
    monkeypatch.setattr(libraries, "load", lambda library: loaded)
    monkeypatch.setattr(libraries, "path_of", lambda library, function: None)
    module._load.cache_clear()
    try:
        with pytest.raises(ToolchainError, match=r"libempty.so\) has no nv\w+Version; pip install"):
            module._call(module._load(), {nvrtc: "nvrtcVersion", nvjitlink: "nvJitLinkVersion"}[module])
    finally:
        module._load.cache_clear()


# ------------------------------------------------------------------------------- the libraries themselves


def test_versions_paths_and_architectures_are_those_of_cuda_bindings():
    bindings = pytest.importorskip("cuda.bindings.nvrtc")
    linker = pytest.importorskip("cuda.bindings.nvjitlink")
    pathfinder = pytest.importorskip("cuda.pathfinder")
    assert nvrtc.nvrtc_version() == bindings.nvrtcVersion()[1:]
    assert nvjitlink.version() == linker.version()
    known = bindings.nvrtcGetSupportedArchs()[-1]
    assert nvrtc.supported_architectures() == {(arch // 10, arch % 10) for arch in known}
    for library, path in (
        (nvrtc.LIBRARY, nvrtc.nvrtc_path()),
        (nvjitlink.LIBRARY, nvjitlink.nvjitlink_path()),
    ):
        assert pathlib.Path(path).samefile(pathfinder.load_nvidia_dynamic_lib(library.name).abs_path)


def test_numbers_and_names_are_those_of_cuda_bindings():
    bindings = pytest.importorskip("cuda.bindings.nvrtc")
    linker = pytest.importorskip("cuda.bindings.nvjitlink")
    assert bindings.nvrtcResult.NVRTC_ERROR_INVALID_OPTION == nvrtc._INVALID_OPTION
    assert bindings.nvrtcResult.NVRTC_ERROR_COMPILATION == nvrtc._COMPILATION
    assert nvrtc._status_name(nvrtc._load(), 5) == "NVRTC_ERROR_INVALID_OPTION"
    assert linker.InputType.LTOIR == nvjitlink._LTOIR
    known = {int(code): code.name for code in linker.Result}
    assert all(known[number] == name for number, name in enumerate(nvjitlink._ERRORS) if number in known)


def test_a_refused_link_says_why():
    pytest.importorskip("cuda.pathfinder")
    with pytest.raises(
        ToolchainError, match=r"nvJitLink \d+\.\d could not link junk for sm_90: .*\n.*numjit info"
    ):
        nvjitlink.link([("junk", b"no code at all")], (9, 0))
    with pytest.raises(ToolchainError, match=r"sm_11"):
        nvjitlink.link([], (1, 1))


ORDER = """
    import sys
    import ctypes
    first = sys.argv[1]
    if first == "torch":  # as torch for CUDA does
        for library in (str(sys.argv[2]), str(sys.argv[3])):
            ctypes.CDLL(library)
    if first == "bindings":
        from cuda.bindings import nvjitlink as linker, nvrtc as compiler
        linker.version(), compiler.nvrtcVersion()
    from numjit.toolchain import nvjitlink, nvrtc
    text = 'extern "C" __global__ void k(float* x) { *x = 1; }'
    code = nvrtc.compile_ltoir(text, cc=(9, 0), name="k")
    print(nvjitlink.link([("k", code)], (9, 0))[:4])
    if first == "numjit":
        from cuda.bindings import nvjitlink as linker, nvrtc as compiler
        linker.version(), compiler.nvrtcVersion()
    lines = open("/proc/self/maps").read().split()
    print(sorted({line for line in lines if "libnvrtc.so" in line or "libnvJitLink" in line}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("first", ["torch", "bindings", "numjit"])
def test_a_process_has_one_copy_whoever_loads_it_first(first):
    pytest.importorskip("cuda.bindings.nvrtc")
    paths = [nvrtc.nvrtc_path(), nvjitlink.nvjitlink_path()]
    lines = run_python(ORDER, first, *paths).stdout.splitlines()
    assert lines[0] == repr(b"\x7fELF")
    assert eval(lines[1]) == sorted(map(os.path.realpath, paths))


def test_a_prepared_linker_has_linked_once(monkeypatch):
    pytest.importorskip("cuda.bindings.nvjitlink")  # the wheels are there
    done = []
    call = nvjitlink._call

    def recorded(library, function, *arguments):
        results = call(library, function, *arguments)
        done.append(function)
        return results

    monkeypatch.setattr(nvjitlink, "_call", recorded)
    nvjitlink.prepare.cache_clear()
    for _ in range(2):
        nvjitlink.prepare((7, 5))
    nvjitlink.prepare((9, 0))
    assert done == ["nvJitLinkCreate", "nvJitLinkAddData", "nvJitLinkComplete"] * 2
    nvjitlink.prepare((1, 1))  # no such device; a link will say so
