"""Puts the launcher in place: built in the background after a first call, then used by every operation."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numjit import config

if TYPE_CHECKING:
    from numjit.launcher.records import FunctorRecord
    from numjit.warm import Entry

__all__ = ["FastCallable", "FastCalls", "Launcher", "build", "launchable", "wait"]


def launchable(call: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a ``__call__`` in whose place the launcher may answer; one that overrides it is left alone."""
    call.launchable = True  # type: ignore[attr-defined]
    return call


class FastCallable:
    """Base of operations whose calls the launcher answers, as far as it knows them.

    A subclass defines a `launchable` ``__call__``, which runs whenever the launcher does not answer.
    """

    #: The array that the launcher reads; unset until it has a plan for the operation.
    __slots__ = ("_record",)

    _record: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if _process.launcher is not None:
            _process.launcher.take_over(cls)


class Launcher:
    """The launcher, ready to be used.

    Attributes
    ----------
    describe
        Address of the function that describes calls.
    """

    def __init__(self, code: Any, table: Any, offsets: Any) -> None:
        self._code = code
        self._table = table
        self._offsets = offsets
        self.describe: int = code.describe
        code.use(table.address)

    @property
    def function_offsets(self) -> tuple[int, int, int]:
        """Offsets of code, defaults and keyword defaults in a function."""
        return self._offsets.function  # type: ignore[no-any-return]

    @property
    def cell_offset(self) -> int:
        """Offset of the contents in a cell."""
        return self._offsets.cell  # type: ignore[no-any-return]

    def take_over(self, cls: type) -> None:
        """Let the launcher answer calls of a class's instances; ``__call__`` stays for the rest."""
        if not getattr(cls.__call__, "launchable", False):
            return
        slot = ctypes.c_uint64.from_address(id(cls) + self._offsets.type_call)
        if slot.value == self._table.slot_call:
            slot.value = self._code.call


class _Process:
    """What this process has: the launcher, and the thread that builds it or did."""

    def __init__(self) -> None:
        self.launcher: Launcher | None = None
        self.thread: threading.Thread | None = None
        self.lock = threading.Lock()


_process = _Process()


def build() -> Launcher | None:
    """Compile or load the launcher and use it from now on; None where this process cannot have one."""
    torch: Any = sys.modules["torch"]
    from numjit.launcher import machine
    from numjit.launcher.offsets import find_offsets, word
    from numjit.launcher.process import process_table

    offsets = find_offsets(FastCallable, torch)
    if offsets is None:
        return None
    classes = _subclasses(FastCallable)
    table = process_table(torch, offsets, slot_call=word(id(_Called) + offsets.type_call))
    if table is None:
        return None
    made = Launcher(machine.load(), table, offsets)
    for cls in classes:
        made.take_over(cls)
    _process.launcher = made
    return made


class _Called:
    """Has what Python puts into the slot for calls of a class with ``__call__``."""

    def __call__(self) -> None: ...


def _subclasses(cls: type) -> list[type]:
    found: list[type] = list(cls.__subclasses__())
    return found + [inner for outer in found for inner in _subclasses(outer)]


def _build_quietly() -> None:
    try:
        build()
    except Exception as error:  # noqa: BLE001 - calls go on as before; whoever debugs can ask
        FastCalls.failure = error


def request() -> Launcher | None:
    """Return the launcher where it is ready; else see that a thread builds it, once a process."""
    if _process.launcher is None and _process.thread is None and config.launcher():
        with _process.lock:
            if _process.thread is None:
                _process.thread = threading.Thread(target=_build_quietly, name="numjit-launcher")
                _process.thread.start()
    return _process.launcher


def wait(seconds: float = 60.0) -> bool:
    """Wait for the launcher, asking for it if nobody did; answers whether there is one."""
    request()
    if _process.thread is not None:
        _process.thread.join(seconds)
    return _process.launcher is not None


class FastCalls:
    """Hands calls that an operation has made over to the launcher.

    Parameters
    ----------
    operation
        Whose calls.
    names, operands, defaults
        Its parameters, how many of them may be given by position, and their defaults (None: none).
    captures
        Answers where the names that its function captures are kept; None where it captures nothing.
    detached
        Whether its calls never record gradients.
    """

    #: Why there is no launcher, where building it went wrong.
    failure: Exception | None = None

    def __init__(
        self,
        operation: FastCallable,
        names: Sequence[str],
        operands: int,
        defaults: Sequence[Any],
        captures: Callable[[], Sequence[tuple[str, Any, Any]]] | None = None,
        *,
        detached: bool = False,
    ) -> None:
        self._operation = operation
        self._parameters = (list(names), operands, list(defaults))
        self._captures = captures
        self._detached = detached
        self._record: FunctorRecord | None = None
        self._watching = False
        self._asked = False

    @property
    def record(self) -> FunctorRecord | None:
        """The operation's record; None before the launcher has a plan of it."""
        return self._record

    def forget(self) -> None:
        """Forget every plan: what the function captures has changed."""
        self._watching = False
        if self._record is not None:
            self._record.forget()

    def offer(self, bound: Sequence[Any], out: Any, entry: Entry) -> bool | None:
        """Let the launcher answer calls like this one; answers whether it will, None while there is none.

        Parameters
        ----------
        bound, out
            The call's arguments.
        entry
            What it did, on a GPU.
        """
        if entry.library != "torch":
            return False
        launcher = _process.launcher
        if launcher is None:
            if self._asked:  # a first call has its result before the launcher is so much as thought of
                request()
            self._asked = True
            return None
        if self._record is None:
            from numjit.launcher.records import FunctorRecord

            names, operands, defaults = self._parameters
            self._record = FunctorRecord(
                launcher.describe, names, operands, defaults, detached=self._detached
            )
        if not self._watching:
            self._watch(launcher, self._record)
        if not self._record.add(bound, out, entry):
            return False
        self._operation._record = self._record.array
        return True

    def _watch(self, launcher: Launcher, record: FunctorRecord) -> None:
        from numjit.launcher.interface import Guard

        places: list[tuple[Guard, int, Any]] = []
        keep = []
        for kind, holder, key in self._captures() if self._captures else ():
            keep.append(holder)
            if kind == "name":
                places.append((Guard.NAME, id(holder), key))
            elif kind == "cell":
                places.append((Guard.WORD, id(holder) + launcher.cell_offset, None))
            else:
                places += [(Guard.WORD, id(holder) + offset, None) for offset in launcher.function_offsets]
        record.watch(places, keep)
        self._watching = True
