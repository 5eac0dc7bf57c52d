"""Compiles C++ functors into CPU loops with the system's C++ compiler, and loads them."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence

from numjit import config
from numjit.cache.disk import DiskStore, default_store
from numjit.cache.keys import digest, sources_digest
from numjit.cpu.chunk import HostChunk
from numjit.cpu.cpp_library import load_chunk, temporary_folder, undefined
from numjit.cpu.cpp_source import host_source, host_user_text, user_column, user_sources
from numjit.dtypes import DType
from numjit.errors import CompilationError, ToolchainError
from numjit.functor.cpp.diagnostics import Diagnostic, describe, parse_gnu, pass_on
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.cpp.source import probe_source
from numjit.functor.signature import Specialisation

__all__ = ["build_chunk", "compiler", "has_chunk", "probe_return_type", "settings"]

_CANDIDATES = ("c++", "g++", "clang++")
# No contraction and no fast math: a functor gives what it says. Nothing reads errno or floating-point
# traps, and without them square roots and conditionals vectorise. Signed overflow wraps, as on the GPU.
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    # An exception would leave the loop through ctypes, which ends the process.
    "-fno-exceptions",
    # See numjit/functor/cpp/include/library.h.
    "-fno-builtin-atan",
    "-fno-builtin-atanf",
    "-fno-builtin-atanl",
)
_TIMEOUT = 300.0


def compiler() -> tuple[str, ...]:
    """Return the command of the C++ compiler: ``NUMJIT_CXX`` or ``CXX``, else the first one found.

    Raises
    ------
    ToolchainError
        There is none.
    """
    asked = config.cxx()
    if asked:
        command = shlex.split(asked)
        if command and shutil.which(command[0]):
            return tuple(command)
        raise ToolchainError(
            f"the C++ compiler {asked!r} (from NUMJIT_CXX or CXX) was not found; correct or unset it"
        )
    for name in _CANDIDATES:
        if shutil.which(name):
            return (name,)
    raise ToolchainError(
        "C++ functors on the CPU need a C++17 compiler, and neither c++, g++ nor clang++ was found; install "
        "one (apt install g++, conda install gxx, xcode-select --install) or name it in NUMJIT_CXX"
    )


#: What GCC and Clang read beside their command: folders of headers, libraries and of their own parts.
_VARIABLES = (
    "CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "SOURCE_DATE_EPOCH",
    "SDKROOT", "MACOSX_DEPLOYMENT_TARGET", "CCC_OVERRIDE_OPTIONS",
)  # fmt: skip


def settings() -> str:
    """Return what a user has told the compiler that decides what it makes."""
    words = shlex.split(config.cxx() or "")[1:]
    # The contents of what is named: of a response file, of specs, of an object to link.
    named = [word.lstrip("@").partition("=")[2] or word.lstrip("@") for word in words]
    contents: list[str | bytes] = []
    for name in named:
        with contextlib.suppress(OSError, ValueError):
            contents.append(pathlib.Path(name).read_bytes())
    variables = (f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ)
    return digest(*words, "variables", *variables, "contents", *contents)


def _native_flag() -> str:
    return "-mcpu=native" if platform.machine().lower() in {"arm64", "aarch64"} else "-march=native"


def _ask(command: Sequence[str], program: str = "") -> subprocess.CompletedProcess[str]:
    """Run a compiler, in a process group of its own: a terminal's Ctrl-C is for this process to answer.

    One that hangs is ended together with the processes that it started, which do the work.
    """
    is_posix = os.name == "posix"
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        process_group=0 if is_posix else None,
    ) as ran:
        try:
            output, errors = ran.communicate(program, _TIMEOUT)
        except BaseException:
            with contextlib.suppress(OSError):
                if is_posix:
                    os.killpg(ran.pid, signal.SIGKILL)
                else:
                    ran.kill()
            raise
    return subprocess.CompletedProcess(command, ran.returncode, output, errors)


@functools.cache
def _identity(command: tuple[str, ...], file: str | None) -> str:
    try:
        ran = _ask([*command, "--version"])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(
            f"the C++ compiler {command[0]!r} does not run ({error}); name another in NUMJIT_CXX"
        ) from error
    return f"{file} {ran.stdout}{ran.stderr}"


def _compiler_identity(command: tuple[str, ...]) -> str:
    """Return a compiler's file and version, which are asked once in a process."""
    return _identity(command, shutil.which(command[0]))


