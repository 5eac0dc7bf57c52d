"""Compiling before the first call: which kernels a call will need, and threads that make them."""
