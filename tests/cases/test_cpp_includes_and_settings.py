"""Whatever decides what compiled C++ does is in its key: included files, compilers and their settings."""

# ruff: noqa: E501, PT017 - C++ stays on lines of its own beside what it must answer.

import os
import pathlib
import sys
import time

import pytest
import torch

import numjit
from numjit import dtypes
from numjit.call import build
from numjit.cpu import cpp_loop
from numjit.errors import CompilationError, FunctorError, NumjitError, SettingsError, ToolchainError
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.signature import ArgumentType
from numjit.semantics.category import Category
from tests.cases import holds, run_python

BODY = "template <typename T> T f(T x) { return x * T(FACTOR); }"
#: What one process prints of an included file, on each device that is there.
PROGRAM = f"""
    import sys, torch, numjit
    text = '#include "outer.h"\\n{BODY}'
    for device in ["cpu"] + ["cuda"] * torch.cuda.is_available():
        print(numjit.elementwise(text, options=("-I", sys.argv[1]))(torch.ones(1, device=device)).item())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a header that includes another, where both compilers look."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "outer.h").write_text('#include "inner/inner.h"\n')
    write(tmp_path, 2)
    return tmp_path


def write(folder, factor):
    (folder / "inner" / "inner.h").write_text(f"#define FACTOR {factor}\n")


def made(folder):
    return numjit.elementwise(f'#include "outer.h"\n{BODY}', options=(f"-I{folder}",))


def test_an_edited_file_is_compiled_anew_by_the_next_functor(folder, device):
    x = torch.ones(2, device=device)
    first = made(folder)
    holds(first(x), [2, 2], torch.float32)
    write(folder, 3)
    holds(made(folder)(x), [3, 3], torch.float32)
    holds(first(x), [2, 2], torch.float32)
    # At other dtypes it would be of two minds.
    with pytest.raises(FunctorError, match="changed since it was made"):
        first(x.double())
    write(folder, 2)
    holds(first(x.double()), [2, 2], torch.float64)


def test_another_process_sees_the_edited_file(folder, tmp_path):
    cache = tmp_path / "cache"
    for factor in (2, 3, 3, 2):
        write(folder, factor)
        said = run_python(PROGRAM, folder, NUMJIT_CACHE_DIR=cache, CPATH=folder).stdout.split()
        assert set(said) == {f"{factor}.0"}


def test_a_file_put_before_another_is_seen(folder, tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    for place, factor in ((first, 5), (second, 7)):
        place.mkdir()
        (place / "found.h").write_text(f"#define FACTOR {factor}\n")
    text = f"#include <found.h>\n{BODY}"
    for path, factor in ((second, 7), (f"{first}{os.pathsep}{second}", 5), (second, 7)):
        monkeypatch.setenv("CPATH", str(path))
        holds(numjit.elementwise(text)(torch.ones(1)), [factor], torch.float32)


def test_the_compilers_own_options_count(monkeypatch):
    for factor in (5, 7, 5):
        monkeypatch.setenv("NUMJIT_CXX", f"g++ -DFACTOR={factor}")
        holds(numjit.elementwise(BODY)(torch.ones(1)), [factor], torch.float32)
    monkeypatch.setenv("NUMJIT_CXX", "g++")
    with pytest.raises(CompilationError, match="FACTOR"):
        numjit.elementwise(BODY)(torch.ones(1))


# --------------------------------------------------------------------------------------- tables of keys


def keys(functor):
    """Return the keys of a functor's loop and of its device code."""
    specialisation = functor.specialise((ArgumentType(dtypes.float32, Category.DIM),), dtypes.float32)
    layout = [dtypes.float32], [dtypes.float32], [""]
    loop = cpp_loop._loop_key(functor, specialisation, *layout)
    identity = cpp_loop._compiler_identity(cpp_loop.compiler())
    return f"{loop} {identity}", build._functor_key(functor, specialisation, (9, 0))


TEXT = "template <typename T> T f(T x) { return x; }\ntemplate <typename T> T g(T x) { return x; }"
FUNCTORS = {
    "plain": {},
    "text": {"text": TEXT.replace("return x", "return  x", 1)},
    "preamble": {"preamble": "#define A 1\n"},
    "entry": {"entry": "f"},
    "options": {"options": ("-DA=1",)},
    "options' values": {"options": ("-DA=2",)},
    "options in two words": {"options": ("-D", "A=1")},
    "a scalar": {"scalars": {"x": 1.0}},
    "a file included by options": {"options": ("-include=one.h",)},
}


def test_every_part_of_a_functor_has_a_key_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("one.h").write_text("#define ONE 1\n")
    found = {}
    for name, given in FUNCTORS.items():
        options = {"text": TEXT, **given}
        found[name] = keys(CppFunctor(**options))
    for name, (loop, device) in found.items():
        others = [key for other, key in found.items() if other != name]
        assert device not in [key[1] for key in others], name
        assert loop not in [key[0] for key in others], name
    before = found["a file included by options"]
    pathlib.Path("one.h").write_text("#define ONE 2\n")
    after = keys(CppFunctor(TEXT, options=("-include=one.h",)))
    assert before[0] != after[0]
    assert before[1] != after[1]


@pytest.mark.parametrize(
    "variable", ["CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH"]
)
def test_every_variable_of_the_hosts_compiler_counts(variable, monkeypatch):
    monkeypatch.delenv(variable, raising=False)
    before = keys(CppFunctor(TEXT))[0]
    monkeypatch.setenv(variable, "/nowhere")
    assert keys(CppFunctor(TEXT))[0] != before


