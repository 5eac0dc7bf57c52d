"""One call: from bound arguments to results. What depends only on types and layout is planned once."""

from __future__ import annotations

import dataclasses
import math
import struct
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numjit import build, dtypes, warm_arrays
from numjit.arrays.adapters import view, writable_view
from numjit.arrays.allocate import empty, output_library
from numjit.arrays.numbers import (
    CHUNK_SLOT,
    as_python,
    chunk_slot,
    convert,
    number_type,
    read_element,
    slot_format,
)
from numjit.arrays.streams import launch_stream, producers
from numjit.arrays.torch_arrays import count_write, is_wrapped_number
from numjit.arrays.view import CPU, ArrayView, Device, contiguous_strides
from numjit.errors import (
    ArgumentError,
    BroadcastError,
    DeviceError,
    NumjitError,
    OutputError,
    OverlapError,
)
from numjit.functor.signature import ArgumentType, Specialisation
from numjit.kernels.spec import InputSlot, OutputSlot, ShellSpec
from numjit.plan.choose import DEFAULT, Knobs, choose
from numjit.plan.coalesce import Layout, coalesce
from numjit.semantics import (
    Category,
    Extent,
    Overlap,
    broadcast_shapes,
    broadcast_strides,
    can_cast,
    classify,
    has_internal_overlap,
    output_strides,
)
from numjit.tuning import best, layout_class
from numjit.warm import Entry, WarmPath

if TYPE_CHECKING:
    from numjit.build import Functor
    from numjit.dtypes import DType

__all__ = ["Arguments", "Call", "Nullary", "Plan", "default_dtype", "read_arguments", "view_bits"]


@dataclasses.dataclass(frozen=True)
class Nullary:
    """What ``shape``, ``dtype`` and ``device`` (or ``like``) say of a call without operands to broadcast."""

    shape: tuple[int, ...]
    dtype: DType | None
    device: Device
    library: str


@dataclasses.dataclass(slots=True)
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
            raise _named(error, f"{name}(): argument {names[k]!r}") from error
        if seen is None:
            raise ArgumentError(
                f"{name}(): argument {names[k]!r} is a {type(obj).__name__}; "
                "pass an array, or a Python number"
            )
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


def _named(error: NumjitError, where: str) -> NumjitError:
    """Return the same error with the argument in front."""
    return type(error)(f"{where}: {error}")


def _raw_view(obj: Any, where: str) -> ArrayView:
    """Look at a raw operand: an array whose elements lie one after the other, as they are."""
    try:
        seen = None if number_type(obj) is not None else view(obj)
    except NumjitError as error:
        raise _named(error, where) from error
    if seen is None:
        raise ArgumentError(f"{where} is a {type(obj).__name__}; pass an array")
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


@dataclasses.dataclass(slots=True)
class Plan:
    """What a call does, apart from addresses and numbers."""

    specialisation: Specialisation
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    outputs: tuple[DType, ...]
    value_slots: tuple[tuple[int, DType | None], ...]  # None: a raw operand, as address and size
    memory: tuple[int, ...]
    empty: bool
    numbered: bool  # the functor takes the element's number, one operand more after those in memory
    offsets: tuple[int, ...] = ()
    grid: tuple[int, int, int] = (0, 1, 1)
    extents: tuple[int, ...] = ()
    launcher: Any = None
    runner: Any = None
    shell: ShellSpec | None = None
    tuned: bool = False
    fingerprint: str = ""


