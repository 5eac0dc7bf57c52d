"""Reads the types of a C++ signature: which element type, which template parameter, input or output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from numjit import dtypes
from numjit.dtypes import DType
from numjit.functor.cpp.reader import SPECIFIERS, skip_angles, skip_balanced
from numjit.functor.cpp.tokens import Source, Token

__all__ = ["CppType", "complex_of", "read_parameter", "read_type", "spell"]


class CppType(NamedTuple):
    """The type of a parameter or of a return value.

    Attributes
    ----------
    dtype
        The element type of a concrete type, else None.
    variable
        The template parameter it is, or whose complex it is, else None.
    is_complex
        Whether it is ``std::complex<variable>``.
    reference
        ``&`` stood behind it.
    is_const
        ``const`` stood with it.
    deduced
        Only a compiler can tell (``auto``, ``decltype(...)``); return types alone.
    is_void
        The return type ``void``.
    spelling
        C++ for it without ``const`` and ``&``.
    is_raw
        ``numjit::raw<...>`` of the type that `dtype`, `variable` and `is_complex` name.
    is_index
        ``numjit::index``: the element's own number.
    """

    dtype: DType | None = None
    variable: str | None = None
    is_complex: bool = False
    reference: bool = False
    is_const: bool = False
    deduced: bool = False
    is_void: bool = False
    spelling: str = ""
    is_raw: bool = False
    is_index: bool = False

    def by_value(self) -> CppType:
        """Return the type of a parameter that takes the same by value."""
        return self._replace(reference=False, is_const=False)

    @property
    def is_output(self) -> bool:
        """Whether a parameter of this type receives a result."""
        return self.reference and not self.is_const


_FIXED: Final = {
    f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
} | {"size_t": "uint64", "ptrdiff_t": "int64", "intptr_t": "int64", "uintptr_t": "uint64"}
_WORDS: Final = frozenset({
    "signed", "unsigned", "char", "short", "int", "long", "float", "double", "bool", "__int64",
})  # fmt: skip
_NARROW: Final = frozenset(
    {"__half", "half", "Half", "__nv_bfloat16", "BFloat16", "bfloat16", "__nv_fp8_e4m3"}
) | {
    "__nv_fp8_e5m2",
    "_Float16",
    "__half2",
    "__bf16",
}


def spell(tokens: Sequence[Token]) -> str:
    """Join tokens into C++ text."""
    return " ".join(token.text for token in tokens)


def complex_of(real: DType) -> DType | None:
    """Return the complex type whose parts compute as `real` does, or None where there is none."""
    names = {"float16": "complex32", "bfloat16": "complex64", "float32": "complex64", "float64": "complex128"}
    found = names.get(real.name)
    return dtypes.from_name(found) if found else None


def _builtin(words: Sequence[str]) -> DType | None:
    """Return the dtype of a fundamental type's words in any order."""
    left = [word for word in words if word != "int" or len(words) == 1]
    sign = "u" if "unsigned" in left else ""
    rest = [word for word in left if word not in {"signed", "unsigned"}]
    if "char" in rest:
        return dtypes.from_name(sign + "int8") if rest == ["char"] else None
    table: dict[tuple[str, ...], str] = {
        (): "int32",
        ("int",): "int32",
        ("short",): "int16",
        ("long",): "int64",
        ("long", "long"): "int64",
        ("__int64",): "int64",
    }
    name = table.get(tuple(rest))
    if name is not None:
        return dtypes.from_name(sign + name)
    floating: dict[tuple[str, ...], str] = {("float",): "float32", ("double",): "float64", ("bool",): "bool"}
    plain = floating.get(tuple(words))
    return dtypes.from_name(plain) if plain else None


