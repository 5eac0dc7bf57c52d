"""Builds a list of shells, kernels and CPU loops: shells in processes, all else in threads beside them."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numjit.ahead.layouts import LAYOUTS, operands_of
from numjit.ahead.signatures import common_shell, describe, shell_for, specialise
from numjit.ahead.warmed import Warmed
from numjit.ahead.workers import ShellWorkers
from numjit.cache import default_store
from numjit.call import build
from numjit.dtypes import as_dtype
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
#: Shells that make up for the half second that a process takes to import Numba.
_SHELLS_A_WORKER = 4


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


def run(
    functor: Functor | None,
    signatures: Sequence[Sequence[Any]],
    scalars: Mapping[str, Any],
    *,
    targets: Any,
    dtypes: Sequence[Any],
    layouts: Sequence[str] | None,
    inputs: Sequence[int],
    jobs: int | None,
    progress: Progress | None,
) -> Warmed:
    """Build; the parameters are those of `numjit.warmup`."""
    started = time.perf_counter()
    where = _cards(targets)
    _require_writable_cache()
    count = jobs or _usable_cores()
    if functor is None:
        if signatures or scalars:
            raise ArgumentError("signatures and scalars describe calls of a functor; pass one first")
        kernels: list[_Kernel] = []
        shells = _common_shells(where, dtypes, tuple(LAYOUTS) if layouts is None else layouts, inputs)
    else:
        if not signatures:
            signatures = _signatures(functor, dtypes, ("contiguous",) if layouts is None else layouts)
        kernels = [_plan(functor, operands, scalars, card) for card in where for operands in signatures]
        kernels = list(dict.fromkeys(kernels))
        shells = [(kernel.spec, kernel.cc) for kernel in kernels if kernel.spec and kernel.cc]
    shells = list(dict.fromkeys((spec, build.compile_target(cc)[0]) for spec, cc in shells))
    missing = [pair for pair in shells if not build.has_shell(*pair)]
    waiting = [kernel for kernel in kernels if not kernel.is_built()]
    total = len(shells) + len(kernels)
    board = _Board(total, total - len(missing) - len(waiting), progress)
    _build(missing, waiting, count, board)
    built = len(missing) + len(waiting)
    return Warmed(built, total - built, time.perf_counter() - started)


class _Board:
    """Counts what is done and tells the caller, from one thread at a time."""

    def __init__(self, total: int, done: int, tell: Progress | None) -> None:
        self._total, self._done, self._tell = total, done, tell
        self._lock = threading.Lock()
        #: Nobody waits for the rest any more.
        self.is_stopped = False

    def done(self, what: str) -> None:
        """Count one more."""
        with self._lock:
            self._done += 1
            if self._tell is not None:
                self._tell(self._done, self._total, what)


def _build(
    shells: Sequence[tuple[ShellSpec, tuple[int, int]]],
    kernels: Sequence[_Kernel],
    jobs: int,
    board: _Board,
) -> None:
    """Build all, where no signal handler runs; what one raises meanwhile stops the rest."""
    workers = ShellWorkers(min(jobs, -(-len(shells) // _SHELLS_A_WORKER)))
    task = Task(lambda: _build_all(shells, kernels, jobs, board, workers), is_long=True)
    task.start()
    try:
        task.result()
    except BaseException:
        board.is_stopped = True
        workers.stop()
        task.wait()
        raise


def _build_all(
    shells: Sequence[tuple[ShellSpec, tuple[int, int]]],
    kernels: Sequence[_Kernel],
    jobs: int,
    board: _Board,
    workers: ShellWorkers,
) -> None:
    """Build in two steps: shells and functors, then what is linked of them."""
    errors: list[BaseException] = []

    def shell(pair: tuple[ShellSpec, tuple[int, int]]) -> None:
        if board.is_stopped:
            return
        spec, cc = pair
        workers.compile(spec, cc)
        board.done(f"shell sm_{cc[0]}{cc[1]} {spec}")

    def code(kernel: _Kernel) -> None:
        if kernel.cc is not None and not board.is_stopped:
            build.device_code(kernel.functor, kernel.specialisation, build.compile_target(kernel.cc)[0])

    def link(kernel: _Kernel) -> None:
        if board.is_stopped:
            return
        kernel.build()
        where = "cpu" if kernel.cc is None else f"sm_{kernel.cc[0]}{kernel.cc[1]}"
        board.done(f"{kernel.functor.name} {where} {kernel.specialisation.key}")

    with (
        workers,
        concurrent.futures.ThreadPoolExecutor(
            workers.count + jobs, thread_name_prefix="numjit-warmup"
        ) as pool,
    ):
        pending = [pool.submit(shell, pair) for pair in shells]
        pending += [pool.submit(code, kernel) for kernel in kernels]
        _collect(pending, errors)
        _collect([pool.submit(link, kernel) for kernel in kernels], errors)
    if errors:
        raise errors[0]


def _collect(pending: Sequence[concurrent.futures.Future[None]], errors: list[BaseException]) -> None:
    """Wait for all and keep what they raised."""
    for future in concurrent.futures.as_completed(pending):
        error = future.exception()
        if error is not None:
            errors.append(error)


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


def _common_shells(
    cards: Sequence[Card], dtypes: Sequence[Any], layouts: Sequence[str], inputs: Sequence[int]
) -> list[tuple[ShellSpec, tuple[int, int]]]:
    devices = [(cc, fast_memory) for cc, fast_memory in cards if cc is not None]
    if len(devices) < len(cards):
        raise ArgumentError(
            "shells are for GPUs, and there is none here; say for which: targets='9.0' (--cc 9.0), or name "
            "a functor to build its CPU loops"
        )
    calls = []
    for name in dtypes:
        dtype = as_dtype(name)
        for count in inputs:
            for layout in layouts:
                operands = operands_of(layout, dtype, count)
                if operands is not None:
                    calls.append((operands, dtype))
    return [
        (common_shell(operands, dtype, fast_memory=fast_memory), cc)
        for cc, fast_memory in devices
        for operands, dtype in calls
    ]


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
