"""Writes formulas of `numjit.rules.real` as C++: the same description that LLVM is emitted from.

An emission records what a formula computes as a graph. A value goes where it is needed: into the arm of a
choice if only that arm needs it (so choices become branches), otherwise before it. Values needed once are
written where they are needed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from numjit.codegen.machine import Machine
from numjit.dtypes import DType
from numjit.rules.real import Real

__all__ = ["DEVICE", "TextEmitter", "alone", "merged"]

#: CUDA C++; the formulas only ask whether it is a GPU.
DEVICE = Machine("ptx", (7, 5))

#: How tightly C++ binds, from conditional to primary expressions.
_TERNARY, _OR, _AND, _EQUAL, _ORDER, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(9)
_OPERATORS = {
    "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "<": _ORDER, "<=": _ORDER, ">": _ORDER, ">=": _ORDER,
    "==": _EQUAL, "!=": _EQUAL, "&&": _AND, "||": _OR,
}  # fmt: skip
#: Where C calls a function by another name than Python's ``math``.
_NAMES = {"gamma": "tgamma", "round": "rint"}


class _Region:
    """A block of statements: a function's, an arm's of a choice or a loop's."""

    def __init__(self, parent: _Region | None, loop: _Node | None = None) -> None:
        self.parent = parent
        self.loop = loop
        self.depth: int = parent.depth + 1 if parent else 0


@dataclasses.dataclass(eq=False)
class _Node:
    """One operation of the graph.

    Attributes
    ----------
    operation
        An operator of C++, or ``"name"``, ``"constant"``, ``"call"``, ``"choose"``, ``"loop"``, ``"turn"``.
    operands
        What it is computed from. Of a choice the condition, then both sides' results; of a loop the start.
    text
        The name, number or called function.
    kind
        The results' C++ type.
    """

    operation: str
    operands: tuple[_Value, ...]
    text: str = ""
    kind: str = "R"
    number: int = 0
    uses: list[_Region] = dataclasses.field(default_factory=list)
    region: _Region | None = None
    inner: tuple[_Region, ...] = ()
    turns: tuple[_Node, ...] = ()
    next: tuple[_Value, ...] = ()
    loops: frozenset[_Node] = frozenset()
    name: str = ""


@dataclasses.dataclass(frozen=True)
class _Value:
    """One result of an operation."""

    node: _Node
    index: int = 0


