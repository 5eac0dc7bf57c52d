"""``python -m numjit warmup``: build named functors, with a line of progress."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from numjit.ahead.run import read_targets
from numjit.ahead.warmup import Warmed, warmup
from numjit.dtypes import as_dtype
from numjit.errors import ArgumentError, DeviceError, NumjitError, UnsupportedDtypeError, kind_of

__all__ = ["find_operation", "run"]


def run(
    names: Sequence[str],
    *,
    targets: Sequence[str],
    dtypes: Sequence[str],
    layouts: Sequence[str] | None,
    jobs: int | None,
) -> int:
    """Build, print what was done, and return the exit status.

    Parameters
    ----------
    names
        ``MODULE:NAME`` of operations made by `numjit.elementwise`.
    targets, dtypes, layouts, jobs
        Those of `numjit.warmup`; no targets and no dtypes for its defaults.

    Returns
    -------
    int
        0 when all is built, 1 when something did not compile or no compiler is there, 2 where the command
        line names what does not exist.
    """
    try:
        where = targets or None
        read_targets(where)
        kinds = [as_dtype(name) for name in dtypes] or None
        operations = [find_operation(name) for name in names]
    except (ArgumentError, UnsupportedDtypeError) as error:
        print(error, file=sys.stderr)
        return 2
    status = 0
    line = _Line()
    for name, operation in zip(names, operations, strict=True):
        try:
            done: Warmed = warmup(
                operation, targets=where, dtypes=kinds, layouts=layouts, jobs=jobs, progress=line.show
            )  # fmt: skip
        except NumjitError as error:
            line.clear()
            print(f"{name}: {error}", file=sys.stderr)
            status = max(status, 2 if isinstance(error, ArgumentError | DeviceError) else 1)
        else:
            line.clear()
            print(f"{name}: {done}")
    return status


def find_operation(target: str) -> Any:
    """Return the operation that ``MODULE:NAME`` names.

    Raises
    ------
    ArgumentError
        There is none, or its module cannot be imported.
    """
    module, _, name = target.partition(":")
    sys.path.insert(0, "")  # modules beside which the command is run, as ``python -m`` itself has it
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        said = str(error).partition("\n")[0] or type(error).__name__
        raise ArgumentError(f"{target}: {said}; say MODULE:NAME of a numjit operation") from error
    finally:
        sys.path.remove("")
    if not hasattr(found, "__numjit_functor__"):
        raise ArgumentError(f"{target} is {kind_of(found)}; say MODULE:NAME of a numjit operation")
    return found


class _Line:
    """One line that is written over on a terminal; elsewhere a line for every tenth of the work."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._tenth = -1

    def show(self, done: int, total: int, what: str) -> None:
        """Say how much is done."""
        text = f"[{done}/{total}] {what}"
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:width].ljust(width)}", end="", file=sys.stderr, flush=True)
        elif done * 10 // total > self._tenth:
            self._tenth = done * 10 // total
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """End a line that was written over."""
        self._tenth = -1
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{' ' * width}\r", end="", file=sys.stderr, flush=True)
