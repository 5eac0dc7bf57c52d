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

from numjit.codegen.loops import rolled
from numjit.codegen.machine import Machine
from numjit.ground.numba_ready import numba_ready
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
        with numba_ready():
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
    vector, threads, unroll = variant.vector, variant.block, variant.unroll
    step = threads * vector
    span = step * unroll
    itemsizes = [I64(dtype.itemsize) for dtype in spec.stored]

    def emit_all(body: Body, _extents: list[Any], numbers: list[Any]) -> None:
        elements = [body.builder.add(numbers[0], I64(k * step)) for k in range(unroll)]
        body.batch([body.contiguous_offsets(element) for element in elements], vector, itemsizes)

    def emit_edge(body: Body, extents: list[Any], numbers: list[Any]) -> None:
        """Emit the last block's vectors, then what is less than one, an element a thread."""
        builder = body.builder
        count, (first, thread) = extents[0], numbers
        if unroll > 1:
            end = builder.sub(count, I64(vector - 1))
            element = builder.add(first, builder.mul(thread, I64(vector)))
            with rolled(builder, element, end, I64(step)) as element:
                body.batch([body.contiguous_offsets(element)], vector, itemsizes)
        if vector > 1:
            element = builder.add(builder.and_(count, I64(-vector)), thread)
            with builder.if_then(builder.icmp_signed("<", element, count)):
                body.batch([body.contiguous_offsets(element)], 1, itemsizes)

    apply_all, apply_edge = kit.apply(emit_all), kit.apply(emit_edge)
    if unroll == 1:

        def contiguous(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            first = block() * span
            element = first + thread() * vector
            if element + vector <= extents[0]:  # in the last block, too
                apply_all(pointers, values, extents, (element,))
            if first + span > extents[0]:
                apply_edge(pointers, values, extents, (first, thread()))

        return contiguous

    def contiguous_steps(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        first = block() * span
        if first + span <= extents[0]:
            apply_all(pointers, values, extents, (first + thread() * vector,))
        else:
            apply_edge(pointers, values, extents, (first, thread()))

    return contiguous_steps


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

    def emit_rest(body: Body, extents: list[Any], numbers: list[Any]) -> None:
        builder = body.builder
        end = builder.sext(extents[0], I64) if variant.index_bits == 32 else extents[0]
        with rolled(builder, numbers[0], end, I64(threads)) as item:
            body.batch([locate(body, extents, item)[1]], variant.vector, body.inner_strides(extents))

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
            with edge, rolled(builder, first.type(0), builder.sub(size, first), first.type(1)) as i:
                number = builder.sext(i, I64) if i.type.width < 64 else i
                moved = [
                    builder.add(offset, builder.mul(stride, number))
                    for offset, stride in zip(offsets, strides, strict=True)
                ]
                body.batch([moved], 1, strides)

    if unroll == 1:
        apply_one = kit.apply(emit_one)

        def strided(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            item = block() * threads + thread()
            if item < extents[0]:
                apply_one(pointers, values, extents, (item,))

        return strided

    assert variant.even
    apply_all, apply_rest = kit.apply(emit_all), kit.apply(emit_rest)

    def strided_steps(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        first = block() * span
        item = first + thread()
        if first + span <= extents[0]:
            apply_all(pointers, values, extents, (item,))
        else:
            apply_rest(pointers, values, extents, (item,))

    return strided_steps


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
