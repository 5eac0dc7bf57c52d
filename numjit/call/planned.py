"""One call: from bound arguments to results. What depends only on types and layout is planned once."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numjit import dtypes
from numjit.arrays.allocate import empty
from numjit.arrays.numbers import CHUNK_SLOT, chunk_slot, convert, slot_format
from numjit.arrays.torch_arrays import count_write
from numjit.arrays.view import ArrayView, Device
from numjit.call import build, warm_arrays
from numjit.call.arguments import Arguments, Nullary, default_dtype, named
from numjit.call.binding import RESERVED
from numjit.call.outputs import GivenOutputs
from numjit.call.warm import Entry, WarmPath
from numjit.errors import BroadcastError, NumjitError, ToolchainError
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import Specialisation, signs_of
from numjit.kernels.spec import InputSlot, OutputSlot, ShellSpec
from numjit.launcher.attach import FastCallable, FastCalls
from numjit.plan.choose import DEFAULT, Knobs, choose
from numjit.plan.coalesce import Layout, coalesce
from numjit.runtime import devices, streams
from numjit.runtime.driver import Current
from numjit.runtime.launch import Launcher
from numjit.semantics import Category, broadcast_shapes, broadcast_strides, contiguous_strides, output_strides

if TYPE_CHECKING:
    from numjit.dtypes import DType
    from numjit.functor.kinds import Functor

__all__ = ["Call", "Plan", "fast_calls", "gradient_dtype", "view_bits"]


class Plan:
    """What a call does, apart from addresses and numbers.

    Parameters
    ----------
    specialisation
        The functor at the call's types.
    shape, strides, outputs
        The results: sizes, element strides of new ones, dtypes.
    value_slots
        Arguments passed by value, each with the dtype it is taken as; None for a raw operand, as address and
        size.
    memory
        Which arguments are read from memory, in order.
    empty
        There is nothing to compute.
    numbered
        The functor takes the element's number, one operand more after those in memory.
    """

    offsets: tuple[int, ...] = ()
    grid: tuple[int, int, int] = (0, 1, 1)
    extents: tuple[int, ...] = ()
    launcher: Any = None
    runner: Any = None
    shell: ShellSpec | None = None
    tuned: bool = False
    fingerprint: str = ""

    def __init__(
        self,
        specialisation: Specialisation,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        outputs: tuple[DType, ...],
        value_slots: tuple[tuple[int, DType | None], ...],
        memory: tuple[int, ...],
        *,
        empty: bool,
        numbered: bool,
    ) -> None:
        self.specialisation = specialisation
        self.shape, self.strides, self.outputs = shape, strides, outputs
        self.value_slots, self.memory = value_slots, memory
        self.empty, self.numbered = empty, numbered


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
        self._outputs = GivenOutputs(functor.name, names, len(functor.signature.outputs))
        self._plans: dict[Any, Plan] = {}
        # What is numbered, indexed by the functor or tuned is planned anew: see `_entry`.
        self.warm = WarmPath(protocols=not (functor.uses_index or functor.signature.raws or autotune))
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
        warm: WarmPath | None = None,
    ) -> tuple[Any, ...]:
        """Compute; returns one array per output.

        With `warm_key`, the next call of that key may take the warm path; with `bound`, what `arguments`
        was read from, calls with the same `out` may go through the launcher. Both are those of `warm`, by
        default the operation's own.
        """
        warm = warm or self.warm
        outs = self._outputs.read(out)
        plan = self._plan(arguments, outs, nullary)
        if any(outs):
            self._outputs.check_overlap(outs, plan.shape, arguments)
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
                warm.remember(warm_key, entry)
            if entry is not None and bound is not None and entry.launcher and warm.fast:
                entry.fast = warm.fast.offer(bound, out, entry)
        return tuple(results)

    def prepare(self, arguments: Arguments, out: Any, bound: Sequence[Any]) -> None:
        """Plan and compile a call, and hand it to the launcher, without computing or allocating anything."""
        outs = self._outputs.read(out)
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
        torch = sys.modules.get("torch")
        is_torch = arguments.library == "torch"
        return Entry(
            plan.shape,
            plan.strides,
            tuple(getattr(torch, dtype.name) for dtype in plan.outputs) if is_torch else plan.outputs,
            _torch_device(torch, arguments.arrays[0], device) if is_torch else device,
            plan.memory,
            plan.value_slots,
            plan.offsets if any(plan.offsets) else (),
            plan.launcher,
            plan.grid,
            plan.extents,
            device.index,
            plan.runner,
            library,
            arguments.library,
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
        stream = warm_arrays.ordered_stream(
            [*arguments.arrays, *given], device.index, "" if all(outs) else library
        )
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
        from numjit.call.tuning import best, layout_class

        stream, numbers = launch
        if any(outs) or streams.is_capturing(stream):
            return

        def prepare(knobs: Knobs) -> Callable[[], None]:
            self._plan_gpu(plan, arguments, outs, device, knobs)
            launcher, grid, extents = plan.launcher, plan.grid, plan.extents
            return lambda: launcher(stream, grid, (*numbers, *extents))

        kind = layout_class(str(plan.shell), math.prod(plan.shape))
        key = f"{self.fingerprint} {plan.specialisation.key} {kind}"
        with Current(device.index):
            winner = best(key, devices.device_name(device.index), stream, prepare)
        self._plan_gpu(plan, arguments, outs, device, winner)
        plan.tuned = True

    # --------------------------------------------------------------------------------------- planning

    def plan(self, arguments: Arguments, nullary: Nullary | None) -> Plan:
        """Return what a call without ``out=`` does, its kernel compiled."""
        return self._plan(arguments, self._outputs.read(None), nullary)

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
            try:
                plan = self._make_plan(arguments, outs, nullary, default)
            except ImportError as error:
                if not sys.is_finalizing():
                    raise
                raise ToolchainError(
                    f"{self._name}(): the interpreter ends and imports nothing more ({error}); call it "
                    "before that, on such operands"
                ) from None
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
        if not any(seen.fake for seen in arguments.arrays):  # whose sizes may be symbolic
            self._outputs.check_size(shape, outputs)
        self._outputs.check(outs, shape, outputs, device)
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
            empty=0 in shape,
            numbered=self._functor.uses_index,
        )
        if device.kind == "meta" or any(seen.fake for seen in arguments.arrays):
            return plan
        if device.kind == "cpu":
            self._plan_cpu(plan, arguments, outs)
        else:
            self._plan_gpu(plan, arguments, outs, device)
        return plan

    def _gradient_dtypes(self, shape: tuple[int, ...], arguments: Arguments) -> tuple[DType, ...]:
        """Return the dtype in which each gradient is stored."""
        found = []
        for k in self.gradients:
            seen = arguments.views[k]
            own = () if seen is None else tuple(seen.shape)
            found.append(gradient_dtype(arguments.types[k].dtype, summed=shape != own))
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
            raise named(error, f"{self._name}()") from None

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
            value_bytes=8 * len(formats), parameter_bytes=devices.max_parameter_bytes(device.index),
            knobs=knobs, fast_memory=devices.has_fast_memory(device.index),
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
        shared = devices.limiting_shared_bytes(device.index, block, chosen.occupancy)
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
            yield InputSlot(dtypes.int64, None, is_index=True)


def fast_calls(
    operation: FastCallable, functor: Functor, defaults: Sequence[Any], *, detached: bool = False
) -> FastCalls:
    """Return what hands an operation's calls over to the launcher.

    Parameters
    ----------
    operation
        What is called.
    functor
        What it computes.
    defaults
        One value a parameter, None where there is none.
    detached
        Whether calls give every parameter by position and never record gradients.
    """
    python = functor if isinstance(functor, PythonFunctor) else None
    signature = functor.signature
    return FastCalls(
        operation,
        [None if detached or p.name in RESERVED else p.name for p in signature.parameters],
        len(signature.parameters if detached else signature.operands),
        defaults,
        python.capture_places if python else None,
        python.fingerprint if python else None,
        (lambda bound: python.reads_signs and any(sign is not None for sign in signs_of(bound)))
        if python
        else None,
        detached=detached,
    )


def gradient_dtype(own: DType, *, summed: bool) -> DType:
    """Return the dtype that a gradient is stored in: its parameter's, or that one's compute type.

    `summed` says that the parameter was broadcast, so that the gradient is yet to be summed.
    """
    return own.compute if summed else own


def _torch_device(torch: Any, first: ArrayView, device: Device) -> Any:
    """Return the device of results that are torch's, as torch names it."""
    return first.original.device if first.library == "torch" else torch.device(str(device))


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