@functools.cache
def _processor() -> str:
    """Return what tells processors apart for which ``-march=native`` means different things."""
    try:
        lines = (
            pathlib.Path("/proc/cpuinfo")
            .read_text(encoding="utf-8", errors="replace")
            .split("\n\n")[0]
            .splitlines()
        )
    except OSError:
        lines = []
    kept = [
        line
        for line in lines
        if line.split(":")[0].strip() in {"model name", "flags", "Features", "CPU part"}
    ]
    # platform.processor() would start a process, 2 ms, to say less than this.
    return f"{platform.machine()} {' '.join(kept) or platform.processor()}"


def build_chunk(
    functor: CppFunctor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
    *,
    cache_dir: pathlib.Path | None = None,
) -> HostChunk:
    """Return the loop of a functor over operands of given stored dtypes, compiled where it is not cached.

    Parameters
    ----------
    functor, specialisation
        What to run, at which types.
    storages
        Per input the dtype it is stored in, None where it comes by value.
    stored_outputs
        Per output the dtype it is stored in.
    views
        Per input ``""``, ``"conj"``, ``"neg"`` or ``"conj neg"``: applied to the loaded value.
    cache_dir
        Folder of compiled loops; None keeps nothing.

    Raises
    ------
    CompilationError
        The text is wrong; the message shows the user's lines.
    ToolchainError
        There is no C++ compiler, or what it made cannot be loaded.
    """
    if cache_dir is None:
        made, warned = _compile_loop(
            functor, specialisation, storages, stored_outputs, views, command=compiler()
        )
        pass_on(functor.name, warned, _lines(functor))
        return load_chunk(functor.name, made)
    loop = _loop_key(functor, specialisation, storages, stored_outputs, views)
    store = _store(cache_dir)
    read = functools.partial(load_chunk, functor.name)
    try:
        command = compiler()
    except ToolchainError:  # an image without a compiler, whose cache was filled by one that has it
        newest = store.load(loop, ".newest", _read_key)
        loaded = None if newest is None else store.load(newest, ".so", read)
        if loaded is None:
            raise
        return loaded
    key = digest(loop, _compiler_identity(command))
    loaded = store.load(key, ".so", read)
    if loaded is not None:
        return loaded
    made, warned = _compile_loop(functor, specialisation, storages, stored_outputs, views, command=command)
    loaded = read(made)
    if functor.is_current():
        store.put(key, ".so", made)
        store.put(loop, ".newest", key.encode())
    pass_on(functor.name, warned, _lines(functor))
    return loaded


def _read_key(stored: bytes) -> str:
    """Return the key that a file holds."""
    key = stored.decode()
    if not re.fullmatch("[0-9a-f]{64}", key):
        raise ValueError("it is no key")
    return key


def has_chunk(
    functor: CppFunctor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
    *,
    cache_dir: pathlib.Path,
) -> bool:
    """Return whether this machine's compiler has made the loop of `build_chunk` before.

    Raises
    ------
    ToolchainError
        There is no C++ compiler.
    """
    loop = _loop_key(functor, specialisation, storages, stored_outputs, views)
    return _store(cache_dir).has(digest(loop, _compiler_identity(compiler())), ".so")


def _loop_key(
    functor: CppFunctor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
) -> str:
    """Return a digest of all that a loop depends on but the compiler."""
    shown = [f"{stored}/{view}" for stored, view in zip(storages, views, strict=True)]
    return digest(
        "c++ loop",
        sources_digest(),
        functor.fingerprint(),
        specialisation.key,
        ",".join(shown),
        ",".join(map(str, stored_outputs)),
        " ".join((*_FLAGS, _native_flag())),
        _processor(),
        settings(),
    )


@functools.cache
def _store(folder: pathlib.Path) -> DiskStore:
    """Return the store of a folder: the process's own one where it is that, so that it warns once."""
    store = default_store()
    return store if store.folder == folder else DiskStore(folder)


