"""Kernel shells: the loops around a functor, generated and compiled with Numba-CUDA."""
