"""Derivative formulas as C++: the same formulas that Python functors are differentiated by, run on text.

What is written are calls of the macros of numjit/functor/cpp/include (``dual.h``, ``dual_rules.h``,
``dual_complex.h``). In them the operands are x, y and z, the value is v, and R is the type of a real number,
which may have derivatives itself.
"""

from __future__ import annotations

import math
import operator
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from numjit import math as nm
from numjit.rules.entry import Entry, Name
from numjit.rules.rule import as_real
from numjit.rules.table import ENTRIES
from numjit.rules.traced import Traced, where
from numjit.rules.types import RefusalError

__all__ = ["complex_rules", "names", "operators", "own_rules", "rules"]

_OPERANDS = "xyz"
_WIDTH = 118
#: How strongly C++'s operators bind, from weakest.
_CHOICE, _BITS, _EQUAL, _ORDER, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_INFIX = {
    operator.add: ("+", _SUM), operator.sub: ("-", _SUM), operator.mul: ("*", _PRODUCT),
    operator.truediv: ("/", _PRODUCT), operator.and_: ("&", _BITS), operator.or_: ("|", _BITS),
    operator.eq: ("==", _EQUAL), operator.lt: ("<", _ORDER), operator.le: ("<=", _ORDER),
    operator.gt: (">", _ORDER), operator.ge: (">=", _ORDER),
}  # fmt: skip
_TESTS = frozenset(
    {operator.and_, operator.or_, operator.eq, operator.lt, operator.le, operator.gt, operator.ge}
)
#: Functions of the headers that no functor can name.
_HELPERS = {nm.sign: "sign", nm.sgn: "sgn"}
#: A fast sine's derivative is the fast cosine, which shares its reduction.
_FAST = {"sin": "__sinf", "cos": "__cosf"}


class _Text(Traced):
    """A scalar of a formula: a pattern of C++ and what stands in it."""

    def __init__(
        self,
        tracer: _Tracer,
        pattern: str,
        operands: Sequence[_Text] = (),
        *,
        of: str = "R",
        binds: int = _ATOM,
    ) -> None:
        super().__init__(tracer, None, None)
        self.pattern = pattern
        self.operands = tuple(operands)
        self.type = of
        self.binds = binds
        #: 0 or 1 of a part of a tangent, with which products are left out.
        self.seed: int | None = None

    @property
    def is_complex(self) -> bool:
        return self.type == "complex<R>"


class _Tangent(Traced):
    """A complex tangent of 1 or i, with which a `Linear` is asked for its partials."""

    def __init__(self, real: _Text, imag: _Text) -> None:
        super().__init__(real.tracer, None, None)
        self.parts = real, imag

    @property
    def real(self) -> Traced:
        return self.parts[0]

    @property
    def imag(self) -> Traced:
        return self.parts[1]