class TextEmitter:
    """Records what a formula computes, to be written as C++.

    Parameters
    ----------
    machine
        `DEVICE` or `HOST`.
    dtype
        The real dtype that ``R`` is.
    names
        The functions that are called by their names; others are written out.
    is_complex
        Whether those are of complex numbers, whose parts the values are.
    """

    def __init__(
        self, machine: Machine, dtype: DType, names: Collection[str] = (), *, is_complex: bool = False
    ) -> None:
        self.machine = machine
        self.dtype = dtype
        self.names = names
        self.is_complex = is_complex
        self.prefix = "detail::std::" if is_complex else "std::"
        self.called: set[str] = set()
        self.library: set[str] = set()
        self.nodes: list[_Node] = []
        self.known: dict[Any, _Node] = {}

    # ---------------------------------------------------------------------------------- recording

    def _node(self, operation: str, operands: Sequence[_Value], text: str = "", kind: str = "R") -> _Node:
        key = (operation, tuple((v.node.number, v.index) for v in operands), text)
        if operation not in ("loop", "turn") and key in self.known:
            return self.known[key]
        loops = frozenset().union(*(v.node.loops for v in operands))
        node = _Node(operation, tuple(operands), text, kind, len(self.nodes), loops=loops)
        self.nodes.append(node)
        self.known[key] = node
        return node

    def parameter(self, name: str) -> Real:
        """Return a value that C++ knows by a name."""
        return Real(self, self.dtype, _Value(self._node("name", (), name)))

    def constant(self, dtype: DType, value: float) -> Any:  # noqa: ARG002
        """Return a number."""
        return _Value(self._node("constant", (), repr(float(value))))

    def _binary(self, operator: str, x: Any, y: Any) -> Any:
        kind = "R" if _OPERATORS[operator] in (_SUM, _PRODUCT) else "bool"
        return _Value(self._node(operator, (x, y), kind=kind))

    def add(self, dtype: DType, x: Any, y: Any) -> Any:  # noqa: ARG002
        """Add."""
        return self._binary("+", x, y)

    def sub(self, dtype: DType, x: Any, y: Any) -> Any:  # noqa: ARG002
        """Subtract."""
        return self._binary("-", x, y)

    def mul(self, dtype: DType, x: Any, y: Any) -> Any:  # noqa: ARG002
        """Multiply."""
        return self._binary("*", x, y)

    def truediv(self, dtype: DType, x: Any, y: Any) -> Any:  # noqa: ARG002
        """Divide."""
        return self._binary("/", x, y)

    def neg(self, dtype: DType, x: Any) -> Any:  # noqa: ARG002
        """Negate."""
        return _Value(self._node("minus", (x,)))

    def math(self, name: str, dtype: DType, *args: Any) -> Any:  # noqa: ARG002
        """Call a function of the mathematical library."""
        name = _NAMES.get(name, name)
        self.library.add(name)
        return _Value(self._node("call", args, f"{self.prefix}{name}"))

    def compare(self, symbol: str, dtype: DType, x: Any, y: Any) -> Any:  # noqa: ARG002
        """Compare."""
        if symbol in ("ord", "uno"):
            operator, join = ("==", "and_") if symbol == "ord" else ("!=", "or_")
            first, second = self._binary(operator, x, x), self._binary(operator, y, y)
            return first if x == y else self.bitwise(join, first, second)
        return self._binary(symbol, x, y)

    def bitwise(self, name: str, x: Any, y: Any) -> Any:
        """Join two conditions."""
        return self._binary({"and_": "&&", "or_": "||"}[name], x, y)

    def invert(self, condition: Any) -> Any:
        """Return whether a condition does not hold."""
        return _Value(self._node("not", (condition,), kind="bool"))

    def select(self, dtype: DType, condition: Any, yes: Any, no: Any) -> Any:
        """Choose between two values, or pairs of a complex dtype."""
        if dtype.is_complex:
            node = self._node("choose", (condition, *yes, *no))
            return _Value(node, 0), _Value(node, 1)
        return _Value(self._node("choose", (condition, yes, no)))

    def branch(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """Compute one of two values."""
        return _Value(self._node("choose", (condition, yes(), no())))

    def loop(self, start: Sequence[Any], step: Callable[[Sequence[Any]], tuple[Any, Sequence[Any]]]) -> Any:
        """Step values until a condition does not hold any more."""
        turns = tuple(self._node("turn", ()) for _ in start)
        node = _Node("loop", tuple(start))
        for turn in turns:
            turn.loops = frozenset([node])
        condition, found = step([_Value(turn) for turn in turns])
        node.turns, node.next = turns, (*found, condition)
        inside = frozenset().union(*(v.node.loops for v in node.next)) - {node}
        node.loops = inside.union(*(v.node.loops for v in start))
        node.number = len(self.nodes)
        self.nodes.append(node)
        return [_Value(node, k) for k in range(len(start))]

    def shared(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function by its name where it has one."""
        if name not in self.names:
            return function(*args)
        self.called.add(name)
        operands = [arg.value for arg in args]
        if self.is_complex:
            node = self._node("call", operands, name, "complex<R>")
            return tuple(Real(self, self.dtype, _Value(node, k)) for k in range(2))
        return Real(self, self.dtype, _Value(self._node("call", operands, name)))

    # ------------------------------------------------------------------------------------ placing

    def _place(self, root: _Region, results: Sequence[_Value]) -> list[_Node]:
        """Say of every operation that is needed in which block it is computed; return them in order."""
        for value in results:
            value.node.uses.append(root)
        needed: list[_Node] = []
        for node in reversed(self.nodes):
            if not node.uses:
                continue
            needed.append(node)
            self._place_one(node)
        return needed[::-1]

    def _place_one(self, node: _Node) -> None:
        region = functools.reduce(_common, node.uses)
        around: _Region | None = region
        while around is not None:
            if around.loop is not None and around.loop not in node.loops:
                assert around.parent is not None
                region = around.parent  # every turn of the loop would compute it anew
            around = around.parent
        node.region = region
        if node.operation == "choose":
            node.inner = (_Region(region), _Region(region))
            count = len(node.operands) // 2
            node.operands[0].node.uses.append(region)
            for k, value in enumerate(node.operands[1:]):
                value.node.uses.append(node.inner[k // count])
        elif node.operation == "loop":
            body = _Region(region, node)
            node.inner = (body,)
            for value in node.operands:
                value.node.uses.append(region)
            for value in (*node.next, *map(_Value, node.turns)):
                value.node.uses.append(body)
        else:
            for value in node.operands:
                value.node.uses.append(region)

    # ------------------------------------------------------------------------------------ writing

    def write(self, results: Sequence[Real], returned: str) -> list[str]:
        """Return the statements of a function's body.

        Parameters
        ----------
        results
            What the function returns.
        returned
            What makes one value of the results, with a place for each: ``"{}"``, ``"complex<R>({}, {})"``.
        """
        root = _Region(None)
        values = [result.value for result in results]
        nodes = self._place(root, values)
        return _Writer(nodes, returned).function(root, values)


def _common(one: _Region, other: _Region) -> _Region:
    while one is not other:
        if one.depth < other.depth:
            one, other = other, one
        assert one.parent is not None
        one = one.parent
    return one


class _Writer:
    """Writes placed operations as statements."""

    def __init__(self, nodes: Sequence[_Node], returned: str) -> None:
        self.returned = returned
        self.count = 0
        self.inside: dict[_Region, list[_Node]] = {}
        for node in nodes:
            assert node.region is not None
            self.inside.setdefault(node.region, []).append(node)

    def function(self, root: _Region, results: Sequence[_Value]) -> list[str]:
        """Return a function's body."""
        return self._returning(root, results)

    def _returning(self, region: _Region, results: Sequence[_Value]) -> list[str]:
        node = results[0].node
        is_last = (
            node.operation == "choose"
            and node.region is region
            and len(node.uses) == len(results)
            and list(results) == [_Value(node, k) for k in range(len(results))]
        )
        if not is_last:
            lines = self._statements(region, skipped=None)
            texts = [self._expression(value, region)[0] for value in results]
            return [*lines, f"return {self.returned.format(*texts)};"]
        lines = self._statements(region, skipped=node)
        count = len(results)
        condition = self._expression(node.operands[0], region)[0]
        yes = self._returning(node.inner[0], node.operands[1 : 1 + count])
        no = self._returning(node.inner[1], node.operands[1 + count :])
        if len(yes) == len(no) == 1 and count == 1 and len(yes[0]) + len(no[0]) + len(condition) < 100:
            pick = f"{condition} ? {yes[0][7:-1]} : {no[0][7:-1]}"
            return [*lines, f"return {pick};"]
        if len(yes) == 1:
            return [*lines, f"if ({condition}) {yes[0]}", *no]
        if len(no) == 1:
            return [*lines, f"if ({self._denied(node.operands[0], region)}) {no[0]}", *yes]
        return [*lines, f"if ({condition}) {{", *_indented(yes), "}", *no]

    def _denied(self, condition: _Value, region: _Region) -> str:
        return f"!{self._bound(condition, region, _PRIMARY)}"

    def _statements(self, region: _Region, skipped: _Node | None) -> list[str]:
        lines: list[str] = []
        for node in self.inside.get(region, []):
            if node is skipped or node.operation in ("name", "constant", "turn") or self._is_inline(node):
                continue
            lines += self._statement(node, region)
        return lines

    def _is_inline(self, node: _Node) -> bool:
        """Whether an operation is written where it is needed."""
        if node.operation == "loop" or len(node.uses) > 1 or node.uses[0] is not node.region:
            return False
        if node.operation == "choose":
            return len(node.operands) == 3 and not any(map(self._has_statements, node.inner))
        return True

    def _has_statements(self, region: _Region) -> bool:
        return any(
            node.operation not in ("name", "constant", "turn") and not self._is_inline(node)
            for node in self.inside.get(region, [])
        )

    def _fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def _statement(self, node: _Node, region: _Region) -> list[str]:
        if node.operation == "choose":
            return self._choice(node, region)
        if node.operation == "loop":
            return self._loop(node, region)
        text = self._operation(node, region)[0]
        node.name = self._fresh()
        return [f"const {node.kind} {node.name} = {text};"]

    def _choice(self, node: _Node, region: _Region) -> list[str]:
        count = len(node.operands) // 2
        condition = self._expression(node.operands[0], region)[0]
        names = [self._fresh() for _ in range(count)]
        sides = []
        for k, inner in enumerate(node.inner):
            values = node.operands[1 + k * count : 1 + (k + 1) * count]
            lines = self._statements(inner, skipped=None)
            texts = [self._expression(value, inner)[0] for value in values]
            sides.append((lines, texts))
        node.name = " ".join(names)
        if count == 1 and not sides[0][0] and not sides[1][0]:
            return [f"const R {names[0]} = {condition} ? {sides[0][1][0]} : {sides[1][1][0]};"]
        blocks = [
            [*lines, *(f"{n} = {t};" for n, t in zip(names, texts, strict=True))] for lines, texts in sides
        ]
        return [
            f"R {', '.join(names)};", f"if ({condition}) {{", *_indented(blocks[0]), "} else {",
            *_indented(blocks[1]), "}",
        ]  # fmt: skip

    def _loop(self, node: _Node, region: _Region) -> list[str]:
        (body,) = node.inner
        names = [self._fresh() for _ in node.turns]
        starts = [self._expression(value, region)[0] for value in node.operands]
        for turn, name in zip(node.turns, names, strict=True):
            turn.name = name
        lines = self._statements(body, skipped=None)
        after: list[str] = []
        *values, condition = node.next
        for value in values:
            text = self._expression(value, body)[0]
            if not value.node.name:
                value.node.name = self._fresh()
                lines.append(f"const R {value.node.name} = {text};")
                text = value.node.name
            after.append(text)
        goes_on = self._fresh()
        lines.append(f"const bool {goes_on} = {self._expression(condition, body)[0]};")
        lines += [f"{name} = {text};" for name, text in zip(names, after, strict=True) if name != text]
        lines.append(f"if (!{goes_on}) break;")
        node.name = " ".join(names)
        declared = ", ".join(f"{name} = {start}" for name, start in zip(names, starts, strict=True))
        return [f"R {declared};", "for (;;) {", *_indented(lines), "}"]

    def _expression(self, value: _Value, region: _Region) -> tuple[str, int]:
        """Return C++ for a value, and how tightly it binds."""
        node = value.node
        if node.kind == "complex<R>":
            text = node.name or self._operation(node, region)[0]
            return f"{text}.{('real', 'imag')[value.index]}()", _PRIMARY
        if node.name:
            return node.name.split(" ")[value.index], _PRIMARY
        return self._operation(node, region)

    def _operation(self, node: _Node, region: _Region) -> tuple[str, int]:
        if node.operation == "name":
            return node.text, _PRIMARY
        if node.operation == "constant":
            return f"\0{node.text}\0", _PRIMARY
        if node.operation == "choose":
            condition, yes, no = (
                self._bound(value, inner, level)
                for value, inner, level in zip(
                    node.operands, (region, *node.inner), (_OR, _OR, _TERNARY), strict=True
                )
            )
            return f"{condition} ? {yes} : {no}", _TERNARY
        if node.operation == "call":
            parts = [self._expression(v, region)[0] for v in node.operands]
            if node.kind != "R":
                parts = [f"{node.kind}({x}, {y})" for x, y in zip(parts[::2], parts[1::2], strict=True)]
            return f"{node.text}({', '.join(parts)})", _PRIMARY
        if node.operation in ("minus", "not"):
            inner = self._bound(node.operands[0], region, _PRIMARY)
            return f"{'-' if node.operation == 'minus' else '!'}{inner}", _UNARY
        level = _OPERATORS[node.operation]
        if node.operation in ("&&", "||"):
            parts = [self._bound(v, region, max(level, _EQUAL)) if v.node.operation != node.operation
                     else self._expression(v, region)[0] for v in node.operands]  # fmt: skip
            return f"{parts[0]} {node.operation} {parts[1]}", level
        left = self._bound(node.operands[0], region, level)
        right = self._bound(node.operands[1], region, level + 1)
        return f"{left} {node.operation} {right}", level

    def _bound(self, value: _Value, region: _Region, level: int) -> str:
        text, own = self._expression(value, region)
        return text if own >= level else f"({text})"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


_NUMBER = re.compile("\0([^\0]*)\0")


def _literal(text: str) -> str:
    value = float(text)
    if math.isinf(value):
        return "HUGE_VAL" if value > 0 else "-HUGE_VAL"
    if math.isnan(value):
        return "NAN"
    is_short = value == int(value) and abs(value) < 1e6 and (value != 0 or math.copysign(1.0, value) > 0)
    return str(int(value)) if is_short else text


def _number(text: str) -> str:
    return f"R({_literal(text)})"


def _single(text: str) -> bytes:
    return struct.pack("<f", float(text))


def merged(single: Sequence[str], double: Sequence[str]) -> list[str] | None:
    """Return a body for any ``R`` from those for float and double; None where more than numbers differ."""
    if [_NUMBER.sub("", line) for line in single] != [_NUMBER.sub("", line) for line in double]:
        return None
    lines = []
    for one, other in zip(single, double, strict=True):
        numbers = iter(_NUMBER.findall(one))

        def number(match: re.Match[str], numbers: Iterator[str] = numbers) -> str:
            less = next(numbers)
            if _single(less) == _single(match[1]):
                return _number(match[1])
            return f"R(sizeof(R) == 4 ? {_literal(less)} : {_literal(match[1])})"

        lines.append(_NUMBER.sub(number, other))
    return lines


def alone(lines: Sequence[str]) -> list[str]:
    """Return a body with its numbers, where ``R`` is known."""
    return [_NUMBER.sub(lambda match: _number(match[1]), line) for line in lines]
