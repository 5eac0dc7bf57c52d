"""The arguments of a call: every operand looked at, numbers and arrays told apart, one device found."""

from __future__ import annotations

import array
import dataclasses
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numjit import dtypes
from numjit.arrays.adapters import view
from numjit.arrays.allocate import output_library
from numjit.arrays.numbers import as_python, number_type, read_element
from numjit.arrays.torch_arrays import is_wrapped_number
from numjit.arrays.view import CPU, ArrayView, Device
from numjit.errors import ArgumentError, DeviceError, NumjitError, kind_of
from numjit.functor.signature import ArgumentType
from numjit.semantics import Category, contiguous_strides

if TYPE_CHECKING:
    from numjit.dtypes import DType

__all__ = ["Arguments", "default_dtype", "named", "no_array", "read_arguments", "require_classes"]


@dataclasses.dataclass(slots=True, eq=False)
class Arguments:
    """The arguments of one call, in parameter order.

    Attributes
    ----------
    values
        The Python number of each by-value argument, None where `views` has an array.
    views
        The view of each array read from memory, None for a number.
    types
        Dtype and category of each argument.
    device
        Where the call runs.
    library
        Which library allocates the results.
    arrays
        Views of every array operand, those passed by value and raw ones included.
    raws
        View of each raw operand by position; `values` and `views` have None there.
    """

    values: list[Any]
    views: list[ArrayView | None]
    types: tuple[ArgumentType, ...]
    device: Device
    library: str
    arrays: list[ArrayView]
    raws: dict[int, ArrayView]


def read_arguments(
    name: str,
    names: Sequence[str],
    operands: int,
    bound: Sequence[Any],
    raws: Collection[int] = (),
    zero_dim: Collection[int] = (),
) -> Arguments:
    """Look at every argument: its type, its memory, its device.

    Parameters
    ----------
    name, names
        The functor's and its parameters' names, for messages.
    operands
        How many of the parameters are operands; the rest are scalars.
    bound
        One value per parameter.
    raws
        Positions of operands that the functor indexes itself.
    zero_dim
        Positions of arrays whose dimensions are a batch's alone: they count as arrays without dimensions.

    Raises
    ------
    ArgumentError
        An argument that is neither a number nor an array, a scalar with dimensions, or a raw operand whose
        elements are not one after the other in memory.
    DeviceError
        Arrays on different devices.
    """
    values: list[Any] = []
    views: list[ArrayView | None] = []
    kinds: list[ArgumentType] = []
    arrays: list[ArrayView] = []
    found: dict[int, ArrayView] = {}
    for k, obj in enumerate(bound):
        if k in raws:
            raw = found[k] = _raw_view(obj, f"{name}(): raw operand {names[k]!r}")
            arrays.append(raw)
            values.append(None)
            views.append(None)
            # An element of it counts as an operand with dimensions, whatever the array's rank.
            kinds.append(ArgumentType(raw.dtype, Category.DIM))
            continue
        try:
            number = number_type(obj)
        except ArgumentError as error:
            raise ArgumentError(f"{name}(): argument {names[k]!r}: {error}") from None
        if number is not None:
            values.append(as_python(obj))
            views.append(None)
            kinds.append(ArgumentType(number, Category.NUMBER))
            continue
        try:
            seen = view(obj)
        except NumjitError as error:
            raise named(error, f"{name}(): argument {names[k]!r}") from error.__cause__
        if seen is None:
            raise ArgumentError(f"{name}(): argument {names[k]!r} is {no_array(obj)}, or a Python number")
        if k >= operands and seen.shape and k not in zero_dim:
            raise ArgumentError(
                f"{name}(): scalar {names[k]!r} has shape {tuple(seen.shape)}; pass a number or a 0-dim array"
            )
        if not seen.shape and seen.device is CPU and is_wrapped_number(seen):
            value = read_element(seen)
            values.append(value)
            views.append(None)
            kinds.append(ArgumentType(number_type(value) or seen.dtype, Category.NUMBER))
            continue
        arrays.append(seen)
        values.append(None)
        views.append(seen)
        has_dimensions = bool(seen.shape) and k not in zero_dim
        kinds.append(ArgumentType(seen.dtype, Category.DIM if has_dimensions else Category.ZERO_DIM))
    device = _common_device(name, names, [found.get(k, seen) for k, seen in enumerate(views)], found)
    for k, seen in enumerate(views):
        if seen is not None and not seen.shape and seen.device is CPU and seen.has_memory:
            values[k] = read_element(seen)
            views[k] = None
    return Arguments(values, views, tuple(kinds), device, output_library(arrays), arrays, found)


