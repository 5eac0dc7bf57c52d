"""Raw operands in Python functors: ``table[i]`` and ``len(table)`` over an array's stored elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing import signature

from numjit.codegen.machine import Machine
from numjit.codegen.storage import convert, decode, lane_type, lanes_of
from numjit.dtypes import DType
from numjit.rules.dual import Dual
from numjit.rules.lowering import Emitter
from numjit.rules.traced import Traced
from numjit.rules.tracing import Tracer
from numjit.rules.types import Element, RefusalError, argument_type, representation, unwrap

__all__ = ["RawElements", "pack_raw", "register_raw"]

I1, I64 = ir.IntType(1), ir.IntType(64)
#: LLVM's number of the GPU's global address space.
_GLOBAL = 1


class RawElements(types.Type):  # type: ignore[misc]
    """The Numba type of a raw operand, represented as its address and its number of elements.

    Attributes
    ----------
    stored
        The dtype in memory.
    element
        The type of ``table[i]``.
    """

    def __init__(self, stored: DType, dtype: DType, default_dtype: DType) -> None:
        self.stored = stored
        self.element = Element(dtype, zero_dim=False, default_dtype=default_dtype)
        super().__init__(f"raw operand of {stored}")

    @property
    def key(self) -> Any:
        """What tells types apart: the name is for people."""
        return self.stored, self.element


def pack_raw(builder: Any, address: Any, size: Any) -> Any:
    """Return the value that represents a raw operand."""
    packed = ir.Constant(ir.LiteralStructType([I64, I64]), ir.Undefined)
    return builder.insert_value(builder.insert_value(packed, address, 0), size, 1)


def register_raw(target: Any, machine: Machine) -> None:
    """Make raw operands known to a target (see `numjit.functor.scalars.registry`)."""
    models = target.models

    class Model(models.StructModel):  # type: ignore[misc, name-defined]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, [("address", types.int64), ("size", types.int64)])

    target.register_model(RawElements, Model)
    keys = {name: (target.name, "numjit.raw", name) for name in ("getitem", "len")}

    class Getitem(target.template):  # type: ignore[misc]
        key = operator.getitem
        metadata = {"target": target.name}  # noqa: RUF012

        def generic(self, args: Any, kws: Any) -> Any:  # noqa: ARG002
            held, place = args
            if not isinstance(held, RawElements):
                return None
            place = unwrap(place)
            argument = argument_type(place)
            if argument is None or argument.dtype.kind not in "iu":
                shown = place if argument is None else argument.dtype
                raise RefusalError(f"a raw operand is indexed by one integer, not by {shown}; use int(...)")
            return signature(held.element, held, place)

        def get_impl_key(self, sig: Any) -> Any:  # noqa: ARG002
            return keys["getitem"]

    class Length(target.template):  # type: ignore[misc]
        key = len
        metadata = {"target": target.name}  # noqa: RUF012

        def generic(self, args: Any, kws: Any) -> Any:  # noqa: ARG002
            return signature(types.int64, *args) if isinstance(args[0], RawElements) else None

        def get_impl_key(self, sig: Any) -> Any:  # noqa: ARG002
            return keys["len"]

    target.infer_global(operator.getitem)(Getitem)
    target.infer_global(len)(Length)

    def getitem(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        held, place = sig.args
        index = args[1]
        if isinstance(index, int):  # Numba hands static operands over as Python numbers
            index = I64(index)
        elif isinstance(place, Dual):  # an integer made of one
            tracer = Tracer(Emitter(context, builder, machine))
            index = tracer.cast(Traced(tracer, place, index), types.int64).value
        elif index.type.width < 64:
            extend = builder.zext if representation(place).kind == "u" else builder.sext
            index = extend(index, I64)
        return load_element(context, builder, machine, held, args[0], index)

    def length(_context: Any, builder: Any, _sig: Any, args: Sequence[Any]) -> Any:
        return builder.extract_value(args[0], 1)

    target.lower(keys["getitem"], types.VarArg(types.Any))(getitem)
    target.lower(keys["len"], types.VarArg(types.Any))(length)


def load_element(
    context: Any, builder: Any, machine: Machine, kind: RawElements, held: Any, index: Any
) -> Any:
    """Emit the load of one element as ``table[i]`` gives it; negative indices count from the end."""
    size = builder.extract_value(held, 1)
    is_negative = builder.icmp_signed("<", index, I64(0))
    index = builder.select(is_negative, builder.add(index, size), index)
    address = builder.add(builder.extract_value(held, 0), builder.mul(index, I64(kind.stored.itemsize)))
    lane = lane_type(kind.stored)
    step = lane.width // 8
    pointer = ir.PointerType(lane, _GLOBAL if machine.is_ptx else 0)
    lanes = []
    for number in range(lanes_of(kind.stored)):
        at = builder.add(address, I64(number * step)) if number else address
        loaded = builder.load(builder.inttoptr(at, pointer))
        loaded.align = step if machine.is_ptx else 1
        # Nothing writes a raw operand while the functor runs: loads may move, and take the read-only path.
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        lanes.append(loaded)
    dtype = kind.element.dtype
    value = convert(builder, machine, decode(builder, machine, kind.stored, lanes), kind.stored, dtype)
    return Emitter(context, builder, machine).pack(dtype.compute, value)
