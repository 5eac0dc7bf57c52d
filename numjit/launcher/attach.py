"""Puts the launcher in place: built in the background after a first call, then used by every operation."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numjit import config
from numjit.ground.apart import Task, lock
from numjit.ground.log import logger

if TYPE_CHECKING:
    from numjit.launcher.interface import PlannedCall
    from numjit.launcher.machine import MachineCode
    from numjit.launcher.offsets import Offsets
    from numjit.launcher.process import ProcessTable
    from numjit.launcher.records import FunctorRecord

__all__ = ["FastCallable", "FastCalls", "Launcher", "build", "launchable", "obstacle", "wait"]

_log = logger("launcher")


def launchable(call: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a ``__call__`` in whose place the launcher may answer; one that overrides it is left alone."""
    call.launchable = call  # type: ignore[attr-defined] # functools.wraps copies it to wrappers
    return call


class FastCallable:
    """Base of operations whose calls the launcher answers, as far as it knows them.

    A subclass defines a `launchable` ``__call__``, which runs whenever the launcher does not answer.
    """

    #: The array that the launcher reads; unset until it has a plan for the operation.
    __slots__ = ("_launcher_record",)

    _launcher_record: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if _process.launcher is not None:
            _process.launcher.take_over(cls)


class Launcher:
    """The launcher, ready to be used.

    Attributes
    ----------
    describe, hash
        Addresses of the functions that describe calls.
    offsets
        What `find_offsets` found.
    """

    def __init__(self, code: MachineCode, table: ProcessTable, offsets: Offsets) -> None:
        self._code = code
        self._table = table
        self.offsets = offsets
        self.describe: int = code.describe
        self.hash: int = code.hash
        code.use(table.address)
        # Classes refer to the code for good: objects may call when numjit's modules are torn down already.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def take_over(self, cls: type) -> None:
        """Let the launcher answer calls of a class's instances; ``__call__`` stays for the rest."""
        if getattr(cls.__call__, "launchable", None) is not cls.__call__:
            return
        slot = ctypes.c_uint64.from_address(id(cls) + self.offsets.type_call)
        if slot.value == self._table.slot_call:
            slot.value = self._code.call


class _Process:
    """What this process has: the launcher or why it has none, and the task that builds it or did."""

    def __init__(self) -> None:
        self.launcher: Launcher | None = None
        self.obstacle = "nothing has asked for it"
        self.task: Task[None] | None = None
        self.lock = lock()

    def off(self, obstacle: str, *, unexpected: bool = False) -> None:
        """Keep why there is no launcher, and log what was not known before."""
        if obstacle != self.obstacle:
            self.obstacle = obstacle
            _log.info("the launcher is off: %s", obstacle, exc_info=unexpected)


_process = _Process()


def obstacle() -> str:
    """Return why this process has no launcher (its calls take Python's warm path); empty where it has one.

    It is made once something has asked for it: `wait`, or the second call of an operation on a GPU.
    """
    return "" if _process.launcher is not None else _process.obstacle


def build() -> Launcher:
    """Compile or load the launcher and use it from now on.

    Raises
    ------
    UnavailableError
        This process cannot have one.
    """
    torch: Any = sys.modules["torch"]
    from numjit.launcher import machine
    from numjit.launcher.offsets import call_slot, find_offsets
    from numjit.launcher.process import process_table
    from numjit.launcher.tested import require_tested

    require_tested(str(torch.__version__))
    offsets = find_offsets(FastCallable, torch)
    classes = _subclasses(FastCallable)
    table = process_table(torch, offsets, slot_call=call_slot(_Called))
    made = Launcher(machine.load(), table, offsets)
    for cls in classes:
        made.take_over(cls)
    _process.launcher = made
    _log.info("the launcher is on: torch %s, Python %s", torch.__version__, sys.version.split()[0])
    return made


class _Called:
    """Has what Python puts into the slot for calls of a class with ``__call__``."""

    def __call__(self) -> None: ...


def _subclasses(cls: type) -> list[type]:
    found: list[type] = list(cls.__subclasses__())
    return found + [inner for outer in found for inner in _subclasses(outer)]


def _build_quietly() -> None:
    try:
        from numjit.launcher.tested import UnavailableError

        try:
            build()
        except UnavailableError as error:
            _process.off(str(error))
    except Exception as error:  # noqa: BLE001 - calls go on as before; whoever asks is told
        _process.off(f"{type(error).__name__}: {error}", unexpected=True)


def request() -> Launcher | None:
    """Return the launcher where it is ready; else see that a thread builds it, once a process."""
    if _process.launcher is None and _process.task is None:
        if not config.launcher():
            _process.off("NUMJIT_LAUNCHER says so")
            return None
        with _process.lock:
            if _process.task is None:
                _process.obstacle = "it is being made"
                task = Task(_build_quietly)
                try:
                    task.start()
                except RuntimeError as error:  # no more threads, or the interpreter is about to end
                    _process.off(str(error))
                    return None
                _process.task = task
    return _process.launcher


