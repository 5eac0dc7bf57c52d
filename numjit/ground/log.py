"""What numjit does, for people: one logger a topic, below the logger ``numjit``.

``NUMJIT_LOG=compile,plan`` prints topics to stderr; a program sets levels and handlers itself, as of any
logger of Python's ``logging``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

__all__ = ["logger", "show"]


def logger(topic: str) -> logging.Logger:
    """Return the logger of a topic."""
    return logging.getLogger(f"numjit.{topic}")


def show(topics: Iterable[str]) -> None:
    """Print these topics to stderr, from now on."""
    shown = [logger(topic) for topic in topics]
    for one in shown:
        one.setLevel(logging.DEBUG)
    top = logging.getLogger("numjit")
    if shown and not any(isinstance(handler, _Printed) for handler in top.handlers):
        handler = _Printed()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        top.addHandler(handler)


class _Printed(logging.StreamHandler):  # type: ignore[type-arg]
    """The handler that ``NUMJIT_LOG`` asks for."""