class _Tracer:
    """Applies functions by writing them down, each to the same operands once."""

    def __init__(self, *, is_fast: bool = False) -> None:
        self.is_fast = is_fast
        self.made: dict[Any, _Text] = {}

    def make(self, pattern: str, operands: Sequence[_Text] = (), of: str = "R", binds: int = _ATOM) -> _Text:
        """Return a scalar; the same for the same text."""
        key = pattern, tuple(map(id, operands)), of
        if key not in self.made:
            self.made[key] = _Text(self, pattern, operands, of=of, binds=binds)
        return self.made[key]

    def seed(self, value: int) -> _Text:
        """Return a part of a tangent."""
        made = _Text(self, f"R({value})")
        made.seed = value
        return made

    def number(self, value: Any) -> _Text:
        """Return a constant."""
        if isinstance(value, complex):
            parts = self.number(value.real), self.number(value.imag)
            return self.make("complex<R>({}, {})", parts, "complex<R>")
        if not math.isfinite(value):
            what = "quiet_NaN" if math.isnan(value) else "infinity"
            return self.make(f"{'-' if value < 0 else ''}std::numeric_limits<R>::{what}()")
        return self.make(f"R({int(value) if value == int(value) else repr(float(value))})")

    def attribute(self, name: str, given: Traced) -> Traced:
        """Write a part or the conjugate of a complex number."""
        assert isinstance(given, _Text)
        if name == "conjugate":
            return self.make("conj({})", [given], "complex<R>")
        if given.pattern == "conj({})":
            part = self.attribute(name, given.operands[0])
            return part if name == "real" else -part
        if given.pattern == "sgn({})":
            size = self.call(abs, given.operands[0])
            return where(size == 0, 0.0, self.attribute(name, given.operands[0]) / size)
        return self.make(f"{{}}.{name}()", [given])

    def call(self, function: Any, *operands: Any) -> Traced:
        """Write an operator or a function of the table."""
        if any(isinstance(operand, _Tangent) for operand in operands):
            return self._times_tangent(function, *operands)
        given = [operand if isinstance(operand, _Text) else self.number(operand) for operand in operands]
        folded = self._folded(function, given)
        if folded is not None:
            return folded
        is_complex = any(operand.is_complex for operand in given)
        own = "complex<R>" if is_complex else "R"
        if function in _INFIX:
            symbol, binds = _INFIX[function]
            return self.make(f"{{}} {symbol} {{}}", given, "bool" if function in _TESTS else own, binds)
        if function is operator.neg:
            return self.make("-{}", given, own, _SIGN)
        if function is nm.where:
            own = "complex<R>" if any(operand.is_complex for operand in given[1:]) else "R"
            arms = (
                "{}" if own == "R" and arm.pattern.startswith("R(") else f"{own}({{}})" for arm in given[1:]
            )
            return self.make(f"{{}} ? {' : '.join(arms)}", given, own, _CHOICE)
        if function is complex:
            return self.make("complex<R>({}, {})", given, "complex<R>")
        if function is operator.pow and not is_complex:
            return self.make("power<B>({}, {})", given)
        if is_complex and function is nm.rsqrt:
            return self.call(operator.truediv, 1.0, self.call(nm.sqrt, *given))
        name = function if isinstance(function, str) else _cpp_name(function, is_complex=is_complex)
        name = _FAST.get(name, name) if self.is_fast else name
        result = "R" if function is abs else "bool" if function is nm.isnan else own
        return self.make(f"{name}({', '.join(['{}'] * len(given))})", given, result)

    def _folded(self, function: Any, given: list[_Text]) -> Traced | None:
        """Leave out what a tangent's zeros and ones have no part in."""
        if function is operator.neg and given[0].pattern == "-{}":
            return given[0].operands[0]
        if len(given) != 2 or (given[0].seed is None and given[1].seed is None):
            return None
        x, y = given
        if function is operator.mul:
            seed, other = (x, y) if x.seed is not None else (y, x)
            return other if seed.seed else seed
        if function is operator.sub:
            return x if y.seed == 0 else -y if x.seed == 0 else None
        return None

    def _times_tangent(self, function: Any, x: Any, t: Any) -> Traced:
        assert function is operator.mul
        return _Tangent(x.real * t.real - x.imag * t.imag, x.real * t.imag - -(x.imag * t.real))


def _cpp_name(function: Any, *, is_complex: bool) -> str:
    if function in _HELPERS:
        return _HELPERS[function]
    entry = next(entry for entry in ENTRIES if function in entry.rules)
    if is_complex:
        assert entry.complex_cpp, function
        return entry.complex_cpp
    return entry.cpp[0].name


# ------------------------------------------------------------------------------------------ expressions


