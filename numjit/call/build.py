"""From a specialised functor and a kernel variant to something that runs: cubins and CPU loops, cached."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from typing import TYPE_CHECKING, Any, Literal

from numjit import __version__, config, dtypes
from numjit.cache import Memo, default_store, digest
from numjit.cache.keys import sources_digest, version_of, wheel_version
from numjit.errors import (
    ArgumentError,
    CompilationError,
    DeviceError,
    LaunchError,
    NumjitError,
    ToolchainError,
    shown,
)
from numjit.functor.cpp.functor import CppFunctor, set_return_type_prober
from numjit.functor.kinds import Functor
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType, Specialisation
from numjit.ground.apart import apart, runs_apart
from numjit.ground.log import logger
from numjit.kernels.spec import FUNCTOR_SYMBOL, ShellSpec
from numjit.runtime import devices, launch
from numjit.toolchain.beside import beside
from numjit.toolchain.collector import collection_paused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numjit.cpu.chunk import HostChunk
    from numjit.dtypes import DType

__all__ = [
    "build_kernel",
    "check_functor",
    "compile_target",
    "device_code",
    "device_function",
    "has_host_chunk",
    "has_kernel",
    "has_shell",
    "host_chunk",
    "kernel_image",
    "link_kernel",
    "shell_code",
    "specialise",
]

Target = Literal["cuda", "cpu"]
_log = logger("compile")
_MINIMUM_CC = (7, 5)
#: Loaded kernels kept; each is some 10 KB of device memory.
_kernels: Memo[launch.Kernel] = Memo(4096)
_chunks: Memo[HostChunk] = Memo(4096, apart)
_specialisations: Memo[Specialisation] = Memo(16384, apart)


@functools.cache
def _environment() -> str:
    """Everything outside the functor that its types depend on."""
    versions = {name: version_of(name) for name in ("numba", "llvmlite", "numpy", "numba-cuda")}
    return digest(__version__, sources_digest(), *(f"{name}={found}" for name, found in versions.items()))


def _gpu_environment() -> str:
    """Everything outside the functor and the shell that compiled code depends on."""
    return digest(_environment(), _gpu_compilers())


@functools.cache
def _gpu_compilers() -> str:
    from numjit.toolchain.identity import identities

    wheels = ("nvidia-cuda-nvrtc", "nvidia-nvjitlink", "nvidia-nvvm", "nvidia-cuda-nvrtc-cu12",
              "nvidia-nvjitlink-cu12", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-runtime",
              "nvidia-cuda-runtime-cu12", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12")  # fmt: skip
    versions = {
        "cuda-bindings": version_of("cuda-bindings"),
        **{name: wheel_version(name) for name in wheels},
    }
    settings = sorted((name, text) for name, text in os.environ.items() if name.startswith("NUMBA_"))
    return digest(
        *(f"{name}={found}" for name, found in versions.items()),
        *identities(),
        *(f"{name}={text}" for name, text in settings),
    )


@contextlib.contextmanager
def _timed(what: str, *details: Any) -> Iterator[None]:
    """Say what was done and how long it took."""
    start = time.perf_counter()
    yield
    _log.debug(f"{what} in %.0f ms", *details, (time.perf_counter() - start) * 1e3)


def _keep(functor: Functor, key: str, suffix: str, made: bytes) -> None:
    """Store what was compiled of a functor, if it is what its fingerprint says."""
    if isinstance(functor, PythonFunctor) or functor.is_current():
        default_store().put(key, suffix, made)


# ----------------------------------------------------------------------------------- specialisation


def specialise(
    functor: Functor, arguments: tuple[ArgumentType, ...], default_dtype: DType, target: Target
) -> Specialisation:
    """Return the functor at these argument types, from memory, from disk, or by type inference.

    Parameters
    ----------
    functor
        What was written.
    arguments
        Types of operands, then scalars.
    default_dtype
        torch's default dtype.
    target
        ``"cuda"`` or ``"cpu"``: whose type inference to use where nothing is cached.
    """
    if isinstance(functor, CppFunctor):
        return functor.specialise(arguments, default_dtype)
    fingerprint = functor.fingerprint()
    key = (fingerprint, arguments, default_dtype)

    def build() -> Specialisation:
        shown = ",".join(a.shown for a in arguments)
        disk_key = digest("specialisation", _environment(), fingerprint, shown, str(default_dtype))
        found = default_store().load(disk_key, ".json", functools.partial(_read_specialisation, key))
        if found is not None:
            return found
        with collection_paused():
            made: Specialisation = functor.specialise(arguments, default_dtype, target=target)
        record = {"inputs": list(map(str, made.inputs)), "outputs": list(map(str, made.outputs))}
        default_store().put(disk_key, ".json", json.dumps(record).encode())
        return made

    return _specialisations.get_or_build(key, build)


def _read_specialisation(key: tuple[str, tuple[ArgumentType, ...], DType], raw: bytes) -> Specialisation:
    """Return the specialisation of a file."""
    _, arguments, default_dtype = key
    found = json.loads(raw)
    inputs, outputs = (tuple(map(dtypes.from_name, found[part])) for part in ("inputs", "outputs"))
    if len(inputs) != len(arguments) or not outputs:
        raise ValueError("it is of another functor")
    return Specialisation(arguments, inputs, outputs, default_dtype)


@runs_apart
def _probe_return_type(functor: CppFunctor, inputs: tuple[DType, ...], bound: Mapping[str, DType]) -> int:
    """Ask a compiler which type a functor declared ``auto`` returns: NVRTC (23 ms), else the host's."""
    shown = ",".join([*map(str, inputs), *(f"{name}={dtype}" for name, dtype in bound.items())])
    key = digest("return type", _gpu_environment(), str(config.cxx()), functor.fingerprint(), shown)
    found = default_store().load(key, ".json", _read_return_type)
    if found is not None:
        return found
    from numjit.toolchain import nvrtc

    try:
        code = nvrtc.probe_return_type(functor, inputs, bound)
    except ToolchainError:
        from numjit.cpu import cpp_loop

        code = cpp_loop.probe_return_type(functor, inputs, bound)
    _keep(functor, key, ".json", json.dumps(code).encode())
    return code


