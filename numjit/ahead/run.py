"""Builds a list of kernels and CPU loops, and the shells that they need, in threads."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numjit.ahead.layouts import operands_of
from numjit.ahead.signatures import describe, shell_for, specialise
from numjit.ahead.warmed import Warmed
from numjit.cache import default_store
from numjit.call import build
from numjit.errors import ArgumentError, DeviceError, ToolchainError, shown
from numjit.ground.apart import Task
from numjit.ground.checks import is_a

if TYPE_CHECKING:
    from numjit.dtypes import DType
    from numjit.functor.kinds import Functor
    from numjit.functor.signature import Specialisation
    from numjit.kernels.spec import ShellSpec

__all__ = ["read_targets", "run"]

#: A compute capability, or None for the CPU.
Target = tuple[int, int] | None
#: A target, and whether its memory is fast: GPUs of one compute capability take different launch shapes.
Card = tuple[Target, bool]
Progress = Callable[[int, int, str], None]


@dataclasses.dataclass(frozen=True)
class _Kernel:
    """One functor at one class of calls on one target."""

    functor: Functor
    specialisation: Specialisation
    storages: tuple[DType | None, ...]
    view_bits: tuple[str, ...]
    spec: ShellSpec | None  # None on the CPU
    cc: Target

    def build(self) -> None:
        """Compile and link into the cache."""
        if self.spec is None or self.cc is None:
            build.host_chunk(
                self.functor, self.specialisation, self.storages, self.specialisation.outputs, self.view_bits,
                on_disk=True,
            )  # fmt: skip
        else:
            build.kernel_image(self.functor, self.specialisation, self.spec, self.cc)

    def is_built(self) -> bool:
        """Return whether it is on disk."""
        if self.spec is None or self.cc is None:
            return build.has_host_chunk(
                self.functor, self.specialisation, self.storages, self.specialisation.outputs, self.view_bits
            )
        return build.has_kernel(self.functor, self.specialisation, self.spec, self.cc)

    def __str__(self) -> str:
        return f"{self.functor.name} {_name(self.cc)} {self.specialisation.key}"


def run(
    functor: Functor,
    signatures: Sequence[Sequence[Any]],
    scalars: Mapping[str, Any],
    *,
    targets: Any,
    dtypes: Sequence[Any],
    layouts: Sequence[str],
    jobs: int | None,
    progress: Progress | None,
) -> Warmed:
    """Build; the parameters are those of `numjit.warmup`."""
    started = time.perf_counter()
    cards = _cards(targets)
    _require_writable_cache()
    calls = signatures or _signatures(functor, dtypes, layouts)
    kernels = list(dict.fromkeys(_plan(functor, call, scalars, card) for card in cards for call in calls))
    shells = list(
        dict.fromkeys(
            (kernel.spec, build.compile_target(kernel.cc)[0])
            for kernel in kernels
            if kernel.spec and kernel.cc
        )
    )
    missing = [pair for pair in shells if not build.has_shell(*pair)]
    waiting = [kernel for kernel in kernels if not kernel.is_built()]
    total = len(shells) + len(kernels)
    board = _Board(total, total - len(missing) - len(waiting), progress)
    _build(missing, waiting, jobs or _usable_cores(), board)
    built = len(missing) + len(waiting)
    return Warmed(built, total - built, time.perf_counter() - started)


class _Board:
    """Counts what is done and tells the caller, from one thread at a time."""

    def __init__(self, total: int, done: int, tell: Progress | None) -> None:
        self._total, self._done, self._tell = total, done, tell
        self._lock = threading.Lock()
        #: Nobody waits for the rest any more.
        self.is_stopped = False

    def do(self, work: Callable[[], object], what: str = "") -> None:
        """Do one thing, unless nobody waits for it, and count it if it has a name."""
        if self.is_stopped:
            return
        work()
        if not what:
            return
        with self._lock:
            self._done += 1
            if self._tell is not None:
                self._tell(self._done, self._total, what)


def _build(
    shells: Sequence[tuple[ShellSpec, tuple[int, int]]], kernels: Sequence[_Kernel], jobs: int, board: _Board
) -> None:
    """Build all, where no signal handler runs; what one raises meanwhile stops the rest."""
    task = Task(lambda: _build_all(shells, kernels, jobs, board), is_long=True)
    task.start()
    try:
        task.result()
    except BaseException:
        board.is_stopped = True
        task.wait()
        raise


def _build_all(
    shells: Sequence[tuple[ShellSpec, tuple[int, int]]], kernels: Sequence[_Kernel], jobs: int, board: _Board
) -> None:
    """Build in two steps: functors and shells, each once, then what is linked of them."""
    functors = dict.fromkeys(
        (kernel.functor, kernel.specialisation, build.compile_target(kernel.cc)[0])
        for kernel in kernels
        if kernel.cc
    )
    with concurrent.futures.ThreadPoolExecutor(jobs, thread_name_prefix="numjit-warmup") as pool:
        pending = [pool.submit(board.do, functools.partial(build.device_code, *code)) for code in functors]
        pending += [
            pool.submit(board.do, functools.partial(build.shell_code, spec, cc), f"shell {_name(cc)} {spec}")
            for spec, cc in shells
        ]
        errors = _errors(pending)
        errors += _errors([pool.submit(board.do, kernel.build, str(kernel)) for kernel in kernels])
    if errors:
        raise errors[0]


def _errors(pending: Sequence[concurrent.futures.Future[None]]) -> list[BaseException]:
    """Wait for all and return what they raised."""
    return [error for one in concurrent.futures.as_completed(pending) if (error := one.exception())]


def _name(target: Target) -> str:
    return "cpu" if target is None else f"sm_{target[0]}{target[1]}"


# -------------------------------------------------------------------------------------- what to build


def _plan(functor: Functor, operands: Sequence[Any], scalars: Mapping[str, Any], card: Card) -> _Kernel:
    cc, fast_memory = card
    described = describe(functor, operands, scalars, on_gpu=cc is not None)
    specialisation = specialise(functor, described, on_gpu=cc is not None)
    spec = None
    if cc is not None:
        spec = shell_for(functor, described, specialisation, fast_memory=fast_memory)
    return _Kernel(functor, specialisation, described.storages, described.view_bits, spec, cc)


def _signatures(functor: Functor, dtypes: Sequence[Any], layouts: Sequence[str]) -> list[Sequence[Any]]:
    """Return calls with all operands of one dtype."""
    count = len(functor.signature.operands)
    described = [operands_of(layout, dtype, count) for dtype in dtypes for layout in layouts]
    return [operands for operands in described if operands is not None]


def _cards(targets: Any) -> list[Card]:
    """Return what to build for: the kinds of this machine's GPUs, or every kind of the targets named."""
    if targets is None:
        return _own_cards()
    return [
        (cc, fast_memory)
        for cc in read_targets(targets)
        for fast_memory in ((False,) if cc is None else (False, True))
    ]


