"""Who may have written a cache folder, and what becomes of a call when the file system fails."""

import errno
import io
import os
import pathlib
import stat
import tempfile
import warnings

import numpy as np
import pytest

import numjit
from numjit import config
from numjit.cache import DiskStore, default_store, digest
from numjit.call import build
from numjit.errors import NumjitError, SettingsError
from tests.cases import run_python

posix = pytest.mark.skipif(os.name != "posix", reason="Windows has no such owners and modes")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
KEY = digest("x")


def modes(folder):
    """Permissions of a folder and of all that is in it."""
    return {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


def refuses(store, match):
    """Assert that a store neither reads nor writes, and says so once."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert store.get(KEY, ".bin") is None
        store.put(KEY, ".bin", b"mine")
        assert store.get(KEY, ".bin") is None
        assert not store.has(KEY, ".bin")
    (warning,) = seen
    assert match in str(warning.message)
    assert "NUMJIT_CACHE_DIR" in str(warning.message)
    assert store.refusal()


@posix
class TestOwners:
    def test_what_is_made_is_its_users_alone_whatever_the_umask(self, tmp_path):
        before = os.umask(0)
        try:
            store = DiskStore(tmp_path / "made" / "by" / "numjit")
            store.put(KEY, ".bin", b"payload")
        finally:
            os.umask(before)
        assert modes(tmp_path / "made") == {0o700, 0o600}
        assert store.get(KEY, ".bin") == b"payload"

    @pytest.mark.parametrize("mode", [0o777, 0o702, 0o1777])
    def test_a_folder_that_others_can_write_is_not_used(self, tmp_path, mode):
        store = DiskStore(tmp_path / "cache")
        store.put(KEY, ".bin", b"planted")
        store.folder.chmod(mode)
        refuses(store, "can be written by others")
        store.folder.chmod(0o700)
        assert store.get(KEY, ".bin") == b"planted"

    @pytest.mark.parametrize("private", [True, False])
    def test_a_group_counts_unless_it_is_its_owner_s_alone(self, tmp_path, monkeypatch, private):
        from numjit.cache import disk

        monkeypatch.setattr(disk, "_is_private", lambda user, group: private)
        store = DiskStore(tmp_path / "cache")
        store.put(KEY, ".bin", b"payload")
        store.folder.chmod(0o770)
        if private:
            assert store.get(KEY, ".bin") == b"payload"
        else:
            refuses(store, "can be written by others")

    def test_groups_are_told_apart(self):
        from numjit.cache.disk import _is_private

        assert not _is_private(54321, 54321)
        assert not _is_private(0, 54321)

    @pytest.mark.parametrize("user", [0, 1000])
    def test_a_folder_of_another_user_is_not_used_but_root_s_is(self, tmp_path, monkeypatch, user):
        store = DiskStore(tmp_path / "cache")
        store.put(KEY, ".bin", b"planted")
        real = os.stat
        mine = real(store.folder).st_uid
        monkeypatch.setattr(os, "geteuid", lambda: user)
        if user == mine or mine == 0:
            assert store.get(KEY, ".bin") == b"planted"
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
        if mine != 0:
            refuses(store, "belongs to another user")

    @as_root
    @pytest.mark.parametrize("what", ["folder", "link"])
    def test_what_another_user_made_is_not_used(self, tmp_path, what):
        store = DiskStore(tmp_path / "cache")
        store.put(KEY, ".bin", b"planted")
        if what == "link":
            link = tmp_path / "link"
            link.symlink_to(store.folder)
            assert DiskStore(link).get(KEY, ".bin") == b"planted"
            os.chown(link, 12345, 12345, follow_symlinks=False)
            store = DiskStore(link)
        else:
            os.chown(store.folder, 12345, 12345)
        refuses(store, "belongs to another user")

    @as_root
    def test_a_file_of_another_user_is_not_read(self, tmp_path):
        store = DiskStore(tmp_path / "cache")
        store.put(KEY, ".bin", b"planted")
        os.chown(store.path(KEY, ".bin"), 12345, 12345)
        assert store.get(KEY, ".bin") is None
        store.put(KEY, ".bin", b"mine")
        assert store.get(KEY, ".bin") == b"mine"

    def test_a_call_in_a_folder_that_others_can_write(self, tmp_path):
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache").chmod(0o777)
        code = """
            import warnings, numpy, numjit
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                for k in (2, 3):
                    print(numjit.elementwise(lambda x: x * k)(numpy.float32([1, 2])).tolist())
            print(len(seen), "can be written by others" in str(seen[0].message))
        """
        done = run_python(code, NUMJIT_CACHE_DIR=tmp_path / "cache")
        assert done.stdout.splitlines() == ["[2.0, 4.0]", "[3.0, 6.0]", "1 True"]
        assert not list((tmp_path / "cache").iterdir())


@posix
class TestNoHome:
    @pytest.fixture(autouse=True)
    def homeless(self, monkeypatch, tmp_path):
        def no_home():
            raise RuntimeError("Could not determine home directory.")

        for name in ("NUMJIT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(pathlib.Path, "home", no_home)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def test_the_folder_is_this_users_own(self, tmp_path):
        assert config.cache_dir() == tmp_path / f"numjit-{os.geteuid()}"
        store = DiskStore(config.cache_dir())
        store.put(KEY, ".bin", b"payload")
        assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700

    def test_one_that_lay_there_for_others_to_write_is_not_used(self):
        config.cache_dir().mkdir()
        config.cache_dir().chmod(0o777)
        refuses(DiskStore(config.cache_dir()), "can be written by others")

    def test_a_relative_cache_home_is_ignored(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
        assert config.cache_dir() == tmp_path / f"numjit-{os.geteuid()}"


@as_root
@pytest.mark.parametrize("planted", [False, True])
def test_a_process_of_a_user_without_a_home(planted):
    """All is imported before, for such a user may not read where Python is."""
    code = """
        import os, sys, warnings
        os.environ["NUMJIT_CACHE_LIMIT"] = "0"
        import numpy, numjit
        from numjit import config
        x = numpy.float32([1, 2])
        numjit.elementwise(lambda x: x * 3 + 1)(x)
        for name in ("HOME", "XDG_CACHE_HOME", "NUMJIT_CACHE_DIR", "NUMJIT_CACHE_LIMIT"):
            os.environ.pop(name, None)
        os.umask(0)
        os.setgroups([])
        os.setgid(54321)
        os.setuid(54321)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            print(*(numjit.elementwise(f)(x).tolist() for f in (lambda x: x * 2, lambda x: x * 5)))
        print(len(seen), config.cache_dir().name, oct(config.cache_dir().stat().st_mode & 0o777))
    """
    with tempfile.TemporaryDirectory() as folder:
        shared = pathlib.Path(folder)
        shared.chmod(0o1777)
        if planted:
            (shared / "numjit-54321").mkdir()
            (shared / "numjit-54321").chmod(0o755)
            os.chown(shared / "numjit-54321", 12345, 12345)
        lines = run_python(code, TMPDIR=folder).stdout.splitlines()
        assert lines[0] == "[2.0, 4.0] [5.0, 10.0]"
        assert lines[1] == ("1 numjit-54321 0o755" if planted else "0 numjit-54321 0o700")
        files = [path for path in (shared / "numjit-54321").rglob("*") if path.is_file()]
        assert bool(files) != planted
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)


# ---------------------------------------------------------------------------------------- settings

SIZES = {
    "0": 0, "1": 1, "1000": 1000, "512M": 512 << 20, "1G": 1 << 30, "1g": 1 << 30, "1.5 GiB": 3 << 29,
    "1GB": 10**9, "2kB": 2000, "2KiB": 2048, " 7 ": 7, ".5k": 512, "3 bytes": 3, "4B": 4, "1T": 1 << 40,
    "": 1 << 30, "  ": 1 << 30,
}  # fmt: skip
WRONG = {
    "NUMJIT_CACHE_LIMIT": [
        "abc",
        "-1",
        "1X",
        "G",
        "1,5G",
        "0x10",
        "inf",
        "nan",
        "1e9",
        "1G1",
        "9" * 400,
        "٣",
    ],
    "NUMJIT_NUM_THREADS": ["abc", "-1", "0", "1.5", "1e9", "9" * 400, "٣", "70000"],
    "NUMJIT_LAUNCHER": ["2", "maybe", "-1"],
    "NUMJIT_CACHE_DIR": ["~nobody-of-this-name/cache"],
}


class TestSettings:
    @pytest.mark.parametrize(("text", "size"), SIZES.items())
    def test_sizes_are_read_with_and_without_a_unit(self, monkeypatch, text, size):
        monkeypatch.setenv("NUMJIT_CACHE_LIMIT", text)
        assert config.cache_limit() == size

    @pytest.mark.parametrize(("name", "text"), [(name, text) for name in WRONG for text in WRONG[name]])
    def test_a_mistake_is_an_error_of_the_first_call(self, monkeypatch, tmp_path, name, text):
        monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path))
        monkeypatch.setenv(name, text)
        with pytest.raises(SettingsError, match=name) as raised:
            default_store()
        assert repr(text) in str(raised.value)
        assert "it takes" in str(raised.value)
        assert isinstance(raised.value, NumjitError)
        assert isinstance(raised.value, ValueError)

    def test_a_call_tells_the_mistake_and_works_once_it_is_corrected(self, tmp_path):
        code = """
            import os, numpy, numjit
            double = numjit.elementwise(lambda x: x * 2)
            for _ in range(2):
                try:
                    print(double(numpy.float32([1, 2])).tolist())
                except numjit.NumjitError as error:
                    print(type(error).__name__, "NUMJIT_NUM_THREADS" in str(error))
                os.environ["NUMJIT_NUM_THREADS"] = "2"
        """
        done = run_python(code, NUMJIT_CACHE_DIR=tmp_path, NUMJIT_NUM_THREADS="many")
        assert done.stdout.splitlines() == ["SettingsError True", "[2.0, 4.0]"]

    @pytest.mark.parametrize("name", ["NUMJIT_CXX", "CXX"])
    def test_a_compiler_with_an_open_quote(self, monkeypatch, name):
        monkeypatch.delenv("NUMJIT_CXX", raising=False)
        monkeypatch.setenv(name, "g++ '-DX")
        with pytest.raises(SettingsError, match=name):
            config.cxx()

    @pytest.mark.parametrize("name", [*WRONG, "NUMJIT_CXX", "CXX"])
    def test_an_empty_variable_is_one_that_is_not_set(self, monkeypatch, name):
        def settings():
            read = (config.cache_dir, config.cache_limit, config.cxx, config.num_threads, config.launcher)
            return [setting() for setting in read]

        monkeypatch.delenv(name, raising=False)
        before = settings()
        monkeypatch.setenv(name, "")
        assert settings() == before

    def test_a_limit_of_0_leaves_no_file(self, tmp_path):
        code = """
            import warnings, numpy, numjit
            warnings.simplefilter("error", RuntimeWarning)
            print(numjit.elementwise(lambda x: x * 2)(numpy.float32([1, 2])).tolist())
            try:
                numjit.warmup(numjit.elementwise(lambda x: x), ("float32",), targets="cpu")
            except numjit.NumjitError as error:
                print("NUMJIT_CACHE_LIMIT is 0" in str(error))
        """
        done = run_python(code, NUMJIT_CACHE_DIR=tmp_path / "cache", NUMJIT_CACHE_LIMIT="0")
        assert done.stdout.splitlines() == ["[2.0, 4.0]", "True"]
        assert not (tmp_path / "cache").exists()

    def test_a_small_limit_holds_after_every_write(self, tmp_path):
        store = DiskStore(tmp_path, limit=5000)
        for k in range(40):
            store.put(digest(str(k)), ".bin", bytes(900))
            assert store.size()[1] <= 5000


# -------------------------------------------------------------------------------- failing file systems


class FailingFiles:
    """Lets the operations on a folder's files fail: the `first` one, or from there on all."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.count, self.first, self.last, self.code = str(folder), 0, 0, 0, errno.EIO
        for module, names in {
            os: ("stat", "lstat", "mkdir", "replace", "unlink", "scandir", "listdir", "utime"),
            io: ("open",),
            tempfile: ("mkstemp",),
        }.items():
            for name in names:
                monkeypatch.setattr(module, name, self._wrapped(getattr(module, name)))
        monkeypatch.setattr(os, "fstat", self._counted(os.fstat))
        monkeypatch.setattr(os, "fdopen", self._opened(os.fdopen))

    def step(self):
        """Count an operation; raise where it is to fail."""
        self.count += 1
        if self.first <= self.count <= self.last:
            raise OSError(self.code, os.strerror(self.code))

    def _counted(self, function):
        def call(*arguments, **keywords):
            self.step()
            return function(*arguments, **keywords)

        return call

    def _wrapped(self, function):
        def call(path=".", *arguments, **keywords):
            if str(keywords.get("dir", path)).startswith(self.folder):
                self.step()
            return function(path, *arguments, **keywords) if "dir" not in keywords else function(**keywords)

        return call

    def _opened(self, function):
        def call(*arguments, **keywords):
            file = function(*arguments, **keywords)
            write = file.write

            class Writer:
                def __enter__(self):
                    return self

                def __exit__(self, *error):
                    file.close()

                @staticmethod
                def write(data):
                    write(data[: len(data) // 2])
                    files.step()
                    return write(data[len(data) // 2 :])

            files = self
            return Writer()

        return call


@pytest.fixture
def failing(tmp_path, monkeypatch):
    """A functor whose compiled loop is at hand, so that cold calls are quick; and its failing folder."""
    functor = numjit.elementwise(lambda x: x * 2 + 1)
    x = np.arange(5, dtype=np.float32)
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path / "first"))
    build._chunks.clear()
    build._specialisations.clear()
    kept = {}
    from numjit.cpu import python_loop
    from numjit.functor.python import PythonFunctor

    for owner, name in ((python_loop, "build_chunk"), (PythonFunctor, "specialise")):
        real = getattr(owner, name)

        def call(*arguments, real=real, name=name, **keywords):
            if name not in kept:
                kept[name] = real(*arguments, **keywords)
            return kept[name]

        monkeypatch.setattr(owner, name, call)
    functor(x)
    folder = tmp_path / "cache"
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(folder))

    def cold():
        build._chunks.clear()
        build._specialisations.clear()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            result = numjit.elementwise(functor.source)(x)
            assert default_store().has(KEY, ".bin") is False
        assert result.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]
        return [str(warning.message) for warning in seen]

    return FailingFiles(folder, monkeypatch), folder, cold


@posix
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
def test_a_cold_call_whose_file_operations_fail(failing, code, lasting, filled):
    import shutil

    from numjit.cache import disk

    files, folder, cold = failing
    files.code = code
    for n in range(1, 200):
        disk._stores.clear()
        shutil.rmtree(folder, ignore_errors=True)
        if filled:
            files.first = files.last = 0
            assert cold() == []
            disk._stores.clear()
        files.count, files.first, files.last = 0, n, 10**9 if lasting else n
        assert len(cold()) <= 1
        done = files.count < n
        files.first = files.last = 0
        disk._stores.clear()
        assert cold() == []  # nothing that was half written
        if done:
            break
    assert 10 < n < 199
    assert not list(folder.rglob(".writing-*")) or lasting


def test_the_table_of_operations_is_the_caches_own():
    """A new way of touching files must be able to fail above, too."""
    text = (pathlib.Path(numjit.__file__).parent / "cache" / "disk.py").read_text()
    used = {name for name in dir(os) if f"os.{name}(" in text and callable(getattr(os, name))}
    assert used == {"geteuid", "stat", "lstat", "fstat", "fdopen", "utime"}
