"""Random functors as trees, and the texts that they become in Python and in C++."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from typing import Any

__all__ = ["Assign", "Branch", "Exit", "Helper", "Loop", "Node", "Tree", "cpp_text", "has_cpp", "python_text"]


@dataclasses.dataclass(frozen=True)
class Node:
    """One expression.

    Attributes
    ----------
    kind
        ``operand``, ``scalar``, ``capture``, ``local`` (each with a name), ``index``, ``number`` (with a
        value), ``rule`` (its name in `tests.fuzz.rules`), ``choose`` (a if c else b), ``helper``.
    """

    kind: str
    name: str = ""
    children: tuple[Node, ...] = ()
    value: Any = None

    def walk(self):
        """Yield this expression and all within."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclasses.dataclass(frozen=True)
class Assign:
    """``name = node``, or ``name += node`` where there is an operator."""

    name: str
    node: Node
    operator: str = ""


@dataclasses.dataclass(frozen=True)
class Branch:
    """``if node: body; else: other``."""

    node: Node
    body: tuple[Any, ...]
    other: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class Loop:
    """``for name in range(node): body``."""

    name: str
    node: Node
    body: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Exit:
    """``return results``."""

    results: tuple[Node, ...]


@dataclasses.dataclass(frozen=True)
class Helper:
    """A function that the functor calls: one expression of its parameters."""

    name: str
    parameters: tuple[str, ...]
    node: Node


@dataclasses.dataclass(frozen=True)
class Tree:
    """A functor: operands, scalars and captures by name, helpers, statements."""

    operands: tuple[str, ...]
    body: tuple[Any, ...]
    scalars: dict[str, Any] = dataclasses.field(default_factory=dict)
    captures: dict[str, Any] = dataclasses.field(default_factory=dict)
    helpers: tuple[Helper, ...] = ()

    @property
    def results(self) -> int:
        """How many results every exit has."""
        return len(next(s for s in self.statements() if isinstance(s, Exit)).results)

    def statements(self):
        """Yield every statement, outer ones first."""

        def visit(body):
            for statement in body:
                yield statement
                yield from visit(getattr(statement, "body", ()))
                yield from visit(getattr(statement, "other", ()))

        yield from visit(self.body)

    def nodes(self):
        """Yield every expression of statements and helpers, with what is within."""
        for statement in self.statements():
            for node in getattr(statement, "results", None) or (statement.node,):
                yield from node.walk()
        for helper in self.helpers:
            yield from helper.node.walk()

    def has_dead_code(self) -> bool:
        """Return whether something is assigned that is not read before it is assigned again, or at all."""
        dead: list[Assign] = []
        _live_before(self.body, frozenset(), dead)
        return bool(dead)


def _names(*nodes: Node) -> frozenset[str]:
    return frozenset(inner.name for node in nodes for inner in node.walk())


def _live_before(body: tuple[Any, ...], live: frozenset[str], dead: list[Assign]) -> frozenset[str]:
    """Return the names that a body reads or leaves `live`; adds what it assigns in vain to `dead`."""
    for statement in reversed(body):
        match statement:
            case Exit(results):
                live = _names(*results)
            case Assign(name, node, symbol):
                if name not in live:
                    dead.append(statement)
                    continue
                live = (live if symbol else live - {name}) | _names(node)
            case Branch(node, inner, other):
                arms = (_live_before(arm, live, dead) for arm in (inner, other))
                live = frozenset().union(_names(node), *arms)
            case Loop(name, node, inner):
                around = live
                while (grown := around | _live_before(inner, around, [])) != around:
                    around = grown
                live = (_live_before(inner, around, dead) | live | _names(node)) - {name}
    return live


# --------------------------------------------------------------------------------------------- Python


def _number(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "math.inf", "-inf": "-math.inf"}.get(repr(value), "math.nan")
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


def _python(node: Node) -> str:
    from tests.fuzz.rules import RULES

    children = [_python(child) for child in node.children]
    match node.kind:
        case "number":
            return _number(node.value)
        case "index":
            return "numjit.index()"
        case "choose":
            return "({1} if {0} else {2})".format(*children)
        case "helper":
            return f"{node.name}({', '.join(children)})"
        case "rule":
            return RULES[node.name].python.format(*children)
        case _:
            return node.name


