"""Comparisons and questions, conversions, and what chooses between values."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from numjit import dtypes
from numjit import math as nm
from numjit.dtypes import DType
from numjit.rules import torch_text as text
from numjit.rules.arithmetic import MANY, first, flat
from numjit.rules.entry import Entry, any_type, cmath_rule, cuda, entry, fast, math_rule, numjit_rule, std
from numjit.rules.lowering import Emitter
from numjit.rules.rule import (
    Emit,
    Rule,
    any_dtype,
    as_bool,
    complex_floating,
    emitted,
    folded,
    identity,
    math_call,
    move_to,
    ordered,
    promote_with,
    real_floating,
    real_number,
    simple,
)
from numjit.rules.traced import Formula, Linear, Traced, call, where
from numjit.rules.types import Element, RefusalError, Strong, argument_type, representation
from numjit.semantics.promotion import result_type

__all__ = ["ENTRIES"]

I1 = ir.IntType(1)
Operands = Sequence[text.Term | None]

# ------------------------------------------------------------------------------------- comparisons


def _compared(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    if name not in ("==", "!="):
        ordered(name, element, kinds)
    return element.dtype


def _emit_truth(emitter: Emitter, dtype: DType, x: Any) -> Any:
    return emitter.truth(dtype, x)


def _emit_not(emitter: Emitter, dtype: DType, x: Any) -> Any:
    return emitter.builder.not_(emitter.truth(dtype, x))


def _comparison_text(symbol: str) -> text.TorchForm:
    def code(writer: text.Writer, dtype: DType, operands: Operands) -> str:
        x, y = operands
        # A number beyond the element's range has a defined place in its order only as an element.
        if dtype.is_complex or (dtype.kind == "b"):
            return f"({text.tensor(writer, dtype, x)} {symbol} {text.tensor(writer, dtype, y)})"
        return text.infix(symbol)(writer, dtype, operands)

    return code


def _truth_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x = text.tensor(writer, dtype, operands[0])
    return x if dtype.kind == "b" else f"({x} != 0)"


def _comparisons() -> list[Entry]:
    signs = (("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge"), ("==", "eq"), ("!=", "ne"))
    found = [
        entry(
            {
                getattr(operator, name): Rule(
                    symbol, (2, 2), simple(Emitter.compare, symbol), _compared, as_bool
                )
            },
            torch=_comparison_text(symbol),
        )
        for symbol, name in signs
    ]
    truth = Rule("bool()", (1, 1), emitted(_emit_truth), any_dtype, as_bool)
    return [
        *found,
        entry({bool: truth, operator.truth: truth}, torch=_truth_text),
        entry(
            {operator.not_: Rule("not", (1, 1), emitted(_emit_not), any_dtype, as_bool)},
            torch=text.called("logical_not"),
        ),
    ]


# --------------------------------------------------------------------------------------- questions


def _of_parts(emitter: Emitter, name: str, dtype: DType, x: Any) -> Any:
    parts = [emitter.math(name, dtype.real, part) for part in x]
    return emitter.builder.and_(*parts) if name == "isfinite" else emitter.builder.or_(*parts)


def _emit_question(name: str) -> Emit:
    """Emit ``isnan``, ``isinf`` or ``isfinite`` of any dtype."""

    def emit(emitter: Emitter, dtype: DType, x: Any) -> Any:
        if dtype.is_complex:
            return _of_parts(emitter, name, dtype, x)
        if dtype.is_floating:
            return emitter.math(name, dtype, x)
        return I1(name == "isfinite")

    return emitted(emit)


def _infinite(sign: float) -> Emit:
    """Emit whether a real value is the infinity of a sign."""

    def emit(emitter: Emitter, dtype: DType, x: Any) -> Any:
        if not dtype.is_floating:
            return I1(0)
        return emitter.compare("==", dtype, x, emitter.constant(dtype, sign * math.inf))

    return emitted(emit)


def _question_text(name: str, of_integers: str) -> text.TorchForm:
    def code(writer: text.Writer, dtype: DType, operands: Operands) -> str:
        if dtype.kind in "fc":
            return text.called(name)(writer, dtype, operands)
        return f"torch.full_like({text.tensor(writer, dtype, operands[0])}, {of_integers}, dtype=torch.bool)"

    return code


def _questions() -> list[Entry]:
    found = [
        entry(
            math_rule(name, math_call(name), real_floating, result=as_bool),
            cmath_rule(name, _emit_question(name), complex_floating, result=as_bool),
            numjit_rule(name, _emit_question(name), any_dtype, result=as_bool),
            torch=_question_text(name, str(name == "isfinite")),
            cpp=std(name, has_single=False),
            note="of complex numbers, of either part (`isfinite`: of both)",
            slope="none: a plain bool",
        )
        for name in ("isnan", "isinf", "isfinite")
    ]
    return [
        *found,
        *(
            entry(
                numjit_rule(name, _infinite(sign), ordered, result=as_bool),
                torch=_question_text(name, "False"),
            )
            for name, sign in (("isposinf", 1.0), ("isneginf", -1.0))
        ),
    ]


# -------------------------------------------------------------------------------------- conversions


def _to_float(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if element.dtype.is_complex:
        raise RefusalError(f"{name} of {element.dtype} is not supported; use abs(x) or x.real")
    return promote_with(element, dtypes.float64)


def _to_int(name: str, element: Element, kinds: Sequence[Any]) -> DType:  # noqa: ARG001
    if element.dtype.is_complex:
        raise RefusalError(f"{name} of {element.dtype} is not supported; use x.real")
    return dtypes.uint64 if element.dtype is dtypes.uint64 else dtypes.int64


def _conversions() -> list[Entry]:
    return [
        entry(
            {float: Rule("float()", (1, 1), identity, _to_float)},
            derivative=first,
            torch=text.identity,
            slope="1",
        ),
        entry({int: Rule("int()", (1, 1), identity, _to_int)}, torch=text.identity, slope="none, see below"),
    ]


# ---------------------------------------------------------------------------------- larger and smaller


def _extremum(symbol: str) -> Formula:
    """Maximum and minimum: ties share the derivative, and NaN passes it to both, as torch.maximum's."""

    def rule(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
        def share(loses: Callable[[], Traced]) -> Linear:
            return Linear(lambda t: where(x == y, t * 0.5, where(loses(), 0.0, t)))

        if symbol == ">":
            return lambda: share(lambda: x < y), lambda: share(lambda: x > y)
        return lambda: share(lambda: x > y), lambda: share(lambda: x < y)

    return rule


def _ignoring_nan(symbol: str) -> Formula:
    """``fmax`` and ``fmin``: ties go to the first."""

    def rule(r: Traced, x: Traced, y: Traced) -> Sequence[Any]:  # noqa: ARG001
        def is_first() -> Traced:
            return (x >= y if symbol == ">" else x <= y) | call(nm.isnan, y)

        return (
            lambda: Linear(lambda t: where(is_first(), t, 0.0)),
            lambda: Linear(lambda t: where(is_first(), 0.0, t)),
        )

    return rule


def _emit_ignoring_nan(symbol: str) -> Emit:
    """Emit the larger or smaller of two numbers, where NaN only counts if both are."""

    def emit(emitter: Emitter, dtype: DType, x: Any, y: Any) -> Any:
        chosen = emitter.compare(symbol, dtype, x, y)
        if dtype.is_floating:
            chosen = emitter.builder.or_(chosen, emitter.builder.fcmp_unordered("uno", y, y))
        return emitter.builder.select(chosen, x, y)

    return emitted(emit)


def _extrema() -> list[Entry]:
    found = []
    for symbol, own, name in ((">", max, "maximum"), ("<", min, "minimum")):
        emit = folded(Emitter.extremum, symbol)
        rule = Rule(f"{own.__name__}()", (1, MANY), emit, ordered, spread=True)
        found.append(
            entry(
                {own: rule},
                numjit_rule(name, emit, ordered),
                derivative=_extremum(symbol),
                is_folded=True,
                torch=text.fold(text.called(name)),
                cpp=cuda(own.__name__, has_single=False, is_by_hand=True) + any_type(own.__name__),
                note="NaN if either is",
                slope="1 for the one chosen",
                kinks="a tie shares: 0.5 each",
                kinks_python="with NaN both get 1",
                kinks_cpp="of a list or of `std::max<T>(x, y)` the first has it all",
            )
        )
    for symbol, name in ((">", "fmax"), ("<", "fmin")):
        found.append(
            entry(
                numjit_rule(name, _emit_ignoring_nan(symbol), ordered),
                derivative=_ignoring_nan(symbol),
                torch=text.called(name),
                note="NaN if both are",
                slope="1 for the one chosen",
                cpp=std(name, operands=2, is_by_hand=True),
                kinks="a tie goes to x; NaN gets 0, and of two the first 1",
            )
        )
    return found


# --------------------------------------------------------------------------------------- clamp, where


def _bounded(name: str, element: Element, kinds: Sequence[Any]) -> DType:
    if all(kind == types.none for kind in kinds[1:]):
        raise RefusalError(f"{name} needs a bound: one of lo and hi must not be None")
    # torch takes bools with one bound (as maximum and minimum do), and refuses them with two.
    return (real_number if types.none not in kinds else ordered)(name, element, kinds)


def _emit_clamp(emitter: Emitter, dtype: DType, x: Any, low: Any, high: Any) -> Any:
    """Apply the lower bound, then the upper one; NaN among x and the bounds gives NaN."""
    for symbol, bound in (("<", low), (">", high)):
        if bound is None:
            continue
        outside = emitter.compare(symbol, dtype, x, bound)
        if dtype.is_floating:
            is_nan = emitter.builder.fcmp_unordered("uno", bound, bound)
            is_bound_known = emitter.builder.fcmp_ordered("ord", x, x)
            outside = emitter.builder.or_(outside, emitter.builder.and_(is_nan, is_bound_known))
        x = emitter.builder.select(outside, bound, x)
    return x


def _clamp(r: Traced, x: Traced, low: Traced, high: Traced) -> Sequence[Any]:  # noqa: ARG001
    def inside() -> Traced:
        if low.is_none:
            return x <= high
        return x >= low if high.is_none else (x >= low) & (x <= high)

    def at_low() -> Traced:
        return x < low if high.is_none else (x < low) & (low < high)

    def at_high() -> Traced:
        return x > high if low.is_none else (x > high) | (high < low)

    return tuple(
        lambda holds=holds: Linear(lambda t: where(holds(), t, 0.0)) for holds in (inside, at_low, at_high)
    )


def _clamp_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    x = text.tensor(writer, dtype, operands[0])
    low, high = operands[1:]
    bounds = [bound for bound in (low, high) if bound is not None]
    if all(bound.constant is not None and bound.constant == bound.constant for bound in bounds):
        named = [f"{name}={b.code}" for name, b in (("min", low), ("max", high)) if b is not None]
        return f"torch.clamp({x}, {', '.join(named)})"
    if low is not None:
        x = f"torch.maximum({x}, {text.tensor(writer, dtype, low)})"
    return x if high is None else f"torch.minimum({x}, {text.tensor(writer, dtype, high)})"


@dataclasses.dataclass(frozen=True, eq=False)
class _Where(Rule):
    """``where(condition, yes, no)``: the condition has no say in the dtype."""

    def promote(self, kinds: Sequence[Any]) -> Element:
        condition = argument_type(kinds[0])
        if condition is None or condition.dtype not in (dtypes.bool_, dtypes.uint8):
            shown = kinds[0] if condition is None else condition.dtype
            raise RefusalError(
                f"the condition of {self.name} is {shown}, which is not supported, as torch refuses it; "
                "make it a bool, x != 0"
            )
        strong = isinstance(kinds[0], Strong)
        if strong and not any(isinstance(kind, Strong) for kind in kinds[1:]):
            numbers = [argument for kind in kinds[1:] if (argument := argument_type(kind)) is not None]
            if len(numbers) == len(kinds) - 1:
                default = kinds[0].default_dtype
                return Element(result_type(numbers, default), kinds[0].zero_dim, default)
        promoted = super().promote(kinds[1:])
        zero_dim = promoted.zero_dim and (not strong or kinds[0].zero_dim)
        return Element(promoted.dtype, zero_dim, promoted.default_dtype)

    def move(self, emitter: Emitter, kinds: Sequence[Any], values: Sequence[Any], domain: DType) -> list[Any]:
        own = representation(kinds[0])
        condition = emitter.truth(own, values[0])
        rest = zip(kinds[1:], values[1:], strict=True)
        return [condition, *(move_to(emitter, kind, value, domain) for kind, value in rest)]


def _where_text(writer: text.Writer, dtype: DType, operands: Operands) -> str:
    condition, yes, no = operands
    assert condition is not None
    return (
        f"torch.where({condition.code}, {text.tensor(writer, dtype, yes)}, {text.tensor(writer, dtype, no)})"
    )


def _selections() -> list[Entry]:
    return [
        entry(
            numjit_rule("clamp", emitted(_emit_clamp), _bounded),
            derivative=_clamp,
            torch=_clamp_text,
            cpp=any_type("clamp") + fast("__saturatef", is_by_hand=True),
            note="bounds are numbers or elements and count in promotion; NaN in either, or in x, gives NaN; "
            "`hi` where they cross",
            slope="by x: 1 inside; by lo: 1 below; by hi: 1 above",
            kinks="on a bound x gets 1",
            kinks_python="where lo > hi, hi gets 1; for NaN 0",
        ),
        entry(
            numjit_rule("where", simple(Emitter.select), any_dtype, _Where),
            derivative=flat,
            is_choice=True,
            torch=_where_text,
            note="the condition is a bool; both sides are computed",
            slope="of the side taken",
            kinks="nothing leaks from the other side, not even NaN",
        ),
        entry(cpp=std("fdim", operands=2, is_by_hand=True), slope="1, -1 where x > y", kinks="0 elsewhere"),
    ]


ENTRIES = [*_comparisons(), *_questions(), *_conversions(), *_extrema(), *_selections()]
