"""SASS of linked kernels, by CUDA's own disassembler where it is installed."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sysconfig
import tempfile

from numjit.errors import ToolchainError

__all__ = ["sass"]

_SECONDS = 60


def sass(cubin: bytes) -> str:
    """Return the machine code of a cubin as text.

    Raises
    ------
    ToolchainError
        ``cuobjdump`` is not installed, or does not read the cubin.
    """
    command = _tool("cuobjdump")
    with tempfile.TemporaryDirectory(prefix="numjit-") as folder:
        path = pathlib.Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [command, "--dump-sass", str(path)],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainError(f"{command} failed ({error}); reinstall nvidia-cuda-cuobjdump") from error
    if done.returncode:
        raise ToolchainError(
            f"{command} cannot read the kernel ({done.stderr.strip()}); install that of CUDA's compilers"
        )
    return done.stdout


def _tool(name: str) -> str:
    """Find a tool in NVIDIA's wheels, else on the path."""
    for root in dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")):
        for found in sorted(pathlib.Path(root).glob(f"nvidia/*/bin/{name}")):
            return str(found)
    found_on_path = shutil.which(name)
    if found_on_path is None:
        raise ToolchainError(
            f"{name} is not installed; pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm"
        )
    return found_on_path
