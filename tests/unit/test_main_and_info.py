"""The command line: help, version, the report of ``info`` and its exit status."""

import importlib.metadata
import importlib.util
import re
import subprocess
import sys

import pytest

import numjit
from numjit.__main__ import main
from numjit.errors import DeviceError, LaunchError, ToolchainError
from numjit.runtime import devices
from numjit.tools import info


def report(**sections):
    return info.Report({title: tuple(entries) for title, entries in sections.items()})


def test_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "numjit", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"numjit {numjit.__version__}\n"


def test_help_names_the_commands(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert "demo" in shown
    assert "info" in shown


@pytest.mark.parametrize("arguments", [["paint"], ["demo", "--device", "tpu"], ["info", "extra"]])
def test_bad_arguments_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: python -m numjit" in capsys.readouterr().err


def test_no_command_shows_help(capsys):
    assert main([]) == 2
    assert "commands" in capsys.readouterr().err


def test_info_shows_this_machine(capsys):
    status = main(["info"])
    shown = capsys.readouterr().out
    assert status == 0, shown
    for name in ("numpy", "numba", "llvmlite"):
        assert re.search(rf"^  {name} +{re.escape(importlib.metadata.version(name))}$", shown, re.MULTILINE)
    for title in ("versions", "GPU", "CUDA toolchain", "C++ on the CPU", "cache"):
        assert re.search(rf"^{re.escape(title)}$", shown, re.MULTILINE)
    assert "MISSING" not in shown


def hide(monkeypatch, *modules):
    """Let this process believe that some modules are not installed."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name in modules else real(name, *rest)
    )


def test_info_fails_without_numba(monkeypatch, capsys):
    hide(monkeypatch, "numba")
    assert main(["info"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "MISSING numba: not installed; pip install numjit"


@pytest.mark.parametrize("has_gpu", [True, False])
def test_cuda_parts_are_needed_only_where_there_is_a_gpu(monkeypatch, has_gpu):
    hide(monkeypatch, "numba_cuda", "torch")
    gpus = (info.Fact("GPU 0", "some card"),) if has_gpu else (info.Fact("device", "none"),)
    monkeypatch.setattr(info, "_gpus", lambda: gpus)
    faults = info.collect().faults
    assert [fault.name for fault in faults] == (["numba-cuda"] if has_gpu else [])
    assert all("numjit[cu13]" in fault.remedy for fault in faults)


@pytest.mark.parametrize(
    ("raised", "shown", "faults"),
    [
        (DeviceError("no NVIDIA driver here"), "none; numjit runs on the CPU [no NVIDIA driver here]", 0),
        (LaunchError("could not start; reboot"), "does not work", 1),
    ],
)
def test_a_driver_without_devices_and_a_broken_one(monkeypatch, raised, shown, faults):
    def refuse():
        raise raised

    monkeypatch.setattr(devices, "driver_version", refuse)
    entries = info._gpus()
    assert entries[0].value == shown
    assert len(report(GPU=entries).faults) == faults


def test_a_missing_library_is_told_with_its_remedy():
    def find():
        raise ToolchainError("NVRTC is not installed")

    entry = info._library("NVRTC", find, True, {})
    assert "not found" in entry.value
    assert "numjit[cu13]" in entry.remedy
    assert report(toolchain=[entry]).faults == (entry,)


@pytest.mark.parametrize(("linker", "faults"), [((13, 0), 0), ((13, 2), 0), ((12, 9), 1)])
def test_a_linker_older_than_the_compiler_is_a_fault(monkeypatch, linker, faults):
    pytest.importorskip("cuda.bindings")

    def library(name, find, needed, releases):
        releases[name] = linker if name == "nvJitLink" else (13, 0) if name == "NVRTC" else (12, 0)
        return info.Fact(name, "there")

    monkeypatch.setattr(info, "_library", library)
    found = report(toolchain=info._toolchain(True)).faults
    assert len(found) == faults
    for fault in found:
        assert fault.value == "nvJitLink 12.9 is older than NVRTC 13.0 and refuses what it makes"
        assert "nvidia-nvjitlink>=13.0" in fault.remedy


def test_a_missing_compiler_is_no_fault(monkeypatch):
    monkeypatch.setenv("NUMJIT_CXX", "/no/such/compiler")
    entry = info._host_compiler()
    assert "none" in entry.value
    assert "NUMJIT_CXX" in entry.remedy
    assert not report(cpu=[entry]).faults
    assert entry.remedy in info.render(report(cpu=[entry]))


def test_cache_size_counts_every_file(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path))
    (tmp_path / "deep").mkdir()
    (tmp_path / "a").write_bytes(b"x" * 1_000_000)
    (tmp_path / "deep" / "b").write_bytes(b"x" * 500_000)
    folder, size = info._cache()
    assert folder.value == str(tmp_path)
    assert size.value.startswith("2 files, 1.5 MB of at most ")


def test_a_setting_that_cannot_be_read_is_a_fault(monkeypatch):
    monkeypatch.setenv("NUMJIT_CACHE_LIMIT", "abc")
    entries = list(info._cache())
    (fault,) = report(cache=entries).faults
    assert "NUMJIT_CACHE_LIMIT is 'abc'" in fault.remedy