def _written(root: _Text) -> tuple[list[str], str]:
    """Return the statements and the expression of a scalar; what is used twice gets a name."""
    uses: dict[int, int] = {}

    def count(node: _Text) -> None:
        uses[id(node)] = uses.get(id(node), 0) + 1
        if uses[id(node)] == 1:
            for operand in node.operands:
                count(operand)

    count(root)
    statements: list[str] = []
    named: dict[int, str] = {}

    def shown(node: _Text) -> str:
        if id(node) in named:
            return named[id(node)]
        filled = node.pattern.format(*map(inside(node), node.operands, range(len(node.operands))))
        if uses[id(node)] < 2 or not node.operands:
            return filled
        named[id(node)] = f"t{len(named)}"
        statements.append(f"const {node.type} {named[id(node)]} = {filled};")
        return named[id(node)]

    def inside(outer: _Text) -> Any:
        def one(node: _Text, place: int) -> str:
            text = shown(node)
            # Sums and products of floats keep their order; in a call or a choice's arms all may stand.
            is_free = outer.binds == _ATOM and not outer.pattern.startswith("{}")
            if is_free or (outer.binds == _CHOICE and place > 0) or id(node) in named:
                return text
            return f"({text})" if node.binds < outer.binds + (place > 0) else text

        return one

    expression = shown(root)
    return statements, expression


def _lines(text: str) -> str:
    """Break a statement or a macro's call into lines."""
    return "\n".join(textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_long_words=False))


class _Slopes:
    """The partials of one function, with the helper functions that they need."""

    def __init__(self, own: str, operands: Sequence[str], of: str = "R", value: str = "") -> None:
        self.own = own
        self.types = {**dict.fromkeys(operands, of), "v": value or of}
        self.helpers: list[str] = []

    def write(self, scalar: Any, tracer: _Tracer, suffix: str = "") -> str:
        """Return a partial as an expression."""
        if scalar is None:
            return "Flat()"
        if scalar is _REFUSED:
            return "R(std::numeric_limits<double>::quiet_NaN())"
        if not isinstance(scalar, _Text):
            scalar = tracer.number(scalar)
        statements, expression = _written(scalar)
        if not statements:
            return expression
        name = f"slope_of_{self.own}{suffix}"
        lines = [*statements, f"return {expression};"]
        used = [word for word in self.types if re.search(rf"\b{word}\b", " ".join(lines))]
        parameters = ", ".join(f"const {self.types[word]}& {word}" for word in used)
        body = "\n".join(textwrap.indent(_lines(line), "  ") for line in lines)
        self.helpers.append(
            f"template <class R>\nNUMJIT_DUAL {scalar.type} {name}({parameters}) {{\n{body}\n}}"
        )
        return f"{name}({', '.join(used)})"


def _partials(
    entry: Entry, name: str, count: int, tracer: _Tracer, *, of: str = "R", value: str = ""
) -> list[Any]:
    """Run the formula: return how each operand's tangent becomes one of the result."""
    operands = [tracer.make(letter, of=of) for letter in _OPERANDS[:count]]
    result = tracer.make("v", of=value or of)
    call = f"{name}({', '.join(['{}'] * count)})"
    tracer.made[call, tuple(map(id, operands)), result.type] = result
    formula = entry.derivative.formula
    assert formula is not None
    return [_asked(how) for how in formula(result, *operands)]


#: Stands for the derivative by an operand that has none. Whether that is asked for shows when a functor runs:
#: operands of one type are duals all, whichever of them is differentiated.
_REFUSED = object()


def _asked(how: Any) -> Any:
    try:
        return how() if callable(how) else how
    except RefusalError:
        return _REFUSED


# ------------------------------------------------------------------------------------------ what is written


def _all_names() -> list[Name]:
    return [name for entry in ENTRIES for name in entry.cpp]


def names() -> str:
    """Return the lists of the names that have derivatives."""
    later = [
        name.name
        for entry in ENTRIES
        for name in entry.cpp
        if name.home == "std" and not name.is_by_hand and _OWN.search("\n".join(_rule(entry, name)))
    ]
    lists = {
        "STANDARD": [name.name for name in _all_names() if name.home == "std" and name.name not in later],
        "LATER": later,
        "CUDA": [name.name for name in _all_names() if name.home == "cuda"],
        "FLOAT": [name.name for name in _all_names() if name.has_single and name.name not in later],
        "INTRINSIC": [name.name for name in _all_names() if name.home == "fast"],
        "OWN": [name.name for name in _all_names() if name.home == "own"],
    }
    made = []
    for own, found in lists.items():
        calls = textwrap.wrap(" ".join(f"DO({name})" for name in sorted(found)), _WIDTH - 4)
        made.append(f"#define NUMJIT_{own}_NAMES(DO) \\\n" + " \\\n".join(f"  {line}" for line in calls))
    return "\n".join(made)


