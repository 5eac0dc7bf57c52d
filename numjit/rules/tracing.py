"""Applies rules to scalars that may be duals: typing and emission in one pass over the same formulas.

A `Traced` value has a Numba type and, where code is emitted, an LLVM value. Its operators and `call` apply
rules, so that a derivative formula is written once, as plain Python (`numjit.rules.traced`).
Applying a rule to duals computes the value with the very rule, and the tangents by the formula, on values
and tangents that may be duals of a lower level themselves: second derivatives need nothing of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from numjit.rules.dual import REMEDY, Dual, element_of, is_inexact, level_of, severed, with_element
from numjit.rules.lowering import Emitter
from numjit.rules.rule import Rule
from numjit.rules.table import ATTRIBUTES, METHODS, RULES
from numjit.rules.traced import Linear, Traced
from numjit.rules.types import Element, RefusalError, Strong, representation

__all__ = ["Tracer", "lower", "result_kind"]

_NUMBERS = ((bool, types.boolean), (int, types.int64), (float, types.float64), (complex, types.complex128))


class Tracer:
    """Applies rules, emitting code where it has an emitter.

    Parameters
    ----------
    emitter
        Where to emit; None infers types only.
    """

    def __init__(self, emitter: Emitter | None = None) -> None:
        self.emitter = emitter

    # -------------------------------------------------------------------------------- scalars

    def scalar(self, value: Any) -> Traced:
        """Return a Python number, or None, as a `Traced`."""
        if isinstance(value, Traced):
            return value
        if value is None:
            return Traced(self, types.none, None)
        kind = next(native for python, native in _NUMBERS if isinstance(value, python))
        made = None
        if self.emitter is not None:
            made = self.emitter.context.get_constant_generic(self.emitter.builder, kind, value)
        return Traced(self, kind, made, value)

    def parts(self, given: Traced, level: int) -> tuple[Traced, dict[int, Traced]]:
        """Return value and tangents of a scalar at a level; a lower one has no tangents."""
        kind = given.kind
        if not isinstance(kind, Dual) or kind.level != level:
            return given, {}

        tangents = {
            direction: self._member(given, place, tangent)
            for place, (direction, tangent) in enumerate(kind.tangents, 1)
        }
        return self._member(given, 0, kind.value), tangents

    def _member(self, given: Traced, place: int, kind: Any) -> Traced:
        value = None
        if self.emitter is not None:
            value = self.emitter.builder.extract_value(given.value, place)
        return Traced(self, kind, value)

    def join(self, level: int, value: Traced, tangents: dict[int, Traced]) -> Traced:
        """Return the dual of a value and its tangents."""
        directions = sorted(tangents)
        kind = Dual(level, value.kind, tuple((d, tangents[d].kind) for d in directions))
        return self._pack(kind, [value, *(tangents[d] for d in directions)])

    def _pack(self, kind: Dual, members: Sequence[Traced]) -> Traced:
        if self.emitter is None:
            return Traced(self, kind, None)
        structure = self.emitter.context.get_value_type(kind)
        packed = ir.Constant(structure, ir.Undefined)
        for place, member in enumerate(members):
            packed = self.emitter.builder.insert_value(packed, member.value, place)
        return Traced(self, kind, packed)

    def zero(self, kind: Any) -> Traced:
        """Return zero as a strong type has it."""
        if isinstance(kind, Dual):
            members = [self.zero(kind.value), *(self.zero(tangent) for _, tangent in kind.tangents)]
            return self._pack(kind, members)
        return self.cast(self.scalar(0.0), kind)

    def cast(self, given: Traced, kind: Any) -> Traced:
        """Convert a scalar to a type that holds all of its directions; missing ones become zero."""
        if given.kind == kind:
            return given
        if not isinstance(kind, Dual):
            return self._converted(self._plain(given, kind), kind)
        if level_of(given.kind) > kind.level:
            raise RefusalError(f"a derivative would be lost here; keep the value in one type, {REMEDY}")
        value, tangents = self.parts(given, kind.level)
        lost = tangents.keys() - {direction for direction, _ in kind.tangents}
        if lost:
            raise RefusalError(f"a derivative would be lost here; keep the value in one type, {REMEDY}")
        members = [self.cast(value, kind.value)]
        for direction, tangent in kind.tangents:
            members.append(
                self.cast(tangents[direction], tangent) if direction in tangents else self.zero(tangent)
            )
        return self._pack(kind, members)

    def _converted(self, given: Traced, kind: Any) -> Traced:
        """Convert a scalar without derivatives."""
        value = None
        if self.emitter is not None:
            source, target = representation(given.kind), representation(kind)
            value = self.emitter.convert(self.emitter.unpack(source, given.value), source, target)
            value = self.emitter.pack(target, value)
        return Traced(self, kind, value, given.literal)

    def _plain(self, given: Traced, kind: Any) -> Traced:
        """Return a scalar without derivatives: integers may shed the dual that they were made of."""
        while isinstance(given.kind, Dual):
            if not given.kind.is_severed or (isinstance(kind, Strong) and is_inexact(kind.dtype)):
                raise RefusalError(
                    f"a differentiated value is converted to {kind}, which loses the derivative; keep it a "
                    f"float, {REMEDY}"
                )
            given, _ = self.parts(given, given.kind.level)
        return given

    def moved(self, given: Traced, element: Element) -> Traced:
        """Convert a scalar with all its derivatives to an element type's dtype."""
        if given.kind == types.none:
            return given
        if isinstance(given.kind, Dual) and given.kind.is_severed and is_inexact(element.dtype):
            raise severed(str(element.dtype))
        return self.cast(given, with_element(given.kind, element))

    # ------------------------------------------------------------------------------- application

    def attribute(self, name: str, given: Traced) -> Traced:
        """Apply the rule of an attribute or method."""
        return self.apply(ATTRIBUTES.get(name) or METHODS[name], given)

    def call(self, function: Any, *operands: Any) -> Traced:
        """Apply the rule of a function."""
        return self.apply(function if isinstance(function, Rule) else RULES[function], *operands)

    def apply(self, rule: Rule, *operands: Any) -> Traced:
        """Apply a rule to scalars and Python numbers.

        Raises
        ------
        RefusalError
            The rule refuses, or has no derivative where one is asked for.
        """
        scalars = [self.scalar(operand) for operand in operands]
        kinds = [scalar.kind for scalar in scalars]
        if any(level_of(kind) for kind in kinds):
            return self._apply_dual(rule, scalars)
        return self._lowered(rule, scalars)

    def _lowered(self, rule: Rule, operands: Sequence[Traced]) -> Traced:
        """Apply a rule to scalars without derivatives."""
        kinds = [operand.kind for operand in operands]
        _, result = rule.resolve(kinds)
        value = None
        if self.emitter is not None:
            value = rule.lower(self.emitter, kinds, [operand.value for operand in operands])
        return Traced(self, result, value)

    def _apply_dual(self, rule: Rule, operands: list[Traced]) -> Traced:
        derivative = rule.derivative
        level = max(level_of(operand.kind) for operand in operands)
        split = [self.parts(operand, level) for operand in operands]
        values = [value for value, _ in split]
        is_severed = any(isinstance(o.kind, Dual) and o.kind.is_severed for o in operands)
        if derivative.is_folded and len(operands) != 2:
            return self._fold(rule, operands)
        result = self.apply(rule, *values)
        if result.kind.dtype.kind == "b":
            return result
        if not is_inexact(result.kind.dtype):
            return self.join(level, result, {})
        if is_severed:
            raise severed(str(result.kind.dtype))
        if derivative.formula is None:
            raise RefusalError(
                f"{rule.name} has no derivative; leave it out of what is differentiated, {REMEDY}"
            )
        kinds = [value.kind for value in values]
        promoted = rule.promote(kinds)
        domain = Element(rule.domain(rule.name, promoted, kinds), promoted.zero_dim, promoted.default_dtype)
        if derivative.is_choice:
            return self.join(level, result, self._choose(rule, values[0], split[1][1], split[2][1], domain))
        inside = [self.moved(value, domain) for value in values]
        maps = derivative.formula(result, *inside)
        tangents: dict[int, Traced] = {}
        for (_, own), how in zip(split, maps, strict=True):
            if not own:
                continue
            scale = how() if callable(how) else how
            for direction, tangent in own.items():
                term = _scaled(scale, self.moved(tangent, domain))
                if term is not None:
                    term = self.moved(term, element_of(result.kind))
                    tangents[direction] = tangents[direction] + term if direction in tangents else term
        return self.join(level, result, tangents) if tangents else result

    def _choose(
        self, rule: Rule, condition: Traced, yes: dict[int, Traced], no: dict[int, Traced], domain: Element
    ) -> dict[int, Traced]:
        """Choose tangents by the condition that their values are chosen by; a missing one is zero."""
        tangents = {}
        for direction in sorted({*yes, *no}):
            sides = [self.moved(side[direction], domain) if direction in side else 0.0 for side in (yes, no)]
            tangents[direction] = self.apply(rule, condition, *sides)
        return tangents

    def _fold(self, rule: Rule, operands: list[Traced]) -> Traced:
        """Apply a rule of any number of operands, which folds them in pairs once they have one dtype."""
        kinds = [operand.kind for operand in operands]
        promoted = rule.promote(kinds)
        domain = Element(rule.domain(rule.name, promoted, kinds), promoted.zero_dim, promoted.default_dtype)
        found, *rest = (self.moved(operand, domain) for operand in operands)
        for operand in rest:
            found = self.apply(rule, found, operand)
        return found