def _python_body(body: tuple[Any, ...]) -> str:
    lines = []
    for statement in body:
        match statement:
            case Assign(name, node, operator):
                lines.append(f"{name} {operator}= {_python(node)}")
            case Branch(node, inner, other):
                lines += [f"if {_python(node)}:", _python_body(inner)]
                if other:
                    lines += ["else:", _python_body(other)]
            case Loop(name, node, inner):
                lines += [f"for {name} in range({_python(node)}):", _python_body(inner)]
            case Exit(results):
                lines.append(f"return {', '.join(map(_python, results))}")
    return textwrap.indent("\n".join(lines), "    ")


def python_text(tree: Tree) -> str:
    """Return a module's text that defines ``functor``: captures are variables of an enclosing function."""
    header = ", ".join([*tree.operands, *(["*"] if tree.scalars else []), *tree.scalars])
    parts = ["import cmath", "import math", "import numjit", "import numjit.math as nm", "", "def make():"]
    parts += [f"    {name} = {_number(value)}" for name, value in tree.captures.items()]
    for helper in tree.helpers:
        parts.append(
            f"    def {helper.name}({', '.join(helper.parameters)}):\n        return {_python(helper.node)}"
        )
    parts += [
        f"    def functor({header}):", textwrap.indent(_python_body(tree.body), "    "), "    return functor",
        "functor = make()",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


# ------------------------------------------------------------------------------------------------ C++


def _cpp_number(value: Any) -> str:
    if isinstance(value, bool):  # an integer, as arithmetic has it
        return "1LL" if value else "0LL"
    if isinstance(value, float) and not math.isfinite(value):
        return "NAN" if math.isnan(value) else f"({'-' if value < 0 else ''}INFINITY)"
    text = f"{value!r}LL" if isinstance(value, int) else repr(value)
    return f"({text})" if text.startswith("-") else text


class _Cpp:
    """Writes expressions; knows which locals are elements, bools or numbers."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        #: "T", "bool", "int" or "float" of each name.
        self.kinds = dict.fromkeys(tree.operands, "T")
        for name, value in {**tree.scalars, **tree.captures}.items():
            self.kinds[name] = "int" if isinstance(value, int) else "float"

    def kind(self, node: Node) -> str:
        from tests.fuzz.rules import RULES

        match node.kind:
            case "number":
                return "int" if isinstance(node.value, int) else "float"
            case "index":
                return "int"
            case "helper":
                return "T"
            case "choose":
                return self.joined([self.kind(child) for child in node.children[1:]])
            case "rule":
                rule = RULES[node.name]
                kinds = [self.kind(child) for child in node.children]
                if rule.asks:
                    return "bool"
                joined = self.joined(kinds)
                if joined == "T" or "bool" in kinds:
                    return "T"
                return "float" if node.name == "/" else joined
            case _:
                return self.kinds[node.name]

    @staticmethod
    def joined(kinds: list[str]) -> str:
        for kind in ("T", "float", "int", "bool"):
            if kind in kinds:
                return kind
        return "T"

    def write(self, node: Node, wanted: str | None = None) -> str:
        from tests.fuzz.rules import RULES

        kind = self.kind(node)
        if wanted == "bool" and kind != "bool":
            return f"bool({self.write(node)} != {self.zero(kind)})"
        if wanted == "T" and kind != "T":
            return f"T({self.write(node)})"
        if wanted == "float" and kind == "int":
            return f"double({self.write(node)})"
        match node.kind:
            case "number":
                return _cpp_number(node.value)
            case "index":
                return "index_of_element"
            case "choose":
                condition = self.write(node.children[0], "bool")
                yes, no = (self.write(child, kind) for child in node.children[1:])
                return f"({condition} ? {yes} : {no})"
            case "helper":
                return f"{node.name}({', '.join(self.write(child, 'T') for child in node.children)})"
            case "rule":
                rule = RULES[node.name]
                kinds = [self.kind(child) for child in node.children]
                inner = "bool" if rule.logical else self.joined(kinds)
                inner = "T" if inner == "bool" and not rule.logical else inner
                if inner in ("int", "float") and inner != kind:
                    inner = kind if kind in ("int", "float") else inner
                text = rule.cpp.format(*(self.write(child, inner) for child in node.children))
                return text if kind == "bool" else f"{self.type(kind)}({text})"
            case _:
                return node.name

    @staticmethod
    def zero(kind: str) -> str:
        return "T(0)" if kind == "T" else "0"

    @staticmethod
    def type(kind: str) -> str:
        return {"T": "T", "bool": "bool", "int": "(long long)", "float": "double"}[kind]

    def body(self, body: tuple[Any, ...], declared: set[str]) -> list[str]:
        lines = []
        for statement in body:
            match statement:
                case Assign(name, node, operator):
                    kind = self.kinds.get(name) or self.kind(node)
                    kind = "T" if kind == "bool" else kind
                    text = self.write(node, "T") if kind == "T" else self.write(node)
                    if operator:
                        from tests.fuzz.rules import RULES

                        text = f"{self.type(kind)}({RULES[operator].cpp.format(name, text)})"
                    if name in declared:
                        lines.append(f"{name} = {text};")
                    else:
                        self.kinds[name] = kind
                        declared.add(name)
                        lines.append(f"{'long long' if kind == 'int' else self.type(kind)} {name} = {text};")
                case Branch(node, inner, other):
                    lines += [f"if ({self.write(node, 'bool')}) {{", *self.body(inner, declared), "}"]
                    if other:
                        lines += ["else {", *self.body(other, declared), "}"]
                case Loop(name, node, inner):
                    self.kinds[name] = "int"
                    head = f"for (long long {name} = 0; {name} < {self.write(node)}; ++{name}) {{"
                    lines += [head, *self.body(inner, declared), "}"]
                case Exit(results):
                    if len(results) == 1:
                        lines.append(f"return {self.write(results[0], 'T')};")
                    else:
                        lines += [f"result{k} = {self.write(r, 'T')};" for k, r in enumerate(results)]
                        lines.append("return;")
        return ["    " + line for line in lines]


def has_cpp(tree: Tree, dtype: str) -> bool:
    """Return whether the tree means the same in C++, as a template of a type of that dtype."""
    from tests.fuzz.rules import RULES

    kind = "f" if "float" in dtype else "i"
    rules = [RULES[node.name] for node in tree.nodes() if node.kind == "rule"]
    augmented = [RULES[s.operator] for s in tree.statements() if isinstance(s, Assign) and s.operator]
    return all(rule.cpp and kind in rule.cpp_kinds for rule in [*rules, *augmented])


def cpp_text(tree: Tree) -> str:
    """Return the functor as a template of one type, with the helpers that Python's operators need."""
    from tests.fuzz.rules import CPP_HELPERS

    writer = _Cpp(tree)
    parts = [CPP_HELPERS]
    for helper in tree.helpers:
        inner = _Cpp(tree)
        inner.kinds.update(dict.fromkeys(helper.parameters, "T"))
        parameters = ", ".join(f"T {name}" for name in helper.parameters)
        body = inner.write(helper.node, "T")
        parts.append(f"template <typename T> T {helper.name}({parameters}) {{ return {body}; }}")
    parameters = [f"T {name}" for name in tree.operands]
    for name, value in tree.scalars.items():
        parameters.append(f"{'long long' if isinstance(value, int) else 'double'} {name}")
    if any(node.kind == "index" for node in tree.nodes()):
        parameters.append("numjit::index place_of_element")
    count = tree.results
    if count > 1:
        parameters += [f"T& result{k}" for k in range(count)]
    parts.append(f"template <typename T> {'T' if count == 1 else 'void'} functor({', '.join(parameters)}) {{")
    if any(node.kind == "index" for node in tree.nodes()):
        parts.append("    const long long index_of_element = place_of_element;")
    parts += [
        f"    const {'long long' if isinstance(v, int) else 'double'} {name} = {_cpp_number(v)};"
        for name, v in tree.captures.items()
    ]
    parts += [*writer.body(tree.body, set()), "}"]
    return "\n".join(parts) + "\n"