def operators() -> str:
    """Return the rules of C++'s operators."""
    made = []
    for entry in ENTRIES:
        for symbol in sorted({rule.name for rule in entry.rules.values()} & {"+", "-", "*", "/"}):
            slopes, tracer = _Slopes("", "xy"), _Tracer()
            texts = [slopes.write(how, tracer) for how in _partials(entry, symbol, 2, tracer)]
            assert not slopes.helpers
            made.append(f"NUMJIT_OPERATOR({symbol}, {', '.join(texts)})")
    return "\n".join(made)


def rules() -> str:
    """Return the rules of functions of reals."""
    return "\n".join(text for text in _rules() if not _OWN.search(text))


def own_rules() -> str:
    """Return the rules of numjit's own functions, and of those whose derivative takes one."""
    return "\n".join(text for text in _rules() if _OWN.search(text))


#: A name of numjit's own functions.
_OWN = re.compile(
    rf"\b({'|'.join(name.name for entry in ENTRIES for name in entry.cpp if name.home == 'own')})\b"
)


def _rules() -> list[str]:
    return ["\n".join(_rule(entry, name)) for entry in ENTRIES for name in entry.cpp if not name.is_by_hand]


def _rule(entry: Entry, name: Name) -> Iterator[str]:
    plural = "S" if name.has_single else ""
    if entry.derivative.formula is None:
        yield f"NUMJIT_WHOLE{plural}({name.name})"
        return
    tracer = _Tracer(is_fast=name.home == "fast")
    partials = _partials(entry, name.name, name.operands, tracer)
    if len(partials) == 1 and partials[0] is None:
        yield f"NUMJIT_STEP({name.name})"
        return
    yield from _call(
        f"NUMJIT_RULE{plural}", name.name, partials, tracer, _Slopes(name.name, _OPERANDS[: name.operands])
    )


def _call(macro: str, name: str, partials: Sequence[Any], tracer: _Tracer, slopes: _Slopes) -> Iterator[str]:
    """Yield the call of a macro after the helper functions of its arguments."""
    count = len(partials)
    suffixes = [f"_by_{_OPERANDS[k]}" for k in range(count)] if count > 1 else [""]
    texts = [slopes.write(how, tracer, suffix) for how, suffix in zip(partials, suffixes, strict=True)]
    yield from slopes.helpers
    yield _lines(f"{macro}{count if count > 1 else ''}({name}, {', '.join(texts)})")


def complex_rules() -> str:
    """Return the rules of functions of complex numbers."""
    return "\n".join(line for entry in ENTRIES if entry.complex_cpp for line in _complex_rule(entry))


def _complex_rule(entry: Entry) -> Iterator[str]:
    name, tracer = entry.complex_cpp, _Tracer()
    count, of = (2 if name in ("pow", "operator/") else 1), "complex<R>"
    if any(rule.result is as_real for rule in entry.rules.values()):
        (how,) = _partials(entry, name, 1, tracer, of=of, value="R")
        one, zero = tracer.seed(1), tracer.seed(0)
        partials = [how.function(_Tangent(*parts)) for parts in ((one, zero), (zero, one))]
        yield from _call("NUMJIT_OF_PARTS", name, partials, tracer, _Slopes(name, "x", of, "R"))
        return
    partials = _partials(entry, name, count, tracer, of=of)
    yield from _call("NUMJIT_HOLOMORPHIC", name, partials, tracer, _Slopes(name, _OPERANDS[:count], of))
