"""Derivatives of functors written over torch tensors: the formulas of `derivatives`, applied to text.

A dual is a `Value` whose members are values: its own, then each tangent's. What is differentiated is told by
the same rules, formulas and seeds as of a compiled functor, so that both have the same gradient, also where
a formula meets a kink, a pole, or an arm that is not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import types

from numjit.functor.markers import Direction
from numjit.functor.scalars.seeds import pulled, seeded
from numjit.rules.dual import Dual
from numjit.rules.rule import Rule
from numjit.rules.table import CODES, RULES
from numjit.rules.traced import Traced
from numjit.rules.tracing import Tracer
from numjit.torch.see_through.lowered import NotLowerable
from numjit.torch.see_through.program import Program
from numjit.torch.see_through.values import Value, constant

__all__ = ["TextTracer"]

_KEYS = {rule: key for key, rule in reversed(RULES.items()) if key in CODES}


class TextTracer(Tracer):
    """Applies rules to scalars that are text, or duals of such.

    Parameters
    ----------
    program
        What the text is written to.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    # ------------------------------------------------------------------------- to and from values

    def traced(self, value: Value | None) -> Traced:
        """Return a value as formulas have it."""
        if value is None:
            return Traced(self, types.none, None)
        return Traced(self, value.kind, value, value.constant)

    # ------------------------------------------------------------------ what depends on the form

    def scalar(self, value: Any) -> Traced:
        """Return a Python number, or None, as a `Traced`."""
        if isinstance(value, Traced):
            return value
        return self.traced(None if value is None else constant(value))

    def _member(self, given: Traced, place: int, kind: Any) -> Traced:  # noqa: ARG002
        return self.traced(given.value.members[place])

    def _pack(self, kind: Dual, members: Sequence[Traced]) -> Traced:
        values = tuple(member.value for member in members)
        return Traced(self, kind, Value(kind, "", is_tensor=True, members=values))

    def _converted(self, given: Traced, kind: Any) -> Traced:
        return Traced(self, kind, self.program.cast(given.value, kind), given.literal)

    def _lowered(self, rule: Rule, operands: Sequence[Traced]) -> Traced:
        key = _KEYS.get(rule, rule)
        if key not in CODES:
            raise NotLowerable(f"{rule.name} has no counterpart in torch")
        return self.traced(self.program.apply(key, [operand.value for operand in operands]))

    # ------------------------------------------------------------------------------ derivatives

    def seeded(self, direction: Direction, parameters: Sequence[Value]) -> Value:
        """Return a parameter with its derivatives by itself."""
        found: Value = seeded(self, direction, [self.traced(value) for value in parameters]).value
        return found

    def pulled(self, direction: Direction, results: Sequence[Value], parameters: Sequence[Value]) -> Value:
        """Return the gradient of a parameter."""
        found: Value = pulled(
            self,
            direction,
            [self.traced(value) for value in results],
            [self.traced(value) for value in parameters],
        ).value
        return found