def _read_return_type(stored: bytes) -> int:
    """Return the code in a file: 0, or the kind of a type in the hundreds and its bytes below."""
    code = int(json.loads(stored))
    if code and (code // 100 not in range(1, 6) or code % 100 not in {1, 2, 4, 8, 16}):
        raise ValueError("it is no type")
    return code


set_return_type_prober(_probe_return_type)


# ---------------------------------------------------------------------------------------------- GPU


def _functor_key(functor: Functor, specialisation: Specialisation, cc: tuple[int, int]) -> str:
    return digest("functor", _gpu_environment(), functor.fingerprint(), specialisation.key, str(cc))


def _shell_key(spec: ShellSpec, cc: tuple[int, int]) -> str:
    return digest("shell", _gpu_environment(), str(spec), str(cc))


@runs_apart
def device_code(functor: Functor, specialisation: Specialisation, cc: tuple[int, int]) -> bytes:
    """Return LTO-IR that defines the seam symbol, compiled if it is not cached."""
    key = _functor_key(functor, specialisation, cc)
    found = default_store().get(key, ".ltoir")
    if found is not None:
        _log.debug("found functor %s (%s) for sm_%d%d on disk", functor.name, specialisation.key, *cc)
        return found
    with _timed("compiled functor %s (%s) for sm_%d%d", functor.name, specialisation.key, *cc):
        if isinstance(functor, CppFunctor):
            made = _compile_cpp(functor, specialisation, FUNCTOR_SYMBOL, cc)
        else:
            from numjit.functor.device import compile_device

            with collection_paused():
                made = compile_device(functor, specialisation, FUNCTOR_SYMBOL, cc)
    _keep(functor, key, ".ltoir", made)
    return made


def _compile_cpp(
    functor: CppFunctor,
    specialisation: Specialisation,
    symbol: str,
    cc: tuple[int, int],
    *,
    for_kernels: bool = False,
) -> bytes:
    """Compile a C++ functor with what it uses of numjit's headers; where that is not enough, with all."""
    from numjit.functor.cpp.source import device_source
    from numjit.toolchain.nvrtc import compile_ltoir

    def compiled(source: str) -> bytes:
        return compile_ltoir(
            source, cc=cc, name=functor.name, options=functor.options, quiet=bool(functor.wrapper)
        )

    functor.require_current()
    used = device_source(functor, specialisation, symbol, for_kernels=for_kernels)
    try:
        return compiled(used)
    except CompilationError:
        whole = device_source(functor, specialisation, symbol, for_kernels=for_kernels, whole=True)
        if whole == used:
            raise
        return compiled(whole)


@runs_apart
def device_function(
    functor: Functor,
    arguments: tuple[ArgumentType, ...],
    default_dtype: DType,
    cc: tuple[int, int],
) -> Any:
    """Return a functor as something that a ``numba.cuda`` kernel can call, and its linker inlines."""
    from numjit.functor.device_function import declare

    specialisation = specialise(functor, arguments, default_dtype, "cuda")
    key = digest("device function", _functor_key(functor, specialisation, cc))
    symbol = f"numjit_function_{key[:32]}"
    code = default_store().get(key, ".ltoir")
    if code is None:
        if isinstance(functor, CppFunctor):
            code = _compile_cpp(functor, specialisation, symbol, cc, for_kernels=True)
        else:
            from numjit.functor.device import compile_device

            with collection_paused():
                code = compile_device(functor, specialisation, symbol, cc, for_kernels=True)
        _keep(functor, key, ".ltoir", code)
    return declare(functor, specialisation, code, symbol)


@runs_apart
def shell_code(spec: ShellSpec, cc: tuple[int, int]) -> tuple[bytes, str]:
    """Return a shell's LTO-IR and the name of its kernel, compiled if they are not cached."""
    key = _shell_key(spec, cc)
    found = default_store().load(key, ".shell", _read_shell)
    if found is not None:
        _log.debug("found shell %s for sm_%d%d on disk", spec, *cc)
        return found
    from numjit.ground.numba_cuda import compile_kernel, numba_cuda_ready

    with _timed("compiled shell %s for sm_%d%d", spec, *cc), collection_paused(), numba_cuda_ready():
        from numba.core import types

        from numjit.codegen.machine import ptx
        from numjit.kernels.shells import make_shell

        shell = make_shell(spec, ptx(cc))
        code, name = compile_kernel(
            shell.function, types.void(*shell.arguments), cc=cc, launch_bounds=spec.variant.block
        )
    default_store().put(key, ".shell", name.encode() + b"\0" + code)
    return code, name


def _read_shell(stored: bytes) -> tuple[bytes, str]:
    """Return the LTO-IR and the kernel's name of a file."""
    entry, boundary, code = stored.partition(b"\0")
    if not (boundary and code):
        raise ValueError("it holds no code")
    return code, entry.decode()


def has_shell(spec: ShellSpec, cc: tuple[int, int]) -> bool:
    """Return whether a shell is on disk."""
    return default_store().has(_shell_key(spec, cc), ".shell")


def has_kernel(
    functor: Functor, specialisation: Specialisation, spec: ShellSpec, cc: tuple[int, int]
) -> bool:
    """Return whether what a device of compute capability `cc` loads is on disk."""
    target, as_ptx = compile_target(cc)
    return default_store().has(
        _linked_key(functor, specialisation, spec, target), ".ptx" if as_ptx else ".cubin"
    )


def _linked_key(
    functor: Functor, specialisation: Specialisation, spec: ShellSpec, cc: tuple[int, int]
) -> str:
    return digest("linked", _functor_key(functor, specialisation, cc), _shell_key(spec, cc))


@runs_apart
def link_kernel(
    functor: Functor,
    specialisation: Specialisation,
    spec: ShellSpec,
    cc: tuple[int, int],
    *,
    ptx: bool = False,
) -> bytes:
    """Return the cubin (or PTX) of functor and shell, linked if it is not cached."""
    key = _linked_key(functor, specialisation, spec, cc)
    suffix = ".ptx" if ptx else ".cubin"
    found = default_store().get(key, suffix)
    if found is not None:
        _log.debug("found kernel of %s with shell %s for sm_%d%d on disk", functor.name, spec, *cc)
        return found
    store = default_store()
    stored = (_functor_key(functor, specialisation, cc), ".ltoir"), (_shell_key(spec, cc), ".shell")
    from_disk = any(store.has(*file) for file in stored)
    try:
        made = _link(functor, specialisation, spec, cc, ptx=ptx)
    except NumjitError:
        if not from_disk:
            raise
        for file in stored:
            store.forget(*file)
        made = _link(functor, specialisation, spec, cc, ptx=ptx)
        store.warn_of_damage()
    _keep(functor, key, suffix, made)
    return made


def _link(
    functor: Functor, specialisation: Specialisation, spec: ShellSpec, cc: tuple[int, int], *, ptx: bool
) -> bytes:
    from numjit.toolchain import nvjitlink

    if isinstance(functor, CppFunctor):
        # NVRTC works beside Numba, or beside what the linker and the driver do in a process once.
        with beside(lambda: device_code(functor, specialisation, cc)) as result:
            if has_shell(spec, cc):
                nvjitlink.prepare(cc)
            code, _ = shell_code(spec, cc)
            nvjitlink.version()
            functor_code = result()
    else:
        functor_code = device_code(functor, specialisation, cc)
        code, _ = shell_code(spec, cc)
    with _timed("linked %s with shell %s for sm_%d%d", functor.name, spec, *cc):
        return nvjitlink.link([("shell", code), (functor.name, functor_code)], cc, ptx=ptx)


@runs_apart
def kernel_image(
    functor: Functor, specialisation: Specialisation, spec: ShellSpec, cc: tuple[int, int]
) -> tuple[bytes, bool]:
    """Return what a device of compute capability `cc` loads, and whether that is PTX and no cubin.

    Where it is on disk, no compiler is loaded.

    Raises
    ------
    DeviceError
        numjit does not run on such devices.
    """
    if default_store().has(_linked_key(functor, specialisation, spec, cc), ".cubin"):
        return link_kernel(functor, specialisation, spec, cc), False
    target, as_ptx = compile_target(cc)
    return link_kernel(functor, specialisation, spec, target, ptx=as_ptx), as_ptx


def build_kernel(
    functor: Functor, specialisation: Specialisation, spec: ShellSpec, device_index: int
) -> launch.Kernel:
    """Return the loaded kernel of functor and shell for a device."""
    cc = devices.compute_capability(device_index)
    key = (functor.fingerprint(), specialisation, spec, cc)

    def load() -> launch.Kernel:
        code, is_ptx = kernel_image(functor, specialisation, spec, cc)
        kernel = launch.load(code, is_ptx=is_ptx)
        kernel.function(device_index)  # the driver reads the image now
        return kernel

    def build() -> launch.Kernel:
        store = default_store()
        target, as_ptx = (cc, False) if store.has(linked(cc), ".cubin") else compile_target(cc)
        file = linked(target), ".ptx" if as_ptx else ".cubin"
        from_disk = store.has(*file)
        try:
            return load()
        except LaunchError:
            if not from_disk:
                raise
            store.forget(*file)
            kernel = load()
            store.warn_of_damage()
            return kernel

    def linked(target: tuple[int, int]) -> str:
        return _linked_key(functor, specialisation, spec, target)

    return _kernels.get_or_build(key, build)


def checked_capability(where: str, cc: Any) -> tuple[int, int]:
    """Return a compute capability that a user gave.

    Raises
    ------
    ArgumentError
        It is none.
    DeviceError
        numjit does not run on such devices.
    """
    if type(cc) is not tuple or len(cc) != 2 or not all(type(n) is int for n in cc):
        raise ArgumentError(f"{where}: cc is {shown(cc)}; pass a compute capability such as (9, 0)")
    if cc < _MINIMUM_CC:
        raise DeviceError(f"{where}: cc is {cc}; numjit needs (7, 5), Turing, or later")
    return cc


def compile_target(cc: tuple[int, int]) -> tuple[tuple[int, int], bool]:
    """Return what to compile for: the device itself, or PTX of the newest architecture NVRTC knows.

    Raises
    ------
    DeviceError
        numjit does not run on such devices.
    ToolchainError
        NVRTC is missing, or knows no architecture that such a device runs.
    """
    if cc < _MINIMUM_CC:
        raise DeviceError(
            f"compute capability {cc[0]}.{cc[1]} is not supported; numjit needs 7.5 (Turing) or later"
        )
    from numjit.toolchain.nvrtc import supported_architectures

    known = supported_architectures()
    if cc in known or not known:
        return cc, False
    older = [architecture for architecture in known if architecture <= cc]
    if not older:
        raise ToolchainError(
            f"the installed NVRTC compiles for no GPU as old as compute capability {cc[0]}.{cc[1]}; install "
            "an older one: pip install 'numjit[cu12]'"
        )
    return max(older), True


@runs_apart
def check_functor(functor: Functor, specialisation: Specialisation, device_index: int) -> None:
    """Compile the functor alone, so that a call without elements reports its errors too."""
    cc = devices.compute_capability(device_index)
    device_code(functor, specialisation, compile_target(cc)[0])


# ---------------------------------------------------------------------------------------------- CPU


def host_chunk(
    functor: Functor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
    *,
    on_disk: bool = False,
) -> HostChunk:
    """Return the compiled CPU loop of a functor over operands of these stored dtypes.

    With `on_disk` it is also in the cache folder afterwards, where that was emptied or changed since.
    """
    layout = tuple(storages), tuple(stored_outputs), tuple(views)

    def build() -> HostChunk:
        if isinstance(functor, CppFunctor):
            from numjit.cpu import cpp_loop

            with _timed("compiled or loaded the CPU loop of %s (%s)", functor.name, specialisation.key):
                return cpp_loop.build_chunk(
                    functor, specialisation, *layout, cache_dir=default_store().folder
                )
        return _python_chunk(functor, specialisation, *layout)

    if on_disk:
        return apart(build)
    compiler = ""
    if isinstance(functor, CppFunctor):
        compiler = apart(_compiler_settings)
    return _chunks.get_or_build((functor.fingerprint(), compiler, specialisation, *layout), build)


def _compiler_settings() -> str:
    from numjit.cpu.cpp_loop import settings  # which a signal handler may not find half imported

    return settings()


def has_host_chunk(
    functor: Functor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
) -> bool:
    """Return whether the loop of `host_chunk` is on disk."""
    layout = storages, stored_outputs, views
    store = default_store()
    if isinstance(functor, CppFunctor):
        from numjit.cpu import cpp_loop

        return cpp_loop.has_chunk(functor, specialisation, *layout, cache_dir=store.folder)
    from numjit.cpu import object_code

    return store.has(object_code.key_of(functor.fingerprint(), specialisation.key, *layout), ".loop")


def _python_chunk(
    functor: PythonFunctor,
    specialisation: Specialisation,
    storages: Sequence[DType | None],
    stored_outputs: Sequence[DType],
    views: Sequence[str],
) -> HostChunk:
    """Return the loop of a Python functor: from disk, which takes llvmlite only, or made by Numba."""
    from numjit.cpu import object_code

    store = default_store()
    key = object_code.key_of(functor.fingerprint(), specialisation.key, storages, stored_outputs, views)
    packed = store.get(key, ".loop")
    if packed is not None:
        loaded = object_code.load(packed)
        if loaded is not None:
            _log.debug("found the CPU loop of %s (%s) on disk", functor.name, specialisation.key)
            return loaded
        store.discard(key, ".loop")
    with _timed("compiled the CPU loop of %s (%s)", functor.name, specialisation.key), collection_paused():
        from numjit.cpu import python_loop

        made = python_loop.build_chunk(functor, specialisation, storages, stored_outputs, views)
    if made.packed:  # not where it calls one of Numba's own helpers
        store.put(key, ".loop", made.packed)
    return made
