"""The same functors on CPU tensors and NumPy arrays."""
