"""Reaches numba-cuda: imports it lazily, repairs it for new NumPy, compiles kernels."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

from numjit.errors import ToolchainError
from numjit.ground.numba_ready import CUDA_MODULES, load, numba_ready

__all__ = ["compile_kernel", "numba_cuda_ready"]


@contextlib.contextmanager
def numba_cuda_ready() -> Iterator[Any]:
    """Hold numba-cuda ready for importing and compiling; yields the module ``numba.cuda``.

    Works without a GPU and without a driver. May be nested, also from several threads (which wait).

    Raises
    ------
    ToolchainError
        numba-cuda or its compiler library is not installed, or what is compiled inside was refused.
    """
    with numba_ready(), _row_stack():
        if importlib.util.find_spec("numba_cuda") is None:
            raise ToolchainError(
                "the GPU path compiles with numba-cuda, which is not installed; pip install numjit[cu13]"
            )
        load(CUDA_MODULES)
        from numba import cuda
        from numba.cuda.cudadrv.error import NvvmError, NvvmSupportError

        try:
            yield cuda
        except NvvmSupportError as error:
            raise ToolchainError(
                f"numba-cuda does not find NVIDIA's compiler library ({error}); pip install numjit[cu13]"
            ) from error
        except NvvmError as error:
            raise ToolchainError(
                f"NVIDIA's compiler library refused the code: {error}; update numba-cuda and the CUDA wheels "
                "(pip install -U numjit[cu13]), and report it if it persists"
            ) from error


@contextlib.contextmanager
def _row_stack() -> Iterator[None]:
    """Lend NumPy the name ``row_stack``.

    For who holds Numba: one thread at a time. numba-cuda 0.30.4 looks the name up when it first compiles;
    NumPy 2.5 removed it (numba-cuda#907, closed unfixed). It is taken away again so that no other package in
    the process sees a different NumPy.
    """
    import numpy as np

    if "row_stack" in vars(np):
        yield
        return
    np.row_stack = np.vstack  # noqa: NPY201
    try:
        yield
    finally:
        del np.row_stack  # noqa: NPY201


def compile_kernel(
    pyfunc: Callable[..., None], signature: Any, *, cc: tuple[int, int], launch_bounds: int | None = None
) -> tuple[bytes, str]:
    """Compile a kernel written in Python to LTO-IR, without a GPU.

    Parameters
    ----------
    pyfunc
        The kernel, as ``numba.cuda.jit`` takes it.
    signature
        Numba signature with a void result.
    cc
        Compute capability to compile for.
    launch_bounds
        Largest number of threads of a block.

    Returns
    -------
    tuple of bytes and str
        The LTO-IR, and the mangled name of the entry.

    Raises
    ------
    ToolchainError
        numba-cuda is not installed.
    """
    with numba_cuda_ready():
        from numba.cuda.compiler import _compile_pyfunc_with_fixup
        from numba.cuda.core.compiler_lock import global_compiler_lock

        with global_compiler_lock:
            # The public compile() does not tell the mangled name.
            library, _ = _compile_pyfunc_with_fixup(
                pyfunc, signature, device=False, abi="numba", cc=cc, lto=True, launch_bounds=launch_bounds
            )
            return library.get_ltoir(cc=cc), library._entry_name
