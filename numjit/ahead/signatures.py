"""From a described call to the kernel or loop that it will run, without a device and without arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numjit import dtypes
from numjit.ahead.operand import Operand
from numjit.arrays.adapters import view
from numjit.arrays.numbers import number_type
from numjit.arrays.view import CPU, META, ArrayView
from numjit.call import build
from numjit.call.binding import Binder
from numjit.errors import ArgumentError, NumjitError, UnsupportedDtypeError, kind_of, shown
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import MISSING, ArgumentType, Specialisation, with_signs
from numjit.ground.checks import is_a
from numjit.kernels.spec import InputSlot, OutputSlot, ShellSpec
from numjit.plan.choose import choose
from numjit.plan.coalesce import coalesce
from numjit.semantics import Category, broadcast_shapes, broadcast_strides, contiguous_strides, output_strides

if TYPE_CHECKING:
    from numjit.dtypes import DType
    from numjit.functor.kinds import Functor

__all__ = ["Described", "describe", "shell_for", "specialise"]

#: Bytes of kernel parameters since CUDA 12.1; that a device takes fewer shows at the call.
_PARAMETER_BYTES = 32764
_ZEROS: dict[str, bool | int | float | complex] = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}


@dataclasses.dataclass(frozen=True)
class Described:
    """The arguments of a call to come.

    Attributes
    ----------
    types
        Dtype and category of each argument, operands first.
    views
        Layout of each argument in memory; None for those by value and raw ones.
    raws
        Positions of raw operands.
    shapes
        Shape and element strides of each operand that has a part in broadcasting, numbers included.
    """

    types: tuple[ArgumentType, ...]
    views: tuple[ArrayView | None, ...]
    raws: frozenset[int]
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    @property
    def storages(self) -> tuple[DType | None, ...]:
        """Stored dtype of each argument, None where it comes by value."""
        return tuple(None if seen is None else seen.dtype for seen in self.views)

    @property
    def view_bits(self) -> tuple[str, ...]:
        """What is applied to each argument when it is loaded."""
        return tuple(_bits(seen) for seen in self.views)


def describe(
    functor: Functor, operands: Sequence[Any], scalars: Mapping[str, Any], *, on_gpu: bool
) -> Described:
    """Read a described call.

    Parameters
    ----------
    functor
        The functor.
    operands
        For each operand a dtype, an `Operand`, a number, or an array, which may be one without memory.
    scalars
        Examples of scalars by name; the others have the kind of their default, and are floats without one.
    on_gpu
        Where the call will run. On the CPU every 0-dim array is taken by value.

    Raises
    ------
    ArgumentError
        They do not fit the functor's parameters.
    """
    signature = functor.signature
    found = [_read(functor.name, operand) for operand in operands]
    bound = Binder(signature).bind(found, {**_examples(functor), **scalars})
    types: list[ArgumentType] = []
    views: list[ArrayView | None] = []
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for k, value in enumerate(bound):
        seen = value if isinstance(value, ArrayView) else None
        by_value = seen is None or (not seen.shape and (seen.device is CPU or not on_gpu))
        if k in signature.raws:
            if seen is None:
                raise ArgumentError(
                    f"{functor.name}: raw operand {signature.operands[k].name!r} is an array; describe it by "
                    "a dtype or an array"
                )
            types.append(ArgumentType(seen.dtype, Category.DIM))
            by_value = True
        elif seen is None:
            number = number_type(value)
            if number is None:
                raise ArgumentError(
                    f"{functor.name}: an argument is described by {kind_of(value)}; give a number"
                )
            types.append(ArgumentType(number, Category.NUMBER))
        else:
            types.append(ArgumentType(seen.dtype, Category.DIM if seen.shape else Category.ZERO_DIM))
        views.append(None if by_value else seen)
        if k < len(signature.operands) and k not in signature.raws:
            shapes.append(((), ()) if seen is None else (tuple(seen.shape), tuple(seen.strides)))
    if isinstance(functor, PythonFunctor) and functor.reads_signs:
        types = list(with_signs(types, bound))
    return Described(tuple(types), tuple(views), signature.raws, tuple(shapes))


def _examples(functor: Functor) -> dict[str, Any]:
    """Return a number of the right kind for each scalar without a default."""
    from numjit.functor.device_function import argument_types

    signature = functor.signature
    kinds = argument_types(functor, [dtypes.float32] * len(signature.operands))[len(signature.operands) :]
    return {
        p.name: _ZEROS[kind.dtype.kind]
        for p, kind in zip(signature.scalars, kinds, strict=True)
        if p.default is MISSING
    }


def _read(name: str, operand: Any) -> Any:
    """Return a number as it is, and all else as the view of an array."""
    if number_type(operand) is not None:
        return operand
    if not is_a(operand, Operand):
        try:
            seen = view(operand)
        except NumjitError as error:
            raise type(error)(f"{name}: an operand is described by an array: {error}") from error.__cause__
        if seen is not None:
            return _placed(seen)
        try:
            if operand is None:  # NumPy takes it for float64
                raise UnsupportedDtypeError("None is not a dtype")
            operand = Operand(operand)
        except UnsupportedDtypeError as error:
            raise ArgumentError(
                f"{name}: an operand is described by {shown(operand)} ({error}); give a dtype, a number, an "
                "array (one on torch's meta device will do), or numjit.Operand"
            ) from None
    dtype = operand.element
    strides = contiguous_strides(operand.shape) if operand.strides is None else operand.strides
    pointer = operand.offset * dtype.itemsize
    return ArrayView(pointer, dtype, operand.shape, strides, META, "torch", owner=None, original=None)


def _placed(seen: ArrayView) -> ArrayView:
    """Return an array with the alignment that its layout would have on a device.

    torch aligns storages well, so the offset tells, also where there is no memory.
    """
    offset = getattr(seen.original, "storage_offset", None)
    if offset is None:
        return seen
    return seen._replace(pointer=offset() * seen.dtype.itemsize)


def shell_for(
    functor: Functor, described: Described, specialisation: Specialisation, *, fast_memory: bool = False
) -> ShellSpec:
    """Return the shell that a call takes, as `numjit.call.planned` chooses it for a new result.

    Parameters
    ----------
    functor, described, specialisation
        What is called, and how.
    fast_memory
        The kind of device; see `numjit.plan.choose.choose`.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    """
    outputs, indexed = specialisation.outputs, functor.uses_index
    inputs = [
        InputSlot(dtypes.int64, None, raw=True)
        if k in described.raws
        else InputSlot(dtype, None if seen is None else seen.dtype, _bits(seen))
        for k, (dtype, seen) in enumerate(zip(specialisation.inputs, described.views, strict=True))
    ]
    memory = [seen for seen in described.views if seen is not None]
    shape = broadcast_shapes(*(sizes for sizes, _ in described.shapes)) if memory else (1 << 20,)
    strides = output_strides(shape, described.shapes)
    rows = [tuple(s * dtype.itemsize for s in strides) for dtype in outputs]
    itemsizes = [dtype.itemsize for dtype in outputs]
    for seen in memory:
        itemsize = seen.dtype.itemsize
        steps = broadcast_strides(shape, tuple(seen.shape), tuple(seen.strides))
        rows.append(tuple(s * itemsize for s in steps))
        itemsizes.append(itemsize)
    if indexed:
        rows.append(contiguous_strides(shape))
        itemsizes.append(1)
        inputs.append(InputSlot(dtypes.int64, None, is_index=True))
    layout = coalesce(shape, rows)
    bases = [0] * len(outputs) + [seen.pointer for seen in memory] + [0] * indexed
    addresses = [base + offset for base, offset in zip(bases, layout.offsets, strict=True)]
    chosen = choose(
        layout, itemsizes, addresses, len(outputs), virtual=int(indexed), parameter_bytes=_PARAMETER_BYTES,
        fast_memory=fast_memory,
    )  # fmt: skip
    return ShellSpec(tuple(OutputSlot(dtype, dtype) for dtype in outputs), tuple(inputs), chosen.variant)


def specialise(functor: Functor, described: Described, *, on_gpu: bool) -> Specialisation:
    """Return the functor at the types of a described call."""
    from numjit.call.arguments import default_dtype

    return build.specialise(functor, described.types, default_dtype(), "cuda" if on_gpu else "cpu")


def _bits(seen: ArrayView | None) -> str:
    if seen is None:
        return ""
    conj = seen.conj and seen.dtype.is_complex
    return " ".join(bit for bit, on in (("conj", conj), ("neg", seen.neg)) if on)
