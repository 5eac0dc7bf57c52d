"""CUDA's compilers and the linker, reached through ``cuda.bindings`` and Numba-CUDA."""