class Call:
    """Runs calls of one functor; keeps the plan of every combination of types and layouts it has seen."""

    #: Plans kept a functor; a loop over ever new shapes must not grow without bound.
    LIMIT = 1024

    def __init__(
        self,
        functor: Functor,
        names: Sequence[str],
        operands: int,
        *,
        autotune: bool = False,
        gradients: tuple[int, ...] = (),
    ) -> None:
        self._functor = functor
        self._autotune = autotune
        #: Where the outputs are gradients: the parameter of each.
        self.gradients = gradients
        self._name = functor.name
        self._names = list(names)
        self._operands = operands
        self._raws = functor.signature.raws
        self._output_count = len(functor.signature.outputs)
        self._plans: dict[Any, Plan] = {}
        self.warm = WarmPath()
        #: Identity of the functor's meaning; whoever sees a captured variable change renews it.
        self.fingerprint = functor.fingerprint()

    # --------------------------------------------------------------------------------------- the call

    def run(
        self,
        arguments: Arguments,
        out: Any,
        nullary: Nullary | None,
        warm_key: tuple[Any, ...] | None = None,
        bound: Sequence[Any] | None = None,
    ) -> tuple[Any, ...]:
        """Compute; returns one array per output.

        With `warm_key`, the next call of that key may take the warm path; with `bound`, what `arguments`
        was read from, calls with the same `out` may go through the launcher.
        """
        outs = self._given_outputs(out)
        plan = self._plan(arguments, outs, nullary)
        if any(outs):
            self._check_overlap(outs, plan.shape, arguments)
        library = nullary.library if nullary else arguments.library
        device = nullary.device if nullary else arguments.device
        results, memory = [], []
        like = next((seen.original for seen in arguments.arrays if seen.fake), None)
        for dtype, given in zip(plan.outputs, outs, strict=True):
            if given is None:
                array, made = empty(library, plan.shape, plan.strides, dtype, device, like)
            else:
                array, made = given.original, given
            results.append(array)
            memory.append(made)
        if device.kind == "meta" or any(not made.has_memory for made in memory):
            return tuple(results)
        for k in plan.memory:
            seen = arguments.views[k]
            assert seen is not None
            memory.append(seen)
        if not plan.empty:
            self._execute(plan, arguments, memory, outs, device, library)
            for given in outs:
                if given is not None and given.library == "torch":
                    count_write(given.original)
            entry = None
            if warm_key is not None or (bound is not None and any(outs)):
                entry = self._entry(plan, arguments, outs, device)
            if entry is not None and warm_key is not None:
                self.warm.remember(warm_key, entry)
            if entry is not None and bound is not None and entry.launcher and self.warm.fast:
                entry.fast = self.warm.fast.offer(bound, out, entry)
        return tuple(results)

    def prepare(self, arguments: Arguments, out: Any, bound: Sequence[Any]) -> None:
        """Plan and compile a call, and hand it to the launcher, without computing or allocating anything."""
        outs = self._given_outputs(out)
        plan = self._plan(arguments, outs, None)
        entry = None if plan.empty else self._entry(plan, arguments, outs, arguments.device)
        if entry is not None and entry.launcher is not None and self.warm.fast is not None:
            self.warm.fast.offer(bound, out, entry)

    def _entry(
        self, plan: Plan, arguments: Arguments, outs: Sequence[ArrayView | None], device: Device
    ) -> Entry | None:
        """Return what calls like this one do, where all that they need is in the plan."""
        if plan.numbered or arguments.raws or (self._autotune and not plan.tuned):
            return None
        if len(arguments.arrays) != len(plan.memory) or not arguments.arrays:
            return None  # 0-dim CPU tensors travel by value
        seen_arrays = [*arguments.arrays, *(seen for seen in outs if seen is not None)]
        libraries = {seen.library for seen in seen_arrays}
        if len(libraries) > 1 or any(seen.copied for seen in seen_arrays):
            return None
        library = libraries.pop()
        if library != "torch" and library not in warm_arrays.LIBRARIES:
            return None
        torch = sys.modules.get("torch")
        is_torch = library == "torch"
        return Entry(
            plan.shape,
            plan.strides,
            tuple(getattr(torch, dtype.name) for dtype in plan.outputs) if is_torch else plan.outputs,
            arguments.arrays[0].original.device if is_torch else device,
            plan.memory,
            plan.value_slots,
            plan.offsets if any(plan.offsets) else (),
            plan.launcher,
            plan.grid,
            plan.extents,
            device.index,
            plan.runner,
            library,
            fingerprint=plan.fingerprint,
        )

    def _execute(
        self,
        plan: Plan,
        arguments: Arguments,
        memory: Sequence[ArrayView],
        outs: Sequence[ArrayView | None],
        device: Device,
        library: str,
    ) -> None:
        if device.kind == "cpu":
            values = b"".join(
                struct.pack("=qq", *_raw_numbers(arguments.raws[k]))
                if dtype is None
                else chunk_slot(arguments.values[k], dtype)
                for k, dtype in plan.value_slots
            )
            assert len(values) == CHUNK_SLOT * len(plan.value_slots)
            pointers = [seen.pointer for seen in memory]
            plan.runner([*pointers, 0] if plan.numbered else pointers, values)
            return
        given = [seen for seen in outs if seen is not None]
        order = [*arguments.arrays, *given]
        stream = launch_stream(order, device.index, "" if all(outs) else library)
        before = producers(order, stream)
        if before:
            from numjit.runtime.streams import wait_for

            for producer in before:
                wait_for(stream, producer, device.index)
        numbers: list[float] = [
            seen.pointer + offset for seen, offset in zip(memory, plan.offsets, strict=not plan.numbered)
        ]
        if plan.numbered:
            numbers.append(plan.offsets[-1])
        for k, dtype in plan.value_slots:
            numbers += (
                _raw_numbers(arguments.raws[k]) if dtype is None else convert(arguments.values[k], dtype)
            )
        if self._autotune and not plan.tuned:
            self._tune(plan, arguments, outs, device, (stream, numbers))
        plan.launcher(stream, plan.grid, (*numbers, *plan.extents))

    def _tune(
        self,
        plan: Plan,
        arguments: Arguments,
        outs: Sequence[ArrayView | None],
        device: Device,
        launch: tuple[int, list[float]],
    ) -> None:
        """Replace the plan's kernel by the fastest alternative for this card.

        Trials write the call's own new outputs, again and again; so where an output was given, which may
        be an operand, and while a CUDA graph is captured, the plan stays as it is.
        """
        from numjit.runtime.devices import device_name
        from numjit.runtime.driver import Current
        from numjit.runtime.streams import is_capturing

        stream, numbers = launch
        if any(outs) or is_capturing(stream):
            return

        def prepare(knobs: Knobs) -> Callable[[], None]:
            self._plan_gpu(plan, arguments, outs, device, knobs)
            launcher, grid, extents = plan.launcher, plan.grid, plan.extents
            return lambda: launcher(stream, grid, (*numbers, *extents))

        kind = layout_class(str(plan.shell), math.prod(plan.shape))
        key = f"{self.fingerprint} {plan.specialisation.key} {kind}"
        with Current(device.index):
            winner = best(key, device_name(device.index), stream, prepare)
        self._plan_gpu(plan, arguments, outs, device, winner)
        plan.tuned = True

    def _given_outputs(self, out: Any) -> list[ArrayView | None]:
        count = self._output_count
        if out is None:
            return [None] * count
        many = out if isinstance(out, tuple) else (out,)
        if len(many) != count:
            wanted = "an array" if count == 1 else f"a tuple of {count} arrays or None"
            raise OutputError(f"{self._name}() has {count} outputs; pass out={wanted}")
        return [
            None if given is None else writable_view(given, f"{self._name}(): {label}")
            for given, label in zip(many, self._output_labels(), strict=True)
        ]

    # --------------------------------------------------------------------------------------- planning

    def plan(self, arguments: Arguments, nullary: Nullary | None) -> Plan:
        """Return what a call without ``out=`` does, its kernel compiled."""
        return self._plan(arguments, self._given_outputs(None), nullary)

    def _plan(self, arguments: Arguments, outs: Sequence[ArrayView | None], nullary: Nullary | None) -> Plan:
        default = default_dtype()
        layout = tuple(
            None
            if seen is None
            else (tuple(seen.shape), seen.strides, seen.conj, seen.neg, seen.pointer & 15, seen.fake)
            for seen in (*arguments.views, *outs)
        )
        out_types = tuple(None if seen is None else (seen.dtype, seen.device) for seen in outs)
        by_value = tuple(seen.dtype for seen in arguments.arrays)
        key = (
            self.fingerprint, arguments.types, layout, out_types, by_value, arguments.device,
            default, nullary,
        )  # fmt: skip
        plan = self._plans.get(key)
        if plan is None:
            plan = self._make_plan(arguments, outs, nullary, default)
            plan.fingerprint = key[0]
            if len(self._plans) >= self.LIMIT:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _make_plan(
        self,
        arguments: Arguments,
        outs: Sequence[ArrayView | None],
        nullary: Nullary | None,
        default_dtype: DType,
    ) -> Plan:
        shape = nullary.shape if nullary else self._shape(arguments)
        device = nullary.device if nullary else arguments.device
        if nullary:
            default_dtype = _preferred_dtype(nullary, outs) or default_dtype
        specialisation = build.specialise(
            self._functor, arguments.types, default_dtype, "cpu" if device.kind != "cuda" else "cuda"
        )
        outputs = specialisation.outputs
        if nullary and nullary.dtype is not None:
            outputs = (nullary.dtype,) * len(outputs)
        if self.gradients:
            outputs = self._gradient_dtypes(shape, arguments)
        self._check_outputs(outs, shape, outputs, device)
        stored = tuple(
            dtype if given is None else given.dtype for dtype, given in zip(outputs, outs, strict=True)
        )
        plan = Plan(
            specialisation,
            shape,
            self._strides(shape, arguments, outs),
            stored,
            tuple(
                (k, None if k in self._raws else specialisation.inputs[k])
                for k, seen in enumerate(arguments.views)
                if seen is None
            ),
            tuple(k for k, seen in enumerate(arguments.views) if seen is not None),
            0 in shape,
            self._functor.uses_index,
        )
        if device.kind == "meta" or any(seen.fake for seen in arguments.arrays):
            return plan
        if device.kind == "cpu":
            self._plan_cpu(plan, arguments, outs)
        else:
            self._plan_gpu(plan, arguments, outs, device)
        return plan

    def _gradient_dtypes(self, shape: tuple[int, ...], arguments: Arguments) -> tuple[DType, ...]:
        """Gradients have their parameter's dtype; its compute type where they are yet to be summed."""
        found = []
        for k in self.gradients:
            seen = arguments.views[k]
            own = arguments.types[k].dtype
            found.append(own if shape == (() if seen is None else tuple(seen.shape)) else own.compute)
        return tuple(found)

    def _shape(self, arguments: Arguments) -> tuple[int, ...]:
        raws = list(map(id, arguments.raws.values()))
        shapes = [tuple(seen.shape) for seen in arguments.arrays if id(seen) not in raws]
        try:
            return broadcast_shapes(*shapes, names=self._array_names(arguments))
        except BroadcastError as error:
            raise BroadcastError(f"{self._name}(): {error}") from None

    def _array_names(self, arguments: Arguments) -> list[str]:
        left_out = [
            kind.category is Category.NUMBER or k in self._raws for k, kind in enumerate(arguments.types)
        ]
        return [name for name, without in zip(self._names, left_out, strict=True) if not without]

    def _strides(
        self, shape: tuple[int, ...], arguments: Arguments, outs: Sequence[ArrayView | None]
    ) -> tuple[int, ...]:
        """Element strides of new outputs, as TensorIterator answers them: given outputs count first."""
        operands = [(tuple(seen.shape), tuple(seen.strides)) for seen in outs if seen is not None]
        arrays = iter(arguments.arrays)
        for k, kind in enumerate(arguments.types[: self._operands]):
            if kind.category is Category.NUMBER:
                operands.append(((), ()))
                continue
            seen = next(arrays)
            if k not in self._raws:
                operands.append((tuple(seen.shape), tuple(seen.strides)))
        return output_strides(shape, operands)

    def _check_outputs(
        self,
        outs: Sequence[ArrayView | None],
        shape: tuple[int, ...],
        outputs: Sequence[DType],
        device: Device,
    ) -> None:
        """Check what a plan is made for: shape, device, dtype and self-overlap of each given output."""
        for label, given, dtype in zip(self._output_labels(), outs, outputs, strict=True):
            if given is None:
                continue
            where = f"{self._name}(): {label}"
            if tuple(given.shape) != shape:
                raise OutputError(
                    f"{where} has shape {tuple(given.shape)} but the result has shape {shape}; "
                    f"pass an array of shape {shape}"
                )
            if given.device != device:
                raise DeviceError(
                    f"{where} is on {given.device} but the operands are on {device}; move it there"
                )
            if not can_cast(dtype, given.dtype):
                raise OutputError(
                    f"{where} has dtype {given.dtype}, to which a {dtype} result cannot be cast; "
                    f"pass an array of dtype {dtype}"
                )
            extent = _extent(given)
            if has_internal_overlap(extent.shape, extent.strides, extent.itemsize):
                raise OverlapError(
                    f"{where} (shape {shape}, strides {tuple(given.strides)}) holds elements that "
                    "share memory; pass a copy (.clone())"
                )

    def _check_overlap(
        self, outs: Sequence[ArrayView | None], shape: tuple[int, ...], arguments: Arguments
    ) -> None:
        """Check what depends on addresses: given outputs against each other and against the inputs."""
        extents: list[tuple[str, Extent]] = []
        for label, given in zip(self._output_labels(), outs, strict=True):
            if given is None or not given.has_memory:
                continue
            extent = _extent(given)
            for other, earlier in extents:
                if classify(earlier, extent) is not Overlap.NONE:
                    raise OverlapError(
                        f"{self._name}(): {label} shares memory with {other}; pass arrays of their own"
                    )
            extents.append((label, extent))
        for name, seen in zip(self._names, arguments.views, strict=True):
            if seen is None or not seen.has_memory:
                continue
            expanded = _extent(seen, shape)
            for label, extent in extents:
                if classify(extent, expanded) is Overlap.PARTIAL:
                    raise OverlapError(
                        f"{self._name}(): {label} shares part of its memory with operand {name!r}; "
                        "pass an array of its own, or exactly that operand"
                    )
        for k, seen in arguments.raws.items():
            for label, extent in extents:
                if seen.has_memory and classify(extent, _extent(seen)) is not Overlap.NONE:
                    raise OverlapError(
                        f"{self._name}(): {label} shares memory with raw operand {self._names[k]!r}, any "
                        "element of which may be read at any time; pass an array of its own"
                    )

    def _output_labels(self) -> list[str]:
        count = self._output_count
        return ["out"] if count == 1 else [f"out[{k}]" for k in range(count)]

    def _operand_strides(
        self, plan: Plan, arguments: Arguments, outs: Sequence[ArrayView | None]
    ) -> tuple[list[tuple[int, ...]], list[int]]:
        """Byte strides over the result's shape and itemsize of each memory operand, outputs first.

        The element's number, where the functor takes it, is one more: in C order, an element a "byte".
        """
        rows, itemsizes = [], []
        for dtype, given in zip(plan.outputs, outs, strict=True):
            strides = plan.strides if given is None else given.strides
            rows.append(tuple(s * dtype.itemsize for s in strides))
            itemsizes.append(dtype.itemsize)
        for k in plan.memory:
            seen = arguments.views[k]
            assert seen is not None
            itemsize = seen.dtype.itemsize
            strides = broadcast_strides(plan.shape, tuple(seen.shape), tuple(seen.strides))
            rows.append(tuple(s * itemsize for s in strides))
            itemsizes.append(itemsize)
        if plan.numbered:
            rows.append(contiguous_strides(plan.shape))
            itemsizes.append(1)
        return rows, itemsizes

    def _storages(self, arguments: Arguments) -> list[DType | None]:
        return [None if seen is None else seen.dtype for seen in arguments.views]

    def _coalesce(self, shape: tuple[int, ...], rows: Sequence[tuple[int, ...]]) -> Layout:
        try:
            return coalesce(shape, rows)
        except NumjitError as error:
            raise _named(error, f"{self._name}()") from None

    def _plan_cpu(self, plan: Plan, arguments: Arguments, outs: Sequence[ArrayView | None]) -> None:
        from numjit.cpu.execute import ChunkRunner

        views = [view_bits(seen) for seen in arguments.views]
        chunk = build.host_chunk(
            self._functor, plan.specialisation, self._storages(arguments), plan.outputs, views
        )
        if not plan.empty:
            rows, _ = self._operand_strides(plan, arguments, outs)
            plan.runner = ChunkRunner(chunk, self._coalesce(plan.shape, rows))

    def _plan_gpu(
        self,
        plan: Plan,
        arguments: Arguments,
        outs: Sequence[ArrayView | None],
        device: Device,
        knobs: Knobs = DEFAULT,
    ) -> None:
        if plan.empty:
            build.check_functor(self._functor, plan.specialisation, device.index)
            return
        from numjit.runtime.devices import limiting_shared_bytes, max_parameter_bytes
        from numjit.runtime.launch import Launcher

        rows, itemsizes = self._operand_strides(plan, arguments, outs)
        layout = self._coalesce(plan.shape, rows)
        # torch's allocations are aligned to 512 bytes; CuPy's and Numba's as well.
        bases = [0 if given is None else given.pointer for given in outs]
        for k in plan.memory:
            seen = arguments.views[k]
            assert seen is not None
            bases.append(seen.pointer)
        bases += [0] * plan.numbered
        addresses = [base + offset for base, offset in zip(bases, layout.offsets, strict=True)]
        formats = [
            part
            for _, dtype in plan.value_slots
            for part in (("q", "q") if dtype is None else _parameter_formats(dtype))
        ]
        chosen = choose(
            layout, itemsizes, addresses, len(outs), virtual=int(plan.numbered),
            value_bytes=8 * len(formats), parameter_bytes=max_parameter_bytes(device.index),
            knobs=knobs,
        )  # fmt: skip
        spec = ShellSpec(
            tuple(
                OutputSlot(dtype, stored)
                for dtype, stored in zip(plan.specialisation.outputs, plan.outputs, strict=True)
            ),
            tuple(self._input_slots(plan, arguments)),
            chosen.variant,
        )
        kernel = build.build_kernel(self._functor, plan.specialisation, spec, device.index)
        extents = chosen.extents
        pointers = len(outs) + len(plan.memory) + plan.numbered
        parameters = ["Q"] * pointers + formats + ["q"] * len(extents)
        block = chosen.variant.block
        shared = limiting_shared_bytes(device.index, block, chosen.occupancy)
        plan.launcher = Launcher(kernel, device.index, parameters, (block, 1, 1), shared)
        plan.grid = (chosen.grid, 1, 1)
        plan.extents = extents
        plan.offsets = layout.offsets
        plan.shell = spec

    def _input_slots(self, plan: Plan, arguments: Arguments) -> Iterator[InputSlot]:
        for k, (dtype, seen) in enumerate(zip(plan.specialisation.inputs, arguments.views, strict=True)):
            if k in self._raws:
                yield InputSlot(dtypes.int64, None, raw=True)
            else:
                yield InputSlot(dtype, None if seen is None else seen.dtype, view_bits(seen))
        if plan.numbered:
            yield InputSlot(dtypes.int64, None, index=True)


