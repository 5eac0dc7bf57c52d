"""Every input of a compilation is in the key of what it makes, and nothing else is."""

import os
import pathlib
import shutil
import sys

import pytest

import numjit
from numjit import dtypes
from numjit.cache import keys
from numjit.cache.elf import build_id
from numjit.call import build
from numjit.cpu import cpp_loop, object_code
from numjit.functor.signature import ArgumentType
from numjit.semantics import Category
from numjit.toolchain import identity, libraries
from tests.cases import ROOT, run_python


def functors():
    return {
        "python": numjit.elementwise(lambda x: x * 2).functor,
        "c++": numjit.elementwise("template <typename T> T f(T x) { return x * T(2); }").functor,
    }


def specialisations(dtype=dtypes.float32):
    argument = (ArgumentType(dtype, Category.DIM),)
    return {
        name: build.specialise(functor, argument, dtypes.float32, "cpu")
        for name, functor in functors().items()
    }


def all_keys(dtype=dtypes.float32, stored=dtypes.float32, view="", cc=(9, 0)):
    """Return the keys of what a call on one operand compiles, by what it is."""
    from numjit.ahead.signatures import describe, shell_for

    for cached in (build._environment, build._gpu_compilers):
        cached.cache_clear()
    made, written = specialisations(dtype), functors()
    operation = written["c++"]
    called = describe(operation, [stored], {}, on_gpu=True)
    spec = shell_for(operation, called, specialisations(stored)["c++"])
    loop = ([stored], [stored], [view])
    found = {
        "loop": object_code.key_of(written["python"].fingerprint(), made["python"].key, *loop),
        "c++ loop": cpp_loop._loop_key(written["c++"], made["c++"], *loop),
        "shell": build._shell_key(spec, cc),
        "types": build._environment(),
    }
    for name, functor in written.items():
        found[f"{name} functor"] = build._functor_key(functor, made[name], cc)
        found[f"{name} kernel"] = build._linked_key(functor, made[name], spec, cc)
    return found


HOST = {"loop", "c++ loop"}
GPU = {"shell", "python functor", "c++ functor", "python kernel", "c++ kernel"}
EVERYTHING = {*HOST, *GPU, "types"}


def _version(monkeypatch, name):
    monkeypatch.setattr(build, "version_of", lambda asked: "9" if asked == name else keys.version_of(asked))
    monkeypatch.setattr(
        object_code, "version_of", lambda asked: "9" if asked == name else keys.version_of(asked)
    )


def _wheel(monkeypatch, name):
    monkeypatch.setattr(build, "wheel_version", lambda asked: "9" if asked == name else "absent")


def _sources(monkeypatch, _):
    for module in (build, object_code, cpp_loop):
        monkeypatch.setattr(module, "sources_digest", lambda: "other")


def _library(monkeypatch, position):
    real = identity.identities()
    monkeypatch.setattr(identity, "identities", lambda: [*real[:position], "other", *real[position + 1 :]])


