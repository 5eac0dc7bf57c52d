"""Where compiled things are kept: keys, a bounded memory store and a store of files on disk."""

from numjit.cache.disk import DiskStore, default_store
from numjit.cache.keys import digest
from numjit.cache.memory import Bounded, Memo

__all__ = ["Bounded", "DiskStore", "Memo", "default_store", "digest"]
