"""What keeps compiled functors from raising: a kernel has no way to say that one element did.

Numba's functions answer a status beside their result, and one that raises leaves every result unset. numjit
looks at no status, so code that could set one is refused when it is lowered, but for ranges and items of
tuples, which are written here so that they never do.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing import signature

from numjit.codegen.machine import Machine
from numjit.rules.lowering import Emitter
from numjit.rules.table import RULES
from numjit.rules.tracing import lower, result_kind
from numjit.rules.types import RefusalError, argument_type, unwrap

__all__ = ["SAFE", "never_raising", "register_safe"]

I64 = ir.IntType(64)


def never_raising(convention: type) -> type:
    """Return a calling convention of Numba's whose functions cannot answer that they raised."""

    class NeverRaising(convention):  # type: ignore[misc]
        def return_user_exc(self, builder: Any, exc: Any, exc_args: Any = None, **where: Any) -> Any:
            if exc_args not in _NEVER:
                what = getattr(exc, "__name__", str(exc))
                shown = f" ({', '.join(map(str, exc_args))})" if exc_args else ""
                raise RefusalError(
                    f"it could raise {what}{shown}, which a functor cannot; write it otherwise"
                )
            return super().return_user_exc(builder, exc, exc_args, **where)

        def call_function(self, builder: Any, callee: Any, *arguments: Any, **options: Any) -> Any:
            status, result = super().call_function(builder, callee, *arguments, **options)
            if callee.name in self.context.session.functions:
                self.context.session.statuses.append(status)
            return status, result

        def return_status_propagate(self, builder: Any, status: Any) -> Any:
            if not any(status is known for known in self.context.session.statuses):
                raise RefusalError("it needs a function of Numba's that could raise; write it otherwise")
            return super().return_status_propagate(builder, status)

    return NeverRaising


#: What Numba's loops over ranges and tuples check: a step of 0 and a place outside do not get so far.
_NEVER = (("range() arg 3 must not be zero",), ("tuple index out of range",))


class _SafeFunction(types.Callable, types.Opaque):  # type: ignore[misc]
    """The Numba type of ``range`` or ``operator.getitem`` in numjit's own compilations."""

    def __init__(self, target: str, function: Any, typing_context: Any) -> None:
        self.target, self.function = target, function
        self.key_of_impl = (target, "numjit.safe", function)
        self._typing_context = typing_context
        super().__init__(f"numjit.safe({target} {function.__name__})")

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Return no fixed signatures: any argument types may do."""
        return [], True

    def numba_type(self) -> Any:
        """Return the type under which Numba knows the function."""
        return self._typing_context._lookup_global(self.function)


class SafeRange(_SafeFunction):
    """``range`` of ints and integer elements; one whose step is 0 is empty."""

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Return the signature for argument types: all are int64."""
        for kind in args:
            argument = argument_type(kind)
            if argument is None or argument.dtype.kind not in "uib":
                shown = kind if argument is None else argument.dtype
                raise RefusalError(f"range() of {shown} is not supported; it needs integers, int(...)")
        return self.numba_type().get_call_type(context, (types.int64,) * len(args), kws)

    def get_impl_key(self, sig: Any) -> Any:
        """Return the key of the lowering."""
        return self.key_of_impl if len(sig.args) == 3 else self.numba_type().get_impl_key(sig)


