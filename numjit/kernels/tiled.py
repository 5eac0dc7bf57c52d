"""Emission of tiles: operands that disagree about the fastest dimension meet through shared memory.

A block handles one square tile of the first two dimensions. Operands whose neighbours lie along the
second dimension are *staged*: read along it at full width, kept in shared memory as they are stored.
Then every thread *applies* the functor along the first dimension, in which all other operands,
outputs included, have their neighbours. Rows in shared memory are padded, so that neither direction
meets bank conflicts worse than two-way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from numjit.codegen.loops import rolled
from numjit.codegen.storage import decode, lane_type, lanes_of
from numjit.dtypes import DType
from numjit.kernels.body import Body
from numjit.kernels.memory import load_lanes
from numjit.plan.variant import tile_pitch

__all__ = ["Tile", "shared_bytes"]

I8, I32, I64 = (ir.IntType(bits) for bits in (8, 32, 64))
#: LLVM's number of the shared address space, and the buffer's name in the module.
_SHARED = 3
_BUFFER = "numjit_tile"
#: Steps whose loads are issued before the first use.
_UNROLL = 2


class _Lanes(NamedTuple):
    """How a block's threads cover a tile with vectors of `vector` elements.

    This thread handles the vectors at rows ``row``, ``row + rows``, ... and column ``column``;
    `spare` tells (where not None) that it has nothing to do.
    """

    row: Any
    column: Any
    rows: int
    passes: int
    vector: int
    spare: Any


def shared_bytes(body: Body) -> int:
    """Bytes of shared memory that the staged operands take."""
    return sum(_layout(body).values())


def _layout(body: Body) -> dict[int, int]:
    side = body.spec.variant.tile
    return {
        k: -(-side * tile_pitch(side, dtype.itemsize) * dtype.itemsize // 16) * 16
        for k, (access, dtype) in enumerate(zip(body.spec.variant.accesses, body.spec.stored, strict=True))
        if access.mode == "tiled"
    }


class Tile:
    """One block's tile.

    Parameters
    ----------
    body
        The shell's body.
    extents
        The layout integers, as `numjit.plan.choose` packs them.
    block, thread
        This thread's numbers, as i64.
    shared
        Host only: the address of a buffer that stands in for shared memory.
    """

    def __init__(self, body: Body, extents: Sequence[Any], block: Any, thread: Any, shared: int = 0) -> None:
        self.body = body
        self.builder = builder = body.builder
        self.extents = extents
        self.variant = variant = body.spec.variant
        self.thread = builder.trunc(thread, I32)
        self.shared = shared
        index = extents[0].type
        number = builder.trunc(block, index) if index.width < 64 else block
        coordinates = body.split(extents, number)
        for d in (0, 1):
            coordinates[d] = builder.mul(coordinates[d], index(variant.tile))
        self.index = index
        self.first, self.second = coordinates[:2]
        self.base = body.offsets_at(extents, coordinates)
        end = [builder.add(at, index(variant.tile)) for at in coordinates[:2]]
        self.whole = builder.and_(
            builder.icmp_signed("<=", end[0], extents[1]), builder.icmp_signed("<=", end[1], extents[2])
        )

    # ------------------------------------------------------------------------------------- geometry

    def _lanes(self, vector: int) -> _Lanes:
        builder, side, block = self.builder, self.variant.tile, self.variant.block
        per_row = side // vector
        rows = block // per_row
        shift = I32(per_row.bit_length() - 1)
        row = builder.lshr(self.thread, shift)
        column = builder.mul(builder.and_(self.thread, I32(per_row - 1)), I32(vector))
        spare = builder.icmp_unsigned(">=", row, I32(side)) if rows > side else None
        return _Lanes(row, column, min(rows, side), max(1, side // rows), vector, spare)

    def _index(self, number: Any) -> Any:
        return number if self.index.width == 32 else self.builder.zext(number, self.index)

    def _offset(self, k: int, first: Any, second: Any) -> Any:
        """Byte offset of operand `k` at a place in the tile (i32 each)."""
        builder, access = self.builder, self.variant.accesses[k]
        dtype = self.body.spec.stored[k]
        strides = self.body.strides(self.extents, k)
        moved = builder.mul(
            self._index(second), self.index(dtype.itemsize) if access.mode == "tiled" else strides[1]
        )
        if access.mode == "unit":
            moved = builder.add(moved, builder.mul(self._index(first), self.index(dtype.itemsize)))
        elif access.mode != "fixed":
            moved = builder.add(moved, builder.mul(self._index(first), strides[0]))
        return builder.add(self.base[k], builder.sext(moved, I64) if self.index.width < 64 else moved)

    def _end(self, d: int) -> Any:
        """How much of the tile's side there is along a dimension (i32)."""
        builder, side = self.builder, self.index(self.variant.tile)
        left = builder.sub(self.extents[1 + d], (self.first, self.second)[d])
        end = builder.select(builder.icmp_signed("<", left, side), left, side)
        return builder.trunc(end, I32) if self.index.width > 32 else end

    def _clamped(self, rows: Sequence[Any], end: Any) -> tuple[list[Any], list[Any]]:
        """Rows of a tile that ends early, those outside replaced by its last one; whether each is inside."""
        builder = self.builder
        inside = [builder.icmp_signed("<", row, end) for row in rows]
        last = builder.sub(end, I32(1))
        return [builder.select(so, row, last) for so, row in zip(inside, rows, strict=True)], inside

    def _cover(
        self,
        lanes: _Lanes,
        ends: tuple[int, int],
        whole: Callable[[], None],
        full: Callable[[Any], None],
        one: Callable[[Any, Any], None],
    ) -> None:
        """Emit ``whole()`` for tiles that lie within the tensor, and what takes its place at the edges.

        `ends` are the dimensions of rows and columns. Threads whose vectors fit do ``full(row_end)``, the
        others ``one(row, column)`` for each element that is left to them.
        """
        builder = self.builder

        def edge() -> None:
            row_end, column_end = map(self._end, ends)
            end = builder.add(lanes.column, I32(lanes.vector))
            with builder.if_else(builder.icmp_signed("<=", end, column_end)) as (fits, partial):
                with fits:
                    full(row_end)
                with partial:
                    if lanes.vector > 1:
                        with (
                            rolled(builder, lanes.row, row_end, I32(lanes.rows)) as row,
                            rolled(builder, lanes.column, column_end, I32(1)) as column,
                        ):
                            one(row, column)

        with builder.if_else(self.whole) as (inside, outside):
            with inside:
                self._unless(lanes.spare, whole)
            with outside:
                self._unless(lanes.spare, edge)

    def _unless(self, spare: Any, emit: Callable[[], None]) -> None:
        if spare is None:
            emit()
            return
        with self.builder.if_then(self.builder.not_(spare)):
            emit()

    # ---------------------------------------------------------------------------------------- stage

    def stage(self) -> None:
        """Copy the staged operands' part of the tile into shared memory."""
        for k in _layout(self.body):
            self._stage_operand(k)

    def _stage_operand(self, k: int) -> None:
        builder, access, dtype = self.builder, self.variant.accesses[k], self.body.spec.stored[k]
        lanes = self._lanes(max(1, access.width // dtype.itemsize))
        rows = [builder.add(lanes.row, I32(step * lanes.rows)) for step in range(lanes.passes)]

        def fetch(row: Any, column: Any, count: int) -> list[Any]:
            address = builder.add(self.body.pointers[k], self._offset(k, row, column))
            return load_lanes(builder, self.body.machine, dtype, address, count, access.width)

        def whole() -> None:
            fetched = [fetch(row, lanes.column, lanes.vector) for row in rows]
            for row, found in zip(rows, fetched, strict=True):
                self._keep(k, dtype, row, lanes.column, found)

        def full(row_end: Any) -> None:
            clamped, inside = self._clamped(rows, row_end)
            fetched = [fetch(row, lanes.column, lanes.vector) for row in clamped]
            for row, so, found in zip(rows, inside, fetched, strict=True):
                with builder.if_then(so):
                    self._keep(k, dtype, row, lanes.column, found)

        def one(row: Any, column: Any) -> None:
            self._keep(k, dtype, row, column, fetch(row, column, 1))

        self._cover(lanes, (0, 1), whole, full, one)

    def _keep(self, k: int, dtype: DType, row: Any, column: Any, lanes: Sequence[Any]) -> None:
        """Store neighbouring elements (as lanes) at ``[row][column...]`` of operand `k`'s buffer."""
        per = lanes_of(dtype)
        for i, lane in enumerate(lanes):
            at = self.builder.add(column, I32(i // per))
            self.builder.store(lane, self._cell(k, dtype, row, at, i % per))

    def _cell(self, k: int, dtype: DType, row: Any, column: Any, lane: int) -> Any:
        """Pointer to one lane in shared memory."""
        builder, module = self.builder, self.builder.module
        start = sum(size for other, size in _layout(self.body).items() if other < k)
        pitch = tile_pitch(self.variant.tile, dtype.itemsize)
        element = builder.add(builder.mul(row, I32(pitch)), column)
        kind = lane_type(dtype)
        at = builder.add(builder.mul(element, I32(dtype.itemsize)), I32(start + lane * kind.width // 8))
        if not self.body.machine.is_ptx:
            address = builder.add(I64(self.shared), builder.zext(at, I64))
            return builder.inttoptr(address, kind.as_pointer())
        buffer = module.globals.get(_BUFFER)
        if buffer is None:
            buffer = ir.GlobalVariable(module, ir.ArrayType(I8, shared_bytes(self.body)), _BUFFER, _SHARED)
            buffer.linkage, buffer.align = "internal", 16
            buffer.initializer = ir.Constant(buffer.type.pointee, ir.Undefined)
        byte = builder.gep(buffer, [I32(0), at], inbounds=True)
        return builder.bitcast(byte, ir.PointerType(kind, _SHARED))

    # ---------------------------------------------------------------------------------------- apply

    def apply(self) -> None:
        """Run the functor over the tile, along the first dimension."""
        builder, body = self.builder, self.body
        lanes = self._lanes(self.variant.vector)
        strides = body.inner_strides(self.extents)

        def run(chosen: Sequence[Any], column: Any, count: int, inside: Sequence[Any] = ()) -> None:
            offsets = [[self._offset(k, column, row) for k in range(len(body.spec.stored))] for row in chosen]
            staged = [
                {
                    k: [self._kept(k, builder.add(column, I32(i)), row) for i in range(count)]
                    for k in _layout(body)
                }
                for row in chosen
            ]
            body.batch(offsets, count, strides, staged, inside)

        def each(steps: int, end: Any, do: Callable[[list[Any]], None]) -> None:
            """Emit ``do(rows)`` for this thread's rows up to an end, `steps` of them at a time."""
            with contextlib.ExitStack() as stack:
                row = lanes.row
                if steps < lanes.passes:
                    row = stack.enter_context(rolled(builder, row, end, I32(steps * lanes.rows)))
                do([builder.add(row, I32(step * lanes.rows)) for step in range(steps)])

        def whole() -> None:
            steps = min(_UNROLL, lanes.passes)
            each(steps, I32(self.variant.tile), lambda rows: run(rows, lanes.column, lanes.vector))

        def full(row_end: Any) -> None:
            steps = min(max(1, _UNROLL // lanes.vector), lanes.passes)

            def some(rows: list[Any]) -> None:
                clamped, inside = self._clamped(rows, row_end)
                run(clamped, lanes.column, lanes.vector, inside)

            each(steps, row_end, some)

        self._cover(lanes, (1, 0), whole, full, lambda row, column: run([row], column, 1))

    def _kept(self, k: int, first: Any, second: Any) -> Any:
        """Value of operand `k` at a place in the tile."""
        dtype = self.body.spec.stored[k]
        lanes = [self.builder.load(self._cell(k, dtype, first, second, i)) for i in range(lanes_of(dtype))]
        return decode(self.builder, self.body.machine, dtype, lanes)
