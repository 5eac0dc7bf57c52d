"""A bounded in-memory store that builds each missing entry once, however many threads ask."""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from numjit.ground.apart import lock

__all__ = ["Memo"]

V = TypeVar("V")


class Memo(Generic[V]):
    """A least-recently-used map of at most `limit` entries with single-flight construction.

    What is missing is built by `run`, such as `numjit.ground.apart.apart`; by default in the calling thread.

    A `build` that raises leaves nothing behind: the next caller tries again. One that calls for its own entry
    (by a finaliser, say) builds it twice.
    """

    def __init__(self, limit: int, run: Callable[[Callable[[], V]], V] | None = None) -> None:
        self._limit = limit
        self._run = run or _call
        self._entries: collections.OrderedDict[Hashable, V] = collections.OrderedDict()
        self._pending: dict[Hashable, Any] = {}
        self._lock = lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """Return the entry of `key`, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def get_or_build(self, key: Hashable, build: Callable[[], V]) -> V:
        """Return the entry of `key`, calling `build` in one thread if it is missing."""
        found = self.get(key)
        return self._run(lambda: self._build(key, build)) if found is None else found

    def _build(self, key: Hashable, build: Callable[[], V]) -> V:
        with self._lock:
            pending = self._pending.setdefault(key, lock())
        with pending:
            found = self.get(key)
            if found is not None:
                return found
            try:
                built = build()
            finally:
                with self._lock:
                    self._pending.pop(key, None)
            with self._lock:
                self._entries[key] = built
                while len(self._entries) > self._limit:
                    self._entries.popitem(last=False)
            return built

    def clear(self) -> None:
        """Forget every entry."""
        with self._lock:
            self._entries.clear()


def _call(work: Callable[[], V]) -> V:
    return work()
