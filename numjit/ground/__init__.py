"""What every place stands on: threads and processes, ctypes tables, checks of options, the way to Numba."""
