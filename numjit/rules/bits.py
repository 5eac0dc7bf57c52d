"""Operations on the bits of integers and bools."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from numjit.dtypes import DType
from numjit.rules import torch_text as text
from numjit.rules.arithmetic import binary
from numjit.rules.entry import Entry, entry, numjit_rule
from numjit.rules.lowering import Emitter
from numjit.rules.rule import Emit, Rule, emitted, integral, integral_or_bool, python_integer, simple

__all__ = ["ENTRIES"]


def _emit_bits(name: str) -> Emit:
    return emitted(lambda emitter, dtype, *values: emitter.bitwise(name, *values))  # noqa: ARG005


def _emit_invert(emitter: Emitter, dtype: DType, x: Any) -> Any:  # noqa: ARG001
    return emitter.builder.not_(x)


def _shift_text(name: str) -> text.TorchForm:
    """Shift; distances outside the width shift everything out."""

    def code(writer: text.Writer, dtype: DType, operands: Sequence[text.Term | None]) -> str:
        x = text.tensor(writer, dtype, operands[0])
        distance = operands[1]
        assert distance is not None
        function = f"torch.bitwise_{name}"
        n = distance.constant
        if n is not None and 0 <= n < dtype.bits:
            return f"{function}({x}, {n})"
        y = text.tensor(writer, dtype, distance)
        inside = writer.let(f"(({y} >= 0) & ({y} < {dtype.bits}))")
        if name == "right_shift" and dtype.kind == "i":
            return f"{function}({x}, torch.where({inside}, {y}, {dtype.bits - 1}))"
        return f"torch.where({inside}, {function}({x}, torch.where({inside}, {y}, 0)), 0)"

    return code


def _entries() -> list[Entry]:
    inverted = emitted(_emit_invert)
    found = [
        entry(
            binary(symbol, name, _emit_bits(name), integral_or_bool),
            numjit_rule(f"bitwise_{name.rstrip('_')}", _emit_bits(name), integral_or_bool),
            torch=text.infix(symbol),
            note="also `&`, `|`, `^`, `~`",
        )
        for symbol, name in (("&", "and_"), ("|", "or_"), ("^", "xor"))
    ]
    found.append(
        entry(
            {operator.invert: Rule("~", (1, 1), inverted, integral_or_bool, numbers=python_integer)},
            numjit_rule("bitwise_not", inverted, integral_or_bool),
            torch=text.called("bitwise_not"),
            note="also `&`, `|`, `^`, `~`",
        )
    )
    for symbol, name, own in (("<<", "lshift", "left_shift"), (">>", "rshift", "right_shift")):
        emit = simple(Emitter.shift, name)
        found.append(
            entry(
                binary(symbol, name, emit, integral, python_integer),
                numjit_rule(own, emit, integral),
                torch=_shift_text(own),
                note="also `<<`, `>>`; a distance outside the width shifts everything out",
            )
        )
    return found


ENTRIES = _entries()
