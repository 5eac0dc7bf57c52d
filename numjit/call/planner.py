"""From a call's types and layouts to what it does: planned and compiled once, kept, executed."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numjit import dtypes
from numjit.arrays.numbers import CHUNK_SLOT, chunk_slot, convert, slot_format
from numjit.arrays.view import ArrayView, Device
from numjit.cache import Bounded
from numjit.call import build, warm_arrays
from numjit.call.arguments import Arguments, default_dtype, named
from numjit.call.outputs import GivenOutputs, reach_of
from numjit.call.record import Plan
from numjit.errors import BroadcastError, NumjitError, ToolchainError
from numjit.ground.log import logger
from numjit.kernels.spec import InputSlot, OutputSlot, ShellSpec
from numjit.plan.choose import DEFAULT, Knobs, choose
from numjit.plan.coalesce import Layout, coalesce
from numjit.runtime import devices, streams
from numjit.runtime.driver import Current
from numjit.runtime.launch import BoundKernel
from numjit.semantics import Category, broadcast_shapes, broadcast_strides, contiguous_strides, output_strides

if TYPE_CHECKING:
    from numjit.call.nullary import Nullary
    from numjit.dtypes import DType
    from numjit.functor.kinds import Functor

__all__ = ["LIMIT", "Planner", "gradient_dtype", "view_bits"]

#: Plans kept a functor, and keys by which calls find them again: a loop over ever new shapes must not grow
#: without bound.
LIMIT = 16384
_log = logger("plan")


class Planner:
    """Plans calls of one functor, and keeps what it planned.

    Parameters
    ----------
    functor
        What is called.
    names, operands
        Its parameters' names, and how many of them are operands.
    autotune
        Whether launches are chosen by measurement.
    gradients
        Where the outputs are gradients: the parameter of each.
    """

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
        self.gradients = gradients
        self._name = functor.name
        self._names = list(names)
        self._operands = operands
        self._raws = functor.signature.raws
        self.outputs = GivenOutputs(functor.name, names, len(functor.signature.outputs))
        self.plans: Bounded[Any, Plan] = Bounded(LIMIT)
        #: Identity of the functor's meaning; whoever sees a captured variable change renews it.
        self.fingerprint = functor.fingerprint()

    # ------------------------------------------------------------------------------------- execution

    def execute(
        self,
        plan: Plan,
        arguments: Arguments,
        memory: Sequence[ArrayView],
        outs: Sequence[ArrayView | None],
    ) -> None:
        """Run a plan: `memory` are its outputs, then the operands that it reads."""
        device = plan.device
        if device.kind == "cpu":
            values = b"".join(
                struct.pack("=qq", *_raw_numbers(arguments.raws[k]))
                if dtype is None
                else chunk_slot(arguments.values[k], dtype)
                for k, dtype in plan.values
            )
            assert len(values) == CHUNK_SLOT * len(plan.values)
            pointers = [seen.pointer for seen in memory]
            plan.runner([*pointers, 0] if plan.numbered else pointers, values)
            return
        given = [seen for seen in outs if seen is not None]
        stream = warm_arrays.ordered_stream(
            [*arguments.arrays, *given], device.index, "" if all(outs) else plan.results
        )
        numbers: list[float] = [
            seen.pointer + offset for seen, offset in zip(memory, plan.offsets, strict=not plan.numbered)
        ]
        if plan.numbered:
            numbers.append(plan.offsets[-1])
        for k, dtype in plan.values:
            numbers += (
                _raw_numbers(arguments.raws[k]) if dtype is None else convert(arguments.values[k], dtype)
            )
        if self._autotune and not plan.tuned:
            self._tune(plan, arguments, outs, (stream, numbers))
        plan.kernel(stream, plan.grid, (*numbers, *plan.extents))

    def _tune(
        self,
        plan: Plan,
        arguments: Arguments,
        outs: Sequence[ArrayView | None],
        launch: tuple[int, list[float]],
    ) -> None:
        """Replace the plan's kernel by the fastest alternative for this card.

        Trials write the call's own new outputs, again and again; so where an output was given, which may
        be an operand, and while a CUDA graph is captured, the plan stays as it is.
        """
        from numjit.call.tuning import best, layout_class

        stream, numbers = launch
        device = plan.device
        if any(outs) or streams.is_capturing(stream):
            return

        def prepare(knobs: Knobs) -> Callable[[], None]:
            self.plan_gpu(plan, arguments, outs, device, knobs)
            kernel, grid, extents = plan.kernel, plan.grid, plan.extents
            return lambda: kernel(stream, grid, (*numbers, *extents))

        kind = layout_class(str(plan.shell), math.prod(plan.shape))
        key = f"{self.fingerprint} {plan.specialisation.key} {kind}"
        with Current(device.index):
            winner = best(key, devices.device_name(device.index), stream, prepare)
        self.plan_gpu(plan, arguments, outs, device, winner)
        plan.tuned = True

    # --------------------------------------------------------------------------------------- planning

    def plan(
        self, arguments: Arguments, nullary: Nullary | None, outs: Sequence[ArrayView | None] | None = None
    ) -> Plan:
        """Return what a call does, its kernel or loop compiled; without `outs` it makes all results anew."""
        if outs is None:
            outs = self.outputs.read(None)
        default = default_dtype()
        layout = tuple(
            None
            if seen is None
            else (tuple(seen.shape), seen.strides, seen.conj, seen.neg, seen.pointer & 15, seen.fake)
            for seen in (*arguments.views, *outs)
        )
        out_types = tuple(None if seen is None else (seen.dtype, seen.device, seen.library) for seen in outs)
        arrays = tuple((seen.dtype, seen.library, seen.copied) for seen in arguments.arrays)
        key = (
            self.fingerprint, arguments.types, layout, out_types, arrays, arguments.device,
            arguments.library, default, nullary,
        )  # fmt: skip
        plan = self.plans.get(key)
        if plan is None:
            try:
                plan = self.make_plan(arguments, outs, nullary, default)
            except ImportError as error:
                if not sys.is_finalizing():
                    raise
                raise ToolchainError(
                    f"{self._name}(): the interpreter ends and imports nothing more ({error}); call it "
                    "before that, on such operands"
                ) from None
            plan.fingerprint = key[0]
            self.plans.keep(key, plan)
            _log.debug(
                "planned %s (%s) of shape %s on %s: %s", self._name, plan.specialisation.key, plan.shape,
                plan.device, plan.shell.variant if plan.shell else "loop",
            )  # fmt: skip
        return plan

    def make_plan(
        self,
        arguments: Arguments,
        outs: Sequence[ArrayView | None],
        nullary: Nullary | None,
        default_dtype: DType,
    ) -> Plan:
        """Plan a call, and compile what it needs."""
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
            self.outputs.check_size(shape, outputs)
        self.outputs.check(outs, shape, outputs, device)
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
            device,
            given=tuple(k for k, seen in enumerate(outs) if seen is not None),
            empty=0 in shape,
            numbered=self._functor.uses_index,
        )
        plan.results = nullary.library if nullary else arguments.library
        if device.kind == "meta" or any(seen.fake for seen in arguments.arrays):
            return plan
        plan.library = self._repeated_library(plan, arguments, outs)
        if plan.given and plan.library:
            plan.reach = reach_of(shape, outs, [arguments.views[k] for k in plan.memory])
        if device.kind == "cpu":
            self._plan_cpu(plan, arguments, outs)
        else:
            self.plan_gpu(plan, arguments, outs, device)
        return plan

    @staticmethod
    def _repeated_library(plan: Plan, arguments: Arguments, outs: Sequence[ArrayView | None]) -> str:
        """Return the library of all arrays where calls like this one need the plan and addresses only."""
        if plan.numbered or plan.empty or arguments.raws:
            return ""
        if len(arguments.arrays) != len(plan.memory) or not arguments.arrays:
            return ""  # 0-dim CPU tensors travel by value
        seen_arrays = [*arguments.arrays, *(seen for seen in outs if seen is not None)]
        if any(seen.copied or not seen.has_memory for seen in seen_arrays):
            return ""
        libraries = {seen.library for seen in seen_arrays}
        return libraries.pop() if len(libraries) == 1 else ""

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

    def plan_gpu(
        self,
        plan: Plan,
        arguments: Arguments,
        outs: Sequence[ArrayView | None],
        device: Device,
        knobs: Knobs = DEFAULT,
    ) -> None:
        """Give a plan its kernel and launch on a GPU."""
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
            for _, dtype in plan.values
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
        plan.kernel = BoundKernel(kernel, device.index, parameters, (block, 1, 1), shared)
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


def gradient_dtype(own: DType, *, summed: bool) -> DType:
    """Return the dtype that a gradient is stored in: its parameter's, or that one's compute type.

    `summed` says that the parameter was broadcast, so that the gradient is yet to be summed.
    """
    return own.compute if summed else own


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
