"""Where the launcher can be: what it was tested with, and how one says that a process cannot have it."""

from __future__ import annotations

import sys

__all__ = ["PYTHON", "TORCH", "UnavailableError", "require_tested"]

#: The launcher reads memory of CPython and torch that neither describes. Others than these get Python's warm
#: path; before a version is added here, the launcher's tests have to pass with it, on a GPU too.
PYTHON = ((3, 11), (3, 12), (3, 13))
TORCH = ((2, 11), (2, 13))


class UnavailableError(Exception):
    """There is no launcher in this process; the text says why."""


def require_tested(torch_version: str) -> None:
    """Raise `UnavailableError` where the launcher was not tested with this Python or torch.

    Parameters
    ----------
    torch_version
        As torch tells it, ``"2.13.0+cu130"``.
    """
    if sys.implementation.name != "cpython":
        raise UnavailableError(f"it needs CPython, and this is {sys.implementation.name}")
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise UnavailableError("it needs a Python with the global interpreter lock")
    if sys.version_info[:2] not in PYTHON:
        raise UnavailableError(_untested("Python", sys.version_info[:2], PYTHON))
    major, minor = torch_version.split(".")[:2]
    if (int(major), int(minor)) not in TORCH:
        raise UnavailableError(_untested("torch", (int(major), int(minor)), TORCH))


def _untested(name: str, version: tuple[int, int], tested: tuple[tuple[int, int], ...]) -> str:
    names = ["{}.{}".format(*pair) for pair in tested]
    return f"it is not tested with {name} {'{}.{}'.format(*version)} (but with {', '.join(names)})"
