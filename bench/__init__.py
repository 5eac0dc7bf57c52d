"""Benchmarks of numjit against torch eager, jiterator, torch.compile, CuPy and Numba on the same tensors."""
