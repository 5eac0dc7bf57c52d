"""The project's frame: requirements, pins, the README's two lines, the wheel, what an import costs."""

import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import numjit

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text()


def requirements():
    """Yield every requirement of pyproject.toml: base, extras and dependency groups."""
    listed = [*PROJECT["project"]["dependencies"]]
    for extra, lines in PROJECT["project"]["optional-dependencies"].items():
        # One environment holds one CUDA major version; the pins are those of 13.
        listed += [] if extra == "cu12" else lines
    for lines in PROJECT["dependency-groups"].values():
        listed += [line for line in lines if isinstance(line, str)]
    return [Requirement(line) for line in listed]


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_every_requirement_is_pinned_to_a_version_it_allows(requirement):
    pin = pins()[canonicalize_name(requirement.name)]
    (exact,) = pin.specifier
    assert exact.operator == "=="
    assert requirement.specifier.contains(Version(exact.version))


def test_cuda_parts_are_pinned_to_one_release():
    # Releases of NVRTC, NVVM and nvJitLink count their builds alike: 13.0.88 belongs to 13.0.
    parts = [pins()[name] for name in ("nvidia-cuda-nvrtc", "nvidia-nvvm", "nvidia-nvjitlink")]
    assert len({str(part.specifier) for part in parts}) == 1
    toolkit = Version(next(iter(pins()["cuda-toolkit"].specifier)).version)
    assert {Version(next(iter(part.specifier)).version).release[:2] for part in parts} == {
        toolkit.release[:2]
    }


@pytest.mark.parametrize(
    ("heading", "last"), [("Try it", "-m numjit demo"), ("Test it", "-m pytest -q -n 2")]
)
def test_readme_has_one_line_that_does_it_all(heading, last):
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    (block,) = re.findall(r"^```(?:sh|bash|shell)\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL)
    (line,) = block.splitlines()
    assert line.startswith("python3 -m venv .venv && ")
    assert line.count("-c constraints.txt") == 2
    assert line.endswith(last)


def test_readme_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_importing_numjit_imports_no_heavy_library():
    script = (
        "import sys, numjit, numjit.cpu.cpp_loop, numjit.toolchain.nvrtc; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(done.stdout.split())
    assert "numjit" in loaded
    assert not loaded & {"numba", "llvmlite", "torch", "cuda", "cupy", "numba_cuda"}


def test_public_names_exist():
    for name in numjit.__all__:
        assert getattr(numjit, name) is not None


def test_wheel_holds_all_of_the_package(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    source = tmp_path / "source"
    shutil.copytree(ROOT / "numjit", source / "numjit", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "import setuptools.build_meta as b, sys; print(b.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"numjit-{numjit.__version__}-py3-none-any")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / "numjit").rglob("*.py")}
    wanted |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "numjit/functor/cpp/include").glob("*")}
    assert wanted | {"numjit/py.typed"} <= held
    assert any(name.endswith("licenses/LICENSE") for name in held)
