"""What is on disk is used without a compiler: up to the cubin in hand, with every compiler out of reach."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("numba_cuda")

import numjit
from numjit.ahead.signatures import describe, shell_for, specialise
from numjit.cache import default_store
from numjit.call import build
from numjit.errors import CompilationError, DeviceError, ToolchainError
from numjit.toolchain import nvjitlink
from tests.cases import run_python


def functor_of(body):
    return numjit.elementwise(f"template <typename T> T f(T x) {{ {body} }}").functor


def specialised(functor):
    return specialise(functor, describe(functor, ["float32"], {}, on_gpu=True), on_gpu=True)


def shell_of(functor):
    return shell_for(functor, describe(functor, ["float32"], {}, on_gpu=True), specialised(functor))


def link(functor, cc=(9, 0)):
    return build.kernel_image(functor, specialised(functor), shell_of(functor), cc)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path))
    return tmp_path


#: Builds what a device of compute capability 9.0 loads. With an argument no compiler can be had.
PROGRAM = """
    import sys
    import torch

    class Refuse:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("numba", "numba_cuda", "llvmlite") or name in (
                "cuda.bindings.nvrtc", "cuda.bindings.nvvm", "cuda.bindings.nvjitlink"
            ):
                raise AssertionError(f"{name} is imported")

    def refuse(library):
        raise AssertionError(f"{library.title} is loaded")

    if "refuse" in sys.argv:
        sys.meta_path.insert(0, Refuse())
        from numjit.toolchain import libraries
        libraries.load = refuse
    import numjit
    from numjit.call import build
    from numjit.ahead.signatures import describe, shell_for, specialise

    x = torch.empty(64, 64, device="meta")
    for operation in (
        numjit.elementwise("template <typename T> T f(T x, T y) { return x - y * T(2); }"),
        numjit.elementwise("template <typename T> auto f(T x, T y) { return x < y; }"),
        numjit.elementwise(lambda x, y: x * y + 1),
    ):
        functor = operation.functor
        for operands in ((x, x), (x[:, 1:], x[:, 1:].bfloat16()), (x, x.t()), (x, 2)):
            described = describe(functor, operands, {}, on_gpu=True)
            made = specialise(functor, described, on_gpu=True)
            image, is_ptx = build.kernel_image(functor, made, shell_for(functor, described, made), (9, 0))
            print(image[:4] == b"\\x7fELF", is_ptx, hash(image))
"""


def test_a_second_process_needs_no_compiler(tmp_path):
    kept = {"NUMJIT_CACHE_DIR": tmp_path, "PYTHONHASHSEED": "0"}
    first = run_python(PROGRAM, **kept).stdout.splitlines()
    assert len(first) == 12
    assert all(line.startswith("True False") for line in first)
    before = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    assert run_python(PROGRAM, "refuse", **kept).stdout.splitlines() == first
    assert {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()} == before


NEW_FUNCTOR = """
    import sys, torch, numjit
    from numjit.call import build
    from numjit.ahead.signatures import describe, shell_for, specialise
    from numjit.toolchain import nvrtc

    compiled = []
    original = nvrtc._compile
    nvrtc._compile = lambda *arguments: compiled.append(arguments[4]) or original(*arguments)
    text = f"template <typename T> T f(T x, T y) {{ return x + y * T({sys.argv[1]}); }}"
    operation = numjit.elementwise(text)
    x = torch.empty(64, 64, device="meta")
    described = describe(operation.functor, (x, x.t()), {}, on_gpu=True)
    made = specialise(operation.functor, described, on_gpu=True)
    build.kernel_image(operation.functor, made, shell_for(operation.functor, described, made), (9, 0))
    heavy = {"numba", "numba_cuda", "llvmlite", "cuda.bindings.nvrtc", "cuda.bindings.nvjitlink"}
    print(compiled, sorted(sys.modules.keys() & heavy))
"""


def test_a_new_cpp_functor_takes_one_compilation_and_a_cached_shell(tmp_path):
    first = run_python(NEW_FUNCTOR, 2, NUMJIT_CACHE_DIR=tmp_path).stdout.strip()
    assert first.startswith("['LTOIR'] ['cuda.bindings.")  # Numba-CUDA's
    assert first.endswith("'llvmlite', 'numba', 'numba_cuda']")
    second = run_python(NEW_FUNCTOR, 3, NUMJIT_CACHE_DIR=tmp_path).stdout.strip()
    assert second == "['LTOIR'] []"


def test_the_linker_is_prepared_where_only_the_functor_is_compiled(monkeypatch, cache):
    prepared = []
    monkeypatch.setattr(nvjitlink, "prepare", prepared.append)
    for factor in (2, 3, 3):
        assert link(functor_of(f"return x * T({factor});"))[0].startswith(b"\x7fELF")
    assert prepared == [(9, 0)]  # not beside Numba, nor where the kernel is on disk


def test_errors_of_a_functor_and_of_a_shell_come_through(monkeypatch, cache):
    good, other = functor_of("return x * T(2);"), functor_of("return x * T(3);")
    assert link(good)[0].startswith(b"\x7fELF")
    with pytest.raises(CompilationError, match='identifier "y" is undefined'):
        link(functor_of("return y;"))
    with pytest.raises(DeviceError, match=r"7\.0"):
        link(good, (7, 0))

    def broken(spec, cc):
        raise ToolchainError("no shells today; come back")

    for shell_code, said in (
        (lambda spec, cc: (b"no code", "shell"), "could not link shell and f for sm_90"),
        (broken, "no shells today"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(build, "shell_code", shell_code)
            with pytest.raises(ToolchainError, match=said):
                link(other)
    assert link(other)[0].startswith(b"\x7fELF")


def test_a_device_newer_than_the_compiler_gets_ptx_of_the_newest_it_knows(cache):
    functor = functor_of("return x * T(5);")
    target, as_ptx = build.compile_target((99, 0))
    assert as_ptx
    assert not build.has_kernel(functor, specialised(functor), shell_of(functor), (99, 0))
    image, is_ptx = link(functor, (99, 0))
    assert is_ptx
    assert f".target sm_{target[0]}{target[1]}".encode() in image
    assert build.has_kernel(functor, specialised(functor), shell_of(functor), (99, 0))


@pytest.mark.parametrize("damage", ["garbage", "half", "empty"])
@pytest.mark.parametrize("suffix", [".ltoir", ".shell"])
def test_code_on_disk_that_does_not_link_is_compiled_anew(damage, suffix, cache):
    functor = functor_of("return x * T(7);")
    link(functor)
    store = default_store()
    (linked,) = cache.rglob("*.cubin")
    linked.unlink()
    (path,) = cache.rglob(f"*{suffix}")
    key = path.name.removesuffix(suffix)
    good = store.get(key, suffix)
    bad = {"garbage": bytes(byte ^ 0xA5 for byte in good), "half": good[: len(good) // 2], "empty": b""}
    store.put(key, suffix, bad[damage])  # as intact as any file
    with pytest.warns(RuntimeWarning, match="damaged file"):
        assert link(functor)[0].startswith(b"\x7fELF")
    assert store.get(key, suffix) not in (None, bad[damage])
    assert linked.exists()
