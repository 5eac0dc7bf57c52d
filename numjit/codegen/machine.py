"""The two machines that code is emitted for, and what each can do."""

from __future__ import annotations

import dataclasses
import functools
import platform
from collections.abc import Callable
from typing import Any

__all__ = ["HOST", "Machine", "ptx"]


@dataclasses.dataclass(frozen=True)
class Machine:
    """A target of LLVM emission.

    Attributes
    ----------
    kind
        ``"ptx"`` for NVIDIA GPUs (inline PTX where LLVM's NVPTX back end would split or refuse),
        ``"host"`` for the CPU (plain LLVM).
    cc
        Compute capability ``(major, minor)``; ``(0, 0)`` for the host.
    on_access
        Host only: called as ``on_access(builder, address, width)`` before every memory access is
        emitted, so that a checker can emit tests of alignment and bounds.
    """

    kind: str
    cc: tuple[int, int] = (0, 0)
    on_access: Callable[[Any, Any, int], None] | None = None

    @property
    def converts_half(self) -> bool:
        """Whether the host converts float16 in hardware (without, LLVM would call a library for each)."""
        return not self.is_ptx and _host_converts_half()

    @property
    def is_ptx(self) -> bool:
        """Whether PTX is emitted."""
        return self.kind == "ptx"


@functools.cache
def _host_converts_half() -> bool:
    import llvmlite.binding as llvm

    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    return bool(llvm.get_host_cpu_features().get("f16c", False))


#: The CPU.
HOST = Machine("host")


def ptx(cc: tuple[int, int]) -> Machine:
    """Return the machine of compute capability `cc`."""
    return Machine("ptx", cc)