def _raw_numbers(seen: ArrayView) -> tuple[int, int]:
    """Return address and number of elements of a raw operand."""
    return seen.pointer, math.prod(seen.shape)


def _preferred_dtype(nullary: Nullary, outs: Sequence[ArrayView | None]) -> DType | None:
    """Return the floating dtype that a call without operands is asked for: it computes in it, too."""
    for dtype in (nullary.dtype, *(given.dtype for given in outs if given is not None)):
        if dtype is not None and dtype.real.is_floating and dtype.real.itemsize > 1:
            return dtype.real
    return None


def _parameter_formats(dtype: DType) -> list[str]:
    """`struct` formats of a by-value argument's kernel parameters: two where it is complex."""
    return [slot_format(dtype.compute.real)] * (2 if dtype.is_complex else 1)


def view_bits(seen: ArrayView | None) -> str:
    """Return what is applied to each loaded element: ``""``, ``"conj"``, ``"neg"`` or ``"conj neg"``."""
    if seen is None:
        return ""
    conj = seen.conj and seen.dtype.is_complex
    return " ".join(bit for bit, on in (("conj", conj), ("neg", seen.neg)) if on)


def _extent(seen: ArrayView, shape: tuple[int, ...] | None = None) -> Extent:
    """Return the memory of an array, expanded to `shape` where one is given."""
    strides = tuple(seen.strides)
    if shape is not None:
        strides = broadcast_strides(shape, tuple(seen.shape), strides)
    itemsize = seen.dtype.itemsize
    return Extent(seen.pointer, shape or tuple(seen.shape), tuple(s * itemsize for s in strides), itemsize)


def default_dtype() -> DType:
    """Return torch's default dtype where torch is loaded, else float32."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_dtype"):
        return dtypes.float32
    return dtypes.as_dtype(torch.get_default_dtype())
