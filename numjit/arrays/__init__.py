"""Adapters: arrays of torch, NumPy, CuPy, Numba, JAX and others in, arrays of the right library out."""