def _compile_loop(
    functor: CppFunctor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
    *,
    command: tuple[str, ...],
) -> tuple[bytes, list[Diagnostic]]:
    """Return a loop's shared object, and what the compiler warns of in the user's text."""
    functor.require_current()
    program = host_source(functor, specialisation, storages, stored_outputs, views)
    with _room(functor) as folder:
        target = folder / "loop.so"
        warned = _run(functor, program, [*command, *_FLAGS, _native_flag()], target)
        return target.read_bytes(), warned


@contextlib.contextmanager
def _room(functor: CppFunctor) -> Iterator[pathlib.Path]:
    """Make a folder for the compiler's output; every failure of files is the folder's, not the text's."""
    try:
        with temporary_folder() as folder:
            yield folder
    except OSError as error:
        raise _no_room(functor, str(error)) from error


def _no_room(functor: CppFunctor, why: str) -> ToolchainError:
    return ToolchainError(
        f"functor {functor.name!r}: the temporary folder cannot hold the compiler's output ({why}); "
        "set TMPDIR to a folder with room"
    )


def _run(functor: CppFunctor, program: str, command: Sequence[str], target: pathlib.Path) -> list[Diagnostic]:
    """Compile a program from standard input; returns its warnings, none of a derivative's known text."""
    full = [*command, "-x", "c++", "-", "-o", str(target)]
    try:
        ran = _ask(full, program)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(
            f"functor {functor.name!r}: the C++ compiler {command[0]!r} failed ({error}); "
            "name another in NUMJIT_CXX"
        ) from error
    failed = ran.returncode != 0
    if failed and not parse_gnu(ran.stderr):
        raise _no_place(functor, ran, command[0])
    if not failed and functor.wrapper:
        return []
    found = [
        found._replace(column=user_column(functor, found.file, found.line, found.column))
        for found in parse_gnu(ran.stderr, "error" if failed else "warning")
    ]
    if not failed:
        return found
    raise CompilationError(describe(functor.name, "the CPU", found, _lines(functor), ran.stderr))


#: What a compiler, an assembler or a linker says when it is not the text that is wrong.
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system|Permission denied")


def _no_place(functor: CppFunctor, ran: subprocess.CompletedProcess[str], command: str) -> Exception:
    """Return the error for a compiler that failed and named no place in any text."""
    said = "\n".join(f"  {line[:300]}" for line in ran.stderr.strip().splitlines()[:8])
    room = _NO_SPACE.search(ran.stderr)
    if room:
        return _no_room(functor, room[0])
    missing = re.search(r"undefined reference to [\u2018'`]?([^\u2019'\n]+)", ran.stderr)
    if missing:
        return undefined(functor.name, missing[1])
    return ToolchainError(
        f"functor {functor.name!r}: the C++ compiler {command!r} failed (status {ran.returncode}); "
        f"name another in NUMJIT_CXX, or correct its options:\n{said}"
    )


def _lines(functor: CppFunctor) -> Callable[[str, int], str]:
    """Return what gives the user's line for a file and a line number."""
    sources = user_sources(functor)
    return lambda file, line: sources[file].line_text(line) if file in sources else ""


def probe_return_type(functor: CppFunctor, inputs: tuple[DType, ...], bound: Mapping[str, DType]) -> int:
    """Return the code of the type that a functor declared ``auto`` returns.

    One that fits `numjit.functor.cpp.functor.set_return_type_prober`.

    Raises
    ------
    CompilationError, ToolchainError
        As `build_chunk`.
    """
    program = probe_source(functor, inputs, bound, host=True, text=host_user_text(functor))
    with _room(functor) as folder:
        target = folder / "probe.s"
        _run(functor, program, [*compiler(), "-std=c++17", "-O0", "-fno-exceptions", "-S"], target)
        found = re.search(
            r"numjit_code:\s*\.(?:long|word|4byte|int)\s+(\d+)", target.read_text(encoding="utf-8")
        )
    if found is None:
        raise CompilationError(
            f"functor {functor.name!r}: its return type cannot be deduced; write it out, such as T"
        )
    return int(found[1]) - 1000
