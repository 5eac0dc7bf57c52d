"""The cache: keys with boundaries, single-flight memory, files that survive damage and hostile folders."""

import os
import time
import warnings

import pytest

from numjit.cache import DiskStore, Memo, digest
from tests.support.threads import in_threads


def test_digest_sees_boundaries_and_types():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") == digest(b"a")
    assert digest() != digest("")


def test_memo_builds_once_under_threads():
    memo, built = Memo(8), []

    def build():
        built.append(1)
        time.sleep(0.02)
        return object()

    found = in_threads(lambda _: memo.get_or_build("key", build), range(8))
    assert len(built) == 1
    assert len(set(map(id, found))) == 1


def test_memo_forgets_a_failure_and_the_least_recent():
    memo = Memo(2)
    with pytest.raises(ZeroDivisionError):
        memo.get_or_build("a", lambda: 1 // 0)
    assert memo.get_or_build("a", lambda: "A") == "A"
    memo.get_or_build("b", lambda: "B")
    memo.get("a")
    memo.get_or_build("c", lambda: "C")
    assert memo.get("b") is None
    assert memo.get("a") == "A"
    assert len(memo) == 2


def test_files_round_trip_and_are_replaced_whole(tmp_path):
    store = DiskStore(tmp_path / "deep" / "cache")
    key = digest("x")
    assert store.get(key, ".bin") is None
    store.put(key, ".bin", b"first")
    store.put(key, ".bin", b"second")
    assert store.get(key, ".bin") == b"second"
    assert store.size()[0] == 1
    assert not list(store.folder.rglob(".writing-*"))


@pytest.mark.parametrize("keep", [0, 3, 44, -1])
def test_a_truncated_file_is_missing_with_one_warning(tmp_path, keep):
    store = DiskStore(tmp_path)
    keys = [digest(str(i)) for i in range(3)]
    for key in keys:
        store.put(key, ".bin", b"payload" * 20)
        path = store.path(key, ".bin")
        path.write_bytes(path.read_bytes()[:keep])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert [store.get(key, ".bin") for key in keys] == [None] * 3
    assert len(seen) == 1
    assert "compiled again" in str(seen[0].message)
    store.put(keys[0], ".bin", b"new")
    assert store.get(keys[0], ".bin") == b"new"


def test_a_flipped_bit_is_noticed(tmp_path):
    store = DiskStore(tmp_path)
    key = digest("x")
    store.put(key, ".bin", b"payload")
    path = store.path(key, ".bin")
    raw = bytearray(path.read_bytes())
    raw[0] ^= 1
    path.write_bytes(raw)
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert store.get(key, ".bin") is None


def test_a_folder_that_cannot_be_made_costs_one_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = DiskStore(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match="NUMJIT_CACHE_DIR"):
        store.put(digest("x"), ".bin", b"payload")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(digest("y"), ".bin", b"payload")
        assert store.get(digest("x"), ".bin") is None


def test_pruning_drops_what_was_used_longest_ago(tmp_path):
    store = DiskStore(tmp_path, limit=3500)
    keys = [digest(str(i)) for i in range(6)]
    for age, key in enumerate(keys):
        store.put(key, ".bin", bytes(1000))
        if store.path(key, ".bin").exists():
            os.utime(store.path(key, ".bin"), (age, age))
    store.prune()
    left = [key for key in keys if store.path(key, ".bin").exists()]
    assert left == keys[-3:]


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    from numjit import config

    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path / "here"))
    assert config.cache_dir() == tmp_path / "here"
    monkeypatch.delenv("NUMJIT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert config.cache_dir() == tmp_path / "xdg" / "numjit"
