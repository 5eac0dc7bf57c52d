"""CUDA C++ to LTO-IR through NVRTC; needs the compiler's wheel, no GPU and no driver."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from numjit.dtypes import DType
from numjit.errors import CompilationError, ToolchainError
from numjit.functor.cpp_diagnostics import describe, line_of, parse_edg
from numjit.functor.cpp_source import probe_source
from numjit.functor.cuda_cpp import CppFunctor

__all__ = ["compile_ltoir", "nvrtc_version", "probe_return_type", "supported_architectures"]

_REMEDY: Final = "pip install numjit[cu13] (or numjit[cu12])"
_INCLUDE: Final = re.compile(r"^\s*#\s*include\b", re.MULTILINE)


def _load() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise ToolchainError(
            f"compiling CUDA C++ needs cuda-bindings, which is not installed; {_REMEDY}"
        ) from None
    return nvrtc


@functools.cache
def nvrtc_version() -> tuple[int, int]:
    """Return the version of NVRTC, as (major, minor).

    Raises
    ------
    ToolchainError
        NVRTC is missing.
    """
    nvrtc = _load()
    major, minor = _call(nvrtc, "nvrtcVersion")
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
    return frozenset((arch // 10, arch % 10) for arch in _call(nvrtc, "nvrtcGetSupportedArchs")[-1])


def _call(nvrtc: Any, function: str, *arguments: Any) -> list[Any]:
    """Call into NVRTC and return its results without the status.

    Raises
    ------
    ToolchainError
        The library is missing or fails for a reason that is not the program's.
    """
    try:
        status, *answer = getattr(nvrtc, function)(*arguments)
    except (RuntimeError, ImportError, OSError) as error:
        raise ToolchainError(f"NVRTC cannot be loaded ({error}); {_REMEDY}") from error
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ToolchainError(f"{function} failed with {status.name}; {_REMEDY}")
    results: list[Any] = answer
    return results


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
            f"install a version that can: {_REMEDY}"
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
    return _compile(source, cc, name, [*_folders(source, include_dirs), *options], "LTOIR")


def probe_return_type(
    functor: CppFunctor,
    inputs: tuple[DType, ...],
    bound: Mapping[str, DType],
    *,
    cc: tuple[int, int] = (7, 5),
) -> int:
    """Return the code of the type that a functor declared ``auto`` returns.

    One that fits `numjit.functor.cuda_cpp.set_return_type_prober`.

    Raises
    ------
    CompilationError, ToolchainError
        As `compile_ltoir`.
    """
    known = supported_architectures()
    target = cc if any(arch <= cc for arch in known) else min(known)
    source = probe_source(functor, inputs, bound)
    options = [*_folders(source, ()), *functor.options]
    ptx = _compile(source, target, functor.name, options, "PTX").decode()
    found = re.search(r"\bnumjit_code\s*=\s*(\d+)", ptx)
    if found is None:
        raise CompilationError(
            f"functor {functor.name!r}: its return type cannot be deduced; write it out, such as T"
        )
    return int(found[1]) - 1000


def _folders(source: str, include_dirs: Sequence[str]) -> list[str]:
    """Return the options for where headers are; CUDA's own only where something is included."""
    folders = [*include_dirs, *(_cuda_includes() if _INCLUDE.search(source) else ())]
    return [f"--include-path={folder}" for folder in folders]


def _compile(source: str, cc: tuple[int, int], name: str, options: Sequence[str], what: str) -> bytes:
    """Compile, without the declarations that functors have no use for where that goes.

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
        *options,
    ]
    nvrtc = _load()
    if not options and not _INCLUDE.search(source):
        status, answer = _run(nvrtc, source, [*arguments, "-minimal"], what)
        if status == nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return answer
    status, answer = _run(nvrtc, source, arguments, what)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = answer.decode(errors="replace").rstrip("\0")
        raise _failure(status, log, source, name=name, target=target)
    return answer


def _run(nvrtc: Any, source: str, arguments: Sequence[str], what: str) -> tuple[Any, bytes]:
    """Run the compiler; returns its status, and what it made or else said."""
    (program,) = _call(nvrtc, "nvrtcCreateProgram", source.encode(), b"functor", 0, [], [])
    try:
        encoded = [argument.encode() for argument in arguments]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        failed = status != nvrtc.nvrtcResult.NVRTC_SUCCESS
        return status, _read(nvrtc, program, "ProgramLog" if failed else what)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(nvrtc: Any, program: Any, what: str) -> bytes:
    (size,) = _call(nvrtc, f"nvrtcGet{what}Size", program)
    data = bytes(size)
    _call(nvrtc, f"nvrtcGet{what}", program, data)
    return data


def _failure(status: Any, log: str, source: str, *, name: str, target: str) -> Exception:
    """Return the error to raise for a compilation that failed."""
    nvrtc = _load()
    if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
        said = log.strip().splitlines()
        why = said[0] if said else status.name
        return CompilationError(f"functor {name!r}: NVRTC refuses an option ({why}); correct options=")
    if status != nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION:
        return ToolchainError(f"functor {name!r}: NVRTC failed with {status.name}; {_REMEDY}")
    errors = parse_edg(log)
    return CompilationError(
        describe(name, target, errors, lambda file, line: line_of(source, file, line), log)
    )