def read_targets(targets: Any) -> list[Target]:
    """Return the targets that a user named; by default this machine's GPUs, else its CPU.

    Raises
    ------
    ArgumentError
        One that is none.
    """
    if targets is None:
        return list(dict.fromkeys(cc for cc, _ in _own_cards()))
    one = not is_a(targets, list | tuple | set | frozenset) or (
        is_a(targets, tuple) and all(type(n) is int for n in targets)
    )
    return list(dict.fromkeys(map(_read_target, [targets] if one else targets)))


def _read_target(target: Any) -> Target:
    if is_a(target, str) and target == "cpu":
        return None
    if is_a(target, tuple) and len(target) == 2 and all(type(n) is int for n in target):
        return target[0], target[1]
    text = str(target) if is_a(target, str | float) else ""
    found = re.fullmatch(r"(?:sm_)?([0-9]{1,2})\.?([0-9])", text)
    if found is None:
        raise ArgumentError(
            f"{shown(target)} is no target; give 'cpu' or a compute capability such as '9.0' or (9, 0)"
        )
    return int(found[1]), int(found[2])


def _own_cards() -> list[Card]:
    from numjit.runtime import devices

    try:
        found: list[Card] = [
            (devices.compute_capability(index), devices.has_fast_memory(index))
            for index in range(devices.device_count())
        ]
    except DeviceError:
        found = []
    return list(dict.fromkeys(found)) or [(None, False)]


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _require_writable_cache() -> None:
    """Refuse to compile what cannot be kept."""
    refusal = default_store().refusal()
    if refusal:
        raise ToolchainError(
            f"{refusal}, so nothing built would stay; set NUMJIT_CACHE_DIR to a folder of your own, and "
            "NUMJIT_CACHE_LIMIT to what it may hold"
        )
