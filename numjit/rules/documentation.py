"""The tables of the documentation: what functions take and give, and the derivatives of both languages."""

from __future__ import annotations

import inspect
import itertools
import types as pytypes
from collections.abc import Callable, Iterable, Iterator, Sequence

from numjit import dtypes
from numjit.rules import arithmetic, choices, complex_numbers, elementary, rounding, special_functions
from numjit.rules.entry import Entry
from numjit.rules.rule import Rule, as_real
from numjit.rules.table import ENTRIES, RULES
from numjit.rules.types import Element, RefusalError

__all__ = ["TOPICS", "complex_derivatives", "cpp_derivatives", "derivatives", "functions", "python_names"]

_NAMESPACES = {"any": "std::", "own": "numjit::"}
_KINDS = {"b": dtypes.bool_, "i": dtypes.int32, "f": dtypes.float32, "c": dtypes.complex64}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# ------------------------------------------------------------------------------------- numjit.math


def functions() -> str:
    """Return the table of ``numjit.math``: functions of a topic that take and give alike share a row."""
    found = []
    for entry in ENTRIES:
        for rule in entry.rules.values():
            if rule.name.startswith("numjit.math."):
                taken, given = _signature(rule)
                found.append((entry, _shown(rule), taken, given))
    rows = []
    for (taken, given, note), group in itertools.groupby(found, lambda row: (row[2], row[3], row[0].note)):
        names = " ".join(f"`{label}`" for _, label, _, _ in group)
        rows.append((names, taken, given, note))
    return _table(("function", "takes", "dtype", "notes"), rows)


def _shown(rule: Rule) -> str:
    name = rule.name.rpartition(".")[2]
    assert rule.signature is not None
    parameters = [
        name if parameter.default is inspect.Parameter.empty else f"{name}={parameter.default}"
        for name, parameter in rule.signature.parameters.items()
    ]
    return f"{name}({', '.join(parameters)})" if len(parameters) > 1 else name


def _signature(rule: Rule) -> tuple[str, str]:
    """Return the kinds of dtypes that a function takes, and what the result's dtype is of integers."""
    taken, given = "", set()
    for kind, dtype in _KINDS.items():
        result = _result(rule, Element(dtype, zero_dim=False, default_dtype=dtypes.float32))
        if result is None:
            continue
        taken += kind
        if result.kind == "b" and kind != "b":
            given.add("bool")
        elif kind == "i":
            given.add("to float" if result.kind == "f" else "keeps")
        elif kind == "c" and rule.result is as_real:
            given.add("real")
    shown = sorted(given - {"real"}) or ["keeps"]
    return taken, ", ".join([*shown, *(given & {"real"})])


def _result(rule: Rule, element: Element) -> dtypes.DType | None:
    """Return the dtype of a function of operands of one type, or None where it is refused."""
    assert rule.signature is not None
    parameters = rule.signature.parameters.values()
    required = [element for parameter in parameters if parameter.default is inspect.Parameter.empty]
    if rule.name == "numjit.math.where":
        required[0] = Element(dtypes.bool_, zero_dim=False, default_dtype=dtypes.float32)
    for more in range(len(rule.signature.parameters) - len(required) + 1):
        given = [*required, *[element] * more]
        try:
            folded = rule.fold(given, {})
            assert folded is not None
            result: dtypes.DType = rule.resolve(folded)[1].dtype
        except RefusalError:
            continue
        return result
    return None


def python_names() -> str:
    """Return the table of what there is of Python's modules."""
    rows = []
    for module in ("math", "cmath"):
        names = sorted(
            rule.name.partition(".")[2] for rule in RULES.values() if rule.name.startswith(f"{module}.")
        )
        rows.append((f"`{module}`", f"`{' '.join(names)}`"))
    return _table(("module", "functions"), rows)


# ------------------------------------------------------------------------------------- derivatives


def _labels(entry: Entry) -> Iterator[str]:
    """Yield the names of an entry in Python: a module only where names in others differ in their rule."""
    seen = set()
    others = {key for other in ENTRIES if other is not entry for key in map(_own, other.rules.values())}
    for rule in entry.rules.values():
        name = rule.name
        if name.startswith("unary "):
            name = f"{name[-1]}x"
        elif not any(letter.isalpha() for letter in name):
            name = f"x {name} y"
        own = name.rpartition("math.")[2]
        name = name if own in others else own
        if name not in seen:
            seen.add(name)
            yield name


def _own(rule: Rule) -> str:
    return rule.name.rpartition("math.")[2]


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def derivatives(topic: pytypes.ModuleType) -> Callable[[], str]:
    """Return what writes the table of a topic's derivatives in Python."""

    def table() -> str:
        rows = [
            (
                _code(_labels(entry)),
                _joined(entry.slope, entry.slope_python),
                _joined(entry.kinks, entry.kinks_python),
            )
            for entry in topic.ENTRIES
            if entry.rules and entry.slope
        ]
        return _table(("function", "derivative", "at kinks and edges"), rows)

    return table


def cpp_derivatives() -> str:
    """Return the table of derivatives in C++."""
    rows = []
    for entry in ENTRIES:
        names = [f"{_NAMESPACES.get(name.home, '')}{name.name}" for name in entry.cpp]
        if names:
            rows.append((_code(names), entry.slope, _joined(entry.kinks, entry.kinks_cpp)))
    return _table(("function", "derivative", "at kinks and edges"), rows)


def complex_derivatives() -> str:
    """Return the table of derivatives of complex numbers in C++."""
    found = [entry for entry in ENTRIES if entry.complex_cpp and not entry.complex_cpp.startswith("operator")]
    real = [entry for entry in found if any(rule.result is as_real for rule in entry.rules.values())]
    analytic = _code(f"std::{entry.complex_cpp}" for entry in found if entry not in real)
    rows = [(f"`+ - * /`, {analytic}", "the complex derivative", "as of reals")]
    rows += [
        (f"`std::{entry.complex_cpp}`", entry.slope.rpartition("numbers ")[2], entry.kinks) for entry in real
    ]
    return _table(("function", "derivative", "at kinks and edges"), rows)


#: Topics of the table of derivatives in Python, by what their regions are called.
TOPICS = {
    "arithmetic": arithmetic,
    "elementary functions": elementary,
    "special functions": special_functions,
    "roundings and signs": rounding,
    "choices": choices,
    "complex numbers": complex_numbers,
}
