"""CUDA C++ to LTO-IR through NVRTC; needs the compiler's wheel, no GPU and no driver."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from numjit.dtypes import DType
from numjit.errors import CompilationError, ToolchainError
from numjit.functor.cpp.functor import CppFunctor
from numjit.functor.cpp.source import probe_source
from numjit.ground.foreign import HANDLE, CLibrary, Result
from numjit.toolchain import libraries

__all__ = [
    "LIBRARY",
    "compile_ltoir",
    "nvrtc_path",
    "nvrtc_version",
    "probe_return_type",
    "supported_architectures",
]

LIBRARY: Final = libraries.NVRTC
_INCLUDE: Final = re.compile(r"^\s*#\s*include\b", re.MULTILINE)
#: What may run past its end does not compile (940). Silent about what generic texts do on purpose: variables
#: that are not used (177, 550), code that is not reached (111, 128), an unsigned number compared with zero
#: (186) and -1 as an unsigned number (68).
_DIAGNOSTICS: Final = (
    "-diag-error=940", "-diag-suppress=68", "-diag-suppress=111", "-diag-suppress=128", "-diag-suppress=177",
    "-diag-suppress=186", "-diag-suppress=550",
)  # fmt: skip
#: Statuses of which numjit makes something else than that NVRTC failed.
_INVALID_OPTION: Final = 5
_COMPILATION: Final = 6

_int, _text = ctypes.c_int, ctypes.c_char_p
#: https://docs.nvidia.com/cuda/nvrtc
_PROTOTYPES: Final[dict[str, tuple[Any, ...]]] = {
    "nvrtcVersion": (Result(_int), Result(_int)),
    "nvrtcGetNumSupportedArchs": (Result(_int),),
    "nvrtcGetSupportedArchs": (ctypes.c_void_p,),
    "nvrtcCreateProgram": (Result(HANDLE), _text, _text, _int, ctypes.c_void_p, ctypes.c_void_p),
    "nvrtcCompileProgram": (HANDLE, _int, ctypes.c_void_p),
    "nvrtcDestroyProgram": (ctypes.c_void_p,),
    **{f"nvrtcGet{what}Size": (HANDLE, Result(ctypes.c_size_t)) for what in ("LTOIR", "PTX", "ProgramLog")},
    **{f"nvrtcGet{what}": (HANDLE, ctypes.c_void_p) for what in ("LTOIR", "PTX", "ProgramLog")},
}


@functools.cache
def _load() -> CLibrary:
    """Return NVRTC, and have its built-in functions at hand: its wheel of CUDA 13.0 does not find them."""
    nvrtc = libraries.open_library(LIBRARY, _PROTOTYPES)
    path = libraries.path_of(nvrtc.library, "nvrtcVersion")
    major, minor = _call(nvrtc, "nvrtcVersion")
    if path is not None:
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(path.with_name(f"libnvrtc-builtins.so.{major}.{minor}")))
    return nvrtc


def nvrtc_path() -> str:
    """Return the file that NVRTC was loaded from, as far as that is known.

    Raises
    ------
    ToolchainError
        NVRTC is missing.
    """
    return libraries.file_of(_load(), "nvrtcVersion")


@functools.cache
def nvrtc_version() -> tuple[int, int]:
    """Return the version of NVRTC, as (major, minor).

    Raises
    ------
    ToolchainError
        NVRTC is missing.
    """
    major, minor = _call(_load(), "nvrtcVersion")
    return major, minor


@functools.cache
def supported_architectures() -> frozenset[tuple[int, int]]:
    """Return the compute capabilities that NVRTC compiles for, as (major, minor).

    Raises
    ------
    ToolchainError
        NVRTC is missing.
    """
    nvrtc = _load()
    (count,) = _call(nvrtc, "nvrtcGetNumSupportedArchs")
    found = (_int * count)()
    _call(nvrtc, "nvrtcGetSupportedArchs", found)
    return frozenset((arch // 10, arch % 10) for arch in found)


def _call(nvrtc: CLibrary, function: str, *arguments: Any) -> list[Any]:
    """Call into NVRTC and return its results without the status.

    Raises
    ------
    ToolchainError
        NVRTC fails for a reason that is not the program's.
    """
    status, *results = getattr(nvrtc, function)(*arguments)
    if status:
        raise ToolchainError(f"{function} failed with {_status_name(nvrtc, status)}; {libraries.REMEDY}")
    return list(results)


def _status_name(nvrtc: CLibrary, status: int) -> str:
    says = nvrtc.library.nvrtcGetErrorString
    says.restype = _text
    return str(says(status).decode())


@functools.cache
def _cuda_includes() -> tuple[str, ...]:
    """Return the folders of CUDA's own headers; empty where they are not installed."""
    try:
        from cuda import pathfinder
    except ImportError:
        return ()
    found: list[str] = []
    for library in ("cudart", "cccl"):
        located = pathfinder.locate_nvidia_header_directory(library)
        if located is not None:
            found.append(located.abs_path)
    return tuple(found)


def _target(cc: tuple[int, int], *, virtual: bool) -> tuple[str, str]:
    """Return the architecture option and what to call the target.

    A GPU newer than NVRTC gets code for the newest architecture that NVRTC knows below it.
    """
    known = [arch for arch in supported_architectures() if arch <= cc]
    if not known:
        raise ToolchainError(
            f"NVRTC {'.'.join(map(str, nvrtc_version()))} has no compute capability {cc[0]}.{cc[1]}; "
            f"install a version that can: {libraries.REMEDY}"
        )
    kind = "sm" if cc in known and not virtual else "compute"
    return "{}_{}{}".format(kind, *max(known)), f"sm_{cc[0]}{cc[1]}"