def _strip(tokens: Sequence[Token]) -> tuple[list[Token], bool]:
    """Drop attributes and words that say nothing of the type; tell whether ``const`` was among them."""
    kept: list[Token] = []
    is_const = False
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "[" and at + 1 < len(tokens) and tokens[at + 1].text == "[":
            at = skip_balanced(tokens, at)
            continue
        if text in {"__attribute__", "__declspec", "alignas", "__align__", "__launch_bounds__"}:
            at = skip_balanced(tokens, at + 1)
            continue
        if text == "extern" and at + 1 < len(tokens) and tokens[at + 1].kind == "string":
            at += 2
            continue
        if text == "const":
            is_const = True
        elif text not in SPECIFIERS and text not in {"typename", "volatile"}:
            kept.append(tokens[at])
        at += 1
    return kept, is_const


class _TypeReader:
    def __init__(
        self, source: Source, variables: Sequence[str], aliases: Mapping[str, tuple[Token, ...]]
    ) -> None:
        self.source = source
        self.variables = frozenset(variables)
        self.aliases = aliases

    def read(self, tokens: Sequence[Token]) -> tuple[CppType | None, list[Token]]:
        """Read a type from the front; return it (None where unknown) and the tokens left."""
        kept, is_const = _strip(tokens)
        at = self._base_end(kept)
        base, rest = kept[:at], kept[at:]
        reference = False
        while rest and rest[0].text in {"&", "*", "&&"}:
            if rest[0].text != "&":
                self.source.fail(
                    rest[0].offset,
                    f"'{spell(base)}{rest[0].text}' is no type of one element; "
                    "take inputs by value and outputs as T&",
                )
            reference = True
            rest = rest[1:]
        found = self._base(base)
        if found is None:
            return None, rest
        return found._replace(
            reference=found.reference or reference, is_const=found.is_const or is_const
        ), rest

    def _base_end(self, kept: Sequence[Token]) -> int:
        """Return how many tokens name the type before ``&`` or the parameter's name."""
        at = 0
        if kept and kept[0].text in _WORDS:
            while at < len(kept) and kept[at].text in _WORDS:
                at += 1
            return at
        if kept and kept[0].text == "::":
            at = 1
        while at < len(kept) and kept[at].kind == "name":
            at += 1
            if at < len(kept) and kept[at].text == "<":
                at = skip_angles(kept, at) or len(kept)
            elif (
                at < len(kept)
                and kept[at].text == "("
                and kept[at - 1].text in {"decltype", "typeof", "__typeof__"}
            ):
                at = skip_balanced(kept, at)
            if at < len(kept) and kept[at].text == "::":
                at += 1
                continue
            break
        return at

    def _base(self, base: Sequence[Token]) -> CppType | None:
        spelling = spell(base)
        words = [token.text for token in base]
        if words and words[0] == "::":
            words = words[1:]
        if not words:
            return None
        if words[0] in _WORDS:
            dtype = _builtin(words)
            if dtype is None:
                self.source.fail(base[0].offset, f"'{spelling}' is a type that numjit has no dtype for")
            return CppType(dtype=dtype, spelling=spelling)
        if len(words) == 1 and words[0] in self.variables:
            return CppType(variable=words[0], spelling=spelling)
        if len(words) == 1 and words[0] in self.aliases:
            found, rest = self.read(self.aliases[words[0]])
            return None if rest or found is None else found._replace(spelling=spelling)
        if words[:2] == ["numjit", "::"]:
            return self._own(base, words[2:], spelling)
        unqualified = words[2:] if words[:2] == ["std", "::"] else words
        if len(unqualified) == 1 and unqualified[0] in _FIXED:
            return CppType(dtype=dtypes.from_name(_FIXED[unqualified[0]]), spelling=spelling)
        if unqualified[:2] == ["complex", "<"]:
            opened = next(i for i, token in enumerate(base) if token.text == "<")
            return self._complex(base[opened + 1 : -1], spelling, base[0])
        if words[-1] in _NARROW:
            self.source.fail(
                base[0].offset,
                f"'{spelling}' cannot be a parameter or result; declare it float or T (16- and 8-bit floats "
                "compute in float, numjit converts)",
            )
        return None

    def _own(self, base: Sequence[Token], words: Sequence[str], spelling: str) -> CppType:
        """Read one of numjit's own types."""
        if words == ["index"]:
            return CppType(dtype=dtypes.from_name("int64"), spelling=spelling, is_index=True)
        if words[:2] != ["raw", "<"]:
            self.source.fail(
                base[0].offset, f"'{spelling}' is no type of numjit's; it has numjit::index and numjit::raw"
            )
        opened = next(i for i, token in enumerate(base) if token.text == "<")
        inner, rest = self.read(base[opened + 1 : -1])
        if inner is None or rest or inner.reference or inner.is_raw or inner.is_index:
            self.source.fail(
                base[0].offset,
                f"'{spelling}': numjit::raw takes a template parameter, a number type or std::complex of one",
            )
        return inner._replace(is_raw=True, is_const=False, spelling=spelling)

    def _complex(self, inner: Sequence[Token], spelling: str, where: Token) -> CppType:
        real, rest = self.read(inner)
        if rest or real is None or real.reference or real.is_complex:
            self.source.fail(
                where.offset, f"'{spelling}': numjit knows complex of float, double or a template parameter"
            )
        if real.variable is not None:
            return CppType(variable=real.variable, is_complex=True, spelling=spelling)
        dtype = complex_of(real.dtype) if real.dtype is not None else None
        if dtype is None:
            self.source.fail(where.offset, f"'{spelling}': numjit knows complex of float and double only")
        return CppType(dtype=dtype, spelling=spelling)


