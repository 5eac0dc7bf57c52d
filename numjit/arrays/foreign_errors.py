"""What other libraries' arrays raise when they are read: told as numjit's own, but for a lack of memory."""

from __future__ import annotations

import sys
from typing import Any

from numjit.errors import NumjitError, UnsupportedArrayError

__all__ = ["passes_through", "refused"]


def passes_through(error: Exception) -> bool:
    """Whether an error says of itself what went wrong: numjit's own, and memory that is not there."""
    if isinstance(error, NumjitError | MemoryError):
        return True
    torch = sys.modules.get("torch")
    kind = getattr(torch, "OutOfMemoryError", None)  # a RuntimeError, unlike CuPy's
    return kind is not None and isinstance(error, kind)


def refused(array: Any, method: str, error: Exception) -> UnsupportedArrayError:
    """Return what to raise where a producer's protocol raises, or says what cannot be.

    Parameters
    ----------
    array
        The producer's array.
    method
        The protocol's attribute.
    error
        BufferError, RuntimeError, ValueError or the producer's own.
    """
    kind = type(array)
    try:
        said = str(error) or "no reason"
    except Exception:  # noqa: BLE001 - an error of the producer's own class
        said = "no reason"
    return UnsupportedArrayError(
        f"{kind.__module__}.{kind.__qualname__}.{method} refused: {said} ({type(error).__name__}); pass an "
        "array that it can export, or np.asarray(x)"
    )
