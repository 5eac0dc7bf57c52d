"""Processes that compile shells: Numba holds the GIL, and a shell needs nothing but its description.

A worker is this module in a fresh interpreter, which reads tasks from its standard input. It does not import
the caller's ``__main__``, as `multiprocessing` would, so that scripts need no guard and notebooks work.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from numjit.errors import NumjitError, ToolchainError

if TYPE_CHECKING:
    from types import TracebackType

    from numjit.kernels.spec import ShellSpec

__all__ = ["ShellWorkers", "serve"]

_PROGRAM = "from numjit.ahead.workers import serve; serve()"


class ShellWorkers:
    """Compiles shells in at most `count` processes, each started when it is first needed.

    With a `count` of 1, or where there is no interpreter to start, the work is done in this process.
    """

    def __init__(self, count: int) -> None:
        self.count = max(1, count if sys.executable else 1)
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes] | None] = queue.SimpleQueue()
        self._is_stopped = False
        self._started: list[subprocess.Popen[bytes]] = []
        for _ in range(self.count):
            self._idle.put(None)

    def compile(self, spec: ShellSpec, cc: tuple[int, int]) -> None:
        """Compile a shell into the cache; waits for a worker, so call it from several threads.

        Raises
        ------
        ToolchainError
            A compiler is missing or failed, or the worker ended.
        """
        if self.count == 1:
            from numjit.call import build

            build.shell_code(spec, cc)
            return
        worker = self._idle.get()
        try:
            worker = worker or self._start()
            _ask(worker, spec, cc)
        finally:
            # One that ended is replaced at its next turn.
            self._idle.put(worker if worker is not None and worker.poll() is None else None)

    def stop(self) -> None:
        """End the processes at once; what they were asked for is an error, and so is what still comes."""
        self._is_stopped = True
        for worker in list(self._started):
            worker.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        worker = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._started.append(worker)
        if self._is_stopped:
            worker.kill()
        return worker

    def __enter__(self) -> ShellWorkers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self._started:
            if worker.stdin is not None:
                with contextlib.suppress(OSError):
                    worker.stdin.close()
            if kind is not None:
                worker.kill()
            worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()


def _ask(worker: subprocess.Popen[bytes], spec: ShellSpec, cc: tuple[int, int]) -> None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        pickle.dump((spec, cc), worker.stdin)
        worker.stdin.flush()
        answer = pickle.load(worker.stdout)  # noqa: S301 - what our own child wrote
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        worker.kill()
        worker.wait()
        raise ToolchainError(
            f"a process that compiles shells ended with status {worker.returncode} at {spec} ({error}); try "
            "jobs=1, which compiles in this process and shows what is wrong"
        ) from error
    if answer is not None:
        raise answer


def serve() -> None:
    """Compile what standard input asks for until it ends; answer None or the error for each."""
    from numjit.call import build

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers itself
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a compiler prints may come between
    while True:
        try:
            spec, cc = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
        except EOFError:
            return
        answer: Any = None
        try:
            build.shell_code(spec, cc)
        except NumjitError as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - told to the parent, which raises it
            answer = ToolchainError(
                f"compiling the shell {spec} for sm_{cc[0]}{cc[1]} failed with {type(error).__name__}: "
                f"{error}; check the versions that python -m numjit info shows"
            )
        pickle.dump(answer, answers)
        answers.flush()
