"""The one description of an array that the rest of numjit works with, whatever library made it."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any, NamedTuple

from numjit.dtypes import DType
from numjit.errors import DeviceError, shown

__all__ = ["CPU", "FIRST_ADDRESS", "META", "ArrayView", "Device", "as_device", "cuda"]

#: No platform has memory in the first page: what claims to have elements there had its memory taken away.
FIRST_ADDRESS = 1 << 12


_devices: dict[tuple[str, int], Device] = {}


class Device:
    """Where an array lies. There is one object a place, so `is` and ``==`` mean the same.

    Attributes
    ----------
    kind
        ``"cpu"``, ``"cuda"`` or ``"meta"``.
    index
        Which GPU; 0 for the others.
    """

    __slots__ = ("index", "kind")

    kind: str
    index: int

    def __new__(cls, kind: str, index: int = 0) -> Device:
        """Return the one object for that place."""
        found = _devices.get((kind, index))
        if found is None:
            made = super().__new__(cls)
            made.kind, made.index = kind, index
            found = _devices.setdefault((kind, index), made)
        return found

    def __reduce__(self) -> tuple[type[Device], tuple[str, int]]:
        return Device, (self.kind, self.index)

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    def __str__(self) -> str:
        return f"cuda:{self.index}" if self.kind == "cuda" else self.kind


CPU = Device("cpu")
META = Device("meta")


@functools.cache
def cuda(index: int) -> Device:
    """Return the device ``cuda:<index>``."""
    return Device("cuda", index)


def as_device(obj: Any) -> Device:
    """Return the device that a numjit or torch device or a string like ``"cuda:1"`` names.

    ``"cuda"`` alone is the current device.

    Raises
    ------
    DeviceError
        It names no CPU, CUDA or meta device.
    """
    if type(obj) is Device:
        return obj
    try:
        found = re.fullmatch(r"(cpu|cuda|meta)(?::([0-9]{1,4}))?", str(obj))
    except Exception:  # noqa: BLE001 - a user's class, which names no device either
        found = None
    if found is None:
        raise DeviceError(
            f"{shown(obj)} is no device of numjit's; use 'cpu', 'cuda', 'cuda:<index>' or 'meta'"
        )
    kind, index = found[1], found[2]
    if kind != "cuda":
        return CPU if kind == "cpu" else META
    if index:
        return cuda(int(index))
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return cuda(torch.cuda.current_device())
    from numjit.runtime.devices import current_device

    return cuda(current_device())


class ArrayView(NamedTuple):
    """An array as numjit sees it. The readers make the common ones by position: keep the order of the fields.

    Attributes
    ----------
    pointer
        Address of the element at index 0; 0 where there is no memory (meta, fake) or no element.
    dtype
        Type of the stored elements.
    shape
        Sizes (a tuple, perhaps a ``torch.Size``; fake tensors may hold symbolic integers).
    strides
        In elements, one a dimension; may be 0 or negative.
    device
        Where the elements are; of a fake tensor, where they would be.
    library
        ``"torch"``, ``"numpy"``, ``"cupy"``, ``"numba"``, ``"jax"``, ``"interface"`` (another
        ``__cuda_array_interface__``) or ``"dlpack"`` (another ``__dlpack__``).
    owner
        Keeps the memory alive (the array, the copy, or the DLPack capsule).
    original
        The object that was viewed.
    conj, neg
        The values are the conjugate, the negative, of what is stored (torch's lazy bits).
    readonly
        The memory must not be written.
    requires_grad
        torch's flag.
    fake
        A torch fake tensor: shape, dtype and device without elements.
    copied
        `pointer` leads to an aligned copy; writing there would not reach the array.
    stream
        Raw handle of the stream on which the elements are made; None where no order is needed.
    """

    pointer: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: Device
    library: str
    owner: Any
    original: Any
    conj: bool = False
    neg: bool = False
    readonly: bool = False
    requires_grad: bool = False
    fake: bool = False
    copied: bool = False
    stream: int | None = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def has_memory(self) -> bool:
        """Whether the array stands for real elements (or none at all), not for shape and dtype only."""
        return not self.fake and self.device.kind != "meta"
