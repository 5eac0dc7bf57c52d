"""Options as a caller gave them: of the type they are to have, or an error that says what to pass."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from numjit.errors import NumjitError, OptionError, kind_of, shown

__all__ = ["Checks", "as_tuple", "is_a"]

#: No option holds as many; an iterator may never end.
_MOST_MEMBERS = 1 << 16


def is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a class, by its type: a proxy whose object is gone raises when it is asked."""
    return issubclass(type(value), kind)


def as_tuple(out: Any) -> tuple[Any, ...]:
    """Return what was given for ``out=``, one array or a tuple of them, as a tuple."""
    return out if is_a(out, tuple) else (out,)


@dataclasses.dataclass(frozen=True)
class Checks:
    """Checks of one call's options; each returns the option as what it is to be.

    Attributes
    ----------
    where
        What was called, for messages.
    error
        The class that is raised.
    """

    where: str
    error: type[NumjitError] = OptionError

    def refuse(self, option: str, value: Any, wanted: str) -> NoReturn:
        """Raise for an option that has a value it cannot have; `wanted` is what to pass instead."""
        kind = "" if value is None else f", {kind_of(value)}"
        raise self.error(f"{self.where}: {option} is {shown(value)}{kind}; pass {wanted}")

    def flag(self, option: str, value: Any) -> bool:
        """Return what is True or False (NumPy's are)."""
        if not is_a(value, bool) and (type(value).__module__, type(value).__name__[:4]) != ("numpy", "bool"):
            self.refuse(option, value, "True or False")
        return bool(value)

    def count(self, option: str, value: Any, least: int = 1, most: int | None = None) -> int:
        """Return a whole number, NumPy's or another."""
        try:
            found = None if is_a(value, bool) else operator.index(value)
        except Exception:  # noqa: BLE001 - whatever its __index__ raises, it is no number
            found = None
        if found is None or found < least or (most is not None and found > most):
            self.refuse(option, value, f"an int, {least} or more{'' if most is None else f', up to {most}'}")
        return found

    def text(self, option: str, value: Any, wanted: str) -> str:
        """Return a string."""
        if not is_a(value, str):
            self.refuse(option, value, wanted)
        return str(value)

    def members(self, option: str, value: Any, wanted: str) -> tuple[Any, ...]:
        """Return the members of what holds several: not a string's letters, nor a dict's keys."""
        found: tuple[Any, ...] | None = None
        if not is_a(value, str | bytes | bytearray | Mapping) and is_a(value, Iterable):
            try:
                found = tuple(itertools.islice(value, _MOST_MEMBERS))
            except Exception:  # noqa: BLE001 - whatever its iterator raises
                found = None
        if found is None or len(found) == _MOST_MEMBERS:
            self.refuse(option, value, wanted)
        return found

    def texts(self, option: str, value: Any, wanted: str) -> tuple[str, ...]:
        """Return several strings."""
        found = self.members(option, value, wanted)
        return tuple([self.text(f"a member of {option}", member, wanted) for member in found])

    def sizes(self, option: str, value: Any, wanted: str, least: int | None = 0) -> tuple[int, ...]:
        """Return several whole numbers in order."""
        if is_a(value, set | frozenset):
            self.refuse(option, value, f"{wanted}, in order")
        try:
            found = tuple(map(operator.index, self.members(option, value, wanted)))
        except NumjitError:
            raise
        except Exception:  # noqa: BLE001 - whatever a member's __index__ raises
            self.refuse(option, value, wanted)
        if least is not None and any(size < least for size in found):
            raise self.error(
                f"{self.where}: {option} {shown(found)} has a negative size; pass sizes of {least} or more"
            )
        return found

    def names(self, option: str, value: Any, wanted: str) -> dict[str, Any]:
        """Return what gives something to each of several names."""
        found: dict[Any, Any] | None = None
        if is_a(value, Mapping):
            try:
                found = dict(value)
            except Exception:  # noqa: BLE001 - whatever the mapping raises
                found = None
        if found is None:
            self.refuse(option, value, wanted)
        for name in found:
            self.text(f"a name in {option}", name, wanted)
        return found
