"""The text of a torch operator's schema, from a functor's signature."""

from __future__ import annotations

import keyword
import math
import re
from typing import Any

from numjit.arrays.numbers import as_python
from numjit.errors import FunctorError
from numjit.functor.signature import MISSING, Signature

__all__ = ["check_name", "schema", "spelled"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Names that torch's schemas or the Python functions made of them cannot have.
_RESERVED = frozenset({"self", "out", "str", "int", "float", "bool", *keyword.kwlist})


def check_name(name: str) -> tuple[str, str]:
    """Return namespace and name of an operator that is called ``"namespace::name"``.

    Raises
    ------
    FunctorError
        It is not called so.
    """
    parts = name.split("::") if isinstance(name, str) else []
    if len(parts) != 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise FunctorError(f"{name!r} names no torch operator; say 'namespace::name'")
    return parts[0], parts[1]


def schema(name: str, signature: Signature, pattern: str, *, out: bool = False) -> str:
    """Return a schema.

    Parameters
    ----------
    name
        The operator's name, with the name of the overload.
    signature
        The functor's: operands become ``Tensor``, scalars keyword-only ``Scalar``.
    pattern
        A letter for each operand, then each scalar: ``T`` for a tensor, ``S`` for a Python number. Where a
        scalar is a tensor all arguments are positional, as torch's registered gradients demand.
    out
        Whether results are written to tensors that the caller gives.

    Examples
    --------
    >>> from numjit import elementwise
    >>> axpy = elementwise(lambda x, y, *, alpha=1.0: alpha * x + y)
    >>> schema("axpy", axpy.functor.signature, "TTS")
    'axpy(Tensor x, Tensor y, *, Scalar alpha=1.0) -> Tensor'
    """
    kinds = {"T": "Tensor", "S": "Scalar"}
    count = len(signature.operands)
    is_positional = "T" in pattern[count:]
    parts: list[str] = []
    for k, (p, kind) in enumerate(zip((*signature.operands, *signature.scalars), pattern, strict=True)):
        if k == count and not is_positional:
            parts.append("*")
        default = _default(p.default) if k >= count and not is_positional else ""
        parts.append(f"{kinds[kind]} {spelled(p.name, k)}{default}")
    outputs = len(signature.outputs)
    if out:
        parts += [] if "*" in parts else ["*"]
        parts += [f"Tensor({_alias(k)}!) {_out(k, outputs)}" for k in range(outputs)]
    returns = "()" if out else "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    return f"{name}({', '.join(parts)}) -> {returns}"


def _alias(place: int) -> str:
    """Return how a schema names what an out argument shares its memory with: a letter, while there are."""
    return chr(ord("a") + place) if place < 26 else f"a{place}"


def _out(place: int, count: int) -> str:
    return "out" if count == 1 else f"out{place}"


def spelled(name: str, place: int = 0) -> str:
    """Return a parameter's name where a schema may have it."""
    if _NAME.fullmatch(name) and name not in _RESERVED:
        return name
    return f"{name}_" if _NAME.fullmatch(name) else f"operand{place}"


def _default(value: Any) -> str:
    """Return a default where a schema can write it."""
    if value is MISSING:
        return ""
    number = as_python(value)
    if isinstance(number, complex) or (isinstance(number, float) and not math.isfinite(number)):
        return ""
    return f"={number!r}"
