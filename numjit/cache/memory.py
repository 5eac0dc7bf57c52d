"""A bounded in-memory store that builds each missing entry once, however many threads ask."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Memo"]

V = TypeVar("V")


class Memo(Generic[V]):
    """A least-recently-used map of at most `limit` entries with single-flight construction.

    A `build` that raises leaves nothing behind: the next caller tries again.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: collections.OrderedDict[Hashable, V] = collections.OrderedDict()
        self._pending: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

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
        if found is not None:
            return found
        with self._lock:
            pending = self._pending.setdefault(key, threading.Lock())
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
