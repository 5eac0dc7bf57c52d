"""A digest of the files that C++ text includes, so that an edited header compiles anew."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from numjit import config

__all__ = ["include_folders", "included_digest"]

#: What a text includes, or asks for with __has_include, branches that are not compiled among them.
_INCLUDE: Final = re.compile(
    r"(?:^[ \t]*(?:\#|%:)[ \t]*(?:include|include_next|import|embed)|__has_include|__has_embed[ \t]*\()"
    r'[ \t(]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>|(?P<computed>[A-Za-z_]\w*))',
    re.MULTILINE,
)
_SPLICE: Final = re.compile(r"\\[ \t]*\r?\n")
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
#: Options that name a folder to look in, or a file to include, as their own or as the next word.
_FOLDER_OPTIONS: Final = ("--include-path", "-isystem", "-iquote", "-idirafter", "-I")
_FILE_OPTIONS: Final = ("--pre-include", "-include", "-imacros")
#: Folders of a compiler or the system: their headers belong to an installation, which has a version.
_SYSTEM: Final = ("/usr/include", "/usr/local/include")
#: Where CUDA's headers are looked for.
_CUDA_VARIABLES: Final = ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX")


def include_folders() -> tuple[list[str], list[str]]:
    """Return where the host's compiler is told to look for headers, and the files it is told to include."""
    words = shlex.split(config.cxx() or "")[1:]
    folders, files = _of_options(words)
    for variable in ("CPATH", "CPLUS_INCLUDE_PATH"):
        if variable in os.environ:  # an empty part is the working folder
            folders += [part or "." for part in os.environ[variable].split(os.pathsep)]
    return folders, files


def _of_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    folders: list[str] = []
    files: list[str] = []
    for at, word in enumerate(words):
        for options, found in ((_FOLDER_OPTIONS, folders), (_FILE_OPTIONS, files)):
            option = next((o for o in options if word.startswith(o)), None)
            if option is None:
                continue
            rest = word[len(option) :].removeprefix("=")
            if rest or at + 1 < len(words):
                found.append(rest or words[at + 1])
            break
    return folders, files


@functools.cache
def _nonce() -> str:
    """Return what no other process has: for text of which it is not known what it includes."""
    return os.urandom(16).hex()


def included_digest(texts: Sequence[str], options: Sequence[str], known: frozenset[str]) -> str:
    """Return a digest of the contents of every file that texts may include; empty where there is none.

    Files that are included by those count too. Every folder that either compiler may look in is looked in,
    and every file found counts, so that one that is put in front of another is seen. Headers below the
    system's folders count by name, size and date, without what they include.

    Parameters
    ----------
    texts
        C++ texts.
    options
        The functor's options of the device compiler.
    known
        Names of headers that are none of the texts' own where they stand in `texts` themselves.
    """
    if not options and not config.cxx() and not any(map(_may_include, texts)):
        return ""
    folders, files = _of_options(options)
    host_folders, host_files = include_folders()
    if not files and not host_files and not any(map(_may_include, texts)):
        return ""
    walk = _Walk([".", *folders, *host_folders])
    for name in (*files, *host_files):
        walk.add(name, None)
    for text in texts:
        walk.read(text, None, known)
    if not walk.seen:
        return ""
    walk.hashed.update("\0".join(os.environ.get(name, "") for name in _CUDA_VARIABLES).encode())
    return walk.hashed.hexdigest()


class _Walk:
    """Goes through files in the order in which they are named, each once."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = folders
        self.seen: set[str] = set()
        self.hashed = hashlib.sha256()

    def _update(self, *parts: str | bytes) -> None:
        for part in parts:
            raw = part.encode() if isinstance(part, str) else part
            self.hashed.update(len(raw).to_bytes(8, "little") + raw)

    def read(self, text: str, folder: str | None, known: frozenset[str] = frozenset()) -> None:
        """Add what a text includes that stands in a folder."""
        for name in _names(text):
            if name is None:
                self.seen.add("")
                self._update("computed", _nonce())
            elif name not in known:
                self.add(name, folder)

    def add(self, name: str, folder: str | None) -> None:
        """Add every file that a name may stand for."""
        self.seen.add(name)
        self._update("include", name)
        # Joined to an absolute name, a folder has no part in it.
        for place in ([] if folder is None else [folder]) + list(self.folders):
            self._add_file(os.path.join(place, name))  # noqa: PTH118 - folders are as the user wrote them
        for place in _SYSTEM:
            file = pathlib.Path(place, name)
            with contextlib.suppress(OSError):
                stat = file.stat()
                self._update(str(file), f"{stat.st_size} {stat.st_mtime_ns}")

    def _add_file(self, path: str) -> None:
        real = os.path.realpath(path)
        file = pathlib.Path(real)
        if real.startswith(tuple(f"{place}/" for place in _SYSTEM)) or not file.is_file():
            return
        if real in self.seen:
            self._update("again", real)
            return
        self.seen.add(real)
        try:
            content = file.read_bytes()
        except OSError as error:
            self._update("unread", str(error))
            return
        self._update("file", content)
        self.read(content.decode(errors="replace"), str(file.parent))


def _may_include(text: str) -> bool:
    return "include" in text or "embed" in text or "import" in text


def _names(text: str) -> Iterator[str | None]:
    """Yield the header of each inclusion; None for one that a macro names."""
    if not _may_include(text):
        return
    for found in _INCLUDE.finditer(_COMMENT.sub(" ", _SPLICE.sub("", text))):
        yield None if found["computed"] else found["quoted"] or found["angled"].strip()