def no_array(obj: Any) -> str:
    """Return what an object is that is no array, and what to pass in its place, for messages.

    Containers of other libraries (pandas, polars, xarray, pyarrow) are known by how they are converted.
    """
    kind = type(obj)
    called = kind_of(obj)
    if issubclass(kind, str | bytes | bytearray):
        return f"{called}; pass an array of numbers"
    if issubclass(kind, list | tuple | range | array.array | memoryview):
        return f"{called}; pass np.asarray(x)"
    if issubclass(kind, dict):
        return f"{called}; pass its values one by one, as arrays"
    if issubclass(kind, set | frozenset | Iterator):
        return f"{called}; pass np.asarray(list(x))"
    for way in ("to_numpy", "numpy", "toarray"):
        if callable(getattr(kind, way, None)):
            return f"{called}; pass x.{way}()"
    if any(hasattr(kind, way) for way in ("__array__", "__array_interface__", "__array_struct__")):
        return f"{called}; pass np.asarray(x)"
    return f"{called}; pass an array"


def require_classes(name: str, given: Mapping[str, Any]) -> None:
    """Refuse arguments, by name, that cannot say what they are: proxies whose object is gone.

    Raises
    ------
    ArgumentError
        There is one.
    """
    for label, obj in given.items():
        try:
            obj.__class__  # noqa: B018 - what `isinstance` asks
        except Exception as error:
            raise ArgumentError(
                f"{name}(): argument {label!r} is {kind_of(obj)} that does not say what it stands for "
                f"({type(error).__name__}: {error}); pass the array itself"
            ) from error


def named(error: NumjitError, where: str) -> NumjitError:
    """Return the same error with the argument in front."""
    return type(error)(f"{where}: {error}")


def _raw_view(obj: Any, where: str) -> ArrayView:
    """Look at a raw operand: an array whose elements lie one after the other, as they are."""
    try:
        seen = None if number_type(obj) is not None else view(obj)
    except NumjitError as error:
        raise named(error, where) from error.__cause__
    if seen is None:
        raise ArgumentError(f"{where} is {no_array(obj)}")
    if (seen.conj and seen.dtype.is_complex) or seen.neg:
        bit = "conj" if seen.conj else "neg"
        raise ArgumentError(
            f"{where} has torch's {bit} bit set, and a functor reads a raw operand as it is stored; "
            f"pass .resolve_{bit}()"
        )
    dense = contiguous_strides(tuple(seen.shape))
    steps = zip(seen.shape, seen.strides, dense, strict=True)
    if 0 not in seen.shape and any(size != 1 and step != wanted for size, step, wanted in steps):
        raise ArgumentError(
            f"{where} (shape {tuple(seen.shape)}, strides {tuple(seen.strides)}) is not contiguous, and a "
            "functor indexes a raw operand by element number; pass .contiguous()"
        )
    return seen


def _common_device(
    name: str, names: Sequence[str], views: Sequence[ArrayView | None], raws: Collection[int] = ()
) -> Device:
    """Return the device of all arrays; 0-dim CPU arrays, unless raw, may meet any."""
    found: tuple[int, Device] | None = None
    for k, seen in enumerate(views):
        if seen is None or (k not in raws and not seen.shape and seen.device.kind == "cpu"):
            continue
        if found is None:
            found = (k, seen.device)
        elif seen.device != found[1]:
            raise DeviceError(
                f"{name}(): operand {names[found[0]]!r} is on {found[1]} but {names[k]!r} is on "
                f"{seen.device}; move them to one device (only numbers and 0-dim CPU tensors go with any)"
            )
    return CPU if found is None else found[1]


def default_dtype() -> DType:
    """Return torch's default dtype where torch is loaded, else float32."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_dtype"):
        return dtypes.float32
    return dtypes.as_dtype(torch.get_default_dtype())
