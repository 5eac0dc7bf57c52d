"""Functors in AOTInductor packages, which run in Python and in C++ programs without Python."""

import os
import pathlib
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

import numjit
from tests.cases import ROOT, run_python
from tests.support import COMPILER

TORCH = pathlib.Path(torch.__file__).parent

pytestmark = pytest.mark.skipif(
    COMPILER is None or sys.platform != "linux", reason="AOTInductor needs g++ or clang++, on Linux"
)


@numjit.elementwise
def gate(x, y, *, low=0.25):
    if x > low:
        return x * y
    return y - x


# What opens the package in another process has to register the same operator.
REGISTER = """
numjit.torch_op(
    "numjit_aot::axpy",
    numjit.elementwise("template <typename T> T axpy(T x, T y, T a) { return a * x + y; }", a=1.0),
)
"""
exec(REGISTER)


class Seen(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(gate(x, y, low=0.5)) + 1


class Opaque(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(torch.ops.numjit_aot.axpy(x, y, a=2.0)) + 1


def operands(device, rows=3):
    """Return what the C++ program below makes, too."""
    x = torch.arange(rows * 4, dtype=torch.float32, device=device).reshape(rows, 4) / 5 - 1
    return x, torch.arange(4, dtype=torch.float32, device=device)


def package(module, device, folder, compiler):
    """Export a module and compile it; returns the package and the operators that the export holds."""
    with warnings.catch_warnings(), torch._inductor.config.patch({"cpp.cxx": (None, str(compiler))}):
        warnings.simplefilter("ignore")
        rows = torch.export.Dim("rows", min=2)
        exported = torch.export.export(module, operands(device), dynamic_shapes=({0: rows}, None))
        path = folder / f"{type(module).__name__}_{device}.pt2"
        torch._inductor.aoti_compile_and_package(exported, package_path=str(path))
    return path, [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]


def links_its_own_library(compiler, folder):
    """Whether a shared library gets a copy of the C++ library, for want of the shared one or by an option."""
    source, made = folder / "probe.cpp", folder / "probe.so"
    source.write_text(
        "#include <string>\nstd::string f(const char* text) { return text; }\n", encoding="utf-8"
    )
    subprocess.run([str(compiler), "-shared", "-fPIC", str(source), "-o", str(made)], check=True)
    return not any(name in made.read_bytes() for name in (b"libstdc++.so", b"libc++.so"))


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """Return the compiler, or a script for it, that links packages to the C++ library that torch has loaded.

    torch's packages compile regular expressions when they are loaded, and a second copy of the library has
    facets of locales of its own: it crashes.
    """
    folder = tmp_path_factory.mktemp("compiler")
    if not links_its_own_library(COMPILER, folder):
        return COMPILER
    loaded = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").split()
    library = next(word for word in loaded if "/libstdc++.so" in word)
    flags = f"-Wl,--push-state,--no-as-needed {library} -Wl,--pop-state"
    script = folder / "g++"
    shared = f'case " $* " in *" -shared "*) exec {COMPILER} {flags} "$@";; esac'
    script.write_text(f'#!/bin/sh\n{shared}\nexec {COMPILER} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    assert not links_its_own_library(script, folder)
    return script


@pytest.fixture(scope="module")
def packages(device, tmp_path_factory, compiler):
    folder = tmp_path_factory.mktemp("packages")
    return {module: package(module(), device, folder, compiler) for module in (Seen, Opaque)}


LOAD = """
import sys
import torch
{prepare}
loaded = torch._inductor.aoti_load_package(sys.argv[1])
x = torch.arange(12, dtype=torch.float32, device=sys.argv[2]).reshape(3, 4) / 5 - 1
print(loaded(x, torch.arange(4, dtype=torch.float32, device=sys.argv[2])).tolist(), "numjit" in sys.modules)
"""


def run_package(path, device, prepare="", check=True):
    return run_python(LOAD.format(prepare=prepare), path, device, check=check)


@pytest.mark.parametrize("module", [Seen, Opaque])
def test_a_package_runs_here(packages, module, device):
    path, targets = packages[module]
    assert any(target.startswith("numjit") for target in targets) == (module is Opaque)
    loaded = torch._inductor.aoti_load_package(str(path))
    for rows in (3, 7):
        x, y = operands(device, rows)
        torch.testing.assert_close(loaded(x, y), module()(x, y))


def test_a_seen_through_functor_needs_no_numjit(packages, device):
    done = run_package(packages[Seen][0], device)
    assert done.stdout.strip() == f"{Seen()(*operands(device)).tolist()} False"


def test_an_operator_has_to_be_registered(packages, device):
    done = run_package(packages[Opaque][0], device, "import numjit\n" + REGISTER)
    assert done.stdout.strip() == f"{Opaque()(*operands(device)).tolist()} True"
    done = run_package(packages[Opaque][0], device, check=False)
    assert done.returncode
    assert "numjit_aot::axpy" in done.stderr.strip().splitlines()[-1]


# ---------------------------------------------------------------------------------- without any Python


def example():
    """Return the C++ program of the documentation."""
    text = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")
    return text.split("```cpp\n", 1)[1].split("```", 1)[0]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Compile the program that runs a package given by its name."""
    if not (TORCH / "include/torch/csrc/inductor/aoti_package/model_package_loader.h").exists():
        pytest.skip("this torch has no headers")
    folder = tmp_path_factory.mktemp("program")
    (folder / "main.cpp").write_text(example(), encoding="utf-8")
    flags = [
        "-std=c++20", "-O0", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{TORCH}/include", f"-I{TORCH}/include/torch/csrc/api/include",
        f"-L{TORCH}/lib", f"-Wl,-rpath,{TORCH}/lib",
    ]  # fmt: skip
    command = [COMPILER, "main.cpp", "-o", "main", *flags, "-ltorch", "-ltorch_cpu", "-lc10"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return folder / "main"


def run_program(program, path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(program), str(path)], check=False, capture_output=True, text=True, env=environment, timeout=120
    )


def on_the_cpu(device):
    if device != "cpu":
        pytest.skip("the program makes CPU tensors")


@pytest.mark.slow
def test_a_program_without_python_runs_a_seen_through_functor(packages, program, device):
    on_the_cpu(device)
    linked = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
    assert "libtorch_cpu" in linked
    assert "libpython" not in linked
    assert "libtorch_python" not in linked
    done = run_program(program, packages[Seen][0])
    assert done.returncode == 0, done.stderr
    found = torch.tensor([float(line) for line in done.stdout.split()])
    torch.testing.assert_close(found, Seen()(*operands("cpu")).flatten(), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_a_program_without_python_names_the_operator_that_it_lacks(packages, program, device):
    on_the_cpu(device)
    done = run_program(program, packages[Opaque][0])
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "Could not find schema for numjit_aot::axpy."
