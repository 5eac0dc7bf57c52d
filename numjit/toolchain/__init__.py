"""CUDA's compilers and the linker: NVRTC and nvJitLink by ctypes, NVVM through Numba-CUDA."""
