"""On which stream a call runs, and which streams it must come after: decisions, no effects.

The rules are those of the two protocols: a ``stream`` entry of ``__cuda_array_interface__`` names the
stream that makes the elements, and ``__dlpack__`` is told the stream on which they are wanted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from numjit.arrays.view import ArrayView, Device

__all__ = ["LEGACY_STREAM", "dlpack_stream", "launch_stream", "producers"]

#: The legacy default stream, by the name that both protocols give it (0 is forbidden there).
LEGACY_STREAM = 1


def launch_stream(views: Iterable[ArrayView], device_index: int, output_library: str = "") -> int:
    """Return the raw handle of the stream for a call on a CUDA device.

    torch's current stream where any operand or output is torch's (its allocator and its users count on
    it); else what the first CUDA operand's library reports as current: CuPy's current stream, the
    interface's ``stream`` entry; else the legacy default stream.

    Parameters
    ----------
    views
        Operands in order, given outputs after them.
    device_index
        The device of the call.
    output_library
        The library that allocates the outputs, ``""`` where none are allocated.
    """
    first = None
    for view in views:
        if view.library == "torch":
            return torch_stream(device_index)
        if first is None and view.device.kind == "cuda":
            first = view
    if output_library == "torch":
        return torch_stream(device_index)
    if "cupy" in (output_library, first.library if first else ""):
        return _cupy_stream(device_index)
    if first is not None and first.stream is not None:
        return first.stream
    return LEGACY_STREAM


def producers(views: Iterable[ArrayView], stream: int) -> tuple[int, ...]:
    """Return the streams, each once, that `stream` must wait for before it reads (or writes) the arrays."""
    wanted = stream or LEGACY_STREAM
    found = dict.fromkeys(view.stream or LEGACY_STREAM for view in views if view.stream is not None)
    found.pop(wanted, None)
    return tuple(found)


def torch_stream(device_index: int) -> int:
    """Return torch's current stream of the calling thread; 0 is its default, the legacy stream."""
    torch = sys.modules["torch"]
    torch.cuda.init()  # at once when done before; tells a forked child what is wrong
    return int(torch._C._cuda_getCurrentRawStream(device_index))


def dlpack_stream(device: Device) -> int:
    """Return the stream to ask a DLPack producer for, before the other operands are known.

    torch's current stream where torch is in use, else the legacy default one. Where the call then runs on
    another stream, `producers` says so and the order is made by an event.
    """
    torch = sys.modules.get("torch")
    if (
        device.kind != "cuda"
        or torch is None
        or not getattr(torch, "cuda", None)
        or not torch.cuda.is_initialized()
    ):
        return LEGACY_STREAM
    return torch._C._cuda_getCurrentRawStream(device.index) or LEGACY_STREAM


def _cupy_stream(device_index: int) -> int:
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(device_index):  # CuPy keeps one current stream a device
        return int(cupy.cuda.get_current_stream().ptr)
