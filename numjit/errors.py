"""Every error that numjit raises: `NumjitError` and subclasses that are also the builtin that fits."""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "AutogradError",
    "BroadcastError",
    "CompilationError",
    "DeviceError",
    "FunctorError",
    "LaunchError",
    "NumjitError",
    "OutputError",
    "OverlapError",
    "PromotionError",
    "ToolchainError",
    "UnsupportedArrayError",
    "UnsupportedDtypeError",
]


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


class BroadcastError(NumjitError, ValueError):
    """Shapes that do not broadcast together."""


class FunctorError(NumjitError, ValueError):
    """A functor whose signature or declaration numjit cannot use."""


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


class AutogradError(NumjitError, RuntimeError):
    """A gradient was asked for where none is known."""
