"""The one way in to Numba: imported by one thread at a time in one order, then used by one at a time.

Two threads that import parts of Numba in different orders end with modules that are half initialised: its
modules import each other, and Python breaks the deadlock of their import locks by handing out what there is.
"""

from __future__ import annotations

import contextlib
import importlib
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from numjit.ground.apart import apart, lock

__all__ = ["CUDA_MODULES", "MODULES", "imported", "load", "numba_ready"]

#: All that numjit's modules import of Numba, in functions as well: there these imports find what there is.
MODULES = (
    "numba",
    "numba.core.types",
    "numba.core.typing.typeof",
    "numba.core.callconv",
    "numba.core.compiler",
    "numba.core.compiler_lock",
    "numba.core.errors",
    "numba.core.extending",
    "numba.core.imputils",
    "numba.core.ir",
    "numba.core.ir_utils",
    "numba.core.compiler_machinery",
    "numba.core.datamodel",
    "numba.core.registry",
    "numba.core.target_extension",
    "numba.core.typed_passes",
    "numba.core.typing.templates",
    "numba.core.untyped_passes",
)
CUDA_MODULES = (
    "numba.cuda",
    "numba.cuda.compiler",
    "numba.cuda.core.compiler_lock",
    "numba.cuda.core.compiler_machinery",
    "numba.cuda.core.ir",
    "numba.cuda.core.ir_utils",
    "numba.cuda.core.typed_passes",
    "numba.cuda.core.untyped_passes",
    "numba.cuda.cudadecl",
    "numba.cuda.cudadrv.error",
    "numba.cuda.cudadrv.linkable_code",
    "numba.cuda.cudaimpl",
    "numba.cuda.datamodel",
    "numba.cuda.descriptor",
    "numba.cuda.extending",
    "numba.cuda.flags",
    "numba.cuda.models",
    "numba.cuda.typing",
    "numba.cuda.utils",
)
_lock = lock()
_loaded: dict[str, types.ModuleType] = {}


def load(modules: Sequence[str]) -> None:
    """Import parts of Numba, or of what imports it, in order; under `numba_ready` but for Numba itself."""
    missing = [name for name in modules if name not in _loaded]
    if missing:
        with _own_warnings_ignored():
            for name in missing:
                _loaded[name] = importlib.import_module(name)


@contextlib.contextmanager
def _own_warnings_ignored() -> Iterator[None]:
    """Let no warning about Numba's own lines end their import, where the user made errors of warnings.

    numba-cuda 0.30.4 does when it is imported what NumPy 2.5 deprecates. `warnings.catch_warnings` would
    take away what other threads change meanwhile.
    """
    warnings.filterwarnings("ignore", module=r"numba(_cuda)?\.")
    mine = warnings.filters[0]
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # a context of another thread's has ended
            warnings.filters.remove(mine)  # type: ignore[attr-defined]


def _load_numba() -> None:
    with _lock:
        load(MODULES)


@contextlib.contextmanager
def numba_ready() -> Iterator[None]:
    """Hold Numba for importing and compiling; may be nested. Other threads wait, those of Numba's users too.

    For compilations, which run `apart`; elsewhere use `imported`.
    """
    if MODULES[-1] not in _loaded:
        apart(_load_numba)
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        yield


def imported(name: str) -> Any:
    """Return a module that is part of Numba or imports it; for code that does not hold Numba."""
    found = _loaded.get(name)
    if found is None:

        def import_it() -> None:
            with numba_ready():
                load([name])

        apart(import_it)
        found = _loaded[name]
    return found
