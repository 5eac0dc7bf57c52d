"""Turns what Numba says about a functor into one short error that shows the user's own line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from numba.core import types
from numba.core.errors import NumbaError

from numjit.errors import CompilationError, NumjitError
from numjit.functor.bytecode import return_line
from numjit.functor.scalars.wording import shown, worded
from numjit.functor.source import source_error
from numjit.rules.types import refusals

__all__ = ["bad_result", "explain", "start"]

_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_LINE = re.compile(r'^(?:\x1b\[[0-9;]*m)*File ".*", line (\d+):', re.MULTILINE)
_PREFIX = re.compile(r"^Failed in \w+ mode pipeline \(step: [^)]*\)\s*")


def start() -> None:
    """Forget earlier refusals of this thread."""
    refusals().clear()


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _location(error: BaseException) -> tuple[str, int] | None:
    """Find the user's file and line: in the error, else in what Numba was working on when it arose."""
    for link in _chain(error):
        location = getattr(link, "loc", None)
        if location is not None:
            return location.filename, location.line
    for link in _chain(error):
        found = None
        trace = link.__traceback__
        while trace is not None:
            for name in ("constraint", "inst"):
                location = getattr(trace.tb_frame.f_locals.get(name), "loc", None)
                if location is not None and hasattr(location, "line"):
                    found = location.filename, location.line
            trace = trace.tb_next
        if found is not None:
            return found
    return None


def _reason(error: BaseException) -> str:
    # Where colorama is installed, Numba's texts are coloured.
    texts = [_COLOUR.sub("", str(link)) for link in _chain(error)]
    for refusal in reversed(refusals()):
        if any(refusal in text for text in texts):
            return worded(str(refusal))
    text = _PREFIX.sub("", texts[0].strip())
    call = re.search(r">>> (.*)", text)
    if text.startswith("No implementation of function") and call:
        text = f"{call[1].strip()} is not supported"
    elif isinstance(error, NumbaError) or "Failed in" in texts[0]:
        text = text.partition("\n")[0]
    return worded(text)


def explain(error: BaseException, fn: Any) -> NumjitError:
    """Return the error to raise for an exception that compiling `fn` gave."""
    for link in _chain(error):
        if isinstance(link, NumjitError):  # from a helper, which knew its own line
            return link
    place, reason = _location(error), _reason(error)
    first = fn.__code__.co_firstlineno
    if place is None or place[1] <= first:  # numba-cuda knows no line, but its text may show one
        shown_line = _LINE.search(str(error))
        if shown_line and int(shown_line[1]) > first:
            place = fn.__code__.co_filename, int(shown_line[1])
    if reason.startswith("it returns"):  # Numba names the function's first line
        place = fn.__code__.co_filename, return_line(fn.__code__)
    return source_error(fn, place, reason)


def bad_result(fn: Any, kind: Any) -> CompilationError:
    """Return the error for a functor whose result is no number."""
    if kind == types.none or isinstance(kind, types.Optional | types.NoneType):
        return source_error(fn, None, "it does not return a value on every path; add a return statement")
    if isinstance(kind, types.BaseTuple):
        reason = "it returns a tuple inside a tuple; return one flat tuple of numbers"
    elif isinstance(kind, types.Callable):
        reason = "it returns a function; call it, and return numbers"
    else:
        reason = f"it returns {shown(str(kind))}; return a number or a tuple of numbers"
    return source_error(fn, (fn.__code__.co_filename, return_line(fn.__code__)), reason)