def compile_ltoir(
    source: str,
    *,
    cc: tuple[int, int],
    name: str,
    options: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    quiet: bool = False,
) -> bytes:
    """Compile CUDA C++ to LTO-IR.

    Functions without an execution space are device functions.

    Parameters
    ----------
    source
        The program; ``#line`` directives in it decide what messages show.
    cc
        Compute capability, (9, 0) for sm_90.
    name
        What messages call the program: the functor's name.
    options
        Further options of NVRTC.
    include_dirs
        Folders to look for headers in, before CUDA's own. Those are looked for where the
        program includes anything.
    quiet
        Do not pass the compiler's warnings on: a derivative, whose text is compiled without it, too.

    Returns
    -------
    bytes
        LTO-IR for ``nvJitLink``.

    Raises
    ------
    CompilationError
        The program is wrong; the message shows the user's lines.
    ToolchainError
        NVRTC is missing or does not know the architecture.
    """
    made, log = _compile(source, cc, name, [*_folders(source, include_dirs), *options], "LTOIR")
    if "warning" in log and not quiet:
        from numjit.functor.cpp.diagnostics import line_of, parse_edg, pass_on

        pass_on(name, parse_edg(log, "warning"), lambda file, line: line_of(source, file, line))
    return made


def probe_return_type(
    functor: CppFunctor,
    inputs: tuple[DType, ...],
    bound: Mapping[str, DType],
    *,
    cc: tuple[int, int] = (7, 5),
) -> int:
    """Return the code of the type that a functor declared ``auto`` returns.

    One that fits `numjit.functor.cpp.functor.set_return_type_prober`.

    Raises
    ------
    CompilationError, ToolchainError
        As `compile_ltoir`.
    """
    known = supported_architectures()
    target = cc if any(arch <= cc for arch in known) else min(known)
    source = probe_source(functor, inputs, bound)
    options = [*_folders(source, ()), *functor.options]
    ptx, _ = _compile(source, target, functor.name, options, "PTX")
    found = re.search(r"\bnumjit_code\s*=\s*(\d+)", ptx.decode())
    if found is None:
        raise CompilationError(
            f"functor {functor.name!r}: its return type cannot be deduced; write it out, such as T"
        )
    return int(found[1]) - 1000


def _folders(source: str, include_dirs: Sequence[str]) -> list[str]:
    """Return the options for where headers are; CUDA's own only where something is included."""
    folders = [*include_dirs, *(_cuda_includes() if _INCLUDE.search(source) else ())]
    return [f"--include-path={folder}" for folder in folders]


def _compile(
    source: str, cc: tuple[int, int], name: str, options: Sequence[str], what: str
) -> tuple[bytes, str]:
    """Compile, without the declarations that functors have no use for where that goes.

    Returns what was made, and what the compiler said.

    Textures, surfaces and CUDA's runtime functions take NVRTC a third of its time (23 ms with them, 16 ms
    without); what it makes is the same. A program that does mention them is compiled again, with them.
    """
    architecture, target = _target(cc, virtual=what == "PTX")
    arguments = [
        f"--gpu-architecture={architecture}",
        *(["-dlto"] if what == "LTOIR" else []),
        "-rdc=true",
        "-std=c++17",
        "-default-device",
        *_DIAGNOSTICS,
        *options,
    ]
    nvrtc = _load()
    if not options and not _INCLUDE.search(source):
        status, answer, log = _run(nvrtc, source, [*arguments, "-minimal"], what)
        if not status:
            return answer, log
    status, answer, log = _run(nvrtc, source, arguments, what)
    if status:
        raise _failure(nvrtc, status, log, source, name=name, target=target)
    return answer, log


def _run(nvrtc: CLibrary, source: str, arguments: Sequence[str], what: str) -> tuple[int, bytes, str]:
    """Run the compiler; returns its status, what it made and what it said."""
    (program,) = _call(nvrtc, "nvrtcCreateProgram", source.encode(), b"functor", 0, None, None)
    try:
        encoded = [argument.encode() for argument in arguments]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), (_text * len(encoded))(*encoded))
        call = functools.partial(_call, nvrtc)
        log = libraries.read(call, "nvrtcGetProgramLog", program).decode(errors="replace").rstrip("\0")
        made = b"" if status else libraries.read(call, f"nvrtcGet{what}", program)
        return status, made, log
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(HANDLE(program)))


def _failure(nvrtc: CLibrary, status: int, log: str, source: str, *, name: str, target: str) -> Exception:
    """Return the error to raise for a compilation that failed."""
    said = log.strip().splitlines()
    why = said[0] if said else _status_name(nvrtc, status)
    if status == _INVALID_OPTION:
        return CompilationError(f"functor {name!r}: NVRTC refuses an option ({why}); correct options=")
    if status != _COMPILATION:
        failed = _status_name(nvrtc, status)
        return ToolchainError(f"functor {name!r}: NVRTC failed with {failed}; {libraries.REMEDY}")
    from numjit.functor.cpp.diagnostics import describe, line_of, parse_edg

    return CompilationError(
        describe(name, target, parse_edg(log), lambda file, line: line_of(source, file, line), log)
    )
