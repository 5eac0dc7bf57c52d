"""Compiles the CPU loop around a Python functor with Numba's CPU target.

The loop nest is emitted as LLVM IR. There is one innermost loop, over contiguous memory, which LLVM
vectorises: an operand whose innermost stride is not its item size is gathered into (or scattered from)
a small buffer on the stack, block by block. So any mix of contiguous, broadcast and strided operands
runs the same vector code, and the functor is compiled into the loop once.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from numjit import dtypes
from numjit.codegen.loops import Distinct
from numjit.codegen.machine import HOST
from numjit.codegen.storage import convert, decode, encode, lane_type, lanes_of, value_type
from numjit.cpu import object_code
from numjit.cpu.chunk import HostChunk
from numjit.dtypes import DType
from numjit.functor.signature import Specialisation
from numjit.ground.numba_ready import numba_ready

if TYPE_CHECKING:
    from numjit.functor.python import PythonFunctor
    from numjit.functor.scalars.compiler import Compiled

__all__ = ["build_chunk", "llvm_code"]

I1, I8, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(64)
#: Elements of a stack buffer: few enough that the buffers of many operands stay in the first-level cache.
_BLOCK = 256
#: Dimensions that remain after coalescing are at most 25; torch's limit is 64.
_MAX_RANK = 64
#: Bytes of a by-value argument's slot.
_SLOT = 16
_serial = itertools.count()


def build_chunk(
    functor: PythonFunctor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
) -> HostChunk:
    """Compile the CPU loop of a functor.

    Parameters
    ----------
    functor
        The functor.
    specialisation
        From `PythonFunctor.specialise` with ``target="cpu"``.
    storages
        Stored dtype of each input, in the order of ``specialisation.inputs``; None where it is passed by
        value (a raw operand: address and size).
    stored_outputs
        Stored dtype of each output.
    views
        For each input ``""``, ``"conj"``, ``"neg"`` or ``"conj neg"``: what is applied on load.

    Returns
    -------
    HostChunk
        Native code that does not need the GIL.

    Raises
    ------
    CompilationError
        The functor cannot be compiled for these types.
    """
    with numba_ready():
        from numjit.functor.scalars import compiler

    compiled = functor.take_compiled(specialisation, "cpu")
    with compiler.compiling("cpu"):
        name, library = _library(compiler, functor, compiled, specialisation, storages, stored_outputs, views)
        codegen = library._codegen.real
        packed = object_code.pack(name, codegen._tm.emit_object(library._final_module))
        loaded = object_code.load(packed)
        if loaded is not None:  # as later processes will load it
            return dataclasses.replace(loaded, packed=packed)
        library._codegen = codegen
        codegen._add_module(library._final_module)
        return HostChunk(library.get_pointer_to_function(name), library)


def llvm_code(
    functor: PythonFunctor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
) -> str:
    """Return the optimised LLVM code of the loop of `build_chunk`."""
    with numba_ready():
        from numjit.functor.scalars import compiler

    compiled = functor.take_compiled(specialisation, "cpu")
    with compiler.compiling("cpu"):
        _, library = _library(compiler, functor, compiled, specialisation, storages, stored_outputs, views)
        return str(library.get_llvm_str())


def _library(
    compiler: Any,
    functor: PythonFunctor,
    compiled: Compiled,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
) -> tuple[str, Any]:
    """Return the loop's name and Numba's library of it, optimised and in no engine yet."""
    name = f"numjit_chunk_{next(_serial)}"
    module = compiled.context.create_module(name)
    nest = _Nest(
        compiler,
        module,
        name,
        compiled,
        specialisation,
        storages=storages,
        stored_outputs=stored_outputs,
        views=views,
        raws=functor.signature.raws,
    )
    nest.emit()
    library = compiled.library
    library._codegen = _OutsideTheEngine(library._codegen)
    library.add_ir_module(module)
    for function in library.get_defined_functions():
        if function.name != name:  # inlined into the loop, then not needed by themselves
            function.linkage = "internal"
    library.finalize()
    return name, library


class _OutsideTheEngine:
    """Numba's code generator, but for its engine, which keeps all that it was ever given.

    That is half a megabyte a functor.
    """

    def __init__(self, codegen: Any) -> None:
        self.real = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def _add_module(self, _module: Any) -> None:
        return None


@dataclasses.dataclass
class _Operand:
    """One operand in memory while the loop nest is emitted.

    Attributes
    ----------
    place
        Position among the pointers and strides.
    dtype
        As stored.
    current
        Stack variable: address of the present row's first element.
    stride
        Innermost byte stride.
    is_unit
        ``i1``: whether the innermost stride is the item size.
    buffer
        Stack buffer of a block of elements.
    """

    place: int
    dtype: DType
    current: Any = None
    stride: Any = None
    is_unit: Any = None
    buffer: Any = None


class _Nest:
    """Emits one chunk function."""

    def __init__(
        self,
        compiler: Any,
        module: Any,
        name: str,
        compiled: Compiled,
        specialisation: Specialisation,
        *,
        storages: Sequence[DType | None],
        stored_outputs: Sequence[DType],
        views: Sequence[str],
        raws: frozenset[int],
    ) -> None:
        self.compiler = compiler
        self.raws = raws
        self.module = module
        self.compiled = compiled
        self.specialisation = specialisation
        self.storages = storages
        self.views = views
        self.outputs = [_Operand(place, dtype) for place, dtype in enumerate(stored_outputs)]
        memory = [dtype for dtype in storages if dtype is not None]
        self.inputs = [_Operand(len(self.outputs) + place, dtype) for place, dtype in enumerate(memory)]
        self.operands = self.outputs + self.inputs
        # One operand more, last, whose "address" is the element's own number.
        self.number: _Operand | None = None
        if len(compiled.arguments) > len(storages):
            self.number = _Operand(len(self.operands), dtypes.int8)
        table, pointer = I64.as_pointer(), I8.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [table, table, table, pointer, I64, I64, I64])
        function = ir.Function(module, kind, name)
        self.pointers, self.shape, self.strides, self.values, self.rank, self.start, self.stop = function.args
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))

    # ------------------------------------------------------------------------------- helpers

    def _load(self, table: Any, place: Any) -> Any:
        return self.builder.load(self.builder.gep(table, [place]))

    def _smaller(self, x: Any, y: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", x, y), x, y)

    def _count_up(self, count: Any, body: Callable[[Any], None], after: Callable[[Any], None]) -> None:
        """Emit ``for i in range(count)``, where count >= 1; `after` sees the closing branch."""
        b = self.builder
        before = b.block
        loop, done = b.append_basic_block("loop"), b.append_basic_block("done")
        b.branch(loop)
        b.position_at_end(loop)
        index = b.phi(I64)
        index.add_incoming(I64(0), before)
        body(index)
        following = b.add(index, I64(1), flags=["nsw", "nuw"])
        index.add_incoming(following, b.block)
        after(b.cbranch(b.icmp_signed("<", following, count), loop, done))
        b.position_at_end(done)

    def _plain(self, branch: Any) -> None:
        """Mark a loop that vectorising does not make faster, to save its time."""
        loop = Distinct(self.module)
        false = ir.Constant(I1, 0)
        loop.operands = (
            loop,
            self.module.add_metadata(["llvm.loop.vectorize.enable", false]),
        )
        branch.set_metadata("llvm.loop", loop)

    # ------------------------------------------------------------------------------- the nest

    def emit(self) -> None:
        """Emit the whole function."""
        b = self.builder
        function = b.function
        rows, finish = function.append_basic_block("rows"), function.append_basic_block("finish")
        index = b.alloca(ir.ArrayType(I64, _MAX_RANK))
        remaining = b.alloca(I64)
        numbers = [self.number] if self.number else []
        for operand in numbers:
            operand.current = b.alloca(I64)
            operand.stride = self._load(self.strides, b.mul(self.rank, I64(operand.place)))
            b.store(self._load(self.pointers, I64(operand.place)), operand.current)
        for operand in self.operands:
            operand.current = b.alloca(I64)
            operand.buffer = b.alloca(ir.ArrayType(I8, _BLOCK * operand.dtype.itemsize))
            operand.buffer.align = 64
        scalars = self._by_value()
        all_unit: Any = I1(1)
        for operand in self.operands:
            operand.stride = self._load(self.strides, b.mul(self.rank, I64(operand.place)))
            operand.is_unit = b.icmp_signed("==", operand.stride, I64(operand.dtype.itemsize))
            all_unit = b.and_(all_unit, operand.is_unit)
            b.store(self._load(self.pointers, I64(operand.place)), operand.current)
        count = b.sub(self.stop, self.start)
        b.store(count, remaining)
        self._seek(index)
        b.cbranch(b.icmp_signed(">", count, I64(0)), rows, finish)

        b.position_at_end(rows)
        first = b.gep(index, [I64(0), I64(0)])
        width = self._load(self.shape, I64(0))
        left = b.load(remaining)
        count = self._smaller(b.sub(width, b.load(first)), left)
        self._row(count, all_unit, scalars)
        left = b.sub(left, count)
        b.store(left, remaining)
        following = function.append_basic_block("next")
        b.cbranch(b.icmp_signed(">", left, I64(0)), following, finish)
        b.position_at_end(following)
        self._advance(index)
        b.branch(rows)
        b.position_at_end(finish)
        b.ret_void()

    def _seek(self, index: Any) -> None:
        """Set the index and the current addresses to element `start`."""
        b = self.builder
        rest = b.alloca(I64)
        b.store(self.start, rest)

        def body(dimension: Any) -> None:
            size = self._load(self.shape, dimension)
            linear = b.load(rest)
            place = b.urem(linear, size)
            b.store(b.udiv(linear, size), rest)
            b.store(place, b.gep(index, [I64(0), dimension]))
            self._move(dimension, place)

        self._count_up(self.rank, body, self._plain)

    def _move(self, dimension: Any, steps: Any) -> None:
        """Move every current address by `steps` along a dimension."""
        b = self.builder
        for operand in [*self.operands, self.number] if self.number else self.operands:
            row = b.mul(self.rank, I64(operand.place))
            stride = self._load(self.strides, b.add(row, dimension))
            b.store(b.add(b.load(operand.current), b.mul(steps, stride)), operand.current)

    def _advance(self, index: Any) -> None:
        """Go from where a row was begun to the start of the next row."""
        b = self.builder
        first = b.gep(index, [I64(0), I64(0)])
        self._move(I64(0), b.neg(b.load(first)))
        b.store(I64(0), first)
        before = b.block
        carry, wrap, done = (b.append_basic_block(name) for name in ("carry", "wrap", "moved"))
        b.branch(carry)
        b.position_at_end(carry)
        dimension = b.phi(I64)
        dimension.add_incoming(I64(1), before)
        self._move(dimension, I64(1))
        slot = b.gep(index, [I64(0), dimension])
        stepped = b.add(b.load(slot), I64(1))
        b.store(stepped, slot)
        size = self._load(self.shape, dimension)
        b.cbranch(b.icmp_signed("<", stepped, size), done, wrap)
        b.position_at_end(wrap)
        self._move(dimension, b.sub(I64(0), size))
        b.store(I64(0), slot)
        dimension.add_incoming(b.add(dimension, I64(1)), b.block)
        b.branch(carry)
        b.position_at_end(done)

    # ------------------------------------------------------------------------------- one row

    def _row(self, count: Any, all_unit: Any, scalars: list[Any]) -> None:
        """Process `count` elements from the current addresses along the fastest dimension."""
        b = self.builder
        offset = b.alloca(I64)
        b.store(I64(0), offset)
        block, done = b.append_basic_block("block"), b.append_basic_block("row.done")
        b.branch(block)
        b.position_at_end(block)
        begun = b.load(offset)
        left = b.sub(count, begun)
        length = b.select(all_unit, left, self._smaller(left, I64(_BLOCK)))
        sources = [self._source(operand, begun, length) for operand in self.inputs]
        targets = [self._target(operand, begun) for operand in self.outputs]
        first = self._address(self.number, begun) if self.number else None
        self._contiguous(length, sources, targets, scalars, first)
        for operand in self.outputs:
            self._scatter(operand, begun, length)
        begun = b.add(begun, length)
        b.store(begun, offset)
        b.cbranch(b.icmp_signed("<", begun, count), block, done)
        b.position_at_end(done)

    def _address(self, operand: _Operand, begun: Any) -> Any:
        b = self.builder
        return b.add(b.load(operand.current), b.mul(begun, operand.stride))

    def _source(self, operand: _Operand, begun: Any, length: Any) -> Any:
        """Return a pointer to a block of an input, contiguous there or gathered."""
        b = self.builder
        element = ir.IntType(8 * operand.dtype.itemsize)
        address = self._address(operand, begun)
        with b.if_then(b.not_(operand.is_unit)):
            buffer = b.bitcast(operand.buffer, element.as_pointer())

            def store(index: Any, value: Any) -> None:
                stored = b.store(value, b.gep(buffer, [index]))
                stored.align = 1

            def gather(index: Any) -> None:
                store(index, self._element(element, b.add(address, b.mul(index, operand.stride))))

            with b.if_else(b.icmp_signed("==", operand.stride, I64(0))) as (broadcast, strided):
                with broadcast, b.if_then(b.icmp_signed("==", begun, I64(0))):
                    value = self._element(element, address)
                    self._count_up(length, lambda index: store(index, value), _nothing)
                with strided:
                    self._count_up(length, gather, self._plain)
        chosen = b.select(operand.is_unit, address, b.ptrtoint(operand.buffer, I64))
        return b.inttoptr(chosen, lane_type(operand.dtype).as_pointer())

    def _element(self, element: Any, address: Any) -> Any:
        loaded = self.builder.load(self.builder.inttoptr(address, element.as_pointer()))
        loaded.align = 1
        return loaded

    def _target(self, operand: _Operand, begun: Any) -> Any:
        b = self.builder
        chosen = b.select(operand.is_unit, self._address(operand, begun), b.ptrtoint(operand.buffer, I64))
        return b.inttoptr(chosen, lane_type(operand.dtype).as_pointer())

    def _scatter(self, operand: _Operand, begun: Any, length: Any) -> None:
        """Copy a block of results from the buffer to a strided output."""
        b = self.builder
        element = ir.IntType(8 * operand.dtype.itemsize)
        address = self._address(operand, begun)
        with b.if_then(b.not_(operand.is_unit)):
            buffer = b.bitcast(operand.buffer, element.as_pointer())

            def copy(index: Any) -> None:
                value = b.load(b.gep(buffer, [index]))
                value.align = 1
                place = b.add(address, b.mul(index, operand.stride))
                stored = b.store(value, b.inttoptr(place, element.as_pointer()))
                stored.align = 1

            self._count_up(length, copy, self._plain)

    # ---------------------------------------------------------------------- the innermost loop

    def _contiguous(
        self, length: Any, sources: list[Any], targets: list[Any], scalars: list[Any], first: Any
    ) -> None:
        """Emit the loop that LLVM vectorises; `first` is its first element's number, where that is used."""
        b = self.builder
        # Memory is either the same element of the same iteration or disjoint (the plan sees to it), so
        # iterations are independent; without saying so, in-place calls and calls of many operands would
        # fail LLVM's overlap checks and run scalar code.
        group = Distinct(self.module)
        loop = Distinct(self.module)
        loop.operands = (loop, self.module.add_metadata(["llvm.loop.parallel_accesses", group]))

        def body(index: Any) -> None:
            values = self._arguments(index, sources, scalars, group)
            if self.number:
                values.append(b.add(first, b.mul(index, self.number.stride)))
            results = self.compiler.call_functor(self.compiled, b, self.module, values)
            for place, (operand, target) in enumerate(zip(self.outputs, targets, strict=True)):
                own = self.compiler.representation(self.compiled.results[place])
                dtype = self.specialisation.outputs[place]
                value = convert(b, HOST, results[place], own, dtype.compute, rounded=False)
                value = convert(b, HOST, value, dtype, operand.dtype, rounded=False)
                self._store_lanes(target, index, encode(b, HOST, operand.dtype, value), group)

        self._count_up(length, body, lambda branch: branch.set_metadata("llvm.loop", loop))

    def _arguments(self, index: Any, sources: list[Any], scalars: list[Any], group: Any) -> list[Any]:
        """Load and convert one element of every input."""
        b = self.builder
        memory = iter(sources)
        values = []
        for place, dtype in enumerate(self.specialisation.inputs):
            stored = self.storages[place]
            if stored is None:
                values.append(scalars[place])
                continue
            lanes = self._load_lanes(next(memory), index, stored, group)
            value = _viewed(b, stored, decode(b, HOST, stored, lanes), self.views[place])
            values.append(convert(b, HOST, value, stored, dtype))
        return values

    def _load_lanes(self, pointer: Any, index: Any, dtype: DType, group: Any) -> list[Any]:
        b = self.builder
        width = lanes_of(dtype)
        lanes = []
        for lane in range(width):
            place = b.add(b.mul(index, I64(width)), I64(lane)) if width > 1 else index
            loaded = b.load(b.gep(pointer, [place]))
            loaded.align = 1
            loaded.set_metadata("llvm.access.group", group)
            lanes.append(loaded)
        return lanes

    def _store_lanes(self, pointer: Any, index: Any, lanes: list[Any], group: Any) -> None:
        b = self.builder
        for lane, value in enumerate(lanes):
            place = b.add(b.mul(index, I64(len(lanes))), I64(lane)) if len(lanes) > 1 else index
            stored = b.store(value, b.gep(pointer, [place]))
            stored.align = 1
            stored.set_metadata("llvm.access.group", group)

    def _by_value(self) -> list[Any]:
        """Read the slots of the arguments passed by value; None for those in memory."""
        b = self.builder
        scalars: list[Any] = []
        slot = 0
        for k, (dtype, stored) in enumerate(zip(self.specialisation.inputs, self.storages, strict=True)):
            if stored is not None:
                scalars.append(None)
                continue
            if k in self.raws:
                pair = b.bitcast(b.gep(self.values, [I64(slot * _SLOT)]), I64.as_pointer())
                numbers = [b.load(b.gep(pair, [I64(part)])) for part in (0, 1)]
                for number in numbers:
                    number.align = 1
                scalars.append(tuple(numbers))
                slot += 1
                continue
            kind = I8 if dtype is dtypes.bool_ else value_type(dtype)
            base = b.bitcast(b.gep(self.values, [I64(slot * _SLOT)]), kind.as_pointer())
            parts = []
            for lane in range(lanes_of(dtype)):
                part = b.load(b.gep(base, [I64(lane)]))
                part.align = 1
                parts.append(part)
            value: Any = tuple(parts) if dtype.is_complex else parts[0]
            scalars.append(b.icmp_unsigned("!=", value, I8(0)) if dtype is dtypes.bool_ else value)
            slot += 1
        return scalars


def _nothing(_branch: Any) -> None:
    return None


def _viewed(builder: Any, dtype: DType, value: Any, view: str) -> Any:
    """Apply a view's lazy conjugation and negation to a loaded value."""
    if "conj" in view and dtype.is_complex:
        value = value[0], builder.fneg(value[1])
    if "neg" in view:
        if dtype.is_complex:
            return tuple(builder.fneg(part) for part in value)
        return builder.fneg(value) if dtype.is_floating else builder.neg(value)
    return value
