"""Emission of a shell's body: addresses, loads, the call of the functor, stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir

from numjit import dtypes
from numjit.codegen.integers import negated
from numjit.codegen.machine import Machine
from numjit.codegen.storage import convert, value_type
from numjit.dtypes import DType
from numjit.kernels.memory import load_elements, store_elements
from numjit.kernels.spec import FUNCTOR_SYMBOL, InputSlot, ShellSpec
from numjit.plan.variant import Access

__all__ = ["Body"]

I1, I8, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))


class Body:
    """Emits one shell's parts into the function that `builder` points at.

    Parameters
    ----------
    builder
        An llvmlite ``IRBuilder``.
    machine
        What to emit for.
    spec
        The shell.
    pointers
        Base address of each memory operand, outputs first, as i64.
    values
        The by-value arguments: one LLVM value for each seam component (two for complex).
    callee
        Address of the functor on the host; None calls the symbol that the linker resolves.
    """

    def __init__(
        self,
        builder: Any,
        machine: Machine,
        spec: ShellSpec,
        pointers: Sequence[Any],
        values: Sequence[Any],
        callee: int | None = None,
    ) -> None:
        self.builder = builder
        self.machine = machine
        self.spec = spec
        self.pointers = pointers
        self.values = values
        self.callee = callee
        self.results = [self._result_slots(slot.dtype) for slot in spec.outputs]

    # ------------------------------------------------------------------------------------- indices

    def contiguous_offsets(self, element: Any) -> list[Any]:
        """Byte offset of each memory operand at an element number (i64) of a contiguous layout."""
        return [self.builder.mul(element, I64(dtype.itemsize)) for dtype in self.spec.stored]

    def strided_offsets(self, extents: Sequence[Any], item: Any) -> tuple[Any, list[Any]]:
        """Locate work item `item` (of the index type): first inner index, byte offset of each operand.

        `extents` is laid out as `numjit.plan.choose` packs it.
        """
        coordinates = self.split(extents, item)
        vector = self.spec.variant.vector
        if vector > 1:
            coordinates[0] = self.builder.mul(coordinates[0], coordinates[0].type(vector))
        return coordinates[0], self.offsets_at(extents, coordinates)

    def split(self, extents: Sequence[Any], number: Any) -> list[Any]:
        """Split a running number into one coordinate a dimension, by the divisors in `extents`."""
        builder, variant = self.builder, self.spec.variant
        coordinates = []
        for d in range(variant.rank - 1):
            at = variant.header + d * 3
            quotient = self._divide(number, *extents[at + 1 : at + 3])
            coordinates.append(builder.sub(number, builder.mul(quotient, extents[at])))
            number = quotient
        return [*coordinates, number]

    def offsets_at(self, extents: Sequence[Any], coordinates: Sequence[Any]) -> list[Any]:
        """Byte offset (i64) of each memory operand at the given coordinates."""
        return [
            self._dot(access, dtype, coordinates, self.strides(extents, k))
            for k, (access, dtype) in enumerate(
                zip(self.spec.variant.accesses, self.spec.stored, strict=True)
            )
        ]

    def strides(self, extents: Sequence[Any], k: int) -> Sequence[Any]:
        """Byte strides of operand `k`, in the index type."""
        variant = self.spec.variant
        base = variant.header + (variant.rank - 1) * 3 + k * variant.rank
        return extents[base : base + variant.rank]

    def _divide(self, number: Any, magic: Any, shift: Any) -> Any:
        """Divide by the divisor that `numjit.plan.variant.magic_divisor` made `magic` and `shift` of."""
        builder, bits = self.builder, number.type.width
        if bits == 64 and self.machine.is_ptx:
            kind = ir.FunctionType(I64, [I64, I64])
            high = builder.call(ir.InlineAsm(kind, "mul.hi.u64 $0, $1, $2;", "=l,l,l"), [number, magic])
        else:
            wide = ir.IntType(2 * bits)
            product = builder.mul(builder.zext(number, wide), builder.zext(magic, wide))
            high = builder.trunc(builder.lshr(product, wide(bits)), number.type)
        return builder.lshr(builder.add(high, number), shift)

    def _dot(self, access: Access, dtype: DType, coordinates: Sequence[Any], strides: Sequence[Any]) -> Any:
        builder = self.builder
        kind = coordinates[0].type
        total = kind(0)
        for d, (coordinate, stride) in enumerate(zip(coordinates, strides, strict=True)):
            if d == 0 and access.mode == "fixed":
                continue
            step = kind(dtype.itemsize) if d == 0 and access.mode == "unit" else stride
            total = builder.add(total, builder.mul(coordinate, step))
        return builder.sext(total, I64) if kind.width < 64 else total

    def inner_strides(self, extents: Sequence[Any]) -> list[Any]:
        """Byte stride of each memory operand along the inner dimension, as i64."""
        strides = []
        for k, (access, dtype) in enumerate(zip(self.spec.variant.accesses, self.spec.stored, strict=True)):
            if access.mode == "strided":
                stride = self.strides(extents, k)[0]
                strides.append(self.builder.sext(stride, I64) if stride.type.width < 64 else stride)
            else:
                strides.append(I64(dtype.itemsize if access.mode == "unit" else 0))
        return strides

    # ---------------------------------------------------------------------------------------- steps

    def batch(
        self,
        offsets: Sequence[Sequence[Any]],
        count: int,
        strides: Sequence[Any],
        fetched: Sequence[Mapping[int, Sequence[Any]]] | None = None,
        inside: Sequence[Any] = (),
    ) -> None:
        """Handle `count` neighbours at each list of byte offsets: loads first, then calls, then stores.

        `fetched` gives, per list of offsets, the stored elements of operands that were loaded before
        (from a tile), decoded, by operand number; `inside`, per list, whether more is done than to load.
        """
        loaded = [
            self._load_all(step, count, strides, fetched[i] if fetched else {})
            for i, step in enumerate(offsets)
        ]
        if inside:
            for so, step, inputs in zip(inside, offsets, loaded, strict=True):
                with self.builder.if_then(so):
                    self._store_all(step, self._call_all(inputs, count), strides)
            return
        results = [self._call_all(inputs, count) for inputs in loaded]
        for step, outputs in zip(offsets, results, strict=True):
            self._store_all(step, outputs, strides)

    def _store_all(
        self, step: Sequence[Any], outputs: Sequence[Sequence[Any]], strides: Sequence[Any]
    ) -> None:
        for k, (slot, values) in enumerate(zip(self.spec.outputs, outputs, strict=True)):
            self._store(k, slot.stored, step[k], values, strides[k])

    def _load_all(
        self,
        offsets: Sequence[Any],
        count: int,
        strides: Sequence[Any],
        fetched: Mapping[int, Sequence[Any]],
    ) -> list[list[Any]]:
        """Values of every input (by-value ones repeated) for `count` neighbouring elements."""
        columns = []
        memory = len(self.spec.outputs)
        component = 0
        for slot in self.spec.inputs:
            if slot.is_index:
                columns.append(self._numbers(offsets[-1], count, strides[-1]))
            elif slot.stored is None:
                parts = self.values[component : component + slot.components]
                component += slot.components
                value = tuple(parts) if slot.components == 2 else parts[0]
                columns.append([value] * count)
            else:
                if memory in fetched:
                    raw = fetched[memory]
                else:
                    raw = self._load(memory, slot.stored, offsets[memory], count, strides[memory])
                columns.append([self._arrive(slot, value) for value in raw])
                memory += 1
        return columns

    def _numbers(self, offset: Any, count: int, stride: Any) -> list[Any]:
        """Return the numbers of `count` neighbouring elements: the index operand's addresses themselves."""
        first = self.builder.add(self.pointers[-1], offset)
        return [self.builder.add(first, self.builder.mul(stride, I64(i))) for i in range(count)]

    def _load(self, k: int, stored: DType, offset: Any, count: int, stride: Any) -> Sequence[Any]:
        builder, access = self.builder, self.spec.variant.accesses[k]
        address = builder.add(self.pointers[k], offset)
        if access.mode == "unit":
            return load_elements(builder, self.machine, stored, address, count, access.width)
        if access.mode == "fixed":
            return load_elements(builder, self.machine, stored, address, 1, access.width) * count
        raw: list[Any] = []
        for i in range(count):
            raw += load_elements(builder, self.machine, stored, address, 1, access.width)
            if i + 1 < count:
                address = builder.add(address, stride)
        return raw

    def _arrive(self, slot: InputSlot, value: Any) -> Any:
        """Apply the operand's conj and neg bits, then convert to the functor's dtype."""
        stored = slot.stored
        assert stored is not None
        if slot.view and stored.is_complex:
            real, imag = value
            if "neg" in slot.view:
                real = self._negate(real)
            if slot.view in ("conj", "neg"):  # both together leave the imaginary part alone
                imag = self._negate(imag)
            value = (real, imag)
        elif "neg" in slot.view:
            value = self._negate(value)
        return convert(self.builder, self.machine, value, stored, slot.dtype)

    def _negate(self, value: Any) -> Any:
        # NVVM refuses LLVM's fneg instruction.
        if isinstance(value.type, ir.IntType):
            return negated(self.builder, self.machine, value)
        return self.builder.fsub(value.type(-0.0), value)

    def _store(self, k: int, stored: DType, offset: Any, values: Sequence[Any], stride: Any) -> None:
        builder, access = self.builder, self.spec.variant.accesses[k]
        address = builder.add(self.pointers[k], offset)
        if access.mode == "unit":
            store_elements(builder, self.machine, stored, address, values, access.width)
            return
        for i, value in enumerate(values):
            at = address if i == 0 else builder.add(address, builder.mul(stride, I64(i)))
            store_elements(builder, self.machine, stored, at, [value], access.width)

    # ----------------------------------------------------------------------------------- the functor

    def _call_all(self, columns: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
        outputs: list[list[Any]] = [[] for _ in self.spec.outputs]
        for i in range(count):
            for column, value in zip(outputs, self._call([c[i] for c in columns]), strict=True):
                column.append(value)
        return outputs

    def _call(self, inputs: Sequence[Any]) -> list[Any]:
        """Call the functor on one element; returns each result converted to its stored dtype."""
        builder = self.builder
        args = [slot for slots in self.results for slot in slots[:1]]
        for slot, value in zip(self.spec.inputs, inputs, strict=True):
            if slot.components == 2:
                args += value
            elif slot.dtype is dtypes.bool_:
                args.append(builder.zext(value, I8) if value.type.width == 1 else value)
            else:
                args.append(value)
        kind = ir.FunctionType(I32, [arg.type for arg in args])
        builder.call(self._functor(kind), args)
        outputs = []
        for result, cells in zip(self.spec.outputs, self.results, strict=True):
            parts = [builder.load(cell) for cell in cells]
            if result.dtype is dtypes.bool_:
                parts = [builder.icmp_unsigned("!=", parts[0], I8(0))]
            value = tuple(parts) if result.dtype.is_complex else parts[0]
            converted = convert(builder, self.machine, value, result.dtype, result.stored, rounded=False)
            outputs.append(converted)
        return outputs

    def _functor(self, kind: Any) -> Any:
        if self.callee is not None:
            return self.builder.inttoptr(I64(self.callee), kind.as_pointer())
        module = self.builder.module
        found = module.globals.get(FUNCTOR_SYMBOL)
        return found if found is not None else ir.Function(module, kind, FUNCTOR_SYMBOL)

    def _result_slots(self, dtype: DType) -> list[Any]:
        """Stack cells that the functor writes one result to; the linker's optimiser removes them."""
        builder = self.builder
        element = I8 if dtype is dtypes.bool_ else value_type(dtype)
        with builder.goto_entry_block():
            if not dtype.is_complex:
                return [builder.alloca(element)]
            pair = builder.alloca(ir.ArrayType(element, 2))
            return [builder.gep(pair, [I32(0), I32(i)], inbounds=True) for i in (0, 1)]