class SafeItem(_SafeFunction):
    """``t[k]``; an item of a tuple that is not there is 0."""

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Return the signature for argument types."""
        held, place = args
        argument = argument_type(place)
        member = _member(held)
        if member is not None and argument is not None:
            if argument.dtype.kind not in "uib":
                raise RefusalError(f"a tuple is indexed by an integer, not by {argument.dtype}; use int(...)")
            return signature(member, held, types.int64)
        if isinstance(held, types.BaseTuple) and argument is not None:
            raise RefusalError(
                "members of this tuple differ in type, so none can be taken at a varying place; float(...) "
                "makes them alike"
                if len(held)
                else "an empty tuple has no items"
            )
        return self.numba_type().get_call_type(context, args, kws)

    def get_impl_key(self, sig: Any) -> Any:
        """Return the key of the lowering."""
        held, place = sig.args
        is_own = _member(held) is not None and place == types.int64
        return self.key_of_impl if is_own else self.numba_type().get_impl_key(sig)


def _member(held: Any) -> Any:
    """Return the type that all members of a tuple have; None where they differ, or there are none."""
    if not isinstance(held, types.BaseTuple) or not len(held):
        return None
    members = {unwrap(kind) for kind in held.types}
    return members.pop() if len(members) == 1 else None


class SafeContains(_SafeFunction):
    """``x in t`` of a tuple of numbers or elements."""

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Return the signature for argument types."""
        held, given = args
        if isinstance(held, types.BaseTuple) and argument_type(given) is not None:
            for kind in held.types:
                result_kind(RULES[operator.eq], (unwrap(kind), unwrap(given)))
            return signature(types.boolean, held, unwrap(given))
        return self.numba_type().get_call_type(context, args, kws)

    def get_impl_key(self, sig: Any) -> Any:
        """Return the key of the lowering."""
        is_own = isinstance(sig.args[0], types.BaseTuple) and argument_type(sig.args[1]) is not None
        return self.key_of_impl if is_own else self.numba_type().get_impl_key(sig)


#: Functions that have a type of their own in numjit's compilations.
SAFE: dict[Any, type[_SafeFunction]] = {
    range: SafeRange,
    operator.getitem: SafeItem,
    operator.contains: SafeContains,
}


def register_safe(target: Any, machine: Machine, typing_context: Any) -> dict[Any, _SafeFunction]:
    """Make ranges and items known to a target (see `numjit.functor.scalars.registry`); return their types."""
    made = {function: cls(target.name, function, typing_context) for function, cls in SAFE.items()}
    for cls in SAFE.values():
        target.register_model(cls, target.models.OpaqueModel)

    def lower_range(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        start, stop, step = args
        is_zero = builder.icmp_signed("==", step, I64(0))
        safe = start, builder.select(is_zero, start, stop), builder.select(is_zero, I64(1), step)
        return context.get_function(made[range].numba_type(), sig)(builder, safe)

    def lower_item(_context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        held, place = args
        if isinstance(place, int):  # how Numba hands static operands over
            place = I64(place)
        count = len(sig.args[0])
        is_negative = builder.icmp_signed("<", place, I64(0))
        place = builder.select(is_negative, builder.add(place, I64(count)), place)
        outside, done = builder.append_basic_block("item.outside"), builder.append_basic_block("item.done")
        switch = builder.switch(place, outside)
        builder.position_at_end(outside)
        builder.branch(done)
        items = []
        for k in range(count):
            block = builder.append_basic_block(f"item.{k}")
            switch.add_case(I64(k), block)
            builder.position_at_end(block)
            items.append((builder.extract_value(held, k), block))
            builder.branch(done)
        builder.position_at_end(done)
        kind = items[0][0].type
        found = builder.phi(kind)
        found.add_incoming(ir.Constant(kind, None), outside)
        for value, block in items:
            found.add_incoming(value, block)
        return found

    def lower_contains(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        (held, given), (members, value) = sig.args, args
        emitter = Emitter(context, builder, machine)
        if isinstance(value, bool | int | float | complex):  # how Numba hands static operands over
            value = context.get_constant_generic(builder, unwrap(given), value)
        found = ir.IntType(1)(0)
        for k, kind in enumerate(held.types):
            kinds = unwrap(kind), unwrap(given)
            values = builder.extract_value(members, k), value
            rule = RULES[operator.eq]
            is_same = lower(rule, emitter, kinds, values, result_kind(rule, kinds))
            found = builder.or_(found, is_same)
        return found

    target.lower(made[operator.contains].key_of_impl, types.VarArg(types.Any))(lower_contains)
    target.lower(made[range].key_of_impl, types.VarArg(types.Any))(lower_range)
    target.lower(made[operator.getitem].key_of_impl, types.VarArg(types.Any))(lower_item)
    return made
