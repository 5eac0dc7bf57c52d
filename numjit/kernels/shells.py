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

__all__ = ["Shell", "make_shell"]

I1, I8, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))


@dataclasses.dataclass(frozen=True)
class Shell:
    """A kernel function and the Numba types of its three parameters.

    `function` takes ``(pointers, values, extents)``: base addresses, by-value arguments and layout
    integers, each a tuple that Numba flattens into scalar kernel parameters.
    """

    function: Callable[[Any, Any, Any], None]
    arguments: tuple[Any, Any, Any]


def make_shell(
    spec: ShellSpec,
    machine: Machine,
    *,
    callee: int | None = None,
    ids: int = 0,
) -> Shell:
    """Build the kernel of `spec` for `machine`; the caller has made the target's Numba importable.

    Parameters
    ----------
    spec, machine
        The shell and what it is compiled for.
    callee
        Host only: the address of the functor's seam function.
    ids
        Host only: the address of two int64, the block and thread number to run.
    """
    if machine.is_ptx:
        from numba.cuda import types
        from numba.cuda.extending import intrinsic
    else:
        from numba.core import types
        from numba.core.extending import intrinsic

    index = types.int64 if spec.variant.index_bits == 64 else types.int32
    values = types.Tuple(tuple(_value_types(spec, types)))
    kinds = (
        types.UniTuple(types.int64, len(spec.stored)),
        values,
        types.UniTuple(index, _extent_count(spec)),
    )
    build = _contiguous if spec.variant.kind == "contiguous" else _strided
    function = build(spec, machine, intrinsic, types, callee, ids)
    # Numba's symbol repeats both in every parameter's name; short ones keep PTX readable.
    function.__module__, function.__qualname__ = "numjit", spec.variant.kind
    return Shell(function, kinds)


def _value_types(spec: ShellSpec, types: Any) -> list[Any]:
    found = []
    for slot in spec.value_inputs:
        real = slot.dtype.compute.real
        found += [types.uint8 if real.kind == "b" else getattr(types, real.name)] * (
            2 if slot.dtype.is_complex else 1
        )
    return found


def _extent_count(spec: ShellSpec) -> int:
    variant = spec.variant
    if variant.kind == "contiguous":
        return 1
    return 2 + (variant.rank - 1) * 3 + len(spec.stored) * variant.rank


def _unpack(builder: Any, pack: Any) -> list[Any]:
    return [builder.extract_value(pack, i) for i in range(len(pack.type.elements))]


def _unpack_uniform(builder: Any, pack: Any) -> list[Any]:
    return [builder.extract_value(pack, i) for i in range(pack.type.count)]


def _position(machine: Machine, intrinsic: Any, types: Any, ids: int) -> tuple[Any, Any]:
    """Make the intrinsics ``block()`` and ``thread()``: this thread's numbers as int64."""

    def reader(register: str, offset: int) -> Any:
        def emit(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            if not machine.is_ptx:
                return builder.load(builder.inttoptr(I64(ids + offset), I64.as_pointer()))
            name = f"llvm.nvvm.read.ptx.sreg.{register}.x"
            known = builder.module.globals.get(name)
            if known is None:
                known = ir.Function(builder.module, ir.FunctionType(I32, []), name)
            return builder.zext(builder.call(known, []), I64)

        @intrinsic  # type: ignore[untyped-decorator]
        def position(_typing_context):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return types.int64(), emit

        return position

    return reader("ctaid", 0), reader("tid", 8)


def _contiguous(
    spec: ShellSpec, machine: Machine, intrinsic: Any, types: Any, callee: int | None, ids: int
) -> Callable[[Any, Any, Any], None]:
    variant = spec.variant
    block, thread = _position(machine, intrinsic, types, ids)
    vector, threads = variant.vector, variant.block
    span = threads * vector * variant.unroll

    def emitter(count: int, steps: int) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointers, values, element = args
            body = Body(
                builder, machine, spec, _unpack_uniform(builder, pointers), _unpack(builder, values), callee
            )
            strides = [I64(dtype.itemsize) for dtype in spec.stored]
            offsets = [
                body.contiguous_offsets(builder.add(element, I64(step * threads * vector)))
                for step in range(steps)
            ]
            body.batch(offsets, count, strides)
            return context.get_dummy_value()

        @intrinsic  # type: ignore[untyped-decorator]
        def apply(_typing_context, pointers, values, element):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return types.void(pointers, values, types.int64), emit

        return apply

    apply_vectors, apply_element = emitter(vector, variant.unroll), emitter(1, 1)

    def contiguous(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        count = extents[0]
        first = block() * span
        if first + span <= count:
            apply_vectors(pointers, values, first + thread() * vector)
        else:
            element = first + thread()
            while element < count:
                apply_element(pointers, values, element)
                element += threads

    return contiguous


def _strided(
    spec: ShellSpec, machine: Machine, intrinsic: Any, types: Any, callee: int | None, ids: int
) -> Callable[[Any, Any, Any], None]:
    variant = spec.variant
    block, thread = _position(machine, intrinsic, types, ids)
    threads, unroll = variant.block, variant.unroll
    span = threads * unroll

    def locate(body: Body, extents: list[Any], item: Any) -> tuple[Any, list[Any]]:
        narrow = body.builder.trunc(item, I32) if variant.index_bits == 32 else item
        return body.strided_offsets(extents, narrow)

    def prepare(builder: Any, args: Any) -> tuple[Body, list[Any], Any]:
        pointers, values, extents, item = args
        body = Body(
            builder, machine, spec, _unpack_uniform(builder, pointers), _unpack(builder, values), callee
        )
        return body, _unpack_uniform(builder, extents), item

    def emit_all(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        body, extents, item = prepare(builder, args)
        offsets = [locate(body, extents, builder.add(item, I64(step * threads)))[1] for step in range(unroll)]
        body.batch(offsets, variant.vector, body.inner_strides(extents))
        return context.get_dummy_value()

    def emit_one(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        body, extents, item = prepare(builder, args)
        first, offsets = locate(body, extents, item)
        strides = body.inner_strides(extents)
        if variant.even:
            body.batch([offsets], variant.vector, strides)
            return context.get_dummy_value()
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
        return context.get_dummy_value()

    def wrap(emit: Any) -> Any:
        @intrinsic  # type: ignore[untyped-decorator]
        def apply(_typing_context, pointers, values, extents, item):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return types.void(pointers, values, extents, types.int64), emit

        return apply

    apply_one = wrap(emit_one)
    if not variant.even or unroll == 1:

        def strided(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            item = block() * span + thread()
            for _ in range(unroll):
                if item < extents[0]:
                    apply_one(pointers, values, extents, item)
                item += threads

        return strided

    apply_all = wrap(emit_all)

    def strided_even(pointers, values, extents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        first = block() * span
        item = first + thread()
        if first + span <= extents[0]:
            apply_all(pointers, values, extents, item)
        else:
            for _ in range(unroll):
                if item < extents[0]:
                    apply_one(pointers, values, extents, item)
                item += threads

    return strided_even
