"""The table of scalar functions as rows to test: each in Python, in C++ and in torch."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from numjit import math as nm
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.python import PythonFunctor
from numjit.rules.entry import Entry
from numjit.rules.table import ENTRIES

__all__ = ["ALIKE", "ELSEWHERE", "ROWS", "Row", "cpp_functor", "grid", "groups", "plain", "python_functor"]

F = torch.nn.functional
#: Entries with a derivative that are tested by themselves: of complex numbers, of bounds, of a condition;
#: gammainc has one by its last operand alone.
ELSEWHERE = {
    "complex()",
    "cmath.rect",
    "cmath.phase",
    ".real",
    ".imag",
    ".conjugate()",
    "numjit.math.clamp",
    "numjit.math.gammainc",
    "numjit.math.where",
}
#: What torch calls it, where it is not the function's own name, and formulas where torch has none.
REFERENCES: dict[str, Any] = {
    "x + y": torch.add, "x - y": torch.sub, "x * y": torch.mul, "x / y": torch.div, "x % y": torch.remainder,
    "x // y": lambda x, y: torch.div(x, y, rounding_mode="floor"), "x ** y": torch.pow,
    "pow(x, y)": torch.pow,
    "-x": torch.neg, "+x": torch.positive, "float(x)": torch.positive, "sum((x, y))": torch.add,
    "max(x, y)": torch.maximum, "min(x, y)": torch.minimum, "abs(x)": torch.abs, "round(x)": torch.round,
    "math.fabs(x)": torch.abs, "math.degrees(x)": torch.rad2deg, "math.radians(x)": torch.deg2rad,
    "math.gamma(x)": lambda x: torch.lgamma(x).exp(), "nm.softplus(x)": F.softplus,
    "math.cbrt(x)": lambda x: x.sign() * x.abs() ** (1 / 3), "nm.fma(x, y, z)": lambda x, y, z: x * y + z,
    "math.remainder(x, y)": lambda x, y: _Remainder.apply(x, y),
}  # fmt: skip


class _Remainder(torch.autograd.Function):
    """Python's remainder, of which torch has none."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found = [
            math.remainder(a, b) if math.isfinite(a) and b else math.nan
            for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
        made = torch.tensor(found, dtype=x.dtype)
        ctx.save_for_backward(torch.round((x - made) / y))
        return made

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (times,) = ctx.saved_tensors
        return grad, -grad * times


@dataclasses.dataclass(frozen=True)
class Row:
    """One function: an expression of x, y and z in Python and, where it has a name there, in C++."""

    python: str
    cpp: tuple[str, ...]
    count: int
    entry: Entry

    @property
    def reference(self) -> Callable[..., torch.Tensor]:
        """What torch computes."""
        own = self.python.partition("(")[0].rpartition(".")[2]
        named = getattr(torch, own, None) or getattr(torch.special, own, None)
        found: Callable[..., torch.Tensor] = REFERENCES.get(self.python) or named
        return found


#: Of names that are not global.
NAMESPACES = {"any": "std::", "own": "numjit::"}


def _rows() -> Iterator[Row]:
    for entry in ENTRIES:
        written = dict.fromkeys(text for rule in entry.rules.values() if (text := _expression(rule)))
        for place, (text, count) in enumerate(written):
            cpp = [] if place else [name for name in entry.cpp if name.home in ("std", "cuda", "any", "own")]
            given = ", ".join("xyz"[:count])
            names = [
                f"{NAMESPACES.get(name.home, '')}{name.name}({given})"
                for name in cpp
                if name.name not in _OTHER_OPERANDS
            ]
            is_both = text in ("x + y", "x - y", "x * y", "x / y", "-x", "+x")
            yield Row(text, (*names, text) if is_both else tuple(names), count, entry)


#: C++ names with other operands than Python's function.
_OTHER_OPERANDS = {"ldexp", "scalbn", "scalbln", "modf", "clamp"}


def _expression(rule: Any) -> tuple[str, int] | None:
    name = rule.name
    if rule.derivative.formula is None or name.startswith("cmath.") or name in ELSEWHERE or name == ".conj()":
        return None
    if rule.signature is not None:
        count = sum(parameter.default is parameter.empty for parameter in rule.signature.parameters.values())
    else:
        count = 2 if rule.spread else rule.arity[0]
    given = ", ".join("xyz"[:count])
    if name.startswith("unary "):
        return f"{name[-1]}x", 1
    if not any(letter.isalpha() for letter in name):
        return f"x {name} y", 2
    if name == "sum()":
        return f"sum(({given}))", count
    return f"{name.replace('numjit.math', 'nm').removesuffix('()')}({given})", count


#: Every function of reals that has a derivative.
ROWS = list(_rows())
#: Those of both languages.
ALIKE = [row for row in ROWS if row.cpp]


def groups(rows: Sequence[Row], size: int = 16) -> list[tuple[Row, ...]]:
    """Return rows of as many operands as each other, as many as one functor compiles quickly."""
    found = []
    for count in (1, 2, 3):
        alike = [row for row in rows if row.count == count]
        found += [tuple(alike[start : start + size]) for start in range(0, len(alike), size)]
    return found


def python_functor(rows: Sequence[Row]) -> PythonFunctor:
    """Return a functor with a result for each row."""
    scope: dict[str, Any] = {"math": math, "nm": nm}
    results = ", ".join(row.python for row in rows)
    exec(f"def f({', '.join('xyz'[: rows[0].count])}):\n    return ({results},)", scope)
    return PythonFunctor(scope["f"], outputs=len(rows))


def cpp_functor(texts: Sequence[str], count: int, kind: str = "T") -> CppFunctor:
    """Return a functor with a result for each text."""
    operands = ", ".join(f"T {letter}" for letter in "xyz"[:count])
    outputs = ", ".join(f"{kind}& r{j}" for j in range(len(texts)))
    body = " ".join(f"r{j} = {text};" for j, text in enumerate(texts))
    return CppFunctor(f"template <typename T> void f({operands}, {outputs}) {{ {body} }}")


_EPS = 2.0**-52
_EDGES = [
    0.0, -0.0, 1e-310, -1e-310, 1e-30, 1e-8, 0.25, 0.5, -0.5, 1.0, -1.0, 1 + _EPS, 1 - _EPS / 2, -1 - _EPS,
    1.5, 2.0, -2.0, 3.0, -3.0, 10.0, -2.5, 20.0, 89.0, -89.0, -745.0, 1e30, -1e30, 1.7e308, -1.7e308,
    math.inf, -math.inf, math.nan,
]  # fmt: skip
_FEW = [
    0.0,
    -0.0,
    1e-310,
    1e-30,
    0.25,
    0.5,
    1.0,
    -1.0,
    2.0,
    -2.5,
    3.0,
    20.0,
    -1e30,
    1.7e308,
    math.inf,
    -math.inf,
    math.nan,
]
_FEWER = [0.0, -0.0, 1e-310, 1.5, -2.0, 1.7e308, math.inf, math.nan]


def plain(count: int) -> list[torch.Tensor]:
    """Return operands between -1 and 3 of which no function but those of larger numbers has an edge."""
    values = torch.linspace(0.15, 0.85, 12, dtype=torch.float64)
    return [values, values.flip(0) * 2 + 0.5, values - 1.5][:count]


def grid(count: int) -> list[torch.Tensor]:
    """Return operands at every edge: signs of zero, subnormal, huge and infinite numbers, NaN."""
    values = (_EDGES, _FEW, _FEWER)[count - 1]
    columns = zip(*itertools.product(values, repeat=count), strict=True)
    return [torch.tensor(column, dtype=torch.float64) for column in columns]
