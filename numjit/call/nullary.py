"""Calls without operands to broadcast: ``shape``, ``like``, ``dtype`` and ``device`` say what results are."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

from numjit.arrays.adapters import view
from numjit.arrays.allocate import output_library
from numjit.arrays.stated import MOST_DIMENSIONS, MOST_ELEMENTS
from numjit.arrays.view import CPU, Device, as_device
from numjit.call.arguments import Arguments, named, no_array
from numjit.dtypes import as_dtype
from numjit.errors import ArgumentError, DeviceError, NumjitError, shown
from numjit.ground.checks import Checks, as_tuple

if TYPE_CHECKING:
    from numjit.dtypes import DType

__all__ = ["Nullary", "read_nullary"]


class Nullary(NamedTuple):
    """What a call without operands to broadcast says of its results."""

    shape: tuple[int, ...]
    dtype: DType | None
    device: Device
    library: str


def read_nullary(
    name: str, arguments: Arguments, shape: Any, like: Any, dtype: Any, device: Any, out: Any
) -> Nullary:
    """Read what a call of the functor `name` says of its results.

    Parameters
    ----------
    name
        The functor's, for messages.
    arguments
        Of the call: scalars and raw operands.
    shape, like, dtype, device, out
        As the call was given them.

    Raises
    ------
    ArgumentError
        There is no shape, or one that is none.
    DeviceError
        Arguments on another device.
    """
    given = [array for array in as_tuple(out) if array is not None]
    pattern = like if like is not None else given[0] if given else None
    label = "out" if like is None else "like"
    try:
        seen = None if pattern is None else view(pattern)
    except NumjitError as error:
        raise named(error, f"{name}(): {label}") from error.__cause__
    if pattern is not None and seen is None:
        raise ArgumentError(f"{name}(): {label} is {no_array(pattern)}")
    if shape is None and seen is None:
        raise ArgumentError(
            f"{name}() has no operands to take a shape from; say shape= (and device=), like= or out="
        )
    size = tuple(seen.shape) if shape is None and seen is not None else _sizes(name, shape)
    try:
        where = as_device(device) if device is not None else None
        stated = as_dtype(dtype) if dtype is not None else None
    except NumjitError as error:
        raise named(error, f"{name}()") from None
    where = where or (seen.device if seen is not None else arguments.device if arguments.arrays else CPU)
    # 0-dim CPU arrays (scalars) have become numbers by now.
    if any(a.device != where for a in arguments.arrays if a.shape or a.device.kind != "cpu") or any(
        a.device != where for a in arguments.raws.values()
    ):
        raise DeviceError(
            f"{name}(): the result is to be on {where} but arguments are on {arguments.device}; "
            "move them to one device"
        )
    stored = stated if stated is not None else seen.dtype if like is not None and seen else None
    library = output_library([seen] if seen is not None else arguments.arrays)
    return Nullary(size, stored, where, library)


def _sizes(name: str, shape: Any) -> tuple[int, ...]:
    """Read ``shape=``: an int or a sequence of them."""
    try:
        sizes: Any = (operator.index(shape),)
    except Exception:  # noqa: BLE001 - whatever its __index__ raises, it is no int
        sizes = shape
    size = Checks(f"{name}()", ArgumentError).sizes("shape", sizes, "an int or a tuple of ints")
    if len(size) > MOST_DIMENSIONS:
        raise ArgumentError(f"{name}(): shape has {len(size)} sizes; pass at most {MOST_DIMENSIONS}")
    if max(size, default=0) > MOST_ELEMENTS or math.prod(size) > MOST_ELEMENTS:
        raise ArgumentError(f"{name}(): shape {shown(size)} is more than memory holds; pass a smaller one")
    return size