CHANGES = {
    "numjit": (_sources, None, EVERYTHING),
    "Numba": (_version, "numba", EVERYTHING - {"c++ loop"}),
    "llvmlite": (_version, "llvmlite", EVERYTHING - {"c++ loop"}),
    "NumPy": (_version, "numpy", EVERYTHING - {"c++ loop"}),
    "Numba-CUDA": (_version, "numba-cuda", GPU | {"types"}),
    "cuda-bindings": (_version, "cuda-bindings", GPU),
    **{
        wheel: (_wheel, wheel, GPU)
        for wheel in ("nvidia-cuda-nvrtc", "nvidia-nvjitlink", "nvidia-nvvm", "nvidia-cuda-nvrtc-cu12",
                      "nvidia-nvjitlink-cu12", "nvidia-cuda-nvcc-cu12")
    },
    "the system's NVRTC": (_library, 0, GPU),
    "the system's nvJitLink": (_library, 1, GPU),
    "the system's libNVVM": (_library, 2, GPU),
    "Numba's processor": (lambda m, _: m.setattr(object_code, "_processor", lambda: "other"), None, {"loop"}),
    "the compiler's processor": (
        lambda m, _: m.setattr(cpp_loop, "_processor", lambda: "other"), None, {"c++ loop"},
    ),
    "C++ flags": (lambda m, _: m.setattr(cpp_loop, "_FLAGS", ("-O0",)), None, {"c++ loop"}),
    "Numba's settings": (lambda m, _: m.setenv("NUMBA_OPT", "1"), None, GPU | {"loop"}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    yield
    monkeypatch.undo()
    build._environment.cache_clear()
    build._gpu_compilers.cache_clear()


@pytest.mark.parametrize("what", list(CHANGES))
def test_each_input_of_a_compilation_gives_a_new_key(monkeypatch, what):
    change, argument, affected = CHANGES[what]
    if change is _wheel:
        _wheel(monkeypatch, "none")
    before = all_keys()
    assert all_keys() == before
    change(monkeypatch, argument)
    after = all_keys()
    assert {name for name in before if after[name] != before[name]} == affected


def test_what_a_call_differs_in_gives_a_new_key():
    before = all_keys()
    for changes, affected in (
        ({"dtype": dtypes.float64}, (HOST | GPU) - {"shell"}),
        ({"stored": dtypes.float16}, {*HOST, "shell", "python kernel", "c++ kernel"}),
        ({"view": "neg"}, HOST),
        ({"cc": (8, 0)}, GPU),
    ):
        after = all_keys(**changes)
        assert {name for name in before if after[name] != before[name]} == affected, changes


def test_all_keys_differ():
    found = all_keys()
    assert len(set(found.values())) == len(found)


class TestSources:
    @pytest.fixture
    def copy(self, tmp_path):
        shutil.copytree(ROOT / "numjit", tmp_path / "numjit", ignore=shutil.ignore_patterns("__pycache__"))
        return tmp_path

    def digest(self, copy):
        code = "from numjit.cache.keys import sources_digest; print(sources_digest())"
        return run_python(f"import sys; sys.path.insert(0, {str(copy)!r}); {code}").stdout.strip()

    def test_contents_count_where_size_and_date_are_the_same(self, copy):
        before = self.digest(copy)
        path = copy / "numjit" / "functor" / "cpp" / "include" / "core.h"
        about, text = path.stat(), path.read_bytes()
        path.write_bytes(text[:-2] + bytes([text[-2] ^ 1]) + text[-1:])
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
        assert path.stat().st_size == about.st_size
        assert self.digest(copy) != before
        path.write_bytes(text)  # another date, the same contents
        assert self.digest(copy) == before

    def test_without_readable_sources_nothing_on_disk_is_known(self, monkeypatch):
        def refuse(*_):
            raise PermissionError

        before = keys.sources_digest.__wrapped__()
        monkeypatch.setattr(keys, "_collect", refuse)
        assert len({before, keys.sources_digest.__wrapped__(), keys.sources_digest.__wrapped__()}) == 3


class TestLibraries:
    def test_a_file_without_a_number_is_known_by_name_size_and_date(self, tmp_path):
        path = tmp_path / "libnvrtc.so.12"
        path.write_bytes(b"one")
        os.utime(path, (1, 1))
        found = {identity.file_identity(path)}
        os.utime(path, (2, 2))
        found.add(identity.file_identity(path))
        path.write_bytes(b"four")
        os.utime(path, (1, 1))
        found.add(identity.file_identity(path))
        path.rename(tmp_path / "libnvrtc.so.12.9.1")
        path.symlink_to("libnvrtc.so.12.9.1")
        found.add(identity.file_identity(path))
        assert len(found) == 4
        assert identity.file_identity(tmp_path / "none") == "unknown"

    @pytest.mark.skipif(sys.platform != "linux", reason="ELF")
    def test_linkers_number_their_files(self, tmp_path):
        found = next(map(pathlib.Path, libraries.in_wheels(libraries.NVRTC)), None)
        if found is None:
            pytest.skip("no wheel of NVRTC")
        number = build_id(found)
        assert len(number) == 40
        copy = tmp_path / "library"
        with found.open("rb") as file:
            copy.write_bytes(file.read(1 << 16))
        assert build_id(copy) in {number, ""}
        for size in (0, 3, 63, 64, 200, 4096):
            copy.write_bytes(copy.read_bytes()[:size] if size else b"")
            build_id(copy)

    def test_what_is_loaded_comes_before_the_wheels(self, monkeypatch, tmp_path):
        loaded, wheel = tmp_path / "loaded", tmp_path / "wheel"
        loaded.write_bytes(b"one")
        wheel.write_bytes(b"another")
        monkeypatch.setattr(libraries, "in_wheels", lambda library: iter([str(wheel)]))
        monkeypatch.setattr(identity, "_loaded_from", lambda *_: None)
        assert identity.identities() == [identity.file_identity(wheel)] * 3
        monkeypatch.setattr(identity, "_loaded_from", lambda *_: loaded)
        assert identity.identities()[:2] == [identity.file_identity(loaded)] * 2
