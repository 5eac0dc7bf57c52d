"""Options as a caller gave them: of the type they are to have, or an error that says which to give."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from numjit.errors import NumjitError, OptionError, kind_of, shown

__all__ = ["count", "flag", "is_a", "members", "names", "refuse", "text", "texts"]


def is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a class, by its type: a proxy whose object is gone raises when it is asked."""
    return issubclass(type(value), kind)


def refuse(
    where: str, option: str, value: Any, wanted: str, error: type[NumjitError] = OptionError
) -> NoReturn:
    """Raise for an option that has a value it cannot have.

    Parameters
    ----------
    where
        The function, and what it was called for.
    option, value
        The parameter's name and what was given.
    wanted
        What to give, after "give".
    error
        The class to raise.
    """
    kind = "" if value is None else f", {kind_of(value)}"
    raise error(f"{where}: {option} is {shown(value)}{kind}; give {wanted}")


def flag(where: str, option: str, value: Any, error: type[NumjitError] = OptionError) -> bool:
    """Return an option that is True or False (NumPy's are)."""
    if is_a(value, bool):
        return bool(value)
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    refuse(where, option, value, "True or False", error)


def count(where: str, option: str, value: Any, least: int = 1, error: type[NumjitError] = OptionError) -> int:
    """Return an option that is a whole number, NumPy's or another, of at least `least`."""
    try:
        found = None if is_a(value, bool) else operator.index(value)
    except Exception:  # noqa: BLE001 - whatever its __index__ raises, it is no number
        found = None
    if found is None or found < least:
        refuse(where, option, value, f"an int, {least} or more", error)
    return found


def text(where: str, option: str, value: Any, wanted: str, error: type[NumjitError] = OptionError) -> str:
    """Return an option that is a string."""
    if not is_a(value, str):
        refuse(where, option, value, wanted, error)
    return str(value)


def members(
    where: str, option: str, value: Any, wanted: str, error: type[NumjitError] = OptionError
) -> tuple[Any, ...]:
    """Return the members of an option that holds several things; a string's letters are none of them."""
    found: tuple[Any, ...] | None = None
    if not is_a(value, str | bytes | bytearray | Mapping) and is_a(value, Iterable):
        try:
            found = tuple(value)
        except Exception:  # noqa: BLE001 - whatever its iterator raises
            found = None
    if found is None:
        refuse(where, option, value, wanted, error)
    return found


def texts(
    where: str, option: str, value: Any, wanted: str, error: type[NumjitError] = OptionError
) -> tuple[str, ...]:
    """Return an option that is a sequence of strings."""
    found = members(where, option, value, wanted, error)
    for member in found:
        text(where, f"a member of {option}", member, wanted, error)
    return found


def names(
    where: str, option: str, value: Any, wanted: str, error: type[NumjitError] = OptionError
) -> dict[str, Any]:
    """Return an option that gives something to each of several names."""
    found: dict[Any, Any] | None = None
    if is_a(value, Mapping):
        try:
            found = dict(value)
        except Exception:  # noqa: BLE001 - whatever the mapping raises
            found = None
    if found is None:
        refuse(where, option, value, wanted, error)
    for name in found:
        text(where, f"a name in {option}", name, wanted, error)
    return found
