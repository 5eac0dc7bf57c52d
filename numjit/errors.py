"""Every error that numjit raises: `NumjitError` and subclasses that are also the builtin that fits."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = [
    "ArgumentError",
    "AutogradError",
    "BroadcastError",
    "CompilationError",
    "DeviceError",
    "FunctorError",
    "KeywordError",
    "LaunchError",
    "NumjitError",
    "OptionError",
    "OutputError",
    "OverlapError",
    "PromotionError",
    "SettingsError",
    "ToolchainError",
    "UnsupportedArrayError",
    "UnsupportedDtypeError",
    "kind_of",
    "shown",
    "without_frames",
]

#: Characters of a value that a message shows.
_SHOWN = 60


class NumjitError(Exception):
    """Base class of every error that numjit raises on purpose."""


class UnsupportedDtypeError(NumjitError, TypeError):
    """A dtype that numjit has no element type for."""


class UnsupportedArrayError(NumjitError, TypeError):
    """An operand that is no array numjit can read (sparse, quantised, nested, a list, ...)."""


class PromotionError(NumjitError, TypeError):
    """Two dtypes that have no common dtype, as torch refuses them."""


class ArgumentError(NumjitError, TypeError):
    """A call whose arguments do not match the functor's parameters."""


class KeywordError(ArgumentError, KeyError):
    """A keyword that a function of `numjit.jiterator` did not declare; torch's is a KeyError."""

    __str__ = Exception.__str__  # a KeyError's own puts quotes around the message


class BroadcastError(NumjitError, ValueError):
    """Shapes that do not broadcast together."""


class FunctorError(NumjitError, ValueError):
    """A functor whose signature or declaration numjit cannot use."""


class OptionError(FunctorError, TypeError):
    """An option of `numjit.elementwise` that is of another type than it takes."""


class CompilationError(NumjitError, RuntimeError):
    """A functor that a compiler refused; the message shows the user's own line.

    Attributes
    ----------
    cause
        What Numba raised, where it did: its own words and its traceback. Not kept by pickling.
    """

    cause: BaseException | None = None

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), self.args


class DeviceError(NumjitError, ValueError):
    """Operands on different devices, or no device where one is needed."""


class OutputError(NumjitError, ValueError):
    """An ``out=`` array that cannot take the result."""


class OverlapError(OutputError):
    """An ``out=`` array that shares memory with itself or partly with an input."""


class ToolchainError(NumjitError, RuntimeError):
    """A compiler or library that is missing or does not fit; the message ends with the remedy."""


class LaunchError(NumjitError, RuntimeError):
    """The CUDA driver refused to load or launch a kernel."""


class SettingsError(NumjitError, ValueError):
    """An environment variable of numjit's that says nothing it understands."""


class AutogradError(NumjitError, RuntimeError):
    """A gradient was asked for where none is known."""


def shown(value: Any) -> str:
    """Return a value as messages show it: short, on one line, and whatever its own ``repr`` does.

    Examples
    --------
    >>> shown("--use_fast_math")
    "'--use_fast_math'"
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - it is the user's own, and what is told is another mistake
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def kind_of(value: Any) -> str:
    """Return what a value is, as messages call it: ``"a list"``, ``"an int"``, ``"None"``."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


_Error = TypeVar("_Error", bound=NumjitError)


def without_frames(error: _Error) -> _Error:
    """Return an error without the frames that it passed: its message says what the caller is to do.

    What numjit did until it knew is some forty lines of a traceback, in which the caller's own line is lost.
    """
    return error.with_traceback(None)
