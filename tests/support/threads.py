"""Work of several threads at once, whose errors are the test's."""

from __future__ import annotations

import threading

__all__ = ["in_threads"]


def in_threads(work, arguments, *, timeout=240):
    """Call `work` with each of the arguments, each in a thread of its own, all beginning together.

    Returns what the calls returned, in the order of the arguments. An error of one is raised, and so is a
    thread that does not end.
    """
    arguments = list(arguments)
    gate, results, errors = threading.Barrier(len(arguments)), [None] * len(arguments), []

    def run(k):
        try:
            gate.wait(timeout)
            results[k] = work(arguments[k])
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(len(arguments))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
        assert not thread.is_alive(), "a thread does not end"
    if errors:
        raise errors[0]
    return results
