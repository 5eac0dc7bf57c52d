"""``python -m numjit info``: what this machine has for numjit, and what it lacks with the remedy."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import pathlib
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable

from numjit import config
from numjit.errors import DeviceError, LaunchError, NumjitError, ToolchainError

__all__ = ["Fact", "Report", "collect", "numjit_version", "render", "run"]

#: What every machine needs, and what only a machine with a GPU does: distribution and import name.
ALWAYS = (("numpy", "numpy"), ("numba", "numba"), ("llvmlite", "llvmlite"))
FOR_GPU = (("numba-cuda", "numba_cuda"), ("cuda-bindings", "cuda.bindings"))
OPTIONAL = (("torch", "torch"),)

_GET_BASE = "pip install numjit"
_GET_CUDA = "for GPUs: pip install 'numjit[cu13]', or 'numjit[cu12]' for drivers before 580"


@dataclasses.dataclass(frozen=True)
class Fact:
    """One line of the report.

    Attributes
    ----------
    name, value
        What it is about, and what was found.
    remedy
        What to do where something is missing, else empty.
    needed
        Whether numjit cannot do its work here without it.
    """

    name: str
    value: str
    remedy: str = ""
    needed: bool = False


@dataclasses.dataclass(frozen=True)
class Report:
    """The sections of the report, by title."""

    sections: dict[str, tuple[Fact, ...]]

    @property
    def faults(self) -> tuple[Fact, ...]:
        """What is needed on this machine and missing."""
        return tuple(e for entries in self.sections.values() for e in entries if e.needed and e.remedy)


def run() -> int:
    """Print the report; return 0, or 1 if something needed is missing."""
    report = collect()
    print(render(report))
    return 1 if report.faults else 0


def numjit_version() -> str:
    """Return numjit's version, also where it runs from a source tree that is not installed."""
    import numjit

    return str(numjit.__version__)


def collect() -> Report:
    """Look at the machine. Numba is not imported, torch only where there is a GPU, whose driver is asked."""
    gpus = _gpus()
    has_gpu = any(entry.name.startswith("GPU ") for entry in gpus)
    return Report(
        {
            "versions": tuple(_versions(has_gpu)),
            "GPU": gpus,
            "CUDA toolchain": tuple(_toolchain(has_gpu)),
            "calls made before": (_launcher(has_gpu),),
            "C++ on the CPU": (_host_compiler(),),
            "cache": tuple(_cache()),
        }
    )


def render(report: Report) -> str:
    """Lay the report out as text; the remedies of faults come last."""
    width = max(len(entry.name) for entries in report.sections.values() for entry in entries)
    lines = []
    for title, entries in report.sections.items():
        lines.append(title)
        for entry in entries:
            note = f" ({entry.remedy})" if entry.remedy and not entry.needed else ""
            lines.append(f"  {entry.name.ljust(width)}  {entry.value}{note}")
    lines.extend(f"MISSING {fault.name}: {fault.value}; {fault.remedy}" for fault in report.faults)
    return "\n".join(lines)


def _versions(has_gpu: bool) -> Iterable[Fact]:
    yield Fact("numjit", numjit_version())
    yield Fact("python", f"{platform.python_version()} ({platform.system()} {platform.machine()})")
    for distribution, module in ALWAYS:
        yield _package(distribution, module, _GET_BASE, needed=True)
    for distribution, module in FOR_GPU:
        yield _package(distribution, module, _GET_CUDA, needed=has_gpu)
    for distribution, module in OPTIONAL:
        yield _package(distribution, module, "optional: pip install 'numjit[torch]'", needed=False)


def _package(distribution: str, module: str, remedy: str, *, needed: bool) -> Fact:
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a dotted name whose parent is missing
        found = False
    if not found:
        return Fact(distribution, "not installed", remedy, needed)
    try:
        return Fact(distribution, importlib.metadata.version(distribution))
    except importlib.metadata.PackageNotFoundError:
        return Fact(distribution, "installed, version unknown")


def _gpus() -> tuple[Fact, ...]:
    from numjit.runtime import devices

    try:
        entries = [Fact("driver", f"CUDA {_dotted(devices.driver_version())}")]
        for index in range(devices.device_count()):
            known = devices.properties(index)
            entries.append(
                Fact(
                    f"GPU {index}",
                    f"{known.name}, capability {_dotted(known.compute_capability)}, "
                    f"{known.memory_bytes / 1e9:.0f} GB",
                )
            )
    except DeviceError as error:
        return (Fact("devices", f"none; numjit runs on the CPU [{error}]"),)
    except LaunchError as error:
        return (Fact("driver", "does not work", str(error), needed=True),)
    return tuple(entries)


