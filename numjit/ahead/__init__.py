"""Compiling before the first call: which kernels a call will need, and processes that make them."""