def wait(seconds: float = 60.0) -> bool:
    """Wait for the launcher, asking for it if nobody did; answers whether there is one."""
    request()
    if _process.task is not None:
        _process.task.wait(seconds)
    return _process.launcher is not None


class FastCalls:
    """Hands calls that an operation has made over to the launcher.

    Parameters
    ----------
    operation
        Whose calls.
    names, operands, defaults
        Its parameters (None: one that cannot be given by name), how many of them may be given by position,
        and their defaults (None: none).
    captures
        Answers where the names that its function captures are kept; None where it captures nothing.
    meaning
        Answers the fingerprint of the function with what it captures now.
    by_value
        Answers whether what a call computes hangs on more of its numbers than their kinds, which is all that
        the launcher sees.
    detached
        Whether its calls never record gradients.
    """

    def __init__(
        self,
        operation: FastCallable,
        names: Sequence[str | None],
        operands: int,
        defaults: Sequence[Any],
        captures: Callable[[], Sequence[tuple[str, Any, Any]] | None] | None = None,
        meaning: Callable[[], str] | None = None,
        by_value: Callable[[Sequence[Any]], bool] | None = None,
        *,
        detached: bool = False,
    ) -> None:
        self._operation = operation
        self._parameters = (list(names), operands, list(defaults))
        self._captures = captures
        self._meaning = meaning
        self._by_value = by_value
        self._detached = detached
        self._record: FunctorRecord | None = None
        #: What became of calls that were offered: False for no, else how often plans had been forgotten.
        self._answers: weakref.WeakKeyDictionary[PlannedCall, int | bool] = weakref.WeakKeyDictionary()
        self._watching = False
        self._asked = False
        self._lock = lock()

    @property
    def record(self) -> FunctorRecord | None:
        """The operation's record; None before the launcher has a plan of it."""
        return self._record

    def forget(self) -> None:
        """Forget every plan: what the function captures has changed."""
        with self._lock:
            self._watching = False
            if self._record is not None:
                self._record.forget()

    def offer(self, bound: Sequence[Any], out: Any, planned: PlannedCall) -> bool | None:
        """Let the launcher answer calls like this one; answers whether it will, None while there is none.

        Parameters
        ----------
        bound, out
            The call's arguments.
        planned
            What it did.
        """
        if planned.kernel is None or planned.library != "torch":
            return False
        if sys.is_finalizing():  # nothing can be imported any more
            return None
        launcher = _process.launcher
        if launcher is None:
            if self._asked:  # a first call has its result before the launcher is so much as thought of
                request()
            self._asked = True
            return None
        with self._lock:
            answered = self._answers.get(planned)
            if answered is False or (self._record and answered == self._record.generation):
                return answered is not False
            is_taken = self._add(launcher, bound, out, planned)
            if is_taken is not None and self._record is not None:
                self._answers[planned] = self._record.generation if is_taken else False
            return is_taken

    def _add(self, launcher: Launcher, bound: Sequence[Any], out: Any, planned: PlannedCall) -> bool | None:
        """Add a plan; answers whether the launcher takes it, None where another call is to ask again."""
        if self._record is None:
            from numjit.launcher.records import FunctorRecord

            names, operands, defaults = self._parameters
            self._record = FunctorRecord(
                launcher.describe, launcher.hash, names, operands, defaults, detached=self._detached
            )
        if not self._watching and not self._watch(launcher, self._record):
            return False
        # Another thread may have rebound what the function captures since the call was planned.
        if self._meaning is not None and self._meaning() != planned.fingerprint:
            return None
        if self._by_value is not None and self._by_value(bound):
            return False
        if not self._record.add(bound, out, planned):
            return False
        self._operation._launcher_record = self._record.array
        return True

    def _watch(self, launcher: Launcher, record: FunctorRecord) -> bool:
        """Watch what the function captures; answers whether that is possible."""
        from numjit.launcher.interface import Guard

        captures = self._captures() if self._captures else ()
        if captures is None:
            return False
        places: list[tuple[Guard, int, Any]] = []
        keep = []
        for kind, holder, key in captures:
            keep.append(holder)
            if kind == "name":
                places.append((Guard.NAME, id(holder), key))
            elif kind == "cell":
                places.append((Guard.WORD, id(holder) + launcher.offsets.cell, None))
            else:
                places += [(Guard.WORD, id(holder) + offset, None) for offset in launcher.offsets.function]
        record.watch(places, keep)
        self._watching = True
        return True
