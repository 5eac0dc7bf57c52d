"""Kernels of a user's own around numjit's device functions, compiled without a GPU."""

from numjit.ground.numba_cuda import numba_cuda_ready
from numjit.toolchain.nvjitlink import link
from tests.support.sass import Cubin


def compiled(kernel, *types, cc=(9, 0)):
    """Compile and link a kernel of these Numba argument types as numba-cuda does at a launch."""
    with numba_cuda_ready() as cuda:
        from numba.cuda.compiler import _compile_pyfunc_with_fixup

        library, _ = _compile_pyfunc_with_fixup(
            kernel, cuda.types.void(*types), device=False, abi="numba", cc=cc, lto=True
        )
        parts = [("kernel", library.get_ltoir(cc=cc))]
        parts += [(code.name, code.data) for code in library._linking_files]
    return Cubin(link(parts, cc))