def test_the_hosts_compiler_counts(tmp_path, monkeypatch):
    found = set()
    options = tmp_path / "options"
    for version in ("1", "2"):
        script = tmp_path / f"c++{version}"
        script.write_text(f"#!/bin/sh\necho version {version}\n")
        script.chmod(0o755)
        for word in ("", " -O1", f" @{options}", f" -specs={options}"):
            for content in ("-DA=1", "-DA=2"):
                options.write_text(content)
                monkeypatch.setenv("NUMJIT_CXX", f"{script}{word}")
                found.add(keys(CppFunctor(TEXT))[0])
    assert len(found) == 2 * (2 + 2 * 2)


def test_an_nvrtc_that_is_no_wheel_counts(monkeypatch):
    from numjit.toolchain import identity

    found = {keys(CppFunctor(TEXT))[1]}
    for told in ("/usr/lib/libnvrtc.so 1", "/usr/lib/libnvrtc.so 2"):
        build._gpu_compilers.cache_clear()
        monkeypatch.setattr(identity, "identities", lambda told=told: (told,))
        found.add(keys(CppFunctor(TEXT))[1])
    build._gpu_compilers.cache_clear()
    assert len(found) == 3


def test_what_a_macro_includes_is_compiled_by_every_process(tmp_path):
    program = f"""
        from numjit.functor.cpp.functor import CppFunctor
        text = '#define NAME <limits>\\n#include NAME\\n{BODY}'
        assert CppFunctor(text).fingerprint() == CppFunctor(text).fingerprint()
        print(CppFunctor(text).fingerprint())
    """
    assert run_python(program).stdout != run_python(program).stdout


def test_a_command_that_is_none_is_told(monkeypatch):
    monkeypatch.setenv("NUMJIT_CXX", "g++ '")
    with pytest.raises(SettingsError, match="NUMJIT_CXX"):
        numjit.elementwise(BODY)(torch.ones(1))


# ----------------------------------------------------------------------------------- failures of files


def _fails(monkeypatch, nth, *, lasting):
    """Let the `nth` operation on files in the temporary folder, or all from there on, fail."""
    import tempfile

    from numjit.cpu import cpp_library

    count = 0

    def failing(operation):
        def wrapped(*arguments, **keywords):
            nonlocal count
            count += 1
            if count == nth or (lasting and count > nth):
                raise OSError(28, "No space left on device")
            return operation(*arguments, **keywords)

        return wrapped

    monkeypatch.setattr(tempfile, "mkdtemp", failing(tempfile.mkdtemp))
    monkeypatch.setattr(pathlib.Path, "write_bytes", failing(pathlib.Path.write_bytes))
    monkeypatch.setattr(pathlib.Path, "read_bytes", failing(pathlib.Path.read_bytes))
    monkeypatch.setattr(cpp_library.ctypes, "CDLL", failing(cpp_library.ctypes.CDLL))
    return lambda: count


@pytest.mark.parametrize(("lasting", "warm"), [(False, False), (False, True), (True, True)])
def test_any_failing_file_gives_the_answer_or_a_remedy(lasting, warm, monkeypatch):
    x = torch.ones(3)
    text = f"template <typename T> T f(T x) {{ return x * T({2 + lasting + 2 * warm}); }}"
    if warm:
        numjit.elementwise(text)(x)
    number = 0
    while True:
        number += 1
        build._chunks.clear()
        if not warm:
            text = text.replace(" }", "  }")  # another key
        with monkeypatch.context() as patch:
            counted = _fails(patch, number, lasting=lasting)
            try:
                holds(numjit.elementwise(text)(x), [2 + lasting + 2 * warm] * 3, torch.float32)
            except NumjitError as error:
                assert "correct its text" not in str(error)
                assert "TMPDIR" in str(error) or "NUMJIT" in str(error)
        build._chunks.clear()
        holds(numjit.elementwise(text)(x), [2 + lasting + 2 * warm] * 3, torch.float32)
        if counted() < number:
            break
    assert number > 2


def test_a_full_temporary_folder_is_no_obstacle_to_what_is_compiled(tmp_path):
    program = """
        import sys, tempfile, torch, numjit
        tempfile.tempdir = sys.argv[1]
        for k in range(4):
            text = f"template <typename T> T f(T x) {{ return x * T({k}); }}"
            print(numjit.elementwise(text)(torch.ones(1)).item())
    """
    cache = tmp_path / "cache"
    first = run_python(program, tmp_path, NUMJIT_CACHE_DIR=cache).stdout
    assert run_python(program, tmp_path / "none", NUMJIT_CACHE_DIR=cache).stdout == first
    assert first.split() == ["0.0", "1.0", "2.0", "3.0"]


def test_a_compiler_without_room_is_not_the_texts_fault(tmp_path, monkeypatch):
    script = tmp_path / "c++full"
    script.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho '/tmp/x.s: fatal error: No space left on device' >&2\n"
        "exit 1\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("NUMJIT_CXX", str(script))
    with pytest.raises(ToolchainError, match="TMPDIR"):
        numjit.elementwise("template <typename T> T f(T x) { return x + T(41); }")(torch.ones(1))


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_compiler_that_hangs_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    script = tmp_path / "c++hanging"
    # What a driver starts has its output open, and does the work.
    script.write_text(
        f"#!/bin/sh\n[ \"$1\" = --version ] && exit 0\nsleep 100 &\necho $! > '{tmp_path}/child'\nwait\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("NUMJIT_CXX", str(script))
    monkeypatch.setattr("numjit.cpu.cpp_loop._TIMEOUT", 1.0)
    start = time.monotonic()
    with pytest.raises(ToolchainError, match="timed out"):
        numjit.elementwise("template <typename T> T f(T x) { return x + T(42); }")(torch.ones(1))
    assert time.monotonic() - start < 30
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not _runs(child):
            break
        time.sleep(0.1)
    assert not _runs(child)


def _runs(process):
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
