"""The shells themselves: Numba kernels whose bodies are a handful of intrinsics.

Numba's typing time grows with the Python statements of a kernel, so everything that repeats per
operand, dimension or vector element is emitted by `numjit.kernels.body` inside one intrinsic; what
is left to read here is how blocks and threads share the work.

The same kernel functions compile for the GPU (`target="cuda"`) and for the host (`target="cpu"`,
where block and thread numbers are read from memory), so a machine without a GPU can run them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from numjit.codegen.machine import Machine
from numjit.kernels.body import Body
from numjit.kernels.spec import ShellSpec
from numjit.kernels.tiled import Tile

__all__ = ["HostPlace", "Shell", "make_shell"]

I32, I64 = ir.IntType(32), ir.IntType(64)


@dataclasses.dataclass(frozen=True)
class Shell:
    """A kernel function and the Numba types of its three parameters.

    `function` takes ``(pointers, values, extents)``: base addresses, by-value arguments and layout
    integers, each a tuple that Numba flattens into scalar kernel parameters.
    """

    function: Callable[[Any, Any, Any], None]
    arguments: tuple[Any, Any, Any]


@dataclasses.dataclass(frozen=True)
class HostPlace:
    """Addresses that stand in for the hardware where a shell runs on the host.

    Attributes
    ----------
    ids
        Address of three int64: block, thread, and the phase to run (1 before the barrier, 2 after).
    shared
        Address of a buffer for shared memory.
    functor
        Address of the functor's seam function.
    """

    ids: int
    shared: int
    functor: int


def make_shell(spec: ShellSpec, machine: Machine, host: HostPlace | None = None) -> Shell:
    """Build the kernel of `spec` for `machine`; the caller has made the target's Numba importable.

    Parameters
    ----------
    spec, machine
        The shell and what it is compiled for.
    host
        Needed where `machine` is the host.
    """
    build = {"contiguous": _contiguous, "strided": _strided, "tiled": _tiled}[spec.variant.kind]
    kit = _Kit(spec, machine, host)
    function = build(kit)
    # Numba's symbol repeats both in every parameter's name; short ones keep PTX readable.
    function.__module__, function.__qualname__ = "numjit", spec.variant.kind
    types = kit.types
    index = types.int64 if spec.variant.index_bits == 64 else types.int32
    kinds = (
        types.UniTuple(types.int64, len(spec.stored)),
        types.Tuple(tuple(_value_types(spec, types))),
        types.UniTuple(index, spec.variant.extent_count),
    )
    return Shell(function, kinds)


def _value_types(spec: ShellSpec, types: Any) -> list[Any]:
    found = []
    for slot in spec.value_inputs:
        real = slot.dtype.compute.real
        kind = types.int64 if slot.raw else types.uint8 if real.kind == "b" else getattr(types, real.name)
        found += [kind] * slot.components
    return found


def _unpack(builder: Any, pack: Any) -> list[Any]:
    return [builder.extract_value(pack, i) for i in range(len(pack.type.elements))]


class _Kit:
    """Makes a shell's intrinsics for one target."""

    def __init__(self, spec: ShellSpec, machine: Machine, host: HostPlace | None) -> None:
        if machine.is_ptx:
            from numba.cuda import types
            from numba.cuda.extending import intrinsic
        else:
            from numba.core import types
            from numba.core.extending import intrinsic
        self.spec, self.machine, self.host = spec, machine, host
        self.types, self._intrinsic = types, intrinsic

    def number(self, register: str) -> Any:
        """Return the intrinsic of this thread's block (``"ctaid"``) or thread (``"tid"``) number, int64."""

        def emit(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            if self.host is not None:
                return self._id(builder, {"ctaid": 0, "tid": 8}[register])
            name = f"llvm.nvvm.read.ptx.sreg.{register}.x"
            known = builder.module.globals.get(name)
            if known is None:
                known = ir.Function(builder.module, ir.FunctionType(I32, []), name)
            return builder.zext(builder.call(known, []), I64)

        types = self.types

        @self._intrinsic
        def number(_typing_context):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return types.int64(), emit

        return number

    def _id(self, builder: Any, offset: int) -> Any:
        assert self.host is not None
        return builder.load(builder.inttoptr(I64(self.host.ids + offset), I64.as_pointer()))

    def barrier(self) -> Any:
        """Return the intrinsic that waits for the block's threads (nothing on the host)."""

        def emit(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            if self.host is None:
                name = "llvm.nvvm.barrier0"
                known = builder.module.globals.get(name)
                if known is None:
                    known = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), []), name)
                builder.call(known, [])
            return context.get_dummy_value()

        types = self.types

        @self._intrinsic
        def barrier(_typing_context):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return types.void(), emit

        return barrier

    def apply(self, emit_body: Callable[[Body, list[Any], list[Any]], None], phase: int = 0) -> Any:
        """Return the intrinsic ``apply(pointers, values, extents, *numbers)`` that `emit_body` emits.

        On the host an intrinsic of phase 1 or 2 does nothing in the other one.
        """

        def emit(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointers, values, extents, numbers = args
            functor = None if self.host is None else self.host.functor

            def run() -> None:
                body = Body(
                    builder,
                    self.machine,
                    self.spec,
                    _unpack(builder, pointers),
                    _unpack(builder, values),
                    functor,
                )
                emit_body(body, _unpack(builder, extents), _unpack(builder, numbers))

            if self.host is None or not phase:
                run()
            else:
                with builder.if_then(builder.icmp_signed("==", self._id(builder, 16), I64(phase))):
                    run()
            return context.get_dummy_value()

        types = self.types

        @self._intrinsic
        def apply(_typing_context, pointers, values, extents, numbers):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return types.void(pointers, values, extents, numbers), emit

        return apply


def _contiguous(kit: _Kit) -> Callable[[Any, Any, Any], None]:
    spec, variant = kit.spec, kit.spec.variant
    block, thread = kit.number("ctaid"), kit.number("tid")
    vector, threads = variant.vector, variant.block
    span = threads * vector * variant.unroll

    def emitter(count: int, steps: int) -> Any:
        def emit(body: Body, _extents: list[Any], numbers: list[Any]) -> None:
            offsets = [
                body.contiguous_offsets(body.builder.add(numbers[0], I64(step * threads * vector)))
                for step in range(steps)
            ]
            body.batch(offsets, count, [I64(dtype.itemsize) for dtype in spec.stored])

        return kit.apply(emit)

    apply_vectors, apply_element = emitter(vector, variant.unroll), emitter(1, 1)

    def contiguous(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        count = extents[0]
        first = block() * span
        if first + span <= count:
            apply_vectors(pointers, values, extents, (first + thread() * vector,))
        else:
            element = first + thread()
            while element < count:
                apply_element(pointers, values, extents, (element,))
                element += threads

    return contiguous


def _strided(kit: _Kit) -> Callable[[Any, Any, Any], None]:
    variant = kit.spec.variant
    block, thread = kit.number("ctaid"), kit.number("tid")
    threads, unroll = variant.block, variant.unroll
    span = threads * unroll

    def locate(body: Body, extents: list[Any], item: Any) -> tuple[Any, list[Any]]:
        narrow = body.builder.trunc(item, I32) if variant.index_bits == 32 else item
        return body.strided_offsets(extents, narrow)

    def emit_all(body: Body, extents: list[Any], numbers: list[Any]) -> None:
        items = [body.builder.add(numbers[0], I64(step * threads)) for step in range(unroll)]
        offsets = [locate(body, extents, item)[1] for item in items]
        body.batch(offsets, variant.vector, body.inner_strides(extents))

    def emit_one(body: Body, extents: list[Any], numbers: list[Any]) -> None:
        builder = body.builder
        first, offsets = locate(body, extents, numbers[0])
        strides = body.inner_strides(extents)
        if variant.even:
            body.batch([offsets], variant.vector, strides)
            return
        size = extents[1]
        end = builder.add(first, first.type(variant.vector))
        with builder.if_else(builder.icmp_signed("<=", end, size)) as (whole, edge):
            with whole:
                body.batch([offsets], variant.vector, strides)
            with edge:
                for i in range(variant.vector - 1):
                    inside = builder.icmp_signed("<", builder.add(first, first.type(i)), size)
                    with builder.if_then(inside):
                        moved = [
                            builder.add(offset, builder.mul(stride, I64(i)))
                            for offset, stride in zip(offsets, strides, strict=True)
                        ]
                        body.batch([moved], 1, strides)

    apply_one = kit.apply(emit_one)
    if not variant.even or unroll == 1:

        def strided(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            item = block() * span + thread()
            for _ in range(unroll):
                if item < extents[0]:
                    apply_one(pointers, values, extents, (item,))
                item += threads

        return strided

    apply_all = kit.apply(emit_all)

    def strided_even(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        first = block() * span
        item = first + thread()
        if first + span <= extents[0]:
            apply_all(pointers, values, extents, (item,))
        else:
            for _ in range(unroll):
                if item < extents[0]:
                    apply_one(pointers, values, extents, (item,))
                item += threads

    return strided_even


def _tiled(kit: _Kit) -> Callable[[Any, Any, Any], None]:
    block, thread, barrier = kit.number("ctaid"), kit.number("tid"), kit.barrier()
    shared = 0 if kit.host is None else kit.host.shared

    def tile(body: Body, extents: list[Any], numbers: list[Any]) -> Tile:
        return Tile(body, extents, numbers[0], numbers[1], shared)

    stage = kit.apply(lambda body, extents, numbers: tile(body, extents, numbers).stage(), phase=1)
    apply = kit.apply(lambda body, extents, numbers: tile(body, extents, numbers).apply(), phase=2)

    def tiled(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        stage(pointers, values, extents, (block(), thread()))
        barrier()
        apply(pointers, values, extents, (block(), thread()))

    return tiled