def _toolchain(has_gpu: bool) -> Iterable[Fact]:
    if importlib.util.find_spec("cuda") is None:
        yield Fact("libraries", "not looked for without cuda-bindings")
        return
    releases: dict[str, tuple[int, int]] = {}
    for name, find in (("NVRTC", _nvrtc), ("nvJitLink", _nvjitlink), ("NVVM", _nvvm)):
        yield _library(name, find, has_gpu, releases)
    linker = releases.get("nvJitLink")
    for name, release in releases.items():
        if linker and release > linker:
            needed = f"{release[0]}.{release[1]}"
            yield Fact(
                "versions",
                f"nvJitLink {_dotted(linker)} is older than {name} {needed} and refuses what it makes",
                f"pip install 'nvidia-nvjitlink>={needed}', or reinstall numjit's extra for CUDA",
                has_gpu,
            )


def _library(
    name: str,
    find: Callable[[], tuple[str, tuple[int, int] | None]],
    needed: bool,
    releases: dict[str, tuple[int, int]],
) -> Fact:
    """Load one of CUDA's libraries as calls do, and note its release."""
    try:
        path, release = find()
    except (ImportError, RuntimeError) as error:  # pathfinder's lists every folder it tried
        return Fact(name, f"not found ({str(error).splitlines()[0]})", _GET_CUDA, needed)
    if release:
        releases[name] = release
    return Fact(name, f"{_dotted(release) if release else 'release unknown'}  {path}")


def _nvrtc() -> tuple[str, tuple[int, int]]:
    from numjit.toolchain import nvrtc

    return nvrtc.nvrtc_path(), nvrtc.nvrtc_version()


def _nvjitlink() -> tuple[str, tuple[int, int]]:
    from numjit.toolchain import nvjitlink

    return nvjitlink.nvjitlink_path(), nvjitlink.version()


def _nvvm() -> tuple[str, tuple[int, int] | None]:
    """Look where Numba-CUDA does. NVVM does not tell its release; that of its wheel stands for it."""
    from cuda import pathfinder

    path = pathfinder.load_nvidia_dynamic_lib("nvvm").abs_path
    return path, _wheel_release(pathlib.Path(path))


def _wheel_release(library: pathlib.Path) -> tuple[int, int] | None:
    """Return ``(13, 0)`` for a file that version 13.0.88 of one of NVIDIA's wheels installed, else None."""
    for distribution in importlib.metadata.distributions():
        if not distribution.name.startswith("nvidia-"):
            continue
        for file in distribution.files or ():
            if file.name == library.name and pathlib.Path(str(file.locate())).resolve() == library.resolve():
                major, minor, *_ = distribution.version.split(".")
                return int(major), int(minor)
    return None


def _launcher(has_gpu: bool) -> Fact:
    """Say whether the launcher answers calls, and why not; only a try tells whether it can."""
    from numjit.launcher import attach
    from numjit.launcher.tested import UnavailableError, require_tested

    obstacle = "there is no GPU" if importlib.util.find_spec("torch") else "torch is not installed"
    try:
        if importlib.util.find_spec("torch"):
            require_tested(importlib.metadata.version("torch"))
            if has_gpu:
                import torch  # noqa: F401

                attach.wait()
                obstacle = attach.obstacle()
    except (UnavailableError, NumjitError, ImportError) as error:
        obstacle = str(error)
    return Fact("launcher", f"off, Python does its work: {obstacle}" if obstacle else "on")


def _host_compiler() -> Fact:
    from numjit.cpu import cpp_loop

    try:
        command = cpp_loop.compiler()
    except ToolchainError as error:
        return Fact("compiler", "none, which only C++ functors on CPU tensors need", str(error))
    answer = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return Fact("compiler", f"{(answer.stdout.splitlines() or ['?'])[0]}  {shutil.which(command[0])}")


def _cache() -> Iterable[Fact]:
    try:
        folder, limit = config.cache_dir(), config.cache_limit()
    except (NumjitError, ValueError) as error:
        yield Fact("settings", "not understood", str(error), needed=True)
        return
    try:
        found = folder.is_dir()
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()] if found else []
    except OSError as error:
        yield Fact(
            "folder", f"{folder} cannot be read ({error})", "set NUMJIT_CACHE_DIR to one that can", True
        )
        return
    yield Fact("folder", f"{folder}{'' if found else ' (made when first used)'}")
    yield Fact("size", f"{len(sizes)} files, {sum(sizes) / 1e6:.1f} MB of at most {limit / 1e6:.0f}")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