def read_type(
    source: Source,
    tokens: Sequence[Token],
    variables: Sequence[str],
    aliases: Mapping[str, tuple[Token, ...]],
) -> CppType:
    """Read a return type; what only a compiler can tell is marked ``deduced``.

    Raises
    ------
    FunctorError
        Two names in a row where the first is a type: no compiler could read that.
    """
    kept, _ = _strip(tokens)
    if [token.text for token in kept] == ["void"]:
        return CppType(is_void=True, spelling="void")
    found, rest = _TypeReader(source, variables, aliases).read(tokens)
    if found is not None and rest and rest[0].kind == "name" and found.dtype is None and not found.is_complex:
        source.fail(rest[0].offset, f"{rest[0].text!r} follows the type {found.spelling!r}; leave one out")
    if found is None or rest:
        return CppType(deduced=True, spelling=spell(kept))
    return found


def read_parameter(
    source: Source,
    tokens: Sequence[Token],
    variables: Sequence[str],
    aliases: Mapping[str, tuple[Token, ...]],
    fallback: Token,
) -> tuple[CppType, str]:
    """Read one function parameter: its type and its name, empty where it has none.

    Raises
    ------
    FunctorError
        A pointer, an array, a pack, ``auto`` or a type that numjit has no dtype for.
    """
    where = tokens[0] if tokens else fallback
    if not tokens:
        source.fail(where.offset, "a parameter is missing between two commas")
    for token in tokens:
        if token.text == "...":
            source.fail(token.offset, "a functor takes a fixed number of parameters; '...' cannot be one")
    found, rest = _TypeReader(source, variables, aliases).read(tokens)
    if found is None:
        reason = (
            "write a template parameter instead"
            if "auto" in {t.text for t in tokens}
            else ("use a template parameter, a number type such as float or int64_t, or std::complex of one")
        )
        source.fail(where.offset, f"numjit cannot pass the parameter '{spell(_strip(tokens)[0])}'; {reason}")
    if len(rest) > 1 or (rest and rest[0].kind != "name"):
        source.fail(
            rest[0].offset, f"'{spell(tokens)}' is no parameter of one element: '{spell(rest)}' is left over"
        )
    return found, rest[0].text if rest else ""