def _scaled(scale: Any, tangent: Traced) -> Traced | None:
    """Return a tangent times a factor (a number, a scalar, or None for zero), or put through a `Linear`."""
    if scale is None:
        return None
    if isinstance(scale, Linear):
        return scale.function(tangent)
    if isinstance(scale, int | float) and abs(scale) == 1:
        return tangent if scale > 0 else -tangent
    product: Traced = tangent * scale
    return product


@functools.lru_cache(maxsize=4096)
def result_kind(rule: Rule, kinds: tuple[Any, ...]) -> Any:
    """Return the type of a rule's result for operand types, duals or not.

    Raises
    ------
    RefusalError
        The rule refuses these types, or has no derivative where one is asked for.
    """
    if not any(level_of(kind) for kind in kinds):
        return rule.resolve(kinds)[1]
    tracer = Tracer()
    return tracer.apply(rule, *(Traced(tracer, kind, None) for kind in kinds)).kind


def lower(rule: Rule, emitter: Emitter, kinds: Sequence[Any], values: Sequence[Any], result: Any) -> Any:
    """Emit a rule on values in Numba's representation; return the result likewise, as type `result`."""
    if not any(level_of(kind) for kind in kinds):
        return rule.lower(emitter, kinds, values)
    tracer = Tracer(emitter)
    operands = [
        Traced(tracer, kind, value, _literal(kind, value)) for kind, value in zip(kinds, values, strict=True)
    ]
    # Where a literal makes a derivative vanish the type has a direction that the value lacks.
    return tracer.cast(tracer.apply(rule, *operands), result).value


def _literal(kind: Any, value: Any) -> Any:
    if isinstance(kind, Strong) or not isinstance(value, ir.Constant):
        return None
    number = value.constant
    return number if isinstance(number, int | float) else None
