"""Bounded stores in memory: one that builds each missing entry once, and one for what every call looks up."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from numjit.ground.apart import lock

__all__ = ["Bounded", "Memo"]

K = TypeVar("K")
V = TypeVar("V")


class Bounded(dict[K, V]):
    """A dictionary of at most `limit` entries for what every call looks up; looking up costs nothing more.

    Where it is full, an eighth of its entries go, by chance. To know which were used last would cost each
    call, and would miss every call of a loop over somewhat more keys than there is room for; so would keeping
    the newest. By chance such a loop finds most of its keys.

    Parameters
    ----------
    limit
        Entries kept at most.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self._chance = random.Random(limit)  # noqa: S311 - which entry goes is no secret
        self._lock = lock()

    def keep(self, key: K, value: V) -> list[V]:
        """Add an entry; returns those that had to go."""
        with self._lock:
            gone: list[V] = []
            if len(self) >= self.limit and key not in self:
                leaving = self._chance.sample(list(self), -(-self.limit // 8))
                gone.extend(map(self.pop, leaving))
            self[key] = value
            return gone


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
